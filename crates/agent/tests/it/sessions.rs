//! What the service does with sessions.

use std::fs;
use std::sync::Arc;

use offshoot_agent::{AgentError, Cancel, SessionService};
use offshoot_format::Container;
use offshoot_session::{EventDraft, EventKind, EventLog, LogOffset, Seq, SessionHeader, SessionId};
use offshoot_store::{HOME_MARKER, JsonlStore, Persistence as _, Query};
use serde_json::{Value, json};

use crate::bench::{Bench, ask, script};
use crate::support::{all, data, endings, first, says};

#[tokio::test]
async fn a_session_is_free_again_when_its_agent_goes_although_somebody_still_looks_at_it() {
    let bench = Bench::new();
    let mut agent = bench.scripted(vec![says("One.")]);
    ask(&mut agent, "First.").await;
    let view = agent.session().clone();
    let id = view.id().clone();
    let refused = bench.service.open(&id).unwrap_err();
    assert_eq!(refused.code(), "SESSION_LIVE");
    drop(agent);
    let mut agent = bench.agent(bench.open(&id), script(vec![says("Two.")]));
    ask(&mut agent, "Second.").await;
    assert_eq!(endings(&bench.log(&id)), ["completed", "completed"]);
    assert_eq!(endings(&view.log()), ["completed"]);
}

#[tokio::test]
async fn turns_are_counted_on_through_a_restart() {
    let mut bench = Bench::new();
    let mut agent = bench.scripted(vec![says("One.")]);
    ask(&mut agent, "First.").await;
    let id = agent.session().id().clone();
    drop(agent);
    bench.restart();
    let mut agent = bench.agent(bench.open(&id), script(vec![says("Two.")]));
    let reports = ask(&mut agent, "Second.").await;
    assert_eq!((reports[0].turn, &*reports[0].text), (2, "Two."));
}

#[tokio::test]
async fn the_prompt_of_another_program_stays_because_it_is_history() {
    let bench = Bench::new();
    let id = bench.import(include_bytes!("../fixtures/two-call-step.jsonl"));
    let before = data(&first(&bench.log(&id), &EventKind::SystemMessage));
    let mut agent = {
        let mut config = crate::bench::config();
        config.system_prompt = "Something else.".into();
        let (model, env) = (script(vec![says("Hi.")]), bench.env.clone());
        let setup = offshoot_agent::AgentSetup::new(model, bench.work.tools(), config, env);
        offshoot_agent::Driver::new(bench.open(&id), setup)
    };
    ask(&mut agent, "Hello?").await;
    assert_eq!(all(&bench.log(&id), &EventKind::SystemMessage), [before]);
}

#[tokio::test]
async fn a_conversation_gets_its_name_from_the_first_prompt_that_is_answered() {
    let bench = Bench::new();
    let mut agent = bench.scripted(vec![says("One."), says("Two.")]);
    agent.submit("Dropped before it began.").unwrap();
    let cancel = Cancel::new();
    cancel.cancel(offshoot_agent::CancelCause::User);
    agent.run(&cancel).await.unwrap();
    ask(&mut agent, "Name me after this.").await;
    ask(&mut agent, "And not after this.").await;
    let titles = all(&bench.log(agent.session().id()), &EventKind::SessionTitle);
    let titles: Vec<_> = titles.iter().map(|title| &title["title"]).collect();
    assert_eq!(titles, ["Name me after this."]);
}

fn logged(kind: EventKind, data: Value) -> EventDraft {
    EventDraft::log_only(kind, &data).unwrap()
}

fn shown(kind: EventKind, data: Value) -> EventDraft {
    EventDraft::message(kind, &data).unwrap()
}

