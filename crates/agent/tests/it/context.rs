//! What the model is told of the world: the runtime context and the instructions of a project, as messages that keep up
//! (`reference/agent.md` §1.8 and §3.7).

use std::path::Path;
use std::sync::{Arc, Mutex};

use offshoot_agent::{Attached, ContextSection, Driver};
use offshoot_session::{EventDraft, EventKind, SurfaceOp};
use offshoot_tool_api::{InstructionFile, Instructions, ToolRegistry};
use serde_json::{Value, json};

use crate::bench::{Bench, NOW, ask};
use crate::parts::{Routed, agent_with, texts_of};
use crate::support::{all, calls, kinds_from, says};

const RUNTIME: &str = "runtime-context";
const INSTRUCTIONS: &str = "agent-instructions";

fn model() -> Arc<Routed> {
    Arc::new(Routed::new(vec![says("Yes."); 9]))
}

/// Puts one message in place of everything behind the prompt, as a compaction would.
fn cover(agent: &Driver, from: usize) {
    let log = agent.session().log();
    let nodes: Vec<_> = log.surface().nodes().skip(from).collect();
    let message = json!({
        "id": format!("summary-{from}"), "role": "user", "source": {"kind": "user"},
        "content": [{"type": "text", "text": "We talked."}],
    });
    let op = SurfaceOp::Replace {
        start: nodes[0],
        end: *nodes.last().unwrap(),
    };
    let draft = EventDraft::message(EventKind::UserMessage, &message).unwrap();
    agent
        .session()
        .append(draft.with_surface_op(op).with_sources(nodes), NOW)
        .unwrap();
}

