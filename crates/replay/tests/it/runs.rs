//! Runs of agents in memory: one that is recorded, and others that replay it.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use offshoot_agent::{
    AgentConfig, AgentSetup, Attached, Cancel, Clock, Driver, Env, IdSource, SessionService,
};
use offshoot_format::StoredSession;
use offshoot_model::{
    Attempt, Chunk, ContentBlock, FinishReason, Message, MessageSource, Model, ModelRequest, Role,
};
use offshoot_replay::{Overrides, Replaying, Script, ScriptError, Scripts};
use offshoot_session::{EventLog, SessionId};
use offshoot_store::MemoryStore;
use serde_json::{Value, json};

pub(crate) const NOW: i64 = 1_000;

/// Ids that begin with the name of the run, so that no two runs have one in common.
#[derive(Debug)]
struct Counting(&'static str, AtomicU64);

impl IdSource for Counting {
    fn fresh(&self) -> String {
        format!("{}-{}", self.0, self.1.fetch_add(1, Ordering::Relaxed))
    }
}

#[derive(Debug)]
struct Fixed;

impl Clock for Fixed {
    fn now(&self) -> i64 {
        NOW
    }
}

/// A run with sessions and ids of its own.
pub(crate) struct Run {
    pub(crate) env: Env,
    pub(crate) service: SessionService,
}

impl Run {
    pub(crate) fn new(name: &'static str) -> Self {
        let env = Env {
            clock: Arc::new(Fixed),
            ids: Arc::new(Counting(name, AtomicU64::default())),
        };
        let service = SessionService::new(Arc::new(MemoryStore::default()), env.clone());
        Self { env, service }
    }

    pub(crate) fn create(&self, cwd: &str) -> Attached {
        self.service.create(Some(cwd.to_owned())).unwrap()
    }

    pub(crate) fn setup(&self, model: Arc<dyn Model>) -> AgentSetup {
        let mut config = AgentConfig::new("acme", "acme-small");
        config.system_prompt = "You are a test agent.".into();
        AgentSetup::new(model, Default::default(), config, self.env.clone())
    }

    pub(crate) fn driver(&self, attached: Attached, model: Arc<dyn Model>) -> Driver {
        Driver::new(attached, self.setup(model))
    }

    pub(crate) fn stored(&self, id: &SessionId) -> StoredSession {
        self.service.read(id).unwrap().stored
    }

    pub(crate) fn log(&self, id: &SessionId) -> EventLog {
        self.stored(id).log
    }
}

/// Says something and runs until nothing waits.
pub(crate) async fn ask(driver: &mut Driver, prompt: &str) {
    driver.submit(prompt).unwrap();
    driver.run(&Cancel::new()).await.unwrap();
}

pub(crate) fn answer(blocks: Vec<ContentBlock>, finish: FinishReason) -> Vec<Chunk> {
    let blocks = (0..).zip(blocks).flat_map(|(index, block)| {
        let block_type = block.block_type();
        [
            Chunk::BlockStart { index, block_type },
            Chunk::BlockEnd { index, block },
        ]
    });
    blocks.chain([Chunk::finish(finish)]).collect()
}

pub(crate) fn text(text: &str) -> Vec<Chunk> {
    answer(vec![ContentBlock::text(text)], FinishReason::Stop)
}

pub(crate) fn says(what: &str) -> Attempt {
    Attempt::Chunks(text(what))
}

pub(crate) fn call(id: &str, tool: &str, arguments: &Value) -> ContentBlock {
    ContentBlock::ToolCall {
        id: id.into(),
        name: tool.into(),
        arguments: arguments.to_string(),
    }
}

pub(crate) fn fails(code: &str) -> Attempt {
    Attempt::Throw {
        chunks: Vec::new(),
        message: format!("the provider says {code}"),
        code: code.into(),
    }
}

/// What an override says.
pub(crate) fn overrides(json: &Value) -> Result<Overrides, ScriptError> {
    Overrides::parse(Path::new("overrides/main.json"), &json.to_string())
}

/// The entry that says a text, as an override has it.
pub(crate) fn entry(what: &str) -> Value {
    json!({"kind": "chunks", "chunks": text(what)})
}

/// A script that was written by hand.
pub(crate) fn written(name: &str, entries: &Value) -> Script {
    Script::written(name, &overrides(entries).unwrap()).unwrap()
}

/// The script of a recorded session.
pub(crate) fn recorded(name: &str, recording: StoredSession) -> Script {
    let file = format!("sessions/{name}.jsonl");
    Script::of_recording(name, Path::new(&file), recording, None).unwrap()
}

pub(crate) fn scripts(scripts: Vec<Script>) -> Scripts {
    let replaying = Replaying {
        provider: "acme".into(),
        workspace: "/srv/live".into(),
        ..Replaying::default()
    };
    Scripts::new(scripts, replaying).unwrap()
}

/// A request that asks something.
pub(crate) fn question() -> Arc<ModelRequest> {
    let message = Message::text("m", Role::User, "Well?", MessageSource::user());
    Arc::new(ModelRequest {
        messages: vec![message.into()],
        ..ModelRequest::default()
    })
}

/// What a problem or an error says.
pub(crate) fn lines<T: ToString>(all: &[T]) -> Vec<String> {
    all.iter().map(ToString::to_string).collect()
}
