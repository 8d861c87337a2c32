//! The difference between two texts of JSON lines, for people.
//!
//! Lines that stand in for one another are compared member by member: in a line of a thousand characters nobody finds the one
//! that is another.

use std::fmt::Write as _;

use serde_json::Value;
use similar::{ChangeTag, TextDiff};

use crate::text::shorten;

/// How many lines around a change are shown.
const CONTEXT: usize = 2;
/// How much of a line is shown, in characters.
const LINE: usize = 200;
/// How much of a member.
const MEMBER: usize = 400;
/// How many members of a line.
const MEMBERS: usize = 8;

/// What differs; `None` if nothing does. Lines begin with `-` where something is expected, with `+` where it is there instead.
pub(crate) fn difference(expected: &str, found: &str) -> Option<String> {
    if expected == found {
        return None;
    }
    let diff = TextDiff::from_lines(expected, found);
    let mut out = String::new();
    for group in diff.grouped_ops(CONTEXT) {
        let (Some(first), Some(last)) = (group.first(), group.last()) else {
            continue;
        };
        let (from, to) = (first.old_range().start + 1, last.old_range().end.max(1));
        push(&mut out, &format!("@ lines {from} to {to}"));
        for op in &group {
            let mut gone: Vec<&str> = Vec::new();
            let mut new: Vec<&str> = Vec::new();
            for change in diff.iter_changes(op) {
                let line = change.value().trim_end_matches('\n');
                match change.tag() {
                    ChangeTag::Equal => push(&mut out, &format!("  {}", shorten(line, LINE))),
                    ChangeTag::Delete => gone.push(line),
                    ChangeTag::Insert => new.push(line),
                }
            }
            changed(&mut out, &gone, &new);
        }
    }
    if out.is_empty() {
        push(&mut out, "they differ in how their last line ends");
    }
    Some(out)
}

/// Lines that are gone, and those in their place.
fn changed(out: &mut String, gone: &[&str], new: &[&str]) {
    let pairs = gone.len().min(new.len());
    for (gone, new) in gone.iter().zip(new) {
        match members(gone, new) {
            Some(members) => {
                push(out, &format!("! {}", shorten(gone, LINE)));
                members.iter().for_each(|member| push(out, member));
            }
            None => {
                push(out, &format!("- {}", shorten(gone, LINE)));
                push(out, &format!("+ {}", shorten(new, LINE)));
            }
        }
    }
    for line in &gone[pairs..] {
        push(out, &format!("- {}", shorten(line, LINE)));
    }
    for line in &new[pairs..] {
        push(out, &format!("+ {}", shorten(line, LINE)));
    }
}

/// The members in which two events of one type, or two lines of output of one step, differ. `None` if they are about other
/// things, and stand in for one another by chance.
fn members(expected: &str, found: &str) -> Option<Vec<String>> {
    let expected: Value = serde_json::from_str(expected).ok()?;
    let found: Value = serde_json::from_str(found).ok()?;
    let about = |value: &Value| ["type", "do", "step"].map(|name| value.get(name).cloned());
    if !expected.is_object() || about(&expected) != about(&found) {
        return None;
    }
    let mut paths = Vec::new();
    walk(String::new(), Some(&expected), Some(&found), &mut paths);
    let more = paths.len().saturating_sub(MEMBERS);
    paths.truncate(MEMBERS);
    let mut lines: Vec<String> = Vec::new();
    for (path, expected, found) in paths {
        lines.push(format!("    {path}"));
        lines.push(format!("    - {}", told(expected)));
        lines.push(format!("    + {}", told(found)));
    }
    if more > 0 {
        lines.push(format!("    and {more} more"));
    }
    // Alike as JSON: what differs is how it is written.
    (!lines.is_empty()).then_some(lines)
}

type Differing<'a> = (String, Option<&'a Value>, Option<&'a Value>);

fn walk<'a>(
    path: String,
    expected: Option<&'a Value>,
    found: Option<&'a Value>,
    out: &mut Vec<Differing<'a>>,
) {
    match (expected, found) {
        (Some(Value::Object(a)), Some(Value::Object(b))) => {
            let mut names: Vec<&String> = a.keys().collect();
            names.extend(b.keys().filter(|name| !a.contains_key(*name)));
            for name in names {
                let path = match path.is_empty() {
                    true => name.clone(),
                    false => format!("{path}.{name}"),
                };
                walk(path, a.get(name), b.get(name), out);
            }
        }
        (Some(Value::Array(a)), Some(Value::Array(b))) => {
            for at in 0..a.len().max(b.len()) {
                walk(format!("{path}[{at}]"), a.get(at), b.get(at), out);
            }
        }
        (a, b) if a != b => out.push((path, a, b)),
        _ => {}
    }
}

fn told(value: Option<&Value>) -> String {
    value.map_or_else(
        || "(not there)".to_owned(),
        |value| shorten(&value.to_string(), MEMBER),
    )
}

fn push(out: &mut String, line: &str) {
    let written = writeln!(out, "{line}");
    written.expect("BUG: a string takes whatever is written to it");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_that_are_alike_do_not_differ() {
        assert_eq!(difference("{}\n", "{}\n"), None);
    }

    #[test]
    fn lines_of_one_event_are_compared_member_by_member() {
        let expected = "{\"version\":4}\n{\"type\":\"turn/start\",\"data\":{\"turn\":1}}\n{\"type\":\"user/message\",\"data\":{\"content\":[{\"text\":\"a\"}]}}\n{\"type\":\"turn/end\",\"data\":{}}\n";
        let found = expected.replace("\"a\"", "\"b\"");
        insta::assert_snapshot!(difference(expected, &found).unwrap(), @r#"
        @ lines 1 to 4
          {"version":4}
          {"type":"turn/start","data":{"turn":1}}
        ! {"type":"user/message","data":{"content":[{"text":"a"}]}}
            data.content[0].text
            - "a"
            + "b"
          {"type":"turn/end","data":{}}
        "#);
    }

    #[test]
    fn an_event_that_is_missing_and_one_too_many_are_shown_as_they_are() {
        let expected = "{\"type\":\"a\"}\n{\"type\":\"b\"}\n{\"type\":\"c\"}\n";
        let found = "{\"type\":\"a\"}\n{\"type\":\"c\"}\n{\"type\":\"d\",\"data\":1}\n";
        insta::assert_snapshot!(difference(expected, found).unwrap(), @r#"
        @ lines 1 to 3
          {"type":"a"}
        - {"type":"b"}
          {"type":"c"}
        + {"type":"d","data":1}
        "#);
    }

    #[test]
    fn a_line_end_that_is_missing_is_said() {
        assert!(difference("{}\n", "{}").is_some());
    }
}
