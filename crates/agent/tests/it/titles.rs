//! What sessions are called: after the first words, by a model, and by a person (`reference/agent.md` §2.10).

use std::sync::Arc;

use offshoot_agent::{AgentError, TitleCadence, TitleModel, rename, title_of};
use offshoot_model::{Attempt, Chunk, ContentBlock, FinishReason, ScriptModel};
use offshoot_session::{EventKind, EventLog};
use serde_json::{Value, json};

use crate::bench::{Bench, NOW, ask, call_config, script};
use crate::parts::{agent_with, texts_of};
use crate::support::{all, answers, call, says};

fn titles(log: &EventLog) -> Vec<Value> {
    all(log, &EventKind::SessionTitle)
        .iter()
        .map(|title| {
            json!([
                title["title"],
                title["source"]["kind"],
                title["messageSeqs"].as_array().unwrap().len()
            ])
        })
        .collect()
}

fn titled_by(model: &Arc<ScriptModel>, cadence: TitleCadence) -> Option<TitleModel> {
    Some(TitleModel {
        model: Arc::clone(model) as _,
        call: call_config("acme-names"),
        cadence,
    })
}

#[tokio::test]
async fn a_model_is_asked_on_the_side_and_what_it_is_asked_is_logged_first() {
    let bench = Bench::new();
    let names = script(vec![says("\"Greeting a friend\"\n")]);
    let mut agent = agent_with(
        &bench,
        bench.create(),
        script(vec![says("Hello."); 2]),
        |setup| {
            setup.titles = titled_by(&names, TitleCadence::FirstPrompt);
        },
    );
    ask(&mut agent, "Greet my friend, will you?").await;
    agent.titled().await;
    ask(&mut agent, "Again.").await;
    agent.titled().await;
    let log = bench.log(agent.session().id());
    assert_eq!(
        titles(&log),
        [
            json!(["Greet my friend, will you?", "fallback", 1]),
            json!(["Greeting a friend", "provider", 1]),
        ]
    );
    let title = &all(&log, &EventKind::SessionTitle)[1];
    assert_eq!(
        title["source"],
        json!({"kind": "provider", "provider": "offshoot-first-prompt", "model": {"provider": "acme", "model": "acme-names"}})
    );
    let mut requests = all(&log, &EventKind::SessionTitleLlmRequest);
    assert_eq!(requests.len(), 1);
    let request = requests.remove(0);
    let seq = &title["messageSeqs"][0];
    assert_eq!(
        (
            &request["titleProvider"],
            &request["messageSeqs"][0],
            &request["route"],
            &request["maxTokens"]
        ),
        (
            &json!("offshoot-first-prompt"),
            seq,
            &json!({"provider": "acme", "model": "acme-names"}),
            &json!(256)
        ),
    );
    let message = &request["messages"][0];
    assert_eq!(message["source"], json!({"kind": "dsh-session-title-llm"}));
    assert_eq!(
        message["content"][0]["text"],
        format!(
            "Generate the session title from this JSON array of human messages:\n[{{\"seq\":{seq},\"text\":\"Greet my friend, will you?\"}}]"
        )
    );
    let sent = &names.requests()[0];
    assert_eq!(sent.messages.len(), 2);
    assert_eq!(serde_json::to_value(&*sent.messages[1]).unwrap(), *message);
    assert_eq!(
        sent.messages[0].content,
        [ContentBlock::text(request["system"].as_str().unwrap())]
    );
}

#[tokio::test]
async fn what_goes_wrong_with_it_harms_nothing() {
    let failing = Attempt::Throw {
        chunks: Vec::new(),
        message: "no".into(),
        code: "SERVER".into(),
    };
    for answer in [
        failing,
        answers(vec![ContentBlock::text("Cut")], FinishReason::MaxTokens),
        answers(vec![call("c", "look", "{}")], FinishReason::ToolCalls),
        says("  \n"),
        Attempt::Chunks(vec![Chunk::finish(FinishReason::Stop)]),
    ] {
        let bench = Bench::new();
        let names = script(vec![answer]);
        let mut agent = agent_with(
            &bench,
            bench.create(),
            script(vec![says("Hello.")]),
            |setup| {
                setup.titles = titled_by(&names, TitleCadence::FirstPrompt);
            },
        );
        let reports = ask(&mut agent, "Greet me.").await;
        agent.titled().await;
        assert_eq!(reports[0].text, "Hello.");
        assert_eq!(names.remaining(), 0, "it was asked");
        assert_eq!(
            titles(&agent.session().log()),
            [json!(["Greet me.", "fallback", 1])]
        );
    }
}

