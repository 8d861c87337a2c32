//! `offshoot gc`: removes for good what nobody can ask for any more.

use std::io::Write;

use offshoot_store::{Collected, Collecting, Garbage, Kept, Pruned, Removed, Scope};
use serde::Serialize;

use crate::args::Gc;
use crate::failure::Failure;
use crate::home::Home;
use crate::{system, text};

/// What was collected. Stable: see `docs/cli.md`.
#[derive(Debug, Serialize)]
struct Report {
    dry_run: bool,
    scope: &'static str,
    removed: Vec<Row>,
    pruned: Vec<Cut>,
    kept: Vec<Left>,
    freed: u64,
}

#[derive(Debug, Serialize)]
struct Row {
    kind: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    deleted_at: Option<i64>,
    path: String,
    freed: u64,
}

#[derive(Debug, Serialize)]
struct Cut {
    bases: Vec<String>,
    was: u64,
    is: u64,
}

#[derive(Debug, Serialize)]
pub(crate) struct Left {
    path: String,
    reason: String,
}

impl Left {
    pub(crate) fn of(kept: &Kept) -> Self {
        Self {
            path: kept.path.display().to_string(),
            reason: kept.reason.clone(),
        }
    }

    pub(crate) fn line(&self) -> String {
        format!("`{}`: {}", self.path, text::printable(&self.reason))
    }
}

/// Whether everything went well: nothing had to be kept.
pub(crate) fn run(
    args: &Gc,
    home: &Home,
    json: bool,
    out: &mut dyn Write,
) -> Result<bool, Failure> {
    home.check()?;
    let collecting = match args.dry_run {
        true => Collecting::DryRun,
        false => Collecting::Remove,
    };
    let now = system::env().clock.now();
    let store = home.store();
    let done = store.collect(args.older_than.0, collecting, now)?;
    let report = report(&done, args.dry_run);
    let is_good = report.kept.is_empty();
    if json {
        serde_json::to_writer_pretty(&mut *out, &report)?;
        writeln!(out)?;
        return Ok(is_good);
    }
    let (removed, cut, free) = match args.dry_run {
        true => ("would remove", "would cut", "would come free"),
        false => ("removed", "cut", "came free"),
    };
    for row in &report.removed {
        let freed = text::size(row.freed);
        writeln!(out, "{removed} {} ({freed})", named(row))?;
    }
    for one in &report.pruned {
        let others = match one.bases.len() {
            1 => String::new(),
            count => format!(" and {} links to it", count - 1),
        };
        let (was, is) = (text::size(one.was), text::size(one.is));
        let base = one.bases.first().map_or("", String::as_str);
        writeln!(
            out,
            "{cut} `{base}`{others} down to what forks use: {is} of {was}"
        )?;
    }
    for left in &report.kept {
        writeln!(out, "kept {}", left.line())?;
    }
    match report.removed.is_empty() && report.pruned.is_empty() {
        true => writeln!(out, "nothing to remove in `{}`", home.path().display())?,
        false => writeln!(out, "{} {free}", text::size(report.freed))?,
    }
    if done.scope == Scope::Trash && home.path().exists() {
        writeln!(
            out,
            "looked at the trash alone: Offshoot did not create this home, and the rest may be another tool's"
        )?;
    }
    let is_session = |row: &&Row| row.kind == "session";
    let gone = match args.dry_run {
        true => report.removed.iter().filter(is_session).count(),
        false => 0,
    };
    match store.trashed()?.sessions.len().saturating_sub(gone) {
        0 => {}
        1 => writeln!(
            out,
            "1 deleted session stays in the trash, because it was deleted not so long ago"
        )?,
        count => writeln!(
            out,
            "{count} deleted sessions stay in the trash, because they were deleted not so long ago"
        )?,
    }
    Ok(is_good)
}

fn named(row: &Row) -> String {
    let id = row.id.as_deref().map(text::shorten).unwrap_or_default();
    match (row.kind, row.deleted_at) {
        ("session", Some(at)) => format!("session {id}, deleted {}", text::moment(at)),
        ("blob", _) => format!("blob {id}"),
        (kind, _) => format!("{kind} `{}`", row.path),
    }
}

fn report(done: &Collected, dry_run: bool) -> Report {
    Report {
        dry_run,
        scope: match done.scope {
            Scope::Home => "home",
            Scope::Trash => "trash",
        },
        removed: done.removed.iter().map(row).collect(),
        pruned: done.pruned.iter().map(cut).collect(),
        kept: done.kept.iter().map(Left::of).collect(),
        freed: done.freed,
    }
}

fn row(removed: &Removed) -> Row {
    let (kind, id, deleted_at) = match &removed.what {
        Garbage::Session { id, deleted_at } => ("session", Some(id.to_string()), Some(*deleted_at)),
        Garbage::Blob(id) => ("blob", Some(id.to_string()), None),
        Garbage::Entry => ("entry", None, None),
        Garbage::Draft => ("draft", None, None),
        Garbage::Base => ("base", None, None),
        Garbage::Directory => ("directory", None, None),
    };
    Row {
        kind,
        id,
        deleted_at,
        path: removed.path.display().to_string(),
        freed: removed.freed,
    }
}

fn cut(pruned: &Pruned) -> Cut {
    let bases = pruned.bases.iter().map(|base| base.display().to_string());
    Cut {
        bases: bases.collect(),
        was: pruned.was,
        is: pruned.is,
    }
}
