//! What overrides say, and what is wrong with those that say it badly.

use std::path::Path;
use std::time::Duration;

use offshoot_model::{Attempt, Chunk, Failure, ScriptModel};
use offshoot_replay::{End, Entry, Hold, Overrides, Script, ScriptError};
use serde_json::{Value, json};

use crate::runs::{Run, ask, entry, overrides, says, text, written};

/// A recording of these answers, one a turn.
async fn recording(answers: Vec<Attempt>) -> offshoot_format::StoredSession {
    let run = Run::new("recorded");
    let turns = answers.len();
    let model = std::sync::Arc::new(ScriptModel::new("acme", answers));
    let mut driver = run.driver(run.create("/srv/demo"), model);
    for _ in 0..turns {
        ask(&mut driver, "Go on.").await;
    }
    run.stored(&driver.session().id().clone())
}

async fn with(json: &Value) -> Result<Script, ScriptError> {
    let recording = recording(vec![says("One."), says("Two.")]).await;
    let file = Path::new("sessions/main.jsonl");
    Script::of_recording("main", file, recording, Some(&overrides(json)?))
}

fn said(script: &Script) -> Vec<&[Chunk]> {
    let entries = script.entries().iter();
    entries.map(|entry| entry.chunks.as_slice()).collect()
}

#[tokio::test]
async fn a_list_takes_the_place_of_the_whole_script() {
    let script = with(&json!([entry("Other.")])).await.unwrap();
    assert_eq!(said(&script), [text("Other.")]);
    assert_eq!(script.entries()[0].recorded, None);
}

#[tokio::test]
async fn a_patch_replaces_an_entry_and_one_at_the_end_appends_one() {
    let script = with(&json!({"patches": [
        {"at": 3, "entry": entry("Four.")},
        {"at": 0, "entry": entry("Other.")},
        {"at": 2, "entry": entry("Three.")},
    ]}))
    .await
    .unwrap();
    let all = [text("Other."), text("Two."), text("Three."), text("Four.")];
    assert_eq!(said(&script), all);
    // What is replaced still answers the same request.
    let recorded = script
        .entries()
        .iter()
        .map(|entry| entry.recorded.is_some());
    assert_eq!(recorded.collect::<Vec<_>>(), [true, true, false, false]);
    let is_written = script.entries().iter().map(|entry| entry.is_written);
    assert_eq!(is_written.collect::<Vec<_>>(), [true, false, true, true]);
    let otherwise = script.entries().iter().map(|entry| entry.changes_course);
    assert_eq!(otherwise.collect::<Vec<_>>(), [true, false, true, true]);
}

#[tokio::test]
async fn a_recorded_answer_can_be_held_and_paced_and_stopped_without_being_written_again() {
    let script = with(&json!({"patches": [
        {"at": 0, "entry": {
            "kind": "chunks", "chunks": "recorded", "paceMs": 5, "holdUntil": "go", "holdAfter": 1, "readyFile": "held",
        }},
        {"at": 1, "entry": {
            "kind": "throw", "chunks": "recorded", "code": "SERVER", "message": "gone", "status": 503,
            "providerRetryAfterMs": 20,
        }},
    ]}))
    .await
    .unwrap();
    let [first, second] = script.entries() else {
        panic!("{script:?}");
    };
    let held = Entry {
        chunks: text("One."),
        end: End::Nothing,
        pace: Duration::from_millis(5),
        hold: Some(Hold {
            after: 1,
            until: "go".into(),
        }),
        ready_file: Some("held".into()),
        recorded: first.recorded,
        is_written: true,
        changes_course: false,
    };
    assert_eq!(*first, held);
    let mut failure = Failure::new("SERVER", "gone");
    failure.status = Some(503);
    failure.provider_retry_after_ms = Some(20);
    assert_eq!(second.end, End::Throw(failure));
    let without_finish = &text("Two.")[..2];
    assert_eq!(second.chunks, without_finish);
}

#[test]
fn a_model_that_hangs_has_begun_to_say_something() {
    let script = written("main", &json!([{"kind": "hang"}]));
    let begun = [
        Chunk::BlockStart {
            index: 0,
            block_type: "text".into(),
        },
        Chunk::TextDelta {
            index: 0,
            text: "partial".into(),
        },
    ];
    assert_eq!(script.entries()[0].chunks, begun);
    assert_eq!(script.entries()[0].end, End::Hang);
}

