//! The payload of every type.

use super::*;

/// Every type of V0 to V2 with a payload that has all its members.
fn payloads() -> Vec<(&'static str, Full)> {
    let dispatch = json!({"rootCallId": "r", "parentCallId": "p", "subCallId": "s", "name": "ls", "arguments": [[]],
        "isError": false, "content": [text()]});
    let dispatch_start = json!({"rootCallId": "r", "parentCallId": "p", "subCallId": "s", "name": "ls",
        "arguments": [[]]});
    let at = json!({"turn": 1, "step": 1});
    let bracket = json!({"compactionId": "k", "turn": null, "sourceCommandId": "c"});
    vec![
        ("turn/start", full(json!({"turn": 1}))),
        ("turn/end", full(json!({"turn": 1, "reason": {"kind": "completed"}}))),
        ("step/start", full(at.clone())),
        ("step/end", full(at)),
        ("user/message", full(user())),
        ("assistant/message", full(assistant()).absent(&["usage", "interrupted"])),
        ("assistant/attempt", full(json!({"turn": 1, "step": 1, "stream": [{"type": "chunk"}]}))),
        ("assistant/chunk", full(json!({"turn": 0, "step": 0, "chunk": {"type": "usage", "usage": usage()}}))),
        ("tool/call", full(json!({"turn": 1, "step": 1, "callId": "c", "name": "ls", "arguments": "{"}))),
        ("tool/result", full(result()).absent(&["error", "meta"]).any(&["meta"])),
        ("tool/code-dispatch-start", full(dispatch_start).any(&["arguments"])),
        ("tool/code-dispatch", full(dispatch).any(&["arguments"])),
        ("request/header", full(request()).absent(&["startsSeries"])),
        (
            "request/context",
            full(json!({"provider": "p", "model": "m", "contextWindow": 1})).absent(&["contextWindow"]),
        ),
        ("session/end-seed", full(json!({"inherited": true})).absent(&["inherited"])),
        ("llm/retry", full(retry())),
        ("llm/retry-started", full(json!({"retryId": "r", "turn": 1, "step": 1, "retry": 1}))),
        (
            "agent/inbox/spliced",
            full(json!({"target": "next-turn", "start": 0, "removedCount": 1, "inserted": [user()],
                "outcome": "canceled"}))
            .absent(&["removedCount", "outcome"]),
        ),
        ("agent-preset/selected", full(json!({"agentPreset": "code"}))),
        (
            "approval/asked",
            full(json!({"id": "a", "toolName": "t", "callId": "c", "reason": "r"})).absent(&["callId", "reason"]),
        ),
        ("approval/decided", full(json!({"id": "a", "outcome": "allowed-once"}))),
        ("approval/policy", full(json!({"policy": "ask", "source": "delegation"})).absent(&["source"])),
        ("permission/preset", full(json!({"preset": "p"}))),
        ("plan/mode", full(json!({"active": false}))),
        ("sandbox/mode", full(json!({"mode": "read-only", "source": "delegation"})).absent(&["source"])),
        (
            "model/selection",
            full(json!({"provider": "p", "model": "m", "reasoningEffort": "e"})).absent(&["reasoningEffort"]),
        ),
        (
            "command/run",
            full(json!({"commandId": "c", "name": "n", "args": "a", "source": {"kind": "user"}}))
                .absent(&["args"])
                .any(&["args"]),
        ),
        (
            "command/done",
            full(json!({"commandId": "c", "kind": "success", "text": "t", "sourceEventSeq": 0}))
                .absent(&["text", "sourceEventSeq"]),
        ),
        (
            "hook/invoked",
            full(json!({"turn": 1, "point": "p", "dialect": "codex", "handlerId": "h", "matcher": "m"}))
                .absent(&["matcher"]),
        ),
        (
            "hook/result",
            full(json!({"turn": 1, "point": "p", "handlerId": "h", "decision": "d", "durationMs": 0, "exitCode": -1,
                "stderrSummary": "s"}))
            .absent(&["exitCode", "stderrSummary"]),
        ),
        ("compaction/start", full(bracket.clone()).absent(&["sourceCommandId"])),
        (
            "compaction/end",
            full(with(bracket, "/error", json!("e"))).absent(&["sourceCommandId", "error"]).any(&["error"]),
        ),
        (
            "compaction/summary",
            full(summary()).absent(&["sourceCommandId", "maxTokens", "usage", "llmStreamCall"]),
        ),
        (
            "compaction/prune",
            full(json!({"shadowedRange": {"start": 0, "end": 0}, "shadowedSeqs": [0], "shadowedTokenCount": 0})),
        ),
        ("session/title", full(json!({"title": "t", "messageSeqs": [], "source": {"kind": "user"}}))),
        (
            "session/title-llm-request",
            full(json!({"titleProvider": "p", "messageSeqs": [0], "route": {"provider": "p", "model": "m"},
                "system": "s", "messages": [user()], "maxTokens": 1})),
        ),
        ("feedback/record", full(json!({"text": "t"}))),
        (
            "feedback/message-put",
            full(json!({"sessionId": "s", "item": {"messageId": "m", "rating": "positive", "version": "v",
                "createdAt": 1, "updatedAt": 2, "note": "n"}})),
        ),
        ("feedback/message-delete", full(json!({"sessionId": "s", "messageId": "m"}))),
        ("todo/write", full(json!({"todos": [{"content": "c", "status": "in_progress"}]}))),
        ("goal/change", full(goal_change())),
        ("schedule/change", full(schedule())),
        (
            "subagent/descriptor",
            full(descriptor()).absent(&["agentReasoningEffort", "persona", "toolFilter"]),
        ),
        (
            "subagent/model-selection-policy",
            full(json!({"allowedModels": [{"provider": "p", "model": "m"}, {"provider": "p", "model": "n"}]})),
        ),
        (
            "team/member",
            full(json!({"version": 1, "teamId": "t", "member": {"id": "i", "name": "n", "description": "d",
                "provider": "p", "context": "fork", "phase": "failed", "error": "e"}})),
        ),
        (
            "team/task",
            full(json!({"version": 1, "teamId": "t", "task": {"id": "i", "revision": 1, "subject": "s",
                "description": "d", "status": "deleted", "blockedBy": ["j"], "writeScopes": ["w"], "ownerId": "o"}})),
        ),
        (
            "team/message/queued",
            full(json!({"version": 1, "teamId": "t", "message": {"id": "i", "senderId": "s", "senderName": "n",
                "targetId": "t", "delivery": "quiet", "content": [text()]}})),
        ),
        (
            "team/message/delivered",
            full(json!({"version": 1, "teamId": "t", "messageId": "m", "targetId": "t"})),
        ),
        ("tool-workflow/run-start", full(json!({"runId": "r", "name": "n"}))),
        (
            "tool-workflow/agent-start",
            full(json!({"runId": "r", "seq": 1, "label": "l", "childId": "c", "phase": "p"})).absent(&["phase"]),
        ),
        ("tool-workflow/agent-end", full(json!({"runId": "r", "seq": 1, "outcome": "failed"}))),
        ("tool-workflow/run-end", full(json!({"runId": "r", "stopReason": "error"}))),
        (
            "web/deepseek-search-llm-request",
            full(json!({"endpoint": "e", "apiVersion": "v", "body": {"model": "m", "max_tokens": 1,
                "messages": [{"role": "user", "content": [text()]}],
                "tools": [{"type": "web_search_20250305", "name": "web_search", "max_uses": 5}]}})),
        ),
        (
            "session-log-deepseek/delivery-accepted",
            full(json!({"sessionId": "s", "throughSeq": 0, "sessionFormatVersion": 1}))
                .absent(&["sessionFormatVersion"]),
        ),
    ]
}

