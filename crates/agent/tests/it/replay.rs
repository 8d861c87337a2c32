//! A recorded session runs again as a script and writes the same events.

use std::sync::Arc;
use std::time::Duration;

use offshoot_agent::{derive_script, script_from};
use offshoot_model::{Attempt, Chunk, RetryPolicy, ScriptModel};
use offshoot_session::{EventLog, LogOffset, Session};
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
    let script = derive_script(&session(&recorded, &id)).unwrap();
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
        let attempts: Vec<_> = two_turns().into_iter().chain(rest).collect();
        let (_recorded, session) = crowded(attempts.clone()).await;
        let script = derive_script(&session).unwrap();
        assert_eq!(script.len(), attempts.len(), "{number}");
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
    assert_eq!(derive_script(&child).unwrap(), [says("Three.")]);
    assert_eq!(
        script_from(child.log(), LogOffset::START).unwrap(),
        [says("One."), says("Two."), says("Three.")]
    );
}

#[tokio::test]
async fn an_answer_that_was_interrupted_replays_as_far_as_it_came_and_then_fails() {
    let bench = Bench::new();
    let cancel = offshoot_agent::Cancel::new();
    let begun = vec![Chunk::TextDelta {
        index: 0,
        text: "I beg".into(),
    }];
    let hang = Attempt::Hang {
        chunks: begun.clone(),
    };
    let model = script(vec![hang]);
    let mut agent = bench.agent(bench.create(), Arc::clone(&model) as _);
    agent.submit("First.").unwrap();
    let (done, ()) = tokio::join!(agent.run(&cancel), async {
        while model.requests().is_empty() {
            tokio::task::yield_now().await;
        }
        cancel.cancel(offshoot_agent::CancelCause::User);
    });
    done.unwrap();
    let session = session(&bench, agent.session().id());
    let throw = Attempt::Throw {
        chunks: begun,
        message: "the recorded answer of turn 1, step 1 ends here without a finish".into(),
        code: "STREAM_CLOSED".into(),
    };
    assert_eq!(derive_script(&session).unwrap(), [throw]);
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
