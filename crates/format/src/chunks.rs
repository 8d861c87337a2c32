//! Packed runs of model deltas: how V0 and V1 store them in rows of their own, and how V2 and later embed them in the
//! event that the stream became (`reference/persistence.md` §3.7, §3.8).
//!
//! A run is one item on its way through the migrations; its members are events of their own only for the count of seqs.

mod pack;
mod stream;
#[cfg(test)]
mod tests;

use std::borrow::Cow;

use offshoot_session::{MAX_SAFE_INTEGER, Object, StepRef};
use serde::de::IgnoredAny;
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

use crate::Place;
use crate::codec::RowFault;
use crate::header::plain;
use crate::json::{Node, quote, string_end};

pub use pack::pack_chunk_rows;
pub(crate) use stream::Stream;

/// Consecutive deltas of one block of one model attempt, as one row of V0 or V1 holds them.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ChunkRun {
    pub(crate) place: Place,
    /// The seq of the first member; the others follow without a gap.
    pub(crate) first: u64,
    pub(crate) at: StepRef,
    pub(crate) run: DeltaRun,
}

/// The deltas alone. The texts stay JSON.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct DeltaRun {
    pub(crate) kind: DeltaKind,
    /// The block that the deltas belong to.
    pub(crate) index: u64,
    /// When the first member came, ms since the epoch.
    pub(crate) time: i64,
    /// When the last member came: `time` and all of `dt`.
    pub(crate) last: i64,
    /// From each member to the next, in ms; one less than there are members. May be negative.
    pub(crate) dt: Vec<i64>,
    /// The members' strings as JSON texts, joined by commas.
    pub(crate) parts: String,
}

/// What the deltas add to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum DeltaKind {
    Text,
    Reasoning,
    /// Both members as JSON texts, the same for the same string.
    ToolCall {
        id: Box<str>,
        name: Option<Box<str>>,
    },
}

