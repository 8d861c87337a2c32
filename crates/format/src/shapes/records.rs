//! What is logged beside the conversation: policies, commands, compaction, titles, goals, schedules, subagents, teams.

use std::collections::HashSet;
use std::ops::Range;

use super::Shape::{
    Also, Any, Bool, Count, List, NonEmpty, NotNegative, Object, One, Positive, Some, Tagged, Text,
    True, Word,
};
use super::conversation::{CONTENT, COUNT_OR_NULL, USAGE, USER};
use super::{Field, Shape, Union, optional, required};
use crate::json::Node;

/// The payload of each type.
pub(super) static PAYLOADS: &[(&str, &Shape)] = &[
    (
        "agent-preset/selected",
        &Object(&[required("agentPreset", &Text)]),
    ),
    (
        "approval/asked",
        &Object(&[
            required("id", &Text),
            required("toolName", &Text),
            optional("callId", &Text),
            optional("reason", &Text),
        ]),
    ),
    (
        "approval/decided",
        &Object(&[
            required("id", &Text),
            required(
                "outcome",
                &Word(&["allowed-once", "rejected", "cancelled", "unavailable"]),
            ),
        ]),
    ),
    (
        "approval/policy",
        &Object(&[
            required("policy", &Word(&["ask", "never"])),
            optional("source", &Word(&["delegation"])),
        ]),
    ),
    ("permission/preset", &Object(&[required("preset", &Text)])),
    ("plan/mode", &Object(&[required("active", &Bool)])),
    (
        "sandbox/mode",
        &Object(&[
            required(
                "mode",
                &Word(&["read-only", "workspace-write", "danger-full-access"]),
            ),
            optional("source", &Word(&["delegation"])),
        ]),
    ),
    (
        "model/selection",
        &Object(&[
            required("provider", &NonEmpty),
            required("model", &NonEmpty),
            optional("reasoningEffort", &NonEmpty),
        ]),
    ),
    (
        "command/run",
        &Object(&[
            required("commandId", &NonEmpty),
            required("name", &Text),
            optional("args", &Any),
            required("source", &Object(&[required("kind", &Word(&["user"]))])),
        ]),
    ),
    (
        "command/done",
        &Object(&[
            required("commandId", &NonEmpty),
            required("kind", &Word(&["success", "error"])),
            optional("text", &Text),
            optional("sourceEventSeq", &Count),
        ]),
    ),
    (
        "hook/invoked",
        &Object(&[
            required("turn", &Count),
            required("point", &Text),
            required("dialect", &Word(&["claude-code", "codex"])),
            required("handlerId", &Text),
            optional("matcher", &Text),
        ]),
    ),
    (
        "hook/result",
        &Object(&[
            required("turn", &Count),
            required("point", &Text),
            required("handlerId", &Text),
            required("decision", &Text),
            required("durationMs", &NotNegative),
            optional("exitCode", &Shape::Number),
            optional("stderrSummary", &Text),
        ]),
    ),
    (
        "compaction/start",
        &Object(&[
            required("compactionId", &NonEmpty),
            required("turn", &COUNT_OR_NULL),
            optional("sourceCommandId", &NonEmpty),
        ]),
    ),
    (
        "compaction/end",
        &Object(&[
            required("compactionId", &NonEmpty),
            required("turn", &COUNT_OR_NULL),
            optional("sourceCommandId", &NonEmpty),
            optional("error", &Any),
        ]),
    ),
    ("compaction/summary", &SUMMARY),
    (
        "compaction/prune",
        &Object(&[
            required("shadowedRange", &RANGE),
            required("shadowedSeqs", &Some(&Count)),
            required("shadowedTokenCount", &Count),
        ]),
    ),
    (
        "session/title",
        &Object(&[
            required("title", &Text),
            required("messageSeqs", &List(&Count)),
            required("source", &TITLE_SOURCE),
        ]),
    ),
    (
        "session/title-llm-request",
        &Object(&[
            required("titleProvider", &Text),
            required("messageSeqs", &Some(&Count)),
            required("route", &ROUTE),
            required("system", &Text),
            required("messages", &List(&USER)),
            required("maxTokens", &Positive),
        ]),
    ),
    ("feedback/record", &Object(&[required("text", &Text)])),
    (
        "feedback/message-put",
        &Object(&[
            required("sessionId", &Text),
            required(
                "item",
                &Object(&[
                    required("messageId", &Text),
                    required("rating", &Word(&["positive", "negative"])),
                    required("version", &Text),
                    required("createdAt", &Any),
                    required("updatedAt", &Any),
                    optional("note", &Text),
                ]),
            ),
        ]),
    ),
    (
        "feedback/message-delete",
        &Object(&[required("sessionId", &Text), required("messageId", &Text)]),
    ),
    (
        "todo/write",
        &Object(&[required(
            "todos",
            &List(&Object(&[
                required("content", &Text),
                required("status", &Word(&["pending", "in_progress", "completed"])),
            ])),
        )]),
    ),
    ("goal/change", &GOAL),
    ("schedule/change", &SCHEDULE),
    ("subagent/descriptor", &DESCRIPTOR),
    (
        "subagent/model-selection-policy",
        &Object(&[required("allowedModels", &Also(&Some(&ROUTE), unique))]),
    ),
    (
        "team/member",
        &Object(&[
            required("version", &Shape::Is(1)),
            required("teamId", &Text),
            required(
                "member",
                &Object(&[
                    required("id", &Text),
                    required("name", &Text),
                    required("description", &Text),
                    required("provider", &Text),
                    required("context", &Word(&["fresh", "fork"])),
                    required("phase", &Word(&["provisioning", "active", "failed"])),
                    optional("error", &Any),
                ]),
            ),
        ]),
    ),
    (
        "team/task",
        &Object(&[
            required("version", &Shape::Is(1)),
            required("teamId", &Text),
            required(
                "task",
                &Object(&[
                    required("id", &Text),
                    required("revision", &Positive),
                    required("subject", &Text),
                    required("description", &Text),
                    required(
                        "status",
                        &Word(&["pending", "in_progress", "completed", "deleted"]),
                    ),
                    required("blockedBy", &List(&Text)),
                    required("writeScopes", &List(&Text)),
                    optional("ownerId", &Text),
                ]),
            ),
        ]),
    ),
    (
        "team/message/queued",
        &Object(&[
            required("version", &Shape::Is(1)),
            required("teamId", &Text),
            required(
                "message",
                &Object(&[
                    required("id", &Text),
                    required("senderId", &Text),
                    required("senderName", &Text),
                    required("targetId", &Text),
                    required("delivery", &Word(&["quiet", "wakeup"])),
                    required("content", &CONTENT),
                ]),
            ),
        ]),
    ),
    (
        "team/message/delivered",
        &Object(&[
            required("version", &Shape::Is(1)),
            required("teamId", &Text),
            required("messageId", &Text),
            required("targetId", &Text),
        ]),
    ),
    (
        "tool-workflow/run-start",
        &Object(&[required("runId", &Text), required("name", &Text)]),
    ),
    (
        "tool-workflow/agent-start",
        &Object(&[
            required("runId", &Text),
            required("seq", &Positive),
            required("label", &Text),
            required("childId", &Text),
            optional("phase", &Text),
        ]),
    ),
    (
        "tool-workflow/agent-end",
        &Object(&[
            required("runId", &Text),
            required("seq", &Positive),
            required("outcome", &Word(&["completed", "failed", "cancelled"])),
        ]),
    ),
    (
        "tool-workflow/run-end",
        &Object(&[
            required("runId", &Text),
            required("stopReason", &Word(&["completed", "cancelled", "error"])),
        ]),
    ),
    (
        "web/deepseek-search-llm-request",
        &Object(&[
            required("endpoint", &Text),
            required("apiVersion", &Text),
            required(
                "body",
                &Object(&[
                    required("model", &Text),
                    required("max_tokens", &Positive),
                    required("messages", &One(&SEARCH_MESSAGE)),
                    required("tools", &One(&SEARCH_TOOL)),
                ]),
            ),
        ]),
    ),
    (
        "session-log-deepseek/delivery-accepted",
        &Object(&[
            required("sessionId", &Text),
            required("throughSeq", &Count),
            optional("sessionFormatVersion", &Count),
        ]),
    ),
];

