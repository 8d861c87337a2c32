//! `config.toml` and the environment: which models there are, and what is said when there is none.

use insta::assert_snapshot;
use offshoot_test_support::{Reply, ScriptedModelServer, TestHome};

use crate::support::{KEY, offshoot, run, seen};

fn configured(text: &str) -> TestHome {
    let home = TestHome::new();
    #[expect(clippy::disallowed_methods, reason = "an input of a test is no log")]
    std::fs::write(home.path().join("config.toml"), text).unwrap();
    home
}

/// What `offshoot run` says, having made nothing.
fn refused(home: &TestHome) -> String {
    let before = home.bytes_of_tree();
    let output = run(home, ["run", "Hello?"]);
    assert_eq!(output.code(), Some(1), "{output}");
    assert!(output.stdout.is_empty(), "{output}");
    assert_eq!(home.bytes_of_tree(), before);
    output.stderr_text()
}

#[test]
fn without_a_provider_it_says_what_to_set_and_how_to_try_without() {
    assert_snapshot!(refused(&TestHome::new()), @r#"
    error: no model provider is configured
    hint: set DEEPSEEK_API_KEY; or ANTHROPIC_API_KEY, OPENAI_API_KEY or OPENROUTER_API_KEY, and pass --model PROVIDER/MODEL; keys may also stand in `[home]/credentials.toml`
    hint: for a server of your own: OPENAI_BASE_URL and --model openai/MODEL, or --model ollama/MODEL, or describe it in `[home]/config.toml`
    hint: `offshoot models` lists what can be called, and what it takes
    hint: to try without a key: `offshoot demo`, or `offshoot run --replay FILE PROMPT`
    "#);
}

#[test]
fn a_provider_in_the_config_file_answers_in_its_dialect() {
    let server = ScriptedModelServer::start([Reply::text("Yes.")]);
    let home = configured(&format!(
        "default_model = \"local/small\"\n[providers.local]\nbase_url = \"{}/v1\"\napi_key_env = \"LOCAL_KEY\"\n",
        server.base_url()
    ));
    let output = offshoot(&home)
        .env("LOCAL_KEY", KEY)
        .args(["run", "Are you there?"])
        .run()
        .success();
    assert_eq!(output.stdout_text(), "Yes.\n");
    let sent = server.requests();
    assert_eq!(sent[0].path, "/v1/chat/completions");
    assert_eq!(
        sent[0].header("authorization"),
        Some(&*format!("Bearer {KEY}"))
    );
    assert_eq!(sent[0].json()["model"], "small");
}

#[test]
fn the_environment_goes_before_the_config_file() {
    let server = ScriptedModelServer::start([Reply::text("Yes.")]);
    let home = configured(
        "default_model = \"openai/mine\"\n[providers.openai]\nbase_url = \"http://127.0.0.1:9\"\n",
    );
    let output = offshoot(&home)
        .env("OPENAI_BASE_URL", server.base_url())
        .args(["run", "Are you there?"])
        .run();
    drop(output.success());
    assert_eq!(server.requests()[0].header("authorization"), None);
}

#[test]
fn a_key_that_should_be_set_and_is_not_is_named() {
    let home = configured(
        "default_model = \"local/small\"\n[providers.local]\nbase_url = \"http://127.0.0.1:9\"\napi_key_env = \"LOCAL_KEY\"\n",
    );
    assert_snapshot!(refused(&home), @r#"
    error: provider `local` takes its key from LOCAL_KEY, which is not set
    hint: set LOCAL_KEY; or write local = "KEY" into `[home]/credentials.toml`, which only you may be able to read
    hint: or take api_key_env out of `[home]/config.toml` if no key is needed
    "#);
}

#[test]
fn mistakes_in_the_config_file_are_named_with_their_place_and_without_their_values() {
    let cases = [
        "defualt_model = \"x/y\"",
        "default_model = 3",
        "default_model = \"just-a-model\"\n[providers.x]\nbase_url = \"http://127.0.0.1:9\"",
        "[providers.local]\nbase_ulr = \"http://127.0.0.1:9\"",
        "[providers.local]\ndialect = \"openai\"",
        "[providers.local]\nbase_url = \"http://127.0.0.1:9\"\ndialect = \"klingon\"",
        "[providers.local]\nbase_url = \"http://127.0.0.1:9\"\napi_key = \"sk-this-is-the-secret\"",
        "[providers]\nopenai = \"sk-this-is-the-secret\"",
        "providers = \"sk-this-is-the-\\\"secret\"",
        "default_model = \"local/x\"\n[providers.local]\nbase_url = \"ftp://127.0.0.1\"",
        "default_model = \"local/x\"\n[providers.local]\nbase_url = \"http://me:sk-this-is-the-secret@127.0.0.1\"",
        "workspace = [\"elsewhere\"]",
        "[providers.local",
    ];
    let mut all = String::new();
    for case in cases {
        let said = refused(&configured(case));
        assert!(!said.contains("secret"), "{said}");
        all.push_str(&format!(
            "{}\n{said}\n",
            case.replace("sk-this-is-the-", "")
        ));
    }
    assert_snapshot!(all, @r#"
    defualt_model = "x/y"
    error: `[home]/config.toml`: line 1, column 1: unknown key `defualt_model`, did you mean `default_model`?
    hint: docs/cli.md describes this file, in "config.toml"

    default_model = 3
    error: `[home]/config.toml`: line 1, column 17: `default_model`: a model is named PROVIDER/MODEL, such as deepseek/deepseek-chat
    hint: `offshoot models` lists those that can be called

    default_model = "just-a-model"
    [providers.x]
    base_url = "http://127.0.0.1:9"
    error: `[home]/config.toml`: line 1, column 17: `default_model`: a model is named PROVIDER/MODEL, such as deepseek/deepseek-chat
    hint: `offshoot models` lists those that can be called

    [providers.local]
    base_ulr = "http://127.0.0.1:9"
    error: `[home]/config.toml`: line 2, column 1: unknown key `providers.local.base_ulr`, did you mean `base_url`?
    hint: docs/cli.md describes this file, in "config.toml"

    [providers.local]
    dialect = "openai"
    error: `[home]/config.toml`: line 1: provider `local` has no `base_url`
    hint: name the address of the server, or a `kind` that has one of its own

    [providers.local]
    base_url = "http://127.0.0.1:9"
    dialect = "klingon"
    error: `[home]/config.toml`: line 3, column 11: `providers.local.dialect`: expected one of `anthropic`, `deepseek`, `openai`, `openrouter`, `ollama`, `vllm`, `llama-cpp`, `compatible`
    hint: docs/cli.md describes this file, in "config.toml"

    [providers.local]
    base_url = "http://127.0.0.1:9"
    api_key = "secret"
    error: `[home]/config.toml`: line 3, column 1: unknown key `providers.local.api_key`, did you mean `api_key_env`?
    hint: keys are not kept in this file: api_key_env names the variable that holds one, api_key_file a file; docs/cli.md describes both

    [providers]
    openai = "secret"
    error: `[home]/config.toml`: line 2, column 10: `providers.openai`: expected a table with `kind`, `base_url`, `api_key_env`, `api_key_file`, `protocol`, `dialect`, `reasoning_passback`, `effort_style`, `token_limit`, `late_instructions`, `idle_timeout`, `connect_timeout`, `max_retries`, `context_window`, `models`
    hint: docs/cli.md describes this file, in "config.toml"

    providers = "\"secret"
    error: `[home]/config.toml`: line 1, column 13: `providers`: expected tables with `kind`, `base_url`, `api_key_env`, `api_key_file`, `protocol`, `dialect`, `reasoning_passback`, `effort_style`, `token_limit`, `late_instructions`, `idle_timeout`, `connect_timeout`, `max_retries`, `context_window`, `models`
    hint: docs/cli.md describes this file, in "config.toml"

    default_model = "local/x"
    [providers.local]
    base_url = "ftp://127.0.0.1"
    error: base URL of the provider `local` is not a usable http or https URL
    hint: its address is set in `[home]/config.toml:3`

    default_model = "local/x"
    [providers.local]
    base_url = "http://me:secret@127.0.0.1"
    error: base URL of the provider `local` contains credentials; set an API key instead
    hint: its address is set in `[home]/config.toml:3`

    workspace = ["elsewhere"]
    error: `[home]/config.toml`: line 1, column 13: `workspace`: expected a list of absolute paths in quotes
    hint: docs/cli.md describes this file, in "config.toml"

    [providers.local
    error: `[home]/config.toml`: line 1, column 17: unclosed table, expected `]`
    hint: docs/cli.md describes this file, in "config.toml"
    "#);
}

#[test]
fn a_config_file_that_is_no_text_file_is_named() {
    let home = TestHome::new();
    std::fs::create_dir(home.path().join("config.toml")).unwrap();
    assert_snapshot!(refused(&home), @r#"
    error: `[home]/config.toml`: Is a directory (os error 21)
    "#);
}

#[test]
fn a_model_that_cannot_be_called_is_named_with_what_can() {
    let home = configured("[providers.local]\nbase_url = \"http://127.0.0.1:9\"\n");
    let mut all = String::new();
    for (args, env) in [
        (vec!["run", "Hello?"], None),
        (vec!["run", "--model", "nobody/x", "Hello?"], None),
        (vec!["run", "--model", "openai/x", "Hello?"], None),
        (vec!["run", "--model", "deepseek/x", "Hello?"], None),
        (vec!["run", "--model", "small", "Hello?"], None),
        (vec!["run", "Hello?"], Some("small")),
    ] {
        let said = env
            .iter()
            .chain(&args)
            .copied()
            .collect::<Vec<_>>()
            .join(" ");
        let mut command = offshoot(&home).args(args);
        if let Some(model) = env {
            command = command.env("OFFSHOOT_MODEL", model);
        }
        let output = command.run();
        all.push_str(&format!("{said}\n{}\n", seen(&output)));
    }
    assert_snapshot!(all, @r#"
    run Hello?
    exit code: 1
    ----- stdout -----
    ----- stderr -----
    error: no model was named
    hint: pass --model local/MODEL, or set OFFSHOOT_MODEL, or default_model in `[home]/config.toml`
    hint: `offshoot models` lists what can be called

    run --model nobody/x Hello?
    exit code: 1
    ----- stdout -----
    ----- stderr -----
    error: provider `nobody` is not configured
    hint: known are: anthropic, deepseek, llama-cpp, local, ollama, openai, openrouter, vllm; others go into `[home]/config.toml`

    run --model openai/x Hello?
    exit code: 1
    ----- stdout -----
    ----- stderr -----
    error: provider `openai` takes its key from OPENAI_API_KEY, which is not set
    hint: set OPENAI_API_KEY; or write openai = "KEY" into `[home]/credentials.toml`, which only you may be able to read
    hint: or set OPENAI_BASE_URL for a server that needs no key

    run --model deepseek/x Hello?
    exit code: 1
    ----- stdout -----
    ----- stderr -----
    error: provider `deepseek` takes its key from DEEPSEEK_API_KEY, which is not set
    hint: set DEEPSEEK_API_KEY; or write deepseek = "KEY" into `[home]/credentials.toml`, which only you may be able to read
    hint: or set DEEPSEEK_BASE_URL for a server that needs no key

    run --model small Hello?
    exit code: 2
    ----- stdout -----
    ----- stderr -----
    error: invalid value 'small' for '--model <PROVIDER/MODEL>': a model is named PROVIDER/MODEL, such as deepseek/deepseek-chat

    For more information, try '--help'.

    small run Hello?
    exit code: 1
    ----- stdout -----
    ----- stderr -----
    error: OFFSHOOT_MODEL is "small": a model is named PROVIDER/MODEL, such as deepseek/deepseek-chat
    "#);
    let nobody = TestHome::new();
    let output = run(&nobody, ["run", "--model", "nobody/x", "Hello?"]);
    assert_snapshot!(seen(&output), @r#"
    exit code: 1
    ----- stdout -----
    ----- stderr -----
    error: provider `nobody` is not configured
    hint: known are: anthropic, deepseek, llama-cpp, ollama, openai, openrouter, vllm; others go into `[home]/config.toml`
    "#);
}
