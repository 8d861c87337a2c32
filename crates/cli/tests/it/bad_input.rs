//! Mistakes on the command line and around it: what is said, with which exit code, and that nothing is written.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::PermissionsExt as _;
use std::process::{Command, Stdio};

use insta::assert_snapshot;
use offshoot_test_support::TestHome;
use serde_json::{Value, json};

use crate::support::{BINARY, demo, file, fixture, offshoot, run};

/// What each of these says, all with this exit code and without a trace.
fn said(home: &TestHome, code: i32, cases: &[&[&str]]) -> String {
    let before = home.bytes_of_tree();
    let mut all = String::new();
    for args in cases {
        let output = run(home, *args);
        assert_eq!(output.code(), Some(code), "{args:?}\n{output}");
        assert!(output.stdout.is_empty(), "{output}");
        let shown: Vec<String> = args.iter().map(|arg| format!("{arg:?}")).collect();
        // The first words are clap's or ours; its usage lines are the help's business.
        let text = output.stderr_text();
        let text = text
            .split("\n\nUsage:")
            .next()
            .unwrap()
            .replace("\n\nFor more information, try '--help'.", "");
        all.push_str(&format!("{}\n{}\n\n", shown.join(" "), text.trim_end()));
    }
    assert_eq!(home.bytes_of_tree(), before);
    all
}

fn home_with_demo() -> TestHome {
    let home = TestHome::new();
    file(&home, "demo.jsonl", fs::read(demo()).unwrap());
    file(
        &home,
        "answer.jsonl",
        fs::read(fixture("answer.jsonl")).unwrap(),
    );
    home
}

