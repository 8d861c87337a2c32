//! What sources and blocks are called, wherever they stand.

use super::*;

/// Every payload that holds a message, with `MESSAGE` in its place.
const MESSAGES: [(&str, &str); 5] = [
    ("user/message", "MESSAGE"),
    ("assistant/message", r#"{"message":MESSAGE,"stream":[]}"#),
    ("system/message", r#"{"message":MESSAGE}"#),
    (
        "agent/inbox/spliced",
        r#"{"inserted":[{"id":"x","content":[]},MESSAGE]}"#,
    ),
    ("session/title-llm-request", r#"{"messages":[MESSAGE]}"#),
];

/// Every plugin that has a kind to itself, with the kind.
const PLUGINS: [(&str, &str); 29] = [
    ("compact", "compact-checkpoint"),
    ("tools-code-mode", "ptc-mode"),
    ("tools-ptc", "ptc-mode"),
    ("dsh-compaction-basic", "compact-basic"),
    ("agent-instructions", "agent-instructions"),
    ("session-reference", "session-reference"),
    ("team-message", "team-message"),
    ("goal", "goal"),
    ("skill-invocation", "skill-invocation"),
    ("skill-catalog", "skill-catalog"),
    ("coordinator", "coordinator"),
    ("subagent-report", "subagent-report"),
    ("subagent-settled", "subagent-settled"),
    ("webhook", "webhook"),
    ("agent-message", "agent-message"),
    ("model-selection", "model-selection"),
    ("plan-mode", "plan-mode"),
    ("time-context", "time-context"),
    ("tmux-context", "tmux-context"),
    ("user-approval", "user-approval"),
    ("repeat-tool-reminder", "repeat-tool-reminder"),
    ("tool-cordis", "tool-cordis"),
    ("cordis-host-runner", "cordis-host-runner"),
    ("tool-goal", "tool-goal"),
    ("tool-jobs", "tool-jobs"),
    ("hooks-codex", "hooks-codex"),
    ("hooks-claude-code", "hooks-claude-code"),
    ("schedule", "schedule"),
    ("dsh-session-title-llm", "dsh-session-title-llm"),
];

/// The payload with a message that has the source.
fn sourced(data: &str, source: &str) -> String {
    let message = format!(r#"{{"id":"m","role":"any","content":[],"source":{source}}}"#);
    data.replace("MESSAGE", &message)
}

#[track_caller]
fn assert_kind(kind: &str, data: &str, plugin: &str, expected: &str) {
    let lower = format!(r#"{{"form":"notice","kind":"plugin","plugin":"{plugin}","x":[1.0]}}"#);
    let upper = format!(r#"{{"form":"notice","kind":"{expected}","x":[1.0]}}"#);
    assert_becomes(kind, &sourced(data, &lower), &sourced(data, &upper));
}

#[test]
fn the_source_of_a_plugin_names_its_concrete_kind_everywhere() {
    for (kind, data) in MESSAGES {
        for (plugin, expected) in PLUGINS {
            assert_kind(kind, data, plugin, expected);
        }
        for other in [
            "mine",
            "user",
            "model",
            "compact-checkpoint",
            "plugin:a",
            "",
        ] {
            assert_kind(kind, data, other, &format!("plugin:{other}"));
        }
        let prompt = match kind {
            "system/message" => "system-prompt",
            _ => "runtime-context",
        };
        assert_kind(kind, data, "@deepseek-ai/dsh-system-prompt", prompt);
    }
}

#[test]
fn sources_of_other_kinds_stay() {
    for source in [
        r#"{"kind":"user","plugin":"compact"}"#,
        r#"{"kind":"goal","goalId":"g"}"#,
        r#"{"kind":"gadget"}"#,
        r#"{"plugin":"compact"}"#,
    ] {
        for (kind, data) in MESSAGES {
            let data = sourced(data, source);
            assert_becomes(kind, &data, &data);
        }
    }
}

#[test]
fn a_plugin_without_a_name_is_damage() {
    for plugin in ["", r#","plugin":7"#] {
        let data = sourced(MESSAGES[0].1, &format!(r#"{{"kind":"plugin"{plugin}}}"#));
        let data = data.replace("any", "user");
        assert_eq!(
            load(&file(3, &[row("user/message", &data)]))
                .unwrap_err()
                .code(),
            "DAMAGED_LOG"
        );
    }
}

/// Every payload that holds content blocks, with `BLOCK` in their place.
fn contents() -> Vec<(&'static str, String)> {
    let message = r#"{"id":"m","role":"any","content":[{"type":"text","text":"t"},BLOCK]}"#;
    let messages = MESSAGES.map(|(kind, data)| (kind, data.replace("MESSAGE", message)));
    let streams = ["assistant/message", "assistant/attempt"].map(|kind| {
        let ended = r#"{"stream":[{"type":"text-chunks","texts":["block-end"]},{"type":"chunk","time":1,"chunk":{"type":"block-end","index":0,"block":BLOCK}}]}"#;
        (kind, ended.to_owned())
    });
    let others = [
        ("compaction/summary", r#"{"summary":[BLOCK]}"#),
        (
            "compaction/summary",
            r#"{"summary":[],"rawOutput":[BLOCK]}"#,
        ),
        (
            "compaction/summary",
            r#"{"summary":[BLOCK],"rawOutput":[BLOCK,{"type":"text"}]}"#,
        ),
        ("tool/ptc-dispatch", r#"{"content":[BLOCK]}"#),
        ("team/message/queued", r#"{"message":{"content":[BLOCK]}}"#),
    ];
    let others = others.map(|(kind, data)| (kind, data.to_owned()));
    messages.into_iter().chain(streams).chain(others).collect()
}

const KNOWN: [&str; 5] = ["text", "reasoning", "image", "file", "tool-call"];

#[test]
fn unknown_blocks_keep_their_value_under_another_type_everywhere() {
    for (kind, data) in contents() {
        let block = |name: &str| {
            let block = format!(r#"{{"a":1.0,"type":"{name}","content":[{{"type":"audio"}}]}}"#);
            data.replace("BLOCK", &block)
        };
        for known in KNOWN {
            assert_becomes(kind, &block(known), &block(known));
        }
        for other in ["audio", "tool-addition", "tool-removal", "plugin:a", ""] {
            let renamed = format!("plugin:{other}");
            assert_becomes(kind, &block(other), &block(&renamed));
        }
    }
}

#[test]
fn a_stream_says_at_both_ends_of_a_block_what_it_is() {
    for kind in ["assistant/message", "assistant/attempt"] {
        let stream = |name: &str| {
            format!(
                r#"{{"turn":1,"stream":[{{"type":"chunk","time":1,"chunk":{{"type":"block-start","index":0,"blockType":"{name}"}}}},{{"type":"chunk","time":1,"chunk":{{"type":"text-delta","blockType":"audio"}}}},{{"type":"chunk","time":2,"chunk":{{"type":"block-end","index":0,"block":{{"type":"{name}"}}}}}}]}}"#
            )
        };
        for known in KNOWN {
            assert_becomes(kind, &stream(known), &stream(known));
        }
        assert_becomes(kind, &stream("audio"), &stream("plugin:audio"));
    }
}

#[test]
fn a_result_block_outside_of_a_result_is_refused_everywhere() {
    let result = r#"{"type":"tool-result","toolCallId":"c","content":[]}"#;
    let started = r#"{"stream":[{"type":"chunk","chunk":{"type":"block-start","index":0,"blockType":"tool-result"}}]}"#;
    let starts = ["assistant/message", "assistant/attempt"];
    let starts = starts.map(|kind| (kind, started.to_owned()));
    for (kind, data) in contents().into_iter().chain(starts) {
        assert_eq!(
            unsupported(row(kind, &data.replace("BLOCK", result))),
            format!("`{kind}`: a `tool-result` block stands where no result belongs")
        );
    }
}

#[test]
fn a_message_that_is_no_object_is_damage() {
    for (kind, data, place) in [
        ("user/message", "7", "data"),
        ("system/message", r#"{"message":[]}"#, "message"),
        ("agent/inbox/spliced", r#"{"inserted":["m"]}"#, "inserted"),
        (
            "session/title-llm-request",
            r#"{"messages":[null]}"#,
            "messages",
        ),
    ] {
        assert_eq!(
            damaged(row(kind, data)),
            format!("`{kind}`: `{place}` must hold a message")
        );
    }
}
