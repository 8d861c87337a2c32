//! The file: one line of JSON that names the attempt, then one line of JSON per chunk, each ended by a line feed.
//!
//! The first line is durable before the first chunk is written. So a file without any line feed is one in which nothing
//! was streamed, and a last line without one is a chunk that was being written when the process ended.

use std::io;
use std::path::Path;
use std::sync::Arc;

use offshoot_format::RunningDigest;
use offshoot_session::{LogOffset, SessionId, StepRef};
use serde::{Deserialize, Serialize};

use super::AttemptStart;
use crate::StoreError;
use crate::disk::{Disk, LogFile};

pub(crate) const NAME: &str = "attempt.journal";
const KIND: &str = "attempt-journal";
const VERSION: u64 = 1;

/// What a journal's first line says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Head {
    pub(super) session: SessionId,
    pub(super) start: AttemptStart,
    /// How many events the log had.
    pub(super) events: LogOffset,
    /// And the running digest behind them.
    pub(super) digest: RunningDigest,
}

#[derive(Serialize, Deserialize)]
struct HeadLine {
    r#type: String,
    version: u64,
    session: String,
    turn: u64,
    step: u64,
    attempt: u64,
    provider: String,
    model: String,
    events: u64,
    digest: String,
}

impl Head {
    fn line(&self) -> String {
        let Self {
            session,
            start,
            events,
            digest,
        } = self;
        let line = HeadLine {
            r#type: KIND.to_owned(),
            version: VERSION,
            session: session.as_str().to_owned(),
            turn: start.at.turn,
            step: start.at.step,
            attempt: start.attempt,
            provider: start.provider.clone(),
            model: start.model.clone(),
            events: events.get(),
            digest: digest.to_string(),
        };
        let mut line = serde_json::to_string(&line).expect("BUG: strings and numbers are JSON");
        line.push('\n');
        line
    }

    fn parse(line: &[u8]) -> Result<Self, String> {
        #[derive(Deserialize)]
        struct Named {
            r#type: String,
            version: u64,
        }
        let unreadable = |error: serde_json::Error| format!("its first line is damaged: {error}");
        let Named { r#type, version } = serde_json::from_slice(line).map_err(unreadable)?;
        if r#type != KIND {
            return Err(format!("its first line says that it is `{type}`"));
        }
        if version != VERSION {
            return Err(format!(
                "it has version {version}; this program reads version {VERSION}"
            ));
        }
        let line: HeadLine = serde_json::from_slice(line).map_err(unreadable)?;
        let digest = RunningDigest::parse(&line.digest);
        Ok(Self {
            session: SessionId::new(line.session),
            start: AttemptStart {
                at: StepRef {
                    turn: line.turn,
                    step: line.step,
                },
                attempt: line.attempt,
                provider: line.provider,
                model: line.model,
            },
            events: LogOffset::new(line.events),
            digest: digest.ok_or("its first line is damaged: no digest")?,
        })
    }
}

/// What is in a journal; `None` if nothing was streamed.
pub(super) fn parse(bytes: &[u8]) -> Result<Option<(Head, Vec<&str>)>, String> {
    let Some(end) = bytes.iter().rposition(|byte| *byte == b'\n') else {
        // The same bytes whatever the attempt: so damage is not taken for a line that was cut off.
        let begins = format!("{{\"type\":\"{KIND}\",\"version\":");
        let length = bytes.len().min(begins.len());
        return match bytes[..length] == begins.as_bytes()[..length] {
            true => Ok(None),
            false => Err("its first line is damaged".to_owned()),
        };
    };
    let mut lines = bytes[..end].split(|byte| *byte == b'\n');
    let head = Head::parse(lines.next().unwrap_or_default())?;
    let lines = lines.zip(2..).map(|(line, number)| {
        std::str::from_utf8(line).map_err(|_| format!("its line {number} is not UTF-8"))
    });
    let lines: Vec<&str> = lines.collect::<Result<_, _>>()?;
    match lines.is_empty() {
        true => Ok(None),
        false => Ok(Some((head, lines))),
    }
}

/// The journal of a session that is open for writing.
#[derive(Debug, Default)]
pub(crate) struct Journal {
    /// That of the attempt which is coming in.
    file: Option<Box<dyn LogFile>>,
}

