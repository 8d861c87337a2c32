//! How an answer is given: chunk by chunk, with its pauses and halts, until it is over or cancelled.

use std::collections::VecDeque;
use std::fs::OpenOptions;
use std::io;
use std::path::Path;
use std::time::Duration;

use futures_util::stream::{self, BoxStream, StreamExt as _};
use offshoot_model::{Chunk, Failure};
use tokio_util::sync::CancellationToken;

use crate::entry::{End, Entry, Hold};
use crate::problem::Problem;
use crate::scripts::{Scripts, Waiting};

/// How often somebody looks whether a file is there.
const LOOK: Duration = Duration::from_millis(5);

/// An answer that is being given.
struct Playing {
    scripts: Scripts,
    session: String,
    call: usize,
    cancel: CancellationToken,
    chunks: VecDeque<Chunk>,
    given: usize,
    hold: Option<Hold>,
    entry: Entry,
    is_over: bool,
}

pub(crate) fn play(
    scripts: Scripts,
    session: String,
    call: usize,
    mut entry: Entry,
    cancel: CancellationToken,
) -> BoxStream<'static, Chunk> {
    let playing = Playing {
        scripts,
        session,
        call,
        cancel,
        chunks: std::mem::take(&mut entry.chunks).into(),
        given: 0,
        hold: entry.hold.take(),
        entry,
        is_over: false,
    };
    stream::unfold(playing, |mut playing| async {
        let chunk = playing.next().await?;
        Some((chunk, playing))
    })
    .boxed()
}

impl Playing {
    async fn next(&mut self) -> Option<Chunk> {
        if self.is_over || (self.has_said_all() && self.entry.end == End::Nothing) {
            return None;
        }
        if self.cancel.is_cancelled() {
            return self.over(Chunk::aborted());
        }
        if self
            .hold
            .as_ref()
            .is_some_and(|hold| hold.after <= self.given)
            && let Some(hold) = self.hold.take()
            && let Some(end) = self.halt(&hold).await
        {
            return self.over(end);
        }
        if !self.chunks.is_empty() && !self.is_paced().await {
            return self.over(Chunk::aborted());
        }
        if let Some(chunk) = self.chunks.pop_front() {
            self.given += 1;
            return Some(chunk);
        }
        match std::mem::replace(&mut self.entry.end, End::Nothing) {
            End::Nothing => None,
            End::Throw(failure) => self.over(Chunk::failed(failure)),
            End::Hang => {
                if let Some(end) = self.appear() {
                    return self.over(end);
                }
                self.cancel.cancelled().await;
                self.over(Chunk::aborted())
            }
        }
    }

    fn has_said_all(&self) -> bool {
        self.chunks.is_empty() && self.hold.is_none()
    }

    /// The last chunk of all.
    fn over(&mut self, chunk: Chunk) -> Option<Chunk> {
        self.is_over = true;
        Some(chunk)
    }

    /// Lets the time of a chunk pass; not if the call is cancelled meanwhile.
    async fn is_paced(&self) -> bool {
        if self.entry.pace.is_zero() {
            return true;
        }
        let pause = tokio::time::sleep(self.entry.pace);
        self.cancel.run_until_cancelled(pause).await.is_some()
    }

    /// Says that a halt is reached. Returns what ends the answer if that cannot be said.
    fn appear(&mut self) -> Option<Chunk> {
        let file = self.entry.ready_file.take()?;
        let path = self.scripts.replaying().workspace.join(&file);
        let error = touch(&path).err()?;
        let problem = Problem::Unready {
            session: self.session.clone(),
            call: self.call,
            file: file.to_string_lossy().into_owned(),
            reason: error.to_string(),
        };
        let failure = Failure::new(problem.code(), problem.to_string());
        self.scripts.note(problem);
        Some(Chunk::failed(failure))
    }

    /// Waits until a file is there. Returns what ends the answer if it does not go on.
    async fn halt(&mut self, hold: &Hold) -> Option<Chunk> {
        if let Some(end) = self.appear() {
            return Some(end);
        }
        let path = self.scripts.replaying().workspace.join(&hold.until);
        let _waits = Noted::new(
            &self.scripts,
            Waiting {
                session: self.session.clone(),
                call: self.call,
                file: hold.until.clone(),
            },
        );
        let arrives = async {
            while !path.exists() {
                tokio::time::sleep(LOOK).await;
            }
        };
        match self.cancel.run_until_cancelled(arrives).await {
            Some(()) => None,
            None => Some(Chunk::aborted()),
        }
    }
}

/// Makes sure that a file is there, and leaves what is in it.
fn touch(path: &Path) -> io::Result<()> {
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(false);
    options.open(path).map(drop)
}

/// An answer is known to wait for as long as this lives, however that ends.
struct Noted {
    scripts: Scripts,
    waiting: Waiting,
}

impl Noted {
    fn new(scripts: &Scripts, waiting: Waiting) -> Self {
        scripts.waits(waiting.clone());
        Self {
            scripts: scripts.clone(),
            waiting,
        }
    }
}

impl Drop for Noted {
    fn drop(&mut self) {
        self.scripts.waits_no_more(&self.waiting);
    }
}
