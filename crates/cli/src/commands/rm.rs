//! `offshoot rm`: a session goes to the trash of its home.

use std::io::Write;

use offshoot_session::SessionId;
use offshoot_store::{JsonlStore, StoreError};
use serde::Serialize;

use crate::args::Rm;
use crate::failure::Failure;
use crate::home::Home;
use crate::{system, text};

/// What was deleted. Stable: see `docs/cli.md`.
#[derive(Debug, Serialize)]
struct Report {
    session: String,
    entry: String,
    path: String,
    deleted_at: i64,
}

pub(crate) fn run(args: &Rm, home: &Home, json: bool, out: &mut dyn Write) -> Result<(), Failure> {
    home.check()?;
    let id = SessionId::new(args.id.clone());
    let store = home.store();
    let trashed = store.move_to_trash(&id, system::env().clock.now());
    let trashed = trashed.map_err(|error| refused(error, &store))?;
    let report = Report {
        session: trashed.id.to_string(),
        entry: trashed.entry,
        path: trashed.path.display().to_string(),
        deleted_at: trashed.deleted_at,
    };
    if json {
        serde_json::to_writer(&mut *out, &report)?;
        writeln!(out)?;
        return Ok(());
    }
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

fn refused(error: StoreError, store: &JsonlStore) -> Failure {
    match &error {
        StoreError::AlreadyOwned { .. } => Failure::from(error)
            .hint("wait until it is closed there, or close it, and delete it then"),
        StoreError::NotFound { id, .. } => {
            let trash = store.trashed().unwrap_or_default().sessions;
            match trash.iter().find(|one| one.id == *id) {
                Some(one) => {
                    let hint = format!(
                        "it is in the trash since {}; bring it back with: offshoot restore {}",
                        text::moment(one.deleted_at),
                        text::quoted(id.as_str())
                    );
                    Failure::from(error).hint(hint)
                }
                None => error.into(),
            }
        }
        _ => error.into(),
    }
}
