//! Which session answers from which script.

use std::path::Path;
use std::sync::Arc;

use futures_util::StreamExt as _;
use offshoot_format::{StoredSession, decode};
use offshoot_model::{Chunk, ContentBlock, FinishReason, Model};
use offshoot_replay::{Problem, Script, Scripts, SessionKey};
use offshoot_session::SessionId;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::runs::{
    answer, call, entry, lines, overrides, question, recorded, scripts, text, written,
};

/// A recorded session of these rows: a type, and what it says.
pub(crate) fn session(header: &Value, rows: &[(&str, Value)]) -> StoredSession {
    let mut first = json!({"type": "session", "version": 4});
    let more = header.as_object().unwrap().clone();
    first.as_object_mut().unwrap().extend(more);
    let mut file = format!("{first}\n");
    for (seq, (kind, data)) in rows.iter().enumerate() {
        let mut row = json!({"type": kind, "seq": seq, "time": 1000, "data": data});
        let shown = [
            "user/message",
            "assistant/message",
            "tool/result",
            "system/message",
        ];
        if shown.contains(kind) {
            row["surfaceOp"] = json!("append");
        }
        if *kind == "tool/result" {
            let answered = &data["message"]["toolCallId"];
            let calls =
                |(kind, call): &(&str, Value)| *kind == "tool/call" && call["callId"] == *answered;
            let call = rows[..seq].iter().rposition(calls).unwrap();
            row["sourceEventSeqs"] = json!([call]);
        }
        file.push_str(&format!("{row}\n"));
    }
    decode(file.as_bytes()).unwrap_or_else(|error| panic!("{error}\n{file}"))
}

/// The header of a session.
fn header(id: &str, parent: Option<(&str, u64)>) -> Value {
    let mut header = json!({"id": id, "createdAt": 1, "isSeeded": false, "delegationDepth": 0});
    if let Some((parent, created)) = parent {
        header["createdAt"] = created.into();
        header["parentSession"] = parent.into();
        header["origin"] = "subagent".into();
        header["delegationDepth"] = 1.into();
    }
    header
}

