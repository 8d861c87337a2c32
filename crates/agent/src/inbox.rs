//! The durable inbox: input waits in the log until a turn claims it (`reference/agent.md` §1.2).
//!
//! There are two lists, and every change of one is an event. What the lists hold is folded from those events, so a change
//! that the log refuses has not happened. A fork starts with empty lists; a session that is opened again with what it had,
//! and with what a turn had claimed and not said when its process was killed.

use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;

use offshoot_session::{
    Body, Event, EventKind, EventLog, LogOffset, PendingInput, Seq, Session, StepRef,
};
use serde::Deserialize;

use crate::AgentError;
use crate::core::Core;
use crate::events::{InboxSpliced, logged, read};
use crate::input::Input;
use crate::notices::Notice;

/// Where input waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum InboxTarget {
    /// For the next turn.
    NextTurn,
    /// For the next step of the turn that is running, or of the next one.
    NextStep,
}

impl InboxTarget {
    /// In the order in which they are claimed and cleared.
    const BOTH: [Self; 2] = [Self::NextStep, Self::NextTurn];

    const fn as_str(self) -> &'static str {
        match self {
            Self::NextTurn => "next-turn",
            Self::NextStep => "next-step",
        }
    }

    fn list(self, pending: &PendingInput) -> &[Arc<str>] {
        match self {
            Self::NextTurn => pending.next_turn(),
            Self::NextStep => pending.next_step(),
        }
    }
}

/// What waits.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pending {
    /// For the next step. All of it is claimed at once.
    pub next_step: Vec<Input>,
    /// For the next turn. Every turn claims the first.
    pub next_turn: Vec<Input>,
}

/// Everything that waits.
pub(crate) fn pending(log: &EventLog) -> Result<Pending, AgentError> {
    let waiting = sound(log)?;
    let inputs = |texts: &[Arc<str>]| texts.iter().cloned().map(Input::stored).collect();
    Ok(Pending {
        next_step: inputs(waiting.next_step()),
        next_turn: inputs(waiting.next_turn()),
    })
}

/// Adds a message at the end of what waits for a step, in a session that nobody drives yet.
pub(crate) fn queue(session: &mut Session, input: &Input, now: i64) -> Result<(), AgentError> {
    let target = InboxTarget::NextStep;
    let end = target.list(sound(session.log())?).len();
    let inserted = std::slice::from_ref(input);
    log_splice(session, now, target, end, 0, inserted, None)
}

/// Adds a message at the end of a list.
pub(crate) fn insert(core: &Core, target: InboxTarget, input: &Input) -> Result<(), AgentError> {
    let mut session = core.session.lock();
    let end = target.list(sound(session.log())?).len();
    let change = Change::insertion(target, end, vec![input.clone()]);
    change.make(core, &mut session)
}

/// Where a message stands that was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sent {
    /// It waits; or the turn that runs has claimed it, and says it, or, if it is kept, queues it again.
    Waits,
    /// It was said, as this event.
    Said(Seq),
}

/// Adds a message at the end of a list unless it was sent before. Returns where it stands then.
pub(crate) fn insert_once(
    core: &Core,
    target: InboxTarget,
    input: &Input,
) -> Result<Sent, AgentError> {
    let mut session = core.session.lock();
    let log = session.log();
    let is_said = {
        let mut said = core.said();
        said.read(log);
        said.has(input.id())
    };
    // Nobody looks through a long log for what is not there.
    let sent = if is_said {
        said_at(log, input.id()).map(Sent::Said)
    } else {
        waits(log, input.id()).then_some(Sent::Waits)
    };
    if let Some(sent) = sent {
        return Ok(sent);
    }
    log.continuable()?;
    let end = target.list(sound(log)?).len();
    Change::insertion(target, end, vec![input.clone()]).make(core, &mut session)?;
    Ok(Sent::Waits)
}

/// Where a message stands, if it was sent.
pub(crate) fn sent(log: &EventLog, id: &str) -> Option<Sent> {
    let said = said_at(log, id).map(Sent::Said);
    said.or_else(|| waits(log, id).then_some(Sent::Waits))
}

/// Which event said a message, looked for from the end.
fn said_at(log: &EventLog, id: &str) -> Option<Seq> {
    let seqs = (0..log.end().get()).rev().map(Seq::new);
    let says = |event: &&Arc<Event>| matches!(event.body(), Body::UserMessage(message) if *message.id == *id);
    let said = seqs.filter_map(|seq| log.get(seq)).find(says);
    said.map(|event| event.seq())
}

