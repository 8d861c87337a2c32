//! One event: its exact JSON text beside the view of it that the log's rules read.
//!
//! The text is the truth. Copying, forking and re-writing move it as it is; nothing of a payload is ever serialised
//! again. The typed [`Body`] holds only what folds, closers and checks need. Envelope rules: `reference/persistence.md`
//! §3.1–§3.3; both the row that a file holds and the row that [`EventDraft`] renders go through the same reader.

use std::borrow::Cow;
use std::fmt;
use std::ops::Range;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::body::{Body, StepRef};
use crate::ids::MAX_SAFE_INTEGER;
use crate::json::{plain, read};
use crate::row::Row;
use crate::sources::{decode_sources, encode_sources};
use crate::text::{Part, RowsText};
use crate::{EventKind, Seq};

/// Why a row is not an event of format V4. The text says what was expected and what was found.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RowError {
    /// Not JSON, or not the members an event has.
    #[error("not a valid event row: {0}")]
    Envelope(String),
    /// The members of a known type's payload.
    #[error("`{kind}`: {reason}")]
    Payload {
        /// The event's type.
        kind: String,
        /// What is wrong with it.
        reason: String,
    },
}

/// What an event does to the surface (`reference/persistence.md` §7).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SurfaceOp {
    /// Adds a node at the end.
    Append,
    /// Puts one node where the nodes from `start` to `end`, both included and in surface order, were.
    Replace {
        /// First shadowed node.
        start: Seq,
        /// Last shadowed node.
        end: Seq,
    },
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, expecting = "an object")]
struct ReplaceForm<'a> {
    #[serde(borrow)]
    op: Cow<'a, str>,
    start_seq: u64,
    end_seq: u64,
}

impl SurfaceOp {
    fn parse(text: &str) -> Result<Self, String> {
        if text == r#""append""# {
            return Ok(Self::Append);
        }
        let form: ReplaceForm<'_> = read(text).map_err(|error| {
            format!(r#"`surfaceOp` must be "append" or {{op, startSeq, endSeq}}: {error}"#)
        })?;
        if form.op != "replace" {
            return Err(format!(
                "`surfaceOp.op` must be \"replace\", found {:?}",
                form.op
            ));
        }
        Ok(Self::Replace {
            start: Seq::new(form.start_seq),
            end: Seq::new(form.end_seq),
        })
    }

    fn render(self, out: &mut String) {
        match self {
            Self::Append => out.push_str(r#""append""#),
            Self::Replace { start, end } => {
                out.push_str(&format!(
                    r#"{{"op":"replace","startSeq":{start},"endSeq":{end}}}"#
                ));
            }
        }
    }
}

/// One immutable event of a log.
pub struct Event {
    seq: Seq,
    time: i64,
    kind: EventKind,
    ignorable: bool,
    surface_op: Option<SmallOp>,
    sources: Option<Box<[Seq]>>,
    text: RowsText,
    row: Part,
    data: Part,
    body: Body,
}

/// [`SurfaceOp`] in less space: a log has very many events, and few of them replace anything.
enum SmallOp {
    Append,
    Replace(Box<SurfaceOp>),
}

impl From<SurfaceOp> for SmallOp {
    fn from(op: SurfaceOp) -> Self {
        match op {
            SurfaceOp::Append => Self::Append,
            SurfaceOp::Replace { .. } => Self::Replace(Box::new(op)),
        }
    }
}

impl Event {
    /// Reads one row, without its line feed.
    ///
    /// # Errors
    /// Malformed JSON, a missing, extra, repeated or ill-typed envelope member, or a payload that breaks the core rules
    /// of its type (§5.1). An unknown type is no error here: whether the log may hold it is decided where it is pushed.
    ///
    /// Lone surrogates are kept in everything that is opaque here and in what a model wrote (names and arguments of its
    /// calls); in the ids, kinds and member names that rules compare they are refused.
    pub fn from_row(text: impl Into<Box<str>>) -> Result<Self, RowError> {
        let text = RowsText::from(text);
        Self::from_part(&text, 0..text.as_str().len())
    }

