//! `offshoot ls`: the sessions of a home. A file that cannot be read is listed with its reason and hides no other.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::num::NonZeroUsize;

use clap::ValueEnum as _;
use comfy_table::{ContentArrangement, Table, presets};
use offshoot_format::CURRENT_VERSION;
use offshoot_session::Origin;
use offshoot_store::{Filled, Listed, Noticed, Persistence as _, Query, Summary, Within};
use serde::Serialize;

use crate::args::Ls;
use crate::failure::Failure;
use crate::home::Home;
use crate::notes::Notes;
use crate::{system, text};

/// How many sessions people get to see at once.
const PAGE: NonZeroUsize = NonZeroUsize::new(50).unwrap();
/// How many bytes of session files one list reads to say what only they know: a second or two.
const BUDGET: u64 = 32 << 20;

/// One session. Stable: see `docs/cli.md`.
#[derive(Debug, Serialize)]
pub(crate) struct Row {
    id: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    parent: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cut: Option<u64>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    side: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    origin: Option<Origin>,
    #[serde(skip_serializing_if = "Option::is_none")]
    title: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cwd: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    created_at: Option<u64>,
    updated_at: i64,
    #[serde(skip_serializing_if = "Option::is_none")]
    events: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    turns: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    last_event_at: Option<i64>,
    status: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    open_turn: Option<u64>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    findings: Vec<Noticed>,
    #[serde(skip_serializing_if = "Option::is_none")]
    version: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    code: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
}

pub(crate) fn run(args: &Ls, home: &Home, json: bool, out: &mut dyn Write) -> Result<(), Failure> {
    home.check()?;
    let budget = if args.all { u64::MAX } else { BUDGET };
    let query = query(args, json)?;
    let Filled { page, unread } = home.store().list_filled(&query, budget)?;
    let rows: Vec<Row> = page.rows.into_iter().map(row).collect();
    if json {
        serde_json::to_writer_pretty(&mut *out, &rows)?;
        writeln!(out)?;
    } else if rows.is_empty() {
        nothing(&query, home, out)?;
    } else if args.tree {
        tree(&rows, out)?;
    } else {
        table(&rows, out)?;
    }
    // What was printed comes first, whichever way the two streams are read.
    out.flush()?;
    let notes = Notes::new(json);
    if let Some(next) = page.next {
        let told = format!(
            "{} of {} sessions are shown; the next ones: {} --cursor {}",
            rows.len(),
            page.matching,
            command(args),
            text::quoted(&next)
        );
        notes.with(&told, "next", &next);
    }
    if unread > 0 {
        let may_fit = match query.text.is_some() || !query.statuses.is_empty() {
            true => ", and may fit too",
            false => "",
        };
        let some = match unread {
            1 => "1 session has".to_owned(),
            more => format!("{more} sessions have"),
        };
        notes.say(&format!(
            "{some} not been read yet{may_fit}: do this again to read on, or with --all to read everything"
        ));
    }
    Ok(())
}

fn query(args: &Ls, json: bool) -> Result<Query, Failure> {
    let everything = args.all || args.tree || json;
    Ok(Query {
        limit: args.limit.or((!everything).then_some(PAGE)),
        cursor: args.cursor.clone(),
        cwd: args.cwd.as_deref().map(within).transpose()?,
        text: args.grep.clone(),
        statuses: args.status.iter().flat_map(|one| one.all()).collect(),
        without_subagents: !(args.subagents || args.tree || args.all),
        parent: None,
        now: system::env().clock.now(),
    })
}

/// As the headers have it: whole, and without a final separator.
fn within(dir: &std::path::Path) -> Result<Within, Failure> {
    let whole = std::path::absolute(dir).map_err(|error| {
        Failure::new(
            "IO_ERROR",
            format!("could not find out where `{}` is: {error}", dir.display()),
        )
    })?;
    Ok(Within::Below(whole.to_string_lossy().into_owned()))
}

/// The command that shows the same list.
fn command(args: &Ls) -> String {
    let mut command = "offshoot ls".to_owned();
    if args.tree {
        command.push_str(" --tree");
    }
    if args.subagents {
        command.push_str(" --subagents");
    }
    let mut add = |flag: &str, value: &str| {
        command.push_str(&format!(" --{flag} {}", text::quoted(value)));
    };
    if let Some(limit) = args.limit {
        add("limit", &limit.to_string());
    }
    if let Some(cwd) = &args.cwd {
        add("cwd", &cwd.to_string_lossy());
    }
    if let Some(grep) = &args.grep {
        add("grep", grep);
    }
    for status in &args.status {
        let name = status.to_possible_value();
        add("status", name.as_ref().map_or("", |name| name.get_name()));
    }
    command
}

