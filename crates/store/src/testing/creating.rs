//! How a session begins (`reference/persistence.md` §1.4).

use std::sync::Barrier;

use offshoot_session::{LogOffset, Origin, SessionHeader};

use super::Bed;
use super::material::{NOW, code, event, events, header, ids, put, rows, texts};
use crate::Persistence;

pub(super) fn nothing_is_stored_before_the_first_batch_and_then_header_and_batch_together(
    bed: &dyn Bed,
) {
    let store = bed.store();
    let before = bed.image();
    let mut writer = store.create(&header("demo")).unwrap();
    assert_eq!(bed.image(), before);
    assert_eq!(writer.stored(), LogOffset::START);
    assert_eq!(code(store.read(&"demo".into())), "SESSION_NOT_FOUND");
    assert_eq!(code(store.open(&"demo".into(), NOW)), "SESSION_NOT_FOUND");
    assert_eq!(ids(&*store), []);

    writer.append(&events(3)).unwrap();
    assert_eq!(writer.stored(), LogOffset::new(3));
    let read = bed.store().read(&"demo".into()).unwrap().stored;
    assert_eq!(read.header, header("demo"));
    assert_eq!(texts(read.log.events()), texts(&events(3)));
}

pub(super) fn flushing_a_session_without_events_makes_it_exist(bed: &dyn Bed) {
    let store = bed.store();
    let mut writer = store.create(&header("demo")).unwrap();
    writer.flush().unwrap();
    let once = bed.image();
    writer.flush().unwrap();
    writer.append(&[]).unwrap();
    assert_eq!(bed.image(), once);
    assert_eq!(writer.stored(), LogOffset::START);
    drop(writer);

    let store = bed.store();
    assert_eq!(rows(&*store, "demo"), [""; 0]);
    let opened = store.open(&"demo".into(), NOW).unwrap();
    assert_eq!(opened.repair, None);
    assert_eq!(
        texts(opened.session.log().events()),
        [r#"{"type":"session/end-seed","seq":0,"time":9000,"data":{}}"#]
    );
}

pub(super) fn every_member_of_a_header_is_kept(bed: &dyn Bed) {
    let store = bed.store();
    let full = SessionHeader {
        parent: Some("parent".into()),
        origin: Some(Origin::Subagent),
        delegation_depth: 2,
        agent_preset: Some("careful \u{1F600}".into()),
        ..header("full")
    };
    let bare = SessionHeader::new("bare".into(), 0);
    for header in [&full, &bare] {
        put(&*store, header, &events(2));
    }
    for header in [full, bare] {
        let read = bed.store().read(&header.id).unwrap().stored;
        assert_eq!(read.header, header);
    }
}

pub(super) fn a_header_that_no_reader_would_take_is_refused(bed: &dyn Bed) {
    let store = bed.store();
    let before = bed.image();
    let refused = [
        SessionHeader {
            created_at: 1 << 60,
            ..header("demo")
        },
        SessionHeader {
            cwd: Some("relative".into()),
            ..header("demo")
        },
        SessionHeader {
            cwd: Some(String::new()),
            ..header("demo")
        },
        header(""),
        header(&"x".repeat(256)),
    ];
    for header in refused {
        assert!(store.create(&header).is_err(), "{header:?}");
    }
    assert_eq!(bed.image(), before);
    put(&*store, &header("demo"), &events(1));
}

pub(super) fn a_seeded_session_is_never_stored_without_its_inherited_part(bed: &dyn Bed) {
    let store = bed.store();
    let before = bed.image();
    let child = header("demo").forked("child".into(), 2);
    let mut writer = store.create(&child).unwrap();
    assert_eq!(code(writer.flush()), "INVALID_SEED");
    assert_eq!(code(writer.append(&events(2))), "INVALID_SEED");
    let marker = event(r#"{"type":"session/end-seed","seq":0,"time":1,"data":{"inherited":true}}"#);
    let mut unseeded = store.create(&header("other")).unwrap();
    let refused = unseeded.append(std::slice::from_ref(&marker));
    assert_eq!(code(refused), "INVALID_SEED");
    assert_eq!(bed.image(), before);

    writer.append(&[marker]).unwrap();
    unseeded.append(&events(2)).unwrap();
    assert_eq!(
        bed.store().read(&"child".into()).unwrap().stored.header,
        child
    );
}

pub(super) fn an_id_is_taken_from_its_creation_on_and_free_again_when_nothing_came_of_it(
    bed: &dyn Bed,
) {
    let store = bed.store();
    let elsewhere = SessionHeader {
        cwd: None,
        ..header("demo")
    };
    let check_taken = |store: &dyn Persistence| {
        for again in [&header("demo"), &elsewhere] {
            assert_eq!(code(store.create(again)), "SESSION_ALREADY_EXISTS");
        }
    };
    let writer = store.create(&header("demo")).unwrap();
    check_taken(&*store);
    drop(writer);
    let mut writer = store.create(&elsewhere).unwrap();
    writer.flush().unwrap();
    check_taken(&*store);
    drop(writer);
    check_taken(&*store);
    check_taken(&*bed.store());
}

pub(super) fn of_two_stores_that_create_one_id_only_the_first_to_write_has_it(bed: &dyn Bed) {
    let (first, second) = (bed.store(), bed.store());
    let mut winner = first.create(&header("demo")).unwrap();
    // A store that knows of the other may refuse at once.
    let loser = second.create(&header("demo"));
    winner.append(&events(2)).unwrap();
    let before = bed.image();
    match loser {
        Err(error) => assert_eq!(error.code(), "SESSION_ALREADY_EXISTS"),
        Ok(mut loser) => {
            for _ in 0..2 {
                assert_eq!(code(loser.append(&events(2))), "SESSION_ALREADY_EXISTS");
            }
            drop(winner);
            assert_eq!(code(loser.append(&events(2))), "SESSION_ALREADY_EXISTS");
        }
    }
    assert_eq!(bed.image(), before);
    assert_eq!(rows(&*bed.store(), "demo"), texts(&events(2)));
}

pub(super) fn of_many_that_create_one_id_at_once_exactly_one_succeeds(bed: &dyn Bed) {
    let start = Barrier::new(8);
    let race = |number: usize| {
        let store = bed.store();
        let header = SessionHeader {
            cwd: Some(format!("/project/{number}")),
            ..header("demo")
        };
        start.wait();
        let writer = store.create(&header);
        writer
            .and_then(|mut writer| writer.append(&events(2)))
            .is_ok()
    };
    let race = &race;
    let won = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..8)
            .map(|number| scope.spawn(move || race(number)))
            .collect();
        let results = threads.into_iter().map(|thread| thread.join().unwrap());
        results.filter(|&won| won).count()
    });
    assert_eq!(won, 1);
    assert_eq!(ids(&*bed.store()), ["demo".into()]);
    assert_eq!(rows(&*bed.store(), "demo"), texts(&events(2)));
}
