//! The surface: what the model sees, and what may change it (§7).

use offshoot_session::EventKind;
use serde_json::{Value, json};

use crate::support::{
    Script, request_header, result, seq, seqs, surface, system, text, two_calls, user,
};

/// Node 0 is a protected system message; 1 to 4 are user messages; then a call and its result at 5 and 7.
fn busy() -> Script {
    let mut script = Script::new();
    script.system("s");
    for id in ["u-1", "u-2", "u-3", "u-4"] {
        script.user(id);
    }
    script.assistant(1, 1, &["c"]);
    script.call(1, 1, "c");
    script.result(1, 1, "c");
    script
}

#[test]
fn messages_are_appended_in_order_and_nothing_else_is() {
    let log = two_calls(16);
    assert_eq!(surface(&log), [2, 3, 6, 9, 10, 13]);
    assert_eq!(
        (log.surface().head(), log.surface().content_generation()),
        (Some(seq(2)), 0)
    );
    assert!(log.surface().has_protected_head());
}

#[test]
fn a_replacement_takes_the_place_of_its_range() {
    for (range, expected) in [
        ((1, 1), vec![0, 8, 2, 3, 4, 5, 7]),
        ((2, 4), vec![0, 1, 8, 5, 7]),
        ((1, 7), vec![0, 8]),
        ((5, 7), vec![0, 1, 2, 3, 4, 8]),
    ] {
        let mut script = busy();
        script.compact(seq(range.0), seq(range.1));
        assert_eq!(surface(&script.log), expected, "{range:?}");
        assert_eq!(script.log.surface().content_generation(), 1);
        assert!(script.log.surface().has_protected_head());
    }
}

#[test]
fn surface_order_counts_and_not_the_order_of_seqs() {
    let mut script = busy();
    script.compact(seq(1), seq(2));
    assert_eq!(surface(&script.log), [0, 8, 3, 4, 5, 7]);
    let backwards = script.replace(
        "user/message",
        &user("x", "x"),
        (seq(3), seq(8)),
        &seqs(&[3, 8]),
    );
    assert_eq!(
        backwards.unwrap_err(),
        "event 9: the replaced range runs backwards: 3 stands behind 8 on the surface"
    );
    script.compact(seq(8), seq(3));
    assert_eq!(surface(&script.log), [0, 9, 4, 5, 7]);
}

#[test]
fn every_refused_replacement_says_why_and_changes_nothing() {
    let rewritten = |call: &str| result("r-7", 1, 1, call, &json!([text("cut")]));
    let with = |mut data: Value, pointer: &str, value: Value| {
        let (parent, key) = pointer.rsplit_once('/').unwrap();
        data.pointer_mut(parent).unwrap()[key] = value;
        data
    };
    type Case<'a> = (&'a str, Value, (u64, u64), &'a [u64], &'a str);
    let cases: Vec<Case<'_>> = vec![
        (
            "user/message",
            user("x", "x"),
            (6, 6),
            &[6],
            "the replaced range starts at 6, which is not on the surface",
        ),
        (
            "user/message",
            user("x", "x"),
            (1, 6),
            &[1],
            "the replaced range ends at 6, which is not on the surface",
        ),
        (
            "user/message",
            user("x", "x"),
            (8, 8),
            &[7],
            "the replaced range starts at 8, which is not on the surface",
        ),
        (
            "user/message",
            user("x", "x"),
            (3, 2),
            &[2, 3],
            "the replaced range runs backwards: 3 stands behind 2 on the surface",
        ),
        (
            "user/message",
            user("x", "x"),
            (1, 3),
            &[1, 3],
            "the replaced event 2 is not cited in `sourceEventSeqs`",
        ),
        (
            "user/message",
            user("x", "x"),
            (1, 1),
            &[],
            "the replaced event 1 is not cited in `sourceEventSeqs`",
        ),
        (
            "user/message",
            user("x", "x"),
            (0, 0),
            &[0],
            "the system message at the head may only be replaced by another one",
        ),
        (
            "system/message",
            system("x", &json!([])),
            (0, 1),
            &[0, 1],
            "the system message at the head may only be replaced by another one",
        ),
        (
            "assistant/message",
            crate::support::assistant("x", 1, 1, &[]),
            (1, 1),
            &[1],
            "an assistant/message must not have `sourceEventSeqs`",
        ),
        (
            "assistant/message",
            crate::support::assistant("x", 1, 1, &[]),
            (1, 1),
            &[],
            "the replaced event 1 is not cited in `sourceEventSeqs`",
        ),
        (
            "tool/result",
            rewritten("c"),
            (5, 7),
            &[5, 7],
            "a tool/result may replace exactly one result, not 2 nodes",
        ),
        (
            "tool/result",
            rewritten("c"),
            (4, 4),
            &[4],
            "a tool/result may only replace another tool/result",
        ),
        (
            "tool/result",
            rewritten("d"),
            (7, 7),
            &[7],
            "a rewritten tool/result may change nothing but its content",
        ),
        (
            "tool/result",
            with(rewritten("c"), "/message/id", json!("other")),
            (7, 7),
            &[7],
            "a rewritten tool/result may change nothing but its content",
        ),
        (
            "tool/result",
            with(rewritten("c"), "/step", json!(2)),
            (7, 7),
            &[7],
            "a rewritten tool/result may change nothing but its content",
        ),
        (
            "tool/result",
            with(rewritten("c"), "/message/isError", json!(true)),
            (7, 7),
            &[7],
            "a rewritten tool/result may change nothing but its content",
        ),
        (
            "tool/result",
            with(rewritten("c"), "/meta", json!({})),
            (7, 7),
            &[7],
            "a rewritten tool/result may change nothing but its content",
        ),
    ];
    for (kind, data, (start, end), cited, reason) in cases {
        let mut script = busy();
        let before = format!("{:?}", script.log);
        let refused = script.replace(kind, &data, (seq(start), seq(end)), &seqs(cited));
        assert_eq!(refused.unwrap_err(), format!("event 8: {reason}"));
        assert_eq!(format!("{:?}", script.log), before, "{reason}");
    }
}