impl DeltaKind {
    /// The `type` of a row or record of such deltas.
    pub(crate) const fn row_type(&self) -> &'static str {
        match self {
            Self::Text => "text-chunks",
            Self::Reasoning => "reasoning-chunks",
            Self::ToolCall { .. } => "tool-call-chunks",
        }
    }

    /// The `type` of the chunk that one such delta is.
    pub(crate) const fn chunk_type(&self) -> &'static str {
        match self {
            Self::Text => "text-delta",
            Self::Reasoning => "reasoning-delta",
            Self::ToolCall { .. } => "tool-call-delta",
        }
    }

    /// The member that holds the strings.
    pub(crate) const fn parts_member(&self) -> &'static str {
        match self {
            Self::Text | Self::Reasoning => "texts",
            Self::ToolCall { .. } => "args",
        }
    }

    /// The member that holds the string of one delta.
    pub(crate) const fn part_member(&self) -> &'static str {
        match self {
            Self::Text | Self::Reasoning => "text",
            Self::ToolCall { .. } => "argumentsDelta",
        }
    }

    /// Whether the deltas are of a call without an id, or with a name that is empty. The streams of V2 hold no runs of such.
    fn is_nameless(&self) -> bool {
        match self {
            Self::ToolCall { id, name } => &**id == r#""""# || name.as_deref() == Some(r#""""#),
            Self::Text | Self::Reasoning => false,
        }
    }

    /// The members that tell calls apart, each with a comma ahead of it.
    fn render_call(&self, out: &mut String) {
        if let Self::ToolCall { id, name } = self {
            out.push_str(r#","id":"#);
            out.push_str(id);
            if let Some(name) = name {
                out.push_str(r#","name":"#);
                out.push_str(name);
            }
        }
    }
}

impl DeltaRun {
    /// How many deltas there are: at least one.
    pub(crate) fn len(&self) -> u64 {
        self.dt.len() as u64 + 1
    }

    /// Reads a chunk that is one delta and nothing else; `None` for every other chunk.
    pub(crate) fn of_chunk(chunk: Node<'_>, time: i64) -> Option<Self> {
        let (mut kind, mut index, mut id, mut name, mut text, mut arguments) = Default::default();
        for (key, value) in chunk.members()? {
            let slot: &mut Option<Node<'_>> = match key {
                r#""type""# => &mut kind,
                r#""index""# => &mut index,
                r#""id""# => &mut id,
                r#""name""# => &mut name,
                r#""text""# => &mut text,
                r#""argumentsDelta""# => &mut arguments,
                _ => return None,
            };
            if slot.replace(value).is_some() {
                return None;
            }
        }
        let (kind, part) = match (&*kind?.text()?, id, name, text, arguments) {
            ("text-delta", None, None, Some(text), None) => (DeltaKind::Text, text),
            ("reasoning-delta", None, None, Some(text), None) => (DeltaKind::Reasoning, text),
            ("tool-call-delta", Some(id), name, None, Some(arguments)) => {
                let id = name_text(id.json())?;
                let name = match name {
                    None => None,
                    Some(name) => Some(name_text(name.json())?),
                };
                (DeltaKind::ToolCall { id, name }, arguments)
            }
            _ => return None,
        };
        part.is_string().then_some(Self {
            kind,
            index: index?.count()?,
            time,
            last: time,
            dt: Vec::new(),
            parts: part.json().to_owned(),
        })
    }

    /// The deltas one by one, each with its time and its string as JSON text.
    pub(crate) fn members(&self) -> impl Iterator<Item = (i64, &str)> {
        let mut rest = &*self.parts;
        let mut time = self.time;
        (0..=self.dt.len()).map(move |at| {
            if at > 0 {
                time += self.dt[at - 1];
                rest = &rest[1..];
            }
            let (part, behind) = rest.split_at(string_end(rest));
            rest = behind;
            (time, part)
        })
    }

    /// One delta as the chunk that the model's stream had.
    pub(crate) fn chunk(&self, part: &str) -> String {
        let mut chunk = format!(
            r#"{{"type":"{}","index":{}"#,
            self.kind.chunk_type(),
            self.index
        );
        self.kind.render_call(&mut chunk);
        chunk.push_str(&format!(r#","{}":{part}}}"#, self.kind.part_member()));
        chunk
    }

    /// Takes `next` into this run, or gives it back: another block, another call, or times too far apart for a number that
    /// every reader holds exactly.
    pub(crate) fn join(&mut self, next: Self) -> Option<Self> {
        let gap = next.time - self.last;
        if self.kind != next.kind
            || self.index != next.index
            || gap.unsigned_abs() > MAX_SAFE_INTEGER
        {
            return Some(next);
        }
        self.dt.push(gap);
        self.dt.extend(next.dt);
        self.last = next.last;
        self.parts.push(',');
        self.parts.push_str(&next.parts);
        None
    }

    /// Adds `"index":…` and what follows it, in the writers' order.
    fn render(&self, out: &mut String) {
        out.push_str(&format!(r#""index":{},"dt":["#, self.index));
        for (at, gap) in self.dt.iter().enumerate() {
            if at > 0 {
                out.push(',');
            }
            out.push_str(&gap.to_string());
        }
        out.push(']');
        self.kind.render_call(out);
        out.push_str(&format!(r#","{}":["#, self.kind.parts_member()));
        out.push_str(&self.parts);
        out.push(']');
    }
}

impl ChunkRun {
    /// The seq behind the last member.
    pub(crate) fn end(&self) -> u64 {
        self.first + self.run.len()
    }

    /// Reads a packed row; `None` if the row is none.
    pub(crate) fn read(row: &str, place: Place) -> Result<Option<Self>, RowFault> {
        // The type is the first member that writers write; whatever else begins a row is looked at more closely.
        let kind = if let Some(rest) = row.strip_prefix(r#"{"type":""#) {
            Cow::Borrowed(&rest[..rest.find('"').unwrap_or(rest.len())])
        } else {
            match Node::new(row).get("type").and_then(|kind| kind.text()) {
                Some(kind) => kind,
                None => return Ok(None),
            }
        };
        if !matches!(
            &*kind,
            "text-chunks" | "reasoning-chunks" | "tool-call-chunks"
        ) {
            return Ok(None);
        }
        serde_json::from_str(row)
            .map_err(|error| plain(&error))
            .and_then(|Object(row)| Self::parse(row, &kind, place))
            .map(Some)
            .map_err(|reason| RowFault::Structure(format!("not a valid `{kind}` row: {reason}")))
    }

    /// Reads a row that holds one delta as a run of one, in one pass: of these rows a file without packing consists.
    /// `None` for every other row, and for one that is written in another way than all writers do.
    pub(crate) fn read_delta(row: &str, place: Place) -> Option<Self> {
        if !row.starts_with(r#"{"type":"assistant/chunk""#) {
            return None;
        }
        let Object(row): Object<DeltaRow<'_>> = serde_json::from_str(row).ok()?;
        let Object(DeltaData { turn, step, chunk }) = row.data;
        let Object(delta) = chunk;
        let name = match delta.name {
            Some(name) => Some(name_text(name.get())?),
            None => None,
        };
        let id = match delta.id {
            Some(id) => Some(name_text(id.get())?),
            None => None,
        };
        let (kind, part) = match (delta.kind, id, name, delta.text, delta.arguments) {
            ("text-delta", None, None, Some(text), None) => (DeltaKind::Text, text),
            ("reasoning-delta", None, None, Some(text), None) => (DeltaKind::Reasoning, text),
            ("tool-call-delta", Some(id), name, None, Some(arguments)) => {
                (DeltaKind::ToolCall { id, name }, arguments)
            }
            _ => return None,
        };
        let counts = [row.seq, turn, step, delta.index, row.time.unsigned_abs()];
        let part = part.get();
        let sound = part.starts_with('"') && counts.into_iter().all(|n| n <= MAX_SAFE_INTEGER);
        sound.then(|| Self {
            place,
            first: row.seq,
            at: StepRef { turn, step },
            run: DeltaRun {
                kind,
                index: delta.index,
                time: row.time,
                last: row.time,
                dt: Vec::new(),
                parts: part.to_owned(),
            },
        })
    }

    fn parse(row: PackedRow<'_>, kind: &str, place: Place) -> Result<Self, String> {
        let Object(data) = row.data;
        let (kind, parts, other) = match kind {
            "tool-call-chunks" => {
                let id = data.id.ok_or("the member `id` is missing")?;
                let id = name_text(id.get()).ok_or("`id` must be a string")?;
                let name = data.name.map(|name| name_text(name.get()));
                let name = name
                    .map(|name| name.ok_or("`name` must be a string"))
                    .transpose()?;
                let other = [("texts", data.texts), ("texts", None), ("texts", None)];
                (DeltaKind::ToolCall { id, name }, data.args, other)
            }
            kind => {
                let other = [("id", data.id), ("name", data.name), ("args", data.args)];
                let kind = match kind {
                    "text-chunks" => DeltaKind::Text,
                    _ => DeltaKind::Reasoning,
                };
                (kind, data.texts, other)
            }
        };
        if let Some((name, _)) = other.iter().find(|(_, member)| member.is_some()) {
            return Err(format!("unknown member `{name}`"));
        }
        let member = kind.parts_member();
        let parts = parts.ok_or_else(|| format!("the member `{member}` is missing"))?;
        let (count, parts) =
            strings(parts.get()).ok_or_else(|| format!("`{member}` must be a list of strings"))?;
        if count != data.dt.len() + 1 {
            return Err(format!(
                "`dt` has {} members for {count} deltas, expected one less than deltas",
                data.dt.len(),
            ));
        }
        for (name, count) in [
            ("seq0", row.seq0),
            ("turn", data.turn),
            ("step", data.step),
            ("index", data.index),
        ] {
            if count > MAX_SAFE_INTEGER {
                return Err(format!("`{name}` must be a count, found {count}"));
            }
        }
        let safe = |time: i64| (time.unsigned_abs() <= MAX_SAFE_INTEGER).then_some(time);
        let time = safe(row.time0).ok_or("`time0` is beyond ±(2^53 − 1)")?;
        let mut last = time;
        for gap in &data.dt {
            let gap = safe(*gap).ok_or("`dt` has a member beyond ±(2^53 − 1)")?;
            last = safe(last + gap).ok_or("a member's time is beyond ±(2^53 − 1)")?;
        }
        let run = DeltaRun {
            kind,
            index: data.index,
            time,
            last,
            dt: data.dt,
            parts,
        };
        if row.seq0 + run.len() - 1 > MAX_SAFE_INTEGER {
            return Err("a member's seq is beyond 2^53 − 1".into());
        }
        Ok(Self {
            place,
            first: row.seq0,
            at: StepRef {
                turn: data.turn,
                step: data.step,
            },
            run,
        })
    }
}

/// A packed row, read in one go: these rows are most of what a V0 file consists of.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, expecting = "an object")]
struct PackedRow<'a> {
    #[serde(rename = "type")]
    _type: IgnoredAny,
    seq0: u64,
    time0: i64,
    #[serde(borrow)]
    data: Object<PackedData<'a>>,
}

/// A row that holds one delta.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, expecting = "an object")]
struct DeltaRow<'a> {
    #[serde(rename = "type")]
    _type: IgnoredAny,
    seq: u64,
    time: i64,
    #[serde(borrow)]
    data: Object<DeltaData<'a>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, expecting = "an object")]
struct DeltaData<'a> {
    turn: u64,
    step: u64,
    #[serde(borrow)]
    chunk: Object<Delta<'a>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, expecting = "an object")]
struct Delta<'a> {
    #[serde(rename = "type")]
    kind: &'a str,
    index: u64,
    #[serde(borrow, default, deserialize_with = "present")]
    id: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    name: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    text: Option<&'a RawValue>,
    #[serde(
        rename = "argumentsDelta",
        borrow,
        default,
        deserialize_with = "present"
    )]
    arguments: Option<&'a RawValue>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, expecting = "an object")]
struct PackedData<'a> {
    turn: u64,
    step: u64,
    index: u64,
    dt: Vec<i64>,
    #[serde(borrow, default, deserialize_with = "present")]
    id: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    name: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    texts: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    args: Option<&'a RawValue>,
}

/// A member that is there, even if it is null.
fn present<'de, D: Deserializer<'de>>(d: D) -> Result<Option<&'de RawValue>, D::Error> {
    Deserialize::deserialize(d).map(Some)
}

/// The payload of a row that holds one chunk.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, expecting = "an object")]
pub(crate) struct ChunkData<'a> {
    turn: u64,
    step: u64,
    #[serde(borrow)]
    chunk: &'a RawValue,
}

