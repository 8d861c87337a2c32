//! Bodies of Messages that must not pass: each is broken in one way, and exactly that is reported.

use offshoot_test_support::transcript::messages::{Violation, validate};
use serde_json::{Value, json};

type Case = (&'static str, Value, Vec<Violation>);

fn check(cases: Vec<Case>) {
    for (name, body, expected) in cases {
        assert_eq!(validate(&body), expected, "{name}");
    }
}

/// A sound body with these messages.
fn with(messages: Value) -> Value {
    json!({ "model": "m", "max_tokens": 4096, "messages": messages })
}

/// A sound body with this member as well.
fn having(member: &str, value: Value) -> Value {
    let mut body = with(json!([user(json!([text("a")]))]));
    body[member] = value;
    body
}

fn user(content: Value) -> Value {
    json!({ "role": "user", "content": content })
}

fn assistant(content: Value) -> Value {
    json!({ "role": "assistant", "content": content })
}

fn text(text: &str) -> Value {
    json!({ "type": "text", "text": text })
}

fn thinking() -> Value {
    json!({ "type": "thinking", "thinking": "hm", "signature": "s" })
}

fn call(id: &str) -> Value {
    json!({ "type": "tool_use", "id": id, "name": "ls", "input": {} })
}

fn result(id: &str) -> Value {
    json!({ "type": "tool_result", "tool_use_id": id, "content": [text("out")] })
}

fn image(media_type: &str, data: &str) -> Value {
    json!({ "type": "image", "source": { "type": "base64", "media_type": media_type, "data": data } })
}

/// What a user says, then this of the assistant, then this of the user.
fn turns(said: Value, then: Value) -> Value {
    with(json!([
        user(json!([text("a")])),
        assistant(said),
        user(then)
    ]))
}

fn wrong(index: usize, problem: &'static str) -> Vec<Violation> {
    vec![Violation::WrongBlock {
        index,
        block: 0,
        problem,
    }]
}

fn setting(member: &'static str, expected: &'static str) -> Vec<Violation> {
    vec![Violation::WrongSetting { member, expected }]
}

#[test]
fn a_request_with_everything_in_it_is_sound() {
    let mut body = turns(
        json!([thinking(), text("I look."), call("c1"), call("c2")]),
        json!([
            result("c1"),
            result("c2"),
            text("go on"),
            image("image/png", "AAAA")
        ]),
    );
    body["system"] =
        json!([{ "type": "text", "text": "be brief", "cache_control": { "type": "ephemeral" } }]);
    body["tools"] =
        json!([{ "name": "ls", "description": "list", "input_schema": { "type": "object" } }]);
    body["thinking"] = json!({ "type": "enabled", "budget_tokens": 1024 });
    body["temperature"] = json!(1);
    body["stop_sequences"] = json!(["END"]);
    body["stream"] = json!(true);
    assert_eq!(validate(&body), []);
}

#[test]
fn the_list_and_the_order_of_messages_can_be_broken() {
    use Violation::{
        FirstIsNotUser, NoContent, NoMessages, NotAnObject, NothingToAnswer, SameRole,
        WrongMessage, WrongRole,
    };
    let said = || user(json!([text("a")]));
    check(vec![
        ("no object", json!([]), vec![NotAnObject]),
        ("no list", with(json!("hi")), vec![NoMessages]),
        ("nothing in it", with(json!([])), vec![NoMessages]),
        (
            "no message",
            with(json!(["hi", said()])),
            vec![WrongMessage { index: 0 }],
        ),
        (
            "another role",
            with(json!([{ "role": "system", "content": "a" }, said()])),
            vec![WrongRole { index: 0 }],
        ),
        (
            "the assistant begins",
            with(json!([assistant(json!([text("a")])), said()])),
            vec![FirstIsNotUser { index: 0 }],
        ),
        (
            "one side twice",
            with(json!([said(), said()])),
            vec![SameRole { index: 1 }],
        ),
        (
            "ends with the assistant",
            with(json!([said(), assistant(json!([text("a")]))])),
            vec![NothingToAnswer { index: 1 }],
        ),
        (
            "no content",
            with(json!([user(json!([]))])),
            vec![NoContent { index: 0 }],
        ),
        (
            "white space",
            with(json!([user(json!(" "))])),
            vec![NoContent { index: 0 }],
        ),
    ]);
}

#[test]
fn blocks_can_be_broken() {
    use Violation::{EmptyText, WrongSide};
    let said = |block: Value| with(json!([user(json!([block]))]));
    let answered = |block: Value| turns(json!([block, text("so")]), json!([text("b")]));
    let side = |index, kind: &str| {
        vec![WrongSide {
            index,
            block: 0,
            kind: kind.to_owned(),
        }]
    };
    let sign = "thinking without a signature, or without a text";
    check(vec![
        (
            "no object",
            said(json!("a")),
            wrong(0, "it is not an object"),
        ),
        (
            "of no type",
            said(json!({ "text": "a" })),
            wrong(0, "its type is missing or unknown"),
        ),
        (
            "white space",
            said(text(" \n")),
            vec![EmptyText { index: 0, block: 0 }],
        ),
        (
            "a member of another",
            said(json!({ "type": "text", "text": "a", "id": "b" })),
            vec![Violation::UnknownMember {
                path: "messages[0].content[0].id".into(),
            }],
        ),
        (
            "null",
            said(json!({ "type": "text", "text": "a", "cache_control": null })),
            vec![
                Violation::NullMember {
                    path: "messages[0].content[0].cache_control".into(),
                },
                Violation::WrongMark {
                    path: "messages[0].content[0].cache_control".into(),
                },
            ],
        ),
        ("thinking of a user", said(thinking()), side(0, "thinking")),
        (
            "a picture of the assistant",
            answered(image("image/png", "AAAA")),
            side(1, "image"),
        ),
        (
            "unsigned",
            answered(json!({ "type": "thinking", "thinking": "hm", "signature": "" })),
            wrong(1, sign),
        ),
        (
            "thinking without text",
            answered(json!({ "type": "thinking", "signature": "s" })),
            wrong(1, sign),
        ),
        (
            "redacted and empty",
            answered(json!({ "type": "redacted_thinking", "data": "" })),
            wrong(1, "thinking that cannot be read and has no data"),
        ),
        (
            "thinking last",
            turns(json!([text("so"), thinking()]), json!([text("b")])),
            vec![Violation::ThinkingLast { index: 1 }],
        ),
        (
            "a picture by address",
            said(json!({ "type": "image", "source": { "type": "url", "url": "x" } })),
            wrong(0, "the picture is not in base64"),
        ),
        (
            "a drawing",
            said(image("image/svg+xml", "AAAA")),
            wrong(0, "the picture is of a type that is not shown"),
        ),
        (
            "no base64",
            said(image("image/png", "A-A")),
            wrong(0, "the data of the picture is not base64"),
        ),
    ]);
}

#[test]
fn calls_and_results_can_be_broken() {
    use Violation::{DuplicateCallId, DuplicateResult, LateResult, OrphanResult, UnansweredCall};
    let id = || "c1".to_owned();
    let named = |id: &str, name: &str, input: Value| json!({ "type": "tool_use", "id": id, "name": name, "input": input });
    let answered = |call: Value, id: &str| turns(json!([call]), json!([result(id)]));
    let two_rounds = with(json!([
        user(json!([text("a")])),
        assistant(json!([call("c1")])),
        user(json!([result("c1")])),
        assistant(json!([call("c1")])),
        user(json!([result("c1")])),
    ]));
    check(vec![
        (
            "id",
            answered(named("a.b", "ls", json!({})), "a.b"),
            wrong(1, "its id is not made of letters, digits, `_` and `-`"),
        ),
        (
            "name",
            answered(named("c1", "a b", json!({})), "c1"),
            wrong(
                1,
                "its name is not made of up to 128 letters, digits, `_` and `-`",
            ),
        ),
        (
            "input",
            answered(named("c1", "ls", json!("{}")), "c1"),
            wrong(1, "its input is not an object"),
        ),
        (
            "an id twice",
            two_rounds,
            vec![DuplicateCallId { index: 3, id: id() }],
        ),
        (
            "no result",
            turns(json!([call("c1")]), json!([text("b")])),
            vec![UnansweredCall { index: 1, id: id() }],
        ),
        (
            "no message for the result",
            with(json!([
                user(json!([text("a")])),
                assistant(json!([call("c1")]))
            ])),
            vec![
                UnansweredCall { index: 1, id: id() },
                Violation::NothingToAnswer { index: 1 },
            ],
        ),
        (
            "nobody called",
            turns(json!([text("so")]), json!([result("c1")])),
            vec![OrphanResult { index: 2, id: id() }],
        ),
        (
            "two results",
            turns(json!([call("c1")]), json!([result("c1"), result("c1")])),
            vec![DuplicateResult { index: 2, id: id() }],
        ),
        (
            "behind a text",
            turns(json!([call("c1")]), json!([text("b"), result("c1")])),
            vec![LateResult { index: 2, block: 1 }],
        ),
        (
            "a call in a result",
            turns(
                json!([call("c1")]),
                json!([{ "type": "tool_result", "tool_use_id": "c1", "content": [call("c2")] }]),
            ),
            wrong(2, "a result holds something else than text and pictures"),
        ),
        (
            "a result that is no list",
            turns(
                json!([call("c1")]),
                json!([{ "type": "tool_result", "tool_use_id": "c1", "content": 1 }]),
            ),
            wrong(2, "its content is no list of blocks"),
        ),
        (
            "a result of no call",
            with(json!([user(
                json!([{ "type": "tool_result", "content": "a" }])
            )])),
            wrong(0, "it names no call"),
        ),
        (
            "an error that is neither",
            turns(
                json!([call("c1")]),
                json!([{ "type": "tool_result", "tool_use_id": "c1", "content": "a", "is_error": 1 }]),
            ),
            wrong(2, "`is_error` is neither true nor false"),
        ),
    ]);
}

#[test]
fn settings_can_be_broken() {
    let conflict = |first, second| vec![Violation::Conflict { first, second }];
    let mut hot = having("thinking", json!({ "type": "adaptive" }));
    hot["temperature"] = json!(0.5);
    let mut goes_on = turns(json!([call("c1")]), json!([result("c1")]));
    goes_on["thinking"] = json!({ "type": "enabled", "budget_tokens": 1024 });
    let rest = "a number of at least 1";
    check(vec![
        (
            "model",
            having("model", json!("")),
            setting("model", "a name"),
        ),
        (
            "limit",
            having("max_tokens", json!(0)),
            setting("max_tokens", rest),
        ),
        (
            "stream",
            having("stream", json!(1)),
            setting("stream", "true or false"),
        ),
        (
            "temperature",
            having("temperature", json!(1.5)),
            setting("temperature", "a number from 0 to 1"),
        ),
        (
            "stop",
            having("stop_sequences", json!(["\n"])),
            setting(
                "stop_sequences",
                "a list of texts, none of white space alone",
            ),
        ),
        (
            "thinking",
            having("thinking", json!({ "type": "hard" })),
            setting("thinking", "enabled, disabled or adaptive"),
        ),
        (
            "a small budget",
            having("thinking", json!({ "type": "enabled", "budget_tokens": 9 })),
            setting("thinking.budget_tokens", "a number of at least 1024"),
        ),
        (
            "a large budget",
            having(
                "thinking",
                json!({ "type": "enabled", "budget_tokens": 4096 }),
            ),
            conflict("thinking.budget_tokens", "max_tokens"),
        ),
        ("hot thinking", hot, conflict("thinking", "temperature")),
        (
            "a budget after an answer without thinking",
            goes_on,
            vec![Violation::GoesOnWithoutThinking { index: 1 }],
        ),
        (
            "a foreign member",
            having("messages_too", json!(1)),
            vec![Violation::UnknownMember {
                path: "messages_too".into(),
            }],
        ),
        (
            "an empty system prompt",
            having("system", json!([text(" ")])),
            vec![Violation::WrongSystem { block: 0 }],
        ),
    ]);
}

#[test]
fn tools_and_marks_can_be_broken() {
    let tool = |name: &str, schema: Value| json!({ "name": name, "input_schema": schema });
    let object = || json!({ "type": "object" });
    let wrong = |problem| vec![Violation::WrongTool { tool: 0, problem }];
    let marked = |mark: Value| json!({ "type": "text", "text": "a", "cache_control": mark });
    let five: Vec<_> = (0..5)
        .map(|_| marked(json!({ "type": "ephemeral" })))
        .collect();
    check(vec![
        (
            "no list",
            having("tools", json!({})),
            setting("tools", "a list"),
        ),
        (
            "no tool",
            having("tools", json!([1])),
            wrong("it is not an object"),
        ),
        (
            "name",
            having("tools", json!([tool("a b", object())])),
            wrong("its name is not made of up to 128 letters, digits, `_` and `-`"),
        ),
        (
            "schema",
            having("tools", json!([tool("ls", json!({ "type": "string" }))])),
            wrong("its schema is not one of an object"),
        ),
        (
            "one name twice",
            having("tools", json!([tool("ls", object()), tool("ls", object())])),
            vec![Violation::DuplicateTool {
                tool: 1,
                name: "ls".into(),
            }],
        ),
        (
            "too many marks",
            having("messages", json!([user(json!(five))])),
            vec![Violation::TooManyMarks { count: 5 }],
        ),
        (
            "another mark",
            having(
                "messages",
                json!([user(json!([marked(json!({ "type": "forever" }))]))]),
            ),
            vec![Violation::WrongMark {
                path: "messages[0].content[0].cache_control".into(),
            }],
        ),
        (
            "marked thinking",
            turns(
                json!([
                    { "type": "thinking", "thinking": "hm", "signature": "s", "cache_control": { "type": "ephemeral" } },
                    text("so"),
                ]),
                json!([text("b")]),
            ),
            vec![Violation::UnknownMember {
                path: "messages[1].content[0].cache_control".into(),
            }],
        ),
    ]);
}
