//! A home with sessions in it, and small builders.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use offshoot_format::Container;
use offshoot_session::{Event, EventLog, SessionHeader};
use offshoot_store::{HOME_MARKER, JsonlStore, Listed, Persistence, Query};
use offshoot_test_support::TestHome;

pub(crate) use offshoot_store::testing::{NOW, TWO_CALLS, event, events, header, log, texts};

pub(crate) const BOTH: [Container; 2] = [Container::Raw, Container::Zstd];

/// Where sessions of [`header`] are, below the root.
pub(crate) const PROJECT: &str = "--work-demo--";

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

/// What may come next in any log: an open turn ends, or one begins with user messages of these sizes.
pub(crate) fn next_events(log: &EventLog, messages: &[usize]) -> Vec<Arc<Event>> {
    let mut seq = log.end().get();
    let mut row = |kind: &str, data: &str, more: &str| {
        let row = format!(r#"{{"type":"{kind}","seq":{seq},"time":9001,"data":{{{data}}}{more}}}"#);
        seq += 1;
        event(&row)
    };
    if log.open_tail().turn().is_some() {
        let at = format!(r#""turn":{}"#, log.last_turn());
        let step = format!(r#"{at},"step":1"#);
        let completed = format!(r#"{at},"reason":{{"kind":"completed"}}"#);
        return vec![row("step/end", &step, ""), row("turn/end", &completed, "")];
    }
    let at = format!(r#""turn":{}"#, log.last_turn() + 1);
    let mut events = vec![row("turn/start", &at, "")];
    for (number, size) in messages.iter().enumerate() {
        let id = format!("m-{}-{number}", log.end());
        let text = "word ".repeat(size.div_ceil(5));
        let message = format!(
            r#""id":"{id}","role":"user","content":[{{"type":"text","text":"{text}"}}],"source":{{"kind":"user"}}"#
        );
        events.push(row("user/message", &message, r#","surfaceOp":"append""#));
    }
    events.push(row("step/start", &format!(r#"{at},"step":1"#), ""));
    events
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
