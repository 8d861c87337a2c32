//! What a long conversation takes in memory while an agent has it open.

use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use offshoot_agent::Driver;
use offshoot_format::Container;
use offshoot_model::ScriptModel;

use offshoot_store::{JsonlStore, Persistence as _};

use crate::history::{env, service, setup};
use crate::log::generate;

/// In the process whose memory is measured: opens the session in the home and says how much it has resident.
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
    let model = ScriptModel::new("bench", Vec::new());
    let driver = Driver::new(attached, setup(Arc::new(model), &env));
    let events = driver.session().log().end().get();
    let status = std::fs::read_to_string("/proc/self/status").expect("Linux");
    let kib = |name: &str| {
        let line = status.lines().find(|line| line.starts_with(name));
        let number = line.and_then(|line| line.split_whitespace().nth(1));
        number
            .and_then(|number| number.parse::<u64>().ok())
            .unwrap_or(0)
    };
    Some(format!(
        "| {events} | {:.0} MB | {:.0} MB |",
        kib("VmRSS:") as f64 / 1e3,
        kib("VmHWM:") as f64 / 1e3
    ))
}

pub(crate) fn run() {
    println!("### Memory of an agent with a long conversation\n");
    println!("| events | resident once it is open | peak while opening |");
    println!("|---|---|---|");
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
