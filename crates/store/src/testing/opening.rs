//! How a session is gone on with, after a crash too (`reference/persistence.md` §1.6, §1.10, §6.1).

use std::sync::Barrier;

use offshoot_session::LogOffset;

use super::Bed;
use super::material::{NOW, code, event, events, header, ids, put, rows, texts};
use crate::{Persistence, Repair};

/// Something happens behind the crash's repair, at this seq.
fn next_turn(seq: u64) -> String {
    format!(r#"{{"type":"turn/start","seq":{seq},"time":9100,"data":{{"turn":2}}}}"#)
}

pub(super) fn opening_closes_the_open_turn_and_the_session_goes_on(bed: &dyn Bed) {
    put(&*bed.store(), &header("demo"), &events(9));
    let store = bed.store();
    let mut opened = store.open(&"demo".into(), NOW).unwrap();
    let log = opened.session.log();
    let added: Vec<_> = log.events_from(LogOffset::new(9)).cloned().collect();
    let kinds: Vec<&str> = added.iter().map(|event| event.kind().as_str()).collect();
    assert_eq!(
        kinds,
        [
            "tool/result",
            "tool/result",
            "step/end",
            "turn/end",
            "session/end-seed"
        ]
    );
    let closers = added[..4].to_vec();
    let expected = Repair {
        closers,
        ..Repair::default()
    };
    assert_eq!(opened.repair, Some(expected));
    let mut expected = texts(&events(9));
    expected.extend(texts(&added));
    assert_eq!(rows(&*bed.store(), "demo"), expected);

    let next = event(&next_turn(14));
    assert_eq!(opened.writer.stored(), LogOffset::new(14));
    opened.writer.append(std::slice::from_ref(&next)).unwrap();
    expected.push(next.text().to_owned());
    assert_eq!(rows(&*bed.store(), "demo"), expected);
}

pub(super) fn a_crash_behind_any_event_is_repaired_once(bed: &dyn Bed) {
    for len in 0..=16 {
        let name = format!("demo-{len}");
        let id = name.as_str().into();
        put(&*bed.store(), &header(&name), &events(len));

        let opened = bed.store().open(&id, NOW).unwrap();
        let whole = texts(opened.session.log().events());
        assert_eq!(whole[..len], texts(&events(len)));
        assert!(opened.session.log().interrupted_closers().is_empty());
        drop(opened);
        assert_eq!(rows(&*bed.store(), &name), whole);

        let repaired = bed.image();
        let again = bed.store().open(&id, NOW + 1).unwrap();
        assert_eq!(again.repair, None);
        assert_eq!(texts(again.session.log().events()), whole);
        drop(again);
        assert_eq!(bed.image(), repaired);
    }
}

pub(super) fn a_completed_session_gains_one_resume_marker_and_then_nothing_more(bed: &dyn Bed) {
    put(&*bed.store(), &header("demo"), &events(16));
    let mut expected = texts(&events(16));
    expected.push(r#"{"type":"session/end-seed","seq":16,"time":9000,"data":{}}"#.to_owned());
    for now in [NOW, NOW + 1] {
        let opened = bed.store().open(&"demo".into(), now).unwrap();
        assert_eq!(opened.repair, None);
        assert_eq!(opened.writer.stored(), LogOffset::new(17));
        drop(opened);
        assert_eq!(rows(&*bed.store(), "demo"), expected);
    }
}

/// Nobody else may write, and losing leaves no trace; everything that only reads goes on.
fn check_held(bed: &dyn Bed, store: &dyn Persistence) {
    let before = bed.image();
    for store in [store, &*bed.store()] {
        assert_eq!(
            code(store.open(&"demo".into(), NOW)),
            "SESSION_ALREADY_OWNED"
        );
        assert_eq!(
            code(store.create(&header("demo"))),
            "SESSION_ALREADY_EXISTS"
        );
        store.read(&"demo".into()).unwrap();
        assert_eq!(ids(store), ["demo".into()]);
    }
    assert_eq!(bed.image(), before);
}

pub(super) fn a_session_has_one_writer_and_readers_go_on(bed: &dyn Bed) {
    let store = bed.store();
    put(&*store, &header("demo"), &events(16));
    let opened = store.open(&"demo".into(), NOW).unwrap();
    check_held(bed, &*store);
    drop(opened.session);
    check_held(bed, &*store);
    drop(opened.writer);
    bed.store().open(&"demo".into(), NOW).unwrap();
}

pub(super) fn the_creator_of_a_session_is_its_writer(bed: &dyn Bed) {
    let store = bed.store();
    let mut writer = store.create(&header("demo")).unwrap();
    writer.append(&events(2)).unwrap();
    check_held(bed, &*store);
    drop(writer);
    bed.store().open(&"demo".into(), NOW).unwrap();
}

pub(super) fn of_many_that_open_one_session_at_once_exactly_one_succeeds(bed: &dyn Bed) {
    put(&*bed.store(), &header("demo"), &events(9));
    let (start, end) = (Barrier::new(8), Barrier::new(8));
    let race = || {
        let store = bed.store();
        start.wait();
        let opened = store.open(&"demo".into(), NOW);
        // Held until everybody has tried.
        end.wait();
        opened.map(drop)
    };
    let race = &race;
    let mut codes = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..8).map(|_| scope.spawn(move || code(race()))).collect();
        let codes = threads.into_iter().map(|thread| thread.join().unwrap());
        codes.collect::<Vec<_>>()
    });
    codes.sort_unstable();
    assert_eq!(codes[0], "SESSION_ALREADY_OWNED");
    assert_eq!(codes.iter().filter(|code| **code == "no error").count(), 1);
    assert_eq!(codes[..7], ["SESSION_ALREADY_OWNED"; 7]);
    assert_eq!(rows(&*bed.store(), "demo").len(), 14);
}

