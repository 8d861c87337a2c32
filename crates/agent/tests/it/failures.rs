//! Failures of a real provider: the turn ends in the log, and the session goes on with a request that is in order.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use futures_util::stream::BoxStream;
use offshoot_agent::TurnEndReason;
use offshoot_model::{
    CallConfig, Chunk, ContentBlock, Failure, Model, ModelRequest, PreparedCall, ScriptModel,
    encode_messages,
};
use offshoot_session::EventKind;
use offshoot_test_support::{Reply, ScriptedModelServer, transcript};
use tokio_util::sync::CancellationToken;

use crate::bench::{Bench, DIALECT, ask, over_http, script};
use crate::order::first_step;
use crate::support::{all, kinds, kinds_from, says};

#[tokio::test]
async fn each_of_them_is_an_attempt_and_the_end_of_its_turn() {
    let text = || Reply::text("An answer that breaks off.");
    for (reply, code) in [
        (Reply::rate_limited(Some(7)), "RATE_LIMIT"),
        (Reply::server_error(), "SERVER"),
        (Reply::service_unavailable(), "SERVER"),
        (Reply::unauthorized(), "AUTH"),
        (Reply::quota_exceeded(), "QUOTA"),
        (Reply::context_overflow(), "CONTEXT_WINDOW_EXCEEDED"),
        (Reply::connection_reset(), "TRANSPORT"),
        (text().disconnect_after(3), "TRANSPORT"),
        (text().without_done(), "STREAM_CLOSED"),
        (text().eof_after(3), "STREAM_CLOSED"),
        (Reply::empty_body(), "STREAM_CLOSED"),
        (Reply::empty_completion(), "EMPTY_RESPONSE"),
        (Reply::malformed_json(), "MALFORMED_RESPONSE"),
        (Reply::malformed_event(), "MALFORMED_RESPONSE"),
        (Reply::wrong_content_type(), "MALFORMED_RESPONSE"),
        (
            Reply::tool_calls([("a", "change", "{}")]).without_done(),
            "STREAM_CLOSED",
        ),
    ] {
        let bench = Bench::new();
        let server = ScriptedModelServer::start([reply, Reply::text("Here I am.")]);
        let mut agent = bench.agent(bench.create(), over_http(&server));
        let reports = ask(&mut agent, "First.").await;
        let TurnEndReason::Error { error } = &reports[0].reason else {
            panic!("{code}: {reports:?}");
        };
        assert_eq!(error.code, code, "{error:?}");
        let log = bench.log(agent.session().id());
        assert_eq!(
            kinds(&log),
            first_step(&["assistant/attempt", "step/end", "turn/end"]),
            "{code}"
        );
        let logged = &all(&log, &EventKind::TurnEnd)[0]["reason"];
        assert_eq!(logged["error"]["code"], code);
        let stream = &all(&log, &EventKind::AssistantAttempt)[0]["stream"];
        let finish = stream.as_array().unwrap().last().unwrap();
        assert_eq!(
            finish["chunk"]["reason"]["failure"], logged["error"],
            "{code}"
        );

        let reports = ask(&mut agent, "Second.").await;
        assert_eq!(reports[0].text, "Here I am.");
        assert_eq!(
            kinds_from(&bench.log(agent.session().id()), log.events().count())[3..],
            [
                "step/start",
                "user/message",
                "assistant/message",
                "step/end",
                "turn/end"
            ]
        );
        assert!(bench.work.done().is_empty());
        server.finish();
    }
}

#[tokio::test]
async fn what_the_provider_said_about_waiting_is_in_the_log() {
    let bench = Bench::new();
    let limited = Reply::rate_limited(Some(7)).header("x-request-id", "r-1");
    let server = ScriptedModelServer::start([limited]);
    let mut agent = bench.agent(bench.create(), over_http(&server));
    let reports = ask(&mut agent, "First.").await;
    let TurnEndReason::Error { error } = &reports[0].reason else {
        panic!("{reports:?}");
    };
    assert_eq!(
        (
            error.status,
            error.provider_retry_after_ms,
            error.request_id.as_deref()
        ),
        (Some(429), Some(7_000), Some("r-1"))
    );
}

/// A provider of which something is missing, such as its key, until somebody mends that.
#[derive(Debug)]
struct Incomplete(Arc<ScriptModel>, AtomicBool);

impl Model for Incomplete {
    fn provider(&self) -> &str {
        self.0.provider()
    }

    fn prepare(&self, config: &CallConfig) -> Result<PreparedCall, Failure> {
        if self.1.load(Ordering::SeqCst) {
            return self.0.prepare(config);
        }
        Err(Failure::new("MISSING_CREDENTIAL", "there is no key"))
    }

    fn stream(
        &self,
        request: Arc<ModelRequest>,
        cancel: CancellationToken,
    ) -> BoxStream<'static, Chunk> {
        self.0.stream(request, cancel)
    }
}

#[tokio::test]
async fn what_was_said_to_a_provider_that_could_not_be_called_is_said_with_the_next_request() {
    let bench = Bench::new();
    let script = script(vec![says("Both.")]);
    let model = Arc::new(Incomplete(Arc::clone(&script), AtomicBool::new(false)));
    let mut agent = bench.agent(bench.create(), Arc::clone(&model) as _);
    let reports = ask(&mut agent, "First.").await;
    let TurnEndReason::Error { error } = &reports[0].reason else {
        panic!("{reports:?}");
    };
    assert_eq!(error.code, "MISSING_CREDENTIAL");
    assert_eq!(
        kinds(&bench.log(agent.session().id())),
        [
            "agent/inbox/spliced",
            "turn/start",
            "agent/inbox/spliced",
            "step/start",
            "system/message",
            "user/message",
            "user/message",
            "step/end",
            "turn/end"
        ]
    );
    model.1.store(true, Ordering::SeqCst);
    ask(&mut agent, "Second.").await;
    let request = &script.requests()[0];
    let said = request
        .messages
        .iter()
        .filter(|message| message.source.kind() == "user");
    let said: Vec<_> = said.flat_map(|message| &message.content).collect();
    assert_eq!(
        said,
        [
            &ContentBlock::text("First."),
            &ContentBlock::text("Second.")
        ]
    );
    assert_eq!(transcript::validate(&body(request)), []);
}

fn body(request: &ModelRequest) -> serde_json::Value {
    let messages = encode_messages(&request.messages, &DIALECT);
    serde_json::from_slice(&messages).unwrap()
}
