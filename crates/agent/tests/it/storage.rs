//! What is durable when, and what happens when storage fails.

use std::sync::{Arc, Mutex};

use offshoot_agent::{AgentError, Cancel, Driver, DurableListener};
use offshoot_model::ScriptModel;
use offshoot_session::EventKind;

use crate::bench::{Bench, ask, script};
use crate::order::first_step;
use crate::support::{all, calls, endings, kinds, result, results, says};

const NOT_STARTED: &str = "The tool call was interrupted before the Harness recorded it as started. Retry it if it is still needed.";

/// An agent on a session that has a file, with a prompt waiting.
fn agent(bench: &Bench, model: &Arc<ScriptModel>) -> Driver {
    let agent = bench.agent(bench.create(), Arc::<ScriptModel>::clone(model));
    agent.submit("Work.").unwrap();
    agent.flush().unwrap();
    agent
}

/// The log in memory and, once storage works again, in the file.
fn log_after_recovery(bench: &Bench, agent: &Driver) -> offshoot_session::EventLog {
    agent.flush().unwrap();
    let log = bench.log(agent.session().id());
    assert_eq!(kinds(&log), kinds(&agent.session().log()));
    log
}

#[tokio::test]
async fn no_model_is_called_with_work_that_is_not_durable() {
    let bench = Bench::new();
    let model = script(vec![says("Never.")]);
    let mut agent = agent(&bench, &model);
    bench.disk.fail(1..=2);
    let error = agent.run(&Cancel::new()).await.unwrap_err();
    assert!(matches!(error, AgentError::Store(_)));
    assert_eq!(model.requests(), []);
    let log = log_after_recovery(&bench, &agent);
    assert_eq!(kinds(&log), first_step(&["step/end", "turn/end"]));
    assert_eq!(endings(&log), ["error"]);
    // The next run needs nothing but another prompt.
    ask(&mut agent, "Again.").await;
    assert_eq!(
        endings(&bench.log(agent.session().id())),
        ["error", "completed"]
    );
}

#[tokio::test]
async fn no_tool_changes_anything_before_its_start_is_durable() {
    let bench = Bench::new();
    let three = calls([
        ("a", "change", "{}"),
        ("b", "change", "{}"),
        ("c", "look", "{}"),
    ]);
    let model = script(vec![three, says("Two.")]);
    let mut agent = agent(&bench, &model);
    bench.disk.fail(2..=2);
    let error = agent.run(&Cancel::new()).await.unwrap_err();
    assert!(matches!(error, AgentError::Store(_)));
    assert!(bench.work.done().is_empty());
    let log = log_after_recovery(&bench, &agent);
    assert_eq!(
        kinds(&log),
        first_step(&[
            "assistant/message",
            "tool/call",
            "tool/result",
            "tool/result",
            "tool/result",
            "step/end",
            "turn/end",
        ])
    );
    assert_eq!(
        results(&log),
        [
            result(
                "a",
                "ABORTED_BEFORE_DISPATCH",
                "Error: tool call aborted before dispatch"
            ),
            result("b", "TOOL_NOT_STARTED", NOT_STARTED),
            result("c", "TOOL_NOT_STARTED", NOT_STARTED),
        ]
    );
    ask(&mut agent, "Again.").await;
    assert_eq!(
        endings(&bench.log(agent.session().id())),
        ["error", "completed"]
    );
}

#[tokio::test]
async fn a_storage_failure_lets_the_calls_that_run_come_to_their_end() {
    let bench = Bench::new();
    let hold = bench.work.hold("a");
    let three = calls([
        ("a", "look", "{}"),
        ("b", "alter", "{}"),
        ("c", "look", "{}"),
    ]);
    let model = script(vec![three]);
    let mut agent = agent(&bench, &model);
    bench.disk.fail(2..=2);
    let (failed, ()) = {
        let cancel = Cancel::new();
        tokio::join!(agent.run(&cancel), async {
            hold.started.cancelled().await;
            hold.released.cancel();
        })
    };
    assert!(matches!(failed, Err(AgentError::Store(_))));
    let log = log_after_recovery(&bench, &agent);
    assert_eq!(
        results(&log),
        [
            result("a", "", "a is done"),
            result(
                "b",
                "ABORTED_BEFORE_DISPATCH",
                "Error: tool call aborted before dispatch"
            ),
            result("c", "", "c is done"),
        ]
    );
    assert_eq!(bench.work.runs().len(), 2);
}