#[test]
fn every_payload_has_the_members_it_was_released_with() {
    for (kind, full) in payloads() {
        full.holds(kind, Value::clone);
        for other in ["null", "[]", "1", r#""text""#] {
            let found = check(kind, Node::new(other), Version::V2);
            assert_eq!(
                found,
                Err(format!("`data` must be an object, found {other}")),
                "{kind}"
            );
        }
    }
}

#[test]
fn there_is_a_payload_for_every_type_and_for_no_other() {
    let payloads = payloads();
    // 51 of V0, and the attempt and the feedback that V2 added.
    assert_eq!(payloads.len(), 54);
    for (kind, _) in payloads {
        assert!(Version::V1.knows(kind) || Version::V2.knows(kind), "{kind}");
    }
    assert_eq!(
        told("slots/dispatch", &json!({})),
        Err("expected an event type that was released with this version".into())
    );
}

#[test]
fn some_members_came_or_went_with_a_version() {
    let stream = |version| told_in(version, "assistant/message", &assistant());
    let no_stream = |version| {
        let data = without(assistant(), "/stream");
        told_in(version, "assistant/message", &data)
    };
    let marker = |version| told_in(version, "session/end-seed", &json!({"inherited": true}));
    let goal = |version| {
        let source =
            json!({"kind": "goal", "goalId": "g", "revision": 1, "round": 0, "change": "create"});
        told_in(version, "user/message", &with(user(), "/source", source))
    };
    for version in [Version::V0, Version::V1] {
        let found = |path: &str, name: &str| {
            let version = version.number();
            Err(format!(
                r#"`data{path}` has the member "{name}", which V{version} does not have"#
            ))
        };
        assert_eq!(stream(version), found("", "stream"));
        assert_eq!(no_stream(version), Ok(()));
        assert_eq!(marker(version), found("", "inherited"));
        assert_eq!(goal(version), Ok(()));
    }
    assert_eq!(stream(Version::V2), Ok(()));
    assert_eq!(
        no_stream(Version::V2),
        Err("`data` lacks the member `stream`".into())
    );
    assert_eq!(marker(Version::V2), Ok(()));
    assert_eq!(
        goal(Version::V2),
        Err(r#"`data.source` has the member "change", which V2 does not have"#.into())
    );
}

#[test]
fn what_is_told_names_the_place_and_both_sides() {
    let long = "x".repeat(60);
    for (kind, data, expected) in [
        ("turn/start", json!({}), "`data` lacks the member `turn`"),
        (
            "turn/start",
            json!({"turn": -1}),
            "`data.turn` must be a count, found -1",
        ),
        (
            "turn/end",
            json!({"turn": 1, "reason": {"kind": ""}}),
            "`data.reason.kind` must be a string with something in it, found \"\"",
        ),
        (
            "user/message",
            with(
                user(),
                "/content",
                json!([text(), {"type": "text", "text": 5}]),
            ),
            "`data.content[1].text` must be a string, found 5",
        ),
        (
            "user/message",
            with(user(), "/role", json!("assistant")),
            r#"`data.role` must be one of ["user"], found "assistant""#,
        ),
        (
            "assistant/message",
            with(assistant(), "/interrupted", json!(false)),
            "`data.interrupted` may only be true, found false",
        ),
        (
            "assistant/message",
            with(assistant(), "/message/source/kind", json!("user")),
            r#"`data.message.source.kind` must be one of ["model"], found "user""#,
        ),
        (
            "plan/mode",
            json!({"active": long}),
            &format!(
                "`data.active` must be true or false, found \"{}…",
                &long[..39]
            ),
        ),
        (
            "subagent/descriptor",
            with(descriptor(), "/version", json!(2)),
            "`data.version` must be 3, found 2",
        ),
        (
            "session/title-llm-request",
            json!({"messageSeqs": []}),
            "`data.messageSeqs` must be a list with something in it, found []",
        ),
        (
            "request/header",
            with(request(), "/header/config/temperature", json!("hot")),
            "`data.header.config.temperature` must be a finite number, found \"hot\"",
        ),
        (
            "tool/call",
            json!({"turn": 1, "step": 1, "callId": "c", "name": "ls", "arguments": {}}),
            "`data.arguments` must be a string, found {}",
        ),
    ] {
        assert_eq!(told(kind, &data), Err(expected.into()), "{kind}");
    }
}

#[test]
fn of_a_repeated_member_the_last_counts() {
    let told = |kind, data| check(kind, Node::new(data), Version::V1);
    assert_eq!(told("turn/start", r#"{"turn":"1","turn":1}"#), Ok(()));
    assert_eq!(
        told("turn/start", r#"{"turn":1,"turn":"1"}"#),
        Err("`data.turn` must be a count, found \"1\"".into())
    );
    assert_eq!(
        told("step/start", r#"{"turn":1,"turn":1}"#),
        Err("`data` lacks the member `step`".into())
    );
    assert_eq!(told("turn/start", r#"{"tu\u0072n":1}"#), Ok(()));
}
