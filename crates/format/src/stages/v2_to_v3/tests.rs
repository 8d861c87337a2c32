//! Rule by rule: what a log of V2 becomes, and what is refused (`reference/persistence.md` §2.5).

mod audit;
mod head;

use offshoot_session::LogOffset;
use sha2::{Digest, Sha256};

use crate::chain::Chain;
use crate::codec::{Row, read_row};
use crate::header::StoredHeader;
use crate::version::Version;
use crate::{FormatError, Place};

const HEADER: &str = r#"{"type":"session","version":2,"id":"s\"1","createdAt":7,"isSeeded":false,"delegationDepth":0}"#;

/// The rows of V3 that these become.
fn upper(rows: &[String]) -> Result<Vec<String>, FormatError> {
    upper_of(HEADER, rows)
}

fn upper_of(header: &str, rows: &[String]) -> Result<Vec<String>, FormatError> {
    let header = StoredHeader::read(header).unwrap();
    let items = (2..).zip(rows).map(|(line, row)| {
        let place = Place {
            line,
            seq: LogOffset::START,
            byte: 0,
        };
        match read_row(row, Version::V2, place) {
            Ok(Row::Older(item)) => item,
            other => panic!("{row}: {other:?}"),
        }
    });
    let items: Vec<_> = items.collect();
    let records = Chain::new(&header, Version::V3, &[]).records(items)?;
    let rows = records.iter().map(|record| record.render(Version::V3));
    Ok(rows.collect())
}

#[track_caller]
fn assert_rises(rows: &[String], expected: &[String]) {
    assert_eq!(upper(rows), Ok(expected.to_vec()));
}

/// Why the rows are intact, but cannot be brought up; with the line.
#[track_caller]
fn unsupported(rows: &[String]) -> String {
    match upper(rows) {
        Err(FormatError::UnsupportedMigration {
            version: 2,
            place: Some(place),
            reason,
        }) => format!("{}: {reason}", place.line),
        other => panic!("{other:#?}"),
    }
}

/// Why the rows are damage; with the line.
#[track_caller]
fn damaged(rows: &[String]) -> String {
    match upper(rows) {
        Err(FormatError::Damaged { place, reason }) => format!("{}: {reason}", place.line),
        other => panic!("{other:#?}"),
    }
}

