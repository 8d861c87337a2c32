//! Requests are a function of the log: nothing else is in them, and nothing is repaired while they are built.
//!
//! The request behind the n-th settled attempt is what the log said just before that attempt was settled. So any request
//! that was ever made can be built again, from the file alone, byte for byte once the provider's dialect encodes it.

use offshoot_model::ModelRequest;
use offshoot_session::{Event, EventKind, EventLog, LogOffset, Seq, SessionId};

use crate::error::RequestError;
use crate::history::History;

/// The request that would be made at the end of this log.
///
/// # Errors
/// No `request/header` yet, or a message that cannot be sent.
pub fn build_request(log: &EventLog, session: &SessionId) -> Result<ModelRequest, RequestError> {
    History::default().request(log, session)
}

/// The n-th request of a session, counted from 1 over its settled attempts, with the event that settled it.
///
/// # Errors
/// There are fewer requests, or as [`build_request`].
pub fn request_at(
    log: &EventLog,
    session: &SessionId,
    n: usize,
) -> Result<(Seq, ModelRequest), RequestError> {
    let settled: Vec<Seq> = settled_attempts(log, LogOffset::START)
        .map(Event::seq)
        .collect();
    let no_such = RequestError::NoSuchRequest {
        asked: n,
        made: settled.len(),
    };
    let seq = *n
        .checked_sub(1)
        .and_then(|at| settled.get(at))
        .ok_or(no_such)?;
    let request = build_request(&log.prefix(seq.before()), session)?;
    Ok((seq, request))
}

/// How many requests a session has made, as far as they are settled.
#[must_use]
pub fn count_requests(log: &EventLog) -> usize {
    settled_attempts(log, LogOffset::START).count()
}

/// The events that settle a model call, from an offset on.
pub(crate) fn settled_attempts(log: &EventLog, from: LogOffset) -> impl Iterator<Item = &Event> {
    log.events_from(from).map(|event| &**event).filter(|event| {
        matches!(
            event.kind(),
            EventKind::AssistantMessage | EventKind::AssistantAttempt
        )
    })
}
