//! Making an ordinary session of a side session.

use offshoot_session::{EventKind, EventLog, Seq, SessionId, SideMark};

use super::SideError;
use super::framing::promotion;
use crate::AgentError;
use crate::agent::Tip;
use crate::core::Core;
use crate::events::shown;
use crate::inbox::{self, InboxTarget};
use crate::input::Input;
use crate::service::SessionService;

/// How a side session became an ordinary one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Promoted {
    /// The message that says so is this event.
    Logged {
        /// Its seq.
        seq: Seq,
    },
    /// A turn is running: the message waits, kept, for its next step, or that of the next turn. Until then it is a side
    /// session.
    Queued,
    /// The model had not been told yet that it is in a side session, and is not told any more.
    Withdrawn,
}

impl SessionService {
    /// Makes an ordinary session of a side session, whether it is live here or only stored. Durable when this returns.
    ///
    /// # Errors
    /// `NOT_A_SIDE_SESSION`; then nothing was written. As [`Self::open`] for a session that is not live here; a disposed
    /// agent; storage that failed.
    pub fn promote(&self, id: &SessionId) -> Result<Promoted, AgentError> {
        if let Some(agent) = self.agent(id) {
            return agent.change_log(promote);
        }
        self.check_not_live(id)?;
        // Whoever is refused leaves no trace, and opening a session does.
        check(id, &self.read(id)?.stored.log)?;
        self.change_stored(id, |core| promote(core, Tip::Free))
    }
}

fn promote(core: &Core, tip: Tip) -> Result<Promoted, AgentError> {
    let log = core.session.log();
    check(core.session.id(), &log)?;
    if !log.is_side_session() {
        let mut withdrawn = false;
        for framing in waiting(&log, SideMark::Framing) {
            withdrawn |= inbox::replace(core, framing.id(), None)?.is_some();
        }
        if withdrawn {
            for promotion in waiting(&log, SideMark::Promote) {
                inbox::replace(core, promotion.id(), None)?;
            }
            return Ok(Promoted::Withdrawn);
        }
        // A step has claimed it and is about to say it.
    }
    let before = waiting(&log, SideMark::Promote);
    let is_free = tip == Tip::Free && log.is_side_session() && log.open_tail().turn().is_none();
    if !is_free {
        if before.is_empty() {
            let promotion = promotion(core.env.fresh_id()).kept();
            inbox::insert(core, InboxTarget::NextStep, &promotion)?;
        }
        return Ok(Promoted::Queued);
    }
    for promotion in before {
        inbox::replace(core, promotion.id(), None)?;
    }
    core.close_compaction()?;
    let promotion = promotion(core.env.fresh_id());
    let draft = shown(EventKind::UserMessage, &promotion.raw());
    let event = core.session.append(draft, core.env.now())?;
    Ok(Promoted::Logged { seq: event.seq() })
}

/// Refuses what is no side session and is not about to be one.
pub(super) fn check(id: &SessionId, log: &EventLog) -> Result<(), SideError> {
    match is_side(log) {
        true => Ok(()),
        false => Err(SideError::NotASideSession(id.clone())),
    }
}

/// Whether a session is a side session, or is one as soon as its first step says what waits for it.
#[must_use]
pub fn is_side(log: &EventLog) -> bool {
    let is_about_to_be = || {
        let claimed = inbox::unsaid_of_last_turn(log);
        let mut inputs = waiting(log, SideMark::Framing).into_iter().chain(claimed);
        inputs.any(|input| input.side_mark() == Some(SideMark::Framing))
    };
    log.is_side_session() || is_about_to_be()
}

fn waiting(log: &EventLog, mark: SideMark) -> Vec<Input> {
    let waiting = log.pending_input();
    let texts = waiting.next_step().iter().chain(waiting.next_turn());
    let inputs = texts.cloned().map(Input::stored);
    inputs
        .filter(|input| input.side_mark() == Some(mark))
        .collect()
}
