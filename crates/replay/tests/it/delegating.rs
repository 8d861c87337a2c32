//! Agents that delegate for real: what they have done is recorded, and done again from the recordings.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use offshoot_agent::{
    Agent, AgentSetup, Env, NewSubagent, SetupError, SubagentLimits, SubagentSetup, Subagents,
};
use offshoot_model::{Attempt, CallConfig, ContentBlock, FinishReason, Model, ScriptModel};
use offshoot_replay::{Script, Scripts, SessionKey};
use offshoot_session::{EventKind, EventLog, SessionId};
use serde_json::{Value, json};

use crate::runs::{Run, answer, call, lines, recorded, says, scripts};

/// Whose model a child gets.
#[derive(Debug)]
enum Models {
    /// By its label, while something is recorded.
    Live(Mutex<BTreeMap<String, Arc<dyn Model>>>),
    Replayed(Scripts),
}

#[derive(Debug)]
struct Children {
    env: Env,
    models: Models,
    made: Mutex<Vec<SessionId>>,
}

impl SubagentSetup for Children {
    fn setup(&self, child: &NewSubagent<'_>) -> Result<AgentSetup, SetupError> {
        let id = child.session.id().clone();
        self.made.lock().unwrap().push(id.clone());
        let model = match &self.models {
            Models::Live(models) => {
                let mut models = models.lock().unwrap();
                models.remove(child.label.unwrap()).unwrap()
            }
            Models::Replayed(scripts) => {
                scripts.bind_child(child.parent, child.call_id.unwrap(), &id)
            }
        };
        let CallConfig {
            provider,
            model: name,
            ..
        } = child.call;
        let mut config = offshoot_agent::AgentConfig::new(&**provider, &**name);
        config.system_prompt = "You are a test agent.".into();
        Ok(AgentSetup::new(
            model,
            Default::default(),
            config,
            self.env.clone(),
        ))
    }
}

/// A parent that runs until it is idle, with its children.
async fn run(
    run: &Run,
    models: Models,
    cwd: &str,
    parent: impl FnOnce(&SessionId) -> Arc<dyn Model>,
    prompts: &[&str],
) -> Vec<SessionId> {
    let children = Arc::new(Children {
        env: run.env.clone(),
        models,
        made: Mutex::default(),
    });
    let setups = Arc::clone(&children) as Arc<dyn SubagentSetup>;
    let (service, env) = (run.service.clone(), run.env.clone());
    let subagents = Subagents::new(service, env, setups, SubagentLimits::default());
    let attached = run.create(cwd);
    let id = attached.session().id().clone();
    let mut setup = run.setup(parent(&id));
    subagents.equip(&mut setup, &id).unwrap();
    let agent = Agent::new(attached, setup);
    for prompt in prompts {
        agent.followup(prompt).unwrap();
        agent.when_idle().await;
    }
    drop(agent);
    let made = children.made.lock().unwrap().clone();
    [vec![id], made].concat()
}

fn delegate(id: &str, label: &str, context: &str) -> ContentBlock {
    let prompt = format!("The task of {label}.");
    call(
        id,
        "delegate",
        &json!({"prompt": prompt, "label": label, "context": context}),
    )
}

/// What results say, by their calls.
fn results(log: &EventLog) -> BTreeMap<String, String> {
    let results = log
        .events()
        .filter(|event| *event.kind() == EventKind::ToolResult);
    results
        .map(|event| {
            let data: Value = event.parse().unwrap();
            let text = |value: &Value| value.as_str().unwrap().to_owned();
            let message = &data["message"];
            (
                text(&message["toolCallId"]),
                text(&message["content"][0]["text"]),
            )
        })
        .collect()
}

fn said(log: &EventLog) -> Vec<String> {
    let answers = log
        .events()
        .filter(|event| *event.kind() == EventKind::AssistantMessage);
    answers
        .filter_map(|event| {
            let data: Value = event.parse().unwrap();
            let text = data["message"]["content"][0]["text"].as_str();
            text.map(str::to_owned)
        })
        .collect()
}

#[tokio::test]
async fn a_spawned_and_a_forked_child_in_parallel_replay_each_from_its_own_events() {
    let both = answer(
        vec![
            delegate("a", "fresh one", "fresh"),
            delegate("b", "forked one", "conversation"),
        ],
        FinishReason::ToolCalls,
    );
    let parent = vec![
        says("Noted."),
        Attempt::Chunks(both),
        says("Both are done."),
    ];
    let model = |attempts| Arc::new(ScriptModel::new("acme", attempts)) as Arc<dyn Model>;
    let live = BTreeMap::from([
        ("fresh one".to_owned(), model(vec![says("I know nothing.")])),
        ("forked one".to_owned(), model(vec![says("I remember.")])),
    ]);
    let prompts = ["Remember.", "Ask both."];
    let first = Run::new("recorded");
    let ids = run(
        &first,
        Models::Live(Mutex::new(live)),
        "/srv/recorded",
        |_| model(parent),
        &prompts,
    )
    .await;
    let [main, fresh, forked] = &ids[..] else {
        panic!("{ids:?}");
    };
    let script = |name: &str, id: &SessionId| -> Script { recorded(name, first.stored(id)) };
    // What the fork has inherited is its parent's to say.
    assert_eq!(script("main.2", forked).entries().len(), 1);
    assert_eq!(script("main", main).entries().len(), 3);

    // Whatever the files are called.
    let scripts = scripts(vec![
        script("main", main),
        script("main.1", forked),
        script("main.2", fresh),
    ]);
    let again = Run::new("live");
    let bind = |id: &SessionId| scripts.bind(SessionKey::named("main"), id);
    let live = run(
        &again,
        Models::Replayed(scripts.clone()),
        "/srv/live",
        bind,
        &prompts,
    )
    .await;
    assert_eq!(lines(&scripts.problems()), Vec::<String>::new());
    assert_eq!(scripts.unconsumed(), []);
    assert_eq!(results(&again.log(&live[0])), results(&first.log(main)));
    for (live, recorded) in live.iter().zip(&ids) {
        assert_ne!(live, recorded);
        assert_eq!(said(&again.log(live)), said(&first.log(recorded)));
    }
}
