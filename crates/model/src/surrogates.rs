//! Halves of surrogate pairs in stored text.
//!
//! A JavaScript string may hold one, and a log keeps it as it is. No UTF-8 text can, so a request sends U+FFFD in its place,
//! as any browser would.

use std::borrow::Cow;

/// The JSON text with every escaped half that has no other half replaced. Everything else stays to the byte.
pub(crate) fn replace_lone(json: &str) -> Cow<'_, str> {
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
            out.push_str(r"\ufffd");
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
    use super::replace_lone;

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
