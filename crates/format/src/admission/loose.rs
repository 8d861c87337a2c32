//! Looking into JSON whose shape nobody has promised: what is not there, or is something else, is simply absent.
//!
//! Every question reads its object again, one level deep and without recursion, so neither nesting nor unpaired
//! surrogates in strings that nobody asks for can make a valid row unreadable. Only for the rare rows that need it.

use std::collections::HashMap;

use serde_json::value::RawValue;

/// A piece of JSON text.
#[derive(Clone, Copy)]
pub(super) struct Node<'a>(&'a str);

impl<'a> Node<'a> {
    pub(super) fn new(json: &'a str) -> Self {
        Self(json.trim_start())
    }

    /// The text of the whole node.
    pub(super) const fn json(&self) -> &'a str {
        self.0
    }

    pub(super) fn is_object(&self) -> bool {
        self.0.starts_with('{')
    }

    pub(super) fn is_string(&self) -> bool {
        self.0.starts_with('"')
    }

    /// A member of an object. Of several with one name the last counts, as it does for every other reader.
    pub(super) fn get(&self, name: &str) -> Option<Self> {
        let members: HashMap<String, &'a RawValue> = serde_json::from_str(self.0).ok()?;
        members.get(name).map(|raw| Self::new(raw.get()))
    }

    /// The elements of a list.
    pub(super) fn items(&self) -> Vec<Self> {
        let items: Vec<&'a RawValue> = serde_json::from_str(self.0).unwrap_or_default();
        items.into_iter().map(|raw| Self::new(raw.get())).collect()
    }

    /// The value of a string.
    pub(super) fn text(&self) -> Option<String> {
        serde_json::from_str(self.0).ok()
    }

    /// Whether the member is the string `word`.
    pub(super) fn names(&self, member: &str, word: &str) -> bool {
        let found = self.get(member).and_then(|node| node.text());
        found.is_some_and(|found| found == word)
    }

    /// Whether the member is a count: digits that JavaScript holds exactly, and no −0.
    pub(super) fn counts(&self, member: &str) -> bool {
        let count = self.get(member).map(|node| node.0.parse::<u64>());
        matches!(count, Some(Ok(count)) if count <= offshoot_session::MAX_SAFE_INTEGER)
    }
}
