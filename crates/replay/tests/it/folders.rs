//! What a scenario's folder may hold, and what is said of one that holds something else.

use std::time::Duration;

use offshoot_agent::InboxTarget;
use offshoot_replay::{Action, Comparing, Note, Scenario, ScenarioError, SessionName, Step, Until};
use offshoot_session::{EventKind, Seq};

use crate::bench::{Folder, HEAD};

fn name(text: &str) -> SessionName {
    SessionName::parse(text).unwrap()
}

/// What is said of a folder, without the path of the folder itself.
fn told(folder: &Folder, error: &ScenarioError) -> String {
    let dir = folder.path().to_string_lossy().into_owned();
    error.to_string().replace(&dir, "DIR")
}

fn refused(folder: &Folder) -> (&'static str, String) {
    let error = Scenario::load(folder.path()).unwrap_err();
    (error.code(), told(folder, &error))
}

#[test]
fn every_step_is_read_as_it_is_written() {
    let folder = Folder::with(
        r#"about = "All there is."
timeout = 3
pins_header = true
compare_requests = false
[model]
name = "demo/demo-1"
context_window = 8000

[settings]
sandbox = "read-only"

[[step]]
do = "prompt"
text = "Hello."

[[step]]
do = "prompt"
session = "main"
text = "More."
target = "step"
wait = false
timeout = 20

[[step]]
do = "wait"
idle = true

[[step]]
do = "wait"
file = "out/ready"

[[step]]
do = "wait"
event = "tool/call"
session = "main.1"
count = 2

[[step]]
do = "cancel"

[[step]]
do = "compact"

[[step]]
do = "fork"
as = "branch"
at = 12

[[step]]
do = "side"
of = "branch"
as = "side"

[[step]]
do = "merge"
child = "side"

[[step]]
do = "merge"
child = "side"
note = "Look there."

[[step]]
do = "merge"
child = "side"
ask = true

[[step]]
do = "promote"
session = "side"

[[step]]
do = "write"
path = "a/b.txt"
text = "beta"

[[step]]
do = "kill"

[[step]]
do = "open"

[[step]]
do = "cancel"
wait = false
"#,
    );
    let scenario = folder.load();
    assert_eq!(scenario.about, "All there is.");
    assert_eq!(scenario.timeout, Some(Duration::from_secs(3)));
    assert_eq!(scenario.model.parts(), ("demo", "demo-1"));
    assert_eq!(scenario.model.context_window, Some(8000));
    assert_eq!(scenario.settings["sandbox"].as_str(), Some("read-only"));
    assert!(scenario.pins_header);
    assert_eq!(scenario.compare_requests, Comparing::None);
    assert!(scenario.kills());
    let main = || name("main");
    let step = |line, action| Step {
        action,
        line,
        patience: None,
    };
    let merge = |line, note| {
        let child = name("side");
        step(line, Action::Merge { child, note })
    };
    let wait = |line, until| step(line, Action::Wait { until });
    let expected = [
        step(
            13,
            Action::Prompt {
                session: main(),
                text: "Hello.".into(),
                target: InboxTarget::NextTurn,
                wait: true,
            },
        ),
        Step {
            action: Action::Prompt {
                session: main(),
                text: "More.".into(),
                target: InboxTarget::NextStep,
                wait: false,
            },
            line: 17,
            patience: Some(Duration::from_secs(20)),
        },
        wait(25, Until::Idle(main())),
        wait(29, Until::File("out/ready".into())),
        wait(
            33,
            Until::Event {
                session: name("main.1"),
                kind: EventKind::ToolCall,
                count: 2,
            },
        ),
        step(
            39,
            Action::Cancel {
                session: main(),
                wait: true,
            },
        ),
        step(42, Action::Compact { session: main() }),
        step(
            45,
            Action::Fork {
                of: main(),
                child: name("branch"),
                at: Some(Seq::new(12)),
            },
        ),
        step(
            50,
            Action::Side {
                of: name("branch"),
                child: name("side"),
                at: None,
            },
        ),
        merge(55, Note::Latest),
        merge(59, Note::Written("Look there.".into())),
        merge(64, Note::Asked),
        step(
            69,
            Action::Promote {
                session: name("side"),
            },
        ),
        step(
            73,
            Action::Write {
                path: "a/b.txt".into(),
                text: "beta".into(),
            },
        ),
        step(78, Action::Kill),
        step(81, Action::Open { session: main() }),
        step(
            84,
            Action::Cancel {
                session: main(),
                wait: false,
            },
        ),
    ];
    assert_eq!(scenario.steps, expected);
}

