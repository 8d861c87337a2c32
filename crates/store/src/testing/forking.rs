//! How sessions branch (`reference/persistence.md` §6.2). The source is never written to, and never has to stop.

use offshoot_session::{LogOffset, Seq, SessionHeader};

use super::Bed;
use super::material::{NOW, code, events, header, log, put, rows, seeded_child, texts};
use crate::Persistence;

/// Forks a stored session as it is now, as somebody who does not write it.
fn fork(store: &dyn Persistence, parent: &str, cut: Seq, child: &str) -> SessionHeader {
    let source = store.read(&parent.into()).unwrap();
    let (header, seed) = seeded_child(&source.stored.header, &source.stored.log, cut, child);
    let writer = store.fork(&header, &seed, &source.shareable).unwrap();
    assert_eq!(writer.stored(), seed.log().end());
    header
}

/// What the child of `parent` has to begin with.
fn expected(parent: &[String], cut: u64) -> Vec<String> {
    let events: Vec<_> = parent.iter().map(|row| super::event(row)).collect();
    let (_, seed) = seeded_child(&header("any"), &super::log(&events), Seq::new(cut), "child");
    texts(seed.log().events())
}

/// Checks a child as it is stored, and that it goes on.
fn check_child(bed: &dyn Bed, header: &SessionHeader, begins: &[String], inherited: u64) {
    let store = bed.store();
    let read = store.read(&header.id).unwrap().stored;
    assert_eq!(read.header, *header);
    assert_eq!(texts(read.log.events()), begins);
    assert_eq!(read.inherited, LogOffset::new(inherited));

    let opened = store.open(&header.id, NOW).unwrap();
    let session = &opened.session;
    assert_eq!(opened.repair, None);
    assert_eq!(session.inherited_event_count(), LogOffset::new(inherited));
    assert_eq!(texts(session.log().events())[..begins.len()], *begins);
    assert_eq!(opened.writer.stored(), session.log().end());
}

pub(super) fn a_fork_at_any_event_of_a_cold_source_is_whole_and_goes_on(bed: &dyn Bed) {
    let whole = texts(&events(16));
    put(&*bed.store(), &header("parent"), &events(16));
    for cut in 0..16 {
        let name = format!("child-{cut}");
        let child = fork(&*bed.store(), "parent", Seq::new(cut), &name);
        check_child(bed, &child, &expected(&whole, cut), cut + 1);
    }
    assert_eq!(rows(&*bed.store(), "parent"), whole);
}

pub(super) fn a_fork_of_a_live_source_has_what_was_stored_and_the_source_goes_on(bed: &dyn Bed) {
    let all = events(16);
    let store = bed.store();
    let mut writer = store.create(&header("parent")).unwrap();
    for len in 1..=16_u64 {
        let at = usize::try_from(len).unwrap();
        writer.append(&all[at - 1..at]).unwrap();
        let name = format!("child-{len}");
        let cut = Seq::new(len - 1);
        // By who writes it, and by another process.
        let child = if len % 2 == 0 {
            let (header, seed) = seeded_child(&header("parent"), &log(&all[..at]), cut, &name);
            drop(store.fork(&header, &seed, &writer.shareable()).unwrap());
            header
        } else {
            fork(&*bed.store(), "parent", cut, &name)
        };
        check_child(bed, &child, &expected(&texts(&all[..at]), len - 1), len);
    }
    drop(writer);
    assert_eq!(rows(&*bed.store(), "parent"), texts(&all));
    for len in 1..=16_u64 {
        let rows = rows(&*bed.store(), &format!("child-{len}"));
        let at = usize::try_from(len).unwrap();
        assert_eq!(rows[..at], texts(&all[..at]));
    }
}

pub(super) fn a_fork_between_a_call_and_its_result_answers_it(bed: &dyn Bed) {
    put(&*bed.store(), &header("parent"), &events(16));
    fork(&*bed.store(), "parent", Seq::new(9), "child");
    let read = bed.store().read(&"child".into()).unwrap().stored;
    let added: Vec<_> = read.log.events_from(LogOffset::new(10)).collect();
    let kinds: Vec<&str> = added.iter().map(|event| event.kind().as_str()).collect();
    assert_eq!(
        kinds,
        ["session/end-seed", "tool/result", "step/end", "turn/end"]
    );
    assert!(added[1].text().contains("right"), "{}", added[1].text());
}

pub(super) fn a_fork_of_a_fork_of_a_fork_has_all_it_inherited(bed: &dyn Bed) {
    let store = bed.store();
    put(&*store, &header("a"), &events(16));
    let mut parent = "a";
    for (child, back) in [("b", 3), ("c", 0), ("d", 5)] {
        let whole = rows(&*bed.store(), parent);
        let cut = whole.len() as u64 - 1 - back;
        let header = fork(&*bed.store(), parent, Seq::new(cut), child);
        assert_eq!(header.parent, Some(parent.into()));
        check_child(bed, &header, &expected(&whole, cut), cut + 1);
        assert_eq!(code(store.create(&header)), "SESSION_ALREADY_EXISTS");
        parent = child;
    }
    assert_eq!(rows(&*bed.store(), "a"), texts(&events(16)));
}

pub(super) fn a_fork_to_an_id_that_is_taken_is_refused(bed: &dyn Bed) {
    let store = bed.store();
    put(&*store, &header("parent"), &events(16));
    put(&*store, &header("taken"), &events(2));
    let source = store.read(&"parent".into()).unwrap();
    let cut = Seq::new(7);
    let (header, seed) = seeded_child(&source.stored.header, &source.stored.log, cut, "taken");
    let before = bed.image();
    for store in [store, bed.store()] {
        let refused = store.fork(&header, &seed, &source.shareable);
        assert_eq!(code(refused), "SESSION_ALREADY_EXISTS");
    }
    assert_eq!(bed.image(), before);
}

pub(super) fn what_a_fork_inherited_stays_when_its_source_is_repaired_and_goes_on(bed: &dyn Bed) {
    put(&*bed.store(), &header("parent"), &events(9));
    fork(&*bed.store(), "parent", Seq::new(8), "child");
    let begins = rows(&*bed.store(), "child");
    let mut parent = bed.store().open(&"parent".into(), NOW).unwrap();
    let next = parent.session.log().end().get();
    let turn = super::event(&format!(
        r#"{{"type":"turn/start","seq":{next},"time":9100,"data":{{"turn":2}}}}"#
    ));
    parent.writer.append(&[turn]).unwrap();
    assert_eq!(rows(&*bed.store(), "child"), begins);
    drop(parent);
    let mut child = bed.store().open(&"child".into(), NOW).unwrap();
    let end = child.session.log().end().get();
    let turn = super::event(&format!(
        r#"{{"type":"turn/start","seq":{end},"time":9100,"data":{{"turn":2}}}}"#
    ));
    child.writer.append(&[turn]).unwrap();
    let rows = rows(&*bed.store(), "child");
    assert_eq!(rows[..begins.len()], begins);
    assert_eq!(rows.len() as u64, end + 1);
}
