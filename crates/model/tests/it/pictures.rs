//! Pictures on the wire.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;

use offshoot_model::{
    Attachments, CallConfig, ContentBlock, Dialect, ImageAttachment, Message, MessageSource,
    MessagesDialect, ModelRequest, PictureLimits, Pictures, Protocol, Role, encode_request,
};

const CHAT: Protocol = Protocol::ChatCompletions(Dialect::compatible());
const MESSAGES: Protocol = Protocol::Messages(MessagesDialect::anthropic());

#[derive(Debug)]
struct Album(BTreeMap<String, Vec<u8>>);

impl Attachments for Album {
    fn bytes(&self, id: &str) -> io::Result<Vec<u8>> {
        let found = self.0.get(id).cloned();
        found.ok_or_else(|| io::Error::other("gone"))
    }
}

fn album() -> Album {
    Album(BTreeMap::from([
        ("sha256:01".to_owned(), b"one".to_vec()),
        ("sha256:02".to_owned(), b"two!".to_vec()),
    ]))
}

fn image(id: &str, bytes: u64, offloaded: bool) -> ContentBlock {
    ContentBlock::Image {
        attachment: ImageAttachment {
            attachment_id: id.into(),
            media_type: "image/png".into(),
            bytes,
            width: 2,
            height: 1,
            name: None,
            original_dimensions: None,
        },
        offloaded,
    }
}

fn user(content: Vec<ContentBlock>) -> Message {
    Message {
        content,
        ..Message::text("m", Role::User, "", MessageSource::user())
    }
}

fn request(messages: Vec<Message>) -> ModelRequest {
    ModelRequest {
        config: CallConfig {
            provider: "p".into(),
            model: "m".into(),
            max_tokens: Some(9),
            ..CallConfig::default()
        },
        messages: messages.into_iter().map(Arc::new).collect(),
        ..ModelRequest::default()
    }
}

fn call() -> Message {
    let content = vec![ContentBlock::ToolCall {
        id: "c1".into(),
        name: "look".into(),
        arguments: "{}".into(),
    }];
    Message {
        content,
        ..Message::text("a", Role::Assistant, "", MessageSource::model("x", "y"))
    }
}

fn history() -> Vec<Message> {
    vec![
        user(vec![
            image("sha256:01", 3, false),
            ContentBlock::text("look"),
            image("sha256:02", 4, true),
        ]),
        call(),
        Message::tool_result(
            "r",
            "c1",
            vec![ContentBlock::text("seen"), image("sha256:02", 4, false)],
        ),
    ]
}

