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

    #[expect(
        clippy::print_stderr,
        reason = "this is a front end: notes go where they do not mix with the answer"
    )]
    fn print(self, message: &str, object: &serde_json::Value) {
        if self.json {
            eprintln!("{object}");
        } else {
            eprintln!("{message}");
        }
    }
}
