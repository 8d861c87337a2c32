//! Which session of a run is which: those that the scenario names, and the subagents that they start.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use offshoot_session::{
    Body, Event, EventKind, EventLog, LiveSession, LogOffset, SessionId, SessionObserver,
};
use serde::{Deserialize, Serialize};
use tokio::sync::watch;

use crate::names::SessionName;

/// A session of the run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Record {
    pub(crate) id: String,
    pub(crate) who: Who,
}

/// Who a session is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", rename_all_fields = "camelCase")]
pub(crate) enum Who {
    /// The scenario calls it so.
    Named(String),
    /// Another session has started it.
    Subagent {
        /// That session.
        caller: String,
        /// The call that did.
        call_id: Option<String>,
        /// Which of the sessions that calls of this id have started, from 0.
        nth: usize,
    },
}

/// All sessions of a run, and word of everything that happens in them. Clones are the same.
#[derive(Clone, Debug)]
pub(crate) struct Company {
    records: Arc<Mutex<Vec<Record>>>,
    /// How many own events of which type each session has that was ever open in this process. A subagent is closed as soon as
    /// it is done, and then there is no log of it to be looked at.
    seen: Arc<Mutex<HashMap<SessionId, HashMap<EventKind, usize>>>>,
    changes: watch::Sender<()>,
}

impl Company {
    pub(crate) fn new(records: Vec<Record>) -> Self {
        Self {
            records: Arc::new(Mutex::new(records)),
            seen: Arc::default(),
            changes: watch::Sender::new(()),
        }
    }

    pub(crate) fn records(&self) -> Vec<Record> {
        self.lock().clone()
    }

    /// A session that the scenario names.
    pub(crate) fn enter_named(&self, session: &LiveSession, name: &SessionName) {
        let record = Record {
            id: session.id().to_string(),
            who: Who::Named(name.to_string()),
        };
        let mut records = self.lock();
        if !records.iter().any(|known| known.id == record.id) {
            records.push(record);
        }
        drop(records);
        self.listen(session);
    }

    /// A subagent: one that is known already, or a new one.
    pub(crate) fn enter_subagent(
        &self,
        session: &LiveSession,
        caller: &SessionId,
        call_id: Option<&str>,
    ) {
        let mut records = self.lock();
        let id = session.id().to_string();
        if !records.iter().any(|known| known.id == id) {
            let of_call = |record: &&Record| {
                matches!(&record.who, Who::Subagent { caller: of, call_id: call, .. }
                    if of == caller.as_str() && call.as_deref() == call_id)
            };
            let who = Who::Subagent {
                caller: caller.to_string(),
                call_id: call_id.map(str::to_owned),
                nth: records.iter().filter(of_call).count(),
            };
            records.push(Record { id, who });
        }
        drop(records);
        self.listen(session);
    }

    /// Whoever has this sees every change that comes after.
    pub(crate) fn changes(&self) -> watch::Receiver<()> {
        self.changes.subscribe()
    }

    /// How many own events of a type a session has; `None` if it was never open in this process.
    pub(crate) fn count(&self, session: &SessionId, kind: &EventKind) -> Option<usize> {
        let counts = self.counts();
        let counted = counts.get(session)?;
        Some(counted.get(kind).copied().unwrap_or(0))
    }

    fn listen(&self, session: &LiveSession) {
        let mut open = session.lock();
        let mut counted = HashMap::new();
        for event in open.log().events_from(open.inherited_event_count()) {
            *counted.entry(event.kind().clone()).or_default() += 1;
        }
        self.counts().insert(session.id().clone(), counted);
        open.observe(Box::new(Told {
            session: session.id().clone(),
            company: self.clone(),
        }));
        drop(open);
        self.changes.send_replace(());
    }

