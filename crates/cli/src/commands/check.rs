//! `offshoot check`: whether session files are sound. Never writes.

use std::ffi::OsStr;
use std::io::Write;

use offshoot_format::{CURRENT_VERSION, FormatError, Status as FormatStatus};
use offshoot_model::verify_stream;
use offshoot_session::{Event, EventKind, Finding, LogOffset, NotContinuable, SessionId};
use offshoot_store::{
    JsonlStore, Persistence as _, Query, ReadSession, Status as Listed, StoreError,
};
use serde::Serialize;

use crate::args::Check;
use crate::failure::{self, Failure};
use crate::home::Home;
use crate::notes::Notes;
use crate::source::{FileBytes, FileFailure, Source};
use crate::text;

/// The code of an answer that its stream does not give.
const MISMATCH: &str = "STREAM_MISMATCH";
/// The code of an answer that is not in the file yet.
const UNSTORED_ANSWER: &str = "UNSTORED_ANSWER";
/// The code of a stream that does not belong to its log.
const STRAY_JOURNAL: &str = "STRAY_JOURNAL";

/// What became of one file. Stable: see `docs/cli.md`.
#[derive(Debug, Serialize)]
pub(crate) struct Verdict {
    file: String,
    status: Status,
    /// What a reader has to do with the file.
    #[serde(skip_serializing_if = "Option::is_none")]
    format: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    version: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    line: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    seq: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    byte: Option<u64>,
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
enum Status {
    /// Everything is as it should be.
    Ok,
    /// A crash has left a tail; opening the session repairs it.
    Torn,
    /// Every event is sound, but an answer is not what its stream gives.
    Mismatched,
    /// Something that was committed is damaged.
    Damaged,
    /// Intact, but for another version of the program.
    Unsupported,
    /// Could not be read at all.
    Unreadable,
}

impl Status {
    const fn as_str(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Torn => "torn",
            Self::Mismatched => "mismatched",
            Self::Damaged => "damaged",
            Self::Unsupported => "unsupported",
            Self::Unreadable => "unreadable",
        }
    }

