//! A child process with all its descendants, and what it says, in bounded memory.

use std::io;
use std::path::Path;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use offshoot_tool_api::{HeadTail, OutputLimits};
use process_wrap::tokio::{ChildWrapper, CommandWrap, KillOnDrop, ProcessGroup};
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio_util::sync::CancellationToken;

/// How long the pipes are read on after the process has ended, for what a background process of it still says.
const GRACE: Duration = Duration::from_millis(250);

/// How long a killed shell may take to be gone.
const KILL_PATIENCE: Duration = Duration::from_secs(5);

/// How a process was left.
#[derive(Debug)]
pub(crate) enum Ended {
    /// It ended by itself.
    Exited(ExitStatus),
    /// Its time was over; the group was killed.
    TimedOut,
    /// The call was cancelled; the group was killed.
    Cancelled,
}

/// A run of a process and what it said.
#[derive(Debug)]
pub(crate) struct Run {
    pub(crate) ended: Ended,
    pub(crate) stdout: HeadTail,
    pub(crate) stderr: HeadTail,
    /// Whether something still holds a pipe open, so that more may have come.
    pub(crate) still_open: bool,
}

/// Runs `bash -c command` to its end, or kills it.
pub(crate) async fn run_shell(
    command: &str,
    directory: &Path,
    limits: OutputLimits,
    timeout: Duration,
    cancel: &CancellationToken,
) -> io::Result<Run> {
    let mut group = Group::spawn(command, directory)?;
    let (mut stdout, mut stderr) = (HeadTail::new(limits), HeadTail::new(limits));
    let (from_stdout, from_stderr) = (group.0.stdout().take(), group.0.stderr().take());
    let mut all_read = false;

    let ended = {
        let reading = async {
            tokio::join!(
                drain(from_stdout, &mut stdout),
                drain(from_stderr, &mut stderr)
            )
        };
        tokio::pin!(reading);
        let deadline = tokio::time::sleep(timeout);
        tokio::pin!(deadline);
        let ended = loop {
            tokio::select! {
                biased;
                () = cancel.cancelled() => break Ended::Cancelled,
                status = group.exited() => break Ended::Exited(status?),
                () = &mut deadline => break Ended::TimedOut,
                _ = &mut reading, if !all_read => all_read = true,
            }
        };
        let killed = !matches!(ended, Ended::Exited(_));
        if killed {
            group.kill().await;
        }
        if !all_read {
            tokio::select! {
                biased;
                _ = &mut reading => all_read = true,
                // What was killed lets go of its pipes by itself, if not at once.
                () = cancel.cancelled(), if !killed => {}
                () = tokio::time::sleep(GRACE) => {}
            }
        }
        ended
    };
    Ok(Run {
        ended,
        stdout,
        stderr,
        still_open: !all_read,
    })
}

/// A shell that leads a process group. Dropped before it ended, the whole group is killed.
#[derive(Debug)]
struct Group(Box<dyn ChildWrapper>);

impl Group {
    fn spawn(command: &str, directory: &Path) -> io::Result<Self> {
        let mut wrap = CommandWrap::with_new("bash", |bash| {
            bash.arg("-c")
                .arg(command)
                .current_dir(directory)
                .stdin(Stdio::null())
                .stdout(Stdio::piped())
                .stderr(Stdio::piped());
        });
        wrap.wrap(ProcessGroup::leader()).wrap(KillOnDrop);
        wrap.spawn().map(Self)
    }

    /// Waits for the shell only. Waiting for the group would wait for its background processes too wherever orphans
    /// become children of this process, as in a container.
    async fn exited(&mut self) -> io::Result<ExitStatus> {
        self.0.inner_mut().wait().await
    }

    async fn kill(&mut self) {
        // It fails if nobody is left to kill. If the shell has become somebody whom this process may not kill, waiting
        // for its end would be in vain, hence the limit.
        self.0.start_kill().ok();
        tokio::time::timeout(KILL_PATIENCE, self.exited())
            .await
            .ok();
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // A shell without an id has been waited for, and its group's id may by now belong to somebody else.
        if self.0.id().is_some() {
            self.0.start_kill().ok();
        }
    }
}

async fn drain(pipe: Option<impl AsyncRead + Unpin>, into: &mut HeadTail) {
    let Some(mut pipe) = pipe else { return };
    let mut buffer = vec![0; 16 * 1024];
    // A pipe that fails is a pipe that ends: the exit status says what there is to say.
    while let Ok(count @ 1..) = pipe.read(&mut buffer).await {
        into.push(&buffer[..count]);
    }
}
