//! What is taken away, and comes back.

use offshoot_session::{Seq, SessionId};

use super::Bed;
use super::material::{NOW, code, events, header, ids, put, rows, seeded_child};

pub(super) fn a_deleted_session_is_gone_for_everybody_and_comes_back_as_it_was(bed: &dyn Bed) {
    let store = bed.store();
    put(&*store, &header("demo"), &events(9));
    put(&*store, &header("other"), &events(2));
    let before = bed.image();
    let kept = rows(&*store, "demo");

    store.delete(&"demo".into(), NOW).unwrap();
    for store in [&store, &bed.store()] {
        assert_eq!(ids(&**store), [SessionId::from("other")]);
        assert_eq!(code(store.read(&"demo".into())), "SESSION_NOT_FOUND");
        assert_eq!(code(store.open(&"demo".into(), NOW)), "SESSION_NOT_FOUND");
        assert_eq!(code(store.delete(&"demo".into(), NOW)), "SESSION_NOT_FOUND");
    }
    bed.store().restore(&"demo".into()).unwrap();
    assert_eq!(rows(&*store, "demo"), kept);
    // Where deleted ones are kept may stay.
    let after = bed.image();
    let changed = before
        .iter()
        .filter(|(name, bytes)| after.get(*name) != Some(bytes));
    assert_eq!(changed.map(|(name, _)| name).collect::<Vec<_>>(), [""; 0]);
    assert_eq!(code(store.restore(&"demo".into())), "NOT_IN_TRASH");
}

pub(super) fn a_session_that_somebody_writes_is_not_deleted(bed: &dyn Bed) {
    let store = bed.store();
    put(&*store, &header("demo"), &events(9));
    let opened = store.open(&"demo".into(), NOW).unwrap();
    let kept = rows(&*store, "demo");
    assert_eq!(
        code(store.delete(&"demo".into(), NOW)),
        "SESSION_ALREADY_OWNED"
    );
    assert_eq!(rows(&*store, "demo"), kept);
    drop(opened);
    store.delete(&"demo".into(), NOW).unwrap();
}

pub(super) fn an_id_that_is_taken_again_is_not_overwritten_by_what_comes_back(bed: &dyn Bed) {
    let store = bed.store();
    put(&*store, &header("demo"), &events(9));
    store.delete(&"demo".into(), NOW).unwrap();
    put(&*store, &header("demo"), &events(2));
    let fresh = rows(&*store, "demo");
    assert_eq!(
        code(store.restore(&"demo".into())),
        "SESSION_ALREADY_EXISTS"
    );
    assert_eq!(rows(&*store, "demo"), fresh);
    // Of two that were deleted the last one comes back.
    store.delete(&"demo".into(), NOW + 1).unwrap();
    store.restore(&"demo".into()).unwrap();
    assert_eq!(rows(&*store, "demo"), fresh);
}

pub(super) fn a_child_goes_on_when_its_parent_is_deleted(bed: &dyn Bed) {
    let store = bed.store();
    put(&*store, &header("demo"), &events(16));
    let source = store.read(&"demo".into()).unwrap();
    let (child, seed) = seeded_child(&header("demo"), &source.stored.log, Seq::new(9), "child");
    drop(store.fork(&child, &seed, &source.shareable).unwrap());
    let inherited = rows(&*store, "child");

    store.delete(&"demo".into(), NOW).unwrap();
    assert_eq!(rows(&*bed.store(), "child"), inherited);
    let opened = store.open(&"child".into(), NOW).unwrap();
    let end = opened.session.log().end();
    drop(opened);
    let went_on = rows(&*store, "child");
    assert_eq!(went_on[..inherited.len()], inherited);
    assert_eq!(went_on.len() as u64, end.get());
}
