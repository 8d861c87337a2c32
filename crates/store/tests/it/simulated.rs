//! Every operation of a scenario fails, does half, lies, or is the last one: what was acknowledged is there afterwards.

mod disk;
mod scenario;

use std::collections::HashSet;
use std::fs;
use std::path::Path;

use offshoot_format::Container;
use offshoot_store::{JsonlStore, Persistence as _};

use self::disk::{Fault, Files, Image, Op, SimDisk};
use self::scenario::{Ended, Known, Ledger, Run, TORN};
use crate::faulty::FaultyDisk;
use crate::support::{Home, NOW, TWO_CALLS, all, events, file_bytes, header, texts};

/// How a home looks before the scenario.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Start {
    /// Nothing was ever stored in it.
    Empty,
    /// A crash has left a session with a torn end.
    Torn,
    /// The same in a home where forks are linked to their source.
    Ours,
}

/// A home, a disk below it, and what happens there.
struct Setting {
    container: Container,
    run: Run,
    _home: Home,
}

impl Setting {
    fn new(start: Start, container: Container, faults: &[(usize, Fault)]) -> Self {
        let home = match start {
            Start::Ours => Home::ours(),
            Start::Empty | Start::Torn => Home::new(),
        };
        if start != Start::Empty {
            home.put_log(TORN, container, torn(container));
        }
        let disk = SimDisk::over(home.root().parent().unwrap(), faults);
        Self {
            container,
            run: Run::new(home.root(), container, disk),
            _home: home,
        }
    }
}

fn torn(container: Container) -> Vec<u8> {
    let two = events(2);
    let mut bytes = file_bytes(container, &header(TORN), &[&two[..1], &two[1..]]);
    match container {
        Container::Raw => bytes.extend(&TWO_CALLS.as_bytes()[..40]),
        // Its records can be read, its checksum is gone.
        Container::Zstd => bytes.truncate(bytes.len() - 2),
    }
    bytes
}

/// The operations of a run that nothing disturbs.
fn undisturbed(start: Start, container: Container) -> Vec<Op> {
    let mut setting = Setting::new(start, container, &[]);
    setting.run.play().unwrap();
    setting.run.disk().ops()
}

/// What has to hold of a home, whatever has happened to it.
#[derive(Default)]
struct Checker {
    /// Sessions that were looked at before: most operations change one, and leave the others as they were.
    seen: HashSet<(String, Files, Known)>,
    homes: usize,
}

impl Checker {
    /// Each home that a power cut may leave now.
    fn cut_power(&mut self, setting: &Setting, context: &str) {
        let ledger = setting.run.ledger();
        for (cut, image) in setting.run.disk().power_cuts() {
            let context = format!("{context}, {cut}");
            self.check_image(&image, setting.container, ledger, &context);
        }
    }

    fn check_image(&mut self, image: &Image, container: Container, ledger: &Ledger, context: &str) {
        let unseen = ledger.iter().filter(|(id, known)| {
            let files = image.of_session(id);
            let key = ((*id).clone(), files, (*known).clone());
            self.seen.insert(key)
        });
        let unseen: Ledger = unseen
            .map(|(id, known)| (id.clone(), known.clone()))
            .collect();
        if unseen.is_empty() {
            return;
        }
        self.homes += 1;
        let top = tempfile::tempdir().unwrap();
        image.write_below(top.path());
        let root = top.path().join("sessions");
        check_list(&root, container, ledger, context);
        check_sessions(&root, container, &unseen, context);
    }
}

fn check_list(root: &Path, container: Container, ledger: &Ledger, context: &str) {
    let store = JsonlStore::on(root, container, FaultyDisk::sound());
    for listed in all(&store) {
        assert!(listed.header.is_ok(), "{context}: {listed:?}");
        let known = ledger.contains_key(listed.id.as_str());
        assert!(known, "{context}: {listed:?}");
    }
}

