//! Where a side session begins: at a place of its source at which no turn is open.

use std::sync::Arc;

use offshoot_session::{
    Body, Event, EventKind, EventLog, ForkError, Seq, SessionId, latest_completed_boundary,
};

use super::SideError;
use crate::AgentError;
use crate::compaction;

/// The last event that a side session inherits; `None` if it inherits nothing.
///
/// # Errors
/// `INVALID_BOUNDARY`: there is no such event. `SIDE_CUT_UNAVAILABLE`: its turn has not ended. `NOT_CONTINUABLE`: no provider
/// would accept what would be inherited.
pub(super) fn cut(
    source: &SessionId,
    log: &EventLog,
    at: Option<Seq>,
) -> Result<Option<Seq>, AgentError> {
    let cut = at_rest(source, log, at)?;
    if let Some(cut) = cut {
        log.prefix(cut.after()).continuable()?;
    }
    Ok(cut)
}

/// The place without an open turn that is meant.
fn at_rest(source: &SessionId, log: &EventLog, at: Option<Seq>) -> Result<Option<Seq>, AgentError> {
    let Some(at) = at else {
        return Ok(log.latest_completed_boundary());
    };
    if log.get(at).is_none() {
        let end = log.end();
        return Err(ForkError::InvalidBoundary { boundary: at, end }.into());
    }
    let Some(turn) = log.prefix(at.after()).open_tail().turn() else {
        return Ok(Some(at));
    };
    let end = end_of_turn(log, at).ok_or_else(|| SideError::CutUnavailable {
        session: source.clone(),
        at,
        turn,
    })?;
    Ok(Some(end))
}

/// The end of the turn that is open at an event, with its independent tail.
fn end_of_turn(log: &EventLog, at: Seq) -> Option<Seq> {
    let is_end = |event: &&Arc<Event>| *event.kind() == EventKind::TurnEnd;
    let end = log.events_from(at.after()).find(is_end)?.seq();
    let of_the_turn = log
        .events_from(end.before())
        .take_while(|event| event.seq() == end || *event.kind() != EventKind::TurnEnd);
    latest_completed_boundary(of_the_turn.map(|event| &**event))
}

/// Whether the model that goes on behind the cut sees summaries in place of turns.
pub(super) fn is_summarised(log: &EventLog, cut: Option<Seq>) -> bool {
    let Some(cut) = cut else {
        return false;
    };
    let prefix = log.prefix(cut.after());
    let mut seen = prefix.surface().nodes().filter_map(|seq| log.get(seq));
    seen.any(|event| match event.body() {
        Body::UserMessage(message) => compaction::is_summary(&message.source),
        _ => false,
    })
}