fn nothing(query: &Query, home: &Home, out: &mut dyn Write) -> Result<(), Failure> {
    let with_subagents = Query {
        without_subagents: false,
        ..query.clone()
    };
    let all = home.store().list_filled(&with_subagents, BUDGET)?;
    let home = home.path().display();
    if all.page.matching > 0 {
        writeln!(
            out,
            "only subagents ({}) in `{home}`; to see them too: offshoot ls --subagents",
            all.page.matching
        )?;
        return Ok(());
    }
    let is_chosen = query.cwd.is_some() || query.text.is_some() || !query.statuses.is_empty();
    if is_chosen || query.cursor.is_some() {
        writeln!(out, "no such session in `{home}`")?;
        return Ok(());
    }
    writeln!(out, "no sessions in `{home}`")?;
    writeln!(
        out,
        "start one with: offshoot run PROMPT    or look at: offshoot demo"
    )?;
    Ok(())
}

impl Row {
    /// The status, with the version of a file that is older than what this program writes.
    fn marked_status(&self) -> String {
        match self.version.filter(|version| *version < CURRENT_VERSION) {
            Some(version) => format!("{} (v{version})", self.status),
            None => self.status.to_owned(),
        }
    }

    /// What it is besides a conversation of a person's own, in a word.
    const fn mark(&self) -> Option<&'static str> {
        match (self.origin, self.side) {
            (Some(Origin::Subagent), true) => Some("subagent, side"),
            (Some(Origin::Subagent), false) => Some("subagent"),
            (_, true) => Some("side"),
            (_, false) => None,
        }
    }
}

/// All sessions, the last changed one first, with all that is to say about them.
pub(crate) fn rows(home: &Home) -> Result<Vec<Row>, Failure> {
    let query = Query {
        now: system::env().clock.now(),
        ..Query::default()
    };
    let filled = home.store().list_filled(&query, u64::MAX)?;
    Ok(filled.page.rows.into_iter().map(row).collect())
}

/// The oldest ancestor of a session that is among these.
pub(crate) fn root_of(rows: &[Row], id: &str) -> String {
    let mut root = id.to_owned();
    // Two sessions that name each other as parents have none.
    for _ in 0..rows.len() {
        let parent = rows.iter().find(|row| row.id == root);
        let parent = parent.and_then(|row| row.parent.as_deref());
        match parent.filter(|parent| rows.iter().any(|row| row.id == **parent)) {
            Some(parent) => parent.clone_into(&mut root),
            None => break,
        }
    }
    root
}

/// A session and every fork and subagent that comes from it.
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

fn row(listed: Listed) -> Row {
    let mut row = Row {
        updated_at: listed.activity(),
        status: listed.status().as_str(),
        id: listed.id.to_string(),
        parent: None,
        cut: None,
        side: false,
        origin: None,
        title: None,
        cwd: None,
        created_at: None,
        events: None,
        turns: None,
        last_event_at: None,
        open_turn: None,
        findings: Vec::new(),
        version: None,
        code: None,
        reason: None,
    };
    match listed.header {
        Ok(header) => {
            row.parent = header.parent.map(|id| id.to_string());
            row.origin = header.origin;
            row.cwd = header.cwd;
            row.created_at = Some(header.created_at);
        }
        Err(error) => {
            row.code = Some(error.code().to_owned());
            row.reason = Some(error.to_string());
        }
    }
    match listed.body.filter(|_| row.reason.is_none()) {
        Some(Ok(summary)) => row.tell(summary),
        Some(Err(fault)) => {
            row.code = Some(fault.code.into_owned());
            row.reason = Some(fault.reason);
        }
        None => {}
    }
    row
}

impl Row {
    fn tell(&mut self, summary: Summary) {
        self.reason = match (&summary.torn, summary.open_turn) {
            (Some(torn), _) => Some(format!("line {}: {}", torn.line, torn.reason)),
            (None, Some(turn)) => Some(format!(
                "turn {turn} has no end: it is running, or going on with the session closes it"
            )),
            (None, None) => None,
        };
        self.cut = summary.cut.map(|cut| cut.get());
        self.side = summary.side;
        self.title = summary.title.map(|title| text::shorten(&title));
        self.events = Some(summary.events.get());
        self.turns = Some(summary.turns);
        self.last_event_at = summary.last_activity;
        self.open_turn = summary.open_turn;
        self.findings = summary.findings;
        self.version = Some(summary.version);
    }
}

fn table(rows: &[Row], out: &mut dyn Write) -> Result<(), Failure> {
    let mut table = Table::new();
    table
        .load_style(presets::NOTHING)
        .set_content_arrangement(ContentArrangement::Disabled);
    table.set_header(["ID", "UPDATED", "EVENTS", "STATUS", "PARENT", "TITLE"]);
    for row in rows {
        let parent = row.parent.as_ref().map(|parent| {
            let cut = row.cut.map(|cut| format!(" @{cut}")).unwrap_or_default();
            let mark = row.mark().map(|mark| format!(" ({mark})"));
            text::shorten(parent) + &cut + &mark.unwrap_or_default()
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

/// Parents with their forks and subagents below them. A parent that is not here leaves those at the top.
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
    let mark = row.mark().map(|mark| format!("{mark}, "));
    let mark = mark.unwrap_or_default();
    writeln!(out, "{lead}{id}{cut}  ({mark}{size}){title}")?;
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
