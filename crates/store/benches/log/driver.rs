//! A log as our own driver writes it.

use offshoot_session::{EventDraft, EventKind, Seq, Session, SessionHeader};
use serde_json::{Value, json};

/// Turns of two steps, the first with two tool calls.
pub(crate) fn generate(events: u64) -> Session {
    let header = SessionHeader {
        cwd: Some("/work/demo".into()),
        ..SessionHeader::new("bench".into(), 1)
    };
    let mut session = Session::new(header).expect("a valid header");
    let mut turn = 0;
    while session.log().end().get() < events {
        turn += 1;
        for (kind, data, shown) in turn_events(turn) {
            if session.log().end().get() == events {
                break;
            }
            let draft = if shown {
                EventDraft::message(kind, &data)
            } else {
                EventDraft::log_only(kind, &data)
            };
            let mut draft = draft.expect("plain JSON");
            if *draft.kind() == EventKind::ToolResult {
                let end = session.log().end().get();
                draft = draft.with_sources([Seq::new(end - 2)]);
            }
            let time = i64::try_from(session.log().end().get()).expect("a small number");
            session.append(draft, time).expect("a valid event");
        }
    }
    session
}

fn turn_events(turn: u64) -> Vec<(EventKind, Value, bool)> {
    let user = json!({"id": format!("u-{turn}"), "role": "user", "source": {"kind": "user"},
        "content": [{"type": "text", "text": format!("Please look at module {turn} and tell me what it does; then fix the test.")}]});
    let call = |n: u64| {
        json!({"type": "tool-call", "id": format!("c-{turn}-{n}"), "name": "read",
        "arguments": format!("{{\"file_path\":\"src/module_{turn}_{n}.rs\",\"limit\":200}}")})
    };
    let start = |n: u64| {
        json!({"turn": turn, "step": 1, "callId": format!("c-{turn}-{n}"), "name": "read",
        "arguments": format!("{{\"file_path\":\"src/module_{turn}_{n}.rs\",\"limit\":200}}")})
    };
    let result = |n: u64| {
        json!({"turn": turn, "step": 1, "message": {"id": format!("r-{turn}-{n}"), "role": "tool",
        "toolCallId": format!("c-{turn}-{n}"), "isError": false, "source": {"kind": "tool", "callId": format!("c-{turn}-{n}")},
        "content": [{"type": "text", "text": "1: fn answer() -> u32 {\n2:     42\n3: }\n".repeat(12)}]}})
    };
    let model = json!({"kind": "model", "provider": "demo", "model": "demo-1"});
    let words: Vec<String> = (0..24).map(|n| format!("word{n} ")).collect();
    let text = words.concat();
    let stream = json!([
        {"type": "chunk", "time": 5, "chunk": {"type": "block-start", "index": 0, "blockType": "text"}},
        {"type": "text-chunks", "time0": 6, "index": 0, "dt": vec![1; words.len() - 1], "texts": words},
        {"type": "chunk", "time": 30, "chunk": {"type": "block-end", "index": 0, "block": {"type": "text", "text": text}}},
        {"type": "chunk", "time": 31, "chunk": {"type": "finish", "reason": {"kind": "stop"}}},
    ]);
    let at = |step: u64| json!({"turn": turn, "step": step});
    let mut events = vec![
        (
            EventKind::InboxSpliced,
            json!({"target": "next-turn", "start": 0, "inserted": [user]}),
            false,
        ),
        (EventKind::TurnStart, json!({"turn": turn}), false),
        (
            EventKind::InboxSpliced,
            json!({"target": "next-turn", "start": 0, "removedCount": 1, "inserted": []}),
            false,
        ),
        (EventKind::StepStart, at(1), false),
        (EventKind::UserMessage, user, true),
        (
            EventKind::AssistantMessage,
            json!({"turn": turn, "step": 1, "stream": stream, "message": {"id": format!("a-{turn}-1"),
            "role": "assistant", "source": model, "content": [call(1), call(2)]}}),
            true,
        ),
        (EventKind::ToolCall, start(1), false),
        (EventKind::ToolCall, start(2), false),
        (EventKind::ToolResult, result(1), true),
        (EventKind::ToolResult, result(2), true),
        (EventKind::StepEnd, at(1), false),
        (EventKind::StepStart, at(2), false),
        (
            EventKind::AssistantMessage,
            json!({"turn": turn, "step": 2, "stream": stream, "message": {"id": format!("a-{turn}-2"),
            "role": "assistant", "source": model, "content": [{"type": "text", "text": text}]}}),
            true,
        ),
        (EventKind::StepEnd, at(2), false),
        (
            EventKind::TurnEnd,
            json!({"turn": turn, "reason": {"kind": "completed"}}),
            false,
        ),
    ];
    if turn == 1 {
        let system = json!({"turn": 1, "step": 1, "message": {"id": "s-1", "role": "system", "source": {"kind": "system-prompt"},
            "content": [{"type": "text", "text": "Be brief."}]}});
        let header = json!({"header": {"config": {"provider": "demo", "model": "demo-1"}}, "reason": "initial"});
        events.insert(5, (EventKind::RequestHeader, header, false));
        events.insert(4, (EventKind::SystemMessage, system, true));
    }
    events
}