type Row = (&'static str, Value);

/// One turn that asks once for these calls and then stops. `rows` is what comes between the calls and the end of the step.
fn turn(turn: u64, calls: &[(&str, &str)], rows: Vec<Row>) -> Vec<Row> {
    let blocks: Vec<_> = calls
        .iter()
        .map(|(id, tool)| call(id, tool, &json!({})))
        .collect();
    let at = json!({"turn": turn, "step": 1});
    let mut all = vec![
        ("turn/start", json!({"turn": turn})),
        ("step/start", at.clone()),
    ];
    all.push(assistant(turn, blocks, FinishReason::ToolCalls));
    all.extend(calls.iter().map(|(id, tool)| {
        let data = json!({"turn": turn, "step": 1, "callId": id, "name": tool, "arguments": "{}"});
        ("tool/call", data)
    }));
    all.extend(rows);
    all.push(("step/end", at));
    all.push((
        "turn/end",
        json!({"turn": turn, "reason": {"kind": "completed"}}),
    ));
    all
}

fn assistant(turn: u64, blocks: Vec<ContentBlock>, finish: FinishReason) -> Row {
    let chunks = answer(blocks.clone(), finish).into_iter();
    let stream: Vec<Value> = chunks
        .map(|chunk| json!({"type": "chunk", "time": 1000, "chunk": chunk}))
        .collect();
    let message = json!({
        "id": format!("answer-{turn}"), "role": "assistant", "content": blocks,
        "source": {"kind": "model", "provider": "acme", "model": "acme-small"},
    });
    let data = json!({"turn": turn, "step": 1, "message": message, "stream": stream});
    ("assistant/message", data)
}

fn result(turn: u64, id: &str, child: Option<&str>) -> Row {
    let message = json!({
        "id": format!("result-{turn}-{id}"), "role": "tool", "toolCallId": id, "isError": false,
        "source": {"kind": "tool", "callId": id}, "content": [{"type": "text", "text": "Done."}],
    });
    let mut data = json!({"turn": turn, "step": 1, "message": message});
    if let Some(child) = child {
        data["meta"] = json!({"subagent": {
            "sessionId": child, "provider": "spawn", "mode": "one-shot", "stopReason": "completed",
        }});
    }
    ("tool/result", data)
}

fn catalog(child: &str) -> Row {
    let data = json!({"version": 0, "childId": child, "childCreatedAt": 1, "mode": "one-shot"});
    ("subagent/catalog", data)
}

/// What a child says, which does not name it: names change.
fn says(id: &str) -> String {
    format!("said_by_{id}")
}

/// A child that says who it is.
fn child(id: &str, created: u64) -> StoredSession {
    let at = json!({"turn": 1, "step": 1});
    let rows = [
        ("turn/start", json!({"turn": 1})),
        ("step/start", at.clone()),
        assistant(1, vec![ContentBlock::text(says(id))], FinishReason::Stop),
        ("step/end", at),
        (
            "turn/end",
            json!({"turn": 1, "reason": {"kind": "completed"}}),
        ),
    ];
    session(&header(id, Some(("parent", created))), &rows)
}

fn parent(rows: &[Row]) -> StoredSession {
    session(&header("parent", None), rows)
}

fn family(parent: StoredSession, children: &[(&str, u64)]) -> Scripts {
    let mut all = vec![recorded("main", parent)];
    for (number, (id, created)) in children.iter().enumerate() {
        all.push(recorded(
            &format!("main.{}", number + 1),
            child(id, *created),
        ));
    }
    let scripts = scripts(all);
    drop(scripts.bind(SessionKey::named("main"), &"live-parent".into()));
    scripts
}

async fn heard(model: &dyn Model) -> Vec<Chunk> {
    let stream = model.stream(question(), CancellationToken::new());
    stream.collect().await
}

/// Who answers when these calls start children, in this order.
async fn answers(scripts: &Scripts, calls: &[&str]) -> Vec<(String, String)> {
    let mut models: Vec<(String, Arc<dyn Model>)> = Vec::new();
    for call in calls {
        let live = SessionId::new(format!("live-{}", models.len()));
        let model = scripts.bind_child(&"live-parent".into(), call, &live);
        models.push(((*call).to_owned(), model));
    }
    let mut all = Vec::new();
    for (call, model) in models {
        let said = heard(&*model).await;
        let text = said.iter().find_map(|chunk| match chunk {
            Chunk::BlockEnd {
                block: ContentBlock::Text { text },
                ..
            } => text.strip_prefix(&says("")).map(str::to_owned),
            _ => None,
        });
        all.push((call, text.unwrap_or_else(|| "nobody".to_owned())));
    }
    all.sort();
    all
}

fn pairs(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
    let owned = |(call, child): &(&str, &str)| ((*call).to_owned(), (*child).to_owned());
    pairs.iter().map(owned).collect()
}

const TWO: [(&str, u64); 2] = [("one", 2), ("two", 3)];

#[tokio::test]
async fn children_that_start_in_any_order_answer_each_from_the_recording_of_its_own_call() {
    for order in [["a", "b"], ["b", "a"]] {
        // The results say whose child it is, though everything else speaks for the other order.
        let calls = [("a", "delegate"), ("b", "delegate")];
        let rows = vec![
            catalog("one"),
            catalog("two"),
            result(1, "a", Some("two")),
            result(1, "b", Some("one")),
        ];
        let scripts = family(parent(&turn(1, &calls, rows)), &TWO);
        let said = answers(&scripts, &order).await;
        assert_eq!(said, pairs(&[("a", "two"), ("b", "one")]), "{order:?}");
        assert_eq!(scripts.problems(), []);
    }
}

#[tokio::test]
async fn a_call_id_that_is_used_again_is_counted() {
    let calls = [("a", "delegate")];
    let mut rows = turn(1, &calls, vec![result(1, "a", Some("one"))]);
    // A call that has started nobody is no use of it.
    rows.extend(turn(2, &calls, vec![result(2, "a", None)]));
    rows.extend(turn(3, &calls, vec![result(3, "a", Some("two"))]));
    let scripts = family(parent(&rows), &[("one", 2), ("two", 3)]);
    let first = scripts.bind_child(&"live-parent".into(), "a", &"first".into());
    let second = scripts.bind_child(&"live-parent".into(), "a", &"second".into());
    assert_eq!(heard(&*second).await, text(&says("two")));
    assert_eq!(heard(&*first).await, text(&says("one")));
    let key = scripts.key_of(&"second".into()).unwrap();
    assert_eq!(key.to_string(), "child of main by use 2 of call a");
    assert_eq!(scripts.name_of(&"second".into()).as_deref(), Some("main.2"));
}

#[tokio::test]
async fn without_a_word_in_the_result_the_catalog_says_whose_child_it_is() {
    let calls = [("x", "look"), ("a", "subagent"), ("b", "subagent_fork")];
    let rows = vec![
        catalog("two"),
        catalog("one"),
        result(1, "x", None),
        result(1, "a", None),
        result(1, "b", None),
    ];
    for order in [["a", "b"], ["b", "a"]] {
        let scripts = family(parent(&turn(1, &calls, rows.clone())), &TWO);
        let said = answers(&scripts, &order).await;
        assert_eq!(said, pairs(&[("a", "two"), ("b", "one")]));
    }
}

#[tokio::test]
async fn a_child_in_the_catalog_belongs_to_a_call_that_was_waiting_then() {
    // The first was refused before it had started anybody.
    let calls = [("a", "delegate"), ("b", "delegate")];
    let rows = vec![result(1, "a", None), catalog("one"), result(1, "b", None)];
    let scripts = family(parent(&turn(1, &calls, rows)), &[("one", 2)]);
    assert_eq!(answers(&scripts, &["b"]).await, pairs(&[("b", "one")]));
}

#[tokio::test]
async fn a_caller_that_was_killed_has_its_child_in_the_catalog() {
    let mut rows = turn(1, &[("a", "delegate")], vec![catalog("one")]);
    // Neither the step nor the turn came to an end.
    rows.truncate(rows.len() - 2);
    let scripts = family(parent(&rows), &[("one", 2)]);
    assert_eq!(answers(&scripts, &["a"]).await, pairs(&[("a", "one")]));
}

#[tokio::test]
async fn without_a_catalog_children_belong_to_calls_in_the_order_of_their_creation_and_then_of_their_ids()
 {
    let calls = [("a", "subagent"), ("b", "subagent"), ("c", "subagent")];
    let rows = vec![
        result(1, "a", None),
        result(1, "b", None),
        result(1, "c", None),
    ];
    let children = [("young", 9), ("b-twin", 5), ("a-twin", 5)];
    let scripts = family(parent(&turn(1, &calls, rows)), &children);
    let said = answers(&scripts, &["c", "b", "a"]).await;
    assert_eq!(
        said,
        pairs(&[("a", "a-twin"), ("b", "b-twin"), ("c", "young")])
    );
}

#[tokio::test]
async fn what_a_fork_has_inherited_started_nobody() {
    let mut fork = header("fork", Some(("parent", 7)));
    fork["isSeeded"] = true.into();
    fork.as_object_mut().unwrap().shift_remove("origin");
    fork["delegationDepth"] = 0.into();
    let calls = [("a", "delegate")];
    let mut rows = turn(1, &calls, vec![catalog("one"), result(1, "a", Some("one"))]);
    rows.push(("session/end-seed", json!({"inherited": true})));
    rows.extend(turn(
        2,
        &calls,
        vec![catalog("two"), result(2, "a", Some("two"))],
    ));
    let branch = recorded("branch", session(&fork, &rows));
    assert_eq!(branch.entries().len(), 1);
    let scripts = scripts(vec![branch, recorded("branch.1", child("two", 9))]);
    drop(scripts.bind(SessionKey::named("branch"), &"live-parent".into()));
    assert_eq!(answers(&scripts, &["a"]).await, pairs(&[("a", "two")]));
}

#[tokio::test]
async fn children_of_scripts_that_are_written_are_called_by_their_number() {
    let both = answer(
        vec![
            call("a", "delegate", &json!({})),
            call("b", "delegate", &json!({})),
        ],
        FinishReason::ToolCalls,
    );
    let main = written(
        "main",
        &json!([{"kind": "chunks", "chunks": both}, entry("Done.")]),
    );
    let first = written("main.1", &json!([entry(&says("one"))]));
    let second = written("main.2", &json!([entry(&says("two"))]));
    let scripts = scripts(vec![main, first, second]);
    drop(scripts.bind(SessionKey::named("main"), &"live-parent".into()));
    let said = answers(&scripts, &["b", "a"]).await;
    assert_eq!(said, pairs(&[("a", "one"), ("b", "two")]));
}

#[tokio::test]
async fn children_of_children_are_bound_the_same_way() {
    let calls = [("a", "delegate")];
    let mut middle = header("middle", Some(("parent", 2)));
    middle["delegationDepth"] = 1.into();
    let below = turn(1, &calls, vec![result(1, "a", Some("leaf"))]);
    let leaf = session(
        &{
            let mut leaf = header("leaf", Some(("middle", 3)));
            leaf["delegationDepth"] = 2.into();
            leaf
        },
        &[
            ("turn/start", json!({"turn": 1})),
            ("step/start", json!({"turn": 1, "step": 1})),
            assistant(
                1,
                vec![ContentBlock::text(says("leaf"))],
                FinishReason::Stop,
            ),
        ],
    );
    let above = turn(1, &calls, vec![result(1, "a", Some("middle"))]);
    let scripts = scripts(vec![
        recorded("main", parent(&above)),
        recorded("main.1", session(&middle, &below)),
        recorded("main.1.1", leaf),
    ]);
    drop(scripts.bind(SessionKey::named("main"), &"live-parent".into()));
    drop(scripts.bind_child(&"live-parent".into(), "a", &"live-middle".into()));
    let model = scripts.bind_child(&"live-middle".into(), "a", &"live-leaf".into());
    assert_eq!(heard(&*model).await, text(&says("leaf")));
}

#[tokio::test]
async fn answers_name_the_sessions_and_the_directory_that_are_there_now() {
    let arguments =
        |id: &str, cwd: &str| json!({"agent_id": id, "message": format!("see {cwd}/a")});
    let send = |id: &str, cwd: &str| vec![call("x", "send_message", &arguments(id, cwd))];
    let mut rows = turn(1, &[("a", "delegate")], vec![result(1, "a", Some("one"))]);
    // The turn goes on.
    rows.pop();
    rows.push(("step/start", json!({"turn": 1, "step": 2})));
    let (kind, mut data) = assistant(1, send("one", "/srv/recorded"), FinishReason::ToolCalls);
    data["step"] = 2.into();
    data["message"]["id"] = "second".into();
    rows.push((kind, data));
    let mut above = header("parent", None);
    above["cwd"] = "/srv/recorded".into();
    let token = send("{{session:main.1}}", "{{cwd}}");
    let appended = json!({"patches": [{"at": 2, "entry": {
        "kind": "chunks", "chunks": answer(token, FinishReason::ToolCalls),
    }}]});
    let file = Path::new("sessions/main.jsonl");
    let written = overrides(&appended).unwrap();
    let main = Script::of_recording("main", file, session(&above, &rows), Some(&written)).unwrap();
    let scripts = scripts(vec![main, recorded("main.1", child("one", 2))]);
    let main = scripts.bind(SessionKey::named("main"), &"live-parent".into());
    heard(&*main).await;
    drop(scripts.bind_child(&"live-parent".into(), "a", &"live-child".into()));
    let now = answer(send("live-child", "/srv/live"), FinishReason::ToolCalls);
    assert_eq!(heard(&*main).await, now, "as it was recorded");
    assert_eq!(heard(&*main).await, now, "as it is written");
}

#[tokio::test]
async fn a_session_that_nobody_has_recorded_fails_when_it_calls_a_model() {
    let scripts = scripts(vec![written("main", &json!([entry("One.")]))]);
    drop(scripts.bind(SessionKey::named("main"), &"live-parent".into()));
    let child = scripts.bind_child(&"live-parent".into(), "a", &"live-child".into());
    assert_eq!(scripts.problems(), []);
    let said = heard(&*child).await;
    let told = "a model call arrived from an unrecorded session (child of main by call a); the scenario has scripts for main";
    assert_eq!(lines(&scripts.problems()), [told]);
    let [
        Chunk::Finish {
            reason: FinishReason::Error { failure },
            ..
        },
    ] = &said[..]
    else {
        panic!("{said:?}");
    };
    assert_eq!(
        (&*failure.code, &*failure.message),
        ("UNRECORDED_SESSION", told)
    );
}

#[tokio::test]
async fn two_live_sessions_cannot_answer_from_one_script() {
    let scripts = scripts(vec![written(
        "main",
        &json!([entry("One."), entry("Two.")]),
    )]);
    let first = scripts.bind(SessionKey::named("main"), &"live-1".into());
    let second = scripts.bind(SessionKey::named("main"), &"live-2".into());
    assert_eq!(heard(&*first).await, text("One."));
    heard(&*second).await;
    assert_eq!(scripts.problems()[0].code(), "UNRECORDED_SESSION");
}

#[tokio::test]
async fn a_session_that_is_opened_again_goes_on_where_it_was() {
    let scripts = scripts(vec![written(
        "main",
        &json!([entry("One."), entry("Two.")]),
    )]);
    let key = || SessionKey::named("main");
    assert_eq!(
        heard(&*scripts.bind(key(), &"live".into())).await,
        text("One.")
    );
    assert_eq!(
        heard(&*scripts.bind(key(), &"live".into())).await,
        text("Two.")
    );
}

#[tokio::test]
async fn what_is_left_over_is_told_by_session() {
    let two = json!([entry("One."), entry("Two.")]);
    let scripts = scripts(vec![
        written("main", &two),
        written("side", &two),
        written("branch", &two),
        written("quiet", &json!([])),
    ]);
    let main = scripts.bind(SessionKey::named("main"), &"live-main".into());
    let branch = scripts.bind(SessionKey::named("branch"), &"live-branch".into());
    for model in [&main, &main, &branch] {
        heard(&**model).await;
    }
    let left = scripts.unconsumed();
    assert_eq!(
        lines(&left),
        [
            "session `side` never made a model call; its script has 2",
            "session `branch` has made 1 of the 2 model calls of its script",
        ]
    );
    let codes: Vec<_> = left.iter().map(Problem::code).collect();
    assert_eq!(codes, ["SCRIPT_UNUSED", "SCRIPT_UNCONSUMED"]);
}

#[tokio::test]
async fn a_child_that_never_came_is_told_with_who_has_started_it() {
    let calls = [("x", "look"), ("a", "subagent_fork")];
    let results = vec![result(1, "x", None), result(1, "a", None)];
    let scripts = family(parent(&turn(1, &calls, results)), &TWO[..1]);
    assert_eq!(
        lines(&scripts.unconsumed()),
        [
            "session `main` never made a model call; its script has 1",
            "session `main.1` never made a model call; its script has 1, and in the recording `main` has started it with \
             the tool `subagent_fork`",
        ]
    );
}

#[tokio::test]
async fn another_process_goes_on_where_one_has_died() {
    let calls = [("a", "delegate")];
    let mut rows = turn(1, &calls, vec![result(1, "a", Some("one"))]);
    let more = [("a", "delegate"), ("x", "look")];
    rows.extend(turn(
        2,
        &more,
        vec![result(2, "a", Some("two")), result(2, "x", None)],
    ));
    let first = family(parent(&rows), &TWO);
    let main = first.bind(SessionKey::named("main"), &"live-parent".into());
    let said = heard(&*main).await;
    drop(first.bind_child(&"live-parent".into(), "a", &"live-one".into()));
    let stranger = first.bind(SessionKey::named("stranger"), &"stranger".into());
    heard(&*stranger).await;

    let written = serde_json::to_string(&first.progress()).unwrap();
    let second = family(parent(&rows), &TWO);
    second.resume(serde_json::from_str(&written).unwrap());
    assert_eq!(second.progress(), first.progress());
    assert_eq!(second.problems(), first.problems());
    let main = second.bind(SessionKey::named("main"), &"live-parent".into());
    assert_ne!(heard(&*main).await, said, "it is the next answer");
    let again = second.bind_child(&"live-parent".into(), "a", &"live-two".into());
    assert_eq!(heard(&*again).await, text(&says("two")));
}

#[test]
fn no_two_scripts_are_for_one_session() {
    let twice = |name: &str| -> Script { recorded(name, child("one", 2)) };
    let error = Scripts::new(vec![twice("main"), twice("main")], Default::default()).unwrap_err();
    assert_eq!(
        error.to_string(),
        "there are two scripts for the session `main`"
    );
    let error = Scripts::new(vec![twice("main"), twice("side")], Default::default()).unwrap_err();
    assert_eq!(
        error.to_string(),
        "`main` and `side` are recordings of the same session, `one`"
    );
    assert_eq!(error.code(), "INVALID_SCENARIO");
}
