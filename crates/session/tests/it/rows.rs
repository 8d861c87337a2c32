//! One row: the envelope, the exact text, and the vocabulary (§3.1–§3.4).

use offshoot_session::{
    Body, Event, EventDraft, EventKind, EventLog, LogError, RowError, Session, SurfaceOp,
};
use serde_json::json;

use crate::support::{event, header, seq, seqs};

pub(crate) fn refusal(row: &str) -> String {
    match Event::from_row(row) {
        Ok(event) => panic!("accepted {event:?}"),
        Err(error) => without_position(&error.to_string()).to_owned(),
    }
}

pub(crate) fn without_position(reason: &str) -> &str {
    reason.rfind(" (byte ").map_or(reason, |at| &reason[..at])
}

#[test]
fn a_refusal_says_where_in_the_row_the_fault_is() {
    let row = r#"{"type":"todo/write","seq":0,"time":true,"data":{}}"#;
    let error = Event::from_row(row).unwrap_err();
    assert_eq!(
        error.to_string(),
        "not a valid event row: invalid type: boolean `true`, expected i64 (byte 40)"
    );
}

fn envelope(members: &str) -> String {
    format!(r#"{{"type":"todo/write","seq":0,"time":1,"data":{{}}{members}}}"#)
}

#[test]
fn every_refusal_of_an_envelope_says_what_is_wrong() {
    for (row, reason) in [
        ("", "EOF while parsing a value"),
        ("{", "EOF while parsing an object"),
        ("null", "invalid type: null, expected an object"),
        (
            r#"["turn/start",0,1,{"turn":1}]"#,
            "invalid type: sequence, expected an object",
        ),
        (r#"{"seq":0,"time":1,"data":{}}"#, "missing field `type`"),
        (
            r#"{"type":"todo/write","time":1,"data":{}}"#,
            "missing field `seq`",
        ),
        (
            r#"{"type":"todo/write","seq":0,"data":{}}"#,
            "missing field `time`",
        ),
        (
            r#"{"type":"todo/write","seq":0,"time":1}"#,
            "missing field `data`",
        ),
        (
            &envelope(r#","note":1"#),
            "unknown field `note`, expected one of `type`, `seq`, `time`, `data`, `surfaceOp`, `sourceEventSeqs`, `ignorable`",
        ),
        (&envelope(r#","seq":0"#), "duplicate field `seq`"),
        (&envelope(" x"), "expected `,` or `}`"),
        (&format!("{} x", envelope("")), "trailing characters"),
        (
            r#"{"type":7,"seq":0,"time":1,"data":{}}"#,
            "invalid type: integer `7`, expected a string",
        ),
        (
            r#"{"type":"todo/write","seq":-1,"time":1,"data":{}}"#,
            "invalid value: integer `-1`, expected u64",
        ),
        (
            r#"{"type":"todo/write","seq":-0,"time":1,"data":{}}"#,
            "invalid type: floating point `-0.0`, expected u64",
        ),
        (
            r#"{"type":"todo/write","seq":0.5,"time":1,"data":{}}"#,
            "invalid type: floating point `0.5`, expected u64",
        ),
        (
            r#"{"type":"todo/write","seq":9007199254740992,"time":1,"data":{}}"#,
            "`seq` and `time` must be within ±(2^53 − 1)",
        ),
        (
            r#"{"type":"todo/write","seq":0,"time":-0,"data":{}}"#,
            "invalid type: floating point `-0.0`, expected i64",
        ),
        (
            r#"{"type":"todo/write","seq":0,"time":1.5,"data":{}}"#,
            "invalid type: floating point `1.5`, expected i64",
        ),
        (
            r#"{"type":"todo/write","seq":0,"time":-9007199254740992,"data":{}}"#,
            "`seq` and `time` must be within ±(2^53 − 1)",
        ),
        (
            r#"{"type":"todo/write","seq":0,"time":"1","data":{}}"#,
            "invalid type: string \"1\", expected i64",
        ),
        (
            &envelope(r#","ignorable":false"#),
            "`ignorable` may only be true, found false",
        ),
        (
            &envelope(r#","ignorable":null"#),
            "`ignorable` may only be true, found null",
        ),
        (
            &envelope(r#","ignorable":1"#),
            "`ignorable` may only be true, found 1",
        ),
        (
            "{\"type\":\"todo/write\",\"seq\":0,\n\"time\":1,\"data\":{}}",
            "a row is one line",
        ),
    ] {
        assert_eq!(
            refusal(row),
            format!("not a valid event row: {reason}"),
            "{row}"
        );
    }
}

#[test]
fn the_surface_members_stand_exactly_where_the_type_wants_them() {
    let user = r#"{"id":"u","role":"user","content":[],"source":{"kind":"user"}}"#;
    let with = |members: &str| {
        format!(r#"{{"type":"user/message","seq":9,"time":1,"data":{user}{members}}}"#)
    };
    for (row, reason) in [
        (
            with(""),
            "`user/message`: `surfaceOp` is missing on a message of the surface",
        ),
        (
            envelope(r#","surfaceOp":"append""#),
            "`todo/write`: `surfaceOp` stands on an event that is not on the surface",
        ),
        (
            envelope(r#","sourceEventSeqs":[]"#),
            "`todo/write`: `sourceEventSeqs` must not be empty",
        ),
        (
            with(r#","surfaceOp":null"#),
            "`user/message`: `surfaceOp` must be \"append\" or {op, startSeq, endSeq}: invalid type: null, expected an object",
        ),
        (
            with(r#","surfaceOp":"insert""#),
            "`user/message`: `surfaceOp` must be \"append\" or {op, startSeq, endSeq}: invalid type: string \"insert\", expected an object",
        ),
        (
            with(r#","surfaceOp":["replace",1,2]"#),
            "`user/message`: `surfaceOp` must be \"append\" or {op, startSeq, endSeq}: invalid type: sequence, expected an object",
        ),
        (
            with(r#","surfaceOp":{"op":"remove","startSeq":1,"endSeq":2}"#),
            "`user/message`: `surfaceOp.op` must be \"replace\", found \"remove\"",
        ),
        (
            with(r#","surfaceOp":{"op":"replace","startSeq":1}"#),
            "`user/message`: `surfaceOp` must be \"append\" or {op, startSeq, endSeq}: missing field `endSeq`",
        ),
        (
            with(r#","surfaceOp":{"op":"replace","startSeq":1,"endSeq":-0}"#),
            "`user/message`: `surfaceOp` must be \"append\" or {op, startSeq, endSeq}: invalid type: floating point `-0.0`, expected u64",
        ),
        (
            with(r#","surfaceOp":{"op":"replace","start":1,"end":2}"#),
            "`user/message`: `surfaceOp` must be \"append\" or {op, startSeq, endSeq}: unknown field `start`, expected one of `op`, `startSeq`, `endSeq`",
        ),
        (
            with(r#","surfaceOp":"append","sourceEventSeqs":[9]"#),
            "`user/message`: `sourceEventSeqs` names event 9, which is not earlier than event 9",
        ),
        (
            with(r#","surfaceOp":"append","sourceEventSeqs":[5,[0,2]]"#),
            "`user/message`: `sourceEventSeqs` has ranges and must therefore be strictly increasing",
        ),
        (
            with(r#","surfaceOp":"append","sourceEventSeqs":null"#),
            "`user/message`: `sourceEventSeqs` must be a list of counts and [start,end] ranges",
        ),
    ] {
        assert_eq!(refusal(&row), reason, "{row}");
    }
    let cited = envelope(r#","sourceEventSeqs":[1]"#).replace(r#""seq":0"#, r#""seq":9"#);
    assert_eq!(
        refusal(&cited),
        "`todo/write`: `sourceEventSeqs` stands on an event that is not on the surface"
    );
    let replacing = event(&with(
        r#","surfaceOp":{"op":"replace","startSeq":3,"endSeq":5},"sourceEventSeqs":[[3,5],7]"#,
    ));
    assert_eq!(
        (replacing.surface_op(), replacing.sources()),
        (
            Some(SurfaceOp::Replace {
                start: seq(3),
                end: seq(5)
            }),
            Some(&seqs(&[3, 4, 5, 7])[..])
        ),
    );
}

#[test]
fn the_text_of_a_row_is_kept_to_the_byte() {
    let deep = format!("{}1{}", "[".repeat(200), "]".repeat(200));
    let very_deep = format!(
        "{}{}",
        r#"{"a":"#.repeat(50_000),
        "0".to_owned() + &"}".repeat(50_000)
    );
    for data in [
        r#"{ "todos" : [ ] }"#.to_owned(),
        "{\"tab\":\t1}".to_owned(),
        r#"{"n":1e2,"m":-0.0,"k":1.50,"big":123456789012345678901234567890}"#.to_owned(),
        r#"{"a":"\u00e9\/\ud83d\ude00","b":"\ud800","\udc00":1}"#.to_owned(),
        r#"{"twice":1,"twice":2,"data":{"data":{}},"seq":7}"#.to_owned(),
        format!(r#"{{"deep":{deep}}}"#),
        format!(r#"{{"deep":{very_deep}}}"#),
    ] {
        let row = format!(r#" {{"seq":0 , "data":{data},"type":"todo\/write","time":-5}} "#);
        let event = event(&row);
        assert_eq!(
            (event.text(), event.data(), event.kind(), event.time()),
            (&*row, &*data, &EventKind::TodoWrite, -5),
        );
    }
}

#[test]
fn an_unknown_ignorable_event_stays_opaque_with_everything_it_carries() {
    for data in ["null", "[1e2]", r#""text""#, r#"{"turn":1}"#] {
        let row = format!(
            r#"{{"type":"plugin:weather","seq":0,"time":1,"data":{data},"surfaceOp":["own",{{}}],"sourceEventSeqs":"all","ignorable":true}}"#
        );
        let event = event(&row);
        assert_eq!(
            (
                event.text(),
                event.data(),
                event.surface_op(),
                event.sources(),
                event.ignorable(),
                event.body()
            ),
            (&*row, data, None, None, true, &Body::Opaque),
        );
        let mut log = EventLog::new();
        log.push(event).unwrap();
        assert_eq!((log.end().get(), log.surface().len()), (1, 0));
    }
}

#[test]
fn an_unknown_required_event_is_refused_by_the_log() {
    let mut log = EventLog::new();
    let event = event(r#"{"type":"tool/code-dispatch","seq":0,"time":1,"data":{}}"#);
    let error = log.push(event).unwrap_err();
    assert_eq!(
        error,
        LogError::UnknownRequiredEvent {
            seq: seq(0),
            kind: "tool/code-dispatch".to_owned()
        }
    );
    assert_eq!(
        error.to_string(),
        "event 0 has the required type `tool/code-dispatch`, which this version does not know"
    );
    assert!(log.is_empty());
}

#[test]
fn a_known_type_may_be_ignorable_and_keeps_its_rules() {
    let row = r#"{"type":"turn/start","seq":0,"time":1,"data":{"turn":1},"ignorable":true}"#;
    let event = event(row);
    assert_eq!(
        (event.ignorable(), event.body()),
        (true, &Body::TurnStart { turn: 1 })
    );
    assert_eq!(
        refusal(r#"{"type":"turn/start","seq":0,"time":1,"data":{},"ignorable":true}"#),
        "`turn/start`: missing field `turn`"
    );
}

#[test]
fn seqs_are_dense_from_zero() {
    let mut log = EventLog::new();
    let row = |n: u64| {
        event(&format!(
            r#"{{"type":"todo/write","seq":{n},"time":1,"data":{{}}}}"#
        ))
    };
    assert_eq!(
        log.push(row(1)).unwrap_err().to_string(),
        "expected seq 0, found 1"
    );
    log.push(row(0)).unwrap();
    assert_eq!(
        log.push(row(0)).unwrap_err().to_string(),
        "expected seq 1, found 0"
    );
    log.push(row(1)).unwrap();
    assert_eq!(log.end().get(), 2);
}

#[test]
fn the_vocabulary_is_that_of_v4() {
    let names: Vec<&str> = EventKind::KNOWN.iter().map(EventKind::as_str).collect();
    let expected = "agent-preset/selected agent/inbox/spliced approval/asked approval/decided approval/policy \
        assistant/attempt assistant/message command/done command/run compaction/end compaction/prune compaction/start \
        compaction/summary deliverables/presented developer/message feedback/message-delete feedback/message-put \
        feedback/record goal/change hook/invoked hook/result image/offload llm/retry llm/retry-started model/selection \
        permission/preset plan/mode request/context request/header sandbox/mode schedule/change session-log-deepseek/delivery-accepted \
        session/end-seed session/title session/title-llm-request step/end step/start subagent/catalog subagent/descriptor \
        subagent/model-selection-policy system/message team/member team/message/delivered team/message/queued team/task \
        todo/write tool-workflow/agent-end tool-workflow/agent-start tool-workflow/run-end tool-workflow/run-start tool/call \
        tool/ptc-dispatch tool/ptc-dispatch-start tool/result turn/end turn/start user/message web/deepseek-search-llm-request \
        workspace/changes";
    let mut sorted = names.clone();
    sorted.sort_unstable();
    assert_eq!(
        sorted.join(" "),
        expected.split_whitespace().collect::<Vec<_>>().join(" ")
    );
    for (kind, name) in EventKind::KNOWN.iter().zip(names) {
        assert_eq!(&EventKind::from_name(name), kind);
    }
    let surface: Vec<&EventKind> = EventKind::KNOWN
        .iter()
        .filter(|kind| kind.is_surface())
        .collect();
    assert_eq!(
        surface,
        [
            &EventKind::AssistantMessage,
            &EventKind::DeveloperMessage,
            &EventKind::SystemMessage,
            &EventKind::ToolResult,
            &EventKind::UserMessage
        ]
    );
}

#[test]
fn a_draft_becomes_the_row_that_live_appends_write() {
    let mut session = Session::new(header("s")).unwrap();
    let user = json!({"id": "u", "role": "user", "content": [], "source": {"kind": "user"}});
    let drafts = [
        EventDraft::message(EventKind::UserMessage, &user).unwrap(),
        EventDraft::log_only(EventKind::from_name("plugin:x"), &json!(1.5))
            .unwrap()
            .with_ignorable(),
        EventDraft::message(EventKind::UserMessage, &user)
            .unwrap()
            .with_surface_op(SurfaceOp::Replace {
                start: seq(0),
                end: seq(0),
            })
            .with_sources([seq(0)]),
    ];
    for (draft, time) in drafts.into_iter().zip(-1..) {
        session.append(draft, time).unwrap();
    }
    assert_eq!(
        crate::support::rows(session.log()),
        [
            r#"{"type":"user/message","seq":0,"time":-1,"data":{"id":"u","role":"user","content":[],"source":{"kind":"user"}},"surfaceOp":"append"}"#,
            r#"{"type":"plugin:x","seq":1,"time":0,"data":1.5,"ignorable":true}"#,
            r#"{"type":"user/message","seq":2,"time":1,"data":{"id":"u","role":"user","content":[],"source":{"kind":"user"}},"sourceEventSeqs":[0],"surfaceOp":{"op":"replace","startSeq":0,"endSeq":0}}"#,
        ]
    );
}

#[test]
fn a_draft_that_makes_no_valid_row_changes_nothing() {
    let mut session = Session::new(header("s")).unwrap();
    session
        .append(
            EventDraft::log_only(EventKind::TurnStart, &json!({"turn": 1})).unwrap(),
            1,
        )
        .unwrap();
    let before = format!("{:?}", session.log());
    let pretty = serde_json::value::RawValue::from_string("{\n}".to_owned()).unwrap();
    for (draft, time, reason) in [
        (
            EventDraft::log_only(EventKind::TurnStart, &json!([1])),
            1,
            "event 1: `turn/start`: invalid type: sequence, expected an object",
        ),
        (
            EventDraft::log_only(EventKind::TodoWrite, &pretty),
            1,
            "event 1: not a valid event row: a row is one line",
        ),
        (
            EventDraft::log_only(EventKind::TodoWrite, &json!({})),
            i64::MAX,
            "event 1: not a valid event row: `seq` and `time` must be within ±(2^53 − 1)",
        ),
        (
            EventDraft::log_only(EventKind::UserMessage, &json!({})),
            1,
            "event 1: `user/message`: `surfaceOp` is missing on a message of the surface",
        ),
        (
            EventDraft::log_only(EventKind::from_name("later/type"), &json!({})),
            1,
            "event 1 has the required type `later/type`, which this version does not know",
        ),
    ] {
        let error = session.append(draft.unwrap(), time).unwrap_err();
        assert_eq!(
            (
                without_position(&error.to_string()),
                format!("{:?}", session.log())
            ),
            (reason, before.clone())
        );
    }
    let not_json = EventDraft::log_only(
        EventKind::TodoWrite,
        &std::collections::BTreeMap::from([([1], 1)]),
    );
    assert_eq!(
        not_json.unwrap_err(),
        RowError::Payload {
            kind: "todo/write".to_owned(),
            reason: "key must be a string".to_owned()
        }
    );
}