#[test]
fn a_wrong_command_line_ends_with_2() {
    let home = home_with_demo();
    assert_snapshot!(said(&home, 2, &[
        &["frok"],
        &["show"],
        &["show", ""],
        &["fork", "demo.jsonl", "--at", "-1"],
        &["fork", "demo.jsonl", "--at", "abc"],
        &["fork", "demo.jsonl", "--at", "1.5"],
        &["fork", "demo.jsonl", "--at", "99999999999999999999"],
        &["fork", "demo.jsonl", "--id", ""],
        &["show", "demo.jsonl", "--from", "5", "--to", "2"],
        &["show", "demo.jsonl", "--request", "0"],
        &["show", "demo.jsonl", "--request", "-1"],
        &["show", "demo.jsonl", "--request", "1", "--from", "2"],
        &["show", "demo.jsonl", "--events", "--messages"],
        &["show", "demo.jsonl", "--stored", "--messages"],
        &["show", "demo.jsonl", "--stored", "--from", "3"],
        &["convert"],
        &["convert", ""],
        &["salvage", "demo.jsonl"],
        &["salvage", "demo.jsonl", "--to", ""],
        &["run"],
        &["run", ""],
        &["run", "\n "],
        &["run", "two", "words"],
        &["run", "--at", "3", "Go."],
        &["run", "--session", "a", "--fork", "b", "Go."],
        &["run", "--session", "a", "--cwd", "/", "Go."],
        &["run", "--model", "openai/x", "--replay", "answer.jsonl", "Go."],
        &["run", "--model", "openai", "Go."],
        &["run", "--output", "xml", "Go."],
        &["ls", "--home", ""],
    ]), @r#"
    "frok"
    error: unrecognized subcommand 'frok'

      tip: a similar subcommand exists: 'fork'

    "show"
    error: the following required arguments were not provided:
      <ID|FILE>

    "show" ""
    error: invalid value '' for '<ID|FILE>': name a session's id or a session file

    "fork" "demo.jsonl" "--at" "-1"
    error: invalid value '-1' for '--at <SEQ>': an event's seq is a whole number from 0 on, as `offshoot show` prints it

    "fork" "demo.jsonl" "--at" "abc"
    error: invalid value 'abc' for '--at <SEQ>': an event's seq is a whole number from 0 on, as `offshoot show` prints it

    "fork" "demo.jsonl" "--at" "1.5"
    error: invalid value '1.5' for '--at <SEQ>': an event's seq is a whole number from 0 on, as `offshoot show` prints it

    "fork" "demo.jsonl" "--at" "99999999999999999999"
    error: invalid value '99999999999999999999' for '--at <SEQ>': an event's seq is a whole number from 0 on, as `offshoot show` prints it

    "fork" "demo.jsonl" "--id" ""
    error: a value is required for '--id <CHILD>' but none was supplied

    "show" "demo.jsonl" "--from" "5" "--to" "2"
    error: --from 5 comes after --to 2, so there is nothing to show

    "show" "demo.jsonl" "--request" "0"
    error: invalid value '0' for '--request <N>': requests are numbered 1, 2, 3 and so on

    "show" "demo.jsonl" "--request" "-1"
    error: invalid value '-1' for '--request <N>': requests are numbered 1, 2, 3 and so on

    "show" "demo.jsonl" "--request" "1" "--from" "2"
    error: the argument '--request <N>' cannot be used with '--from <SEQ>'

    "show" "demo.jsonl" "--events" "--messages"
    error: the argument '--events' cannot be used with '--messages'

    "show" "demo.jsonl" "--stored" "--messages"
    error: the argument '--stored' cannot be used with '--messages'

    "show" "demo.jsonl" "--stored" "--from" "3"
    error: the argument '--stored' cannot be used with '--from <SEQ>'

    "convert"
    error: the following required arguments were not provided:
      <FILE>

    "convert" ""
    error: invalid value '' for '<FILE>': name a session's id or a session file

    "salvage" "demo.jsonl"
    error: the following required arguments were not provided:
      --to <HOME>

    "salvage" "demo.jsonl" "--to" ""
    error: a value is required for '--to <HOME>' but none was supplied

    "run"
    error: there is no prompt: say what the agent is to do
    hint: offshoot run PROMPT, or give it on standard input: offshoot run < FILE

    "run" ""
    error: invalid value '' for '[PROMPT]': the prompt is empty: say what the agent is to do

    "run" "\n "
    error: invalid value '
     ' for '[PROMPT]': the prompt is empty: say what the agent is to do

    "run" "two" "words"
    error: unexpected argument 'words' found

    "run" "--at" "3" "Go."
    error: the following required arguments were not provided:
      --fork <ID|FILE>

    "run" "--session" "a" "--fork" "b" "Go."
    error: the argument '--session <ID>' cannot be used with '--fork <ID|FILE>'

    "run" "--session" "a" "--cwd" "/" "Go."
    error: the argument '--session <ID>' cannot be used with '--cwd <DIR>'

    "run" "--model" "openai/x" "--replay" "answer.jsonl" "Go."
    error: the argument '--model <PROVIDER/MODEL>' cannot be used with '--replay <FILE>'

    "run" "--model" "openai" "Go."
    error: invalid value 'openai' for '--model <PROVIDER/MODEL>': a model is named PROVIDER/MODEL, such as deepseek/deepseek-chat

    "run" "--output" "xml" "Go."
    error: invalid value 'xml' for '--output <FORMAT>'
      [possible values: text, json]

    "ls" "--home" ""
    error: a value is required for '--home <DIR>' but none was supplied
    "#);
}

#[test]
fn what_is_not_there_ends_with_1() {
    let home = home_with_demo();
    assert_snapshot!(said(&home, 1, &[
        &["fork", "demo.jsonl", "--at", "99999"],
        &["run", "--fork", "demo.jsonl", "--at", "20", "--replay", "answer.jsonl", "Go."],
        &["show", "demo.jsonl", "--from", "20"],
        &["show", "demo.jsonl", "--to", "99999"],
        &["show", "demo.jsonl", "--request", "3"],
        &["run", "--cwd", "nowhere", "--replay", "answer.jsonl", "Go."],
        &["run", "--cwd", "demo.jsonl", "--replay", "answer.jsonl", "Go."],
        &["show", "../../etc/offshoot"],
    ]), @r#"
    "fork" "demo.jsonl" "--at" "99999"
    error: `demo.jsonl`: event 99999 does not exist: the last one is 19
    hint: these are its events: offshoot show demo.jsonl

    "run" "--fork" "demo.jsonl" "--at" "20" "--replay" "answer.jsonl" "Go."
    error: `demo.jsonl`: event 20 does not exist: the last one is 19
    hint: these are its events: offshoot show demo.jsonl

    "show" "demo.jsonl" "--from" "20"
    error: `demo.jsonl`: event 20 does not exist: the last one is 19

    "show" "demo.jsonl" "--to" "99999"
    error: `demo.jsonl`: event 99999 does not exist: the last one is 19

    "show" "demo.jsonl" "--request" "3"
    error: `demo.jsonl`: the session made 2 requests; there is no request 3
    hint: requests are numbered from 1 to 2

    "run" "--cwd" "nowhere" "--replay" "answer.jsonl" "Go."
    error: cannot work in `nowhere`: No such file or directory (os error 2)
    hint: name a directory that is there with --cwd

    "run" "--cwd" "demo.jsonl" "--replay" "answer.jsonl" "Go."
    error: cannot work in `demo.jsonl`: it is not a directory
    hint: name a directory that is there with --cwd

    "show" "../../etc/offshoot"
    error: could not read `../../etc/offshoot`: No such file or directory (os error 2)
    hint: name a file that is there, or a session's id as `offshoot ls` shows it
    "#);
}

#[test]
fn a_session_that_cannot_go_on_is_refused_with_the_command_that_can() {
    let home = home_with_demo();
    let broken = fixture("closed-step.jsonl");
    drop(
        run(
            &home,
            [
                "fork".as_ref(),
                broken.as_os_str(),
                "--id".as_ref(),
                "stuck".as_ref(),
            ],
        )
        .success(),
    );
    file(&home, "closed-step.jsonl", fs::read(broken).unwrap());
    assert_snapshot!(said(&home, 1, &[
        &["run", "--session", "stuck", "--replay", "answer.jsonl", "Go."],
        &["run", "--fork", "closed-step.jsonl", "--replay", "answer.jsonl", "Go."],
    ]), @r#"
    "run" "--session" "stuck" "--replay" "answer.jsonl" "Go."
    error: session `stuck` cannot be continued: event 7 closed a step although the tool call `call_weigh` had no result; a provider refuses such a conversation
    hint: go on from before it, where its step is still open: offshoot run --fork stuck --at 6 PROMPT

    "run" "--fork" "closed-step.jsonl" "--replay" "answer.jsonl" "Go."
    error: the fork could not go on: event 7 closed a step although the tool call `call_weigh` had no result; a provider refuses such a conversation
    hint: fork at 6 instead, where its step is still open: --at 6
    "#);
    let output = run(
        &home,
        [
            "run",
            "--fork",
            "stuck",
            "--at",
            "6",
            "--replay",
            "answer.jsonl",
            "Go.",
        ],
    );
    assert_eq!(output.success().stdout_text(), "Two stamps.\n");
}

#[test]
fn errors_are_objects_where_json_was_asked_for() {
    let home = home_with_demo();
    for (args, code, expected) in [
        (
            vec!["show", "nobody", "--json"],
            1,
            json!({
                "type": "error",
                "code": "SESSION_NOT_FOUND",
                "message": "session `nobody` was not found in `[home]/sessions`",
                "hint": "`offshoot ls` shows the sessions that are there",
            }),
        ),
        (
            vec!["show", "demo.jsonl", "--json", "--from", "20"],
            1,
            json!({
                "type": "error",
                "code": "NO_SUCH_EVENT",
                "message": "`demo.jsonl`: event 20 does not exist: the last one is 19",
                "hint": null,
            }),
        ),
        (
            vec!["run", "--output=json", "--at", "x", "Go."],
            2,
            json!({
                "type": "error",
                "code": "USAGE",
                "message": "invalid value 'x' for '--at <SEQ>': an event's seq is a whole number from 0 on, as `offshoot show` prints it",
                "hint": "see `offshoot --help`",
            }),
        ),
        (
            vec!["show", "demo.jsonl", "--json", "--from", "5", "--to", "2"],
            2,
            json!({
                "type": "error",
                "code": "USAGE",
                "message": "--from 5 comes after --to 2, so there is nothing to show",
                "hint": null,
            }),
        ),
    ] {
        let output = run(&home, &args);
        assert_eq!(output.code(), Some(code), "{output}");
        let error: Value = serde_json::from_str(&output.stderr_text()).unwrap();
        assert_eq!(error, expected, "{args:?}");
        assert!(output.stdout.is_empty());
    }
}

/// Every command, on a home that cannot be one.
fn on_home(home: &TestHome, bad: &OsStr) -> String {
    let mut all = String::new();
    for args in [
        vec!["ls"],
        vec!["show", "nobody"],
        vec!["fork", "demo.jsonl"],
        vec!["run", "--replay", "answer.jsonl", "Go."],
        vec!["demo"],
    ] {
        let mut words: Vec<OsString> = vec!["--home".into(), bad.into()];
        words.extend(args.iter().map(Into::into));
        // The later --home is the one that counts.
        let output = Command::new(BINARY)
            .args(words)
            .current_dir(home.user_path())
            .env("HOME", home.user_path())
            .output()
            .unwrap();
        assert_eq!(output.status.code(), Some(1));
        let text = String::from_utf8_lossy(&output.stderr)
            .replace(home.user_path().to_str().unwrap(), "[user]");
        all.push_str(&format!("{}\n{text}\n", args.join(" ")));
    }
    all
}

#[test]
fn a_home_that_is_a_file_is_named_and_files_elsewhere_can_still_be_read() {
    let home = home_with_demo();
    let bad = file(&home, "home-file", "not a directory");
    assert_snapshot!(on_home(&home, bad.as_os_str()), @r#"
    ls
    error: the home `[user]/home-file` is not a directory
    hint: name a directory that you can write to with --home or OFFSHOOT_HOME

    show nobody
    error: the home `[user]/home-file` is not a directory
    hint: name a directory that you can write to with --home or OFFSHOOT_HOME

    fork demo.jsonl
    error: the home `[user]/home-file` is not a directory
    hint: name a directory that you can write to with --home or OFFSHOOT_HOME

    run --replay answer.jsonl Go.
    error: the home `[user]/home-file` is not a directory
    hint: name a directory that you can write to with --home or OFFSHOOT_HOME

    demo
    error: the home `[user]/home-file` is not a directory
    hint: name a directory that you can write to with --home or OFFSHOOT_HOME
    "#);
    assert_eq!(fs::read(&bad).unwrap(), b"not a directory");

    let read = |args: &[&str]| {
        Command::new(BINARY)
            .args(args)
            .env("OFFSHOOT_HOME", &bad)
            .current_dir(home.user_path())
            .output()
            .unwrap()
    };
    assert_eq!(read(&["show", "demo.jsonl"]).status.code(), Some(0));
    let checked = read(&["check", "--json", "demo.jsonl", "nobody", "answer.jsonl"]);
    let verdicts: Value = serde_json::from_slice(&checked.stdout).unwrap();
    let statuses: Vec<_> = verdicts
        .as_array()
        .unwrap()
        .iter()
        .map(|verdict| &verdict["status"])
        .collect();
    assert_eq!(statuses, ["ok", "unreadable", "ok"]);
}

#[test]
fn a_home_that_cannot_be_made_is_named() {
    let home = home_with_demo();
    let parent = home.user_path().join("closed");
    fs::create_dir(&parent).unwrap();
    fs::set_permissions(&parent, fs::Permissions::from_mode(0o555)).unwrap();
    let probe = parent.join("probe");
    if fs::create_dir(&probe).is_ok() {
        // Whoever may write everywhere cannot see this fail.
        fs::remove_dir(&probe).unwrap();
        return;
    }
    let bad = parent.join("home");
    let output = Command::new(BINARY)
        .arg("--home")
        .arg(&bad)
        .args(["fork", "demo.jsonl"])
        .current_dir(home.user_path())
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(1));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(
        said.starts_with(&format!(
            "error: could not create the home `{}`: ",
            bad.display()
        )),
        "{said}"
    );
    assert!(
        said.contains("\nhint: name a directory that you can write to"),
        "{said}"
    );
}

#[test]
fn a_home_whose_sessions_cannot_be_stored_is_named_and_stays_as_it_is() {
    let home = home_with_demo();
    #[expect(clippy::disallowed_methods, reason = "an input of a test is no log")]
    fs::write(home.path().join("sessions"), "not a directory").unwrap();
    assert_snapshot!(said(&home, 1, &[
        &["ls"],
        &["show", "nobody"],
        &["fork", "demo.jsonl"],
        &["run", "--replay", "answer.jsonl", "Go."],
    ]), @r#"
    "ls"
    error: could not list `[home]/sessions`: Not a directory (os error 20)

    "show" "nobody"
    error: could not list `[home]/sessions`: Not a directory (os error 20)

    "fork" "demo.jsonl"
    error: could not list `[home]/sessions`: Not a directory (os error 20)

    "run" "--replay" "answer.jsonl" "Go."
    error: could not list `[home]/sessions`: Not a directory (os error 20)
    "#);
}

#[test]
fn an_empty_variable_counts_as_none() {
    let home = home_with_demo();
    let output = Command::new(BINARY)
        .arg("ls")
        .env("OFFSHOOT_HOME", " ")
        .env("HOME", home.user_path())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(
        said.starts_with(&format!(
            "no sessions in `{}/.offshoot`\n",
            home.user_path().display()
        )),
        "{said}"
    );
    assert!(!home.user_path().join(".offshoot").exists());
    let output = offshoot(&home)
        .env("OFFSHOOT_MODEL", "")
        .env("OPENAI_API_KEY", "")
        .args(["run", "Go."])
        .run();
    assert!(
        output
            .stderr_text()
            .starts_with("error: no model provider is configured\n"),
        "{output}"
    );
}

#[test]
fn a_file_name_need_not_be_text_but_an_id_must() {
    let home = TestHome::new();
    let name = OsStr::from_bytes(b"caf\xe9.jsonl");
    #[expect(clippy::disallowed_methods, reason = "an input of a test is no log")]
    fs::write(home.user_path().join(name), fs::read(demo()).unwrap()).unwrap();
    for args in [
        vec!["show".as_ref(), name],
        vec!["check".as_ref(), name],
        vec!["fork".as_ref(), name],
    ] {
        drop(run(&home, args).success());
    }
    let output = run(
        &home,
        [
            "run".as_ref(),
            "--session".as_ref(),
            OsStr::from_bytes(b"\xff"),
            "Go.".as_ref(),
        ],
    );
    assert_eq!(output.code(), Some(2), "{output}");
}

#[test]
fn whoever_reads_only_the_beginning_is_no_error_and_the_exit_code_stays_true() {
    let home = home_with_demo();
    file(&home, "bad.jsonl", "{}\n");
    for (args, code) in [
        (vec!["show", "demo.jsonl"], 0),
        (vec!["show", "demo.jsonl", "--json"], 0),
        (vec!["ls"], 0),
        (vec!["check", "demo.jsonl"], 0),
        (vec!["check", "bad.jsonl"], 1),
        (vec!["--help"], 0),
        (vec!["run", "--replay", "answer.jsonl", "Go."], 0),
        (vec!["run", "--replay", "answer.jsonl", "--json", "Go."], 0),
    ] {
        let mut child = Command::new(BINARY)
            .arg("--home")
            .arg(home.path())
            .args(&args)
            .current_dir(home.user_path())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        drop(child.stdout.take());
        let output = child.wait_with_output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{args:?}: {said}");
        assert!(!said.contains("error"), "{args:?}: {said}");
    }
}

#[test]
fn output_that_cannot_be_written_is_an_error() {
    let home = home_with_demo();
    let Ok(full) = fs::OpenOptions::new().write(true).open("/dev/full") else {
        return;
    };
    let output = Command::new(BINARY)
        .args(["show", "demo.jsonl"])
        .current_dir(home.user_path())
        .stdout(full)
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(1));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(
        said.starts_with("error: could not write the output: "),
        "{said}"
    );
}
