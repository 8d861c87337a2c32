//! A real process that is killed (SIGKILL) at every moment at which it would write: when it makes a side session, and when it
//! merges a note. What it leaves is valid, and what it was asked for can be asked for again.
#![expect(
    clippy::print_stdout,
    reason = "a child reports to its parent through a pipe"
)]

use std::env;
use std::io::{BufRead as _, BufReader};
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::process::{Command, Stdio};

use offshoot_agent::{
    Agent, AgentSetup, Framing, HANDBACK_MAX_CHARS, Handback, SideRequest, SideSession,
};
use offshoot_model::Attempt;
use offshoot_session::{EventKind, SessionId};
use offshoot_tool_api::ToolRegistry;

use crate::bench::{Bench, ask, config, in_another_process, script};
use crate::beside::{after_a_turn, one_and};
use crate::merging_crashes::{TEXT, made_again};
use crate::points::Probe;
use crate::support::{data, says};

const JOB: &str = "OFFSHOOT_AGENT_TEST_JOB";
const ROOT: &str = "OFFSHOOT_AGENT_TEST_ROOT";
const SESSION: &str = "OFFSHOOT_AGENT_TEST_SESSION";
const POINT: &str = "OFFSHOOT_AGENT_TEST_POINT";
/// The process waits for its end before it writes; and it has done all that it was asked for.
const STANDS: &str = "#stands";
const DONE: &str = "#done";

fn side() -> SessionId {
    "side".into()
}

fn request() -> SideRequest {
    SideRequest {
        at: None,
        child: Some(side()),
    }
}

fn stand(line: &str) -> ! {
    println!("{line}");
    loop {
        std::thread::park();
    }
}

/// What a child process runs. On its own it has nothing to do.
#[test]
fn entry() {
    let Ok(job) = env::var(JOB) else {
        return;
    };
    let root = env::var_os(ROOT).unwrap();
    let session: SessionId = env::var(SESSION).unwrap().as_str().into();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(work(&job, Path::new(&root), &session));
    stand(DONE);
}

async fn work(job: &str, root: &Path, session: &SessionId) {
    let probe = Probe::default();
    let (service, env) = in_another_process(root, &probe);
    let arm = || {
        let point = env::var(POINT).unwrap().parse().unwrap();
        probe.arm(point, || stand(STANDS));
    };
    match job {
        "side" => {
            arm();
            let source = service.read(session).unwrap();
            drop(service.side(&source, &request()).unwrap());
        }
        "side of a turn" => {
            let agent = answering(&service, &env, session).await;
            arm();
            drop(service.side_of(&agent, &request()).await.unwrap());
            stand(DONE);
        }
        "merge" => {
            arm();
            service.merge(&handback(&service)).await.unwrap();
        }
        "merge into a turn" => {
            let _agent = answering(&service, &env, session).await;
            arm();
            service.merge(&handback(&service)).await.unwrap();
            stand(DONE);
        }
        other => panic!("no such job: {other}"),
    }
}

/// An agent on a session that waits for the rest of an answer.
async fn answering(
    service: &offshoot_agent::SessionService,
    env: &offshoot_agent::Env,
    session: &SessionId,
) -> Agent {
    let hangs = script(vec![Attempt::Hang { chunks: Vec::new() }]);
    let setup = AgentSetup::new(hangs, ToolRegistry::new(), config(), env.clone());
    let agent = Agent::new(service.open(session).unwrap().attached, setup);
    agent.followup("Work.").unwrap();
    while agent.live_answer().is_none() {
        tokio::task::yield_now().await;
    }
    agent
}

fn handback(service: &offshoot_agent::SessionService) -> Handback {
    let child = service.read(&side()).unwrap().stored;
    Handback::of(&child.header, &child.log, Some(TEXT), HANDBACK_MAX_CHARS).unwrap()
}

