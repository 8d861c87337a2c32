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

use std::sync::Arc;

use offshoot_format::{BranchHeader, Container, FormatError, RunningDigest};
use offshoot_session::{Event, ForkSeed, LogOffset, SessionHeader};

use crate::checkpoints::Cut;
use crate::disk::{Disk, parent};
use crate::inode::Inode;
use crate::layout::{Generation, LOCK_NAME};
use crate::lock::Lock;
use crate::prefix::Prefix;
use crate::writer::{Beginning, Unpublished, Writer};
use crate::{JsonlStore, StoreError, read};

/// With more bases than this the small ones at the end are copied, as long as they are together no longer than that (in
/// bytes).
const MANY_BASES: usize = 16;
const SMALL_BASES: u64 = 64 << 10;

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
    if let Some(linkable) = linked {
        let own = |from| seed.log().events_from(from).cloned().collect();
        match linkable.publish(store, header, own) {
            Err(Unpublished::CannotLink) => {}
            Err(Unpublished::Failed(error)) => return Err(error),
            Ok(writer) => return Ok(writer),
        }
    }
    let (shared, copied) = match frames_behind(&shared, &Prefix::default()) {
        Some(copied) => (shared, copied),
        None => (Prefix::default(), Vec::new()),
    };
    let beginning = container.header(header).map(|header| Beginning {
        header,
        shared,
        links: Prefix::default(),
        copied,
    });
    let own = |from| seed.log().events_from(from).cloned().collect();
    match publish(
        store,
        header,
        Generation::current(container),
        beginning,
        own,
    ) {
        Ok(writer) => Ok(writer),
        Err(Unpublished::Failed(error)) => Err(error),
        Err(Unpublished::CannotLink) => unreachable!("a self-contained file has nothing to link"),
    }
}

/// Stores a fork of which only the end is in memory. `false` if that cannot be done by linking.
pub(crate) fn store_cut(
    store: &JsonlStore,
    header: &SessionHeader,
    cut: &Cut,
) -> Result<bool, StoreError> {
    let is_packed = store.packing()? == Container::Zstd;
    let linkable = Linkable::of(store, &cut.shared).filter(|_| is_packed);
    // A last frame that may be taken back is not shared, and what it holds is not in memory.
    let Some(linkable) =
        linkable.filter(|linkable| linkable.frames.events() == cut.shared.events())
    else {
        return Ok(false);
    };
    match linkable.publish(store, header, |_| cut.own.clone()) {
        Ok(_) => Ok(true),
        Err(Unpublished::CannotLink) => Ok(false),
        Err(Unpublished::Failed(error)) => Err(error),
    }
}

/// Publishes a log. `own` gives the events from some length of it on.
fn publish(
    store: &JsonlStore,
    header: &SessionHeader,
    generation: Generation,
    beginning: Result<Beginning, FormatError>,
    own: impl Fn(LogOffset) -> Vec<Arc<Event>>,
) -> Result<Writer, Unpublished> {
    let mut writer = store.new_writer(header, generation, beginning)?;
    let own = own(writer.written.events());
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

    fn publish(
        self,
        store: &JsonlStore,
        header: &SessionHeader,
        own: impl Fn(LogOffset) -> Vec<Arc<Event>>,
    ) -> Result<Writer, Unpublished> {
        let Self { frames, _writer } = self;
        let (links, copied) = few_enough(&frames).ok_or(Unpublished::CannotLink)?;
        let branch = BranchHeader {
            session: header.clone(),
            bases: links.files().map(|(_, base)| base).collect(),
        };
        let beginning = branch.encode().map(|header| Beginning {
            header,
            shared: frames,
            links,
            copied,
        });
        publish(store, header, Generation::BRANCH, beginning, own)
    }
}

/// Makes sure of the last frame of a session that nobody writes: it is still there, and then durable. Readers take no lock;
/// this is one for as long as it takes to store a fork, shared by all who fork the session.
fn hold(disk: &dyn Disk, shared: &Prefix) -> Option<Lock> {
    let (file, start, base, mut digest) = shared.unsure_frame()?;
    let lock = Lock::share(&parent(&file.path).join(LOCK_NAME))?;
    let (bytes, meta) = read::range(&file.path, start, base.bytes).ok()?;
    let (end, _) = digest.push_all(Container::Zstd, &bytes);
    let is_it = Inode::of(&meta) == file.id && end == bytes.len() && digest == base.digest;
    if !is_it || disk.sync_file(&file.path).is_err() {
        return None;
    }
    Some(lock)
}

/// What of the frames is linked, and the bytes of the rest. A fork of a fork of a fork would have a base for each of them, and
/// reading it would open that many files; so when there are many, the small ones at the end become part of the new file.
fn few_enough(frames: &Prefix) -> Option<(Prefix, Vec<u8>)> {
    let sizes: Vec<u64> = frames
        .files()
        .map(|(file, base)| base.bytes - file.header)
        .collect();
    if sizes.len() <= MANY_BASES {
        return Some((frames.clone(), Vec::new()));
    }
    let (mut linked, mut copied) = (sizes.len(), 0);
    while linked > 1 && copied + sizes[linked - 1] <= SMALL_BASES {
        linked -= 1;
        copied += sizes[linked];
    }
    let links = frames.first_files(linked);
    let copied = frames_behind(frames, &links)?;
    Some((links, copied))
}

/// The bytes of the frames behind those in `ahead`, or nothing if they are no longer where they were.
fn frames_behind(shared: &Prefix, ahead: &Prefix) -> Option<Vec<u8>> {
    let mut frames = Vec::new();
    let ahead: Vec<_> = ahead.files().collect();
    let mut digest = ahead
        .last()
        .map_or(RunningDigest::START, |(_, base)| base.digest);
    for (file, base) in shared.files().skip(ahead.len()) {
        let (bytes, meta) = read::beginning(&file.path, base.bytes).ok()?;
        let own = bytes.get(usize::try_from(file.header).ok()?..)?;
        let (end, count) = digest.push_all(Container::Zstd, own);
        let is_it = Inode::of(&meta) == file.id && end == own.len() && count == base.frames;
        if !is_it || digest != base.digest {
            return None;
        }
        frames.extend_from_slice(own);
    }
    Some(frames)
}
