//! What a list says about a session that only its events know.

use std::borrow::Cow;

use offshoot_format::{CURRENT_VERSION, StoredSession, TornTail};
use offshoot_session::{EventKind, EventLog, LogOffset, Seq, Session};
use serde::{Deserialize, Serialize};

use crate::StoreError;
use crate::listing::Status;

/// How much of a title is kept, in characters: lists show a line, and an index is read whole.
const MAX_TITLE: usize = 300;

/// A session in a few words. Follows from the events alone, so it may be remembered beside the revision of their file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Summary {
    /// The format version that the file has.
    pub version: u64,
    /// How many events there are.
    pub events: LogOffset,
    /// The number of the last turn that was started, 0 before the first. Counts through forks.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub turns: u64,
    /// The last title that it was given, if that says anything; at most 300 characters of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// The time of the last event, in ms since the epoch; `None` without events.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_activity: Option<i64>,
    /// Of a fork: the last event that it inherited.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cut: Option<Seq>,
    /// Where a fork cuts that names no cut: the last completed turn with its independent tail.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub boundary: Option<Seq>,
    /// Whether it is a side session, in which tools may only look.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub side: bool,
    /// The turn that has no end: it is running, or a crash has left it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub open_turn: Option<u64>,
    /// What a crash has left at the end of the file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub torn: Option<Torn>,
    /// What a person should know about the log, in its order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub findings: Vec<Noticed>,
}

/// The end of a file that a crash left behind, in a few words.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Torn {
    /// The line that cannot be used; 1 is the header.
    pub line: u64,
    /// Why.
    pub reason: String,
}

/// A finding of a log, in a few words.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Noticed {
    /// Its stable name.
    pub code: Cow<'static, str>,
    /// The event that shows it.
    pub seq: Seq,
}

/// Why a file is no session that can be used, in a few words.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fault {
    /// What that makes of it.
    pub status: Status,
    /// The stable code of the error.
    pub code: Cow<'static, str>,
    /// Its text.
    pub reason: String,
}

impl Summary {
    /// What there is to say about a session as it is stored.
    #[must_use]
    pub fn of(stored: &StoredSession) -> Self {
        let cut = stored.inherited.last();
        Self {
            version: stored.version,
            cut: cut.filter(|_| stored.header.is_seeded),
            torn: stored.tail.as_ref().map(Torn::of),
            ..Self::of_log(&stored.log)
        }
    }

    /// What there is to say about a session that is open, once all of it is stored.
    #[must_use]
    pub fn of_session(session: &Session) -> Self {
        let cut = session.inherited_event_count().last();
        Self {
            cut: cut.filter(|_| session.header().is_seeded),
            ..Self::of_log(session.log())
        }
    }

    fn of_log(log: &EventLog) -> Self {
        let found = log.findings().map(|finding| Noticed {
            code: finding.code().into(),
            seq: finding.seq(),
        });
        Self {
            version: CURRENT_VERSION,
            events: log.end(),
            turns: log.last_turn(),
            title: title(log),
            last_activity: log.last().map(|event| event.time()),
            cut: None,
            boundary: log.latest_completed_boundary(),
            side: log.is_side_session(),
            open_turn: log.open_tail().turn(),
            torn: None,
            findings: found.collect(),
        }
    }

    /// What this makes of the session.
    #[must_use]
    pub const fn status(&self) -> Status {
        match (&self.torn, self.open_turn) {
            (Some(_), _) => Status::Torn,
            (None, Some(_)) => Status::Open,
            (None, None) => Status::Ok,
        }
    }
}

impl Torn {
    fn of(tail: &TornTail) -> Self {
        Self {
            line: tail.place.line,
            reason: tail.reason.clone(),
        }
    }
}

impl Fault {
    /// What an error says about the file that it is about.
    #[must_use]
    pub fn of(error: &StoreError) -> Self {
        Self {
            status: Status::of(error),
            code: error.code().into(),
            reason: error.to_string(),
        }
    }
}

fn title(log: &EventLog) -> Option<String> {
    #[derive(Deserialize)]
    struct Titled {
        title: String,
    }
    let titles = log
        .events()
        .filter(|event| *event.kind() == EventKind::SessionTitle);
    let last = titles.last()?.parse::<Titled>().ok()?.title;
    let title: String = last.trim().chars().take(MAX_TITLE).collect();
    Some(title).filter(|title| !title.is_empty())
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it so")]
const fn is_zero(count: &u64) -> bool {
    *count == 0
}
