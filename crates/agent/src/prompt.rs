//! What the model is told before the conversation: the system prompt, and where it works.
//!
//! Both are history. The prompt of a conversation is logged with its first step and stays: rewriting it would throw away
//! the provider's prefix cache, and in a fork it would change what the inherited words answered to. The working directory
//! is a message of its own, repeated only when it differs from the last one the model still sees.

use offshoot_model::ContentBlock;
use offshoot_session::{EventKind, EventLog};

use crate::env::Env;
use crate::events::{Section, SnapshotSource, read, row_text};
use crate::input::Input;

/// The system prompt of a session that names none.
pub const DEFAULT_SYSTEM_PROMPT: &str = "\
You are Offshoot, an agent that works on a person's files through tools.

- Look before you change: read a file before you write it, and check what a command will do before you run it.
- Do what was asked and no more. Say what you did, in few words, and what you could not do.
- A tool result that starts with \"Error:\" means that the call failed; say so if it matters.
- A result may say that a call's outcome is unknown, because the process ended or the conversation was branched off \
while it ran. Then find out what is true now before you repeat anything that changes something.";

const CWD_SECTION: &str = "working-directory:current";

fn sections(cwd: &str) -> Vec<Section> {
    let text = format!("Current working directory: {cwd}");
    vec![Section {
        name: CWD_SECTION.to_owned(),
        text,
    }]
}

/// The runtime-context message to add, if the model's picture is out of date.
pub(crate) fn context_update(log: &EventLog, cwd: Option<&str>, env: &Env) -> Option<Input> {
    let sections = sections(cwd?);
    #[derive(serde::Deserialize)]
    struct WithSource {
        source: SnapshotSource,
    }
    let snapshots = log
        .surface()
        .nodes()
        .filter_map(|seq| log.get(seq))
        .filter(|event| *event.kind() == EventKind::UserMessage)
        .filter(|event| {
            let message = event.body().message();
            message.is_some_and(|message| &*message.source == "runtime-context")
        });
    // Only the last one counts, also when it cannot be read: then it is said again.
    let known = snapshots
        .last()
        .and_then(|event| read::<WithSource>(event))
        .is_some_and(|last| {
            let said = last.source.sections;
            sections.iter().all(|section| said.contains(section))
        });
    if known {
        return None;
    }
    let mut text = String::from("This is where you work now; it replaces what was said before.");
    for section in &sections {
        text.push_str("\n\n");
        text.push_str(&section.text);
    }
    let source = SnapshotSource {
        kind: "runtime-context".to_owned(),
        form: "snapshot".to_owned(),
        sections,
    };
    let source = serde_json::from_str(row_text(&source).get()).expect("BUG: a source is one");
    let content = vec![ContentBlock::text(text)];
    Some(Input::blocks(env.fresh_id(), content, source))
}

/// A title from the first words of what a person asked: enough to find the session again.
pub(crate) fn fallback_title(prompt: &str) -> Option<String> {
    const WORDS: usize = 8;
    const BYTES: usize = 60;
    let mut title = String::new();
    for word in prompt.split_whitespace().take(WORDS) {
        let joined = if title.is_empty() {
            word.to_owned()
        } else {
            format!("{title} {word}")
        };
        if joined.len() > BYTES && !title.is_empty() {
            break;
        }
        title = joined;
    }
    let mut end = title.len().min(BYTES);
    while !title.is_char_boundary(end) {
        end -= 1;
    }
    title.truncate(end);
    (!title.is_empty()).then_some(title)
}

#[cfg(test)]
mod tests {
    use super::fallback_title;

    #[test]
    fn titles_are_the_first_words_and_never_split_a_character() {
        let cases = [
            ("fix the bug", Some("fix the bug")),
            (
                "  one\ntwo  three four five six seven eight nine",
                Some("one two three four five six seven eight"),
            ),
            (" \n", None),
            ("", None),
        ];
        for (prompt, title) in cases {
            assert_eq!(fallback_title(prompt).as_deref(), title, "{prompt:?}");
        }
        let long = fallback_title(&"ä".repeat(100)).expect("there is a word");
        assert_eq!(long, "ä".repeat(30));
    }
}
