//! Scenarios in folders of their own, real sessions below them, and a model that can be recorded.

use std::collections::VecDeque;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use futures_util::stream::{self, BoxStream, StreamExt as _};
use offshoot_agent::{
    AgentConfig, AgentSetup, AnswerSettler, Clock, Env, IdSource, NewSubagent, SessionService,
    SubagentLimits,
};
use offshoot_format::Container;
use offshoot_model::{
    CallConfig, Chunk, ContentBlock, Failure, FinishReason, Model, ModelRequest, PreparedCall,
    RetryPolicy, Role,
};
use offshoot_replay::{
    Existing, Parts, Place, Refreshed, Replayed, Scenario, Wiring, WiringError, record, refresh,
    replay,
};
use offshoot_session::LiveSession;
use offshoot_store::JsonlStore;
use offshoot_tool_api::{SandboxMode, ToolRegistry};
use offshoot_tools::ToolSet;
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;

/// Ids and times of this process: no two runs have the same.
static TICKS: AtomicI64 = AtomicI64::new(1_700_000_000_000);
static IDS: AtomicU64 = AtomicU64::new(1);

#[derive(Debug)]
struct Ticking;

impl Clock for Ticking {
    fn now(&self) -> i64 {
        TICKS.fetch_add(7, Ordering::Relaxed)
    }
}

#[derive(Debug)]
struct Counting;

impl IdSource for Counting {
    fn fresh(&self) -> String {
        let id = IDS.fetch_add(1, Ordering::Relaxed);
        format!("00000000-0000-7000-8000-{id:012x}")
    }
}

/// What agents are made of here: a store in the home, the built-in tools, and a model that is recorded.
#[derive(Debug, Default)]
pub(crate) struct Bench {
    said: Mutex<VecDeque<Line>>,
    pub(crate) secrets: Vec<String>,
}

/// What the model says when it is asked for something.
pub(crate) type Line = (&'static str, Vec<Chunk>);

#[derive(Debug)]
struct BenchParts {
    service: SessionService,
    model: Arc<Talking>,
    secrets: Vec<String>,
}

impl Bench {
    /// With a model that answers the first request whose latest message has `0` in it with `1`.
    pub(crate) fn saying(lines: impl IntoIterator<Item = Line>) -> Self {
        Self {
            said: Mutex::new(lines.into_iter().collect()),
            secrets: Vec::new(),
        }
    }
}

impl Wiring for Bench {
    fn assemble(&self, scenario: &Scenario, place: &Place) -> Result<Arc<dyn Parts>, WiringError> {
        let store = JsonlStore::new(place.home.join("sessions"), Container::Zstd)
            .settling(Arc::new(AnswerSettler));
        if scenario.settings.contains_key("broken") {
            return Err(WiringError::new("BROKEN", "the settings are broken"));
        }
        Ok(Arc::new(BenchParts {
            service: SessionService::new(Arc::new(store), env()),
            model: Arc::new(Talking {
                lines: Mutex::new(self.said.lock().unwrap().clone()),
                hangs: place.workspace.join("hangs"),
            }),
            secrets: self.secrets.clone(),
        }))
    }
}

fn env() -> Env {
    Env {
        clock: Arc::new(Ticking),
        ids: Arc::new(Counting),
    }
}

impl BenchParts {
    fn setup(&self, model: Arc<dyn Model>, call: CallConfig) -> AgentSetup {
        let mut tools = ToolRegistry::new();
        for tool in ToolSet::default().tools() {
            tools.register(tool).unwrap();
        }
        let mut config = AgentConfig::new(call.provider.clone(), call.model.clone());
        config.call = call;
        config.permissions.mode = Some(SandboxMode::DangerFullAccess);
        AgentSetup::new(model, tools, config, env())
    }
}

impl Parts for BenchParts {
    fn service(&self) -> SessionService {
        self.service.clone()
    }

    fn env(&self) -> Env {
        env()
    }

    fn model(&self) -> Result<Arc<dyn Model>, WiringError> {
        Ok(Arc::clone(&self.model) as Arc<dyn Model>)
    }

    fn agent(&self, _: &LiveSession, model: Arc<dyn Model>) -> Result<AgentSetup, WiringError> {
        Ok(self.setup(model, AgentConfig::new("demo", "demo-1").call))
    }

    fn subagent(
        &self,
        child: &NewSubagent<'_>,
        model: Arc<dyn Model>,
    ) -> Result<AgentSetup, WiringError> {
        Ok(self.setup(model, child.call.clone()))
    }

    fn limits(&self) -> SubagentLimits {
        SubagentLimits::default()
    }

    fn secrets(&self) -> Vec<String> {
        self.secrets.clone()
    }
}

/// A model that says what fits what it is asked.
#[derive(Debug)]
struct Talking {
    lines: Mutex<VecDeque<Line>>,
    /// A file that appears when an answer hangs.
    hangs: PathBuf,
}

impl Model for Talking {
    fn provider(&self) -> &str {
        "demo"
    }

    fn prepare(&self, config: &CallConfig) -> Result<PreparedCall, Failure> {
        let mut prepared = PreparedCall::plain(config.clone());
        prepared.retry = RetryPolicy::never();
        Ok(prepared)
    }

    fn stream(
        &self,
        request: Arc<ModelRequest>,
        cancel: CancellationToken,
    ) -> BoxStream<'static, Chunk> {
        // What was said since it has spoken last.
        let all = request.messages.iter().rev();
        let new = all.take_while(|message| message.role != Role::Assistant);
        let asked: String = new
            .map(|message| serde_json::to_string(&**message).unwrap())
            .collect();
        let mut lines = self.lines.lock().unwrap();
        let fits = lines.iter().position(|(about, _)| asked.contains(about));
        let chunks = match fits.and_then(|at| lines.remove(at)) {
            Some((_, chunks)) => chunks,
            None => vec![Chunk::failed(Failure::new("UNASKED", asked))],
        };
        drop(lines);
        let is_finished = matches!(chunks.last(), Some(Chunk::Finish { .. }));
        let given = stream::iter(chunks);
        if is_finished {
            return given.boxed();
        }
        // It hangs where it has no finish.
        let file = self.hangs.clone();
        let hangs = stream::once(async move {
            write(&file, "");
            cancel.cancelled().await;
            Chunk::aborted()
        });
        given.chain(hangs).boxed()
    }
}