static RANGE: Shape = Object(&[required("start", &Count), required("end", &Count)]);

static ROUTE: Shape = Object(&[
    required("provider", &NonEmpty),
    required("model", &NonEmpty),
]);

/// No provider and model is there twice.
fn unique(routes: Node<'_>) -> Result<(), String> {
    let name = |route: &Node<'_>, name| route.get(name).map(|name| name.spelling().into_owned());
    let mut seen = HashSet::new();
    let mut routes = routes.items().into_iter();
    let again = routes.find(|route| !seen.insert((name(route, "provider"), name(route, "model"))));
    again.map_or(Ok(()), |route| Err(format!("has {} twice", route.json())))
}

static SEARCH_MESSAGE: Shape = Object(&[
    required("role", &Word(&["user"])),
    required(
        "content",
        &One(&Object(&[
            required("type", &Word(&["text"])),
            required("text", &Text),
        ])),
    ),
]);

static SEARCH_TOOL: Shape = Object(&[
    required("type", &Word(&["web_search_20250305"])),
    required("name", &Word(&["web_search"])),
    required("max_uses", &Positive),
]);

static SUMMARY: Shape = Also(
    &Object(&[
        required("compactionId", &NonEmpty),
        required("summary", &CONTENT),
        required("shadowedRange", &RANGE),
        required("shadowedSeqs", &Some(&Count)),
        required("shadowedTokenCount", &Count),
        required("provider", &Text),
        required("model", &Text),
        optional("sourceCommandId", &NonEmpty),
        optional("maxTokens", &Positive),
        optional("usage", &USAGE),
        optional("rawOutput", &CONTENT),
        optional("llmStreamCall", &True),
    ]),
    |summary| match (summary.get("llmStreamCall"), summary.get("rawOutput")) {
        (Option::Some(_), None) => Err("has `llmStreamCall` without `rawOutput`".into()),
        _ => Ok(()),
    },
);

