//! The tool calls of a step (`reference/agent.md` §1.9).

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use offshoot_agent::{
    Agent, AgentHook, AgentSetup, Cancel, CancelCause, Driver, Gate, HookError, PostExecute,
    ProposedCall, Queue, StepContext,
};
use offshoot_session::EventKind;
use offshoot_tool_api::{Concurrency, Effects, ToolError, ToolOutput};
use serde_json::json;
use tokio_util::sync::CancellationToken;

use crate::bench::{Bench, ask, config, script};
use crate::scene::{Probe, Scene};
use crate::support::{all, calls, endings, kinds_from, result, results, says};

fn ids(count: usize) -> Vec<String> {
    (1..=count).map(|number| format!("c{number}")).collect()
}

#[tokio::test]
async fn results_stand_in_the_models_order_whatever_ends_first() {
    let bench = Bench::new();
    let (a, b) = (bench.work.hold("a"), bench.work.hold("b"));
    let three = ["a", "b", "c"].map(|id| (id, "look", "{}"));
    let mut agent = bench.scripted(vec![calls(three), says("Done.")]);
    agent.submit("Look.").unwrap();
    let cancel = Cancel::new();
    let (reports, ()) = tokio::join!(agent.run(&cancel), async {
        a.started.cancelled().await;
        b.started.cancelled().await;
        b.released.cancel();
        tokio::task::yield_now().await;
        a.released.cancel();
    });
    reports.unwrap();
    let log = bench.log(agent.session().id());
    assert_eq!(
        results(&log),
        ["a", "b", "c"].map(|id| result(id, "", &format!("{id} is done")))
    );
    assert_eq!(
        bench.work.done()[..4],
        ["start a", "start b", "start c", "end c"]
    );
    let cited: Vec<_> = log.events().filter_map(|event| event.sources()).collect();
    let started: Vec<_> = log
        .events()
        .filter(|event| *event.kind() == EventKind::ToolCall)
        .map(|event| vec![event.seq()])
        .collect();
    assert_eq!(cited, started);
}

#[tokio::test]
async fn ten_run_at_a_time_and_each_that_ends_makes_room_even_if_the_first_does_not() {
    let bench = Bench::new();
    let ids = ids(12);
    let first = bench.work.hold("c1");
    let rest: Vec<_> = ids[1..].iter().map(|id| bench.work.hold(id)).collect();
    let twelve = calls(ids.iter().map(|id| (&**id, "look", "{}")));
    let mut agent = bench.scripted(vec![twelve, says("Done.")]);
    agent.submit("Look.").unwrap();
    let cancel = Cancel::new();
    let (reports, ()) = tokio::join!(agent.run(&cancel), async {
        for hold in &rest[..9] {
            hold.started.cancelled().await;
        }
        assert_eq!(bench.work.runs().len(), 10, "c11 has to wait");
        rest[4].released.cancel();
        rest[9].started.cancelled().await;
        assert_eq!(bench.work.runs().len(), 11, "c12 has to wait");
        rest[9].released.cancel();
        rest[10].started.cancelled().await;
        rest.iter().for_each(|hold| hold.released.cancel());
        first.released.cancel();
    });
    reports.unwrap();
    let log = bench.log(agent.session().id());
    let expected: Vec<_> = ids
        .iter()
        .map(|id| result(id, "", &format!("{id} is done")))
        .collect();
    assert_eq!(results(&log), expected);
}

#[tokio::test]
async fn a_cap_of_one_runs_calls_one_by_one() {
    let bench = Bench::new();
    let two = calls([("a", "look", "{}"), ("b", "look", "{}")]);
    let mut config = config();
    config.max_parallel_tool_calls = 0;
    let (model, tools) = (script(vec![two, says("Done.")]), bench.work.tools());
    let mut agent = Driver::new(
        bench.create(),
        AgentSetup::new(model, tools, config, bench.env.clone()),
    );
    ask(&mut agent, "Look.").await;
    assert_eq!(bench.work.done(), ["start a", "end a", "start b", "end b"]);
}

#[tokio::test]
async fn an_exclusive_call_is_a_barrier() {
    let bench = Bench::new();
    let five = [
        ("a", "look"),
        ("b", "look"),
        ("c", "change"),
        ("d", "look"),
        ("e", "look"),
    ];
    let five = calls(five.map(|(id, name)| (id, name, "{}")));
    let mut agent = bench.scripted(vec![five, says("Done.")]);
    ask(&mut agent, "Work.").await;
    let log = bench.log(agent.session().id());
    assert_eq!(
        kinds_from(&log, 11)[..10],
        [
            "tool/call",
            "tool/call",
            "tool/result",
            "tool/result",
            "tool/call",
            "tool/result",
            "tool/call",
            "tool/call",
            "tool/result",
            "tool/result",
        ]
    );
}

