use std::ffi::OsStr;
use std::fs::{self, FileTimes, OpenOptions};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use serde_json::json;

use crate::workbench::{Kept, Workbench, meta, refused};

/// Puts a file there that was modified so many seconds after the epoch.
fn put_dated(bench: &Workbench, name: &str, seconds: u64) {
    let path = bench.put(name, name);
    let modified = SystemTime::UNIX_EPOCH + Duration::from_secs(seconds);
    let file = OpenOptions::new().write(true).open(path).unwrap();
    file.set_times(FileTimes::new().set_modified(modified))
        .unwrap();
}

async fn found(bench: &Workbench, pattern: &str) -> Vec<String> {
    let said = bench.said("glob", json!({ "pattern": pattern })).await;
    said.lines().map(str::to_owned).collect()
}

#[tokio::test]
async fn the_newest_files_come_first() {
    let bench = Workbench::new();
    put_dated(&bench, "old.rs", 1000);
    put_dated(&bench, "src/new.rs", 3000);
    put_dated(&bench, "src/deep/b.rs", 2000);
    put_dated(&bench, "src/deep/a.rs", 2000);
    put_dated(&bench, "src/new.txt", 4000);
    let output = bench
        .run("glob", json!({ "pattern": "*.rs" }))
        .await
        .unwrap();
    assert_eq!(
        output.text,
        "src/new.rs\nsrc/deep/a.rs\nsrc/deep/b.rs\nold.rs"
    );
    assert_eq!(
        meta(&bench, &output),
        json!({
            "shape": "paths",
            "paths": ["src/new.rs", "src/deep/a.rs", "src/deep/b.rs", "old.rs"],
            "truncated": false,
            "total": 4,
        })
    );
    assert_eq!(found(&bench, "src/*.rs").await, ["src/new.rs"]);
    let elsewhere = json!({ "pattern": "deep/*", "path": "src" });
    assert_eq!(
        bench.said("glob", elsewhere).await,
        "src/deep/a.rs\nsrc/deep/b.rs"
    );
}

#[tokio::test]
async fn ignored_files_and_version_control_are_left_out_and_hidden_files_are_not() {
    let bench = Workbench::new();
    bench.put(".gitignore", "target/\n*.log\n!keep.log\n");
    for name in [
        "target/a.txt",
        "x.log",
        "keep.log",
        ".git/config",
        ".github/ci.yml",
        "sub/.gitignore",
        "sub/y.log",
    ] {
        put_dated(&bench, name, 1000);
    }
    fs::remove_file(bench.path("sub/.gitignore")).unwrap();
    bench.put("sub/.gitignore", "secret\n");
    put_dated(&bench, "sub/secret", 1000);
    let mut all = found(&bench, "**/*").await;
    all.sort();
    assert_eq!(
        all,
        [".github/ci.yml", ".gitignore", "keep.log", "sub/.gitignore"]
    );
    // What is named itself is looked at.
    let named = json!({ "pattern": "*", "path": "target" });
    assert_eq!(bench.said("glob", named).await, "target/a.txt");
}

#[tokio::test]
async fn links_are_found_and_not_followed() {
    let bench = Workbench::new();
    bench.put("real/a.txt", "");
    symlink("real", bench.path("link")).unwrap();
    symlink("link", bench.path("real/loop")).unwrap();
    let mut all = found(&bench, "*").await;
    all.sort();
    assert_eq!(all, ["link", "real/a.txt", "real/loop"]);
    assert_eq!(
        bench
            .said("glob", json!({ "pattern": "*.txt", "path": "link" }))
            .await,
        "link/a.txt"
    );
}

