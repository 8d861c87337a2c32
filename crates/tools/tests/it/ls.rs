use std::fs;
use std::os::unix::fs::symlink;

use serde_json::json;

use crate::workbench::{Workbench, make_pipe, meta, refused};

#[tokio::test]
async fn a_directory_is_shown_as_a_tree() {
    let bench = Workbench::new();
    bench.put(".gitignore", "target\n*.log\n");
    bench.put("target/debug/a", "");
    bench.put("src/main.rs", "");
    bench.put("src/deep/in/b.rs", "");
    bench.put("build.log", "");
    bench.put(".git/config", "");
    symlink("src/main.rs", bench.path("main")).unwrap();
    symlink("nowhere", bench.path("lost")).unwrap();
    make_pipe(&bench.path("pipe"));
    fs::create_dir(bench.path("empty")).unwrap();
    let output = bench.run("ls", json!({})).await.unwrap();
    insta::assert_snapshot!(bench.shown(&output.text), @r"
    [dir]/
      .git/
      .gitignore
      build.log (ignored)
      empty/
      lost -> nowhere
      main -> src/main.rs
      pipe (not a file)
      src/
        deep/
        main.rs
      target/ (ignored)
    ");
    assert_eq!(
        meta(&bench, &output),
        json!({ "shape": "tree", "path": "[dir]", "entries": 11, "truncated": false })
    );
    insta::assert_snapshot!(bench.said("ls", json!({ "path": "src", "depth": 10 })).await, @r"
    [dir]/src/
      deep/
        in/
          b.rs
      main.rs
    ");
    insta::assert_snapshot!(bench.said("ls", json!({ "path": "target", "depth": 1 })).await, @r"
    [dir]/target/
      debug/
    ");
    insta::assert_snapshot!(bench.said("ls", json!({ "path": "empty" })).await, @r"
    [dir]/empty/
    (empty)
    ");
}

#[tokio::test]
async fn the_upper_levels_come_first_when_there_is_too_much() {
    let bench = Workbench::new();
    for n in 0..60 {
        bench.put(&format!("a/{n:03}"), "");
    }
    for n in 0..420 {
        bench.put(&format!("b{n:03}"), "");
    }
    for n in 0..60 {
        bench.put(&format!("z/{n:03}"), "");
    }
    let said = bench.said("ls", json!({})).await;
    let lines: Vec<&str> = said.lines().collect();
    assert_eq!(&lines[..3], ["[dir]/", "  a/", "    000"]);
    assert_eq!(&lines[51..54], ["    049", "    … 10 more", "  b000"]);
    // 422 above and 50 below `a` leave 28.
    assert_eq!(
        &lines[lines.len() - 3..],
        [
            "    027",
            "    … 32 more",
            "(Not everything is shown. List a directory by itself to see more of it.)"
        ]
    );
}

#[tokio::test]
async fn what_cannot_be_listed_is_named_with_its_reason() {
    let bench = Workbench::new();
    bench.put("a.txt", "");
    for (arguments, code, message) in [
        (
            json!({ "path": "none" }),
            "FS_NOT_FOUND",
            "cannot list `[dir]/none`: it does not exist",
        ),
        (
            json!({ "path": "a.txt" }),
            "FS_NOT_A_DIRECTORY",
            "cannot list `[dir]/a.txt`: it is not a directory",
        ),
        (
            json!({ "depth": 0 }),
            "INVALID_ARGS",
            "invalid argument `depth`: it must be between 1 and 10",
        ),
    ] {
        assert_eq!(bench.refuses("ls", arguments).await, refused(code, message));
    }
}
