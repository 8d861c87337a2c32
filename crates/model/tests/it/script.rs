//! The scripted model.

use std::sync::Arc;

use futures_util::{FutureExt as _, StreamExt as _};
use offshoot_model::{
    Attempt, CallConfig, Chunk, Failure, FinishReason, Message, MessageSource, Model, ModelRequest,
    Role, ScriptModel,
};
use tokio_util::sync::CancellationToken;

fn request(text: &str) -> Arc<ModelRequest> {
    let message = Message::text("m-1", Role::User, text, MessageSource::user());
    Arc::new(ModelRequest {
        messages: vec![message.into()],
        ..ModelRequest::default()
    })
}

fn delta(text: &str) -> Chunk {
    Chunk::TextDelta {
        index: 0,
        text: text.into(),
    }
}

/// All chunks of a call that never waits.
fn answer(model: &ScriptModel, text: &str, cancel: CancellationToken) -> Vec<Chunk> {
    model
        .stream(request(text), cancel)
        .collect()
        .now_or_never()
        .expect("nothing to wait for")
}

#[test]
fn attempts_are_given_in_order_and_requests_are_remembered() {
    let stop = Chunk::finish(FinishReason::Stop);
    let model = ScriptModel::new(
        "demo",
        vec![
            Attempt::Chunks(vec![delta("a"), stop.clone()]),
            Attempt::Throw {
                chunks: vec![delta("b")],
                message: "broken".into(),
                code: "TRANSPORT".into(),
            },
        ],
    )
    .with_context_window(64_000);
    let prepared = model.prepare(&CallConfig::default()).unwrap();
    assert_eq!(
        (model.provider(), prepared.info.context_window),
        ("demo", Some(64_000))
    );
    assert_eq!(model.remaining(), 2);
    assert_eq!(
        answer(&model, "one", CancellationToken::new()),
        [delta("a"), stop]
    );
    assert_eq!(
        answer(&model, "two", CancellationToken::new()),
        [
            delta("b"),
            Chunk::failed(Failure::new("TRANSPORT", "broken"))
        ]
    );
    assert_eq!(model.remaining(), 0);
    assert_eq!(model.requests(), [request("one"), request("two")]);
}

#[test]
fn an_exhausted_script_says_which_call_was_too_many() {
    let model = ScriptModel::new("demo", vec![Attempt::Chunks(vec![])]);
    model.push(Attempt::Chunks(vec![]));
    let calls: Vec<_> = (0..3)
        .map(|_| answer(&model, "again", CancellationToken::new()))
        .collect();
    let failure = Failure::new(
        "SCRIPT_EXHAUSTED",
        "session asked for model call #3 but its script has only 2",
    );
    assert_eq!(calls, [vec![], vec![], vec![Chunk::failed(failure)]]);
    assert_eq!(model.requests().len(), 3);
}

#[test]
fn the_attempt_is_taken_by_the_call_and_not_by_the_first_poll() {
    let model = ScriptModel::new(
        "demo",
        vec![
            Attempt::Chunks(vec![delta("a")]),
            Attempt::Chunks(vec![delta("b")]),
        ],
    );
    let first = model.stream(request("one"), CancellationToken::new());
    assert_eq!(
        answer(&model, "two", CancellationToken::new()),
        [delta("b")]
    );
    assert_eq!(
        first.collect::<Vec<_>>().now_or_never(),
        Some(vec![delta("a")])
    );
}

#[test]
fn a_hanging_attempt_ends_when_it_is_cancelled() {
    let model = ScriptModel::new(
        "demo",
        vec![Attempt::Hang {
            chunks: vec![delta("partial")],
        }],
    );
    let cancel = CancellationToken::new();
    let mut stream = model.stream(request("one"), cancel.clone());
    assert_eq!(stream.next().now_or_never(), Some(Some(delta("partial"))));
    assert_eq!(stream.next().now_or_never(), None, "it waits");
    cancel.cancel();
    assert_eq!(
        stream.collect::<Vec<_>>().now_or_never(),
        Some(vec![Chunk::aborted()])
    );
}

#[test]
fn cancelling_ends_an_attempt_between_two_chunks() {
    let chunks = vec![delta("a"), delta("b"), Chunk::finish(FinishReason::Stop)];
    let model = ScriptModel::new("demo", vec![Attempt::Chunks(chunks)]);
    let cancel = CancellationToken::new();
    let mut stream = model.stream(request("one"), cancel.clone());
    assert_eq!(stream.next().now_or_never(), Some(Some(delta("a"))));
    cancel.cancel();
    assert_eq!(
        stream.collect::<Vec<_>>().now_or_never(),
        Some(vec![Chunk::aborted()])
    );
}
