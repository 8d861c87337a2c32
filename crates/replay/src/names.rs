//! What the sessions of a scenario are called.

use std::fmt;

/// The name of a session: `main`, what a fork or a side session is called, or, for a subagent, its caller's name and its
/// number among the caller's subagents, as in `main.1`.
///
/// Names are ordered as people count: `main.2` stands before `main.10`, and callers before those that they have called.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct SessionName(String);

impl SessionName {
    /// The session that every scenario begins with.
    pub const MAIN: &str = "main";

    /// The session that every scenario begins with.
    #[must_use]
    pub fn main() -> Self {
        Self(Self::MAIN.to_owned())
    }

    /// Reads a name.
    ///
    /// # Errors
    /// What a name looks like, if this is none.
    pub fn parse(text: &str) -> Result<Self, &'static str> {
        let mut parts = text.split('.');
        let first = parts.next().unwrap_or_default();
        let starts = first.starts_with(|c: char| c.is_ascii_lowercase());
        let goes_on = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
        if !starts || !first.chars().all(goes_on) {
            return Err("a session's name is a lower-case word, such as `main` or `side-1`");
        }
        let numbers = |part: &str| {
            let number = part.parse::<u32>();
            number.is_ok_and(|number| number > 0 && number.to_string() == part)
        };
        if !parts.all(numbers) {
            return Err("a subagent is called as its caller and a number from 1, such as `main.1`");
        }
        Ok(Self(text.to_owned()))
    }

    /// The subagent number `nth` of this session, counted from 1.
    #[must_use]
    pub fn subagent(&self, nth: usize) -> Self {
        Self(format!("{self}.{nth}"))
    }

    /// The name as it is written.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whose subagent it is, and which: `None` if it has no caller.
    #[must_use]
    pub fn caller(&self) -> Option<(Self, usize)> {
        let (caller, nth) = self.0.rsplit_once('.')?;
        let nth = nth.parse();
        Some((
            Self(caller.to_owned()),
            nth.expect("BUG: a name that was parsed ends in a number"),
        ))
    }

    /// The session that a person works in and that this one is, or that this one belongs to.
    #[must_use]
    pub fn root(&self) -> Self {
        let root = self.0.split('.').next().unwrap_or_default();
        Self(root.to_owned())
    }

    /// The name, apart into what is compared one by one. `main` is the first of all.
    fn order(&self) -> (bool, &str, Vec<u32>) {
        let mut parts = self.0.split('.');
        let word = parts.next().unwrap_or_default();
        let numbers = parts.filter_map(|part| part.parse().ok()).collect();
        (word != Self::MAIN, word, numbers)
    }
}

impl Ord for SessionName {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.order().cmp(&other.order())
    }
}

impl PartialOrd for SessionName {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl fmt::Display for SessionName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_ordered_as_people_count() {
        let mut names = ["side", "main.10", "main.2", "main.2.1", "branch", "main"]
            .map(|name| SessionName::parse(name).unwrap());
        names.sort();
        assert_eq!(
            names.each_ref().map(SessionName::as_str),
            ["main", "main.2", "main.2.1", "main.10", "branch", "side"]
        );
    }

    #[test]
    fn what_is_no_name_is_refused() {
        for text in [
            "", "Main", "1st", "a b", "a/b", "..", ".1", "main.", "main.0", "main.01", "main.x",
            "main.1.",
        ] {
            assert!(SessionName::parse(text).is_err(), "{text:?}");
        }
    }

    #[test]
    fn a_subagent_knows_its_caller() {
        let name = SessionName::parse("side.2.1").unwrap();
        let caller = SessionName::parse("side.2").unwrap();
        assert_eq!(name.caller(), Some((caller.clone(), 1)));
        assert_eq!(caller.subagent(1), name);
        assert_eq!(name.root().as_str(), "side");
        assert_eq!(name.root().caller(), None);
    }
}
