//! The instructions of a project, as messages that keep up with its files.
//!
//! The source of each message says which files it is about and in which version, so what the model knows is a fold of the
//! messages that it still sees. If that differs from what the files say now, the difference is one more message.

use std::collections::{BTreeMap, BTreeSet};

use offshoot_session::Event;
use offshoot_tool_api::InstructionFile;
use serde::{Deserialize, Serialize};

use super::Said;
use crate::events::read;

pub(super) const KIND: &str = "agent-instructions";

#[derive(Serialize)]
struct Source {
    kind: &'static str,
    form: &'static str,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    baseline: bool,
    changes: Vec<Change>,
}

/// A file as the model was told of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Change {
    action: Action,
    scope: String,
    path: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    digest: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Action {
    Set,
    Replace,
    Remove,
}

/// What has to be said, so that the model knows what the files say. `known` is what it knows, by scope.
pub(super) fn update(
    known: &BTreeMap<String, Change>,
    files: Vec<InstructionFile>,
    budget: usize,
) -> Option<Said> {
    let files: Vec<_> = files
        .into_iter()
        .filter(|file| !file.text.trim().is_empty())
        .collect();
    let here: BTreeSet<&str> = files.iter().map(|file| &*file.scope).collect();
    let gone: Vec<Change> = known
        .values()
        .filter(|change| !here.contains(&*change.scope))
        .map(|change| Change {
            action: Action::Remove,
            digest: None,
            ..change.clone()
        })
        .collect();
    let new: Vec<(&InstructionFile, Action)> = files
        .iter()
        .filter_map(|file| match known.get(&file.scope) {
            None => Some((file, Action::Set)),
            Some(said) if said.digest.as_ref() != Some(&file.digest) => {
                Some((file, Action::Replace))
            }
            Some(_) => None,
        })
        .collect();
    if gone.is_empty() && new.is_empty() {
        return None;
    }
    let baseline = known.is_empty();
    let text = text(baseline, &gone, &new, budget);
    let new = new.into_iter().map(|(file, action)| Change {
        action,
        scope: file.scope.clone(),
        path: file.path.clone(),
        digest: Some(file.digest.clone()),
    });
    let source = Source {
        kind: KIND,
        form: "instructions",
        baseline,
        changes: gone.iter().cloned().chain(new).collect(),
    };
    Some(Said::new(text, &source))
}

/// Adds what a message tells. One that cannot be read tells nothing.
pub(super) fn apply(event: &Event, known: &mut BTreeMap<String, Change>) {
    #[derive(Deserialize)]
    struct Stored {
        source: Changes,
    }
    #[derive(Deserialize)]
    struct Changes {
        changes: Vec<Change>,
    }
    let changes = read::<Stored>(event).map(|stored| stored.source.changes);
    for change in changes.into_iter().flatten() {
        if change.action == Action::Remove {
            known.remove(&change.scope);
        } else {
            known.insert(change.scope.clone(), change);
        }
    }
}

fn text(
    baseline: bool,
    gone: &[Change],
    new: &[(&InstructionFile, Action)],
    budget: usize,
) -> String {
    let mut text = String::from(if baseline {
        "Instructions for work in this directory, from files. Where they differ, those that come later count for more, and \
         what the user says counts for more than all of them."
    } else {
        "The files with instructions for this directory have changed. What follows takes the place of what was said of the \
         same files before."
    });
    for change in gone {
        text.push_str(&format!(
            "\n\n`{}` is gone: what it said no longer applies.",
            change.path
        ));
    }
    for ((file, _), shown) in new.iter().zip(shares(new, budget)) {
        let whole = file.text.trim_end();
        text.push_str(&format!(
            "\n\n<instructions from=\"{}\">\n{}",
            file.path,
            &whole[..shown]
        ));
        if shown < whole.len() {
            text.push_str(&format!(
                "\n[cut: {shown} of {} bytes are shown; read the file for the rest]",
                whole.len()
            ));
        }
        text.push_str("\n</instructions>");
    }
    text
}

/// How much is shown of each file. The most specific ones, which come last, have the first claim; what is cut is cut at the
/// end of a line if there is one.
fn shares(new: &[(&InstructionFile, Action)], budget: usize) -> Vec<usize> {
    let mut left = budget;
    let mut shares: Vec<usize> = new
        .iter()
        .rev()
        .map(|(file, _)| {
            let text = file.text.trim_end();
            let share = if text.len() <= left {
                text.len()
            } else {
                cut(text, left)
            };
            left -= share;
            share
        })
        .collect();
    shares.reverse();
    shares
}

fn cut(text: &str, most: usize) -> usize {
    let end = (0..=most)
        .rev()
        .find(|end| text.is_char_boundary(*end))
        .unwrap_or(0);
    text[..end].rfind('\n').unwrap_or(end)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(name: &str, text: &str) -> InstructionFile {
        InstructionFile {
            scope: format!(".\0{name}"),
            path: name.to_owned(),
            text: text.to_owned(),
            digest: format!("sha256:{text}"),
        }
    }

    #[test]
    fn the_most_specific_file_is_shown_whole_and_the_others_are_cut_at_a_line() {
        let general = file("general", "one\ntwo\nthree\n");
        let specific = file("specific", "four\n");
        let new = [(&general, Action::Set), (&specific, Action::Set)];
        assert_eq!(shares(&new, 100), [13, 4]);
        assert_eq!(shares(&new, 15), [7, 4]);
        assert_eq!(
            shares(&new, 6),
            [2, 4],
            "a line that does not fit is cut within"
        );
        assert_eq!(shares(&new, 0), [0, 0]);
    }

    #[test]
    fn a_cut_splits_no_character() {
        assert_eq!(cut("äöü", 3), 2);
        assert_eq!(cut("ä", 1), 0);
    }

    #[test]
    fn what_is_cut_says_so() {
        let long = file("AGENTS.md", "one\ntwo\nthree\n");
        insta::assert_snapshot!(text(true, &[], &[(&long, Action::Set)], 8), @r#"
        Instructions for work in this directory, from files. Where they differ, those that come later count for more, and what the user says counts for more than all of them.

        <instructions from="AGENTS.md">
        one
        two
        [cut: 7 of 13 bytes are shown; read the file for the rest]
        </instructions>
        "#);
    }
}
