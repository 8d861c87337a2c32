//! Halves of surrogate pairs in stored text.
//!
//! A JavaScript string may hold one, and a log keeps it as it is. No UTF-8 text can, so a request sends U+FFFD in its place,
//! as any browser would.

use std::borrow::Cow;

/// The JSON text with every escaped half that has no other half replaced. Everything else stays to the byte.
pub(crate) fn replace_lone(json: &str) -> Cow<'_, str> {
    replace_lone_by(json, |_, out| out.push_str(r"\ufffd"))
}

/// The JSON text with every such half replaced by a private character of its own, so that texts which differ only in them
/// stay different, and [`join_marked`] can put together what a stream has torn apart.
pub(crate) fn mark_lone(json: &str) -> Cow<'_, str> {
    replace_lone_by(json, |unit, out| {
        out.extend(char::from_u32(MARKS + u32::from(unit)));
    })
}

/// Text out of marked JSON in which two halves that have come together are the character they stand for.
pub(crate) fn join_marked(text: &str) -> Cow<'_, str> {
    if !text.chars().any(|c| unit_of(c).is_some()) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len());
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        let next = chars.peek().copied().and_then(unit_of);
        let whole = unit_of(c).zip(next).and_then(|(high, low)| {
            let mut pair = char::decode_utf16([high, low]);
            pair.next()?.ok()
        });
        if whole.is_some() {
            chars.next();
        }
        out.push(whole.unwrap_or(c));
    }
    Cow::Owned(out)
}

/// Where the marks begin: in a plane for private use, at the half's own number.
const MARKS: u32 = 0x10_0000;

/// The half that a mark stands for.
fn unit_of(c: char) -> Option<u16> {
    let unit = u16::try_from(u32::from(c).checked_sub(MARKS)?).ok()?;
    (0xD800..=0xDFFF).contains(&unit).then_some(unit)
}

fn replace_lone_by(json: &str, by: impl Fn(u16, &mut String)) -> Cow<'_, str> {
    let bytes = json.as_bytes();
    let mut out = String::new();
    let mut copied = 0;
    let mut at = 0;
    while let Some(found) = memchr::memchr(b'\\', &bytes[at..]) {
        let escape = at + found;
        // The character behind a backslash belongs to it, whatever it is: `\\u` is no escape of a unit.
        at = escape + 2;
        let Some(unit) = unit_at(bytes, escape) else {
            continue;
        };
        at = escape + 6;
        let lone = match unit {
            0xD800..=0xDBFF if matches!(unit_at(bytes, at), Some(0xDC00..=0xDFFF)) => {
                at += 6;
                false
            }
            0xD800..=0xDFFF => true,
            _ => false,
        };
        if lone {
            out.push_str(&json[copied..escape]);
            by(unit, &mut out);
            copied = at;
        }
    }
    if copied == 0 {
        return Cow::Borrowed(json);
    }
    out.push_str(&json[copied..]);
    Cow::Owned(out)
}

/// The UTF-16 unit that an escape at this place stands for.
fn unit_at(bytes: &[u8], at: usize) -> Option<u16> {
    let digits = bytes.get(at..at + 6)?.strip_prefix(br"\u")?;
    let digits = std::str::from_utf8(digits).ok()?;
    let hex = digits.bytes().all(|digit| digit.is_ascii_hexdigit());
    hex.then(|| u16::from_str_radix(digits, 16).ok())?
}

#[cfg(test)]
mod tests {
    use super::{join_marked, mark_lone, replace_lone};

    #[test]
    fn halves_that_a_stream_has_torn_apart_come_together_and_others_stay_what_they_are() {
        let text = |json: &str| serde_json::from_str::<String>(&mark_lone(json)).unwrap();
        let joined = |parts: &[&str]| {
            let whole: String = parts.iter().map(|part| text(part)).collect();
            join_marked(&whole).into_owned()
        };
        assert_eq!(joined(&[r#""a\ud83d""#, r#""\ude00b""#]), "a\u{1f600}b");
        assert_eq!(joined(&[r#""\ud83d\ude00""#]), "\u{1f600}");
        assert_eq!(joined(&[r#""plain""#]), "plain");
        let (high, other, low) = (r#""\ud83d""#, r#""\ud83e""#, r#""\ude00""#);
        assert_ne!(joined(&[high]), joined(&[other]));
        assert_ne!(joined(&[low, high]), joined(&[high, low]));
    }

    #[test]
    fn only_halves_without_their_other_half_are_replaced() {
        for (stored, sent) in [
            (r#""plain \n \u00e9""#, r#""plain \n \u00e9""#),
            (r#""\ud83d\ude00""#, r#""\ud83d\ude00""#),
            (r#""a\ud800b""#, r#""a\ufffdb""#),
            (
                r#""\uDC00\ud83d\ude00\ud83d""#,
                r#""\ufffd\ud83d\ude00\ufffd""#,
            ),
            (r#""\ud83d\ud83d\ude00""#, r#""\ufffd\ud83d\ude00""#),
            (r#""\\ud800""#, r#""\\ud800""#),
            (r#""\\\ud800 ä""#, r#""\\\ufffd ä""#),
        ] {
            assert_eq!(replace_lone(stored), sent);
        }
    }
}
