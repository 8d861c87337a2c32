//! What a conversation consists of: turns, messages, chunks, requests, calls.

use super::Shape::{
    AboveZero, Any, AnyObject, Bool, Count, Either, List, NonEmpty, Number, Object, Positive,
    Tagged, Text, True, Within, Word,
};
use super::{Field, Shape, Union, optional, required};

/// The payload of each type.
pub(super) static PAYLOADS: &[(&str, &Shape)] = &[
    ("turn/start", &Object(&[required("turn", &Positive)])),
    (
        "turn/end",
        &Object(&[required("turn", &Positive), required("reason", &REASON)]),
    ),
    ("step/start", &Object(AT)),
    ("step/end", &Object(AT)),
    ("user/message", &USER),
    ("assistant/message", &ASSISTANT),
    (
        "assistant/attempt",
        &Object(&[
            required("turn", &Positive),
            required("step", &Positive),
            required("stream", &List(&AnyObject)),
        ]),
    ),
    (
        "assistant/chunk",
        &Object(&[
            required("turn", &Count),
            required("step", &Count),
            required("chunk", &Tagged(&CHUNK)),
        ]),
    ),
    (
        "tool/call",
        &Object(&[
            required("turn", &Count),
            required("step", &Count),
            required("callId", &Text),
            required("name", &Text),
            required("arguments", &Text),
        ]),
    ),
    (
        "tool/result",
        &Object(&[
            required("turn", &Count),
            required("step", &Count),
            required("message", &RESULT),
            optional("error", &NAMED_ERROR),
            optional("meta", &Any),
        ]),
    ),
    (
        "tool/code-dispatch-start",
        &Object(&[
            required("rootCallId", &Text),
            required("parentCallId", &Text),
            required("subCallId", &Text),
            required("name", &Text),
            required("arguments", &Any),
        ]),
    ),
    (
        "tool/code-dispatch",
        &Object(&[
            required("rootCallId", &Text),
            required("parentCallId", &Text),
            required("subCallId", &Text),
            required("name", &Text),
            required("arguments", &Any),
            required("isError", &Bool),
            required("content", &CONTENT),
        ]),
    ),
    ("request/header", &HEADER_EVENT),
    (
        "request/context",
        &Object(&[
            required("provider", &Text),
            required("model", &Text),
            optional("contextWindow", &Positive),
        ]),
    ),
    ("session/end-seed", &Object(&[optional("inherited", &True)])),
    ("llm/retry", &RETRY),
    (
        "llm/retry-started",
        &Object(&[
            required("retryId", &NonEmpty),
            required("turn", &Count),
            required("step", &Count),
            required("retry", &Positive),
        ]),
    ),
    (
        "agent/inbox/spliced",
        &Object(&[
            required("target", &Word(&["next-turn", "next-step"])),
            required("start", &Count),
            optional("removedCount", &Count),
            required("inserted", &List(&USER)),
            optional("outcome", &Word(&["canceled"])),
        ]),
    ),
];

/// Where an event stands.
const AT: &[Field] = &[required("turn", &Positive), required("step", &Positive)];

pub(super) static CONTENT: Shape = List(&Tagged(&BLOCK));

/// Blocks of a message; plugins may add types.
pub(super) static BLOCK: Union = Union {
    tag: "type",
    cases: &[
        ("text", &[required("text", &Text)]),
        ("reasoning", &[required("text", &Text)]),
        ("image", &[required("attachment", &IMAGE)]),
        ("file", &[required("attachment", &FILE)]),
        (
            "tool-call",
            &[
                required("id", &Text),
                required("name", &Text),
                required("arguments", &Text),
            ],
        ),
        (
            "tool-result",
            &[
                required("toolCallId", &Text),
                required("content", &CONTENT),
                optional("isError", &Bool),
            ],
        ),
    ],
    open: true,
};

static IMAGE: Shape = Object(&[
    required("attachmentId", &NonEmpty),
    required(
        "mediaType",
        &Word(&["image/png", "image/jpeg", "image/webp", "image/gif"]),
    ),
    required("bytes", &Count),
    required("width", &Positive),
    required("height", &Positive),
    optional("name", &Text),
    optional(
        "originalDimensions",
        &Object(&[required("width", &Positive), required("height", &Positive)]),
    ),
]);

static FILE: Shape = Object(&[
    required("attachmentId", &NonEmpty),
    required("name", &Text),
    required("bytes", &Count),
]);

/// A message that the model gets as the user's.
pub(super) static USER: Shape = Object(&[
    required("id", &NonEmpty),
    required("role", &Word(&["user"])),
    required("content", &CONTENT),
    required("source", &Tagged(&SOURCE)),
]);

