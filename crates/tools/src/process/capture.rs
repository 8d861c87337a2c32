//! What a process says, in bounded memory.
//!
//! Beginning and end are shown, and once there is more than can be shown, everything goes into a file ([`Spill`]), up to a
//! limit. A command never fails because its output could not be kept.

use std::fmt;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use offshoot_tool_api::{Bounded, HeadTail, OutputLimits, Spill, SpillFile};

/// How much of each of the two outputs is shown.
pub(crate) const SHOWN: OutputLimits = OutputLimits {
    max_bytes: 30 * 1024,
    max_lines: 1000,
};

/// How much of an output is kept in a file.
const MOST_KEPT: u64 = 64 * 1024 * 1024;

/// One output of a process.
#[derive(Debug)]
pub(crate) struct Capture {
    /// `standard output` or `standard error`.
    name: &'static str,
    /// What was not taken yet.
    shown: HeadTail,
    /// The beginning of a character whose end has not come.
    torn: Vec<u8>,
    /// Whether something was no text.
    binary: bool,
    total: u64,
    /// Whether something was left out of what was taken.
    cut: bool,
    whole: Whole,
}

/// Where everything goes.
enum Whole {
    /// Still short enough to be shown.
    Held(Vec<u8>, Option<Arc<dyn Spill>>),
    /// A file, with the number of bytes in it.
    File(Box<dyn SpillFile>, u64),
    /// There is no place for it.
    Nowhere,
    Failed(io::Error),
}

impl fmt::Debug for Whole {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Held(held, _) => write!(f, "Held({})", held.len()),
            Self::File(_, kept) => write!(f, "File({kept})"),
            Self::Nowhere => f.write_str("Nowhere"),
            Self::Failed(error) => write!(f, "Failed({error})"),
        }
    }
}

/// What is left to say when an output has ended.
#[derive(Debug, Default)]
pub(crate) struct Finished {
    /// What was not taken before.
    pub(crate) text: String,
    /// What a reader should know about it, each for a line of its own.
    pub(crate) notes: Vec<String>,
    /// The file with the whole output.
    pub(crate) file: Option<PathBuf>,
}

impl Capture {
    pub(crate) fn new(name: &'static str, spill: Option<Arc<dyn Spill>>) -> Self {
        Self {
            name,
            shown: HeadTail::new(SHOWN),
            torn: Vec::new(),
            binary: false,
            total: 0,
            cut: false,
            whole: Whole::Held(Vec::new(), spill),
        }
    }

