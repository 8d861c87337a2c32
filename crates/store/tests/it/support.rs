//! A home with sessions in it, and small builders.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use offshoot_format::Container;
use offshoot_session::{Event, EventLog, SessionHeader};
use offshoot_store::{HOME_MARKER, JsonlStore, Listed, Persistence, Query};
use offshoot_test_support::TestHome;

/// A whole turn by hand: a step with two parallel calls (events 1 to 11), then a step that answers.
pub(crate) const TWO_CALLS: &str = include_str!("two_calls.jsonl");

pub(crate) const BOTH: [Container; 2] = [Container::Raw, Container::Zstd];

/// Where sessions of [`header`] are, below the root.
pub(crate) const PROJECT: &str = "--work-demo--";

/// When sessions are opened in these tests.
pub(crate) const NOW: i64 = 9_000;

/// The first `len` events of [`TWO_CALLS`].
pub(crate) fn events(len: usize) -> Vec<Arc<Event>> {
    TWO_CALLS.lines().take(len).map(event).collect()
}

pub(crate) fn event(row: &str) -> Arc<Event> {
    Arc::new(Event::from_row(row).unwrap_or_else(|error| panic!("{error}: {row}")))
}

pub(crate) fn log(events: &[Arc<Event>]) -> EventLog {
    let mut log = EventLog::new();
    for event in events {
        log.push(Arc::clone(event)).unwrap();
    }
    log
}

pub(crate) fn header(id: &str) -> SessionHeader {
    SessionHeader {
        cwd: Some("/work/demo".into()),
        ..SessionHeader::new(id.into(), 1)
    }
}

/// A log as the store would write it: the header, and one batch each.
pub(crate) fn file_bytes(
    container: Container,
    header: &SessionHeader,
    batches: &[&[Arc<Event>]],
) -> Vec<u8> {
    let mut bytes = container.header(header).unwrap();
    for batch in batches {
        bytes.extend(container.batch(batch.iter().map(|event| &**event)));
    }
    bytes
}

pub(crate) fn texts<'a>(events: impl IntoIterator<Item = &'a Arc<Event>>) -> Vec<String> {
    events
        .into_iter()
        .map(|event| event.text().to_owned())
        .collect()
}

pub(crate) fn file_name(container: Container) -> &'static str {
    match container {
        Container::Raw => "session.v4.jsonl",
        Container::Zstd => "session.v4.jsonl.zstd",
    }
}

/// All sessions of a store, in the order of their paths.
pub(crate) fn all(store: &dyn Persistence) -> Vec<Listed> {
    let mut rows = store.list(&Query::default()).unwrap().rows;
    rows.sort_by(|a, b| a.path.cmp(&b.path));
    rows
}

/// A temporary home whose sessions lie where the store expects them.
#[derive(Debug, Default)]
pub(crate) struct Home {
    test: TestHome,
}

impl Home {
    pub(crate) fn new() -> Self {
        Self::default()
    }

    /// A home that Offshoot created: forks may be linked there.
    pub(crate) fn ours() -> Self {
        let home = Self::new();
        write(&home.test.path().join(HOME_MARKER), "{\"layout\":1}\n");
        home
    }

    pub(crate) fn root(&self) -> PathBuf {
        self.test.path().join("sessions")
    }

    pub(crate) fn store(&self, container: Container) -> JsonlStore {
        JsonlStore::new(self.root(), container)
    }

    pub(crate) fn dir(&self, id: &str) -> PathBuf {
        self.root().join(PROJECT).join(id)
    }

    pub(crate) fn log(&self, id: &str, container: Container) -> PathBuf {
        self.dir(id).join(file_name(container))
    }

    /// Puts a file below the root, with all directories above it.
    pub(crate) fn put(&self, path: impl AsRef<Path>, bytes: impl AsRef<[u8]>) -> PathBuf {
        let path = self.root().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        write(&path, bytes);
        path
    }

    /// Puts the log of a session where it belongs.
    pub(crate) fn put_log(
        &self,
        id: &str,
        container: Container,
        bytes: impl AsRef<[u8]>,
    ) -> PathBuf {
        self.put(format!("{PROJECT}/{id}/{}", file_name(container)), bytes)
    }

    pub(crate) fn tree(&self) -> BTreeMap<String, Vec<u8>> {
        self.test.bytes_of_tree()
    }

    /// A text with the root's path shortened.
    pub(crate) fn shorten(&self, text: &str) -> String {
        text.replace(&*self.root().to_string_lossy(), "<root>")
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "a test file need not survive a power cut"
)]
pub(crate) fn write(path: &Path, bytes: impl AsRef<[u8]>) {
    fs::write(path, bytes).unwrap();
}
