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
        let kind = &rest[..end];
        // A string of JSON has no such characters as they are.
        if kind.bytes().any(|byte| byte.is_ascii_control()) {
            return None;
        }
        let kind = EventKind::from_name(kind);
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
        // White space ahead of the payload is no part of it.
        if rest.starts_with([' ', '\t', '\r']) {
            return None;
        }
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

#[cfg(test)]
mod tests {
    use std::fmt;

    use proptest::prelude::*;

    use super::*;

    /// A row of the writers, with members of the payload in one order or another.
    const ROWS: &[&str] = &[
        r#"{"type":"turn/start","seq":0,"time":1,"data":{"turn":1}}"#,
        r#"{"type":"turn/end","seq":0,"time":-1,"data":{"turn":1,"reason":{"kind":"completed","more":[{}]}}}"#,
        r#"{"type":"step/start","seq":4,"time":1,"data":{"step":1,"turn":1},"ignorable":true}"#,
        r#" {"type" : "step/end" , "seq":4,"time":1,"data" : {"step":1,"turn":1} , "ignorable" : true} "#,
        r#"{"type":"todo/write","seq":9,"time":1,"data":{"todos":["\ud800",1e2,-0.0,null],"\udc00":{}}}"#,
        r#"{"type":"plugin:x","seq":9,"time":1,"data":null,"surfaceOp":["own"],"sourceEventSeqs":"all","ignorable":true}"#,
        r#"{"type":"user/message","seq":9,"time":1,"data":{"id":"u","role":"user","content":[],"source":{"kind":"user"}},"surfaceOp":"append"}"#,
        r#"{"type":"user/message","seq":9,"time":1,"data":{"source":{"kind":"user","callId":5},"id":"\u0041é","role":"us\u0065r","content":[{"type":"text","text":"half \ud800"}],"isError":"so"},"sourceEventSeqs":[1,[3,5]],"surfaceOp":{"op":"replace","startSeq":3,"endSeq":5}}"#,
        r#"{"type":"system/message","seq":9,"time":1,"data":{"turn":1,"step":1,"message":{"id":"s","role":"system","source":{"kind":"system-prompt"},"content":[{"type":"text","text":"Be brief."}]}},"surfaceOp":"append"}"#,
        r#"{"type":"developer/message","seq":9,"time":1,"data":{"message" : {"id":"d","role":"developer","source":{"kind":"tool-updates"},"content":[{"type":"tool-addition","toolName":"t"}]} , "headerSeq":2,"turn":1,"step":1},"surfaceOp":"append"}"#,
        r#"{"type":"assistant/message","seq":9,"time":1,"data":{"turn":1,"step":1,"stream":[{"type":"text-chunks","texts":["a","b"]}],"message":{"id":"a","role":"assistant","source":{"kind":"model","provider":"p","model":"m"},"content":[{"type":"tool-call","id":"c","name":"n\udfff","arguments":"{\"q\":1}"},{"type":"text","id":1}]}},"surfaceOp":"append"}"#,
        r#"{"type":"assistant/attempt","seq":9,"time":1,"data":{"turn":1,"step":1,"stream":[]}}"#,
        r#"{"type":"tool/call","seq":9,"time":1,"data":{"turn":1,"step":1,"callId":"c","name":"n","arguments":"\ud800"}}"#,
        r#"{"type":"tool/result","seq":9,"time":1,"data":{"turn":1,"step":1,"message":{"id":"r","role":"tool","toolCallId":"c","isError":true,"source":{"kind":"tool","callId":"c"},"content":[]},"error":{"name":"E","code":"C"}},"sourceEventSeqs":[7],"surfaceOp":"append"}"#,
        r#"{"type":"request/header","seq":9,"time":1,"data":{"header":{"config":{"provider":"p","model":"m","maxTokens":7},"adapterDefaults":{"maxTokens":true},"tools":[{}]},"reason":"initial","startsSeries":true}}"#,
        r#"{"type":"session/end-seed","seq":9,"time":1,"data":{"inherited":true}}"#,
        r#"{"type":"image/offload","seq":9,"time":1,"data":{"targets":[{"seq":1,"imageIndexes":[0]}]}}"#,
    ];