/// Everything acknowledged is there and nothing else; everything opens, and the second time that changes nothing.
fn check_sessions(root: &Path, container: Container, ledger: &Ledger, context: &str) {
    let store = JsonlStore::on(root, container, FaultyDisk::sound());
    for (id, known) in ledger {
        let context = format!("{context}: {id}");
        let id = id.as_str().into();
        let rows = store.read(&id).map(|read| texts(read.stored.log.events()));
        known.check(&rows, &context);
        let Ok(read) = store.read(&id) else {
            continue;
        };
        let balanced = read.stored.balanced(NOW + 2).unwrap();

        let opened = store.open(&id, NOW + 2);
        let opened = opened.unwrap_or_else(|error| panic!("{context}: {error}"));
        let rows = texts(balanced.log().events());
        assert_eq!(texts(opened.session.log().events()), rows, "{context}");
        drop(opened);
        let bytes = fs::read(&read.path).unwrap();
        let again = store.open(&id, NOW + 3).unwrap();
        assert_eq!(again.repair, None, "{context}");
        drop(again);
        assert_eq!(fs::read(&read.path).unwrap(), bytes, "{context}");
    }
}

/// Which operations of the run in raw files are chosen. Only the bytes differ there from those in packed ones.
#[derive(Clone, Copy)]
enum Raw {
    All,
    EachFourth,
}

/// Runs the scenario once for each operation, and hands out where it is. An empty home differs only until its first
/// sessions are there.
fn for_every_operation(raw: Raw, mut play: impl FnMut(Start, Container, usize, &[Op])) {
    let ops = undisturbed(Start::Ours, Container::Zstd);
    for at in 0..=ops.len() {
        play(Start::Ours, Container::Zstd, at, &ops);
    }
    let stride = match raw {
        Raw::All => 1,
        Raw::EachFourth => 4,
    };
    let ops = undisturbed(Start::Torn, Container::Raw);
    for at in (0..=ops.len()).step_by(stride) {
        play(Start::Torn, Container::Raw, at, &ops);
    }
    let ops = undisturbed(Start::Empty, Container::Zstd);
    for at in 0..20 {
        play(Start::Empty, Container::Zstd, at, &ops);
    }
}

#[test]
fn a_power_cut_at_any_operation_loses_nothing_that_was_acknowledged() {
    let mut checker = Checker::default();
    for_every_operation(Raw::All, |start, container, at, ops| {
        let mut setting = Setting::new(start, container, &[(at, Fault::Stop)]);
        let ended = setting.run.play();
        assert_eq!(ended.is_err(), at < ops.len());
        let context = format!("{start:?}, {container:?}, {at}: {:?}", ops.get(at));
        checker.cut_power(&setting, &context);
    });
    assert!(checker.homes > 100, "{} homes", checker.homes);
}

/// One fault, then everything works again: the run goes on to its end.
fn check_fault(fault: Fault, applies: fn(Op) -> bool) {
    let mut checker = Checker::default();
    for_every_operation(Raw::EachFourth, |start, container, at, ops| {
        if !ops.get(at).copied().is_some_and(applies) {
            return;
        }
        let mut setting = Setting::new(start, container, &[(at, fault)]);
        setting.run.play().unwrap();
        let context = format!("{start:?}, {container:?}, {fault:?} at {at}: {:?}", ops[at]);
        checker.cut_power(&setting, &context);
    });
    assert!(checker.homes > 0);
}

#[test]
fn a_failure_at_any_operation_leaves_the_store_usable_and_loses_nothing() {
    check_fault(Fault::Fail, |_| true);
}

#[test]
fn an_append_that_writes_half_leaves_the_store_usable_and_loses_nothing() {
    check_fault(Fault::Short, |op| op == Op::Append);
}

#[test]
fn a_disk_that_is_full_from_any_operation_on_loses_nothing_and_has_room_again() {
    check_fault(Fault::Full, |_| true);
}

#[test]
fn a_disk_that_is_gone_from_any_operation_on_loses_nothing_and_comes_back() {
    check_fault(Fault::Outage, |_| true);
}