/// A row at a seq, with the time that the event has in the log of V2.
fn at(seq: u64, time: u64, kind: &str, data: &str) -> String {
    format!(r#"{{"type":"{kind}","seq":{seq},"time":{time},"data":{data}}}"#)
}

/// The row with more members at its end.
fn with(row: &str, members: &str) -> String {
    format!("{},{members}}}", row.strip_suffix('}').unwrap())
}

const APPEND: &str = r#""surfaceOp":"append""#;

/// An event on the surface, appended to it.
fn appended(seq: u64, time: u64, kind: &str, data: &str) -> String {
    with(&at(seq, time, kind, data), APPEND)
}

fn turn(seq: u64, time: u64, kind: &str) -> String {
    at(seq, time, &format!("turn/{kind}"), r#"{"turn":1}"#)
}

fn step(seq: u64, time: u64, kind: &str) -> String {
    at(seq, time, &format!("step/{kind}"), r#"{"turn":1,"step":1}"#)
}

/// A turn and a step in it, at seqs 0 and 1.
fn opened() -> Vec<String> {
    vec![turn(0, 100, "start"), step(1, 101, "start")]
}

/// [`opened`] in V3, where the head of the surface follows at seq 2.
fn opened_above() -> Vec<String> {
    let mut rows = opened();
    rows.push(appended(
        2,
        101,
        "system/message",
        &system_data(1, "step/start", "[]"),
    ));
    rows
}

fn system_data(anchor: u64, kind: &str, content: &str) -> String {
    let id = system_id(anchor, kind);
    format!(
        r#"{{"turn":1,"step":1,"message":{{"id":"{id}","role":"system","source":{{"kind":"plugin","plugin":"@deepseek-ai/dsh-system-prompt"}},"content":{content}}}}}"#
    )
}

/// The id of the message that stands beside the event, worked out here once more.
fn system_id(anchor: u64, kind: &str) -> String {
    let named = format!(r#"["session-format-v2-to-v3","s\"1",{anchor},"{kind}"]"#);
    let digest = Sha256::digest(named.as_bytes());
    let digest: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
    format!("v2-to-v3-system-{digest}")
}

/// A user message with a source and a list of content blocks.
fn user_data(source: &str, content: &str) -> String {
    format!(r#"{{"id":"u","role":"user","content":{content},"source":{source}}}"#)
}

const USER: &str = r#"{"kind":"user"}"#;

#[test]
fn references_follow_the_events_that_move() {
    let log = |moved: u64| {
        let (two, three) = (2 + moved, 3 + moved);
        let [first, last] = [["start", "end"], ["startSeq", "endSeq"]][moved as usize];
        let user = user_data(USER, "[]");
        let span = format!(
            r#"{{"shadowedRange":{{"start":{two},"end":{three}}},"shadowedSeqs":[{two},{three}]}}"#
        );
        vec![
            appended(2 + moved, 102, "user/message", &user),
            appended(3 + moved, 103, "user/message", &user),
            with(
                &at(4 + moved, 104, "user/message", &user),
                &format!(
                    r#""sourceEventSeqs":[{two},{three}],"surfaceOp":{{"op":"replace","{first}":{two},"{last}":{three}}}"#
                ),
            ),
            at(5 + moved, 105, "compaction/summary", &span),
            at(6 + moved, 106, "compaction/prune", &span),
            at(
                7 + moved,
                107,
                "session/title",
                &format!(r#"{{"title":"t","messageSeqs":[{two}]}}"#),
            ),
            at(
                8 + moved,
                108,
                "session/title-llm-request",
                &format!(r#"{{"messageSeqs":[{three}],"messages":[]}}"#),
            ),
            at(
                9 + moved,
                109,
                "command/done",
                &format!(r#"{{"commandId":"c","sourceEventSeq":{two}}}"#),
            ),
            at(10 + moved, 110, "session/end-seed", r#"{"inherited":true}"#),
        ]
    };
    assert_rises(
        &[opened(), log(0)].concat(),
        &[opened_above(), log(1)].concat(),
    );
    let later = user_data(USER, "[]");
    let cited = |sources: &str| {
        let row = at(2, 102, "user/message", &later);
        let members = format!(
            r#""sourceEventSeqs":{sources},"surfaceOp":{{"op":"replace","start":2,"end":2}}"#
        );
        [opened(), vec![with(&row, &members)]].concat()
    };
    assert_eq!(
        damaged(&cited("[1]")),
        "4: `user/message`: names event 2, which is not ahead of it"
    );
}

#[test]
fn code_mode_is_called_ptc() {
    let source =
        |plugin: &str| format!(r#"{{"kind":"plugin","plugin":"{plugin}","form":"notice"}}"#);
    let message = |plugin: &str| user_data(&source(plugin), "[]");
    let log = |at_seq: u64, [dispatch, plugin, preset]: [&str; 3]| {
        vec![
            appended(at_seq, 102, "user/message", &message(plugin)),
            at(
                at_seq + 1,
                103,
                "agent/inbox/spliced",
                &format!(
                    r#"{{"target":"next-step","start":0,"inserted":[{},{}]}}"#,
                    message("other"),
                    message(plugin)
                ),
            ),
            at(
                at_seq + 2,
                104,
                "session/title-llm-request",
                &format!(r#"{{"messageSeqs":[],"messages":[{}]}}"#, message(plugin)),
            ),
            at(
                at_seq + 3,
                105,
                &format!("tool/{dispatch}-start"),
                r#"{"name":"code"}"#,
            ),
            at(
                at_seq + 4,
                106,
                &format!("tool/{dispatch}"),
                r#"{"name":"code","content":[]}"#,
            ),
            at(
                at_seq + 5,
                107,
                "agent-preset/selected",
                &format!(r#"{{"agentPreset":"{preset}"}}"#),
            ),
        ]
    };
    let lower = log(2, ["code-dispatch", "tools-code-mode", "code"]);
    let higher = log(3, ["ptc-dispatch", "tools-ptc", "ptc"]);
    assert_rises(
        &[opened(), lower].concat(),
        &[opened_above(), higher].concat(),
    );
    // The same words anywhere else are no names.
    let other = |seq: u64| {
        vec![
            appended(
                seq,
                102,
                "user/message",
                &user_data(
                    r#"{"kind":"user","plugin":"tools-code-mode"}"#,
                    r#"[{"type":"text","text":"tools-code-mode"}]"#,
                ),
            ),
            at(
                seq + 1,
                103,
                "agent-preset/selected",
                r#"{"agentPreset":"coder"}"#,
            ),
        ]
    };
    assert_rises(
        &[opened(), other(2)].concat(),
        &[opened_above(), other(3)].concat(),
    );
}

#[test]
fn the_preset_in_the_header_is_called_ptc_too() {
    for version in 0..=3 {
        let seeded = if version < 2 {
            ""
        } else {
            r#""isSeeded":false,"#
        };
        let header = |preset: &str| {
            let line = format!(
                r#"{{"type":"session","version":{version},"id":"s","createdAt":7,{seeded}"delegationDepth":0,"agentPreset":"{preset}"}}"#
            );
            StoredHeader::read(&line).unwrap().header.agent_preset
        };
        let renamed = if version < 3 { "ptc" } else { "code" };
        assert_eq!(header("code").as_deref(), Some(renamed), "V{version}");
        assert_eq!(header("plan").as_deref(), Some("plan"), "V{version}");
    }
}

#[test]
fn payloads_that_no_rule_names_keep_their_text() {
    let rows = |seq: u64| {
        vec![
            at(
                seq,
                102,
                "todo/write",
                r#"{ "todos" : [1.0, 2e3, "\u0041\ud800"] }"#,
            ),
            with(
                &at(seq + 1, 103, "plan/mode", r#"{"active":true}"#),
                r#""ignorable":true"#,
            ),
        ]
    };
    assert_rises(
        &[opened(), rows(2)].concat(),
        &[opened_above(), rows(3)].concat(),
    );
}
