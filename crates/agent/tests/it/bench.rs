//! A home, a clock that stands, ids that count, and agents on it.

use std::fs;
use std::io;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use offshoot_agent::{
    Agent, AgentConfig, AgentSetup, AnswerSettler, Attached, Cancel, Clock, Driver,
    DurableListener, Env, IdSource, SessionService, TurnReport, UnstoredListener,
};
use offshoot_format::{CURRENT_VERSION, Container, StoredSession, decode};
use offshoot_model::{
    Assembler, Attempt, CallConfig, Dialect, Message, Model, ProviderConfig, ProviderKind,
    ProviderModel, RetryPolicy, ScriptModel, StreamRecord, Usage, expand,
};
use offshoot_session::{Event, EventKind, EventLog, ForkSeed, LogOffset, SessionHeader, SessionId};
use offshoot_store::{
    AttemptStart, Clock as Monotonic, JsonlStore, OpenSession, Page, Persistence, Prefix, Query,
    ReadSession, SessionWriter, StoreError, WriterThread,
};
use offshoot_test_support::{ScriptedModelServer, TestHome};
use serde::Deserialize;

use crate::points::Probe;
use crate::support::Work;

pub(crate) const NOW: i64 = 1_000;
pub(crate) const DIALECT: Dialect = Dialect::compatible();

#[derive(Debug)]
struct Fixed;

impl Clock for Fixed {
    fn now(&self) -> i64 {
        NOW
    }
}

#[derive(Debug, Default)]
struct Counting(AtomicU64);

/// The clock of the writer thread, moved by hand: no test is in a hurry to have something on the disk.
#[derive(Clone, Debug, Default)]
pub(crate) struct Windows(Arc<AtomicU64>, Arc<Mutex<Option<WriterThread>>>);

impl Windows {
    fn thread(&self) -> WriterThread {
        let thread = WriterThread::by(Arc::new(self.clone()));
        *self.1.lock().unwrap() = Some(thread.clone());
        thread
    }

    /// Lets the windows of everything that is queued run out.
    pub(crate) fn pass(&self) {
        self.0.fetch_add(1, Ordering::SeqCst);
        self.1.lock().unwrap().as_ref().unwrap().look();
    }
}

impl Monotonic for Windows {
    fn now(&self) -> Duration {
        let windows = self.0.load(Ordering::SeqCst);
        WriterThread::window() * u32::try_from(windows).unwrap()
    }
}

impl IdSource for Counting {
    fn fresh(&self) -> String {
        format!("id-{}", self.0.fetch_add(1, Ordering::Relaxed))
    }
}

/// A home on which a test works. When it goes, every session in it is read back and validated.
pub(crate) struct Bench {
    home: TestHome,
    pub(crate) env: Env,
    pub(crate) disk: Faults,
    pub(crate) windows: Windows,
    pub(crate) work: Work,
    pub(crate) service: SessionService,
}

impl Bench {
    pub(crate) fn new() -> Self {
        let home = TestHome::new();
        let env = Env {
            clock: Arc::new(Fixed),
            ids: Arc::new(Counting::default()),
        };
        let disk = Faults::default();
        let windows = Windows::default();
        let service = service(home.path(), &disk, &windows, &env);
        Self {
            home,
            env,
            disk,
            windows,
            work: Work::default(),
            service,
        }
    }

    /// As [`Bench::restart`], with somebody who hears of what could not be stored.
    pub(crate) fn report_to(&mut self, listener: UnstoredListener) {
        let service = service(self.root(), &self.disk, &self.windows, &self.env);
        self.service = service.on_unstored(listener);
    }

    /// Ends agents as if their process were killed: nothing of what they have queued gets to the disk any more. `agents` is
    /// whatever keeps them going: drivers, or handles with the runtime that their tasks are on.
    pub(crate) fn crash(&mut self, agents: impl Sized) {
        self.disk.0.lock().unwrap().dead = true;
        drop(agents);
        self.disk.0.lock().unwrap().dead = false;
        self.restart();
    }

    /// What another process would have: nothing of this one but the files.
    pub(crate) fn restart(&mut self) {
        self.service = service(self.root(), &self.disk, &self.windows, &self.env);
    }

    /// The directory that it is all in.
    pub(crate) fn root(&self) -> &Path {
        self.home.path()
    }

    pub(crate) fn persistence(&self) -> JsonlStore {
        store(self.root())
    }

    pub(crate) fn create(&self) -> Attached {
        self.service.create(Some("/srv/demo".into())).unwrap()
    }

    pub(crate) fn open(&self, id: &SessionId) -> Attached {
        self.service.open(id).unwrap().attached
    }

    pub(crate) fn agent(&self, attached: Attached, model: Arc<dyn Model>) -> Driver {
        self.agent_heard_by(attached, model, None)
    }

    pub(crate) fn agent_heard_by(
        &self,
        attached: Attached,
        model: Arc<dyn Model>,
        listener: Option<DurableListener>,
    ) -> Driver {
        let tools = self.work.tools();
        let mut setup = AgentSetup::new(model, tools, config(), self.env.clone());
        setup.on_durable = listener;
        Driver::new(attached, setup)
    }