impl Journal {
    /// Begins anew, durably.
    pub(crate) fn begin(
        &mut self,
        disk: &dyn Disk,
        dir: &Path,
        session: &SessionId,
        start: &AttemptStart,
        (events, digest): (LogOffset, RunningDigest),
    ) -> Result<(), StoreError> {
        self.end(disk, dir);
        let path = dir.join(NAME);
        let head = Head {
            session: session.clone(),
            start: start.clone(),
            events,
            digest,
        };
        let begun = disk.create_file(&path).and_then(|mut file| {
            file.append(head.line().as_bytes())?;
            file.sync()?;
            disk.sync_dir(dir)?;
            Ok(file)
        });
        match begun {
            Ok(file) => {
                self.file = Some(file);
                Ok(())
            }
            Err(error) => {
                // Nothing was streamed into it. If it stays, it says so.
                let _ignored = disk.remove(&path);
                Err(StoreError::io("begin", path)(error))
            }
        }
    }

    /// Adds lines, durably. After an error the journal has a gap: it takes nothing more.
    pub(crate) fn write(&mut self, dir: &Path, lines: &[Arc<str>]) -> Result<(), StoreError> {
        let mut bytes = String::new();
        for line in lines {
            bytes.push_str(line);
            bytes.push('\n');
        }
        let no_attempt = || io::Error::other("no attempt was begun");
        let written = match &mut self.file {
            None => Err(no_attempt()),
            Some(file) => file.append(bytes.as_bytes()).and_then(|()| file.sync()),
        };
        written.map_err(|error| {
            self.file = None;
            StoreError::io("write", dir.join(NAME))(error)
        })
    }

    /// Takes it away. One that stays is recognised by what the log holds.
    pub(crate) fn end(&mut self, disk: &dyn Disk, dir: &Path) {
        let path = dir.join(NAME);
        let was_begun = self.file.take().is_some();
        if was_begun || path.exists() {
            let _ignored = disk.remove(&path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head() -> Head {
        Head {
            session: "demo".into(),
            start: AttemptStart {
                at: StepRef { turn: 1, step: 2 },
                attempt: 3,
                provider: "acme".into(),
                model: "acme-small".into(),
            },
            events: LogOffset::new(12),
            digest: RunningDigest::START,
        }
    }

    #[test]
    fn a_journal_reads_back_and_cut_anywhere_it_gives_a_beginning() {
        let text = format!("{}{{\"a\":1}}\n{{\"b\":2}}\n", head().line());
        let whole = (head(), vec!["{\"a\":1}", "{\"b\":2}"]);
        assert_eq!(parse(text.as_bytes()), Ok(Some(whole)));
        for length in 0..text.len() {
            // The second chunk and its line feed are 8 bytes.
            let has_first = length >= text.len() - 8;
            let expected = has_first.then(|| (head(), vec!["{\"a\":1}"]));
            assert_eq!(parse(&text.as_bytes()[..length]), Ok(expected), "{length}");
        }
    }

    #[test]
    fn what_is_no_beginning_of_a_journal_is_damage() {
        let line = head().line();
        for (text, reason) in [
            ("x".to_owned(), "its first line is damaged"),
            ("\0\0\0\0".to_owned(), "its first line is damaged"),
            (
                format!("{}x\n", line.trim_end()),
                "its first line is damaged: trailing characters at line 1 column 213",
            ),
            (
                line.replace("\"version\":1", "\"version\":2"),
                "it has version 2; this program reads version 1",
            ),
            (
                line.replace(KIND, "session"),
                "its first line says that it is `session`",
            ),
            (
                line.replace("0000", "000"),
                "its first line is damaged: no digest",
            ),
            (
                line.replace("\"turn\":1,", ""),
                "its first line is damaged: missing field `turn` at line 1 column 203",
            ),
        ] {
            assert_eq!(parse(text.as_bytes()), Err(reason.to_owned()), "{text}");
        }
        let not_text = [line.as_bytes(), b"\xFF\n"].concat();
        assert_eq!(parse(&not_text), Err("its line 2 is not UTF-8".to_owned()));
    }

    #[test]
    fn the_first_line_is_what_the_document_says() {
        let expected = format!(
            "{{\"type\":\"attempt-journal\",\"version\":1,\"session\":\"demo\",\"turn\":1,\"step\":2,\"attempt\":3,\
             \"provider\":\"acme\",\"model\":\"acme-small\",\"events\":12,\"digest\":\"{}\"}}\n",
            "0".repeat(64)
        );
        assert_eq!(head().line(), expected);
    }
}