/// A session whose only step was closed although its call had no result: other programs have written such.
pub(crate) fn unanswered(bench: &Bench) -> (SessionId, Seq) {
    let id = SessionId::new("unanswered");
    let mut session = offshoot_session::Session::new(SessionHeader::new(id.clone(), 1)).unwrap();
    let at = json!({"turn": 1, "step": 1});
    let asked = json!({"turn": 1, "step": 1, "stream": [], "message": {
        "id": "m", "role": "assistant", "source": {"kind": "model", "provider": "p", "model": "m"},
        "content": [{"type": "tool-call", "id": "a", "name": "look", "arguments": "{}"}],
    }});
    let config =
        json!({"header": {"config": {"provider": "p", "model": "m"}}, "reason": "initial"});
    for draft in [
        logged(EventKind::TurnStart, json!({"turn": 1})),
        logged(EventKind::StepStart, at.clone()),
        logged(EventKind::RequestHeader, config),
        shown(EventKind::AssistantMessage, asked),
        logged(EventKind::StepEnd, at),
        logged(
            EventKind::TurnEnd,
            json!({"turn": 1, "reason": {"kind": "completed"}}),
        ),
    ] {
        session.append(draft, 1).unwrap();
    }
    let events: Vec<_> = session.log().events().cloned().collect();
    let mut writer = bench.persistence().create(session.header()).unwrap();
    writer.append(&events).unwrap();
    (id, Seq::new(4))
}

#[tokio::test]
async fn a_conversation_that_no_provider_would_accept_is_not_continued_nor_is_its_fork() {
    let bench = Bench::new();
    let (id, closed) = unanswered(&bench);
    let refused = bench.service.open(&id).unwrap_err();
    assert_eq!(
        (refused.code(), refused.hint().is_some()),
        ("NOT_CONTINUABLE", true)
    );

    let source = bench.read(&id);
    let fork = bench
        .service
        .prepare_fork(&source, None, Some("child".into()))
        .unwrap();
    let mut child = bench.agent(bench.service.store_fork(&fork).unwrap(), script(Vec::new()));
    let before = bench.bytes(&"child".into());
    for refused in [
        child.submit("Go on."),
        child.run(&Cancel::new()).await.map(|_| ()),
    ] {
        let refused = refused.unwrap_err();
        let AgentError::NotContinuable(reason) = &refused else {
            panic!("{refused}");
        };
        assert_eq!(
            (reason.seq, reason.nearest_cut),
            (closed, Some(Seq::new(3)))
        );
        assert!(refused.hint().unwrap().starts_with("fork it at 3"));
    }
    child.flush().unwrap();
    assert_eq!(bench.bytes(&"child".into()), before);
    assert_eq!(child.session().log().findings().count(), 1);

    // The cut that the error names works.
    let fork = bench
        .service
        .prepare_fork(&source, Some(Seq::new(3)), None)
        .unwrap();
    let mut child = bench.agent(
        bench.service.store_fork(&fork).unwrap(),
        script(vec![says("Hi.")]),
    );
    assert_eq!(ask(&mut child, "Hello?").await[0].text, "Hi.");
    // So that the home holds only what a conversation may hold.
    for broken in [id, "child".into()] {
        fs::remove_file(bench.file(&broken)).unwrap();
    }
}

#[tokio::test]
async fn the_default_cut_is_the_last_completed_turn_and_there_may_be_none() {
    let bench = Bench::new();
    let mut agent = bench.scripted(vec![says("One.")]);
    agent.submit("First.").unwrap();
    agent.flush().unwrap();
    let id = agent.session().id().clone();
    let refused = bench
        .service
        .prepare_fork(&bench.read(&id), None, None)
        .unwrap_err();
    assert_eq!(refused.code(), "FORK_UNAVAILABLE");
    agent.run(&Cancel::new()).await.unwrap();
    agent.submit("Second.").unwrap();
    agent.flush().unwrap();
    let source = bench.read(&id);
    let fork = bench.service.prepare_fork(&source, None, None).unwrap();
    let ends = |log: &EventLog| {
        log.events()
            .filter(|event| *event.kind() == EventKind::TurnEnd)
            .last()
            .unwrap()
            .seq()
    };
    assert_eq!(fork.cut, ends(&source.stored.log));
    let beyond = Some(source.stored.log.end().seq());
    let refused = bench
        .service
        .prepare_fork(&source, beyond, None)
        .unwrap_err();
    assert_eq!(refused.code(), "INVALID_BOUNDARY");
    assert_eq!(
        fork.seed.inherited_event_count(),
        LogOffset::new(fork.cut.get() + 1)
    );
}

