//! One row.

use offshoot_format::{Container, decode_as};
use offshoot_session::Event;

use crate::{check, files};

/// Any bytes as one row: what is an event is kept to the byte and read the same again, and what a file makes of the row
/// agrees with that. In a file of an older version the row may be refused, but the file explains itself.
pub fn row(bytes: &[u8]) {
    if let Ok(text) = std::str::from_utf8(bytes) {
        let read = Event::from_row(text);
        match (&read, Event::from_row(text)) {
            (Ok(event), Ok(again)) => {
                assert_eq!(event.text(), text);
                is_same(event, &again);
            }
            (Err(error), Err(again)) => assert_eq!(error, &again),
            (_, again) => panic!("the second reading says otherwise: {again:?}"),
        }
    }
    // As the first row of a file, which changes the number and so may mend it.
    let mut row = Vec::new();
    files::renumber(bytes, &mut row);
    let event = std::str::from_utf8(&row).ok().map(Event::from_row);
    for version in 0..=4 {
        let mut file = files::header(version, false).into_bytes();
        file.push(b'\n');
        let header = file.len() as u64;
        file.extend_from_slice(&row);
        file.push(b'\n');
        match decode_as(Container::Raw, &file) {
            Ok(stored) => {
                check::is_sound(&stored, file.len());
                if stored.tail.is_none() && version == 4 {
                    assert!(
                        !matches!(event, Some(Err(_))),
                        "the file accepts what is no row"
                    );
                    let texts: Vec<&str> = stored.log.events().map(|event| event.text()).collect();
                    assert_eq!(
                        texts.iter().map(|text| text.len() + 1).sum::<usize>(),
                        row.len() + 1
                    );
                }
                assert!(stored.tail.is_none_or(|tail| tail.keep >= header));
            }
            Err(error) => check::explains(&error),
        }
    }
}

fn is_same(one: &Event, other: &Event) {
    assert_eq!(one.seq(), other.seq());
    assert_eq!(one.time(), other.time());
    assert_eq!(one.kind(), other.kind());
    assert_eq!(one.ignorable(), other.ignorable());
    assert_eq!(one.surface_op(), other.surface_op());
    assert_eq!(one.sources(), other.sources());
    assert_eq!(one.data(), other.data());
    assert_eq!(one.message(), other.message());
}