#[test]
fn more_earlier_events_than_the_shadowed_ones_may_be_cited_in_any_order() {
    let mut script = busy();
    script
        .replace(
            "user/message",
            &user("x", "x"),
            (seq(1), seq(2)),
            &seqs(&[6, 2, 0, 1]),
        )
        .unwrap();
    assert_eq!(surface(&script.log), [0, 8, 3, 4, 5, 7]);
}

#[test]
fn the_head_gives_way_to_another_system_message_alone() {
    let mut script = busy();
    let newer = system("s-2", &json!([]));
    script
        .replace("system/message", &newer, (seq(0), seq(0)), &seqs(&[0]))
        .unwrap();
    assert_eq!(surface(&script.log), [8, 1, 2, 3, 4, 5, 7]);
    assert!(script.log.surface().has_protected_head());
    let refused = script.replace(
        "user/message",
        &user("x", "x"),
        (seq(8), seq(1)),
        &seqs(&[1, 8]),
    );
    assert_eq!(
        refused.unwrap_err(),
        "event 9: the system message at the head may only be replaced by another one"
    );
}

#[test]
fn a_later_system_message_is_not_protected() {
    let mut script = Script::new();
    script.user("u");
    script.system("s");
    assert!(!script.log.surface().has_protected_head());
    script.compact(seq(0), seq(1));
    assert_eq!(surface(&script.log), [2]);
}

#[test]
fn a_head_that_a_replacement_brought_is_protected_too() {
    let mut script = Script::new();
    script.user("u-1");
    script.user("u-2");
    script
        .replace(
            "system/message",
            &system("s", &json!([])),
            (seq(0), seq(1)),
            &seqs(&[0, 1]),
        )
        .unwrap();
    assert_eq!(surface(&script.log), [2]);
    assert!(script.log.surface().has_protected_head());
}

#[test]
fn a_result_may_be_rewritten_again_and_members_may_move() {
    let mut script = busy();
    let shorter = r#"{"message":{"content":[],"toolCallId":"c","source":{"callId":"c","kind":"tool"},"role":"tool","id":"r-7"},"step":1,"turn":1}"#;
    let shorter: Value = serde_json::from_str(shorter).unwrap();
    script
        .replace("tool/result", &shorter, (seq(7), seq(7)), &seqs(&[7]))
        .unwrap();
    script
        .replace("tool/result", &shorter, (seq(8), seq(8)), &seqs(&[8]))
        .unwrap();
    assert_eq!(surface(&script.log), [0, 1, 2, 3, 4, 5, 9]);
    assert_eq!(script.log.surface().content_generation(), 2);
}