    /// What a change puts in: pieces that change what the text around them means.
    const PIECES: &[&str] = &[
        "",
        "\"",
        "{",
        "}",
        "[",
        "]",
        ",",
        ":",
        "\\",
        " ",
        "\t",
        "-",
        "0",
        "-0",
        ".5",
        "null",
        "true",
        "{}",
        "[]",
        "\"\"",
        "é",
        "\\ud800",
        "\\u0041",
        "\u{1}",
        "\"turn\":1,",
        "\"message\":{},",
        "\"data\":{},",
        "\"note\":[1],",
        "\"id\":\"\",",
        ",\"ignorable\":true",
        ",\"surfaceOp\":\"append\"",
        "9007199254740992",
    ];

    /// Everything that is read from a row.
    fn seen(row: Row<'_>) -> Result<impl PartialEq + fmt::Debug, String> {
        let body = match row.body {
            Some(body) => body,
            None => Body::parse(&row.kind, row.data)?,
        };
        let opaque = (row.surface_op, row.sources, row.ignorable);
        Ok((row.kind, row.seq, row.time, row.data, opaque, body))
    }

    fn same_either_way(text: &str) -> Result<(), TestCaseError> {
        if let Some(row) = Row::read_ahead(text) {
            prop_assert_eq!(seen(row), Row::read(text).and_then(seen), "{}", text);
        }
        Ok(())
    }

    #[test]
    fn rows_in_the_order_of_the_writers_are_read_in_one_pass() {
        for text in ROWS.iter().filter(|text| !text.starts_with(' ')) {
            assert!(Row::read_ahead(text).is_some(), "{text}");
            same_either_way(text).unwrap();
        }
    }

    #[test]
    fn what_is_not_the_text_of_the_writers_is_left_to_the_other_way() {
        for text in [
            "{\"type\":\"turn/\u{1}start\",\"seq\":0,\"time\":1,\"data\":{\"turn\":1}}",
            r#"{"type":"turn/start","seq":0,"time":1,"data": {"turn":1}}"#,
            r#"{"type":"turn/start","seq":00,"time":1,"data":{"turn":1}}"#,
            r#"{"type":"turn/start","seq":0,"time":-0,"data":{"turn":1}}"#,
            r#"{"type":"turn\/start","seq":0,"time":1,"data":{"turn":1}}"#,
            r#"{"seq":0,"type":"turn/start","time":1,"data":{"turn":1}}"#,
        ] {
            assert!(Row::read_ahead(text).is_none(), "{text}");
        }
    }

    #[test]
    fn deep_nesting_is_passed_over_without_recursion() {
        let deep = format!("{}1{}", r#"{"a":["#.repeat(50_000), "]}".repeat(50_000));
        for row in [
            format!(r#"{{"type":"todo/write","seq":0,"time":1,"data":{{"x":{deep}}}}}"#),
            format!(
                r#"{{"type":"user/message","seq":0,"time":1,"data":{{"id":"u","role":"user","source":{{"kind":"user"}},"content":[{{"type":"x","y":{deep}}}]}},"surfaceOp":"append"}}"#
            ),
        ] {
            assert!(Row::read_ahead(&row).is_some());
            same_either_way(&row).unwrap();
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(4096))]

        #[test]
        fn what_is_read_in_one_pass_is_what_the_other_way_reads(
            row in prop::sample::select(ROWS),
            changes in prop::collection::vec((any::<prop::sample::Index>(), 0..24usize, prop::sample::select(PIECES)), 0..4),
        ) {
            let mut text = row.to_owned();
            for (at, cut, piece) in changes {
                let places: Vec<usize> = text.char_indices().map(|(at, _)| at).collect();
                let at = at.index(places.len());
                let end = places.get(at + cut).copied().unwrap_or(text.len());
                text.replace_range(places[at]..end, piece);
                if text.is_empty() {
                    return Ok(());
                }
            }
            same_either_way(&text)?;
        }
    }
}
