//! `offshoot salvage`: a new session of the longest beginning of a file that can be proved sound. The source is only read.

use std::io::Write;

use offshoot_agent::AnswerSettler;
use offshoot_session::SessionId;
use offshoot_store::{StoreError, stream_beside};
use serde::Serialize;

use crate::args::Salvage;
use crate::failure::Failure;
use crate::home::Home;
use crate::notes::Notes;
use crate::source::{RawFile, Source};
use crate::{system, text};

/// What could be saved. Stable: see `docs/cli.md`.
#[derive(Debug, Serialize)]
struct Report {
    session: String,
    file: String,
    version: u64,
    path: String,
    events: u64,
    saved: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    loss: Option<Loss>,
    #[serde(skip_serializing_if = "Option::is_none")]
    refused: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    stream: Option<String>,
}

#[derive(Debug, Serialize)]
struct Loss {
    /// Where it begins, if that is not the source but a file that the source begins with.
    #[serde(skip_serializing_if = "Option::is_none")]
    file: Option<String>,
    line: u64,
    seq: u64,
    byte: u64,
    reason: String,
    rows: u64,
    turns: u64,
    bytes: u64,
}

pub(crate) fn run(
    args: &Salvage,
    home: &Home,
    json: bool,
    out: &mut dyn Write,
) -> Result<(), Failure> {
    let source = Source::resolve(home, &args.source);
    let notes = Notes::new(json);
    source.warn_if_ambiguous(notes);
    let target = Home::resolve(Some(args.to.clone()))?.with_locking(home.locking());
    let file = source.file(home)?;
    // Before anything is created: without a header there is nothing to save.
    let header = RawFile::read(&file)?.remains().header();
    header.map_err(|source| StoreError::Format {
        path: file.clone(),
        source,
    })?;
    let unusable =
        |failure: Failure| failure.hint("name a directory that you can write to with --to");
    target.ensure().map_err(unusable)?;

    let env = system::env();
    let child = SessionId::new(format!("session-{}", env.ids.fresh()));
    let salvaged = offshoot_store::salvage_into(&target.store(), &file, child, env.clock.now())?;
    let stream = stream_beside(&file, &AnswerSettler);
    if let Some(stream) = &stream {
        notes.stream_beside(stream);
    }
    let elsewhere = (salvaged.loss_in != file).then(|| salvaged.loss_in.display().to_string());
    let loss = salvaged.loss.map(|loss| Loss {
        file: elsewhere,
        line: loss.place.line,
        seq: loss.place.seq.get(),
        byte: loss.place.byte,
        reason: loss.reason,
        rows: loss.rows,
        turns: loss.turns,
        bytes: loss.bytes,
    });
    let report = Report {
        session: salvaged.id.to_string(),
        file: file.display().to_string(),
        version: salvaged.version,
        path: salvaged.path.display().to_string(),
        events: salvaged.events,
        saved: salvaged.saved,
        loss,
        refused: salvaged.refused,
        stream: stream.map(|stream| stream.display().to_string()),
    };
    if json {
        serde_json::to_writer(&mut *out, &report)?;
        writeln!(out)?;
        return Ok(());
    }
    print(&report, &target, out)
}

fn print(report: &Report, target: &Home, out: &mut dyn Write) -> Result<(), Failure> {
    let Report {
        session,
        file,
        version,
        path,
        events,
        saved,
        loss,
        refused,
        stream,
    } = report;
    writeln!(out, "{session}")?;
    writeln!(
        out,
        "  {} of `{file}` (format version {version}), which was left as it is, and {} for where they end",
        count(*saved, "event"),
        events - saved
    )?;
    writeln!(out, "  stored in `{path}`")?;
    match (loss, refused) {
        (None, None) if stream.is_some() => writeln!(
            out,
            "  every event of the file was saved, and not the answer that lies beside it"
        )?,
        (None, None) => writeln!(out, "  nothing was lost")?,
        (None, Some(refused)) => writeln!(out, "  every row was saved, and yet {refused}")?,
        (Some(loss), _) => {
            let of = loss.file.as_ref();
            let of = of.map_or_else(String::new, |file| format!(" of `{file}`"));
            writeln!(
                out,
                "  lost: everything from line {}{of} (byte {}) on: {}, {}, {}",
                loss.line,
                loss.byte,
                count(loss.rows, "row"),
                count(loss.turns, "turn"),
                count(loss.bytes, "byte")
            )?;
            writeln!(
                out,
                "  because of line {}: {}",
                loss.line,
                text::printable(&loss.reason)
            )?;
        }
    }
    let home = target.path().display().to_string();
    writeln!(
        out,
        "\ngo on with it: offshoot run --session {} --home {} PROMPT",
        text::quoted(session),
        text::quoted(&home)
    )?;
    Ok(())
}

fn count(number: u64, of: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{number} {of}{plural}")
}
