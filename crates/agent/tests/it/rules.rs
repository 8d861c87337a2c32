//! The rules of a policy file.

use offshoot_agent::{PermissionRules, PolicyFile};
use offshoot_tool_api::PermissionAnswer;
use serde_json::{Value, json};

use crate::bench::Bench;
use crate::scene::{Person, Probe, Scene};
use crate::support::results;

/// What becomes of calls with these arguments under these rules, a person having been asked or not.
async fn decided<const N: usize>(
    rules: &Value,
    calls: [(&'static str, Value); N],
) -> [&'static str; N] {
    let bench = Bench::new();
    let person = Person::who_says([PermissionAnswer::AllowedOnce]);
    let ids: Vec<String> = (0..N).map(|number| format!("c{number}")).collect();
    let texts = calls.each_ref().map(|(_, arguments)| arguments.to_string());
    let asked: Vec<_> = ids
        .iter()
        .zip(&calls)
        .zip(&texts)
        .map(|((id, (tool, _)), arguments)| (&**id, *tool, &**arguments))
        .collect();
    let log = Scene::new(&bench)
        .tool(Probe::limits("bash"))
        .tool(Probe::limits("edit"))
        .tool(Probe::limits("write"))
        .person(person.clone())
        .rules(rules)
        .play(&asked)
        .await;
    let questions = person.asked.lock().unwrap();
    let was_asked = |id: &str| questions.iter().any(|question| question.call_id == id);
    let mut results = results(&log).into_iter();
    std::array::from_fn(|_| {
        let (id, _, text) = results.next().unwrap();
        match (was_asked(&id), &*text) {
            (true, _) => "asked",
            (false, "workspace-write") => "ran",
            (false, "danger-full-access") => "ran beyond",
            (false, _) => "denied",
        }
    })
}

fn command(command: &str) -> (&'static str, Value) {
    ("bash", json!({"command": command}))
}

#[tokio::test]
async fn what_no_rule_is_about_runs_within_its_limits() {
    let rules = json!([{"tool": "edit", "decision": "deny"}]);
    let found = decided(&rules, [command("ls"), ("bash", json!({"beyond": "x"}))]).await;
    assert_eq!(found, ["ran", "asked"]);
}

#[tokio::test]
async fn a_rule_that_allows_does_not_open_the_sandbox_unless_it_says_so() {
    let beyond = |text: &str| ("bash", json!({"command": text, "beyond": "x"}));
    let rules = json!([
        {"tool": "bash", "command": "make", "decision": "allow"},
        {"tool": "bash", "command": "make install", "decision": "allow", "unsandboxed": true},
    ]);
    let calls = [
        beyond("make"),
        beyond("make install"),
        beyond("make install x"),
        beyond("make installer"),
        command("make install"),
        beyond("make install; rm -rf x"),
    ];
    let found = decided(&rules, calls).await;
    let expected = ["asked", "ran beyond", "ran beyond", "asked", "ran", "asked"];
    assert_eq!(found, expected);
}

#[tokio::test]
async fn a_command_with_more_in_it_does_not_slip_through_a_rule_that_allows() {
    let rules = json!([
        {"tool": "bash", "decision": "ask"},
        {"tool": "bash", "command": "git status", "decision": "allow"},
        {"tool": "bash", "command": "git commit", "decision": "allow"},
    ]);
    let slips = [
        "git status; rm -rf x",
        "git status\nrm -rf x",
        "git status && rm x",
        "git status | sh",
        "git status $(rm x)",
        "git status `rm x`",
        "git status > x",
        "git status &",
        "X=1 git status",
        "git  -c core.pager=x status",
        "(git status)",
        "git statusx",
        "./git status",
        "git",
    ];
    let found = decided(&rules, slips.map(command)).await;
    assert_eq!(found, ["asked"; 14]);
    let fine = [
        "git status",
        " git  status -s",
        "git 'status'",
        "git commit -m \"a; b && c | d > e\nf\"",
        "git commit -m 'cost: $(5) `x`'",
    ];
    assert_eq!(decided(&rules, fine.map(command)).await, ["ran"; 5]);
}

#[tokio::test]
async fn a_rule_that_denies_or_asks_finds_a_command_wherever_it_is() {
    let rules = json!([
        {"tool": "bash", "command": "rm -rf", "decision": "deny"},
        {"tool": "bash", "command": "git push", "decision": "ask"},
        {"tool": "bash", "command": "git", "decision": "allow"},
    ]);
    let found = decided(
        &rules,
        [
            command("rm -rf x"),
            command("true; /bin/rm -rf x"),
            command("bash -c 'rm -rf x'"),
            command("git status $(rm -rf x)"),
            command("git push && rm -rf x"),
            command("rm x"),
            command("git push"),
            command("git pull; git push --force"),
            command("git status"),
        ],
    )
    .await;
    let expected = [
        "denied", "denied", "denied", "denied", "denied", "ran", "asked", "asked", "ran",
    ];
    assert_eq!(found, expected);
}

#[tokio::test]
async fn deny_beats_everything_and_then_the_rule_that_says_more_counts() {
    let calls = || {
        [
            command("git push origin"),
            ("edit", json!({"file_path": "src/a.rs"})),
        ]
    };
    for (rules, expected) in [
        (
            json!([
                {"tool": "bash", "command": "git push origin", "decision": "allow"},
                {"tool": "*", "decision": "deny"},
            ]),
            ["denied", "denied"],
        ),
        // With an argument more than without.
        (
            json!([
                {"tool": "*", "decision": "ask"},
                {"tool": "bash", "command": "git", "decision": "allow"},
                {"tool": "edit", "path": "src/**", "decision": "allow"},
            ]),
            ["ran", "ran"],
        ),
        (
            json!([
                {"tool": "*", "decision": "allow"},
                {"tool": "bash", "command": "git", "decision": "ask"},
                {"tool": "edit", "path": "src/**", "decision": "ask"},
            ]),
            ["asked", "asked"],
        ),
        // With more words more than with fewer.
        (
            json!([
                {"tool": "bash", "command": "git push", "decision": "allow"},
                {"tool": "bash", "command": "git", "decision": "ask"},
                {"tool": "edit", "decision": "allow"},
            ]),
            ["ran", "ran"],
        ),
        // With a name more than with a pattern of names.
        (
            json!([
                {"tool": "bash", "decision": "allow"},
                {"tool": "{edit,write}", "decision": "ask"},
                {"tool": "*", "decision": "ask"},
                {"tool": "edit", "decision": "allow"},
            ]),
            ["ran", "ran"],
        ),
        // Between equals it is asked.
        (
            json!([
                {"tool": "bash", "decision": "ask"},
                {"tool": "bash", "decision": "allow"},
                {"tool": "edit", "path": "src/**", "decision": "allow"},
                {"tool": "edit", "path": "**/*.rs", "decision": "ask"},
            ]),
            ["asked", "asked"],
        ),
    ] {
        assert_eq!(decided(&rules, calls()).await, expected, "{rules}");
    }
}

#[tokio::test]
async fn files_are_meant_by_patterns_below_the_sessions_directory_or_anywhere() {
    let edit = |path: &str| ("edit", json!({"file_path": path}));
    let rules = json!([
        {"tool": "*", "path": "**/.env", "decision": "deny"},
        {"tool": "edit", "path": "docs/**", "decision": "ask"},
    ]);
    let calls = [
        edit(".env"),
        edit("a/b/.env"),
        edit("/etc/.env"),
        ("write", json!({"path": "./x/.env"})),
        edit("docs/a/b.md"),
        edit("/srv/demo/docs/a.md"),
        edit("x/../docs/a.md"),
        edit("/docs/a.md"),
        edit("src/a.rs"),
        ("edit", json!({})),
    ];
    let found = decided(&rules, calls).await;
    let expected = [
        "denied", "denied", "denied", "denied", "asked", "asked", "asked", "ran", "ran", "ran",
    ];
    assert_eq!(found, expected);
}

#[tokio::test]
async fn an_argument_more_hides_no_other_from_the_rules() {
    let rules = json!([
        {"tool": "*", "path": "secret/**", "decision": "deny"},
        {"tool": "*", "command": "rm", "decision": "deny"},
        {"tool": "write", "decision": "ask"},
        {"tool": "write", "path": "docs/**", "decision": "allow"},
        {"tool": "write", "command": "ls", "decision": "allow"},
    ]);
    let write = |arguments| ("write", arguments);
    let calls = [
        write(json!({"file_path": "docs/a"})),
        write(json!({"command": "ls", "file_path": "secret/a"})),
        write(json!({"file_path": "docs/a", "path": "secret/a"})),
        write(json!({"file_path": "docs/a", "command": "rm x"})),
        // What is allowed for one of them is not allowed for both.
        write(json!({"file_path": "docs/a", "path": "src/a"})),
        write(json!({"file_path": "docs/a", "command": "ls"})),
        write(json!({"file_path": "src/a", "command": "ls"})),
        write(json!({"file_path": "docs/a", "path": "docs/b"})),
    ];
    let expected = [
        "ran", "denied", "denied", "denied", "asked", "asked", "asked", "ran",
    ];
    assert_eq!(decided(&rules, calls).await, expected);
}

#[tokio::test]
async fn the_reason_of_a_rule_is_told() {
    let bench = Bench::new();
    let person = Person::who_says([PermissionAnswer::AllowedOnce]);
    let log = Scene::new(&bench)
        .person(person.clone())
        .rules(&json!([
            {"tool": "change", "decision": "deny", "reason": "this tree is frozen"},
            {"tool": "alter", "decision": "deny"},
            {"tool": "check", "decision": "ask", "reason": "it is slow"},
            {"tool": "look", "decision": "ask"},
        ]))
        .play(&["change", "alter", "check", "look"].map(|name| (name, name, "{}")))
        .await;
    let texts: Vec<_> = results(&log).into_iter().map(|(_, _, text)| text).collect();
    assert_eq!(
        texts[..2],
        [
            "Error: this tree is frozen",
            "Error: tool \"alter\" is denied by a rule"
        ]
    );
    assert_eq!(person.reasons(), [Some("it is slow".to_owned()), None]);
}

#[test]
fn a_rule_that_cannot_be_one_is_named() {
    for (rule, expected) in [
        (
            json!({"tool": "", "decision": "ask"}),
            "rule 2 (``): the name of a tool is missing",
        ),
        (
            json!({"tool": "x", "command": "a", "path": "b", "decision": "ask"}),
            "rule 2 (`x`): it has both `command` and `path`",
        ),
        (
            json!({"tool": "x", "decision": "deny", "unsandboxed": true}),
            "rule 2 (`x`): only a rule that allows can be `unsandboxed`",
        ),
        (
            json!({"tool": "x", "command": "a; b", "decision": "allow"}),
            "rule 2 (`x`): `command` must be the first words of a simple command, without operators",
        ),
        (
            json!({"tool": "x", "command": " ", "decision": "deny"}),
            "rule 2 (`x`): `command` must be the first words of a simple command, without operators",
        ),
        (
            json!({"tool": "x", "path": "~/a", "decision": "deny"}),
            "rule 2 (`x`): `path` must be a pattern such as `src/**` or `/etc/*`; `~` is not known",
        ),
    ] {
        let good = json!({"tool": "*", "decision": "allow"});
        let file: PolicyFile = serde_json::from_value(json!({"rule": [good, rule]})).unwrap();
        let error = PermissionRules::new(file.rules).unwrap_err();
        assert_eq!(error.to_string(), expected);
    }
    for file in [
        json!({"rules": []}),
        json!({"rule": [{"tool": "x", "decision": "maybe"}]}),
        json!({"rule": [{"tool": "x", "decision": "ask", "comand": "x"}]}),
        json!({"rule": [{"tool": "x"}]}),
    ] {
        serde_json::from_value::<PolicyFile>(file).unwrap_err();
    }
    assert_eq!(
        serde_json::from_value::<PolicyFile>(json!({})).unwrap(),
        PolicyFile::default()
    );
}
