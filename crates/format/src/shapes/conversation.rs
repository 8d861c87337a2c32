//! What a conversation consists of: turns, messages, chunks, requests, calls.

use super::Shape::{
    AboveZero, Also, Any, AnyObject, Bool, Count, Either, List, NonEmpty, Number, Object, One,
    Positive, Tagged, Text, True, Within, Word,
};
use super::sources::{MODEL, REPLAY, SOURCE, TOOL};
use super::{Field, Shape, Union, optional, required, since};
use crate::json::Node;
use crate::version::Version;

/// The payload of each type.
pub(super) static PAYLOADS: &[(&str, &Shape)] = &[
    ("turn/start", &Object(&[required("turn", &Count)])),
    (
        "turn/end",
        &Object(&[required("turn", &Count), required("reason", &REASON)]),
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
        &Also(
            &Object(&[
                required("turn", &Count),
                required("step", &Count),
                required("message", &RESULT),
                optional("error", &NAMED_ERROR),
                optional("meta", &Any),
            ]),
            |result| match result.get("error").is_some() && !is_error(result) {
                true => Err("has an `error`, but its block does not say `isError`".into()),
                false => Ok(()),
            },
        ),
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
    (
        "session/end-seed",
        &Object(&[since(Version::V2, optional("inherited", &True))]),
    ),
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
const AT: &[Field] = &[required("turn", &Count), required("step", &Count)];

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
    required("source", &SOURCE),
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
    since(Version::V2, required("stream", &List(&AnyObject))),
]);

/// A message around the block that says what a tool returned.
static RESULT: Shape = Also(
    &Object(&[
        required("id", &NonEmpty),
        required("role", &Word(&["user"])),
        required(
            "content",
            &Also(&One(&Tagged(&BLOCK)), |content| {
                let mut blocks = content.items().into_iter();
                match blocks.all(|block| block.names("type", "tool-result")) {
                    true => Ok(()),
                    false => Err("must be one `tool-result` block".into()),
                }
            }),
        ),
        required("source", &Tagged(&TOOL)),
    ]),
    |message| {
        let block = message.get("content").and_then(|list| list.items().pop());
        let answered = block.and_then(|block| block.get("toolCallId"));
        let source = message
            .get("source")
            .and_then(|source| source.get("callId"));
        match answered.zip(source) {
            Option::Some((answered, source)) if answered.spelling() == source.spelling() => Ok(()),
            _ => {
                Err("must name one call in `source.callId` and in `toolCallId` of its block".into())
            }
        }
    },
);

/// Whether the block of a tool result says that the tool failed.
fn is_error(result: Node<'_>) -> bool {
    let content = result
        .get("message")
        .and_then(|message| message.get("content"));
    let block = content.and_then(|content| content.items().pop());
    let is_error = block.and_then(|block| block.get("isError"));
    is_error.is_some_and(|is_error| is_error.json() == "true")
}

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
                    open: false,
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
                        open: false,
                    }),
                ),
                optional("replayState", &REPLAY),
            ],
        ),
    ],
    open: false,
};

static HEADER_EVENT: Shape = Object(&[
    required("header", &Also(&REQUEST, adapter_defaults)),
    required("reason", &Word(&["initial", "resume", "change", "series"])),
    optional("startsSeries", &True),
]);

static REQUEST: Shape = Object(&[
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
]);

/// What the adapter filled in is in the configuration.
fn adapter_defaults(request: Node<'_>) -> Result<(), String> {
    let has = |at, name| request.get(at).is_some_and(|node| node.get(name).is_some());
    let mut names = ["reasoningEffort", "maxTokens"].into_iter();
    match names.find(|name| has("adapterDefaults", name) && !has("config", name)) {
        Option::Some(name) => Err(format!(
            "has `{name}` in `adapterDefaults`, but not in `config`"
        )),
        None => Ok(()),
    }
}

static RETRY: Shape = Also(
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
static DELAY: Shape = Also(&Shape::NotNegative, |delay| {
    match delay.json().parse::<f64>() {
        Ok(delay) if delay <= 2_147_483_647.0 => Ok(()),
        _ => Err("must be at most 2147483647".into()),
    }
});

/// A count, or nothing.
pub(super) static COUNT_OR_NULL: Shape = Either(&Count, &Shape::Null);
