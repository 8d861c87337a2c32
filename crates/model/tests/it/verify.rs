//! A stored answer and its stream are two accounts of the same thing.

use offshoot_model::verify_stream;
use serde_json::{Value, json};

/// An answer of one text and one call whose stream gives exactly that.
fn answer() -> Value {
    json!({
        "turn": 1,
        "step": 1,
        "message": {
            "id": "m-1",
            "role": "assistant",
            "content": [
                {"type": "text", "text": "I will look."},
                {"type": "tool-call", "id": "c-1", "name": "read", "arguments": "{\"path\":\"a\"}"},
            ],
            "source": {
                "kind": "model", "provider": "p", "model": "m",
                "replayState": {"response": {"id": "r", "n": 1}, "blocks": [null, {"sig": "s"}]},
            },
        },
        "usage": {"inputTokens": 3, "outputTokens": 4},
        "stream": [
            {"type": "chunk", "time": 1, "chunk": {"type": "block-start", "index": 0, "blockType": "text"}},
            {"type": "text-chunks", "time0": 2, "index": 0, "dt": [0], "texts": ["I will", " look."]},
            {"type": "tool-call-chunks", "time0": 3, "index": 1, "dt": [0], "id": "c-1", "name": "read",
                "args": ["{\"path\":", "\"a\"}"]},
            {"type": "chunk", "time": 4, "chunk": {"type": "usage", "usage": {"outputTokens": 4, "inputTokens": 3}}},
            {"type": "chunk", "time": 5, "chunk": {"type": "finish", "reason": {"kind": "tool-calls"},
                "replayState": {"blocks": [null, {"sig": "s"}], "response": {"n": 1, "id": "r"}}}},
        ],
    })
}

type Change = Box<dyn FnOnce(&mut Value)>;

/// What is said of [`answer`] after a change.
fn said(change: impl FnOnce(&mut Value)) -> Option<String> {
    let mut answer = answer();
    change(&mut answer);
    let verified = verify_stream(&answer.to_string());
    verified.err().map(|mismatch| mismatch.to_string())
}

#[test]
fn an_answer_that_its_stream_gives_is_sound_whatever_the_order_of_members() {
    assert_eq!(said(|_| ()), None);
}

#[test]
fn an_empty_stream_says_nothing() {
    assert_eq!(said(|answer| answer["stream"] = json!([])), None);
}

#[test]
fn deltas_that_were_stored_one_by_one_give_the_same() {
    let raw = |text| json!({"type": "chunk", "time": 2, "chunk": {"type": "text-delta", "index": 0, "text": text}});
    let said = said(|answer| {
        let stream = answer["stream"].as_array_mut().unwrap();
        stream.splice(1..2, [raw("I wi"), raw("ll look.")]);
    });
    assert_eq!(said, None);
}

