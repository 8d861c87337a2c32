use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::sync::Arc;

use offshoot_tool_api::ToolArguments;
use offshoot_tools::FileDigest;
use serde_json::{Value, json};

use crate::workbench::{Workbench, meta, refused};

fn edit(name: &str, old: &str, new: &str) -> Value {
    json!({ "file_path": name, "old_string": old, "new_string": new })
}

#[tokio::test]
async fn an_edit_returns_a_diff() {
    let bench = Workbench::new();
    bench.put("a.rs", "one\ntwo\nthree\n");
    bench.read("a.rs").await;
    let output = bench
        .run("edit", edit("a.rs", "two\n", "2\n2½\n"))
        .await
        .unwrap();
    let diff = "--- [dir]/a.rs\n+++ [dir]/a.rs\n@@ -1,3 +1,4 @@\n one\n-two\n+2\n+2½\n three\n";
    assert_eq!(
        bench.shown(&output.text),
        format!("Edited [dir]/a.rs: 1 replacement.\n\n{diff}")
    );
    assert_eq!(
        meta(&bench, &output),
        json!({
            "path": "[dir]/a.rs",
            "diffs": [{
                "path": "[dir]/a.rs",
                "oldText": "one\ntwo\nthree\n",
                "newText": "one\n2\n2½\nthree\n",
            }],
            "change": "changed",
            "digest": FileDigest::of("one\n2\n2½\nthree\n".as_bytes()).to_string(),
            "diff": diff,
        })
    );
    assert_eq!(bench.content("a.rs"), "one\n2\n2½\nthree\n");
}

#[tokio::test]
async fn every_occurrence_is_replaced_on_request() {
    let bench = Workbench::new();
    bench.put("a.txt", "x y x");
    bench.read("a.txt").await;
    let mut arguments = edit("a.txt", "x", "z");
    let (code, _) = bench.refuses("edit", arguments.clone()).await;
    assert_eq!(code, "FS_EDIT_AMBIGUOUS");
    assert_eq!(bench.content("a.txt"), "x y x");
    arguments["replace_all"] = true.into();
    let said = bench.said("edit", arguments).await;
    assert!(
        said.starts_with("Edited [dir]/a.txt: 2 replacements.\n"),
        "{said}"
    );
    assert_eq!(bench.content("a.txt"), "z y z");
}

#[tokio::test]
async fn line_ends_and_permissions_and_a_missing_last_line_end_stay() {
    let bench = Workbench::new();
    let path = bench.put("run.sh", "a\r\nb\r\nc");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o750)).unwrap();
    bench.read("run.sh").await;
    bench
        .run("edit", edit("run.sh", "a\nb", "1\n2\n3"))
        .await
        .unwrap();
    assert_eq!(bench.content("run.sh"), "1\r\n2\r\n3\r\nc");
    assert_eq!(fs::metadata(&path).unwrap().mode() & 0o7777, 0o750);
    assert_eq!(bench.names(), ["run.sh"], "nothing temporary stays behind");
}

#[tokio::test]
async fn a_file_must_be_known_in_its_current_version() {
    let bench = Workbench::new();
    bench.put("a.txt", "one");
    let (code, _) = bench.refuses("edit", edit("a.txt", "one", "two")).await;
    assert_eq!(code, "FS_NOT_OBSERVED");

    bench.read("a.txt").await;
    bench
        .run("bash", json!({ "command": "echo one more > a.txt" }))
        .await
        .unwrap();
    assert_eq!(
        bench.refuses("edit", edit("a.txt", "one", "two")).await,
        refused(
            "FS_STALE",
            "cannot edit `[dir]/a.txt`: it has changed since it was last read or written in this session; read it again"
        )
    );
    assert_eq!(bench.content("a.txt"), "one more\n");

    bench.read("a.txt").await;
    bench
        .run("bash", json!({ "command": "touch a.txt" }))
        .await
        .unwrap();
    // The same content is the same version, whatever its date.
    bench
        .run("edit", edit("a.txt", "one", "two"))
        .await
        .unwrap();
    // What an edit has left is known.
    bench
        .run("edit", edit("a.txt", "more", "less"))
        .await
        .unwrap();
    assert_eq!(bench.content("a.txt"), "two less\n");
}

#[tokio::test]
async fn a_refused_read_makes_nothing_known() {
    let bench = Workbench::new();
    bench.put("a.txt", "one\n");
    bench
        .refuses("read", json!({ "file_path": "a.txt", "offset": 9 }))
        .await;
    let (code, _) = bench.refuses("edit", edit("a.txt", "one", "two")).await;
    assert_eq!(code, "FS_NOT_OBSERVED");
}

