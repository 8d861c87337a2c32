//! The rules of the list (`reference/agent.md` §3.3 and §10, item 56). That it is empty at the start of a turn is a
//! matter of who folds the events.

use serde_json::{Value, json};

use crate::workbench::{Workbench, refused};

fn todo(content: &str, status: &str) -> Value {
    json!({ "content": content, "status": status })
}

#[tokio::test]
async fn a_list_is_an_event_and_a_summary() {
    let bench = Workbench::new();
    let todos = json!([
        todo("look", "completed"),
        todo(" fix ", "in_progress"),
        todo("test", "pending"),
        todo("tell", "pending"),
    ]);
    let output = bench
        .run("todo_write", json!({ "todos": todos }))
        .await
        .unwrap();
    assert_eq!(
        output.text,
        "Updated todo list: 2 pending, 1 in progress, 1 completed."
    );
    let records: Vec<_> = output
        .records
        .iter()
        .map(|record| (record.kind.as_str(), record.data.get().to_owned()))
        .collect();
    assert_eq!(
        records,
        [("todo/write", json!({ "todos": todos }).to_string())]
    );
    assert!(output.meta.is_none());
}

#[tokio::test]
async fn an_empty_list_clears_it() {
    let bench = Workbench::new();
    let output = bench
        .run("todo_write", json!({ "todos": [] }))
        .await
        .unwrap();
    assert_eq!(
        output.text,
        "Updated todo list: 0 pending, 0 in progress, 0 completed."
    );
    assert_eq!(output.records[0].data.get(), r#"{"todos":[]}"#);
}

#[tokio::test]
async fn lists_that_say_nothing_or_too_much_are_refused() {
    let bench = Workbench::new();
    for (todos, message) in [
        (
            json!([todo("a", "pending"), todo(" \n", "pending")]),
            "invalid argument `todos`: the content of number 2 is empty",
        ),
        (
            json!([
                todo("a", "pending"),
                todo("b", "pending"),
                todo("a ", "completed")
            ]),
            "invalid argument `todos`: `a` is there twice",
        ),
        (
            json!([todo("a", "in_progress"), todo("b", "in_progress")]),
            "invalid argument `todos`: 2 are in progress, but only one may be",
        ),
        (
            json!([todo("a", "done")]),
            "invalid argument `todos`: unknown variant `done`, expected one of `pending`, `in_progress`, `completed`",
        ),
        (
            json!([{ "content": "a", "status": "pending", "id": 1 }]),
            "invalid argument `todos`: unknown field `id`, expected `content` or `status`",
        ),
        (
            json!([{ "content": "a" }]),
            "invalid argument `todos`: missing field `status`",
        ),
    ] {
        assert_eq!(
            bench.refuses("todo_write", json!({ "todos": todos })).await,
            refused("INVALID_ARGS", message)
        );
    }
}