static TITLE_SOURCE: Shape = Tagged(&Union {
    tag: "kind",
    cases: &[
        (
            "provider",
            &[required("provider", &Text), optional("model", &ROUTE)],
        ),
        ("fallback", &[]),
        ("user", &[]),
    ],
    open: false,
});

const GOAL_CHANGE: &[Field] = &[
    required("kind", &Word(&["goal/change"])),
    required("version", &Shape::Is(1)),
    required(
        "goal",
        &Also(
            &Object(&[
                required("id", &Text),
                required("revision", &Positive),
                required("objective", &Text),
                required("phase", &Word(&["active", "paused", "blocked", "complete"])),
                required("maxGoalRounds", &Positive),
                optional(
                    "blockedReason",
                    &Object(&[required("code", &Text), required("message", &Text)]),
                ),
            ]),
            |goal| match goal.names("phase", "blocked") == goal.get("blockedReason").is_some() {
                true => Ok(()),
                false => Err("must have `blockedReason` exactly when it is blocked".into()),
            },
        ),
    ),
    required("roundsStarted", &Count),
    required("createdAt", &Count),
    required("updatedAt", &Count),
];

static GOAL: Shape = Tagged(&Union {
    tag: "operation",
    cases: &[
        (
            "clear",
            &[
                required("kind", &Word(&["goal/change"])),
                required("version", &Shape::Is(1)),
                required(
                    "cleared",
                    &Object(&[required("id", &Text), required("revision", &Positive)]),
                ),
                required("clearedAt", &Count),
            ],
        ),
        ("create", GOAL_CHANGE),
        ("edit", GOAL_CHANGE),
        ("pause", GOAL_CHANGE),
        ("resume", GOAL_CHANGE),
        ("complete", GOAL_CHANGE),
        ("block", GOAL_CHANGE),
    ],
    open: false,
});