#[tokio::test]
async fn a_file_is_known_by_all_its_names() {
    let bench = Workbench::new();
    bench.put("real/a.txt", "one");
    std::os::unix::fs::symlink("real", bench.path("link")).unwrap();
    bench.read("link/../link/a.txt").await;
    bench
        .run("edit", edit("real/a.txt", "one", "two"))
        .await
        .unwrap();
    bench
        .run("edit", edit("link/a.txt", "two", "three"))
        .await
        .unwrap();
    assert_eq!(bench.content("real/a.txt"), "three");
}

#[tokio::test]
async fn what_was_seen_earlier_is_restored_from_results() {
    let first = Workbench::new();
    first.put("a.txt", "one");
    first.put("b.txt", "one");
    first.put("c.txt", "one");
    let mut seen = Vec::new();
    for (tool, arguments) in [
        ("read", json!({ "file_path": "a.txt" })),
        ("read", json!({ "file_path": "b.txt" })),
        ("edit", edit("a.txt", "one", "two")),
        ("write", json!({ "file_path": "d.txt", "content": "new" })),
    ] {
        let meta = first.run(tool, arguments).await.unwrap().meta.unwrap();
        let meta: Value = serde_json::from_str(meta.get()).unwrap();
        seen.push((
            meta["path"].as_str().unwrap().into(),
            meta["digest"].as_str().unwrap().parse().unwrap(),
        ));
    }
    // The session goes on in another process, and somebody has changed `b.txt` meanwhile.
    let mut second = first;
    second.set = offshoot_tools::ToolSet::default();
    second.set.observations().restore(seen);
    second
        .run("bash", json!({ "command": "echo two > b.txt" }))
        .await
        .unwrap();
    assert_eq!(
        second.set.observations().seen(&second.path("a.txt")),
        Some(FileDigest::of(b"two"))
    );
    second
        .run("edit", edit("a.txt", "two", "three"))
        .await
        .unwrap();
    second
        .run("edit", edit("d.txt", "new", "newer"))
        .await
        .unwrap();
    assert_eq!(
        second.refuses("edit", edit("b.txt", "two", "x")).await.0,
        "FS_STALE"
    );
    assert_eq!(
        second.refuses("edit", edit("c.txt", "one", "x")).await.0,
        "FS_NOT_OBSERVED"
    );
}

#[tokio::test]
async fn several_edits_are_made_together_or_not_at_all() {
    let bench = Workbench::new();
    bench.put("a.txt", "one\ntwo\nthree\n");
    bench.read("a.txt").await;
    let arguments = |last: &str| {
        json!({ "file_path": "a.txt", "edits": [
            { "old_string": "one", "new_string": "1" },
            // In what the first one has left.
            { "old_string": "1\ntwo", "new_string": "1\n2" },
            { "old_string": last, "new_string": "3", "replace_all": true },
        ] })
    };
    let (code, message) = bench.refuses("multi_edit", arguments("four")).await;
    assert_eq!(code, "FS_EDIT_NO_MATCH");
    assert!(
        message.starts_with("edit 3 of 3 failed, and none was made: `old_string` does not occur"),
        "{message}"
    );
    assert_eq!(bench.content("a.txt"), "one\ntwo\nthree\n");

    let said = bench.said("multi_edit", arguments("three")).await;
    assert!(
        said.starts_with("Edited [dir]/a.txt: 3 replacements.\n\n--- [dir]/a.txt\n"),
        "{said}"
    );
    assert_eq!(bench.content("a.txt"), "1\n2\n3\n");

    assert_eq!(
        bench
            .refuses("multi_edit", json!({ "file_path": "a.txt", "edits": [] }))
            .await,
        refused("INVALID_ARGS", "invalid argument `edits`: it is empty")
    );
}

#[tokio::test]
async fn edits_that_undo_each_other_say_so() {
    let bench = Workbench::new();
    bench.put("a.txt", "one");
    bench.read("a.txt").await;
    let arguments = json!({ "file_path": "a.txt", "edits": [
        { "old_string": "one", "new_string": "two" },
        { "old_string": "two", "new_string": "one" },
    ] });
    assert_eq!(
        bench.said("multi_edit", arguments).await,
        "Edited [dir]/a.txt: 2 replacements, which leave the file as it was."
    );
}