#[test]
fn a_power_cut_while_a_failure_is_taken_back_loses_nothing() {
    let mut checker = Checker::default();
    for_every_operation(Raw::EachFourth, |start, container, at, ops| {
        if at % 2 == 1 || at >= ops.len() {
            return;
        }
        let fault = match ops[at] {
            Op::Append => Fault::Short,
            _ => Fault::Fail,
        };
        for later in [1, 2] {
            let faults = [(at, fault), (at + later, Fault::Stop)];
            let mut setting = Setting::new(start, container, &faults);
            let _ended = setting.run.play();
            let context = format!("{start:?}, {container:?}, {faults:?}");
            checker.cut_power(&setting, &context);
        }
    });
    assert!(checker.homes > 0);
}

/// Something that a process does with all sessions.
type Step = fn(&mut Run) -> Result<(), Ended>;

/// What the process that comes after a killed one acknowledges, step by step, the power being on all the time.
fn check_next_process(steps: &[Step]) {
    let mut checker = Checker::default();
    for_every_operation(Raw::EachFourth, |start, container, at, ops| {
        let mut setting = Setting::new(start, container, &[(at, Fault::Stop)]);
        let _ended = setting.run.play();
        setting.run.disk().restart(&[]);
        for (number, step) in steps.iter().enumerate() {
            step(&mut setting.run).unwrap();
            let op = ops.get(at);
            let context = format!("{start:?}, {container:?}, killed at {at}: {op:?}, {number}");
            checker.cut_power(&setting, &context);
        }
    });
    assert!(checker.homes > 0);
}

#[test]
fn what_is_opened_and_appended_behind_a_killed_process_survives_a_power_cut() {
    check_next_process(&[Run::open_all, Run::go_on]);
}

#[test]
fn what_is_forked_behind_a_killed_process_survives_a_power_cut() {
    check_next_process(&[Run::fork_all]);
}

#[test]
fn what_is_forked_behind_two_killed_processes_survives_a_power_cut() {
    let mut checker = Checker::default();
    for_every_operation(Raw::EachFourth, |start, container, at, ops| {
        // Between writing and syncing, a process leaves what nobody knows to be durable.
        if ops.get(at) != Some(&Op::Sync) {
            return;
        }
        for later in (at % 6..24).step_by(6) {
            let mut setting = Setting::new(start, container, &[(at, Fault::Stop)]);
            let _ended = setting.run.play();
            let done = setting.run.disk().ops().len();
            setting.run.disk().restart(&[(done + later, Fault::Stop)]);
            let _ended = setting.run.go_on();
            setting.run.disk().restart(&[]);
            setting.run.fork_all().unwrap();
            let context = format!("{start:?}, {container:?}, killed at {at} and {later}");
            checker.cut_power(&setting, &context);
        }
    });
    assert!(checker.homes > 0);
}

/// What was acknowledged on the word of a disk that lies may be gone; what is left is a beginning, or is refused by name.
#[test]
fn a_sync_that_lies_leaves_a_beginning_or_a_file_that_is_refused_and_never_a_mixture() {
    let mut losses = 0;
    for_every_operation(Raw::EachFourth, |start, container, at, ops| {
        if !ops.get(at).copied().is_some_and(Op::is_sync) {
            return;
        }
        let faults = [(at, Fault::Lie), (at + 1 + at % 4, Fault::Stop)];
        let mut setting = Setting::new(start, container, &faults);
        let _ended = setting.run.play();
        for (cut, image) in setting.run.disk().power_cuts() {
            let top = tempfile::tempdir().unwrap();
            image.write_below(top.path());
            let root = top.path().join("sessions");
            let store = JsonlStore::on(root, container, FaultyDisk::sound());
            all(&store);
            for (id, known) in setting.run.ledger() {
                let Ok(read) = store.read(&id.as_str().into()) else {
                    losses += usize::from(known.acknowledged);
                    continue;
                };
                let rows = texts(read.stored.log.events());
                assert!(
                    known.tried.starts_with(&rows),
                    "{start:?}, {container:?}, {faults:?}, {cut}: {rows:#?}"
                );
                losses += usize::from(!rows.starts_with(&known.acked));
            }
        }
    });
    assert!(losses > 0, "no lie had a consequence");
}
