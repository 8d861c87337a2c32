//! The names of what a run has made, numbered as it was seen, and of where it ran.

use std::collections::{BTreeMap, HashMap};

use offshoot_session::SessionId;
use serde_json::Value;

use crate::names::SessionName;
use crate::tokens::Tokens;
use crate::wiring::{CWD, HOME, Place};

/// Members that hold an id which the run has made, wherever they stand.
const IDS: [&str; 6] = [
    "compactionId",
    "commandId",
    "handbackId",
    "messageId",
    "retryId",
    "baselineIdentity",
];

/// The length of a UUID as it is written.
const UUID: usize = 36;

#[derive(Debug)]
pub(super) struct Ids {
    /// Paths and sessions.
    words: Tokens,
    /// Ids, numbered as they were seen.
    ids: HashMap<String, String>,
    /// The same for what is kept in the home.
    blobs: HashMap<String, String>,
}

impl Ids {
    pub(super) fn new(place: &Place, sessions: &BTreeMap<SessionId, SessionName>) -> Self {
        let mut words = Tokens::new();
        words.add_path(&place.workspace, CWD);
        words.add_path(&place.home, HOME);
        for (id, name) in sessions {
            words.add_session(id, name.as_str());
        }
        Self {
            words,
            ids: HashMap::new(),
            blobs: HashMap::new(),
        }
    }

    /// What a session is called, or its id if it is none of the run.
    pub(super) fn session(&self, id: &str) -> String {
        self.words.swap(id)
    }

    /// Takes note of the ids that an event is known to hold, however they look.
    pub(super) fn learn(&mut self, kind: &str, row: &Value) {
        let data = &row["data"];
        let inserted = data["inserted"].as_array().into_iter().flatten();
        let own = match kind {
            "user/message" | "approval/asked" | "approval/decided" => Some(&data["id"]),
            _ => None,
        };
        let all = own
            .into_iter()
            .chain([&data["message"]["id"]])
            .chain(inserted.map(|message| &message["id"]));
        for id in all.filter_map(Value::as_str) {
            self.number(id);
        }
        self.learn_named(data);
    }

    fn learn_named(&mut self, value: &Value) {
        match value {
            Value::Array(items) => items.iter().for_each(|item| self.learn_named(item)),
            Value::Object(members) => {
                for (name, member) in members {
                    match member {
                        Value::String(id) if IDS.contains(&name.as_str()) => self.number(id),
                        member => self.learn_named(member),
                    }
                }
            }
            _ => {}
        }
    }

    fn number(&mut self, id: &str) {
        let is_new = !id.is_empty() && !id.starts_with("{{") && !self.ids.contains_key(id);
        if is_new && !self.session(id).starts_with("{{") {
            let token = format!("{{{{id:{}}}}}", self.ids.len() + 1);
            self.ids.insert(id.to_owned(), token);
        }
    }

    /// Puts the names in the place of what they stand for.
    pub(super) fn replace(&mut self, text: &mut String) {
        if let Some(token) = self.ids.get(text.as_str()) {
            text.clone_from(token);
            return;
        }
        *text = self.words.swap(text);
        self.replace_uuids(text);
        self.replace_blobs(text);
    }

    /// What is kept in a home is named by its content, and in that there may be a path.
    fn replace_blobs(&mut self, text: &mut String) {
        let mut at = 0;
        while let Some((start, end)) = blob(text, at) {
            at = start;
            if start < end {
                let number = self.blobs.len() + 1;
                let name = self.blobs.entry(text[start..end].to_owned());
                let token = name.or_insert_with(|| format!("{{{{blob:{number}}}}}"));
                text.replace_range(start..end, token);
            }
        }
    }

    fn replace_uuids(&mut self, text: &mut String) {
        let mut at = 0;
        while let Some(found) = (at..text.len()).find(|at| is_uuid(text.as_bytes(), *at)) {
            let id = text[found..found + UUID].to_owned();
            self.number(&id);
            let token = self.ids[&id].clone();
            text.replace_range(found..found + UUID, &token);
            at = found + token.len();
        }
    }
}

/// Whether a UUID begins here. What stands before it does not matter: ids are made of a word and a UUID.
fn is_uuid(text: &[u8], at: usize) -> bool {
    let Some(candidate) = text.get(at..at + UUID) else {
        return false;
    };
    let fits = |(at, byte): (usize, &u8)| match at {
        8 | 13 | 18 | 23 => *byte == b'-',
        _ => byte.is_ascii_hexdigit(),
    };
    let goes_on = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_hexdigit);
    candidate.iter().enumerate().all(fits)
        && !goes_on(at.checked_sub(1).and_then(|before| text.get(before)))
        && !goes_on(text.get(at + UUID))
}

/// The next name among blobs, if there is one, from a place on.
fn blob(text: &str, from: usize) -> Option<(usize, usize)> {
    const DIRECTORY: &str = "{{home}}/blobs/";
    let start = from + text[from..].find(DIRECTORY)? + DIRECTORY.len();
    let len = text[start..].find(|c: char| !c.is_ascii_hexdigit());
    Some((start, len.map_or(text.len(), |len| start + len)))
}
