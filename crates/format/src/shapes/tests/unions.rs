//! What is one of several kinds: sources, blocks, reasons, chunks.

use super::*;

fn image() -> Value {
    json!({"attachmentId": "a", "mediaType": "image/png", "bytes": 0, "width": 1, "height": 1, "name": "n",
        "originalDimensions": {"width": 2, "height": 2}})
}

#[test]
fn every_kind_of_source_has_its_members() {
    let relay = |kind: &str| full(json!({"kind": kind, "form": "relay", "senderSessionId": "s"}));
    let change = json!({"action": "set", "scope": "s", "path": "p", "digest": "d"});
    for source in [
        full(json!({"kind": "user", "rpcId": "r", "clientTimeZone": "UTC"}))
            .absent(&["rpcId", "clientTimeZone"]),
        full(model_source()).absent(&["replayState"]),
        full(json!({"kind": "tool", "callId": "c"})),
        full(json!({"kind": "plugin", "plugin": "p", "form": "recall"})).absent(&["form"]),
        full(json!({"kind": "plugin", "plugin": "p", "form": "snapshot", "sections": [{"name": "n", "text": "t"}]})),
        full(json!({"kind": "plugin", "plugin": "p", "form": "notice", "summary": "s"})),
        full(json!({"kind": "plugin", "plugin": "compact", "compactionId": "k", "sourceCommandId": "c"}))
            .absent(&["sourceCommandId"]),
        full(json!({"kind": "agent-instructions", "form": "instructions", "changes": [change], "baseline": true,
            "baselineIdentity": "b"}))
        .absent(&["baseline", "baselineIdentity"]),
        full(json!({"kind": "session-reference", "form": "recall", "version": 1, "references": [{}]})),
        full(json!({"kind": "team-message", "teamId": "t", "messageId": "m", "senderId": "s", "senderName": "n"})),
        full(json!({"kind": "goal", "goalId": "g", "revision": 1, "round": 0})),
        full(json!({"kind": "skill-invocation", "name": "n", "form": "instructions"})),
        full(json!({"kind": "skill-catalog", "form": "catalog", "entries": [{"name": "n", "description": "d"}],
            "update": true}))
        .absent(&["update"]),
        relay("coordinator"),
        relay("subagent-report"),
        full(json!({"kind": "subagent-settled", "form": "notice", "summary": "s", "senderSessionId": "c"})),
        full(json!({"kind": "webhook", "provider": "p", "source": "s", "deliveryId": "d", "ruleId": "r",
            "form": "notice", "summary": "s"})),
    ] {
        source.holds("user/message", |source| with(user(), "/source", source.clone()));
    }
}

#[test]
fn a_plugin_says_what_its_form_needs_and_nothing_else() {
    let sections = json!([{"name": "n", "text": "t"}]);
    for (source, expected) in [
        (
            json!({"plugin": "p", "form": "snapshot"}),
            "must have `sections` exactly when its form is snapshot",
        ),
        (
            json!({"plugin": "p", "sections": sections}),
            "must have `sections` exactly when its form is snapshot",
        ),
        (
            json!({"plugin": "p", "form": "notice", "summary": "s", "sections": sections}),
            "must have `sections` exactly when its form is snapshot",
        ),
        (
            json!({"plugin": "p", "form": "notice"}),
            "must have `summary` exactly when its form is notice",
        ),
        (
            json!({"plugin": "p", "form": "relay", "summary": "s"}),
            "must have `summary` exactly when its form is notice",
        ),
        (
            json!({"plugin": "compact"}),
            "must have `compactionId` exactly when the plugin is compact",
        ),
        (
            json!({"plugin": "p", "compactionId": "k"}),
            "must have `compactionId` exactly when the plugin is compact",
        ),
        (
            json!({"plugin": "p", "sourceCommandId": "c"}),
            "has `sourceCommandId` although the plugin is not compact",
        ),
    ] {
        let source = with(source, "/kind", json!("plugin"));
        assert_eq!(
            told("user/message", &with(user(), "/source", source.clone())),
            Err(format!("`data.source` {expected}")),
            "{source}"
        );
    }
}

#[test]
fn every_block_has_its_members() {
    let file = json!({"attachmentId": "a", "name": "n", "bytes": 1});
    let inner = json!({"type": "tool-result", "toolCallId": "d", "content": []});
    for block in [
        full(text()),
        full(json!({"type": "reasoning", "text": ""})),
        full(json!({"type": "image", "attachment": image()})),
        full(json!({"type": "file", "attachment": file})),
        full(json!({"type": "tool-call", "id": "c", "name": "ls", "arguments": "{}"})),
        full(
            json!({"type": "tool-result", "toolCallId": "c", "content": [inner], "isError": false}),
        )
        .absent(&["isError"]),
    ] {
        let block = || Full {
            object: block.object.clone(),
            ..block
        };
        block().holds("user/message", |block| {
            with(user(), "/content/0", block.clone())
        });
        block().holds("compaction/summary", |block| {
            with(summary(), "/rawOutput/0", block.clone())
        });
        block().holds("tool/result", |block| {
            with(result(), "/message/content/0/content/0", block.clone())
        });
        block().holds("assistant/chunk", |block| {
            let end = json!({"type": "block-end", "index": 0, "block": block});
            json!({"turn": 1, "step": 1, "chunk": end})
        });
    }
    full(image())
        .absent(&["name", "originalDimensions"])
        .holds("user/message", |image| {
            let block = json!({"type": "image", "attachment": image});
            with(user(), "/content/0", block)
        });
}

