//! The recorded sessions keep every rule: whole, cut anywhere, repaired and forked.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;

use offshoot_session::{Event, EventLog, SessionHeader, build_fork_seed};
use offshoot_test_support::corpus;

use super::Relationships;
use crate::admission::Admission;
use crate::header::StoredHeader;

fn recorded() -> Vec<PathBuf> {
    let complete = |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        name.starts_with("examples__") && !name.contains("crash-closers")
    };
    let own = corpus::files("v4").into_iter().filter(complete);
    corpus::files("v4-completed")
        .into_iter()
        .chain(own)
        .collect()
}

fn read(path: &PathBuf) -> (SessionHeader, Vec<Arc<Event>>) {
    let text = fs::read_to_string(path).unwrap();
    let mut lines = text.lines();
    let header = StoredHeader::read(lines.next().unwrap())
        .unwrap()
        .into_header();
    let rows = lines.map(|line| Arc::new(Event::from_row(line).unwrap()));
    (header, rows.collect())
}

fn validate(header: &SessionHeader, events: &[Arc<Event>]) -> Result<EventLog, String> {
    let mut log = EventLog::new();
    let mut relationships = Relationships::new(header);
    let mut admission = Admission::new();
    for event in events {
        let at = |reason| format!("{}: {reason}", event.seq());
        admission.admit(event).map_err(at)?;
        relationships.check(event, &log).map_err(at)?;
        log.push(Arc::clone(event))
            .map_err(|error| error.to_string())?;
    }
    relationships
        .finish()
        .map_err(|(seq, reason)| format!("end, {seq}: {reason}"))?;
    Ok(log)
}

#[test]
fn recorded_sessions_keep_every_rule_at_every_cut_repaired_and_forked() {
    let files = recorded();
    if files.is_empty() {
        return corpus::skip_notice("recorded_sessions_keep_every_rule");
    }
    for path in files {
        let (header, events) = read(&path);
        for end in 1..=events.len() {
            let fine = |header: &SessionHeader, events: &[Arc<Event>]| {
                validate(header, events)
                    .unwrap_or_else(|reason| panic!("{} up to {end}: {reason}", path.display()))
            };
            let prefix = fine(&header, &events[..end]);
            let closers = prefix.interrupted_closers().into_iter().map(Arc::new);
            let repaired: Vec<_> = prefix.events().cloned().chain(closers).collect();
            for torn in end..=repaired.len() {
                fine(&header, &repaired[..torn]);
            }
            let last = prefix.end().last().unwrap();
            let seed = build_fork_seed(&prefix, last).unwrap();
            let child = header.forked("child".into(), 1);
            let forked: Vec<_> = seed.log().events().cloned().collect();
            for torn in end + 1..=forked.len() {
                fine(&child, &forked[..torn]);
            }
        }
    }
}
