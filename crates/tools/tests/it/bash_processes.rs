//! What becomes of processes. Each test reads a named pipe whose end comes only when every process that had it open is
//! gone.

use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;

use serde_json::{Value, json};
use tokio::task::spawn_blocking;

use crate::workbench::{Workbench, ends, make_pipe, refused};

/// A shell and a child of it, which both hold the pipe open and do not end by themselves.
fn lingering() -> Value {
    json!({ "command": "exec 3> alive; sleep 300 & echo partial; echo started >&3; wait" })
}

/// Waits until a command has said something through the pipe.
async fn started(path: &Path) -> BufReader<File> {
    let path = path.to_owned();
    spawn_blocking(move || {
        let mut reader = BufReader::new(File::open(path).unwrap());
        let mut line = String::new();
        reader.read_line(&mut line).unwrap();
        assert_eq!(line, "started\n");
        reader
    })
    .await
    .unwrap()
}

/// Waits until nobody has the pipe open any more.
async fn all_gone(mut reader: BufReader<File>) {
    let rest = spawn_blocking(move || {
        let mut rest = String::new();
        reader.read_to_string(&mut rest).unwrap();
        rest
    });
    assert_eq!(rest.await.unwrap(), "");
}

fn with_pipe() -> Workbench {
    let bench = Workbench::new();
    make_pipe(&bench.path("alive"));
    bench
}

#[tokio::test]
async fn cancelling_kills_the_command_with_its_children_and_shows_what_it_said() {
    let bench = with_pipe();
    let (tool, cancel) = (bench.tool("bash"), bench.cx.cancel.clone());
    let pipe = bench.path("alive");
    let watch = async {
        let reader = started(&pipe).await;
        cancel.cancel();
        all_gone(reader).await;
    };
    let (refusal, ()) = tokio::join!(bench.refusal(tool.as_ref(), lingering()), watch);
    assert_eq!(refusal, refused("ABORTED", "tool call aborted\npartial\n"));
}

#[tokio::test]
async fn a_command_that_takes_too_long_is_killed_with_its_children_and_shows_what_it_said() {
    let bench = with_pipe();
    let mut arguments = lingering();
    arguments["timeoutMs"] = 1000.into();
    let tool = bench.tool("bash");
    let pipe = bench.path("alive");
    let watch = async { all_gone(started(&pipe).await).await };
    let (refusal, ()) = tokio::join!(bench.refusal(tool.as_ref(), arguments), watch);
    assert_eq!(
        refusal,
        refused(
            "TOOL_TIMEOUT",
            "tool call timed out after 1000ms\npartial\n"
        )
    );
}

#[tokio::test]
async fn a_call_that_is_dropped_kills_the_command_with_its_children() {
    let bench = with_pipe();
    let pipe = bench.path("alive");
    let call = tokio::spawn(async move { bench.refuses("bash", lingering()).await });
    let reader = started(&pipe).await;
    call.abort();
    assert!(call.await.unwrap_err().is_cancelled());
    all_gone(reader).await;
}

#[tokio::test]
async fn cancelling_reaches_grandchildren_and_what_made_a_session_of_its_own() {
    let bench = with_pipe();
    let (tool, cancel) = (bench.tool("bash"), bench.cx.cancel.clone());
    let command = "echo $$ >> pids; \
        bash -c 'echo $$ >> pids; bash -c \"echo \\$\\$ >> pids; sleep 300 & wait\" & wait' & \
        setsid bash -c 'echo $$ >> pids; sleep 300' & \
        (trap '' TERM HUP; setsid -f bash -c 'echo $$ >> pids; exec nohup sleep 300 > /dev/null 2>&1'); \
        until [ $(wc -l < pids) = 5 ]; do :; done; echo started > alive; wait";
    let pipe = bench.path("alive");
    let watch = async {
        started(&pipe).await;
        cancel.cancel();
    };
    let (refusal, ()) = tokio::join!(
        bench.refusal(tool.as_ref(), json!({ "command": command })),
        watch
    );
    assert_eq!(
        refusal,
        refused("ABORTED", "tool call aborted\n(no output)")
    );
    let pids = bench.content("pids");
    assert_eq!(pids.lines().count(), 5);
    for pid in pids.lines() {
        ends(pid);
    }
}

#[tokio::test]
async fn a_command_has_no_terminal_to_ask() {
    let bench = Workbench::new();
    let command = "exec 2> /dev/null; read answer < /dev/tty || echo nobody there";
    let text = bench.said("bash", json!({ "command": command })).await;
    assert_eq!(text, "nobody there\n");
}

#[tokio::test]
async fn a_background_process_neither_delays_the_result_nor_is_killed() {
    let bench = with_pipe();
    let tool = bench.tool("bash");
    let command = "exec 3> alive; sleep 300 & echo started >&3; echo $! > pid; echo done";
    let pipe = bench.path("alive");
    let arguments = json!({ "command": command });

    let (text, reader) = tokio::join!(bench.text(tool.as_ref(), arguments), started(&pipe));

    assert_eq!(
        text,
        "done\n[a background process still holds the output open; what it writes from now on is lost]"
    );
    let killed = json!({ "command": "kill $(cat pid)" });
    assert_eq!(bench.text(tool.as_ref(), killed).await, "(no output)");
    all_gone(reader).await;
}

#[tokio::test]
async fn a_background_process_with_its_own_output_is_no_matter() {
    let bench = Workbench::new();
    let tool = bench.tool("bash");
    let command = "sleep 300 > /dev/null 2>&1 & echo $!";
    let pid = bench
        .text(tool.as_ref(), json!({ "command": command }))
        .await;
    let killed = json!({ "command": format!("kill {pid}") });
    assert_eq!(bench.text(tool.as_ref(), killed).await, "(no output)");
}