#[test]
fn whoever_records_waits_longer_unless_the_scenario_says_how_long() {
    let waits = |timeout: &str| {
        let folder = Folder::with(&format!(
            "{timeout}{HEAD}[[step]]\ndo = \"prompt\"\ntext = \"Hello.\"\n"
        ));
        let scenario = folder.load();
        [false, true].map(|records| scenario.patience(records).as_secs())
    };
    assert_eq!(waits(""), [10, 600]);
    assert_eq!(waits("timeout = 3\n"), [3, 3]);
}

#[test]
fn what_is_written_wrongly_is_said_with_its_line() {
    let prompt = "[[step]]\ndo = \"prompt\"\ntext = \"Hi.\"\n";
    let step = |text: &str| format!("{HEAD}{prompt}[[step]]\n{text}");
    let cases = [
        (String::new(), 1, "missing field `about`"),
        (
            "about = ".into(),
            1,
            "string values must be quoted, expected literal string",
        ),
        (HEAD.into(), 4, "nothing is done: add a `[[step]]`"),
        (
            format!("{HEAD}colour = \"red\"\n"),
            4,
            "unknown field `colour`, expected `name` or `context_window`",
        ),
        (
            "about = \" \"\n[model]\nname = \"a/b\"\n".into(),
            1,
            "`about` says in a sentence what the scenario shows",
        ),
        (
            "about = \"x\"\n[model]\nname = \"demo\"\n".into(),
            3,
            "`demo` is no PROVIDER/MODEL",
        ),
        (
            "about = \"x\"\n[model]\nname = \"a/b\"\ncontext_window = 0\n".into(),
            4,
            "`context_window` is at least 1",
        ),
        (
            "about = \"x\"\ncompare_requests = \"all\"\n[model]\nname = \"a/b\"\n".into(),
            2,
            "`compare_requests` is `true`, `false` or `\"conversation\"`, not `\"all\"`",
        ),
        (
            "about = \"x\"\ntimeout = 0\n[model]\nname = \"a/b\"\n".into(),
            2,
            "`timeout` is a number of seconds from 1 to 3600",
        ),
        (
            step("do = \"sing\"\n"),
            8,
            "no step does `sing`, expected one of `prompt`, `wait`, `cancel`, `compact`, `fork`, `side`, `merge`, `promote`, `write`, `kill`, `open`",
        ),
        (step("text = \"a\"\n"), 7, "missing field `do`"),
        (step("do = \"prompt\"\n"), 8, "`prompt` needs `text`"),
        (
            step("do = \"prompt\"\ntext = \"a\"\nmood = \"b\"\n"),
            10,
            "unknown field `mood`, expected one of `do`, `session`, `text`, `target`, `wait`, `idle`, `file`, `event`, `count`, `of`, `as`, `at`, `child`, `note`, `ask`, `path`, `timeout`",
        ),
        (
            step("do = \"prompt\"\ntext = \"a\"\nat = 3\n"),
            10,
            "`prompt` has no member `at`",
        ),
        (
            step("do = \"prompt\"\ntext = \"a\"\ntarget = \"now\"\n"),
            10,
            "`target` is `turn` or `step`, not `now`",
        ),
        (
            step("do = \"prompt\"\ntext = 5\n"),
            9,
            "invalid type: integer `5`, expected a string",
        ),
        (
            step("do = \"prompt\"\ntext = \"a\"\nsession = \"side\"\n"),
            10,
            "there is no session `side` yet, only `main`",
        ),
        (
            step("do = \"prompt\"\ntext = \"a\"\nsession = \"A b\"\n"),
            10,
            "`A b`: a session's name is a lower-case word, such as `main` or `side-1`",
        ),
        (
            step("do = \"prompt\"\ntext = \"a\"\ntimeout = 5000\n"),
            10,
            "`timeout` is a number of seconds from 1 to 3600",
        ),
        (
            step("do = \"wait\"\n"),
            8,
            "`wait` needs exactly one of `idle`, `file` and `event`",
        ),
        (
            step("do = \"wait\"\nidle = true\nfile = \"a\"\n"),
            8,
            "`wait` needs exactly one of `idle`, `file` and `event`",
        ),
        (
            step("do = \"wait\"\nidle = false\n"),
            9,
            "`idle` is `true` or is left out",
        ),
        (
            step("do = \"wait\"\nfile = \"../a\"\n"),
            9,
            "`../a` is no path below the workspace",
        ),
        (
            step("do = \"wait\"\nfile = \"a\"\nsession = \"main\"\n"),
            10,
            "a file is in the workspace and no session's: leave `session` out",
        ),
        (
            step("do = \"wait\"\nidle = true\ncount = 2\n"),
            10,
            "`count` belongs to `event`",
        ),
        (
            step("do = \"wait\"\nevent = \"tool/calls\"\n"),
            9,
            "`tool/calls` is no type of an event",
        ),
        (
            step("do = \"wait\"\nevent = \"tool/call\"\ncount = 0\n"),
            10,
            "`count` is at least 1",
        ),
        (step("do = \"fork\"\n"), 8, "`fork` needs `as`"),
        (
            step("do = \"fork\"\nas = \"main\"\n"),
            9,
            "there is a session `main` already",
        ),
        (
            step("do = \"fork\"\nas = \"main.1\"\n"),
            9,
            "`main.1` is what a subagent is called: use a name without a dot",
        ),
        (
            step("do = \"side\"\nas = \"output\"\n"),
            9,
            "no session can be called `output`",
        ),
        (
            step("do = \"side\"\nas = \"side\"\nof = \"branch\"\n"),
            10,
            "there is no session `branch` yet, only `main`",
        ),
        (step("do = \"merge\"\n"), 8, "`merge` needs `child`"),
        (
            step("do = \"merge\"\nchild = \"main\"\nnote = \"a\"\nask = true\n"),
            10,
            "`merge` either has a `note` or asks for one",
        ),
        (
            step("do = \"write\"\ntext = \"a\"\n"),
            8,
            "`write` needs `path`",
        ),
        (
            step("do = \"write\"\ntext = \"a\"\npath = \"/etc/passwd\"\n"),
            10,
            "`/etc/passwd` is no path below the workspace",
        ),
        (step("do = \"open\"\n"), 8, "`main` is open already"),
        (
            step("do = \"kill\"\nsession = \"main\"\n"),
            9,
            "`kill` has no member `session`",
        ),
        (
            step("do = \"kill\"\n[[step]]\ndo = \"prompt\"\ntext = \"a\"\n"),
            10,
            "`main` is not open since the process was killed: `do = \"open\"` opens it",
        ),
    ];
    for (text, line, reason) in cases {
        let folder = Folder::with(&text);
        let expected = format!("`DIR/scenario.toml`, line {line}: {reason}");
        assert_eq!(refused(&folder), ("INVALID_SCENARIO", expected), "{text}");
    }
}