    fn counts(&self) -> MutexGuard<'_, HashMap<SessionId, HashMap<EventKind, usize>>> {
        // Nothing panics between two changes of a number.
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Record>> {
        // Nothing panics between two changes of the list.
        self.records.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Tells whoever waits that something has happened.
struct Told {
    session: SessionId,
    company: Company,
}

impl SessionObserver for Told {
    fn event(&mut self, event: &Arc<Event>) -> Result<(), String> {
        let mut counts = self.company.counts();
        let counted = counts.entry(self.session.clone()).or_default();
        *counted.entry(event.kind().clone()).or_default() += 1;
        drop(counts);
        self.company.changes.send_replace(());
        Ok(())
    }
}

/// The names of all sessions. `log_of` gives a session's log and where its own events begin.
pub(crate) fn names(
    records: &[Record],
    log_of: impl Fn(&str) -> Option<(EventLog, LogOffset)>,
) -> Vec<(SessionId, SessionName)> {
    let mut names: Vec<(SessionId, SessionName)> = Vec::new();
    let named = records.iter().filter_map(|record| match &record.who {
        Who::Named(name) => Some((
            SessionId::new(record.id.as_str()),
            SessionName::parse(name).expect("BUG: a name was parsed when the scenario was read"),
        )),
        Who::Subagent { .. } => None,
    });
    names.extend(named);
    let mut at = 0;
    while at < names.len() {
        let (id, name) = names[at].clone();
        let below = children(records, id.as_str(), &log_of);
        for (nth, child) in (1..).zip(below) {
            names.push((SessionId::new(child), name.subagent(nth)));
        }
        at += 1;
    }
    names
}

/// The subagents of a session, in the order of the calls in its log. What was not called for comes behind, as it was made.
fn children<'a>(
    records: &'a [Record],
    of: &str,
    log_of: impl Fn(&str) -> Option<(EventLog, LogOffset)>,
) -> Vec<&'a str> {
    let mut found: Vec<(Option<usize>, &str)> = Vec::new();
    let mut calls: Option<Vec<(usize, String)>> = None;
    for record in records {
        let Who::Subagent {
            caller,
            call_id,
            nth,
        } = &record.who
        else {
            continue;
        };
        if caller != of {
            continue;
        }
        let calls = calls.get_or_insert_with(|| log_of(of).map_or_else(Vec::new, own_calls));
        let call = call_id.as_ref().and_then(|call_id| {
            let mut of_id = calls.iter().filter(|(_, id)| id == call_id);
            of_id.nth(*nth).map(|(at, _)| *at)
        });
        found.push((call, &record.id));
    }
    found.sort_by_key(|(call, _)| (call.is_none(), *call));
    found.into_iter().map(|(_, id)| id).collect()
}

/// The calls among a session's own events, with their places.
fn own_calls((log, own): (EventLog, LogOffset)) -> Vec<(usize, String)> {
    let events = log.events_from(own).enumerate();
    let calls = events.filter_map(|(at, event)| match event.body() {
        Body::ToolCall(_, call) => Some((at, call.id.to_string())),
        _ => None,
    });
    calls.collect()
}

#[cfg(test)]
mod tests {
    use offshoot_session::EventDraft;
    use serde_json::json;

    use super::*;

    /// A log of calls with these ids.
    fn log(calls: &[&str]) -> EventLog {
        let mut log = EventLog::new();
        for id in calls {
            let call =
                json!({"turn": 1, "step": 1, "callId": id, "name": "delegate", "arguments": "{}"});
            let draft = EventDraft::log_only(EventKind::ToolCall, &call).unwrap();
            log.push(draft.dated(log.end().seq(), 0).unwrap()).unwrap();
        }
        log
    }

    fn subagent(id: &str, caller: &str, call_id: Option<&str>, nth: usize) -> Record {
        Record {
            id: id.to_owned(),
            who: Who::Subagent {
                caller: caller.to_owned(),
                call_id: call_id.map(str::to_owned),
                nth,
            },
        }
    }

    fn named(id: &str, name: &str) -> Record {
        let who = Who::Named(name.to_owned());
        Record {
            id: id.to_owned(),
            who,
        }
    }

    fn told(records: &[Record], own_from: u64) -> Vec<(String, String)> {
        let names = names(records, |id| {
            let log = match id {
                "m" => log(&["a", "x", "b", "a"]),
                "b-1" => log(&["a"]),
                _ => return None,
            };
            Some((log, LogOffset::new(own_from)))
        });
        let names = names.into_iter();
        names
            .map(|(id, name)| (id.to_string(), name.to_string()))
            .collect()
    }

    fn pairs(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
        let pairs = pairs.iter();
        pairs
            .map(|(id, name)| ((*id).to_owned(), (*name).to_owned()))
            .collect()
    }

    #[test]
    fn subagents_are_numbered_by_their_calls_and_not_by_when_they_came() {
        let records = [
            named("m", "main"),
            subagent("b-1", "m", Some("b"), 0),
            subagent("n-1", "m", None, 0),
            subagent("a-2", "m", Some("a"), 1),
            subagent("a-1", "m", Some("a"), 0),
            subagent("g-1", "b-1", Some("a"), 0),
            named("f", "branch"),
        ];
        assert_eq!(
            told(&records, 0),
            pairs(&[
                ("m", "main"),
                ("f", "branch"),
                ("a-1", "main.1"),
                ("b-1", "main.2"),
                ("a-2", "main.3"),
                ("n-1", "main.4"),
                ("g-1", "main.2.1"),
            ])
        );
    }

    #[test]
    fn calls_that_were_inherited_count_for_nobody() {
        let records = [
            named("m", "main"),
            subagent("b-1", "m", Some("b"), 0),
            subagent("a-1", "m", Some("a"), 0),
        ];
        assert_eq!(
            told(&records, 1),
            pairs(&[("m", "main"), ("b-1", "main.1"), ("a-1", "main.2")])
        );
    }
}