    /// What agents of a test are made of.
    pub(crate) fn setup(&self, model: Arc<dyn Model>) -> AgentSetup {
        AgentSetup::new(model, self.work.tools(), config(), self.env.clone())
    }

    /// A handle on an agent on a new session.
    pub(crate) fn running(&self, model: Arc<dyn Model>) -> Agent {
        Agent::new(self.create(), self.setup(model))
    }

    /// An agent on a new session.
    pub(crate) fn scripted(&self, attempts: Vec<Attempt>) -> Driver {
        self.agent(self.create(), script(attempts))
    }

    pub(crate) fn read(&self, id: &SessionId) -> ReadSession {
        self.service.read(id).unwrap()
    }

    /// The log as its file has it.
    pub(crate) fn log(&self, id: &SessionId) -> EventLog {
        self.read(id).stored.log
    }

    pub(crate) fn file(&self, id: &SessionId) -> PathBuf {
        self.persistence().locate(id).unwrap()
    }

    pub(crate) fn bytes(&self, id: &SessionId) -> Vec<u8> {
        fs::read(self.file(id)).unwrap()
    }

    /// Stores a recorded session under the id that its header says.
    pub(crate) fn import(&self, bytes: &[u8]) -> SessionId {
        let StoredSession {
            version,
            header,
            log,
            ..
        } = decode(bytes).unwrap();
        let mut writer = self.persistence().create(&header).unwrap();
        let events: Vec<_> = log.events().cloned().collect();
        writer.append(&events).unwrap();
        drop(writer);
        if version == CURRENT_VERSION {
            assert_eq!(self.bytes(&header.id), bytes, "stored as it was recorded");
        }
        header.id
    }
}

fn store(root: &Path) -> JsonlStore {
    let store = JsonlStore::new(root.join("sessions"), Container::Raw);
    store.settling(Arc::new(AnswerSettler))
}

/// What a process has that works on the home of another one's bench. It passes a point of the probe before it writes.
pub(crate) fn in_another_process(root: &Path, probe: &Probe) -> (SessionService, Env) {
    let disk = Faults::default();
    disk.probe(probe);
    let env = Env {
        clock: Arc::new(Fixed),
        ids: Arc::new(Counting(AtomicU64::new(1_000))),
    };
    (service(root, &disk, &Windows::default(), &env), env)
}

fn service(root: &Path, faults: &Faults, windows: &Windows, env: &Env) -> SessionService {
    let store = FaultyStore {
        store: store(root),
        faults: faults.clone(),
    };
    SessionService::new(Arc::new(store), env.clone()).writing_on(windows.thread())
}

pub(crate) fn config() -> AgentConfig {
    let mut config = AgentConfig::new("acme", "acme-small");
    config.system_prompt = "You are a test agent.".into();
    config
}

pub(crate) fn call_config(model: &str) -> CallConfig {
    CallConfig {
        provider: "acme".into(),
        model: model.into(),
        ..CallConfig::default()
    }
}

pub(crate) fn script(attempts: Vec<Attempt>) -> Arc<ScriptModel> {
    Arc::new(ScriptModel::new("acme", attempts))
}

/// The provider's real adapter, over HTTP. What fails is not tried again.
pub(crate) fn over_http(server: &ScriptedModelServer) -> Arc<dyn Model> {
    let mut config = ProviderConfig::new(ProviderKind::Compatible, "acme", server.base_url());
    config.retry = RetryPolicy::never();
    Arc::new(ProviderModel::new(config).unwrap())
}

/// Says something and runs until nothing waits.
pub(crate) async fn ask(agent: &mut Driver, prompt: &str) -> Vec<TurnReport> {
    agent.submit(prompt).unwrap();
    agent.run(&Cancel::new()).await.unwrap()
}

impl Drop for Bench {
    fn drop(&mut self) {
        if std::thread::panicking() {
            return;
        }
        let mut files = Vec::new();
        logs_below(&self.home.path().join("sessions"), &mut files);
        for file in files {
            let bytes = fs::read(&file).unwrap();
            let stored = decode(&bytes).unwrap_or_else(|error| panic!("{error}"));
            assert_eq!(stored.tail, None, "no torn tail");
            stored.log.continuable().unwrap();
            check_streams(&stored.log);
        }
    }
}

fn logs_below(dir: &Path, files: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(dir).into_iter().flatten() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            logs_below(&path, files);
        } else if path
            .extension()
            .is_some_and(|extension| extension == "jsonl")
        {
            files.push(path);
        }
    }
}

/// A recorded stream amounts to the message beside it (`reference/persistence.md` §3.7).
fn check_streams(log: &EventLog) {
    #[derive(Deserialize)]
    struct Settled {
        message: Message,
        stream: Vec<StreamRecord>,
        usage: Option<Usage>,
        #[serde(default)]
        interrupted: bool,
    }
    let messages = log
        .events()
        .filter(|event| *event.kind() == EventKind::AssistantMessage);
    for event in messages {
        let settled: Settled = event.parse().unwrap();
        if settled.stream.is_empty() {
            continue;
        }
        let mut assembler = Assembler::new();
        for (_, chunk) in expand(&settled.stream) {
            assembler.push(&chunk);
        }
        let partial = assembler.interrupted_blocks();
        let whole = assembler.finish();
        let content = if settled.interrupted {
            partial
        } else {
            whole.content
        };
        assert_eq!(
            (content, whole.usage),
            (settled.message.content, settled.usage),
            "event {}",
            event.seq()
        );
    }
}

