//! `offshoot du`: how much room sessions take.

use std::io::Write;

use comfy_table::{CellAlignment, ContentArrangement, Table, presets};
use offshoot_session::SessionId;
use offshoot_store::{SessionUsage, Usage};
use serde::Serialize;

use crate::args::Du;
use crate::commands::gc::Left;
use crate::failure::Failure;
use crate::home::Home;
use crate::text;

/// How much room a home takes. Stable: see `docs/cli.md`.
#[derive(Debug, Serialize)]
struct Report {
    sessions: Vec<Row>,
    in_sessions: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    blobs: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    trash: Option<u64>,
    total: u64,
    unread: Vec<Left>,
}

#[derive(Debug, Serialize)]
struct Row {
    id: String,
    own: u64,
    shared: u64,
    other: u64,
    path: String,
}

/// Whether everything could be looked at.
pub(crate) fn run(
    args: &Du,
    home: &Home,
    json: bool,
    out: &mut dyn Write,
) -> Result<bool, Failure> {
    home.check()?;
    let is_all = args.ids.is_empty();
    let usage = match is_all {
        true => home.store().usage(),
        false => {
            let ids: Vec<_> = args.ids.iter().cloned().map(SessionId::new).collect();
            home.store().usage_of(&ids)?
        }
    };
    let report = report(usage, is_all);
    let is_good = report.unread.is_empty();
    if json {
        serde_json::to_writer_pretty(&mut *out, &report)?;
        writeln!(out)?;
        return Ok(is_good);
    }
    if report.sessions.is_empty() {
        writeln!(out, "no sessions in `{}`", home.path().display())?;
    } else {
        table(&report.sessions, out)?;
    }
    if report.sessions.iter().any(|row| row.shared > 0) {
        writeln!(
            out,
            "\nwhat is shared stays when a session is deleted, for those that share it"
        )?;
    }
    writeln!(out)?;
    let in_sessions = Some(report.in_sessions).filter(|_| is_all);
    let parts = [
        ("sessions", in_sessions),
        ("blobs", report.blobs),
        ("trash", report.trash),
        ("total", Some(report.total)),
    ];
    for (name, bytes) in parts {
        if let Some(bytes) = bytes {
            writeln!(out, "{name:<8} {:>9}", text::size(bytes))?;
        }
    }
    for left in &report.unread {
        writeln!(out, "not counted {}", left.line())?;
    }
    Ok(is_good)
}

fn table(rows: &[Row], out: &mut dyn Write) -> Result<(), Failure> {
    let mut table = Table::new();
    table
        .load_style(presets::NOTHING)
        .set_content_arrangement(ContentArrangement::Disabled);
    table.set_header(["ID", "OWN", "SHARED", "OTHER"]);
    for row in rows {
        let id = text::shorten(&row.id);
        let sizes = [row.own, row.shared, row.other].map(text::size);
        table.add_row([id].into_iter().chain(sizes));
    }
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    for line in table.lines() {
        writeln!(out, "{}", line.trim())?;
    }
    Ok(())
}

fn report(usage: Usage, is_all: bool) -> Report {
    let total = usage.total();
    Report {
        in_sessions: usage.in_sessions,
        blobs: is_all.then_some(usage.in_blobs),
        trash: is_all.then_some(usage.in_trash),
        total,
        unread: usage.unread.iter().map(Left::of).collect(),
        sessions: usage.sessions.into_iter().map(row).collect(),
    }
}

fn row(usage: SessionUsage) -> Row {
    Row {
        id: usage.id.to_string(),
        own: usage.own,
        shared: usage.shared,
        other: usage.other,
        path: usage.path.display().to_string(),
    }
}
