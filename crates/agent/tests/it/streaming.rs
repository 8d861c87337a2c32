//! What is kept of an answer whose process ends while it streams.

use std::fs;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use offshoot_agent::{AnswerSettler, Cancel, Driver};
use offshoot_model::{Attempt, Chunk, ContentBlock, FinishReason, Usage, verify_stream};
use offshoot_session::{EventKind, EventLog, SessionId, StepRef};
use offshoot_store::{AttemptStart, Settle, Unstored};
use offshoot_test_support::{Reply, ScriptedModelServer};
use serde_json::{Value, json};

use crate::bench::{Bench, NOW, ask, over_http, script};
use crate::support::{all, calls, endings, kinds, says};

/// Runs a turn until what a reader sees of its answer is this; the future of the turn is dropped then.
async fn run_until(bench: &Bench, agent: &mut Driver, prompt: &str, seen: &str) {
    let id = agent.session().id().clone();
    agent.submit(prompt).unwrap();
    let cancel = Cancel::new();
    let is_seen = || {
        bench.windows.pass();
        let read = bench.service.read(&id).ok();
        let event = read.and_then(|read| read.stored.log.get(read.settled?).cloned());
        event.is_some_and(|event| event.text().contains(seen))
    };
    let streamed = async {
        while !is_seen() {
            tokio::task::yield_now().await;
        }
    };
    tokio::select! {
        done = agent.run(&cancel) => panic!("{done:?}"),
        () = streamed => {}
    }
}

fn journal(bench: &Bench, id: &SessionId) -> PathBuf {
    bench.file(id).with_file_name("attempt.journal")
}

fn last_answer(log: &EventLog) -> Value {
    all(log, &EventKind::AssistantMessage).pop().unwrap()
}

/// An answer of reasoning, text and the beginning of a call, that does not come to its end.
fn hangs() -> Attempt {
    Attempt::Hang {
        chunks: vec![
            Chunk::ReasoningDelta {
                index: 0,
                text: "Hm.".into(),
            },
            Chunk::TextDelta {
                index: 1,
                text: "I look ".into(),
            },
            Chunk::TextDelta {
                index: 1,
                text: "at it.".into(),
            },
            Chunk::Usage {
                usage: Usage {
                    input_tokens: 3,
                    output_tokens: 2,
                    ..Usage::default()
                },
            },
            Chunk::ToolCallDelta {
                index: 2,
                id: "a".into(),
                name: Some("look".into()),
                arguments_delta: "{".into(),
            },
        ],
    }
}

#[tokio::test]
async fn after_a_kill_the_text_is_an_interrupted_answer_and_the_next_request_has_it() {
    let mut bench = Bench::new();
    let (reply, _gate) = Reply::text("One two three four.").stall_after(4);
    let server = ScriptedModelServer::start([reply]);
    let mut agent = bench.agent(bench.create(), over_http(&server));
    let id = agent.session().id().clone();
    run_until(&bench, &mut agent, "Count.", "One two three ").await;
    // As long as it may still come in, it is no event that anybody could inherit.
    let read = bench.read(&id);
    let early = bench.service.prepare_fork(&read, read.settled, None);
    let early = early.unwrap_err();
    assert_eq!(early.code(), "STILL_STREAMING");
    let last = read.settled.unwrap().before().last().unwrap();
    bench.service.prepare_fork(&read, Some(last), None).unwrap();
    bench.crash(agent);

    // A reader sees it before anything is repaired, and a fork has it.
    let read = bench.read(&id);
    let settled = read.settled.unwrap();
    let fork = bench
        .service
        .prepare_fork(&read, Some(settled), None)
        .unwrap();
    let row = read.stored.log.get(settled).unwrap().text().to_owned();
    let mut forked = bench.agent(bench.service.store_fork(&fork).unwrap(), over_http(&server));
    server.push(Reply::text("Five."));
    ask(&mut forked, "Go on here.").await;
    let child = bench.log(forked.session().id());
    assert_eq!(child.get(settled).unwrap().text(), row);

    let opened = bench.service.open(&id).unwrap();
    assert_eq!(opened.repair.unwrap().settled, Some(settled));
    let mut agent = bench.agent(opened.attached, over_http(&server));
    server.push(Reply::text("Four, five."));
    ask(&mut agent, "Go on.").await;
    let log = bench.log(&id);
    assert_eq!(log.get(settled).unwrap().text(), row);
    assert_eq!(endings(&log), ["interrupted", "completed"]);
    let answer = &all(&log, &EventKind::AssistantMessage)[0];
    assert_eq!(answer["interrupted"], json!(true));
    assert_eq!(
        answer["message"],
        json!({
            "id": "interrupted-1-1-1", "role": "assistant",
            "content": [{"type": "text", "text": "One two three "}],
            "source": {"kind": "model", "provider": "acme", "model": "acme-small"},
        })
    );
    for request in &server.requests()[1..] {
        let messages = request.messages();
        let told = messages.iter().any(|message| {
            message["role"] == "assistant" && message["content"] == "One two three "
        });
        assert!(told, "{messages:?}");
    }
    assert!(!journal(&bench, &id).exists());
    server.finish();
}

