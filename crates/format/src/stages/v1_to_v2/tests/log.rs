//! What happens to the rest of the log: references, the inherited part, open turns, changes of the goal.

use super::*;

#[test]
fn references_follow_the_events_that_move() {
    let log = |from: u64, seqs: [u64; 2], first: Option<String>| {
        let [one, two] = seqs;
        let mut log = vec![user(one, 101), user(two, 103)];
        log.splice(0..0, first);
        let replace = format!(
            r#""sourceEventSeqs":[{one},{two}],"surfaceOp":{{"op":"replace","start":{one},"end":{two}}}"#
        );
        let time = |at: u64| 104 + at;
        let shadowed = format!(
            r#"{{"shadowedRange":{{"start":{one},"end":{two}}},"shadowedSeqs":[{one},{two}],"shadowedTokenCount":5}}"#
        );
        let named = format!(r#"{{"title":"t","messageSeqs":[{two}]}}"#);
        log.extend([
            at(from, time(0), "compaction/summary", &shadowed),
            at(from + 1, time(1), "compaction/prune", &shadowed),
            with(
                &at(from + 2, time(2), "user/message", r#"{"id":"u"}"#),
                &replace,
            ),
            at(from + 3, time(3), "session/title", &named),
            at(from + 4, time(4), "session/title-llm-request", &named),
            at(
                from + 5,
                time(5),
                "command/done",
                &format!(r#"{{"commandId":"c","sourceEventSeq":{two}}}"#),
            ),
            at(from + 6, time(6), "command/done", r#"{"commandId":"d"}"#),
            at(
                from + 7,
                time(7),
                "session-log-deepseek/delivery-accepted",
                r#"{"sessionId":"s","throughSeq":3}"#,
            ),
        ]);
        log
    };
    let mut rows = log(4, [1, 3], Some(chunk(0, TEXT)));
    rows.insert(2, chunk(2, FINISH));
    let stream = [text_record(100), finish_record(102)];
    let mut expected = log(3, [0, 2], None);
    expected.insert(1, attempt(1, 102, &stream));
    assert_rises(&rows, &expected);
}

#[test]
fn a_reference_to_a_chunk_is_refused() {
    let chunks = [user(0, 100), chunk(1, TEXT), chunk(2, FINISH)];
    let end = event(3, "step/end", r#"{"turn":1,"step":1}"#);
    for (kind, data, members) in [
        ("user/message", r#"{"id":"u"}"#, citing("[0,2]")),
        (
            "user/message",
            r#"{"id":"u"}"#,
            r#""sourceEventSeqs":[0],"surfaceOp":{"op":"replace","start":0,"end":2}"#.into(),
        ),
        (
            "command/done",
            r#"{"commandId":"c","sourceEventSeq":2}"#,
            String::new(),
        ),
        (
            "session/title",
            r#"{"title":"t","messageSeqs":[0,2]}"#,
            String::new(),
        ),
    ] {
        let row = event(4, kind, data);
        let row = if members.is_empty() {
            row
        } else {
            with(&row, &members)
        };
        let rows = [&chunks[..], &[end.clone(), row]].concat();
        assert_eq!(
            unsupported(None, &rows),
            format!("6: `{kind}`: names event 2, which is part of a model's stream")
        );
    }
}

#[test]
fn the_marker_behind_what_was_inherited_is_tagged() {
    let rows = [
        user(0, 100),
        event(1, "session/end-seed", "{}"),
        event(2, "session/end-seed", "{}"),
        user(3, 103),
    ];
    let tagged = |seq: usize| {
        let mut rows = rows.clone();
        rows[seq] = event(seq as u64, "session/end-seed", r#"{"inherited":true}"#);
        rows.to_vec()
    };
    assert_eq!(upper(None, &rows), Ok(rows.to_vec()));
    assert_eq!(upper(Some(1), &rows), Ok(tagged(1)));
    assert_eq!(upper(Some(2), &rows), Ok(tagged(2)));
}

#[test]
fn a_missing_marker_is_inserted() {
    let marker = |seq: u64, time: u64| at(seq, time, "session/end-seed", r#"{"inherited":true}"#);
    let rows = [user(0, 100), user(1, 101)];
    for (cut, expected) in [
        (0, [marker(0, 100), user(1, 100), user(2, 101)]),
        (1, [user(0, 100), marker(1, 101), user(2, 101)]),
        (2, [user(0, 100), user(1, 101), marker(2, 101)]),
    ] {
        assert_eq!(upper(Some(cut), &rows), Ok(expected.to_vec()));
    }
    assert_eq!(upper(Some(0), &[]), Ok(vec![marker(0, 77)]));
    assert_eq!(
        upper(Some(3), &rows),
        Err(FormatError::Inconsistent {
            reason: "the header says that 3 events are inherited, but there are only 2".into()
        })
    );
    let chunks = [user(0, 100), chunk(1, TEXT), message(2, &citing("[1]"))];
    let stream = format!("[{}]", text_record(101));
    assert_eq!(
        upper(Some(1), &chunks),
        Ok(vec![
            user(0, 100),
            marker(1, 101),
            message_at(2, 102, Some(&stream), APPEND)
        ])
    );
}

#[test]
fn a_cut_keeps_to_its_side_of_an_attempt_that_is_over() {
    let end = |seq: u64| at(seq, 102, "turn/end", r#"{"turn":1}"#);
    let marker = |seq: u64, time: u64| at(seq, time, "session/end-seed", r#"{"inherited":true}"#);
    let rows = [chunk(0, TEXT), chunk(1, FINISH), end(2)];
    let whole = attempt(0, 101, &[text_record(100), finish_record(101)]);
    assert_eq!(
        upper(Some(2), &rows),
        Ok(vec![whole.clone(), marker(1, 102), end(2)])
    );
    assert_eq!(upper(Some(2), &rows[..2]), Ok(vec![whole, marker(1, 101)]));
    let two = [chunk(0, FINISH), chunk(1, FINISH), end(2)];
    assert_eq!(
        upper(Some(1), &two),
        Ok(vec![
            attempt(0, 100, &[finish_record(100)]),
            marker(1, 101),
            attempt(2, 101, &[finish_record(101)]),
            end(3)
        ])
    );
}

#[test]
fn a_cut_inside_of_a_stream_is_refused() {
    let reason = |line: u64, cut: u64| {
        format!("{line}: the inherited part ends at seq {cut}, inside the stream of one model call")
    };
    let rows = [
        user(0, 100),
        chunk(1, TEXT),
        user(2, 102),
        chunk(3, TEXT),
        message(4, &citing("[1,3]")),
    ];
    for (cut, line) in [(2, 5), (3, 5), (4, 6)] {
        assert_eq!(unsupported(Some(cut), &rows), reason(line, cut));
    }
    let packed = r#"{"type":"text-chunks","seq0":0,"time0":95,"data":{"turn":1,"step":1,"index":0,"dt":[0],"texts":["b","c"]}}"#;
    assert_eq!(unsupported(Some(1), &[packed.into()]), reason(2, 1));
}

#[test]
fn a_marker_that_is_tagged_already_is_none_of_v1() {
    assert_eq!(
        unsupported(
            Some(0),
            &[event(0, "session/end-seed", r#"{"inherited":true}"#)]
        ),
        "2: `session/end-seed`: expected an empty payload, as V1 has it"
    );
}

#[test]
fn a_turn_that_a_restart_left_open_is_ended() {
    let start = |seq: u64, turn: u64, time: u64| {
        at(seq, time, "turn/start", &format!(r#"{{"turn":{turn}}}"#))
    };
    let queued = event(
        1,
        "agent/inbox/spliced",
        r#"{"target":"next-turn","start":0,"inserted":[{"id":"u"}]}"#,
    );
    assert_rises(
        &[start(0, 1, 100), queued.clone(), start(2, 2, 102)],
        &[
            start(0, 1, 100),
            queued.clone(),
            at(
                2,
                102,
                "turn/end",
                r#"{"turn":1,"reason":{"kind":"interrupted"}}"#,
            ),
            start(3, 2, 102),
        ],
    );
    // A chunk is an event, too, so that the queue was not filled just before.
    let rows = [
        start(0, 1, 100),
        queued.clone(),
        chunk(2, FINISH),
        start(3, 2, 103),
    ];
    let attempt = attempt(2, 102, &[finish_record(102)]);
    assert_rises(
        &rows,
        &[start(0, 1, 100), queued, attempt, start(3, 2, 103)],
    );
}

#[test]
fn a_change_of_the_goal_becomes_an_event_of_its_own() {
    let change = r#"{"kind":"goal/change","version":1,"operation":"create","goal":{"id":"g"}}"#;
    let content =
        |text: &str| format!(r#"[{{"type":"text","text":{}}}]"#, crate::json::quote(text));
    let message = |seq: u64, content: &str, source: &str| {
        let data = format!(r#"{{"id":"u","role":"user","content":{content},"source":{source}}}"#);
        with(&at(seq, 100, "user/message", &data), APPEND)
    };
    let told = content(&format!("<goal_state>{change}</goal_state>"));
    let summary = content(r#"<goal_state>{"id":"g"}</goal_state>"#);
    let goal = |round: u64, change: &str| {
        format!(r#"{{"kind":"goal","goalId":"g","revision":1,"round":{round},"change":{change}}}"#)
    };
    let title = |seq: u64, of: u64| {
        at(
            seq,
            101,
            "session/title",
            &format!(r#"{{"title":"t","messageSeqs":[{of}]}}"#),
        )
    };
    let plugin = r#"{"kind":"plugin","plugin":"goal"}"#;
    for (content, held) in [(&told, r#""create""#), (&told, change), (&summary, change)] {
        assert_rises(
            &[message(0, content, &goal(0, held)), title(1, 0)],
            &[
                at(0, 100, "goal/change", change),
                message(1, content, plugin),
                title(2, 1),
            ],
        );
    }
    for source in [
        goal(1, change),
        goal(0, change).replace(r#","change""#, r#","other""#),
        goal(0, change).replace(r#""kind":"goal""#, r#""kind":"user""#),
    ] {
        let row = message(0, &told, &source);
        let rows = [row];
        assert_rises(&rows, &rows);
    }
    let text = "expected one text block with `<goal_state>`, JSON, and `</goal_state>`";
    let block = &told[1..told.len() - 1];
    for (content, held, reason) in [
        (content(change), change, text),
        (format!("[{block},{block}]"), change, text),
        (content("<goal_state>[]</goal_state>"), change, text),
        (
            content("<goal_state>{]</goal_state>"),
            r#""create""#,
            "expected an object",
        ),
        (summary, r#""create""#, "expected the `kind` goal/change"),
    ] {
        assert_eq!(
            unsupported(None, &[message(0, &content, &goal(0, held))]),
            format!("2: `user/message`: a change of the goal: {reason}")
        );
    }
}
