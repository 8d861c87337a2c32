//! Agents that delegate, and children that answer what a test wants.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use offshoot_agent::{
    Agent, AgentHook, AgentObserver, AgentSetup, Approver, Attached, Delegation, Env, NewSubagent,
    NobodyToAsk, PermissionConfig, Provider, SetupError, SubagentLimits, SubagentSetup, Subagents,
};
use offshoot_model::{Attempt, CallConfig, Model, ScriptModel};
use offshoot_session::{EventKind, EventLog, SessionId};
use offshoot_tool_api::ToolRegistry;
use serde_json::{Value, json};

use crate::bench::{Bench, config, script};
use crate::scene::Probe;
use crate::support::{Work, all, calls};

/// A bench with subagents. The model of a child is found by its label.
pub(crate) struct Family {
    pub(crate) bench: Bench,
    pub(crate) children: Arc<Children>,
    pub(crate) subagents: Subagents,
    limits: SubagentLimits,
}

impl Family {
    pub(crate) fn new() -> Self {
        Self::with(SubagentLimits::default())
    }

    pub(crate) fn with(limits: SubagentLimits) -> Self {
        let bench = Bench::new();
        let children = Arc::new(Children::new(&bench));
        let subagents = subagents(&bench, &children, &limits);
        Self {
            bench,
            children,
            subagents,
            limits,
        }
    }

    /// What another process would have: the files, and children that answer the same.
    pub(crate) fn restarted(&mut self) {
        self.bench.restart();
        self.subagents = subagents(&self.bench, &self.children, &self.limits);
    }

    /// An agent on a new session.
    pub(crate) fn parent(&self, attempts: Vec<Attempt>) -> Agent {
        self.on(self.bench.create(), script(attempts))
    }

    /// An agent on a session that can delegate.
    pub(crate) fn on(&self, attached: Attached, model: Arc<dyn Model>) -> Agent {
        self.changed(attached, model, |_| {})
    }

    /// The same, with parts that the test changes.
    pub(crate) fn changed(
        &self,
        attached: Attached,
        model: Arc<dyn Model>,
        change: impl FnOnce(&mut AgentSetup),
    ) -> Agent {
        let mut setup = self.bench.setup(model);
        setup.tools = self.children.tools();
        change(&mut setup);
        let session = attached.session().id().clone();
        self.subagents.equip(&mut setup, &session).unwrap();
        Agent::new(attached, setup)
    }

    /// The only child that there is.
    pub(crate) fn child(&self) -> SessionId {
        let made = self.children.made();
        assert_eq!(made.len(), 1, "{made:?}");
        made[0].clone()
    }

    /// Its log as its file has it.
    pub(crate) fn child_log(&self) -> EventLog {
        self.bench.log(&self.child())
    }
}

fn subagents(bench: &Bench, children: &Arc<Children>, limits: &SubagentLimits) -> Subagents {
    let setups = Arc::clone(children) as Arc<dyn SubagentSetup>;
    let (service, env) = (bench.service.clone(), bench.env.clone());
    Subagents::new(service, env, setups, limits.clone())
}

/// What children are made of: the parts of any agent of a test, and a model of their own.
pub(crate) struct Children {
    work: Work,
    env: Env,
    models: Mutex<BTreeMap<String, Arc<dyn Model>>>,
    made: Mutex<Vec<Made>>,
    pub(crate) hooks: Mutex<Vec<Arc<dyn AgentHook>>>,
    pub(crate) permissions: Mutex<PermissionConfig>,
    pub(crate) approver: Mutex<Arc<dyn Approver>>,
    pub(crate) observer: Mutex<Option<Arc<dyn AgentObserver>>>,
    /// What happens while the next child is being made.
    pub(crate) meanwhile: Mutex<Option<Box<dyn FnOnce() + Send>>>,
}

/// A child as its setup was asked for.
#[derive(Clone, Debug)]
pub(crate) struct Made {
    pub(crate) session: SessionId,
    pub(crate) parent: SessionId,
    pub(crate) call_id: Option<String>,
    pub(crate) provider: Provider,
    pub(crate) call: CallConfig,
}

