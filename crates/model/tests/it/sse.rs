//! Server-sent events in every shape the standard allows.

use offshoot_model::{SseEnd, SseError, SseFrame, SseSplitter};
use proptest::prelude::*;

fn split(pieces: &[&[u8]]) -> (Vec<SseFrame>, u64, SseEnd) {
    let mut splitter = SseSplitter::default();
    let mut frames = Vec::new();
    for piece in pieces {
        splitter.push(piece, &mut frames).unwrap();
    }
    (frames, splitter.comments(), splitter.finish())
}

fn data(text: &str) -> SseFrame {
    SseFrame {
        data: text.into(),
        ..SseFrame::default()
    }
}

fn clean() -> SseEnd {
    SseEnd {
        pending: None,
        unterminated: false,
    }
}

#[test]
fn all_line_ends_are_equal() {
    for end in ["\n", "\r\n", "\r"] {
        let text = ["data: a", "data: b", "", "data: c", "", ""].join(end);
        let expected = (vec![data("a\nb"), data("c")], 0, clean());
        assert_eq!(split(&[text.as_bytes()]), expected, "{end:?}");
    }
}

#[test]
fn fields_are_read_as_the_standard_says() {
    let text = "event: error\nid: 7\nretry: 1\ndata:no space\ndata:  two spaces\ndata\nunknown: x\n\n\
                id: nul\0\ndata: next\n\n";
    let first = SseFrame {
        event: Some("error".into()),
        data: "no space\n two spaces\n".into(),
        id: Some("7".into()),
    };
    assert_eq!(
        split(&[text.as_bytes()]),
        (vec![first, data("next")], 0, clean())
    );
}

#[test]
fn a_frame_without_data_is_not_dispatched_and_one_with_empty_data_is() {
    let text = "event: ping\n\n\n\ndata:\n\n";
    assert_eq!(split(&[text.as_bytes()]), (vec![data("")], 0, clean()));
}

#[test]
fn comments_are_counted_and_give_no_frames() {
    let text = ": keep-alive\n\n:\ndata: a\n: in between\ndata: b\n\n";
    assert_eq!(split(&[text.as_bytes()]), (vec![data("a\nb")], 3, clean()));
}

#[test]
fn a_byte_order_mark_is_removed_at_the_start_only() {
    let pieces: [&[u8]; 3] = [b"\xef", b"\xbb\xbfdata: a\n\n", b"\xef\xbb\xbfdata: b\n\n"];
    assert_eq!(split(&pieces), (vec![data("a")], 0, clean()));
}

#[test]
fn characters_may_be_cut_and_bytes_may_be_wrong() {
    let whole = "data: é€😀\n\n".as_bytes();
    let pieces: Vec<&[u8]> = whole.chunks(1).collect();
    assert_eq!(split(&pieces), (vec![data("é€😀")], 0, clean()));
    assert_eq!(
        split(&[b"data: a\xffb\n\n"]),
        (vec![data("a\u{fffd}b")], 0, clean())
    );
}

#[test]
fn an_end_without_a_blank_line_is_reported_with_what_was_pending() {
    let unterminated = |pending| SseEnd {
        pending,
        unterminated: true,
    };
    for text in [
        "data: a\n\ndata: [DONE]",
        "data: a\n\ndata: [DONE]\n",
        "data: a\n\ndata: [DONE]\r",
    ] {
        let expected = (vec![data("a")], 0, unterminated(Some(data("[DONE]"))));
        assert_eq!(split(&[text.as_bytes()]), expected, "{text:?}");
    }
    assert_eq!(split(&[b"event: x"]), (vec![], 0, unterminated(None)));
    assert_eq!(split(&[b"\n"]), (vec![], 0, clean()));
    assert_eq!(split(&[]), (vec![], 0, clean()));
}

#[test]
fn a_frame_beyond_the_limit_is_an_error_after_the_frames_before_it() {
    let text = b"data: a\n\ndata: 0123456789\ndata: 0123456789\n\n";
    for size in 1..=text.len() {
        let mut splitter = SseSplitter::with_limit(20);
        let mut frames = Vec::new();
        let mut pieces = text.chunks(size);
        let result = pieces.try_for_each(|piece| splitter.push(piece, &mut frames));
        assert_eq!(
            result,
            Err(SseError::FrameTooLarge { limit: 20 }),
            "pieces of {size}"
        );
        assert_eq!(frames, [data("a")], "pieces of {size}");
        assert_eq!(splitter.push(b"x", &mut frames), result, "it stays refused");
    }
}

fn any_stream() -> impl Strategy<Value = Vec<u8>> {
    let parts: Vec<&[u8]> = vec![
        b"data: a",
        b"data:",
        b"data",
        b": c",
        b"event: e",
        b"id: 1",
        b"\n",
        b"\n\n",
        b"\r",
        b"\r\n",
        b"\xef\xbb\xbf",
        "é😀".as_bytes(),
        b"\xff",
        b" ",
        b":",
    ];
    prop::collection::vec(prop::sample::select(parts), 0..30).prop_map(|parts| parts.concat())
}

proptest! {
    #[test]
    fn any_split_gives_the_same_frames(
        bytes in any_stream(),
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..12)
    ) {
        let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(bytes.len() + 1)).collect();
        cuts.extend([0, bytes.len()]);
        cuts.sort_unstable();
        let pieces: Vec<&[u8]> = cuts.windows(2).map(|pair| &bytes[pair[0]..pair[1]]).collect();
        prop_assert_eq!(split(&pieces), split(&[&bytes]));
    }
}
