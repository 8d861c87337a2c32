//! Streams, attempts and the messages that they lead to.

use super::*;

#[test]
fn the_stream_of_an_attempt_is_embedded_in_its_message() {
    let packed = r#"{"type":"text-chunks","seq0":3,"time0":95,"data":{"turn":1,"step":1,"index":0,"dt":[-2,0],"texts":["b","c","d"]}}"#;
    let rows = [
        event(0, "turn/start", r#"{"turn":1}"#),
        chunk(1, r#"{"type":"block-start","index":0,"blockType":"text"}"#),
        chunk(2, TEXT),
        packed.into(),
        chunk(6, TEXT),
        chunk(7, r#"{"type":"text-delta","index":1,"text":"e"}"#),
        chunk(8, FINISH),
        message(9, &citing("[[1,8]]")),
        event(10, "turn/end", r#"{"turn":1}"#),
    ];
    let stream = r#"[{"type":"chunk","time":101,"chunk":{"type":"block-start","index":0,"blockType":"text"}},{"type":"text-chunks","time0":102,"index":0,"dt":[-7,-2,0,13],"texts":["a","b","c","d","a"]},{"type":"text-chunks","time0":107,"index":1,"dt":[],"texts":["e"]},{"type":"chunk","time":108,"chunk":{"type":"finish","reason":{"kind":"stop"}}}]"#;
    assert_rises(
        &rows,
        &[
            event(0, "turn/start", r#"{"turn":1}"#),
            message_at(1, 109, Some(stream), APPEND),
            at(2, 110, "turn/end", r#"{"turn":1}"#),
        ],
    );
}

#[test]
fn deltas_of_a_call_without_an_id_or_with_an_empty_name_stay_chunks() {
    let call = |id: &str, name: &str| {
        format!(r#"{{"type":"tool-call-delta","index":0,"id":"{id}"{name},"argumentsDelta":"x"}}"#)
    };
    let packed = |seq: u64, id: &str, name: &str| {
        format!(
            r#"{{"type":"tool-call-chunks","seq0":{seq},"time0":{},"data":{{"turn":1,"step":1,"index":0,"id":"{id}"{name},"dt":[1],"args":["x","x"]}}}}"#,
            100 + seq
        )
    };
    let (named, unnamed, empty) = (r#","name":"n""#, "", r#","name":"""#);
    let rows = [
        chunk(0, &call("c", named)),
        packed(1, "c", named),
        packed(3, "c", unnamed),
        packed(5, "", named),
        chunk(7, &call("c", empty)),
        packed(8, "c", empty),
        packed(10, "d", unnamed),
        message(12, &citing("[[0,11]]")),
    ];
    let raw = |time: u64, id: &str, name: &str| {
        format!(
            r#"{{"type":"chunk","time":{time},"chunk":{}}}"#,
            call(id, name)
        )
    };
    let run = |time: u64, dt: &str, id: &str, args: &str| {
        format!(
            r#"{{"type":"tool-call-chunks","time0":{time},"index":0,"dt":[{dt}],"id":{id},"args":[{args}]}}"#
        )
    };
    let records = [
        run(100, "1,1", r#""c","name":"n""#, r#""x","x","x""#),
        run(103, "1", r#""c""#, r#""x","x""#),
        raw(105, "", named),
        raw(106, "", named),
        raw(107, "c", empty),
        raw(108, "c", empty),
        raw(109, "c", empty),
        run(110, "1", r#""d""#, r#""x","x""#),
    ];
    let stream = format!("[{}]", records.join(","));
    assert_rises(&rows, &[message_at(0, 112, Some(&stream), APPEND)]);
}

#[test]
fn a_chunk_of_a_type_that_is_not_known_is_kept_as_it_is() {
    let odd = r#"{"type":"audio-delta","index":0,"text":"a","more":[1.0]}"#;
    let rows = [chunk(0, odd), chunk(1, TEXT), message(2, &citing("[0,1]"))];
    let stream = format!(
        r#"[{{"type":"chunk","time":100,"chunk":{odd}}},{}]"#,
        text_record(101)
    );
    assert_rises(&rows, &[message_at(0, 102, Some(&stream), APPEND)]);
}

#[test]
fn times_too_far_apart_for_one_number_begin_another_run() {
    let far = |seq: u64, time: i64| {
        let data = format!(r#"{{"turn":1,"step":1,"chunk":{TEXT}}}"#);
        format!(r#"{{"type":"assistant/chunk","seq":{seq},"time":{time},"data":{data}}}"#)
    };
    let rows = [
        far(0, -1),
        far(1, 9_007_199_254_740_990),
        far(2, -1),
        far(3, 9_007_199_254_740_991),
        message(4, &citing("[[0,3]]")),
    ];
    let stream = r#"[{"type":"text-chunks","time0":-1,"index":0,"dt":[9007199254740991,-9007199254740991],"texts":["a","a","a"]},{"type":"text-chunks","time0":9007199254740991,"index":0,"dt":[],"texts":["a"]}]"#;
    assert_rises(&rows, &[message_at(0, 104, Some(stream), APPEND)]);
}

#[test]
fn a_message_without_chunks_has_an_empty_stream() {
    let rows = [message(0, APPEND), message(1, &citing("[]"))];
    assert_rises(
        &rows,
        &[
            message_at(0, 100, Some("[]"), APPEND),
            message_at(1, 101, Some("[]"), APPEND),
        ],
    );
}

#[test]
fn an_attempt_that_no_message_claims_stands_where_its_last_chunk_stood() {
    for (closer, closing) in [
        ("turn/end", r#"{"turn":1}"#),
        ("step/end", r#"{"turn":1,"step":1}"#),
        ("llm/retry", r#"{"retryId":"r"}"#),
        ("llm/retry-started", r#"{"retryId":"r"}"#),
    ] {
        let rows = [
            chunk(0, TEXT),
            user(1, 101),
            chunk(2, FINISH),
            user(3, 103),
            event(4, closer, closing),
        ];
        assert_rises(
            &rows,
            &[
                user(0, 101),
                attempt(1, 102, &[text_record(100), finish_record(102)]),
                user(2, 103),
                at(3, 104, closer, closing),
            ],
        );
    }
}

#[test]
fn an_attempt_ends_behind_its_finish_at_another_step_and_with_the_log() {
    let rows = [
        chunk(0, FINISH),
        chunk(1, TEXT),
        chunk_in(2, 2, TEXT),
        user(3, 103),
    ];
    let other = attempt(2, 102, &[text_record(102)]).replace(r#""step":1"#, r#""step":2"#);
    assert_rises(
        &rows,
        &[
            attempt(0, 100, &[finish_record(100)]),
            attempt(1, 101, &[text_record(101)]),
            other,
            user(3, 103),
        ],
    );
}

#[test]
fn events_within_an_attempt_stay_ahead_of_its_message_in_their_order() {
    let rows = [
        chunk(0, TEXT),
        user(1, 101),
        chunk(2, TEXT),
        user(3, 103),
        message(4, &citing("[0,2]")),
        user(5, 105),
    ];
    let stream = r#"[{"type":"text-chunks","time0":100,"index":0,"dt":[2],"texts":["a","a"]}]"#;
    assert_rises(
        &rows,
        &[
            user(0, 101),
            user(1, 103),
            message_at(2, 104, Some(stream), APPEND),
            user(3, 105),
        ],
    );
}

#[test]
fn a_message_has_to_name_exactly_the_chunks_of_its_attempt() {
    let told = |sources: &str| {
        let rows = [user(0, 100), chunk(1, TEXT), chunk(2, FINISH)];
        let message = match sources {
            "" => message(3, APPEND),
            sources => message(3, &citing(sources)),
        };
        unsupported(None, &[&rows[..], &[message]].concat())
    };
    let all = "5: `assistant/message`: `sourceEventSeqs` must name all 2 chunks of the stream ahead of it and nothing else, found";
    for (sources, count) in [("", 0), ("[]", 0), ("[1]", 1), ("[0,1,2]", 3), ("[2,1]", 2)] {
        assert_eq!(told(sources), format!("{all} {count} events"));
    }
    for closer in ["turn/end", "step/end", "llm/retry", "llm/retry-started"] {
        let closed = [
            chunk(0, TEXT),
            event(1, closer, r#"{"turn":1,"step":1}"#),
            message(2, &citing("[0]")),
        ];
        assert_eq!(
            unsupported(None, &closed),
            "4: `assistant/message`: `sourceEventSeqs` names 1 events, but no stream is ahead of it",
            "behind {closer}"
        );
    }
    let elsewhere = [chunk_in(0, 2, TEXT), message(1, &citing("[0]"))];
    assert_eq!(
        unsupported(None, &elsewhere),
        "3: `assistant/message`: expected turn 1 and step 2, of which the stream is ahead of it"
    );
    let already = message_at(0, 100, Some("[]"), APPEND);
    assert_eq!(
        unsupported(None, &[already]),
        "2: `assistant/message`: `stream` is no member of it before V2"
    );
}

#[test]
fn chunks_that_are_none_are_damage() {
    let bad = |data: &str| damaged(&[event(0, "assistant/chunk", data)]);
    let found = [
        bad("null"),
        bad(r#"{"turn":1,"chunk":{"type":"finish"}}"#),
        bad(r#"{"turn":1,"step":-1,"chunk":{"type":"finish"}}"#),
        bad(r#"{"turn":1,"step":1,"chunk":{"type":1}}"#),
        bad(r#"{"turn":1,"step":1,"chunk":[]}"#),
        bad(r#"{"turn":1,"step":1,"chunk":{"type":"finish"},"more":1}"#),
    ];
    let expected = [
        "the payload is no chunk: invalid type: null, expected an object (byte 4)",
        "the payload is no chunk: missing field `step` (byte 36)",
        "the payload is no chunk: invalid value: integer `-1`, expected u64 (byte 19)",
        "`chunk` must have a `type`",
        "`chunk` must have a `type`",
        "the payload is no chunk: unknown field `more`, expected one of `turn`, `step`, `chunk` (byte 51)",
    ];
    assert_eq!(
        found,
        expected.map(|reason| format!("2: `assistant/chunk`: {reason}"))
    );
}

#[test]
fn only_the_attempt_in_flight_is_kept() {
    let mut chunks = vec![event(0, "step/start", r#"{"turn":1,"step":1}"#)];
    chunks.extend((1..4).map(|seq| chunk(seq, TEXT)));
    chunks.push(message(4, &citing("[[1,3]]")));
    let counts: Vec<usize> = (1..=5)
        .map(|count| written_so_far(&chunks[..count]))
        .collect();
    assert_eq!(counts, [1, 1, 1, 1, 2]);
}
