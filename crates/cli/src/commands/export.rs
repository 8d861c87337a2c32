//! `offshoot export`: a session as one file that other tools read.

use std::io::Write;

use offshoot_store::{BlobId, export_file};
use serde::Serialize;

use crate::args::Export;
use crate::failure::Failure;
use crate::home::Home;
use crate::notes::Notes;
use crate::source::Source;
use crate::{system, text};

/// What was written. Stable: see `docs/cli.md`.
#[derive(Debug, Serialize)]
struct Report {
    path: String,
    bytes: u64,
    events: u64,
    torn_bytes: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    blobs: Option<String>,
    missing_blobs: Vec<String>,
}

pub(crate) fn run(
    args: &Export,
    home: &Home,
    json: bool,
    out: &mut dyn Write,
) -> Result<(), Failure> {
    if args.to.is_dir() {
        let message = format!("`{}` is a directory", args.to.display());
        return Err(Failure::new("IS_A_DIRECTORY", message)
            .hint("name the file, such as `session.jsonl` or `session.jsonl.zstd`"));
    }
    let notes = Notes::new(json);
    let source = Source::resolve(home, &args.source);
    source.warn_if_ambiguous(notes);
    let exported = match &source {
        Source::Id(id) => {
            home.check()?;
            home.store()
                .export(id, &args.to, system::env().clock.now())?
        }
        Source::File(_) => export_file(&source.file(home)?, &args.to)?,
    };
    source.note_stream_beside(notes);
    let report = Report {
        path: exported.path.display().to_string(),
        bytes: exported.bytes,
        events: exported.events.get(),
        torn_bytes: exported.torn_bytes,
        blobs: exported.blobs.map(|dir| dir.display().to_string()),
        missing_blobs: exported.missing.iter().map(BlobId::to_string).collect(),
    };
    for id in &report.missing_blobs {
        notes.say(&format!(
            "note: {id} is named in the session and is not in the home"
        ));
    }
    if report.torn_bytes > 0 {
        notes.say(&format!(
            "note: {} bytes of an unfinished record at the end of the source are left out",
            report.torn_bytes
        ));
    }
    if json {
        serde_json::to_writer(&mut *out, &report)?;
        writeln!(out)?;
        return Ok(());
    }
    writeln!(out, "{}", report.path)?;
    if let Some(blobs) = &report.blobs {
        writeln!(
            out,
            "  the images and outputs that it names are in `{blobs}`"
        )?;
    }
    writeln!(
        out,
        "  {} events, {} bytes\n\nlook at it: offshoot show {}",
        report.events,
        report.bytes,
        text::quoted(&report.path)
    )?;
    Ok(())
}
