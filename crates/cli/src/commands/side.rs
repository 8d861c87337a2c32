//! `offshoot side`: a question on the side, in a fork that explains and may only look.

use std::io::Write;

use offshoot_agent::{AgentError, Attached, SessionService, SideError, SideRequest, is_side};
use offshoot_session::{ForkError, Seq, SessionId};
use offshoot_store::ReadSession;

use crate::args::Side;
use crate::asking::Question;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::headless::Headless;
use crate::home::Home;
use crate::notes::Notes;
use crate::source::Source;
use crate::{aside, opening, text};

pub(crate) fn run(
    args: &Side,
    home: &Home,
    json: bool,
    out: &mut dyn Write,
) -> Result<Exit, Failure> {
    let turn = &args.turn;
    let notes = Notes::new(json || turn.is_for_a_program());
    home.check()?;
    // Whatever can be wrong is said before anything is created.
    let named = text::quoted(&args.source.to_string_lossy());
    let question = Question::read(turn, &format!("offshoot side {named}"), notes)?;
    let source = Source::resolve(home, &args.source);
    source.warn_if_ambiguous(notes);
    let read = source.read(home)?;
    notes.say_all(text::journal_notes(&read));
    let asked = Asked {
        named,
        source: &read,
        request: SideRequest {
            at: args.at,
            child: args.child.as_deref().map(SessionId::new),
        },
    };
    asked.check()?;
    let stored = &read.stored;
    let headless = Headless::new(
        home,
        &turn.calling,
        turn.replay.as_deref(),
        &opening::directory(stored.header.cwd.as_deref()),
        Some(&stored.log),
        notes,
    )?;
    headless.warn_of_pictures(&question);
    home.ensure()?;
    let (attached, told) = asked.attach(headless.service(), notes)?;
    headless.announce(attached.session());
    notes.say_all(told);
    let is_at_home = home.store().locate(&stored.header.id).is_ok();
    if !is_at_home {
        notes.say(&format!(
            "note: {} is not in the home, so nothing can be brought back to it from here",
            text::shorten(stored.header.id.as_str())
        ));
    }
    let child = text::quoted(attached.session().id().as_str());
    let exit = headless.answer(attached, &question, turn, out)?;
    if exit == Exit::Done && !notes.are_json() {
        notes.say(&format!(
            "hint: ask on with: offshoot run --session {child} PROMPT"
        ));
        if is_at_home {
            notes.say(&format!(
                "hint: bring the answer back with: offshoot merge {child}"
            ));
        }
    }
    Ok(exit)
}

/// A side session as it was asked for.
struct Asked<'a> {
    /// The source, as somebody would type it.
    named: String,
    source: &'a ReadSession,
    request: SideRequest,
}

impl Asked<'_> {
    /// Refuses a cut that is none.
    fn check(&self) -> Result<(), Failure> {
        let cut = self.request.cut_in(self.source);
        cut.map(drop).map_err(|error| self.refused(error))
    }

    /// Makes the side session, or goes on with the one that an earlier request like this has made. With what there is to say
    /// of it.
    fn attach(
        &self,
        service: &SessionService,
        notes: Notes,
    ) -> Result<(Attached, Vec<String>), Failure> {
        match service.side(self.source, &self.request) {
            Ok(made) => {
                let told = aside::told(&made);
                Ok((made.attached, told))
            }
            Err(AgentError::Side(SideError::ChildExists { child, .. }))
                if self.has_made(service, &child) =>
            {
                let attached = opening::open(service, &child, notes)?;
                let told = vec![format!(
                    "a side session of {} that is there already: this is asked in it; it explains, and its tools may only look",
                    text::shorten(self.source.stored.header.id.as_str())
                )];
                Ok((attached, told))
            }
            Err(error) => Err(self.refused(error)),
        }
    }

    /// Whether a session is the one that is asked for, and has gone on since.
    fn has_made(&self, service: &SessionService, child: &SessionId) -> bool {
        let Ok(read) = service.read(child) else {
            return false;
        };
        let child = &read.stored;
        let is_its = child.header.parent.as_ref() == Some(&self.source.stored.header.id);
        let is_there = || match self.request.at {
            Some(_) => {
                let cut = self.request.cut_in(self.source);
                cut.is_ok_and(|cut| cut == child.inherited.last())
            }
            None => true,
        };
        is_its && is_side(&child.log) && is_there()
    }

    /// The latest place up to this event at which a side session can begin.
    fn at_rest_before(&self, cut: Seq) -> Option<Seq> {
        let before = self.source.stored.log.prefix(cut.after());
        let at = before.latest_completed_boundary();
        let request = SideRequest { at, child: None };
        at.filter(|_| request.cut_in(self.source).is_ok())
    }

    fn refused(&self, error: AgentError) -> Failure {
        let ledger = format!("these are its events: offshoot show {}", self.named);
        match &error {
            AgentError::Fork(ForkError::InvalidBoundary { .. }) => {
                Failure::from(error).at(&self.source.path).hint(ledger)
            }
            AgentError::Side(SideError::CutUnavailable { .. }) => Failure::from(error)
                .hint("without --at it begins at the last completed turn")
                .and_hint(ledger),
            AgentError::NotContinuable(refused) => {
                let message = format!("a side session could not go on there: {refused}");
                let earlier = refused.nearest_cut.and_then(|cut| self.at_rest_before(cut));
                let hint = match (earlier, refused.nearest_cut) {
                    (Some(earlier), _) => {
                        format!("begin at an earlier turn, before that: --at {earlier}")
                    }
                    (None, Some(cut)) => format!(
                        "ask in a fork from before that: offshoot run --fork {} --at {cut} PROMPT",
                        self.named
                    ),
                    (None, None) => ledger,
                };
                Failure::new(refused.code(), message).hint(hint)
            }
            AgentError::Side(SideError::ChildExists { child, .. }) => {
                let child = text::quoted(child.as_str());
                Failure::from(error).hint(format!(
                    "choose another id, or leave --child out for a new one; to go on with that one: offshoot run --session {child} PROMPT"
                ))
            }
            _ => error.into(),
        }
    }
}
