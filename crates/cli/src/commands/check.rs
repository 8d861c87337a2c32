//! `offshoot check`: whether session files are sound. Never writes.

use std::ffi::OsStr;
use std::io::Write;

use offshoot_session::{Finding, LogOffset, NotContinuable};
use offshoot_store::{Persistence as _, ReadSession, StoreError};
use serde::Serialize;

use crate::args::Check;
use crate::failure::{self, Failure};
use crate::home::Home;
use crate::notes::Notes;
use crate::source::{FileFailure, Source};

/// What became of one file. Stable: see `docs/cli.md`.
#[derive(Debug, Serialize)]
pub(crate) struct Verdict {
    file: String,
    status: Status,
    #[serde(skip_serializing_if = "Option::is_none")]
    line: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    seq: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    code: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    hint: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    findings: Vec<FindingRow>,
    /// Only for people: how much there is.
    #[serde(skip)]
    events: Option<LogOffset>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Status {
    /// Everything is as it should be.
    Ok,
    /// A crash has left a tail; opening the session repairs it.
    Torn,
    /// Something that was committed is damaged.
    Damaged,
    /// Intact, but for another version of the program.
    Unsupported,
    /// Could not be read at all.
    Unreadable,
}

impl Status {
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Torn => "torn",
            Self::Damaged => "damaged",
            Self::Unsupported => "unsupported",
            Self::Unreadable => "unreadable",
        }
    }

    /// What an error of the store says about the file.
    pub(crate) const fn of(error: &StoreError) -> Self {
        match error {
            StoreError::Format { source, .. } if source.is_unsupported() => Self::Unsupported,
            StoreError::Io { .. }
            | StoreError::NotFound { .. }
            | StoreError::InvalidName { .. } => Self::Unreadable,
            _ => Self::Damaged,
        }
    }
}

#[derive(Debug, Serialize)]
struct FindingRow {
    code: &'static str,
    seq: u64,
    reason: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    hint: Option<String>,
}

impl FindingRow {
    /// `refused` is why the conversation cannot go on, if it cannot: then that is what to do about it.
    fn new(finding: &Finding, refused: Option<&NotContinuable>) -> Self {
        let (seq, code) = (finding.seq(), finding.code());
        let reason = match finding {
            Finding::UnansweredCalls { calls, .. } => {
                let ids: Vec<String> = calls.iter().map(|(id, _)| format!("`{id}`")).collect();
                format!(
                    "event {seq} closed a step although {} had no result",
                    ids.join(", ")
                )
            }
            other => format!("{other:?}"),
        };
        let cut = refused.and_then(|refused| refused.nearest_cut);
        Self {
            code,
            seq: seq.get(),
            reason,
            hint: cut.map(|cut| {
                format!(
                    "it cannot go on as it is; a fork at {cut}, where the step is still open, can"
                )
            }),
        }
    }
}

pub(crate) fn run(
    args: &Check,
    home: &Home,
    json: bool,
    out: &mut dyn Write,
) -> Result<bool, Failure> {
    let verdicts: Vec<Verdict> = args
        .sources
        .iter()
        .map(|named| verdict(home, named, Notes::new(json)))
        .collect();
    let sound = verdicts.iter().all(|verdict| verdict.status == Status::Ok);
    match print_all(&verdicts, json, out) {
        // Nobody reads on, but somebody may look at the exit code.
        Err(failure) if failure.broken_pipe => Ok(sound),
        printed => printed.map(|()| sound),
    }
}

fn print_all(verdicts: &[Verdict], json: bool, out: &mut dyn Write) -> Result<(), Failure> {
    if json {
        serde_json::to_writer_pretty(&mut *out, &verdicts)?;
        writeln!(out)?;
        return Ok(());
    }
    for verdict in verdicts {
        print(verdict, out)?;
    }
    Ok(())
}

fn print(verdict: &Verdict, out: &mut dyn Write) -> Result<(), Failure> {
    let Verdict {
        file,
        status,
        reason,
        hint,
        findings,
        events,
        ..
    } = verdict;
    let size = events
        .map(|events| format!(" ({events} events)"))
        .unwrap_or_default();
    writeln!(out, "{file}: {}{size}", status.as_str())?;
    if let Some(reason) = reason {
        writeln!(out, "  {reason}")?;
    }
    if let Some(hint) = hint {
        writeln!(out, "  hint: {hint}")?;
    }
    for finding in findings {
        writeln!(out, "  {}: {}", finding.code, finding.reason)?;
        if let Some(hint) = &finding.hint {
            writeln!(out, "  hint: {hint}")?;
        }
    }
    Ok(())
}

fn verdict(home: &Home, named: &OsStr, notes: Notes) -> Verdict {
    let source = Source::resolve(home, named);
    source.warn_if_ambiguous(notes);
    let file = match source.path(home) {
        Some(path) => path.display().to_string(),
        None => named.to_string_lossy().into_owned(),
    };
    match source {
        Source::Id(id) => match home.check().map(|()| home.store().read(&id)) {
            Ok(Ok(read)) => of_session(file, &read),
            Ok(Err(error)) => of_error(file, &error),
            Err(failure) => of_failure(file, failure),
        },
        Source::File(path) => match crate::source::read_file(&path) {
            Ok(read) => of_session(file, &read),
            Err(FileFailure::Store(error)) => of_error(file, &error),
            Err(FileFailure::Other(failure)) => of_failure(file, failure),
        },
    }
}

fn of_failure(file: String, failure: Failure) -> Verdict {
    Verdict {
        code: Some(failure.code),
        reason: Some(failure.message),
        hint: failure.hint,
        ..Verdict::new(file, Status::Unreadable)
    }
}

fn of_session(file: String, read: &ReadSession) -> Verdict {
    let stored = &read.stored;
    let refused = stored.log.continuable().err();
    let findings = stored.log.findings();
    let findings = findings
        .map(|finding| FindingRow::new(finding, refused.as_ref()))
        .collect();
    let sound = Verdict {
        findings,
        events: Some(stored.log.end()),
        ..Verdict::new(file, Status::Ok)
    };
    match &stored.tail {
        None => sound,
        Some(tail) => Verdict {
            status: Status::Torn,
            line: Some(tail.place.line),
            seq: Some(tail.place.seq.get()),
            code: Some("TORN_TAIL"),
            reason: Some(format!(
                "line {}: {}; {} bytes from byte {} on",
                tail.place.line, tail.reason, tail.bytes, tail.keep
            )),
            hint: Some(
                "everything before it is sound; going on with the session repairs it".to_owned(),
            ),
            ..sound
        },
    }
}

fn of_error(file: String, error: &StoreError) -> Verdict {
    let (place, reason) = match error {
        StoreError::Format { source, .. } => (source.place(), source.to_string()),
        other => (None, other.to_string()),
    };
    Verdict {
        line: place.map(|place| place.line),
        seq: place.map(|place| place.seq.get()),
        code: Some(error.code()),
        reason: Some(reason),
        hint: failure::hint(error),
        ..Verdict::new(file, Status::of(error))
    }
}

impl Verdict {
    const fn new(file: String, status: Status) -> Self {
        Self {
            file,
            status,
            line: None,
            seq: None,
            code: None,
            reason: None,
            hint: None,
            findings: Vec::new(),
            events: None,
        }
    }
}
