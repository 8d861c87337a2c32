//! The exact bytes of requests.

use std::sync::Arc;

use offshoot_model::{
    CallConfig, ContentBlock, Dialect, FileAttachment, ImageAttachment, Message, MessageSource,
    ModelRequest, RawJson, Role, ToolSpec, encode_messages, encode_request,
};
use proptest::prelude::*;

fn messages(messages: &[Message], dialect: Dialect) -> String {
    String::from_utf8(encode_messages(messages, &dialect)).unwrap()
}

fn body(request: &ModelRequest, dialect: Dialect) -> String {
    String::from_utf8(encode_request(request, &dialect)).unwrap()
}

fn message(role: Role, content: Vec<ContentBlock>) -> Message {
    Message {
        content,
        ..Message::text("m", role, "", MessageSource::user())
    }
}

fn reasoning(text: &str) -> ContentBlock {
    ContentBlock::Reasoning { text: text.into() }
}

fn call(id: &str) -> ContentBlock {
    ContentBlock::ToolCall {
        id: id.into(),
        name: "ls".into(),
        arguments: r#"{"path": "."}"#.into(),
    }
}

fn image(name: Option<&str>, offloaded: bool) -> ContentBlock {
    ContentBlock::Image {
        attachment: ImageAttachment {
            attachment_id: "sha256:00".into(),
            media_type: "image/png".into(),
            bytes: 9,
            width: 2,
            height: 1,
            name: name.map(str::to_owned),
            original_dimensions: None,
        },
        offloaded,
    }
}

