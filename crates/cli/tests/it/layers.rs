//! Settings come from five places, and each remembers from which. Keys come from three, and are never shown.

use std::fs;
use std::path::Path;

use insta::assert_snapshot;
use offshoot_test_support::{OffshootCommand, Reply, ScriptedModelServer, TestHome};
use serde_json::{Value, json};

use crate::support::{KEY, file, json as output_json, offshoot, seen, work};

fn put(path: &Path, text: &str) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    #[expect(clippy::disallowed_methods, reason = "an input of a test is no log")]
    fs::write(path, text).unwrap();
}

/// In the directory that is worked in.
fn here(home: &TestHome) -> OffshootCommand {
    offshoot(home).current_dir(work(home))
}

fn mode(path: &Path, mode: u32) {
    use std::os::unix::fs::PermissionsExt as _;
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

/// A repository in which is worked, with a file of its own.
fn project(home: &TestHome, text: &str) {
    fs::create_dir_all(work(home).join(".git")).unwrap();
    put(&work(home).join(".offshoot/config.toml"), text);
}

fn origins(home: &TestHome, env: &[(&str, &str)], keys: &[&str]) -> Vec<Value> {
    let mut command = here(home).args(["--json", "config", "show"]);
    for (name, value) in env {
        command = command.env(name, value);
    }
    let shown = output_json(&command.run().success());
    let all = shown["settings"].as_array().unwrap();
    let found = keys.iter().map(|key| {
        let one = all.iter().find(|one| one["key"] == *key).unwrap();
        json!([one["value"], one["origin"]])
    });
    found.collect()
}

#[test]
fn later_places_go_before_earlier_ones_and_each_value_says_where_it_is_from() {
    let home = TestHome::new();
    put(
        &home.path().join("config.toml"),
        "default_model = \"local/a\"\neffort = \"low\"\n\n[providers.local]\nbase_url = \"http://127.0.0.1:9\"\ncontext_window = 1000\n",
    );
    project(
        &home,
        "# ours\neffort = \"high\"\nsandbox = \"read-only\"\n",
    );
    let user = home.path().join("config.toml");
    let project = work(&home).canonicalize().unwrap();
    let project = project.join(".offshoot/config.toml");
    let in_file = |layer: &str, path: &Path, line: u64| json!({"kind": "file", "layer": layer, "path": path, "line": line});
    assert_eq!(
        origins(
            &home,
            &[("OFFSHOOT_MODEL", "local/b")],
            &[
                "permission_mode",
                "providers.local.context_window",
                "effort",
                "sandbox",
                "default_model"
            ]
        ),
        [
            json!(["ask", {"kind": "default"}]),
            json!([1000, in_file("user", &user, 6)]),
            json!(["high", in_file("project", &project, 2)]),
            json!(["read-only", in_file("project", &project, 3)]),
            json!(["local/b", {"kind": "variable", "name": "OFFSHOOT_MODEL"}]),
        ]
    );
    // An empty variable counts as none.
    assert_eq!(
        origins(&home, &[("OFFSHOOT_MODEL", " ")], &["default_model"]),
        [json!(["local/a", in_file("user", &user, 1)])]
    );
}

#[test]
fn what_is_in_force_is_shown_as_a_configuration_file_has_it() {
    let home = TestHome::new();
    put(
        &home.path().join("config.toml"),
        "[providers.local]\nbase_url = \"http://me:sk-this-is-the-secret@127.0.0.1:9/v1?key=sk-this-is-the-secret\"\napi_key_env = \"LOCAL_KEY\"\n[providers.local.models.\"a/b 1.5\"]\nprices = { input = 0.5, output = 2 }\n",
    );
    let output = here(&home)
        .env("LOCAL_KEY", KEY)
        .args(["config", "show", "--origin"])
        .run()
        .success();
    let shown = output.stdout_text();
    assert!(!shown.contains("secret"), "{shown}");
    let local: Vec<&str> = shown
        .lines()
        .filter(|line| line.contains("local"))
        .collect();
    assert_snapshot!(local.join("\n"), @r#"
    providers.local.api_key_env = "LOCAL_KEY"  # [home]/config.toml:3
    providers.local.base_url = "http://127.0.0.1:9/v1"  # [home]/config.toml:2
    providers.local.models."a/b 1.5".prices.input = 0.5  # [home]/config.toml:5
    providers.local.models."a/b 1.5".prices.output = 2.0  # [home]/config.toml:5
    # key of local: set, in LOCAL_KEY
    "#);
    // What is shown can be a configuration file itself.
    let again = TestHome::new();
    put(&again.path().join("config.toml"), &shown);
    let shown_again = here(&again).args(["config", "show"]).run().success();
    let settings = |text: &str| -> Vec<String> {
        let settings = text.lines().filter(|line| line.contains(" = "));
        let settings = settings.map(|line| line.split("  #").next().unwrap().to_owned());
        settings.collect()
    };
    assert_eq!(settings(&shown_again.stdout_text()), settings(&shown));
}

#[test]
fn a_project_cannot_say_where_keys_go_nor_loosen_limits() {
    let home = TestHome::new();
    project(
        &home,
        "default_model = \"openai/theirs\"\nsandbox = \"danger-full-access\"\npermission_mode = \"allow\"\nworkspace = [\"/\"]\n\n[providers.openai]\nbase_url = \"http://127.0.0.1:9/theirs\"\napi_key_env = \"HOME\"\n",
    );
    let server = ScriptedModelServer::start([Reply::text("Yes.")]);
    let output = here(&home)
        .env("OPENAI_API_KEY", KEY)
        .env("OPENAI_BASE_URL", server.base_url())
        .args(["run", "Who are you?"])
        .run();
    assert_snapshot!(seen(&output), @r#"
    exit code: 0
    ----- stdout -----
    Yes.
    ----- stderr -----
    warning: `[user]/work/.offshoot/config.toml`, line 2: `sandbox` is ignored: a project may only allow less than you do yourself; to set it yourself: `[home]/config.toml`
    warning: `[user]/work/.offshoot/config.toml`, line 3: `permission_mode` is ignored: a project may only allow less than you do yourself; to set it yourself: `[home]/config.toml`
    warning: `[user]/work/.offshoot/config.toml`, line 4: `workspace` is ignored: a project may not set it; to set it yourself: `[home]/config.toml`
    warning: `[user]/work/.offshoot/config.toml`, line 7: `providers.openai.base_url` is ignored: a project may not describe providers and models; to set it yourself: `[home]/config.toml`
    warning: `[user]/work/.offshoot/config.toml`, line 8: `providers.openai.api_key_env` is ignored: a project may not describe providers and models; to set it yourself: `[home]/config.toml`
    session session-[uuid]
    tokens: 14 in, 5 out, 3 from the cache
    "#);
    let sent = server.requests();
    // What it may choose is chosen.
    assert_eq!(sent[0].json()["model"], "theirs");
    assert_eq!(
        sent[0].header("authorization"),
        Some(&*format!("Bearer {KEY}"))
    );
    assert_eq!(
        origins(&home, &[], &["sandbox", "permission_mode"]),
        [
            json!(["workspace-write", {"kind": "default"}]),
            json!(["ask", {"kind": "default"}])
        ]
    );
}

#[test]
fn the_files_are_named_whether_they_are_there_or_not_and_whatever_is_in_them() {
    let home = TestHome::new();
    assert_snapshot!(seen(&here(&home).args(["config", "path"]).run()), @r#"
    exit code: 0
    ----- stdout -----
    user                 [home]/config.toml  (not there)
    project              none
    keys                 [home]/credentials.toml  (not there)
    permissions          [home]/permissions.toml  (not there)
    project permissions  none
    ----- stderr -----
    "#);
    project(&home, "[broken");
    put(&home.path().join("config.toml"), "[broken");
    let output = here(&home).args(["config", "path"]).run();
    assert_snapshot!(seen(&output), @r#"
    exit code: 0
    ----- stdout -----
    user                 [home]/config.toml
    project              [user]/work/.offshoot/config.toml
    keys                 [home]/credentials.toml  (not there)
    permissions          [home]/permissions.toml  (not there)
    project permissions  none
    ----- stderr -----
    "#);
}

#[test]
fn an_unknown_key_in_a_project_is_an_error_with_its_place() {
    let home = TestHome::new();
    project(&home, "\n\nsandbx = \"read-only\"\n");
    let output = here(&home).args(["config", "show"]).run();
    assert_snapshot!(seen(&output), @r#"
    exit code: 1
    ----- stdout -----
    ----- stderr -----
    error: `[user]/work/.offshoot/config.toml`: line 3, column 1: unknown key `sandbx`, did you mean `sandbox`?
    hint: docs/cli.md describes this file, in "config.toml"
    "#);
}

#[test]
fn a_key_goes_to_the_address_that_it_belongs_to_and_to_no_other() {
    // The file names another address for a provider with a key of its own, and names no key.
    let server = ScriptedModelServer::start([Reply::text("Yes."), Reply::text("Yes.")]);
    let home = TestHome::new();
    let named = |key: &str| {
        format!(
            "default_model = \"openai/mine\"\n[providers.openai]\nbase_url = \"{}\"\n{key}",
            server.base_url()
        )
    };
    put(&home.path().join("config.toml"), &named(""));
    let ask = || {
        here(&home)
            .env("OPENAI_API_KEY", KEY)
            .args(["run", "Are you there?"])
            .run()
    };
    drop(ask().success());
    assert_eq!(server.requests()[0].header("authorization"), None);
    // Whoever means it says so.
    put(
        &home.path().join("config.toml"),
        &named("api_key_env = \"OPENAI_API_KEY\"\n"),
    );
    drop(ask().success());
    assert_eq!(
        server.requests()[1].header("authorization"),
        Some(&*format!("Bearer {KEY}"))
    );
}

#[test]
fn a_key_may_stand_in_a_file_that_nobody_else_can_read() {
    let server = ScriptedModelServer::start([Reply::text("Yes.")]);
    server.repeat_last();
    let home = TestHome::new();
    let settings = format!(
        "default_model = \"local/small\"\n[providers.local]\nbase_url = \"{}\"\n",
        server.base_url()
    );
    let key = file(&home, "key", format!("{KEY}\n"));
    let credentials = home.path().join("credentials.toml");
    let ask = || here(&home).args(["run", "Are you there?"]).run();
    let sent = |count: usize| {
        let requests = server.requests();
        assert_eq!(requests.len(), count);
        requests
            .last()
            .unwrap()
            .header("authorization")
            .map(str::to_owned)
    };

    put(
        &home.path().join("config.toml"),
        &format!("{settings}api_key_file = {:?}\n", key.to_str().unwrap()),
    );
    mode(&key, 0o644);
    let output = ask();
    assert!(!output.stderr_text().contains("secret"));
    assert_snapshot!(seen(&output), @r#"
    exit code: 1
    ----- stdout -----
    ----- stderr -----
    error: `[user]/key` holds keys and is open to others (mode 0644)
    hint: chmod 600 [user]/key
    "#);
    mode(&key, 0o600);
    drop(ask().success());
    assert_eq!(sent(1), Some(format!("Bearer {KEY}")));

    // Or by the provider's name in one file for all.
    put(&home.path().join("config.toml"), &settings);
    put(&credentials, &format!("local = \"{KEY}\"\n"));
    mode(&credentials, 0o640);
    assert_snapshot!(seen(&ask()), @r#"
    exit code: 1
    ----- stdout -----
    ----- stderr -----
    error: `[home]/credentials.toml` holds keys and is open to others (mode 0640)
    hint: chmod 600 [home]/credentials.toml
    "#);
    mode(&credentials, 0o600);
    drop(ask().success());
    assert_eq!(sent(2), Some(format!("Bearer {KEY}")));
    for command in [
        &["config", "show", "--origin"][..],
        &["models"],
        &["models", "--json"],
    ] {
        let output = here(&home).args(command).run().success();
        assert!(!seen(&output).contains("secret"), "{output}");
    }

    put(&credentials, "local = 3 # sk-this-is-the-secret");
    mode(&credentials, 0o600);
    assert_snapshot!(seen(&ask()), @r#"
    exit code: 1
    ----- stdout -----
    ----- stderr -----
    error: `[home]/credentials.toml` cannot be understood
    hint: it holds a line for each provider: NAME = "KEY"
    "#);
}

#[test]
fn models_says_what_can_be_called_and_what_the_rest_takes() {
    let home = TestHome::new();
    put(
        &home.path().join("config.toml"),
        "[providers.local]\nbase_url = \"http://127.0.0.1:9/v1\"\n[providers.local.models.small]\ncontext_window = 32768\nimages = true\nprices = { input = 0.5, output = 2, cache_read = 0.05 }\n[providers.work]\nkind = \"vllm\"\nbase_url = \"http://127.0.0.1:8\"\napi_key_env = \"WORK_KEY\"\n",
    );
    let output = here(&home)
        .env("DEEPSEEK_API_KEY", KEY)
        .args(["models"])
        .run();
    assert_snapshot!(seen(&output), @r#"
    exit code: 0
    ----- stdout -----
    anthropic  (anthropic at https://api.anthropic.com/v1)  not usable: ANTHROPIC_API_KEY is not set
       anthropic/claude-haiku-4-5   200000 tokens, images, efforts off low medium high max
       anthropic/claude-opus-4-7    1000000 tokens, images, efforts off low medium high xhigh max
       anthropic/claude-sonnet-4-6  1000000 tokens, images, efforts off low medium high xhigh max
    deepseek  (deepseek at https://api.deepseek.com)  usable, with the key in DEEPSEEK_API_KEY
       deepseek/deepseek-chat      131072 tokens, efforts off low high max
       deepseek/deepseek-reasoner  131072 tokens, efforts off low high max
       deepseek/deepseek-v4-flash  1000000 tokens, efforts off low high max
       deepseek/deepseek-v4-pro    1000000 tokens, efforts off low high max
    llama-cpp  (llama-cpp at http://127.0.0.1:8080/v1)  needs no key; whether it runs is not looked up
    local  (compatible at http://127.0.0.1:9/v1)  needs no key; whether it runs is not looked up
       local/small  32768 tokens, images, USD 0.5 in, 2 out per million
    ollama  (ollama at http://127.0.0.1:11434/v1)  needs no key; whether it runs is not looked up
    openai  (openai at https://api.openai.com/v1)  not usable: OPENAI_API_KEY is not set
       openai/gpt-4.1        1047576 tokens, images
       openai/gpt-5.1        400000 tokens, images, efforts none low medium high
       openai/gpt-5.2        400000 tokens, images, efforts none low medium high xhigh
       openai/gpt-5.2-codex  400000 tokens, images, efforts low medium high xhigh
    openrouter  (openrouter at https://openrouter.ai/api/v1)  not usable: OPENROUTER_API_KEY is not set
    vllm  (vllm at http://127.0.0.1:8000/v1)  needs no key; whether it runs is not looked up
    work  (vllm at http://127.0.0.1:8)  not usable: WORK_KEY is not set

    called where nothing else is said: deepseek/deepseek-chat
    ----- stderr -----
    "#);
    let output = here(&home)
        .env("DEEPSEEK_API_KEY", KEY)
        .args(["--json", "models"])
        .run()
        .success();
    let all = output_json(&output);
    assert_eq!(all["default"], "deepseek/deepseek-chat");
    let local = all["providers"].as_array().unwrap().iter();
    let local: Vec<&Value> = local
        .filter(|one| ["local", "work"].contains(&one["provider"].as_str().unwrap()))
        .collect();
    let mut expected = json!([
        {
            "provider": "local",
            "kind": "compatible",
            "base_url": "http://127.0.0.1:9/v1",
            "usable": true,
            "key": {"provider": "local", "set": false, "from": null},
            "models": [{
                "model": "local/small",
                "images": true,
                "context_window": 32768,
                "prices": {"input": 0.5, "output": 2.0, "cache_read": 0.05, "cache_write": 0.5},
            }],
        },
        {
            "provider": "work",
            "kind": "vllm",
            "base_url": "http://127.0.0.1:8",
            "usable": false,
            "key": {"provider": "work", "set": false, "from": "WORK_KEY"},
            "models": [],
            "code": "MISSING_API_KEY",
            "reason": "provider `work` takes its key from WORK_KEY, which is not set",
        },
    ]);
    expected[1]["hint"] = local[1]["hint"].clone();
    assert_eq!(json!(local), expected);
}

#[test]
fn a_variable_or_flag_that_cannot_be_is_named() {
    let home = TestHome::new();
    let output = here(&home)
        .env("OFFSHOOT_SANDBOX", "none")
        .args(["config", "show"])
        .run();
    assert_snapshot!(seen(&output), @r#"
    exit code: 1
    ----- stdout -----
    ----- stderr -----
    error: OFFSHOOT_SANDBOX is "none", expected one of `read-only`, `workspace-write`, `danger-full-access`
    "#);
}

#[test]
fn anthropic_is_called_in_its_own_protocol_with_its_key_and_pictures() {
    let server = ScriptedModelServer::start([Reply::text("A dot.")]);
    let home = TestHome::new();
    let picture = file(&home, "dot.png", crate::headless::PIXEL);
    let output = here(&home)
        .env("ANTHROPIC_API_KEY", KEY)
        .env("ANTHROPIC_BASE_URL", server.base_url())
        .args([
            "run",
            "--model",
            "anthropic/claude-haiku-4-5",
            "--effort",
            "low",
        ])
        .args(["--image", picture.to_str().unwrap(), "What is this?"])
        .run()
        .success();
    assert_eq!(output.stdout_text(), "A dot.\n");
    let sent = &server.requests()[0];
    assert_eq!(sent.path, "/v1/messages");
    assert_eq!(sent.header("x-api-key"), Some(KEY));
    assert_eq!(sent.header("authorization"), None);
    assert!(sent.json()["messages"].to_string().contains("image/png"));
    // The request can be shown again, from the file and the home alone.
    let id = output_json(&here(&home).args(["ls", "--json"]).run().success());
    let id = id[0]["id"].as_str().unwrap();
    let shown = here(&home).args(["show", id, "--request", "1"]).run();
    assert_eq!(shown.success().stdout, sent.body);
}

#[test]
fn what_a_model_does_not_have_is_said_before_anything_is_made() {
    let server = ScriptedModelServer::start([]);
    let home = TestHome::new();
    let output = here(&home)
        .env("OPENAI_BASE_URL", server.base_url())
        .args([
            "run",
            "--model",
            "openai/gpt-5.1",
            "--effort",
            "max",
            "Think.",
        ])
        .run();
    assert_snapshot!(seen(&output), @r#"
    exit code: 1
    ----- stdout -----
    ----- stderr -----
    error: the model `gpt-5.1` has no reasoning effort `max`; it has none, low, medium, high
    hint: `offshoot config show --origin` tells where each setting comes from
    "#);
    assert!(home.bytes_of_tree().is_empty());
    // An effort for all models counts only for those that have it.
    server.push(Reply::text("Yes."));
    put(&home.path().join("config.toml"), "effort = \"max\"\n");
    let output = here(&home)
        .env("OPENAI_BASE_URL", server.base_url())
        .args(["run", "--model", "openai/gpt-5.1", "Think."])
        .run();
    drop(output.success());
    assert_eq!(server.requests()[0].json()["reasoning_effort"], Value::Null);
}

#[test]
fn options_of_another_protocol_are_refused() {
    let home = TestHome::new();
    put(
        &home.path().join("config.toml"),
        "[providers.mine]\nkind = \"anthropic\"\ntoken_limit = \"max_tokens\"\n",
    );
    let output = here(&home).args(["models"]).run();
    assert_snapshot!(seen(&output), @r#"
    exit code: 1
    ----- stdout -----
    ----- stderr -----
    error: `providers.mine.token_limit` is about chat completions, and this provider speaks Messages
    hint: take it out; it is set in `[home]/config.toml:3`
    "#);
}

#[test]
fn how_often_a_failed_call_is_made_again_can_be_set() {
    let home = TestHome::new();
    let server = ScriptedModelServer::start([Reply::server_error()]);
    server.repeat_last();
    put(
        &home.path().join("config.toml"),
        "[providers.openai]\nmax_retries = 0\n",
    );
    let output = here(&home)
        .env("OPENAI_BASE_URL", server.base_url())
        .args(["run", "--model", "openai/x", "Hello?"])
        .run();
    assert_eq!(output.code(), Some(3), "{output}");
    assert_eq!(server.requests().len(), 1);
}
