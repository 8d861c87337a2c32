//! Every operation of a scenario fails, does half, lies, or is the last one: what was acknowledged is there afterwards.

mod blobs;
mod disk;
mod image;
mod ledger;
mod scenario;

use std::collections::HashSet;
use std::fs;
use std::path::Path;
use std::sync::Arc;

use offshoot_format::Container;
use offshoot_store::{Choice, Collected, Collecting, HOME_MARKER, JsonlStore, Persistence as _};
use tempfile::TempDir;

use self::disk::{Fault, Op, SimDisk};
use self::image::{Files, Image};
use self::ledger::{Known, Ledger};
pub(crate) use self::ledger::{Place, ends_attempt};
pub(crate) use self::scenario::LATER;
use self::scenario::{Ended, Run, TORN};
use crate::faulty::FaultyDisk;
use crate::journal::Texts;
use crate::support::{
    NOW, PROJECT, TWO_CALLS, all, events, file_bytes, file_name, header, texts, write,
};

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
    _scratch: TempDir,
}

impl Setting {
    fn new(start: Start, container: Container, faults: &[(usize, Fault)]) -> Self {
        let scratch = scratch();
        // The store looks at what is beside a home too, and others work in the directory of temporary ones.
        let home = scratch.path().join("home");
        fs::create_dir(&home).unwrap();
        let root = home.join("sessions");
        if start == Start::Ours {
            write(&home.join(HOME_MARKER), "{\"layout\":1}\n");
        }
        if start != Start::Empty {
            let dir = root.join(PROJECT).join(TORN);
            fs::create_dir_all(&dir).unwrap();
            write(&dir.join(file_name(container)), torn(container));
        }
        let disk = SimDisk::over(&home, faults);
        Self {
            container,
            run: Run::new(root, container, disk),
            _scratch: scratch,
        }
    }
}

