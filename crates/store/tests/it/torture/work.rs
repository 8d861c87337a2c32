//! What a process does until it is killed.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use offshoot_format::RunningDigest;
use offshoot_session::{Event, EventLog, LogOffset, Seq, SessionId, StepRef};
use offshoot_store::testing::seeded_child;
use offshoot_store::{
    AttemptStart, Clock, Collecting, JsonlStore, OpenSession, Persistence as _, Prefix,
    SessionWriter, StoreError, WriteBehind, WriterThread,
};
use serde_json::json;

use super::{ACKNOWLEDGED, Dice, ENDED, PLACE, STREAMED};
use crate::journal::attempt;
use crate::simulated::{LATER, Place, ends_attempt};
use crate::support::{NOW, all, event, header, next_events};

const MOST_SESSIONS: usize = 8;

/// A clock that somebody moves.
#[derive(Clone, Debug, Default)]
struct Moved(Arc<AtomicU64>);

impl Clock for Moved {
    fn now(&self) -> Duration {
        Duration::from_millis(self.0.load(Ordering::SeqCst))
    }
}

/// What is stored of a session, for its owner.
#[derive(Default)]
struct Stored {
    shareable: Mutex<Prefix>,
    /// How many lines of the answer.
    lines: Mutex<usize>,
    more: Condvar,
}

impl Stored {
    fn set_lines(&self, lines: usize) {
        *self.lines.lock().unwrap() = lines;
        self.more.notify_all();
    }

    fn wait_for_lines(&self, lines: usize) {
        let stored = self.lines.lock().unwrap();
        let stored = self.more.wait_while(stored, |stored| *stored < lines);
        drop(stored.unwrap());
    }
}

/// Tells the parent what its writer has stored, after it did.
struct Telling {
    id: SessionId,
    writer: Box<dyn SessionWriter>,
    digest: RunningDigest,
    stored: Arc<Stored>,
}

impl Telling {
    fn tell(&self, ended: bool) {
        let Self { id, digest, .. } = self;
        *self.stored.shareable.lock().unwrap() = self.writer.shareable();
        let ended = if ended { ENDED } else { "goes-on" };
        let end = self.writer.stored();
        println!("{ACKNOWLEDGED}{id} {end} {digest} {ended}");
    }
}

impl fmt::Debug for Telling {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.writer.fmt(f)
    }
}

impl SessionWriter for Telling {
    fn append(&mut self, events: &[Arc<Event>]) -> Result<(), StoreError> {
        self.writer.append(events)?;
        let mut ended = false;
        for event in events {
            self.digest.push(event.text().as_bytes());
            ended |= ends_attempt(event.text());
        }
        self.tell(ended);
        Ok(())
    }

    fn stored(&self) -> LogOffset {
        self.writer.stored()
    }

    fn begin_attempt(&mut self, start: &AttemptStart) -> Result<(), StoreError> {
        self.stored.set_lines(0);
        self.writer.begin_attempt(start)
    }

    fn journal(&mut self, lines: &[Arc<str>]) -> Result<(), StoreError> {
        self.writer.journal(lines)?;
        let sum = *self.stored.lines.lock().unwrap() + lines.len();
        println!("{STREAMED}{} {sum}", self.id);
        self.stored.set_lines(sum);
        Ok(())
    }

    fn end_attempt(&mut self) {
        self.writer.end_attempt();
    }
}

/// A session that the child has open.
struct Open {
    id: SessionId,
    /// With what is still queued.
    log: EventLog,
    stored: Arc<Stored>,
    behind: WriteBehind,
    /// The answer that has come in so far, if it has not come to its end.
    answer: Option<(StepRef, String)>,
}

impl Open {
    fn push(&mut self, events: Vec<Arc<Event>>) {
        for event in events {
            self.behind.enqueue(Arc::clone(&event)).unwrap();
            self.log.push(event).unwrap();
        }
    }

    /// The answer comes to its end, if one is coming in.
    fn settle(&mut self) {
        let Some((StepRef { turn, step }, text)) = self.answer.take() else {
            return;
        };
        let seq = self.log.end().get();
        let row = json!({
            "type": "assistant/message", "seq": seq, "time": NOW,
            "data": {"turn": turn, "step": step, "stream": [], "message": {
                "id": format!("a-{seq}"), "role": "assistant",
                "content": [{"type": "text", "text": text}],
                "source": {"kind": "model", "provider": "acme", "model": "acme-small"},
            }},
            "surfaceOp": "append",
        });
        self.push(vec![event(&row.to_string())]);
        self.behind.end_attempt();
    }

    fn flush(&self) {
        self.behind.flush().wait().unwrap();
    }

    fn close(self) -> SessionId {
        self.behind.close().wait().unwrap();
        self.id
    }
}

struct Worker<'a> {
    store: &'a JsonlStore,
    dice: Dice,
    clock: Moved,
    thread: WriterThread,
    open: Vec<Open>,
}

/// Works until this process is killed, or nobody reads its reports.
pub(crate) fn work(store: &JsonlStore, seed: u64) {
    let clock = Moved::default();
    let mut worker = Worker {
        store,
        dice: Dice::new(seed),
        thread: WriterThread::by(Arc::new(clock.clone())),
        clock,
        open: Vec::new(),
    };
    for listed in all(store) {
        worker.reopen(listed.id);
    }
    for count in 0.. {
        worker.act(&format!("{seed}-{count}"));
    }
}

