use std::os::unix::fs::symlink;
use std::sync::Arc;

use serde_json::{Value, json};

use crate::workbench::{Kept, Workbench, make_pipe, meta, refused};

fn bench() -> Workbench {
    let bench = Workbench::new();
    bench.put("b.rs", "fn one() {}\n\nfn two() {\n    one();\n}\n");
    bench.put("a/x.txt", "One\r\ntwo one\r\n");
    bench.put(".gitignore", "out/\n");
    bench.put("out/gen.rs", "one\n");
    bench.put("data.bin", b"one\0one\n");
    bench.put(".hidden", "one\n");
    bench
}

async fn grep(bench: &Workbench, arguments: Value) -> String {
    bench.said("grep", arguments).await
}

#[tokio::test]
async fn matching_lines_are_shown_by_file() {
    let bench = bench();
    let output = bench
        .run("grep", json!({ "pattern": "one" }))
        .await
        .unwrap();
    assert_eq!(
        output.text,
        ".hidden\n1: one\n\na/x.txt\n2: two one\n\nb.rs\n1: fn one() {}\n4:     one();"
    );
    assert_eq!(
        meta(&bench, &output),
        json!({ "shape": "content", "matches": 4, "files": 3, "truncated": false })
    );
}

#[tokio::test]
async fn context_is_told_from_matches_and_gaps_are_marked() {
    let bench = Workbench::new();
    bench.put("a.txt", "1\n2 x\n3\n4\n5\n6\n7 x\n8 x\n9\n");
    assert_eq!(
        grep(&bench, json!({ "pattern": "x$", "context": 1 })).await,
        "a.txt\n1- 1\n2: 2 x\n3- 3\n--\n6- 6\n7: 7 x\n8: 8 x\n9- 9"
    );
}

#[tokio::test]
async fn a_search_can_be_narrowed_and_loosened() {
    let bench = bench();
    let cases = [
        (
            json!({ "pattern": "one", "include": "*.rs" }),
            "b.rs\n1: fn one() {}\n4:     one();",
        ),
        (
            json!({ "pattern": "one", "include": "a/**" }),
            "a/x.txt\n2: two one",
        ),
        (
            json!({ "pattern": "one", "path": "a" }),
            "a/x.txt\n2: two one",
        ),
        (
            json!({ "pattern": "one", "path": "a/x.txt" }),
            "a/x.txt\n2: two one",
        ),
        (
            json!({ "pattern": "^one$", "ignore_case": true, "path": "a" }),
            "a/x.txt\n1: One",
        ),
        (
            json!({ "pattern": "one", "output": "files" }),
            ".hidden\na/x.txt\nb.rs",
        ),
        (
            json!({ "pattern": "one", "output": "count" }),
            ".hidden: 1\na/x.txt: 1\nb.rs: 2",
        ),
        (
            json!({ "pattern": "(?i)ONE\\(\\)", "output": "count" }),
            "b.rs: 2",
        ),
        (
            json!({ "pattern": "one", "path": "out" }),
            "out/gen.rs\n1: one",
        ),
        (
            json!({ "pattern": "three" }),
            "No lines match `three` in [dir] (4 files searched, 1 binary skipped).",
        ),
        (
            json!({ "pattern": "one", "include": "*.py" }),
            "No lines match `one` in [dir] (0 files searched).",
        ),
    ];
    for (arguments, expected) in cases {
        assert_eq!(
            grep(&bench, arguments.clone()).await,
            expected,
            "{arguments}"
        );
    }
}

#[tokio::test]
async fn the_first_two_hundred_and_fifty_are_shown_and_all_are_kept() {
    let mut bench = Workbench::new();
    let kept = Kept::default();
    bench.cx.spill = Some(Arc::new(kept.clone()));
    bench.put("a.txt", "x\n".repeat(200));
    bench.put("b.txt", "x\n".repeat(100));
    bench.put("c.txt", "x\n");
    let output = bench.run("grep", json!({ "pattern": "x" })).await.unwrap();
    let lines: Vec<&str> = output.text.lines().collect();
    // Two names, a line between them, 250 matches, and two lines about the rest.
    assert_eq!(lines.len(), 3 + 250 + 2);
    assert_eq!(lines[252], "50: x");
    assert_eq!(
        &lines[253..],
        [
            "(There are 301 matching lines in 3 files; this is the beginning. Narrow `pattern`, `path` or `include`.)",
            "[The whole output is in `/kept/1`: use read or grep on it.]",
        ]
    );
    assert!(kept.files()[0].ends_with("\n100: x\n\nc.txt\n1: x\n"));
    assert_eq!(
        meta(&bench, &output),
        json!({ "shape": "content", "matches": 301, "files": 3, "truncated": true })
    );
}

#[tokio::test]
async fn files_are_capped_too() {
    let bench = Workbench::new();
    for n in 0..260 {
        bench.put(&format!("{n:03}.txt"), "x\nx\n");
    }
    for (output, last) in [("files", "249.txt"), ("count", "249.txt: 2")] {
        let said = grep(&bench, json!({ "pattern": "x", "output": output })).await;
        let lines: Vec<&str> = said.lines().collect();
        assert_eq!(lines.len(), 251);
        assert_eq!(lines[249], last);
        assert_eq!(
            lines[250],
            "(There are 260 files; this is the beginning. Narrow `pattern`, `path` or `include`.)"
        );
    }
}

