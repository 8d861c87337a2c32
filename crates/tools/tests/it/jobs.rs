//! Background jobs, with real processes. A named pipe is where a test and a job meet.

use std::fs::{self, File, OpenOptions};
use std::io::{BufRead as _, BufReader, Read as _};
use std::sync::{Arc, Mutex};

use offshoot_tool_api::ToolOutput;
use offshoot_tools::{JobEnd, JobExit, Jobs};
use serde_json::{Value, json};
use tokio::task::spawn_blocking;

use crate::workbench::{SpillDirectory, Workbench, ends, is_gone, make_pipe, meta, refused};

struct Session {
    bench: Workbench,
    jobs: Jobs,
}

impl Session {
    fn new() -> Self {
        Self::with(Jobs::new())
    }

    fn with(jobs: Jobs) -> Self {
        let mut bench = Workbench::new();
        bench.set = bench.set.with_jobs(jobs.clone());
        make_pipe(&bench.path("to-job"));
        make_pipe(&bench.path("from-job"));
        Self { bench, jobs }
    }

    async fn start(&self, command: &str) -> ToolOutput {
        let arguments =
            json!({ "command": command, "run_in_background": true, "description": "a test" });
        self.bench.run("bash", arguments).await.unwrap()
    }

    async fn output(&self, arguments: Value) -> String {
        self.bench.said("job_output", arguments).await
    }

    async fn kill(&self, arguments: Value) -> String {
        self.bench.said("job_kill", arguments).await
    }

    async fn list(&self) -> String {
        self.bench.said("job_list", json!({})).await
    }

    /// Waits until the job has written to its pipe.
    async fn heard(&self) -> String {
        let pipe = self.bench.path("from-job");
        spawn_blocking(move || fs::read_to_string(pipe).unwrap())
            .await
            .unwrap()
    }

    /// Lets a job go on that reads from its pipe.
    async fn go_on(&self) {
        let pipe = self.bench.path("to-job");
        spawn_blocking(move || OpenOptions::new().write(true).open(pipe).map(drop))
            .await
            .unwrap()
            .unwrap();
    }
}

#[tokio::test]
async fn a_job_goes_on_after_its_call_and_shows_what_is_new_at_each_look() {
    let session = Session::new();
    let started = session
        .start("echo one; echo two >&2; echo said > from-job; read < to-job; echo three; exit 4")
        .await;
    assert_eq!(started.text, "started background job job-1");
    assert_eq!(
        meta(&session.bench, &started),
        json!({ "cwd": "[dir]", "job": "job-1" })
    );
    session.heard().await;
    // Its own call has ended; a cancelled turn is no matter to it.
    let look = json!({ "job_id": "job-1" });
    // It has been written, but perhaps not yet been read.
    let mut seen = String::new();
    while !(seen.contains("one\n") && seen.contains("[stderr]\ntwo\n")) {
        let shown = session.output(look.clone()).await;
        let new = shown.strip_suffix("[still running]").unwrap();
        seen.push_str(new);
        tokio::task::yield_now().await;
    }
    assert_eq!(
        (seen.matches("one").count(), seen.matches("two").count()),
        (1, 1)
    );
    assert_eq!(
        session.output(look.clone()).await,
        "(no new output)\n[still running]"
    );
    session.go_on().await;
    let wait = json!({ "job_id": "job-1", "wait": true });
    assert_eq!(session.output(wait).await, "three\n[exit code: 4]");
    assert_eq!(
        session.output(look).await,
        "(no new output)\n[exit code: 4]"
    );
}

#[tokio::test]
async fn waiting_ends_with_the_patience_or_the_turn_but_not_the_job() {
    let session = Session::new();
    session.start("exec sleep 300").await;
    let wait = json!({ "job_id": "job-1", "wait": true, "timeout_ms": 10 });
    assert_eq!(
        session.output(wait).await,
        "(no new output)\n[still running]"
    );

    let mut cancelled = Session::with(session.jobs.clone());
    cancelled.bench.cx.cancel = cancelled.bench.cx.cancel.child_token();
    cancelled.bench.cx.cancel.cancel();
    let wait = json!({ "job_id": "job-1", "wait": true, "timeout_ms": 600_000 });
    assert_eq!(
        cancelled.bench.refuses("job_output", wait).await,
        refused("ABORTED", "tool call aborted")
    );
    assert_eq!(
        session.list().await,
        "job-1: running: `exec sleep 300` (a test)"
    );
}

