use serde_json::json;

use crate::workbench::{Workbench, refused};

#[tokio::test]
async fn arguments_that_do_not_fit_are_refused_by_name() {
    let bench = Workbench::new();
    let [read, write, bash] = ["read", "write", "bash"].map(|name| bench.tool(name));
    let cases = [
        (
            &read,
            json!({}),
            "invalid arguments: missing field `file_path`",
        ),
        (
            &read,
            json!({ "file_path": "a", "path": "b" }),
            "invalid arguments: unknown field `path`, expected one of `file_path`, `offset`, `limit`",
        ),
        (
            &read,
            json!({ "file_path": "" }),
            "invalid argument `file_path`: it is empty",
        ),
        (
            &read,
            json!({ "file_path": "a", "offset": "3" }),
            "invalid argument `offset`: invalid type: string \"3\", expected u64",
        ),
        (
            &read,
            json!({ "file_path": "a", "offset": 0 }),
            "invalid argument `offset`: lines count from 1",
        ),
        (
            &read,
            json!({ "file_path": "a", "limit": 2001 }),
            "invalid argument `limit`: it must be between 1 and 2000",
        ),
        (
            &write,
            json!({ "file_path": "a" }),
            "invalid arguments: missing field `content`",
        ),
        (
            &write,
            json!({ "file_path": "a", "content": "", "mode": 1 }),
            "invalid arguments: unknown field `mode`, expected `file_path` or `content`",
        ),
        (
            &bash,
            json!({ "description": "x" }),
            "invalid arguments: missing field `command`",
        ),
        (
            &bash,
            json!({ "command": "true", "timeout_ms": 1 }),
            "invalid arguments: unknown field `timeout_ms`, expected one of `command`, `description`, `timeoutMs`, `workdir`, `run_in_background`, `sandbox_permissions`, `justification`",
        ),
        (
            &bash,
            json!({ "command": "true", "timeoutMs": 0 }),
            "invalid argument `timeoutMs`: it must be between 1 and 600000",
        ),
    ];
    for (tool, arguments, message) in cases {
        assert_eq!(
            bench.refusal(tool.as_ref(), arguments.clone()).await,
            refused("INVALID_ARGS", message),
            "{arguments}"
        );
    }
    assert_eq!(bench.names(), Vec::<String>::new());
}

#[tokio::test]
async fn without_a_directory_only_absolute_paths_work() {
    let mut bench = Workbench::new();
    let path = bench.put("a.txt", "alpha");
    bench.cx.cwd = None;
    let [read, bash] = ["read", "bash"].map(|name| bench.tool(name));

    assert!(
        bench
            .call(read.as_ref(), json!({ "file_path": path }))
            .await
            .is_ok()
    );
    for (tool, argument, arguments) in [
        (&read, "file_path", json!({ "file_path": "a.txt" })),
        (&bash, "workdir", json!({ "command": "true" })),
    ] {
        assert_eq!(
            bench.refusal(tool.as_ref(), arguments).await,
            refused(
                "INVALID_ARGS",
                &format!(
                    "invalid argument `{argument}`: this session has no working directory, so the path must be absolute"
                )
            )
        );
    }
}

#[tokio::test]
async fn a_cancelled_call_does_nothing() {
    let bench = Workbench::new();
    bench.put("a.txt", "alpha");
    bench.cx.cancel.cancel();
    let [read, write, bash] = ["read", "write", "bash"].map(|name| bench.tool(name));
    for (tool, arguments) in [
        (&read, json!({ "file_path": "a.txt" })),
        (&write, json!({ "file_path": "b.txt", "content": "" })),
        (&bash, json!({ "command": "touch c.txt" })),
    ] {
        assert_eq!(
            bench.refusal(tool.as_ref(), arguments).await,
            refused("ABORTED", "tool call aborted")
        );
    }
    assert_eq!(bench.names(), ["a.txt"]);
}
