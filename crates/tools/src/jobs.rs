//! Background jobs: commands that go on after the call that started them.

use std::fmt;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::time::Duration;

use offshoot_tool_api::{ToolContext, ToolError};
use tokio_util::sync::CancellationToken;

use crate::process::{Ended, Finished, Group, Leftovers, Output, Shell};
use crate::shell::not_started;

/// How many jobs may run at a time.
const MOST_RUNNING: usize = 16;

/// How many ended jobs are remembered.
const MOST_ENDED: usize = 100;

/// The background jobs of one session, shared by the tools that deal with them.
///
/// They belong to this process: dropping the last clone kills every job with all it started, and so does the end of the
/// runtime. Only if this process is itself killed (SIGKILL), they go on. A fork or a resumed session begins without jobs.
#[derive(Clone)]
pub struct Jobs(Arc<Table>);

struct Table {
    jobs: Mutex<Vec<Arc<Job>>>,
    next: AtomicU64,
    on_exit: Option<OnExit>,
}

type OnExit = Box<dyn Fn(JobExit) + Send + Sync>;

/// That a job has ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobExit {
    /// The name that the model knows it by.
    pub id: String,
    /// What it ran.
    pub command: String,
    /// How it ended.
    pub end: JobEnd,
}

impl fmt::Display for JobExit {
    /// One line for the model.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { id, command, end } = self;
        let command = shortened(command);
        write!(
            f,
            "background job {id} (`{command}`) has ended: {end}. job_output has what it said last"
        )
    }
}

/// How a job ended.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum JobEnd {
    /// By itself, with this exit code.
    Exited {
        /// 0 says that all went well.
        code: i32,
    },
    /// By a signal that did not come from here.
    Signalled {
        /// The signal, in words.
        signal: String,
    },
    /// It ran for longer than its time.
    TimedOut,
    /// It was ended from here.
    Killed {
        /// What for.
        reason: Option<String>,
    },
    /// Nobody knows, because the system did not say.
    Lost {
        /// What it said instead.
        message: String,
    },
}

impl fmt::Display for JobEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exited { code } => write!(f, "exit code: {code}"),
            Self::Signalled { signal } => write!(f, "killed by {signal}"),
            Self::TimedOut => f.write_str("killed, because its time was over"),
            Self::Killed { reason: None } => f.write_str("killed"),
            Self::Killed {
                reason: Some(reason),
            } => write!(f, "killed: {reason}"),
            Self::Lost { message } => f.write_str(message),
        }
    }
}

impl fmt::Debug for Jobs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.0.jobs().iter()).finish()
    }
}

impl Default for Jobs {
    fn default() -> Self {
        Self::new()
    }
}

impl Jobs {
    /// No jobs. Whoever ends is told with the result of the next command.
    #[must_use]
    pub fn new() -> Self {
        Self(Arc::new(Table {
            jobs: Mutex::default(),
            next: AtomicU64::new(1),
            on_exit: None,
        }))
    }

    /// No jobs. The function is called when one has ended, unless somebody is just waiting for that; what it tells is not
    /// told a second time. It must not block.
    #[must_use]
    pub fn notifying(on_exit: impl Fn(JobExit) + Send + Sync + 'static) -> Self {
        Self(Arc::new(Table {
            jobs: Mutex::default(),
            next: AtomicU64::new(1),
            on_exit: Some(Box::new(on_exit)),
        }))
    }

    /// The jobs that have ended without anybody having been told, each of them once.
    #[must_use]
    pub fn take_ended(&self) -> Vec<JobExit> {
        let jobs = self.0.jobs();
        jobs.iter().filter_map(|job| job.report()).collect()
    }

    /// Kills all jobs and waits until they are gone.
    pub async fn shut_down(&self) {
        let jobs: Vec<Arc<Job>> = self.0.jobs().drain(..).collect();
        for job in &jobs {
            job.stop(Stop::SessionEnd);
        }
        for job in &jobs {
            job.gone.cancelled().await;
        }
        let left: Vec<_> = jobs
            .iter()
            .map(|job| job.state().leftovers.take())
            .collect();
        // It ends early only with the runtime, and then together with this process.
        tokio::task::spawn_blocking(move || drop(left)).await.ok();
    }

