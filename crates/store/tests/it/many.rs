//! A home with many small sessions, for tests and benchmarks: files written as they are, as fast as the disk takes them.

use std::fs;
use std::path::Path;

use offshoot_format::Container;
use offshoot_session::{Event, SessionHeader};

/// How many projects the sessions lie in.
const PROJECTS: usize = 50;

/// The id of the n-th session.
pub(crate) fn id(n: usize) -> String {
    format!("session-{n:05}")
}

/// The n-th session's file, below the root.
pub(crate) fn place(n: usize, container: Container) -> String {
    let project = n % PROJECTS;
    let name = match container {
        Container::Raw => "session.v4.jsonl",
        Container::Zstd => "session.v4.jsonl.zstd",
    };
    format!("--srv-project-{project}--/{}/{name}", id(n))
}

/// Writes the sessions of these numbers: one turn each.
pub(crate) fn put_many(
    root: &Path,
    container: Container,
    numbers: impl IntoIterator<Item = usize>,
) {
    let body = body(container);
    for n in numbers {
        let header = SessionHeader {
            cwd: Some(format!("/srv/project-{}", n % PROJECTS)),
            ..SessionHeader::new(id(n).as_str().into(), 1_000)
        };
        let mut bytes = container.header(&header).unwrap();
        bytes.extend(&body);
        let path = root.join(place(n, container));
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        #[expect(
            clippy::disallowed_methods,
            reason = "these files need not survive a power cut"
        )]
        fs::write(&path, bytes).unwrap();
    }
}

/// A turn with two tool calls, and a title.
fn body(container: Container) -> Vec<u8> {
    let title = r#"{"type":"session/title","seq":16,"time":140,"data":{"title":"A small one","messageSeqs":[3],"source":{"kind":"fallback"}}}"#;
    let rows = include_str!("../../src/testing/two_calls.jsonl")
        .lines()
        .chain([title]);
    let events: Vec<Event> = rows.map(|row| Event::from_row(row).unwrap()).collect();
    container.batch(&events)
}
