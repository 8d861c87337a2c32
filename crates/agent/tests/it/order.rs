//! The order of events (`reference/agent.md` §1.12, V4), as whole lists.

use std::sync::Arc;

use offshoot_agent::{
    AgentHook, Cancel, Driver, HookError, Recovery, StepContext, TurnEndReason, TurnReport,
};
use offshoot_model::{Chunk, ContentBlock, Failure, FinishReason, Usage};
use offshoot_session::EventKind;
use serde_json::json;

use crate::bench::{Bench, ask, script};
use crate::support::{all, answers, call, calls, endings, kinds, kinds_from, says};

const FIRST_STEP: [&str; 9] = [
    "agent/inbox/spliced",
    "turn/start",
    "agent/inbox/spliced",
    "step/start",
    "system/message",
    "user/message",
    "user/message",
    "request/header",
    "request/context",
];

/// The first step of a session up to its answer, the title included, and what follows.
pub(crate) fn first_step<'a>(rest: &[&'a str]) -> Vec<&'a str> {
    [&FIRST_STEP[..], &["session/title"], rest].concat()
}

#[tokio::test]
async fn a_turn_of_text() {
    let bench = Bench::new();
    let mut agent = bench.scripted(vec![says("Hello.")]);
    let reports = ask(&mut agent, "Greet me.").await;
    let report = TurnReport {
        turn: 1,
        reason: TurnEndReason::Completed,
        text: "Hello.".into(),
        usage: None,
    };
    assert_eq!(reports, [report]);
    let log = bench.log(agent.session().id());
    assert_eq!(
        kinds(&log),
        first_step(&["assistant/message", "step/end", "turn/end"])
    );
    assert_eq!(
        all(&log, &EventKind::TurnEnd),
        [json!({"turn": 1, "reason": {"kind": "completed"}})]
    );
}

#[tokio::test]
async fn a_turn_with_one_call() {
    let bench = Bench::new();
    let mut agent = bench.scripted(vec![calls([("a", "look", "{}")]), says("Done.")]);
    ask(&mut agent, "Look.").await;
    assert_eq!(
        kinds(&bench.log(agent.session().id())),
        first_step(&[
            "assistant/message",
            "tool/call",
            "tool/result",
            "step/end",
            "step/start",
            "assistant/message",
            "step/end",
            "turn/end",
        ])
    );
}

#[tokio::test]
async fn a_turn_with_two_parallel_calls() {
    let bench = Bench::new();
    let two = calls([("a", "look", "{}"), ("b", "look", "{}")]);
    let mut agent = bench.scripted(vec![two, says("Done.")]);
    ask(&mut agent, "Look twice.").await;
    assert_eq!(
        kinds(&bench.log(agent.session().id())),
        first_step(&[
            "assistant/message",
            "tool/call",
            "tool/call",
            "tool/result",
            "tool/result",
            "step/end",
            "step/start",
            "assistant/message",
            "step/end",
            "turn/end",
        ])
    );
}

#[tokio::test]
async fn a_second_turn_logs_no_header_again() {
    let bench = Bench::new();
    let mut agent = bench.scripted(vec![says("One."), says("Two.")]);
    ask(&mut agent, "First.").await;
    let before = bench.log(agent.session().id()).events().count();
    ask(&mut agent, "Second.").await;
    assert_eq!(
        kinds_from(&bench.log(agent.session().id()), before),
        [
            "agent/inbox/spliced",
            "turn/start",
            "agent/inbox/spliced",
            "step/start",
            "user/message",
            "assistant/message",
            "step/end",
            "turn/end",
        ]
    );
}

#[tokio::test]
async fn two_queued_prompts_are_two_turns_of_one_run() {
    let bench = Bench::new();
    let mut agent = bench.scripted(vec![says("One."), says("Two.")]);
    agent.submit("First.").unwrap();
    agent.submit("Second.").unwrap();
    let reports = agent.run(&Cancel::new()).await.unwrap();
    let texts: Vec<_> = reports
        .iter()
        .map(|report| (report.turn, &*report.text))
        .collect();
    assert_eq!(texts, [(1, "One."), (2, "Two.")]);
    let mut expected = first_step(&["assistant/message", "step/end", "turn/end"]);
    expected.insert(0, "agent/inbox/spliced");
    expected.extend([
        "turn/start",
        "agent/inbox/spliced",
        "step/start",
        "user/message",
        "assistant/message",
        "step/end",
        "turn/end",
    ]);
    let log = bench.log(agent.session().id());
    assert_eq!(kinds(&log), expected);
    let splices: Vec<_> = all(&log, &EventKind::InboxSpliced)
        .iter()
        .map(|splice| (splice["start"].clone(), splice["removedCount"].clone()))
        .collect();
    assert_eq!(
        json!(splices),
        json!([[0, null], [1, null], [0, 1], [0, 1]]),
        "each turn claims exactly one, from the front"
    );
}