impl<'a> ChunkData<'a> {
    /// Reads the payload of an `assistant/chunk`.
    pub(crate) fn read(data: &'a str) -> Result<Self, String> {
        let data: Self = serde_json::from_str(data)
            .map_err(|error| format!("the payload is no chunk: {}", plain(&error)))?;
        if data.turn.max(data.step) > MAX_SAFE_INTEGER {
            return Err("`turn` and `step` must be counts".into());
        }
        Ok(data)
    }

    pub(crate) fn at(&self) -> StepRef {
        StepRef {
            turn: self.turn,
            step: self.step,
        }
    }

    pub(crate) fn chunk(&self) -> Node<'a> {
        Node::new(self.chunk.get())
    }
}

/// The JSON text of a string, the same for every way to write the string; `None` for what is no string.
fn name_text(json: &str) -> Option<Box<str>> {
    let node = Node::new(json);
    node.is_string().then(|| match node.text() {
        Some(Cow::Owned(text)) => quote(&text).into(),
        // Without escapes, or with half of a surrogate pair.
        _ => node.json().into(),
    })
}

/// How many strings the valid JSON text of a list holds, and their texts joined by commas; `None` if not only strings.
fn strings(list: &str) -> Option<(usize, String)> {
    let inner = list.trim().strip_prefix('[')?.strip_suffix(']')?;
    let mut parts = String::with_capacity(inner.len());
    let mut count = 0;
    let mut rest = inner.trim_ascii();
    while !rest.is_empty() {
        if count > 0 {
            parts.push(',');
            rest = rest.strip_prefix(',')?.trim_ascii_start();
        }
        if !rest.starts_with('"') {
            return None;
        }
        let (part, behind) = rest.split_at(string_end(rest));
        parts.push_str(part);
        rest = behind.trim_ascii_start();
        count += 1;
    }
    Some((count, parts))
}
