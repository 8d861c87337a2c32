//! A shell with all its descendants, and what they say.

mod capture;
mod mark;

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use offshoot_tool_api::Spill;
use process_wrap::tokio::{ChildWrapper, CommandWrap, KillOnDrop, ProcessSession};
use tokio::io::{AsyncRead, AsyncReadExt};

use crate::environment::EnvironmentFilter;
use crate::sandbox::{Confirmation, NotStarted, SandboxLauncher, SandboxPolicy};

pub(crate) use capture::{Capture, Finished};
use mark::Mark;

/// How long the pipes are read on after the process has ended, for what a background process of it still says.
const GRACE: Duration = Duration::from_millis(250);

/// How long a killed shell may take to be gone.
const KILL_PATIENCE: Duration = Duration::from_secs(5);

/// A command for a shell, and what it may do.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shell<'a> {
    pub(crate) command: &'a str,
    pub(crate) directory: &'a Path,
    pub(crate) environment: &'a EnvironmentFilter,
    pub(crate) confined: Option<(&'a SandboxLauncher, &'a SandboxPolicy)>,
}

impl Shell<'_> {
    /// The program to start and its arguments.
    fn command_line(&self) -> Result<(PathBuf, Vec<OsString>), NotStarted> {
        let shell = [OsString::from("-c"), OsString::from(self.command)];
        Ok(match self.confined {
            None => (PathBuf::from("bash"), shell.into()),
            Some((launcher, policy)) => {
                let (program, mut arguments) = launcher.command_line(policy)?;
                arguments.push("bash".into());
                arguments.extend(shell);
                (program, arguments)
            }
        })
    }
}

/// How a process was left.
#[derive(Debug)]
pub(crate) enum Ended {
    /// It ended by itself.
    Exited(ExitStatus),
    /// Its time was over; all of it was killed.
    TimedOut,
    /// It was to stop; all of it was killed.
    Cancelled,
}

/// Both outputs of a process.
#[derive(Debug)]
pub(crate) struct Output(Mutex<Streams>);

#[derive(Debug)]
pub(crate) struct Streams {
    pub(crate) stdout: Capture,
    pub(crate) stderr: Capture,
}