#[tokio::test]
async fn with_every_message_all_of_them_are_shown_until_a_person_names_the_session() {
    let bench = Bench::new();
    let names = script(vec![says("First"), says("Second"), says("Third")]);
    let mut agent = agent_with(
        &bench,
        bench.create(),
        script(vec![says("Hello."); 3]),
        |setup| {
            setup.titles = titled_by(&names, TitleCadence::AllPrompts);
        },
    );
    ask(&mut agent, "One.").await;
    agent.titled().await;
    ask(&mut agent, "Two.").await;
    agent.titled().await;
    agent.rename(" Mine ").unwrap();
    ask(&mut agent, "Three.").await;
    agent.titled().await;
    let log = bench.log(agent.session().id());
    assert_eq!(
        titles(&log),
        [
            json!(["One.", "fallback", 1]),
            json!(["First", "provider", 1]),
            json!(["Second", "provider", 2]),
            json!(["Mine", "user", 0]),
        ]
    );
    assert_eq!(title_of(&log).as_deref(), Some("Mine"));
    assert_eq!(names.remaining(), 1);
}

#[tokio::test]
async fn a_name_that_a_person_gives_meanwhile_stays() {
    let bench = Bench::new();
    let names = script(vec![Attempt::Hang { chunks: Vec::new() }]);
    let mut agent = agent_with(
        &bench,
        bench.create(),
        script(vec![says("Hello.")]),
        |setup| {
            setup.titles = titled_by(&names, TitleCadence::FirstPrompt);
        },
    );
    ask(&mut agent, "Greet me.").await;
    agent.rename("Mine").unwrap();
    let id = agent.session().id().clone();
    // The model still thinks: that keeps nobody from closing the session.
    drop(agent);
    let log = bench.log(&id);
    assert_eq!(
        titles(&log),
        [
            json!(["Greet me.", "fallback", 1]),
            json!(["Mine", "user", 0])
        ]
    );
    drop(bench.open(&id));
}

#[tokio::test]
async fn a_fork_keeps_the_title_that_it_inherits() {
    let bench = Bench::new();
    let mut agent = bench.scripted(vec![says("Hello.")]);
    ask(&mut agent, "Greet me.").await;
    let fork = bench
        .service
        .prepare_fork(&bench.read(agent.session().id()), None, None)
        .unwrap();
    let names = script(vec![says("Other")]);
    let child = bench.service.store_fork(&fork).unwrap();
    let mut child = agent_with(&bench, child, script(vec![says("Hello.")]), |setup| {
        setup.titles = titled_by(&names, TitleCadence::FirstPrompt);
    });
    ask(&mut child, "Do something else.").await;
    child.titled().await;
    let log = bench.log(child.session().id());
    assert_eq!(title_of(&log).as_deref(), Some("Greet me."));
    assert_eq!(names.remaining(), 1);
    assert_eq!(texts_of(&log, "user").len(), 2);
}

#[tokio::test]
async fn a_stored_session_is_renamed_and_no_name_that_is_none_is_taken() {
    let mut bench = Bench::new();
    let mut agent = bench.scripted(vec![says("Hello.")]);
    ask(&mut agent, "Greet me.").await;
    let session = agent.session();
    for title in ["", " ", "two\nlines", &"x".repeat(201)] {
        let refused = rename(session, title, NOW);
        assert!(
            matches!(&refused, Err(error @ AgentError::InvalidTitle(_)) if error.code() == "INVALID_TITLE")
        );
    }
    let id = session.id().clone();
    drop(agent);
    bench.restart();
    bench.service.rename(&id, "Later").unwrap();
    assert_eq!(title_of(&bench.log(&id)).as_deref(), Some("Later"));
}