pub(super) fn a_session_that_no_provider_would_take_is_read_but_not_opened(bed: &dyn Bed) {
    let mut broken = events(9);
    broken.push(event(
        r#"{"type":"step/end","seq":9,"time":120,"data":{"turn":1,"step":1}}"#,
    ));
    broken.push(event(
        r#"{"type":"turn/end","seq":10,"time":121,"data":{"turn":1,"reason":{"kind":"completed"}}}"#,
    ));
    put(&*bed.store(), &header("demo"), &broken);
    let before = bed.image();
    let store = bed.store();
    let refused = store.open(&"demo".into(), NOW).unwrap_err();
    assert_eq!(refused.code(), "NOT_CONTINUABLE");
    assert_eq!(
        refused.hint().unwrap(),
        "fork it at 8: there the step is still open, and the fork answers its calls"
    );
    assert_eq!(rows(&*store, "demo"), texts(&broken));
    assert_eq!(bed.image(), before);
}

pub(super) fn a_session_that_is_not_there_is_named(bed: &dyn Bed) {
    let store = bed.store();
    put(&*store, &header("other"), &events(2));
    let before = bed.image();
    let failures = [
        store.read(&"demo".into()).unwrap_err(),
        store.open(&"demo".into(), NOW).unwrap_err(),
    ];
    for failure in failures {
        assert_eq!(failure.code(), "SESSION_NOT_FOUND");
        let text = failure.to_string();
        assert!(text.starts_with("session `demo` was not found"), "{text}");
    }
    assert_eq!(bed.image(), before);
}

pub(super) fn a_time_that_no_log_can_hold_is_refused(bed: &dyn Bed) {
    put(&*bed.store(), &header("demo"), &events(9));
    let before = bed.image();
    for now in [1 << 53, -(1 << 53), i64::MAX, i64::MIN] {
        let refused = bed.store().open(&"demo".into(), now);
        assert_eq!(code(refused), "INVALID_SEED", "{now}");
    }
    assert_eq!(bed.image(), before);
    bed.store().open(&"demo".into(), -NOW).unwrap();
}