#[tokio::test]
async fn a_search_that_finds_too_much_ends_early_and_says_so() {
    let bench = Workbench::new();
    bench.put("a.txt", "x\n".repeat(50_000));
    let said = grep(&bench, json!({ "pattern": "x" })).await;
    assert!(
        said.ends_with("(There are more than 9999 matching lines in 1 file; this is the beginning. Narrow `pattern`, `path` or `include`.)"),
        "{}", &said[said.len() - 200..]
    );
    // Counting has no need to.
    assert_eq!(
        grep(&bench, json!({ "pattern": "x", "output": "count" })).await,
        "a.txt: 50000"
    );
}

#[tokio::test]
async fn many_bytes_are_cut_at_a_line() {
    let bench = Workbench::new();
    bench.put("a.txt", format!("{}\n", "x".repeat(400)).repeat(200));
    let said = grep(&bench, json!({ "pattern": "x" })).await;
    assert!(said.len() < 52_000, "{}", said.len());
    assert!(said.contains("(There are 200 matching lines in 1 file; this is the beginning."));
}

#[tokio::test]
async fn of_a_long_line_the_part_around_the_match_is_shown() {
    let bench = Workbench::new();
    let long = format!("{}needle{}", "é".repeat(3000), "ü".repeat(3000));
    bench.put("min.js", format!("{long}\n"));
    assert_eq!(
        grep(&bench, json!({ "pattern": "needle" })).await,
        format!(
            "min.js\n1: […] {}needle{} […]",
            "é".repeat(100),
            "ü".repeat(394)
        )
    );
}

#[tokio::test]
async fn a_file_that_becomes_binary_later_is_searched_up_to_there() {
    let bench = Workbench::new();
    bench.put(
        "a.log",
        [b"found\n", &b"x\n".repeat(100_000)[..], b"\0found\n"].concat(),
    );
    assert_eq!(
        grep(&bench, json!({ "pattern": "found" })).await,
        "a.log\n1: found"
    );
}

#[tokio::test]
async fn other_encodings_are_read_as_far_as_they_are_known() {
    let bench = Workbench::new();
    let utf16: Vec<u8> = "\u{FEFF}naïve\n"
        .encode_utf16()
        .flat_map(u16::to_le_bytes)
        .collect();
    bench.put("wide.txt", utf16);
    bench.put("latin.txt", b"na\xEFve\n");
    assert_eq!(
        grep(&bench, json!({ "pattern": "na.*ve", "output": "files" })).await,
        "wide.txt"
    );
    assert_eq!(
        grep(&bench, json!({ "pattern": "ve", "include": "latin*" })).await,
        "latin.txt\n1: na\u{FFFD}ve"
    );
    assert_eq!(
        grep(&bench, json!({ "pattern": "ï" })).await,
        "wide.txt\n1: naïve"
    );
}

#[tokio::test]
async fn what_is_no_file_is_not_opened() {
    let bench = Workbench::new();
    bench.put("a.txt", "x\n");
    make_pipe(&bench.path("pipe"));
    symlink("a.txt", bench.path("link")).unwrap();
    symlink("..", bench.path("loop")).unwrap();
    assert_eq!(grep(&bench, json!({ "pattern": "x" })).await, "a.txt\n1: x");
    assert_eq!(
        grep(&bench, json!({ "pattern": "x", "path": "link" })).await,
        "link\n1: x"
    );
}

#[tokio::test]
async fn what_cannot_be_searched_is_named_with_its_reason() {
    let bench = bench();
    make_pipe(&bench.path("pipe"));
    let cases = [
        (
            json!({ "pattern": "x", "path": "none" }),
            "FS_NOT_FOUND",
            "cannot search `[dir]/none`: it does not exist",
        ),
        (
            json!({ "pattern": "x", "path": "data.bin" }),
            "FS_BINARY_FILE",
            "cannot search `[dir]/data.bin`: it is a binary file",
        ),
        (
            json!({ "pattern": "x", "path": "pipe" }),
            "SEARCH_FAILED",
            "cannot search `[dir]/pipe`: it is neither a file nor a directory",
        ),
        (
            json!({ "pattern": "x", "include": "{" }),
            "SEARCH_INVALID_PATTERN",
            "`{` is not a pattern of file names: unclosed alternate group; missing '}' (maybe escape '{' with '[{]'?)",
        ),
        (
            json!({ "pattern": "x", "context": 11 }),
            "INVALID_ARGS",
            "invalid argument `context`: it must be at most 10",
        ),
    ];
    for (arguments, code, message) in cases {
        assert_eq!(
            bench.refuses("grep", arguments).await,
            refused(code, message)
        );
    }
    for pattern in ["(", "a\nb", "a{2,1}"] {
        let (code, message) = bench.refuses("grep", json!({ "pattern": pattern })).await;
        assert_eq!(code, "SEARCH_INVALID_PATTERN");
        assert!(
            message.starts_with(&format!("`{pattern}` is not a regular expression: ")),
            "{message}"
        );
    }
}