/// Whether a message waits, or the open turn has claimed it and not said it yet.
fn waits(log: &EventLog, id: &str) -> bool {
    let pending = log.pending_input();
    let queued = InboxTarget::BOTH
        .iter()
        .flat_map(|target| target.list(pending))
        .any(|text| Input::stored(Arc::clone(text)).id() == id);
    // What an interrupted turn had claimed was queued again when the session was opened, and may have been taken back since.
    let is_claimed = || {
        let mut unsaid = unsaid_of_last_turn(log).into_iter();
        log.open_tail().turn().is_some() && unsaid.any(|input| input.id() == id)
    };
    queued || is_claimed()
}

/// Replaces a stretch of a list, by the rules of a JavaScript splice: a negative start counts from the end, and whatever
/// points beyond an end means that end. Returns what was removed. A splice that would do nothing is not logged.
pub(crate) fn splice(
    core: &Core,
    target: InboxTarget,
    start: isize,
    remove: usize,
    inserted: Vec<Input>,
) -> Result<Vec<Input>, AgentError> {
    let mut session = core.session.lock();
    let list = target.list(sound(session.log())?);
    let start = if start < 0 {
        list.len().saturating_sub(start.unsigned_abs())
    } else {
        list.len().min(start.unsigned_abs())
    };
    let end = start.saturating_add(remove).min(list.len());
    let removed = list[start..end].iter().cloned().map(Input::stored);
    let change = Change {
        target,
        start,
        removed: removed.collect(),
        inserted,
    };
    let removed = change.removed.clone();
    change.make(core, &mut session)?;
    Ok(removed)
}

/// Puts another message, or none, in the place of the one with this id, whichever list it is in. Returns that one; `None`
/// if it does not wait any more, and then nothing has changed.
pub(crate) fn replace(
    core: &Core,
    id: &str,
    replacement: Option<Input>,
) -> Result<Option<Input>, AgentError> {
    let mut session = core.session.lock();
    let waiting = sound(session.log())?;
    let found = InboxTarget::BOTH.into_iter().find_map(|target| {
        let mut inputs = target.list(waiting).iter().cloned().map(Input::stored);
        let at = inputs.position(|input| input.id() == id)?;
        Some((
            target,
            at,
            Input::stored(Arc::clone(&target.list(waiting)[at])),
        ))
    });
    let Some((target, start, old)) = found else {
        return Ok(None);
    };
    let change = Change {
        target,
        start,
        removed: vec![old.clone()],
        inserted: replacement.into_iter().collect(),
    };
    change.make(core, &mut session)?;
    Ok(Some(old))
}

/// Which of the waiting messages are dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Clear {
    Everything,
    /// All but those that are kept.
    NotKept,
}

/// Drops what waits, as cancelled: first what waits for a step, then what waits for a turn.
pub(crate) fn clear(core: &Core, what: Clear) -> Result<(), AgentError> {
    let mut session = core.session.lock();
    for target in InboxTarget::BOTH {
        let list = target.list(session.log().pending_input());
        let mut runs: Vec<Vec<Input>> = vec![Vec::new()];
        for input in list.iter().cloned().map(Input::stored) {
            let stays = what == Clear::NotKept && input.is_kept();
            match runs.last_mut() {
                Some(run) if !stays => run.push(input),
                _ => runs.push(Vec::new()),
            }
        }
        // The n-th run stands behind the n messages that stay.
        for (start, removed) in runs.into_iter().enumerate() {
            let change = Change {
                target,
                start,
                removed,
                inserted: Vec::new(),
            };
            change.make(core, &mut session)?;
        }
    }
    Ok(())
}

/// Takes what a step may claim: everything that waits for a step, then, at the start of a turn, one message that waits for
/// a turn. Each list is claimed by one splice.
pub(crate) fn claim(core: &Core, at: StepRef) -> Result<Vec<Input>, AgentError> {
    let mut session = core.session.lock();
    let waiting = sound(session.log())?;
    let inputs =
        |texts: &[Arc<str>]| -> Vec<Input> { texts.iter().cloned().map(Input::stored).collect() };
    let steered = inputs(waiting.next_step());
    let prompt = match waiting.next_turn() {
        [first, ..] if at.step == 1 => inputs(std::slice::from_ref(first)),
        _ => Vec::new(),
    };
    for (target, claimed) in [
        (InboxTarget::NextStep, &steered),
        (InboxTarget::NextTurn, &prompt),
    ] {
        if claimed.is_empty() {
            continue;
        }
        let now = core.env.now();
        log_splice(&mut session, now, target, 0, claimed.len(), &[], None)?;
    }
    let claimed: Vec<Input> = steered.into_iter().chain(prompt).collect();
    for input in &claimed {
        core.feed.push(Notice::Claimed {
            message: input.shared_id(),
            turn: at.turn,
        });
    }
    Ok(claimed)
}

