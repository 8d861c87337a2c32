//! How a session grows (`reference/persistence.md` §1.5).

use std::sync::Arc;

use offshoot_session::LogOffset;

use super::Bed;
use super::material::{event, events, header, rows, texts};

/// Payloads that a store could spoil by writing them anew.
const ODD: [&str; 3] = [
    r#"{"type":"turn/start","seq":0,"time":100,"data":{"turn":1,"note":"Z\u00fcrich \ud83d\ude00 \/ \u0000"}}"#,
    r#"{"type":"vendor/odd","ignorable":true,"seq":1,"time":101,"data":{"b":1.0,"a":1e2,"b2":12345678901234567890,"":[ ]}}"#,
    r#"{"type":"turn/end","seq":2,"time":102,"data":{"turn":1,"reason":{"kind":"completed"}}}"#,
];

pub(super) fn what_was_appended_is_read_back_to_the_byte(bed: &dyn Bed) {
    let store = bed.store();
    let mut writer = store.create(&header("demo")).unwrap();
    let all = events(16);
    for batch in [&all[..3], &all[3..9], &[], &all[9..10], &all[10..]] {
        writer.append(batch).unwrap();
    }
    assert_eq!(writer.stored(), LogOffset::new(16));
    let odd: Vec<_> = ODD.into_iter().map(event).collect();
    store.create(&header("odd")).unwrap().append(&odd).unwrap();
    drop(writer);

    let store = bed.store();
    let read = store.read(&"demo".into()).unwrap().stored;
    assert_eq!(texts(read.log.events()), texts(&all));
    assert_eq!(read.tail, None);
    assert_eq!(rows(&*store, "odd"), ODD);
}

pub(super) fn an_event_is_there_for_everybody_when_append_has_returned(bed: &dyn Bed) {
    let store = bed.store();
    let mut writer = store.create(&header("demo")).unwrap();
    let all = events(16);
    for len in 1..=all.len() {
        writer.append(&all[len - 1..len]).unwrap();
        for reader in [&*store, &*bed.store()] {
            assert_eq!(rows(reader, "demo"), texts(&all[..len]));
        }
    }
}

pub(super) fn a_batch_that_does_not_follow_is_refused_and_the_next_good_one_goes_in(bed: &dyn Bed) {
    let store = bed.store();
    let all = events(4);
    let mut writer = store.create(&header("demo")).unwrap();
    let before = bed.image();
    assert_eq!(
        writer.append(&all[1..]).unwrap_err().to_string(),
        "append to session `demo`: expected event 0 next, found 1"
    );
    assert_eq!(bed.image(), before);
    writer.append(&all[..2]).unwrap();

    let before = bed.image();
    let gap = [Arc::clone(&all[2]), Arc::clone(&all[2])];
    for (batch, text) in [
        (&all[..2], "expected event 2 next, found 0"),
        (&all[3..], "expected event 2 next, found 3"),
        (&gap, "expected event 3 next, found 2"),
    ] {
        let failure = writer.append(batch).unwrap_err();
        assert_eq!(
            failure.to_string(),
            format!("append to session `demo`: {text}")
        );
        assert_eq!(failure.code(), "APPEND_MISMATCH");
        assert_eq!(writer.stored(), LogOffset::new(2));
    }
    assert_eq!(bed.image(), before);
    writer.append(&all[2..]).unwrap();
    assert_eq!(rows(&*bed.store(), "demo"), texts(&all));
}

pub(super) fn what_was_read_stays_as_it_was_when_the_session_goes_on(bed: &dyn Bed) {
    let store = bed.store();
    let all = events(16);
    let mut writer = store.create(&header("demo")).unwrap();
    writer.append(&all[..8]).unwrap();
    let read = bed.store().read(&"demo".into()).unwrap().stored;
    writer.append(&all[8..]).unwrap();
    assert_eq!(texts(read.log.events()), texts(&all[..8]));
    assert_eq!(rows(&*bed.store(), "demo"), texts(&all));
}
