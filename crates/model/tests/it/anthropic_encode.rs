//! The exact bytes of Messages requests.

use std::sync::Arc;

use offshoot_model::{
    CallConfig, ContentBlock, Message, MessageSource, MessagesDialect, ModelRequest, Pictures,
    Protocol, RawJson, ReplayState, Role, ToolSpec,
};
use offshoot_test_support::transcript::messages::validate;
use proptest::prelude::*;
use serde_json::Value;

const MARK: &str = r#","cache_control":{"type":"ephemeral"}"#;

fn message(role: Role, content: Vec<ContentBlock>) -> Message {
    Message {
        content,
        ..Message::text("m", role, "", MessageSource::user())
    }
}

fn says(role: Role, text: &str) -> Message {
    message(role, vec![ContentBlock::text(text)])
}

fn reasoning(text: &str) -> ContentBlock {
    ContentBlock::Reasoning { text: text.into() }
}

fn call(id: &str, arguments: &str) -> ContentBlock {
    ContentBlock::ToolCall {
        id: id.into(),
        name: "ls".into(),
        arguments: arguments.into(),
    }
}

fn result(id: &str, text: &str) -> Message {
    Message::tool_result("r", id, vec![ContentBlock::text(text)])
}

/// An answer of `claude` with this replay state.
fn answer(content: Vec<ContentBlock>, state: Option<&str>) -> Message {
    let source = MessageSource::Model {
        provider: "claude".into(),
        model: "m".into(),
        replay_state: state.map(|state| ReplayState::new(RawJson::parse(state).unwrap())),
    };
    Message {
        source,
        ..message(Role::Assistant, content)
    }
}

fn request(messages: Vec<Message>) -> ModelRequest {
    ModelRequest {
        config: CallConfig {
            provider: "claude".into(),
            model: "claude-opus-4-6".into(),
            max_tokens: Some(8_192),
            ..CallConfig::default()
        },
        messages: messages.into_iter().map(Arc::new).collect(),
        ..ModelRequest::default()
    }
}

fn body_in(request: &ModelRequest, dialect: MessagesDialect) -> String {
    let body = Protocol::Messages(dialect).encode(request, Pictures::Named);
    String::from_utf8(body.unwrap()).unwrap()
}

fn body(request: &ModelRequest) -> String {
    body_in(request, MessagesDialect::anthropic())
}

/// The `messages` of the body, without marks.
fn turns(messages: Vec<Message>) -> String {
    turns_in(messages, MessagesDialect::anthropic())
}

