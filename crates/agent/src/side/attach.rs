//! Making a side session, and finding the one that was made already.

use offshoot_session::{
    Body, EventKind, EventLog, ForkSeed, LogOffset, Seq, Session, SessionHeader, SessionId,
    SideMark,
};
use offshoot_store::{Prefix, ReadSession, StoreError};

use super::cut::{cut, is_summarised};
use super::framing::frame;
use super::{Framing, SideError, SideRequest, SideSession};
use crate::AgentError;
use crate::changes::{ChangedFiles, changed_after};
use crate::input::Input;
use crate::registry::OnSession;
use crate::service::{Attached, SessionService};

/// A session as it is now, of which a side session is made.
#[derive(Clone, Copy)]
struct Source<'a> {
    header: &'a SessionHeader,
    log: &'a EventLog,
    shareable: &'a Prefix,
}

impl SessionService {
    /// A side session of a stored session. That is only read, so it may be running elsewhere meanwhile, also in the middle of a
    /// turn: what the side session begins with is complete.
    ///
    /// The child is stored, with its framing, when this returns. With [`SideRequest::child`] the request can be repeated: a
    /// child of this source at this place that has said nothing yet is opened, and completed if it has no framing.
    ///
    /// # Errors
    /// `INVALID_BOUNDARY`, `SIDE_CUT_UNAVAILABLE`: no side session can begin there. `NOT_CONTINUABLE`: one that does could
    /// not go on. `SIDE_CHILD_EXISTS`: the id is another session's. `SESSION_LIVE`: the child is open in this process. As
    /// [`Self::open`] for a child that was there already; storage that failed.
    pub fn side(
        &self,
        source: &ReadSession,
        request: &SideRequest,
    ) -> Result<SideSession, AgentError> {
        let source = Source {
            header: &source.stored.header,
            log: &source.stored.log,
            shareable: &source.shareable,
        };
        self.side_from(source, request)
    }

    /// A side session of a session that an agent of this process has open, as it is now. The agent may go on meanwhile.
    ///
    /// # Errors
    /// As [`Self::side`]; `SESSION_NOT_LIVE`: an agent that is not on a session of this service, or no longer; storage that
    /// failed.
    pub async fn side_of<'a>(
        &self,
        source: impl Into<OnSession<'a>>,
        request: &SideRequest,
    ) -> Result<SideSession, AgentError> {
        let (header, log, shareable) = self.as_stored(source.into()).await?;
        let source = Source {
            header: &header,
            log: &log,
            shareable: &shareable,
        };
        self.side_from(source, request)
    }

    fn side_from(
        &self,
        source: Source<'_>,
        request: &SideRequest,
    ) -> Result<SideSession, AgentError> {
        let cut = cut(&source.header.id, source.log, request.at)?;
        if let Some(child) = &request.child
            && let Some(found) = self.side_again(source, child, request.at.and(cut))?
        {
            return Ok(found);
        }
        let (attached, framing) = match cut {
            Some(cut) => self.side_at(source, cut, request.child.clone())?,
            None => self.side_of_nothing(source, request.child.clone())?,
        };
        Ok(source.side_session(attached, cut, framing, true))
    }

    /// A side session with a history.
    fn side_at(
        &self,
        source: Source<'_>,
        cut: Seq,
        child: Option<SessionId>,
    ) -> Result<(Attached, Framing), AgentError> {
        let mut fork = self.fork_at(source.header, source.log, source.shareable, cut, child)?;
        let inherited = fork.seed.inherited_event_count();
        let now = self.env.now();
        let mut session = Session::from_seed(fork.header.clone(), fork.seed, now)?;
        let framing = frame(&mut session, self.env.fresh_id(), now)?;
        fork.seed = ForkSeed::new(session.log().clone(), inherited);
        Ok((self.store_fork(&fork)?, framing))
    }

    /// A side session without one.
    fn side_of_nothing(
        &self,
        source: Source<'_>,
        child: Option<SessionId>,
    ) -> Result<(Attached, Framing), AgentError> {
        let header = SessionHeader {
            is_seeded: false,
            ..self.header_of_fork(source.header, child)
        };
        let mut attached = self.create_as(header)?;
        let framing = self.frame(&mut attached)?;
        Ok((attached, framing))
    }

    fn frame(&self, attached: &mut Attached) -> Result<Framing, AgentError> {
        let framing = frame(
            &mut attached.session().lock(),
            self.env.fresh_id(),
            self.env.now(),
        )?;
        attached.store()?;
        Ok(framing)
    }

    /// The child of an earlier request like this one; `None` if there is no session with its id.
    fn side_again(
        &self,
        source: Source<'_>,
        child: &SessionId,
        cut: Option<Seq>,
    ) -> Result<Option<SideSession>, AgentError> {
        self.check_not_live(child)?;
        let read = match self.read(child) {
            Ok(read) => read.stored,
            Err(StoreError::NotFound { .. }) => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        let other = || SideError::ChildExists {
            child: child.clone(),
            parent: source.header.id.clone(),
        };
        source
            .earlier(&read.header, &read.log, read.inherited, cut)
            .ok_or_else(other)?;
        let mut attached = self.open(child)?.attached;
        // Somebody may have been faster.
        let found = {
            let session = attached.session().lock();
            let inherited = session.inherited_event_count();
            source.earlier(session.header(), session.log(), inherited, cut)
        };
        let Earlier { cut, framing } = found.ok_or_else(other)?;
        let framing = match framing {
            Some(framing) => framing,
            None => self.frame(&mut attached)?,
        };
        Ok(Some(source.side_session(attached, cut, framing, false)))
    }
}