#[tokio::test]
async fn what_cannot_be_edited_is_named_with_its_reason() {
    let bench = Workbench::new();
    bench.put("data", b"\x7FELF\0\0");
    bench.put("dir/a.txt", "");
    crate::workbench::make_pipe(&bench.path("pipe"));
    let seen = [(bench.path("data"), FileDigest::of(b"\x7FELF\0\0"))];
    bench.set.observations().restore(seen);
    for (name, code, message) in [
        (
            "none/a.txt",
            "FS_NOT_FOUND",
            "cannot edit `[dir]/none/a.txt`: it does not exist",
        ),
        (
            "none",
            "FS_NOT_FOUND",
            "cannot edit `[dir]/none`: it does not exist",
        ),
        (
            "dir",
            "FS_IS_A_DIRECTORY",
            "cannot edit `[dir]/dir`: it is a directory",
        ),
        (
            "pipe",
            "FS_NOT_A_FILE",
            "cannot edit `[dir]/pipe`: it is neither a file nor a directory",
        ),
        (
            "data",
            "FS_BINARY_FILE",
            "the file is a binary file (ELF), and edit changes text only",
        ),
    ] {
        assert_eq!(
            bench.refuses("edit", edit(name, "a", "b")).await,
            refused(code, message),
            "{name}"
        );
    }
    assert_eq!(
        bench.names(),
        ["data", "dir", "pipe"],
        "no directory was made"
    );
}

#[tokio::test]
async fn what_is_not_there_is_explained() {
    let bench = Workbench::new();
    bench.put("a.rs", "fn main() {\n\tlet a = 1;\n}\n");
    bench.read("a.rs").await;
    assert_eq!(
        bench
            .refuses("edit", edit("a.rs", "  let a = 1;\n", ""))
            .await,
        refused(
            "FS_EDIT_NO_MATCH",
            "`old_string` does not occur in the file. Line 2 differs from it in white space only. The file has:\n\tlet a = 1;"
        )
    );
}

/// Agents of one process, each with its own tools, or calls of one agent.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn edits_of_one_file_at_the_same_time_all_arrive() {
    const COUNT: usize = 40;
    let bench = Arc::new(Workbench::new());
    let lines: String = (0..COUNT).map(|n| format!("<line {n}>\n")).collect();
    bench.put("a.txt", lines);
    bench.read("a.txt").await;
    let edits: Vec<_> = (0..COUNT)
        .map(|n| {
            let bench = Arc::clone(&bench);
            let arguments = edit("a.txt", &format!("<line {n}>"), &format!("<edited {n}>"));
            tokio::spawn(async move { bench.run("edit", arguments).await.map(drop) })
        })
        .collect();
    for edit in edits {
        assert_eq!(edit.await.unwrap(), Ok(()));
    }
    let edited: String = (0..COUNT).map(|n| format!("<edited {n}>\n")).collect();
    assert_eq!(bench.content("a.txt"), edited);
    assert_eq!(bench.names(), ["a.txt"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn of_two_sessions_that_edit_the_same_version_one_is_told_that_it_is_stale() {
    let bench = Workbench::new();
    bench.put("a.txt", "0");
    for round in 0..20 {
        let old = bench.content("a.txt");
        let calls: Vec<_> = ["left", "right"]
            .into_iter()
            .map(|side| {
                let set = offshoot_tools::ToolSet::default();
                let seen = FileDigest::of(old.as_bytes());
                set.observations().restore([(bench.path("a.txt"), seen)]);
                let tools = set.tools();
                let tool = tools
                    .into_iter()
                    .find(|tool| tool.spec().name == "edit")
                    .unwrap();
                let arguments = edit("a.txt", &old, &format!("{side} {round}"));
                let arguments = ToolArguments::from_model(arguments.to_string());
                let cx = bench.cx.clone();
                tokio::spawn(async move { tool.execute(arguments, &cx).await })
            })
            .collect();
        let mut ended = Vec::new();
        for call in calls {
            ended.push(
                call.await
                    .unwrap()
                    .map_or_else(|error| error.code().to_owned(), |_| "done".to_owned()),
            );
        }
        ended.sort();
        assert_eq!(ended, ["FS_STALE", "done"]);
    }
}

#[tokio::test]
async fn a_file_that_another_program_has_locked_can_be_given_up() {
    let bench = Workbench::new();
    let path = bench.put("a.txt", "one");
    bench.read("a.txt").await;
    let held = fs::File::open(&path).unwrap();
    held.lock().unwrap();
    let cancel = bench.cx.cancel.clone();
    let call = bench.run("edit", edit("a.txt", "one", "two"));
    let (ended, ()) = tokio::join!(call, async { cancel.cancel() });
    assert_eq!(ended.unwrap_err().code(), "ABORTED");
    assert_eq!(bench.content("a.txt"), "one");
}