/// Does a job in another process, which is killed at its n-th point, or when it is done. Returns whether it was done.
fn killed(job: &str, bench: &Bench, session: &SessionId, point: usize) -> bool {
    let mut child = Command::new(env::current_exe().unwrap())
        .args([
            "--exact",
            "killed::entry",
            "--nocapture",
            "--test-threads=1",
        ])
        .env(JOB, job)
        .env(ROOT, bench.root())
        .env(SESSION, session.as_str())
        .env(POINT, point.to_string())
        .stdout(Stdio::piped())
        .stderr(Stdio::inherit())
        .spawn()
        .unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let said = lines
        .map_while(Result::ok)
        .find(|line| line.contains(STANDS) || line.contains(DONE));
    // Nothing of it runs any more, and no buffer of it is written.
    child.kill().unwrap();
    assert_eq!(child.wait().unwrap().signal(), Some(9), "{job} {point}");
    said.expect("it comes to its point").contains(DONE)
}

/// A stored session with a turn, or one in which nothing was completed.
async fn stored(bench: &Bench, has_turn: bool) -> SessionId {
    let agent = if has_turn {
        after_a_turn(bench, bench.setup(one_and(Vec::new()))).await
    } else {
        let agent = bench.running(script(Vec::new()));
        agent.inject("Nobody has answered this yet.").unwrap();
        agent
    };
    agent.dispose().await.unwrap();
    agent.session().id().clone()
}

async fn merges(job: &str) {
    let (mut point, mut lost) = (1, 0);
    loop {
        let bench = Bench::new();
        let id = stored(&bench, true).await;
        let source = bench.read(&id);
        drop(bench.service.side(&source, &request()).unwrap());
        let handback = handback(&bench.service);
        let is_done = killed(job, &bench, &id, point);
        let waiting = bench.log(&id).pending_input().next_step().len();
        assert!(waiting == 1 || !is_done && waiting == 0, "{job} {point}");
        lost += 1 - waiting;
        made_again(&bench, &id, &handback, &format!("{job} {point}")).await;
        if is_done {
            break;
        }
        point += 1;
    }
    assert!(lost > 0);
}

#[tokio::test]
async fn a_process_killed_between_the_request_of_a_merge_and_its_append() {
    merges("merge").await;
}

#[tokio::test]
async fn a_process_killed_while_it_merges_into_a_turn_that_it_runs() {
    merges("merge into a turn").await;
}

/// Makes a side session in a process that is killed at every point, and makes it again.
async fn sides(job: &str, has_turn: bool) {
    let mut point = 1;
    loop {
        let bench = Bench::new();
        let id = stored(&bench, has_turn).await;
        let is_done = killed(job, &bench, &id, point);
        let left = bench.service.read(&side()).ok();
        assert_eq!(left.is_some(), is_done, "{job} {point}");
        let source = bench.read(&id);
        let made: SideSession = bench.service.side(&source, &request()).unwrap();
        assert_eq!(made.is_new, !is_done, "{job} {point}");
        assert_eq!(made.cut.is_some(), has_turn);
        assert_eq!(matches!(made.framing, Framing::Logged(_)), has_turn);
        let model = script(vec![says("It is."), says("It is.")]);
        let mut agent = bench.agent(made.attached, model);
        ask(&mut agent, "Is it?").await;
        let log = agent.session().log();
        assert!(log.is_side_session());
        let framings = log
            .events()
            .filter(|event| *event.kind() == EventKind::UserMessage)
            .filter(|event| data(event)["source"]["act"] == "framing");
        assert_eq!(framings.count(), 1, "{job} {point}");
        if is_done {
            break;
        }
        point += 1;
    }
    assert!(point > 1);
}

#[tokio::test]
async fn a_process_killed_between_the_creation_of_a_side_session_and_its_framing() {
    sides("side", true).await;
}

#[tokio::test]
async fn a_process_killed_while_it_makes_a_side_session_of_nothing() {
    sides("side", false).await;
}

#[tokio::test]
async fn a_process_killed_while_it_makes_a_side_session_of_a_turn_that_it_runs() {
    sides("side of a turn", true).await;
}
