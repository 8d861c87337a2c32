//! What a list of many sessions costs.

use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::num::NonZeroUsize;
use std::path::Path;

use offshoot_format::Container;
use offshoot_store::{JsonlStore, Page, Persistence as _, Query};

use crate::many::{place, put_many};
use crate::timing::{each_timed, mb, ratio, show, timed};

const SESSIONS: usize = 10_000;
/// Long after the files were written, as most sessions are old.
const LATER: i64 = 9_000_000_000_000;

pub(crate) fn run() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let (root, warm, cold) = (
        dir.path().join("sessions"),
        dir.path().join("warm"),
        dir.path().join("cold"),
    );
    put_many(&root, Container::Zstd, 0..SESSIONS);
    let store = || JsonlStore::new(&root, Container::Zstd);
    let changing = root.join(place(7, Container::Zstd));
    let read = || {
        let all = Query {
            limit: None,
            ..page()
        };
        let filled = store().with_cache(&warm).list_filled(&all, u64::MAX);
        assert_eq!(filled.expect("a home that can be listed").unread, 0);
    };
    let reading = timed(read);
    let in_memory = store().with_cache(&warm);
    list(&in_memory);
    let [walked, uncached, first, again, changed, resident] = each_timed(
        9,
        [
            &mut || timed(|| assert_eq!(walk(&root), SESSIONS)),
            &mut || timed(|| list(&store())),
            &mut || {
                drop(fs::remove_dir_all(&cold));
                timed(|| list(&store().with_cache(&cold)))
            },
            &mut || timed(|| list(&store().with_cache(&warm))),
            &mut || {
                touch(&changing);
                timed(|| list(&store().with_cache(&warm)))
            },
            &mut || timed(|| list(&in_memory)),
        ],
    );
    println!("### Listing {SESSIONS} sessions, the first 50 of them\n");
    println!(
        "The baseline reads each directory and looks at each file. The index has {:.2} MB; reading all bodies for it took {}.\n",
        mb(size(&warm)),
        show(reading)
    );
    println!("| | time | ratio |\n|---|---|---|");
    for (what, time) in [
        ("`read_dir` and `stat` alone (baseline)", walked),
        ("without a cache folder", uncached),
        ("with an empty one, which is written", first),
        ("with the index, in a new process", again),
        ("the same after one session has changed", changed),
        ("with the index in memory", resident),
    ] {
        println!("| {what} | {} | {:.3} |", show(time), ratio(time, walked));
    }
    println!();
}

fn page() -> Query {
    Query {
        limit: NonZeroUsize::new(50),
        now: LATER,
        ..Query::default()
    }
}

fn list(store: &JsonlStore) -> Page {
    let listed = store.list(&page()).expect("a home that can be listed");
    assert_eq!(listed.matching, SESSIONS);
    listed
}

/// How many files there are in the directories of the sessions.
fn walk(root: &Path) -> usize {
    let entries = |dir: &Path| fs::read_dir(dir).expect("a directory of our own");
    let mut files = 0;
    for project in entries(root) {
        for session in entries(&project.expect("an entry").path()) {
            for file in entries(&session.expect("an entry").path()) {
                let meta = fs::metadata(file.expect("an entry").path());
                files += usize::from(meta.expect("a file of our own").is_file());
            }
        }
    }
    files
}

/// A frame without a line more.
fn touch(path: &Path) {
    let empty = zstd::encode_all(&b""[..], 1).expect("nothing to pack");
    let file = OpenOptions::new().append(true).open(path);
    file.and_then(|mut file| file.write_all(&empty))
        .expect("a file of our own");
}

fn size(cache: &Path) -> usize {
    let homes = fs::read_dir(cache).expect("the cache was written");
    let files = homes.map(|home| home.expect("an entry").path().join("index.v2.jsonl"));
    let sizes = files.map(|file| fs::metadata(file).map_or(0, |meta| meta.len()));
    usize::try_from(sizes.sum::<u64>()).unwrap_or(usize::MAX)
}
