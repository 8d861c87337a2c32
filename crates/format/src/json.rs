//! Looking into JSON whose shape nobody has promised, and rewriting a part of it.
//!
//! Every question reads its object again, one level deep and without recursion, so neither nesting nor unpaired
//! surrogates in strings that nobody asks for can make a valid row unreadable. What is not touched keeps its exact text:
//! numbers, escapes, the order of members.

mod valid;

use std::borrow::Cow;

use memchr::memchr;
use offshoot_session::MAX_SAFE_INTEGER;
use serde_json::value::RawValue;

pub(crate) use valid::string_end;

/// A piece of valid JSON text.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Node<'a>(&'a str);

impl<'a> Node<'a> {
    /// A text that a parser has read before.
    pub(crate) fn new(json: &'a str) -> Self {
        Self(json.trim())
    }

    /// A text that nobody has read before.
    ///
    /// # Errors
    /// It is no JSON.
    pub(crate) fn checked(json: &'a str) -> Result<Self, serde_json::Error> {
        serde_json::from_str::<&RawValue>(json).map(|raw| Self(raw.get()))
    }

    /// The text of the whole node.
    pub(crate) const fn json(&self) -> &'a str {
        self.0
    }

    pub(crate) fn is_object(&self) -> bool {
        self.0.starts_with('{')
    }

    pub(crate) fn is_array(&self) -> bool {
        self.0.starts_with('[')
    }

    pub(crate) fn is_string(&self) -> bool {
        self.0.starts_with('"')
    }

    /// A member of an object. Of several with one name the last counts, as it does for every other reader.
    pub(crate) fn get(&self, name: &str) -> Option<Self> {
        valid::member(self.0, |key| spells(key, name)).map(Self)
    }

    /// The members of an object, in their order, each with its name as JSON text. `None` for what is no object.
    pub(crate) fn members(&self) -> Option<Vec<(&'a str, Self)>> {
        let members = valid::members(self.0)?.into_iter();
        Some(members.map(|(name, value)| (name, Self(value))).collect())
    }

    /// The elements of a list; none for what is no list.
    pub(crate) fn items(&self) -> Vec<Self> {
        let items = valid::items(self.0).unwrap_or_default();
        items.into_iter().map(Self).collect()
    }

    /// The value of a string; `None` for anything else, and for a string with half of a surrogate pair.
    pub(crate) fn text(&self) -> Option<Cow<'a, str>> {
        match plain(self.0) {
            Some(text) => Some(Cow::Borrowed(text)),
            None => serde_json::from_str(self.0).ok().map(Cow::Owned),
        }
    }

    /// The value of a string; its JSON text where it has none.
    pub(crate) fn spelling(&self) -> Cow<'a, str> {
        self.text().unwrap_or(Cow::Borrowed(self.0))
    }

    /// Whether the node is the string `word`.
    pub(crate) fn is(&self, word: &str) -> bool {
        spells(self.0, word)
    }

    /// Whether the member is the string `word`.
    pub(crate) fn names(&self, member: &str, word: &str) -> bool {
        self.get(member).is_some_and(|node| node.is(word))
    }

    /// A count: digits that JavaScript holds exactly, and no −0.
    pub(crate) fn count(&self) -> Option<u64> {
        let count = self.0.parse::<u64>().ok()?;
        let digits = self.0.bytes().all(|byte| byte.is_ascii_digit());
        (digits && count <= MAX_SAFE_INTEGER).then_some(count)
    }

    /// Whether the member is a count.
    pub(crate) fn counts(&self, member: &str) -> bool {
        self.get(member).is_some_and(|node| node.count().is_some())
    }
}

/// The content of a string without escapes.
fn plain(json: &str) -> Option<&str> {
    let inner = json.strip_prefix('"')?.strip_suffix('"')?;
    memchr(b'\\', inner.as_bytes()).is_none().then_some(inner)
}

/// Whether the JSON text is the string `word`.
fn spells(json: &str, word: &str) -> bool {
    // Escapes only make it longer.
    if json.len() < word.len() + 2 {
        return false;
    }
    match plain(json) {
        Some(text) => text == word,
        None => serde_json::from_str::<String>(json).is_ok_and(|text| text == word),
    }
}

/// The JSON text of a string.
pub(crate) fn quote(text: &str) -> String {
    serde_json::to_string(text).expect("BUG: a string always serialises")
}

/// An object that is being rewritten. Untouched members keep their text and their place.
#[derive(Clone, Debug, Default)]
pub(crate) struct Members<'a>(Vec<(Cow<'a, str>, Cow<'a, str>)>);

