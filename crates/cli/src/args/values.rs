//! Values on the command line, and what is said of those that cannot be.

use std::ffi::OsString;
use std::num::{NonZeroU64, NonZeroUsize};

use offshoot_session::Seq;

/// A length of time, in ms.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Age(pub(crate) u64);

pub(super) fn parse_age(text: &str) -> Result<Age, &'static str> {
    let refused = "an age is a whole number and a unit (s, m, h, d or w), such as 12h or 30d";
    duration(text, refused)
}

pub(super) fn parse_timeout(text: &str) -> Result<Age, &'static str> {
    let refused =
        "a time is a whole number from 1 on and a unit (s, m, h, d or w), such as 90s or 10m";
    match duration(text, refused)? {
        Age(0) => Err(refused),
        timeout => Ok(timeout),
    }
}

fn duration(text: &str, refused: &'static str) -> Result<Age, &'static str> {
    let unit = text.chars().last().ok_or(refused)?;
    let seconds: u64 = match unit {
        's' => 1,
        'm' => 60,
        'h' => 60 * 60,
        'd' => 24 * 60 * 60,
        'w' => 7 * 24 * 60 * 60,
        _ => return Err(refused),
    };
    let number = &text[..text.len() - unit.len_utf8()];
    if !number.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(refused);
    }
    let number: u64 = number.parse().map_err(|_| refused)?;
    let age = number.checked_mul(seconds * 1000);
    age.map(Age).ok_or("that is longer than anything lasts")
}

pub(super) fn parse_turns(text: &str) -> Result<NonZeroU64, &'static str> {
    text.parse()
        .map_err(|_| "a number of answers is 1, 2, 3 and so on")
}

pub(super) fn parse_seq(text: &str) -> Result<Seq, String> {
    text.parse().map(Seq::new).map_err(|_| {
        "an event's seq is a whole number from 0 on, as `offshoot show` prints it".to_owned()
    })
}

pub(super) fn parse_limit(text: &str) -> Result<NonZeroUsize, &'static str> {
    text.parse()
        .map_err(|_| "a number of sessions is 1, 2, 3 and so on; --all shows all")
}

pub(super) fn parse_number(text: &str) -> Result<NonZeroUsize, &'static str> {
    text.parse()
        .map_err(|_| "requests are numbered 1, 2, 3 and so on")
}

pub(super) fn named(source: OsString) -> Result<OsString, &'static str> {
    if source.is_empty() {
        return Err("name a session's id or a session file");
    }
    Ok(source)
}

pub(super) fn parse_prompt(text: &str) -> Result<String, &'static str> {
    if text.trim().is_empty() {
        return Err("the prompt is empty: say what the agent is to do");
    }
    Ok(text.to_owned())
}
