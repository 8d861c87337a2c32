//! `offshoot show --follow`: what another process does to a session, as it does it.

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _};
use std::path::PathBuf;
use std::process::{Child, ChildStderr, ChildStdout, Command, Stdio};

use insta::assert_snapshot;
use offshoot_test_support::{Reply, ScriptedModelServer, TestHome};
use serde_json::Value;

use crate::support::{BINARY, Background, Fifo, demo, events, run, seen, session_of, turn, work};

/// `offshoot show … --follow` in a process of its own.
struct Following {
    child: Child,
    stdout: BufReader<ChildStdout>,
    stderr: BufReader<ChildStderr>,
    lines: Vec<String>,
}

impl Following {
    fn start(home: &TestHome, args: &[&str]) -> Self {
        let mut command = Command::new(BINARY);
        command.env_remove("OFFSHOOT_HOME");
        let mut child = command
            .arg("--home")
            .arg(home.path())
            .arg("show")
            .args(args)
            .arg("--follow")
            .env("HOME", home.user_path())
            .current_dir(home.user_path())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let stdout = BufReader::new(child.stdout.take().unwrap());
        let stderr = BufReader::new(child.stderr.take().unwrap());
        Self {
            child,
            stdout,
            stderr,
            lines: Vec::new(),
        }
    }

    /// Reads until a line has this in it, which has to come.
    fn until(&mut self, part: &str) {
        loop {
            let mut line = String::new();
            let read = self.stdout.read_line(&mut line).unwrap();
            assert!(read > 0, "{part}: ended after {:#?}", self.lines);
            let found = line.contains(part);
            self.lines.push(line);
            if found {
                return;
            }
        }
    }

