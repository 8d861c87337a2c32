//! What stands around the body of a call: hooks, filters, records, contexts (`reference/agent.md` §3.2).

use std::sync::{Arc, Mutex};

use offshoot_agent::{
    CancelCause, Gate, HookError, Input, PostExecute, RepeatReminder, ToolFilter,
};
use offshoot_model::{ContentBlock, MessageSource};
use offshoot_session::EventKind;
use offshoot_tool_api::{ToolError, ToolOutput};
use serde_json::json;
use serde_json::value::RawValue;

use crate::bench::{Bench, ask};
use crate::scene::{Around, Probe, Scene, cancelled, said_by, texts};
use crate::support::{all, endings, kinds_from, result, results};

fn deny(reason: &str) -> Result<Gate, HookError> {
    let reason = reason.to_owned();
    Ok(Gate::Deny { reason })
}

fn broken() -> HookError {
    HookError {
        message: "the hook is broken".into(),
        code: "HOOK_BROKEN".into(),
    }
}

fn json(text: &str) -> Box<RawValue> {
    RawValue::from_string(text.to_owned()).unwrap()
}

#[tokio::test]
async fn a_hook_denies_and_nobody_is_asked_after_that() {
    let bench = Bench::new();
    let heard = Arc::new(Mutex::new(Vec::new()));
    let hear = Arc::clone(&heard);
    let scene = Scene::new(&bench)
        .hook(Around::before(|call| match call.call_id {
            "a" => deny("not on a Sunday"),
            _ => Ok(Gate::Allow),
        }))
        .hook(Around::before(move |call| {
            let seen = format!("{} {} {:?}", call.tool_name, call.arguments, call.effects);
            hear.lock().unwrap().push(seen);
            Ok(Gate::Allow)
        }));
    let log = scene
        .play(&[
            ("a", "change", "{}"),
            ("b", "change", ""),
            ("c", "nothing", "{}"),
        ])
        .await;
    assert_eq!(
        results(&log)[..2],
        [
            result("a", "", "Error: not on a Sunday"),
            result("b", "", "b is done")
        ]
    );
    let denied = &all(&log, &EventKind::ToolResult)[0];
    assert_eq!(
        (&denied["message"]["isError"], &denied["error"]),
        (&json!(true), &json!(null))
    );
    assert_eq!(
        *heard.lock().unwrap(),
        ["change  Some(Mutating)", "nothing {} None"]
    );
    assert_eq!(bench.work.done(), ["start b", "end b"]);
}

#[tokio::test]
async fn a_hook_that_fails_or_panics_is_a_failed_call_and_not_a_failed_turn() {
    let bench = Bench::new();
    let scene = Scene::new(&bench)
        .hook(Around::before(|call| match call.call_id {
            "a" => Err(broken()),
            "b" => std::panic::panic_any("before"),
            _ => Ok(Gate::Allow),
        }))
        .hook(Around::after(|outcome| match outcome {
            Ok(output) if output.text.starts_with('c') => Err(broken()),
            Ok(output) if output.text.starts_with('d') => std::panic::panic_any("after"),
            _ => Ok(PostExecute::default()),
        }));
    let log = scene
        .play(&["a", "b", "c", "d", "e"].map(|id| (id, "look", "{}")))
        .await;
    assert_eq!(
        results(&log),
        [
            result("a", "HOOK_BROKEN", "Error: the hook is broken"),
            result("b", "HOOK_PANICKED", "Error: a hook failed unexpectedly"),
            result("c", "HOOK_BROKEN", "Error: the hook is broken"),
            result("d", "HOOK_PANICKED", "Error: a hook failed unexpectedly"),
            result("e", "", "e is done"),
        ]
    );
    assert_eq!(bench.work.runs().len(), 3);
    assert_eq!(endings(&log), ["completed"]);
}

#[tokio::test]
async fn denied_and_failing_calls_keep_their_place_among_those_that_run() {
    let bench = Bench::new();
    let held = bench.work.hold("a");
    let scene = Scene::new(&bench).hook(Around::before(|call| match call.call_id {
        "b" => deny("no"),
        _ => Ok(Gate::Allow),
    }));
    let four = [
        ("a", "look", "{}"),
        ("b", "look", "{}"),
        ("c", "look", "[]"),
        ("d", "look", "{}"),
    ];
    let mut agent = scene.agent(&four);
    let session = cancelled(&mut agent, async |_| {
        held.started.cancelled().await;
        held.released.cancel();
    })
    .await;
    let log = bench.log(session.id());
    let ids: Vec<_> = results(&log)
        .into_iter()
        .map(|(id, code, _)| (id, code))
        .collect();
    let expected = [("a", ""), ("b", ""), ("c", "INVALID_ARGS"), ("d", "")];
    assert_eq!(
        ids,
        expected.map(|(id, code)| (id.to_owned(), code.to_owned()))
    );
    assert!(!bench.work.runs().contains_key("b"));
}

