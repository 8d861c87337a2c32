//! Storing a fork: what it inherits is linked or copied in whole frames, never written again.
//!
//! The prefix of a fork lies in its source's file already, in frames that are durable and never change. So the child's
//! directory gets another name for that file (a *base*), and a file of its own with what no whole frame of the source
//! holds: the rest of the prefix, the marker, the closers, and everything that follows. What that costs does not depend on
//! how long the history is.
//!
//! This needs a file system with hard links and a home that no other tool reads, which is one that Offshoot created. Where
//! it is not so, or where somebody asks for it, the child becomes a self-contained file of the released format, and the
//! frames are copied as they are. Only where there are no frames (a raw log, an older format, a file outside of the home)
//! are the events packed anew.

use offshoot_format::{BranchHeader, Container, RunningDigest};
use offshoot_session::{ForkSeed, SessionHeader};

use crate::disk::{Disk, parent};
use crate::layout::{Generation, LOCK_NAME};
use crate::lock::Lock;
use crate::prefix::{FileId, Prefix};
use crate::writer::{Beginning, Inherited, Unpublished, Writer};
use crate::{JsonlStore, StoreError, read};

/// In which form a store keeps forks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ForkLayout {
    /// Linked to their source where the home allows it.
    #[default]
    Linked,
    /// As self-contained files that every tool for this format reads.
    Portable,
}

/// Stores a fork: its header, what it inherits, marker and closers appear together.
pub(crate) fn store_fork(
    store: &JsonlStore,
    header: &SessionHeader,
    seed: &ForkSeed,
    shareable: &Prefix,
) -> Result<Writer, StoreError> {
    let container = store.packing()?;
    let shared = match container {
        Container::Zstd => shareable.cut(seed.inherited_event_count()),
        Container::Raw => Prefix::default(),
    };
    let linked = match store.links_forks() {
        true => Linkable::of(store, &shared),
        false => None,
    };
    if let Some(Linkable { frames, _writer }) = linked {
        let branch = BranchHeader {
            session: header.clone(),
            bases: frames.files().map(|(_, base)| base).collect(),
        };
        let beginning = branch.encode().map(|header| Beginning {
            header,
            inherited: Inherited::Linked(frames),
        });
        match publish(store, header, seed, Generation::BRANCH, beginning) {
            Err(Unpublished::CannotLink) => {}
            Err(Unpublished::Failed(error)) => return Err(error),
            Ok(writer) => return Ok(writer),
        }
    }
    let inherited = match copied(&shared) {
        Some(frames) if !frames.is_empty() => Inherited::Copied(shared, frames),
        _ => Inherited::Nothing,
    };
    let beginning = container
        .header(header)
        .map(|header| Beginning { header, inherited });
    match publish(
        store,
        header,
        seed,
        Generation::current(container),
        beginning,
    ) {
        Ok(writer) => Ok(writer),
        Err(Unpublished::Failed(error)) => Err(error),
        Err(Unpublished::CannotLink) => unreachable!("a self-contained file has nothing to link"),
    }
}

fn publish(
    store: &JsonlStore,
    header: &SessionHeader,
    seed: &ForkSeed,
    generation: Generation,
    beginning: Result<Beginning, offshoot_format::FormatError>,
) -> Result<Writer, Unpublished> {
    let mut writer = store.new_writer(header, generation, beginning)?;
    let stored = writer.written.events();
    let own: Vec<_> = seed.log().events_from(stored).cloned().collect();
    writer.append_first(&own)?;
    Ok(writer)
}

/// Frames that are durable, and stay so at least until the fork is there.
struct Linkable {
    frames: Prefix,
    /// Keeps writers away from a source that has none, as long as its last frame might be taken back by one.
    _writer: Option<Lock>,
}

impl Linkable {
    fn of(store: &JsonlStore, shared: &Prefix) -> Option<Self> {
        let writer = hold(&*store.disk, shared);
        let frames = match writer {
            Some(_) => shared.clone(),
            None => shared.clone().durable(),
        };
        (frames.events().get() > 0).then_some(Self {
            frames,
            _writer: writer,
        })
    }
}

/// Makes sure of the last frame of a session that nobody writes: it is still there, and then durable. Readers take no lock;
/// this is one for as long as it takes to store a fork, shared by all who fork the session.
fn hold(disk: &dyn Disk, shared: &Prefix) -> Option<Lock> {
    let (file, start, base, mut digest) = shared.unsure_frame()?;
    let lock = Lock::share(&parent(&file.path).join(LOCK_NAME))?;
    let (bytes, meta) = read::range(&file.path, start, base.bytes).ok()?;
    let (end, _) = digest.push_all(Container::Zstd, &bytes);
    let is_it = FileId::of(&meta) == file.id && end == bytes.len() && digest == base.digest;
    if !is_it || disk.sync_file(&file.path).is_err() {
        return None;
    }
    Some(lock)
}

/// The frames themselves, or nothing if they are no longer where they were.
fn copied(shared: &Prefix) -> Option<Vec<u8>> {
    let mut frames = Vec::new();
    let mut digest = RunningDigest::START;
    for (file, base) in shared.files() {
        let (bytes, meta) = read::beginning(&file.path, base.bytes).ok()?;
        let own = bytes.get(usize::try_from(file.header).ok()?..)?;
        let (end, count) = digest.push_all(Container::Zstd, own);
        let is_it = FileId::of(&meta) == file.id && end == own.len() && count == base.frames;
        if !is_it || digest != base.digest {
            return None;
        }
        frames.extend_from_slice(own);
    }
    Some(frames)
}
