use std::fs::{self, OpenOptions, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};

use offshoot_tools::WriteTool;
use serde_json::json;

use crate::workbench::{Workbench, make_pipe, meta, refused};

#[tokio::test]
async fn a_new_file_comes_with_its_directories() {
    let bench = Workbench::new();
    let output = bench
        .call(
            &WriteTool::new(),
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
        json!({ "operation": "create", "path": "[dir]/src/deep/a.rs", "diffs": [] })
    );
}

#[tokio::test]
async fn a_new_file_has_the_permissions_of_any_new_file() {
    let bench = Workbench::new();
    bench.put("by-hand", "");
    bench
        .call(
            &WriteTool::new(),
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

    let output = bench
        .call(
            &WriteTool::new(),
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
        })
    );
}

#[tokio::test]
async fn large_and_binary_contents_are_not_put_into_the_log_again() {
    let bench = Workbench::new();
    bench.put("large.txt", "x".repeat(32 * 1024));
    bench.put("data.bin", b"\xFF\0");
    for name in ["large.txt", "data.bin"] {
        let output = bench
            .call(
                &WriteTool::new(),
                json!({ "file_path": name, "content": "y" }),
            )
            .await
            .unwrap();
        assert_eq!(
            meta(&bench, &output),
            json!({ "operation": "update", "path": format!("[dir]/{name}"), "diffs": [] })
        );
    }
}

#[tokio::test]
async fn a_link_stays_a_link_and_its_file_changes() {
    let bench = Workbench::new();
    bench.put("real/a.txt", "old");
    symlink("real/a.txt", bench.path("one")).unwrap();
    symlink(bench.path("one"), bench.path("two")).unwrap();
    symlink("real/new.txt", bench.path("dangling")).unwrap();

    for (name, content) in [("two", "new"), ("dangling", "fresh")] {
        bench
            .call(
                &WriteTool::new(),
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
                    &WriteTool::new(),
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
                &WriteTool::new(),
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