#[tokio::test]
async fn waiting_for_the_disk_holds_up_no_call_that_needs_none() {
    let bench = Bench::new();
    let hold = bench.work.hold("a");
    let two = calls([
        ("a", "alter", "{}"),
        ("b", "look", "{}"),
        ("c", "alter", "{}"),
    ]);
    let mut agent = agent(&bench, &script(vec![two, says("Done.")]));
    let (done, ()) = {
        let cancel = Cancel::new();
        tokio::join!(agent.run(&cancel), async {
            hold.started.cancelled().await;
            hold.released.cancel();
        })
    };
    done.unwrap();
    assert_eq!(results(&bench.log(agent.session().id())).len(), 3);
}

#[tokio::test]
async fn what_a_failed_flush_left_is_stored_by_the_next_one_in_order() {
    let bench = Bench::new();
    let model = script(vec![says("One."), says("Two.")]);
    let mut agent = agent(&bench, &model);
    // The flush at the end of the turn.
    bench.disk.fail(2..=2);
    assert!(agent.run(&Cancel::new()).await.is_err());
    assert_eq!(endings(&agent.session().log()), ["completed"]);
    ask(&mut agent, "Again.").await;
    let log = log_after_recovery(&bench, &agent);
    assert_eq!(endings(&log), ["completed", "completed"]);
}

type Heard = Arc<Mutex<Vec<(u64, EventKind)>>>;

fn listener(heard: &Heard) -> DurableListener {
    let heard = Arc::clone(heard);
    Arc::new(move |event| {
        let entry = (event.seq().get(), event.kind().clone());
        heard.lock().unwrap().push(entry);
    })
}

#[tokio::test]
async fn listeners_hear_every_event_once_in_order_and_only_when_it_is_durable() {
    let bench = Bench::new();
    let heard = Heard::default();
    let hold = bench.work.hold("a");
    let model = script(vec![calls([("a", "change", "{}")]), says("Done.")]);
    let mut agent = bench.agent_heard_by(bench.create(), model, Some(listener(&heard)));
    agent.submit("Change it.").unwrap();
    assert_eq!(heard.lock().unwrap().len(), 0);
    let id = agent.session().id().clone();
    let cancel = Cancel::new();
    let (done, ()) = tokio::join!(agent.run(&cancel), async {
        hold.started.cancelled().await;
        // The start of a call that changes things was stored, and heard of, before it began.
        let stored = bench.log(&id);
        let last = heard.lock().unwrap().last().cloned();
        assert_eq!(last, Some((stored.end().get() - 1, EventKind::ToolCall)));
        hold.released.cancel();
    });
    done.unwrap();
    let log = bench.log(&id);
    let all_of_it: Vec<_> = log
        .events()
        .map(|event| (event.seq().get(), event.kind().clone()))
        .collect();
    assert_eq!(*heard.lock().unwrap(), all_of_it);
}

#[tokio::test]
async fn listeners_hear_nothing_of_a_batch_that_failed_before_it_is_stored() {
    let bench = Bench::new();
    let heard = Heard::default();
    let model = script(vec![says("Never.")]);
    let mut agent = bench.agent_heard_by(bench.create(), model, Some(listener(&heard)));
    agent.submit("Work.").unwrap();
    agent.flush().unwrap();
    bench.disk.fail(1..=2);
    agent.run(&Cancel::new()).await.unwrap_err();
    assert_eq!(*heard.lock().unwrap(), [(0, EventKind::InboxSpliced)]);
    agent.flush().unwrap();
    let seqs: Vec<_> = heard.lock().unwrap().iter().map(|(seq, _)| *seq).collect();
    assert_eq!(
        seqs,
        (0..agent.session().log().end().get()).collect::<Vec<_>>()
    );
    assert_eq!(
        all(&bench.log(agent.session().id()), &EventKind::TurnEnd).len(),
        1
    );
}
