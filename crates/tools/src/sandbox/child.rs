//! The process between the agent and a confined command.

use std::convert::Infallible;
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Write as _};
use std::os::fd::AsFd as _;
use std::os::unix::fs::FileTypeExt as _;
use std::os::unix::process::CommandExt as _;
use std::process::{Command, ExitCode, Stdio};

use super::launcher::{Said, Stage};
use super::policy::{Partial, SandboxPolicy};
use super::support::{Support, missing_in_words};

/// What `env` and `nohup` end with when they cannot do their own part.
const FAILED: u8 = 125;

/// Becomes a confined command: the body of the hidden command behind [`SandboxLauncher`](super::SandboxLauncher). The
/// arguments are the policy as JSON, `--`, the program, and its arguments.
///
/// It must be called on a process that has nothing else to do and no other thread. Standard input has to be the pipe
/// that the agent listens to; the command gets an empty one instead, and nothing of the pipe.
///
/// Returns only if it failed, after it has said why over the pipe and on standard error. Nothing was run then.
pub fn sandbox_exec(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    let mut report = Report::take();
    let (stage, message) = match become_command(arguments.into_iter(), &mut report) {
        Ok(never) => match never {},
        Err(failure) => failure,
    };
    // Nobody is left to tell.
    drop(writeln!(io::stderr().lock(), "error: {message}"));
    report.say(&Said::Failed { stage, message });
    ExitCode::from(FAILED)
}

fn become_command(
    mut arguments: impl Iterator<Item = OsString>,
    report: &mut Report,
) -> Result<Infallible, (Stage, String)> {
    let sandbox = |message: String| (Stage::Sandbox, message);
    let policy = arguments
        .next()
        .ok_or_else(|| sandbox("there is no policy".to_owned()))?;
    let policy: SandboxPolicy = serde_json::from_slice(policy.as_encoded_bytes())
        .map_err(|error| sandbox(format!("the policy cannot be read: {error}")))?;
    if arguments.next().is_none_or(|separator| separator != "--") {
        return Err(sandbox("there must be `--` behind the policy".to_owned()));
    }
    let program = arguments
        .next()
        .ok_or_else(|| sandbox("there is no command to run".to_owned()))?;

    let support = super::landlock::confine(&policy).map_err(sandbox)?;
    let missing = missing_in_words(&support.missing_for(&policy));
    let abi = match (support, &missing, policy.partial) {
        (_, Some(missing), Partial::Refuse) => {
            return Err(sandbox(format!("this kernel cannot refuse {missing}")));
        }
        (Support::Landlock { abi }, ..) => abi,
        (Support::Unavailable { reason }, ..) => return Err(sandbox(reason)),
    };
    report.say(&Said::Confined { abi });
    // Opening the empty standard input is the last thing that happens to the pipe: all its other ends close by themselves.
    let error = Command::new(&program)
        .args(arguments)
        .stdin(Stdio::null())
        .exec();
    let program = program.display();
    Err((Stage::Command, format!("cannot run `{program}`: {error}")))
}

/// The way to tell the agent.
struct Report(Option<File>);

impl Report {
    /// Whoever runs this by hand has no such pipe.
    fn take() -> Self {
        let pipe = io::stdin()
            .as_fd()
            .try_clone_to_owned()
            .ok()
            .map(File::from)
            .filter(|file| {
                let kind = file.metadata().map(|found| found.file_type());
                kind.is_ok_and(|kind| kind.is_fifo())
            });
        Self(pipe)
    }

    fn say(&mut self, said: &Said) {
        let Some(pipe) = &mut self.0 else { return };
        let mut line = serde_json::to_vec(said).expect("BUG: strings and numbers have a JSON form");
        line.push(b'\n');
        // An agent that has gone away reads nothing; one that hears nothing does not take the command for confined.
        drop(pipe.write_all(&line));
    }
}
