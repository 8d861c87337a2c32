//! Failed attempts that are made again (`reference/agent.md` §2.6).

use std::sync::Arc;
use std::time::Duration;

use offshoot_agent::{
    AgentHook, Cancel, CancelCause, Clock, Driver, Env, HookError, IdSource, Recovery, StepContext,
    TurnEndReason,
};
use offshoot_model::{Attempt, Chunk, Failure, RetryPolicy, ScriptModel};
use offshoot_session::{EventKind, LiveSession};
use offshoot_test_support::{Reply, ScriptedModelServer};
use serde_json::{Value, json};

use crate::bench::{Bench, NOW, ask, call_config, over_http};
use crate::crowd::{Heard, fails};
use crate::order::first_step;
use crate::outline::outline_from;
use crate::support::{all, calls, endings, kinds, says};

fn model(attempts: Vec<Attempt>) -> Arc<ScriptModel> {
    Arc::new(ScriptModel::new("acme", attempts).with_retries(RetryPolicy::default()))
}

fn asks_to_wait(milliseconds: u64) -> Attempt {
    let mut failure = Failure::new("RATE_LIMIT", "slow down");
    failure.provider_retry_after_ms = Some(milliseconds);
    Attempt::Chunks(vec![Chunk::failed(failure)])
}

fn delays(agent: &Driver) -> Vec<u64> {
    let retries = all(&agent.session().log(), &EventKind::LlmRetry);
    let delay = |retry: &Value| retry["delayMs"].as_u64().unwrap();
    retries.iter().map(delay).collect()
}

/// Waits until so many retries are scheduled. The clock stands meanwhile.
async fn scheduled(session: &LiveSession, retries: usize) {
    while all(&session.log(), &EventKind::LlmRetry).len() < retries {
        tokio::task::yield_now().await;
    }
}

fn failure(reason: &TurnEndReason) -> &str {
    match reason {
        TurnEndReason::Error { error } => &error.code,
        other => panic!("{other:?}"),
    }
}

#[tokio::test(start_paused = true)]
async fn an_attempt_is_made_again_in_the_same_step_after_longer_and_longer_waits() {
    let bench = Bench::new();
    let heard = Heard::default();
    let begun = Attempt::Throw {
        chunks: vec![Chunk::TextDelta {
            index: 0,
            text: "Half of".into(),
        }],
        message: "gone".into(),
        code: "TRANSPORT".into(),
    };
    let model = model(vec![begun, fails("SERVER"), says("Whole.")]);
    let mut setup = bench.setup(Arc::clone(&model) as _);
    setup.observer = Some(Arc::new(heard.clone()));
    let mut agent = Driver::new(bench.create(), setup);
    let begun = tokio::time::Instant::now();
    let reports = ask(&mut agent, "First.").await;
    assert_eq!(begun.elapsed().as_millis(), 1_500);
    assert_eq!(
        (&*reports[0].text, &reports[0].reason),
        ("Whole.", &TurnEndReason::Completed)
    );
    let log = bench.log(agent.session().id());
    assert_eq!(
        kinds(&log),
        first_step(&[
            "assistant/attempt",
            "llm/retry",
            "llm/retry-started",
            "assistant/attempt",
            "llm/retry",
            "llm/retry-started",
            "assistant/message",
            "step/end",
            "turn/end",
        ])
    );
    let retries = all(&log, &EventKind::LlmRetry);
    let id = retries[0]["retryId"].clone();
    let key = RetryPolicy::default().policy_key();
    let of = |retry: u64, delay: u64, failure: Value| {
        json!({
            "retryId": id, "turn": 1, "step": 1, "provider": "acme", "mode": "normal", "policyKey": key,
            "retry": retry, "maxRetries": 5, "delayMs": delay, "failure": failure,
        })
    };
    let gone = json!({"message": "gone", "code": "TRANSPORT"});
    let server = json!({"message": "the provider says SERVER", "code": "SERVER"});
    assert_eq!(retries, [of(1, 500, gone), of(2, 1_000, server)]);
    assert_eq!(
        all(&log, &EventKind::LlmRetryStarted),
        [1, 2].map(|retry| json!({"retryId": id, "turn": 1, "step": 1, "retry": retry}))
    );
    let told = heard.lines();
    let told: Vec<_> = told
        .iter()
        .filter(|line| line.starts_with("retry"))
        .collect();
    assert_eq!(
        told,
        [
            "retry 1 of Some(5) after 500ms: TRANSPORT",
            "retry 2 of Some(5) after 1s: SERVER"
        ]
    );
    // Whatever was tried, the request is the same, and nothing of what failed is in the answer.
    let requests = model.requests();
    assert!(requests.iter().all(|request| *request == requests[0]));
    let answer = &all(&log, &EventKind::AssistantMessage)[0];
    assert_eq!(answer["message"]["content"][0]["text"], "Whole.");
    assert!(!answer.to_string().contains("Half of"), "{answer}");
}