    /// Starts a job, and waits until its command runs within its limits.
    pub(crate) async fn start(
        &self,
        shell: Shell<'_>,
        description: Option<String>,
        timeout: Option<Duration>,
        cx: &ToolContext,
    ) -> Result<String, ToolError> {
        if self.0.jobs().iter().filter(|job| job.is_running()).count() >= MOST_RUNNING {
            return Err(ToolError::new(
                "JobError",
                "JOB_LIMIT",
                format!(
                    "{MOST_RUNNING} background jobs are running, which is the limit: end one with job_kill first"
                ),
            ));
        }
        let mut group = Group::start(shell).map_err(|error| not_started(cx, error))?;
        tokio::select! {
            biased;
            confirmed = group.confirmed() => confirmed.map_err(|error| not_started(cx, error))?,
            () = cx.cancel.cancelled() => return Err(ToolError::aborted()),
        }
        let number = self.0.next.fetch_add(1, Ordering::Relaxed);
        let job = Arc::new(Job {
            id: format!("job-{number}"),
            command: shell.command.to_owned(),
            description,
            output: Output::new(cx.spill.as_ref()),
            stop: OnceLock::new(),
            stopping: CancellationToken::new(),
            gone: CancellationToken::new(),
            waiting: AtomicUsize::new(0),
            state: Mutex::default(),
        });
        self.0.add(Arc::clone(&job));
        let id = job.id.clone();
        let table = Arc::downgrade(&self.0);
        tokio::spawn(async move { job.run(group, timeout, table).await });
        Ok(id)
    }

    /// A job by its name.
    pub(crate) fn find(&self, id: &str) -> Result<Arc<Job>, ToolError> {
        let jobs = self.0.jobs();
        let found = jobs.iter().find(|job| job.id == id);
        found.cloned().ok_or_else(|| {
            ToolError::new(
                "JobError",
                "JOB_NOT_FOUND",
                format!(
                    "there is no background job `{id}`: job_list shows those there are, and jobs of an earlier run of \
                     the session have ended with it"
                ),
            )
        })
    }

    pub(crate) fn all(&self) -> Vec<Arc<Job>> {
        self.0.jobs().clone()
    }
}

impl Table {
    fn jobs(&self) -> MutexGuard<'_, Vec<Arc<Job>>> {
        // A job is in the list or it is not.
        self.jobs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn add(&self, job: Arc<Job>) {
        let forgotten = {
            let mut jobs = self.jobs();
            jobs.push(job);
            let ended = jobs.iter().filter(|job| !job.is_running()).count();
            let oldest = jobs.iter().position(|job| !job.is_running());
            oldest
                .filter(|_| ended > MOST_ENDED)
                .map(|oldest| jobs.remove(oldest))
        };
        // Whatever it has left behind is looked for and killed, which needs no lock.
        drop(forgotten);
    }
}

impl Drop for Table {
    fn drop(&mut self) {
        for job in self.jobs().iter() {
            job.stop(Stop::SessionEnd);
        }
    }
}

/// A command in the background.
#[derive(Debug)]
pub(crate) struct Job {
    pub(crate) id: String,
    pub(crate) command: String,
    pub(crate) description: Option<String>,
    output: Output,
    stop: OnceLock<Stop>,
    stopping: CancellationToken,
    /// Cancelled when the job has ended and its state says how.
    gone: CancellationToken,
    /// How many calls will tell of its end.
    waiting: AtomicUsize,
    state: Mutex<State>,
}

/// Why a job is ended from here.
#[derive(Debug)]
pub(crate) enum Stop {
    Kill(Option<String>),
    SessionEnd,
}

#[derive(Debug, Default)]
struct State {
    end: Option<JobEnd>,
    /// Whether somebody was told of the end.
    reported: bool,
    /// What it said last, until somebody looks.
    rest: Option<[Finished; 2]>,
    leftovers: Option<Leftovers>,
}

/// What a job has said since the last look, and whether it has ended.
#[derive(Debug)]
pub(crate) struct Look {
    pub(crate) outputs: [Finished; 2],
    pub(crate) end: Option<JobEnd>,
}