static SCHEDULE: Shape = Tagged(&Union {
    tag: "operation",
    cases: &[
        (
            "create",
            &[
                required("version", &Shape::Is(1)),
                required(
                    "schedule",
                    &Tagged(&Union {
                        tag: "kind",
                        cases: &[
                            (
                                "after",
                                &[SCHEDULE_ID, PROMPT, AT, required("afterSeconds", &Positive)],
                            ),
                            ("at", &[SCHEDULE_ID, PROMPT, AT]),
                            (
                                "every",
                                &[
                                    SCHEDULE_ID,
                                    PROMPT,
                                    AT,
                                    required(
                                        "everySeconds",
                                        &Shape::Within(300, offshoot_session::MAX_SAFE_INTEGER),
                                    ),
                                ],
                            ),
                        ],
                        open: false,
                    }),
                ),
            ],
        ),
        ("delete", &[required("version", &Shape::Is(1)), SCHEDULE_ID]),
        (
            "dispatch",
            &[
                required("version", &Shape::Is(1)),
                SCHEDULE_ID,
                optional("acceptedAt", &INSTANT),
            ],
        ),
    ],
    open: false,
});

const SCHEDULE_ID: Field = required(
    "id",
    &Also(&NonEmpty, |id| {
        let id = id.text().unwrap_or_default();
        // What JavaScript trims: white space and the byte order mark, but not the next-line control.
        let is_space = |c: char| (c.is_whitespace() && c != '\u{85}') || c == '\u{feff}';
        match id.trim_matches(is_space) == id {
            true => Ok(()),
            false => Err("must not begin or end with white space".into()),
        }
    }),
);
const PROMPT: Field = required("prompt", &Text);
const AT: Field = required("scheduledAt", &INSTANT);

/// `2026-01-31T23:59:59.000Z`, of a day that there is.
static INSTANT: Shape = Also(&Text, |instant| {
    let text = instant.text().unwrap_or_default();
    match is_instant(&text) {
        true => Ok(()),
        false => Err(format!(
            "must be an instant such as 2026-01-31T23:59:59.000Z, found {}",
            instant.json()
        )),
    }
});

fn is_instant(text: &str) -> bool {
    let zeroed = |c: char| if c.is_ascii_digit() { '0' } else { c };
    if !text
        .chars()
        .map(zeroed)
        .eq("0000-00-00T00:00:00.000Z".chars())
    {
        return false;
    }
    let number = |at: Range<usize>| text[at].parse::<u32>().unwrap_or_default();
    let (year, month) = (number(0..4), number(5..7));
    let leap = year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    let days = match month {
        4 | 6 | 9 | 11 => 30,
        2 if leap => 29,
        2 => 28,
        1..=12 => 31,
        _ => return false,
    };
    let time = [number(11..13), number(14..16), number(17..19)];
    (1..=days).contains(&number(8..10)) && time[0] < 24 && time[1] < 60 && time[2] < 60
}

/// Only the third version was released.
static DESCRIPTOR: Shape = Also(
    &Tagged(&Union {
        tag: "mode",
        cases: &[
            (
                "one-shot",
                &[
                    required("version", &Shape::Is(3)),
                    required("provider", &Text),
                    optional("label", &Text),
                ],
            ),
            (
                "continuable",
                &[
                    required("version", &Shape::Is(3)),
                    required("provider", &Text),
                    required("label", &Text),
                    optional("agentProvider", &Text),
                    optional("agentModel", &Text),
                    optional("agentReasoningEffort", &Text),
                    optional("persona", &Text),
                    optional(
                        "toolFilter",
                        &Object(&[
                            optional("allow", &List(&Text)),
                            optional("deny", &List(&Text)),
                        ]),
                    ),
                ],
            ),
        ],
        open: false,
    }),
    |descriptor| {
        let has = |name| descriptor.get(name).is_some();
        let empty = |filter: Node<'_>| filter.members().is_none_or(|members| members.is_empty());
        if has("agentProvider") != has("agentModel") {
            return Err("must have `agentProvider` and `agentModel` together".into());
        }
        match descriptor.get("toolFilter").is_some_and(empty) {
            true => Err("has a `toolFilter` that filters nothing".into()),
            false => Ok(()),
        }
    },
);
