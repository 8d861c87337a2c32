//! What differs between two runs of the same thing, and the words that stand for it (`reference/agent.md` §8.2).
//!
//! Sessions get fresh ids on each run, and a run has a directory of its own. Whoever compares two runs hides that: the id of
//! a session becomes `{{session:NAME}}`, a directory `{{cwd}}` or whatever it is called. What is left are ids that nobody
//! can name, and times: a UUID becomes `{{id}}`, a date `{{date}}`, and a date with its time of day `{{time}}`.
//!
//! Only whole words are replaced: `/srv/demo` is no part of `/srv/demo-2`, and the session `s` no part of `sessions`.

use std::ops::Range;
use std::path::Path;

use offshoot_session::SessionId;

/// The words of one run, and what stands for them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tokens {
    /// Longest first, so that a directory in another one is found before it.
    words: Vec<Word>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Word {
    text: String,
    token: String,
}

/// A part of a text, and what stands in its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Found<'a> {
    pub(crate) range: Range<usize>,
    pub(crate) token: &'a str,
}

impl Tokens {
    /// No words: only ids and times are hidden.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Has `token` stand for `text`. An empty text stands for nothing and is left out; of two tokens for one text the first
    /// counts.
    pub fn add(&mut self, text: impl Into<String>, token: impl Into<String>) {
        let (text, token) = (text.into(), token.into());
        if text.is_empty() || self.words.iter().any(|word| word.text == text) {
            return;
        }
        let place = self
            .words
            .partition_point(|word| word.text.len() >= text.len());
        self.words.insert(place, Word { text, token });
    }

    /// Has `{{session:NAME}}` stand for the id of a session.
    pub fn add_session(&mut self, id: &SessionId, name: &str) {
        self.add(id.as_str(), session_token(name));
    }

    /// Has `token` stand for a directory, and for what it is called if that leads through links.
    pub fn add_path(&mut self, path: &Path, token: &str) {
        self.add(path.to_string_lossy(), token);
        if let Ok(real) = path.canonicalize() {
            self.add(real.to_string_lossy(), token);
        }
    }

    /// The text with what differs hidden. Hiding twice is hiding once.
    #[must_use]
    pub fn hide(&self, text: &str) -> String {
        replaced(text, &self.found(text, Shapes::Hidden))
    }

    /// The text with the words alone replaced, whatever else it says.
    #[must_use]
    pub fn swap(&self, text: &str) -> String {
        replaced(text, &self.words_in(text))
    }

    /// Where the words are.
    pub(crate) fn words_in(&self, text: &str) -> Vec<Found<'_>> {
        self.found(text, Shapes::Kept)
    }

    fn found(&self, text: &str, shapes: Shapes) -> Vec<Found<'_>> {
        let mut found = Vec::new();
        let mut at = 0;
        while let Some(here) = text[at..].chars().next() {
            let hit = self.word_at(text, at).or_else(|| match shapes {
                Shapes::Kept => None,
                Shapes::Hidden => shape_at(text, at),
            });
            if let Some((len, token)) = hit {
                let range = at..at + len;
                at = range.end;
                found.push(Found { range, token });
            } else {
                at += here.len_utf8();
            }
        }
        found
    }

    fn word_at(&self, text: &str, at: usize) -> Option<(usize, &str)> {
        let word = self
            .words
            .iter()
            .find(|word| text[at..].starts_with(&word.text) && is_whole(text, at, &word.text))?;
        Some((word.text.len(), &word.token))
    }
}

/// What becomes of ids and times.
#[derive(Clone, Copy)]
enum Shapes {
    Hidden,
    Kept,
}

/// What stands for the id of a session.
pub(crate) fn session_token(name: &str) -> String {
    format!("{{{{session:{name}}}}}")
}

