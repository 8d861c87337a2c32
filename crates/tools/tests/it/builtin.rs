use offshoot_tool_api::{Concurrency, Effects, ToolArguments, ToolRegistry};
use serde_json::{Value, json};

use crate::workbench::{Workbench, refused};

#[test]
fn every_tool_declares_what_it_does() {
    let any = ToolArguments::from_model("");
    let declared: Vec<_> = offshoot_tools::builtin()
        .iter()
        .map(|tool| {
            (
                tool.spec().name.clone(),
                tool.effects(),
                tool.concurrency(&any),
                tool.timeout(),
            )
        })
        .collect();
    assert_eq!(
        declared,
        [
            (
                "read".to_owned(),
                Effects::ReadOnly,
                Concurrency::Parallel,
                None
            ),
            (
                "write".to_owned(),
                Effects::Mutating,
                Concurrency::Exclusive,
                None
            ),
            (
                "bash".to_owned(),
                Effects::Mutating,
                Concurrency::Exclusive,
                None
            ),
        ]
    );
}

#[test]
fn every_schema_describes_its_members_and_closes_itself() {
    let mut registry = ToolRegistry::new();
    for tool in offshoot_tools::builtin() {
        registry.register(tool).unwrap();
    }
    let outline: Vec<Value> = registry
        .specs()
        .map(|spec| {
            let schema: Value = serde_json::from_str(spec.parameters.get()).unwrap();
            let members = schema["properties"].as_object().unwrap();
            for (name, member) in members {
                assert!(member["description"].is_string(), "{}: {name}", spec.name);
            }
            let names: Vec<_> = members.keys().collect();
            json!([
                spec.name,
                names,
                schema["required"],
                schema["type"],
                schema["additionalProperties"]
            ])
        })
        .collect();
    assert_eq!(
        Value::from(outline),
        json!([
            [
                "read",
                ["file_path", "offset", "limit"],
                ["file_path"],
                "object",
                false
            ],
            [
                "write",
                ["file_path", "content"],
                ["file_path", "content"],
                "object",
                false
            ],
            [
                "bash",
                ["command", "description", "timeoutMs", "workdir"],
                ["command"],
                "object",
                false
            ],
        ])
    );
}

#[tokio::test]
async fn arguments_that_do_not_fit_are_refused_by_name() {
    let bench = Workbench::new();
    let [read, write, bash] = &offshoot_tools::builtin()[..] else {
        panic!("there are three")
    };
    let cases = [
        (
            read,
            json!({}),
            "invalid arguments: missing field `file_path`",
        ),
        (
            read,
            json!({ "file_path": "a", "path": "b" }),
            "invalid arguments: unknown field `path`, expected one of `file_path`, `offset`, `limit`",
        ),
        (
            read,
            json!({ "file_path": "" }),
            "invalid argument `file_path`: it is empty",
        ),
        (
            read,
            json!({ "file_path": "a", "offset": "3" }),
            "invalid argument `offset`: invalid type: string \"3\", expected u64",
        ),
        (
            read,
            json!({ "file_path": "a", "offset": 0 }),
            "invalid argument `offset`: lines count from 1",
        ),
        (
            read,
            json!({ "file_path": "a", "limit": 2001 }),
            "invalid argument `limit`: it must be between 1 and 2000",
        ),
        (
            write,
            json!({ "file_path": "a" }),
            "invalid arguments: missing field `content`",
        ),
        (
            write,
            json!({ "file_path": "a", "content": "", "mode": 1 }),
            "invalid arguments: unknown field `mode`, expected `file_path` or `content`",
        ),
        (
            bash,
            json!({ "description": "x" }),
            "invalid arguments: missing field `command`",
        ),
        (
            bash,
            json!({ "command": "true", "timeout_ms": 1 }),
            "invalid arguments: unknown field `timeout_ms`, expected one of `command`, `description`, `timeoutMs`, `workdir`",
        ),
        (
            bash,
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
    let [read, _, bash] = &offshoot_tools::builtin()[..] else {
        panic!("there are three")
    };

    assert!(
        bench
            .call(read.as_ref(), json!({ "file_path": path }))
            .await
            .is_ok()
    );
    for (tool, argument, arguments) in [
        (read, "file_path", json!({ "file_path": "a.txt" })),
        (bash, "workdir", json!({ "command": "true" })),
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
    let [read, write, bash] = &offshoot_tools::builtin()[..] else {
        panic!("there are three")
    };
    for (tool, arguments) in [
        (read, json!({ "file_path": "a.txt" })),
        (write, json!({ "file_path": "b.txt", "content": "" })),
        (bash, json!({ "command": "touch c.txt" })),
    ] {
        assert_eq!(
            bench.refusal(tool.as_ref(), arguments).await,
            refused("ABORTED", "tool call aborted")
        );
    }
    assert_eq!(bench.names(), ["a.txt"]);
}
