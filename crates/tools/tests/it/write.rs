use std::fs::{self, OpenOptions, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};

use offshoot_tools::FileDigest;
use serde_json::json;

use crate::workbench::{Workbench, make_pipe, meta, refused};

#[tokio::test]
async fn a_new_file_comes_with_its_directories() {
    let bench = Workbench::new();
    let output = bench
        .call(
            bench.tool("write").as_ref(),
            json!({ "file_path": "src/deep/a.rs", "content": "x\n" }),
        )
        .await
        .unwrap();

    assert_eq!(bench.content("src/deep/a.rs"), "x\n");
    assert_eq!(
        output.text,
        format!(
            "<path>{}</path>\n<type>file</type>\n<content>\nCreated file\n</content>",
            bench.path("src/deep/a.rs").display()
        )
    );
    assert_eq!(
        meta(&bench, &output),
        json!({
            "operation": "create",
            "path": "[dir]/src/deep/a.rs",
            "diffs": [],
            "change": "created",
            "digest": FileDigest::of(b"x\n").to_string(),
            "diff": "--- [dir]/src/deep/a.rs\n+++ [dir]/src/deep/a.rs\n@@ -0,0 +1 @@\n+x\n",
        })
    );
}

#[tokio::test]
async fn a_new_file_has_the_permissions_of_any_new_file() {
    let bench = Workbench::new();
    bench.put("by-hand", "");
    bench
        .call(
            bench.tool("write").as_ref(),
            json!({ "file_path": "new", "content": "" }),
        )
        .await
        .unwrap();
    let mode = |name| fs::metadata(bench.path(name)).unwrap().mode();
    assert_eq!(mode("new"), mode("by-hand"));
}

#[tokio::test]
async fn an_existing_file_is_replaced_and_keeps_its_permissions() {
    let bench = Workbench::new();
    let path = bench.put("run.sh", "old");
    fs::set_permissions(&path, Permissions::from_mode(0o751)).unwrap();
    bench.read("run.sh").await;

    let output = bench
        .call(
            bench.tool("write").as_ref(),
            json!({ "file_path": "run.sh", "content": "new" }),
        )
        .await
        .unwrap();

    assert_eq!(bench.content("run.sh"), "new");
    assert_eq!(fs::metadata(&path).unwrap().mode() & 0o7777, 0o751);
    assert_eq!(bench.names(), ["run.sh"], "nothing temporary stays behind");
    assert!(output.text.contains("\nUpdated file\n"));
    assert_eq!(
        meta(&bench, &output),
        json!({
            "operation": "update",
            "path": "[dir]/run.sh",
            "diffs": [{ "path": "[dir]/run.sh", "oldText": "old", "newText": "new" }],
            "change": "changed",
            "digest": FileDigest::of(b"new").to_string(),
            "diff": "--- [dir]/run.sh\n+++ [dir]/run.sh\n@@ -1 +1 @@\n-old\n\\ No newline at end of file\n+new\n\\ No newline at end of file\n",
        })
    );
}

#[tokio::test]
async fn large_contents_are_not_put_into_the_log_again() {
    let bench = Workbench::new();
    let old: String = (0..3000).map(|n| format!("{n}\n")).collect();
    bench.put("large.txt", &old);
    bench.read("large.txt").await;
    let output = bench
        .run(
            "write",
            json!({ "file_path": "large.txt", "content": format!("{old}more\n") }),
        )
        .await
        .unwrap();
    let meta = meta(&bench, &output);
    assert_eq!(meta["diffs"], json!([]));
    assert_eq!(
        meta["diff"],
        "--- [dir]/large.txt\n+++ [dir]/large.txt\n@@ -2998,3 +2998,4 @@\n 2997\n 2998\n 2999\n+more\n"
    );
    let other: String = (0..3000).map(|n| format!("other {n}\n")).collect();
    let output = bench
        .run(
            "write",
            json!({ "file_path": "large.txt", "content": other }),
        )
        .await
        .unwrap();
    assert!(output.meta.unwrap().get().len() < 20_000);
}

