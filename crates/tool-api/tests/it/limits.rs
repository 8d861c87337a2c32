use offshoot_tool_api::{Bounded, HeadTail, Omitted, OutputLimits, bound};
use proptest::prelude::{any, prop};
use proptest::{prop_assert, prop_assert_eq, proptest};

fn limits(max_bytes: usize, max_lines: usize) -> OutputLimits {
    OutputLimits {
        max_bytes,
        max_lines,
    }
}

fn cut(text: &str, bytes: u64, lines: u64) -> Bounded {
    Bounded {
        text: text.to_owned(),
        omitted: Some(Omitted { bytes, lines }),
    }
}

#[test]
fn a_text_within_its_limits_stays_as_it_is() {
    for text in ["", "a", "12345\n789\n", "12345\n7890", "\n\n"] {
        let whole = Bounded {
            text: text.to_owned(),
            omitted: None,
        };
        assert_eq!(bound(text, limits(10, 2)), whole, "{text:?}");
    }
}

#[test]
fn too_many_bytes_lose_their_middle() {
    assert_eq!(
        bound("abcdefghijkl", limits(5, 100)),
        cut("abc\n[... 7 bytes omitted, in 1 lines ...]\nkl", 7, 1)
    );
    assert_eq!(
        bound("abc\ndef\nghi\njkl\n", limits(8, 100)),
        cut("abc\n[... 8 bytes omitted, in 2 lines ...]\njkl\n", 8, 2)
    );
}

#[test]
fn too_many_lines_lose_their_middle() {
    assert_eq!(
        bound("1\n2\n3\n4\n5\n6\n", limits(100, 3)),
        cut("1\n2\n[... 6 bytes omitted, in 3 lines ...]\n6\n", 6, 3)
    );
    assert_eq!(
        bound("1\n2\n3\n4", limits(100, 1)),
        cut("1\n[... 5 bytes omitted, in 3 lines ...]\n", 5, 3)
    );
}

#[test]
fn too_much_of_both_respects_both() {
    assert_eq!(
        bound("1\n2\n3\n4\n5\n6\n7\n8\n9\n", limits(12, 4)),
        cut(
            "1\n2\n[... 10 bytes omitted, in 5 lines ...]\n8\n9\n",
            10,
            5
        )
    );
}

#[test]
fn cuts_fall_between_characters() {
    // Both cuts of six bytes would fall inside an é.
    assert_eq!(
        bound("éééééé", limits(6, 100)),
        cut("é\n[... 8 bytes omitted, in 1 lines ...]\né", 8, 1)
    );
}

#[test]
fn nothing_may_be_kept() {
    assert_eq!(
        bound("abc", limits(0, 0)),
        cut("[... 3 bytes omitted, in 1 lines ...]\n", 3, 1)
    );
}

#[test]
fn bytes_that_are_not_text_are_replaced() {
    let mut kept = HeadTail::new(limits(100, 100));
    assert!(kept.is_empty());
    kept.push(b"a\xFFb\xE2\x82");
    assert!(!kept.is_empty());
    assert_eq!(
        kept.finish(),
        Bounded {
            text: "a\u{FFFD}b\u{FFFD}".to_owned(),
            omitted: None
        }
    );
}

proptest! {
    #[test]
    fn every_byte_and_line_is_accounted_for(
        text in "[a-c\né😀]{0,60}",
        max_bytes in 0_usize..40,
        max_lines in 0_usize..8,
    ) {
        let bounded = bound(&text, limits(max_bytes, max_lines));
        let Some(omitted) = bounded.omitted else {
            prop_assert!(text.len() <= max_bytes && text.lines().count() <= max_lines);
            prop_assert_eq!(bounded.text, text);
            return Ok(());
        };
        let notice = format!("[... {} bytes omitted, in {} lines ...]\n", omitted.bytes, omitted.lines);
        let (head, tail) = bounded.text.split_once(&notice).expect("the notice is there");
        let omitted = usize::try_from(omitted.bytes).expect("it is a part of a short text");
        let (kept, rest) = text.split_at(text.len() - omitted - tail.len());
        prop_assert!(rest.ends_with(tail));
        // A line end may have been added to bring the notice to a line of its own.
        let ended = if kept.is_empty() || kept.ends_with('\n') { "" } else { "\n" };
        prop_assert_eq!(head, format!("{kept}{ended}"));
        let head = kept;
        prop_assert!(head.len() + tail.len() <= max_bytes);
        prop_assert!(head.lines().count() + tail.lines().count() <= max_lines);
    }

    #[test]
    fn the_pieces_of_a_stream_make_no_difference(
        pieces in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..20), 0..10),
        max_bytes in 0_usize..60,
        max_lines in 0_usize..8,
    ) {
        let mut one = HeadTail::new(limits(max_bytes, max_lines));
        one.push(&pieces.concat());
        let mut many = HeadTail::new(limits(max_bytes, max_lines));
        pieces.iter().for_each(|piece| many.push(piece));
        prop_assert_eq!(one.finish(), many.finish());
    }
}
