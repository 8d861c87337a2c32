//! Many processes at one session: all want to write it, and fork and read it meanwhile.
#![expect(
    clippy::print_stdout,
    reason = "a child reports to its parent through a pipe"
)]

use std::collections::BTreeSet;

use offshoot_format::Container;
use offshoot_session::{Seq, SessionId};
use offshoot_store::testing::seeded_child;
use offshoot_store::{JsonlStore, Persistence as _};

use crate::support::{Home, NOW, all, events, next_events, texts};
use crate::torture::{Dice, Victim, digest};

const PROCESSES: u64 = 8;
/// How often each process tries to write.
const TRIES: usize = 25;
const ROW: &str = "#row ";
const SEEN: &str = "#seen ";
const FORK: &str = "#fork ";

/// What each process does: it writes when nobody else does, and looks and forks when somebody does.
pub(crate) fn work(store: &JsonlStore, seed: u64) {
    let mut dice = Dice::new(seed);
    let id: SessionId = "demo".into();
    for count in 0..TRIES {
        match store.open(&id, NOW) {
            Ok(mut opened) => {
                let mut log = opened.session.log().clone();
                let closers = opened.repair.iter().flat_map(|repair| &repair.closers);
                for event in closers.chain(opened.session.lifecycle_events()) {
                    println!("{ROW}{}", event.text());
                }
                for _ in 0..=dice.below(3) {
                    let batch =
                        next_events(&log, &[20; 2][..usize::try_from(dice.below(3)).unwrap()]);
                    opened.writer.append(&batch).unwrap();
                    for event in batch {
                        println!("{ROW}{}", event.text());
                        log.push(event).unwrap();
                    }
                }
            }
            Err(error) => assert_eq!(error.code(), "SESSION_ALREADY_OWNED", "{error}"),
        }
        let read = store.read(&id).unwrap();
        let rows = texts(read.stored.log.events());
        println!(
            "{SEEN}{} {}",
            rows.len(),
            digest(rows.iter().map(String::as_str))
        );
        if count.is_multiple_of(5) {
            let cut = Seq::new(dice.below(rows.len() as u64));
            let name = format!("fork-{seed}-{count}");
            let (header, seed) = seeded_child(&read.stored.header, &read.stored.log, cut, &name);
            drop(store.fork(&header, &seed, &read.shareable).unwrap());
            println!("{FORK}{name} {cut}");
        }
    }
}

fn check(home: &Home, container: Container) {
    let store = home.store(container);
    let mut writer = store.create(&crate::support::header("demo")).unwrap();
    writer.append(&events(16)).unwrap();
    drop(writer);
    let processes: Vec<_> = (0..PROCESSES)
        .map(|seed| Victim::start("contend", &home.root(), container, seed))
        .collect();
    let reports: Vec<String> = processes.into_iter().flat_map(Victim::finish).collect();
    let said = |what: &str| -> Vec<&str> {
        let of = |line: &'_ String| line.find(what).map(|at| at + what.len());
        let lines = reports.iter();
        lines
            .filter_map(|line| of(line).map(|at| &line[at..]))
            .collect()
    };

    let read = store.read(&"demo".into()).unwrap();
    assert_eq!(read.stored.tail, None);
    let rows = texts(read.stored.log.events());
    // Each acknowledged row once, and no row that nobody has acknowledged.
    let mut written = said(ROW);
    written.sort_unstable();
    let mut found: Vec<&str> = rows[16..].iter().map(String::as_str).collect();
    found.sort_unstable();
    assert_eq!(written, found);
    assert_eq!(
        said(SEEN).len(),
        usize::try_from(PROCESSES).unwrap() * TRIES
    );
    for seen in said(SEEN) {
        let (count, digest_then) = seen.split_once(' ').unwrap();
        let rows = &rows[..count.parse().unwrap()];
        let now = digest(rows.iter().map(String::as_str)).to_string();
        assert_eq!(now, digest_then, "what was read at {count} events");
    }
    let mut names: BTreeSet<SessionId> = BTreeSet::from(["demo".into()]);
    for fork in said(FORK) {
        let (name, cut) = fork.split_once(' ').unwrap();
        let cut = Seq::new(cut.parse().unwrap());
        let (header, seed) = seeded_child(&read.stored.header, &read.stored.log, cut, name);
        let child = store.read(&name.into()).unwrap().stored;
        assert_eq!(child.header, header);
        assert_eq!(texts(child.log.events()), texts(seed.log().events()));
        names.insert(name.into());
    }
    let listed = all(&store).into_iter();
    let listed: BTreeSet<SessionId> = listed
        .map(|one| {
            assert!(one.header.is_ok(), "{one:?}");
            one.id
        })
        .collect();
    assert_eq!(listed, names);
}

#[test]
fn of_many_processes_one_at_a_time_writes_a_session_and_all_forks_are_whole() {
    check(&Home::ours(), Container::Zstd);
}

#[test]
fn of_many_processes_one_at_a_time_writes_a_raw_session_and_all_forks_are_whole() {
    check(&Home::new(), Container::Raw);
}