impl Children {
    fn new(bench: &Bench) -> Self {
        Self {
            work: bench.work.clone(),
            env: bench.env.clone(),
            models: Mutex::default(),
            made: Mutex::default(),
            hooks: Mutex::default(),
            permissions: Mutex::default(),
            approver: Mutex::new(Arc::new(NobodyToAsk)),
            observer: Mutex::default(),
            meanwhile: Mutex::default(),
        }
    }

    /// Those of any test, and `beyond`, which may want more than its limits.
    fn tools(&self) -> ToolRegistry {
        let mut tools = self.work.tools();
        tools.register(Arc::new(Probe::limits("beyond"))).unwrap();
        tools
    }

    /// The child of this label answers so.
    pub(crate) fn answer(&self, label: &str, attempts: Vec<Attempt>) -> Arc<ScriptModel> {
        let model = script(attempts);
        self.are(label, Arc::clone(&model) as _);
        model
    }

    pub(crate) fn are(&self, label: &str, model: Arc<dyn Model>) {
        self.models.lock().unwrap().insert(label.to_owned(), model);
    }

    /// The children so far, in the order in which they were made.
    pub(crate) fn made(&self) -> Vec<SessionId> {
        let made = self.all();
        made.into_iter().map(|made| made.session).collect()
    }

    pub(crate) fn all(&self) -> Vec<Made> {
        self.made.lock().unwrap().clone()
    }
}

impl std::fmt::Debug for Children {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Children")
    }
}

impl SubagentSetup for Children {
    fn setup(&self, child: &NewSubagent<'_>) -> Result<AgentSetup, SetupError> {
        let label = child.label.unwrap_or_default();
        let models = self.models.lock().unwrap();
        let model = models.get(label).ok_or_else(|| SetupError {
            message: format!("nobody answers for \"{label}\""),
            code: "NO_MODEL".into(),
        })?;
        self.made.lock().unwrap().push(Made {
            session: child.session.id().clone(),
            parent: child.parent.clone(),
            call_id: child.call_id.map(str::to_owned),
            provider: child.provider,
            call: child.call.clone(),
        });
        let (tools, env) = (self.tools(), self.env.clone());
        let mut setup = AgentSetup::new(Arc::clone(model), tools, config(), env);
        setup.config.call = child.call.clone();
        setup.config.permissions = self.permissions.lock().unwrap().clone();
        setup.hooks.clone_from(&self.hooks.lock().unwrap());
        setup.approver = Arc::clone(&self.approver.lock().unwrap());
        setup.observer.clone_from(&self.observer.lock().unwrap());
        if let Some(meanwhile) = self.meanwhile.lock().unwrap().take() {
            meanwhile();
        }
        Ok(setup)
    }
}

/// An answer that delegates once: `more` are arguments besides prompt and label.
pub(crate) fn delegates(call: &str, label: &str, more: Value) -> Attempt {
    let arguments = task(label, more);
    calls([(call, "delegate", &*arguments)])
}

/// The arguments of a delegation.
pub(crate) fn task(label: &str, more: Value) -> String {
    let mut arguments = json!({"prompt": format!("Do {label}."), "label": label});
    let members = more.as_object().unwrap().clone();
    arguments.as_object_mut().unwrap().extend(members);
    arguments.to_string()
}

pub(crate) fn nothing_more() -> Value {
    json!({})
}

pub(crate) fn in_conversation() -> Value {
    json!({"context": "conversation"})
}

/// The delegation of a test that calls no tool for it.
pub(crate) fn delegation(label: &str) -> Delegation {
    Delegation {
        label: Some(label.to_owned()),
        ..Delegation::new(format!("Do {label}."))
    }
}

/// What the results say of children, besides their text.
pub(crate) fn metas(log: &EventLog) -> Vec<Value> {
    let results = all(log, &EventKind::ToolResult);
    results
        .iter()
        .map(|result| result["meta"]["subagent"].clone())
        .collect()
}