#[test]
fn a_whole_request_has_the_documented_members_in_the_documented_order() {
    let request = ModelRequest {
        config: CallConfig {
            provider: "p".into(),
            model: "m-1".into(),
            reasoning_effort: Some("high".into()),
            temperature: Some(1.0),
            max_tokens: Some(100),
            stop: Some(vec!["END".into()]),
        },
        messages: vec![
            message(Role::System, vec![ContentBlock::text("be brief")]).into(),
            message(Role::User, vec![ContentBlock::text("how many files?")]).into(),
        ],
        tools: vec![ToolSpec {
            name: "ls".into(),
            description: "list".into(),
            parameters: RawJson::parse(r#"{ "type": "object", "n": 1.0 }"#).unwrap(),
            defer_loading: None,
        }],
        session_id: Some("s-1".into()),
    };
    let expected = concat!(
        r#"{"model":"m-1","messages":[{"role":"system","content":"be brief"},{"role":"user","content":"how many files?"}],"#,
        r#""tools":[{"type":"function","function":{"name":"ls","description":"list","parameters":{ "type": "object", "n": 1.0 }}}],"#,
        r#""temperature":1,"max_tokens":100,"stop":["END"],"reasoning_effort":"high","stream":true,"stream_options":{"include_usage":true}}"#,
    );
    assert_eq!(body(&request, Dialect::compatible()), expected);
}

#[test]
fn absent_settings_are_left_out() {
    let expected =
        r#"{"model":"","messages":[],"stream":true,"stream_options":{"include_usage":true}}"#;
    assert_eq!(
        body(&ModelRequest::default(), Dialect::compatible()),
        expected
    );
}

#[test]
fn dialects_differ_in_effort_and_token_limit() {
    let with = |effort: &str, dialect| {
        let config = CallConfig {
            reasoning_effort: Some(effort.into()),
            max_tokens: Some(5),
            ..CallConfig::default()
        };
        body(
            &ModelRequest {
                config,
                ..ModelRequest::default()
            },
            dialect,
        )
    };
    let end = r#""stream":true,"stream_options":{"include_usage":true}}"#;
    assert_eq!(
        with("off", Dialect::deepseek()),
        format!(
            r#"{{"model":"","messages":[],"max_tokens":5,"thinking":{{"type":"disabled"}},{end}"#
        )
    );
    assert_eq!(
        with("max", Dialect::deepseek()),
        format!(
            r#"{{"model":"","messages":[],"max_tokens":5,"reasoning_effort":"max","thinking":{{"type":"enabled"}},{end}"#
        )
    );
    assert_eq!(
        with("low", Dialect::openai()),
        format!(
            r#"{{"model":"","messages":[],"max_completion_tokens":5,"reasoning_effort":"low",{end}"#
        )
    );
}

#[test]
fn an_assistant_turn_carries_text_reasoning_and_raw_arguments() {
    let turn = [message(
        Role::Assistant,
        vec![
            reasoning("let me "),
            reasoning("see"),
            ContentBlock::text("I look."),
            call("c1"),
        ],
    )];
    let calls = r#""tool_calls":[{"id":"c1","type":"function","function":{"name":"ls","arguments":"{\"path\": \".\"}"}}]"#;
    assert_eq!(
        messages(&turn, Dialect::compatible()),
        format!(
            r#"[{{"role":"assistant","content":"I look.","reasoning_content":"let me see",{calls}}}]"#
        )
    );
    assert_eq!(
        messages(&turn, Dialect::openai()),
        format!(r#"[{{"role":"assistant","content":"I look.",{calls}}}]"#)
    );
}

#[test]
fn an_assistant_message_of_which_nothing_is_sent_is_left_out() {
    let turns = [
        message(Role::User, vec![ContentBlock::text("hello")]),
        message(Role::Assistant, vec![reasoning("hm")]),
        message(Role::Assistant, vec![ContentBlock::text("")]),
        message(Role::User, vec![ContentBlock::text("go on")]),
    ];
    let users = [
        r#"{"role":"user","content":"hello"}"#,
        r#"{"role":"user","content":"go on"}"#,
    ];
    assert_eq!(
        messages(&turns, Dialect::openai()),
        format!("[{},{}]", users[0], users[1])
    );
    assert_eq!(
        messages(&turns, Dialect::compatible()),
        format!(
            r#"[{},{{"role":"assistant","content":"","reasoning_content":"hm"}},{}]"#,
            users[0], users[1]
        )
    );
}

#[test]
fn half_a_surrogate_pair_in_a_stored_message_is_sent_as_a_replacement_character() {
    let stored = r#"{"id":"m","role":"user","content":[{"type":"text","text":"a\ud800b"}],"source":{"kind":"user"}}"#;
    let message = Message::from_stored(stored).unwrap();
    assert_eq!(
        messages(&[message], Dialect::compatible()),
        "[{\"role\":\"user\",\"content\":\"a\u{fffd}b\"}]"
    );
}

#[test]
fn assistant_content_is_a_string_even_when_there_is_no_text() {
    let turns = [
        message(Role::Assistant, vec![reasoning("hm")]),
        message(Role::Assistant, vec![call("c1")]),
    ];
    assert_eq!(
        messages(&turns, Dialect::compatible()),
        concat!(
            r#"[{"role":"assistant","content":"","reasoning_content":"hm"},"#,
            r#"{"role":"assistant","content":"","tool_calls":[{"id":"c1","type":"function","function":{"name":"ls","arguments":"{\"path\": \".\"}"}}]}]"#,
        )
    );
}

#[test]
fn developer_messages_become_system_messages_with_tool_changes_in_words() {
    let change = message(
        Role::Developer,
        vec![
            ContentBlock::text("Note."),
            ContentBlock::ToolAddition {
                tool_name: "ls".into(),
            },
            ContentBlock::ToolRemoval {
                tool_name: "rm".into(),
            },
        ],
    );
    assert_eq!(
        messages(&[change], Dialect::compatible()),
        r#"[{"role":"system","content":"Note.\nThe tool `ls` is now available.\nThe tool `rm` is no longer available."}]"#
    );
}

#[test]
fn a_system_message_without_text_is_dormant() {
    let history = [
        message(Role::System, vec![]),
        message(Role::User, vec![ContentBlock::text("hi")]),
        message(Role::Developer, vec![ContentBlock::text("")]),
    ];
    assert_eq!(
        messages(&history, Dialect::compatible()),
        r#"[{"role":"user","content":"hi"}]"#
    );
}

#[test]
fn tool_results_share_one_message_for_their_pictures() {
    let history = [
        Message::tool_result(
            "r-1",
            "c1",
            vec![ContentBlock::text("a"), ContentBlock::text("b")],
        ),
        Message::tool_result("r-2", "c2", vec![image(Some("a.png"), false)]),
        Message::tool_result(
            "r-3",
            "c3",
            vec![ContentBlock::text("d"), image(None, true)],
        ),
        message(Role::Assistant, vec![ContentBlock::text("done")]),
    ];
    assert_eq!(
        messages(&history, Dialect::compatible()),
        concat!(
            r#"[{"role":"tool","tool_call_id":"c1","content":"a\nb"},"#,
            r#"{"role":"tool","tool_call_id":"c2","content":"(no output)"},"#,
            r#"{"role":"tool","tool_call_id":"c3","content":"d"},"#,
            r#"{"role":"user","content":"Images from the tool results above:\n"#,
            r#"[image a.png, image/png, 2×1, 9 bytes, sha256:00: not shown to this model]\n"#,
            r#"[image, image/png, 2×1, 9 bytes, sha256:00: no longer in the context]"},"#,
            r#"{"role":"assistant","content":"done"}]"#,
        )
    );
}

#[test]
fn user_messages_put_text_first_and_name_what_cannot_be_shown() {
    let file = ContentBlock::File {
        attachment: FileAttachment {
            attachment_id: "sha256:01".into(),
            name: "a.csv".into(),
            bytes: 3,
        },
    };
    let chart = ContentBlock::Unknown(RawJson::parse(r#"{"type":"chart"}"#).unwrap());
    let history = [message(
        Role::User,
        vec![image(None, false), ContentBlock::text("look"), file, chart],
    )];
    assert_eq!(
        messages(&history, Dialect::compatible()),
        concat!(
            r#"[{"role":"user","content":"look\n[file a.csv, 3 bytes, sha256:01]\n"#,
            r#"[content of type chart cannot be shown to this model]\n"#,
            r#"[image, image/png, 2×1, 9 bytes, sha256:00: not shown to this model]"}]"#,
        )
    );
}

/// The messages between two requests, as a history consists of them.
fn any_step() -> impl Strategy<Value = Vec<Message>> {
    let result = |pictured: bool| {
        let mut content = vec![ContentBlock::text("out")];
        content.extend(pictured.then(|| image(None, false)));
        Message::tool_result("r", "c", content)
    };
    let results = prop::collection::vec(any::<bool>(), 1..4).prop_map(move |pictured| {
        let turn = message(Role::Assistant, vec![reasoning("hm"), call("c")]);
        std::iter::once(turn)
            .chain(pictured.into_iter().map(result))
            .collect()
    });
    let spoken = prop::sample::select(vec![Role::System, Role::Developer, Role::User]);
    prop_oneof![
        results,
        (spoken, "[a-zé\"\n]{0,6}")
            .prop_map(|(role, text)| vec![message(role, vec![ContentBlock::text(text)])]),
        Just(vec![message(
            Role::Assistant,
            vec![ContentBlock::text("done")]
        )]),
    ]
}

proptest! {
    #[test]
    fn a_longer_history_only_appends_to_the_bytes(steps in prop::collection::vec(any_step(), 0..8)) {
        let whole = steps.concat();
        let whole_bytes = encode_messages(&whole, &Dialect::compatible());
        let request = ModelRequest { messages: whole.into_iter().map(Arc::new).collect(), ..ModelRequest::default() };
        let in_body = format!(r#"{{"model":"","messages":{},"#, String::from_utf8(whole_bytes.clone()).unwrap());
        prop_assert!(body(&request, Dialect::compatible()).starts_with(&in_body));
        for cut in 0..steps.len() {
            let earlier = encode_messages(&steps[..cut].concat(), &Dialect::compatible());
            let (end, open) = earlier.split_last().unwrap();
            prop_assert_eq!(*end, b']');
            prop_assert!(whole_bytes.starts_with(open));
        }
    }
}
