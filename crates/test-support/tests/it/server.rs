use std::panic::{AssertUnwindSafe, catch_unwind};

use offshoot_test_support::transcript::{Rules, SystemMessages};
use offshoot_test_support::{Reply, ScriptedModelServer};

use crate::client::{Next, SOUND, post, receive, send};

const BROKEN: &str = r#"{"messages":[{"role":"assistant","content":"hi"}]}"#;

fn panic_of(action: impl FnOnce()) -> String {
    let panic = catch_unwind(AssertUnwindSafe(action)).expect_err("it should panic");
    panic
        .downcast_ref::<String>()
        .cloned()
        .expect("the panic has a formatted message")
}

#[test]
fn replies_come_in_order_and_requests_are_kept_byte_for_byte() {
    let server = ScriptedModelServer::start([Reply::status(200, "1"), Reply::status(200, "2")]);
    let spaced = r#"{ "messages" : [ {"role":"user","content":"hé"} ] }"#;

    let first = receive(send(&server, "/chat/completions", SOUND))
        .unwrap()
        .text();
    let second = receive(send(&server, "/v1/chat/completions", spaced))
        .unwrap()
        .text();

    assert_eq!((first.as_str(), second.as_str()), ("1", "2"));
    let requests = server.requests();
    let seen: Vec<_> = requests
        .iter()
        .map(|r| (r.path.as_str(), &r.body[..]))
        .collect();
    assert_eq!(
        seen,
        [
            ("/chat/completions", SOUND.as_bytes()),
            ("/v1/chat/completions", spaced.as_bytes())
        ]
    );
    assert_eq!(requests[0].header("x-test"), Some("yes"));
    assert_eq!(
        requests[1].messages(),
        [serde_json::json!({"role": "user", "content": "hé"})]
    );
}