#[expect(clippy::disallowed_methods, reason = "an input of a test is no log")]
fn write(path: &Path, text: impl AsRef<[u8]>) {
    fs::write(path, text).unwrap();
}

/// A text, in two pieces.
pub(crate) fn says(text: &str) -> Vec<Chunk> {
    let mut chunks = begins(text);
    chunks.extend([
        Chunk::BlockEnd {
            index: 0,
            block: ContentBlock::text(text),
        },
        Chunk::finish(FinishReason::Stop),
    ]);
    chunks
}

/// A text that does not come to its end.
pub(crate) fn begins(text: &str) -> Vec<Chunk> {
    let (first, rest) = text.split_at(text.len() / 2);
    let piece = |text: &str| Chunk::TextDelta {
        index: 0,
        text: text.to_owned(),
    };
    vec![
        Chunk::BlockStart {
            index: 0,
            block_type: "text".to_owned(),
        },
        piece(first),
        piece(rest),
    ]
}

/// Calls of tools: id, name and arguments.
pub(crate) fn calls(calls: &[(&str, &str, serde_json::Value)]) -> Vec<Chunk> {
    let mut chunks = Vec::new();
    for (index, (id, name, arguments)) in (0..).zip(calls) {
        chunks.push(Chunk::BlockStart {
            index,
            block_type: "tool-call".to_owned(),
        });
        chunks.push(Chunk::BlockEnd {
            index,
            block: ContentBlock::ToolCall {
                id: (*id).to_owned(),
                name: (*name).to_owned(),
                arguments: arguments.to_string(),
            },
        });
    }
    chunks.push(Chunk::finish(FinishReason::ToolCalls));
    chunks
}

/// A scenario's folder.
#[derive(Debug)]
pub(crate) struct Folder {
    pub(crate) dir: TempDir,
}

pub(crate) const HEAD: &str = "about = \"A scenario.\"\n[model]\nname = \"demo/demo-1\"\n";

impl Folder {
    /// With these steps.
    pub(crate) fn new(steps: &str) -> Self {
        Self::with(&format!("{HEAD}{steps}"))
    }

    /// With this `scenario.toml`.
    pub(crate) fn with(text: &str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let folder = Self { dir };
        folder.write("scenario.toml", text);
        folder
    }

    pub(crate) fn path(&self) -> &Path {
        self.dir.path()
    }

    pub(crate) fn write(&self, file: &str, text: impl AsRef<[u8]>) {
        let path = self.path().join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        write(&path, text);
    }

    pub(crate) fn read(&self, file: &str) -> String {
        fs::read_to_string(self.path().join(file)).unwrap()
    }

    pub(crate) fn load(&self) -> Scenario {
        Scenario::load(self.path()).unwrap()
    }

    /// All files below it, by name.
    pub(crate) fn files(&self) -> Vec<String> {
        let mut found = Vec::new();
        let mut open = vec![self.path().to_owned()];
        while let Some(dir) = open.pop() {
            for entry in fs::read_dir(dir).unwrap() {
                let path = entry.unwrap().path();
                match path.is_dir() {
                    true => open.push(path),
                    false => found.push(self.name(&path)),
                }
            }
        }
        found.sort();
        found
    }

    pub(crate) fn name(&self, path: &Path) -> String {
        let below = path.strip_prefix(self.path()).unwrap();
        below.to_string_lossy().into_owned()
    }
}

/// Where runs go.
pub(crate) fn scratch() -> (TempDir, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("run");
    (dir, path)
}

/// Replays a scenario.
pub(crate) async fn replayed(folder: &Folder) -> Replayed {
    let (_dir, place) = scratch();
    let bench = Bench::default();
    Box::pin(replay(&folder.load(), &bench, &place, None))
        .await
        .unwrap()
}

/// Writes down what comes of a scenario, which has to be sound, and returns the names of the files that have changed.
pub(crate) async fn refreshed(folder: &Folder) -> Vec<String> {
    let (_dir, place) = scratch();
    let bench = Bench::default();
    let refreshed = Box::pin(refresh(&folder.load(), &bench, &place, None))
        .await
        .unwrap();
    assert_eq!(refreshed.flaws, [], "the run has to be sound");
    let changed = refreshed.changed.iter();
    changed.map(|path| folder.name(path)).collect()
}

/// Records a scenario, and returns what came of replaying it.
pub(crate) async fn recorded(folder: &Folder, bench: &Bench) -> Refreshed {
    let (_dir, place) = scratch();
    let recording = Box::pin(record(folder.path(), Existing::Keep, bench, &place, None));
    recording.await.unwrap().replayed
}

/// What the steps are expected to come to.
pub(crate) fn output(folder: &Folder) -> Vec<serde_json::Value> {
    let text = folder.read("expected/output.jsonl");
    text.lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}
