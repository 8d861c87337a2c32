//! What a long conversation takes in memory while an agent has it open, and once the agent has made a request of it.

use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use offshoot_agent::{Cancel, Driver};
use offshoot_format::Container;
use offshoot_model::{Attempt, Chunk, ContentBlock, FinishReason, ScriptModel};

use offshoot_store::{JsonlStore, Persistence as _};

use crate::history::{PROMPT, env, runtime, service, setup};
use crate::log::generate;

/// In the process whose memory is measured: opens the session in the home, runs a turn, and says how much it has resident.
pub(crate) fn open_and_tell(args: &[String]) -> Option<String> {
    let [flag, home, id] = args else { return None };
    if flag != "open" {
        return None;
    }
    let env = env();
    let service = service(Path::new(home), &env);
    let attached = service
        .open(&id.as_str().into())
        .expect("it is there")
        .attached;
    let model = ScriptModel::new("bench", vec![answer()]);
    let mut driver = Driver::new(attached, setup(Arc::new(model), &env));
    let log = driver.session().log();
    let (events, seen) = (log.end().get(), log.surface().len());
    drop(log);
    let (open, opening) = (megabytes("VmRSS:"), megabytes("VmHWM:"));
    driver.submit(PROMPT).expect("it takes input");
    let reports = runtime().block_on(driver.run(&Cancel::new()));
    assert_eq!(reports.expect("a turn").len(), 1);
    let used = megabytes("VmRSS:");
    Some(format!(
        "| {events} | {seen} | {open:.0} MB | {opening:.0} MB | {used:.0} MB |"
    ))
}

fn answer() -> Attempt {
    Attempt::Chunks(vec![
        Chunk::BlockStart {
            index: 0,
            block_type: "text".into(),
        },
        Chunk::BlockEnd {
            index: 0,
            block: ContentBlock::text("Yes."),
        },
        Chunk::finish(FinishReason::Stop),
    ])
}

/// What the system says of the memory of this process.
fn megabytes(name: &str) -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("Linux");
    let line = status.lines().find(|line| line.starts_with(name));
    let kib = line.and_then(|line| line.split_whitespace().nth(1)?.parse::<u64>().ok());
    kib.expect("it says so") as f64 / 1e3
}

pub(crate) fn run() {
    println!("### Memory of an agent with a long conversation\n");
    println!(
        "| events | messages that the model sees | resident once it is open | peak while opening | resident after a turn |"
    );
    println!("|---|---|---|---|---|");
    for events in [1_000, 100_000] {
        let home = tempfile::tempdir().expect("a directory");
        let id = store(home.path(), events);
        let program = std::env::current_exe().expect("its own path");
        let told = Command::new(program)
            .arg("open")
            .arg(home.path())
            .arg(id)
            .output()
            .expect("it starts again");
        assert!(
            told.status.success(),
            "{}",
            String::from_utf8_lossy(&told.stderr)
        );
        print!("{}", String::from_utf8_lossy(&told.stdout));
    }
    println!();
}

/// Stores a session of this many events; returns its id.
fn store(home: &Path, events: u64) -> String {
    let session = generate(events);
    let store = JsonlStore::new(home.join("sessions"), Container::Zstd);
    let mut writer = store.create(session.header()).expect("a new session");
    let events: Vec<_> = session.log().events().cloned().collect();
    writer.append(&events).expect("room");
    session.header().id.as_str().to_owned()
}
