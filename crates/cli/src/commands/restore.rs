//! `offshoot restore`: a deleted session comes back to where it was.

use std::io::Write;

use comfy_table::{ContentArrangement, Table, presets};
use offshoot_session::SessionId;
use offshoot_store::{Choice, StoreError, Trash, Trashed};
use serde::Serialize;

use crate::args::Restore;
use crate::failure::{self, Failure};
use crate::home::Home;
use crate::text;

/// A deleted session. Stable: see `docs/cli.md`.
#[derive(Debug, Serialize)]
struct Row {
    session: String,
    entry: String,
    deleted_at: i64,
    path: String,
}

/// What is in the trash. Stable: see `docs/cli.md`.
#[derive(Debug, Serialize)]
struct Listing {
    trash: Vec<Row>,
    problems: Vec<Problem>,
}

#[derive(Debug, Serialize)]
struct Problem {
    code: &'static str,
    reason: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    hint: Option<String>,
}

/// What was brought back. Stable: see `docs/cli.md`.
#[derive(Debug, Serialize)]
struct Report {
    session: String,
    path: String,
    entry: String,
    deleted_at: i64,
    others: Vec<Row>,
}

pub(crate) fn run(
    args: &Restore,
    home: &Home,
    json: bool,
    out: &mut dyn Write,
) -> Result<bool, Failure> {
    home.check()?;
    match &args.id {
        Some(id) => restore(id, args.entry.as_deref(), home, json, out).map(|()| true),
        None => list(home, json, out),
    }
}

fn restore(
    id: &str,
    entry: Option<&str>,
    home: &Home,
    json: bool,
    out: &mut dyn Write,
) -> Result<(), Failure> {
    let store = home.store();
    let choice = entry.map_or(Choice::Newest, |entry| Choice::Entry(entry.to_owned()));
    let session = SessionId::new(id);
    let restored = store.restore_from_trash(&session, &choice);
    let restored = restored.map_err(|error| {
        let trash = store.trashed().unwrap_or_default().sessions;
        refused(error, id, entry, &trash)
    })?;
    let report = Report {
        session: restored.from.id.to_string(),
        path: restored.path.display().to_string(),
        entry: restored.from.entry,
        deleted_at: restored.from.deleted_at,
        others: restored.others.into_iter().map(row).collect(),
    };
    if json {
        serde_json::to_writer(&mut *out, &report)?;
        writeln!(out)?;
        return Ok(());
    }
    writeln!(out, "{}", report.session)?;
    writeln!(
        out,
        "  deleted {}, back in `{}`",
        text::moment(report.deleted_at),
        report.path
    )?;
    for other in &report.others {
        writeln!(
            out,
            "  another one with this id is still in the trash: {}, deleted {}",
            other.entry,
            text::moment(other.deleted_at)
        )?;
    }
    let id = text::quoted(&report.session);
    writeln!(out, "\ngo on with it: offshoot run --session {id} PROMPT")?;
    Ok(())
}

/// Says which sessions there are to choose from.
fn refused(error: StoreError, id: &str, entry: Option<&str>, trash: &[Trashed]) -> Failure {
    let same = trash.iter().filter(|one| one.id.as_str() == id);
    match &error {
        StoreError::AlreadyExists { .. } => {
            let newest = same.map(|one| one.entry.as_str()).next();
            let entry = entry.or(newest).unwrap_or_default();
            let id = text::quoted(id);
            Failure::from(error).hint(format!(
                "delete the one that is there, and name the entry of this one: \
                 offshoot rm {id} && offshoot restore {id} --entry {entry}"
            ))
        }
        StoreError::NotInTrash { .. } if entry.is_some() => {
            let entries: Vec<_> = same.map(|one| one.entry.as_str()).collect();
            let hint = match entries.is_empty() {
                true => failure::hint(&error).unwrap_or_default(),
                false => format!("it is in these entries: {}", entries.join(", ")),
            };
            Failure::from(error).hint(hint)
        }
        _ => error.into(),
    }
}

fn list(home: &Home, json: bool, out: &mut dyn Write) -> Result<bool, Failure> {
    let Trash { sessions, problems } = home.store().trashed()?;
    let is_good = problems.is_empty();
    let listing = Listing {
        trash: sessions.into_iter().map(row).collect(),
        problems: problems
            .into_iter()
            .map(|problem| Problem {
                code: problem.code(),
                reason: problem.to_string(),
                hint: failure::hint(&problem),
            })
            .collect(),
    };
    if json {
        serde_json::to_writer_pretty(&mut *out, &listing)?;
        writeln!(out)?;
        return Ok(is_good);
    }
    if listing.trash.is_empty() && is_good {
        writeln!(out, "nothing in the trash of `{}`", home.path().display())?;
    }
    if !listing.trash.is_empty() {
        let mut table = Table::new();
        table
            .load_style(presets::NOTHING)
            .set_content_arrangement(ContentArrangement::Disabled);
        table.set_header(["ID", "DELETED", "ENTRY"]);
        for row in &listing.trash {
            let id = text::shorten(&row.session);
            table.add_row([id, text::moment(row.deleted_at), row.entry.clone()]);
        }
        for line in table.lines() {
            writeln!(out, "{}", line.trim())?;
        }
        writeln!(out, "\nbring one back: offshoot restore ID")?;
    }
    for problem in &listing.problems {
        writeln!(out, "\nproblem: {}", problem.reason)?;
        for line in problem.hint.iter().flat_map(|hint| hint.lines()) {
            writeln!(out, "hint: {line}")?;
        }
    }
    Ok(is_good)
}

fn row(trashed: Trashed) -> Row {
    Row {
        session: trashed.id.to_string(),
        entry: trashed.entry,
        deleted_at: trashed.deleted_at,
        path: trashed.path.display().to_string(),
    }
}
