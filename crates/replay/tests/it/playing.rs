//! How answers are given: with pauses, halts, failures and ends that nobody has written.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt as _;
use offshoot_agent::{Cancel, CancelCause, TurnEndReason};
use offshoot_model::{Chunk, Failure, FinishReason, Model};
use offshoot_replay::{Problem, Replaying, Scripts, SessionKey, Waiting};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::runs::{Run, ask, entry, lines, question, text, written};

/// A session whose answers are these, in a directory of its own.
fn playing(entries: &Value) -> (TempDir, Scripts, Arc<dyn Model>) {
    let dir = tempfile::tempdir().unwrap();
    let replaying = Replaying {
        provider: "acme".into(),
        workspace: dir.path().to_owned(),
        ..Replaying::default()
    };
    let scripts = Scripts::new(vec![written("main", entries)], replaying).unwrap();
    let model = scripts.bind(SessionKey::named("main"), &"live".into());
    (dir, scripts, model)
}

async fn all(model: &dyn Model) -> Vec<Chunk> {
    let stream = model.stream(question(), CancellationToken::new());
    stream.collect().await
}

fn with(mut entry: Value, members: &Value) -> Value {
    let members = members.as_object().unwrap().clone();
    entry.as_object_mut().unwrap().extend(members);
    entry
}

fn is_aborted(chunk: Option<&Chunk>) -> bool {
    matches!(
        chunk,
        Some(Chunk::Finish {
            reason: FinishReason::Aborted { .. },
            ..
        })
    )
}

#[tokio::test]
async fn calls_are_answered_in_the_order_in_which_they_are_made_whoever_listens_first() {
    let (_dir, _scripts, model) = playing(&json!([entry("One."), entry("Two.")]));
    let first = model.stream(question(), CancellationToken::new());
    let second = model.stream(question(), CancellationToken::new());
    assert_eq!(second.collect::<Vec<_>>().await, text("Two."));
    assert_eq!(first.collect::<Vec<_>>().await, text("One."));
}

#[tokio::test]
async fn an_answer_that_throws_gives_its_chunks_and_then_the_failure() {
    let begun = text("One.")[..2].to_vec();
    let throws = json!({"kind": "throw", "chunks": begun, "code": "SERVER", "message": "gone", "status": 500});
    let (_dir, _scripts, model) = playing(&json!([throws]));
    let mut failure = Failure::new("SERVER", "gone");
    failure.status = Some(500);
    let failed = Chunk::failed(failure);
    assert_eq!(all(&*model).await, [begun, vec![failed]].concat());
}

#[tokio::test(start_paused = true)]
async fn a_paced_answer_takes_its_time_before_each_chunk() {
    let paced = with(entry("One."), &json!({"paceMs": 200}));
    let (_dir, _scripts, model) = playing(&json!([paced]));
    let begun = Instant::now();
    assert_eq!(all(&*model).await, text("One."));
    assert_eq!(begun.elapsed(), Duration::from_millis(600));
}

#[tokio::test(start_paused = true)]
async fn a_paced_answer_that_is_cancelled_ends_at_once() {
    let paced = with(entry("One."), &json!({"paceMs": 60_000}));
    let (_dir, _scripts, model) = playing(&json!([paced]));
    let cancel = CancellationToken::new();
    let stream = model.stream(question(), cancel.clone());
    let begun = Instant::now();
    let (given, ()) = tokio::join!(stream.collect::<Vec<_>>(), async {
        tokio::time::sleep(Duration::from_millis(90_000)).await;
        cancel.cancel();
    });
    assert_eq!(given.len(), 2, "{given:?}");
    assert!(is_aborted(given.last()), "{given:?}");
    assert_eq!(begun.elapsed(), Duration::from_millis(90_000));
}

#[tokio::test]
async fn a_held_answer_says_that_it_waits_and_goes_on_when_the_file_is_there() {
    let held = json!({"holdUntil": "go", "holdAfter": 1, "readyFile": "held"});
    let (dir, scripts, model) = playing_held(&held);
    let mut stream = model.stream(question(), CancellationToken::new());
    assert_eq!(stream.next().await.as_ref(), text("One.").first());
    assert!(!dir.path().join("held").exists());
    let (rest, ()) = tokio::join!(stream.by_ref().collect::<Vec<_>>(), async {
        while !dir.path().join("held").exists() {
            tokio::task::yield_now().await;
        }
        let waiting = Waiting {
            session: "main".into(),
            call: 1,
            file: "go".into(),
        };
        assert_eq!(scripts.waiting(), [waiting]);
        appear(&dir.path().join("go"));
    });
    assert_eq!(rest, text("One.")[1..]);
    assert_eq!(scripts.waiting(), []);
}