#[test]
fn the_first_difference_is_named() {
    let block = |answer: &mut Value, at: usize, name: &str, value: Value| {
        answer["message"]["content"][at][name] = value;
    };
    let cases: [(&str, Change); 12] = [
        (
            "block 1: text from character 8 on: the stream gives \"look.\", the message has \"find.\"",
            Box::new(move |answer| block(answer, 0, "text", json!("I will find."))),
        ),
        (
            "block 1: text from character 13 on: the stream gives nothing more, the message has \"\\n\"",
            Box::new(move |answer| block(answer, 0, "text", json!("I will look.\n"))),
        ),
        (
            "block 1: the stream gives `text`, the message has `reasoning`",
            Box::new(move |answer| block(answer, 0, "type", json!("reasoning"))),
        ),
        (
            "block 2: id from character 3 on: the stream gives \"1\", the message has \"2\"",
            Box::new(move |answer| block(answer, 1, "id", json!("c-2"))),
        ),
        (
            "block 2: name from character 1 on: the stream gives \"read\", the message has \"write\"",
            Box::new(move |answer| block(answer, 1, "name", json!("write"))),
        ),
        (
            "block 2: arguments from character 1 on: the stream gives \"{\\\"path\\\":\\\"a\\\"}\", the message has nothing more",
            Box::new(move |answer| block(answer, 1, "arguments", json!(""))),
        ),
        (
            "block 3: the stream gives no such block, the message has `text`",
            Box::new(|answer| {
                let content = answer["message"]["content"].as_array_mut().unwrap();
                content.push(json!({"type": "text", "text": ""}));
            }),
        ),
        (
            "block 2: the stream gives `tool-call`, the message has no such block",
            Box::new(|answer| {
                drop(answer["message"]["content"].as_array_mut().unwrap().pop());
            }),
        ),
        (
            "usage: the stream gives {\"inputTokens\":3,\"outputTokens\":4}, the message has none",
            Box::new(|answer| drop(answer.as_object_mut().unwrap().remove("usage"))),
        ),
        (
            "replay state: the stream gives none, the message has one",
            Box::new(|answer| {
                let finish = answer["stream"][4]["chunk"].as_object_mut().unwrap();
                drop(finish.remove("replayState"));
            }),
        ),
        (
            "replay state: JSON from character 20 on: the stream gives \"r\\\",\\\"n\\\":1},\\\"blocks\\\":[null\"…, the message has \"s\\\",\\\"n\\\":1},\\\"blocks\\\":[null\"…",
            Box::new(|answer| {
                let state = answer["message"]["source"]["replayState"].clone();
                answer["stream"][4]["chunk"]["replayState"] = state;
                answer["message"]["source"]["replayState"]["response"]["id"] = json!("s");
            }),
        ),
        (
            "the answer cannot be read: unknown stream record type `smoke`",
            Box::new(|answer| {
                answer["stream"] = json!([{"type": "smoke", "time0": 1, "index": 0, "dt": []}]);
            }),
        ),
    ];
    for (expected, change) in cases {
        assert_eq!(said(change).as_deref(), Some(expected));
    }
}

#[test]
fn an_interrupted_answer_holds_what_is_worth_keeping_of_its_stream() {
    let interrupted = |answer: &mut Value| {
        answer["interrupted"] = json!(true);
        drop(answer["message"]["content"].as_array_mut().unwrap().pop());
        let source = answer["message"]["source"].as_object_mut().unwrap();
        drop(source.remove("replayState"));
        let reason =
            json!({"kind": "aborted", "failure": {"message": "cancelled", "code": "ABORTED"}});
        answer["stream"][4]["chunk"] = json!({"type": "finish", "reason": reason});
    };
    assert_eq!(said(interrupted), None);
    let with_call = said(|answer| {
        let call = answer["message"]["content"][1].clone();
        interrupted(answer);
        answer["message"]["content"]
            .as_array_mut()
            .unwrap()
            .push(call);
    });
    assert_eq!(
        with_call.as_deref(),
        Some("block 2: the stream gives no such block, the message has `tool-call`")
    );
}

#[test]
fn halves_of_a_character_that_a_stream_tore_apart_are_one_in_the_message() {
    let torn = answer()
        .to_string()
        .replace(r#""I will look.""#, r#""\ud83d\ude00\ud800""#)
        .replace(r#""I will"," look.""#, r#""\ud83d","\ude00\ud800""#);
    assert_eq!(verify_stream(&torn), Ok(()));
    let other = torn.replace(r#""\ude00\ud800""#, r#""\ude00\ud801""#);
    assert!(verify_stream(&other).is_err());
}

#[test]
fn a_replay_state_too_deep_to_look_into_is_compared_as_it_is() {
    let deep = format!("{}{}", "[".repeat(1000), "]".repeat(1000));
    let state = r#"{"response":{"id":"r","n":1},"blocks":[null,{"sig":"s"}]}"#;
    let streamed = r#"{"blocks":[null,{"sig":"s"}],"response":{"n":1,"id":"r"}}"#;
    let text = answer().to_string();
    let new = format!(r#"{{"response":{deep}}}"#);
    let both = text.replace(state, &new).replace(streamed, &new);
    assert_eq!(verify_stream(&both), Ok(()));
    assert!(verify_stream(&text.replace(state, &new)).is_err());
}
