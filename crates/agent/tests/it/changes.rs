//! What calls have changed behind a cut, what a fork is told of it, and which versions of files a log knows.

use std::sync::Arc;

use offshoot_agent::{ChangedFile, ChangedFiles, Driver, FileChange, changed_after, observed};
use offshoot_model::ContentBlock;
use offshoot_session::{EventDraft, EventKind, EventLog, Seq, SessionId};
use serde_json::{Value, json};

use crate::bench::{Bench, NOW, ask};
use crate::parts::{Routed, agent_with, texts_of};
use crate::support::says;

/// A log of one step with calls: how each is called, with which arguments, and how it came out, if it did.
struct Calls {
    session: offshoot_session::Session,
    calls: Vec<Value>,
}

impl Calls {
    fn new(calls: &[(&str, Value)]) -> Self {
        let header = offshoot_session::SessionHeader::new(SessionId::new("s"), 0);
        let calls: Vec<Value> = calls
            .iter()
            .zip(0..)
            .map(|((name, arguments), id)| {
                json!({"type": "tool-call", "id": format!("c{id}"), "name": name, "arguments": arguments.to_string()})
            })
            .collect();
        let mut log = Self {
            session: offshoot_session::Session::new(header).unwrap(),
            calls,
        };
        log.log(EventKind::TurnStart, json!({"turn": 1}));
        log.log(EventKind::StepStart, json!({"turn": 1, "step": 1}));
        let message = json!({
            "id": "m", "role": "assistant", "content": log.calls,
            "source": {"kind": "model", "provider": "p", "model": "m"},
        });
        let data = json!({"turn": 1, "step": 1, "message": message, "stream": []});
        log.message(EventKind::AssistantMessage, data);
        log
    }

    fn log(&mut self, kind: EventKind, data: Value) -> Seq {
        self.session
            .append(EventDraft::log_only(kind, &data).unwrap(), NOW)
            .unwrap()
            .seq()
    }

    fn message(&mut self, kind: EventKind, data: Value) {
        self.session
            .append(EventDraft::message(kind, &data).unwrap(), NOW)
            .unwrap();
    }

    fn start(&mut self, call: usize) -> Seq {
        let (name, arguments) = (
            self.calls[call]["name"].clone(),
            self.calls[call]["arguments"].clone(),
        );
        self.log(
            EventKind::ToolCall,
            json!({"turn": 1, "step": 1, "callId": format!("c{call}"), "name": name, "arguments": arguments}),
        )
    }

    /// An error without a code is one that no tool has returned.
    fn answer(&mut self, call: usize, error: Option<&str>, meta: Value) {
        let id = format!("c{call}");
        let mut data = json!({"turn": 1, "step": 1, "message": {
            "id": format!("r{call}"), "role": "tool", "toolCallId": id, "isError": error.is_some(),
            "source": {"kind": "tool", "callId": id}, "content": [],
        }});
        if let Some(code) = error.filter(|code| !code.is_empty()) {
            data["error"] = json!({"name": "E", "code": code});
        }
        if !meta.is_null() {
            data["meta"] = meta;
        }
        self.message(EventKind::ToolResult, data);
    }

    fn done(&self) -> &EventLog {
        self.session.log()
    }
}

fn file(path: &str, change: FileChange, digest: Option<&str>) -> ChangedFile {
    ChangedFile {
        path: path.to_owned(),
        change,
        digest: digest.map(str::to_owned),
    }
}

#[test]
fn the_facts_of_the_results_say_which_files_and_what_was_done() {
    let edit = ("edit", json!({"file_path": "a"}));
    let mut calls = Calls::new(&[edit.clone(), edit.clone(), ("read", json!({})), edit]);
    let cut = calls.start(0);
    calls.answer(
        0,
        None,
        json!({"path": "/w/b", "digest": "sha256:1", "change": "created"}),
    );
    calls.start(1);
    calls.answer(
        1,
        None,
        json!({"path": "/w/b", "digest": "sha256:2", "change": "changed"}),
    );
    calls.start(2);
    calls.answer(2, None, json!({"path": "/w/a", "digest": "sha256:3"}));
    let behind = calls.start(3);
    calls.answer(3, Some("FS_STALE"), json!(null));
    let created = file("/w/b", FileChange::Created, Some("sha256:2"));
    assert_eq!(
        changed_after(calls.done(), cut, Some("/w")),
        ChangedFiles {
            files: vec![created],
            shell_commands: false
        }
    );
    assert!(changed_after(calls.done(), behind, Some("/w")).is_empty());
    let known = |path: &str, digest: &str| (path.to_owned(), digest.to_owned());
    assert_eq!(
        observed(calls.done()),
        [known("/w/a", "sha256:3"), known("/w/b", "sha256:2")]
    );
}

