//! A session goes on, and so does a fork of it; what was sent can be shown again by anybody, byte for byte.

use std::fs;

use offshoot_test_support::{CapturedRequest, Reply, ScriptedModelServer, TestHome, corpus};
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::support::{demo, events, json, run, session_of, turn, work};

const FORKED: &str = "This conversation was branched off while the tool call was running.";
const INTERRUPTED: &str = "it was interrupted before a result was recorded";

#[derive(Deserialize)]
struct Body<'a> {
    #[serde(borrow)]
    messages: Vec<&'a RawValue>,
}

/// The body up to the end of its n-th message, exactly.
pub(crate) fn head(request: &CapturedRequest, n: usize) -> &str {
    let text = std::str::from_utf8(&request.body).unwrap();
    let body: Body<'_> = serde_json::from_str(text).unwrap();
    let last = body.messages[n - 1].get();
    let end = last.as_ptr() as usize - text.as_ptr() as usize + last.len();
    &text[..end]
}

pub(crate) fn count(request: &CapturedRequest) -> usize {
    request.messages().len()
}

/// Another process rebuilds each request from the file alone.
pub(crate) fn assert_shown_again(home: &TestHome, id: &str, sent: &[&CapturedRequest]) {
    for (index, request) in sent.iter().enumerate() {
        let n = (index + 1).to_string();
        let shown = run(home, ["show", id, "--request", &n]).success();
        assert!(
            shown.stdout == request.body,
            "request {n} of {id}:\n{shown}"
        );
        assert!(shown.stderr.is_empty(), "{shown}");
    }
    let beyond = (sent.len() + 1).to_string();
    let output = run(home, ["show", id, "--request", &beyond]);
    assert_eq!(output.code(), Some(1), "{output}");
}

#[test]
fn parent_and_fork_send_what_their_logs_say_and_no_call_runs_twice() {
    let home = TestHome::new();
    let counting = r#"{"command":"echo ran >> runs.txt; wc -l < runs.txt"}"#;
    let server = ScriptedModelServer::start([
        Reply::text_then_tool_calls(
            "Twice.",
            [("call_1", "bash", counting), ("call_2", "bash", counting)],
        ),
        Reply::text("Two runs."),
        Reply::text("Still two."),
        Reply::text("I cannot know."),
        Reply::text("Nor can I."),
    ]);
    let parent = session_of(
        &turn(&home, &server)
            .args(["--json", "Count."])
            .run()
            .success(),
    );
    let went_on = turn(&home, &server)
        .args(["--json", "--session", &parent, "And now?"])
        .run()
        .success();
    assert_eq!(session_of(&went_on), parent);

    let stored = events(&home, &parent);
    let cut = stored
        .iter()
        .position(|event| event["type"] == "tool/call")
        .unwrap();
    let before = json(&run(&home, ["ls", "--json"]).success());
    let fork = turn(&home, &server)
        .args([
            "--json",
            "--fork",
            &parent,
            "--at",
            &cut.to_string(),
            "Go on.",
        ])
        .run()
        .success();
    let child = session_of(&fork);
    assert_ne!(child, parent);
    let again = turn(&home, &server)
        .args(["--json", "--session", &child, "Sure?"])
        .run()
        .success();
    assert_eq!(session_of(&again), child);

    // The turn number goes on, and the header says that this is where another process took over.
    let own = events(&home, &child);
    assert_eq!(own[..=cut], stored[..=cut]);
    let turns: Vec<_> = own
        .iter()
        .filter(|event| event["type"] == "turn/start")
        .map(|event| event["data"]["turn"].as_u64())
        .collect();
    assert_eq!(turns, [Some(1), Some(2), Some(3)]);
    let header = own[cut + 1..]
        .iter()
        .find(|event| event["type"] == "request/header")
        .unwrap();
    assert_eq!(header["data"]["reason"], "resume");

    // The parent is as it was.
    assert_eq!(events(&home, &parent), stored);
    let parent_row = |rows: &serde_json::Value| {
        rows.as_array()
            .unwrap()
            .iter()
            .find(|row| row["id"] == *parent)
            .cloned()
    };
    assert_eq!(
        parent_row(&json(&run(&home, ["ls", "--json"]))),
        parent_row(&before)
    );

    let sent = server.requests();
    let [first, second, third, forked, last] = sent.as_slice() else {
        panic!("{} requests", sent.len());
    };
    // System, prompt, place, and the answer that calls: all of it is inherited, byte for byte.
    assert_eq!(head(forked, 4), head(second, 4));
    assert_eq!(head(forked, 3), head(first, 3));
    assert_eq!(head(third, count(second)), head(second, count(second)));
    assert_eq!(head(last, count(forked)), head(forked, count(forked)));
    let text = String::from_utf8_lossy(&forked.body);
    assert!(
        text.contains(FORKED) && !text.contains(INTERRUPTED),
        "{text}"
    );
    assert!(
        !text.contains("Two runs."),
        "what came behind the cut is the parent's"
    );
    assert_eq!(
        fs::read_to_string(work(&home).join("runs.txt")).unwrap(),
        "ran\nran\n"
    );

    assert_shown_again(&home, &parent, &[first, second, third]);
    // The first request of a fork is inherited with the answer that settled it.
    assert_shown_again(&home, &child, &[first, forked, last]);
}

