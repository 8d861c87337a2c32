//! Every rule with rows that keep it and rows that break it, and the recorded sessions, which keep them all.

use offshoot_session::{CloseCause, Event, EventKind, SurfaceOp, open_turn_closers};

use super::Admission;

/// Writes rows shortly: per line the type, the payload and, behind ` | `, further members. Rows are numbered in order
/// from 0, and messages of the surface are appended unless the line says otherwise.
pub(crate) fn events(parts: &[&str]) -> Vec<Event> {
    let lines = parts.iter().flat_map(|part| part.lines()).map(str::trim);
    let lines = lines.filter(|line| !line.is_empty());
    (0..)
        .zip(lines)
        .map(|(seq, line)| event(seq, line))
        .collect()
}

fn event(seq: u64, line: &str) -> Event {
    let row = row(seq, line);
    Event::from_row(row.as_str()).unwrap_or_else(|error| panic!("{error}: {row}"))
}

fn row(seq: u64, line: &str) -> String {
    let (kind, rest) = line.split_once(' ').expect("a type and a payload");
    let is_surface = EventKind::from_name(kind).is_surface();
    let (data, members) = match rest.split_once(" | ") {
        Some((data, members)) => (data, format!(",{members}")),
        None if is_surface => (rest, r#","surfaceOp":"append""#.to_owned()),
        None => (rest, String::new()),
    };
    format!(r#"{{"type":"{kind}","seq":{seq},"time":{seq},"data":{data}{members}}}"#)
}

fn admit(rows: &str) -> Result<(), String> {
    let mut admission = Admission::new();
    events(&[rows]).iter().try_for_each(|event| {
        admission
            .admit(event)
            .map_err(|reason| format!("{}: {reason}", event.seq()))
    })
}

#[track_caller]
fn admits(rows: &str) {
    assert_eq!(admit(rows), Ok(()), "{rows}");
}

#[track_caller]
fn refuses(rows: &str, reason: &str) {
    assert_eq!(admit(rows), Err(reason.to_owned()), "{rows}");
}

const HEADER: &str = r#"request/header {"header":{"config":{"provider":"p","model":"m"},"tools":[
    {"name":"ls","description":"list","parameters":{"type":"object"},"deferLoading":true},
    {"name":"stat","description":"look","parameters":{}},
    {"name":"mute","parameters":{}}, {"name":"odd","description":"d","parameters":[]},
    {"name":"eager","description":"d","parameters":{},"deferLoading":false},
    {"name":"two","description":"d","parameters":{}}, {"name":"two","description":"d","parameters":{}}, 7
]},"reason":"initial"}"#;

fn with_header(row: &str) -> String {
    format!("{}\n{row}", HEADER.replace('\n', " "))
}

fn adds(tool: &str, header: u64) -> String {
    with_header(&format!(
        r#"developer/message {{"turn":1,"step":1,"message":{{"id":"d","role":"developer","source":{{"kind":"tool-registry"}},"content":[{{"type":"tool-addition","toolName":"{tool}"}}]}},"headerSeq":{header}}}"#
    ))
}

#[test]
fn an_added_tool_is_declared_once_and_completely_by_the_named_header() {
    admits(&adds("ls", 0));
    admits(&adds("stat", 0));
    let cannot = |tool: &str, why: &str| {
        refuses(
            &adds(tool, 0),
            &format!("1: the tool `{tool}` cannot be added: the request/header at 0 {why}"),
        );
    };
    cannot("cat", "does not declare it");
    cannot("two", "declares it more than once");
    cannot("mute", "declares it without a description");
    cannot("odd", "declares it without an object of parameters");
    cannot(
        "eager",
        "declares it with a `deferLoading` that is not true",
    );
    for seq in [1, 2] {
        refuses(
            &adds("ls", seq),
            &format!("1: `headerSeq` must name an earlier request/header, and event {seq} is none"),
        );
    }
}

#[test]
fn a_removed_tool_needs_no_header_and_a_repeated_header_counts_like_the_first() {
    admits(
        r#"developer/message {"turn":1,"step":1,"message":{"id":"d","role":"developer","source":{"kind":"x"},"content":[{"type":"tool-removal","toolName":"ls"}]}}"#,
    );
    let plain =
        r#"request/header {"header":{"config":{"provider":"p","model":"m"}},"reason":"change"}"#;
    let behind = |first: &str, header: u64| format!("{first}\n{}", adds("ls", header));
    admits(&behind(&HEADER.replace('\n', " "), 1));
    admits(&behind(plain, 1));
    refuses(
        &behind(plain, 0),
        "2: the tool `ls` cannot be added: the request/header at 0 does not declare it",
    );
}

