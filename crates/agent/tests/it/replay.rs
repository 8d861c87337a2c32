//! A recorded session runs again as a script and writes the same events.

use std::sync::Arc;
use std::time::Duration;

use offshoot_agent::{
    Asked, RecordedCall, ReplayError, derive_script, recorded_calls, script_from,
};
use offshoot_model::{Attempt, Chunk, RetryPolicy, ScriptModel};
use offshoot_session::{EventLog, LogOffset, Seq, Session};
use offshoot_test_support::{Reply, ScriptedModelServer};

use crate::bench::{Bench, NOW, ask, over_http, script};
use crate::crowd::{WINDOW, fails, first_question, too_long, two_turns};
use crate::support::says;

fn rows(log: &EventLog) -> Vec<String> {
    log.events().map(|event| event.text().to_owned()).collect()
}

fn session(bench: &Bench, id: &offshoot_session::SessionId) -> Session {
    bench.read(id).stored.balanced(NOW).unwrap()
}

/// What a session's own events make its model say.
fn attempts(session: &Session) -> Vec<Attempt> {
    let calls = derive_script(session).unwrap();
    calls.into_iter().map(|call| call.attempt).collect()
}

const PROMPTS: [&str; 3] = ["Do both.", "This fails.", "Again."];

#[tokio::test]
async fn the_same_prompts_give_the_same_log() {
    let recorded = Bench::new();
    let server = ScriptedModelServer::start([
        Reply::text_then_tool_calls("Both.", [("a", "look", "{}"), ("a", "change", "{}")]),
        Reply::reasoning_then_text("Hm.", "Done."),
        Reply::text("Breaks off").disconnect_after(2),
        Reply::text("Here."),
    ]);
    let mut agent = recorded.agent(recorded.create(), over_http(&server));
    for prompt in PROMPTS {
        ask(&mut agent, prompt).await;
    }
    let id = agent.session().id().clone();
    let script = attempts(&session(&recorded, &id));
    assert_eq!(script.len(), 4);

    let again = Bench::new();
    let model = Arc::new(ScriptModel::new("acme", script));
    let mut agent = again.agent(again.create(), Arc::clone(&model) as _);
    for prompt in PROMPTS {
        ask(&mut agent, prompt).await;
    }
    // With a clock that stands and ids that count, ids and times are the same too.
    assert_eq!(rows(&again.log(&id)), rows(&recorded.log(&id)));
    assert_eq!(model.remaining(), 0);
    server.finish();
}

/// What comes of a conversation whose third turn finds its context full.
async fn crowded(attempts: Vec<Attempt>) -> (Bench, Session) {
    let retry = RetryPolicy {
        initial: Duration::ZERO,
        ..RetryPolicy::default()
    };
    let model = ScriptModel::new("acme", attempts).with_context_window(WINDOW);
    let model = Arc::new(model.with_retries(retry));
    let bench = Bench::new();
    let mut agent = bench.agent(bench.create(), Arc::clone(&model) as _);
    for prompt in [&*first_question(), "Second.", "Third.", "Fourth."] {
        ask(&mut agent, prompt).await;
    }
    assert_eq!(model.remaining(), 0);
    let session = session(&bench, agent.session().id());
    (bench, session)
}

#[tokio::test]
async fn compactions_and_retries_replay_as_they_were_whatever_came_of_them() {
    let rests = [
        vec![says("In short."), says("Three."), says("Four.")],
        vec![
            says("In short."),
            fails("SERVER"),
            fails("RATE_LIMIT"),
            says("Three."),
            says("Four."),
        ],
        // It is tried once in a turn, and once more in the next.
        vec![
            fails("AUTH"),
            says("Three."),
            says("In short."),
            says("Four."),
        ],
        vec![
            says("In short."),
            says("Three."),
            too_long(),
            says("Shorter."),
            says("Four."),
        ],
    ];
    for (number, rest) in rests.into_iter().enumerate() {
        let said: Vec<_> = two_turns().into_iter().chain(rest).collect();
        let (_recorded, session) = crowded(said.clone()).await;
        let script = attempts(&session);
        assert_eq!(script.len(), said.len(), "{number}");
        let (_again, replayed) = crowded(script).await;
        assert_eq!(rows(replayed.log()), rows(session.log()), "{number}");
    }
}

#[tokio::test]
async fn a_fork_replays_its_own_part_and_not_its_parents() {
    let bench = Bench::new();
    let mut agent = bench.scripted(vec![says("One."), says("Two.")]);
    ask(&mut agent, "First.").await;
    ask(&mut agent, "Second.").await;
    let source = bench.read(agent.session().id());
    let fork = bench
        .service
        .prepare_fork(&source, None, Some("child".into()))
        .unwrap();
    let attached = bench.service.store_fork(&fork).unwrap();
    let mut child = bench.agent(attached, script(vec![says("Three.")]));
    ask(&mut child, "Third.").await;
    let child = session(&bench, &"child".into());
    assert_eq!(attempts(&child), [says("Three.")]);
    assert_eq!(
        script_from(child.log(), LogOffset::START).unwrap(),
        [says("One."), says("Two."), says("Three.")]
    );
}