#[tokio::test]
async fn more_than_a_hundred_are_counted_by_directory_and_kept() {
    let mut bench = Workbench::new();
    let kept = Kept::default();
    bench.cx.spill = Some(Arc::new(kept.clone()));
    for n in 0..100 {
        put_dated(&bench, &format!("new/{n:03}.txt"), 5000 - n);
    }
    for n in 0..30 {
        put_dated(&bench, &format!("old/{n:03}.txt"), 100);
        put_dated(&bench, &format!("older/in/{n:03}.txt"), 50);
    }
    put_dated(&bench, "oldest.txt", 10);
    let output = bench
        .run("glob", json!({ "pattern": "*.txt" }))
        .await
        .unwrap();
    let (paths, note) = output.text.split_once("\n\n").unwrap();
    let expected: Vec<String> = (0..100).map(|n| format!("new/{n:03}.txt")).collect();
    assert_eq!(paths.lines().collect::<Vec<_>>(), expected);
    assert_eq!(
        note,
        "(Showing 100 of 161 files, the newest first. Most of the others are in: old/ 30, older/ 30. Narrow `pattern` or `path`.)\n[The whole output is in `/kept/1`: use read or grep on it.]"
    );
    let kept = kept.files();
    assert_eq!(kept[0].lines().count(), 161);
    assert!(kept[0].ends_with("older/in/029.txt\noldest.txt"));
    let meta = meta(&bench, &output);
    assert_eq!(
        (&meta["truncated"], &meta["total"]),
        (&json!(true), &json!(161))
    );

    bench.cx.spill = None;
    let said = bench.said("glob", json!({ "pattern": "*.txt" })).await;
    assert!(said.ends_with("Narrow `pattern` or `path`.)"), "{said}");
}

#[tokio::test]
async fn names_that_are_not_text_stay_on_one_line() {
    let bench = Workbench::new();
    for name in [&b"caf\xE9.txt"[..], b"two\nlines.txt"] {
        let path = bench.path("").join(OsStr::from_bytes(name));
        OpenOptions::new()
            .write(true)
            .create_new(true)
            .open(path)
            .unwrap();
    }
    let mut all = found(&bench, "*.txt").await;
    all.sort();
    assert_eq!(all, ["caf\u{FFFD}.txt", "two\\nlines.txt"]);
}

#[tokio::test]
async fn an_absolute_pattern_says_where_to_search() {
    let bench = Workbench::new();
    put_dated(&bench, "src/a.rs", 1000);
    put_dated(&bench, "b.rs", 900);
    let pattern = format!("{}/src/**/*.rs", bench.path("").display()).replace("//", "/");
    assert_eq!(found(&bench, &pattern).await, ["src/a.rs"]);
    let pattern = bench.path("b.rs").display().to_string();
    assert_eq!(found(&bench, &pattern).await, ["b.rs"]);
}

#[tokio::test]
async fn nothing_found_and_bad_patterns_are_said() {
    let bench = Workbench::new();
    bench.put("a.txt", "");
    assert_eq!(
        bench.said("glob", json!({ "pattern": "*.rs" })).await,
        "No files match `*.rs` in [dir]. (What .gitignore leaves out was not searched.)"
    );
    for (arguments, code, message) in [
        (
            json!({ "pattern": "a[" }),
            "SEARCH_INVALID_PATTERN",
            "`a[` is not a pattern of file names: unclosed character class; missing ']'",
        ),
        (
            json!({ "pattern": "" }),
            "SEARCH_INVALID_PATTERN",
            "`` is not a pattern of file names: it is empty",
        ),
        (
            json!({ "pattern": "../*.rs" }),
            "SEARCH_INVALID_PATTERN",
            "`../*.rs` is not a pattern of file names: it contains `..`; say where to search with `path` instead",
        ),
        (
            json!({ "pattern": "*", "path": "none" }),
            "FS_NOT_FOUND",
            "cannot search `[dir]/none`: it does not exist",
        ),
        (
            json!({ "pattern": "*", "path": "a.txt" }),
            "FS_NOT_A_DIRECTORY",
            "cannot search `[dir]/a.txt`: it is not a directory",
        ),
    ] {
        assert_eq!(
            bench.refuses("glob", arguments).await,
            refused(code, message)
        );
    }
}

#[tokio::test]
async fn a_cancelled_search_ends() {
    let bench = Workbench::new();
    bench.put("a.txt", "a");
    bench.cx.cancel.cancel();
    for (tool, arguments) in [
        ("glob", json!({ "pattern": "*" })),
        ("grep", json!({ "pattern": "a" })),
        ("ls", json!({})),
        ("todo_write", json!({ "todos": [] })),
        (
            "edit",
            json!({ "file_path": "a.txt", "old_string": "a", "new_string": "b" }),
        ),
    ] {
        assert_eq!(bench.refuses(tool, arguments).await.0, "ABORTED", "{tool}");
    }
}
