//! `offshoot ls`: the sessions of a home. A file that cannot be read is listed with its reason and hides no other.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;

use comfy_table::{ContentArrangement, Table, presets};
use offshoot_format::CURRENT_VERSION;
use offshoot_store::{Listed, Persistence as _};
use serde::Serialize;

use crate::args::Ls;
use crate::commands::check::Status;
use crate::failure::Failure;
use crate::home::Home;
use crate::text;

/// One session. Stable: see `docs/cli.md`.
#[derive(Debug, Serialize)]
pub(crate) struct Row {
    id: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    parent: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cut: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    title: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cwd: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    created_at: Option<u64>,
    updated_at: i64,
    #[serde(skip_serializing_if = "Option::is_none")]
    events: Option<u64>,
    status: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    version: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
}

pub(crate) fn run(args: &Ls, home: &Home, json: bool, out: &mut dyn Write) -> Result<(), Failure> {
    home.check()?;
    let rows = rows(home)?;
    if json {
        serde_json::to_writer_pretty(&mut *out, &rows)?;
        writeln!(out)?;
        return Ok(());
    }
    if rows.is_empty() {
        writeln!(out, "no sessions in `{}`", home.path().display())?;
        writeln!(
            out,
            "start one with: offshoot run PROMPT    or look at: offshoot demo"
        )?;
        return Ok(());
    }
    if args.tree {
        tree(&rows, out)
    } else {
        table(&rows, out)
    }
}

impl Row {
    /// The status, with the version of a file that is older than what this program writes.
    fn marked_status(&self) -> String {
        match self.version.filter(|version| *version < CURRENT_VERSION) {
            Some(version) => format!("{} (v{version})", self.status),
            None => self.status.to_owned(),
        }
    }
}

/// All sessions, the last changed one first.
pub(crate) fn rows(home: &Home) -> Result<Vec<Row>, Failure> {
    let store = home.store();
    let mut rows: Vec<Row> = store
        .list()?
        .into_iter()
        .map(|listed| row(&store, listed))
        .collect();
    rows.sort_by(|a, b| {
        b.updated_at
            .cmp(&a.updated_at)
            .then_with(|| a.id.cmp(&b.id))
    });
    Ok(rows)
}

/// A session and every fork that comes from it.
pub(crate) fn family(rows: Vec<Row>, root: &str) -> Vec<Row> {
    let mut ids = BTreeSet::from([root.to_owned()]);
    let mut known = 0;
    while known < ids.len() {
        known = ids.len();
        let children = rows
            .iter()
            .filter(|row| row.parent.as_ref().is_some_and(|id| ids.contains(id)));
        let children: Vec<String> = children.map(|row| row.id.clone()).collect();
        ids.extend(children);
    }
    rows.into_iter()
        .filter(|row| ids.contains(&row.id))
        .collect()
}

fn row(store: &offshoot_store::JsonlStore, listed: Listed) -> Row {
    let mut row = Row {
        id: listed.id.to_string(),
        parent: None,
        cut: None,
        title: None,
        cwd: None,
        created_at: None,
        updated_at: listed.modified,
        events: None,
        status: Status::Ok.as_str(),
        version: None,
        reason: None,
    };
    let read = listed.header.and_then(|header| {
        row.parent = header.parent.map(|id| id.to_string());
        row.cwd = header.cwd;
        row.created_at = Some(header.created_at);
        // The clock of a file system lags a little behind the one that wrote the header.
        let created = i64::try_from(header.created_at).unwrap_or(i64::MAX);
        row.updated_at = row.updated_at.max(created);
        store.read(&listed.id)
    });
    match read {
        Ok(read) => {
            let stored = read.stored;
            row.cut = stored
                .inherited
                .last()
                .filter(|_| stored.header.is_seeded)
                .map(|cut| cut.get());
            row.title = text::title(&stored.log);
            row.events = Some(stored.log.end().get());
            row.version = Some(stored.version);
            if let Some(tail) = stored.tail {
                row.status = Status::Torn.as_str();
                row.reason = Some(format!("line {}: {}", tail.place.line, tail.reason));
            }
        }
        Err(error) => {
            row.status = Status::of(&error).as_str();
            row.reason = Some(error.to_string());
        }
    }
    row
}

