//! `offshoot show --stored`: the lines of a file as they stand in it, whatever is wrong with it.

use std::fs;

use insta::assert_snapshot;
use offshoot_test_support::{CommandOutput, TestHome};

use crate::support::{demo, demo_up_to, events, file, json, of_version, run};

fn stored(home: &TestHome, name: &str) -> CommandOutput {
    run(home, ["show", name, "--stored"])
}

#[test]
fn a_file_is_printed_to_the_byte_in_whatever_version_it_is() {
    let home = TestHome::new();
    for version in 0..=4 {
        let text = of_version(version);
        file(&home, "session.jsonl", &text);
        let shown = stored(&home, "session.jsonl").success();
        assert_eq!(
            (shown.stdout_text(), shown.stderr_text()),
            (text, String::new())
        );
    }
}

#[test]
fn a_compressed_session_is_printed_as_the_lines_in_it() {
    let home = TestHome::new();
    let demo = demo();
    drop(run(&home, ["fork", demo.to_str().unwrap(), "--id", "child"]).success());
    let shown = stored(&home, "child").success().stdout_text();
    let (header, rows) = shown.split_once('\n').unwrap();
    assert!(
        header.starts_with(r#"{"type":"session","version":4,"id":"child","#),
        "{header}"
    );
    let rows: Vec<serde_json::Value> = rows
        .lines()
        .map(|row| serde_json::from_str(row).unwrap())
        .collect();
    assert_eq!(rows, events(&home, "child"));
    // JSON it is anyway.
    let as_json = run(&home, ["show", "child", "--stored", "--json"]).success();
    assert_eq!(as_json.stdout_text(), shown);
}

#[test]
fn of_a_damaged_file_every_line_is_printed_and_then_what_show_says_of_it() {
    let home = TestHome::new();
    let good = fs::read_to_string(demo()).unwrap();
    let mut not_utf8 = good.clone().into_bytes();
    let at = not_utf8.windows(6).position(|bytes| bytes == b"I will");
    not_utf8[at.unwrap()] = 0xff;
    for (name, bytes) in [
        (
            "gap.jsonl",
            good.replacen(r#""seq":3,"#, r#""seq":4,"#, 1).into_bytes(),
        ),
        ("not-utf8.jsonl", not_utf8),
        (
            "newer.jsonl",
            good.replacen(r#""version":4"#, r#""version":5"#, 1)
                .into_bytes(),
        ),
        ("letter.txt", b"Dear Anna,\nthe weather is fine.".to_vec()),
        ("empty.jsonl", Vec::new()),
    ] {
        file(&home, name, &bytes);
        let shown = stored(&home, name);
        assert_eq!((shown.code(), &shown.stdout), (Some(1), &bytes), "{name}");
        let judged = run(&home, ["show", name]);
        assert_eq!(shown.stderr_text(), judged.stderr_text());
    }
}

#[test]
fn what_can_be_unpacked_of_a_damaged_file_is_printed_and_then_the_damage() {
    let home = TestHome::new();
    drop(run(&home, ["fork", demo().to_str().unwrap(), "--id", "child"]).success());
    let path = home
        .path()
        .join("sessions/--work-demo--/child/session.v4.jsonl.zstd");
    let sound = stored(&home, "child").success().stdout_text();
    let header = sound.split_inclusive('\n').next().unwrap();
    let mut bytes = fs::read(&path).unwrap();
    *bytes.last_mut().unwrap() ^= 1;
    file(&home, "bad.zstd", &bytes);
    let shown = stored(&home, "bad.zstd");
    assert_eq!(
        (shown.code(), shown.stdout_text().as_str()),
        (Some(1), header)
    );
    let said = shown.stderr_text();
    let expected = "error: `bad.zstd`: byte ";
    assert!(said.starts_with(expected), "{said}");
    assert!(
        said.contains("the zstd frame does not decompress"),
        "{said}"
    );
}

#[test]
fn a_torn_end_is_printed_as_far_as_it_goes_and_noted() {
    let home = TestHome::new();
    let torn = &demo_up_to(13)[..8_000];
    file(&home, "torn.jsonl", torn);
    let shown = stored(&home, "torn.jsonl").success();
    assert_eq!(shown.stdout_text(), torn);
    assert_snapshot!(shown.stderr_text(), @r#"
    note: line 9: the line was cut off (5520 bytes from byte 2480 on); going on with the session repairs it
    "#);
    let shown = run(&home, ["show", "torn.jsonl", "--stored", "--json"]).success();
    let note: serde_json::Value = serde_json::from_str(&shown.stderr_text()).unwrap();
    assert_eq!(note["type"], "note");
}

#[test]
fn every_damaged_piece_that_is_left_out_is_counted() {
    let home = TestHome::new();
    for id in ["one", "two"] {
        drop(run(&home, ["fork", demo().to_str().unwrap(), "--id", id]).success());
    }
    let project = home.path().join("sessions/--work-demo--");
    let bytes = |id: &str| fs::read(project.join(id).join("session.v4.jsonl.zstd")).unwrap();
    let mut bad = bytes("one");
    *bad.last_mut().unwrap() ^= 1;
    let whole = bytes("two");
    file(&home, "bad.zstd", [&bad[..], &bad[..], &whole[..]].concat());
    let shown = stored(&home, "bad.zstd");
    let said = shown.stderr_text();
    let note = "note: 2 damaged pieces of the file are left out; this is about the first\nerror: ";
    assert!(said.starts_with(note), "{said}");
    assert!(shown.stdout_text().ends_with(&{
        let two = stored(&home, "two").success();
        two.stdout_text()
    }));
    assert_eq!(
        json(&run(&home, ["check", "--json", "bad.zstd"]))[0]["status"],
        "damaged"
    );
}
