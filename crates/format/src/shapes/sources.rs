//! Who made a message (`reference/persistence.md` §3.6).

use super::Shape::{Also, Any, AnyObject, Count, List, NonEmpty, Object, Tagged, Text, True, Word};
use super::{Field, Shape, Union, optional, required, until};
use crate::version::Version;

/// The model that made a message.
pub(super) static MODEL: Union = Union {
    tag: "kind",
    cases: &[("model", MODEL_MEMBERS)],
    open: false,
};

const MODEL_MEMBERS: &[Field] = &[
    required("provider", &NonEmpty),
    required("model", &NonEmpty),
    optional("replayState", &REPLAY),
];

/// The call that a message answers.
pub(super) static TOOL: Union = Union {
    tag: "kind",
    cases: &[("tool", &[required("callId", &NonEmpty)])],
    open: false,
};

/// What a provider wants to see again.
pub(super) static REPLAY: Shape =
    Object(&[required("response", &Any), optional("blocks", &List(&Any))]);

/// Who made a message: a plugin, or one of those that have a kind of their own.
pub(super) static SOURCE: Shape = Also(&Tagged(&KINDS), |source| {
    if !source.names("kind", "plugin") {
        return Ok(());
    }
    let has = |name| source.get(name).is_some();
    let is_compact = source.names("plugin", "compact");
    for (name, form) in [("sections", "snapshot"), ("summary", "notice")] {
        if has(name) != source.names("form", form) {
            return Err(format!(
                "must have `{name}` exactly when its form is {form}"
            ));
        }
    }
    if has("compactionId") != is_compact {
        return Err("must have `compactionId` exactly when the plugin is compact".into());
    }
    match has("sourceCommandId") && !is_compact {
        true => Err("has `sourceCommandId` although the plugin is not compact".into()),
        false => Ok(()),
    }
});

/// The kinds of sources; plugins may add some.
static KINDS: Union = Union {
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
                optional("form", &FORM),
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
                required(
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
                until(Version::V1, optional("change", &Any)),
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

/// What a plugin's message is to the model.
static FORM: Shape = Word(&[
    "instructions",
    "catalog",
    "snapshot",
    "notice",
    "relay",
    "recall",
]);

const RELAY: &[Field] = &[
    required("form", &Word(&["relay"])),
    required("senderSessionId", &Text),
];
