//! What a command says beside its output: on standard error, where it does not mix with the answer.

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

    /// Says something that a reader of the output should know. For programs it is `{"type":"note","message":…}`.
    #[expect(
        clippy::print_stderr,
        reason = "this is a front end: notes go where they do not mix with the answer"
    )]
    pub(crate) fn say(self, message: &str) {
        if self.json {
            eprintln!("{}", json!({"type": "note", "message": message}));
        } else {
            eprintln!("{message}");
        }
    }
}
