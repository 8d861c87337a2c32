//! Whatever happens to a log, and whenever somebody looks: its events, once and in order.

use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::path::Path;
use std::sync::Arc;
use std::thread;

use offshoot_format::Container;
use offshoot_session::{Event, LogOffset};
use offshoot_store::{Follower, JsonlStore, Notice, Persistence as _};
use proptest::prelude::*;

use crate::hooked::HookedDisk;
use crate::support::{BOTH, Home, NOW, texts};
use crate::writing::Writing;

#[derive(Clone, Copy, Debug)]
enum Action {
    Nothing,
    /// A batch of so many events.
    Append(usize),
    /// A batch that is in the file, and may be read there, before its sync fails and it is taken back.
    Fail(usize),
    /// The writer ends in the middle of a batch: so many percent of it are in the file.
    Tear(usize, usize),
    /// Somebody opens the session anew.
    Reopen,
}

fn actions() -> impl Strategy<Value = Vec<(Action, bool)>> {
    let action = prop_oneof![
        Just(Action::Nothing),
        (1..5_usize).prop_map(Action::Append),
        (1..5_usize).prop_map(Action::Append),
        (1..4_usize).prop_map(Action::Fail),
        (1..5_usize, 0..100_usize).prop_map(|(count, part)| Action::Tear(count, part)),
        Just(Action::Reopen),
    ];
    prop::collection::vec((action, any::<bool>()), 1..24)
}

/// What was handed out, with what was taken back taken out again.
#[derive(Debug, Default)]
struct Handed(Vec<Arc<Event>>);

impl Handed {
    fn poll(&mut self, follower: &mut Follower) {
        let news = follower.poll().unwrap_or_else(|error| panic!("{error}"));
        for notice in news.notices {
            if let Notice::TakenBack { from, count } = notice {
                assert_eq!(from.get() + count, self.0.len() as u64, "all up to the end");
                self.0.truncate(usize::try_from(from.get()).unwrap());
            }
        }
        for event in news.events {
            assert_eq!(event.seq().get(), self.0.len() as u64, "once and in order");
            self.0.push(event);
        }
    }
}

fn open(store: &JsonlStore) -> Writing {
    let opened = store.open(&"demo".into(), NOW).unwrap();
    Writing::new(opened.session, opened.writer)
}

fn run(container: Container, actions: &[(Action, bool)]) {
    let home = Home::new();
    let disk = HookedDisk::new();
    let store = JsonlStore::on(home.root(), container, disk.clone());
    let path = home.log("demo", container);
    let mut first = Writing::create(&store);
    first.append(1);
    let mut writing = Some(first);
    let mut follower = store.follow(&"demo".into(), LogOffset::START);
    let mut handed = Handed::default();
    for (action, is_polled) in actions {
        match action {
            Action::Nothing => {}
            Action::Append(count) => {
                writing.get_or_insert_with(|| open(&store)).append(*count);
            }
            Action::Fail(count) => {
                let mut failing = writing.take().unwrap_or_else(|| open(&store));
                let events = failing.next(*count);
                let look = || {
                    if *is_polled {
                        handed.poll(&mut follower);
                    }
                    false
                };
                disk.at_next_sync(look, || failing.store(&events).unwrap_err());
            }
            Action::Tear(count, part) => {
                let mut ending = writing.take().unwrap_or_else(|| open(&store));
                let events = ending.next(*count);
                let batch = container.batch(events.iter().map(|event| &**event));
                drop(ending);
                append(&path, &batch[..batch.len() * part / 100]);
            }
            Action::Reopen => {
                drop(writing.take());
                writing = Some(open(&store));
            }
        }
        if *is_polled {
            handed.poll(&mut follower);
        }
    }
    drop(writing);
    drop(open(&store));
    handed.poll(&mut follower);
    let stored = store.read(&"demo".into()).unwrap().stored;
    assert_eq!(texts(&handed.0), texts(stored.log.events()));
    assert!(follower.log().events().eq(stored.log.events()));
}

/// The batches that fail are in the file only for a moment, and another one of the same size takes their place.
#[test]
fn a_log_that_changes_while_it_is_read_is_never_taken_for_a_damaged_one() {
    for container in BOTH {
        let home = Home::new();
        let store = home.store(container);
        let path = home.log("demo", container);
        let mut first = Writing::create(&store);
        first.append(1);
        let mut follower = store.follow(&"demo".into(), LogOffset::START);
        let mut handed = Handed::default();
        let writing = thread::spawn(move || {
            for round in 0..400 {
                let events = first.next(6);
                let whole = container.batch(events.iter().map(|event| &**event));
                let failing: Vec<_> = events.iter().map(|event| other(event)).collect();
                let failing = container.batch(failing.iter());
                let size = fs::metadata(&path).unwrap().len();
                append(&path, &failing[..failing.len() - round % 3]);
                let file = OpenOptions::new().write(true).open(&path).unwrap();
                file.set_len(size).unwrap();
                append(&path, &whole);
            }
        });
        while !writing.is_finished() {
            handed.poll(&mut follower);
        }
        writing.join().unwrap();
        handed.poll(&mut follower);
        let stored = store.read(&"demo".into()).unwrap().stored;
        assert_eq!(texts(&handed.0), texts(stored.log.events()));
        assert_eq!(handed.0.len(), 1 + 6 * 400);
    }
}

/// An event that could stand in the place of this one, as long as it.
fn other(event: &Event) -> Event {
    let time = event.time();
    let row = event.text().replace(
        &format!(r#""time":{time},"#),
        &format!(r#""time":{},"#, time + 1),
    );
    Event::from_row(row).unwrap()
}

fn append(path: &Path, bytes: &[u8]) {
    let mut file = OpenOptions::new().append(true).open(path).unwrap();
    file.write_all(bytes).unwrap();
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn any_sequence_of_events_polls_and_failures_hands_out_the_log(actions in actions()) {
        for container in BOTH {
            run(container, &actions);
        }
    }
}