fn table(rows: &[Row], out: &mut dyn Write) -> Result<(), Failure> {
    let mut table = Table::new();
    table
        .load_style(presets::NOTHING)
        .set_content_arrangement(ContentArrangement::Disabled);
    table.set_header(["ID", "UPDATED", "EVENTS", "STATUS", "PARENT", "TITLE"]);
    for row in rows {
        let parent = row.parent.as_ref().map(|parent| match row.cut {
            Some(cut) => format!("{} @{cut}", text::shorten(parent)),
            None => text::shorten(parent),
        });
        table.add_row([
            text::shorten(&row.id),
            text::moment(row.updated_at),
            row.events
                .map(|events| events.to_string())
                .unwrap_or_default(),
            row.marked_status(),
            parent.unwrap_or_default(),
            row.title.clone().unwrap_or_default(),
        ]);
    }
    for line in table.lines() {
        writeln!(out, "{}", line.trim())?;
    }
    reasons(rows, out)
}

/// Parents with their forks below them. A parent that is not here leaves its forks at the top.
pub(crate) fn tree(rows: &[Row], out: &mut dyn Write) -> Result<(), Failure> {
    let known: BTreeSet<&str> = rows.iter().map(|row| row.id.as_str()).collect();
    let mut children: BTreeMap<Option<&str>, Vec<&Row>> = BTreeMap::new();
    for row in rows {
        let parent = row
            .parent
            .as_deref()
            .filter(|parent| known.contains(parent) && *parent != row.id);
        children.entry(parent).or_default().push(row);
    }
    for rows in children.values_mut() {
        rows.sort_by_key(|row| (row.created_at, &row.id));
    }
    let mut shown = BTreeSet::new();
    for root in children.get(&None).into_iter().flatten() {
        branch(root, "", "", &children, &mut shown, out)?;
    }
    // Two sessions that name each other as parents are below no root: they are shown all the same.
    for row in rows {
        if !shown.contains(row.id.as_str()) {
            branch(row, "", "", &children, &mut shown, out)?;
        }
    }
    reasons(rows, out)
}

fn branch<'a>(
    row: &'a Row,
    lead: &str,
    indent: &str,
    children: &BTreeMap<Option<&str>, Vec<&'a Row>>,
    shown: &mut BTreeSet<&'a str>,
    out: &mut dyn Write,
) -> Result<(), Failure> {
    if !shown.insert(&row.id) {
        return Ok(());
    }
    let cut = row.cut.map(|cut| format!(" @{cut}")).unwrap_or_default();
    let size = match row.events {
        Some(events) => format!("{events} events"),
        None => row.status.to_owned(),
    };
    let title = row
        .title
        .as_ref()
        .map(|title| format!("  {title}"))
        .unwrap_or_default();
    let id = text::shorten(&row.id);
    writeln!(out, "{lead}{id}{cut}  ({size}){title}")?;
    let below = children
        .get(&Some(row.id.as_str()))
        .map(Vec::as_slice)
        .unwrap_or_default();
    for (n, child) in below.iter().enumerate() {
        let last = n + 1 == below.len();
        let lead = format!("{indent}{}", if last { "└─ " } else { "├─ " });
        let indent = format!("{indent}{}", if last { "   " } else { "│  " });
        branch(child, &lead, &indent, children, shown, out)?;
    }
    Ok(())
}

fn reasons(rows: &[Row], out: &mut dyn Write) -> Result<(), Failure> {
    let bad: Vec<&Row> = rows.iter().filter(|row| row.reason.is_some()).collect();
    if !bad.is_empty() {
        writeln!(out)?;
    }
    for row in bad {
        writeln!(
            out,
            "{}: {}: {}",
            text::shorten(&row.id),
            row.status,
            row.reason.as_deref().unwrap_or_default()
        )?;
    }
    Ok(())
}
