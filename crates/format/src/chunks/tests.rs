use std::fs;

use offshoot_test_support::corpus;
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use proptest::sample::select;

use super::*;
use crate::codec::read_row;
use crate::record::Record;
use crate::version::Version;
use offshoot_session::LogOffset;

const PLACE: Place = Place {
    line: 2,
    seq: LogOffset::START,
    byte: 0,
};

fn read(row: &str) -> Result<Option<ChunkRun>, String> {
    ChunkRun::read(row, PLACE).map_err(|fault| match fault {
        RowFault::Structure(reason) => reason,
        RowFault::Rule(rule) => panic!("a packed row breaks no rule of its own: {rule}"),
    })
}

/// The rows that packing off would have written.
fn unpacked(row: &str) -> Vec<String> {
    let Some(run) = read(row).unwrap() else {
        return vec![row.to_owned()];
    };
    (run.first..)
        .zip(run.run.members())
        .map(|(seq, (time, part))| {
            let data = format!(
                r#"{{"turn":{},"step":{},"chunk":{}}}"#,
                run.at.turn,
                run.at.step,
                run.run.chunk(part)
            );
            Record::added(PLACE, "assistant/chunk", seq, time, data).render(Version::V1)
        })
        .collect()
}

fn unpack<'a>(rows: impl IntoIterator<Item = &'a str>) -> Vec<String> {
    rows.into_iter().flat_map(unpacked).collect()
}

fn pack(rows: &[String]) -> Vec<String> {
    pack_chunk_rows(rows.iter().map(String::as_str))
}