#[tokio::test]
async fn an_answer_that_was_cut_off_runs_no_tool_and_ends_the_turn_as_such() {
    let bench = Bench::new();
    let cut = answers(
        vec![ContentBlock::text("I begin"), call("a", "look", "{}")],
        FinishReason::MaxTokens,
    );
    let mut agent = bench.scripted(vec![cut, says("Two.")]);
    let reports = ask(&mut agent, "Begin.").await;
    assert_eq!(
        (&reports[0].reason, &*reports[0].text),
        (&TurnEndReason::MaxTokens, "I begin")
    );
    ask(&mut agent, "Go on.").await;
    let log = bench.log(agent.session().id());
    assert_eq!(endings(&log), ["max-tokens", "completed"]);
    assert!(bench.work.done().is_empty());
}

#[tokio::test]
async fn an_answer_that_was_cut_off_within_a_call_is_kept_and_fails_its_turn_whoever_would_try_again()
 {
    let bench = Bench::new();
    let half = answers(
        vec![ContentBlock::text("I begin"), call("a", "look", "{\"half")],
        FinishReason::MaxTokens,
    );
    let model = script(vec![half, says("Two.")]);
    let mut setup = bench.setup(Arc::clone(&model) as _);
    setup.hooks.push(Arc::new(TriesAgain));
    let mut agent = Driver::new(bench.create(), setup);
    let reports = ask(&mut agent, "Begin.").await;
    let TurnEndReason::Error { error } = &reports[0].reason else {
        panic!("{reports:?}");
    };
    assert_eq!(
        (&*error.code, &*error.message, &*reports[0].text),
        (
            "TRUNCATED_TOOL_CALL",
            "the answer hit the token limit inside a call of the tool `look`",
            "I begin"
        )
    );
    ask(&mut agent, "Go on.").await;
    let log = bench.log(agent.session().id());
    assert_eq!(endings(&log), ["error", "completed"]);
    let messages = all(&log, &EventKind::AssistantMessage);
    let said: Vec<_> = messages
        .iter()
        .map(|said| &said["message"]["content"])
        .collect();
    assert_eq!(
        json!(said),
        json!([[{"type": "text", "text": "I begin"}], [{"type": "text", "text": "Two."}]])
    );
    assert_eq!(model.requests().len(), 2);
    assert!(bench.work.done().is_empty());
}

/// Wants every failed attempt to be made again.
#[derive(Debug)]
struct TriesAgain;

#[async_trait::async_trait]
impl AgentHook for TriesAgain {
    async fn request_failed(
        &self,
        _: &StepContext<'_>,
        _: &Failure,
    ) -> Result<Recovery, HookError> {
        Ok(Recovery::Retry)
    }
}

#[tokio::test]
async fn an_empty_answer_keeps_its_place_and_says_nothing_later() {
    let bench = Bench::new();
    let empty = answers(Vec::new(), FinishReason::Stop);
    let mut agent = bench.scripted(vec![empty, says("Two.")]);
    ask(&mut agent, "First.").await;
    ask(&mut agent, "Second.").await;
    let log = bench.log(agent.session().id());
    assert_eq!(
        all(&log, &EventKind::AssistantMessage)[0]["message"]["content"],
        json!([])
    );
    assert_eq!(endings(&log), ["completed", "completed"]);
}

#[tokio::test]
async fn a_call_that_concludes_the_turn_needs_no_further_answer() {
    let bench = Bench::new();
    let last = calls([("a", "look", r#"{"conclude":true}"#), ("b", "look", "{}")]);
    let mut agent = bench.scripted(vec![last]);
    let reports = ask(&mut agent, "Finish.").await;
    assert_eq!(reports[0].reason, TurnEndReason::Completed);
    assert_eq!(
        kinds(&bench.log(agent.session().id())),
        first_step(&[
            "assistant/message",
            "tool/call",
            "tool/call",
            "tool/result",
            "tool/result",
            "step/end",
            "turn/end",
        ])
    );
}

#[tokio::test]
async fn the_usage_of_a_turn_is_that_of_all_its_calls() {
    let bench = Bench::new();
    let used = |input, cached| Chunk::Usage {
        usage: Usage {
            input_tokens: input,
            output_tokens: 2,
            total_tokens: None,
            cache_read_tokens: cached,
            cache_write_tokens: None,
            reasoning_tokens: None,
        },
    };
    let with = |attempt, usage| match attempt {
        offshoot_model::Attempt::Chunks(mut chunks) => {
            chunks.insert(chunks.len() - 1, usage);
            offshoot_model::Attempt::Chunks(chunks)
        }
        other => other,
    };
    let mut agent = bench.scripted(vec![
        with(calls([("a", "look", "{}")]), used(10, None)),
        with(says("Done."), used(5, Some(9))),
    ]);
    let reports = ask(&mut agent, "Look.").await;
    let usage = reports[0].usage.unwrap();
    assert_eq!(
        (
            usage.input_tokens,
            usage.output_tokens,
            usage.cache_read_tokens
        ),
        (15, 4, Some(9))
    );
}