impl Job {
    async fn run(self: Arc<Self>, mut group: Group, timeout: Option<Duration>, table: Weak<Table>) {
        let stop = async {
            tokio::select! {
                biased;
                () = self.stopping.cancelled() => Ended::Cancelled,
                () = over(timeout) => Ended::TimedOut,
            }
        };
        let followed = group.follow(&self.output, stop).await;
        let end = match followed {
            Ok((Ended::TimedOut, _)) => JobEnd::TimedOut,
            Ok((Ended::Cancelled, _)) => JobEnd::Killed {
                reason: match self.stop.get() {
                    Some(Stop::Kill(reason)) => reason.clone(),
                    Some(Stop::SessionEnd) | None => Some("the session has ended".to_owned()),
                },
            },
            Ok((Ended::Exited(status), _)) => match status.code() {
                Some(code) => JobEnd::Exited { code },
                None => JobEnd::Signalled {
                    signal: status.to_string(),
                },
            },
            Err(error) => JobEnd::Lost {
                message: error.to_string(),
            },
        };
        let job = Arc::clone(&self);
        // It fails only with the runtime, and then nobody looks any more.
        let rest = tokio::task::spawn_blocking(move || job.output.finish()).await;
        {
            let mut state = self.state();
            state.end = Some(end);
            state.rest = rest.ok();
            state.leftovers = Some(group.leave());
        }
        let is_told = self.waiting.load(Ordering::SeqCst) > 0;
        self.gone.cancel();
        let Some(table) = table.upgrade() else { return };
        if let Some(on_exit) = &table.on_exit
            && !is_told
            && !matches!(self.stop.get(), Some(Stop::SessionEnd))
            && let Some(exit) = self.report()
        {
            on_exit(exit);
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Its members do not depend on each other.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_running(&self) -> bool {
        self.state().end.is_none()
    }

    /// How it ended, if it has.
    pub(crate) fn end(&self) -> Option<JobEnd> {
        self.state().end.clone()
    }

    /// That it has ended, if nobody was told.
    fn report(&self) -> Option<JobExit> {
        let mut state = self.state();
        let end = state.end.clone().filter(|_| !state.reported)?;
        state.reported = true;
        Some(JobExit {
            id: self.id.clone(),
            command: self.command.clone(),
            end,
        })
    }

    /// Asks it to end. The first reason counts.
    fn stop(&self, stop: Stop) {
        // A second reason changes nothing.
        drop(self.stop.set(stop));
        self.stopping.cancel();
    }

    /// Waits for its end, but no longer than for `patience`, nor beyond the end of the call. Afterwards the caller must
    /// look and tell.
    pub(crate) async fn wait(&self, patience: Duration, cx: &ToolContext) {
        self.waiting.fetch_add(1, Ordering::SeqCst);
        let _waiting = Waiting(&self.waiting);
        tokio::select! {
            biased;
            () = self.gone.cancelled() => {}
            () = cx.cancel.cancelled() => {}
            () = tokio::time::sleep(patience) => {}
        }
    }

    /// Kills it with all that it started, also what it left behind if it has ended before. Whether it was running.
    pub(crate) async fn kill(&self, reason: Option<String>) -> bool {
        self.waiting.fetch_add(1, Ordering::SeqCst);
        let _waiting = Waiting(&self.waiting);
        let was_running = self.is_running();
        self.stop(Stop::Kill(reason));
        self.gone.cancelled().await;
        let leftovers = self.state().leftovers.take();
        // It ends early only with the runtime, and then together with this process.
        tokio::task::spawn_blocking(move || drop(leftovers))
            .await
            .ok();
        was_running
    }

    /// What it has said since the last look. If it has ended, the caller tells so.
    pub(crate) fn look(&self) -> Look {
        let mut state = self.state();
        let end = state.end.clone();
        let outputs = if end.is_some() {
            state.reported = true;
            state.rest.take().unwrap_or_default()
        } else {
            let mut streams = self.output.lock();
            [streams.stdout.take(), streams.stderr.take()].map(|text| Finished {
                text,
                ..Finished::default()
            })
        };
        Look { outputs, end }
    }
}

/// A call that will tell of a job's end.
struct Waiting<'a>(&'a AtomicUsize);

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

async fn over(timeout: Option<Duration>) {
    match timeout {
        Some(timeout) => tokio::time::sleep(timeout).await,
        None => std::future::pending().await,
    }
}

/// The beginning of a command, on one line.
pub(crate) fn shortened(command: &str) -> String {
    const MOST: usize = 80;
    let line: String = command
        .chars()
        .map(|char| if char.is_control() { ' ' } else { char })
        .take(MOST + 1)
        .collect();
    match line.char_indices().nth(MOST) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line,
    }
}
