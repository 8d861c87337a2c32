//! The members of a row: once as any JSON writer may write them, and once, in a single pass, as all known writers do.
//!
//! The second way only ever agrees with the first or says nothing: whatever it does not recognise, also everything that is
//! wrong, is left to the first, which explains it.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::EventKind;
use crate::body::Body;
use crate::json::{ahead, present, read};

/// The members of a row. Those that are optional are JSON texts.
pub(crate) struct Row<'a> {
    pub(crate) kind: EventKind,
    pub(crate) seq: u64,
    pub(crate) time: i64,
    pub(crate) data: &'a str,
    pub(crate) surface_op: Option<&'a str>,
    pub(crate) sources: Option<&'a str>,
    pub(crate) ignorable: Option<&'a str>,
    /// The payload, if it was read on the way.
    pub(crate) body: Option<Body>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, expecting = "an object")]
struct Envelope<'a> {
    #[serde(rename = "type", borrow)]
    kind: Cow<'a, str>,
    seq: u64,
    time: i64,
    #[serde(borrow)]
    data: &'a RawValue,
    #[serde(rename = "surfaceOp", borrow, default, deserialize_with = "present")]
    surface_op: Option<&'a RawValue>,
    #[serde(
        rename = "sourceEventSeqs",
        borrow,
        default,
        deserialize_with = "present"
    )]
    sources: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    ignorable: Option<&'a RawValue>,
}

impl<'a> Row<'a> {
    /// Reads a row with its members in any order.
    ///
    /// # Errors
    /// What is no row.
    pub(crate) fn read(text: &'a str) -> Result<Self, String> {
        let envelope: Envelope<'a> = read(text)?;
        Ok(Self {
            kind: EventKind::from_name(&envelope.kind),
            seq: envelope.seq,
            time: envelope.time,
            data: envelope.data.get(),
            surface_op: envelope.surface_op.map(RawValue::get),
            sources: envelope.sources.map(RawValue::get),
            ignorable: envelope.ignorable.map(RawValue::get),
            body: None,
        })
    }

    /// Reads a row that begins with type, seq, time and data, in this order and without white space.
    pub(crate) fn read_ahead(text: &'a str) -> Option<Self> {
        let rest = text.strip_prefix(r#"{"type":""#)?;
        let end = memchr::memchr2(b'"', b'\\', rest.as_bytes())?;
        let kind = EventKind::from_name(&rest[..end]);
        let rest = rest[end..].strip_prefix(r#"","seq":"#)?;
        let (seq, rest) = digits(rest)?;
        let rest = rest.strip_prefix(r#","time":"#)?;
        let (time, rest) = match rest.strip_prefix('-') {
            Some(rest) => digits(rest)
                .filter(|(time, _)| *time != 0)
                .map(|(time, rest)| (-time, rest))?,
            None => digits(rest)?,
        };
        let rest = rest.strip_prefix(r#","data":"#)?;
        let (body, end) = Body::parse_ahead(&kind, rest)?;
        let mut row = Self {
            kind,
            seq: u64::try_from(seq).ok()?,
            time,
            data: &rest[..end],
            surface_op: None,
            sources: None,
            ignorable: None,
            body: Some(body),
        };
        let mut rest = &rest[end..];
        while rest != "}" {
            let (slot, value) = if let Some(value) = rest.strip_prefix(r#","surfaceOp":"#) {
                (&mut row.surface_op, value)
            } else if let Some(value) = rest.strip_prefix(r#","sourceEventSeqs":"#) {
                (&mut row.sources, value)
            } else {
                (&mut row.ignorable, rest.strip_prefix(r#","ignorable":"#)?)
            };
            let (raw, end): (&RawValue, usize) = ahead(value)?;
            if slot.replace(raw.get()).is_some() {
                return None;
            }
            rest = &value[end..];
        }
        Some(row)
    }
}

/// A number as JSON writes it, and what is behind it; not so many digits that it could be too large for anything.
fn digits(text: &str) -> Option<(i64, &str)> {
    let length = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, rest) = text.split_at(length);
    let canonical = (1..=17).contains(&length) && (length == 1 || !number.starts_with('0'));
    Some((number.parse().ok().filter(|_| canonical)?, rest))
}
