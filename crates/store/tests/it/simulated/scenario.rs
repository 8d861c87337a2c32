//! What is done on a simulated disk, and what was acknowledged meanwhile.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use offshoot_format::Container;
use offshoot_session::{Event, EventLog, Seq, SessionHeader};
use offshoot_store::testing::seeded_child;
use offshoot_store::{JsonlStore, Persistence as _, SessionWriter, StoreError};

use super::disk::SimDisk;
use crate::support::{NOW, all, events, header, log, next_events, texts};

/// A session that a crash has left before the scenario begins: its end is torn.
pub(crate) const TORN: &str = "torn";

/// What is known about one session.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Known {
    /// Whether the store has said that it exists.
    pub(crate) acknowledged: bool,
    /// The rows that the store has said it has.
    pub(crate) acked: Vec<String>,
    /// The rows that may be there: those, and the batch that was being written last.
    pub(crate) tried: Vec<String>,
}

impl Known {
    /// Whether what a store says of the session can be true.
    pub(crate) fn check(&self, rows: &Result<Vec<String>, StoreError>, context: &str) {
        match rows {
            Ok(rows) => {
                assert!(
                    rows.starts_with(&self.acked),
                    "{context}: {} of {} acknowledged rows: {rows:#?}",
                    rows.len(),
                    self.acked.len()
                );
                assert!(
                    self.tried.starts_with(rows),
                    "{context}: rows that nobody wrote: {rows:#?}"
                );
            }
            Err(StoreError::NotFound { .. }) if !self.acknowledged => {}
            Err(error) => panic!("{context}: {error}"),
        }
    }
}

/// What is known about all sessions, by id.
pub(crate) type Ledger = BTreeMap<String, Known>;

/// The process has ended.
#[derive(Debug)]
pub(crate) struct Ended;

/// A session that is open for writing.
struct Live {
    id: String,
    log: EventLog,
    writer: Box<dyn SessionWriter>,
}

/// A run on one disk.
#[derive(Debug)]
pub(crate) struct Run {
    root: PathBuf,
    container: Container,
    disk: SimDisk,
    ledger: Ledger,
    /// How often something failed and was tried again.
    failures: usize,
}

impl Run {
    /// Before anything is done. What lies below the root already was acknowledged once.
    pub(crate) fn new(root: PathBuf, container: Container, disk: SimDisk) -> Self {
        let mut run = Self {
            root,
            container,
            disk,
            ledger: Ledger::new(),
            failures: 0,
        };
        for listed in all(&run.store()) {
            let id = listed.id.as_str();
            let rows = run.rows(id).unwrap();
            run.acknowledge(id, rows);
        }
        run
    }

    pub(crate) fn ledger(&self) -> &Ledger {
        &self.ledger
    }

    pub(crate) fn disk(&self) -> &SimDisk {
        &self.disk
    }

    /// The scenario: two sessions that grow in turn, forks of a live and of a stopped one, a fork of a fork, a repair in
    /// the middle of two calls, and one of a torn end.
    pub(crate) fn play(&mut self) -> Result<(), Ended> {
        let all = events(9);
        let mut main = self.create(header("main"), &all[..3])?;
        self.append(&mut main, &all[3..7])?;
        let other = SessionHeader {
            cwd: None,
            ..header("other")
        };
        let mut other = self.create(other, &[])?;
        self.append_next(&mut other)?;
        self.append(&mut main, &all[7..])?;
        self.append_next(&mut other)?;
        let mut child = self.fork("main", 7, "child")?;
        self.append_next(&mut child)?;
        drop(main);
        let mut main = self.open("main")?;
        self.append_next(&mut main)?;
        drop(child);
        self.fork("child", 9, "grandchild")?;
        let mut child = self.open("child")?;
        self.append_next(&mut child)?;
        if self.ledger.contains_key(TORN) {
            let mut torn = self.open(TORN)?;
            self.append_next(&mut torn)?;
        }
        Ok(())
    }

    /// Another process opens everything that the one before has left. What it gets to see is acknowledged.
    pub(crate) fn open_all(&mut self) -> Result<(), Ended> {
        for listed in all(&self.store()) {
            drop(self.open(listed.id.as_str())?);
        }
        Ok(())
    }

    /// Another process forks everything as it finds it, at the last event.
    pub(crate) fn fork_all(&mut self) -> Result<(), Ended> {
        for listed in all(&self.store()) {
            let id = listed.id.as_str();
            let source = self.store().read(&id.into()).unwrap().stored;
            if let Some(last) = source.log.end().last() {
                drop(self.fork(id, last.get(), &format!("{id}-fork"))?);
            }
        }
        Ok(())
    }

    /// Another process goes on with everything that the one before has left.
    pub(crate) fn go_on(&mut self) -> Result<(), Ended> {
        for listed in all(&self.store()) {
            let mut live = self.open(listed.id.as_str())?;
            self.append_next(&mut live)?;
        }
        Ok(())
    }

