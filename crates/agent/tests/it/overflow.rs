//! Requests that a provider refuses as too long.

use std::sync::Arc;

use offshoot_agent::{Cancel, CancelCause, Driver, TurnEndReason};
use offshoot_model::{Attempt, RetryPolicy, ScriptModel};
use offshoot_session::EventKind;
use offshoot_test_support::{Reply, ScriptedModelServer};

use crate::bench::{Bench, ask, over_http, script};
use crate::crowd::{Heard, fails, long, thinks_only, too_long};
use crate::outline::numbered_from;
use crate::support::{all, says};

/// One turn, and then others.
async fn begun(bench: &Bench, model: Arc<ScriptModel>, heard: &Heard) -> Driver {
    let mut setup = bench.setup(model);
    setup.observer = Some(Arc::new(heard.clone()));
    let mut agent = Driver::new(bench.create(), setup);
    ask(&mut agent, &long("question", 400)).await;
    agent
}

fn after_one(rest: impl IntoIterator<Item = Attempt>) -> Arc<ScriptModel> {
    let mut attempts = vec![says("One.")];
    attempts.extend(rest);
    script(attempts)
}

fn failure(reason: &TurnEndReason) -> (&str, &str) {
    match reason {
        TurnEndReason::Error { error } => (&error.code, &error.message),
        other => panic!("{other:?}"),
    }
}

const REFUSED: (&str, &str) = (
    "CONTEXT_WINDOW_EXCEEDED",
    "the provider says CONTEXT_WINDOW_EXCEEDED",
);