#[test]
fn a_reply_is_kept_for_whoever_asks_what_it_answers() {
    let asks = |text: &str| format!(r#"{{"messages":[{{"role":"user","content":"{text}"}}]}}"#);
    let server = ScriptedModelServer::start([
        Reply::status(200, "to one").asked("one"),
        Reply::status(200, "to two").asked("two"),
        Reply::status(200, "to anybody"),
    ]);
    let mut answers = Vec::new();
    for text in ["two", "three", "one", "one"] {
        let response = receive(send(&server, "/chat/completions", &asks(text)));
        answers.push(response.unwrap().text());
    }
    assert_eq!(answers[..3], ["to two", "to anybody", "to one"]);
    assert!(answers[3].contains("no reply left"), "{}", answers[3]);
}

#[test]
fn a_streamed_reply_arrives_in_its_chunks() {
    let reply = Reply::text("Hello there.");
    let expected: Vec<String> = reply
        .chunks()
        .iter()
        .map(|chunk| String::from_utf8(chunk.to_vec()).unwrap())
        .collect();
    let server = ScriptedModelServer::start([reply]);

    let mut response = post(&server, SOUND);

    assert_eq!(response.status, 200);
    assert_eq!(response.header("content-type"), Some("text/event-stream"));
    assert_eq!(response.rest(), (expected, Next::End));
}

#[test]
fn an_exhausted_script_answers_500_and_says_so() {
    let server = ScriptedModelServer::start([]);

    let mut response = post(&server, SOUND);

    assert_eq!(response.status, 500);
    assert_eq!(
        response.text(),
        r#"{"error":{"message":"the script has no reply left for request 1"}}"#
    );
    assert_eq!(server.requests().len(), 1);
}

#[test]
fn replies_can_be_added_later_and_the_last_one_repeated() {
    let server = ScriptedModelServer::start([]);
    server.push(Reply::status(200, "late"));
    server.repeat_last();

    let texts: Vec<_> = (0..3).map(|_| post(&server, SOUND).text()).collect();

    assert_eq!(texts, ["late", "late", "late"]);
}

#[test]
fn other_paths_are_refused_and_use_up_nothing() {
    let server = ScriptedModelServer::start([Reply::status(200, "kept")]);

    let mut refused = receive(send(&server, "/v1/models", "")).unwrap();

    assert_eq!(refused.status, 404);
    assert_eq!(
        refused.text(),
        r#"{"error":{"message":"the scripted model server knows no POST /v1/models"}}"#
    );
    assert_eq!(server.requests(), Vec::new());
    assert_eq!(post(&server, SOUND).text(), "kept");
}

#[tokio::test]
async fn a_gated_chunk_stays_back_until_its_gate_opens() {
    let (reply, gates) = Reply::events(["a", "b", "c"]).gated();
    let server = ScriptedModelServer::start([reply]);
    let stream = send(&server, "/chat/completions", SOUND);
    gates.gate(0).reached().await;
    gates.release(0);
    let mut response = receive(stream).unwrap();
    assert_eq!(response.next(), Next::Chunk("data: a\n\n".to_owned()));

    gates.gate(1).reached().await;
    gates.release(2);
    gates.release(1);

    assert_eq!(
        response.rest(),
        (
            vec!["data: b\n\n".to_owned(), "data: c\n\n".to_owned()],
            Next::End
        )
    );
    assert_eq!(gates.len(), 3);
}

#[tokio::test]
async fn a_stalled_reply_goes_on_when_released() {
    let (reply, gate) = Reply::events(["a", "b"]).stall_after(1);
    let server = ScriptedModelServer::start([reply]);
    let mut response = post(&server, SOUND);
    assert_eq!(response.next(), Next::Chunk("data: a\n\n".to_owned()));

    gate.reached().await;
    gate.release();

    assert_eq!(response.rest(), (vec!["data: b\n\n".to_owned()], Next::End));
}

#[tokio::test]
async fn a_held_head_comes_when_released() {
    let (reply, gate) = Reply::status(200, "at last").hold_head();
    let server = ScriptedModelServer::start([reply]);
    let stream = send(&server, "/chat/completions", SOUND);

    gate.reached().await;
    assert_eq!(server.requests().len(), 1);
    gate.release();

    assert_eq!(receive(stream).unwrap().text(), "at last");
}

#[test]
fn the_server_ends_although_a_reply_is_stalled() {
    let (reply, _gate) = Reply::events(["a"]).stall_after(1);
    let server = ScriptedModelServer::start([reply]);
    let mut response = post(&server, SOUND);
    assert_eq!(response.next(), Next::Chunk("data: a\n\n".to_owned()));

    server.finish();

    assert_eq!(response.next(), Next::Broken);
}

#[test]
fn a_disconnect_comes_after_exactly_the_chunks_before_it() {
    let server = ScriptedModelServer::start([
        Reply::events(["a", "b", "c"]).disconnect_after(2),
        Reply::events(["a", "b", "c"]).eof_after(2),
        Reply::events(["a", "b", "c"]).disconnect_after(0),
    ]);
    let two = vec!["data: a\n\n".to_owned(), "data: b\n\n".to_owned()];

    assert_eq!(post(&server, SOUND).rest(), (two.clone(), Next::Broken));
    assert_eq!(post(&server, SOUND).rest(), (two, Next::End));
    assert_eq!(post(&server, SOUND).rest(), (Vec::new(), Next::Broken));
}

#[test]
fn a_reset_connection_gives_no_answer_and_the_server_lives_on() {
    let server =
        ScriptedModelServer::start([Reply::connection_reset(), Reply::status(200, "alive")]);

    assert!(receive(send(&server, "/chat/completions", SOUND)).is_none());
    assert_eq!(post(&server, SOUND).text(), "alive");
}

#[test]
fn failures_have_the_status_and_the_headers_of_real_ones() {
    let cases = [
        ("rate limit", Reply::rate_limited(Some(7)), 429, Some("7")),
        (
            "rate limit without a hint",
            Reply::rate_limited(None),
            429,
            None,
        ),
        ("server error", Reply::server_error(), 500, None),
        ("unavailable", Reply::service_unavailable(), 503, None),
        ("credentials", Reply::unauthorized(), 401, None),
        ("invalid", Reply::invalid_request(), 400, None),
        ("too long", Reply::context_overflow(), 400, None),
        ("quota", Reply::quota_exceeded(), 402, None),
    ];
    let server = ScriptedModelServer::start(cases.iter().map(|case| case.1.clone()));
    for (name, _, status, retry_after) in cases {
        let mut response = post(&server, SOUND);
        assert_eq!(
            (
                response.status,
                response.header("retry-after"),
                response.header("content-type")
            ),
            (status, retry_after, Some("application/json")),
            "{name}"
        );
        let body: serde_json::Value = serde_json::from_str(&response.text()).unwrap();
        assert!(body["error"]["message"].is_string(), "{name}");
    }
}

#[test]
fn bodies_can_be_nonsense() {
    let server = ScriptedModelServer::start([
        Reply::empty_body(),
        Reply::malformed_json(),
        Reply::malformed_event(),
        Reply::wrong_content_type(),
        Reply::raw([&b": comment\r"[..], b"\ndata: x\r\n\r\n"]).header("X-Request-Id", "r1"),
    ]);

    assert_eq!(post(&server, SOUND).text(), "");
    assert_eq!(
        post(&server, SOUND).text(),
        "data: {\"id\":\"scripted\",\"choices\":[{\"del\n\ndata: [DONE]\n\n"
    );
    assert_eq!(
        post(&server, SOUND).text(),
        "data: {\"choices\":\"none\"}\n\ndata: [DONE]\n\n"
    );
    let mut page = post(&server, SOUND);
    assert_eq!(page.header("content-type"), Some("text/html"));
    assert_eq!(page.text(), "<html><body>Please log in.</body></html>");
    let mut raw = post(&server, SOUND);
    assert_eq!(raw.header("x-request-id"), Some("r1"));
    assert_eq!(raw.text(), ": comment\r\ndata: x\r\n\r\n");
}

#[tokio::test(start_paused = true)]
async fn waiting_for_requests_does_not_depend_on_the_clock_of_the_test() {
    let server = ScriptedModelServer::start([Reply::status(200, "1"), Reply::status(200, "2")]);
    assert_eq!(server.wait_for_requests(0).await, Vec::new());

    let (one, two) = (
        send(&server, "/chat/completions", SOUND),
        send(&server, "/chat/completions", SOUND),
    );

    assert_eq!(server.wait_for_requests(2).await.len(), 2);
    drop((one, two));
}

#[test]
fn a_broken_request_fails_the_test_that_sent_it() {
    let server = ScriptedModelServer::start([Reply::text("a"), Reply::text("b")]);
    post(&server, SOUND).text();
    post(&server, BROKEN).text();

    let panic = panic_of(|| drop(server));

    assert_eq!(
        panic,
        "the model server got broken requests:\n  \
         request 1: message 0: the conversation starts with role `assistant` instead of `user`\n  \
         request 1: message 0: the request ends with role `assistant`, so there is nothing to answer"
    );
}

#[test]
fn a_body_that_is_not_json_or_has_no_messages_is_broken() {
    let server = ScriptedModelServer::start([Reply::text("a"), Reply::text("b")]);
    post(&server, "{").text();
    post(&server, "{}").text();

    let panic = panic_of(|| server.finish());

    assert_eq!(
        panic,
        "the model server got broken requests:\n  \
         request 0: the body is not JSON: EOF while parsing an object at line 1 column 1\n  \
         request 1: `messages` is not a list"
    );
}

#[test]
fn an_expected_broken_request_is_fine() {
    let server = ScriptedModelServer::start([Reply::text("a")]);
    server.expect_invalid();
    post(&server, BROKEN).text();
    server.finish();
}

#[test]
fn expecting_a_broken_request_that_never_comes_fails() {
    let server = ScriptedModelServer::start([Reply::text("a")]);
    server.expect_invalid();
    post(&server, SOUND).text();

    assert_eq!(
        panic_of(|| server.finish()),
        "the test expects a broken request, but all requests are sound"
    );
}

#[test]
fn a_test_that_fails_already_is_not_made_to_panic_twice() {
    let server = ScriptedModelServer::start([Reply::text("a")]);
    post(&server, BROKEN).text();

    let reason = "its own reason";
    let panic = panic_of(|| {
        let _server = server;
        panic!("{reason}");
    });

    assert_eq!(panic, reason);
}

#[test]
fn requests_are_judged_by_the_rules_of_the_test() {
    let server = ScriptedModelServer::start([Reply::text("a")]);
    server.judge_by(Rules {
        system_messages: SystemMessages::Anywhere,
    });
    post(
        &server,
        r#"{"messages":[{"role":"user","content":"a"},{"role":"system","content":"b"},{"role":"user","content":"c"}]}"#,
    )
    .text();
    server.finish();
}
