use offshoot_tools::BashTool;
use serde_json::json;

use crate::workbench::{Workbench, meta, refused};

#[tokio::test]
async fn output_comes_in_its_sections_with_how_it_ended() {
    let bench = Workbench::new();
    let cases = [
        ("echo hi", "hi\n"),
        ("printf hi", "hi"),
        ("true", "(no output)"),
        ("false", "(no output)\n[exit code: 1]"),
        ("printf out; exit 7", "out\n[exit code: 7]"),
        ("echo oops >&2", "[stderr]\noops\n"),
        (
            "printf out; printf err >&2; exit 2",
            "out\n[stderr]\nerr\n[exit code: 2]",
        ),
        (
            "kill -TERM $$",
            "(no output)\n[killed by signal: 15 (SIGTERM)]",
        ),
        (
            "echo so far; kill -9 $$",
            "so far\n[killed by signal: 9 (SIGKILL)]",
        ),
        (r"printf 'a\xffb'", "a\u{FFFD}b"),
        ("cat; echo no input", "no input\n"),
    ];
    for (command, expected) in cases {
        let text = bench
            .text(&BashTool::new(), json!({ "command": command }))
            .await;
        assert_eq!(text, expected, "{command}");
    }
}

#[tokio::test]
async fn a_command_runs_in_the_directory_it_is_given() {
    let bench = Workbench::new();
    bench.put("sub/a.txt", "");
    for (workdir, expected) in [(None, "sub\n"), (Some("sub"), "a.txt\n")] {
        let mut arguments = json!({ "command": "ls", "description": "List what is there" });
        if let Some(workdir) = workdir {
            arguments["workdir"] = workdir.into();
        }
        assert_eq!(bench.text(&BashTool::new(), arguments).await, expected);
    }
    let output = bench
        .call(
            &BashTool::new(),
            json!({ "command": "true", "workdir": bench.path("sub") }),
        )
        .await
        .unwrap();
    assert_eq!(meta(&bench, &output), json!({ "cwd": "[dir]/sub" }));
}

#[tokio::test]
async fn a_directory_that_is_none_is_refused() {
    let bench = Workbench::new();
    bench.put("a.txt", "");
    for (workdir, code, message) in [
        (
            "none",
            "FS_NOT_FOUND",
            "cannot run in `[dir]/none`: it does not exist",
        ),
        (
            "a.txt",
            "FS_NOT_A_DIRECTORY",
            "cannot run in `[dir]/a.txt`: it is not a directory",
        ),
    ] {
        let arguments = json!({ "command": "true", "workdir": workdir });
        assert_eq!(
            bench.refusal(&BashTool::new(), arguments).await,
            refused(code, message)
        );
    }
}

#[tokio::test]
async fn long_output_keeps_its_beginning_and_its_end() {
    let bench = Workbench::new();
    let command = "yes | head -c 10000000; { echo first; yes | head -c 60000; echo last; } >&2";
    let text = bench
        .text(&BashTool::new(), json!({ "command": command }))
        .await;
    let half = "y\n".repeat(500);
    let less = "y\n".repeat(499);
    assert_eq!(
        text,
        format!(
            "{half}[... 9998000 bytes omitted, in 4999000 lines ...]\n{half}\
             [stderr]\nfirst\n{less}[... 58004 bytes omitted, in 29002 lines ...]\n{less}last\n"
        )
    );
}
