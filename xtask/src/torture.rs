//! `cargo xtask torture`: the store's test of killed processes, for as many rounds as one likes.
//!
//! The test's program is copied first and run from there, again and again: a long run goes on while others build.

use std::env;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{self, Command, Stdio};

use anyhow::{Context, Result, ensure};
use serde::Deserialize;

use crate::cargo::Cargo;

const PACKAGE: &str = "crates/store";
const TEST: &str = "torture::what_a_killed_process_had_acknowledged_is_there";

/// Runs the test. Without a seed it takes one by itself, and prints it.
pub(crate) fn run(root: &Path, rounds: u32, seed: Option<u32>) -> Result<()> {
    let build = build();
    let built = built(&build.output(root)?)
        .with_context(|| format!("find the test's program in what `{build}` printed"))?;
    let program = Copied::of(&built)?;
    let mut command = Command::new(&program.path);
    command
        .args(["--exact", "--nocapture", TEST])
        .env("OFFSHOOT_STORE_TEST_ROUNDS", rounds.to_string())
        .envs(seed.map(|seed| ("OFFSHOOT_STORE_TEST_SEED", seed.to_string())))
        .current_dir(root.join(PACKAGE))
        .stdin(Stdio::null());
    eprintln!("running `{TEST}` for {rounds} rounds");
    let status = command
        .status()
        .with_context(|| format!("start `{}`", program.path.display()))?;
    ensure!(status.success(), "the torture has found a loss ({status})");
    Ok(())
}

fn build() -> Cargo {
    Cargo::new([
        "test",
        "--locked",
        "-p",
        "offshoot-store",
        "--test",
        "it",
        "--no-run",
        "--message-format=json-render-diagnostics",
    ])
}

/// What cargo says on a line, as far as it matters.
#[derive(Deserialize)]
struct Message {
    executable: Option<PathBuf>,
}

/// The one program that was built. Cargo names one only for the artifacts that can be run.
fn built(messages: &[u8]) -> Option<PathBuf> {
    let lines = messages.split(|byte| *byte == b'\n');
    let messages = lines.filter_map(|line| serde_json::from_slice::<Message>(line).ok());
    messages
        .filter_map(|message| message.executable)
        .next_back()
}

/// A program under a name that nobody else uses, as long as this is there.
struct Copied {
    path: PathBuf,
}

impl Copied {
    fn of(program: &Path) -> Result<Self> {
        let mut name = OsString::from(format!("offshoot-torture-{}", process::id()));
        name.push(env::consts::EXE_SUFFIX);
        let path = env::temp_dir().join(name);
        fs::copy(program, &path)
            .with_context(|| format!("copy `{}` to `{}`", program.display(), path.display()))?;
        Ok(Self { path })
    }
}

impl Drop for Copied {
    fn drop(&mut self) {
        // One that stays is in nobody's way.
        let _ignored = fs::remove_file(&self.path);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_program_is_found_among_what_cargo_says() {
        let messages = br#"{"reason":"compiler-artifact","executable":null}
{"reason":"build-script-executed"}
{"reason":"compiler-artifact","executable":"/target/debug/deps/it-1"}
{"reason":"build-finished","success":true}
"#;
        assert_eq!(built(messages), Some("/target/debug/deps/it-1".into()));
        assert_eq!(built(b"{\"reason\":\"build-finished\"}\n"), None);
    }

    #[test]
    fn a_copy_is_there_until_it_is_dropped() {
        let copied = Copied::of(&env::current_exe().unwrap()).unwrap();
        let path = copied.path.clone();
        assert!(path.is_file());
        drop(copied);
        assert!(!path.exists());
    }
}