#[tokio::test]
async fn calls_are_dropped_and_the_stream_is_kept_as_it_came() {
    let mut bench = Bench::new();
    let mut agent = bench.scripted(vec![hangs()]);
    let id = agent.session().id().clone();
    run_until(&bench, &mut agent, "Look.", "tool-call").await;
    bench.crash(agent);
    drop(bench.open(&id));
    let answer = last_answer(&bench.log(&id));
    assert_eq!(
        answer["message"]["content"],
        json!([{"type": "reasoning", "text": "Hm."}, {"type": "text", "text": "I look at it."}])
    );
    assert_eq!(answer["usage"]["inputTokens"], json!(3));
    assert_eq!(verify_stream(&answer.to_string()), Ok(()));
    let stream = answer["stream"].to_string();
    assert!(stream.contains("tool-call-chunks"), "{stream}");
}

#[tokio::test]
async fn an_agent_that_is_dropped_leaves_the_answer_for_the_next_one() {
    let mut bench = Bench::new();
    let mut agent = bench.scripted(vec![hangs()]);
    let id = agent.session().id().clone();
    run_until(&bench, &mut agent, "Look.", "at it.").await;
    drop(agent);
    bench.restart();
    assert!(journal(&bench, &id).exists());
    let mut agent = bench.agent(bench.open(&id), script(vec![says("Two.")]));
    ask(&mut agent, "And?").await;
    let log = bench.log(&id);
    assert_eq!(all(&log, &EventKind::AssistantMessage).len(), 2);
    assert_eq!(endings(&log), ["interrupted", "completed"]);
}

#[tokio::test]
async fn an_answer_that_was_only_calls_is_an_attempt() {
    let mut bench = Bench::new();
    let Attempt::Hang { chunks } = hangs() else {
        unreachable!()
    };
    let hang = Attempt::Hang {
        chunks: chunks[4..].to_vec(),
    };
    let mut agent = bench.scripted(vec![hang]);
    let id = agent.session().id().clone();
    run_until(&bench, &mut agent, "Look.", "tool-call").await;
    bench.crash(agent);
    drop(bench.open(&id));
    let log = bench.log(&id);
    let attempts = all(&log, &EventKind::AssistantAttempt);
    let chunk = json!({"type": "tool-call-chunks", "time0": NOW, "index": 2, "dt": [], "id": "a", "name": "look", "args": ["{"]});
    assert_eq!(attempts, [json!({"turn": 1, "step": 1, "stream": [chunk]})]);
    let closed = [
        "assistant/attempt",
        "step/end",
        "turn/end",
        "session/end-seed",
    ];
    let all = kinds(&log);
    assert_eq!(all[all.len() - 4..], closed);
}

#[tokio::test]
async fn an_answer_that_is_settled_leaves_no_journal() {
    let bench = Bench::new();
    let server = ScriptedModelServer::start([]);
    let (reply, gates) = Reply::text("One two.").gated();
    server.push(reply);
    let mut agent = bench.agent(bench.create(), over_http(&server));
    let id = agent.session().id().clone();
    agent.submit("Count.").unwrap();
    let cancel = Cancel::new();
    let watched = async {
        for number in 0..gates.len() {
            gates.gate(number).reached().await;
            bench.windows.pass();
            gates.release(number);
        }
    };
    let (done, ()) = tokio::join!(agent.run(&cancel), watched);
    done.unwrap();
    assert!(!journal(&bench, &id).exists());
    assert_eq!(bench.read(&id).settled, None);
    assert_eq!(last_answer(&bench.log(&id)).get("interrupted"), None);
    server.finish();
}

#[tokio::test]
async fn each_step_has_a_journal_of_its_own() {
    let mut bench = Bench::new();
    let mut agent = bench.scripted(vec![calls([("a", "look", "{}")]), hangs()]);
    let id = agent.session().id().clone();
    run_until(&bench, &mut agent, "Look.", "at it.").await;
    let text = fs::read_to_string(journal(&bench, &id)).unwrap();
    let head: Value = serde_json::from_str(text.lines().next().unwrap()).unwrap();
    assert_eq!(
        (&head["turn"], &head["step"], &head["attempt"]),
        (&json!(1), &json!(2), &json!(1))
    );
    bench.crash(agent);
    drop(bench.open(&id));
    assert_eq!(last_answer(&bench.log(&id))["step"], json!(2));
}

