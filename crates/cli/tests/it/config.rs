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
    hint: set DEEPSEEK_API_KEY; or OPENAI_API_KEY (for a compatible server also OPENAI_BASE_URL), and pass --model openai/MODEL; or describe a provider in `[home]/config.toml`
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
fn the_config_file_goes_before_the_environment() {
    let server = ScriptedModelServer::start([Reply::text("Yes.")]);
    let home = configured(&format!(
        "default_model = \"openai/mine\"\n[providers.openai]\nbase_url = \"{}\"\n",
        server.base_url()
    ));
    let output = offshoot(&home)
        .env("OPENAI_BASE_URL", "http://127.0.0.1:9/")
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
    hint: set LOCAL_KEY, or take api_key_env out of `[home]/config.toml` if no key is needed
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
    error: `[home]/config.toml`: line 1, column 1: unknown field `defualt_model`, expected `default_model` or `providers`
    hint: docs/cli.md describes this file; keys are not kept in it: api_key_env names the variable that holds one

    default_model = 3
    error: `[home]/config.toml`: line 1, column 17: invalid type: integer `3`, expected a string
    hint: docs/cli.md describes this file; keys are not kept in it: api_key_env names the variable that holds one

    default_model = "just-a-model"
    [providers.x]
    base_url = "http://127.0.0.1:9"
    error: default_model in `[home]/config.toml` is "just-a-model": a model is named PROVIDER/MODEL, such as deepseek/deepseek-chat

    [providers.local]
    base_ulr = "http://127.0.0.1:9"
    error: `[home]/config.toml`: line 2, column 1: unknown field `base_ulr`, expected one of `base_url`, `api_key_env`, `dialect`, `context_window`
    hint: docs/cli.md describes this file; keys are not kept in it: api_key_env names the variable that holds one

    [providers.local]
    dialect = "openai"
    error: `[home]/config.toml`: line 1, column 1: missing field `base_url`
    hint: docs/cli.md describes this file; keys are not kept in it: api_key_env names the variable that holds one

    [providers.local]
    base_url = "http://127.0.0.1:9"
    dialect = "klingon"
    error: `[home]/config.toml`: line 3, column 11: unknown variant `klingon`, expected one of `compatible`, `openai`, `deepseek`
    hint: docs/cli.md describes this file; keys are not kept in it: api_key_env names the variable that holds one

    [providers.local]
    base_url = "http://127.0.0.1:9"
    api_key = "secret"
    error: `[home]/config.toml`: line 3, column 1: unknown field `api_key`, expected one of `base_url`, `api_key_env`, `dialect`, `context_window`
    hint: docs/cli.md describes this file; keys are not kept in it: api_key_env names the variable that holds one

    [providers]
    openai = "secret"
    error: `[home]/config.toml`: line 2, column 10: invalid type: a string, expected a table with a base_url
    hint: docs/cli.md describes this file; keys are not kept in it: api_key_env names the variable that holds one

    providers = "\"secret"
    error: `[home]/config.toml`: line 1, column 13: invalid type: a string, expected a map
    hint: docs/cli.md describes this file; keys are not kept in it: api_key_env names the variable that holds one

    default_model = "local/x"
    [providers.local]
    base_url = "ftp://127.0.0.1"
    error: base URL of the provider `local` is not a usable http or https URL
    hint: it is described in `[home]/config.toml`

    default_model = "local/x"
    [providers.local]
    base_url = "http://me:secret@127.0.0.1"
    error: base URL of the provider `local` contains credentials; set an API key instead
    hint: it is described in `[home]/config.toml`

    [providers.local
    error: `[home]/config.toml`: line 1, column 17: unclosed table, expected `]`
    hint: docs/cli.md describes this file; keys are not kept in it: api_key_env names the variable that holds one
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

    run --model nobody/x Hello?
    exit code: 1
    ----- stdout -----
    ----- stderr -----
    error: provider `nobody` is not configured
    hint: configured are: local; others go into `[home]/config.toml`

    run --model openai/x Hello?
    exit code: 1
    ----- stdout -----
    ----- stderr -----
    error: provider `openai` is not configured
    hint: set OPENAI_API_KEY, or OPENAI_BASE_URL for a compatible server

    run --model deepseek/x Hello?
    exit code: 1
    ----- stdout -----
    ----- stderr -----
    error: provider `deepseek` is not configured
    hint: set DEEPSEEK_API_KEY

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
    hint: set DEEPSEEK_API_KEY; or OPENAI_API_KEY (for a compatible server also OPENAI_BASE_URL), and pass --model openai/MODEL; or describe a provider in `[home]/config.toml`
    hint: to try without a key: `offshoot demo`, or `offshoot run --replay FILE PROMPT`
    "#);
}