#[test]
fn derived_messages_are_the_logged_texts_in_surface_order_without_empty_ones() {
    let mut script = Script::new();
    script.append("system/message", &system("s", &json!([])));
    script.user("u-1");
    let mut empty_user = user("u-2", "");
    empty_user["content"] = json!([]);
    script.append("user/message", &empty_user);
    script.turn(1);
    let mut silent = crate::support::assistant("a", 1, 1, &[]);
    silent["message"]["content"] = json!([]);
    script.append("assistant/message", &silent);
    script.user("u-3");
    script.compact(seq(1), seq(1));
    let derived: Vec<(u64, &EventKind, String)> = script
        .log
        .messages()
        .map(|message| (message.seq.get(), message.kind, message.text.into_owned()))
        .collect();
    let checkpoint = r#"{"id":"checkpoint","role":"user","content":[{"type":"text","text":"the story so far"}],"source":{"kind":"compact-checkpoint"}}"#;
    let user = |id: &str, content: &str| {
        format!(r#"{{"id":"{id}","role":"user","content":[{content}],"source":{{"kind":"user"}}}}"#)
    };
    assert_eq!(
        derived,
        [
            (6, &EventKind::UserMessage, checkpoint.to_owned()),
            (2, &EventKind::UserMessage, user("u-2", "")),
            (
                5,
                &EventKind::UserMessage,
                user("u-3", r#"{"type":"text","text":"u-3"}"#)
            ),
        ]
    );
    assert_eq!(
        surface(&script.log),
        [0, 6, 2, 4, 5],
        "empty messages keep their place"
    );
}

#[test]
fn offloaded_images_are_marked_in_the_derived_message_and_nowhere_else() {
    let picture = json!({"type": "image", "attachment": {"attachmentId": "p"}});
    let mut script = Script::new();
    let mut message = user("u", "two pictures");
    message["content"] = json!([picture, text("and"), picture]);
    script.append("user/message", &message);
    let logged = script.log.events().next().unwrap().text().to_owned();
    script.log(
        "image/offload",
        &json!({"targets": [{"seq": 0, "imageIndexes": [1]}]}),
    );
    let derived: Vec<String> = script
        .log
        .messages()
        .map(|message| message.text.into_owned())
        .collect();
    assert_eq!(
        derived,
        [
            r#"{"id":"u","role":"user","content":[{"type":"image","attachment":{"attachmentId":"p"}},{"type":"text","text":"and"},{"type":"image","attachment":{"attachmentId":"p"},"offloaded":true}],"source":{"kind":"user"}}"#
        ]
    );
    assert_eq!(script.log.surface().content_generation(), 1);
    assert_eq!(script.log.events().next().unwrap().text(), logged);

    let refused = script.attempt(
        "image/offload",
        &json!({"targets": [{"seq": 2, "imageIndexes": [0]}]}),
        "",
    );
    assert_eq!(
        refused.unwrap_err(),
        "event 2: image/offload names event 2, which is not earlier"
    );
}

#[test]
fn added_tools_are_declared_by_an_earlier_request_header() {
    let added = |header: u64| {
        json!({"turn": 1, "step": 1, "headerSeq": header, "message": {"id": "d", "role": "developer",
            "source": {"kind": "tool-updates"}, "content": [{"type": "tool-addition", "toolName": "peek"}]}})
    };
    let mut script = Script::new();
    script.log("request/header", &request_header());
    script.user("u");
    for wrong in [1, 2, 9] {
        let before = format!("{:?}", script.log);
        let refused = script.attempt(
            "developer/message",
            &added(wrong),
            r#","surfaceOp":"append""#,
        );
        assert_eq!(
            refused.unwrap_err(),
            format!("event 2: `headerSeq` names event {wrong}, which is no earlier request/header")
        );
        assert_eq!(format!("{:?}", script.log), before);
    }
    script.append("developer/message", &added(0));
    assert_eq!(surface(&script.log), [1, 2]);
}

#[test]
fn the_last_request_header_and_context_count() {
    let mut script = Script::new();
    assert_eq!(
        (script.log.request_header(), script.log.request_context()),
        (None, None)
    );
    script.log("request/header", &request_header());
    script.log(
        "request/context",
        &json!({"provider": "acme", "model": "acme-small"}),
    );
    let mut changed = request_header();
    changed["reason"] = json!("change");
    script.log("request/header", &changed);
    let seen =
        |event: Option<&std::sync::Arc<offshoot_session::Event>>| event.map(|event| event.seq());
    assert_eq!(
        (
            seen(script.log.request_header()),
            seen(script.log.request_context())
        ),
        (Some(seq(2)), Some(seq(1)))
    );
}