#[test]
fn a_file_that_belongs_to_nothing_is_named() {
    let step = "[[step]]\ndo = \"fork\"\nas = \"branch\"\n";
    let whole = "it holds `scenario.toml` and the folders `sessions`, `overrides`, `workspace` and `expected`";
    let after = |extension: &str| {
        format!(
            "a file here is called NAME.{extension}, after `main`, `branch` or a subagent of one, such as `main.1`"
        )
    };
    for (file, reason) in [
        ("notes.md", whole.to_owned()),
        ("session/main.jsonl", whole.to_owned()),
        ("sessions/side.jsonl", after("jsonl")),
        ("sessions/main.json", after("jsonl")),
        ("sessions/main.1.2.x.jsonl", after("jsonl")),
        ("sessions/old/main.jsonl", after("jsonl")),
        ("overrides/main.jsonl", after("json")),
        ("expected/output.json", after("jsonl")),
        ("expected/main.jsonl.new", after("jsonl")),
    ] {
        let folder = Folder::new(step);
        folder.write(file, "");
        let path = match file {
            "session/main.jsonl" => "session",
            "sessions/old/main.jsonl" => "sessions/old",
            file => file,
        };
        let expected = format!("`DIR/{path}` belongs to no part of a scenario: {reason}");
        assert_eq!(refused(&folder), ("SCENARIO_ORPHAN", expected));
    }
    let folder = Folder::new(step);
    for file in [
        "sessions/main.jsonl",
        "sessions/branch.2.1.jsonl",
        "overrides/main.1.json",
        "workspace/anything/at.all",
        "expected/main.jsonl",
        "expected/output.jsonl",
    ] {
        folder.write(file, "");
    }
    let scenario = folder.load();
    let recorded: Vec<_> = scenario
        .recordings
        .keys()
        .map(SessionName::as_str)
        .collect();
    assert_eq!(recorded, ["main", "branch.2.1"]);
    assert!(scenario.expects_output);
}

