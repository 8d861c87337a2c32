//! An event of a version before V4, on its way up: the envelope is typed, the payload is its text.
//!
//! The migrations work on records. Only the members that a step changes are written again; every other payload moves
//! through the whole chain as the text that was stored.

use std::borrow::Cow;

use offshoot_session::{MAX_SAFE_INTEGER, Seq, SurfaceOp, decode_sources, encode_sources};

use crate::codec::RowFault;
use crate::json::{Members, Node, quote};
use crate::version::Version;
use crate::{FormatError, Place};

/// One event in the terms of the version that it has reached.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Record {
    /// Where the row stands that it came from, or, for an event that a migration adds, the row that was the reason.
    pub(crate) place: Place,
    pub(crate) kind: Cow<'static, str>,
    pub(crate) seq: u64,
    pub(crate) time: i64,
    /// The JSON text of the payload.
    pub(crate) data: Box<str>,
    /// The payload's `stream`, where a migration has made it: most of what a message holds, and in the way of every look
    /// at the rest.
    pub(crate) stream: Option<Box<str>>,
    pub(crate) surface: Option<SurfaceOp>,
    /// The cited events. Up to V1 an assistant message may cite none.
    pub(crate) sources: Option<Vec<u64>>,
    pub(crate) ignorable: bool,
    /// Members of an unknown event that only its own type understands: `surfaceOp` and `sourceEventSeqs` as text.
    pub(crate) opaque: Option<Box<OpaqueMembers>>,
    /// Whether `surfaceOp` is written ahead of `sourceEventSeqs`, as in the rows of a repair.
    pub(crate) surface_first: bool,
}

/// See [`Record::opaque`].
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct OpaqueMembers {
    pub(crate) surface: Option<Box<str>>,
    pub(crate) sources: Option<Box<str>>,
}

impl Record {
    /// A log-only event that a migration adds, with the place and time of the record that was the reason.
    pub(crate) fn beside(anchor: &Self, kind: &'static str, data: impl Into<Box<str>>) -> Self {
        Self::added(anchor.place, kind, anchor.seq, anchor.time, data)
    }

    /// A log-only event that a migration adds.
    pub(crate) fn added(
        place: Place,
        kind: &'static str,
        seq: u64,
        time: i64,
        data: impl Into<Box<str>>,
    ) -> Self {
        Self {
            place,
            kind: Cow::Borrowed(kind),
            seq,
            time,
            data: data.into(),
            stream: None,
            surface: None,
            sources: None,
            ignorable: false,
            opaque: None,
            surface_first: false,
        }
    }

    pub(crate) fn is(&self, kind: &str) -> bool {
        self.kind == kind
    }

