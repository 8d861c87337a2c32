//! A fork sends what its parent sent, byte for byte, wherever it was cut.

use offshoot_agent::{Driver, build_request};
use offshoot_model::encode_messages;
use offshoot_session::{EventKind, EventLog, Seq, SessionId};
use offshoot_test_support::{Reply, ScriptedModelServer};
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::bench::{Bench, DIALECT, ask, over_http};
use crate::support::{all, first};

/// The exact texts of the elements of a body's `messages`.
pub(crate) fn elements(body: &[u8]) -> Vec<String> {
    #[derive(Deserialize)]
    struct Body<'a> {
        #[serde(borrow)]
        messages: Vec<&'a RawValue>,
    }
    let Body { messages } = serde_json::from_slice(body).unwrap();
    let texts: Vec<_> = messages
        .iter()
        .map(|message| message.get().to_owned())
        .collect();
    let array = format!(r#""messages":[{}]"#, texts.join(","));
    let body = std::str::from_utf8(body).unwrap();
    assert!(body.contains(&array), "nothing stands between the elements");
    texts
}

/// A parent with a two-call step, an answer, and a second turn; all over HTTP.
async fn parent(bench: &Bench) -> (ScriptedModelServer, Driver) {
    let server = ScriptedModelServer::start([
        Reply::text_then_tool_calls(
            "Both.",
            [("a", "look", "{}"), ("b", "change", r#"{"empty":true}"#)],
        ),
        Reply::reasoning_then_text("Hm, so.", "Done."),
        Reply::tool_calls([("a", "look", "{}")]),
        Reply::text("Done again."),
    ]);
    let mut agent = bench.agent(bench.create(), over_http(&server));
    ask(&mut agent, "Do both.").await;
    ask(&mut agent, "Once more, with \"quotes\" and ünicode.").await;
    (server, agent)
}

/// The last request whose messages are all inherited at this cut, counted from 1.
fn last_request_before(log: &EventLog, cut: Seq) -> Option<usize> {
    let settled = log
        .events()
        .filter(|event| *event.kind() == EventKind::AssistantMessage);
    let whole = |settled: Seq| {
        let shown = log.prefix(settled.before()).surface().nodes().last();
        shown.is_some_and(|last| last <= cut)
    };
    let count = settled.take_while(|event| whole(event.seq())).count();
    (count > 0).then_some(count)
}

#[tokio::test]
async fn at_every_cut_the_childs_first_request_begins_with_the_parents_last_one() {
    let bench = Bench::new();
    let (server, agent) = parent(&bench).await;
    let (id, captured) = (agent.session().id().clone(), server.requests());
    server.finish();
    let source = bench.read(&id);
    let log = &source.stored.log;
    let before = bench.bytes(&id);
    let children = ScriptedModelServer::start([Reply::text("Here.")]);
    children.repeat_last();
    let model = over_http(&children);
    for cut in (0..log.end().get()).map(Seq::new) {
        let child = SessionId::new(format!("child-{cut}"));
        let fork = bench
            .service
            .prepare_fork(&source, Some(cut), Some(child.clone()))
            .unwrap();
        let attached = bench.service.store_fork(&fork).unwrap();
        let mut agent = bench.agent(attached, std::sync::Arc::clone(&model));
        let reports = ask(&mut agent, "And now?").await;
        assert_eq!(reports[0].text, "Here.", "cut at {cut}");
        let requests = children.requests();
        let sent = elements(&requests.last().unwrap().body);

        let prefix = log.prefix(cut.after());
        if let Some(n) = last_request_before(log, cut) {
            let parents = elements(&captured[n - 1].body);
            assert_eq!(sent[..parents.len()], parents, "cut at {cut}, request {n}");
        }
        // And what came after that request, up to the cut.
        if prefix.request_header().is_some() {
            let messages = build_request(&prefix, &id).unwrap().messages;
            let encoded = encode_messages(&messages, &DIALECT);
            let body = format!(r#"{{"messages":{}}}"#, String::from_utf8(encoded).unwrap());
            let inherited = elements(body.as_bytes());
            assert_eq!(sent[..inherited.len()], inherited, "cut at {cut}");
        }
        let own = bench.log(&child);
        let reason = all(&own, &EventKind::RequestHeader).pop().unwrap()["reason"].clone();
        let expected = if prefix.request_header().is_some() {
            "resume"
        } else {
            "initial"
        };
        assert_eq!(reason, expected, "cut at {cut}");
    }
    children.finish();
    assert_eq!(bench.bytes(&id), before);
    let runs: Vec<_> = bench.work.runs().into_iter().collect();
    assert_eq!(
        runs,
        [("a".into(), 2), ("b".into(), 1)],
        "only the parent ran them: `a` in two steps"
    );
}

#[tokio::test]
async fn the_cut_at_the_first_call_is_among_them() {
    let bench = Bench::new();
    let (_server, agent) = parent(&bench).await;
    let log = bench.log(agent.session().id());
    let cut = first(&log, &EventKind::ToolCall).seq();
    assert_eq!(last_request_before(&log, cut), Some(1));
    assert_eq!(
        last_request_before(&log, log.end().last().unwrap()),
        Some(4)
    );
}

#[tokio::test]
async fn within_a_session_every_request_begins_with_the_one_before() {
    let bench = Bench::new();
    let (server, _agent) = parent(&bench).await;
    let bodies: Vec<_> = server
        .requests()
        .iter()
        .map(|request| elements(&request.body))
        .collect();
    for pair in bodies.windows(2) {
        assert_eq!(pair[1][..pair[0].len()], pair[0]);
    }
}