#[test]
fn without_facts_the_arguments_say_which_file_was_meant() {
    let mut calls = Calls::new(&[
        ("write", json!({"file_path": "rel"})),
        ("edit", json!({"file_path": "/abs"})),
        ("multi_edit", json!({"file_path": "timed-out"})),
        ("write", json!({"file_path": "refused"})),
        ("write", json!({"file_path": "running"})),
        ("look", json!({"file_path": "seen"})),
    ]);
    let cut = calls.start(0);
    calls.answer(0, None, json!(null));
    for (call, error) in [
        (1, None),
        (2, Some("TOOL_TIMEOUT")),
        (3, Some("FS_STALE")),
        (5, None),
    ] {
        calls.start(call);
        calls.answer(call, error, json!(null));
    }
    calls.start(4);
    let changed = |path: &str| file(path, FileChange::Changed, None);
    assert_eq!(
        changed_after(calls.done(), cut, Some("/w")).files,
        ["/abs", "/w/rel", "/w/running", "/w/timed-out"].map(changed)
    );
}

#[test]
fn shell_commands_count_if_they_ran_or_may_have() {
    let bash = ("bash", json!({"command": "true"}));
    for (error, meta, ran) in [
        (None, json!({"cwd": "/w"}), true),
        (Some("TOOL_TIMEOUT"), json!(null), true),
        (Some("ABORTED_BEFORE_DISPATCH"), json!(null), false),
        (Some("INVALID_ARGS"), json!(null), false),
        (Some("SANDBOX_UNAVAILABLE"), json!(null), false),
        // Not allowed, and allowed but blocked by a hook afterwards.
        (Some(""), json!(null), false),
        (Some(""), json!({"cwd": "/w"}), true),
    ] {
        let mut calls = Calls::new(&[bash.clone(), bash.clone()]);
        let cut = calls.start(0);
        calls.answer(0, error, meta);
        assert_eq!(
            changed_after(calls.done(), cut, None).shell_commands,
            ran,
            "{error:?}"
        );
    }
    let mut calls = Calls::new(&[bash]);
    let cut = calls.start(0);
    assert!(
        changed_after(calls.done(), cut, None).shell_commands,
        "it is running"
    );
}

/// An agent that has read a file, and then, behind the cut, written others and run commands.
async fn original(bench: &Bench, work: &std::path::Path) -> (Driver, Seq) {
    let call = |id: &str, name: &str, arguments: Value| ContentBlock::ToolCall {
        id: id.to_owned(),
        name: name.to_owned(),
        arguments: arguments.to_string(),
    };
    let asks = |blocks| crate::support::answers(blocks, offshoot_model::FinishReason::ToolCalls);
    let model = Routed::new(vec![
        says("Hello."),
        asks(vec![
            call(
                "a",
                "write",
                json!({"file_path": "new.txt", "content": "new"}),
            ),
            call(
                "b",
                "bash",
                json!({"command": "true", "description": "nothing"}),
            ),
        ]),
        says("Done."),
        says("More."),
    ]);
    let attached = bench
        .service
        .create(Some(work.display().to_string()))
        .unwrap();
    let mut agent = agent_with(bench, attached, Arc::new(model), with_tools);
    ask(&mut agent, "Hello.").await;
    let cut = bench
        .log(agent.session().id())
        .latest_completed_boundary()
        .unwrap();
    ask(&mut agent, "Write.").await;
    (agent, cut)
}

fn with_tools(setup: &mut offshoot_agent::AgentSetup) {
    setup.config.permissions.mode = Some(offshoot_tool_api::SandboxMode::DangerFullAccess);
    setup.tools = offshoot_tool_api::ToolRegistry::new();
    for tool in offshoot_tools::builtin() {
        setup.tools.register(tool).unwrap();
    }
}

/// What the runtime context of a session says last.
fn told(log: &EventLog) -> String {
    texts_of(log, "runtime-context").pop().unwrap()
}

