//! The scenarios in `scenarios/` at the root of the repository, run by the built binary.
//!
//! Two tests a scenario. One replays it as it is: nothing is called, no key is needed, and what comes of it is what is
//! expected. The other records it anew, beside the repository, with the scripted server in the place of a provider: the answers
//! are in [`recorded`], and what comes of that is the same as what is expected. With `OFFSHOOT_UPDATE_FIXTURES=1` this one
//! writes recordings and expectations of the repository anew instead.

mod recorded;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use offshoot_test_support::{OffshootCommand, ScriptedModelServer, TestHome};

use crate::support::{calling, offshoot};
use recorded::Recorded;

/// How long a scenario may take on a machine that does much else. None of them needs a second.
const PATIENCE: Duration = Duration::from_secs(110);

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios")
}

/// The files below a folder, by name.
fn files(dir: &Path) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    let mut open = vec![dir.to_owned()];
    while let Some(folder) = open.pop() {
        let Ok(entries) = fs::read_dir(&folder) else {
            continue;
        };
        for entry in entries {
            let path = entry.unwrap().path();
            if path.is_dir() {
                open.push(path);
                continue;
            }
            let name = path.strip_prefix(dir).unwrap().to_string_lossy();
            found.insert(name.into_owned(), fs::read_to_string(&path).unwrap());
        }
    }
    found
}

#[expect(
    clippy::disallowed_methods,
    reason = "files of a scenario are no logs: git keeps their past"
)]
fn write(dir: &Path, files: &BTreeMap<String, String>) {
    for (name, text) in files {
        let path = dir.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
}

/// Only what lies in these folders.
fn within(files: &BTreeMap<String, String>, folders: &[&str]) -> BTreeMap<String, String> {
    let lies = |name: &String| folders.iter().any(|folder| name.starts_with(folder));
    let all = files.iter().filter(|(name, _)| lies(name));
    all.map(|(name, text)| (name.clone(), text.clone()))
        .collect()
}

fn done(command: OffshootCommand) {
    let _done = command.timeout(PATIENCE).run().success();
}

fn replays(name: &str) {
    let home = TestHome::new();
    let dir = root().join(name);
    let replay = offshoot(&home).arg("replay").arg(&dir);
    done(replay);
}

fn is_recorded_as_it_is(recorded: &Recorded) {
    let Recorded {
        name,
        recording,
        replies,
    } = recorded;
    let committed = root().join(name);
    let mut own = files(&committed);
    own.retain(|name, _| !name.starts_with("sessions/") && !name.starts_with("expected/"));

    let home = TestHome::new();
    let dir = home.user_path().join("scenarios").join(name);
    let mut recordable = within(&own, &["workspace/"]);
    let mut text = own["scenario.toml"].clone();
    for (as_it_is, as_recorded) in *recording {
        assert!(
            text.contains(as_it_is),
            "{name}: the scenario has no {as_it_is:?}"
        );
        text = text.replace(as_it_is, as_recorded);
    }
    recordable.insert("scenario.toml".to_owned(), text);
    write(&dir, &recordable);
    let server = ScriptedModelServer::start(replies());
    done(calling(&home, &server).arg("record").arg(&dir));
    server.finish();
    if !recording.is_empty() {
        write(&dir, &own);
        done(offshoot(&home).args(["replay", "--refresh"]).arg(&dir));
    }
    let made = files(&dir);
    if std::env::var_os("OFFSHOOT_UPDATE_FIXTURES").is_some() {
        for folder in ["sessions", "expected"] {
            // What is not there need not be removed.
            drop(fs::remove_dir_all(committed.join(folder)));
        }
        write(&committed, &within(&made, &["sessions/", "expected/"]));
    }
    let there = files(&committed);
    let expected = within(&there, &["expected/"]);
    let now = within(&made, &["expected/"]);
    let names = |files: &BTreeMap<String, String>| files.keys().cloned().collect::<Vec<_>>();
    assert_eq!(names(&now), names(&expected));
    for (file, text) in now {
        assert!(
            text == expected[&file],
            "{name}/{file} is another one when the scenario is recorded anew; if that is meant, run this test with \
             OFFSHOOT_UPDATE_FIXTURES=1\n\nthere:\n{}\nnow:\n{text}",
            expected[&file]
        );
    }
    let sessions = |files| names(&within(files, &["sessions/"]));
    assert_eq!(sessions(&made), sessions(&there));
}

macro_rules! scenarios {
    ($($test:ident = $name:literal,)*) => {
        const SCENARIOS: &[&str] = &[$($name),*];

        $(mod $test {
            #[test]
            fn replays() {
                super::replays($name);
            }

            #[test]
            fn is_recorded_as_it_is() {
                super::is_recorded_as_it_is(&super::recorded::$test());
            }
        })*
    };
}

scenarios! {
    cancel = "cancel",
    compaction = "compaction",
    crash_resume = "crash-resume",
    fork_mid_turn = "fork-mid-turn",
    fork_of_fork = "fork-of-fork",
    fork_subagent = "fork-subagent",
    mixed_in_parallel = "mixed-in-parallel",
    parallel_tools = "parallel-tools",
    retry = "retry",
    side_merge = "side-merge",
    spawn = "spawn",
    text = "text",
    tools = "tools",
}

#[test]
fn every_scenario_of_the_repository_is_tested() {
    let entries = fs::read_dir(root()).unwrap();
    let mut there: Vec<String> = entries
        .map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned())
        .collect();
    there.sort();
    assert_eq!(there, SCENARIOS);
}