impl Output {
    pub(crate) fn new(spill: Option<&Arc<dyn Spill>>) -> Self {
        Self(Mutex::new(Streams {
            stdout: Capture::new("standard output", spill.cloned()),
            stderr: Capture::new("standard error", spill.cloned()),
        }))
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, Streams> {
        // Bytes were pushed or not; there is no state in between that could not be gone on with.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What is left of standard output and standard error. It may wait for the disk.
    pub(crate) fn finish(&self) -> [Finished; 2] {
        let nothing = Self::new(None);
        std::mem::swap(&mut *self.lock(), &mut *nothing.lock());
        let Streams { stdout, stderr } = nothing
            .0
            .into_inner()
            .unwrap_or_else(PoisonError::into_inner);
        [stdout.finish(), stderr.finish()]
    }
}

/// A shell that leads a session of its own, so that it has no terminal to ask or to disturb. Dropped before it ended, all
/// that it started is killed.
#[derive(Debug)]
pub(crate) struct Group {
    child: Box<dyn ChildWrapper>,
    confirmation: Option<Confirmation>,
    mark: Option<Mark>,
}

impl Group {
    pub(crate) fn start(shell: Shell<'_>) -> Result<Self, NotStarted> {
        let (program, arguments) = shell.command_line()?;
        let no_shell = |error: io::Error| match shell.confined {
            None => NotStarted::Command(format!("cannot run `bash`: {error}")),
            Some(_) => NotStarted::Sandbox(format!("cannot start the launcher: {error}")),
        };
        let (confirmation, stdin) = match shell.confined {
            None => (None, Stdio::null()),
            Some(_) => {
                let (confirmation, stdin) = Confirmation::new().map_err(no_shell)?;
                (Some(confirmation), stdin)
            }
        };
        let mark = Mark::new();
        let mut wrap = CommandWrap::with_new(program, |command| {
            let names = std::env::vars_os().map(|(name, _)| name);
            for name in names.filter(|name| shell.environment.withholds(name)) {
                command.env_remove(name);
            }
            let (variable, value) = mark.variable();
            command
                .args(arguments)
                .env(variable, value)
                .current_dir(shell.directory)
                .stdin(stdin)
                .stdout(Stdio::piped())
                .stderr(Stdio::piped());
        });
        wrap.wrap(ProcessSession).wrap(KillOnDrop);
        let child = wrap.spawn().map_err(no_shell)?;
        Ok(Self {
            child,
            confirmation,
            mark: Some(mark),
        })
    }

    /// Waits until the command itself runs, within its limits.
    pub(crate) async fn confirmed(&mut self) -> Result<(), NotStarted> {
        match self.confirmation.take() {
            None => Ok(()),
            Some(confirmation) => confirmation.heard().await.map(drop),
        }
    }

    /// Reads until the shell has ended or `stop` says how to end it. Also says whether something still holds a pipe open,
    /// so that more may come.
    pub(crate) async fn follow(
        &mut self,
        output: &Output,
        stop: impl Future<Output = Ended>,
    ) -> Result<(Ended, bool), NotStarted> {
        tokio::pin!(stop);
        tokio::select! {
            biased;
            confirmed = self.confirmed() => confirmed?,
            ended = &mut stop => {
                self.kill().await;
                return Ok((ended, false));
            }
        }
        let (stdout, stderr) = (self.child.stdout().take(), self.child.stderr().take());
        let reading = async {
            tokio::join!(
                drain(stdout, |bytes| output.lock().stdout.push(bytes)),
                drain(stderr, |bytes| output.lock().stderr.push(bytes))
            )
        };
        tokio::pin!(reading);
        let mut all_read = false;
        let (ended, killed) = loop {
            tokio::select! {
                biased;
                ended = &mut stop => break (ended, true),
                status = self.exited() => {
                    let status = status.map_err(|error| NotStarted::Command(format!("cannot wait for `bash`: {error}")))?;
                    break (Ended::Exited(status), false);
                }
                _ = &mut reading, if !all_read => all_read = true,
            }
        };
        if killed {
            self.kill().await;
        }
        if !all_read {
            tokio::select! {
                biased;
                _ = &mut reading => all_read = true,
                // What was killed lets go of its pipes by itself, if not at once.
                _ = &mut stop, if !killed => {}
                () = tokio::time::sleep(GRACE) => {}
            }
        }
        Ok((ended, !all_read))
    }

    /// Waits for the shell only. Waiting for the group would wait for its background processes too wherever orphans
    /// become children of this process, as in a container.
    async fn exited(&mut self) -> io::Result<ExitStatus> {
        self.child.inner_mut().wait().await
    }

    async fn kill(&mut self) {
        // It fails if nobody is left to kill. If the shell has become somebody whom this process may not kill, waiting
        // for its end would be in vain, hence the limit.
        self.child.start_kill().ok();
        tokio::time::timeout(KILL_PATIENCE, self.exited())
            .await
            .ok();
        if let Some(mark) = self.mark.take() {
            // It ends early only with the runtime, and then together with this process.
            tokio::task::spawn_blocking(move || mark.kill_survivors())
                .await
                .ok();
        }
    }

    /// Lets what the shell left behind live on. Dropping the answer ends it.
    pub(crate) fn leave(mut self) -> Leftovers {
        Leftovers(self.mark.take())
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // A shell without an id has been waited for, and its group's id may by now belong to somebody else.
        if self.child.id().is_some() {
            self.child.start_kill().ok();
        }
        if let Some(mark) = self.mark.take() {
            mark.kill_survivors();
        }
    }
}

/// What a shell that ended has left behind. Dropped, it is killed.
#[derive(Debug)]
pub(crate) struct Leftovers(Option<Mark>);

impl Leftovers {
    /// Nobody will end it.
    pub(crate) fn release(mut self) {
        self.0 = None;
    }
}

impl Drop for Leftovers {
    fn drop(&mut self) {
        if let Some(mark) = &self.0 {
            mark.kill_survivors();
        }
    }
}

async fn drain(pipe: Option<impl AsyncRead + Unpin>, mut push: impl FnMut(&[u8])) {
    let Some(mut pipe) = pipe else { return };
    let mut buffer = vec![0; 16 * 1024];
    // A pipe that fails is a pipe that ends: the exit status says what there is to say.
    while let Ok(count @ 1..) = pipe.read(&mut buffer).await {
        push(&buffer[..count]);
    }
}