#[tokio::test]
async fn a_file_must_be_known_before_it_is_replaced() {
    let bench = Workbench::new();
    bench.put("a.txt", "old");
    let write = json!({ "file_path": "a.txt", "content": "new" });
    assert_eq!(
        bench.refuses("write", write.clone()).await,
        refused(
            "FS_NOT_OBSERVED",
            "cannot write `[dir]/a.txt`: it exists, and its content has not been read in this session; read it first"
        )
    );
    bench.read("a.txt").await;
    fs::remove_file(bench.path("a.txt")).unwrap();
    bench.put("a.txt", "changed");
    assert_eq!(
        bench.refuses("write", write.clone()).await,
        refused(
            "FS_STALE",
            "cannot write `[dir]/a.txt`: it has changed since it was last read or written in this session; read it again"
        )
    );
    assert_eq!(bench.content("a.txt"), "changed");
    bench.read("a.txt").await;
    bench.run("write", write).await.unwrap();
    // What the session has written itself, it knows.
    bench
        .run("write", json!({ "file_path": "a.txt", "content": "newer" }))
        .await
        .unwrap();
    assert_eq!(bench.content("a.txt"), "newer");
}

#[tokio::test]
async fn a_deleted_file_is_new_again() {
    let bench = Workbench::new();
    bench.put("a.txt", "old");
    bench.read("a.txt").await;
    fs::remove_file(bench.path("a.txt")).unwrap();
    let said = bench
        .said("write", json!({ "file_path": "a.txt", "content": "x" }))
        .await;
    assert!(said.contains("Created file"), "{said}");
}

#[tokio::test]
async fn a_link_stays_a_link_and_its_file_changes() {
    let bench = Workbench::new();
    bench.put("real/a.txt", "old");
    symlink("real/a.txt", bench.path("one")).unwrap();
    symlink(bench.path("one"), bench.path("two")).unwrap();
    symlink("real/new.txt", bench.path("dangling")).unwrap();
    bench.read("real/a.txt").await;

    for (name, content) in [("two", "new"), ("dangling", "fresh")] {
        bench
            .call(
                bench.tool("write").as_ref(),
                json!({ "file_path": name, "content": content }),
            )
            .await
            .unwrap();
        assert!(
            fs::symlink_metadata(bench.path(name)).unwrap().is_symlink(),
            "{name}"
        );
    }
    assert_eq!(bench.content("real/a.txt"), "new");
    assert_eq!(bench.content("real/new.txt"), "fresh");
}

#[tokio::test]
async fn what_cannot_be_written_is_named_with_its_reason() {
    let bench = Workbench::new();
    bench.put("dir/a.txt", "alpha");
    make_pipe(&bench.path("pipe"));
    symlink("loop", bench.path("loop")).unwrap();
    let cases = [
        (
            "dir",
            "FS_IS_A_DIRECTORY",
            "cannot write `[dir]/dir`: it is a directory",
        ),
        (
            "pipe",
            "FS_NOT_A_FILE",
            "cannot write `[dir]/pipe`: it is neither a file nor a directory",
        ),
        (
            "dir/a.txt/b",
            "FS_NOT_A_DIRECTORY",
            "cannot write `[dir]/dir/a.txt/b`: a part of the path is a file, not a directory",
        ),
        (
            "loop",
            "FS_IO",
            "cannot write `[dir]/loop`: too many levels of symbolic links",
        ),
    ];
    for (name, code, message) in cases {
        assert_eq!(
            bench
                .refusal(
                    bench.tool("write").as_ref(),
                    json!({ "file_path": name, "content": "x" })
                )
                .await,
            refused(code, message),
            "{name}"
        );
    }
    assert_eq!(bench.names(), ["dir", "loop", "pipe"]);
}

#[tokio::test]
async fn a_protected_file_stays_as_it_is() {
    let bench = Workbench::new();
    let path = bench.put("a.txt", "keep");
    fs::set_permissions(&path, Permissions::from_mode(0o444)).unwrap();
    if OpenOptions::new().write(true).open(&path).is_ok() {
        // For the superuser nothing is protected.
        return;
    }
    assert_eq!(
        bench
            .refusal(
                bench.tool("write").as_ref(),
                json!({ "file_path": "a.txt", "content": "x" })
            )
            .await,
        refused(
            "FS_PERMISSION_DENIED",
            "cannot write `[dir]/a.txt`: permission denied"
        )
    );
    assert_eq!(bench.content("a.txt"), "keep");
}
