//! The headline: a conversation is forked in the middle of a tool call, and the child goes on over real HTTP.

use std::fs;

use offshoot_agent::{build_request, request_at};
use offshoot_model::encode_messages;
use offshoot_session::{Body, EventKind, EventLog, SessionId};
use offshoot_test_support::{Reply, ScriptedModelServer, corpus};
use serde_json::{Value, json};

use crate::bench::{Bench, DIALECT, ask, over_http};
use crate::prefix::elements;
use crate::support::{all, data, first};

const UNKNOWN: &str = "This conversation was branched off while the tool call was running. The inherited history shows \
    that the call was started, but not how it ended: the original conversation may have completed it after the branch \
    point. Repeat it only if it reads without changing anything or can safely run twice. Otherwise check the current \
    state first, or ask the user.";
const NOT_STARTED: &str = "This conversation was branched off before the tool call was recorded as started. It did not \
    run in this branch, but the original conversation may have run it after the branch point. Repeat it only if it reads \
    without changing anything or can safely run twice. Otherwise check the current state first, or ask the user.";

#[tokio::test]
async fn a_recorded_dsh_session_forks_in_the_middle_of_a_tool_call_and_goes_on() {
    let Some(corpus) = corpus::corpus_dir() else {
        return corpus::skip_notice(
            "a_recorded_dsh_session_forks_in_the_middle_of_a_tool_call_and_goes_on",
        );
    };
    let file = corpus.join("v4-completed/session-snapshots__parallel-tool-calls__session.jsonl");
    forks_at_its_first_call_and_goes_on(&fs::read(file).unwrap()).await;
}

#[tokio::test]
async fn our_own_recording_forks_in_the_middle_of_a_tool_call_and_goes_on() {
    forks_at_its_first_call_and_goes_on(include_bytes!("../fixtures/two-call-step.jsonl")).await;
}

/// `recorded` has a first step with two calls, and both are started before either has its result.
async fn forks_at_its_first_call_and_goes_on(recorded: &[u8]) {
    let bench = Bench::new();
    let parent = bench.import(recorded);
    let source = bench.read(&parent);
    let log = &source.stored.log;
    let boundary = first(log, &EventKind::ToolCall);
    let cut = boundary.seq();
    let [a, b] = calls_of(log);

    let child = SessionId::new("child");
    let fork = bench
        .service
        .prepare_fork(&source, Some(cut), Some(child.clone()))
        .unwrap();
    let header = (&fork.header.parent, fork.header.is_seeded, &fork.header.cwd);
    assert_eq!(
        header,
        (&Some(parent.clone()), true, &source.stored.header.cwd)
    );
    assert_eq!(fork.seed.inherited_event_count(), cut.after());
    let closers: Vec<Value> = fork
        .seed
        .closers()
        .map(|event| serde_json::from_str(event.text()).unwrap())
        .collect();
    assert_eq!(
        json!(closers),
        json!(expected_closers(cut.get(), boundary.time(), &a, &b))
    );

    let attached = bench.service.store_fork(&fork).unwrap();
    let stored = bench.read(&child).stored;
    assert_eq!(stored.inherited, cut.after());
    let rows = |log: &EventLog| {
        log.events()
            .map(|event| event.text().to_owned())
            .collect::<Vec<_>>()
    };
    assert_eq!(rows(&stored.log), rows(fork.seed.log()));
    assert_eq!(
        rows(&stored.log)[..=cut.get() as usize],
        rows(log)[..=cut.get() as usize]
    );

    // The child goes on.
    let server = ScriptedModelServer::start([Reply::text("Then I shall look again.")]);
    let mut agent = bench.agent(attached, over_http(&server));
    let reports = ask(&mut agent, "Go on from there.").await;
    assert_eq!(
        (reports[0].turn, &*reports[0].text),
        (2, "Then I shall look again.")
    );
    let continued = bench.log(&child);
    let own: Vec<_> = continued.events_from(cut.after()).collect();
    let header = own
        .iter()
        .find(|event| *event.kind() == EventKind::RequestHeader);
    assert_eq!(data(header.unwrap())["reason"], "resume");

    // What the model saw: exactly what it had seen, then the calls and how they ended here, then the new prompt.
    let captured = &server.requests()[0];
    let sent = elements(&captured.body);
    let (_, request) = request_at(log, &parent, 1).unwrap();
    let seen = array(&encode_messages(&request.messages, &DIALECT));
    assert_eq!(sent[..seen.len()], seen);
    let surface = build_request(&log.prefix(cut.after()), &parent)
        .unwrap()
        .messages;
    let surface = array(&encode_messages(&surface, &DIALECT));
    assert_eq!(sent[..surface.len()], surface);
    let rest: Vec<Value> = sent[surface.len()..]
        .iter()
        .map(|element| serde_json::from_str(element).unwrap())
        .collect();
    assert_eq!(
        rest[..3],
        [
            json!({"role": "tool", "tool_call_id": a, "content": UNKNOWN}),
            json!({"role": "tool", "tool_call_id": b, "content": NOT_STARTED}),
            json!({"role": "user", "content": "Go on from there."}),
        ]
    );
    let of_a_crash = log.prefix(cut.after()).interrupted_closers();
    let of_a_crash: Vec<_> = of_a_crash
        .iter()
        .take(2)
        .map(|closer| data(closer)["message"]["content"][0]["text"].clone())
        .collect();
    for text in [
        String::from_utf8(captured.body.to_vec()).unwrap(),
        rows(&continued).join("\n"),
    ] {
        assert!(text.contains(UNKNOWN) && text.contains(NOT_STARTED));
        for wording in &of_a_crash {
            assert!(
                !text.contains(wording.as_str().unwrap()),
                "the wording of a crash"
            );
        }
    }
    // A file of another process would say the same.
    let attempts = all(&continued, &EventKind::AssistantMessage).len();
    let (_, request) = request_at(&continued, &child, attempts).unwrap();
    assert_eq!(
        offshoot_model::encode_request(&request, &DIALECT),
        captured.body
    );

    assert!(bench.work.done().is_empty(), "nothing ran again");
    assert_eq!(bench.bytes(&parent), recorded);
    server.finish();
}

