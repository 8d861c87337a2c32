//! The outputs of a command as a model reads them.

use crate::process::Finished;

/// Text that grows by sections, each beginning on a line of its own.
#[derive(Debug)]
pub(crate) struct Transcript(String);

impl Transcript {
    pub(crate) const fn new() -> Self {
        Self(String::new())
    }

    /// Standard output, then standard error below its mark, each with what is to be said about it.
    pub(crate) fn of([stdout, stderr]: [Finished; 2], if_empty: &str) -> Self {
        let mut transcript = Self(stdout.text);
        if transcript.0.is_empty() && stderr.text.is_empty() {
            transcript.0.push_str(if_empty);
        }
        for note in &stdout.notes {
            transcript.line(note);
        }
        if !stderr.text.is_empty() {
            transcript.line("[stderr]\n");
            transcript.0.push_str(&stderr.text);
        }
        for note in &stderr.notes {
            transcript.line(note);
        }
        transcript
    }

    /// Adds text that begins on a line of its own.
    pub(crate) fn line(&mut self, text: &str) {
        if !self.0.is_empty() && !self.0.ends_with('\n') {
            self.0.push('\n');
        }
        self.0.push_str(text);
    }

    pub(crate) fn into_text(self) -> String {
        self.0
    }
}