/// A switch that lets batches fail by their number.
#[derive(Clone, Debug, Default)]
pub(crate) struct Faults(Arc<Mutex<Plan>>);

#[derive(Debug, Default)]
struct Plan {
    batches: usize,
    /// Passes a point before whatever is written.
    probe: Option<Probe>,
    failing: Option<RangeInclusive<usize>>,
    /// Nothing works, journals included.
    dead: bool,
}

impl Faults {
    /// Lets these of the batches to come fail, counted from 1.
    pub(crate) fn fail(&self, batches: RangeInclusive<usize>) {
        let mut plan = self.0.lock().unwrap();
        plan.batches = 0;
        plan.failing = Some(batches);
        plan.dead = false;
    }

    /// Lets everything work again.
    pub(crate) fn mend(&self) {
        self.0.lock().unwrap().failing = None;
    }

    /// How many batches there were since the last plan.
    pub(crate) fn batches(&self) -> usize {
        self.0.lock().unwrap().batches
    }

    /// Makes every new file, fork and batch a point of a probe.
    pub(crate) fn probe(&self, probe: &Probe) {
        self.0.lock().unwrap().probe = Some(probe.clone());
    }

    fn is_dead(&self) -> bool {
        self.0.lock().unwrap().dead
    }

    fn point(&self, point: &str) {
        let probe = self.0.lock().unwrap().probe.clone();
        if let Some(probe) = probe {
            probe.point(point);
        }
    }

    fn next(&self) -> io::Result<()> {
        self.point("batch");
        let mut plan = self.0.lock().unwrap();
        plan.batches += 1;
        let number = plan.batches;
        match &plan.failing {
            _ if plan.dead => Err(io::Error::other("the process is gone")),
            Some(failing) if failing.contains(&number) => Err(io::Error::other("the disk is full")),
            _ => Ok(()),
        }
    }
}

/// A store whose writers refuse the batches that the switch says.
#[derive(Debug)]
struct FaultyStore {
    store: JsonlStore,
    faults: Faults,
}

impl FaultyStore {
    fn faulty(&self, writer: Box<dyn SessionWriter>) -> Box<dyn SessionWriter> {
        let faults = self.faults.clone();
        Box::new(FaultyWriter { writer, faults })
    }
}

impl Persistence for FaultyStore {
    fn create(&self, header: &SessionHeader) -> Result<Box<dyn SessionWriter>, StoreError> {
        self.faults.point("create");
        Ok(self.faulty(self.store.create(header)?))
    }

    fn fork(
        &self,
        header: &SessionHeader,
        seed: &ForkSeed,
        shareable: &Prefix,
    ) -> Result<Box<dyn SessionWriter>, StoreError> {
        self.faults.point("fork");
        Ok(self.faulty(self.store.fork(header, seed, shareable)?))
    }

    fn is_being_written(&self, id: &SessionId) -> bool {
        self.store.is_being_written(id)
    }

    fn read(&self, id: &SessionId) -> Result<ReadSession, StoreError> {
        self.store.read(id)
    }

    fn open(&self, id: &SessionId, now: i64) -> Result<OpenSession, StoreError> {
        self.faults.point("open");
        let mut opened = self.store.open(id, now)?;
        opened.writer = self.faulty(opened.writer);
        Ok(opened)
    }

    fn list(&self, query: &Query) -> Result<Page, StoreError> {
        self.store.list(query)
    }

    fn delete(&self, id: &SessionId, now: i64) -> Result<(), StoreError> {
        self.store.delete(id, now)
    }

    fn restore(&self, id: &SessionId) -> Result<(), StoreError> {
        self.store.restore(id)
    }
}

#[derive(Debug)]
struct FaultyWriter {
    writer: Box<dyn SessionWriter>,
    faults: Faults,
}

impl SessionWriter for FaultyWriter {
    fn append(&mut self, events: &[Arc<Event>]) -> Result<(), StoreError> {
        self.faults.next().map_err(|source| StoreError::Io {
            action: "append to",
            path: "the log".into(),
            source,
        })?;
        self.writer.append(events)
    }

    fn stored(&self) -> LogOffset {
        self.writer.stored()
    }

    fn begin_attempt(&mut self, start: &AttemptStart) -> Result<(), StoreError> {
        if self.faults.is_dead() {
            return Ok(());
        }
        self.writer.begin_attempt(start)
    }

    fn journal(&mut self, lines: &[Arc<str>]) -> Result<(), StoreError> {
        if self.faults.is_dead() {
            return Ok(());
        }
        self.writer.journal(lines)
    }

    fn end_attempt(&mut self) {
        if !self.faults.is_dead() {
            self.writer.end_attempt();
        }
    }
}