fn playing_held(members: &Value) -> (TempDir, Scripts, Arc<dyn Model>) {
    playing(&json!([with(entry("One."), members)]))
}

fn appear(path: &Path) {
    drop(
        std::fs::OpenOptions::new()
            .write(true)
            .create_new(true)
            .open(path)
            .unwrap(),
    );
}

#[tokio::test]
async fn a_held_answer_that_is_cancelled_ends_and_waits_no_more() {
    let (dir, scripts, model) = playing_held(&json!({"holdUntil": "go", "readyFile": "held"}));
    let cancel = CancellationToken::new();
    let stream = model.stream(question(), cancel.clone());
    let (given, ()) = tokio::join!(stream.collect::<Vec<_>>(), async {
        while !dir.path().join("held").exists() {
            tokio::task::yield_now().await;
        }
        cancel.cancel();
    });
    assert_eq!(given.len(), 1);
    assert!(is_aborted(given.last()), "{given:?}");
    assert_eq!(scripts.waiting(), []);
}

#[tokio::test]
async fn an_answer_that_nobody_listens_to_any_more_waits_no_more() {
    let (_dir, scripts, model) = playing_held(&json!({"holdUntil": "go"}));
    let mut stream = model.stream(question(), CancellationToken::new());
    tokio::select! {
        biased;
        chunk = stream.next() => panic!("{chunk:?}"),
        () = tokio::task::yield_now() => {}
    }
    assert_eq!(scripts.waiting().len(), 1);
    drop(stream);
    assert_eq!(scripts.waiting(), []);
}

#[tokio::test]
async fn a_file_that_cannot_appear_fails_the_call_and_is_a_problem() {
    let (_dir, scripts, model) = playing(&json!([{"kind": "hang", "readyFile": "no/such/place"}]));
    let given = all(&*model).await;
    let [problem @ Problem::Unready { .. }] = &scripts.problems()[..] else {
        panic!("{:?}", scripts.problems());
    };
    let failed = Chunk::failed(Failure::new("READY_FILE", problem.to_string()));
    assert_eq!(given.last(), Some(&failed));
}

#[tokio::test]
async fn a_turn_whose_model_hangs_is_cancelled_when_its_file_is_there() {
    let hangs = json!([{"kind": "hang", "readyFile": "hanging"}, entry("Again.")]);
    let (dir, scripts, model) = playing(&hangs);
    let run = Run::new("live");
    let mut driver = run.driver(run.create("/srv/demo"), model);
    driver.submit("First.").unwrap();
    let cancel = Cancel::new();
    let (reports, ()) = tokio::join!(driver.run(&cancel), async {
        while !dir.path().join("hanging").exists() {
            tokio::task::yield_now().await;
        }
        cancel.cancel(CancelCause::User);
    });
    let aborted = TurnEndReason::Aborted {
        reason: CancelCause::User,
    };
    let reports = reports.unwrap();
    assert_eq!(reports[0].reason, aborted);
    assert_eq!(reports[0].text, "partial");
    ask(&mut driver, "Second.").await;
    assert_eq!(scripts.unconsumed(), []);
}

#[tokio::test]
async fn a_call_too_many_fails_its_turn_and_is_a_problem() {
    let (_dir, scripts, model) = playing(&json!([entry("One.")]));
    let run = Run::new("live");
    let mut driver = run.driver(run.create("/srv/demo"), model);
    ask(&mut driver, "First.").await;
    driver.submit("Second.").unwrap();
    let reports = driver.run(&Cancel::new()).await.unwrap();
    let told = "session `main` requested model call #2, but its script has only 1";
    let TurnEndReason::Error { error } = &reports[0].reason else {
        panic!("{reports:?}");
    };
    assert_eq!((&*error.code, &*error.message), ("SCRIPT_EXHAUSTED", told));
    assert_eq!(lines(&scripts.problems()), [told]);
}