#[test]
fn turns_and_steps_of_system_and_developer_messages_count_from_one() {
    let system = r#"system/message {"turn":0,"step":1,"message":{"id":"s","role":"system","source":{"kind":"system-prompt"},"content":[]}}"#;
    refuses(
        system,
        "0: turns and steps count from 1, found turn 0 step 1",
    );
    let developer = r#"developer/message {"turn":1,"step":0,"message":{"id":"d","role":"developer","source":{"kind":"x"},"content":[]}}"#;
    refuses(
        developer,
        "0: turns and steps count from 1, found turn 1 step 0",
    );
}

#[test]
fn the_plugin_source_kind_is_refused_wherever_a_message_stands() {
    const REASON: &str =
        "0: the source kind `plugin` is retired: a message names its concrete producer";
    for message in [
        r#"user/message {"id":"u","role":"user","source":{"kind":"KIND"},"content":[]}"#,
        r#"developer/message {"turn":1,"step":1,"message":{"id":"d","role":"developer","source":{"kind":"KIND"},"content":[]}}"#,
        r#"agent/inbox/spliced {"target":"next-turn","start":0,"inserted":[{"id":"a","role":"user","source":{"kind":"user"},"content":[]},{"id":"b","role":"user","source":{"kind":"KIND"},"content":[]}]}"#,
        r#"session/title-llm-request {"messageSeqs":[0],"messages":[{"id":"t","role":"user","source":{"kind":"KIND"},"content":[]}]}"#,
    ] {
        refuses(&message.replace("KIND", "plugin"), REASON);
        refuses(&message.replace("KIND", r"pl\u0075gin"), REASON);
        admits(&message.replace("KIND", "plugin:mine"));
    }
    admits(
        r#"agent/inbox/spliced {"target":"next-turn","start":0,"inserted":[{"id":"a","role":"user","source":{"kind":"user"},"content":[{"type":"text","text":"\"plugin\" {\"kind\":\"plugin\"}"}]}]}"#,
    );
}