    /// [`Event::from_row`] for a row in a text of several, which the event goes on sharing.
    ///
    /// # Errors
    /// As [`Event::from_row`].
    ///
    /// # Panics
    /// If the text has no such part.
    pub fn from_part(text: &RowsText, part: Range<usize>) -> Result<Self, RowError> {
        let line = &text.as_str()[part];
        if line.contains('\n') {
            return Err(RowError::Envelope("a row is one line".into()));
        }
        let row = match Row::read_ahead(line) {
            Some(row) => row,
            None => Row::read(line).map_err(RowError::Envelope)?,
        };
        let part = |part: &str| {
            let too_long = || RowError::Envelope("the text it is in is too long".into());
            text.part(part).ok_or_else(too_long)
        };
        let (line, data) = (part(line)?, part(row.data)?);
        Self::checked(text.clone(), line, data, row)
    }

    fn checked(text: RowsText, line: Part, data: Part, row: Row<'_>) -> Result<Self, RowError> {
        if row.seq > MAX_SAFE_INTEGER || row.time.unsigned_abs() > MAX_SAFE_INTEGER {
            return Err(RowError::Envelope(
                "`seq` and `time` must be within ±(2^53 − 1)".into(),
            ));
        }
        let (seq, kind) = (Seq::new(row.seq), row.kind);
        let ignorable = match row.ignorable {
            None => false,
            Some("true") => true,
            Some(other) => {
                return Err(RowError::Envelope(format!(
                    "`ignorable` may only be true, found {other}"
                )));
            }
        };
        let payload = |reason: String| RowError::Payload {
            kind: kind.to_string(),
            reason,
        };
        // What an unknown type means by these members is its own business: they stay opaque (§3.1).
        let (surface_op, sources) = if kind.is_known() {
            let op = row.surface_op.map(SurfaceOp::parse).transpose();
            let sources = row.sources.map(|sources| decode_sources(sources, seq));
            let sources = sources.transpose();
            (op.map_err(payload)?, sources.map_err(payload)?)
        } else {
            (None, None)
        };
        if kind.is_known() && kind.is_surface() != surface_op.is_some() {
            return Err(payload(if kind.is_surface() {
                "`surfaceOp` is missing on a message of the surface".into()
            } else {
                "`surfaceOp` stands on an event that is not on the surface".into()
            }));
        }
        if kind.is_known() && !kind.is_surface() && sources.is_some() {
            return Err(payload(
                "`sourceEventSeqs` stands on an event that is not on the surface".into(),
            ));
        }
        let body = match row.body {
            Some(body) => body,
            None => Body::parse(&kind, row.data).map_err(payload)?,
        };
        Ok(Self {
            seq,
            time: row.time,
            kind,
            ignorable,
            surface_op: surface_op.map(SmallOp::from),
            sources,
            text,
            row: line,
            data,
            body,
        })
    }

    /// The event's number.
    #[must_use]
    pub const fn seq(&self) -> Seq {
        self.seq
    }

    /// Milliseconds since the Unix epoch; may be negative.
    #[must_use]
    pub const fn time(&self) -> i64 {
        self.time
    }

    /// The event's type.
    #[must_use]
    pub const fn kind(&self) -> &EventKind {
        &self.kind
    }

    /// Whether a reader that does not know the type may pass over it.
    #[must_use]
    pub const fn ignorable(&self) -> bool {
        self.ignorable
    }

    /// What the event does to the surface; `None` for an event that is only logged.
    #[must_use]
    pub fn surface_op(&self) -> Option<SurfaceOp> {
        self.surface_op.as_ref().map(|op| match op {
            SmallOp::Append => SurfaceOp::Append,
            SmallOp::Replace(op) => **op,
        })
    }

    /// The earlier events that this one cites.
    #[must_use]
    pub fn sources(&self) -> Option<&[Seq]> {
        self.sources.as_deref()
    }

    /// The whole row, exactly as it is stored.
    #[must_use]
    pub fn text(&self) -> &str {
        self.text.get(self.row)
    }

    /// The exact JSON text of `data`.
    #[must_use]
    pub fn data(&self) -> &str {
        self.text.get(self.data)
    }

    /// The exact JSON text of the message that a surface event carries. It is looked up in the payload each time: reading
    /// a log needs it for few events.
    #[must_use]
    pub fn message(&self) -> Option<&str> {
        #[derive(Deserialize)]
        struct Carrier<'a> {
            #[serde(borrow)]
            message: &'a RawValue,
        }
        match self.kind {
            EventKind::UserMessage => Some(self.data()),
            ref kind if kind.is_surface() => {
                let carrier: Carrier<'_> =
                    serde_json::from_str(self.data()).expect("BUG: the payload was read before");
                Some(carrier.message.get())
            }
            _ => None,
        }
    }

    /// The typed view of the payload.
    #[must_use]
    pub const fn body(&self) -> &Body {
        &self.body
    }

    /// The turn and step that the payload names, for the types that name both.
    #[must_use]
    pub const fn step(&self) -> Option<StepRef> {
        self.body.step()
    }

    /// Reads the payload as `T`, for rules that need more of it than [`Body`] holds.
    ///
    /// # Errors
    /// The payload does not have the shape of `T`.
    pub fn parse<'a, T: Deserialize<'a>>(&'a self) -> Result<T, RowError> {
        serde_json::from_str(self.data()).map_err(|error| RowError::Payload {
            kind: self.kind.to_string(),
            reason: plain(&error),
        })
    }
}

