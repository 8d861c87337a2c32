//! Attempts that failed and were made again replay as they were recorded, and nobody waits.

use std::sync::Arc;
use std::time::Duration;

use offshoot_model::{Attempt, Model, RetryPolicy, ScriptModel};
use offshoot_replay::SessionKey;
use offshoot_session::{EventKind, EventLog};
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::runs::{Run, ask, entry, fails, recorded, says, scripts, written};

/// What a log says of attempts, retries and ends, with the waits and the policy.
fn course(log: &EventLog) -> Vec<Value> {
    let told = [
        EventKind::AssistantAttempt,
        EventKind::AssistantMessage,
        EventKind::LlmRetry,
        EventKind::LlmRetryStarted,
        EventKind::TurnEnd,
    ];
    let events = log.events().filter(|event| told.contains(event.kind()));
    events
        .map(|event| {
            let mut data: Value = event.parse().unwrap();
            for id in ["retryId", "message"] {
                data.as_object_mut().unwrap().shift_remove(id);
            }
            json!({"type": event.kind().as_str(), "data": data})
        })
        .collect()
}

/// What is asked of these answers, and what comes of it.
async fn run(
    name: &'static str,
    model: Arc<dyn Model>,
    turns: usize,
) -> (Run, EventLog, offshoot_session::SessionId) {
    let run = Run::new(name);
    let mut driver = run.driver(run.create("/srv/demo"), model);
    for _ in 0..turns {
        ask(&mut driver, "Go on.").await;
    }
    let id = driver.session().id().clone();
    let log = run.log(&id);
    (run, log, id)
}

async fn recorded_and_replayed(attempts: Vec<Attempt>, policy: RetryPolicy, turns: usize) {
    let model = ScriptModel::new("acme", attempts).with_retries(policy);
    let (first, log, id) = run("recorded", Arc::new(model), turns).await;
    let scripts = scripts(vec![recorded("main", first.stored(&id))]);
    let model = scripts.bind(SessionKey::named("main"), &"session-live-0".into());
    let begun = Instant::now();
    let (_again, replayed, live) = run("live", model, turns).await;
    assert_eq!(live, "session-live-0".into());
    assert_eq!(begun.elapsed(), Duration::ZERO, "nobody waits");
    assert_eq!(course(&replayed), course(&log));
    assert_eq!(scripts.problems(), []);
    assert_eq!(scripts.unconsumed(), []);
}

fn asked_to_wait() -> Attempt {
    let mut failure = offshoot_model::Failure::new("RATE_LIMIT", "too many");
    failure.provider_retry_after_ms = Some(9_000);
    Attempt::Chunks(vec![offshoot_model::Chunk::failed(failure)])
}

#[tokio::test(start_paused = true)]
async fn a_retry_replays_with_the_waits_that_were_recorded_in_its_log() {
    let attempts = vec![
        fails("SERVER"),
        asked_to_wait(),
        fails("SERVER"),
        says("Here."),
    ];
    recorded_and_replayed(attempts, RetryPolicy::default(), 1).await;
}

#[tokio::test(start_paused = true)]
async fn retries_end_when_they_had_ended() {
    let policy = RetryPolicy {
        max_retries: Some(1),
        initial: Duration::from_millis(40),
        ..RetryPolicy::default()
    };
    let attempts = vec![fails("SERVER"), fails("SERVER"), says("Here.")];
    recorded_and_replayed(attempts, policy, 2).await;
    let attempts = vec![fails("SERVER"), says("One."), fails("AUTH"), says("Two.")];
    recorded_and_replayed(attempts, RetryPolicy::always(), 3).await;
}

#[tokio::test(start_paused = true)]
async fn what_was_not_tried_again_is_not_tried_again() {
    let attempts = vec![fails("SERVER"), says("Here.")];
    recorded_and_replayed(attempts, RetryPolicy::never(), 2).await;
}

#[tokio::test(start_paused = true)]
async fn an_override_that_throws_is_tried_again_as_usual() {
    let throws = json!({"kind": "throw", "chunks": [], "code": "SERVER", "message": "gone"});
    let scripts = scripts(vec![written("main", &json!([throws, entry("Here.")]))]);
    let model = scripts.bind(SessionKey::named("main"), &"session-live-0".into());
    let begun = Instant::now();
    let (_run, log, _) = run("live", model, 1).await;
    assert_eq!(begun.elapsed(), Duration::ZERO);
    let kinds: Vec<_> = course(&log).iter().map(|row| row["type"].clone()).collect();
    assert_eq!(
        kinds,
        [
            "assistant/attempt",
            "llm/retry",
            "llm/retry-started",
            "assistant/message",
            "turn/end"
        ]
    );
}