/// The `messages` of the body.
fn written(protocol: Protocol, messages: Vec<Message>, pictures: Pictures<'_>) -> String {
    let body = protocol.encode(&request(messages), pictures).unwrap();
    let body = String::from_utf8(body).unwrap();
    let from = body.find(r#""messages":"#).unwrap();
    let to = body.rfind(r#","stream":true"#).unwrap();
    body[from..to].replace(r#","max_tokens":9"#, "")
}

fn shown(album: &Album) -> Pictures<'_> {
    Pictures::Shown {
        attachments: album,
        limits: PictureLimits::default(),
    }
}

#[test]
fn chat_completions_show_pictures_of_users_and_those_of_tools_behind_their_results() {
    let name = |id: &str, bytes: u64| {
        format!(r#"{{"type":"text","text":"[image, image/png, 2×1, {bytes} bytes, sha256:{id}]"}}"#)
    };
    let url = |data: &str| {
        format!(r#"{{"type":"image_url","image_url":{{"url":"data:image/png;base64,{data}"}}}}"#)
    };
    let expected = format!(
        concat!(
            r#""messages":[{{"role":"user","content":[{{"type":"text","text":"look"}},{},{},"#,
            r#"{{"type":"text","text":"[image, image/png, 2×1, 4 bytes, sha256:02: no longer in the context]"}}]}},"#,
            r#"{{"role":"assistant","content":"","tool_calls":[{{"id":"c1","type":"function","function":{{"name":"look","arguments":"{{}}"}}}}]}},"#,
            r#"{{"role":"tool","tool_call_id":"c1","content":"seen"}},"#,
            r#"{{"role":"user","content":[{{"type":"text","text":"Images from the tool results above:"}},{},{}]}}]"#,
        ),
        name("01", 3),
        url("b25l"),
        name("02", 4),
        url("dHdvIQ=="),
    );
    assert_eq!(written(CHAT, history(), shown(&album())), expected);
}

#[test]
fn messages_show_pictures_where_they_are() {
    let name = |id: &str, bytes: u64| {
        format!(r#"{{"type":"text","text":"[image, image/png, 2×1, {bytes} bytes, sha256:{id}]"}}"#)
    };
    let picture = |data: &str| {
        format!(
            r#"{{"type":"image","source":{{"type":"base64","media_type":"image/png","data":"{data}"}}}}"#
        )
    };
    let expected = format!(
        concat!(
            r#""messages":[{{"role":"user","content":[{},{},{{"type":"text","text":"look"}},"#,
            r#"{{"type":"text","text":"[image, image/png, 2×1, 4 bytes, sha256:02: no longer in the context]","cache_control":{{"type":"ephemeral"}}}}]}},"#,
            r#"{{"role":"assistant","content":[{{"type":"tool_use","id":"c1","name":"look","input":{{}}}}]}},"#,
            r#"{{"role":"user","content":[{{"type":"tool_result","tool_use_id":"c1","content":[{{"type":"text","text":"seen"}},{},{}],"cache_control":{{"type":"ephemeral"}}}}]}}]"#,
        ),
        name("01", 3),
        picture("b25l"),
        name("02", 4),
        picture("dHdvIQ=="),
    );
    assert_eq!(written(MESSAGES, history(), shown(&album())), expected);
}

#[test]
fn a_model_without_eyes_gets_the_same_line_every_time_and_nobody_looks_for_the_bytes() {
    let line = r#"{"type":"text","text":"[image, image/png, 2×1, 3 bytes, sha256:01: not shown to this model]"}"#;
    let messages = vec![user(vec![image("sha256:01", 3, false)])];
    let body = MESSAGES
        .encode(&request(messages), Pictures::Named)
        .unwrap();
    assert!(
        String::from_utf8(body)
            .unwrap()
            .contains(&line[..line.len() - 1]),
        "{line}"
    );
    let request = request(history());
    assert_eq!(
        CHAT.encode(&request, Pictures::Named).unwrap(),
        encode_request(&request, &Dialect::compatible())
    );
}

#[test]
fn too_many_or_too_large_pictures_are_refused_with_how_many_have_to_go() {
    let album = album();
    let refused = |images: u64, bytes: u64, limits: PictureLimits| {
        let images = (0..images).map(|_| user(vec![image("sha256:01", bytes, false)]));
        let pictures = Pictures::Shown {
            attachments: &album,
            limits,
        };
        let outcome = CHAT.encode(&request(images.collect()), pictures);
        outcome.err().map(|failure| {
            assert_eq!(failure.code, "IMAGE_OFFLOAD_REQUIRED");
            failure.offload_images.unwrap()
        })
    };
    let count = |count| PictureLimits {
        count,
        bytes: u64::MAX,
    };
    assert_eq!(refused(8, 3, count(8)), None);
    // A quarter of the room is free again.
    assert_eq!(refused(9, 3, count(8)), Some(3));
    assert_eq!(refused(2, 3, count(1)), Some(1));
    let bytes = |bytes| PictureLimits { count: 100, bytes };
    assert_eq!(refused(4, 10, bytes(40)), None);
    assert_eq!(refused(5, 10, bytes(40)), Some(2));
    assert_eq!(refused(1, 41, bytes(40)), Some(1), "one that can never go");
    assert_eq!(refused(3, u64::MAX, bytes(40)), Some(3));
}

#[test]
fn pictures_that_are_offloaded_take_no_room() {
    let messages = (0..9).map(|at| user(vec![image("sha256:01", 3, at > 0)]));
    let pictures = Pictures::Shown {
        attachments: &album(),
        limits: PictureLimits { count: 1, bytes: 3 },
    };
    assert!(CHAT.encode(&request(messages.collect()), pictures).is_ok());
}

#[test]
fn a_picture_that_is_missing_is_named() {
    let messages = vec![user(vec![image("sha256:03", 3, false)])];
    let failure = CHAT
        .encode(&request(messages), shown(&album()))
        .unwrap_err();
    assert_eq!(
        (failure.code.as_str(), failure.message.as_str()),
        (
            "UNSUPPORTED_CONTENT",
            "the image sha256:03 of the history cannot be read: gone"
        )
    );
}
