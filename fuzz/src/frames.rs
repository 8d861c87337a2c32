//! The compressed container.

use offshoot_format::{Container, FrameScan, decode_as, scan_frame};
use offshoot_session::SessionHeader;

use crate::check;
use crate::choices::Choices;
use crate::script::Script;

/// Any bytes as frames, as the contents of frames, and as decisions for a session that is then torn: borders are where the
/// writer put them, every shorter piece is a torn frame, and what is left of a torn file is a part of its log.
pub fn frames(bytes: &[u8]) {
    match decode_as(Container::Zstd, bytes) {
        Ok(stored) => check::is_sound(&stored, bytes.len()),
        Err(error) => check::explains(&error),
    }
    any_border(bytes);
    written_borders(bytes);
    torn_session(bytes);
}

fn any_border(bytes: &[u8]) {
    let Ok(FrameScan::Complete(length)) = scan_frame(bytes) else {
        return;
    };
    assert!(length <= bytes.len());
    assert_eq!(
        scan_frame(&bytes[..length]),
        Ok(FrameScan::Complete(length))
    );
    for cut in (0..length).rev().step_by(length / 16 + 1) {
        assert_eq!(scan_frame(&bytes[..cut]), Ok(FrameScan::Incomplete));
    }
}

fn written_borders(bytes: &[u8]) {
    let mut choices = Choices::new(bytes);
    let (mut file, mut ends) = (Vec::new(), Vec::new());
    for part in bytes.chunks(1 + choices.below(bytes.len().max(1))) {
        let mut frame = compressed(part, choices.byte());
        file.append(&mut frame);
        ends.push(file.len());
    }
    let mut at = 0;
    for end in ends {
        assert_eq!(scan_frame(&file[at..]), Ok(FrameScan::Complete(end - at)));
        let cut = at + choices.below(end - at);
        assert_eq!(scan_frame(&file[at..cut]), Ok(FrameScan::Incomplete));
        at = end;
    }
    assert_eq!(scan_frame(&file[at..]), Ok(FrameScan::Incomplete));
}

fn compressed(text: &[u8], mode: u8) -> Vec<u8> {
    let level = 1 + i32::from(mode >> 5);
    let compress = || {
        let mut compressor = zstd::bulk::Compressor::new(level)?;
        compressor.include_checksum(mode & 1 != 0)?;
        compressor.include_contentsize(mode & 2 != 0)?;
        compressor.compress(text)
    };
    compress().expect("compressing into memory has nothing to fail on")
}

fn torn_session(bytes: &[u8]) {
    let mut choices = Choices::new(bytes);
    let mut script = Script::new(offshoot_session::EventLog::new());
    script.run(&mut choices, 24);
    let header = SessionHeader::new("torn".into(), 1);
    let file = check::encoded(Container::Zstd, &header, script.log());
    let whole = check::texts(script.log());
    for _ in 0..4 {
        let mut torn = file[..choices.below(file.len() + 1)].to_vec();
        let flipped = choices.once_in(4) && !torn.is_empty();
        if flipped {
            let at = choices.below(torn.len());
            torn[at] ^= choices.byte();
        }
        match decode_as(Container::Zstd, &torn) {
            Ok(stored) => {
                check::is_sound(&stored, torn.len());
                let mut left = check::texts(&stored.log);
                // Only a whole frame proves by its checksum that it is what was written.
                if let (true, Some(tail)) = (flipped, &stored.tail) {
                    left.truncate(left.len() - tail.recovered as usize);
                }
                assert!(whole.starts_with(&left), "{left:?} is no part of {whole:?}");
            }
            Err(error) => {
                check::explains(&error);
                let has_no_header = error.code() == "EMPTY_LOG";
                assert!(flipped || has_no_header, "torn, not damaged: {error}");
            }
        }
    }
}
