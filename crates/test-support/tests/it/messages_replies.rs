//! What the scripted model says in Messages.

use offshoot_test_support::{
    Behaviour, ClosedPort, Endpoint, Reply, ScriptedModelServer, ScriptedToolCall,
};
use serde_json::{Value, json};

use crate::client::{Next, receive, send};

const SOUND: &str = r#"{"model":"m","max_tokens":9,"messages":[{"role":"user","content":[{"type":"text","text":"hi"}]}]}"#;

/// The data of each event. Its name is the one in the data.
fn data(reply: Reply) -> Vec<Value> {
    let events = reply.at(Endpoint::Messages).chunks().into_iter();
    let data = events.map(|event| {
        let text = String::from_utf8(event.to_vec()).unwrap();
        let (name, data) = text
            .strip_suffix("\n\n")
            .and_then(|text| text.split_once("\ndata: "))
            .unwrap();
        let data: Value = serde_json::from_str(data).unwrap();
        assert_eq!(format!("event: {}", data["type"].as_str().unwrap()), name);
        data
    });
    data.collect()
}

#[test]
fn an_answer_is_blocks_between_a_start_and_a_stop() {
    let block = |event: &str, index: u64, rest: Value| {
        let mut data = json!({ "type": event, "index": index });
        let members = rest.as_object().unwrap().clone();
        data.as_object_mut().unwrap().extend(members);
        data
    };
    let begin = |index, block_begun| {
        block(
            "content_block_start",
            index,
            json!({ "content_block": block_begun }),
        )
    };
    let delta = |index, delta| block("content_block_delta", index, json!({ "delta": delta }));
    let end = |index| block("content_block_stop", index, json!({}));
    let reply = Reply::reasoning_then_text("Hm.", "Well then.").redacted_thinking("x");
    let usage = json!({
        "input_tokens": 10,
        "cache_read_input_tokens": 3,
        "cache_creation_input_tokens": 4,
        "output_tokens": 1,
    });
    let mut events = data(reply);
    assert_eq!(events.remove(0)["message"]["usage"], usage);
    assert_eq!(
        events,
        [
            json!({ "type": "ping" }),
            begin(
                0,
                json!({ "type": "thinking", "thinking": "", "signature": "" })
            ),
            delta(0, json!({ "type": "thinking_delta", "thinking": "Hm." })),
            delta(
                0,
                json!({ "type": "signature_delta", "signature": "c2NyaXB0ZWQ=" })
            ),
            end(0),
            begin(1, json!({ "type": "redacted_thinking", "data": "x" })),
            end(1),
            begin(2, json!({ "type": "text", "text": "" })),
            delta(2, json!({ "type": "text_delta", "text": "Well " })),
            delta(2, json!({ "type": "text_delta", "text": "then." })),
            end(2),
            json!({
                "type": "message_delta",
                "delta": { "stop_reason": "end_turn", "stop_sequence": null },
                "usage": { "output_tokens": 5 },
            }),
            json!({ "type": "message_stop" }),
        ]
    );
}

#[test]
fn a_tool_call_comes_in_pieces() {
    let call = ScriptedToolCall::from(("c1", "read", r#"{"a":1}"#));
    let events = data(Reply::tool_calls([call]).usage(None));
    let pieces: String = events
        .iter()
        .filter_map(|event| event["delta"]["partial_json"].as_str())
        .collect();
    assert_eq!(pieces, r#"{"a":1}"#);
    assert_eq!(
        events[2]["content_block"],
        json!({ "type": "tool_use", "id": "c1", "name": "read", "input": {} })
    );
    let reasons: Vec<_> = events
        .iter()
        .filter_map(|event| event["delta"]["stop_reason"].as_str())
        .collect();
    assert_eq!(reasons, ["tool_use"]);
}

#[test]
fn a_reply_is_written_for_the_endpoint_that_is_asked() {
    let server = ScriptedModelServer::start([Reply::server_error(), Reply::server_error()]);
    server.expect_invalid();
    let texts = ["/v1/messages", "/v1/chat/completions"]
        .map(|path| receive(send(&server, path, SOUND)).unwrap().text());
    assert_eq!(
        texts,
        [
            r#"{"type":"error","error":{"type":"api_error","message":"Something broke on this side."},"request_id":"req_scripted"}"#,
            r#"{"error":{"message":"Something broke on this side.","type":"server_error","code":"server_error"}}"#,
        ]
    );
}

#[test]
fn a_request_without_a_version_is_broken() {
    let server = ScriptedModelServer::start([Reply::text("hi")]);
    let body = receive(send(&server, "/messages", SOUND)).unwrap().text();
    assert!(
        body.ends_with("data: {\"type\":\"message_stop\"}\n\n"),
        "{body}"
    );
    // It has no header for the version, and that is all.
    server.expect_invalid();
}

#[test]
fn what_breaks_off_in_the_middle_has_said_one_word_at_either_endpoint() {
    for endpoint in [Endpoint::ChatCompletions, Endpoint::Messages] {
        for behaviour in [Behaviour::PartialDisconnect, Behaviour::PartialEof] {
            let said = behaviour.reply(endpoint).chunks().concat();
            let said = String::from_utf8(said).unwrap();
            let words = ["One ", "two "].map(|word| said.contains(&format!("\"{word}\"")));
            assert_eq!(words, [true, false], "{behaviour:?} {endpoint:?}");
        }
    }
}

#[test]
fn a_closed_port_refuses_until_it_listens() {
    let port = ClosedPort::new();
    let url = port.base_url();
    let address = url.trim_start_matches("http://");
    let refused = std::net::TcpStream::connect(address).unwrap_err();
    assert_eq!(refused.kind(), std::io::ErrorKind::ConnectionRefused);

    let server = port.listen([Reply::events(["hi"])]);

    assert_eq!(server.base_url(), url);
    let mut answer = receive(send(&server, "/chat/completions", crate::client::SOUND)).unwrap();
    assert_eq!(answer.rest(), (vec!["data: hi\n\n".to_owned()], Next::End));
}
