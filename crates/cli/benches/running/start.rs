//! How long `offshoot run` takes from nothing to its first request.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::provider::{Answer, Provider};
use crate::{ms, percentile};

const ROUNDS: usize = 40;

pub(crate) fn run() {
    let home = tempfile::tempdir().expect("a directory");
    let provider = Provider::start(Answer::Text, "notes.txt");
    let program = env!("CARGO_BIN_EXE_offshoot");
    let command = |args: &[&str]| {
        let mut command = Command::new(program);
        command
            .args(args)
            .current_dir(home.path())
            .env_clear()
            .env("HOME", home.path())
            .env("OFFSHOOT_HOME", home.path().join("offshoot"))
            .env("OPENAI_API_KEY", "none")
            .env("OPENAI_BASE_URL", &provider.base_url)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        command
    };
    let first_request = || {
        provider.seen.lock().expect("nobody panics").arrived.clear();
        let start = Instant::now();
        let mut child = command(&["run", "--model", "openai/bench-1", "Say something."])
            .spawn()
            .expect("the program starts");
        let status = child.wait().expect("it ends");
        assert!(status.success(), "{status}");
        let seen = provider.seen.lock().expect("nobody panics");
        seen.arrived[0] - start
    };
    let version = || {
        let start = Instant::now();
        let status = command(&["--version"])
            .status()
            .expect("the program starts");
        assert!(status.success(), "{status}");
        start.elapsed()
    };
    let (mut ours, mut theirs): (Vec<Duration>, Vec<Duration>) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        ours.push(first_request());
        theirs.push(version());
    }
    println!("### From the start of `offshoot run` to its first request\n");
    println!(
        "A new session each time. The baseline is `offshoot --version`, from its start to its end.\n"
    );
    println!("| | p50 | p99 |");
    println!("|---|---|---|");
    for (what, times) in [("first request", &mut ours), ("`--version`", &mut theirs)] {
        println!(
            "| {what} | {} | {} |",
            ms(percentile(times, 50)),
            ms(percentile(times, 99))
        );
    }
    println!();
}
