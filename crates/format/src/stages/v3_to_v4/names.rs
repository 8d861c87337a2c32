//! What V4 calls the sources of messages and the types of content blocks (`reference/persistence.md` §2.6).

use crate::json::{Members, Node, quote};
use crate::stages::messages::Rewritten;

/// The plugin whose messages are the system prompt, or a part of what goes with it.
const SYSTEM_PROMPT: &str = "@deepseek-ai/dsh-system-prompt";

/// Plugins whose kind has another name than they have.
const RENAMED: &[(&str, &str)] = &[
    ("compact", "compact-checkpoint"),
    ("tools-code-mode", "ptc-mode"),
    ("tools-ptc", "ptc-mode"),
    ("dsh-compaction-basic", "compact-basic"),
];

/// Plugins whose kind is their name.
const SAME: &[&str] = &[
    "agent-instructions",
    "session-reference",
    "team-message",
    "goal",
    "skill-invocation",
    "skill-catalog",
    "coordinator",
    "subagent-report",
    "subagent-settled",
    "webhook",
    "agent-message",
    "model-selection",
    "plan-mode",
    "time-context",
    "tmux-context",
    "user-approval",
    "repeat-tool-reminder",
    "tool-cordis",
    "cordis-host-runner",
    "tool-goal",
    "tool-jobs",
    "hooks-codex",
    "hooks-claude-code",
    "schedule",
    "dsh-session-title-llm",
];

const BLOCKS: &[&str] = &["text", "reasoning", "image", "file", "tool-call"];

/// The source of a message, if it was that of a plugin.
pub(super) fn source(source: Node<'_>, is_system: bool) -> Rewritten {
    if !source.names("kind", "plugin") {
        return Ok(None);
    }
    let Some(mut members) = Members::of(source) else {
        return Ok(None);
    };
    let Some(plugin) = members.get("plugin").and_then(|plugin| plugin.text()) else {
        return Ok(None);
    };
    let kind = kind_of(&plugin, is_system);
    members.set("kind", quote(&kind));
    members.remove("plugin");
    Ok(Some(members.render()))
}

fn kind_of(plugin: &str, is_system: bool) -> String {
    let renamed = RENAMED.iter().find(|(old, _)| *old == plugin);
    match renamed {
        Some((_, new)) => (*new).to_owned(),
        None if plugin == SYSTEM_PROMPT && is_system => "system-prompt".to_owned(),
        None if plugin == SYSTEM_PROMPT => "runtime-context".to_owned(),
        None if SAME.contains(&plugin) => plugin.to_owned(),
        None => format!("plugin:{plugin}"),
    }
}

/// The type of a content block, if it is not one of V4's.
pub(super) fn block_type(kind: Node<'_>) -> Rewritten {
    if BLOCKS.iter().any(|known| kind.is(known)) {
        return Ok(None);
    }
    Ok(kind.text().map(|kind| quote(&format!("plugin:{kind}"))))
}
