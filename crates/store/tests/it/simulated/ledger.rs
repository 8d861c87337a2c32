//! What a run was told by the store: what may be there afterwards, and what must.

use std::collections::BTreeMap;

use offshoot_session::{EventLog, Seq, StepRef};
use offshoot_store::{AttemptStart, Settle as _};

use crate::journal::{Texts, attempt};

/// Where a session has to be.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) enum Place {
    /// Where it was created.
    #[default]
    Here,
    /// There or in the trash, whole in either case: it is being moved.
    Moving,
    /// In the trash.
    Trash,
    /// Whole in the trash, or nowhere: the trash is being emptied.
    Going,
    /// Nowhere.
    Gone,
}

impl Place {
    /// Whether a session may be found like this.
    pub(crate) fn allows(self, here: bool, in_trash: bool) -> bool {
        match self {
            Self::Here => here && !in_trash,
            Self::Moving => here != in_trash,
            Self::Trash => !here && in_trash,
            Self::Going => !here,
            Self::Gone => !here && !in_trash,
        }
    }

    /// The place that prints itself like this.
    pub(crate) fn named(name: &str) -> Option<Self> {
        let all = [
            Self::Here,
            Self::Moving,
            Self::Trash,
            Self::Going,
            Self::Gone,
        ];
        all.into_iter().find(|place| format!("{place:?}") == name)
    }
}

/// An answer that no event has settled yet.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Stream {
    pub(crate) turn: u64,
    pub(crate) step: u64,
    /// The lines that may be there, in order.
    pub(crate) tried: Vec<&'static str>,
    /// How many of them the store has said it has.
    pub(crate) acked: usize,
}

impl Stream {
    pub(crate) fn start(&self) -> AttemptStart {
        let (turn, step) = (self.turn, self.step);
        AttemptStart {
            at: StepRef { turn, step },
            ..attempt()
        }
    }

    /// Whether a row is what some lines amount to, all acknowledged ones among them.
    fn settles_as(&self, row: &str, seq: usize) -> bool {
        let seq = Seq::new(seq as u64);
        (self.acked.max(1)..=self.tried.len()).any(|count| {
            let settled = Texts.settle(&self.start(), &self.tried[..count], &EventLog::new());
            let settled = settled.unwrap().unwrap();
            let event = settled.draft.dated(seq, settled.time).unwrap();
            event.text() == row
        })
    }
}

/// What is known about one session.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Known {
    /// Whether the store has said that it exists.
    pub(crate) acknowledged: bool,
    /// The rows that the store has said it has.
    pub(crate) acked: Vec<String>,
    /// The rows that may be there: those, and the batch that was being written last.
    pub(crate) tried: Vec<String>,
    /// The answer that was coming in.
    pub(crate) stream: Option<Stream>,
    pub(crate) place: Place,
}

impl Known {
    /// Why a session of these rows cannot be what the store has acknowledged.
    pub(crate) fn fault(&self, rows: &[String]) -> Option<&'static str> {
        let Some(behind) = rows.strip_prefix(&*self.acked) else {
            return Some("an acknowledged row is lost");
        };
        let batch = &self.tried[self.acked.len()..];
        let same = behind.iter().zip(batch).take_while(|(a, b)| a == b).count();
        // The event that ends an attempt stands instead of its lines.
        let stream = match batch[..same].iter().any(|row| ends_attempt(row)) {
            true => None,
            false => self.stream.as_ref(),
        };
        match (&behind[same..], stream) {
            ([], Some(stream)) if stream.acked > 0 => Some("an acknowledged line is lost"),
            ([], _) => None,
            ([row], Some(stream)) => match stream.settles_as(row, self.acked.len() + same) {
                true => None,
                false => Some("the last row is not what was streamed"),
            },
            _ => Some("there is a row that nobody wrote"),
        }
    }
}

pub(crate) fn ends_attempt(row: &str) -> bool {
    row.starts_with(r#"{"type":"assistant/"#)
}

/// What is known about all sessions, by id.
pub(crate) type Ledger = BTreeMap<String, Known>;
