//! Appending: what an event costs whoever has it, and what it takes until it is durable.

use std::fs::OpenOptions;
use std::io::Write as _;
use std::sync::Arc;
use std::time::Duration;

use offshoot_format::Container;
use offshoot_session::Event;
use offshoot_store::{
    JsonlStore, Persistence as _, StoreError, Unstored, WriteListener, WriterThread,
};

use crate::driver::generate;
use crate::timing::{show, timed};

/// How many events are flushed together: about what is between two requests.
const BATCH: usize = 7;
const BATCHES: usize = 400;

/// Nobody is told of anything.
struct Deaf;

impl WriteListener for Deaf {
    fn durable(&self, _: &[Arc<Event>]) {}

    fn failed(&self, _: Unstored, error: &Arc<StoreError>) {
        panic!("a working disk: {error}");
    }
}

pub(crate) fn run() {
    let session = generate((BATCH * BATCHES) as u64);
    let events: Vec<Arc<Event>> = session.log().events().cloned().collect();
    println!("### Appending\n");
    println!(
        "{BATCHES} batches of {BATCH} events. The baseline writes the same bytes behind each other and syncs them, round by \
         round with the store; the excess is what the store takes beyond that. *Queued* is what whoever appends waits for \
         without a flush, per event.\n"
    );
    println!("| container | | p50 | p99 |\n|---|---|---|---|");
    for container in [Container::Raw, Container::Zstd] {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let store = JsonlStore::new(dir.path().join("sessions"), container);
        let writer = store.create(session.header()).expect("a free id");
        let behind = WriterThread::new().attach(writer, Arc::new(Deaf));
        behind.flush().wait().expect("a working disk");
        let mut plain = OpenOptions::new()
            .append(true)
            .create_new(true)
            .open(dir.path().join("plain"))
            .expect("a working disk");
        let (mut queued, mut flushed, mut bare) = (Vec::new(), Vec::new(), Vec::new());
        for batch in events.chunks(BATCH) {
            for event in batch {
                queued.push(timed(|| {
                    behind.enqueue(Arc::clone(event)).expect("it is open");
                }));
            }
            flushed.push(timed(|| behind.flush().wait().expect("a working disk")));
            let bytes = container.batch(batch.iter().map(|event| &**event));
            bare.push(timed(|| {
                plain.write_all(&bytes).expect("a working disk");
                plain.sync_all().expect("a working disk");
            }));
        }
        for (what, times) in [
            ("write + fsync alone (baseline)", &bare),
            ("appended and flushed", &flushed),
            ("queued", &queued),
        ] {
            let (p50, p99) = percentiles(times);
            println!("| {container:?} | {what} | {} | {} |", show(p50), show(p99));
        }
        let ((p50, p99), (bare50, bare99)) = (percentiles(&flushed), percentiles(&bare));
        println!(
            "| {container:?} | excess | {} | {} |",
            show(p50.saturating_sub(bare50)),
            show(p99.saturating_sub(bare99))
        );
    }
    println!();
}

fn percentiles(times: &[Duration]) -> (Duration, Duration) {
    let mut times = times.to_vec();
    times.sort_unstable();
    (times[times.len() / 2], times[times.len() * 99 / 100])
}