/// A child that was made by an earlier request.
struct Earlier {
    cut: Option<Seq>,
    /// `None`: it was forked and not told yet what it is.
    framing: Option<Framing>,
}

impl Source<'_> {
    fn side_session(
        self,
        attached: Attached,
        cut: Option<Seq>,
        framing: Framing,
        is_new: bool,
    ) -> SideSession {
        let cwd = self.header.cwd.as_deref();
        SideSession {
            attached,
            cut,
            framing,
            summarised: is_summarised(self.log, cut),
            changed: cut.map_or_else(ChangedFiles::default, |cut| {
                changed_after(self.log, cut, cwd)
            }),
            is_new,
        }
    }

    /// What a session is to a request for a side session that has nothing of its own yet, cut at `cut`, or, if that is
    /// `None`, wherever this session was at rest. `None` if it is another session.
    fn earlier(
        self,
        header: &SessionHeader,
        log: &EventLog,
        inherited: LogOffset,
        cut: Option<Seq>,
    ) -> Option<Earlier> {
        let is_ours = header.parent.as_ref() == Some(&self.header.id) && header.origin.is_none();
        let last = inherited.last();
        if !is_ours || (cut.is_some() && last != cut) {
            return None;
        }
        if let Some(last) = last
            && self.log.get(last)?.text() != log.get(last)?.text()
        {
            return None;
        }
        let framing = framing_alone(log, inherited)?;
        Some(Earlier { cut: last, framing })
    }
}

/// The framing of a session that has nothing else of its own but markers; `None` if it has. A fork from within a turn has: what
/// closes that.
fn framing_alone(log: &EventLog, inherited: LogOffset) -> Option<Option<Framing>> {
    let mut framing = None;
    for event in log.events_from(inherited) {
        let found = match event.body() {
            Body::EndSeed { .. } => continue,
            Body::UserMessage(message) if message.side == Some(SideMark::Framing) => {
                Framing::Logged(event.seq())
            }
            _ if *event.kind() == EventKind::InboxSpliced => Framing::Waiting,
            _ => return None,
        };
        framing = Some(found);
    }
    let waiting = log.pending_input();
    let waits = match (waiting.next_step(), waiting.next_turn()) {
        ([], []) => false,
        ([only], []) => Input::stored(only.clone()).side_mark() == Some(SideMark::Framing),
        _ => return None,
    };
    // One that waited and does not any more was taken back.
    (waits == (framing == Some(Framing::Waiting))).then_some(framing)
}