#[test]
fn a_folder_without_a_scenario_and_one_that_cannot_be_read_are_said() {
    let folder = Folder::new("");
    let nowhere = folder.path().join("nowhere");
    let error = Scenario::load(&nowhere).unwrap_err();
    assert_eq!(error.code(), "SCENARIO_NOT_FOUND");
    assert_eq!(
        told(&folder, &error),
        "there is no scenario in `DIR/nowhere`: it has no `scenario.toml`"
    );
    folder.write("scenario.toml", [0xff]);
    assert_eq!(
        refused(&folder),
        (
            "SCENARIO_UNREADABLE",
            "could not read `DIR/scenario.toml`: stream did not contain valid UTF-8".to_owned()
        )
    );
}

#[test]
fn what_is_missing_is_named_with_what_makes_it() {
    let folder = Folder::new("[[step]]\ndo = \"compact\"\n");
    let missing = |error: ScenarioError| {
        let hint = error.hint().unwrap().to_owned();
        (error.code(), told(&folder, &error), hint)
    };
    let record = "`offshoot record` makes recordings".to_owned();
    let refresh = "`offshoot replay --refresh` writes down what comes of it".to_owned();
    let code = "SCENARIO_INCOMPLETE";
    assert_eq!(
        missing(folder.load().check_recorded().unwrap_err()),
        (code, "`DIR/sessions/main.jsonl` is missing".into(), record)
    );
    folder.write("sessions/main.jsonl", "");
    folder.load().check_recorded().unwrap();
    assert_eq!(
        missing(folder.load().check_expected().unwrap_err()),
        (
            code,
            "`DIR/expected/main.jsonl` is missing".into(),
            refresh.clone()
        )
    );
    folder.write("expected/main.jsonl", "");
    assert_eq!(
        missing(folder.load().check_expected().unwrap_err()),
        (
            code,
            "`DIR/expected/output.jsonl` is missing".into(),
            refresh
        )
    );
    folder.write("expected/output.jsonl", "");
    folder.load().check_expected().unwrap();
}