    /// What an error of the store says about the file: the same as in a list.
    const fn of(error: &StoreError) -> Self {
        match Listed::of(error) {
            Listed::Unsupported => Self::Unsupported,
            Listed::Unreadable => Self::Unreadable,
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

    /// The stream of an answer that lies beside the log: one that is not stored yet, and one that does not belong to it.
    fn journals(read: &ReadSession) -> impl Iterator<Item = Self> {
        let settled = read.settled.map(|seq| Self {
            code: UNSTORED_ANSWER,
            seq: seq.get(),
            reason: format!(
                "event {seq} is an answer as far as it had come in, and not in the file yet"
            ),
            hint: Some("going on with the session stores it".to_owned()),
        });
        let end = read.stored.log.end();
        let stray = read.stray.as_ref().map(|stray| Self {
            code: STRAY_JOURNAL,
            seq: end.get(),
            reason: stray.to_string(),
            hint: Some(
                "going on with the session moves it aside; nothing reads it then".to_owned(),
            ),
        });
        settled.into_iter().chain(stray)
    }

    /// An answer that its stream does not give.
    fn mismatch(event: &Event) -> Option<Self> {
        let mismatch = verify_stream(event.data()).err()?;
        let seq = event.seq();
        Some(Self {
            code: MISMATCH,
            seq: seq.get(),
            reason: format!("event {seq}: {mismatch}"),
            hint: Some(
                "the conversation goes by the message, so it can go on; the stream only tells how the answer came"
                    .to_owned(),
            ),
        })
    }
}

pub(crate) fn run(
    args: &Check,
    home: &Home,
    json: bool,
    out: &mut dyn Write,
) -> Result<bool, Failure> {
    let verdicts = if args.sources.is_empty() {
        of_home(home, args.deep, Notes::new(json))?
    } else {
        let named = args.sources.iter();
        named
            .map(|named| verdict(home, named, args.deep, Notes::new(json)))
            .collect()
    };
    let sound = verdicts.iter().all(|verdict| verdict.status == Status::Ok);
    match print_all(&verdicts, home, json, out) {
        // Nobody reads on, but somebody may look at the exit code.
        Err(failure) if failure.broken_pipe => Ok(sound),
        printed => printed.map(|()| sound),
    }
}

fn print_all(
    verdicts: &[Verdict],
    home: &Home,
    json: bool,
    out: &mut dyn Write,
) -> Result<(), Failure> {
    if json {
        serde_json::to_writer_pretty(&mut *out, &verdicts)?;
        writeln!(out)?;
        return Ok(());
    }
    if verdicts.is_empty() {
        writeln!(out, "no sessions in `{}`", home.path().display())?;
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
    if let Some(version) = verdict.older() {
        let read = match events {
            Some(_) => format!(
                ", read as version {CURRENT_VERSION}, whose seqs are shown; `offshoot convert {}` writes that as a file",
                text::quoted(file)
            ),
            None => String::new(),
        };
        writeln!(out, "  stored in format version {version}{read}")?;
    }
    if let Some(reason) = reason {
        writeln!(out, "  {}", text::printable(reason))?;
    }
    if let Some(place) = verdict.place() {
        writeln!(out, "  where: {place}")?;
    }
    if let Some(hint) = hint {
        writeln!(out, "  hint: {hint}")?;
    }
    for finding in findings {
        let reason = text::printable(&finding.reason);
        writeln!(out, "  {}: {reason}", finding.code)?;
        if let Some(hint) = &finding.hint {
            writeln!(out, "  hint: {hint}")?;
        }
    }
    Ok(())
}

/// Every session of the home, in the order of their files.
fn of_home(home: &Home, deep: bool, notes: Notes) -> Result<Vec<Verdict>, Failure> {
    home.check()?;
    let store = home.store();
    let mut listed = store.list(&Query::default())?.rows;
    listed.sort_by(|a, b| a.path.cmp(&b.path));
    let mut verdicts = Vec::new();
    for listed in listed {
        let file = listed.path.display().to_string();
        match listed.header.and_then(|_| store.read(&listed.id)) {
            Ok(read) => verdicts.push(of_session(file, &read, deep)),
            // The error may be what was left to see of it.
            Err(_) if is_gone(&store, &listed.id) => notes.say(&format!(
                "note: session `{}` was deleted meanwhile and is left out",
                listed.id
            )),
            Err(error) => verdicts.push(of_stored_error(file, &error)),
        }
    }
    Ok(verdicts)
}

fn is_gone(store: &JsonlStore, id: &SessionId) -> bool {
    matches!(store.locate(id), Err(StoreError::NotFound { .. }))
}

fn verdict(home: &Home, named: &OsStr, deep: bool, notes: Notes) -> Verdict {
    let source = Source::resolve(home, named);
    source.warn_if_ambiguous(notes);
    source.note_stream_beside(notes);
    let file = match source.path(home) {
        Some(path) => path.display().to_string(),
        None => named.to_string_lossy().into_owned(),
    };
    match source {
        Source::Id(id) => match home.check().map(|()| home.store().read(&id)) {
            Ok(Ok(read)) => of_session(file, &read, deep),
            Ok(Err(error)) => Verdict {
                hint: Failure::from(&error).or_in_trash(home).hint,
                ..of_stored_error(file, &error)
            },
            Err(failure) => of_failure(file, failure),
        },
        Source::File(path) => match FileBytes::read(&path) {
            Ok(bytes) => match bytes.decode() {
                Ok(read) => of_session(file, &read, deep),
                Err(error) => of_error(file, &error, Some(&bytes)),
            },
            Err(FileFailure::Store(error)) => of_error(file, &error, None),
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

fn of_session(file: String, read: &ReadSession, deep: bool) -> Verdict {
    let stored = &read.stored;
    let refused = stored.log.continuable().err();
    let findings = stored.log.findings();
    let mut findings: Vec<FindingRow> = findings
        .map(|finding| FindingRow::new(finding, refused.as_ref()))
        .chain(FindingRow::journals(read))
        .collect();
    let mut status = Status::Ok;
    if deep {
        let answers = stored.log.events();
        let answers = answers.filter(|event| *event.kind() == EventKind::AssistantMessage);
        let known = findings.len();
        findings.extend(answers.filter_map(|event| FindingRow::mismatch(event)));
        if findings.len() > known {
            status = Status::Mismatched;
        }
    }
    let sound = Verdict {
        format: Some(stored.status().as_str()),
        version: Some(stored.version),
        findings,
        events: Some(stored.log.end()),
        ..Verdict::new(file, status)
    };
    match &stored.tail {
        None => sound,
        Some(tail) => Verdict {
            status: Status::Torn,
            line: Some(tail.place.line),
            // In an older file the row itself has another one.
            seq: Some(stored.log.end().get()),
            byte: Some(tail.place.byte),
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

/// An error about a file of the home, which has not been read here.
fn of_stored_error(file: String, error: &StoreError) -> Verdict {
    let bytes = match error {
        StoreError::Format { path, .. } => FileBytes::read(path).ok(),
        _ => None,
    };
    of_error(file, error, bytes.as_ref())
}

fn of_error(file: String, error: &StoreError, bytes: Option<&FileBytes>) -> Verdict {
    let mut verdict = Verdict {
        code: Some(error.code()),
        reason: Some(error.to_string()),
        hint: failure::hint(error),
        ..Verdict::new(file, Status::of(error))
    };
    let StoreError::Format { source, .. } = error else {
        return verdict;
    };
    let place = source.place();
    verdict.format = Some(FormatStatus::from(source).as_str());
    verdict.version = version_of(source, bytes);
    verdict.line = place.map(|place| place.line);
    verdict.seq = place.map(|place| place.seq.get());
    verdict.byte = match source {
        FormatError::CorruptFrame { byte, .. } => Some(*byte),
        _ => place.map(|place| place.byte),
    };
    verdict.reason = Some(source.to_string());
    verdict
}

/// The version of a file that could not be read, as far as it names one.
fn version_of(error: &FormatError, bytes: Option<&FileBytes>) -> Option<u64> {
    match error {
        FormatError::UnsupportedVersion { version, .. } => version.parse().ok(),
        FormatError::UnsupportedMigration { version, .. } => Some(*version),
        _ => bytes?.header().ok().map(|header| header.version()),
    }
}

impl Verdict {
    const fn new(file: String, status: Status) -> Self {
        Self {
            file,
            status,
            format: None,
            version: None,
            line: None,
            seq: None,
            byte: None,
            code: None,
            reason: None,
            hint: None,
            findings: Vec::new(),
            events: None,
        }
    }

    /// The version of a file that is older than what this program writes.
    fn older(&self) -> Option<u64> {
        self.version.filter(|version| *version < CURRENT_VERSION)
    }

    /// Where the reason stands, and whether a crash explains it.
    fn place(&self) -> Option<String> {
        let mut parts = Vec::new();
        if let Some(line) = self.line {
            parts.push(format!("line {line}"));
        }
        if let Some(seq) = self.seq {
            // A file that could not be brought up has only the seqs of its own.
            let own = self.events.is_none() && self.older().is_some();
            parts.push(format!(
                "seq {seq}{}",
                if own { " of the file" } else { "" }
            ));
        }
        if let Some(byte) = self.byte {
            parts.push(format!("byte {byte}"));
        }
        if parts.is_empty() {
            return None;
        }
        let cause = match self.status {
            Status::Torn => "; what a crash left of a record, nothing that was committed",
            Status::Damaged => "; damage, not what a crash leaves at the end",
            _ => "",
        };
        Some(parts.join(", ") + cause)
    }
}