#[tokio::test]
async fn every_outcome_is_reviewed_and_each_hook_sees_what_the_last_made_of_it() {
    let bench = Bench::new();
    let seen = Arc::new(Mutex::new(Vec::new()));
    let see = Arc::clone(&seen);
    let scene = Scene::new(&bench)
        .tool(Probe::new("probe", |_| {
            Ok(ToolOutput::text("fine")
                .with_context("from the tool")
                .with_meta(json(r#"{"n":1}"#)))
        }))
        .hook(Around::before(|call| match call.call_id {
            "b" => deny("no"),
            _ => Ok(Gate::Allow),
        }))
        .hook(Around::after(|outcome| {
            let block = outcome.as_ref().is_ok_and(|output| output.text == "fine");
            let source = MessageSource::of_kind("hooks-codex");
            let context = Input::blocks(
                "from-a-hook",
                vec![ContentBlock::text("from a hook")],
                source,
            );
            Ok(PostExecute {
                block: block.then(|| "that will not do".to_owned()),
                contexts: if block { vec![context] } else { Vec::new() },
            })
        }))
        .hook(Around::after(move |outcome| {
            see.lock().unwrap().push(match outcome {
                Ok(output) => output.text.clone(),
                Err(error) => error.model_text(),
            });
            Ok(PostExecute::default())
        }));
    let log = scene
        .play(&[
            ("a", "probe", "{}"),
            ("b", "probe", "{}"),
            ("c", "look", "{}"),
        ])
        .await;
    let expected = ["Error: that will not do", "Error: no", "c is done"];
    assert_eq!(texts(&log), expected);
    assert_eq!(*seen.lock().unwrap(), expected);
    assert_eq!(
        said_by(&log, "tool"),
        [""; 0],
        "what the tool wanted said is dropped"
    );
    assert_eq!(said_by(&log, "hooks-codex"), ["from a hook"]);
    let blocked = &all(&log, &EventKind::ToolResult)[0];
    assert_eq!(blocked["meta"], json!({"n": 1}), "what was done was done");
    assert_eq!(blocked["message"]["isError"], json!(true));
}

#[tokio::test]
async fn contexts_wait_behind_their_result_and_are_said_before_the_next_step() {
    let bench = Bench::new();
    let scene = Scene::new(&bench).tool(Probe::new("probe", |cx| {
        let id = &cx.call_id;
        Ok(ToolOutput::text("fine")
            .with_context(format!("{id} 1"))
            .with_context("")
            .with_context(format!("{id} 2")))
    }));
    let log = scene
        .play(&[("a", "probe", "{}"), ("b", "probe", "{}")])
        .await;
    assert_eq!(said_by(&log, "tool"), ["a 1", "a 2", "b 1", "b 2"]);
    let spliced = "agent/inbox/spliced";
    assert_eq!(
        kinds_from(&log, 11),
        [
            "tool/call",
            "tool/result",
            spliced,
            spliced,
            "tool/call",
            "tool/result",
            spliced,
            spliced,
            "step/end",
            spliced,
            "step/start",
            "user/message",
            "user/message",
            "user/message",
            "user/message",
            "assistant/message",
            "step/end",
            "turn/end",
        ]
    );
}

#[tokio::test]
async fn a_call_that_concludes_the_turn_ends_it_unless_something_waits() {
    let conclude = || Probe::new("finish", |_| Ok(ToolOutput::text("over").concluding_turn()));
    let bench = Bench::new();
    let log = Scene::new(&bench)
        .tool(conclude())
        .play(&[("a", "finish", "{}")])
        .await;
    assert_eq!(all(&log, &EventKind::StepStart).len(), 1);
    let log = Scene::new(&bench)
        .tool(conclude())
        .tool(Probe::new("tell", |_| {
            Ok(ToolOutput::text("").with_context("wait"))
        }))
        .play(&[("a", "tell", "{}"), ("b", "finish", "{}")])
        .await;
    assert_eq!(all(&log, &EventKind::StepStart).len(), 2);
    let log = Scene::new(&bench)
        .tool(conclude())
        .hook(Around::after(|_| {
            Ok(PostExecute {
                block: Some("not yet".to_owned()),
                contexts: Vec::new(),
            })
        }))
        .play(&[("a", "finish", "{}")])
        .await;
    assert_eq!(
        all(&log, &EventKind::StepStart).len(),
        2,
        "what is blocked concludes nothing"
    );
}

#[tokio::test]
async fn what_a_tool_records_stands_ahead_of_its_result() {
    let bench = Bench::new();
    let todos = "{\n\"todos\": [{\"content\":\"a\",\"status\":\"pending\"}]}";
    let scene = Scene::new(&bench).tool(Probe::new("plan", move |_| {
        Ok(ToolOutput::text("planned").with_record("todo/write", json(todos)))
    }));
    let log = scene.play(&[("a", "plan", "{}")]).await;
    assert_eq!(
        kinds_from(&log, 11)[..3],
        ["tool/call", "todo/write", "tool/result"]
    );
    assert_eq!(
        all(&log, &EventKind::TodoWrite),
        [json!({"todos": [{"content": "a", "status": "pending"}]})]
    );
}

#[tokio::test]
async fn a_record_that_cannot_be_one_is_the_tools_fault_and_none_of_them_is_logged() {
    for (kind, data) in [
        ("turn/end", r#"{"turn":1,"reason":{"kind":"completed"}}"#),
        (
            "user/message",
            r#"{"id":"x","role":"user","content":[],"source":{"kind":"user"}}"#,
        ),
        ("compaction/end", r#"{"compactionId":"x","turn":1}"#),
        ("request/header", "{}"),
        ("sandbox/mode", r#"{"mode":"danger-full-access"}"#),
        ("my/own", "{}"),
        ("", "{}"),
        ("todo/write", "[]"),
        ("todo/write", "null"),
    ] {
        let bench = Bench::new();
        let scene = Scene::new(&bench).tool(Probe::new("plan", move |_| {
            Ok(ToolOutput::text("planned")
                .with_record("todo/write", json(r#"{"todos":[]}"#))
                .with_record(kind, json(data))
                .with_context("planned"))
        }));
        let log = scene.play(&[("a", "plan", "{}")]).await;
        let [(_, code, text)] = &results(&log)[..] else {
            panic!("one result");
        };
        assert_eq!(code, "INVALID_TOOL_OUTPUT");
        assert!(
            text.starts_with("Error: the tool answered with an invalid record: "),
            "{text}"
        );
        assert_eq!(
            kinds_from(&log, 11)[..3],
            ["tool/call", "tool/result", "step/end"]
        );
        assert_eq!(endings(&log), ["completed"]);
    }
}

#[tokio::test]
async fn a_tool_that_the_agent_may_not_use_is_shown_and_refused() {
    let bench = Bench::new();
    let names = |names: &[&str]| {
        names
            .iter()
            .map(|name| (*name).to_owned())
            .collect::<Vec<_>>()
    };
    let four = ["look", "check", "change", "alter"];
    for (allow, deny, refused) in [
        (None, vec![], vec![]),
        (None, names(&["c*"]), vec!["check", "change"]),
        (
            Some(names(&["look", "alter"])),
            vec![],
            vec!["check", "change"],
        ),
        (Some(names(&["*"])), names(&["look"]), vec!["look"]),
        (Some(vec![]), vec![], four.to_vec()),
    ] {
        let mut scene = Scene::new(&bench);
        scene.config.permissions.tools = ToolFilter::new(allow.as_deref(), &deny).unwrap();
        let log = scene.play(&four.map(|name| (name, name, "{}"))).await;
        let expected = four.map(|name| match refused.contains(&name) {
            true => format!("Error: tool \"{name}\" is not available to this agent"),
            false => format!("{name} is done"),
        });
        assert_eq!(texts(&log), expected);
        let header = &all(&log, &EventKind::RequestHeader)[0];
        assert_eq!(header["header"]["tools"].as_array().unwrap().len(), 4);
    }
    let error = ToolFilter::new(Some(&names(&["a"])), &names(&["b["])).unwrap_err();
    assert!(error.to_string().starts_with("rule 2 (`b[`): "), "{error}");
}

#[tokio::test]
async fn what_was_started_before_a_cancellation_is_reviewed_and_what_was_not_is_left_alone() {
    let bench = Bench::new();
    let held = bench.work.hold("a");
    let reviewed = Arc::new(Mutex::new(Vec::new()));
    let review = Arc::clone(&reviewed);
    let mut agent = Scene::new(&bench)
        .hook(Around::after(move |outcome| {
            let code = outcome.as_ref().map_err(|error| error.code().to_owned());
            review
                .lock()
                .unwrap()
                .push(code.map(|output| output.text.clone()));
            Ok(PostExecute::default())
        }))
        .agent(&[("a", "check", "{}"), ("b", "check", "{}")]);
    let session = cancelled(&mut agent, async |cancel| {
        held.started.cancelled().await;
        cancel.cancel(CancelCause::User);
    })
    .await;
    let text = "Error: tool call aborted before dispatch";
    assert_eq!(
        results(&bench.log(session.id())),
        [
            result("a", "ABORTED", "Error: tool call aborted"),
            result("b", "ABORTED_BEFORE_DISPATCH", text)
        ]
    );
    assert_eq!(*reviewed.lock().unwrap(), [Err("ABORTED".to_owned())]);
}

#[tokio::test]
async fn a_tool_that_panics_when_it_is_asked_what_it_wants_is_a_failed_call() {
    let bench = Bench::new();
    let log = Scene::new(&bench)
        .tool(Probe::limits("probe"))
        .play(&[("a", "probe", r#"{"beyond":"panic"}"#)])
        .await;
    let text = "Error: the tool failed unexpectedly";
    assert_eq!(results(&log), [result("a", "TOOL_PANICKED", text)]);
}

#[tokio::test]
async fn a_model_that_repeats_a_call_is_reminded_until_a_person_says_something() {
    let bench = Bench::new();
    let reminder = RepeatReminder::new(bench.env.clone()).except(["check"]);
    let same = [
        r#"{"deaf":false,"empty":false}"#,
        "{ \"empty\": false, \"deaf\": false }",
    ];
    let ids: Vec<String> = (1..=8).map(|number| format!("c{number}")).collect();
    let mut asked = Vec::new();
    for (id, arguments) in ids.iter().zip(same.into_iter().cycle()) {
        asked.push((&**id, "look", arguments));
        // Passed over.
        asked.push(("", "check", "{}"));
    }
    let between: Vec<String> = (1..=8).map(|number| format!("d{number}")).collect();
    let mut ids = between.iter();
    for one in &mut asked {
        if one.0.is_empty() {
            one.0 = ids.next().unwrap();
        }
    }
    let mut agent = Scene::new(&bench).hook(Arc::new(reminder)).agent(&asked);
    ask(&mut agent, "Work.").await;
    let log = bench.log(agent.session().id());
    insta::assert_snapshot!(said_by(&log, "repeat-tool-reminder").join("\n"), @r#"
    The tool `look` was called 3 times in a row with the same arguments. Another call like it will hardly tell you more: use what you have, or try something else.
    The tool `look` was called 5 times in a row with the same arguments. Another call like it will hardly tell you more: use what you have, or try something else. If you cannot go on, say what is missing. The arguments were: {"deaf":false,"empty":false}
    The tool `look` was called 8 times in a row with the same arguments. Another call like it will hardly tell you more: use what you have, or try something else. If you cannot go on, say what is missing. The arguments were: {"deaf":false,"empty":false}
    "#);

    // Once interrupted, twice by another call, and from the beginning by a person.
    let bench = Bench::new();
    let reminder = Arc::new(RepeatReminder::new(bench.env.clone()));
    let long = format!(r#"{{"wrong":"{}"}}"#, "x".repeat(600));
    let mut agent = Scene::new(&bench)
        .hook(Around::before(|_| deny("no")))
        .hook(Arc::clone(&reminder) as _)
        .agent(&[
            ("a", "look", "{}"),
            ("b", "look", "{}"),
            ("c", "look", r#"{"deaf":true}"#),
            ("d", "look", "{}"),
            ("e", "look", "{}"),
            ("f", "look", &long),
            ("g", "look", &long),
            ("h", "look", &long),
            ("i", "look", &long),
            ("j", "look", &long),
        ]);
    ask(&mut agent, "Work.").await;
    let said = said_by(&bench.log(agent.session().id()), "repeat-tool-reminder");
    assert_eq!(
        said.len(),
        2,
        "denied calls count, and others in between end a row"
    );
    let quoted = format!("The arguments were: {}…", &long[..500]);
    assert!(said[1].ends_with(&quoted), "{}", said[1]);
}

#[tokio::test]
async fn what_a_person_says_begins_the_count_of_repeated_calls_anew() {
    let bench = Bench::new();
    let reminder = Arc::new(RepeatReminder::new(bench.env.clone()));
    let mut before = Scene::new(&bench)
        .hook(Arc::clone(&reminder) as _)
        .agent(&[("a", "look", "{}"), ("b", "look", "{}")]);
    ask(&mut before, "Work.").await;
    let mut after = Scene::new(&bench)
        .hook(reminder)
        .agent(&[("a", "look", "{}"), ("b", "look", "{}")]);
    ask(&mut after, "Work.").await;
    let said = said_by(&bench.log(after.session().id()), "repeat-tool-reminder");
    assert_eq!(said, [""; 0]);
}

#[tokio::test]
async fn the_error_of_a_tool_has_its_code() {
    let bench = Bench::new();
    let log = Scene::new(&bench)
        .tool(Probe::new("probe", |_| {
            Err(ToolError::new("FsError", "FS_NOT_FOUND", "no such file"))
        }))
        .play(&[("a", "probe", "{}")])
        .await;
    assert_eq!(
        all(&log, &EventKind::ToolResult)[0]["error"],
        json!({"name": "FsError", "code": "FS_NOT_FOUND"})
    );
}