#[tokio::test]
async fn a_fork_is_told_which_files_the_original_has_changed_behind_the_cut() {
    let work = tempfile::tempdir().unwrap();
    let mut bench = Bench::new();
    let (original, cut) = original(&bench, work.path()).await;
    let id = original.session().id().clone();
    let path = work.path().join("new.txt").display().to_string();
    let fork = bench
        .service
        .prepare_fork(&bench.read(&id), Some(cut), None)
        .unwrap();
    assert_eq!(
        fork.changed
            .files
            .iter()
            .map(|file| &*file.path)
            .collect::<Vec<_>>(),
        [&path]
    );
    assert!(fork.changed.shell_commands);
    let at_the_end = bench
        .service
        .prepare_fork(&bench.read(&id), None, None)
        .unwrap();
    assert!(at_the_end.changed.is_empty());

    let answering = || Arc::new(Routed::new(vec![says("I see."); 3]));
    let mut child = agent_with(
        &bench,
        bench.service.store_fork(&fork).unwrap(),
        answering(),
        with_tools,
    );
    ask(&mut child, "Go on.").await;
    ask(&mut child, "And on.").await;
    let log = bench.log(&fork.header.id);
    let first = told(&log);
    let section = first.split("\n\nThis conversation").nth(1).unwrap();
    insta::assert_snapshot!(
        section.replace(&work.path().display().to_string(), "/srv/demo"),
        @"
 was branched off from another one, behind event 13. The files are not branched off with it. The other one has since changed these:

- /srv/demo/new.txt (new)

They are as it left them: read them again before you rely on what you remember of them. It has also run shell commands since; what those have changed is not known.
"
    );
    assert_eq!(
        texts_of(&log, "runtime-context").len(),
        2,
        "the inherited one, and one of its own"
    );
    drop(child);

    // In another process, later: the same is found in the original's log.
    drop(bench.service.store_fork(&at_the_end).unwrap());
    let second = bench
        .service
        .prepare_fork(&bench.read(&id), Some(cut), None)
        .unwrap();
    drop(bench.service.store_fork(&second).unwrap());
    drop(original);
    bench.restart();
    let mut child = agent_with(
        &bench,
        bench.open(&second.header.id),
        answering(),
        with_tools,
    );
    ask(&mut child, "Go on.").await;
    assert_eq!(told(&bench.log(&second.header.id)), first);
    drop(child);
    // What was said once is not said again.
    bench.restart();
    let mut child = agent_with(
        &bench,
        bench.open(&second.header.id),
        answering(),
        with_tools,
    );
    ask(&mut child, "Again.").await;
    assert_eq!(told(&bench.log(&second.header.id)), first);
    drop(child);
    let mut child = agent_with(
        &bench,
        bench.open(&at_the_end.header.id),
        answering(),
        with_tools,
    );
    ask(&mut child, "Go on.").await;
    assert!(!told(&bench.log(&at_the_end.header.id)).contains("branched"));
}

#[tokio::test]
async fn a_fork_of_a_fork_is_told_of_both_originals() {
    let work = tempfile::tempdir().unwrap();
    let bench = Bench::new();
    let (original, cut) = original(&bench, work.path()).await;
    let source = bench.read(original.session().id());
    let fork = bench
        .service
        .prepare_fork(&source, Some(cut), None)
        .unwrap();
    let writes = ContentBlock::ToolCall {
        id: "w".to_owned(),
        name: "write".to_owned(),
        arguments: json!({"file_path": "second.txt", "content": "2"}).to_string(),
    };
    let model = Routed::new(vec![
        says("I see."),
        crate::support::answers(vec![writes], offshoot_model::FinishReason::ToolCalls),
        says("Done."),
    ]);
    let child = bench.service.store_fork(&fork).unwrap();
    let mut child = agent_with(&bench, child, Arc::new(model), with_tools);
    ask(&mut child, "Go on.").await;
    let source = bench.read(child.session().id());
    let second_cut = source.stored.log.latest_completed_boundary().unwrap();
    ask(&mut child, "Write.").await;

    let source = bench.read(child.session().id());
    let fork = bench
        .service
        .prepare_fork(&source, Some(second_cut), None)
        .unwrap();
    let grandchild = bench.service.store_fork(&fork).unwrap();
    let model = Routed::new(vec![says("I see."); 2]);
    let mut grandchild = agent_with(&bench, grandchild, Arc::new(model), with_tools);
    ask(&mut grandchild, "Go on.").await;
    ask(&mut grandchild, "And on.").await;
    let log = bench.log(&fork.header.id);
    let told = told(&log);
    for said in [
        format!("behind event {cut}."),
        "new.txt (new)".to_owned(),
        format!("behind event {second_cut}."),
        "second.txt (new)".to_owned(),
    ] {
        assert_eq!(told.matches(&said).count(), 1, "{said} in {told}");
    }
    assert_eq!(texts_of(&log, "runtime-context").len(), 3, "one of each");
}

#[tokio::test]
async fn a_fork_whose_original_is_gone_says_that_it_does_not_know() {
    let work = tempfile::tempdir().unwrap();
    let mut bench = Bench::new();
    let (original, cut) = original(&bench, work.path()).await;
    let id = original.session().id().clone();
    let fork = bench
        .service
        .prepare_fork(&bench.read(&id), Some(cut), None)
        .unwrap();
    drop(bench.service.store_fork(&fork).unwrap());
    drop(original);
    bench.restart();
    use offshoot_store::Persistence as _;
    bench.persistence().delete(&id, NOW).unwrap();
    let answering = Arc::new(Routed::new(vec![says("I see.")]));
    let mut child = agent_with(&bench, bench.open(&fork.header.id), answering, with_tools);
    ask(&mut child, "Go on.").await;
    let told = told(&bench.log(&fork.header.id));
    assert!(
        told.contains("is not known: its log cannot be read"),
        "{told}"
    );
}