fn calls_of(log: &EventLog) -> [String; 2] {
    let asked = first(log, &EventKind::AssistantMessage);
    let Body::AssistantMessage { calls, .. } = asked.body() else {
        panic!("{asked:?}");
    };
    let ids: Vec<_> = calls.iter().map(|call| call.id.to_string()).collect();
    ids.try_into().unwrap()
}

fn array(messages: &[u8]) -> Vec<String> {
    elements(format!(r#"{{"messages":{}}}"#, String::from_utf8_lossy(messages)).as_bytes())
}

fn expected_closers(cut: u64, time: i64, a: &str, b: &str) -> Vec<Value> {
    let result = |seq: u64, call: &str, name: &str, code: &str, text: &str| {
        json!({
            "type": "tool/result", "seq": seq, "time": time,
            "data": {
                "turn": 1, "step": 1,
                "message": {
                    "id": format!("forked-tool-result-{call}-{seq}"),
                    "role": "tool", "toolCallId": call, "isError": true,
                    "source": {"kind": "tool", "callId": call},
                    "content": [{"type": "text", "text": text}],
                },
                "error": {"name": name, "code": code},
            },
            "surfaceOp": "append",
        })
    };
    let mut unknown = result(
        cut + 2,
        a,
        "ToolOutcomeUnknownError",
        "TOOL_OUTCOME_UNKNOWN",
        UNKNOWN,
    );
    unknown["sourceEventSeqs"] = json!([cut]);
    let not_started = result(
        cut + 3,
        b,
        "ToolNotStartedError",
        "TOOL_NOT_STARTED",
        NOT_STARTED,
    );
    let row = |kind: &str, seq: u64, data: Value| json!({"type": kind, "seq": seq, "time": time, "data": data});
    vec![
        row("session/end-seed", cut + 1, json!({"inherited": true})),
        unknown,
        not_started,
        row("step/end", cut + 4, json!({"turn": 1, "step": 1})),
        row(
            "turn/end",
            cut + 5,
            json!({"turn": 1, "reason": {"kind": "forked"}}),
        ),
    ]
}

/// The fixture is what this driver writes. `OFFSHOOT_UPDATE_FIXTURES=1` writes it anew.
#[tokio::test]
async fn the_recording_is_what_the_driver_writes_today() {
    let bench = Bench::new();
    let server = ScriptedModelServer::start([
        Reply::text_then_tool_calls(
            "I look at both.",
            [("call_a", "look", "{}"), ("call_b", "look", "{}")],
        ),
        Reply::text("Both are fine."),
    ]);
    let mut agent = bench.agent(bench.create(), over_http(&server));
    ask(&mut agent, "Look at both, please.").await;
    let written = bench.bytes(agent.session().id());
    let fixture = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/tests/fixtures/two-call-step.jsonl"
    );
    if std::env::var_os("OFFSHOOT_UPDATE_FIXTURES").is_some() {
        #[expect(clippy::disallowed_methods, reason = "a fixture need not be durable")]
        fs::write(fixture, &written).unwrap();
    }
    assert_eq!(
        String::from_utf8(written).unwrap(),
        fs::read_to_string(fixture).unwrap()
    );
    server.finish();
}
