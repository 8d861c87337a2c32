//! What becomes of output that is too long to be shown.

use std::fs;
use std::io;
use std::sync::Arc;

use offshoot_tool_api::{Spill, SpillFile};
use serde_json::json;

use crate::workbench::{SpillDirectory, Workbench, meta};

fn with_spill() -> Workbench {
    let mut bench = Workbench::new();
    bench.cx.spill = Some(Arc::new(SpillDirectory::new(bench.path("spilled"))));
    bench
}

#[tokio::test]
async fn short_output_is_kept_nowhere() {
    let bench = with_spill();
    let command = "yes | head -n 1000";
    let text = bench.said("bash", json!({ "command": command })).await;
    assert_eq!(text, "y\n".repeat(1000));
    assert_eq!(fs::read_dir(bench.path("spilled")).unwrap().count(), 0);
}

#[tokio::test]
async fn each_long_output_is_in_a_file_of_its_own_that_is_named() {
    let bench = with_spill();
    // The first has too many lines, the second is too long.
    let command = "seq 1001; head -c 40000 /dev/zero | tr '\\0' x >&2; exit 1";
    let output = bench
        .run("bash", json!({ "command": command }))
        .await
        .unwrap();
    let files = [bench.path("spilled/1"), bench.path("spilled/0")];
    assert_eq!(
        meta(&bench, &output),
        json!({ "cwd": "[dir]", "files": ["[dir]/spilled/1", "[dir]/spilled/0"] })
    );
    let [seq, xs] = files.map(|file| fs::read_to_string(file).unwrap());
    let lines: String = (1..=1001).map(|number| format!("{number}\n")).collect();
    assert_eq!(seq, lines);
    assert_eq!(xs, "x".repeat(40_000));
    let shown = |range: std::ops::RangeInclusive<u32>| -> String {
        range.map(|number| format!("{number}\n")).collect()
    };
    let half = "x".repeat(15 * 1024);
    let dir = bench.path("");
    let dir = dir.display();
    assert_eq!(
        output.text,
        format!(
            "{}[... 4 bytes omitted, in 1 lines ...]\n{}\
             [All of standard output is in `{dir}spilled/1`: use read or grep on it.]\n\
             [stderr]\n{half}\n[... 9280 bytes omitted, in 1 lines ...]\n{half}\n\
             [All of standard error is in `{dir}spilled/0`: use read or grep on it.]\n[exit code: 1]",
            shown(1..=500),
            shown(502..=1001),
        )
    );
}

#[tokio::test]
async fn a_hundred_megabytes_go_through_little_memory_and_are_kept_up_to_a_limit() {
    let bench = with_spill();
    let before = most_memory();
    let command = "yes 0123456789 | head -c 100000000; echo the end";
    let text = bench.said("bash", json!({ "command": command })).await;
    let grown = most_memory() - before;
    assert!(grown < 16 * 1024, "{grown} KiB");
    assert!(
        text.ends_with(
            "0the end\n[The first 64 MiB of standard output is in `[dir]/spilled/0`: use read or grep on it.]"
        ),
        "{}",
        &text[text.len() - 200..]
    );
    assert!(text.len() < 40 * 1024, "{}", text.len());
    let kept = fs::metadata(bench.path("spilled/0")).unwrap().len();
    assert_eq!(kept, 64 * 1024 * 1024);
}

/// The most memory that this process ever had, in KiB.
fn most_memory() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM:"));
    let figure = line.unwrap().split_whitespace().nth(1).unwrap();
    figure.parse().unwrap()
}

#[tokio::test]
async fn binary_output_is_kept_byte_for_byte_and_said_to_be_binary() {
    let bench = with_spill();
    let command = "head -c 40000 /dev/zero | tr '\\0' '\\377'";
    let text = bench.said("bash", json!({ "command": command })).await;
    let half = "\u{FFFD}".repeat(15 * 1024);
    assert_eq!(
        text,
        format!(
            "{half}\n[... 9280 bytes omitted, in 1 lines ...]\n{half}\n\
             [All of standard output is in `[dir]/spilled/0`: use read or grep on it.]\n\
             [Not all of standard output is text: what is not UTF-8 is shown as \u{FFFD}.]"
        )
    );
    assert_eq!(fs::read(bench.path("spilled/0")).unwrap(), [0xFF; 40_000]);
}

/// A place without room.
#[derive(Debug)]
struct Full;

impl Spill for Full {
    fn begin(&self) -> io::Result<Box<dyn SpillFile>> {
        Err(io::ErrorKind::StorageFull.into())
    }
}

#[tokio::test]
async fn a_command_does_not_fail_because_its_output_cannot_be_kept() {
    let mut bench = Workbench::new();
    let command = "yes | head -n 1002";
    let half = "y\n".repeat(500);
    let cut = format!("{half}[... 4 bytes omitted, in 2 lines ...]\n{half}");
    let tool = bench.tool("bash");
    assert_eq!(
        bench
            .text(tool.as_ref(), json!({ "command": command }))
            .await,
        cut
    );
    bench.cx.spill = Some(Arc::new(Full));
    assert_eq!(
        bench
            .text(tool.as_ref(), json!({ "command": command }))
            .await,
        format!("{cut}[The whole of standard output could not be kept: no storage space.]")
    );
}

#[tokio::test]
async fn what_a_command_said_before_its_time_was_over_is_kept_too() {
    let bench = with_spill();
    let command = "seq 2000; exec sleep 300";
    let arguments = json!({ "command": command, "timeoutMs": 1000 });
    let (code, message) = bench.refuses("bash", arguments).await;
    assert_eq!(code, "TOOL_TIMEOUT");
    assert!(message.ends_with(
        "2000\n[All of standard output is in `[dir]/spilled/0`: use read or grep on it.]"
    ));
    assert_eq!(bench.content("spilled/0").lines().count(), 2000);
}