    /// Takes the next bytes of the output.
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        self.total += bytes.len() as u64;
        self.keep(bytes);
        self.show(bytes);
    }

    fn keep(&mut self, bytes: &[u8]) {
        if let Whole::Held(held, spill) = &mut self.whole {
            held.extend_from_slice(bytes);
            if held.len() > SHOWN.max_bytes {
                self.whole = begin(spill.as_ref(), held);
            }
            return;
        }
        if let Whole::File(file, kept) = &mut self.whole {
            let room = usize::try_from(MOST_KEPT.saturating_sub(*kept)).unwrap_or(usize::MAX);
            let bytes = &bytes[..bytes.len().min(room)];
            match file.write_all(bytes) {
                Ok(()) => *kept += bytes.len() as u64,
                Err(error) => self.whole = Whole::Failed(error),
            }
        }
    }

    /// Hands on whole characters only, so that none is torn between two looks.
    fn show(&mut self, bytes: &[u8]) {
        let joined;
        let bytes = if self.torn.is_empty() {
            bytes
        } else {
            joined = [&self.torn, bytes].concat();
            &joined
        };
        let torn = self.check(bytes);
        self.shown.push(&bytes[..bytes.len() - torn]);
        self.torn = bytes[bytes.len() - torn..].to_vec();
    }

    /// How many bytes at the end may be the beginning of a character; notices what is no text.
    fn check(&mut self, bytes: &[u8]) -> usize {
        // Once it is known, only the end is of interest.
        let mut rest = if self.binary {
            &bytes[bytes.len().saturating_sub(3)..]
        } else {
            bytes
        };
        while let Err(error) = std::str::from_utf8(rest) {
            let Some(length) = error.error_len() else {
                return rest.len() - error.valid_up_to();
            };
            rest = &rest[error.valid_up_to() + length..];
            if !self.binary {
                self.binary = true;
                rest = &rest[rest.len().saturating_sub(3)..];
            }
        }
        0
    }

    /// What came since the last look.
    pub(crate) fn take(&mut self) -> String {
        let shown = std::mem::replace(&mut self.shown, HeadTail::new(SHOWN));
        let Bounded { text, omitted } = shown.finish();
        self.cut |= omitted.is_some();
        text
    }

    /// Closes the file, which may wait for the disk.
    pub(crate) fn finish(mut self) -> Finished {
        let torn = std::mem::take(&mut self.torn);
        self.binary |= !torn.is_empty();
        self.shown.push(&torn);
        let text = self.take();
        let mut notes = Vec::new();
        let whole = match self.whole {
            Whole::Held(held, spill) if self.cut => begin(spill.as_ref(), &held),
            whole => whole,
        };
        let name = self.name;
        let file = match whole {
            Whole::File(file, kept) => match file.finish() {
                Ok(path) => {
                    let part = if kept < self.total {
                        format!("The first {} MiB of", MOST_KEPT / 1024 / 1024)
                    } else {
                        "All of".to_owned()
                    };
                    notes.push(format!(
                        "[{part} {name} is in `{}`: use read or grep on it.]",
                        path.display()
                    ));
                    Some(path)
                }
                Err(error) => {
                    notes.push(not_kept(name, &error));
                    None
                }
            },
            Whole::Failed(error) => {
                notes.push(not_kept(name, &error));
                None
            }
            Whole::Held(..) | Whole::Nowhere => None,
        };
        if self.binary {
            notes.push(format!(
                "[Not all of {name} is text: what is not UTF-8 is shown as \u{FFFD}.]"
            ));
        }
        Finished { text, notes, file }
    }
}

fn not_kept(name: &str, error: &io::Error) -> String {
    format!("[The whole of {name} could not be kept: {error}.]")
}

fn begin(spill: Option<&Arc<dyn Spill>>, held: &[u8]) -> Whole {
    let Some(spill) = spill else {
        return Whole::Nowhere;
    };
    let begun = spill.begin().and_then(|mut file| {
        file.write_all(held)?;
        Ok(file)
    });
    match begun {
        Ok(file) => Whole::File(file, held.len() as u64),
        Err(error) => Whole::Failed(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn captured(pieces: &[&[u8]]) -> (Vec<String>, Vec<String>) {
        let mut capture = Capture::new("standard output", None);
        let mut texts: Vec<String> = pieces
            .iter()
            .map(|piece| {
                capture.push(piece);
                capture.take()
            })
            .collect();
        let Finished { text, notes, .. } = capture.finish();
        texts.push(text);
        (texts, notes)
    }

    #[test]
    fn a_character_is_never_torn_between_two_looks() {
        let (texts, notes) = captured(&[b"gr\xc3", b"\xbc\xc3", b"\x9fe"]);
        assert_eq!(texts, ["gr", "ü", "ße", ""]);
        assert_eq!(notes, [""; 0]);
    }

    #[test]
    fn what_is_no_text_is_shown_as_such_and_said() {
        let said =
            ["[Not all of standard output is text: what is not UTF-8 is shown as \u{FFFD}.]"];
        for (pieces, shown) in [
            (&[&b"a\xffb"[..], b"\xc3", b"\xbc"][..], "a\u{FFFD}bü"),
            (&[b"a\xc3"], "a\u{FFFD}"),
            (&[b"\x80\xc3", b"a"], "\u{FFFD}\u{FFFD}a"),
        ] {
            let (texts, notes) = captured(pieces);
            assert_eq!(
                (&*texts.concat(), &*notes),
                (shown, &said.map(str::to_owned)[..])
            );
        }
    }
}