fn delta(seq: u64, time: i64, chunk: &str) -> String {
    let data = format!(r#"{{"turn":1,"step":1,"chunk":{chunk}}}"#);
    format!(r#"{{"type":"assistant/chunk","seq":{seq},"time":{time},"data":{data}}}"#)
}

fn text(seq: u64, time: i64) -> String {
    delta(seq, time, r#"{"type":"text-delta","index":0,"text":"a"}"#)
}

#[test]
fn three_deltas_in_a_row_are_packed_and_two_are_not() {
    let two = [text(5, 10), text(6, 9)];
    assert_eq!(pack(&two), two);
    assert_eq!(
        pack(&[text(5, 10), text(6, 9), text(7, 12)]),
        [
            r#"{"type":"text-chunks","seq0":5,"time0":10,"data":{"turn":1,"step":1,"index":0,"dt":[-1,3],"texts":["a","a","a"]}}"#
        ]
    );
    let call = r#"{"type":"tool-call-delta","index":1,"id":"c","name":"n","argumentsDelta":"\""}"#;
    let rows: Vec<_> = (0..3).map(|seq| delta(seq, 1, call)).collect();
    assert_eq!(
        pack(&rows),
        [
            r#"{"type":"tool-call-chunks","seq0":0,"time0":1,"data":{"turn":1,"step":1,"index":1,"dt":[0,0],"id":"c","name":"n","args":["\"","\"","\""]}}"#
        ]
    );
    let call = r#"{"type":"tool-call-delta","index":1,"id":"c","argumentsDelta":""}"#;
    let rows: Vec<_> = (0..3).map(|seq| delta(seq, 1, call)).collect();
    assert_eq!(
        pack(&rows),
        [
            r#"{"type":"tool-call-chunks","seq0":0,"time0":1,"data":{"turn":1,"step":1,"index":1,"dt":[0,0],"id":"c","args":["","",""]}}"#
        ]
    );
}

#[test]
fn a_run_breaks_where_the_row_could_not_say_what_was_there() {
    let call = |id: &str, name: &str| {
        format!(r#"{{"type":"tool-call-delta","index":0,"id":"{id}"{name},"argumentsDelta":""}}"#)
    };
    let safe = MAX_SAFE_INTEGER as i64;
    let text = |index: u64| format!(r#"{{"type":"text-delta","index":{index},"text":"a"}}"#);
    let at = |turn: u64, step: u64, seq: u64| {
        delta(seq, 0, &text(0)).replace(
            r#""turn":1,"step":1"#,
            &format!(r#""turn":{turn},"step":{step}"#),
        )
    };
    let unlike = [
        (
            "another block",
            [delta(2, 0, &text(0)), delta(3, 0, &text(1))],
        ),
        (
            "another kind",
            [
                delta(2, 0, &text(0)),
                delta(3, 0, &text(0).replace("text-delta", "reasoning-delta")),
            ],
        ),
        (
            "another call",
            [delta(2, 0, &call("a", "")), delta(3, 0, &call("b", ""))],
        ),
        (
            "a name",
            [
                delta(2, 0, &call("a", "")),
                delta(3, 0, &call("a", r#","name":"n""#)),
            ],
        ),
        (
            "another name",
            [
                delta(2, 0, &call("a", r#","name":"m""#)),
                delta(3, 0, &call("a", r#","name":"n""#)),
            ],
        ),
        ("another turn", [at(1, 1, 2), at(2, 1, 3)]),
        ("another step", [at(1, 1, 2), at(1, 2, 3)]),
        ("a seq that is not next", [at(1, 1, 2), at(1, 1, 4)]),
        (
            "a gap that is no exact number",
            [delta(2, -safe, &text(0)), delta(3, 1, &text(0))],
        ),
    ];
    let twice = |row: &String, back: u64| {
        let seq = row.split(r#""seq":"#).nth(1).unwrap();
        let seq: u64 = seq[..seq.find(',').unwrap()].parse().unwrap();
        let near = |by: u64| {
            let to = if back == 0 {
                seq + by
            } else {
                seq - (back - by)
            };
            row.replace(&format!(r#""seq":{seq}"#), &format!(r#""seq":{to}"#))
        };
        [near(0), near(1), near(2)]
    };
    for (what, [first, second]) in unlike {
        let before = twice(&first, 2);
        let behind = twice(&second, 0);
        let rows: Vec<_> = before.into_iter().chain(behind).collect();
        let packed = pack(&rows);
        assert_eq!(packed.len(), 2, "{what}: {packed:#?}");
        assert_eq!(unpack(packed.iter().map(String::as_str)), rows, "{what}");
    }
}

#[test]
fn a_row_with_anything_else_in_it_stays_as_it_is() {
    for other in [
        text(1, 1).replace(r#""data""#, r#""ignorable":true,"data""#),
        text(1, 1).replace(r#""text":"#, r#""more":0,"text":"#),
        text(1, 1).replace(r#""turn":1"#, r#""turn":1,"more":0"#),
        text(1, 1).replace("assistant/chunk", "assistant/other"),
        text(1, 1).replace(r#""text":"a""#, r#""text":1"#),
        text(1, 1).replace("text-delta", "usage"),
        text(1, 1).replace(r#""time":1"#, r#""time":-0"#),
        text(1, 1).replace(r#""index":0"#, r#""index":9007199254740992"#),
        delta(
            1,
            1,
            r#"{"type":"block-start","index":0,"blockType":"text"}"#,
        ),
    ] {
        let rows = [text(0, 1), other, text(2, 1)];
        assert_eq!(pack(&rows), rows);
    }
}

#[test]
fn a_packed_row_may_be_short_and_written_in_any_way() {
    let row = r#" { "data" : {"texts": [ "a\"," , "\\" ], "dt":[ -3 ], "index":0,"step":2,"turn":1}, "time0":10, "type":"text\u002dchunks", "seq0":7 } "#;
    let expected = ChunkRun {
        place: PLACE,
        first: 7,
        at: StepRef { turn: 1, step: 2 },
        run: DeltaRun {
            kind: DeltaKind::Text,
            index: 0,
            time: 10,
            last: 7,
            dt: vec![-3],
            parts: r#""a\",","\\""#.into(),
        },
    };
    assert_eq!(read(row), Ok(Some(expected)));
    let one = r#"{"type":"reasoning-chunks","seq0":7,"time0":1,"data":{"turn":1,"step":1,"index":0,"dt":[],"texts":["\ud800"]}}"#;
    assert_eq!(
        unpacked(one),
        [delta(
            7,
            1,
            r#"{"type":"reasoning-delta","index":0,"text":"\ud800"}"#
        )]
    );
    let odd = r#"{"type":"tool-call-chunks","seq0":7,"time0":1,"data":{"turn":1,"step":1,"index":0,"id":"\u0061\n","name":"\/","dt":[],"args":[""]}}"#;
    let chunk = r#"{"type":"tool-call-delta","index":0,"id":"a\n","name":"/","argumentsDelta":""}"#;
    assert_eq!(unpacked(odd), [delta(7, 1, chunk)]);
}

#[test]
fn what_is_wrong_with_a_packed_row_is_told() {
    let row = r#"{"type":"text-chunks","seq0":5,"time0":10,"data":{"turn":1,"step":1,"index":0,"dt":[1],"texts":["a","b"]}}"#;
    let call = r#"{"type":"tool-call-chunks","seq0":5,"time0":10,"data":{"turn":1,"step":1,"index":0,"dt":[],"id":"c","args":["a"]}}"#;
    let safe = "9007199254740991";
    let told = |row: &str, from: &str, to: &str| {
        let changed = row.replace(from, to);
        assert_ne!(changed, row);
        read(&changed).unwrap_err()
    };
    let text = |from: &str, to: &str| {
        let told = told(row, from, to);
        told.strip_prefix("not a valid `text-chunks` row: ")
            .unwrap()
            .to_owned()
    };
    let call = |from: &str, to: &str| {
        let told = told(call, from, to);
        told.strip_prefix("not a valid `tool-call-chunks` row: ")
            .unwrap()
            .to_owned()
    };
    let found = [
        text(r#""seq0":5,"#, ""),
        text(r#""seq0":5"#, r#""seq0":-5"#),
        text(r#""seq0":5"#, r#""seq0":9007199254740991"#),
        text(r#""turn":1"#, r#""turn":9007199254740992"#),
        text(r#""time0":10"#, r#""time0":-0"#),
        text(r#""time0":10"#, &format!(r#""time0":{safe}"#)),
        text("[1]", "[9007199254740992]"),
        text("[1]", "[]"),
        text("[1]", "[1.5]"),
        text(r#"["a","b"]"#, r#"["a",1]"#),
        text(r#"["a","b"]"#, r#""a,b""#),
        text(r#""index":0"#, r#""index":0,"index":0"#),
        text(r#""index":0"#, r#""index":0,"id":"c""#),
        text(r#""index":0"#, r#""index":0,"more":1"#),
        text("}}", "}"),
        call(r#""id":"c","#, ""),
        call(r#""id":"c""#, r#""id":"c","name":null"#),
        call(r#""id":"c""#, r#""id":"c","texts":["a"]"#),
        call(r#""args":["a"]"#, r#""args":null"#),
        call(r#""args":["a"]"#, r#""args":[]"#),
    ];
    let expected = [
        "missing field `seq0` (byte 97)",
        "invalid value: integer `-5`, expected u64 (byte 31)",
        "a member's seq is beyond 2^53 − 1",
        "`turn` must be a count, found 9007199254740992",
        "invalid type: floating point `-0.0`, expected i64 (byte 41)",
        "a member's time is beyond ±(2^53 − 1)",
        "`dt` has a member beyond ±(2^53 − 1)",
        "`dt` has 0 members for 2 deltas, expected one less than deltas",
        "invalid type: floating point `1.5`, expected i64 (byte 87)",
        "`texts` must be a list of strings",
        "`texts` must be a list of strings",
        "duplicate field `index` (byte 85)",
        "unknown member `id`",
        "unknown field `more`, expected one of `turn`, `step`, `index`, `dt`, `id`, `name`, `texts`, `args` (byte 84)",
        "EOF while parsing an object (byte 105)",
        "the member `id` is missing",
        "`name` must be a string",
        "unknown member `texts`",
        "`args` must be a list of strings",
        "`dt` has 0 members for 0 deltas, expected one less than deltas",
    ];
    assert_eq!(found, expected);
}

fn corpus_rows(directory: &str) -> Vec<(String, Vec<String>)> {
    let files = corpus::files(directory).into_iter().map(|path| {
        let text = fs::read_to_string(&path).unwrap();
        let rows = text.lines().skip(1).map(str::to_owned).collect();
        (path.display().to_string(), rows)
    });
    files.collect()
}

#[test]
fn recorded_rows_are_packed_again_to_the_same_bytes() {
    let mut packed_rows = 0;
    for directory in ["v0-completed", "v1-completed"] {
        for (name, rows) in corpus_rows(directory) {
            let plain = unpack(rows.iter().map(String::as_str));
            packed_rows += plain.len() - rows.len();
            assert_eq!(pack(&plain), rows, "{name}");
        }
    }
    if packed_rows == 0 {
        corpus::skip_notice("recorded_rows_are_packed_again_to_the_same_bytes");
    }
}

#[test]
fn recorded_rows_are_rendered_to_the_same_bytes() {
    let mut count = 0;
    for (version, directory) in [
        (Version::V0, "v0-completed"),
        (Version::V1, "v1-completed"),
        (Version::V2, "v2-completed"),
        (Version::V3, "v3-completed"),
    ] {
        for (name, rows) in corpus_rows(directory) {
            for row in rows {
                let read = read_row(&row, version, PLACE);
                if let Ok(crate::codec::Row::Older(crate::chain::Item::Event(record))) = read {
                    let rendered = record.render(version);
                    match version {
                        // V0 wrote lists of seqs without ranges.
                        Version::V0 => {
                            let again = Record::read(&rendered, version, PLACE).unwrap();
                            assert_eq!(again, record, "{name}");
                        }
                        _ => assert_eq!(rendered, row, "{name}"),
                    }
                    count += 1;
                } else if !row.contains("chunk") {
                    panic!("{name}: {read:?}");
                }
            }
        }
    }
    if count == 0 {
        corpus::skip_notice("recorded_rows_are_rendered_to_the_same_bytes");
    }
}

/// What a row is, apart from its seq.
#[derive(Clone, Debug)]
enum Shape {
    Delta { chunk: String, gap: i64 },
    Other,
}

fn shapes() -> impl Strategy<Value = Vec<Shape>> {
    let far = MAX_SAFE_INTEGER as i64;
    let gap = prop_oneof![8 => -3..40_i64, 1 => select(vec![-far, far, -2 * far, 2 * far])];
    let part = select(vec!["", "a", "\"", ",", "\\", "\n", "é", "],["]);
    let call = (
        select(vec!["c", "d", ""]),
        option::of(select(vec!["n", "m", ""])),
    );
    let chunk = (0..3_u8, 0..2_u64, part, call).prop_map(|(kind, index, part, (id, name))| {
        let part = quote(part);
        match kind {
            0 => format!(r#"{{"type":"text-delta","index":{index},"text":{part}}}"#),
            1 => format!(r#"{{"type":"reasoning-delta","index":{index},"text":{part}}}"#),
            _ => {
                let name = name.map_or_else(String::new, |name| format!(r#","name":"{name}""#));
                format!(
                    r#"{{"type":"tool-call-delta","index":{index},"id":"{id}"{name},"argumentsDelta":{part}}}"#
                )
            }
        }
    });
    // The same delta several times, so that runs are long enough to be packed.
    let deltas = (chunk, vec(gap, 1..6)).prop_map(|(chunk, gaps)| {
        let delta = |gap| Shape::Delta {
            chunk: chunk.clone(),
            gap,
        };
        gaps.into_iter().map(delta).collect::<Vec<_>>()
    });
    let shapes = prop_oneof![6 => deltas, 1 => Just(vec![Shape::Other])];
    vec(shapes, 0..12).prop_map(|shapes| shapes.concat())
}

fn rows(shapes: &[Shape]) -> Vec<String> {
    let far = MAX_SAFE_INTEGER as i64;
    let mut time = 0;
    (0..)
        .zip(shapes)
        .map(|(seq, shape)| match shape {
            Shape::Delta { chunk, gap } => {
                time = (time + gap).clamp(-far, far);
                delta(seq, time, chunk)
            }
            Shape::Other => delta(seq, time, r#"{"type":"usage","usage":{}}"#),
        })
        .collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn packing_loses_nothing(shapes in shapes(), split in 0..60_usize) {
        let plain = rows(&shapes);
        let packed = pack(&plain);
        let again = unpack(packed.iter().map(String::as_str));
        prop_assert_eq!(&again, &plain);
        prop_assert_eq!(pack(&again), &packed[..]);
        // A file may be packed up to a point only, and a packed row is no delta that could be packed again.
        let split = split.min(plain.len());
        let mut mixed = pack(&plain[..split]);
        mixed.extend_from_slice(&plain[split..]);
        prop_assert_eq!(unpack(mixed.iter().map(String::as_str)), &plain[..]);
        prop_assert_eq!(unpack(pack(&mixed).iter().map(String::as_str)), &plain[..]);
    }

    #[test]
    fn a_stream_is_the_same_however_its_chunks_were_stored(shapes in shapes()) {
        let plain = rows(&shapes);
        let stream = |rows: &[String]| {
            let mut stream = Stream::default();
            for row in rows {
                if let Some(run) = read(row).unwrap() {
                    stream.deltas(run.run);
                    continue;
                }
                let record = Record::read(row, Version::V1, PLACE).unwrap();
                let data = ChunkData::read(&record.data).unwrap();
                match DeltaRun::of_chunk(data.chunk(), record.time) {
                    Some(delta) => stream.deltas(delta),
                    None => stream.chunk(record.time, data.chunk().json()),
                }
            }
            stream.finish()
        };
        let from_plain = stream(&plain);
        prop_assert_eq!(stream(&pack(&plain)), &from_plain[..]);
        // What the current reader of streams finds is every chunk with its time.
        let records: Vec<serde_json::Value> = serde_json::from_str(&from_plain).unwrap();
        let count: usize = records.iter().map(|record| record["dt"].as_array().map_or(1, |dt| dt.len() + 1)).sum();
        prop_assert_eq!(count, plain.len());
    }
}