#[tokio::test]
async fn the_order_of_events() {
    let bench = Bench::new();
    let heard = Heard::default();
    let model = after_one([too_long(), says("In short."), says("Two.")]);
    let mut agent = begun(&bench, Arc::clone(&model), &heard).await;
    let before = agent.session().log().end();
    let reports = ask(&mut agent, "Second.").await;
    assert_eq!(reports[0].text, "Two.");
    let log = bench.log(agent.session().id());
    insta::assert_snapshot!(numbered_from(&log, before), @r#"
    13 agent/inbox/spliced next-turn at 0 +"Second."
    14 turn/start 2
    15 agent/inbox/spliced next-turn at 0 -1
    16 step/start 2.1
    17 user/message "Second."
    18 assistant/attempt 2.1
    19 compaction/start 2
    20 compaction/summary of [5] In short.
    21 user/message compact-checkpoint for 5..5 citing 19,20,5
    22 compaction/end 2
    23 request/header series
    24 assistant/message 2.1 [text "Two."]
    25 step/end 2.1
    26 turn/end 2 completed
    "#);
    assert_eq!(
        heard.lines()[1..],
        ["started Some(2)", "done Some(2): 1 items"]
    );
    // What has no answer yet is never summarised.
    let requests = model.requests();
    let last = requests[3].messages.last().unwrap();
    assert_eq!(Some(last), requests[1].messages.last());
}

#[tokio::test]
async fn what_the_model_was_told_of_the_world_is_told_again() {
    let bench = Bench::new();
    let model = after_one([too_long(), says("In short."), says("Two.")]);
    let mut setup = bench.setup(Arc::clone(&model) as _);
    setup.config.compaction.retain_ratio = 0.0;
    let mut agent = Driver::new(bench.create(), setup);
    ask(&mut agent, &long("question", 400)).await;
    ask(&mut agent, "Second.").await;
    let requests = model.requests();
    let kinds = requests[3].messages.iter();
    let kinds: Vec<_> = kinds.map(|message| message.source.kind()).collect();
    assert_eq!(
        kinds,
        [
            "system-prompt",
            "compact-checkpoint",
            "user",
            "runtime-context"
        ]
    );
}

#[tokio::test]
async fn a_provider_is_asked_again_with_a_request_that_is_in_order() {
    let bench = Bench::new();
    let server = ScriptedModelServer::start([
        Reply::text_then_tool_calls("I look.", [("a", "look", "{}")]),
        Reply::text("One."),
        Reply::context_overflow(),
        Reply::text("In short."),
        Reply::text("Two."),
    ]);
    let mut agent = bench.agent(bench.create(), over_http(&server));
    ask(&mut agent, &long("question", 400)).await;
    let reports = ask(&mut agent, "Second.").await;
    assert_eq!(reports[0].text, "Two.");
    server.finish();
}

#[tokio::test]
async fn with_nothing_to_make_shorter_the_providers_own_words_end_the_turn() {
    let bench = Bench::new();
    let model = script(vec![too_long()]);
    let mut agent = bench.agent(bench.create(), Arc::clone(&model) as _);
    let reports = ask(&mut agent, &long("question", 400)).await;
    assert_eq!(failure(&reports[0].reason), REFUSED);
    assert!(all(&agent.session().log(), &EventKind::CompactionStart).is_empty());
}

#[tokio::test]
async fn without_a_summary_the_providers_own_words_end_the_turn() {
    let bench = Bench::new();
    let heard = Heard::default();
    let model = after_one([too_long(), thinks_only(), thinks_only()]);
    let mut agent = begun(&bench, Arc::clone(&model), &heard).await;
    let reports = ask(&mut agent, "Second.").await;
    assert_eq!(failure(&reports[0].reason), REFUSED);
    assert_eq!(model.remaining(), 0);
    let no_text = "failed Some(2): summary there is no summary: the model answered without text";
    assert_eq!(heard.lines()[1..], ["started Some(2)", no_text]);
}

#[tokio::test]
async fn a_step_is_tried_again_only_so_often() {
    for (allowed, summaries) in [(0, 0), (1, 1), (2, 2)] {
        let bench = Bench::new();
        let mut attempts = vec![says(&long("one", 300))];
        for _ in 0..summaries {
            attempts.extend([too_long(), says("In short.")]);
        }
        attempts.push(too_long());
        let model = script(attempts);
        let mut setup = bench.setup(Arc::clone(&model) as _);
        setup.config.compaction.overflow_retries = allowed;
        setup.config.compaction.retain_ratio = 0.2;
        let mut agent = Driver::new(bench.create(), setup);
        ask(&mut agent, &long("question", 1_000)).await;
        let reports = ask(&mut agent, "Second.").await;
        assert_eq!(failure(&reports[0].reason), REFUSED, "{allowed}");
        assert_eq!(model.remaining(), 0, "{allowed}");
        let log = bench.log(agent.session().id());
        assert_eq!(all(&log, &EventKind::CompactionSummary).len(), summaries);
    }
}

#[tokio::test(start_paused = true)]
async fn it_takes_nothing_from_the_retries_of_the_policy() {
    let bench = Bench::new();
    let one = RetryPolicy {
        max_retries: Some(1),
        ..RetryPolicy::default()
    };
    let attempts = vec![
        says("One."),
        fails("SERVER"),
        too_long(),
        says("In short."),
        says("Two."),
    ];
    let model = Arc::new(ScriptModel::new("acme", attempts).with_retries(one));
    let mut agent = begun(&bench, model, &Heard::default()).await;
    let reports = ask(&mut agent, "Second.").await;
    assert_eq!(reports[0].text, "Two.");
    let log = bench.log(agent.session().id());
    assert_eq!(all(&log, &EventKind::LlmRetry).len(), 1);
}

#[tokio::test]
async fn cancelling_goes_before_trying_again() {
    let bench = Bench::new();
    let hangs = Attempt::Hang { chunks: Vec::new() };
    let model = after_one([too_long(), hangs, says("Never.")]);
    let mut agent = begun(&bench, Arc::clone(&model), &Heard::default()).await;
    let before = agent.session().log().end();
    let cancel = Cancel::new();
    agent.submit("Second.").unwrap();
    let (reports, ()) = tokio::join!(agent.run(&cancel), async {
        while model.requests().len() < 3 {
            tokio::task::yield_now().await;
        }
        cancel.cancel(CancelCause::User);
    });
    let aborted = TurnEndReason::Aborted {
        reason: CancelCause::User,
    };
    assert_eq!(reports.unwrap()[0].reason, aborted);
    assert_eq!(model.remaining(), 1);
    let log = bench.log(agent.session().id());
    insta::assert_snapshot!(numbered_from(&log, before), @r#"
    13 agent/inbox/spliced next-turn at 0 +"Second."
    14 turn/start 2
    15 agent/inbox/spliced next-turn at 0 -1
    16 step/start 2.1
    17 user/message "Second."
    18 assistant/attempt 2.1
    19 compaction/start 2
    20 compaction/end 2 the compaction was cancelled
    21 step/end 2.1
    22 turn/end 2 aborted user
    "#);
}
