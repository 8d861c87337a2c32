//! A writer thread on a clock that stands, and writers that do what a test says.

use std::fmt;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread::{self, ThreadId};
use std::time::Duration;

use offshoot_session::{Event, LogOffset};
use offshoot_store::{
    AttemptStart, Clock, SessionWriter, StoreError, Unstored, WriteBehind, WriteListener,
    WriterThread,
};

/// A clock that stands.
#[derive(Clone, Debug, Default)]
pub(super) struct Standing(Arc<AtomicU64>);

impl Clock for Standing {
    fn now(&self) -> Duration {
        Duration::from_millis(self.0.load(Ordering::SeqCst))
    }
}

/// A thread on such a clock.
pub(super) struct Bench {
    clock: Standing,
    pub(super) thread: WriterThread,
}

impl Bench {
    pub(super) fn new() -> Self {
        let clock = Standing::default();
        let thread = WriterThread::by(Arc::new(clock.clone()));
        Self { clock, thread }
    }

    pub(super) fn advance(&self, ms: u64) {
        self.clock.0.fetch_add(ms, Ordering::SeqCst);
        self.thread.look();
    }

    /// Returns when the thread has done all that is due, which it does in the order in which it became due.
    pub(super) fn settle(&self) {
        let probe = Scripted::default();
        let behind = self.thread.attach(probe.writer(), Arc::new(()));
        behind.flush().wait().unwrap();
    }

    pub(super) fn attach(&self, disk: &Scripted) -> WriteBehind {
        let listener = Arc::new(disk.clone());
        self.thread.attach(disk.writer(), listener)
    }
}

/// Where a writer of these tests writes, and what its listener heard.
#[derive(Clone, Default)]
pub(super) struct Scripted(pub(super) Arc<Mutex<Script>>);

#[derive(Default)]
pub(super) struct Script {
    /// The calls that came through, as text.
    done: Vec<String>,
    /// How many of the next appends fail.
    failing: usize,
    pub(super) journal_fails: bool,
    pub(super) panics: bool,
    heard: Vec<String>,
    pub(super) threads: Vec<ThreadId>,
    pub(super) dropped: bool,
    /// Where an append says that it has begun, and whence it may end.
    gate: Option<(Sender<()>, Receiver<()>)>,
}

impl Scripted {
    pub(super) fn writer(&self) -> Box<dyn SessionWriter> {
        Box::new(ScriptedWriter(self.clone()))
    }

    pub(super) fn done(&self) -> Vec<String> {
        self.0.lock().unwrap().done.clone()
    }

    pub(super) fn heard(&self) -> Vec<String> {
        self.0.lock().unwrap().heard.clone()
    }

    pub(super) fn fail(&self, appends: usize) {
        self.0.lock().unwrap().failing = appends;
    }

    /// Lets the next append wait until it is let go.
    pub(super) fn hold(&self) -> Held {
        let (begun, begins) = channel();
        let (go, goes) = channel();
        self.0.lock().unwrap().gate = Some((begun, goes));
        Held { begins, go }
    }
}

/// An append that waits.
pub(super) struct Held {
    begins: Receiver<()>,
    go: Sender<()>,
}

impl Held {
    pub(super) fn begun(&self) {
        self.begins.recv().unwrap();
    }

    pub(super) fn go(self) {
        self.go.send(()).unwrap();
    }
}

pub(super) struct ScriptedWriter(Scripted);

impl fmt::Debug for ScriptedWriter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ScriptedWriter")
    }
}

impl Drop for ScriptedWriter {
    fn drop(&mut self) {
        self.0.0.lock().unwrap().dropped = true;
    }
}

fn broken(what: &'static str) -> StoreError {
    StoreError::Io {
        action: what,
        path: "the log".into(),
        source: io::Error::other("the disk is full"),
    }
}

fn seqs(events: &[Arc<Event>]) -> String {
    let seqs = events.iter().map(|event| event.seq().to_string());
    seqs.collect::<Vec<_>>().join(",")
}

impl SessionWriter for ScriptedWriter {
    fn append(&mut self, events: &[Arc<Event>]) -> Result<(), StoreError> {
        let gate = self.0.0.lock().unwrap().gate.take();
        if let Some((begun, goes)) = gate {
            begun.send(()).unwrap();
            goes.recv().unwrap();
        }
        let mut script = self.0.0.lock().unwrap();
        script.threads.push(thread::current().id());
        if std::mem::take(&mut script.panics) {
            drop(script);
            std::panic::panic_any("the writer is broken");
        }
        if script.failing > 0 {
            script.failing -= 1;
            return Err(broken("append to"));
        }
        script.done.push(format!("append {}", seqs(events)));
        Ok(())
    }

    fn stored(&self) -> LogOffset {
        LogOffset::START
    }

    fn begin_attempt(&mut self, start: &AttemptStart) -> Result<(), StoreError> {
        let mut script = self.0.0.lock().unwrap();
        if script.journal_fails {
            return Err(broken("begin"));
        }
        script.done.push(format!("begin {}", start.attempt));
        Ok(())
    }

    fn journal(&mut self, lines: &[Arc<str>]) -> Result<(), StoreError> {
        let done = &mut self.0.0.lock().unwrap().done;
        done.push(format!("chunks {}", lines.join(",")));
        Ok(())
    }

    fn end_attempt(&mut self) {
        self.0.0.lock().unwrap().done.push("end".to_owned());
    }
}

impl WriteListener for Scripted {
    fn durable(&self, events: &[Arc<Event>]) {
        let mut script = self.0.lock().unwrap();
        script.heard.push(format!("durable {}", seqs(events)));
    }

    fn failed(&self, what: Unstored, error: &Arc<StoreError>) {
        let mut script = self.0.lock().unwrap();
        script.heard.push(format!("{what:?}: {error}"));
    }
}
