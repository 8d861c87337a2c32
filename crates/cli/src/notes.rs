//! What a command says beside its output: on standard error, where it does not mix with the answer.

use std::io::Write as _;
use std::path::Path;
use std::sync::Arc;

use offshoot_agent::UnstoredListener;
use offshoot_store::Unstored;
use serde_json::json;

/// How notes are said: to a person or to a program.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Notes {
    json: bool,
}

impl Notes {
    pub(crate) const fn new(json: bool) -> Self {
        Self { json }
    }

    /// Whether a program reads them.
    pub(crate) const fn are_json(self) -> bool {
        self.json
    }

    /// Says each of these as a note.
    pub(crate) fn say_all(self, notes: Vec<String>) {
        for note in notes {
            self.say(&format!("note: {note}"));
        }
    }

    /// Says that an answer which was coming in is not in the file that was named.
    pub(crate) fn stream_beside(self, stream: &Path) {
        self.say(&format!(
            "note: an answer that was coming in lies beside the file, in `{}`; naming the session by its id shows and keeps it",
            stream.display()
        ));
    }

    /// Says what could not be stored while nobody was waiting for it.
    pub(crate) fn on_unstored(self) -> UnstoredListener {
        Arc::new(move |what, error| {
            let lost = match what {
                Unstored::Events => "what happens is not stored at the moment",
                Unstored::Stream => {
                    "the answer that is coming in would not survive a crash of this process"
                }
            };
            self.say(&format!("warning: {lost}: {error} ({})", error.code()));
        })
    }

    /// Says something that a reader of the output should know. For programs it is `{"type":"note","message":…}`.
    pub(crate) fn say(self, message: &str) {
        self.print(message, &json!({"type": "note", "message": message}));
    }

    /// The same with a member for programs, which need not take the text apart.
    pub(crate) fn with(self, message: &str, name: &str, value: &str) {
        self.print(
            message,
            &json!({"type": "note", "message": message, name: value}),
        );
    }

    fn print(self, message: &str, object: &serde_json::Value) {
        let mut err = std::io::stderr().lock();
        // Nobody is left to tell, and what the command does does not depend on it.
        drop(match self.json {
            true => writeln!(err, "{object}"),
            false => writeln!(err, "{message}"),
        });
    }
}