#[tokio::test]
async fn killing_a_job_ends_all_that_it_started() {
    let session = Session::new();
    session
        .start(
            "echo so far; echo $$ > pids; sleep 300 & echo $! >> pids; setsid sleep 300 & echo $! >> pids; \
             echo said > from-job; wait",
        )
        .await;
    session.heard().await;
    let kill = json!({ "job_id": "job-1", "reason": "it is done" });
    assert_eq!(
        session.kill(kill.clone()).await,
        "killed background job job-1\nso far\n[killed: it is done]"
    );
    for pid in session.bench.content("pids").lines() {
        ends(pid);
    }
    assert_eq!(
        session.kill(kill).await,
        "background job job-1 had already ended; nothing of it is left running\n(no new output)\n[killed: it is done]"
    );
    assert_eq!(
        session.list().await,
        "job-1: ended (killed: it is done): `echo so far; echo $$ > pids; sleep 300 & echo $! >> pids; setsid sleep 300 & ech…` (a test)"
    );
}

#[tokio::test]
async fn what_a_job_left_behind_can_be_killed_and_ends_with_the_session() {
    let session = Session::new();
    for (job, file) in [("job-1", "first"), ("job-2", "second")] {
        session
            .start(&format!("sleep 300 > /dev/null 2>&1 & echo $! > {file}"))
            .await;
        assert_eq!(
            session.output(json!({ "job_id": job, "wait": true })).await,
            "(no new output)\n[exit code: 0]"
        );
    }
    let pids = ["first", "second"].map(|file| session.bench.content(file).trim().to_owned());
    assert_eq!(pids.each_ref().map(|pid| is_gone(pid)), [false, false]);
    session.kill(json!({ "job_id": "job-1" })).await;
    ends(&pids[0]);
    assert!(!is_gone(&pids[1]));
    session.jobs.shut_down().await;
    ends(&pids[1]);
}

#[tokio::test]
async fn jobs_end_when_nobody_can_reach_them_any_more() {
    let session = Session::new();
    session
        .start("exec 3> from-job; sleep 300 & echo ready >&3; wait")
        .await;
    let pipe = session.bench.path("from-job");
    let mut reader = spawn_blocking(move || {
        let mut reader = BufReader::new(File::open(pipe).unwrap());
        let mut line = String::new();
        reader.read_line(&mut line).unwrap();
        assert_eq!(line, "ready\n");
        reader
    })
    .await
    .unwrap();
    // The tools share them with whoever made them.
    drop(session);
    let rest = spawn_blocking(move || {
        let mut rest = String::new();
        // It ends when every process that has the pipe open is gone.
        reader.read_to_string(&mut rest).unwrap();
        rest
    });
    assert_eq!(rest.await.unwrap(), "");
}

#[test]
fn jobs_end_with_the_runtime() {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let session = Session::new();
    runtime.block_on(async {
        session
            .start("echo $$ > pids; setsid sleep 300 & echo $! >> pids; echo said > from-job; wait")
            .await;
        session.heard().await;
    });
    drop(runtime);
    for pid in session.bench.content("pids").lines() {
        ends(pid);
    }
}

#[tokio::test]
async fn the_end_of_a_job_is_told_once() {
    let session = Session::new();
    session.start("echo said > from-job").await;
    session.heard().await;
    let exit = loop {
        if let Some(exit) = session.jobs.take_ended().pop() {
            break exit;
        }
        tokio::task::yield_now().await;
    };
    assert_eq!(
        exit,
        JobExit {
            id: "job-1".to_owned(),
            command: "echo said > from-job".to_owned(),
            end: JobEnd::Exited { code: 0 },
        }
    );
    assert_eq!(
        exit.to_string(),
        "background job job-1 (`echo said > from-job`) has ended: exit code: 0. job_output has what it said last"
    );
    assert_eq!(session.jobs.take_ended(), []);
    // Whoever has seen the end needs no notice of it.
    session.start("true").await;
    session
        .output(json!({ "job_id": "job-2", "wait": true }))
        .await;
    assert_eq!(session.jobs.take_ended(), []);
}