fn replaced(text: &str, found: &[Found<'_>]) -> String {
    let mut put = String::with_capacity(text.len());
    let mut from = 0;
    for Found { range, token } in found {
        put.push_str(&text[from..range.start]);
        put.push_str(token);
        from = range.end;
    }
    put.push_str(&text[from..]);
    put
}

const fn is_name(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-')
}

/// Whether a word that stands here is not a part of a longer one.
fn is_whole(text: &str, at: usize, word: &str) -> bool {
    let bytes = text.as_bytes();
    let first = word.as_bytes()[0];
    let begins = match at.checked_sub(1).map(|before| bytes[before]) {
        // What an escape in JSON ends with begins nothing longer: `\n/srv/demo`.
        Some(before) if is_name(before) => {
            (!is_name(first) && first != b'/') || (at >= 2 && bytes[at - 2] == b'\\')
        }
        Some(b'.') => first != b'/',
        _ => true,
    };
    let end = at + word.len();
    let last = word.as_bytes()[word.len() - 1];
    let ends = match (bytes.get(end), bytes.get(end + 1)) {
        _ if !is_name(last) => true,
        (Some(after), _) if is_name(*after) => false,
        // A full stop ends a sentence, or goes on with a name.
        (Some(b'.'), Some(after)) => !is_name(*after),
        _ => true,
    };
    begins && ends
}

/// An id or a time that stands here.
fn shape_at(text: &str, at: usize) -> Option<(usize, &'static str)> {
    let bytes = text.as_bytes();
    let follows_name = at
        .checked_sub(1)
        .is_some_and(|before| is_name(bytes[before]));
    let follows_escape = at >= 2 && bytes[at - 2] == b'\\';
    if follows_name && !follows_escape {
        return None;
    }
    let rest = &bytes[at..];
    let ends = |len: usize| !rest.get(len).copied().is_some_and(is_name);
    if let Some(len) = matched(rest, UUID).filter(|len| ends(*len)) {
        return Some((len, "{{id}}"));
    }
    let day = matched(rest, "dddd-dd-dd")?;
    let time = matched(&rest[day..], "Tdd:dd:dd").or_else(|| matched(&rest[day..], " dd:dd:dd"));
    let Some(mut len) = time.map(|time| day + time) else {
        return ends(day).then_some((day, "{{date}}"));
    };
    if rest.get(len) == Some(&b'.') {
        let fraction = rest[len + 1..]
            .iter()
            .take_while(|byte| byte.is_ascii_digit());
        let digits = fraction.count();
        len += if digits > 0 { digits + 1 } else { 0 };
    }
    let zone = ["Z", "+dd:dd", "-dd:dd"];
    len += zone
        .iter()
        .find_map(|zone| matched(&rest[len..], zone))
        .unwrap_or(0);
    ends(len).then_some((len, "{{time}}"))
}

const UUID: &str = "xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx";

/// How many bytes of `text` have this shape: `x` is a hexadecimal digit, `d` a decimal one, everything else itself.
fn matched(text: &[u8], shape: &str) -> Option<usize> {
    let fits = |(byte, shape): (&u8, u8)| match shape {
        b'x' => byte.is_ascii_hexdigit(),
        b'd' => byte.is_ascii_digit(),
        other => *byte == other,
    };
    let len = shape.len();
    (text.len() >= len && text.iter().zip(shape.bytes()).all(fits)).then_some(len)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tokens() -> Tokens {
        let mut tokens = Tokens::new();
        tokens.add("/srv/demo", "{{cwd}}");
        tokens.add("/srv", "{{home}}");
        tokens.add_session(&"s".into(), "main");
        tokens.add_session(&"s-2".into(), "side");
        tokens
    }

    #[test]
    fn words_are_replaced_where_they_are_whole_and_longer_ones_before_shorter_ones() {
        for (text, hidden) in [
            ("in /srv/demo.", "in {{cwd}}."),
            ("/srv/demo/a.txt", "{{cwd}}/a.txt"),
            (
                "/srv/demo-2 /srv/demo.txt",
                "{{home}}/demo-2 {{home}}/demo.txt",
            ),
            ("/old/srv/demo ../srv/demo", "/old/srv/demo ../srv/demo"),
            (
                r#"{"a":"s","b":"s-2"}"#,
                r#"{"a":"{{session:main}}","b":"{{session:side}}"}"#,
            ),
            ("sessions, as, s.", "sessions, as, {{session:main}}."),
            (
                r#""line\n/srv/demo\ns\n""#,
                r#""line\n{{cwd}}\n{{session:main}}\n""#,
            ),
        ] {
            assert_eq!(tokens().hide(text), hidden, "{text}");
            assert_eq!(tokens().hide(hidden), hidden, "hiding twice is hiding once");
        }
    }

    #[test]
    fn ids_and_times_that_nobody_can_name_are_hidden_by_their_shape() {
        for (text, hidden) in [
            ("id 0190f3a2-1b2c-7d3e-8f40-123456789abc.", "id {{id}}."),
            (
                "x0190f3a2-1b2c-7d3e-8f40-123456789abc",
                "x0190f3a2-1b2c-7d3e-8f40-123456789abc",
            ),
            ("on 2026-12-01", "on {{date}}"),
            ("2026-12-01T15:49:31Z", "{{time}}"),
            (
                "2026-12-01T15:49:31.250+02:00, 2026-12-01 15:49:31",
                "{{time}}, {{time}}",
            ),
            ("2026-12-01T15:49:31.", "{{time}}."),
            ("2026-12-012", "2026-12-012"),
            ("Größe 2026-12-01 – ä", "Größe {{date}} – ä"),
        ] {
            assert_eq!(tokens().hide(text), hidden, "{text}");
        }
    }

    #[test]
    fn swapping_leaves_ids_and_times_as_they_are() {
        let text = "s on 2026-12-01";
        assert_eq!(tokens().swap(text), "{{session:main}} on 2026-12-01");
    }
}