#[tokio::test]
async fn whatever_goes_wrong_with_a_call_is_its_result_and_the_conversation_goes_on() {
    let bench = Bench::new();
    let bad = calls([
        ("a", "nothing", "{}"),
        ("b", "look", "{not json"),
        ("c", "look", r#"{"wrong":1}"#),
        ("d", "look", r#"{"panic":true}"#),
        ("e", "look", r#"{"panic_when_classified":true}"#),
        ("f", "look", ""),
        ("g", "look", r#"{"empty":true}"#),
    ]);
    let mut agent = bench.scripted(vec![bad, says("Done.")]);
    ask(&mut agent, "Work.").await;
    let log = bench.log(agent.session().id());
    assert_eq!(endings(&log), ["completed"]);
    let results = results(&log);
    let codes: Vec<_> = results.iter().map(|(_, code, _)| &**code).collect();
    assert_eq!(
        codes,
        [
            "UNKNOWN_TOOL",
            "INVALID_ARGS",
            "INVALID_ARGS",
            "TOOL_PANICKED",
            "",
            "",
            ""
        ]
    );
    assert_eq!(results[0].2, "Error: there is no tool named `nothing`");
    assert_eq!(results[3].2, "Error: the tool failed unexpectedly");
    let asked: Vec<_> = all(&log, &EventKind::ToolCall)
        .iter()
        .map(|call| call["arguments"].clone())
        .collect();
    assert_eq!(
        (&asked[1], &asked[5]),
        (&json!("{not json"), &json!("")),
        "as the model wrote them"
    );
    let empty = all(&log, &EventKind::ToolResult).pop().unwrap();
    assert_eq!(empty["message"]["content"], json!([]));
}

#[tokio::test]
async fn facts_for_front_ends_may_be_laid_out_over_lines() {
    let bench = Bench::new();
    let spread = r#"{"spread_facts":true}"#;
    let mut agent = bench.scripted(vec![calls([("a", "look", spread)]), says("Done.")]);
    ask(&mut agent, "Look.").await;
    let log = bench.log(agent.session().id());
    assert_eq!(
        all(&log, &EventKind::ToolResult)[0]["meta"],
        json!({"a": 1})
    );
}

fn patient(bench: &Bench, arguments: &str) -> Driver {
    let model = script(vec![calls([("a", "look", arguments)]), says("Done.")]);
    let tools = bench.work.tools_with(Some(Duration::from_secs(2)));
    Driver::new(
        bench.create(),
        AgentSetup::new(model, tools, config(), bench.env.clone()),
    )
}

#[tokio::test(start_paused = true)]
async fn a_tool_whose_time_is_over_is_told_and_answered_for() {
    for arguments in ["{}", r#"{"deaf":true}"#] {
        let bench = Bench::new();
        let hold = bench.work.hold("a");
        let mut agent = patient(&bench, arguments);
        ask(&mut agent, "Look.").await;
        let text = "Error: tool call timed out after 2000ms";
        let log = bench.log(agent.session().id());
        assert_eq!(results(&log), [result("a", "TOOL_TIMEOUT", text)]);
        hold.told.cancelled().await;
        assert_eq!(bench.work.done(), ["start a"]);
    }
}

#[tokio::test(start_paused = true)]
async fn a_cancelled_tool_did_not_time_out() {
    let bench = Bench::new();
    let hold = bench.work.hold("a");
    let mut agent = patient(&bench, r#"{"deaf":true}"#);
    agent.submit("Look.").unwrap();
    let cancel = Cancel::new();
    let (reports, ()) = tokio::join!(agent.run(&cancel), async {
        hold.started.cancelled().await;
        cancel.cancel(offshoot_agent::CancelCause::User);
    });
    reports.unwrap();
    let log = bench.log(agent.session().id());
    assert_eq!(
        results(&log),
        [result("a", "ABORTED", "Error: tool call aborted")]
    );
}

#[tokio::test]
async fn what_a_tool_says_of_company_is_asked_again_ahead_of_every_start() {
    let bench = Bench::new();
    let alone = Arc::new(AtomicBool::new(false));
    let (says_alone, ends_company) = (Arc::clone(&alone), Arc::clone(&alone));
    let probe = Probe::new("probe", |_| Ok(ToolOutput::text("fine")))
        .with_effects(Effects::ReadOnly)
        .running(move || match says_alone.load(Ordering::SeqCst) {
            true => Concurrency::Exclusive,
            false => Concurrency::Parallel,
        });
    let held = bench.work.hold("a");
    let gate = Before::call("b", move || ends_company.store(true, Ordering::SeqCst));
    let mut agent = Scene::new(&bench).tool(probe).hook(gate).agent(&[
        ("a", "look", "{}"),
        ("b", "probe", "{}"),
        ("c", "probe", "{}"),
        ("d", "look", "{}"),
    ]);
    agent.submit("Work.").unwrap();
    let cancel = Cancel::new();
    let (reports, ()) = tokio::join!(agent.run(&cancel), async {
        held.started.cancelled().await;
        held.released.cancel();
    });
    reports.unwrap();
    let log = bench.log(agent.session().id());
    assert_eq!(
        kinds_from(&log, 11)[..8],
        [
            "tool/call",
            "tool/call",
            "tool/result",
            "tool/result",
            "tool/call",
            "tool/result",
            "tool/call",
            "tool/result",
        ]
    );
}

/// A hook that does something when a call comes.
struct Before(&'static str, Box<dyn Fn() + Send + Sync>);

impl Before {
    fn call(id: &'static str, then: impl Fn() + Send + Sync + 'static) -> Arc<Self> {
        Arc::new(Self(id, Box::new(then)))
    }
}

impl std::fmt::Debug for Before {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Before")
    }
}

#[async_trait]
impl AgentHook for Before {
    async fn pre_execute(
        &self,
        _: &StepContext<'_>,
        call: &ProposedCall<'_>,
    ) -> Result<Gate, HookError> {
        if call.call_id == self.0 {
            (self.1)();
        }
        Ok(Gate::Allow)
    }
}

/// A hook that holds calls before they run, or after that.
#[derive(Debug, Default)]
struct Slow {
    before: CancellationToken,
    entered: CancellationToken,
    after: CancellationToken,
    reviewing: CancellationToken,
}

#[async_trait]
impl AgentHook for Slow {
    async fn pre_execute(
        &self,
        _: &StepContext<'_>,
        call: &ProposedCall<'_>,
    ) -> Result<Gate, HookError> {
        if call.call_id == "b" {
            self.entered.cancel();
            self.before.cancelled().await;
        }
        Ok(Gate::Allow)
    }

    async fn post_execute(
        &self,
        _: &StepContext<'_>,
        call: &ProposedCall<'_>,
        _: &Result<ToolOutput, ToolError>,
    ) -> Result<PostExecute, HookError> {
        if call.call_id == "a" {
            self.reviewing.cancel();
            self.after.cancelled().await;
        }
        Ok(PostExecute::default())
    }
}

#[tokio::test]
async fn calls_are_prepared_one_at_a_time_and_those_that_run_go_on_meanwhile() {
    let bench = Bench::new();
    let slow = Arc::new(Slow::default());
    slow.after.cancel();
    let held = bench.work.hold("a");
    let mut agent = Scene::new(&bench).hook(Arc::clone(&slow) as _).agent(&[
        ("a", "look", "{}"),
        ("b", "look", "{}"),
        ("c", "look", "{}"),
    ]);
    agent.submit("Look.").unwrap();
    let live = agent.session().clone();
    let cancel = Cancel::new();
    let (reports, ()) = tokio::join!(agent.run(&cancel), async {
        held.started.cancelled().await;
        slow.entered.cancelled().await;
        held.released.cancel();
        while results(&live.log()).is_empty() {
            tokio::task::yield_now().await;
        }
        assert_eq!(all(&live.log(), &EventKind::ToolCall).len(), 2, "c waits");
        slow.before.cancel();
    });
    reports.unwrap();
    let ids: Vec<_> = results(&live.log()).into_iter().map(|one| one.0).collect();
    assert_eq!(ids, ["a", "b", "c"]);
}

#[tokio::test]
async fn a_slow_review_holds_up_results_behind_it_and_no_call_that_runs() {
    let bench = Bench::new();
    let slow = Arc::new(Slow::default());
    slow.before.cancel();
    let held = bench.work.hold("b");
    let mut agent = Scene::new(&bench).hook(Arc::clone(&slow) as _).agent(&[
        ("a", "look", "{}"),
        ("b", "look", "{}"),
        ("c", "check", "{}"),
    ]);
    agent.submit("Look.").unwrap();
    let live = agent.session().clone();
    let cancel = Cancel::new();
    let (reports, ()) = tokio::join!(agent.run(&cancel), async {
        slow.reviewing.cancelled().await;
        held.released.cancel();
        while !bench.work.done().contains(&"end b".to_owned()) {
            tokio::task::yield_now().await;
        }
        assert_eq!(results(&live.log()), []);
        assert!(!bench.work.runs().contains_key("c"), "it runs alone");
        slow.after.cancel();
    });
    reports.unwrap();
    let ids: Vec<_> = results(&live.log()).into_iter().map(|one| one.0).collect();
    assert_eq!(ids, ["a", "b", "c"]);
}

#[tokio::test]
async fn a_call_that_is_being_prepared_when_the_turn_is_cancelled_never_began() {
    let bench = Bench::new();
    let slow = Arc::new(Slow::default());
    slow.after.cancel();
    let mut agent = Scene::new(&bench).hook(Arc::clone(&slow) as _).agent(&[
        ("a", "change", "{}"),
        ("b", "change", "{}"),
        ("c", "change", "{}"),
    ]);
    agent.submit("Work.").unwrap();
    let cancel = Cancel::new();
    let (reports, ()) = tokio::join!(agent.run(&cancel), async {
        slow.entered.cancelled().await;
        cancel.cancel(CancelCause::User);
    });
    reports.unwrap();
    let log = bench.log(agent.session().id());
    let text = "Error: tool call aborted before dispatch";
    assert_eq!(
        results(&log),
        [
            result("a", "", "a is done"),
            result("b", "ABORTED_BEFORE_DISPATCH", text),
            result("c", "ABORTED_BEFORE_DISPATCH", text),
        ]
    );
}

#[tokio::test]
async fn what_a_call_wanted_said_waits_when_the_turn_was_cancelled() {
    let bench = Bench::new();
    let held = bench.work.hold("a");
    let late = Probe::new(
        "late",
        |_| Ok(ToolOutput::text("fine").with_context("late")),
    )
    .with_effects(Effects::ReadOnly)
    .running(|| Concurrency::Parallel);
    let attached = bench.create();
    let setup = Scene::new(&bench)
        .tool(late)
        .setup(&[("a", "look", r#"{"deaf":true}"#), ("b", "late", "{}")]);
    let agent = Agent::new(attached, setup);
    agent.followup("Work.").unwrap();
    held.started.cancelled().await;
    agent.cancel(CancelCause::User, Queue::Clear).unwrap();
    held.released.cancel();
    agent.when_idle().await;
    let log = agent.session().log();
    let waiting = log.pending_input().next_step();
    assert_eq!(waiting.len(), 1);
    assert!(waiting[0].contains("late"), "{}", waiting[0]);
    assert_eq!(endings(&log), ["aborted"]);
    agent.flush().await.unwrap();
}

#[tokio::test]
async fn storage_that_fails_ends_the_round_and_what_never_started_is_answered_with_the_step() {
    let bench = Bench::new();
    let held = bench.work.hold("a");
    let mut agent = bench.scripted(vec![
        calls([
            ("a", "look", "{}"),
            ("b", "change", "{}"),
            ("c", "change", "{}"),
        ]),
        says("Done."),
    ]);
    agent.submit("Work.").unwrap();
    let cancel = Cancel::new();
    let (reports, ()) = tokio::join!(agent.run(&cancel), async {
        held.started.cancelled().await;
        // What comes to the disk next is the flush ahead of the second call.
        bench.disk.fail(1..=1);
        held.released.cancel();
    });
    reports.unwrap_err();
    agent.flush().unwrap();
    let log = bench.log(agent.session().id());
    let codes: Vec<_> = results(&log)
        .into_iter()
        .map(|one| (one.0, one.1))
        .collect();
    let expected = [
        ("a", ""),
        ("b", "ABORTED_BEFORE_DISPATCH"),
        ("c", "TOOL_NOT_STARTED"),
    ];
    assert_eq!(
        codes,
        expected.map(|(id, code)| (id.to_owned(), code.to_owned()))
    );
    assert_eq!(all(&log, &EventKind::ToolCall).len(), 2);
    assert_eq!(endings(&log), ["error"]);
}