fn turns_in(messages: Vec<Message>, dialect: MessagesDialect) -> String {
    let body = body_in(&request(messages), dialect).replace(MARK, "");
    let from = body.find(r#""messages":"#).unwrap() + r#""messages":"#.len();
    body[from..]
        .strip_suffix(r#","stream":true}"#)
        .unwrap()
        .to_owned()
}

fn user(blocks: &str) -> String {
    format!(r#"{{"role":"user","content":[{blocks}]}}"#)
}

fn assistant(blocks: &str) -> String {
    format!(r#"{{"role":"assistant","content":[{blocks}]}}"#)
}

fn text(text: &str) -> String {
    format!(r#"{{"type":"text","text":"{text}"}}"#)
}

#[test]
fn a_whole_request_has_the_documented_members_in_the_documented_order() {
    let request = ModelRequest {
        config: CallConfig {
            reasoning_effort: Some("high".into()),
            temperature: Some(1.0),
            stop: Some(vec!["END".into()]),
            ..request(vec![]).config
        },
        messages: vec![
            says(Role::System, "be brief").into(),
            says(Role::User, "hi").into(),
        ],
        tools: vec![ToolSpec {
            name: "ls".into(),
            description: "list".into(),
            parameters: RawJson::parse(r#"{ "type": "object", "n": 1.0 }"#).unwrap(),
            defer_loading: None,
        }],
        session_id: None,
    };
    let expected = format!(
        concat!(
            r#"{{"model":"claude-opus-4-6","max_tokens":8192,"#,
            r#""tools":[{{"name":"ls","description":"list","input_schema":{{ "type": "object", "n": 1.0 }}{mark}}}],"#,
            r#""system":[{{"type":"text","text":"be brief"{mark}}}],"#,
            r#""messages":[{{"role":"user","content":[{{"type":"text","text":"hi"{mark}}}]}}],"#,
            r#""temperature":1,"stop_sequences":["END"],"thinking":{{"type":"adaptive","display":"summarized"}},"#,
            r#""output_config":{{"effort":"high"}},"stream":true}}"#,
        ),
        mark = MARK
    );
    assert_eq!(body(&request), expected);
    assert_eq!(validate(&serde_json::from_str(&expected).unwrap()), []);
}

#[test]
fn what_is_not_said_is_left_out_but_for_the_limit() {
    let bare = ModelRequest::default();
    assert_eq!(
        body(&bare),
        r#"{"model":"","max_tokens":32000,"messages":[],"stream":true}"#
    );
}

#[test]
fn an_effort_is_a_budget_a_word_or_a_switch() {
    let said = |model: &str, effort: &str, max_tokens: u64, dialect| {
        let mut request = request(vec![]);
        request.config.model = model.into();
        request.config.reasoning_effort = Some(effort.into());
        request.config.max_tokens = Some(max_tokens);
        let body = body_in(&request, dialect);
        let from = body.find(r#""messages":[]"#).unwrap() + r#""messages":[]"#.len();
        body[from..]
            .strip_suffix(r#","stream":true}"#)
            .unwrap()
            .to_owned()
    };
    let claude = |model, effort, max| said(model, effort, max, MessagesDialect::anthropic());
    let budget =
        |tokens: u64| format!(r#","thinking":{{"type":"enabled","budget_tokens":{tokens}}}"#);
    assert_eq!(claude("claude-opus-4-5", "low", 32_000), budget(4_096));
    assert_eq!(claude("claude-opus-4-5", "medium", 32_000), budget(10_240));
    assert_eq!(claude("claude-opus-4-5", "max", 32_000), budget(30_720));
    assert_eq!(claude("claude-opus-4-5", "max", 5_000), budget(3_976));
    assert_eq!(claude("claude-opus-4-5", "max", 2_000), "");
    assert_eq!(claude("claude-opus-4-5", "off", 32_000), "");
    assert_eq!(claude("claude-3-5-haiku", "high", 8_192), "");
    let adaptive = r#","thinking":{"type":"adaptive","display":"summarized"},"output_config":{"effort":"low"}"#;
    assert_eq!(claude("claude-opus-4-6", "low", 32_000), adaptive);
    assert_eq!(claude("claude-newer", "low", 32_000), adaptive);
    let deepseek = |effort| said("deepseek-flash", effort, 9, MessagesDialect::deepseek());
    assert_eq!(
        deepseek("max"),
        r#","thinking":{"type":"enabled"},"output_config":{"effort":"max"}"#
    );
    assert_eq!(deepseek("off"), r#","thinking":{"type":"disabled"}"#);
}

#[test]
fn neighbours_of_one_side_are_one_turn_and_results_come_first_in_it() {
    let history = vec![
        says(Role::User, "a"),
        says(Role::User, "b"),
        message(Role::Assistant, vec![call("c1", "{}"), call("c2", "{}")]),
        result("c1", "1"),
        says(Role::Developer, "note"),
        result("c2", "2"),
        says(Role::User, "c"),
        says(Role::Assistant, "d"),
        says(Role::Assistant, "e"),
        says(Role::User, "f"),
    ];
    let used = |id: &str| format!(r#"{{"type":"tool_use","id":"{id}","name":"ls","input":{{}}}}"#);
    let result = |id: &str, said: &str| {
        format!(
            r#"{{"type":"tool_result","tool_use_id":"{id}","content":[{}]}}"#,
            text(said)
        )
    };
    let expected = [
        user(&[text("a"), text("b")].join(",")),
        assistant(&[used("c1"), used("c2")].join(",")),
        user(
            &[
                result("c1", "1"),
                result("c2", "2"),
                text(r"<system-message>\nnote\n</system-message>"),
                text("c"),
            ]
            .join(","),
        ),
        assistant(&[text("d"), text("e")].join(",")),
        user(&text("f")),
    ];
    assert_eq!(turns(history), format!("[{}]", expected.join(",")));
}

#[test]
fn arguments_stay_to_the_letter_and_what_is_no_object_is_shown_as_it_is() {
    let input = |arguments: &str| {
        let history = vec![
            says(Role::User, "a"),
            message(Role::Assistant, vec![call("c", arguments)]),
            result("c", "1"),
        ];
        let turns = turns(history);
        let from = turns.find(r#""input":"#).unwrap() + r#""input":"#.len();
        let to = turns
            .find(r#"}]},{"role":"user","content":[{"type":"tool_result""#)
            .unwrap();
        turns[from..to].to_owned()
    };
    let exact = r#"{ "b": 1.0, "a": "\u00e9", "b": 1e2 }"#;
    assert_eq!(input(exact), exact);
    assert_eq!(input(" {} \n"), "{}");
    assert_eq!(input(""), "{}");
    assert_eq!(input("[1]"), r#"{"unreadable_arguments":"[1]"}"#);
    assert_eq!(input(r#"{"a"#), r#"{"unreadable_arguments":"{\"a"}"#);
    assert_eq!(input(r#"{"a":"\ud800"}"#), r#"{"a":"\ufffd"}"#);
}

const STATE: &str = concat!(
    r#"{"response":{"adapter":"anthropic-messages","version":1},"blocks":["#,
    r#"{"type":"thinking","signature":"s"},{"type":"redacted_thinking","data":"d"},null]}"#,
);

fn thought(state: Option<&str>) -> Vec<Message> {
    let content = vec![reasoning("hm"), reasoning(""), ContentBlock::text("so")];
    vec![
        says(Role::User, "a"),
        answer(content, state),
        says(Role::User, "b"),
    ]
}

#[test]
fn thinking_goes_back_as_it_was_signed() {
    let blocks = concat!(
        r#"{"type":"thinking","thinking":"hm","signature":"s"},"#,
        r#"{"type":"redacted_thinking","data":"d"},{"type":"text","text":"so"}"#,
    );
    assert!(turns(thought(Some(STATE))).contains(&assistant(blocks)));
}

#[test]
fn thinking_of_others_is_not_sent_and_the_text_stays() {
    let visible = assistant(&text("so"));
    let foreign = STATE.replace("anthropic-messages", "chat-completions");
    let newer = STATE.replace(r#""version":1"#, r#""version":2"#);
    let shorter = STATE.replace(",null]", "]");
    for state in [
        None,
        Some(foreign.as_str()),
        Some(newer.as_str()),
        Some(shorter.as_str()),
        Some("{}"),
    ] {
        assert!(turns(thought(state)).contains(&visible), "{state:?}");
    }
    let mut elsewhere = request(thought(Some(STATE)));
    elsewhere.config.provider = "another".into();
    assert!(body(&elsewhere).contains(&visible));
    let unsigned = STATE.replace(r#""signature":"s""#, r#""signature":"""#);
    assert!(!turns(thought(Some(&unsigned))).contains(r#""type":"thinking""#));
    let deepseek = turns_in(thought(Some(&unsigned)), MessagesDialect::deepseek());
    assert!(deepseek.contains(r#"{"type":"thinking","thinking":"hm","signature":""}"#));
}

#[test]
fn thinking_that_leads_to_nothing_is_not_sent() {
    let state = r#"{"response":{"adapter":"anthropic-messages","version":1},"blocks":[{"type":"thinking","signature":"s"}]}"#;
    let history = vec![
        says(Role::User, "a"),
        answer(vec![reasoning("hm")], Some(state)),
        says(Role::User, "b"),
    ];
    let both = [text("a"), text("b")].join(",");
    assert_eq!(turns(history), format!("[{}]", user(&both)));
}

#[test]
fn under_a_budget_an_answer_without_thinking_is_gone_on_from_without_thinking() {
    let asked = |model: &str, content: Vec<ContentBlock>, state: Option<&str>| {
        let history = vec![
            says(Role::User, "a"),
            answer(content, state),
            result("c", "1"),
        ];
        let mut request = request(history);
        request.config.model = model.into();
        request.config.reasoning_effort = Some("low".into());
        let body = body(&request);
        assert_eq!(validate(&serde_json::from_str(&body).unwrap()), []);
        body.contains(r#""thinking":{"#)
    };
    let plain = || vec![call("c", "{}")];
    let state = r#"{"response":{"adapter":"anthropic-messages","version":1},"blocks":[{"type":"thinking","signature":"s"},null]}"#;
    let thought = || vec![reasoning("hm"), call("c", "{}")];
    assert!(!asked("claude-opus-4-5", plain(), None));
    assert!(asked("claude-opus-4-5", thought(), Some(state)));
    assert!(asked("claude-opus-4-6", plain(), None));
}

#[test]
fn names_of_calls_are_made_acceptable_and_each_is_used_once() {
    let odd = |id: &str| {
        [
            message(Role::Assistant, vec![call(id, "{}")]),
            result(id, "1"),
        ]
    };
    let mut history = vec![says(Role::User, "a")];
    for id in ["functions.ls:0", "call-0", "call-0", "call-0_2", ""] {
        history.extend(odd(id));
    }
    let body = body(&request(history));
    let value: Value = serde_json::from_str(&body).unwrap();
    assert_eq!(validate(&value), []);
    let blocks = value["messages"]
        .as_array()
        .unwrap()
        .iter()
        .flat_map(|turn| turn["content"].as_array().unwrap().iter());
    let ids: Vec<_> = blocks
        .filter_map(|block| block["id"].as_str().or(block["tool_use_id"].as_str()))
        .collect();
    let twice = |id| [id, id];
    let expected = ["functions_ls_0", "call-0", "call-0_2", "call-0_2_2", "_"].map(twice);
    assert_eq!(ids, expected.concat());
}

#[test]
fn errors_and_empty_results_are_said() {
    let failed = Message {
        is_error: Some(true),
        ..Message::tool_result("r", "c", vec![])
    };
    let history = vec![
        says(Role::User, "a"),
        message(Role::Assistant, vec![call("c", "{}")]),
        failed,
    ];
    assert!(turns(history).ends_with(
        r#"{"type":"tool_result","tool_use_id":"c","content":[{"type":"text","text":"(no output)"}],"is_error":true}]}]"#
    ));
}

#[test]
fn white_space_alone_is_not_sent() {
    let history = vec![
        says(Role::System, " "),
        says(Role::User, "a"),
        says(Role::Assistant, "\n"),
        says(Role::Developer, ""),
        says(Role::User, " "),
    ];
    assert_eq!(turns(history), format!("[{}]", user(&text("a"))));
}

#[test]
fn marks_stand_behind_the_last_two_turns_of_the_user() {
    let history = vec![
        says(Role::User, "a"),
        says(Role::Assistant, "b"),
        says(Role::User, "c"),
        says(Role::Assistant, "d"),
        says(Role::User, "e"),
    ];
    let body = body(&request(history));
    let marked: Vec<_> = body
        .match_indices(MARK)
        .map(|(at, _)| &body[at - 2..at - 1])
        .collect();
    assert_eq!(marked, ["c", "e"]);
}

/// The messages between two requests, as a history consists of them.
fn any_step() -> impl Strategy<Value = Vec<Message>> {
    let state = r#"{"response":{"adapter":"anthropic-messages","version":1},"blocks":[{"type":"thinking","signature":"s"},null]}"#;
    let calls = prop::collection::vec(any::<bool>(), 1..4).prop_map(move |failed| {
        let mut content = vec![reasoning("hm")];
        content.extend((0..failed.len()).map(|at| call(&format!("c{at}"), "{}")));
        let state = (failed.len() == 1).then_some(state);
        let results = failed.iter().enumerate().map(|(at, failed)| Message {
            is_error: failed.then_some(true),
            ..result(&format!("c{at}"), "out")
        });
        std::iter::once(answer(content, state))
            .chain(results)
            .collect()
    });
    let spoken = prop::sample::select(vec![Role::Developer, Role::User]);
    prop_oneof![
        calls,
        (spoken, "[a-zé\" \n]{0,6}").prop_map(|(role, text)| vec![says(role, &text)]),
        Just(vec![
            says(Role::Assistant, "done"),
            says(Role::User, "more")
        ]),
    ]
}

proptest! {
    /// Marks apart, the blocks of a shorter history are the first ones of a longer one; and every request is acceptable.
    #[test]
    fn a_longer_history_only_appends(steps in prop::collection::vec(any_step(), 0..8)) {
        let history = |steps: &[Vec<Message>]| {
            let mut messages = vec![says(Role::System, "be brief"), says(Role::User, "begin")];
            messages.extend(steps.concat());
            messages
        };
        let open = |steps: &[Vec<Message>]| {
            let turns = turns(history(steps));
            turns.strip_suffix("]}]").unwrap().to_owned()
        };
        let whole = open(&steps);
        for cut in 0..=steps.len() {
            prop_assert!(whole.starts_with(&open(&steps[..cut])));
            let body: Value = serde_json::from_str(&body(&request(history(&steps[..cut])))).unwrap();
            prop_assert_eq!(validate(&body), []);
        }
    }
}