#[test]
fn a_recorded_file_is_forked_and_goes_on_with_another_model() {
    let home = TestHome::new();
    let server = ScriptedModelServer::start([Reply::text("I look first.")]);
    let before = fs::read(demo()).unwrap();
    let output = turn(&home, &server)
        .args([
            "--json",
            "--fork",
            demo().to_str().unwrap(),
            "--at",
            "11",
            "Go on.",
        ])
        .run()
        .success();
    let child = session_of(&output);
    let sent = server.requests();
    let text = String::from_utf8_lossy(&sent[0].body);
    assert!(
        text.contains(FORKED) && !text.contains(INTERRUPTED),
        "{text}"
    );
    assert_eq!(sent[0].json()["model"], "scripted-1");
    assert_eq!(fs::read(demo()).unwrap(), before);
    let shown = run(&home, ["show", &child, "--request", "2"]).success();
    assert_eq!(shown.stdout, sent[0].body);
}

#[test]
fn a_recorded_parallel_call_is_forked_in_the_middle_and_goes_on() {
    let name = "v4-completed/session-snapshots__parallel-tool-calls__session.jsonl";
    let Some(corpus) = corpus::corpus_dir() else {
        return corpus::skip_notice("a_recorded_parallel_call_is_forked_in_the_middle_and_goes_on");
    };
    let recorded = corpus.join(name);
    let recorded = recorded.to_str().unwrap();
    let before = fs::read(recorded).unwrap();
    let home = TestHome::new();
    let shown = json(&run(&home, ["show", recorded, "--json"]).success());
    let rows = shown.as_array().unwrap();
    let cut = rows
        .iter()
        .position(|row| row["type"] == "tool/call")
        .unwrap();

    let at = cut.to_string();
    let args = ["fork", recorded, "--at", &at, "--id", "child", "--json"];
    let report = json(&run(&home, args).success());
    assert_eq!(report["inherited_event_count"], cut + 1);
    let closers = report["closers"].as_array().unwrap();
    let told: Vec<_> = closers
        .iter()
        .map(|closer| {
            (
                closer["type"].as_str().unwrap(),
                closer["data"]["error"]["code"].as_str(),
                closer["sourceEventSeqs"][0].as_u64(),
            )
        })
        .collect();
    assert_eq!(
        told,
        [
            ("session/end-seed", None, None),
            (
                "tool/result",
                Some("TOOL_OUTCOME_UNKNOWN"),
                Some(cut as u64)
            ),
            ("tool/result", Some("TOOL_NOT_STARTED"), None),
            ("step/end", None, None),
            ("turn/end", None, None),
        ]
    );
    assert_eq!(closers[4]["data"]["reason"]["kind"], "forked");
    assert!(
        closers
            .iter()
            .all(|closer| closer["time"] == rows[cut]["time"])
    );
    assert_eq!(events(&home, "child")[..=cut], rows[..=cut]);

    let server = ScriptedModelServer::start([Reply::text("I read them again.")]);
    let output = turn(&home, &server)
        .args(["--json", "--session", "child", "Go on."])
        .run();
    assert_eq!(session_of(&output.success()), "child");
    let own = events(&home, "child");
    let start = own
        .iter()
        .rfind(|event| event["type"] == "turn/start")
        .unwrap();
    assert_eq!(start["data"]["turn"], 2);
    let sent = &server.requests()[0];
    let parent = run(&home, ["show", recorded, "--request", "2"])
        .success()
        .stdout;
    let parent: Body<'_> = serde_json::from_slice(&parent).unwrap();
    let forked: Body<'_> = serde_json::from_slice(&sent.body).unwrap();
    let texts = |body: &Body<'_>| -> Vec<String> {
        body.messages[..4]
            .iter()
            .map(|message| message.get().to_owned())
            .collect()
    };
    assert_eq!(texts(&forked), texts(&parent));
    let text = String::from_utf8_lossy(&sent.body);
    assert!(
        text.contains(FORKED) && !text.contains(INTERRUPTED),
        "{text}"
    );
    assert_eq!(
        run(&home, ["show", "child", "--request", "2"]).stdout,
        sent.body
    );
    assert_eq!(fs::read(recorded).unwrap(), before);
}

#[test]
fn a_session_goes_on_with_the_model_it_used_unless_another_is_named() {
    let home = TestHome::new();
    let server = ScriptedModelServer::start([Reply::text("One.")]);
    server.repeat_last();
    let id = session_of(
        &turn(&home, &server)
            .args(["--json", "--model", "openai/small", "1"])
            .run()
            .success(),
    );
    // Without a word about models: the one in the log.
    let same = turn(&home, &server)
        .env("OFFSHOOT_MODEL", "")
        .args(["--session", &id, "2"])
        .run();
    drop(same.success());
    drop(
        turn(&home, &server)
            .args(["--session", &id, "--model", "openai/large", "3"])
            .run()
            .success(),
    );
    let models: Vec<_> = server
        .requests()
        .iter()
        .map(|sent| sent.json()["model"].clone())
        .collect();
    assert_eq!(models, ["small", "small", "large"]);
}
