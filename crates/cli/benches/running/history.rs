//! Sessions with a past, made by the driver itself.

use std::path::Path;
use std::sync::Arc;

use offshoot_agent::{
    AgentConfig, AgentSetup, Cancel, Clock, Driver, Env, IdSource, SessionService,
};
use offshoot_format::Container;
use offshoot_model::{Attempt, Chunk, ContentBlock, FinishReason, Model, ScriptModel};
use offshoot_session::SessionId;
use offshoot_store::JsonlStore;
use offshoot_tool_api::ToolRegistry;

#[derive(Debug)]
struct Now;

impl Clock for Now {
    fn now(&self) -> i64 {
        let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        since.map_or(0, |since| i64::try_from(since.as_millis()).unwrap_or(0))
    }
}

#[derive(Debug, Default)]
struct Ids(std::sync::atomic::AtomicU64);

impl IdSource for Ids {
    fn fresh(&self) -> String {
        let number = self.0.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        // As long as real ones.
        format!("0193f000-0000-7000-8000-{number:012}")
    }
}

pub(crate) fn env() -> Env {
    Env {
        clock: Arc::new(Now),
        ids: Arc::new(Ids::default()),
    }
}

pub(crate) fn service(home: &Path, env: &Env) -> SessionService {
    let store = JsonlStore::new(home.join("sessions"), Container::Zstd);
    SessionService::new(Arc::new(store), env.clone())
}

pub(crate) fn tools() -> ToolRegistry {
    let mut tools = ToolRegistry::new();
    for tool in offshoot_tools::builtin() {
        tools.register(tool).expect("their names differ");
    }
    tools
}

pub(crate) fn setup(model: Arc<dyn Model>, env: &Env) -> AgentSetup {
    AgentSetup::new(
        model,
        tools(),
        AgentConfig::new("bench", "bench-1"),
        env.clone(),
    )
}

/// The prompt of every turn.
pub(crate) const PROMPT: &str = "Please look at the module again and tell me what it does.";

/// A session of this many turns of text.
pub(crate) fn with_turns(
    service: &SessionService,
    env: &Env,
    cwd: &Path,
    turns: usize,
) -> SessionId {
    let answer = "It reads the configuration, checks it, and starts the server. ".repeat(3);
    let attempt = || {
        Attempt::Chunks(vec![
            Chunk::BlockStart {
                index: 0,
                block_type: "text".into(),
            },
            Chunk::TextDelta {
                index: 0,
                text: answer.clone(),
            },
            Chunk::BlockEnd {
                index: 0,
                block: ContentBlock::text(answer.clone()),
            },
            Chunk::finish(FinishReason::Stop),
        ])
    };
    let model = ScriptModel::new("bench", (0..turns).map(|_| attempt()).collect());
    let cwd = cwd.to_str().expect("UTF-8").to_owned();
    let attached = service.create(Some(cwd)).expect("a new session");
    let mut driver = Driver::new(attached, setup(Arc::new(model), env));
    let runtime = runtime();
    for _ in 0..turns {
        driver.submit(PROMPT).expect("it takes input");
        let reports = runtime.block_on(driver.run(&Cancel::new()));
        assert_eq!(reports.expect("a turn").len(), 1);
    }
    driver.session().id().clone()
}

pub(crate) fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .expect("a runtime")
}
