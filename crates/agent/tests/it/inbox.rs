//! Input that waits in the log.

use offshoot_agent::{AgentError, Cancel};
use offshoot_session::{EventDraft, EventKind};
use serde_json::json;

use crate::bench::{Bench, ask, script};
use crate::support::{all, calls, kinds, kinds_from, says};

#[tokio::test]
async fn input_that_waits_in_the_log_of_an_opened_session_is_answered_without_being_said_again() {
    let mut bench = Bench::new();
    let agent = bench.scripted(Vec::new());
    agent.submit("Still here?").unwrap();
    agent.flush().unwrap();
    let id = agent.session().id().clone();
    drop(agent);
    bench.restart();
    let mut agent = bench.agent(bench.open(&id), script(vec![says("Yes.")]));
    let reports = agent.run(&Cancel::new()).await.unwrap();
    assert_eq!(reports[0].text, "Yes.");
    let said = &all(&bench.log(&id), &EventKind::UserMessage)[0];
    assert_eq!(said["content"][0]["text"], "Still here?");
}

#[tokio::test]
async fn a_fork_answers_nothing_that_was_said_to_its_parent() {
    let bench = Bench::new();
    let mut agent = bench.scripted(vec![says("One.")]);
    ask(&mut agent, "First.").await;
    agent.submit("Second.").unwrap();
    agent.flush().unwrap();
    let parent = bench.read(agent.session().id());
    let cut = parent.stored.log.end().last();
    let fork = bench.service.prepare_fork(&parent, cut, None).unwrap();
    let child = bench.service.store_fork(&fork).unwrap();
    let mut child = bench.agent(child, script(Vec::new()));
    assert_eq!(child.run(&Cancel::new()).await.unwrap(), []);
    assert_eq!(agent.session().log().pending_input().next_turn().len(), 1);
}

#[tokio::test]
async fn a_step_claims_everything_that_waits_for_it_before_the_one_prompt() {
    let bench = Bench::new();
    let mut agent = bench.scripted(vec![says("One."), says("Two.")]);
    for (target, start, text) in [
        ("next-turn", 0, "prompt"),
        ("next-step", 0, "first note"),
        ("next-step", 1, "second note"),
        ("next-turn", 1, "later"),
    ] {
        let message = json!({
            "id": text, "role": "user", "source": {"kind": "user"},
            "content": [{"type": "text", "text": text}],
        });
        let splice = json!({"target": target, "start": start, "inserted": [message]});
        let draft = EventDraft::log_only(EventKind::InboxSpliced, &splice).unwrap();
        agent.session().append(draft, 1_000).unwrap();
    }
    agent.run(&Cancel::new()).await.unwrap();
    let log = bench.log(agent.session().id());
    let claims: Vec<_> = all(&log, &EventKind::InboxSpliced).split_off(4);
    assert_eq!(
        claims,
        [
            json!({"target": "next-step", "start": 0, "removedCount": 2, "inserted": []}),
            json!({"target": "next-turn", "start": 0, "removedCount": 1, "inserted": []}),
            json!({"target": "next-turn", "start": 0, "removedCount": 1, "inserted": []}),
        ]
    );
    let said: Vec<_> = all(&log, &EventKind::UserMessage)
        .iter()
        .map(|message| message["content"][0]["text"].clone())
        .filter(|text| !text.as_str().unwrap().starts_with("This is where"))
        .collect();
    assert_eq!(said, ["first note", "second note", "prompt", "later"]);
}

#[tokio::test]
async fn a_note_that_comes_while_the_last_tool_runs_gets_a_step_of_the_same_turn() {
    let bench = Bench::new();
    let hold = bench.work.hold("a");
    let last = calls([("a", "look", r#"{"conclude":true}"#)]);
    let mut agent = bench.scripted(vec![last, says("Noted.")]);
    agent.submit("Finish.").unwrap();
    let session = agent.session().clone();
    let cancel = Cancel::new();
    let (reports, ()) = tokio::join!(agent.run(&cancel), async {
        hold.started.cancelled().await;
        let message = json!({
            "id": "n", "role": "user", "source": {"kind": "user"},
            "content": [{"type": "text", "text": "by the way"}],
        });
        let splice = json!({"target": "next-step", "start": 0, "inserted": [message]});
        let draft = EventDraft::log_only(EventKind::InboxSpliced, &splice).unwrap();
        session.append(draft, 1_000).unwrap();
        hold.released.cancel();
    });
    let reports = reports.unwrap();
    assert_eq!((reports.len(), &*reports[0].text), (1, "Noted."));
    assert_eq!(
        kinds_from(&bench.log(session.id()), 12),
        [
            "agent/inbox/spliced",
            "tool/result",
            "step/end",
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
async fn damaged_input_is_named_and_nothing_is_written() {
    let bench = Bench::new();
    let mut agent = bench.scripted(vec![says("One.")]);
    ask(&mut agent, "First.").await;
    let splice = json!({"target": "next-turn", "start": 7, "removedCount": 1, "inserted": []});
    let draft = EventDraft::log_only(EventKind::InboxSpliced, &splice).unwrap();
    let damage = agent.session().append(draft, 1_000).unwrap().seq();
    let log = agent.session().log();
    for refused in [
        agent.submit("Second."),
        agent.run(&Cancel::new()).await.map(|_| ()),
    ] {
        assert!(matches!(refused, Err(AgentError::Inbox(seq)) if seq == damage));
    }
    assert_eq!(kinds(&agent.session().log()), kinds(&log));
}

#[tokio::test]
async fn an_empty_message_is_refused_since_providers_would() {
    let bench = Bench::new();
    let agent = bench.scripted(Vec::new());
    for nothing in ["", " \n"] {
        let refused = agent.submit(nothing);
        assert!(
            matches!(refused, Err(AgentError::EmptyMessage)),
            "{nothing:?}"
        );
    }
    assert!(agent.session().log().is_empty());
}
