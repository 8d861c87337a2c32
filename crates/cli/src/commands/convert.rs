//! `offshoot convert`: a file of an older version as one of the current version. The source is only read.

use std::io::Write;

use offshoot_format::CURRENT_VERSION;
use serde::Serialize;

use crate::args::Convert;
use crate::failure::Failure;
use crate::home::Home;
use crate::notes::Notes;
use crate::source::Source;

/// What a conversion came to. Stable: see `docs/cli.md`.
#[derive(Debug, Serialize)]
struct Report {
    file: String,
    version: u64,
    path: String,
    events: u64,
    already: bool,
}

pub(crate) fn run(
    args: &Convert,
    home: &Home,
    json: bool,
    out: &mut dyn Write,
) -> Result<(), Failure> {
    if let Some(dir) = args.to.as_ref().filter(|dir| dir.exists() && !dir.is_dir()) {
        let message = format!("`{}` is not a directory", dir.display());
        return Err(Failure::new("NO_SUCH_DIRECTORY", message).hint(
            "--to names the directory for the new file, whose name follows from its version",
        ));
    }
    let source = Source::resolve(home, &args.source);
    source.warn_if_ambiguous(Notes::new(json));
    let file = source.file(home)?;
    let converted = offshoot_store::convert(&file, args.to.as_deref(), home.locking())?;
    let report = Report {
        file: file.display().to_string(),
        version: converted.version,
        path: converted.path.display().to_string(),
        events: converted.events,
        already: converted.already,
    };
    if json {
        serde_json::to_writer(&mut *out, &report)?;
        writeln!(out)?;
        return Ok(());
    }
    let Report {
        file,
        version,
        path,
        events,
        already,
    } = report;
    writeln!(out, "{path}")?;
    if already {
        writeln!(
            out,
            "  is there already, in format version {CURRENT_VERSION} ({events} events); nothing was written"
        )?;
    } else {
        writeln!(
            out,
            "  {events} events in format version {CURRENT_VERSION}, from version {version}; `{file}` was left as it is"
        )?;
    }
    Ok(())
}
