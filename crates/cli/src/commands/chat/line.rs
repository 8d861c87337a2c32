//! Lines from a person: edited at a terminal, or as they are from anything else.

use std::io::{BufRead as _, IsTerminal as _};
use std::path::PathBuf;
use std::sync::mpsc::Sender;
use std::thread;

use anyhow::{Context as _, Result};
use rustyline::error::ReadlineError;
use rustyline::history::FileHistory;
use rustyline::{DefaultEditor, Editor};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio::sync::oneshot;

use super::above::above;
use super::terminal::Settings;
use crate::home;
use crate::interrupts::{Interrupt, Interrupts};

/// What was entered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Entered {
    Line(String),
    /// Ctrl-C: the line does not count.
    Interrupted,
    /// Ctrl-D, or the end of what was piped in.
    End,
    /// A signal asks the program to end.
    Terminated,
}

/// The lines that a person enters.
pub(super) struct Lines {
    source: Source,
    /// The lines of a message that goes on.
    unfinished: String,
}

/// Where lines come from.
enum Source {
    Terminal {
        /// Out while it reads a line.
        editor: Option<Box<Editor<(), FileHistory>>>,
        /// Where the history is kept.
        history: Option<PathBuf>,
        /// How the terminal was before.
        settings: Settings,
        /// Prints while a line is read, if the terminal lets that be.
        above: Option<Sender<String>>,
    },
    /// Read on a thread of its own, so that Ctrl-C is heard meanwhile.
    Piped(UnboundedReceiver<String>),
}

impl Lines {
    pub(super) fn open() -> Result<Self> {
        if !std::io::stdin().is_terminal() {
            let (send, lines) = unbounded_channel();
            thread::spawn(move || {
                for line in std::io::stdin().lock().lines() {
                    // What is no text ends it, as the end does.
                    let Ok(line) = line else { return };
                    if send.send(line).is_err() {
                        return;
                    }
                }
            });
            return Ok(Self::from(Source::Piped(lines)));
        }
        let mut editor = DefaultEditor::new().context("could not set the terminal up")?;
        let history = home::cache().map(|cache| cache.join("chat-history"));
        if let Some(file) = &history {
            // It costs nothing but memories if it is not there.
            drop(editor.load_history(file));
        }
        let printer = editor.create_external_printer();
        Ok(Self::from(Source::Terminal {
            editor: Some(Box::new(editor)),
            history,
            settings: Settings::now(),
            above: printer.ok().map(above),
        }))
    }

    const fn from(source: Source) -> Self {
        Self {
            source,
            unfinished: String::new(),
        }
    }

    /// Whether a person sees what stands before the line.
    pub(super) const fn is_terminal(&self) -> bool {
        matches!(self.source, Source::Terminal { .. })
    }

    /// Where to print while a line is read, if that must not go past the editor.
    pub(super) const fn above(&self) -> Option<&Sender<String>> {
        match &self.source {
            Source::Terminal { above, .. } => above.as_ref(),
            Source::Piped(_) => None,
        }
    }

    /// What a person says, with all its lines: one that ends in a backslash goes on. `start` can be changed before it is
    /// entered. Where lines are piped in, nothing is lost if the future is dropped.
    pub(super) async fn message(
        &mut self,
        prompt: &str,
        start: &str,
        interrupts: &mut Interrupts,
    ) -> Result<Entered> {
        let mut prompt = prompt;
        let mut start = start;
        loop {
            match self.read(prompt, start, interrupts).await? {
                Entered::Line(line) => match line.strip_suffix('\\') {
                    Some(line) => {
                        self.unfinished.push_str(line);
                        self.unfinished.push('\n');
                    }
                    None => {
                        let whole = std::mem::take(&mut self.unfinished) + &line;
                        self.remember(&whole);
                        return Ok(Entered::Line(whole));
                    }
                },
                Entered::End if !self.unfinished.is_empty() => {
                    return Ok(Entered::Line(std::mem::take(&mut self.unfinished)));
                }
                other => {
                    self.unfinished.clear();
                    return Ok(other);
                }
            }
            prompt = "… ";
            start = "";
        }
    }

    /// One line.
    pub(super) async fn read(
        &mut self,
        prompt: &str,
        start: &str,
        interrupts: &mut Interrupts,
    ) -> Result<Entered> {
        match &mut self.source {
            Source::Terminal {
                editor, settings, ..
            } => {
                let mut at_work = editor.take().context("the terminal is in use already")?;
                let (prompt, start) = (prompt.to_owned(), start.to_owned());
                let (done, read) = oneshot::channel();
                // On a thread of its own, so that signals are heard meanwhile.
                thread::spawn(move || {
                    let line = at_work.readline_with_initial(&prompt, (&start, ""));
                    // Nobody waits any more if the program is ending.
                    done.send((at_work, line)).ok();
                });
                let terminated = async {
                    // While a line is read Ctrl-C is a key.
                    while interrupts.next().await != Interrupt::Terminate {}
                };
                let read = tokio::select! {
                    read = read => read.context("the terminal is gone")?,
                    () = terminated => {
                        settings.restore();
                        return Ok(Entered::Terminated);
                    }
                };
                let (back, line) = read;
                *editor = Some(back);
                match line {
                    Ok(line) => Ok(Entered::Line(line)),
                    Err(ReadlineError::Interrupted) => Ok(Entered::Interrupted),
                    Err(ReadlineError::Eof) => Ok(Entered::End),
                    Err(error) => Err(error).context("could not read from the terminal"),
                }
            }
            Source::Piped(lines) => tokio::select! {
                line = lines.recv() => Ok(line.map_or(Entered::End, Entered::Line)),
                _ = interrupts.next() => Ok(Entered::Terminated),
            },
        }
    }

    fn remember(&mut self, line: &str) {
        let Source::Terminal {
            editor: Some(editor),
            history,
            ..
        } = &mut self.source
        else {
            return;
        };
        if line.trim().is_empty() || editor.add_history_entry(line).is_err() {
            return;
        }
        if let Some(file) = history {
            if let Some(dir) = file.parent() {
                drop(std::fs::create_dir_all(dir));
            }
            drop(editor.append_history(file));
        }
    }
}
