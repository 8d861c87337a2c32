//! From a long log on the disk to its last messages, as somebody who opens a conversation wants them.

use std::fs;
use std::hint::black_box;
use std::path::Path;
use std::process::Command;

use offshoot_format::Container;
use offshoot_session::SessionId;
use offshoot_store::{JsonlStore, Persistence as _};

use crate::driver::generate;
use crate::timing::{each_timed, mb, ratio, show, timed};

/// Of these the raw log has about 100 MB.
const EVENTS: u64 = 275_000;
const MESSAGES: usize = 50;
/// As many events as lie between two requests.
const BATCH: usize = 7;

/// The first argument of a process that only opens a session.
const OPEN: &str = "open-and-tell-memory";

pub(crate) fn run() {
    println!("### A long log to its last {MESSAGES} messages\n");
    println!(
        "The baseline reads the file and does nothing with it. *Reading* takes no lock and writes nothing; *opening* is for going \
         on, and includes the lock, the marker and its syncs.\n"
    );
    println!(
        "| log | read the file | reading | ratio | opening | peak memory of reading |\n|---|---|---|---|---|---|"
    );
    for container in [Container::Raw, Container::Zstd] {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let root = dir.path().join("sessions");
        let id = put(&root, container);
        let store = JsonlStore::new(&root, container);
        let path = store.locate(&id).expect("it was written");
        let size = fs::metadata(&path).expect("it is there").len();
        let mut now = 10;
        let [file, read, opened] = each_timed(
            7,
            [
                &mut || timed(|| fs::read(&path).expect("it is there")),
                &mut || timed(|| last_messages(&store, &id)),
                &mut || {
                    now += 1;
                    timed(|| store.open(&id, now).expect("a sound session"))
                },
            ],
        );
        let memory = peak(&root, container, &id);
        println!(
            "| {container:?}, {:.1} MB | {} | {} | {:.2} | {} | {} |",
            mb(usize::try_from(size).unwrap_or(usize::MAX)),
            show(file),
            show(read),
            ratio(read, file),
            show(opened),
            memory.map_or_else(|| "–".to_owned(), |memory| format!("{:.1} MB", mb(memory)))
        );
    }
    println!();
}

fn put(root: &Path, container: Container) -> SessionId {
    let session = generate(EVENTS);
    let header = session.header();
    let store = JsonlStore::new(root, container);
    let mut writer = store.create(header).expect("a free id");
    writer.flush().expect("a working disk");
    drop(writer);
    let mut bytes = container.header(header).expect("a valid header");
    let events: Vec<_> = session.log().events().collect();
    for batch in events.chunks(BATCH) {
        bytes.extend(container.batch(batch.iter().map(|event| &***event)));
    }
    let path = store.locate(&header.id).expect("it was written");
    fs::write(path, bytes).expect("a working disk");
    header.id.clone()
}

fn last_messages(store: &JsonlStore, id: &SessionId) -> usize {
    let read = store.read(id).expect("a sound session");
    let messages: Vec<_> = read.stored.log.messages().collect();
    let last = &messages[messages.len() - MESSAGES..];
    black_box(last)
        .iter()
        .map(|message| message.text.len())
        .sum()
}

fn peak(root: &Path, container: Container, id: &SessionId) -> Option<usize> {
    let program = std::env::current_exe().expect("it runs");
    let output = Command::new(program)
        .arg(OPEN)
        .arg(format!("{container:?}"))
        .arg(root)
        .arg(id.as_str())
        .output()
        .expect("it starts once more");
    String::from_utf8(output.stdout).ok()?.trim().parse().ok()
}

/// Reads the session that the arguments of a process say, if they do; gives its peak of memory in bytes, if the platform
/// tells.
pub(crate) fn open_and_tell_memory(args: &[String]) -> Option<String> {
    let [OPEN, container, root, id] = args.iter().map(String::as_str).collect::<Vec<_>>()[..]
    else {
        return None;
    };
    let mut both = [Container::Raw, Container::Zstd].into_iter();
    let container = both.find(|known| format!("{known:?}") == container)?;
    black_box(last_messages(&JsonlStore::new(root, container), &id.into()));
    crate::reading::peak_of_this_process()
}
