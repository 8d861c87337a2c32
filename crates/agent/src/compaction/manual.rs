//! Compacting because somebody asks for it.

use super::{Compacted, CompactionError};
use crate::agent::Agent;
use crate::cancel::Cancel;
use crate::driver::Driver;
use crate::meter;

impl Agent {
    /// Puts a summary in the place of older history now, and makes it durable. Messages that are sent meanwhile wait. `None`
    /// if there is nothing to compact; then nothing was written.
    ///
    /// It is [cancelled](Agent::cancel) as a turn is.
    ///
    /// # Errors
    /// [`CompactionError`]; `busy` if a turn is running. What the model sees is as it was, except after `persistence`, which
    /// may also mean that the summary stands but could not be stored yet.
    pub async fn compact(&self) -> Result<Option<Compacted>, CompactionError> {
        let work = async |cancel: Cancel| self.driver().lock().await.compact(&cancel).await;
        let done = self.run_maintenance(work).await;
        done.map_err(CompactionError::from)?
    }
}

impl Driver {
    /// As [`Agent::compact`], in the caller's task.
    ///
    /// # Errors
    /// As there.
    pub async fn compact(&mut self, cancel: &Cancel) -> Result<Option<Compacted>, CompactionError> {
        let log = self.session.log();
        if log.open_tail().turn().is_some() {
            return Err(CompactionError::Busy(self.session.id().clone()));
        }
        if log.request_header().is_none() {
            return Ok(None);
        }
        let upcoming = self
            .upcoming()
            .map_err(|failure| CompactionError::Summary(failure.message))?;
        // Whoever asks wants it shorter, however much of the window is free.
        let size = meter::prices(&log).iter().sum();
        let retain = self.config.compaction.retained(&upcoming.call, size);
        let compacted = self.shorten(None, upcoming, retain, cancel).await?;
        if compacted.is_some() {
            let stored = self.recorder.flush().await;
            stored.map_err(CompactionError::Persistence)?;
        }
        Ok(compacted)
    }
}