#[tokio::test]
async fn an_answer_that_was_cut_off_needs_an_override_and_the_error_says_which() {
    let cut_off = || async {
        let run = Run::new("recorded");
        let begun = text("One.")[..2].to_vec();
        let hang = Attempt::Hang { chunks: begun };
        let model = std::sync::Arc::new(ScriptModel::new("acme", vec![hang]));
        let mut driver = run.driver(run.create("/srv/demo"), std::sync::Arc::clone(&model) as _);
        driver.submit("First.").unwrap();
        let cancel = offshoot_agent::Cancel::new();
        let (done, ()) = tokio::join!(driver.run(&cancel), async {
            while model.requests().is_empty() {
                tokio::task::yield_now().await;
            }
            cancel.cancel(offshoot_agent::CancelCause::User);
        });
        done.unwrap();
        run.stored(&driver.session().id().clone())
    };
    let file = Path::new("sessions/main.jsonl");
    let error = Script::of_recording("main", file, cut_off().await, None).unwrap_err();
    assert_eq!(error.code(), "REPLAY_UNFINISHED");
    let told = format!("{error}\nhint: {}", error.hint().unwrap());
    insta::assert_snapshot!(told);

    // What the hint says is what helps.
    let hint = error.hint().unwrap();
    let (start, end) = (hint.find('{').unwrap(), hint.rfind('}').unwrap());
    let override_ = Overrides::parse(Path::new("o"), &hint[start..=end]).unwrap();
    let script = Script::of_recording("main", file, cut_off().await, Some(&override_)).unwrap();
    assert_eq!(said(&script), [&text("One.")[..2]]);
    assert_eq!(script.entries()[0].end, End::Hang);
    assert!(!script.entries()[0].changes_course);

    // It has no finish, so it cannot be given as it is.
    let whole = json!({"patches": [{"at": 0, "entry": {"kind": "chunks", "chunks": "recorded"}}]});
    let whole = overrides(&whole).unwrap();
    let error = Script::of_recording("main", file, cut_off().await, Some(&whole)).unwrap_err();
    assert_eq!(error.code(), "INVALID_OVERRIDE");
}

#[tokio::test]
async fn what_is_wrong_is_told_with_the_file_and_the_place_in_it() {
    let good = entry("Good.");
    let finish = json!({"type": "finish", "reason": {"kind": "stop"}});
    let patch = |at: Value| json!({"patches": [{"at": at, "entry": good}]});
    let one = |entry: Value| json!([entry]);
    let wrong = [
        json!("script"),
        json!({}),
        json!({"patches": [], "more": 1}),
        json!({"patches": 1}),
        json!({"patches": [{"at": 0}]}),
        json!({"patches": [{"at": 0, "entry": good, "why": "so"}]}),
        json!({"patches": [{"at": 0, "entry": good}, {"at": 0, "entry": good}]}),
        patch(json!(-1)),
        patch(json!(1.5)),
        patch(json!(9_007_199_254_740_992_u64)),
        patch(json!(3)),
        json!({"patches": [{"at": 2, "entry": {"kind": "chunks", "chunks": "recorded"}}]}),
        one(json!(1)),
        one(json!({"chunks": []})),
        one(json!({"kind": "chunk", "chunks": []})),
        one(json!({"kind": "chunks"})),
        one(json!({"kind": "chunks", "chunks": "recorded"})),
        one(json!({"kind": "chunks", "chunks": {}})),
        one(json!({"kind": "chunks", "chunks": [], "message": "m"})),
        one(json!({"kind": "chunks", "chunks": []})),
        one(json!({"kind": "chunks", "chunks": [{"type": "odd"}]})),
        one(
            json!({"kind": "chunks", "chunks": [{"type": "text-delta", "index": 0, "text": "x"}, finish]}),
        ),
        one(json!({"kind": "throw", "chunks": [], "message": "", "code": "X"})),
        one(json!({"kind": "throw", "chunks": [], "message": "m"})),
        one(json!({"kind": "throw", "chunks": [finish], "message": "m", "code": "X"})),
        one(json!({"kind": "throw", "chunks": [], "message": "m", "code": "X", "status": 99})),
        one(json!({"kind": "hang", "readyFile": ""})),
        one(json!({"kind": "hang", "readyFile": "/tmp/x"})),
        one(json!({"kind": "hang", "readyFile": "../x"})),
        one(json!({"kind": "hang", "holdUntil": "x", "holdAfter": 9})),
        one(json!({"kind": "chunks", "chunks": [finish], "holdAfter": 1})),
        one(json!({"kind": "chunks", "chunks": [finish], "readyFile": "x"})),
        one(json!({"kind": "chunks", "chunks": [finish], "paceMs": -1})),
    ];
    let mut told = String::new();
    for json in wrong {
        let error = with(&json).await.unwrap_err();
        assert_eq!(error.code(), "INVALID_OVERRIDE");
        told.push_str(&format!("{json}\n  {error}\n"));
    }
    let error = Overrides::parse(Path::new("overrides/main.json"), "[").unwrap_err();
    told.push_str(&format!("[\n  {error}\n"));
    insta::assert_snapshot!(told);
}
