//! The head of the surface, and the prompts that it shows.

use super::*;

/// A request header with more members in it.
fn header_row(seq: u64, time: u64, members: &str) -> String {
    let data = format!(
        r#"{{"header":{{"config":{{"provider":"p","model":"m"}}{members}}},"reason":"change"}}"#
    );
    at(seq, time, "request/header", &data)
}

fn prompted(seq: u64, time: u64, text: &str) -> String {
    header_row(seq, time, &format!(r#","system":{text}"#))
}

/// The message that takes the place of the head `of`, beside the header that was at `anchor` in V2.
fn replaced(seq: u64, anchor: u64, of: u64, content: &str) -> String {
    let data = system_data(anchor, "request/header", content);
    with(
        &at(seq, 100 + anchor, "system/message", &data),
        &format!(
            r#""surfaceOp":{{"op":"replace","startSeq":{of},"endSeq":{of}}},"sourceEventSeqs":[{of}]"#
        ),
    )
}

fn text_block(text: &str) -> String {
    format!(r#"[{{"type":"text","text":{text}}}]"#)
}

#[test]
fn an_empty_head_stands_behind_the_first_step_only() {
    let second = at(3, 103, "step/start", r#"{"turn":1,"step":2}"#);
    let rows = [opened(), vec![step(2, 102, "end"), second]].concat();
    let mut expected = opened_above();
    expected.push(step(3, 102, "end"));
    expected.push(at(4, 103, "step/start", r#"{"turn":1,"step":2}"#));
    assert_rises(&rows, &expected);
    let none = [turn(0, 100, "start"), turn(1, 101, "end")];
    assert_rises(&none, &none);
}

#[test]
fn the_id_of_an_added_message_is_a_digest_of_where_it_was_added() {
    // Of `["session-format-v2-to-v3","demo",1,"step/start"]`, worked out by another tool.
    let id = "v2-to-v3-system-ebce51e84635d54e9f5bba80dccdb2ca210dccafff06ba6f6ed1fe9d5ec1c5b7";
    let rows = upper_of(&HEADER.replace(r#"s\"1"#, "demo"), &opened()).unwrap();
    let [_, _, head] = &rows[..] else {
        panic!("{rows:#?}");
    };
    let data = system_data(1, "step/start", "[]").replace(&system_id(1, "step/start"), id);
    assert_eq!(*head, appended(2, 101, "system/message", &data));
}

#[test]
fn a_header_with_another_prompt_replaces_the_head() {
    let a = r#""be \"brief\"""#;
    let rows = [
        opened(),
        vec![
            prompted(2, 102, a),
            prompted(3, 103, a),
            // The same text, spelt in another way.
            prompted(4, 104, r#""be\u0020\"brief\"""#),
            prompted(5, 105, r#""""#),
            header_row(6, 106, ""),
            prompted(7, 107, r#""b""#),
        ],
    ];
    let expected = [
        opened_above(),
        vec![
            replaced(3, 2, 2, &text_block(a)),
            header_row(4, 102, ""),
            header_row(5, 103, ""),
            header_row(6, 104, ""),
            replaced(7, 5, 3, "[]"),
            header_row(8, 105, ""),
            header_row(9, 106, ""),
            replaced(10, 7, 7, &text_block(r#""b""#)),
            header_row(11, 107, ""),
        ],
    ];
    assert_rises(&rows.concat(), &expected.concat());
}

#[test]
fn a_header_without_a_prompt_takes_the_prompt_away() {
    let rows = [
        opened(),
        vec![prompted(2, 102, r#""a""#), header_row(3, 103, "")],
    ];
    let expected = [
        opened_above(),
        vec![
            replaced(3, 2, 2, &text_block(r#""a""#)),
            header_row(4, 102, ""),
            replaced(5, 3, 3, "[]"),
            header_row(6, 103, ""),
        ],
    ];
    assert_rises(&rows.concat(), &expected.concat());
}

#[test]
fn outside_of_a_step_the_prompt_stays_the_same() {
    const REASON: &str = "`request/header`: changes the system prompt outside of an open step";
    let ended = |seq: u64| vec![step(seq, 100 + seq, "end")];
    let first = prompted(1, 101, r#""a""#);
    assert_eq!(
        unsupported(&[turn(0, 100, "start"), first]),
        format!("3: {REASON}")
    );
    let between = prompted(3, 103, r#""a""#);
    assert_eq!(
        unsupported(&[opened(), ended(2), vec![between]].concat()),
        format!("5: {REASON}")
    );
    // The end of a turn ends its step.
    let behind = vec![turn(2, 102, "end"), prompted(3, 103, r#""a""#)];
    assert_eq!(
        unsupported(&[opened(), behind].concat()),
        format!("5: {REASON}")
    );

    let a = prompted(2, 102, r#""a""#);
    let rows = [
        opened(),
        vec![a],
        ended(3),
        vec![prompted(4, 104, r#""a""#)],
    ];
    let expected = [
        opened_above(),
        vec![
            replaced(3, 2, 2, &text_block(r#""a""#)),
            header_row(4, 102, ""),
            step(5, 103, "end"),
            header_row(6, 104, ""),
        ],
    ];
    assert_rises(&rows.concat(), &expected.concat());
    let unprompted = [turn(0, 100, "start"), header_row(1, 101, "")];
    assert_rises(&unprompted, &unprompted);
}

#[test]
fn empty_fields_of_a_header_are_dropped_and_full_ones_kept() {
    let full = r#","tools":[{"name":"t"}],"adapterDefaults":{"maxTokens":true}"#;
    for (members, left) in [
        (full, full),
        (r#","tools":[],"adapterDefaults":{}"#, ""),
        (r#","tools": [ ],"adapterDefaults": { }"#, ""),
        (r#","system":"","tools":[]"#, ""),
    ] {
        let rows = [opened(), vec![header_row(2, 102, members)]].concat();
        let expected = [opened_above(), vec![header_row(3, 102, left)]].concat();
        assert_rises(&rows, &expected);
    }
}

#[test]
fn a_header_that_is_none_is_damage() {
    for (data, reason) in [
        ("{}", "`header` must be an object"),
        (r#"{"header":[]}"#, "`header` must be an object"),
        (
            r#"{"header":{"system":null}}"#,
            "`header.system` must be a string",
        ),
    ] {
        let rows = [opened(), vec![at(2, 102, "request/header", data)]].concat();
        assert_eq!(damaged(&rows), format!("4: `request/header`: {reason}"));
    }
}

#[test]
fn nothing_may_be_on_the_surface_ahead_of_the_first_step() {
    let user = user_data(USER, "[]");
    let queued = format!(r#"{{"target":"next-turn","start":0,"inserted":[{user}]}}"#);
    for (kind, data) in [
        ("user/message", &user),
        ("assistant/message", &format!(r#"{{"message":{user}}}"#)),
        ("tool/result", &format!(r#"{{"message":{user}}}"#)),
    ] {
        assert_eq!(
            unsupported(&[appended(0, 100, kind, data), step(1, 101, "start")]),
            format!(
                "2: `{kind}`: stands ahead of the first step/start, so no system prompt can be put in front of it"
            )
        );
    }
    // In the queue it is not on the surface yet.
    let rows = [
        at(0, 100, "agent/inbox/spliced", &queued),
        turn(1, 101, "start"),
    ];
    assert_rises(&rows, &rows);
}

#[test]
fn the_id_of_a_message_that_is_added_belongs_to_no_other() {
    let message =
        |id: &str| format!(r#"{{"id":"{id}","role":"user","content":[],"source":{USER}}}"#);
    let queue = |seq: u64, id: &str| {
        let data = format!(
            r#"{{"target":"next-turn","start":0,"inserted":[{}]}}"#,
            message(id)
        );
        at(seq, 100 + seq, "agent/inbox/spliced", &data)
    };
    let head = system_id(1, "step/start");
    let changed = system_id(3, "request/header");
    let before = |anchor: u64, kind: &str| {
        format!(
            "{}: `{kind}`: a message has the id `{}` already",
            anchor + 2,
            system_id(anchor, kind)
        )
    };
    assert_eq!(
        unsupported(&[queue(0, &head), step(1, 101, "start")]),
        before(1, "step/start")
    );
    let ahead = vec![
        appended(2, 102, "user/message", &message(&changed)),
        prompted(3, 103, r#""a""#),
    ];
    assert_eq!(
        unsupported(&[opened(), ahead].concat()),
        before(3, "request/header")
    );
    // Also with an escape in it, and also behind the added one.
    let escaped = head.replacen("v2", r"v\u0032", 1);
    let behind = vec![appended(2, 102, "user/message", &message(&escaped))];
    assert_eq!(
        unsupported(&[opened(), behind].concat()),
        format!("4: `user/message`: an added message has the id `{head}` already")
    );
    // What only looks like it, or would be the id of another event, is nobody else's.
    let alike = |seq: u64| {
        let data = message(&system_id(9, "request/header"));
        vec![appended(seq, 102, "user/message", &data)]
    };
    assert_rises(
        &[opened(), alike(2)].concat(),
        &[opened_above(), alike(3)].concat(),
    );
}