#[tokio::test]
async fn a_fork_with_a_taken_id_changes_nothing() {
    let bench = Bench::new();
    let mut agent = bench.scripted(vec![says("One.")]);
    ask(&mut agent, "First.").await;
    let id = agent.session().id().clone();
    let fork = bench
        .service
        .prepare_fork(&bench.read(&id), None, Some(id.clone()))
        .unwrap();
    let before = bench.bytes(&id);
    let refused = bench.service.store_fork(&fork).unwrap_err();
    assert_eq!(refused.code(), "SESSION_ALREADY_EXISTS");
    assert_eq!(bench.bytes(&id), before);
}

#[tokio::test]
async fn an_agents_session_is_forked_as_it_is_now_and_shares_what_that_makes_durable() {
    let bench = Bench::new();
    let home = tempfile::tempdir().unwrap();
    fs::File::create_new(home.path().join(HOME_MARKER)).unwrap();
    let store = JsonlStore::new(home.path().join("sessions"), Container::Zstd);
    let service = SessionService::new(Arc::new(store.clone()), bench.env.clone());
    let mut agent = bench.agent(service.create(None).unwrap(), script(vec![says("One.")]));
    ask(&mut agent, "First.").await;
    // It waits in the queue of the writer, and in that of the agent.
    agent.submit("Second.").unwrap();
    let log = agent.session().log();
    let last = log.end().last();

    let fork = service.prepare_fork_of(&agent, last, None).await.unwrap();
    let child = fork.header.id.clone();
    drop(service.store_fork(&fork).unwrap());
    let file = store.locate(&child).unwrap();
    assert_eq!(file.file_name().unwrap(), "branch.o1.jsonl.zstd");
    let texts = |log: &EventLog| -> Vec<String> {
        let events = log.events();
        events.map(|event| event.text().to_owned()).collect()
    };
    let inherited = store.read(&child).unwrap().stored.log;
    assert_eq!(texts(&inherited), texts(fork.seed.log()));
    assert_eq!(texts(&inherited.prefix(log.end())), texts(&log));

    // By default the cut is the last completed turn, and the agent goes on as if nothing had been.
    let fork = service.prepare_fork_of(&agent, None, None).await.unwrap();
    assert_eq!(Some(fork.cut), log.latest_completed_boundary());
    let beyond = service.prepare_fork_of(&agent, Some(log.end().seq()), None);
    assert_eq!(beyond.await.unwrap_err().code(), "INVALID_BOUNDARY");
    assert_eq!(texts(&agent.session().log()), texts(&log));
}

#[tokio::test]
async fn whoever_closes_or_forks_a_session_saves_the_next_list_from_reading_it() {
    let bench = Bench::new();
    let home = tempfile::tempdir().unwrap();
    let cache = tempfile::tempdir().unwrap();
    let store =
        || JsonlStore::new(home.path().join("sessions"), Container::Zstd).with_cache(cache.path());
    let service = SessionService::new(Arc::new(store()), bench.env.clone());
    let mut agent = bench.agent(service.create(None).unwrap(), script(vec![says("One.")]));
    ask(&mut agent, "First.").await;
    let id = agent.session().id().clone();
    let end = agent.session().log().end();
    drop(agent);
    let read = service.read(&id).unwrap();
    let fork = service.prepare_fork(&read, None, Some("child".into()));
    let fork = fork.unwrap();
    drop(service.store_fork(&fork).unwrap());
    let rows = store().list(&Query::default()).unwrap().rows;
    let mut known: Vec<_> = rows
        .iter()
        .map(|row| (row.id.clone(), row.summary().map(|summary| summary.events)))
        .collect();
    known.sort();
    let mut expected = [
        (id, Some(end)),
        ("child".into(), Some(fork.seed.log().end())),
    ];
    expected.sort();
    assert_eq!(known, expected);
}
