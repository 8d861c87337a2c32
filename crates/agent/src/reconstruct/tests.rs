//! Rows replayed by hand, and what a driver does when the two paths differ.

use std::sync::atomic::{AtomicU64, Ordering};

use offshoot_format::Container;
use offshoot_model::{Attempt, Chunk, FinishReason, ScriptModel};
use offshoot_session::EventKind;
use offshoot_store::JsonlStore;
use offshoot_tool_api::ToolRegistry;

use super::*;
use crate::{
    AgentConfig, AgentSetup, Cancel, Clock, Driver, Env, IdSource, SessionService, TurnEndReason,
};

const HEADER: &str = r#"{"type":"request/header","seq":N,"time":0,"data":{"header":{"config":{"provider":"p","model":"m"}},"reason":"initial"}}"#;

fn user(id: &str, op: &str) -> String {
    format!(
        r#"{{"type":"user/message","seq":N,"time":0,"data":{{"id":"{id}","role":"user","content":[{{"type":"text","text":"{id}"}}],"source":{{"kind":"user"}}}},"surfaceOp":{op}}}"#
    )
}

fn log(rows: &[String]) -> Result<Reconstruction, RequestError> {
    let mut log = Reconstruction::new();
    for (row, seq) in rows.iter().zip(0..) {
        log.push(&row.replace("\"seq\":N", &format!("\"seq\":{seq}")))?;
    }
    Ok(log)
}

fn ids(log: &Reconstruction) -> Vec<String> {
    let request = log.request(&SessionId::new("s")).unwrap();
    request
        .messages
        .into_iter()
        .map(|message| message.id.clone())
        .collect()
}

#[test]
fn what_is_replaced_is_gone_and_the_rest_keeps_its_place() {
    let append = r#""append""#;
    let rows = [
        HEADER.to_owned(),
        user("a", append),
        user("b", append),
        user("c", append),
        user("d", r#"{"op":"replace","startSeq":1,"endSeq":2}"#),
        user("e", append),
    ];
    assert_eq!(ids(&log(&rows).unwrap()), ["d", "c", "e"]);
}

#[test]
fn images_that_are_taken_out_are_counted_in_their_message_and_nothing_else_of_it_changes() {
    let image = r#"{"type":"image","attachment":{"attachmentId":"sha256:0","mediaType":"image/png","bytes":1,"width":1,"height":1}}"#;
    let pictures = format!(
        r#"{{"type":"user/message","seq":N,"time":0,"data":{{"id":"a","role":"user","content":[{image},{{"type":"other","n":1e2}},{image}],"source":{{"kind":"user"}}}},"surfaceOp":"append"}}"#
    );
    let offload = r#"{"type":"image/offload","seq":N,"time":0,"data":{"targets":[{"seq":1,"imageIndexes":[1]}]}}"#;
    let log = log(&[HEADER.to_owned(), pictures, offload.to_owned()]).unwrap();
    let request = log.request(&SessionId::new("s")).unwrap();
    let content = serde_json::to_string(&request.messages[0].content).unwrap();
    let gone = image.replace("}}", r#"},"offloaded":true}"#);
    assert_eq!(
        content,
        format!(r#"[{image},{{"type":"other","n":1e2}},{gone}]"#)
    );
}

#[test]
fn a_row_that_replaces_what_is_not_there_is_refused() {
    let rows = [
        HEADER.to_owned(),
        user("a", r#"{"op":"replace","startSeq":7,"endSeq":7}"#),
    ];
    let error = log(&rows).unwrap_err();
    assert_eq!(
        error.to_string(),
        "event 1 cannot be part of a request: it replaces event 7, which is not on the surface"
    );
}

#[test]
fn a_request_that_is_not_what_the_log_says_is_told_with_its_first_other_byte() {
    let rows = [HEADER.to_owned(), user("a", r#""append""#)];
    let log = log(&rows).unwrap();
    let session = SessionId::new("s");
    let mut request = log.request(&session).unwrap();
    assert_eq!(verify_request(&request, &log, &session), Ok(()));
    Arc::make_mut(&mut request.messages[0]).id = "b".into();
    let error = verify_request(&request, &log, &session).unwrap_err();
    let byte =
        br#"{"config":{"provider":"p","model":"m"},"tools":[],"session":"s","messages":[{"id":""#
            .len();
    assert_eq!(
        error,
        RequestError::Mismatch {
            seq: Seq::new(2),
            byte
        }
    );
    assert_eq!(error.code(), "REQUEST_MISMATCH");
}

#[derive(Debug, Default)]
struct Counting(AtomicU64);

impl IdSource for Counting {
    fn fresh(&self) -> String {
        format!("id-{}", self.0.fetch_add(1, Ordering::Relaxed))
    }
}

impl Clock for Counting {
    fn now(&self) -> i64 {
        1_000
    }
}

#[tokio::test]
async fn a_request_that_differs_is_not_sent_and_ends_the_turn_and_the_agent_lives_on() {
    let home = tempfile::tempdir().unwrap();
    let env = Env {
        clock: Arc::new(Counting::default()),
        ids: Arc::new(Counting::default()),
    };
    let store = JsonlStore::new(home.path().join("sessions"), Container::Raw);
    let service = SessionService::new(Arc::new(store), env.clone());
    let answer = Attempt::Chunks(vec![Chunk::finish(FinishReason::Stop)]);
    let model = Arc::new(ScriptModel::new("p", vec![answer]));
    let mut config = AgentConfig::new("p", "m");
    config.context.verify_requests = true;
    let setup = AgentSetup::new(Arc::clone(&model) as _, ToolRegistry::new(), config, env);
    let mut driver = Driver::new(service.create(None).unwrap(), setup);
    driver.submit("Hello.").unwrap();
    // As if the fold had lost a message.
    driver
        .rebuilt
        .push(&user("lost", r#""append""#).replace("\"seq\":N", "\"seq\":0"))
        .unwrap();
    let reports = driver.run(&Cancel::new()).await.unwrap();
    let TurnEndReason::Error { error } = &reports[0].reason else {
        panic!("{reports:?}");
    };
    assert_eq!(error.code, "REQUEST_MISMATCH");
    assert!(error.message.contains("byte "), "{}", error.message);
    assert_eq!(model.requests().len(), 0);
    let log = driver.session().log();
    assert_eq!(
        log.events()
            .filter(|event| *event.kind() == EventKind::TurnEnd)
            .count(),
        1
    );

    driver.rebuilt = Reconstruction::new();
    driver.submit("Again.").unwrap();
    let reports = driver.run(&Cancel::new()).await.unwrap();
    assert_eq!(reports[0].reason, TurnEndReason::Completed);
}
