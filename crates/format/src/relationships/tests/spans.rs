//! Compactions and pruning; children and deliveries, which depend on what was inherited.

use offshoot_session::SessionHeader;

use super::{CLOSE, OPEN, accepts, header, refuses, validate_as};

const START: &str = r#"
    compaction/start {"compactionId":"z","turn":1}
"#;
const SUMMARY: &str = r#"
    compaction/summary {"compactionId":"z","summary":[],"shadowedRange":{"start":3,"end":5},"shadowedSeqs":[3,5],"shadowedTokenCount":1}
"#;
const CHECKPOINT: &str = r#"
    user/message {"id":"k","role":"user","source":{"kind":"compact-checkpoint","compactionId":"z"},"content":[]} | "surfaceOp":{"op":"replace","startSeq":3,"endSeq":5},"sourceEventSeqs":[3,5]
"#;
const END: &str = r#"
    compaction/end {"compactionId":"z","turn":1}
"#;
const MARKER: &str = "\nsession/end-seed {}\n";

/// An open step with the surface 2 (head), 3, 5: events 0 to 5.
fn said() -> String {
    format!(
        "{OPEN}\n{}\n",
        r#"user/message {"id":"v","role":"user","source":{"kind":"user"},"content":[]}"#
    )
}

#[test]
fn a_compaction_is_a_bracket_with_one_summary() {
    accepts(&[
        &said(),
        START,
        SUMMARY,
        CHECKPOINT,
        END,
        &START.replace('z', "y"),
    ]);
    let failed = END.replace(r#""turn":1"#, r#""turn":1,"error":"no room""#);
    accepts(&[&said(), START, &failed]);
    accepts(&[&said(), START, SUMMARY, &failed]);
    refuses(
        &[&said(), START, &START.replace('z', "y")],
        "7: compaction `y` starts although `z` of event 6 is open",
    );
    refuses(
        &[&said(), SUMMARY],
        "6: belongs to the compaction `z`, but none is open",
    );
    refuses(
        &[&said(), END],
        "6: belongs to the compaction `z`, but none is open",
    );
    refuses(
        &[&said(), START, END],
        "7: compaction `z` ends without a summary and without an error",
    );
    refuses(
        &[&said(), START, SUMMARY, SUMMARY],
        "8: compaction `z` has its summary in event 7",
    );
    refuses(
        &[&said(), START, &SUMMARY.replace('z', "y")],
        "7: belongs to the compaction `y`, but `z` of event 6 is open",
    );
    refuses(
        &[&said(), START, SUMMARY, &END.replace('z', "y")],
        "8: belongs to the compaction `y`, but `z` of event 6 is open",
    );
}

#[test]
fn a_compaction_names_its_turn_and_its_command() {
    let idle = START.replace(r#""turn":1"#, r#""turn":null"#);
    accepts(&[
        &said(),
        CLOSE,
        &idle,
        SUMMARY,
        CHECKPOINT,
        &END.replace(r#""turn":1"#, r#""turn":null"#),
    ]);
    refuses(
        &[&said(), CLOSE, START],
        "8: compaction `z` names turn 1, but no turn is open",
    );
    refuses(
        &[&said(), &idle],
        "6: compaction `z` names no turn, but turn 1 is open",
    );
    refuses(
        &[&said(), &START.replace(r#""turn":1"#, r#""turn":2"#)],
        "6: compaction `z` names turn 2, but turn 1 is open",
    );
    refuses(
        &[
            &said(),
            START,
            SUMMARY,
            &END.replace(r#""turn":1"#, r#""turn":2"#),
        ],
        "8: compaction `z` was started in turn 1, but its end names turn 2",
    );

    let with_command = |row: &str| {
        row.replace(
            r#""compactionId":"z""#,
            r#""compactionId":"z","sourceCommandId":"k""#,
        )
    };
    accepts(&[
        &said(),
        &with_command(START),
        &with_command(SUMMARY),
        &with_command(CHECKPOINT),
        &with_command(END),
    ]);
    let other = "compaction `z` was started with the `sourceCommandId` `k`, found none";
    refuses(
        &[&said(), &with_command(START), SUMMARY],
        &format!("7: {other}"),
    );
    refuses(
        &[
            &said(),
            &with_command(START),
            &with_command(SUMMARY),
            CHECKPOINT,
        ],
        &format!("8: {other}"),
    );
    refuses(
        &[&said(), &with_command(START), &with_command(SUMMARY), END],
        &format!("8: {other}"),
    );
    refuses(
        &[&said(), START, &with_command(SUMMARY)],
        "7: compaction `z` was started with the `sourceCommandId` none, found `k`",
    );
}

#[test]
fn a_summary_stands_for_a_span_of_the_surface_without_its_head() {
    for (from, to, reason) in [
        (
            "[3,5]",
            "[3]",
            "`shadowedSeqs` must be the surface from 3 to 5, which is [3, 5] (2 events), found [3] (1 events)",
        ),
        (
            "[3,5]",
            "[5,3]",
            "`shadowedSeqs` must be the surface from 3 to 5, which is [3, 5] (2 events), found [5, 3] (2 events)",
        ),
        (
            "[3,5]",
            "[3,4,5]",
            "`shadowedSeqs` must be the surface from 3 to 5, which is [3, 5] (2 events), found [3, 4, 5] (3 events)",
        ),
        (
            r#""start":3"#,
            r#""start":4"#,
            "`shadowedRange` 4 to 5 is no span of the surface",
        ),
        (
            r#""start":3,"end":5"#,
            r#""start":5,"end":3"#,
            "`shadowedRange` 5 to 3 is no span of the surface",
        ),
    ] {
        refuses(
            &[&said(), START, &SUMMARY.replace(from, to)],
            &format!("7: {reason}"),
        );
    }
    let head = SUMMARY
        .replace(r#""start":3"#, r#""start":2"#)
        .replace("[3,5]", "[2,3,5]");
    refuses(
        &[&said(), START, &head],
        "7: `shadowedSeqs` names event 2, the system message at the head",
    );
    // Surface order counts: the checkpoint of event 8 stands before event 9.
    accepts(&[
        &said(),
        START,
        SUMMARY,
        CHECKPOINT,
        END,
        r#"user/message {"id":"w","role":"user","source":{"kind":"user"},"content":[]}"#,
        &START.replace('z', "y"),
        r#"compaction/summary {"compactionId":"y","summary":[],"shadowedRange":{"start":8,"end":10},"shadowedSeqs":[8,10]}"#,
    ]);
}

#[test]
fn a_checkpoint_belongs_to_the_open_compaction() {
    refuses(
        &[&said(), CHECKPOINT],
        "6: belongs to the compaction `z`, but none is open",
    );
    refuses(
        &[&said(), START, SUMMARY, &CHECKPOINT.replace('z', "y")],
        "8: belongs to the compaction `y`, but `z` of event 6 is open",
    );
    refuses(
        &[
            &said(),
            START,
            SUMMARY,
            &CHECKPOINT.replace(r#","compactionId":"z""#, ""),
        ],
        "8: belongs to the compaction none, but `z` of event 6 is open",
    );
    // Other replacements, and a checkpoint that replaces nothing, are no part of a compaction.
    accepts(&[&said(), &CHECKPOINT.replace("compact-checkpoint", "recall")]);
    accepts(&[
        &said(),
        r#"user/message {"id":"k","role":"user","source":{"kind":"compact-checkpoint"},"content":[]}"#,
    ]);
}

#[test]
fn a_turn_does_not_cross_a_compaction_that_goes_on() {
    let crossed = "a turn must not start or end while compaction `z` of event 6 is open";
    refuses(&[&said(), START, CLOSE], &format!("end, 8: {crossed}"));
    refuses(
        &[&said(), START, CLOSE, "turn/start {\"turn\":2}"],
        &format!("end, 8: {crossed}"),
    );
    refuses(
        &[&said(), START, CLOSE, SUMMARY],
        &format!("9: goes on although event 8 crossed: {crossed}"),
    );
    refuses(
        &[&said(), START, SUMMARY, CLOSE, END],
        &format!("10: goes on although event 9 crossed: {crossed}"),
    );
    let idle = START.replace(r#""turn":1"#, r#""turn":null"#);
    refuses(
        &[&said(), CLOSE, &idle, "turn/start {\"turn\":2}"],
        "end, 9: a turn must not start or end while compaction `z` of event 8 is open",
    );
    refuses(
        &[&said(), START, CLOSE, &idle.replace('z', "y")],
        "9: compaction `y` starts although `z` of event 6 is open",
    );
}

#[test]
fn a_marker_orphans_a_compaction() {
    accepts(&[&said(), START, MARKER, CLOSE]);
    accepts(&[&said(), START, CLOSE, MARKER]);
    accepts(&[
        &said(),
        START,
        CLOSE,
        "turn/start {\"turn\":2}",
        MARKER,
        &START.replace(r#""turn":1"#, r#""turn":2"#),
    ]);
    refuses(
        &[&said(), START, MARKER, SUMMARY],
        "8: belongs to the compaction `z`, but none is open",
    );
    refuses(
        &[&said(), START, MARKER, END],
        "8: belongs to the compaction `z`, but none is open",
    );
}

#[test]
fn closers_whose_marker_was_torn_off_may_cross_a_compaction_at_the_very_end() {
    for reason in ["interrupted", "forked"] {
        let closers = CLOSE.replace("completed", reason);
        accepts(&[&said(), START, &closers]);
        accepts(&[&said(), START, &closers, MARKER]);
        refuses(
            &[
                &said(),
                START,
                &closers,
                "sandbox/mode {\"mode\":\"read-only\"}",
            ],
            "end, 8: a turn must not start or end while compaction `z` of event 6 is open",
        );
    }
}

#[test]
fn pruning_lists_earlier_events_and_spares_the_head() {
    let prune = |start: u64, end: u64, seqs: &str| {
        format!(
            r#"compaction/prune {{"shadowedRange":{{"start":{start},"end":{end}}},"shadowedSeqs":{seqs},"shadowedTokenCount":1}}"#
        )
    };
    accepts(&[&said(), &prune(3, 5, "[3,5]")]);
    accepts(&[&said(), &prune(3, 3, "[3]")]);
    accepts(&[&said(), &prune(5, 3, "[5,4,3]")]);
    for (row, reason) in [
        (
            prune(3, 4, "[3,5]"),
            "`shadowedRange` is 3 to 4, but `shadowedSeqs` is [3, 5] (2 events)",
        ),
        (
            prune(4, 5, "[3,5]"),
            "`shadowedRange` is 4 to 5, but `shadowedSeqs` is [3, 5] (2 events)",
        ),
        (
            prune(3, 5, "[]"),
            "`shadowedRange` is 3 to 5, but `shadowedSeqs` is [] (0 events)",
        ),
        (prune(3, 3, "[3,5,3]"), "`shadowedSeqs` names event 3 twice"),
        (
            prune(3, 6, "[3,6]"),
            "`shadowedSeqs` names event 6, which is not earlier",
        ),
        (
            prune(2, 3, "[2,3]"),
            "`shadowedSeqs` names event 2, the system message at the head",
        ),
    ] {
        refuses(&[&said(), &row], &format!("6: {reason}"));
    }
}

fn child() -> SessionHeader {
    header().forked("child".into(), 1)
}

const FORK_MARKER: &str = "\nsession/end-seed {\"inherited\":true}\n";

#[test]
fn own_children_are_in_the_catalog_once() {
    let entry =
        r#"subagent/catalog {"version":0,"childId":"a","childCreatedAt":1,"mode":"one-shot"}"#;
    accepts(&[entry, "\n", &entry.replace(r#""a""#, r#""b""#)]);
    refuses(
        &[entry, "\n", entry],
        "end, 1: the child `a` is in the catalog already",
    );
    let as_child = |parts: &[&str]| validate_as(&child(), parts).map(|log| log.end().get());
    assert_eq!(
        as_child(&[entry, "\n", entry, FORK_MARKER, entry]),
        Ok(4),
        "the parent's entries are the parent's"
    );
    assert_eq!(
        as_child(&[entry, "\n", entry, FORK_MARKER, entry, "\n", entry]),
        Err("end, 4: the child `a` is in the catalog already".into())
    );
}

#[test]
fn a_delivery_marker_names_this_session_or_stands_in_what_was_inherited() {
    let delivery =
        |members: &str| format!("\nsession-log-deepseek/delivery-accepted {{{members}}}\n");
    let ours = delivery(r#""sessionId":"me","throughSeq":4,"sessionFormatVersion":4"#);
    accepts(&[OPEN, &ours]);
    refuses(
        &[OPEN, &ours.replace(":4,", ":5,")],
        "5: `throughSeq` names event 5, which is not earlier",
    );
    refuses(
        &[OPEN, &ours.replace("me", "")],
        "5: `sessionId` must not be empty",
    );
    refuses(
        &[OPEN, &ours.replace("me", "you")],
        "5: `sessionId` must be this session, `me`, found `you`",
    );
    // Markers of other generations count in seqs that are gone.
    accepts(&[OPEN, &delivery(r#""sessionId":"you","throughSeq":999"#)]);
    accepts(&[
        OPEN,
        &delivery(r#""sessionId":"you","throughSeq":999,"sessionFormatVersion":3"#),
    ]);

    let closed = format!("{OPEN}{ours}{CLOSE}{FORK_MARKER}");
    assert!(
        validate_as(&child(), &[&closed]).is_ok(),
        "the parent's marker"
    );
    assert_eq!(
        validate_as(&child(), &[&closed, &ours]).map(|log| log.end()),
        Err("end, 9: `sessionId` must be this session, `child`, found `me`".into())
    );
    let orphan = SessionHeader {
        parent: None,
        ..child()
    };
    assert_eq!(
        validate_as(&orphan, &[&closed]).map(|log| log.end()),
        Err("5: `sessionId` must be this session, `child`, found `me`".into())
    );
}