static ASSISTANT: Shape = Object(&[
    required("turn", &Count),
    required("step", &Count),
    required(
        "message",
        &Object(&[
            required("id", &NonEmpty),
            required("role", &Word(&["assistant"])),
            required("content", &CONTENT),
            required("source", &Tagged(&MODEL)),
        ]),
    ),
    optional("usage", &USAGE),
    optional("interrupted", &True),
    optional("stream", &List(&AnyObject)),
]);

static RESULT: Shape = Object(&[
    required("id", &NonEmpty),
    required("role", &Word(&["user"])),
    required("content", &CONTENT),
    required("source", &Tagged(&TOOL)),
]);

static MODEL: Union = Union {
    tag: "kind",
    cases: &[("model", MODEL_MEMBERS)],
    open: false,
};

const MODEL_MEMBERS: &[Field] = &[
    required("provider", &NonEmpty),
    required("model", &NonEmpty),
    optional("replayState", &REPLAY),
];

static TOOL: Union = Union {
    tag: "kind",
    cases: &[("tool", &[required("callId", &NonEmpty)])],
    open: false,
};

static REPLAY: Shape = Object(&[required("response", &Any), optional("blocks", &List(&Any))]);

/// Who made a message; plugins may add kinds.
static SOURCE: Union = Union {
    tag: "kind",
    cases: &[
        (
            "user",
            &[optional("rpcId", &Text), optional("clientTimeZone", &Text)],
        ),
        ("model", MODEL_MEMBERS),
        ("tool", &[required("callId", &NonEmpty)]),
        (
            "plugin",
            &[
                required("plugin", &NonEmpty),
                optional(
                    "form",
                    &Word(&[
                        "instructions",
                        "catalog",
                        "snapshot",
                        "notice",
                        "relay",
                        "recall",
                    ]),
                ),
                optional(
                    "sections",
                    &List(&Object(&[required("name", &Text), required("text", &Text)])),
                ),
                optional("summary", &Text),
                optional("compactionId", &NonEmpty),
                optional("sourceCommandId", &NonEmpty),
            ],
        ),
        (
            "agent-instructions",
            &[
                required("form", &Word(&["instructions"])),
                optional(
                    "changes",
                    &List(&Object(&[
                        required("action", &Word(&["set", "replace", "remove"])),
                        required("scope", &Text),
                        required("path", &Text),
                        optional("digest", &Text),
                    ])),
                ),
                optional("baseline", &True),
                optional("baselineIdentity", &Text),
            ],
        ),
        (
            "session-reference",
            &[
                required("form", &Word(&["recall"])),
                required("version", &Shape::Is(1)),
                required("references", &List(&AnyObject)),
            ],
        ),
        (
            "team-message",
            &[
                required("teamId", &Text),
                required("messageId", &Text),
                required("senderId", &Text),
                required("senderName", &Text),
            ],
        ),
        (
            "goal",
            &[
                required("goalId", &Text),
                required("revision", &Count),
                required("round", &Count),
                optional("change", &Any),
            ],
        ),
        (
            "skill-invocation",
            &[
                required("name", &Text),
                required("form", &Word(&["instructions"])),
            ],
        ),
        (
            "skill-catalog",
            &[
                required("form", &Word(&["catalog"])),
                required(
                    "entries",
                    &List(&Object(&[
                        required("name", &Text),
                        required("description", &Text),
                    ])),
                ),
                optional("update", &True),
            ],
        ),
        ("coordinator", RELAY),
        ("subagent-report", RELAY),
        (
            "subagent-settled",
            &[
                required("form", &Word(&["notice"])),
                required("summary", &Text),
                required("senderSessionId", &Text),
            ],
        ),
        (
            "webhook",
            &[
                required("provider", &Text),
                required("source", &Text),
                required("deliveryId", &Text),
                required("ruleId", &Text),
                required("form", &Word(&["notice"])),
                required("summary", &Text),
            ],
        ),
    ],
    open: true,
};

const RELAY: &[Field] = &[
    required("form", &Word(&["relay"])),
    required("senderSessionId", &Text),
];

/// Why a turn ended; plugins may add kinds.
static REASON: Shape = Tagged(&Union {
    tag: "kind",
    cases: &[
        ("completed", &[]),
        ("blocked", &[]),
        ("max-tokens", &[]),
        ("interrupted", &[]),
        (
            "aborted",
            &[required(
                "reason",
                &Tagged(&Union {
                    tag: "kind",
                    cases: &[
                        ("user", &[]),
                        ("parent", &[]),
                        ("disposed", &[]),
                        ("legacy", &[]),
                        ("hook", &[required("reason", &Text)]),
                    ],
                    open: true,
                }),
            )],
        ),
        ("error", &[required("error", &FAILURE)]),
    ],
    open: true,
});