impl Worker<'_> {
    fn act(&mut self, name: &str) {
        let what = self.dice.below(16);
        let has_room = self.open.len() < MOST_SESSIONS;
        if self.open.is_empty() || (what == 0 && has_room) {
            return self.create(&format!("s-{name}"));
        }
        let at = usize::try_from(self.dice.below(self.open.len() as u64)).unwrap();
        match what {
            1 | 2 if has_room => self.fork(at, &format!("f-{name}")),
            3 => {
                let id = self.open.swap_remove(at).close();
                self.reopen(id);
            }
            4 => {
                let id = self.open.swap_remove(at).close();
                self.delete(&id);
            }
            5 | 6 => self.restore_last(),
            7 => self.collect(),
            8..=11 => self.stream(at),
            _ => self.append(at),
        }
    }

    fn attach(&mut self, id: SessionId, log: EventLog, writer: Box<dyn SessionWriter>) {
        let stored = Arc::new(Stored::default());
        let mut digest = RunningDigest::START;
        for event in log.events() {
            digest.push(event.text().as_bytes());
        }
        let telling = Telling {
            id: id.clone(),
            writer,
            digest,
            stored: Arc::clone(&stored),
        };
        if !log.is_empty() {
            telling.tell(true);
        }
        self.open.push(Open {
            id,
            log,
            stored,
            answer: None,
            behind: self.thread.attach(Box::new(telling), Arc::new(())),
        });
    }

    fn create(&mut self, id: &str) {
        let header = header(id);
        let writer = self.store.create(&header).unwrap();
        self.attach(header.id, EventLog::new(), writer);
        self.append(self.open.len() - 1);
    }

    fn reopen(&mut self, id: SessionId) {
        let OpenSession {
            session, writer, ..
        } = self.store.open(&id, NOW).unwrap();
        self.attach(id, session.log().clone(), writer);
    }

    /// A fork of a session by who has it open, also in what is only queued.
    fn fork(&mut self, at: usize, id: &str) {
        let open = &self.open[at];
        if open.log.is_empty() {
            return;
        }
        if self.dice.below(2) == 0 {
            open.flush();
        }
        let cut = Seq::new(self.dice.below(open.log.end().get()));
        let shareable = open.stored.shareable.lock().unwrap().clone();
        let (header, seed) = seeded_child(&header(open.id.as_str()), &open.log, cut, id);
        let writer = self.store.fork(&header, &seed, &shareable).unwrap();
        self.attach(header.id, seed.log().clone(), writer);
    }

    fn append(&mut self, at: usize) {
        let dice = &mut self.dice;
        let count = [0, 1, 1, 2, 5, 12][usize::try_from(dice.below(6)).unwrap()];
        let size = |_| [3, 80, 700, 3_000][usize::try_from(dice.below(4)).unwrap()];
        let messages: Vec<usize> = (0..count).map(size).collect();
        let open = &mut self.open[at];
        open.settle();
        open.push(next_events(&open.log, &messages));
        match self.dice.below(3) {
            0 => open.flush(),
            1 => self.pass_window(),
            _ => {}
        }
    }

    fn pass_window(&self) {
        let window = WriterThread::window().as_millis();
        let window = u64::try_from(window).unwrap();
        self.clock.0.fetch_add(window, Ordering::SeqCst);
        self.thread.look();
    }

    /// An answer comes in, beside other events. It comes to its end, or it does not, or the session is closed meanwhile.
    fn stream(&mut self, at: usize) {
        let open = &mut self.open[at];
        open.settle();
        if open.log.open_tail().turn().is_some() {
            open.push(next_events(&open.log, &[]));
        }
        open.push(next_events(&open.log, &[3]));
        let step = open.log.open_tail().step().unwrap();
        open.behind.begin_attempt(AttemptStart {
            at: step,
            ..attempt()
        });
        let mut text = String::new();
        let mut lines = 0;
        for _ in 0..=self.dice.below(4) {
            for _ in 0..=self.dice.below(6) {
                let piece = format!("{lines} ");
                self.open[at].behind.delta(json!(piece).to_string().into());
                text.push_str(&piece);
                lines += 1;
            }
            if self.dice.below(3) == 0 {
                let open = &mut self.open[at];
                let row = json!({
                    "type": "agent/inbox/spliced", "seq": open.log.end().get(), "time": NOW,
                    "data": {"target": "next-turn", "start": 0, "inserted": []},
                });
                open.push(vec![event(&row.to_string())]);
            }
            match self.dice.below(3) {
                0 => self.open[at].flush(),
                1 => {
                    self.pass_window();
                    self.open[at].stored.wait_for_lines(lines);
                }
                _ => self.pass_window(),
            }
        }
        self.open[at].answer = Some((step, text));
        match self.dice.below(4) {
            0 | 1 => self.open[at].settle(),
            2 => {
                let id = self.open.swap_remove(at).close();
                self.reopen(id);
            }
            _ => {}
        }
    }

    fn delete(&self, id: &SessionId) {
        place(id, Place::Moving);
        self.store.delete(id, NOW).unwrap();
        place(id, Place::Trash);
    }

    fn restore_last(&mut self) {
        let Some(trashed) = self.store.trashed().unwrap().sessions.pop() else {
            return;
        };
        if self.open.len() >= MOST_SESSIONS {
            return;
        }
        place(&trashed.id, Place::Moving);
        self.store.restore(&trashed.id).unwrap();
        place(&trashed.id, Place::Here);
        self.reopen(trashed.id);
    }

    fn collect(&self) {
        let trashed = self.store.trashed().unwrap().sessions;
        for one in &trashed {
            place(&one.id, Place::Going);
        }
        let collected = self.store.collect(0, Collecting::Remove, LATER).unwrap();
        assert_eq!(collected.kept, []);
        for one in &trashed {
            place(&one.id, Place::Gone);
        }
    }
}

fn place(id: &SessionId, place: Place) {
    println!("{PLACE}{id} {place:?}");
}
