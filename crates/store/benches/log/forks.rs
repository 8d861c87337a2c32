//! Forks as they lie on the disk: what they cost beyond what the disk takes for the same few bytes.

use std::fs::{self, File};
use std::io::Write as _;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use offshoot_format::Container;
use offshoot_session::{Event, LogOffset, Seq, Session, build_fork_seed};
use offshoot_store::{
    ForkLayout, HOME_MARKER, JsonlStore, OpenSession, Persistence as _, SessionWriter,
};

use crate::driver::generate;
use crate::timing::{mb, median, show, timed};

/// How many events a batch of the source has: about what is between two requests.
const BATCH: usize = 7;
const ROUNDS: usize = 15;

struct Source {
    dir: tempfile::TempDir,
    session: Session,
    count: usize,
}

impl Source {
    /// A session in a home of ours, stored as it would have been while it was written.
    fn new(events: u64) -> Self {
        let dir = tempfile::tempdir().expect("a temporary directory");
        fs::write(dir.path().join(HOME_MARKER), "{\"layout\":1}\n").expect("a working disk");
        let source = Self {
            dir,
            session: generate(events),
            count: 0,
        };
        let all: Vec<Arc<Event>> = source.session.log().events().cloned().collect();
        let batches = all.chunks(BATCH);
        let mut bytes = Container::Zstd
            .header(source.session.header())
            .expect("a valid header");
        bytes.extend(
            batches.flat_map(|batch| Container::Zstd.batch(batch.iter().map(|event| &**event))),
        );
        let mut writer = source
            .store()
            .create(source.session.header())
            .expect("a free id");
        writer.flush().expect("a working disk");
        drop(writer);
        let path = source
            .store()
            .locate(&source.session.header().id)
            .expect("it was written");
        fs::write(path, bytes).expect("a working disk");
        source
    }

    fn store(&self) -> JsonlStore {
        JsonlStore::new(self.dir.path().join("sessions"), Container::Zstd)
            .with_cache(&self.dir.path().join("cache"))
    }

    fn child(&mut self) -> offshoot_session::SessionId {
        self.count += 1;
        format!("child-{}", self.count).as_str().into()
    }

    /// What the fork has of its own on the disk.
    fn own_bytes(&self, id: &offshoot_session::SessionId) -> u64 {
        let path = self.store().locate(id).expect("it was stored");
        fs::metadata(path).expect("it is there").len()
    }
}

pub(crate) fn run() {
    println!("### Forking on the disk\n");
    println!(
        "The source is stored in frames of {BATCH} events. *Bare* makes, links, writes and syncs the same files and directories \
         with the same number of bytes and does nothing else; the excess is what a fork takes beyond that.\n"
    );
    println!(
        "| source | cut | bytes written | bare | by its writer | excess | cold, known | excess | cold, one load | copied |\n|---|---|---|---|---|---|---|---|---|---|"
    );
    for events in [1_000, 10_000, 100_000] {
        let mut source = Source::new(events);
        for percent in [10, 50, 100] {
            row(&mut source, percent);
        }
    }
    println!();
}

fn row(source: &mut Source, percent: u64) {
    let store = source.store();
    let id = source.session.header().id.clone();
    let end = source.session.log().end().get();
    let cut = Seq::new((end * percent / 100) - 1);
    // Whatever was read before is remembered.
    drop(store.read(&id).expect("a sound session"));
    let (mut bare, mut live, mut known, mut loaded, mut copied) =
        (Vec::new(), Vec::new(), Vec::new(), Vec::new(), Vec::new());
    let mut bytes = 0;
    let portable = source.store().keeping_forks(ForkLayout::Portable);
    for round in 0..ROUNDS {
        let child = source.child();
        let forked = timed(|| {
            store
                .fork_unread(&id, Some(cut), &child, 2)
                .expect("a fork")
        });
        // A short session is read as fast as it is remembered.
        known.push(forked);
        if store.locate(&child).is_err() {
            known.pop();
        } else {
            bytes = source.own_bytes(&child);
        }
        let child = source.child();
        loaded.push(timed(|| fork_read(&store, source, &child, cut)));
        bytes = bytes.max(source.own_bytes(&child));
        let child = source.child();
        copied.push(timed(|| fork_read(&portable, source, &child, cut)));
        bare.push(timed(|| {
            by_hand(source.dir.path(), round as u64 + 1000 * percent, bytes);
        }));
    }
    let OpenSession {
        session, writer, ..
    } = store.open(&id, 9).expect("a sound session");
    for _ in 0..ROUNDS {
        let child = source.child();
        live.push(timed(|| fork_live(&store, &session, &*writer, &child, cut)));
    }
    drop(writer);
    let known = (!known.is_empty()).then(|| median(known));
    let (bare, live, loaded, copied) = (median(bare), median(live), median(loaded), median(copied));
    let or_dash = |time: Option<Duration>| time.map_or_else(|| "–".to_owned(), show);
    println!(
        "| {end} events, {:.1} MB | {percent} % | {bytes} | {} | {} | {} | {} | {} | {} | {} |",
        mb(usize::try_from(source.own_bytes(&id)).unwrap_or(0)),
        show(bare),
        show(live),
        show(live.saturating_sub(bare)),
        or_dash(known),
        or_dash(known.map(|known| known.saturating_sub(bare))),
        show(loaded),
        show(copied),
    );
}

fn fork_live(
    store: &JsonlStore,
    session: &Session,
    writer: &dyn SessionWriter,
    child: &offshoot_session::SessionId,
    cut: Seq,
) {
    let seed = session.fork_seed(Some(cut)).expect("an event of the log");
    let header = session.header().forked(child.clone(), 2);
    drop(
        store
            .fork(&header, &seed, &writer.shareable())
            .expect("a fork"),
    );
}

fn fork_read(store: &JsonlStore, source: &Source, child: &offshoot_session::SessionId, cut: Seq) {
    let read = store
        .read(&source.session.header().id)
        .expect("a sound session");
    let seed = build_fork_seed(&read.stored.log, cut).expect("an event of the log");
    let header = read.stored.header.forked(child.clone(), 2);
    drop(store.fork(&header, &seed, &read.shareable).expect("a fork"));
    debug_assert!(seed.log().end() > LogOffset::START);
}

/// The same steps without anything in them: a directory, a link in it, a file that is written, synced and linked to its name.
fn by_hand(home: &Path, number: u64, bytes: u64) {
    let sync = |path: &Path| {
        File::open(path)
            .and_then(|file| file.sync_all())
            .expect("a working disk");
    };
    let root = home.join("bare");
    fs::create_dir_all(&root).expect("a working disk");
    let dir = root.join(number.to_string());
    fs::create_dir(&dir).expect("a working disk");
    sync(&root);
    File::create(dir.join("lock")).expect("a working disk");
    fs::hard_link(home.join(HOME_MARKER), dir.join("base")).expect("a working disk");
    sync(&dir);
    let draft = dir.join("draft");
    let mut file = File::create(&draft).expect("a working disk");
    file.write_all(&vec![7; usize::try_from(bytes).unwrap_or(0)])
        .expect("a working disk");
    file.sync_all().expect("a working disk");
    fs::hard_link(&draft, dir.join("log")).expect("a working disk");
    fs::remove_file(&draft).expect("a working disk");
    sync(&dir);
}