    pub(crate) fn node(&self) -> Node<'_> {
        Node::new(&self.data)
    }

    /// The payload for rewriting.
    ///
    /// # Errors
    /// A payload that is no object.
    pub(crate) fn members(&self) -> Result<Members<'_>, Refusal> {
        Members::of(self.node()).ok_or_else(|| self.malformed("the payload must be an object"))
    }

    /// Gives the record another payload, if there is one.
    pub(crate) fn replace_data(&mut self, data: Option<String>) {
        if let Some(data) = data {
            self.data = data.into();
        }
    }

    /// Gives the record other streams, if there are any: those of [`Record::stream`], or a payload that has them.
    pub(crate) fn replace_streams(&mut self, edited: Option<String>) {
        match (&mut self.stream, edited) {
            (Some(stream), Some(edited)) => *stream = edited.into(),
            (None, edited) => self.replace_data(edited),
            (Some(_), None) => {}
        }
    }

    /// The record cannot be what its version says it is.
    pub(crate) fn malformed(&self, reason: impl Into<String>) -> Refusal {
        Refusal::malformed(self.place, format!("`{}`: {}", self.kind, reason.into()))
    }

    /// The record is whole, but no released program knows how to bring it up.
    pub(crate) fn unsupported(&self, reason: impl Into<String>) -> Refusal {
        Refusal::unsupported(self.place, format!("`{}`: {}", self.kind, reason.into()))
    }

    /// Reads a row of `version`, which is no packed row. Payload rules are the business of the migrations.
    ///
    /// # Errors
    /// What is not the envelope of an event (`reference/persistence.md` §3.1, §3.2).
    pub(crate) fn read(row: &str, version: Version, place: Place) -> Result<Self, RowFault> {
        let structure =
            |reason: String| RowFault::Structure(format!("not a valid event row: {reason}"));
        let node = Node::checked(row).map_err(|error| structure(crate::header::plain(&error)))?;
        let members = node
            .members()
            .ok_or_else(|| structure("expected an object".into()))?;
        let mut envelope = Envelope::default();
        for (key, value) in members {
            let slot = match key {
                r#""type""# => &mut envelope.kind,
                r#""seq""# => &mut envelope.seq,
                r#""time""# => &mut envelope.time,
                r#""data""# => &mut envelope.data,
                r#""surfaceOp""# => {
                    envelope.surface_first = envelope.sources.is_none();
                    &mut envelope.surface
                }
                r#""sourceEventSeqs""# => &mut envelope.sources,
                r#""ignorable""# => &mut envelope.ignorable,
                _ => return Err(structure(format!("unknown member {key}"))),
            };
            if slot.replace(value).is_some() {
                return Err(structure(format!("the member {key} is there twice")));
            }
        }
        envelope.record(version, place).map_err(structure)
    }

    /// The row as `version` writes it, without its line feed.
    pub(crate) fn render(&self, version: Version) -> String {
        let stream = self.stream.as_ref().map_or(0, |stream| stream.len());
        let mut row = String::with_capacity(self.data.len() + stream + 96);
        row.push_str(r#"{"type":"#);
        row.push_str(&quote(&self.kind));
        row.push_str(&format!(
            r#","seq":{},"time":{},"data":"#,
            self.seq, self.time
        ));
        self.render_data(&mut row);
        if self.surface_first {
            self.render_surface(version, &mut row);
        }
        self.render_sources(&mut row);
        if !self.surface_first {
            self.render_surface(version, &mut row);
        }
        if self.ignorable {
            row.push_str(r#","ignorable":true"#);
        }
        row.push('}');
        row
    }

    fn render_data(&self, row: &mut String) {
        let open = self.stream.as_deref().zip(self.data.strip_suffix('}'));
        match open {
            Some((stream, data)) => {
                row.push_str(data);
                row.push_str(if data == "{" {
                    r#""stream":"#
                } else {
                    r#","stream":"#
                });
                row.push_str(stream);
                row.push('}');
            }
            None => row.push_str(&self.data),
        }
    }

    fn render_surface(&self, version: Version, row: &mut String) {
        let opaque = self
            .opaque
            .as_ref()
            .and_then(|opaque| opaque.surface.as_deref());
        match self.surface {
            Some(SurfaceOp::Append) => row.push_str(r#","surfaceOp":"append""#),
            Some(SurfaceOp::Replace { start, end }) => {
                let [first, last] = version.replace_members();
                row.push_str(&format!(
                    r#","surfaceOp":{{"op":"replace","{first}":{start},"{last}":{end}}}"#
                ));
            }
            None => {
                if let Some(text) = opaque {
                    row.push_str(r#","surfaceOp":"#);
                    row.push_str(text);
                }
            }
        }
    }

    fn render_sources(&self, row: &mut String) {
        let opaque = self
            .opaque
            .as_ref()
            .and_then(|opaque| opaque.sources.as_deref());
        if let Some(sources) = &self.sources {
            row.push_str(r#","sourceEventSeqs":"#);
            let seqs: Vec<Seq> = sources.iter().copied().map(Seq::new).collect();
            encode_sources(&seqs, row);
        } else if let Some(text) = opaque {
            row.push_str(r#","sourceEventSeqs":"#);
            row.push_str(text);
        }
    }
}

#[derive(Default)]
struct Envelope<'a> {
    kind: Option<Node<'a>>,
    seq: Option<Node<'a>>,
    time: Option<Node<'a>>,
    data: Option<Node<'a>>,
    surface: Option<Node<'a>>,
    sources: Option<Node<'a>>,
    ignorable: Option<Node<'a>>,
    surface_first: bool,
}

impl Envelope<'_> {
    fn record(self, version: Version, place: Place) -> Result<Record, String> {
        let missing = |member: &str| format!("the member `{member}` is missing");
        let kind = self.kind.ok_or_else(|| missing("type"))?;
        let kind = kind.text().ok_or("`type` must be a string")?;
        let seq = self.seq.ok_or_else(|| missing("seq"))?;
        let seq = seq
            .count()
            .ok_or_else(|| format!("`seq` must be a count, found {}", seq.json()))?;
        let time = self.time.ok_or_else(|| missing("time"))?;
        let time = safe_integer(time).ok_or_else(|| {
            format!(
                "`time` must be an integer within ±(2^53 − 1), found {}",
                time.json()
            )
        })?;
        let data = self.data.ok_or_else(|| missing("data"))?;
        let ignorable = match self.ignorable.map(|node| node.json()) {
            None => false,
            Some("true") => true,
            Some(other) => return Err(format!("`ignorable` may only be true, found {other}")),
        };
        let kind = version.name_of(&kind);
        let mut record = Record {
            place,
            seq,
            time,
            data: data.json().into(),
            stream: None,
            surface: None,
            sources: None,
            ignorable,
            opaque: None,
            surface_first: self.surface_first && self.surface.is_some() && self.sources.is_some(),
            kind,
        };
        if !version.knows(&record.kind) {
            let text = |node: Option<Node<'_>>| node.map(|node| node.json().into());
            let (surface, sources) = (text(self.surface), text(self.sources));
            if surface.is_some() || sources.is_some() {
                record.opaque = Some(Box::new(OpaqueMembers { surface, sources }));
            }
            return Ok(record);
        }
        record.surface = self
            .surface
            .map(|node| read_surface(node, version))
            .transpose()?;
        record.sources = self
            .sources
            .map(|node| read_sources(node, seq, version))
            .transpose()?;
        record.check_surface(version)?;
        Ok(record)
    }
}

impl Record {
    /// Which events have a place on the surface, and with it the members for that, is fixed per version (§7).
    fn check_surface(&self, version: Version) -> Result<(), String> {
        let is_surface = version.is_surface(&self.kind);
        match (&self.surface, is_surface) {
            (None, true) => Err(format!("`surfaceOp` is missing on `{}`", self.kind)),
            (Some(_), false) => Err(format!(
                "`surfaceOp` stands on `{}`, which is not on the surface",
                self.kind
            )),
            _ if !is_surface && self.sources.is_some() => Err(format!(
                "`sourceEventSeqs` stands on `{}`, which is not on the surface",
                self.kind
            )),
            _ => Ok(()),
        }
    }
}

fn safe_integer(node: Node<'_>) -> Option<i64> {
    let text = node.json();
    let digits = text.strip_prefix('-').unwrap_or(text);
    let plain = digits.bytes().all(|byte| byte.is_ascii_digit()) && text != "-0";
    let time = text.parse::<i64>().ok().filter(|_| plain)?;
    (time.unsigned_abs() <= MAX_SAFE_INTEGER).then_some(time)
}

fn read_surface(node: Node<'_>, version: Version) -> Result<SurfaceOp, String> {
    if node.is("append") {
        return Ok(SurfaceOp::Append);
    }
    let [first, last] = version.replace_members();
    let bad = || {
        format!(
            r#"`surfaceOp` must be "append" or {{op: "replace", {first}, {last}}}, found {}"#,
            node.json()
        )
    };
    let members = node.members().ok_or_else(bad)?;
    let count = |name: &str| node.get(name).and_then(|node| node.count()).map(Seq::new);
    match (count(first), count(last)) {
        (Some(start), Some(end)) if members.len() == 3 && node.names("op", "replace") => {
            Ok(SurfaceOp::Replace { start, end })
        }
        _ => Err(bad()),
    }
}

fn read_sources(node: Node<'_>, seq: u64, version: Version) -> Result<Vec<u64>, String> {
    if version <= Version::V1 && node.is_array() && node.items().is_empty() {
        return Ok(Vec::new());
    }
    let seqs = decode_sources(node.json(), Seq::new(seq))?;
    Ok(seqs.iter().map(|seq| seq.get()).collect())
}

/// Why a log cannot be brought up to V4.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Refusal {
    pub(crate) place: Option<Place>,
    pub(crate) reason: String,
    /// Damage, in contrast to an intact log that no migration covers.
    pub(crate) malformed: bool,
}

impl Refusal {
    pub(crate) fn malformed(place: impl Into<Option<Place>>, reason: impl Into<String>) -> Self {
        Self {
            place: place.into(),
            reason: reason.into(),
            malformed: true,
        }
    }

    pub(crate) fn unsupported(place: impl Into<Option<Place>>, reason: impl Into<String>) -> Self {
        Self {
            place: place.into(),
            reason: reason.into(),
            malformed: false,
        }
    }

    pub(crate) fn into_error(self, version: Version) -> FormatError {
        match (self.malformed, self.place) {
            (true, Some(place)) => FormatError::Damaged {
                place,
                reason: self.reason,
            },
            (true, None) => FormatError::Inconsistent {
                reason: self.reason,
            },
            (false, place) => FormatError::UnsupportedMigration {
                version: version.number(),
                place,
                reason: self.reason,
            },
        }
    }
}
