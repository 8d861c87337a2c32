use std::path::PathBuf;

use serde_json::json;

use super::*;

const MAIN: &str = "session-00000000-0000-7000-8000-0000000000aa";
const CHILD: &str = "session-00000000-0000-7000-8000-0000000000bb";
const OTHER: &str = "session-00000000-0000-7000-8000-0000000000cc";

fn normaliser() -> Normaliser {
    let place = Place {
        home: PathBuf::from("/tmp/run/home"),
        workspace: PathBuf::from("/tmp/run/workspace"),
    };
    let sessions = [(MAIN, "main"), (CHILD, "main.1"), (OTHER, "main.2")]
        .map(|(id, name)| (SessionId::new(id), SessionName::parse(name).unwrap()));
    Normaliser::new(&place, &BTreeMap::from(sessions))
}

/// A log of rows, as it is compared, and the same when it is normalised again.
fn normalised(rows: &[Value]) -> Vec<Value> {
    normalised_by(normaliser(), normaliser(), rows)
}

fn normalised_by(mut first: Normaliser, mut again: Normaliser, rows: &[Value]) -> Vec<Value> {
    let header = json!({"version": 4, "id": MAIN, "createdAt": 17, "cwd": "/tmp/run/workspace"});
    let lines = std::iter::once(&header).chain(rows);
    let text: String = lines.map(|line| format!("{line}\n")).collect();
    let normal = first.log(&text).unwrap();
    assert_eq!(again.log(&normal).unwrap(), normal, "twice is once");
    let mut lines = normal.lines();
    assert_eq!(
        lines.next(),
        Some(r#"{"version":4,"id":"{{session:main}}","createdAt":0,"cwd":"{{cwd}}"}"#)
    );
    lines
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

fn row(kind: &str, seq: u64, data: Value) -> Value {
    json!({"type": kind, "seq": seq, "time": 1_700_000_000_000_u64 + seq, "data": data})
}

#[test]
fn times_and_numbers_of_rows_are_taken_away() {
    let data =
        json!({"a": 1, "createdAt": 5, "durationMs": 7, "time": "noon", "deep": [{"delayMs": 9}]});
    assert_eq!(
        normalised(&[row("hook/result", 0, data)]),
        [
            json!({"type": "hook/result", "data": {"a": 1, "createdAt": 0, "durationMs": 0, "time": "noon", "deep": [{"delayMs": 0}]}})
        ]
    );
}

#[test]
fn ids_are_numbered_as_they_are_seen_wherever_they_stand() {
    let id = |n: u64| format!("11111111-2222-7333-8444-{n:012x}");
    let rows = [
        row(
            "user/message",
            0,
            json!({"id": id(7), "content": [{"type": "text", "text": format!("see {} and {}", id(9), id(7))}]}),
        ),
        row(
            "compaction/start",
            1,
            json!({"compactionId": "c-1", "turn": null}),
        ),
        row(
            "compaction/end",
            2,
            json!({"compactionId": "c-1", "turn": null}),
        ),
        row(
            "agent/inbox/spliced",
            3,
            json!({"inserted": [{"id": "handback:x:12345678"}]}),
        ),
        row(
            "user/message",
            4,
            json!({"id": "handback:x:12345678", "content": []}),
        ),
    ];
    assert_eq!(
        normalised(&rows),
        [
            json!({"type": "user/message", "data": {"id": "{{id:1}}", "content": [{"type": "text", "text": "see {{id:2}} and {{id:1}}"}]}}),
            json!({"type": "compaction/start", "data": {"compactionId": "{{id:3}}", "turn": null}}),
            json!({"type": "compaction/end", "data": {"compactionId": "{{id:3}}", "turn": null}}),
            json!({"type": "agent/inbox/spliced", "data": {"inserted": [{"id": "{{id:4}}"}]}}),
            json!({"type": "user/message", "data": {"id": "{{id:4}}", "content": []}}),
        ]
    );
}

#[test]
fn an_id_has_one_name_in_all_logs_and_in_the_output() {
    let id = "11111111-2222-7333-8444-000000000001";
    let mut normaliser = normaliser();
    let log = format!("{{}}\n{}\n", row("user/message", 0, json!({"id": id})));
    for _ in 0..2 {
        let normal = normaliser.log(&log).unwrap();
        assert!(normal.ends_with("{\"id\":\"{{id:1}}\"}}\n"), "{normal}");
    }
    assert_eq!(
        normaliser.output(json!({"said": format!("in {id} at {MAIN}"), "time": 3})),
        "{\"said\":\"in {{id:1}} at {{session:main}}\",\"time\":0}\n"
    );
}

#[test]
fn paths_and_sessions_are_called_by_name_and_only_where_they_stand_alone() {
    let said = |text: &str| row("user/message", 0, json!({"id": "m", "text": text}));
    let texts = [
        (
            "/tmp/run/workspace/a.txt, /tmp/run/workspace.",
            "{{cwd}}/a.txt, {{cwd}}.",
        ),
        ("/tmp/run/workspace-2", "/tmp/run/workspace-2"),
        ("/tmp/run/home/x", "{{home}}/x"),
        (MAIN, "{{session:main}}"),
        (
            "/tmp/run/home/blobs/0a1b and /tmp/run/home/blobs/0a1b.",
            "{{home}}/blobs/{{blob:1}} and {{home}}/blobs/{{blob:1}}.",
        ),
        ("/tmp/run/home/blobs/", "{{home}}/blobs/"),
    ];
    for (text, named) in texts {
        let rows = normalised(&[said(text)]);
        assert_eq!(rows[0]["data"]["text"], named, "{text}");
    }
}

#[test]
fn prompts_and_tools_are_hidden_unless_a_scenario_pins_them() {
    let rows = [
        row(
            "system/message",
            0,
            json!({"turn": 1, "message": {"id": "s-1", "content": [{"type": "text", "text": "Be brief."}]}}),
        ),
        row(
            "request/header",
            1,
            json!({"header": {"config": {"model": "m"}, "tools": [{"name": "read"}]}}),
        ),
        row(
            "request/header",
            2,
            json!({"header": {"config": {"model": "m"}}}),
        ),
    ];
    assert_eq!(
        normalised(&rows),
        [
            json!({"type": "system/message", "data": {"turn": 1, "message": {"id": "{{id:1}}", "content": "{{system}}"}}}),
            json!({"type": "request/header", "data": {"header": {"config": {"model": "m"}, "tools": "{{tools}}"}}}),
            json!({"type": "request/header", "data": {"header": {"config": {"model": "m"}}}}),
        ]
    );
    let pinned = normalised_by(
        normaliser().pinning_headers(),
        normaliser().pinning_headers(),
        &rows,
    );
    assert_eq!(
        pinned[0]["data"]["message"]["content"][0]["text"],
        "Be brief."
    );
    assert_eq!(
        pinned[1]["data"]["header"]["tools"],
        json!([{"name": "read"}])
    );
}

#[test]
fn an_answer_is_the_same_in_however_many_pieces_it_came() {
    let answer = |stream: Value| {
        row(
            "assistant/message",
            0,
            json!({"turn": 1, "message": {"id": "a-1"}, "stream": stream}),
        )
    };
    let start = json!({"type": "chunk", "time": 3, "chunk": {"type": "block-start", "index": 0, "blockType": "text"}});
    let pieces = json!([
        start,
        {"type": "text-chunks", "time0": 5, "index": 0, "dt": [4, 9], "texts": ["On", "e ", "two"]},
        {"type": "reasoning-chunks", "time0": 5, "index": 1, "dt": [], "texts": ["x"]},
        {"type": "tool-call-chunks", "time0": 5, "index": 2, "dt": [1], "id": "c", "name": "read", "args": ["{", "}"]},
    ]);
    let runs = json!([
        start,
        {"type": "text-chunks", "time0": 7, "index": 0, "dt": [], "texts": ["One"]},
        {"type": "text-chunks", "time0": 8, "index": 0, "dt": [], "texts": [" two"]},
        {"type": "reasoning-chunks", "time0": 9, "index": 1, "dt": [], "texts": ["x"]},
        {"type": "tool-call-chunks", "time0": 9, "index": 2, "dt": [], "id": "c", "name": "read", "args": ["{}"]},
    ]);
    let normal = normalised(&[answer(pieces)]);
    assert_eq!(normal, normalised(&[answer(runs)]));
    assert_eq!(
        normal[0]["data"]["stream"],
        json!([
            {"type": "chunk", "time": 0, "chunk": {"type": "block-start", "index": 0, "blockType": "text"}},
            {"type": "text-chunks", "time0": 0, "index": 0, "dt": [], "texts": ["One two"]},
            {"type": "reasoning-chunks", "time0": 0, "index": 1, "dt": [], "texts": ["x"]},
            {"type": "tool-call-chunks", "time0": 0, "index": 2, "dt": [], "id": "c", "name": "read", "args": ["{}"]},
        ])
    );
}

#[test]
fn pieces_of_different_blocks_or_calls_are_not_joined() {
    let stream = json!([
        {"type": "text-chunks", "time0": 0, "index": 0, "dt": [], "texts": ["a"]},
        {"type": "text-chunks", "time0": 0, "index": 1, "dt": [], "texts": ["b"]},
        {"type": "tool-call-chunks", "time0": 0, "index": 1, "dt": [], "id": "c", "args": ["1"]},
        {"type": "tool-call-chunks", "time0": 0, "index": 1, "dt": [], "id": "c", "name": "read", "args": ["2"]},
        {"type": "text-chunks", "time0": 0, "index": 0, "dt": "none", "texts": ["kept"]},
        {"type": "unheard-of"},
        "not even a record",
    ]);
    let rows = normalised(&[row("assistant/attempt", 0, json!({"stream": stream}))]);
    assert_eq!(rows[0]["data"]["stream"], stream);
}

fn catalog(seq: u64, child: &str) -> Value {
    row(
        "subagent/catalog",
        seq,
        json!({"childId": child, "childCreatedAt": 17}),
    )
}

fn call(seq: u64, id: &str) -> Value {
    row("tool/call", seq, json!({"callId": id}))
}

fn result(seq: u64, id: &str, of: u64) -> Value {
    let mut row = row("tool/result", seq, json!({"message": {"toolCallId": id}}));
    row["sourceEventSeqs"] = json!([of]);
    row
}

#[test]
fn subagents_are_listed_in_one_order_and_what_names_events_follows() {
    let summary = |seq: u64, results: Value| {
        let mut row = row(
            "compaction/summary",
            seq,
            json!({
                "shadowedRange": {"start": results[0], "end": results[1]}, "shadowedSeqs": results, "shadowedTokenCount": 812,
            }),
        );
        row["surfaceOp"] = json!({"op": "replace", "startSeq": results[0], "endSeq": results[1]});
        row
    };
    let one_way = [
        call(0, "a"),
        catalog(1, OTHER),
        call(2, "b"),
        result(3, "a", 0),
        catalog(4, CHILD),
        result(5, "b", 2),
        summary(6, json!([3, 5])),
    ];
    let another = [
        call(0, "a"),
        call(1, "b"),
        catalog(2, CHILD),
        catalog(3, OTHER),
        result(4, "a", 0),
        result(5, "b", 1),
        summary(6, json!([4, 5])),
    ];
    let normal = normalised(&one_way);
    assert_eq!(normal, normalised(&another));
    let listed = |name: &str| json!({"type": "subagent/catalog", "data": {"childId": format!("{{{{session:{name}}}}}"), "childCreatedAt": 0}});
    assert_eq!(
        normal,
        [
            json!({"type": "tool/call", "data": {"callId": "a"}}),
            json!({"type": "tool/call", "data": {"callId": "b"}}),
            json!({"type": "tool/result", "data": {"message": {"toolCallId": "a"}}, "sourceEventSeqs": [0]}),
            json!({"type": "tool/result", "data": {"message": {"toolCallId": "b"}}, "sourceEventSeqs": [1]}),
            listed("main.1"),
            listed("main.2"),
            json!({
                "type": "compaction/summary",
                "data": {"shadowedRange": {"start": 2, "end": 3}, "shadowedSeqs": [2, 3], "shadowedTokenCount": 0},
                "surfaceOp": {"op": "replace", "startSeq": 2, "endSeq": 3},
            }),
        ]
    );
}

#[test]
fn entries_that_stand_apart_stay_where_they_are() {
    let rows = [
        call(0, "a"),
        catalog(1, OTHER),
        result(2, "a", 0),
        row("step/end", 3, json!({})),
        catalog(4, CHILD),
        row("turn/end", 5, json!({})),
    ];
    let kinds: Vec<_> = normalised(&rows)
        .iter()
        .map(|row| row["type"].clone())
        .collect();
    assert_eq!(
        kinds,
        [
            "tool/call",
            "tool/result",
            "subagent/catalog",
            "step/end",
            "subagent/catalog",
            "turn/end"
        ]
    );
}

#[test]
fn cited_events_are_written_one_by_one() {
    let mut cites = row("user/message", 9, json!({"id": "m"}));
    cites["sourceEventSeqs"] = json!([0, [2, 5], [7, 8_000_000_000_u64], "x"]);
    let rows: Vec<Value> = (0..9)
        .map(|seq| row("turn/start", seq, json!({})))
        .chain([cites])
        .collect();
    let normal = normalised(&rows);
    assert_eq!(
        normal[9]["sourceEventSeqs"],
        json!([0, 2, 3, 4, 5, [7, 8_000_000_000_u64], "x"]),
        "a range that no log can have stays as it is"
    );
}

#[test]
fn an_event_that_nobody_knows_keeps_what_it_says() {
    let data = json!({"seq": 4, "stream": [{"type": "text-chunks", "dt": [3], "texts": ["a", "b"]}], "header": {"tools": []}, "n": 1.5});
    let rows = [row("vendor/thing", 0, data.clone())];
    assert_eq!(
        normalised(&rows),
        [json!({"type": "vendor/thing", "data": data})]
    );
    let odd = [json!("text"), json!([1]), json!({"type": 3}), json!(null)];
    assert_eq!(normalised(&odd), odd, "and so does what is no event");
}

#[test]
fn a_line_that_is_no_json_is_named() {
    assert_eq!(
        normaliser().log("{}\n{}\nnot\n").unwrap_err().to_string(),
        "line 3 is not JSON: expected ident at line 1 column 2"
    );
    assert_eq!(normaliser().log("").unwrap(), "");
}