impl fmt::Debug for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.text())
    }
}

impl PartialEq for Event {
    /// Two events are equal when they are stored alike.
    fn eq(&self, other: &Self) -> bool {
        self.text() == other.text()
    }
}

impl Eq for Event {}

/// The order of the last two members of a row: live appends and closers differ (§3.1). It carries no meaning, but
/// bytes that others have seen must come out the same again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RowOrder {
    Append,
    Closer,
}

/// An event that is not in a log yet: everything but its number and its time.
#[derive(Clone, Debug)]
pub struct EventDraft {
    kind: EventKind,
    data: Box<RawValue>,
    surface_op: Option<SurfaceOp>,
    sources: Option<Vec<Seq>>,
    ignorable: bool,
}

impl EventDraft {
    /// An event that is only logged.
    ///
    /// # Errors
    /// `data` does not serialise to JSON: a map with keys that are not strings, or a float that is not finite.
    pub fn log_only(kind: EventKind, data: &impl Serialize) -> Result<Self, RowError> {
        let data = serde_json::value::to_raw_value(data).map_err(|error| RowError::Payload {
            kind: kind.to_string(),
            reason: plain(&error),
        })?;
        Ok(Self {
            kind,
            data,
            surface_op: None,
            sources: None,
            ignorable: false,
        })
    }

    /// An event whose message becomes the last node of the surface.
    ///
    /// # Errors
    /// As [`EventDraft::log_only`].
    pub fn message(kind: EventKind, data: &impl Serialize) -> Result<Self, RowError> {
        Ok(Self {
            surface_op: Some(SurfaceOp::Append),
            ..Self::log_only(kind, data)?
        })
    }

    /// Sets what the event does to the surface.
    #[must_use]
    pub fn with_surface_op(mut self, op: SurfaceOp) -> Self {
        self.surface_op = Some(op);
        self
    }

    /// Cites earlier events.
    #[must_use]
    pub fn with_sources(mut self, sources: impl Into<Vec<Seq>>) -> Self {
        self.sources = Some(sources.into());
        self
    }

    /// Lets readers that do not know the type pass over the event.
    #[must_use]
    pub fn with_ignorable(mut self) -> Self {
        self.ignorable = true;
        self
    }

    /// The event's type.
    #[must_use]
    pub const fn kind(&self) -> &EventKind {
        &self.kind
    }

    /// The event with this number and this time, in ms since the epoch. Only a log knows whether it fits.
    ///
    /// # Errors
    /// The payload is not one of its type, or the time is beyond ±(2^53 − 1).
    pub fn dated(self, seq: Seq, time: i64) -> Result<Event, RowError> {
        self.into_event(seq, time, RowOrder::Append)
    }

    /// Numbers and dates the draft and reads it back through the one reader of rows.
    pub(crate) fn into_event(
        self,
        seq: Seq,
        time: i64,
        order: RowOrder,
    ) -> Result<Event, RowError> {
        let mut row = String::with_capacity(self.data.get().len() + 96);
        row.push_str(r#"{"type":"#);
        row.push_str(&json_string(self.kind.as_str()));
        row.push_str(&format!(r#","seq":{seq},"time":{time},"data":"#));
        row.push_str(self.data.get());
        let op = |row: &mut String| {
            if let Some(op) = self.surface_op {
                row.push_str(r#","surfaceOp":"#);
                op.render(row);
            }
        };
        if order == RowOrder::Closer {
            op(&mut row);
        }
        if let Some(sources) = &self.sources {
            row.push_str(r#","sourceEventSeqs":"#);
            encode_sources(sources, &mut row);
        }
        if order == RowOrder::Append {
            op(&mut row);
        }
        if self.ignorable {
            row.push_str(r#","ignorable":true"#);
        }
        row.push('}');
        Event::from_row(row)
    }
}

fn json_string(text: &str) -> String {
    serde_json::to_string(text).expect("BUG: a string always serialises")
}