    fn store(&self) -> JsonlStore {
        JsonlStore::on(&self.root, self.container, Arc::new(self.disk.clone()))
    }

    fn rows(&self, id: &str) -> Result<Vec<String>, StoreError> {
        let read = self.store().read(&id.into())?;
        Ok(texts(read.stored.log.events()))
    }

    fn acknowledge(&mut self, id: &str, rows: Vec<String>) {
        let known = Known {
            acknowledged: true,
            tried: rows.clone(),
            acked: rows,
        };
        self.ledger.insert(id.to_owned(), known);
    }

    /// A batch is about to be written behind what is acknowledged.
    fn announce(&mut self, id: &str, batch: &[Arc<Event>]) {
        let known = self.ledger.entry(id.to_owned()).or_default();
        known.tried = known.acked.clone();
        known.tried.extend(texts(batch));
    }

    /// What was announced is stored.
    fn confirm(&mut self, id: &str) {
        let rows = self.ledger[id].tried.clone();
        self.acknowledge(id, rows);
    }

    /// Something failed. Unless that was the end of the process, everything acknowledged can be read, and from here on the
    /// disk works again.
    fn failed(&mut self, error: &StoreError) -> Result<(), Ended> {
        if self.disk.stopped() {
            return Err(Ended);
        }
        for (id, known) in &self.ledger {
            known.check(&self.rows(id), &format!("{id} after `{error}`"));
        }
        self.disk.recover();
        self.failures += 1;
        assert!(self.failures < 4, "the store does not recover: {error}");
        Ok(())
    }

    fn create(&mut self, header: SessionHeader, batch: &[Arc<Event>]) -> Result<Live, Ended> {
        let id = header.id.to_string();
        self.announce(&id, batch);
        let mut writer = self.store().create(&header).unwrap();
        while let Err(error) = writer.append(batch) {
            self.failed(&error)?;
            if !is_poisoned(&error) {
                assert!(self.rows(&id).is_err(), "{id} is there after `{error}`");
                continue;
            }
            drop(writer);
            if self.rows(&id).is_ok() {
                return self.open(&id);
            }
            writer = self.store().create(&header).unwrap();
        }
        self.confirm(&id);
        let log = log(batch);
        Ok(Live { id, log, writer })
    }

    fn open(&mut self, id: &str) -> Result<Live, Ended> {
        loop {
            let stored = self.store().read(&id.into()).unwrap().stored;
            let whole = stored.balanced(NOW).unwrap();
            let known = self.ledger.entry(id.to_owned()).or_default();
            known.tried = texts(whole.log().events());
            match self.store().open(&id.into(), NOW) {
                Ok(opened) => {
                    let log = opened.session.log().clone();
                    self.acknowledge(id, texts(log.events()));
                    return Ok(Live {
                        id: id.to_owned(),
                        log,
                        writer: opened.writer,
                    });
                }
                Err(error) => self.failed(&error)?,
            }
        }
    }

    fn append_next(&mut self, live: &mut Live) -> Result<(), Ended> {
        self.append(live, &next_events(&live.log, &[]))
    }

    fn append(&mut self, live: &mut Live, batch: &[Arc<Event>]) -> Result<(), Ended> {
        // After a repair in between, other events are due.
        let mut batch = match batch[0].seq().get() == live.log.end().get() {
            true => batch.to_vec(),
            false => next_events(&live.log, &[]),
        };
        self.announce(&live.id, &batch);
        while let Err(error) = live.writer.append(&batch) {
            self.failed(&error)?;
            if !is_poisoned(&error) {
                let rows = self.rows(&live.id).unwrap();
                assert_eq!(rows, self.ledger[&live.id].acked, "after `{error}`");
                continue;
            }
            let again = live.writer.append(&batch).unwrap_err();
            assert!(is_poisoned(&again), "{again}");
            *live = self.open(&live.id.clone())?;
            batch = next_events(&live.log, &[]);
            self.announce(&live.id, &batch);
        }
        self.confirm(&live.id);
        for event in batch {
            live.log.push(event).unwrap();
        }
        Ok(())
    }

    fn fork(&mut self, parent: &str, cut: u64, child: &str) -> Result<Live, Ended> {
        loop {
            let source = self.store().read(&parent.into()).unwrap();
            let log = &source.stored.log;
            let (header, seed) = seeded_child(&source.stored.header, log, Seq::new(cut), child);
            let begins: Vec<_> = seed.log().events().cloned().collect();
            self.announce(child, &begins);
            match self.store().fork(&header, &seed, &source.shareable) {
                Ok(writer) => {
                    self.confirm(child);
                    return Ok(Live {
                        id: child.to_owned(),
                        log: seed.log().clone(),
                        writer,
                    });
                }
                Err(error) => self.failed(&error)?,
            }
            // It may have been published, without anybody knowing whether it stays.
            if self.rows(child).is_ok() {
                return self.open(child);
            }
        }
    }
}

fn is_poisoned(error: &StoreError) -> bool {
    error.code() == "WRITER_POISONED"
}
