//! Packing of streams: nothing lost, and the runs that the format demands.

use offshoot_model::{Chunk, ContentBlock, FinishReason, StreamRecord, StreamRecorder, expand};
use proptest::prelude::*;

fn pack(chunks: &[(i64, Chunk)]) -> Vec<StreamRecord> {
    let mut recorder = StreamRecorder::new();
    for (time, chunk) in chunks {
        recorder.push(*time, chunk);
    }
    recorder.finish()
}

fn text(index: u64, text: &str) -> Chunk {
    Chunk::TextDelta {
        index,
        text: text.into(),
    }
}

fn call(id: &str, name: Option<&str>, more: &str) -> Chunk {
    Chunk::ToolCallDelta {
        index: 0,
        id: id.into(),
        name: name.map(str::to_owned),
        arguments_delta: more.into(),
    }
}

fn json(records: &[StreamRecord]) -> String {
    serde_json::to_string(records).unwrap()
}

#[test]
fn a_stream_is_packed_into_the_records_of_the_log() {
    let stream = [
        (
            10,
            Chunk::BlockStart {
                index: 0,
                block_type: "text".into(),
            },
        ),
        (11, text(0, "Fo")),
        (9, text(0, "ur.")),
        (
            12,
            Chunk::BlockEnd {
                index: 0,
                block: ContentBlock::text("Four."),
            },
        ),
        (13, Chunk::finish(FinishReason::Stop)),
    ];
    let records = pack(&stream);
    let expected = concat!(
        r#"[{"type":"chunk","time":10,"chunk":{"type":"block-start","index":0,"blockType":"text"}},"#,
        r#"{"type":"text-chunks","time0":11,"index":0,"dt":[-2],"texts":["Fo","ur."]},"#,
        r#"{"type":"chunk","time":12,"chunk":{"type":"block-end","index":0,"block":{"type":"text","text":"Four."}}},"#,
        r#"{"type":"chunk","time":13,"chunk":{"type":"finish","reason":{"kind":"stop"}}}]"#,
    );
    assert_eq!(json(&records), expected);
    assert_eq!(
        serde_json::from_str::<Vec<StreamRecord>>(expected).unwrap(),
        records
    );
    assert_eq!(expand(&records), stream);
}

#[test]
fn runs_break_where_kind_index_id_or_name_change() {
    let records = pack(&[
        (0, text(0, "a")),
        (0, text(1, "b")),
        (
            0,
            Chunk::ReasoningDelta {
                index: 1,
                text: "c".into(),
            },
        ),
        (0, call("x", Some("ls"), "{")),
        (0, call("x", Some("ls"), "}")),
        (0, call("x", None, "1")),
        (0, call("y", None, "2")),
    ]);
    let expected = concat!(
        r#"[{"type":"text-chunks","time0":0,"index":0,"dt":[],"texts":["a"]},"#,
        r#"{"type":"text-chunks","time0":0,"index":1,"dt":[],"texts":["b"]},"#,
        r#"{"type":"reasoning-chunks","time0":0,"index":1,"dt":[],"texts":["c"]},"#,
        r#"{"type":"tool-call-chunks","time0":0,"index":0,"dt":[0],"id":"x","name":"ls","args":["{","}"]},"#,
        r#"{"type":"tool-call-chunks","time0":0,"index":0,"dt":[],"id":"x","args":["1"]},"#,
        r#"{"type":"tool-call-chunks","time0":0,"index":0,"dt":[],"id":"y","args":["2"]}]"#,
    );
    assert_eq!(json(&records), expected);
}

#[test]
fn a_tool_delta_without_id_or_with_an_empty_name_stays_a_chunk() {
    let stream = [
        (0, call("", Some("ls"), "a")),
        (0, call("", Some("ls"), "b")),
        (0, call("x", Some(""), "c")),
    ];
    let expected: Vec<_> = stream
        .iter()
        .map(|(time, chunk)| StreamRecord::Chunk {
            time: *time,
            chunk: chunk.clone(),
        })
        .collect();
    assert_eq!(pack(&stream), expected);
}

#[test]
fn a_gap_that_is_not_exact_starts_a_new_run() {
    let most = (1 << 53) - 1;
    let stream = [(-1, text(0, "a")), (most, text(0, "b")), (0, text(0, "c"))];
    assert_eq!(
        pack(&stream),
        [
            StreamRecord::TextChunks {
                time0: -1,
                index: 0,
                dt: vec![],
                texts: vec!["a".into()]
            },
            StreamRecord::TextChunks {
                time0: most,
                index: 0,
                dt: vec![-most],
                texts: vec!["b".into(), "c".into()],
            },
        ]
    );
}

#[test]
fn malformed_runs_are_refused() {
    for (text, expected) in [
        (
            r#"{"type":"text-chunks","time0":0,"index":0,"dt":[],"texts":[]}"#,
            "a run of 0 members has 0 time differences",
        ),
        (
            r#"{"type":"text-chunks","time0":0,"index":0,"dt":[1,2],"texts":["a","b"]}"#,
            "a run of 2 members has 2 time differences",
        ),
        (
            r#"{"type":"text-chunks","time0":9007199254740991,"index":0,"dt":[1],"texts":["a","b"]}"#,
            "a run has a time beyond ±(2^53 − 1)",
        ),
        (
            r#"{"type":"tool-call-chunks","time0":0,"index":0,"dt":[],"args":["a"]}"#,
            "missing field `id`",
        ),
        (
            r#"{"type":"later","time0":0,"index":0,"dt":[]}"#,
            "unknown stream record type `later`",
        ),
    ] {
        assert_eq!(
            serde_json::from_str::<StreamRecord>(text)
                .unwrap_err()
                .to_string(),
            expected
        );
    }
}

fn any_chunk() -> impl Strategy<Value = Chunk> {
    let index = 0_u64..3;
    let words = prop::sample::select(vec!["", "a", "\u{2028}é\"", "long text"]);
    let ids = prop::sample::select(vec!["", "c1", "c2"]);
    let names = prop::sample::select(vec![None, Some(""), Some("ls")]);
    prop_oneof![
        4 => (index.clone(), words.clone()).prop_map(|(index, word)| text(index, word)),
        2 => (index.clone(), words.clone())
            .prop_map(|(index, text)| Chunk::ReasoningDelta { index, text: text.into() }),
        4 => (index.clone(), ids, names, words.clone()).prop_map(|(index, id, name, word)| {
            Chunk::ToolCallDelta {
                index,
                id: id.into(),
                name: name.map(str::to_owned),
                arguments_delta: word.into(),
            }
        }),
        1 => (index.clone(), words.clone())
            .prop_map(|(index, word)| Chunk::BlockEnd { index, block: ContentBlock::text(word) }),
        1 => index.prop_map(|index| Chunk::BlockStart { index, block_type: "text".into() }),
    ]
}

proptest! {
    #[test]
    fn expanding_gives_back_what_was_packed(
        stream in prop::collection::vec((-5_i64..5, any_chunk()), 0..40)
    ) {
        let records = pack(&stream);
        prop_assert_eq!(expand(&records), stream);
        let text = json(&records);
        let parsed: Vec<StreamRecord> = serde_json::from_str(&text).unwrap();
        prop_assert_eq!(&parsed, &records);
        prop_assert_eq!(pack(&expand(&parsed)), records);
    }
}