/// A directory in memory where there is one: many thousand homes are made here, and what would be durable is only played.
fn scratch() -> TempDir {
    match Path::new("/dev/shm") {
        memory if memory.is_dir() => tempfile::tempdir_in(memory).unwrap(),
        _ => tempfile::tempdir().unwrap(),
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
    /// Each home that a power cut may leave now, or might have left behind a failure before.
    fn cut_power(&mut self, setting: &mut Setting, context: &str) {
        for (cut, image, ledger) in setting.run.take_cuts() {
            let context = format!("{context}, {cut}");
            self.check_image(&image, setting.container, &ledger, &context);
        }
        let ledger = setting.run.ledger();
        for (cut, image) in setting.run.disk().power_cuts() {
            let context = format!("{context}, {cut}");
            self.check_image(&image, setting.container, ledger, &context);
        }
    }

    fn check_image(&mut self, image: &Image, container: Container, ledger: &Ledger, context: &str) {
        let unseen = ledger.iter().filter(|(id, known)| {
            let names: &[&str] = match known.place {
                Place::Here => &[id],
                _ => &[id, "trash"],
            };
            let key = ((*id).clone(), image.below(names), (*known).clone());
            self.seen.insert(key)
        });
        let unseen: Ledger = unseen
            .map(|(id, known)| (id.clone(), known.clone()))
            .collect();
        if unseen.is_empty() {
            return;
        }
        self.homes += 1;
        let top = scratch();
        image.write_below(top.path());
        let root = top.path().join("sessions");
        let store = sound(&root, container);
        check_list(&store, ledger, context);
        let moved = unseen.values().any(|known| known.place != Place::Here);
        for (id, known) in &unseen {
            check_session(&store, id, known, &format!("{context}: {id}"));
        }
        if moved {
            check_collected(&store, ledger, context);
        }
    }
}

/// The store of a home on which the power stays on.
fn sound(root: &Path, container: Container) -> JsonlStore {
    let store = JsonlStore::on(root, container, FaultyDisk::sound());
    store.settling(Arc::new(Texts))
}

fn check_list(store: &JsonlStore, ledger: &Ledger, context: &str) {
    for listed in all(store) {
        assert!(listed.header.is_ok(), "{context}: {listed:?}");
        let known = ledger.get(listed.id.as_str());
        let place = known.map(|known| known.place);
        let may_be_here = matches!(place, Some(Place::Here | Place::Moving));
        assert!(may_be_here, "{context}: {place:?}: {listed:?}");
    }
    let trash = store.trashed().unwrap();
    assert!(trash.problems.is_empty(), "{context}: {trash:?}");
}

/// Brings a session back if it may have been deleted. `false` if there is none any more, and need not be.
fn bring_back(store: &JsonlStore, id: &str, known: &Known, context: &str) -> bool {
    let trashed = store.trashed().unwrap().sessions;
    let in_trash = trashed.iter().filter(|one| one.id.as_str() == id).count();
    let here = usize::from(store.locate(&id.into()).is_ok());
    let found = format!("{context}: {here} here, {in_trash} in the trash");
    assert!(here + in_trash <= 1, "{found}");
    let is_unborn = !known.acknowledged && in_trash == 0;
    assert!(
        known.place.allows(here == 1, in_trash == 1) || is_unborn,
        "{found}"
    );
    if in_trash == 1 {
        let restored = store.restore_from_trash(&id.into(), &Choice::Newest);
        restored.unwrap_or_else(|error| panic!("{context}: {error}"));
    }
    here + in_trash == 1
}

/// Everything acknowledged is there and nothing else; it opens, and the second time that changes nothing.
fn check_session(store: &JsonlStore, id: &str, known: &Known, context: &str) {
    if !bring_back(store, id, known, context) {
        return;
    }
    let id = id.into();
    let read = store.read(&id);
    let read = read.unwrap_or_else(|error| panic!("{context}: {error}"));
    let rows = texts(read.stored.log.events());
    let fault = known.fault(&rows);
    assert_eq!(fault, None, "{context}: {rows:#?} {known:#?}");
    assert_eq!(read.stray, None, "{context}");
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

/// Emptying the trash takes nothing from the sessions that are there, and leaves nothing for the next time.
fn check_collected(store: &JsonlStore, ledger: &Ledger, context: &str) {
    let rows = |id: &String| {
        let read = store.read(&id.as_str().into()).ok()?;
        Some(texts(read.stored.log.events()))
    };
    let before: Vec<_> = ledger.keys().map(rows).collect();
    let collect = || store.collect(0, Collecting::Remove, LATER).unwrap();
    assert_eq!(collect().kept, [], "{context}");
    let again = collect();
    let nothing = Collected {
        scope: again.scope,
        ..Collected::default()
    };
    assert_eq!(again, nothing, "{context}");
    let after: Vec<_> = ledger.keys().map(rows).collect();
    assert_eq!(before, after, "{context}");
}

/// Which operations are chosen. What differs between two neighbours is seldom what matters to a fault that lasts, except
/// right behind a rename, which moves a whole session.
#[derive(Clone, Copy)]
enum Each {
    One,
    /// Each such-and-such, from the first.
    Nth(usize),
}

impl Each {
    fn of(self, ops: &[Op], times: usize) -> impl Iterator<Item = usize> {
        let stride = match self {
            Self::One => times,
            Self::Nth(stride) => stride * times,
        };
        let is_behind_rename = |at: usize| ops[at.saturating_sub(2)..at].contains(&Op::Rename);
        (0..=ops.len()).filter(move |at| at.is_multiple_of(stride) || is_behind_rename(*at))
    }
}

/// Runs the scenario once for each chosen operation, and hands out where it is. In raw files only the bytes differ, so fewer
/// are chosen; an empty home differs only until its first sessions are there.
fn for_operations(each: Each, mut play: impl FnMut(Start, Container, usize, &[Op])) {
    let ops = undisturbed(Start::Ours, Container::Zstd);
    for at in each.of(&ops, 1) {
        play(Start::Ours, Container::Zstd, at, &ops);
    }
    let ops = undisturbed(Start::Torn, Container::Raw);
    for at in each.of(&ops, 3) {
        play(Start::Torn, Container::Raw, at, &ops);
    }
    let ops = undisturbed(Start::Empty, Container::Zstd);
    for at in each.of(&ops[..20], 1) {
        play(Start::Empty, Container::Zstd, at, &ops);
    }
}

#[test]
fn a_power_cut_at_any_operation_loses_nothing_that_was_acknowledged() {
    let mut checker = Checker::default();
    for_operations(Each::One, |start, container, at, ops| {
        let mut setting = Setting::new(start, container, &[(at, Fault::Stop)]);
        let ended = setting.run.play();
        assert_eq!(ended.is_err(), at < ops.len());
        let context = format!("{start:?}, {container:?}, {at}: {:?}", ops.get(at));
        checker.cut_power(&mut setting, &context);
    });
    assert!(checker.homes > 100, "{} homes", checker.homes);
}

/// One fault, then everything works again: the run goes on to its end.
fn check_fault(fault: Fault, each: Each, applies: fn(Op) -> bool) {
    let mut checker = Checker::default();
    for_operations(each, |start, container, at, ops| {
        if !ops.get(at).copied().is_some_and(applies) {
            return;
        }
        let mut setting = Setting::new(start, container, &[(at, fault)]);
        setting.run.play().unwrap();
        let context = format!("{start:?}, {container:?}, {fault:?} at {at}: {:?}", ops[at]);
        checker.cut_power(&mut setting, &context);
    });
    assert!(checker.homes > 0);
}

#[test]
fn a_failure_at_any_operation_leaves_the_store_usable_and_loses_nothing() {
    check_fault(Fault::Fail, Each::One, |_| true);
}

#[test]
fn an_append_that_writes_half_leaves_the_store_usable_and_loses_nothing() {
    check_fault(Fault::Short, Each::One, |op| op == Op::Append);
}

#[test]
fn a_disk_that_is_full_from_any_operation_on_loses_nothing_and_has_room_again() {
    check_fault(Fault::Full, Each::Nth(2), Op::needs_room);
}

#[test]
fn a_disk_that_is_gone_from_any_operation_on_loses_nothing_and_comes_back() {
    check_fault(Fault::Outage, Each::Nth(4), |_| true);
}

#[test]
fn a_power_cut_while_a_failure_is_taken_back_loses_nothing() {
    let mut checker = Checker::default();
    for_operations(Each::Nth(8), |start, container, at, ops| {
        if at >= ops.len() {
            return;
        }
        let fault = match ops[at] {
            Op::Append => Fault::Short,
            _ => Fault::Fail,
        };
        for later in [1, 2, 3] {
            let faults = [(at, fault), (at + later, Fault::Stop)];
            let mut setting = Setting::new(start, container, &faults);
            let _ended = setting.run.play();
            let context = format!("{start:?}, {container:?}, {faults:?}");
            checker.cut_power(&mut setting, &context);
        }
    });
    assert!(checker.homes > 0);
}

/// Something that a process does with all sessions.
type Step = fn(&mut Run) -> Result<(), Ended>;

/// What the process that comes after a killed one acknowledges, step by step, the power being on all the time.
fn check_next_process(each: Each, steps: &[Step]) {
    let mut checker = Checker::default();
    for_operations(each, |start, container, at, ops| {
        let mut setting = Setting::new(start, container, &[(at, Fault::Stop)]);
        let _ended = setting.run.play();
        setting.run.disk().restart(&[]);
        for (number, step) in steps.iter().enumerate() {
            step(&mut setting.run).unwrap();
            let op = ops.get(at);
            let context = format!("{start:?}, {container:?}, killed at {at}: {op:?}, {number}");
            checker.cut_power(&mut setting, &context);
        }
    });
    assert!(checker.homes > 0);
}

#[test]
fn what_is_opened_and_appended_behind_a_killed_process_survives_a_power_cut() {
    check_next_process(Each::Nth(6), &[Run::open_all, Run::go_on, Run::restore_all]);
}

#[test]
fn what_is_forked_behind_a_killed_process_survives_a_power_cut() {
    check_next_process(Each::Nth(7), &[Run::fork_all, Run::collect]);
}

#[test]
fn what_is_forked_behind_two_killed_processes_survives_a_power_cut() {
    let mut checker = Checker::default();
    for_operations(Each::Nth(3), |start, container, at, ops| {
        // Between writing and syncing, a process leaves what nobody knows to be durable.
        if ops.get(at) != Some(&Op::Sync) {
            return;
        }
        for later in (at % 9..27).step_by(9) {
            let mut setting = Setting::new(start, container, &[(at, Fault::Stop)]);
            let _ended = setting.run.play();
            let done = setting.run.disk().ops().len();
            setting.run.disk().restart(&[(done + later, Fault::Stop)]);
            let _ended = setting.run.go_on();
            setting.run.disk().restart(&[]);
            setting.run.fork_all().unwrap();
            let context = format!("{start:?}, {container:?}, killed at {at} and {later}");
            checker.cut_power(&mut setting, &context);
        }
    });
    assert!(checker.homes > 0);
}

/// What was acknowledged on the word of a disk that lies may be gone; what is left is a beginning, or is refused by name.
#[test]
fn a_sync_that_lies_leaves_a_beginning_or_a_file_that_is_refused_and_never_a_mixture() {
    let mut losses = 0;
    for_operations(Each::One, |start, container, at, ops| {
        if !ops.get(at).copied().is_some_and(Op::is_sync) {
            return;
        }
        let faults = [(at, Fault::Lie), (at + 1 + at % 4, Fault::Stop)];
        let mut setting = Setting::new(start, container, &faults);
        let _ended = setting.run.play();
        for (cut, image) in setting.run.disk().power_cuts() {
            let top = scratch();
            image.write_below(top.path());
            let store = sound(&top.path().join("sessions"), container);
            all(&store);
            for deleted in store.trashed().unwrap().sessions {
                let _as_before = store.restore(&deleted.id);
            }
            for (id, known) in setting.run.ledger() {
                let Ok(read) = store.read(&id.as_str().into()) else {
                    losses += usize::from(known.acknowledged);
                    continue;
                };
                let mut rows = texts(read.stored.log.events());
                if read.settled.is_some() {
                    // It stands in no log yet.
                    rows.pop();
                }
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
