use offshoot_tool_api::{Escalation, Limits, SandboxMode, ToolArguments};
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
        (
            r"printf 'a\xffb'",
            "a\u{FFFD}b\n[Not all of standard output is text: what is not UTF-8 is shown as \u{FFFD}.]",
        ),
        (
            r"printf '\xe2\x82'; printf '\xac' >&2; printf '\xac'",
            "€\n[stderr]\n\u{FFFD}\n[Not all of standard error is text: what is not UTF-8 is shown as \u{FFFD}.]",
        ),
        ("cat; echo no input", "no input\n"),
    ];
    for (command, expected) in cases {
        let text = bench.said("bash", json!({ "command": command })).await;
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
        assert_eq!(bench.said("bash", arguments).await, expected);
    }
    let output = bench
        .run(
            "bash",
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
            bench.refuses("bash", arguments).await,
            refused(code, message)
        );
    }
}

#[tokio::test]
async fn long_output_keeps_its_beginning_and_its_end() {
    let bench = Workbench::new();
    let command = "yes | head -c 10000000; { echo first; yes | head -c 60000; echo last; } >&2";
    let text = bench.said("bash", json!({ "command": command })).await;
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

#[tokio::test]
async fn without_a_launcher_only_unlimited_calls_run() {
    let mut bench = Workbench::new();
    for mode in [SandboxMode::ReadOnly, SandboxMode::WorkspaceWrite] {
        bench.cx.limits = Limits {
            mode,
            workspace: vec![bench.path("")],
        };
        for arguments in [
            json!({ "command": "touch ran" }),
            json!({ "command": "touch ran", "run_in_background": true }),
            json!({ "command": "touch ran", "sandbox_permissions": "require_escalated" }),
        ] {
            let message = format!(
                "nothing was run, because the limits of `{}` cannot be put on a command: this program has no way to start \
                 a confined process\nTo run it without limits, call bash again with sandbox_permissions \
                 \"require_escalated\" and a justification; the person can also choose the mode `danger-full-access`.",
                mode.as_str()
            );
            assert_eq!(
                bench.refuses("bash", arguments).await,
                refused("SANDBOX_UNAVAILABLE", &message)
            );
        }
    }
    assert_eq!(bench.names(), [""; 0]);
}

#[test]
fn only_who_asks_for_more_than_there_is_needs_permission() {
    let mut bench = Workbench::new();
    let mut asked = |mode, arguments: serde_json::Value| {
        bench.cx.limits.mode = mode;
        let arguments = ToolArguments::from_model(arguments.to_string());
        let escalation = bench.tool("bash").escalation(&arguments, &bench.cx);
        escalation.map(|Escalation { reason }| reason)
    };
    let limited = SandboxMode::WorkspaceWrite;
    let escalated = json!({
        "command": "cargo publish", "sandbox_permissions": "require_escalated", "justification": "it needs the registry",
    });
    let silent = json!({ "command": "true", "sandbox_permissions": "require_escalated" });
    let usual =
        json!({ "command": "true", "sandbox_permissions": "use_default", "justification": "none" });
    let wrong = json!({ "command": "true", "sandbox_permissions": "all" });
    let reasons = [
        asked(limited, escalated.clone()),
        asked(SandboxMode::ReadOnly, silent),
        asked(SandboxMode::DangerFullAccess, escalated),
        asked(limited, usual),
        asked(limited, wrong),
    ];
    assert_eq!(
        reasons.each_ref().map(Option::as_deref),
        [
            Some("to run this command without the sandbox: it needs the registry"),
            Some("to run this command without the sandbox; no reason was given"),
            None,
            None,
            None,
        ]
    );
}