#[tokio::test(start_paused = true)]
async fn a_budget_that_is_used_up_ends_the_turn_with_the_last_failure() {
    let bench = Bench::new();
    let mut attempts = vec![fails("SERVER"); 5];
    attempts.push(fails("TIMEOUT"));
    let model = model(attempts);
    let mut agent = bench.agent(bench.create(), Arc::clone(&model) as _);
    let reports = ask(&mut agent, "First.").await;
    assert_eq!(failure(&reports[0].reason), "TIMEOUT");
    assert_eq!(delays(&agent), [500, 1_000, 2_000, 4_000, 8_000]);
    assert_eq!(model.remaining(), 0);
}

#[tokio::test(start_paused = true)]
async fn every_step_has_its_own_budget() {
    let bench = Bench::new();
    let look = calls([("a", "look", "{}")]);
    let attempts = vec![fails("SERVER"), look, fails("SERVER"), says("Done.")];
    let mut agent = bench.agent(bench.create(), model(attempts));
    ask(&mut agent, "First.").await;
    let retries = all(&agent.session().log(), &EventKind::LlmRetry);
    let told = |retry: &Value| (retry["step"].clone(), retry["retry"].clone());
    let told: Vec<_> = retries.iter().map(told).collect();
    assert_eq!(told, [(json!(1), json!(1)), (json!(2), json!(1))]);
    assert_ne!(retries[0]["retryId"], retries[1]["retryId"]);
}