impl<'a> Members<'a> {
    /// `None` for what is no object. A repeated name keeps its first place and its last value, as in JavaScript.
    pub(crate) fn of(node: Node<'a>) -> Option<Self> {
        let mut members = Self::default();
        for (key, value) in node.members()? {
            let same = members.0.iter_mut().find(|(name, _)| same_name(name, key));
            match same {
                Some((_, earlier)) => *earlier = Cow::Borrowed(value.json()),
                None => members
                    .0
                    .push((Cow::Borrowed(key), Cow::Borrowed(value.json()))),
            }
        }
        Some(members)
    }

    /// The names as JSON text, and the values.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, Node<'_>)> {
        self.0.iter().map(|(key, value)| (&**key, Node::new(value)))
    }

    pub(crate) fn get(&self, name: &str) -> Option<Node<'_>> {
        self.position(name).map(|at| Node::new(&self.0[at].1))
    }

    /// Replaces the member where it stands, or adds it at the end.
    pub(crate) fn set(&mut self, name: &str, value: impl Into<Cow<'a, str>>) {
        match self.position(name) {
            Some(at) => self.0[at].1 = value.into(),
            None => self.push(name, value),
        }
    }

    /// Adds a member at the end that is not there yet.
    pub(crate) fn push(&mut self, name: &str, value: impl Into<Cow<'a, str>>) {
        self.0.push((Cow::Owned(quote(name)), value.into()));
    }

    /// [`Members::push`] with the name as JSON text.
    pub(crate) fn push_raw(
        &mut self,
        name: impl Into<Cow<'a, str>>,
        value: impl Into<Cow<'a, str>>,
    ) {
        self.0.push((name.into(), value.into()));
    }

    /// Puts a new member in front of all others.
    pub(crate) fn insert_first(&mut self, name: &str, value: impl Into<Cow<'a, str>>) {
        self.0.insert(0, (Cow::Owned(quote(name)), value.into()));
    }

    /// Puts a new member behind another, or at the end if that is not there.
    pub(crate) fn insert_after(&mut self, other: &str, name: &str, value: impl Into<Cow<'a, str>>) {
        let at = self.position(other).map_or(self.0.len(), |at| at + 1);
        self.0.insert(at, (Cow::Owned(quote(name)), value.into()));
    }

    pub(crate) fn remove(&mut self, name: &str) -> Option<Cow<'a, str>> {
        self.position(name).map(|at| self.0.remove(at).1)
    }

    /// The JSON text of the object.
    pub(crate) fn render(&self) -> String {
        let size = self
            .0
            .iter()
            .map(|(key, value)| key.len() + value.len() + 2);
        let mut out = String::with_capacity(size.sum::<usize>() + 2);
        out.push('{');
        for (at, (key, value)) in self.0.iter().enumerate() {
            if at > 0 {
                out.push(',');
            }
            out.push_str(key);
            out.push(':');
            out.push_str(value);
        }
        out.push('}');
        out
    }

    fn position(&self, name: &str) -> Option<usize> {
        self.0.iter().position(|(key, _)| spells(key, name))
    }
}

fn same_name(a: &str, b: &str) -> bool {
    match (plain(a), plain(b)) {
        (Some(a), Some(b)) => a == b,
        _ => {
            let read = |json| serde_json::from_str::<String>(json).ok();
            a == b || read(a).is_some_and(|a| read(b).is_some_and(|b| a == b))
        }
    }
}

/// The JSON text of a list.
pub(crate) fn list<'a>(items: impl IntoIterator<Item = impl AsRef<str> + 'a>) -> String {
    let mut out = String::from("[");
    for (at, item) in items.into_iter().enumerate() {
        if at > 0 {
            out.push(',');
        }
        out.push_str(item.as_ref());
    }
    out.push(']');
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rewriting_keeps_the_text_of_what_is_not_touched() {
        let text = r#"{ "a": 1.0, "b\u0041": "\ud800", "c": {"x": -0}, "a": 2e3 }"#;
        let mut members = Members::of(Node::new(text)).unwrap();
        members.set("bA", "null");
        members.push("e", "[ ]");
        members.insert_after("a", "f", "0");
        members.insert_first("g", "1");
        assert_eq!(
            members.render(),
            r#"{"g":1,"a":2e3,"f":0,"b\u0041":null,"c":{"x": -0},"e":[ ]}"#
        );
        assert_eq!(members.remove("a").as_deref(), Some("2e3"));
        assert!(members.get("a").is_none());
    }

    #[test]
    fn counts_are_digits_that_javascript_holds_exactly() {
        for (text, count) in [
            ("0", Some(0)),
            ("9007199254740991", Some(MAX_SAFE_INTEGER)),
            ("9007199254740992", None),
            ("-0", None),
            ("+1", None),
            ("1.0", None),
            ("\"1\"", None),
        ] {
            assert_eq!(Node::new(text).count(), count, "{text}");
        }
    }
}
