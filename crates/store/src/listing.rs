//! Lists of sessions: which ones, in which order, page by page.
//!
//! A page ends with a cursor, which names the place in the order behind its last row, not a count of rows. So it stays
//! valid whatever happens to the sessions meanwhile: each one that is not touched comes exactly once. One that is written
//! to between two pages moves to the front, as everywhere the newest comes first.

use std::cmp::{Ordering, Reverse};
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};

use offshoot_session::{Origin, SessionHeader, SessionId};
use serde::{Deserialize, Serialize};

use crate::StoreError;
use crate::index::checksum;
use crate::summary::{Fault, Summary};
use crate::survey::Source;

/// Which sessions, and how many of them. The default is all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Query {
    /// At most so many rows. Without it there is one page.
    pub limit: Option<NonZeroUsize>,
    /// [`Page::next`] of the page before.
    pub cursor: Option<String>,
    /// Only those that work there.
    pub cwd: Option<Within>,
    /// Only those that have this text in title, id or working directory, in capitals or not.
    pub text: Option<String>,
    /// Only those of one of these; any if there is none.
    pub statuses: Vec<Status>,
    /// Only those that were forked from, or delegated by, this session.
    pub parent: Option<SessionId>,
    /// Whether sessions are left out that other sessions have delegated work to. One whose header cannot be read is none of
    /// them.
    pub without_subagents: bool,
    /// When the list is asked for, in ms since the epoch. A file that has changed less than two seconds before may change
    /// again without showing it, so what is read of it is not remembered; with 0, the default, nothing is.
    pub now: i64,
}

/// A place that sessions work in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Within {
    /// This very directory.
    Exactly(String),
    /// This directory, or one below it.
    Below(String),
}

/// A part of a list.
#[derive(Debug)]
pub struct Page {
    /// The sessions, the last changed one first.
    pub rows: Vec<Listed>,
    /// The cursor of the page behind this one; `None` if this is the last.
    pub next: Option<String>,
    /// How many sessions the query fits, on all pages.
    pub matching: usize,
}

/// A page whose bodies were read, as far as a budget went.
#[derive(Debug)]
pub struct Filled {
    /// The page.
    pub page: Page,
    /// How many sessions were not read although the page may depend on it: shown ones, and with a filter that needs the
    /// body, those that might have fitted.
    pub unread: usize,
}

/// One session in a list.
#[derive(Debug)]
pub struct Listed {
    /// The id: of the header, or what the directory's name says where the header cannot be read.
    pub id: SessionId,
    /// The file, or the directory that cannot be looked into.
    pub path: PathBuf,
    /// When it last changed, in ms since the epoch.
    pub modified: i64,
    /// Its size in bytes, as far as it is known.
    pub size: u64,
    /// The header, or why there is none to show.
    pub header: Result<SessionHeader, StoreError>,
    /// What its events say, or why they cannot be read; `None` while nobody has read them in this revision.
    pub body: Option<Result<Summary, Fault>>,
    /// Where it was found, in which revisions. Other backends have nothing here.
    pub(crate) source: Option<Box<Source>>,
}

/// What a list can say about the state of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Status {
    /// Everything is as it should be.
    Ok,
    /// Its last turn has no end: it is running, or a crash has left it, and then opening the session closes it.
    Open,
    /// A crash has left a tail; opening the session repairs it.
    Torn,
    /// Something that was committed is damaged.
    Damaged,
    /// Intact, but for another version of the program.
    Unsupported,
    /// Could not be read at all.
    Unreadable,
    /// Its events have not been read since the file has changed.
    Unknown,
}

impl Status {
    /// The name, in small letters.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Open => "open",
            Self::Torn => "torn",
            Self::Damaged => "damaged",
            Self::Unsupported => "unsupported",
            Self::Unreadable => "unreadable",
            Self::Unknown => "unknown",
        }
    }

    /// What an error says about the file that it is about.
    #[must_use]
    pub const fn of(error: &StoreError) -> Self {
        match error {
            StoreError::Format { source, .. } if source.is_unsupported() => Self::Unsupported,
            StoreError::Io { .. }
            | StoreError::NotFound { .. }
            | StoreError::InvalidName { .. } => Self::Unreadable,
            _ => Self::Damaged,
        }
    }
}

impl Listed {
    /// A session of which only the header is known, or why it is not.
    #[must_use]
    pub fn new(
        id: SessionId,
        path: PathBuf,
        modified: i64,
        header: Result<SessionHeader, StoreError>,
    ) -> Self {
        Self {
            id,
            path,
            modified,
            size: 0,
            header,
            body: None,
            source: None,
        }
    }

    /// Its state, as far as it is known.
    #[must_use]
    pub fn status(&self) -> Status {
        match (&self.header, &self.body) {
            (Err(error), _) => Status::of(error),
            (Ok(_), None) => Status::Unknown,
            (Ok(_), Some(Ok(summary))) => summary.status(),
            (Ok(_), Some(Err(fault))) => fault.status,
        }
    }

    /// What its events say, if they are known and can be read.
    #[must_use]
    pub fn summary(&self) -> Option<&Summary> {
        self.body.as_ref()?.as_ref().ok()
    }

    /// What lists are ordered by: when the file changed, or the session was created if that is later (the clock of a file
    /// system lags a little behind the one that wrote the header). In ms since the epoch. It does not depend on the body,
    /// so reading that moves no row.
    #[must_use]
    pub fn activity(&self) -> i64 {
        let created = self.header.as_ref().map_or(0, |header| header.created_at);
        self.modified
            .max(i64::try_from(created).unwrap_or(i64::MAX))
    }

