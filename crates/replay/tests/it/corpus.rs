//! Recorded sessions of other programs and of all versions, as scripts.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use offshoot_agent::{ReplayError, derive_script, script_from};
use offshoot_format::{Container, StoredSession, decode};
use offshoot_model::Attempt;
use offshoot_replay::{Script, ScriptError, SessionKey};
use offshoot_session::{LogOffset, Session, SessionId};
use offshoot_test_support::corpus;

use crate::runs::{NOW, recorded, scripts};

const VERSIONS: [&str; 5] = ["v0", "v1", "v2", "v3", "v4"];

fn read(version: &str, file: &str) -> StoredSession {
    let dir = corpus::corpus_dir().unwrap();
    let path = dir.join(format!("{version}-completed")).join(file);
    let text = fs::read_to_string(&path);
    let text = text.unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    decode(known_descriptors(&text).as_bytes())
        .unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Some subagents were recorded with a descriptor of a version that no reader of V0 knows. It has the members of the known
/// one.
fn known_descriptors(text: &str) -> String {
    let known = |line: &str| match line.contains(r#""type":"subagent/descriptor""#) {
        true => line.replace(r#""version":2"#, r#""version":3"#),
        false => line.to_owned(),
    };
    text.lines().map(|line| known(line) + "\n").collect()
}

/// The same session, written as the current version.
fn brought_up(stored: &StoredSession) -> StoredSession {
    let mut bytes = Container::Raw.header(&stored.header).unwrap();
    bytes.extend(Container::Raw.batch(stored.log.events().map(|event| &**event)));
    let current = decode(&bytes).unwrap();
    assert_eq!(current.version, 4);
    current
}

fn session(stored: StoredSession) -> Session {
    stored.balanced(NOW).unwrap()
}

/// What a session's own events make its model say.
fn own(stored: StoredSession) -> Vec<Attempt> {
    let calls = derive_script(&session(stored)).unwrap();
    calls.into_iter().map(|call| call.attempt).collect()
}

/// What is left without the cut.
fn uncut(stored: &StoredSession) -> Vec<Attempt> {
    script_from(&stored.log, LogOffset::START).unwrap()
}

/// The forked children that were recorded, with their parents where those were recorded too.
const FORKED: [(&str, &str, Option<&str>); 5] = [
    (
        "v0",
        "acp-snapshots__subagent-fork-in-process__session.1.jsonl",
        Some("acp-snapshots__subagent-fork-in-process__session.jsonl"),
    ),
    (
        "v0",
        "acp-snapshots__subagent-mixed__session.2.jsonl",
        Some("acp-snapshots__subagent-mixed__session.jsonl"),
    ),
    (
        "v2",
        "sdk-snapshots__subagent-fork-in-process__session.1.jsonl",
        None,
    ),
    (
        "v3",
        "sdk-snapshots__subagent-fork-in-process__session.1.jsonl",
        None,
    ),
    (
        "v4",
        "sdk-snapshots__subagent-fork-in-process__session.1.jsonl",
        Some("sdk-snapshots__subagent-fork-in-process__session.jsonl"),
    ),
];

#[test]
fn the_script_of_a_forked_child_holds_only_the_childs_own_calls() {
    if corpus::corpus_dir().is_none() {
        return corpus::skip_notice("the_script_of_a_forked_child_holds_only_the_childs_own_calls");
    }
    for (version, child, parent) in FORKED {
        for is_brought_up in [false, true] {
            let load = |file: &str| match is_brought_up {
                false => read(version, file),
                true => brought_up(&read(version, file)),
            };
            let place = format!("{version}, {child}, brought up: {is_brought_up}");
            let stored = load(child);
            assert!(
                stored.header.is_seeded && stored.inherited > LogOffset::START,
                "{place}"
            );
            let without_cut = uncut(&stored);
            let inherited = script_from(&stored.log.prefix(stored.inherited), LogOffset::START);
            let inherited = inherited.unwrap();
            let own = own(stored);
            assert_eq!(own.len(), 1, "{place}");
            // Without the cut, the child would answer its first call with what its parent had said.
            assert_eq!(inherited.len(), 1, "{place}");
            assert_eq!(
                without_cut,
                [inherited.clone(), own.clone()].concat(),
                "{place}"
            );
            assert_ne!(without_cut[0], own[0], "{place}");
            if let Some(parent) = parent {
                let parent = uncut(&load(parent));
                assert!(parent.starts_with(&inherited), "{place}");
                assert!(!parent.contains(&own[0]), "{place}");
            }
        }
    }
}

#[test]
fn the_script_of_a_spawned_child_is_all_that_it_has_said() {
    if corpus::corpus_dir().is_none() {
        return corpus::skip_notice("the_script_of_a_spawned_child_is_all_that_it_has_said");
    }
    for is_brought_up in [false, true] {
        let stored = read("v0", "acp-snapshots__subagent-mixed__session.1.jsonl");
        let stored = if is_brought_up {
            brought_up(&stored)
        } else {
            stored
        };
        let all = uncut(&stored);
        assert_eq!(own(stored), all);
    }
}

/// What a recording comes to as a script.
fn outcome(bytes: &[u8]) -> String {
    let stored = match decode(bytes) {
        Ok(stored) => stored,
        Err(error) => return format!("not read: {}", error.code()),
    };
    let whole = script_from(&stored.log, LogOffset::START).map(|calls| calls.len());
    let inherited = match (stored.header.is_seeded, whole) {
        (true, Ok(whole)) => format!(" of {whole}"),
        _ => String::new(),
    };
    match derive_script(&session(stored)) {
        Ok(calls) => format!("{}{inherited}", calls.len()),
        Err(ReplayError::Unfinished { turn, step, at, .. }) => {
            format!("unfinished: turn {turn}, step {step}, entry {at}")
        }
        Err(error) => error.code().to_owned(),
    }
}

#[test]
fn every_recording_is_a_script_or_says_what_it_lacks() {
    if corpus::corpus_dir().is_none() {
        return corpus::skip_notice("every_recording_is_a_script_or_says_what_it_lacks");
    }
    let mut table = String::new();
    for version in VERSIONS {
        let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
        let mut rows = String::new();
        for file in corpus::files(format!("{version}-completed")) {
            let text = fs::read_to_string(&file).unwrap();
            let outcome = outcome(known_descriptors(&text).as_bytes());
            let kind = match outcome.as_bytes()[0] {
                b'0'..=b'9' => "scripts",
                b'u' => "unfinished",
                b'n' => "not read",
                _ => "failed",
            };
            *counts.entry(kind).or_default() += 1;
            let name = file.file_stem().unwrap().to_string_lossy().into_owned();
            writeln!(rows, "  {name}: {outcome}").unwrap();
        }
        writeln!(table, "{version}: {counts:?}\n{rows}").unwrap();
    }
    insta::assert_snapshot!(table);
}

/// A parent with its children, as a scenario would have them.
fn family(version: &str, names: &[&str]) -> Vec<Script> {
    let scripts = names.iter().enumerate().map(|(number, file)| {
        let name = match number {
            0 => "main".to_owned(),
            number => format!("main.{number}"),
        };
        recorded(&name, read(version, &format!("{file}.jsonl")))
    });
    scripts.collect()
}

#[test]
fn recorded_children_belong_to_the_calls_that_have_started_them() {
    if corpus::corpus_dir().is_none() {
        return corpus::skip_notice("recorded_children_belong_to_the_calls_that_have_started_them");
    }
    let fork = "sdk-snapshots__subagent-fork-in-process__session";
    let families: [(&str, &[&str], &[&str]); 4] = [
        (
            "v0",
            &[
                "acp-snapshots__subagent-mixed__session",
                "acp-snapshots__subagent-mixed__session.1",
                "acp-snapshots__subagent-mixed__session.2",
            ],
            &[
                "call_00_YvHr2bGomk5HhpgDTvE81896",
                "call_00_JSr5rhREq23wSmwSkCP77184",
            ],
        ),
        (
            "v0",
            &[
                "acp-snapshots__subagent-parallel__session",
                "acp-snapshots__subagent-parallel__session.1",
                "acp-snapshots__subagent-parallel__session.2",
            ],
            &["call_parallel_alpha_1", "call_parallel_alpha_2"],
        ),
        (
            "v0",
            &[
                "acp-snapshots__subagent-fork-in-process__session",
                "acp-snapshots__subagent-fork-in-process__session.1",
            ],
            &["call_00_sAtKUseRzHRBvL4CF7XF1334"],
        ),
        (
            "v4",
            &[fork, &format!("{fork}.1")],
            &["call_00_sAtKUseRzHRBvL4CF7XF1334"],
        ),
    ];
    for (version, files, calls) in families {
        // Whichever starts first.
        for first in 0..calls.len() {
            let mut order: Vec<usize> = (0..calls.len()).collect();
            order.rotate_left(first);
            let scripts = scripts(family(version, files));
            drop(scripts.bind(SessionKey::named("main"), &"live".into()));
            for at in order {
                let child = SessionId::new(format!("live-{at}"));
                drop(scripts.bind_child(&"live".into(), calls[at], &child));
                let name = format!("main.{}", at + 1);
                assert_eq!(scripts.name_of(&child), Some(name), "{version}, {files:?}");
            }
        }
    }
}

#[test]
fn a_recording_that_was_cut_off_names_its_line_where_it_has_one() {
    if corpus::corpus_dir().is_none() {
        return corpus::skip_notice("a_recording_that_was_cut_off_names_its_line_where_it_has_one");
    }
    for (version, file) in [
        ("v4", "acp-snapshots__cancel__session.jsonl"),
        ("v0", "acp-snapshots__cancel__session.jsonl"),
    ] {
        let path = Path::new("sessions/main.jsonl");
        let error = Script::of_recording("main", path, read(version, file), None).unwrap_err();
        let ScriptError::Recording { line, source, .. } = &error else {
            panic!("{error}");
        };
        let known = (version == "v4").then(|| source.seq().get() + 2);
        assert_eq!(*line, known, "{error}");
        if let Some(line) = line {
            let dir = corpus::corpus_dir().unwrap();
            let text = fs::read_to_string(dir.join("v4-completed").join(file)).unwrap();
            let line = text
                .lines()
                .nth(usize::try_from(*line).unwrap() - 1)
                .unwrap();
            assert!(line.contains("assistant/"), "{line}");
        }
    }
}
