//! The model that answers from a script.

use std::sync::Arc;

use futures_util::stream::BoxStream;
use offshoot_model::{
    CallConfig, Chunk, Failure, Model, ModelRequest, PreparedCall, RetryPolicy, Waits,
};
use offshoot_session::SessionId;
use tokio_util::sync::CancellationToken;

use crate::entry::{End, Entry};
use crate::playing::play;
use crate::scripts::{Scripts, Served};

/// The model of one live session. What it cannot answer fails, so that the session's log says why.
#[derive(Debug)]
pub(crate) struct ReplayModel {
    scripts: Scripts,
    live: SessionId,
}

impl ReplayModel {
    pub(crate) const fn new(scripts: Scripts, live: SessionId) -> Self {
        Self { scripts, live }
    }
}

impl Model for ReplayModel {
    fn provider(&self) -> &str {
        &self.scripts.replaying().provider
    }

    fn prepare(&self, config: &CallConfig) -> Result<PreparedCall, Failure> {
        let mut prepared = match self.scripts.routing_of(&self.live) {
            Some(routing) => routing.prepare(config),
            None => PreparedCall {
                retry: RetryPolicy {
                    waits: Waits::Skipped,
                    ..RetryPolicy::default()
                },
                ..PreparedCall::plain(config.clone())
            },
        };
        if let Some(tokens) = self.scripts.replaying().context_window {
            prepared.info.context_window = Some(tokens);
        }
        Ok(prepared)
    }

    fn stream(
        &self,
        request: Arc<ModelRequest>,
        cancel: CancellationToken,
    ) -> BoxStream<'static, Chunk> {
        // Now, and not when somebody listens: calls are counted in the order in which they are made.
        let Served {
            session,
            call,
            answer,
        } = self.scripts.serve(&self.live, &request);
        let entry = answer.unwrap_or_else(|problem| {
            Entry::failing(Failure::new(problem.code(), problem.to_string()))
        });
        play(self.scripts.clone(), session, call, entry, cancel)
    }
}

impl Entry {
    fn failing(failure: Failure) -> Self {
        Self {
            chunks: Vec::new(),
            end: End::Throw(failure),
            pace: std::time::Duration::ZERO,
            hold: None,
            ready_file: None,
            recorded: None,
            is_written: false,
            changes_course: false,
        }
    }
}
