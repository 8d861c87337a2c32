//! Small compressed files that stand for very much text: what they cost is bounded by the text of one row, not by what they
//! unpack to, and by what the file holds, not by how often it may be read.

use std::env;
use std::fs;
use std::io::Write as _;
use std::process::Command;

use offshoot_format::{Container, decode_as};

use crate::support::{HEADER, frame, row};

const MEBI: u64 = 1 << 20;

/// Set for the process that does the work of a test.
const CHILD: &str = "OFFSHOOT_TEST_CHILD";

/// Does the work in a process of its own and fails if that needs more memory than `most`, as far as the platform tells.
#[expect(
    clippy::print_stdout,
    reason = "the parent reads it, and a person who wants to know"
)]
fn within(most: u64, test: &str, work: impl FnOnce()) {
    if env::var_os(CHILD).is_some() {
        work();
        let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
        let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        return println!("peak: {}", peak.unwrap_or("unknown").trim());
    }
    let output = Command::new(env::current_exe().unwrap())
        .args(["--exact", test, "--nocapture"])
        .env(CHILD, "1")
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success(),
        "{text}{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let peak = text.split("peak: ").nth(1).unwrap();
    let Some((peak, _)) = peak.split_once(" kB") else {
        return println!("this platform does not tell how much memory was used");
    };
    let peak = peak.parse::<u64>().unwrap() << 10;
    println!("{} MiB at most", peak / MEBI);
    assert!(peak <= most, "{} MiB are too many", peak / MEBI);
}

/// What was needed to make the input does not count.
fn forget_peak() {
    let file = fs::OpenOptions::new()
        .write(true)
        .open("/proc/self/clear_refs");
    file.and_then(|mut file| file.write_all(b"5")).ok();
}

/// The block that repeats one byte 128 Ki times, in four bytes.
fn repeated(byte: u8, last: bool) -> [u8; 4] {
    let [a, b, c, _] = (u32::from(last) | 1 << 1 | (128 << 10) << 3).to_le_bytes();
    [a, b, c, byte]
}

/// A frame of so many mebibytes of one byte, in 32 bytes for each.
fn bomb(byte: u8, mebibytes: u64) -> Vec<u8> {
    // No checksum, no size; a window of 128 KiB.
    let mut frame = vec![0x28, 0xb5, 0x2f, 0xfd, 0, 7 << 3];
    let blocks = mebibytes * 8;
    for at in 1..=blocks {
        frame.extend(repeated(byte, at == blocks));
    }
    frame
}

fn behind_a_header(frames: &[&[u8]]) -> Vec<u8> {
    [&[&*frame(format!("{HEADER}\n"))], frames]
        .concat()
        .concat()
}

#[test]
fn a_frame_of_a_gibibyte_without_a_line_feed_is_refused_in_little_memory() {
    within(
        64 * MEBI,
        "bombs::a_frame_of_a_gibibyte_without_a_line_feed_is_refused_in_little_memory",
        || {
            let zeros = bomb(0, 1024);
            let error = decode_as(Container::Zstd, &behind_a_header(&[&zeros])).unwrap_err();
            assert_eq!(error.code(), "CORRUPT_FRAME");
            // As the header, which is read before anything else is known of a file.
            let zeros = bomb(0, 128);
            let error = decode_as(Container::Zstd, &zeros).unwrap_err();
            assert_eq!(error.code(), "CORRUPT_FRAME");
            // Torn: nothing of it is a row.
            let torn = behind_a_header(&[&zeros[..zeros.len() - 1]]);
            let stored = decode_as(Container::Zstd, &torn).unwrap();
            assert!(stored.log.is_empty() && stored.tail.is_some());
        },
    );
}

#[test]
fn a_frame_of_very_many_lines_is_read_line_by_line() {
    within(
        64 * MEBI,
        "bombs::a_frame_of_very_many_lines_is_read_line_by_line",
        || {
            // The first row counts, the others are behind the gap that the second one leaves.
            let line = row(
                "todo/write",
                0,
                &format!(r#"{{"todos":"{}"}}"#, "a".repeat(4000)),
            ) + "\n";
            let bytes = behind_a_header(&[&frame(line.repeat(20_000))]);
            assert!(bytes.len() < 256 << 10, "{} bytes", bytes.len());
            forget_peak();
            let stored = decode_as(Container::Zstd, &bytes).unwrap();
            assert_eq!(stored.log.end().get(), 1);
            assert_eq!(stored.tail.unwrap().reason, "expected seq 1, found 0");

            let feeds = behind_a_header(&[&bomb(b'\n', 1)]);
            let stored = decode_as(Container::Zstd, &feeds).unwrap();
            let reason = stored.tail.unwrap().reason;
            assert_eq!(
                reason,
                "not a valid event row: EOF while parsing a value (byte 0)"
            );
        },
    );
}

/// The start of a frame with a checksum, and of a raw block that leads to `distance` bytes behind it.
fn start_leading(distance: usize) -> Vec<u8> {
    let [a, b, c, _] = (u32::try_from(distance).unwrap() << 3).to_le_bytes();
    vec![0x28, 0xb5, 0x2f, 0xfd, 4, 7 << 3, a, b, c]
}

/// A frame that never ends, whose inside looks like `count` starts of frames that all lead to `end`.
fn starts_leading_to(count: usize, end: &[u8]) -> Vec<u8> {
    const START: usize = 9;
    // Its own first block is the largest there can be, so that all of this is its content.
    let mut torn = start_leading(128 << 10);
    for left in (0..count).rev() {
        torn.extend(start_leading(left * START));
    }
    torn.extend(end);
    assert!(torn.len() < 128 << 10);
    // Empty blocks, none of which is the last.
    torn.resize(3 << 20, 0);
    behind_a_header(&[&torn])
}

#[test]
fn a_chain_of_blocks_without_end_is_not_followed_anew_from_each_start() {
    let bytes = starts_leading_to(14_000, &[]);
    let stored = decode_as(Container::Zstd, &bytes).unwrap();
    // The bytes of a start have a line feed among them, in the length of a block.
    let reason = stored.tail.unwrap().reason;
    assert_eq!(reason, "not UTF-8 (byte 1 of the line)");
}

#[test]
fn what_looks_like_a_frame_inside_of_a_torn_one_is_not_unpacked_anew_from_each_start() {
    // 256 MiB of zeros, whose checksum is wrong.
    let bytes = starts_leading_to(4_000, &bomb(0, 256)[6..]);
    // Whether it is still taken for a torn frame or refused as damage is a matter of taste.
    match decode_as(Container::Zstd, &bytes) {
        Ok(stored) => assert_eq!(stored.tail.unwrap().reason, "the frame was cut off"),
        Err(error) => assert_eq!(error.code(), "CORRUPT_FRAME"),
    }
}