/// Which of the messages that a turn has claimed and never said are queued again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unsaid {
    /// All: nobody has decided that they are not said.
    All,
    /// Those that are kept: somebody has cancelled the turn, or it has failed and said so.
    Kept,
}

/// Queues again, in front and in their old order, messages that were claimed from this offset on and never said.
pub(crate) fn put_back(core: &Core, since: LogOffset, which: Unsaid) -> Result<(), AgentError> {
    let mut session = core.session.lock();
    let unsaid = claimed_and_unsaid(session.log(), since);
    for (target, mut inserted) in unsaid {
        if which == Unsaid::Kept {
            inserted.retain(Input::is_kept);
        }
        if !inserted.is_empty() {
            Change::insertion(target, 0, inserted).make(core, &mut session)?;
        }
    }
    Ok(())
}

/// Queues again what a turn had claimed that a crash has interrupted, as far as it was not said.
pub(crate) fn put_back_interrupted(core: &Core) -> Result<(), AgentError> {
    let log = core.session.log();
    let interrupted = log.open_tail().turn().is_none();
    let start = unfinished_turn(&log).filter(|_| interrupted);
    start.map_or(Ok(()), |start| put_back(core, start, Unsaid::All))
}

/// The last event of a kind, looked for from the end.
pub(crate) fn last_of(log: &EventLog, kind: EventKind) -> Option<&Arc<Event>> {
    let mut end = log.end();
    while let Some(event) = end.last().and_then(|seq| log.get(seq)) {
        if *event.kind() == kind {
            return Some(event);
        }
        end = event.seq().before();
    }
    None
}

/// Where the last turn began, if it is the session's own and is open, or was interrupted by a crash.
fn unfinished_turn(log: &EventLog) -> Option<LogOffset> {
    let inherited = log.inherited_marker();
    let is_own = |event: &&Arc<Event>| inherited.is_none_or(|marker| event.seq() > marker);
    let start = last_of(log, EventKind::TurnStart).filter(is_own)?;
    let is_unfinished = log.open_tail().turn().is_some()
        || last_of(log, EventKind::TurnEnd).is_some_and(
            |end| matches!(end.body(), Body::TurnEnd { reason, .. } if **reason == *"interrupted"),
        );
    is_unfinished.then(|| start.seq().before())
}

/// What the last turn has claimed and not said, as far as it does not wait again; nothing if it has come to its end.
pub(crate) fn unsaid_of_last_turn(log: &EventLog) -> Vec<Input> {
    let unsaid = unfinished_turn(log).map(|start| claimed_and_unsaid(log, start));
    let lists = unsaid.into_iter().flatten();
    lists.flat_map(|(_, inputs)| inputs).collect()
}

/// What the claims from an offset on have taken, as far as it was not said behind that and does not wait again.
fn claimed_and_unsaid(log: &EventLog, since: LogOffset) -> [(InboxTarget, Vec<Input>); 2] {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Splice {
        target: String,
        start: usize,
        #[serde(default)]
        removed_count: usize,
        #[serde(default)]
        outcome: Option<String>,
    }
    let waiting = log.pending_input();
    let mut gone: BTreeSet<String> = InboxTarget::BOTH
        .iter()
        .flat_map(|target| target.list(waiting))
        .map(|text| Input::stored(Arc::clone(text)).id().to_owned())
        .collect();
    gone.extend(said(log, since).map(str::to_owned));
    let removals: Vec<_> = log
        .events_from(since)
        .filter(|event| *event.kind() == EventKind::InboxSpliced)
        .filter_map(|event| Some((event.seq(), read::<Splice>(event)?)))
        .filter(|(_, splice)| splice.removed_count > 0)
        .collect();
    InboxTarget::BOTH.map(|target| {
        let of_target = removals
            .iter()
            .filter(|(_, splice)| splice.target == target.as_str());
        let mut claimed: Vec<Input> = Vec::new();
        for (seq, splice) in of_target {
            let before = log.prefix(seq.before());
            let list = target.list(before.pending_input());
            let taken = list.iter().skip(splice.start).take(splice.removed_count);
            for input in taken.cloned().map(Input::stored) {
                // What was queued again and then taken back is nobody's any more.
                claimed.retain(|earlier| earlier.id() != input.id());
                if splice.outcome.is_none() {
                    claimed.push(input);
                }
            }
        }
        claimed.retain(|input| !gone.contains(input.id()));
        (target, claimed)
    })
}