#[tokio::test]
async fn the_runtime_context_is_said_once_and_says_where_and_within_which_limits() {
    let bench = Bench::new();
    let mut agent = agent_with(&bench, bench.create(), model(), |setup| {
        let section = ContextSection::new("platform", "Operating system: tests");
        setup.config.context.sections.push(section);
    });
    ask(&mut agent, "One.").await;
    ask(&mut agent, "Two.").await;
    let log = bench.log(agent.session().id());
    let said = texts_of(&log, RUNTIME);
    assert_eq!(said.len(), 1);
    insta::assert_snapshot!(said[0], @"
    This is where you work now; it replaces what was said before.

    Current working directory: /srv/demo

    Operating system: tests

    Tools may change files below the working directory and temporary files, and no others. A call that needs more has to ask for permission.
    ");
}

#[tokio::test]
async fn it_is_said_again_when_it_changes_and_when_a_compaction_has_covered_it() {
    let bench = Bench::new();
    let mut agent = agent_with(&bench, bench.create(), model(), |_| {});
    ask(&mut agent, "One.").await;
    // Somebody chooses another mode.
    let mode = EventDraft::log_only(EventKind::SandboxMode, &json!({"mode": "read-only"})).unwrap();
    agent.session().append(mode, NOW).unwrap();
    ask(&mut agent, "Two.").await;
    let said = texts_of(&agent.session().log(), RUNTIME);
    assert_eq!(said.len(), 2);
    assert!(
        said[1].contains("Tools may read files and change none."),
        "{}",
        said[1]
    );
    cover(&agent, 1);
    ask(&mut agent, "Three.").await;
    let log = agent.session().log();
    assert_eq!(texts_of(&log, RUNTIME)[2..], said[1..]);
    // What covers other messages changes nothing.
    let (question, answer) = {
        let nodes: Vec<_> = log.surface().nodes().collect();
        (nodes[nodes.len() - 1], nodes.len())
    };
    assert!(log.get(question).is_some());
    cover(&agent, answer - 1);
    ask(&mut agent, "Four.").await;
    assert_eq!(texts_of(&agent.session().log(), RUNTIME).len(), 3);
}

#[tokio::test]
async fn when_there_is_nothing_left_to_say_that_is_said_once() {
    let mut bench = Bench::new();
    let bare = |bench: &Bench, attached: Attached, section: Option<&str>| {
        agent_with(bench, attached, model(), |setup| {
            setup.tools = ToolRegistry::new();
            let sections = &mut setup.config.context.sections;
            sections.extend(section.map(|text| ContextSection::new("here", text)));
        })
    };
    let attached = bench.service.create(None).unwrap();
    let mut agent = bare(&bench, attached, None);
    ask(&mut agent, "Nothing to say.").await;
    let id = agent.session().id().clone();
    drop(agent);
    for section in [Some("It rains."), None] {
        bench.restart();
        let mut agent = bare(&bench, bench.open(&id), section);
        ask(&mut agent, "One.").await;
        ask(&mut agent, "Two.").await;
    }
    let sources: Vec<Value> = all(&bench.log(&id), &EventKind::UserMessage)
        .into_iter()
        .filter(|message| message["source"]["kind"] == RUNTIME)
        .map(|message| message["source"].clone())
        .collect();
    assert_eq!(
        sources,
        [
            json!({"kind": RUNTIME, "form": "snapshot", "sections": [{"name": "here", "text": "It rains."}]}),
            json!({"kind": RUNTIME}),
        ]
    );
}

#[tokio::test]
async fn a_snapshot_that_cannot_be_read_is_replaced() {
    let bench = Bench::new();
    let mut agent = agent_with(&bench, bench.create(), model(), |_| {});
    ask(&mut agent, "One.").await;
    let broken = json!({
        "id": "broken", "role": "user", "content": [{"type": "text", "text": "?"}],
        "source": {"kind": RUNTIME, "form": "snapshot", "sections": "none"},
    });
    let draft = EventDraft::message(EventKind::UserMessage, &broken).unwrap();
    agent.session().append(draft, NOW).unwrap();
    ask(&mut agent, "Two.").await;
    ask(&mut agent, "Three.").await;
    let said = texts_of(&agent.session().log(), RUNTIME);
    assert_eq!((said.len(), &said[2]), (3, &said[0]));
}

/// Files that a test changes.
#[derive(Clone, Debug, Default)]
struct Files(Arc<Mutex<Vec<InstructionFile>>>);

impl Files {
    fn put(&self, dir: &str, text: &str) {
        let scope = format!("{dir}\0AGENTS.md");
        let mut files = self.0.lock().unwrap();
        files.retain(|file| file.scope != scope);
        files.push(InstructionFile {
            scope,
            path: format!("{dir}/AGENTS.md"),
            text: text.to_owned(),
            digest: format!("sha256:{text}"),
        });
    }

    fn remove(&self, dir: &str) {
        self.0
            .lock()
            .unwrap()
            .retain(|file| !file.scope.starts_with(dir));
    }
}

impl Instructions for Files {
    fn files(&self, _cwd: Option<&Path>) -> Vec<InstructionFile> {
        self.0.lock().unwrap().clone()
    }
}

fn instructed(bench: &Bench, attached: Attached, files: &Files, model: Arc<Routed>) -> Driver {
    agent_with(bench, attached, model, |setup| {
        setup.instructions = Some(Arc::new(files.clone()));
    })
}

/// The sources of the messages with instructions: whether each is the baseline, and what it changes.
fn changes(log: &offshoot_session::EventLog) -> Vec<Value> {
    all(log, &EventKind::UserMessage)
        .iter()
        .map(|message| &message["source"])
        .filter(|source| source["kind"] == INSTRUCTIONS)
        .map(|source| {
            let changes = source["changes"].as_array().unwrap().iter();
            let changes: Vec<_> = changes
                .map(|change| json!([change["action"], change["path"], change["digest"]]))
                .collect();
            json!([source["baseline"], changes])
        })
        .collect()
}

#[tokio::test]
async fn instructions_stand_behind_the_prompt_and_keep_up_with_their_files() {
    let bench = Bench::new();
    let files = Files::default();
    files.put(".", "Be kind.");
    files.put("src", "Be exact.");
    files.put("empty", " \n");
    let mut agent = instructed(&bench, bench.create(), &files, model());
    ask(&mut agent, "One.").await;
    let order: Vec<Value> = all(&agent.session().log(), &EventKind::UserMessage)
        .iter()
        .map(|message| message["source"]["kind"].clone())
        .collect();
    assert_eq!(order, ["user", INSTRUCTIONS, RUNTIME]);
    ask(&mut agent, "Two.").await;
    files.put("src", "Be quick.");
    files.remove(".");
    files.put("new", "Be new.");
    ask(&mut agent, "Three.").await;
    ask(&mut agent, "Four.").await;
    let log = bench.log(agent.session().id());
    assert_eq!(
        changes(&log),
        [
            json!([
                true,
                [
                    ["set", "./AGENTS.md", "sha256:Be kind."],
                    ["set", "src/AGENTS.md", "sha256:Be exact."]
                ]
            ]),
            json!([
                null,
                [
                    ["remove", "./AGENTS.md", null],
                    ["replace", "src/AGENTS.md", "sha256:Be quick."],
                    ["set", "new/AGENTS.md", "sha256:Be new."],
                ]
            ]),
        ]
    );
    insta::assert_snapshot!(texts_of(&log, INSTRUCTIONS).join("\n====\n"), @r#"
    Instructions for work in this directory, from files. Where they differ, those that come later count for more, and what the user says counts for more than all of them.

    <instructions from="./AGENTS.md">
    Be kind.
    </instructions>

    <instructions from="src/AGENTS.md">
    Be exact.
    </instructions>
    ====
    The files with instructions for this directory have changed. What follows takes the place of what was said of the same files before.

    `./AGENTS.md` is gone: what it said no longer applies.

    <instructions from="src/AGENTS.md">
    Be quick.
    </instructions>

    <instructions from="new/AGENTS.md">
    Be new.
    </instructions>
    "#);
}

#[tokio::test]
async fn a_file_that_changes_while_tools_run_is_told_with_the_next_step() {
    let bench = Bench::new();
    let files = Files::default();
    let hold = bench.work.hold("a");
    let model = Arc::new(Routed::new(vec![
        calls([("a", "look", "{}")]),
        says("Done."),
    ]));
    let mut agent = instructed(&bench, bench.create(), &files, model);
    let (_, ()) = tokio::join!(ask(&mut agent, "One."), async {
        hold.started.cancelled().await;
        files.put(".", "Be kind.");
        hold.released.cancel();
    });
    let log = bench.log(agent.session().id());
    assert_eq!(changes(&log).len(), 1);
    let steps: Vec<_> = kinds_from(&log, 0);
    let second = steps
        .iter()
        .rposition(|kind| *kind == "step/start")
        .unwrap();
    assert_eq!(
        steps[second..second + 3],
        ["step/start", "user/message", "assistant/message"]
    );
}

#[tokio::test]
async fn instructions_are_compared_on_resume_and_said_again_when_they_are_covered() {
    let mut bench = Bench::new();
    let files = Files::default();
    files.put(".", "Be kind.");
    let mut agent = instructed(&bench, bench.create(), &files, model());
    ask(&mut agent, "One.").await;
    let id = agent.session().id().clone();
    drop(agent);
    bench.restart();
    let mut agent = instructed(&bench, bench.open(&id), &files, model());
    ask(&mut agent, "Two.").await;
    assert_eq!(changes(&agent.session().log()).len(), 1);
    drop(agent);
    bench.restart();
    files.put(".", "Be kinder.");
    let mut agent = instructed(&bench, bench.open(&id), &files, model());
    ask(&mut agent, "Three.").await;
    cover(&agent, 1);
    ask(&mut agent, "Four.").await;
    let said: Vec<Value> = changes(&bench.log(&id));
    let kinder = "sha256:Be kinder.";
    assert_eq!(
        said[1..],
        [
            json!([null, [["replace", "./AGENTS.md", kinder]]]),
            json!([true, [["set", "./AGENTS.md", kinder]]]),
        ]
    );
}
