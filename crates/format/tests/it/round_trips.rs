//! Writing gives back the bytes that were read.

use offshoot_format::{Container, StoredHeader, decode, encode_header};

use crate::support::{BOTH, FIXTURES, encode, fixture, packed, rows, stored, text_of, whole_lines};

#[test]
fn header_line_and_rows_are_the_file_byte_for_byte() {
    for (name, text) in FIXTURES {
        let text = whole_lines(text);
        assert_eq!(
            text_of(&stored(Container::Raw, text.as_bytes())),
            text,
            "{name}"
        );
    }
}

#[test]
fn a_header_that_our_writer_order_has_is_written_as_it_was_read() {
    for (name, text) in FIXTURES {
        let line = text.lines().next().unwrap();
        let header = StoredHeader::read(line).unwrap().into_header();
        assert_eq!(
            encode_header(&header).unwrap(),
            format!("{line}\n"),
            "{name}"
        );
    }
}

#[test]
fn every_batching_of_either_container_reads_back_as_the_same_session() {
    for (name, text) in FIXTURES {
        let text = whole_lines(text);
        let original = stored(Container::Raw, text.as_bytes());
        for container in BOTH {
            for batch in [1, 3, usize::MAX] {
                let bytes = encode(container, &original.header, &original.log, batch);
                let again = decode(&bytes).unwrap();
                assert_eq!(text_of(&again), text, "{name}, {container:?} by {batch}");
                assert_eq!(
                    (again.header, again.inherited, again.tail),
                    (original.header.clone(), original.inherited, None),
                    "{name}, {container:?} by {batch}"
                );
            }
        }
    }
}

#[test]
fn compressed_files_of_another_writer_read_as_their_text() {
    for (name, text) in FIXTURES {
        let text = whole_lines(text);
        for batch in [1, 2, 5, usize::MAX] {
            let bytes = packed(Container::Zstd, text, batch);
            assert_eq!(text_of(&decode(&bytes).unwrap()), text, "{name} by {batch}");
        }
    }
}

#[test]
fn a_batch_of_nothing_is_no_bytes() {
    for container in BOTH {
        assert!(container.batch::<&offshoot_session::Event>([]).is_empty());
    }
}

#[test]
fn a_row_keeps_spelling_that_no_writer_of_ours_has() {
    let stored = stored(Container::Raw, fixture("opaque").as_bytes());
    let odd = rows(&stored.log)[2];
    assert!(odd.starts_with(r#"{ "ignorable" : true ,"#), "{odd}");
    let carriage = fixture("two-calls").replace('\n', "\r\n");
    assert_eq!(
        text_of(&self::stored(Container::Raw, carriage.as_bytes())),
        carriage
    );
}

#[test]
fn half_a_surrogate_pair_in_what_a_model_wrote_is_kept() {
    let text = fixture("two-calls")
        .replace("Looking into both.", r"Looking \ud83d")
        .replace(r#"\"monday\"#, r#"\"\udc00\"#);
    for container in BOTH {
        let original = stored(container, &packed(container, &text, 3));
        assert_eq!(text_of(&original), text);
        assert!(original.log.last_turn() == 2 && text.contains(r"\udc00"));
    }
}

#[test]
fn a_log_may_nest_deeper_than_a_recursive_reader_could_follow() {
    const DEPTH: usize = 100_000;
    let nested = format!("{}{}", "[".repeat(DEPTH), "]".repeat(DEPTH));
    let text = crate::support::file(&[
        &crate::support::row("todo/write", 0, &format!(r#"{{"todos":{nested}}}"#)),
        &crate::support::row("turn/start", 1, r#"{"turn":1}"#),
        &crate::support::row("step/start", 2, r#"{"turn":1,"step":1}"#),
        &format!(
            r#"{{"type":"user/message","seq":3,"time":3,"data":{{"id":"u","role":"user","content":[{{"type":"x","x":{nested}}}],"source":{{"kind":"user","x":{nested}}}}},"surfaceOp":"append"}}"#
        ),
        &crate::support::row(
            "request/header",
            4,
            &format!(
                r#"{{"header":{{"config":{{"provider":"p","model":"m","x":{nested}}},"tools":[{{"name":"t","description":"","parameters":{{"x":{nested}}}}}]}},"reason":"initial"}}"#
            ),
        ),
    ]);
    for container in BOTH {
        assert_eq!(
            text_of(&self::stored(container, &packed(container, &text, 2))),
            text
        );
    }
}