/// A conversation whose first answer is cut off after these chunks, and which then goes on.
async fn cut_off(begun: Vec<Chunk>) -> (Bench, Session) {
    let bench = Bench::new();
    let cancel = offshoot_agent::Cancel::new();
    let model = script(vec![Attempt::Hang { chunks: begun }, says("Here.")]);
    let mut agent = bench.agent(bench.create(), Arc::clone(&model) as _);
    agent.submit("First.").unwrap();
    let (done, ()) = tokio::join!(agent.run(&cancel), async {
        while model.requests().is_empty() {
            tokio::task::yield_now().await;
        }
        cancel.cancel(offshoot_agent::CancelCause::User);
    });
    done.unwrap();
    ask(&mut agent, "Second.").await;
    let session = session(&bench, agent.session().id());
    (bench, session)
}

fn begun() -> Vec<Chunk> {
    vec![Chunk::TextDelta {
        index: 0,
        text: "I beg".into(),
    }]
}

fn closes(chunks: Vec<Chunk>) -> Attempt {
    Attempt::Throw {
        chunks,
        message: "the recorded answer of turn 1, step 1 ends here without a finish".into(),
        code: "STREAM_CLOSED".into(),
    }
}

#[tokio::test]
async fn an_answer_that_was_cut_off_is_an_error_that_names_its_event_and_what_to_write() {
    for chunks in [begun(), Vec::new()] {
        let (_bench, session) = cut_off(chunks).await;
        let error = derive_script(&session).unwrap_err();
        let seq = error.seq();
        let unfinished = ReplayError::Unfinished {
            seq,
            turn: 1,
            step: 1,
            at: 0,
        };
        assert_eq!(error, unfinished);
        let event = session.log().get(seq).unwrap();
        assert!(event.kind().as_str().starts_with("assistant/"), "{event:?}");
        assert_eq!(error.code(), "REPLAY_UNFINISHED");
        insta::allow_duplicates! {
            insta::assert_snapshot!(
                format!("{error}\nhint: {}", error.hint().unwrap()).replace(&format!("event {seq}:"), "event N:")
            );
        }
    }
}

#[tokio::test]
async fn whoever_only_goes_on_gets_an_answer_that_was_cut_off_as_a_stream_that_closes() {
    for chunks in [begun(), Vec::new()] {
        let (_bench, session) = cut_off(chunks.clone()).await;
        assert_eq!(
            script_from(session.log(), LogOffset::START).unwrap(),
            [closes(chunks), says("Here.")]
        );
    }
}

#[tokio::test]
async fn every_call_knows_the_event_that_it_comes_from_and_what_was_asked() {
    let retried = vec![fails("SERVER"), says("Three."), says("Four.")];
    let attempts = two_turns().into_iter().chain([says("In short.")]);
    let (_bench, session) = crowded(attempts.chain(retried).collect()).await;
    let calls = recorded_calls(session.log(), LogOffset::START).unwrap();
    let named: Vec<_> = calls
        .iter()
        .map(|RecordedCall { seq, asked, .. }| {
            (
                session.log().get(*seq).unwrap().kind().as_str().to_owned(),
                *asked,
            )
        })
        .collect();
    let message = |turn| {
        (
            "assistant/message".to_owned(),
            Asked::Answer { turn, step: 1 },
        )
    };
    assert_eq!(
        named,
        [
            message(1),
            message(2),
            ("compaction/summary".to_owned(), Asked::Summary),
            (
                "assistant/attempt".to_owned(),
                Asked::Answer { turn: 3, step: 1 }
            ),
            message(3),
            message(4),
        ]
    );
    let seqs: Vec<Seq> = calls.iter().map(|call| call.seq).collect();
    assert!(seqs.is_sorted(), "{seqs:?}");
}

#[tokio::test]
async fn a_stream_that_cannot_be_read_is_named() {
    use offshoot_session::{EventDraft, EventKind};
    use serde_json::json;

    let bench = Bench::new();
    let agent = bench.scripted(Vec::new());
    let at = json!({"turn": 1, "step": 1});
    let attempt = json!({"turn": 1, "step": 1, "stream": [{"type": "odd"}]});
    for (kind, data) in [
        (EventKind::TurnStart, json!({"turn": 1})),
        (EventKind::StepStart, at),
        (EventKind::AssistantAttempt, attempt),
    ] {
        let draft = EventDraft::log_only(kind, &data).unwrap();
        agent.session().append(draft, NOW).unwrap();
    }
    let error = script_from(&agent.session().log(), LogOffset::START).unwrap_err();
    let text = error.to_string();
    assert!(
        text.starts_with("event 2: the recorded stream cannot be read:"),
        "{text}"
    );
}