#[tokio::test(start_paused = true)]
async fn what_waiting_does_not_cure_is_final() {
    for code in [
        "AUTH",
        "QUOTA",
        "INVALID_REQUEST",
        "MALFORMED_RESPONSE",
        "STREAM_CLOSED",
    ] {
        let bench = Bench::new();
        let mut agent = bench.agent(bench.create(), model(vec![fails(code)]));
        let reports = ask(&mut agent, "First.").await;
        assert_eq!(failure(&reports[0].reason), code);
        assert_eq!(delays(&agent), [0; 0], "{code}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_provider_may_say_how_long_but_not_for_ever() {
    let bench = Bench::new();
    let attempts = vec![asks_to_wait(7_000), asks_to_wait(10_001)];
    let mut agent = bench.agent(bench.create(), model(attempts));
    let reports = ask(&mut agent, "First.").await;
    assert_eq!(failure(&reports[0].reason), "RATE_LIMIT");
    assert_eq!(delays(&agent), [7_000]);
}

#[tokio::test(start_paused = true)]
async fn without_a_limit_it_goes_on_until_there_is_an_answer() {
    let bench = Bench::new();
    let mut attempts = vec![fails("RATE_LIMIT"); 9];
    attempts.push(asks_to_wait(60_000));
    attempts.push(says("At last."));
    let model = ScriptModel::new("acme", attempts).with_retries(RetryPolicy::always());
    let mut agent = bench.agent(bench.create(), Arc::new(model));
    let reports = ask(&mut agent, "First.").await;
    assert_eq!(reports[0].text, "At last.");
    let log = bench.log(agent.session().id());
    let last = all(&log, &EventKind::LlmRetry).pop().unwrap();
    assert_eq!(
        (
            &last["mode"],
            &last["retry"],
            &last["delayMs"],
            last.get("maxRetries")
        ),
        (&json!("always"), &json!(10), &json!(60_000), None)
    );
}

#[tokio::test(start_paused = true)]
async fn cancelling_ends_the_wait_and_nothing_is_tried_again() {
    let bench = Bench::new();
    let model = model(vec![fails("SERVER"), says("Never.")]);
    let mut agent = bench.agent(bench.create(), Arc::clone(&model) as _);
    let cancel = Cancel::new();
    let switch = cancel.clone();
    let session = agent.session().clone();
    agent.submit("First.").unwrap();
    let (reports, ()) = tokio::join!(agent.run(&cancel), async {
        scheduled(&session, 1).await;
        tokio::time::advance(Duration::from_millis(499)).await;
        switch.cancel(CancelCause::User);
    });
    let reason = &reports.unwrap()[0].reason;
    let aborted = TurnEndReason::Aborted {
        reason: CancelCause::User,
    };
    assert_eq!(*reason, aborted);
    assert_eq!(model.remaining(), 1);
    let log = bench.log(agent.session().id());
    assert_eq!(all(&log, &EventKind::LlmRetryStarted), Vec::<Value>::new());
    assert_eq!(
        kinds(&log),
        first_step(&["assistant/attempt", "llm/retry", "step/end", "turn/end"])
    );
}

/// Wants one failure tried again, whatever it is.
#[derive(Debug, Default)]
struct Once(std::sync::atomic::AtomicBool);

#[async_trait::async_trait]
impl AgentHook for Once {
    async fn request_failed(
        &self,
        _: &StepContext<'_>,
        failure: &Failure,
    ) -> Result<Recovery, HookError> {
        if failure.code == "QUOTA" {
            return Err(HookError {
                message: "the hook gives up".into(),
                code: "HOOK".into(),
            });
        }
        let again = !self.0.swap(true, std::sync::atomic::Ordering::SeqCst);
        Ok(if again {
            Recovery::Retry
        } else {
            Recovery::GiveUp
        })
    }
}

#[tokio::test(start_paused = true)]
async fn a_hook_is_asked_first_and_takes_nothing_from_the_policy() {
    let bench = Bench::new();
    let attempts = vec![fails("AUTH"), fails("SERVER"), says("Here.")];
    let mut setup = bench.setup(model(attempts));
    setup.hooks.push(Arc::new(Once::default()));
    let mut agent = Driver::new(bench.create(), setup);
    let reports = ask(&mut agent, "First.").await;
    assert_eq!(reports[0].text, "Here.");
    let log = bench.log(agent.session().id());
    let attempts: Vec<_> = kinds(&log)
        .into_iter()
        .filter(|kind| kind.starts_with("assistant/") || kind.starts_with("llm/"))
        .collect();
    assert_eq!(
        attempts,
        [
            "assistant/attempt",
            "assistant/attempt",
            "llm/retry",
            "llm/retry-started",
            "assistant/message"
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn a_hook_that_fails_ends_the_turn_with_its_own_error() {
    let bench = Bench::new();
    let mut setup = bench.setup(model(vec![fails("QUOTA")]));
    setup.hooks.push(Arc::new(Once::default()));
    let mut agent = Driver::new(bench.create(), setup);
    let reports = ask(&mut agent, "First.").await;
    assert_eq!(failure(&reports[0].reason), "HOOK");
}

#[tokio::test(start_paused = true)]
async fn retries_at_another_provider_are_counted_by_themselves() {
    let bench = Bench::new();
    let mut agent = bench.agent(
        bench.create(),
        model(vec![fails("SERVER"), fails("SERVER")]),
    );
    let other = ScriptModel::new("other", vec![fails("TIMEOUT"), says("Here.")])
        .with_retries(RetryPolicy::default());
    let other = Arc::new(other);
    let begun = agent.session().log().end();
    agent.submit("First.").unwrap();
    let cancel = Cancel::new();
    let session = agent.session().clone();
    tokio::select! {
        done = agent.run(&cancel) => panic!("{done:?}"),
        () = async {
            scheduled(&session, 1).await;
            tokio::time::advance(Duration::from_millis(500)).await;
            scheduled(&session, 2).await;
        } => {}
    }
    // Whoever abandons a turn leaves it to the next run.
    let mut call = call_config("other-1");
    call.provider = "other".into();
    agent.set_model(other, call);
    let reports = ask(&mut agent, "Second.").await;
    assert_eq!(reports.last().unwrap().text, "Here.");
    let log = bench.log(agent.session().id());
    let retries = all(&log, &EventKind::LlmRetry);
    let told = |retry: &Value| format!("{} {}", retry["provider"], retry["retry"]);
    let told: Vec<_> = retries.iter().map(told).collect();
    assert_eq!(
        told,
        [r#""acme" 1"#, r#""acme" 2"#, r#""other" 1"#],
        "{}",
        outline_from(&log, begun)
    );
}

#[derive(Debug)]
struct Dice(f64);

impl IdSource for Dice {
    fn fresh(&self) -> String {
        static NEXT: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(0);
        let next = NEXT.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        format!("dice-{next}")
    }

    fn random(&self) -> f64 {
        self.0
    }
}

#[derive(Debug)]
struct Still;

impl Clock for Still {
    fn now(&self) -> i64 {
        NOW
    }
}

#[tokio::test(start_paused = true)]
async fn waits_differ_by_chance_within_a_tenth() {
    for (random, waits) in [(0.0, [450, 900]), (0.5, [500, 1_000]), (1.0, [550, 1_100])] {
        let bench = Bench::new();
        let attempts = vec![fails("SERVER"), fails("SERVER"), says("Here.")];
        let mut setup = bench.setup(model(attempts));
        setup.env = Env {
            clock: Arc::new(Still),
            ids: Arc::new(Dice(random)),
        };
        let mut agent = Driver::new(bench.create(), setup);
        ask(&mut agent, "First.").await;
        assert_eq!(delays(&agent), waits, "{random}");
    }
}

#[tokio::test]
async fn a_provider_that_recovers_is_not_noticed_in_the_answer() {
    let bench = Bench::new();
    let server = ScriptedModelServer::start([
        Reply::rate_limited(Some(0)),
        Reply::text("Half of it.").disconnect_after(2),
        Reply::text("Here I am."),
    ]);
    let inner = over_http(&server);
    let quick = RetryPolicy {
        initial: Duration::ZERO,
        ..RetryPolicy::default()
    };
    let mut agent = bench.agent(bench.create(), Arc::new(Retried(inner, quick)));
    let reports = ask(&mut agent, "First.").await;
    assert_eq!(reports[0].text, "Here I am.");
    assert_eq!(endings(&bench.log(agent.session().id())), ["completed"]);
    let bodies: Vec<_> = server
        .requests()
        .iter()
        .map(|request| request.json())
        .collect();
    assert!(bodies.iter().all(|body| *body == bodies[0]));
    server.finish();
}

/// A model with another retry policy.
#[derive(Debug)]
struct Retried(Arc<dyn offshoot_model::Model>, RetryPolicy);

impl offshoot_model::Model for Retried {
    fn provider(&self) -> &str {
        self.0.provider()
    }

    fn prepare(
        &self,
        config: &offshoot_model::CallConfig,
    ) -> Result<offshoot_model::PreparedCall, Failure> {
        let mut prepared = self.0.prepare(config)?;
        prepared.retry = self.1.clone();
        Ok(prepared)
    }

    fn stream(
        &self,
        request: Arc<offshoot_model::ModelRequest>,
        cancel: tokio_util::sync::CancellationToken,
    ) -> futures_util::stream::BoxStream<'static, Chunk> {
        self.0.stream(request, cancel)
    }
}