#[test]
fn every_chunk_has_its_members() {
    let finish = |reason: Value| full(json!({"type": "finish", "reason": reason}));
    for chunk in [
        full(json!({"type": "block-start", "index": 0, "blockType": "text"})),
        full(json!({"type": "text-delta", "index": 0, "text": ""})),
        full(json!({"type": "reasoning-delta", "index": 0, "text": ""})),
        full(json!({"type": "tool-call-delta", "index": 0, "id": "", "name": "n", "argumentsDelta": ""}))
            .absent(&["name"]),
        full(json!({"type": "block-end", "index": 0, "block": text()})),
        full(json!({"type": "usage", "usage": usage()})),
        full(json!({"type": "finish", "reason": {"kind": "stop"}, "replayState": {"response": 1}}))
            .absent(&["replayState"]),
        finish(json!({"kind": "tool-calls"})),
        finish(json!({"kind": "max-tokens"})),
        finish(json!({"kind": "aborted", "failure": failure()})),
        finish(json!({"kind": "error", "failure": failure()})),
    ] {
        chunk.holds("assistant/chunk", |chunk| json!({"turn": 1, "step": 1, "chunk": chunk}));
    }
    let chunk = |chunk: Value| {
        told(
            "assistant/chunk",
            &json!({"turn": 1, "step": 1, "chunk": chunk}),
        )
    };
    assert_eq!(
        chunk(json!({"type": "finish", "reason": {"kind": "error"}})),
        Err("`data.chunk.reason` lacks the member `failure`".into())
    );
    assert_eq!(
        chunk(json!({"type": "finish", "reason": {"kind": "bored"}})),
        Err(
            r#"`data.chunk.reason.kind` must be one of ["stop", "tool-calls", "max-tokens", "aborted", "error"], found "bored""#
                .into()
        )
    );
    assert!(chunk(json!({"type": "sound-delta", "index": 0})).is_err());
}

#[test]
fn every_reason_for_the_end_of_a_turn_has_its_members() {
    let aborted = |reason: Value| full(json!({"kind": "aborted", "reason": reason}));
    let of = |kind: &str| full(json!({"kind": kind}));
    for reason in [
        of("completed"),
        of("blocked"),
        of("max-tokens"),
        of("interrupted"),
        aborted(json!({"kind": "user"})),
        aborted(json!({"kind": "parent"})),
        aborted(json!({"kind": "disposed"})),
        aborted(json!({"kind": "legacy"})),
        aborted(json!({"kind": "hook", "reason": "r"})),
        full(json!({"kind": "error", "error": failure()})),
    ] {
        reason.holds("turn/end", |reason| json!({"turn": 1, "reason": reason}));
    }
    full(failure())
        .absent(&["status", "providerRetryAfterMs", "requestId"])
        .holds(
            "turn/end",
            |failure| json!({"turn": 1, "reason": {"kind": "error", "error": failure}}),
        );
    for by in [
        json!({"kind": "hook"}),
        json!({"kind": "user", "reason": "r"}),
        json!({"kind": "weather"}),
    ] {
        let reason = json!({"kind": "aborted", "reason": by});
        let data = json!({"turn": 1, "reason": reason});
        assert!(told("turn/end", &data).is_err(), "{data}");
    }
}

#[test]
fn what_plugins_may_add_to_is_open() {
    let own = |tag: &str| json!({tag: "vendor:own", "whatever": [1, {"else": null}]});
    for (kind, data) in [
        ("user/message", with(user(), "/source", own("kind"))),
        ("user/message", with(user(), "/content/0", own("type"))),
        (
            "assistant/message",
            with(assistant(), "/message/content", json!([own("type")])),
        ),
        (
            "tool/result",
            with(result(), "/message/content/0/content", json!([own("type")])),
        ),
        (
            "compaction/summary",
            with(summary(), "/summary", json!([own("type")])),
        ),
        ("turn/end", json!({"turn": 1, "reason": own("kind")})),
        ("turn/end", json!({"turn": 1, "reason": {"kind": "forked"}})),
        (
            "assistant/chunk",
            json!({"turn": 1, "step": 1, "chunk": {"type": "block-start", "index": 0, "blockType": "vendor:own"}}),
        ),
    ] {
        assert_eq!(told(kind, &data), Ok(()), "{kind}: {data}");
    }
    for (kind, data) in [
        ("user/message", with(user(), "/source", json!({"kind": ""}))),
        (
            "user/message",
            with(user(), "/content/0", json!({"type": ""})),
        ),
        (
            "user/message",
            with(user(), "/content/0", json!({"text": "t"})),
        ),
        ("turn/end", json!({"turn": 1, "reason": {"kind": null}})),
    ] {
        assert!(told(kind, &data).is_err(), "{kind}: {data}");
    }
}

#[test]
fn results_within_results_are_followed_only_so_far() {
    let nested = |levels: usize| {
        let open = r#"{"type":"tool-result","toolCallId":"c","content":["#;
        let blocks = format!("{}{}", open.repeat(levels), "]}".repeat(levels));
        let data = r#"{"id":"m","role":"user","content":[@],"source":{"kind":"user"}}"#;
        check(
            "user/message",
            Node::new(&data.replace('@', &blocks)),
            Version::V2,
        )
    };
    assert_eq!(nested(7), Ok(()));
    for levels in [8, 10_000] {
        let reason = nested(levels).unwrap_err();
        assert!(
            reason.contains("must not be as deep in lists of blocks"),
            "{reason}"
        );
    }
}
