//! The released versions of the format, and what distinguishes their rows (`reference/persistence.md` §3.4, §7).

use std::borrow::Cow;

/// A released version.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Version {
    V0,
    V1,
    V2,
    V3,
    V4,
}

impl Version {
    pub(crate) const CURRENT: Self = Self::V4;

    pub(crate) const fn number(self) -> u64 {
        self as u64
    }

    pub(crate) const fn of(number: u64) -> Option<Self> {
        Some(match number {
            0 => Self::V0,
            1 => Self::V1,
            2 => Self::V2,
            3 => Self::V3,
            4 => Self::V4,
            _ => return None,
        })
    }

    /// The version above.
    pub(crate) const fn next(self) -> Option<Self> {
        Self::of(self.number() + 1)
    }

    /// Whether runs of chunks are packed into rows of their own.
    pub(crate) fn packs_chunks(self) -> bool {
        self <= Self::V1
    }

    /// What the ends of a replacement are called.
    pub(crate) fn replace_members(self) -> [&'static str; 2] {
        if self <= Self::V2 {
            ["start", "end"]
        } else {
            ["startSeq", "endSeq"]
        }
    }

    /// Whether events of this type are nodes of the surface.
    pub(crate) fn is_surface(self, kind: &str) -> bool {
        match kind {
            "user/message" | "assistant/message" | "tool/result" => true,
            // An early name of a user message.
            "steering/message" => self == Self::V0,
            "system/message" => self >= Self::V3,
            "developer/message" => self >= Self::V4,
            _ => false,
        }
    }

    /// Whether the released reader of this version knows the type.
    pub(crate) fn knows(self, kind: &str) -> bool {
        self.find(kind).is_some()
    }

    /// The name, without a copy of it where the version knows it.
    pub(crate) fn name_of(self, kind: &str) -> Cow<'static, str> {
        match self.find(kind) {
            Some(known) => Cow::Borrowed(known),
            None => Cow::Owned(kind.to_owned()),
        }
    }

    fn find(self, kind: &str) -> Option<&'static str> {
        let within = |names: &'static [&'static str]| {
            let at = names.binary_search(&kind).ok()?;
            Some(names[at])
        };
        match self {
            Self::V0 => within(RELEASED_V0)
                .or_else(|| within(&["assistant/chunk"]))
                .or_else(|| within(LEGACY)),
            Self::V1 => within(RELEASED_V0).or_else(|| within(&["assistant/chunk"])),
            // Its first released reader did not know the feedback events yet, the step from V2 to V3 does (§2.5).
            Self::V2 => within(RELEASED_V0).or_else(|| within(SINCE_V2)),
            Self::V3 | Self::V4 => within(RELEASED_V0)
                .filter(|name| !name.starts_with("tool/code-dispatch"))
                .or_else(|| within(SINCE_V3))
                .or_else(|| within(&["developer/message"]).filter(|_| self == Self::V4)),
        }
    }
}

/// The 51 types of released V0 without `assistant/chunk`, sorted.
const RELEASED_V0: &[&str] = &[
    "agent-preset/selected",
    "agent/inbox/spliced",
    "approval/asked",
    "approval/decided",
    "approval/policy",
    "assistant/message",
    "command/done",
    "command/run",
    "compaction/end",
    "compaction/prune",
    "compaction/start",
    "compaction/summary",
    "feedback/record",
    "goal/change",
    "hook/invoked",
    "hook/result",
    "llm/retry",
    "llm/retry-started",
    "model/selection",
    "permission/preset",
    "plan/mode",
    "request/context",
    "request/header",
    "sandbox/mode",
    "schedule/change",
    "session-log-deepseek/delivery-accepted",
    "session/end-seed",
    "session/title",
    "session/title-llm-request",
    "step/end",
    "step/start",
    "subagent/descriptor",
    "subagent/model-selection-policy",
    "team/member",
    "team/message/delivered",
    "team/message/queued",
    "team/task",
    "todo/write",
    "tool-workflow/agent-end",
    "tool-workflow/agent-start",
    "tool-workflow/run-end",
    "tool-workflow/run-start",
    "tool/call",
    "tool/code-dispatch",
    "tool/code-dispatch-start",
    "tool/result",
    "turn/end",
    "turn/start",
    "user/message",
    "web/deepseek-search-llm-request",
];

/// What V0 programs wrote before its inventory was frozen (§2.3), sorted.
const LEGACY: &[&str] = &[
    "compact/end",
    "compact/prune",
    "compact/start",
    "compact/summary",
    "mode/set",
    "request/header-delta",
    "steering/message",
];

/// What V2 added, sorted.
const SINCE_V2: &[&str] = &[
    "assistant/attempt",
    "feedback/message-delete",
    "feedback/message-put",
];

/// What V3 added, `assistant/attempt` of V2 included, sorted.
const SINCE_V3: &[&str] = &[
    "assistant/attempt",
    "deliverables/presented",
    "feedback/message-delete",
    "feedback/message-put",
    "image/offload",
    "subagent/catalog",
    "system/message",
    "tool/ptc-dispatch",
    "tool/ptc-dispatch-start",
    "workspace/changes",
];

#[cfg(test)]
mod tests {
    use offshoot_session::EventKind;

    use super::*;

    #[test]
    fn every_version_has_the_inventory_that_was_released() {
        for names in [RELEASED_V0, LEGACY, SINCE_V2, SINCE_V3] {
            assert!(names.is_sorted(), "looked up by halves: {names:?}");
        }
        assert_eq!(RELEASED_V0.len() + 1, 51);
        for kind in EventKind::KNOWN {
            assert!(Version::V4.knows(kind.as_str()), "{kind}");
        }
        let v4 = RELEASED_V0.len() - 2 + SINCE_V3.len() + 1;
        assert_eq!(v4, EventKind::KNOWN.len());
    }
}