/// What a provider said when it failed.
pub(super) static FAILURE: Shape = Object(&[
    required("message", &Text),
    required("code", &NonEmpty),
    optional("status", &Within(100, 599)),
    optional("providerRetryAfterMs", &AboveZero),
    optional("requestId", &Text),
]);

static NAMED_ERROR: Shape = Object(&[required("name", &Text), required("code", &Text)]);

pub(super) static USAGE: Shape = Object(&[
    required("inputTokens", &Count),
    required("outputTokens", &Count),
    optional("totalTokens", &Count),
    optional("cacheReadTokens", &Count),
    optional("cacheWriteTokens", &Count),
    optional("reasoningTokens", &Count),
]);

static CHUNK: Union = Union {
    tag: "type",
    cases: &[
        (
            "block-start",
            &[required("index", &Count), required("blockType", &NonEmpty)],
        ),
        (
            "text-delta",
            &[required("index", &Count), required("text", &Text)],
        ),
        (
            "reasoning-delta",
            &[required("index", &Count), required("text", &Text)],
        ),
        (
            "tool-call-delta",
            &[
                required("index", &Count),
                required("id", &Text),
                optional("name", &Text),
                required("argumentsDelta", &Text),
            ],
        ),
        (
            "block-end",
            &[
                required("index", &Count),
                required("block", &Tagged(&BLOCK)),
            ],
        ),
        ("usage", &[required("usage", &USAGE)]),
        (
            "finish",
            &[
                required(
                    "reason",
                    &Tagged(&Union {
                        tag: "kind",
                        cases: &[
                            ("stop", &[]),
                            ("tool-calls", &[]),
                            ("max-tokens", &[]),
                            ("aborted", &[required("failure", &FAILURE)]),
                            ("error", &[required("failure", &FAILURE)]),
                        ],
                        open: true,
                    }),
                ),
                optional("replayState", &REPLAY),
            ],
        ),
    ],
    open: true,
};

static HEADER_EVENT: Shape = Object(&[
    required(
        "header",
        &Object(&[
            required(
                "config",
                &Object(&[
                    required("provider", &NonEmpty),
                    required("model", &NonEmpty),
                    optional("reasoningEffort", &NonEmpty),
                    optional("temperature", &Number),
                    optional("maxTokens", &Positive),
                    optional("stop", &List(&Text)),
                ]),
            ),
            optional(
                "adapterDefaults",
                &Object(&[
                    optional("reasoningEffort", &True),
                    optional("maxTokens", &True),
                ]),
            ),
            optional(
                "tools",
                &List(&Object(&[
                    required("name", &Text),
                    required("description", &Text),
                    required("parameters", &AnyObject),
                ])),
            ),
            optional("system", &Text),
        ]),
    ),
    required("reason", &Word(&["initial", "resume", "change", "series"])),
    optional("startsSeries", &True),
]);

static RETRY: Shape = Shape::Also(
    &Object(&[
        required("retryId", &NonEmpty),
        required("turn", &Count),
        required("step", &Count),
        required("provider", &NonEmpty),
        required("mode", &Word(&["normal", "always"])),
        required("policyKey", &Text),
        required("retry", &Positive),
        required("delayMs", &DELAY),
        required("failure", &FAILURE),
        optional("maxRetries", &Count),
    ]),
    |retry| {
        let count = |name| retry.get(name).and_then(|node| node.count());
        match (retry.names("mode", "normal"), count("maxRetries")) {
            (true, Option::Some(most)) if count("retry").is_some_and(|retry| retry <= most) => {
                Ok(())
            }
            (true, _) => {
                Err("must have `maxRetries` from `retry` on, because its mode is normal".into())
            }
            (false, None) => Ok(()),
            (false, _) => Err("has `maxRetries` although its mode is not normal".into()),
        }
    },
);

/// A delay that a timer can wait for, in ms.

static DELAY: Shape = Shape::Also(&Shape::NotNegative, |delay| {
    match delay.json().parse::<f64>() {
        Ok(delay) if delay <= 2_147_483_647.0 => Ok(()),
        _ => Err("must be at most 2147483647".into()),
    }
});

/// A count, or nothing.
pub(super) static COUNT_OR_NULL: Shape = Either(&Count, &Shape::Null);
