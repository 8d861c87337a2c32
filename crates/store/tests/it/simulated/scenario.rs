//! What is done on a simulated disk, and what was acknowledged meanwhile.

use std::path::PathBuf;
use std::sync::Arc;

use offshoot_format::Container;
use offshoot_session::{Event, EventLog, Seq, SessionHeader};
use offshoot_store::testing::seeded_child;
use offshoot_store::{Choice, Collecting, JsonlStore, Persistence as _, SessionWriter, StoreError};

use super::disk::SimDisk;
use super::image::Image;
use super::ledger::{Known, Ledger, Place, Stream, ends_attempt};
use crate::journal::Texts;
use crate::support::{NOW, all, events, header, log, next_events, texts};

/// A session that a crash has left before the scenario begins: its end is torn.
pub(crate) const TORN: &str = "torn";

/// A time at which everything that lies in a home is old, in ms since the epoch.
pub(crate) const LATER: i64 = 9_000_000_000_000;

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
    /// What a power cut would have left behind a failure, and what was known by then.
    cuts: Vec<(String, Image, Ledger)>,
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
            cuts: Vec::new(),
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

    /// What a power cut would have left behind each failure.
    pub(crate) fn take_cuts(&mut self) -> Vec<(String, Image, Ledger)> {
        std::mem::take(&mut self.cuts)
    }

    /// The scenario: two sessions that grow in turn, an answer that comes to its end and one that does not, forks of a live
    /// and of a stopped session, a fork of a fork, a repair in the middle of two calls, and one of a torn end; a session
    /// that is deleted and restored, and one that is deleted and collected while its forks go on.
    pub(crate) fn play(&mut self) -> Result<(), Ended> {
        let all = events(9);
        let mut main = self.create(header("main"), &all[..3])?;
        self.append(&mut main, &all[3..6])?;
        self.stream(&mut main, &[&[r#""Look, ""#], &[r#""two ""#, r#""lists""#]])?;
        self.append(&mut main, &all[6..7])?;
        main.writer.end_attempt();
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
        self.stream(&mut child, &[&[r#""Wait""#], &[r#"" for""#, r#"" it""#]])?;
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
        drop((main, other));
        self.delete("other")?;
        self.restore("other")?;
        let mut other = self.open("other")?;
        self.append_next(&mut other)?;
        self.delete("main")?;
        self.collect()?;
        self.append_next(&mut child)
    }

    /// Another process brings back everything that is in the trash.
    pub(crate) fn restore_all(&mut self) -> Result<(), Ended> {
        for trashed in self.store().trashed().unwrap().sessions {
            self.restore(trashed.id.as_str())?;
            self.known(trashed.id.as_str()).place = Place::Here;
        }
        Ok(())
    }

    /// Empties the trash.
    pub(crate) fn collect(&mut self) -> Result<(), Ended> {
        let trashed = self.store().trashed().unwrap().sessions.into_iter();
        let going: Vec<String> = trashed.map(|one| one.id.to_string()).collect();
        for id in &going {
            self.known(id).place = Place::Going;
        }
        loop {
            let collected = self.store().collect(0, Collecting::Remove, LATER);
            if self.disk.stopped() {
                return Err(Ended);
            }
            let why = match collected {
                Ok(done) if done.kept.is_empty() => break,
                Ok(done) => format!("{:?}", done.kept),
                Err(error) => error.to_string(),
            };
            self.failed(&why)?;
        }
        for id in &going {
            self.known(id).place = Place::Gone;
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
        let disk = Arc::new(self.disk.clone());
        JsonlStore::on(&self.root, self.container, disk).settling(Arc::new(Texts))
    }

    fn known(&mut self, id: &str) -> &mut Known {
        self.ledger.entry(id.to_owned()).or_default()
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
            ..Known::default()
        };
        self.ledger.insert(id.to_owned(), known);
    }

    /// A batch is about to be written behind what is acknowledged.
    fn announce(&mut self, id: &str, batch: &[Arc<Event>]) {
        let known = self.known(id);
        known.tried = known.acked.clone();
        known.tried.extend(texts(batch));
    }

    /// What was announced is stored.
    fn confirm(&mut self, id: &str) {
        let known = self.known(id);
        let (batch, stream) = (known.acked.len(), known.stream.take());
        let rows = known.tried.clone();
        let ended = rows[batch..].iter().any(|row| ends_attempt(row));
        self.acknowledge(id, rows);
        self.known(id).stream = stream.filter(|_| !ended);
    }

    /// Something failed. Unless that was the end of the process, everything acknowledged can be read, and from here on the
    /// disk works again. Should the power fail instead, everything acknowledged is there too.
    fn failed(&mut self, why: &str) -> Result<(), Ended> {
        if self.disk.stopped() {
            return Err(Ended);
        }
        for (id, known) in &self.ledger {
            self.check_live(id, known, &format!("{id} after `{why}`"));
        }
        for (cut, image) in self.disk.power_cuts() {
            let context = format!("after `{why}`, {cut}");
            self.cuts.push((context, image, self.ledger.clone()));
        }
        self.disk.recover();
        self.failures += 1;
        assert!(self.failures < 4, "the store does not recover: {why}");
        Ok(())
    }

    fn check_live(&self, id: &str, known: &Known, context: &str) {
        let in_trash = self.is_in_trash(id);
        let rows = self.rows(id);
        assert!(!in_trash || rows.is_err(), "{context}: it is in two places");
        match (rows, known.place) {
            (Ok(rows), Place::Here | Place::Moving) => {
                assert_eq!(known.fault(&rows), None, "{context}: {rows:#?} {known:#?}");
            }
            (Err(_), Place::Moving | Place::Trash) if in_trash => {}
            (Err(StoreError::NotFound { .. }), Place::Going | Place::Gone) => {}
            (Err(StoreError::NotFound { .. }), Place::Here) if !known.acknowledged => {}
            (rows, place) => panic!("{context}: {place:?}: {rows:?}"),
        }
    }

    fn is_in_trash(&self, id: &str) -> bool {
        let trashed = self.store().trashed().unwrap().sessions;
        trashed.iter().any(|one| one.id.as_str() == id)
    }

    fn delete(&mut self, id: &str) -> Result<(), Ended> {
        self.known(id).place = Place::Moving;
        while let Err(error) = self.store().move_to_trash(&id.into(), NOW) {
            self.failed(&error.to_string())?;
            if self.is_in_trash(id) {
                // It could not be moved back. Nobody knows whether it stays.
                return Ok(());
            }
        }
        self.known(id).place = Place::Trash;
        Ok(())
    }

    fn restore(&mut self, id: &str) -> Result<(), Ended> {
        self.known(id).place = Place::Moving;
        while let Err(error) = self.store().restore_from_trash(&id.into(), &Choice::Newest) {
            self.failed(&error.to_string())?;
            if !self.is_in_trash(id) {
                return Ok(());
            }
        }
        self.known(id).place = Place::Here;
        Ok(())
    }

    /// An answer comes in, in windows of lines, until it is all there or the journal takes no more.
    fn stream(
        &mut self,
        live: &mut Live,
        windows: &[&'static [&'static str]],
    ) -> Result<(), Ended> {
        let stream = Stream {
            turn: live.log.last_turn(),
            step: 1,
            tried: Vec::new(),
            acked: 0,
        };
        let start = stream.start();
        self.known(&live.id).stream = Some(stream);
        while let Err(error) = live.writer.begin_attempt(&start) {
            self.failed(&error.to_string())?;
        }
        for window in windows {
            let lines: Vec<Arc<str>> = window.iter().map(|line| Arc::from(*line)).collect();
            self.streamed(live).tried.extend(*window);
            if let Err(error) = live.writer.journal(&lines) {
                return self.failed(&error.to_string());
            }
            let stream = self.streamed(live);
            stream.acked = stream.tried.len();
        }
        Ok(())
    }

    fn streamed(&mut self, live: &Live) -> &mut Stream {
        self.known(&live.id).stream.as_mut().unwrap()
    }

    fn create(&mut self, header: SessionHeader, batch: &[Arc<Event>]) -> Result<Live, Ended> {
        let id = header.id.to_string();
        self.announce(&id, batch);
        let mut writer = self.store().create(&header).unwrap();
        while let Err(error) = writer.append(batch) {
            self.failed(&error.to_string())?;
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
            self.known(id).tried = texts(whole.log().events());
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
                Err(error) => self.failed(&error.to_string())?,
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
            self.failed(&error.to_string())?;
            if !is_poisoned(&error) {
                let rows = self.rows(&live.id).unwrap();
                assert!(!rows.contains(&texts(&batch)[0]), "after `{error}`");
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
                Err(error) => self.failed(&error.to_string())?,
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
