//! Packed runs of model deltas: how V0 and V1 store them in rows of their own, and how V2 and later embed them in the
//! event that the stream became (`reference/persistence.md` §3.7, §3.8).
//!
//! A run is one item on its way through the migrations; its members are events of their own only for the count of seqs.

use offshoot_session::{MAX_SAFE_INTEGER, StepRef};

use crate::Place;
use crate::codec::RowFault;
use crate::json::Node;

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
    /// Both members as JSON texts.
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

    /// The member that holds the strings.
    pub(crate) const fn parts_member(&self) -> &'static str {
        match self {
            Self::Text | Self::Reasoning => "texts",
            Self::ToolCall { .. } => "args",
        }
    }
}

impl DeltaRun {
    /// How many deltas there are: at least one.
    pub(crate) fn len(&self) -> u64 {
        self.dt.len() as u64 + 1
    }

    /// When the last member came.
    pub(crate) fn last_time(&self) -> i64 {
        self.time + self.dt.iter().sum::<i64>()
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
        let node = Node::new(row);
        let kind = if let Some(rest) = row.strip_prefix(r#"{"type":""#) {
            let end = rest.find('"').unwrap_or(rest.len());
            std::borrow::Cow::Borrowed(&rest[..end])
        } else {
            match node.get("type").and_then(|kind| kind.text()) {
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
        Self::parse(node, &kind, place)
            .map(Some)
            .map_err(|reason| RowFault::Structure(format!("not a valid `{kind}` row: {reason}")))
    }

    fn parse(row: Node<'_>, kind: &str, place: Place) -> Result<Self, String> {
        let [_, first, time, data] = exactly(row, ["type", "seq0", "time0", "data"])?;
        let first = first.count().ok_or("`seq0` must be a count")?;
        let time = integer(time, "time0")?;
        let (kind, [turn, step, index, dt, parts]) = match kind {
            "tool-call-chunks" => {
                let named = data.get("name").is_some();
                let ([turn, step, index, id, dt, args], name) = if named {
                    let [turn, step, index, id, name, dt, args] =
                        exactly(data, ["turn", "step", "index", "id", "name", "dt", "args"])?;
                    (
                        [turn, step, index, id, dt, args],
                        Some(string(name, "name")?),
                    )
                } else {
                    let names = ["turn", "step", "index", "id", "dt", "args"];
                    (exactly(data, names)?, None)
                };
                let id = string(id, "id")?;
                (
                    DeltaKind::ToolCall { id, name },
                    [turn, step, index, dt, args],
                )
            }
            kind => {
                let members = exactly(data, ["turn", "step", "index", "dt", "texts"])?;
                let kind = match kind {
                    "text-chunks" => DeltaKind::Text,
                    _ => DeltaKind::Reasoning,
                };
                (kind, members)
            }
        };
        let count =
            |node: Node<'_>, name: &str| node.count().ok_or(format!("`{name}` must be a count"));
        let at = StepRef {
            turn: count(turn, "turn")?,
            step: count(step, "step")?,
        };
        let index = count(index, "index")?;
        if !dt.is_array() || !parts.is_array() {
            return Err(format!("`dt` and `{}` must be lists", kind.parts_member()));
        }
        let dt = dt
            .items()
            .into_iter()
            .map(|node| integer(node, "dt"))
            .collect::<Result<Vec<_>, _>>()?;
        let strings = parts.items();
        if strings.len() != dt.len() + 1 {
            return Err(format!(
                "`dt` has {} members for {} deltas, expected one less than deltas",
                dt.len(),
                strings.len()
            ));
        }
        let mut parts = String::with_capacity(parts.json().len());
        for part in strings {
            if !part.is_string() {
                return Err(format!("`{}` must hold strings", kind.parts_member()));
            }
            if !parts.is_empty() {
                parts.push(',');
            }
            parts.push_str(part.json());
        }
        let run = DeltaRun {
            kind,
            index,
            time,
            dt,
            parts,
        };
        let mut now = time;
        for step in &run.dt {
            now += step;
            if now.unsigned_abs() > MAX_SAFE_INTEGER {
                return Err("a member's time is beyond ±(2^53 − 1)".into());
            }
        }
        if first + run.len() - 1 > MAX_SAFE_INTEGER {
            return Err("a member's seq is beyond 2^53 − 1".into());
        }
        Ok(Self {
            place,
            first,
            at,
            run,
        })
    }
}

/// The members of an object that must have these and no others.
fn exactly<'a, const N: usize>(node: Node<'a>, names: [&str; N]) -> Result<[Node<'a>; N], String> {
    let members = node.members().ok_or("expected an object")?;
    let mut found = [None; N];
    for (key, value) in &members {
        let slot = names.iter().position(|name| Node::new(key).is(name));
        let slot = slot.ok_or_else(|| format!("unknown member {key}"))?;
        if found[slot].replace(*value).is_some() {
            return Err(format!("the member {key} is there twice"));
        }
    }
    let mut missing = names
        .iter()
        .zip(&found)
        .filter(|(_, found)| found.is_none());
    if let Some((name, _)) = missing.next() {
        return Err(format!("the member `{name}` is missing"));
    }
    Ok(found.map(|node| node.expect("BUG: looked at just now")))
}

fn string(node: Node<'_>, name: &str) -> Result<Box<str>, String> {
    match node.is_string() {
        true => Ok(node.json().into()),
        false => Err(format!("`{name}` must be a string")),
    }
}

fn integer(node: Node<'_>, name: &str) -> Result<i64, String> {
    let text = node.json();
    let value = text
        .parse::<i64>()
        .ok()
        .filter(|_| !text.starts_with('+') && text != "-0");
    value
        .filter(|value| value.unsigned_abs() <= MAX_SAFE_INTEGER)
        .ok_or_else(|| format!("`{name}` must be an integer within ±(2^53 − 1), found {text}"))
}
