//! Transcripts that must not pass: each is broken in one way, and exactly that is reported.

use offshoot_test_support::transcript::{Violation, validate};
use serde_json::{Value, json};

use crate::transcript::{call, calls, result, says};

type Case = (&'static str, Value, Vec<Violation>);

fn check(cases: Vec<Case>) {
    for (name, transcript, expected) in cases {
        assert_eq!(validate(&transcript), expected, "{name}");
    }
}

/// A user, then one assistant message with this tool call, then its result.
fn with_call(call: Value) -> Value {
    let assistant = json!({ "role": "assistant", "content": "", "tool_calls": [call] });
    json!([says("user", "a"), assistant, result("1")])
}

/// A user, then this assistant message, then a user.
fn with_assistant(assistant: Value) -> Value {
    json!([says("user", "a"), assistant, says("user", "b")])
}

fn id(id: &str) -> String {
    id.to_owned()
}

#[test]
fn the_list_itself_can_be_broken() {
    use Violation::{NoMessages, NotAList, NothingToAnswer};
    check(vec![
        ("not a list", json!({ "role": "user" }), vec![NotAList]),
        ("absent", Value::Null, vec![NotAList]),
        ("empty", json!([]), vec![NoMessages]),
        (
            "ends with an answer",
            json!([says("user", "a"), says("assistant", "b")]),
            vec![NothingToAnswer {
                index: 1,
                role: id("assistant"),
            }],
        ),
        (
            "only instructions",
            json!([says("system", "a")]),
            vec![NothingToAnswer {
                index: 0,
                role: id("system"),
            }],
        ),
    ]);
}

#[test]
fn roles_and_their_order_can_be_broken() {
    use Violation::{FirstIsNotUser, LateSystem, NoRole, NotAnObject, OrphanResult, UnknownRole};
    check(vec![
        (
            "a string as message",
            json!(["a", says("user", "b")]),
            vec![NotAnObject { index: 0 }],
        ),
        (
            "no role",
            json!([{ "content": "a" }, says("user", "b")]),
            vec![NoRole { index: 0 }],
        ),
        (
            "a role that is a number",
            json!([{ "role": 1 }, says("user", "b")]),
            vec![NoRole { index: 0 }],
        ),
        (
            "an unknown role",
            json!([says("user", "a"), says("developer", "b"), says("user", "c")]),
            vec![UnknownRole {
                index: 1,
                role: id("developer"),
            }],
        ),
        (
            "an assistant first",
            json!([
                says("system", "a"),
                says("assistant", "b"),
                says("user", "c")
            ]),
            vec![FirstIsNotUser {
                index: 1,
                role: id("assistant"),
            }],
        ),
        (
            "a result first",
            json!([result("1"), says("user", "c")]),
            vec![
                FirstIsNotUser {
                    index: 0,
                    role: id("tool"),
                },
                OrphanResult {
                    index: 0,
                    id: id("1"),
                },
            ],
        ),
        (
            "instructions in the middle",
            json!([says("user", "a"), says("system", "b"), says("user", "c")]),
            vec![LateSystem { index: 1 }],
        ),
    ]);
}

#[test]
fn members_can_be_broken() {
    use Violation::{NullMember, UnknownMember};
    let unknown = |index, member| {
        vec![UnknownMember {
            index,
            member: id(member),
        }]
    };
    let null = |index, member| {
        vec![NullMember {
            index,
            member: id(member),
        }]
    };
    check(vec![
        (
            "unknown in a user",
            json!([{ "role": "user", "content": "a", "id": "m1" }]),
            unknown(0, "id"),
        ),
        (
            "tool calls of a user",
            json!([{ "role": "user", "content": "a", "tool_calls": [] }]),
            unknown(0, "tool_calls"),
        ),
        (
            "a tool name beside a result",
            json!([says("user", "a"), calls(&["1"]), { "role": "tool", "tool_call_id": "1", "content": "b", "name": "read" }]),
            unknown(2, "name"),
        ),
        (
            "an index in a tool call",
            with_call(
                json!({ "index": 0, "id": "1", "type": "function", "function": { "name": "read", "arguments": "" } }),
            ),
            unknown(1, "tool_calls[0].index"),
        ),
        (
            "something else in the function",
            with_call(
                json!({ "id": "1", "type": "function", "function": { "name": "read", "arguments": "", "strict": true } }),
            ),
            unknown(1, "tool_calls[0].function.strict"),
        ),
        (
            "null content",
            with_assistant(json!({ "role": "assistant", "content": null })),
            null(1, "content"),
        ),
        (
            "null tool calls",
            with_assistant(json!({ "role": "assistant", "content": "b", "tool_calls": null })),
            null(1, "tool_calls"),
        ),
        (
            "null deep in a part",
            json!([{ "role": "user", "content": [{ "type": "image_url", "image_url": { "url": "u", "detail": null } }] }]),
            null(0, "content[0].image_url.detail"),
        ),
    ]);
}

#[test]
fn contents_can_be_broken() {
    use Violation::{
        EmptyContent, NoContent, SilentAssistant, WrongContent, WrongPart, WrongReasoning,
    };
    let part = |part, problem| {
        vec![WrongPart {
            index: 0,
            part,
            problem,
        }]
    };
    check(vec![
        (
            "no content",
            json!([{ "role": "user" }]),
            vec![NoContent { index: 0 }],
        ),
        (
            "an empty user",
            json!([says("user", "")]),
            vec![EmptyContent { index: 0 }],
        ),
        (
            "no parts",
            json!([{ "role": "user", "content": [] }]),
            vec![EmptyContent { index: 0 }],
        ),
        (
            "empty instructions",
            json!([says("system", ""), says("user", "a")]),
            vec![EmptyContent { index: 0 }],
        ),
        (
            "a number from a user",
            json!([{ "role": "user", "content": 1 }]),
            vec![WrongContent {
                index: 0,
                expected: "a string or a list of parts",
            }],
        ),
        (
            "instructions in parts",
            json!([{ "role": "system", "content": [{ "type": "text", "text": "a" }] }, says("user", "b")]),
            vec![WrongContent {
                index: 0,
                expected: "a string",
            }],
        ),
        (
            "an assistant in parts",
            with_assistant(
                json!({ "role": "assistant", "content": [{ "type": "text", "text": "b" }] }),
            ),
            vec![WrongContent {
                index: 1,
                expected: "a string",
            }],
        ),
        (
            "a result that is an object",
            json!([says("user", "a"), calls(&["1"]), { "role": "tool", "tool_call_id": "1", "content": {} }]),
            vec![WrongContent {
                index: 2,
                expected: "a string",
            }],
        ),
        (
            "a result without content",
            json!([says("user", "a"), calls(&["1"]), { "role": "tool", "tool_call_id": "1" }]),
            vec![NoContent { index: 2 }],
        ),
        (
            "a part that is a string",
            json!([{ "role": "user", "content": ["a"] }]),
            part(0, "it is not an object"),
        ),
        (
            "a part without type",
            json!([{ "role": "user", "content": [{ "text": "a" }] }]),
            part(0, "it has no type"),
        ),
        (
            "an unknown part",
            json!([{ "role": "user", "content": [{ "type": "text", "text": "a" }, { "type": "video" }] }]),
            part(1, "its type is unknown"),
        ),
        (
            "an empty text part",
            json!([{ "role": "user", "content": [{ "type": "text", "text": "" }] }]),
            part(0, "it has nothing in it"),
        ),
        (
            "a text part with a url",
            json!([{ "role": "user", "content": [{ "type": "text", "text": "a", "url": "u" }] }]),
            part(0, "it has a member of another type"),
        ),
        (
            "an assistant that says nothing",
            with_assistant(says("assistant", "")),
            vec![SilentAssistant { index: 1 }],
        ),
        (
            "an assistant with a name only",
            with_assistant(json!({ "role": "assistant", "name": "bot" })),
            vec![SilentAssistant { index: 1 }],
        ),
        (
            "reasoning without a content string",
            with_assistant(json!({ "role": "assistant", "reasoning_content": "hm" })),
            vec![SilentAssistant { index: 1 }],
        ),
        (
            "reasoning that is a list",
            with_assistant(
                json!({ "role": "assistant", "content": "b", "reasoning_content": ["hm"] }),
            ),
            vec![WrongReasoning { index: 1 }],
        ),
    ]);
}

#[test]
fn tool_calls_can_be_malformed() {
    use Violation::{OrphanResult, WrongToolCall, WrongToolCalls};
    let wrong = |problem| {
        vec![WrongToolCall {
            index: 1,
            call: 0,
            problem,
        }]
    };
    let function = json!({ "name": "read", "arguments": "{}" });
    check(vec![
        (
            "an empty list",
            with_assistant(json!({ "role": "assistant", "content": "b", "tool_calls": [] })),
            vec![WrongToolCalls { index: 1 }],
        ),
        (
            "an object instead of a list",
            with_assistant(json!({ "role": "assistant", "content": "b", "tool_calls": {} })),
            vec![WrongToolCalls { index: 1 }],
        ),
        (
            "another type",
            with_call(json!({ "id": "1", "type": "custom", "function": function })),
            wrong("its type is not `function`"),
        ),
        (
            "no type",
            with_call(json!({ "id": "1", "function": function })),
            wrong("its type is not `function`"),
        ),
        (
            "an empty name",
            with_call(
                json!({ "id": "1", "type": "function", "function": { "name": "", "arguments": "{}" } }),
            ),
            wrong("its function has no name"),
        ),
        (
            "arguments that are an object",
            with_call(
                json!({ "id": "1", "type": "function", "function": { "name": "read", "arguments": {} } }),
            ),
            wrong("its arguments are not a string"),
        ),
        (
            "no arguments",
            with_call(json!({ "id": "1", "type": "function", "function": { "name": "read" } })),
            wrong("its arguments are not a string"),
        ),
        (
            "no id, so that its result belongs to nobody",
            with_call(json!({ "type": "function", "function": function })),
            vec![
                WrongToolCall {
                    index: 1,
                    call: 0,
                    problem: "it has no id",
                },
                OrphanResult {
                    index: 2,
                    id: id("1"),
                },
            ],
        ),
        (
            "a call that is a string",
            with_assistant(json!({ "role": "assistant", "content": "b", "tool_calls": ["read"] })),
            wrong("it is not an object"),
        ),
    ]);
}

#[test]
fn the_pairing_of_calls_and_results_can_be_broken() {
    use Violation::{
        CallIdStillPending, DuplicateCallId, DuplicateResult, MisplacedResult, NothingToAnswer,
        OrphanResult, ResultWithoutId, UnansweredCall,
    };
    let unanswered = |index, call| UnansweredCall {
        index,
        id: id(call),
    };
    check(vec![
        (
            "a user instead of the result",
            json!([says("user", "a"), calls(&["1"]), says("user", "b")]),
            vec![unanswered(1, "1")],
        ),
        (
            "one of two results is missing",
            json!([
                says("user", "a"),
                calls(&["1", "2"]),
                result("1"),
                says("user", "b")
            ]),
            vec![unanswered(1, "2")],
        ),
        (
            "one of two results is missing at the end",
            json!([says("user", "a"), calls(&["1", "2"]), result("2")]),
            vec![unanswered(1, "1")],
        ),
        (
            "the request ends with the call",
            json!([says("user", "a"), calls(&["1"])]),
            vec![
                unanswered(1, "1"),
                NothingToAnswer {
                    index: 1,
                    role: id("assistant"),
                },
            ],
        ),
        (
            "an assistant instead of the result",
            json!([
                says("user", "a"),
                calls(&["1"]),
                says("assistant", "b"),
                says("user", "c")
            ]),
            vec![unanswered(1, "1")],
        ),
        (
            "a user between call and result",
            json!([
                says("user", "a"),
                calls(&["1"]),
                says("user", "b"),
                result("1")
            ]),
            vec![
                unanswered(1, "1"),
                MisplacedResult {
                    index: 3,
                    id: id("1"),
                },
            ],
        ),
        (
            "a user between two results",
            json!([
                says("user", "a"),
                calls(&["1", "2"]),
                result("1"),
                says("user", "b"),
                result("2")
            ]),
            vec![
                unanswered(1, "2"),
                MisplacedResult {
                    index: 4,
                    id: id("2"),
                },
            ],
        ),
        (
            "a result of the step before",
            json!([
                says("user", "a"),
                calls(&["1"]),
                result("1"),
                calls(&["2"]),
                result("2"),
                result("1")
            ]),
            vec![MisplacedResult {
                index: 5,
                id: id("1"),
            }],
        ),
        (
            "a result that nobody called",
            json!([says("user", "a"), calls(&["1"]), result("1"), result("x")]),
            vec![OrphanResult {
                index: 3,
                id: id("x"),
            }],
        ),
        (
            "a result after a plain answer",
            json!([says("user", "a"), says("assistant", "b"), result("x")]),
            vec![OrphanResult {
                index: 2,
                id: id("x"),
            }],
        ),
        (
            "a result twice",
            json!([says("user", "a"), calls(&["1"]), result("1"), result("1")]),
            vec![DuplicateResult {
                index: 3,
                id: id("1"),
            }],
        ),
        (
            "a result again after a user",
            json!([
                says("user", "a"),
                calls(&["1"]),
                result("1"),
                says("user", "b"),
                result("1")
            ]),
            vec![MisplacedResult {
                index: 4,
                id: id("1"),
            }],
        ),
        (
            "a result without an id",
            json!([says("user", "a"), calls(&["1"]), result("1"), { "role": "tool", "content": "b" }]),
            vec![ResultWithoutId { index: 3 }],
        ),
        (
            "an id twice in one message",
            json!([
                says("user", "a"),
                { "role": "assistant", "content": "", "tool_calls": [call("1"), call("1")] },
                result("1"),
            ]),
            vec![DuplicateCallId {
                index: 1,
                id: id("1"),
            }],
        ),
        (
            "an id again while it is pending",
            json!([says("user", "a"), calls(&["1"]), calls(&["1"]), result("1")]),
            vec![
                unanswered(1, "1"),
                CallIdStillPending {
                    index: 2,
                    id: id("1"),
                    pending: 1,
                },
            ],
        ),
    ]);
}