#[tokio::test]
async fn what_is_queued_becomes_durable_without_a_flush() {
    let bench = Bench::new();
    let agent = bench.scripted(Vec::new());
    agent.submit("Later.").unwrap();
    let id = agent.session().id();
    assert!(bench.service.read(id).is_err());
    bench.windows.pass();
    while bench.service.read(id).is_err() {
        tokio::task::yield_now().await;
    }
    assert_eq!(kinds(&bench.log(id)), ["agent/inbox/spliced"]);
}

#[tokio::test]
async fn what_cannot_be_stored_while_nobody_waits_is_reported() {
    let mut bench = Bench::new();
    let heard: Arc<Mutex<Vec<(Unstored, &str)>>> = Arc::default();
    let told = Arc::clone(&heard);
    bench.report_to(Arc::new(move |what, error| {
        told.lock().unwrap().push((what, error.code()));
    }));
    let agent = bench.scripted(Vec::new());
    agent.submit("Later.").unwrap();
    bench.disk.fail(1..=1);
    bench.windows.pass();
    while heard.lock().unwrap().is_empty() {
        tokio::task::yield_now().await;
    }
    assert_eq!(*heard.lock().unwrap(), [(Unstored::Events, "IO_ERROR")]);
    agent.flush().unwrap();
    assert_eq!(kinds(&bench.log(agent.session().id())).len(), 1);
}

fn attempt() -> AttemptStart {
    AttemptStart {
        at: StepRef { turn: 1, step: 1 },
        attempt: 1,
        provider: "acme".into(),
        model: "acme-small".into(),
    }
}

#[tokio::test]
async fn a_settled_answer_has_a_name_of_its_own_and_the_time_of_its_last_chunk() {
    let bench = Bench::new();
    let mut agent = bench.scripted(vec![says("One.")]);
    ask(&mut agent, "Hi.").await;
    let log = agent.session().log();
    let text = r#"{"type":"chunk","time":5,"chunk":{"type":"text-delta","index":0,"text":"Hi"}}"#;
    let late = text.replace("5", "7");
    let settled = AnswerSettler
        .settle(&attempt(), &[text, &late], &log)
        .unwrap()
        .unwrap();
    assert_eq!(settled.time, 7);
    let event = settled.draft.dated(log.end().seq(), 7).unwrap();
    assert!(event.text().contains("\"interrupted-1-1-1\""));
    let mut longer = log.clone();
    longer.push(event).unwrap();
    let again = AnswerSettler
        .settle(&attempt(), &[text], &longer)
        .unwrap()
        .unwrap();
    let event = again.draft.dated(longer.end().seq(), 5).unwrap();
    assert!(event.text().contains("\"interrupted-1-1-1-2\""));

    let nothing = AnswerSettler.settle(&attempt(), &[], &log).unwrap();
    assert!(nothing.is_none());
    let run = r#"{"type":"text-chunks","time0":5,"index":0,"dt":[],"texts":["Hi"]}"#;
    for (line, reason) in [
        (run, "its line 3 is no chunk"),
        (
            "{}",
            "its line 3 is damaged: missing field `type` at line 1 column 2",
        ),
    ] {
        let refused = AnswerSettler.settle(&attempt(), &[text, line], &log);
        assert_eq!(refused.unwrap_err(), reason);
    }
}

/// An answer that was complete and never stored: its calls were not run, and nobody will run them.
#[tokio::test]
async fn also_an_answer_that_had_come_to_its_end_is_an_interrupted_one() {
    let block = ContentBlock::text("All of it.");
    let chunks = [
        Chunk::BlockEnd { index: 0, block },
        Chunk::finish(FinishReason::Stop),
    ];
    let lines: Vec<String> = chunks
        .iter()
        .map(|chunk| json!({"type": "chunk", "time": 5, "chunk": chunk}).to_string())
        .collect();
    let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
    let settled = AnswerSettler.settle(&attempt(), &lines, &EventLog::new());
    let event = settled.unwrap().unwrap().draft;
    let event = event.dated(offshoot_session::Seq::new(0), 5).unwrap();
    assert_eq!(verify_stream(event.data()), Ok(()));
    assert!(event.data().contains("\"interrupted\":true"));
}