/// The ids of the user's messages from an offset on.
fn said(log: &EventLog, since: LogOffset) -> impl Iterator<Item = &str> {
    log.events_from(since)
        .filter_map(|event| match event.body() {
            Body::UserMessage(message) => Some(&*message.id),
            _ => None,
        })
}

/// A change of a list by somebody who is not a turn.
struct Change {
    target: InboxTarget,
    start: usize,
    removed: Vec<Input>,
    inserted: Vec<Input>,
}

impl Change {
    const fn insertion(target: InboxTarget, start: usize, inserted: Vec<Input>) -> Self {
        Self {
            target,
            start,
            removed: Vec::new(),
            inserted,
        }
    }

    /// Logs it and tells of it. If it cannot be logged, nothing has changed.
    fn make(self, core: &Core, session: &mut Session) -> Result<(), AgentError> {
        if self.removed.is_empty() && self.inserted.is_empty() {
            return Ok(());
        }
        self.check_ids(core, session.log())?;
        let outcome = (!self.removed.is_empty()).then_some("canceled");
        let (target, start, removed) = (self.target, self.start, self.removed.len());
        let inserted = &self.inserted;
        let now = core.env.now();
        log_splice(session, now, target, start, removed, inserted, outcome)?;
        // While the session is held, so that two changes are told of in the order in which they were made.
        for input in self.removed {
            let message = input.shared_id();
            core.feed.push(Notice::Discarded { message });
        }
        for input in self.inserted {
            let message = input.shared_id();
            core.feed.push(Notice::Inserted { message });
        }
        Ok(())
    }

    /// A message waits once and is said once: whoever sends it again, because it did not hear that it was taken, is told.
    fn check_ids(&self, core: &Core, log: &EventLog) -> Result<(), AgentError> {
        if self.inserted.is_empty() {
            return Ok(());
        }
        let waiting = log.pending_input();
        let removed: BTreeSet<&str> = self.removed.iter().map(Input::id).collect();
        let mut ids: BTreeSet<String> = InboxTarget::BOTH
            .iter()
            .flat_map(|target| target.list(waiting))
            .map(|text| Input::stored(Arc::clone(text)).id().to_owned())
            .filter(|id| !removed.contains(&**id))
            .collect();
        if let Some(twice) = self
            .inserted
            .iter()
            .find(|input| !ids.insert(input.id().to_owned()))
        {
            return Err(AgentError::AlreadyPending(twice.id().to_owned()));
        }
        let mut said = core.said();
        said.read(log);
        let twice = self.inserted.iter().find(|input| said.has(input.id()));
        twice.map_or(Ok(()), |twice| {
            Err(AgentError::AlreadySaid(twice.id().to_owned()))
        })
    }
}

/// The ids of everything that was said in a conversation, as far as its log was read: nobody reads a long one for every
/// message.
#[derive(Debug, Default)]
pub(crate) struct Said {
    read: LogOffset,
    ids: HashSet<Box<str>>,
}

impl Said {
    fn read(&mut self, log: &EventLog) {
        self.ids.extend(said(log, self.read).map(Box::from));
        self.read = log.end();
    }

    fn has(&self, id: &str) -> bool {
        self.ids.contains(id)
    }
}

fn log_splice(
    session: &mut Session,
    now: i64,
    target: InboxTarget,
    start: usize,
    removed_count: usize,
    inserted: &[Input],
    outcome: Option<&'static str>,
) -> Result<(), AgentError> {
    let inserted: Vec<_> = inserted.iter().map(Input::raw).collect();
    let data = InboxSpliced {
        target: target.as_str(),
        start,
        removed_count,
        inserted: &inserted,
        outcome,
    };
    session.append(logged(EventKind::InboxSpliced, &data), now)?;
    Ok(())
}

/// The lists, if they can be trusted.
fn sound(log: &EventLog) -> Result<&PendingInput, AgentError> {
    let waiting = log.pending_input();
    match waiting.damage() {
        Some(seq) => Err(AgentError::Inbox(seq)),
        None => Ok(waiting),
    }
}