#[tokio::test]
async fn the_next_command_tells_of_jobs_that_have_ended() {
    let session = Session::new();
    session.start("kill -KILL $$").await;
    let contexts = loop {
        let output = session
            .bench
            .run("bash", json!({ "command": "true" }))
            .await
            .unwrap();
        if !output.contexts.is_empty() {
            break output.contexts;
        }
    };
    assert_eq!(
        contexts,
        [
            "background job job-1 (`kill -KILL $$`) has ended: killed by signal: 9 (SIGKILL). job_output has what it said last"
        ]
    );
}

#[tokio::test]
async fn a_front_end_can_be_called_when_a_job_has_ended() {
    let heard = Arc::new(Mutex::new(Vec::new()));
    let (tell, mut told) = tokio::sync::mpsc::unbounded_channel();
    let jobs = Jobs::notifying({
        let heard = Arc::clone(&heard);
        move |exit| {
            heard.lock().unwrap().push(exit.id);
            tell.send(()).unwrap();
        }
    });
    let session = Session::with(jobs);
    session.start("exit 3").await;
    told.recv().await.unwrap();
    // Killed by a call that says so itself.
    session.start("exec sleep 300").await;
    session.kill(json!({ "job_id": "job-2" })).await;
    // Ended with the session.
    session.start("exec sleep 300").await;
    session.jobs.shut_down().await;
    assert_eq!(*heard.lock().unwrap(), ["job-1"]);
    assert_eq!(session.jobs.take_ended(), []);
}

#[tokio::test]
async fn a_job_has_the_time_that_it_was_given() {
    let session = Session::new();
    let arguments =
        json!({ "command": "exec sleep 300", "run_in_background": true, "timeoutMs": 10 });
    session.bench.run("bash", arguments).await.unwrap();
    assert_eq!(
        session
            .output(json!({ "job_id": "job-1", "wait": true }))
            .await,
        "(no new output)\n[killed, because its time was over]"
    );
}

#[tokio::test]
async fn long_output_of_a_job_is_in_a_file_when_it_has_ended() {
    let mut session = Session::new();
    let spill = SpillDirectory::new(session.bench.path("spilled"));
    session.bench.cx.spill = Some(Arc::new(spill));
    session
        .start("seq 100000; echo said > from-job; read < to-job; echo end")
        .await;
    session.heard().await;
    let first = session.output(json!({ "job_id": "job-1" })).await;
    assert!(first.contains(" bytes omitted, in "), "{first}");
    session.go_on().await;
    let last = session
        .output(json!({ "job_id": "job-1", "wait": true }))
        .await;
    let note =
        "[All of standard output is in `[dir]/spilled/0`: use read or grep on it.]\n[exit code: 0]";
    assert!(last.ends_with(&format!("end\n{note}")), "{last}");
    assert_eq!(session.bench.content("spilled/0").lines().count(), 100_001);
}

#[tokio::test]
async fn there_is_a_limit_to_running_jobs_but_not_to_ended_ones() {
    let session = Session::new();
    for _ in 0..16 {
        session.start("exec sleep 300").await;
    }
    let one_more = json!({ "command": "true", "run_in_background": true });
    assert_eq!(
        session.bench.refuses("bash", one_more.clone()).await,
        refused(
            "JOB_LIMIT",
            "16 background jobs are running, which is the limit: end one with job_kill first"
        )
    );
    session.kill(json!({ "job_id": "job-1" })).await;
    let started = session.bench.said("bash", one_more).await;
    assert_eq!(started, "started background job job-17");
    session.jobs.shut_down().await;
    assert_eq!(session.list().await, "there are no background jobs");
}

#[tokio::test]
async fn a_job_that_there_is_not_is_named() {
    let session = Session::new();
    for tool in ["job_output", "job_kill"] {
        assert_eq!(
            session
                .bench
                .refuses(tool, json!({ "job_id": "job-9" }))
                .await,
            refused(
                "JOB_NOT_FOUND",
                "there is no background job `job-9`: job_list shows those there are, and jobs of an earlier run of the \
                 session have ended with it"
            )
        );
    }
    let wrong = json!({ "job_id": "job-9", "timeout_ms": 600_001 });
    assert_eq!(
        session.bench.refuses("job_output", wrong).await,
        refused(
            "INVALID_ARGS",
            "invalid argument `timeout_ms`: it must be between 1 and 600000"
        )
    );
}