#[test]
fn retired_types_may_only_be_passed_over() {
    refuses(
        "tool/code-dispatch {}",
        "0: the type `tool/code-dispatch` is retired: since V3 it is `tool/ptc-dispatch`",
    );
    refuses(
        "tool/code-dispatch-start {}",
        "0: the type `tool/code-dispatch-start` is retired: since V3 it is `tool/ptc-dispatch-start`",
    );
    admits(r#"tool/code-dispatch {"content":[{"type":"tool-result"}]} | "ignorable":true"#);
    admits(r#"someone/else [] | "ignorable":true,"surfaceOp":{"op":"plugin"}"#);
}

#[test]
fn retired_result_blocks_are_refused_in_every_content_that_is_listed() {
    for (place, row) in [
        (
            "content",
            r#"user/message {"id":"u","role":"user","source":{"kind":"user"},"content":[{"type":"text","text":"x"},BLOCK]}"#,
        ),
        (
            "content",
            r#"developer/message {"turn":1,"step":1,"message":{"id":"d","role":"developer","source":{"kind":"x"},"content":[BLOCK]}}"#,
        ),
        (
            "content",
            r#"assistant/message {"turn":1,"step":1,"message":{"id":"a","role":"assistant","source":{"kind":"model","provider":"p","model":"m"},"content":[BLOCK]},"stream":[]}"#,
        ),
        (
            "content",
            r#"team/message/queued {"version":2,"teamId":"t","message":{"id":"q","content":[BLOCK]}}"#,
        ),
        (
            "inserted",
            r#"agent/inbox/spliced {"target":"next-turn","start":0,"inserted":[{"content":[BLOCK]}]}"#,
        ),
        (
            "messages",
            r#"session/title-llm-request {"messageSeqs":[0],"messages":[{"content":[BLOCK]}]}"#,
        ),
        ("summary", r#"compaction/summary {"summary":[BLOCK]}"#),
        (
            "rawOutput",
            r#"compaction/summary {"summary":[],"rawOutput":[BLOCK]}"#,
        ),
        (
            "content",
            r#"tool/ptc-dispatch {"subCallId":"s","content":[BLOCK]}"#,
        ),
        (
            "stream",
            r#"assistant/attempt {"turn":1,"step":1,"stream":[{"type":"chunk","time":1,"chunk":{"type":"block-end","index":0,"block":BLOCK}}]}"#,
        ),
    ] {
        let reason = format!(
            "0: `{place}` has a retired `tool-result` block: since V4 a result is a message of its own"
        );
        refuses(
            &row.replace(
                "BLOCK",
                r#"{"type":"tool-result","toolCallId":"c","content":[]}"#,
            ),
            &reason,
        );
        refuses(
            &row.replace("BLOCK", r#"{"type":"tool\u002dresult"}"#),
            &reason,
        );
        admits(&row.replace(
            "BLOCK",
            r#"{"type":"text","text":"{\"type\":\"tool-result\"}"}"#,
        ));
        admits(&row.replace("BLOCK", r#"{"type":"tool-call","id":"tool-result","name":"tool-result","arguments":"tool-result"}"#));
        admits(&row.replace(
            "BLOCK",
            r#"{"type":"plugin:tool-result","type2":"tool-result","text":"\u001b[0m"}"#,
        ));
    }
}

#[test]
fn retired_result_blocks_are_refused_at_the_start_of_a_streamed_block() {
    let stream = |record: &str| {
        format!(
            r#"assistant/message {{"turn":1,"step":1,"message":{{"id":"a","role":"assistant","source":{{"kind":"model","provider":"p","model":"m"}},"content":[]}},"stream":[{{"type":"usage"}},{record}]}}"#
        )
    };
    refuses(
        &stream(
            r#"{"type":"chunk","time":1,"chunk":{"type":"block-start","index":0,"blockType":"tool-result"}}"#,
        ),
        "0: `stream` has a retired `tool-result` block: since V4 a result is a message of its own",
    );
    admits(&stream(
        r#"{"type":"text-chunks","time0":1,"index":0,"dt":[],"texts":["tool-result"]}"#,
    ));
    admits(&stream(
        r#"{"type":"chunk","time":1,"chunk":{"type":"text-delta","index":0,"text":"tool-result"}}"#,
    ));
}

#[test]
fn what_a_tool_returns_may_spell_anything() {
    admits(
        r#"tool/result {"turn":1,"step":1,"message":{"id":"r","role":"tool","toolCallId":"c","source":{"kind":"tool","callId":"c"},"content":[{"type":"text","text":"tool-result \"plugin\""}]}}"#,
    );
}

#[test]
fn blocks_of_a_system_message_have_the_shape_of_their_type() {
    let system = |block: &str| {
        format!(
            r#"system/message {{"turn":1,"step":1,"message":{{"id":"s","role":"system","source":{{"kind":"system-prompt"}},"content":[{{"type":"text","text":"brief"}},{block}]}}}}"#
        )
    };
    for block in [
        r#"{"type":"text","text":"\ud83d"}"#,
        r#"{"type":"reasoning","text":""}"#,
        r#"{"type":"image","attachment":{"attachmentId":"a","mediaType":"image/png","bytes":1,"width":1,"height":1}}"#,
        r#"{"type":"file","attachment":{"attachmentId":"a","name":"n","bytes":0}}"#,
        r#"{"type":"tool-call","id":"c","name":"ls","arguments":"{}"}"#,
        r#"{"type":"plugin:mine"}"#,
    ] {
        admits(&system(block));
    }
    for (block, reason) in [
        (r#"{"type":"text"}"#, "is `text` and needs a string `text`"),
        (
            r#"{"type":"text","text":1}"#,
            "is `text` and needs a string `text`",
        ),
        (
            r#"{"type":"reasoning","text":null}"#,
            "is `reasoning` and needs a string `text`",
        ),
        (
            r#"{"type":"tool-result","content":[]}"#,
            "is a retired `tool-result` block",
        ),
        (
            r#"{"type":"tool-call","id":"c","name":"ls"}"#,
            "is `tool-call` and needs a string `arguments`",
        ),
        (
            r#"{"type":"image"}"#,
            "is `image` and needs an object `attachment`",
        ),
        (
            r#"{"type":"image","attachment":{"attachmentId":"a","mediaType":"image/png","bytes":1,"width":-0,"height":1}}"#,
            "is `image` and its attachment needs a count `width`",
        ),
        (
            r#"{"type":"file","attachment":{"name":"n","bytes":0}}"#,
            "is `file` and its attachment needs a string `attachmentId`",
        ),
    ] {
        refuses(
            &system(block),
            &format!("0: content block 1 of the system message {reason}"),
        );
    }
}

#[test]
fn the_known_text_of_a_repair_is_the_one_that_repairs_write() {
    let open = events(&[r#"turn/start {"turn":1}
        step/start {"turn":1,"step":1}
        assistant/message {"turn":1,"step":1,"message":{"id":"a","role":"assistant","source":{"kind":"model","provider":"p","model":"m"},"content":[{"type":"tool-call","id":"c","name":"ls","arguments":"{}"}]},"stream":[]}"#]);
    for cause in [CloseCause::Interrupted, CloseCause::Forked] {
        let closers = open_turn_closers(&open, cause);
        assert_eq!(closers[0].surface_op(), Some(SurfaceOp::Append));
        assert_eq!(super::check_never_started(&closers[0]), Ok(()));
        assert_eq!(Admission::new().admit(&closers[0]), Ok(()));
    }
}

const FORKED: &str = r#"tool/result {"turn":1,"step":1,"message":{"id":"forked-tool-result-c-N","role":"tool","toolCallId":"c","isError":true,"source":{"kind":"tool","callId":"c"},"content":[{"type":"text","text":"any words"}]},"error":{"name":"ToolNotStartedError","code":"TOOL_NOT_STARTED"}}"#;

fn forked(seq: u64, id: &str, line: impl Fn(&str) -> String) -> Result<(), String> {
    let row = row(seq, &line(&FORKED.replace("forked-tool-result-c-N", id)));
    Admission::new().admit(&Event::from_row(row).unwrap())
}

fn not_valid(reason: &str) -> Result<(), String> {
    Err(format!(
        "not a valid not-started result of a fork: {reason}"
    ))
}

#[test]
fn an_appended_not_started_result_of_a_fork_names_its_own_seq() {
    let plain = |line: &str| line.to_owned();
    assert_eq!(forked(8, "forked-tool-result-c-8", plain), Ok(()));
    assert_eq!(forked(0, "forked-tool-result-c-0", plain), Ok(()));
    assert_eq!(
        forked(8, "forked-tool-result-c-7", plain),
        not_valid("its id ends with 7, but it is event 8")
    );
    for id in [
        "c-08",
        "c-",
        "c",
        "d-8",
        "c-+8",
        "c-8x",
        "c--8",
        "c-9007199254740992",
    ] {
        let id = format!("forked-tool-result-{id}");
        assert_eq!(
            forked(8, &id, plain),
            not_valid(&format!(
                "its id must be `forked-tool-result-c-` and a number, found `{id}`"
            ))
        );
    }
    let cites = |line: &str| format!(r#"{line} | "surfaceOp":"append","sourceEventSeqs":[7]"#);
    assert_eq!(
        forked(8, "forked-tool-result-c-8", cites),
        not_valid("it was appended and must not have `sourceEventSeqs`")
    );
}

#[test]
fn a_not_started_result_of_a_fork_that_was_pruned_cites_exactly_the_original() {
    let replaces = |sources: &'static str| {
        move |line: &str| {
            format!(
                r#"{line} | "surfaceOp":{{"op":"replace","startSeq":8,"endSeq":8}},"sourceEventSeqs":{sources}"#
            )
        }
    };
    assert_eq!(
        forked(20, "forked-tool-result-c-8", replaces("[8]")),
        Ok(())
    );
    for sources in ["[7]", "[8,9]"] {
        assert_eq!(
            forked(20, "forked-tool-result-c-8", replaces(sources)),
            not_valid("`sourceEventSeqs` must be exactly [8]")
        );
    }
    assert_eq!(
        forked(20, "forked-tool-result-c-20", replaces("[8]")),
        not_valid("its id ends with 20, but it replaces an event before 20")
    );
}

#[test]
fn a_not_started_result_of_a_fork_has_its_error_name_and_one_text_block() {
    let with = |from: &'static str, to: &'static str| {
        forked(8, "forked-tool-result-c-8", move |line| {
            line.replace(from, to)
        })
    };
    assert_eq!(
        with("ToolNotStartedError", "OtherError"),
        not_valid("its error name must be ToolNotStartedError, found `OtherError`")
    );
    for content in [
        r#"[]"#,
        r#"[{"type":"text"}]"#,
        r#"[{"type":"text","text":7}]"#,
        r#"[{"type":"reasoning","text":"x"}]"#,
        r#"[{"type":"text","text":"x"},{"type":"text","text":"y"}]"#,
    ] {
        let result = forked(8, "forked-tool-result-c-8", |line| {
            line.replace(r#"[{"type":"text","text":"any words"}]"#, content)
        });
        assert_eq!(
            result,
            not_valid("its content must be exactly one text block"),
            "{content}"
        );
    }
}

#[test]
fn other_results_may_have_any_id_and_text() {
    let with = |from: &'static str, to: &'static str| {
        forked(8, "forked-tool-result-d-1", move |line| {
            line.replace(from, to)
        })
    };
    assert_eq!(with("TOOL_NOT_STARTED", "TOOL_OUTCOME_UNKNOWN"), Ok(()));
    assert_eq!(
        with(
            r#""error":{"name":"ToolNotStartedError","code":"TOOL_NOT_STARTED"}"#,
            r#""meta":1"#
        ),
        Ok(())
    );
    assert_eq!(with("forked-tool-result-d", "a-tool-result-d"), Ok(()));
}

#[test]
fn members_that_core_rules_guard_do_not_reach_admission() {
    for (from, to) in [
        (r#""isError":true,"#, ""),
        (r#""role":"tool""#, r#""role":"user""#),
        (r#""toolCallId":"c""#, r#""toolCallId":"d""#),
        (r#""kind":"tool""#, r#""kind":"user""#),
    ] {
        assert!(
            Event::from_row(row(8, &FORKED.replace(from, to))).is_err(),
            "{to}"
        );
    }
}
