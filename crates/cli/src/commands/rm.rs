//! `offshoot rm`: sessions go to the trash of their home, each for itself.

use std::io::Write;

use offshoot_session::SessionId;
use offshoot_store::{JsonlStore, StoreError};
use serde::Serialize;

use crate::args::Rm;
use crate::failure::Failure;
use crate::home::Home;
use crate::source::looks_like_path;
use crate::{system, text};

/// What was deleted. Stable: see `docs/cli.md`.
#[derive(Debug, Serialize)]
struct Report {
    session: String,
    entry: String,
    path: String,
    deleted_at: i64,
}

/// What stays. Stable: see `docs/cli.md`.
#[derive(Debug, Serialize)]
struct Refusal {
    session: String,
    code: &'static str,
    reason: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    hint: Option<String>,
}

/// What became of one of several.
#[derive(Debug, Serialize)]
#[serde(untagged)]
enum Outcome {
    Deleted(Report),
    Refused(Refusal),
}

/// Whether all of them are deleted.
pub(crate) fn run(
    args: &Rm,
    home: &Home,
    json: bool,
    out: &mut dyn Write,
) -> Result<bool, Failure> {
    home.check()?;
    let store = home.store();
    let mut ids: Vec<&str> = Vec::new();
    for id in &args.ids {
        if !ids.contains(&id.as_str()) {
            ids.push(id);
        }
    }
    if let [id] = ids[..] {
        let report = delete(id, &store)?;
        if json {
            serde_json::to_writer(&mut *out, &report)?;
            writeln!(out)?;
            return Ok(true);
        }
        print(&report, out)?;
        return Ok(true);
    }
    let outcomes: Vec<Outcome> = ids
        .into_iter()
        .map(|id| match delete(id, &store) {
            Ok(report) => Outcome::Deleted(report),
            Err(failure) => {
                let failure = failure.or_in_trash(home);
                Outcome::Refused(Refusal {
                    session: id.to_owned(),
                    code: failure.code,
                    reason: failure.message,
                    hint: failure.hint,
                })
            }
        })
        .collect();
    let is_refused = |outcome: &Outcome| matches!(outcome, Outcome::Refused(_));
    let is_good = !outcomes.iter().any(is_refused);
    match print_all(&outcomes, json, out) {
        // Nobody reads on, but somebody may look at the exit code.
        Err(failure) if failure.broken_pipe => Ok(is_good),
        printed => printed.map(|()| is_good),
    }
}

fn delete(id: &str, store: &JsonlStore) -> Result<Report, Failure> {
    let trashed = store.move_to_trash(&SessionId::new(id), system::env().clock.now());
    let trashed = trashed.map_err(|error| refused(error, id))?;
    Ok(Report {
        session: trashed.id.to_string(),
        entry: trashed.entry,
        path: trashed.path.display().to_string(),
        deleted_at: trashed.deleted_at,
    })
}

fn refused(error: StoreError, id: &str) -> Failure {
    match &error {
        StoreError::AlreadyOwned { .. } => Failure::from(error)
            .hint("wait until it is closed there, or close it, and delete it then"),
        StoreError::NotFound { .. } if looks_like_path(id) => Failure::from(error)
            .hint("name the session by its id, as `offshoot ls` shows it, and not by its file"),
        _ => error.into(),
    }
}

fn print_all(outcomes: &[Outcome], json: bool, out: &mut dyn Write) -> Result<(), Failure> {
    if json {
        serde_json::to_writer_pretty(&mut *out, outcomes)?;
        writeln!(out)?;
        return Ok(());
    }
    for (n, outcome) in outcomes.iter().enumerate() {
        if n > 0 {
            writeln!(out)?;
        }
        match outcome {
            Outcome::Deleted(report) => print(report, out)?,
            Outcome::Refused(refusal) => {
                writeln!(out, "{}", text::shorten(&refusal.session))?;
                writeln!(out, "  not deleted: {}", refusal.reason)?;
                for line in refusal.hint.iter().flat_map(|hint| hint.lines()) {
                    writeln!(out, "  hint: {line}")?;
                }
            }
        }
    }
    Ok(())
}

fn print(report: &Report, out: &mut dyn Write) -> Result<(), Failure> {
    writeln!(out, "{}", report.session)?;
    writeln!(out, "  moved to the trash: `{}`", report.path)?;
    writeln!(
        out,
        "  `offshoot gc` removes it for good once it has been there for 30 days"
    )?;
    writeln!(
        out,
        "\nbring it back: offshoot restore {}",
        text::quoted(&report.session)
    )?;
    Ok(())
}