    /// Whether title, id or working directory have this text, which is in small letters.
    fn has(&self, cwd: Option<&str>, text: &str) -> bool {
        let title = self.summary().and_then(|summary| summary.title.as_deref());
        [title, cwd, Some(self.id.as_str())]
            .into_iter()
            .flatten()
            .any(|said| said.to_lowercase().contains(text))
    }
}

impl Page {
    /// The page of a list that a query asks for: for backends that hold all rows in hand, in any order.
    ///
    /// # Errors
    /// A cursor that is none.
    pub fn of(rows: Vec<Listed>, query: &Query) -> Result<Self, StoreError> {
        let after = query.cursor.as_deref().map(Cursor::parse).transpose()?;
        let mut rows = rows;
        query.keep(&mut rows);
        let matching = rows.len();
        if let Some(after) = &after {
            rows.retain(|row| after.is_ahead_of(row));
        }
        let limit = query.limit.map_or(usize::MAX, NonZeroUsize::get);
        let has_more = rows.len() > limit;
        if has_more {
            // Only what is shown has to be in order.
            rows.select_nth_unstable_by(limit - 1, in_order);
            rows.truncate(limit);
        }
        rows.sort_unstable_by(in_order);
        let last = rows.last().filter(|_| has_more);
        Ok(Self {
            next: last.map(Cursor::behind),
            rows,
            matching,
        })
    }
}

impl Query {
    /// The same query without what only bodies can answer, and without pages.
    pub(crate) fn of_headers(&self) -> Self {
        Self {
            limit: None,
            cursor: None,
            text: None,
            statuses: Vec::new(),
            ..self.clone()
        }
    }

    /// Whether only the body of a session can say if it fits.
    pub(crate) fn needs_bodies(&self) -> bool {
        self.text.is_some() || !self.statuses.is_empty()
    }

    fn keep(&self, rows: &mut Vec<Listed>) {
        let text = self.text.as_ref().map(|text| text.to_lowercase());
        rows.retain(|row| {
            let header = row.header.as_ref().ok();
            let cwd = header.and_then(|header| header.cwd.as_deref());
            let parent = header.and_then(|header| header.parent.as_ref());
            let within = |within: &Within| cwd.is_some_and(|cwd| within.holds(cwd));
            self.cwd.as_ref().is_none_or(within)
                && (self.parent.is_none() || self.parent.as_ref() == parent)
                && !(self.without_subagents && header.is_some_and(is_subagent))
                && (self.statuses.is_empty() || self.statuses.contains(&row.status()))
                && text.as_ref().is_none_or(|text| row.has(cwd, text))
        });
    }
}

impl Within {
    fn holds(&self, cwd: &str) -> bool {
        let is_separator = |c: char| c == '/' || c == '\\';
        let bare = |dir| str::trim_end_matches(dir, is_separator);
        match self {
            Self::Exactly(dir) => bare(cwd) == bare(dir),
            Self::Below(dir) => bare(cwd)
                .strip_prefix(bare(dir))
                .is_some_and(|rest| rest.is_empty() || rest.starts_with(is_separator)),
        }
    }
}

fn is_subagent(header: &SessionHeader) -> bool {
    header.origin == Some(Origin::Subagent)
}

/// The order of a list: the last changed first, then by id; two files of one id in an order that a cursor can name.
fn in_order(a: &Listed, b: &Listed) -> Ordering {
    (Reverse(a.activity()), &a.id)
        .cmp(&(Reverse(b.activity()), &b.id))
        .then_with(|| fingerprint(&a.path).cmp(&fingerprint(&b.path)))
}

/// The place behind a row, as text: `activity.fingerprint.id`, the id with `%XX` for each byte that is not plain.
#[derive(Debug)]
struct Cursor {
    activity: i64,
    fingerprint: u64,
    id: SessionId,
}

impl Cursor {
    fn behind(row: &Listed) -> String {
        let mut text = format!("{}.{:016x}.", row.activity(), fingerprint(&row.path));
        for byte in row.id.as_str().bytes() {
            match byte {
                b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' => text.push(byte.into()),
                _ => text.push_str(&format!("%{byte:02X}")),
            }
        }
        text
    }

    fn parse(text: &str) -> Result<Self, StoreError> {
        let parts = || {
            let (activity, rest) = text.split_once('.')?;
            let (fingerprint, id) = rest.split_once('.')?;
            Some(Self {
                activity: activity.parse().ok()?,
                fingerprint: u64::from_str_radix(fingerprint, 16).ok()?,
                id: SessionId::new(plain(id)?),
            })
        };
        parts().ok_or_else(|| StoreError::InvalidCursor {
            cursor: text.to_owned(),
        })
    }

    fn is_ahead_of(&self, row: &Listed) -> bool {
        (Reverse(self.activity), &self.id)
            .cmp(&(Reverse(row.activity()), &row.id))
            .then_with(|| self.fingerprint.cmp(&fingerprint(&row.path)))
            .is_lt()
    }
}

/// The text that an id has in a cursor, back as it was.
fn plain(encoded: &str) -> Option<String> {
    let mut parts = encoded.split('%');
    let mut bytes = parts.next()?.as_bytes().to_vec();
    for part in parts {
        bytes.push(u8::from_str_radix(part.get(..2)?, 16).ok()?);
        bytes.extend(&part.as_bytes()[2..]);
    }
    String::from_utf8(bytes).ok()
}

fn fingerprint(path: &Path) -> u64 {
    checksum(path.as_os_str().as_encoded_bytes())
}