    /// Reads until this event has come.
    fn until_seq(&mut self, event: &Value) {
        let seq = event["seq"].as_u64().unwrap();
        self.until(&format!(r#""seq":{seq},"#));
    }

    /// Sends a signal, and waits for the end: the exit code, all lines, and standard error.
    fn stop(mut self, signal: &str) -> (Option<i32>, Vec<String>, String) {
        let pid = self.child.id().to_string();
        let sent = Command::new("kill").args([signal, &pid]).status().unwrap();
        assert!(sent.success());
        self.finish()
    }

    fn finish(&mut self) -> (Option<i32>, Vec<String>, String) {
        let (mut rest, mut err) = (String::new(), String::new());
        self.stdout.read_to_string(&mut rest).unwrap();
        self.stderr.read_to_string(&mut err).unwrap();
        let code = self.child.wait().unwrap().code();
        assert_eq!(rest, "");
        (code, std::mem::take(&mut self.lines), err)
    }

    /// The next line on standard error.
    fn note(&mut self) -> String {
        let mut line = String::new();
        self.stderr.read_line(&mut line).unwrap();
        line
    }
}

impl Drop for Following {
    fn drop(&mut self) {
        // A test that fails leaves nothing running; the process may be gone already.
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

/// The bundled recording as session `busy`.
fn busy(home: &TestHome) {
    let demo = demo();
    let demo = demo.to_str().unwrap();
    drop(run(home, ["fork", demo, "--id", "busy"]).success());
}

/// Where it is.
fn dir(home: &TestHome) -> PathBuf {
    home.path().join("sessions/--work-demo--/busy")
}

fn stored(home: &TestHome, id: &str) -> Vec<String> {
    let events = events(home, id);
    events.iter().map(|event| format!("{event}\n")).collect()
}

#[test]
fn a_turn_of_another_process_is_shown_as_it_happens_until_ctrl_c() {
    let home = TestHome::new();
    busy(&home);
    let already = stored(&home, "busy");
    let (held, gate) = Reply::text("At last.").hold_head();
    let server = ScriptedModelServer::start([held]);
    let mut following = Following::start(&home, &["busy", "--json"]);
    following.until_seq(&serde_json::from_str(already.last().unwrap()).unwrap());
    let running = Background::turn(&home, &server, &["--session", "busy", "Second."]);
    // While the model is still thinking.
    following.until("Second.");
    following.until(r#""type":"step/start""#);
    gate.release();
    following.until("At last.");
    following.until(r#""type":"turn/end""#);
    assert_eq!(running.finish().0, Some(0));
    let (code, lines, err) = following.stop("-INT");
    assert_eq!((code, err.as_str()), (Some(0), ""));
    let all = stored(&home, "busy");
    assert!(all.len() > already.len());
    assert_eq!(lines.len(), all.len());
    for (line, event) in lines.iter().zip(&all) {
        let line: Value = serde_json::from_str(line).unwrap();
        assert_eq!(format!("{line}\n"), *event);
    }
}

#[test]
fn people_get_the_head_and_the_lines_of_the_ledger() {
    let home = TestHome::new();
    busy(&home);
    let plain = run(&home, ["show", "busy", "--from", "17"]).success();
    let plain = plain.stdout_text();
    let mut following = Following::start(&home, &["busy", "--from", "17"]);
    following.until("session/end-seed");
    let server = ScriptedModelServer::start([Reply::text("Yes.")]);
    drop(
        turn(&home, &server)
            .args(["--session", "busy", "Is it done?"])
            .run()
            .success(),
    );
    following.until("turn 2: completed");
    let (code, lines, err) = following.stop("-TERM");
    assert_eq!((code, err.as_str()), (Some(0), ""));
    let text = lines.concat();
    let more = text
        .strip_prefix(&plain)
        .unwrap_or_else(|| panic!("{text}\n{plain}"));
    assert!(more.contains("assistant/message      Yes."), "{more}");
}

#[test]
fn a_crash_and_the_repair_behind_it_are_followed() {
    let home = TestHome::new();
    let work = work(&home);
    let (started, _hold) = (Fifo::new(&work, "started"), Fifo::new(&work, "hold"));
    let waits = r#"{"command":"echo here > started; cat hold"}"#;
    let server = ScriptedModelServer::start([
        Reply::text("Hello."),
        Reply::text_then_tool_calls("I wait.", [("call_wait", "bash", waits)]),
        Reply::text("I go on."),
    ]);
    let first = turn(&home, &server).args(["--json", "Hello?"]).run();
    let id = session_of(&first.success());
    let mut following = Following::start(&home, &[&id, "--json"]);
    following.until(r#""type":"turn/end""#);
    let running = Background::turn(&home, &server, &["--session", &id, "Wait for me."]);
    assert_eq!(started.read(), "here\n");
    following.until("call_wait");
    running.kill();
    drop(
        turn(&home, &server)
            .args(["--session", &id, "Go on."])
            .run()
            .success(),
    );
    following.until("I go on.");
    following.until(r#""type":"turn/end""#);
    let (code, lines, err) = following.stop("-INT");
    assert_eq!(code, Some(0));
    let notes: Vec<Value> = err
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(notes.len(), 1, "{err}");
    let note = notes[0]["message"].as_str().unwrap();
    assert!(note.contains("was repaired after a crash"), "{note}");
    assert_eq!(lines.len(), stored(&home, &id).len());
}

#[test]
fn a_session_that_is_deleted_and_restored_goes_on_where_it_was() {
    let home = TestHome::new();
    busy(&home);
    let mut following = Following::start(&home, &["busy"]);
    following.until("session/end-seed");
    let dir = dir(&home);
    let away = home.user_path().join("away");
    #[expect(clippy::disallowed_methods, reason = "what deleting a session does")]
    fs::rename(&dir, &away).unwrap();
    assert_eq!(
        following.note(),
        "note: session busy was deleted or moved away; it goes on here if it comes back\n"
    );
    #[expect(clippy::disallowed_methods, reason = "what restoring a session does")]
    fs::rename(&away, &dir).unwrap();
    assert_eq!(following.note(), "note: session busy is back\n");
    let server = ScriptedModelServer::start([Reply::text("Here again.")]);
    drop(
        turn(&home, &server)
            .args(["--session", "busy", "Still there?"])
            .run()
            .success(),
    );
    following.until("Here again.");
    following.until("turn 2: completed");
    let (code, lines, _) = following.stop("-INT");
    assert_eq!(code, Some(0));
    let seqs: Vec<&str> = lines
        .iter()
        .filter(|line| line.starts_with("  "))
        .map(|line| &line[..6])
        .collect();
    let expected: Vec<String> = (0..seqs.len()).map(|seq| format!("{seq:>6}")).collect();
    assert_eq!(seqs, expected);
}

#[test]
fn damage_ends_it_with_its_place() {
    let home = TestHome::new();
    busy(&home);
    let path = dir(&home).join("session.v4.jsonl.zstd");
    let mut following = Following::start(&home, &["busy", "--json"]);
    following.until(r#""type":"session/end-seed""#);
    let mut file = fs::OpenOptions::new().append(true).open(path).unwrap();
    std::io::Write::write_all(&mut file, b"this is no frame").unwrap();
    let (code, _, err) = following.finish();
    let error: Value = serde_json::from_str(&err).unwrap();
    assert_eq!(
        (code, error["code"].as_str()),
        (Some(1), Some("CORRUPT_FRAME"))
    );
}

#[test]
fn what_cannot_be_followed_is_refused() {
    let home = TestHome::new();
    busy(&home);
    assert_snapshot!(seen(&run(&home, ["show", "busy", "--follow", "--messages"])), @r"
    exit code: 2
    ----- stdout -----
    ----- stderr -----
    error: the argument '--follow' cannot be used with '--messages'

    Usage: offshoot show --follow <ID|FILE>

    For more information, try '--help'.
    ");
    for other in [&["--request", "1"][..], &["--stored"], &["--to", "3"]] {
        let args = ["show", "busy", "--follow"];
        let output = run(&home, args.iter().chain(other));
        assert_eq!(output.code(), Some(2), "{output}");
        assert!(
            output.stderr_text().contains("cannot be used with"),
            "{output}"
        );
    }
    let demo = demo();
    let file = run(&home, ["show", demo.to_str().unwrap(), "--follow"]);
    assert_snapshot!(seen(&file), @r"
    exit code: 2
    ----- stdout -----
    ----- stderr -----
    error: --follow needs the id of a session of the home, not a file
    hint: `offshoot ls` shows the sessions that are there
    ");
    assert_snapshot!(seen(&run(&home, ["show", "nobody", "--follow"])), @r"
    exit code: 1
    ----- stdout -----
    ----- stderr -----
    error: session `nobody` was not found in `[home]/sessions`
    hint: `offshoot ls` shows the sessions that are there
    ");
}
