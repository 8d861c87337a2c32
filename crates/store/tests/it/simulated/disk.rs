//! A disk of which a test knows what would survive a power cut.
//!
//! What is *live* lies in a real directory, so that the store reads it as it always does. What is *durable* is kept here:
//! for each file its bytes at its last sync, for each directory its names at its last sync. Both go by inode, because a
//! file may have several names, and a directory may move. A power cut is a directory made of the durable part, and of as
//! much of the rest as the cut lets through. A directory that was moved is in its old place or in its new one, and never in
//! both or none: file systems with a journal move in one step, which is durable with either parent.

use std::collections::{BTreeMap, HashMap};
use std::ffi::OsString;
use std::fmt;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Seek as _, Write as _};
use std::ops::Range;
use std::os::unix::fs::{DirEntryExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};

use offshoot_store::{Disk, LogFile, RealDisk};

use super::image::{Entry, Image};

/// What happens at the chosen operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// It fails and does nothing.
    Fail,
    /// It fails, and an append has then written its first half.
    Short,
    /// From here on there is no room, until [`SimDisk::recover`].
    Full,
    /// From here on nothing works, until [`SimDisk::recover`].
    Outage,
    /// A sync says that it worked and did nothing.
    Lie,
    /// The process ends here.
    Stop,
}

/// What a store asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Op {
    Open,
    Size,
    CreateFile,
    CreateDir,
    Append,
    Truncate,
    Link,
    Rename,
    Remove,
    RemoveDir,
    Renew,
    Sync,
    SyncDir,
}

impl Op {
    pub(crate) fn needs_room(self) -> bool {
        matches!(
            self,
            Self::CreateFile | Self::CreateDir | Self::Append | Self::Link | Self::Rename
        )
    }

    pub(crate) fn is_sync(self) -> bool {
        matches!(self, Self::Sync | Self::SyncDir)
    }
}

/// What is to be done about an operation.
enum Verdict {
    Do,
    Pretend,
    Fail { half: bool, error: io::Error },
}

/// What a power cut lets through of bytes that were not synced.
#[derive(Clone, Copy, Debug)]
enum Bytes {
    Nothing,
    Half,
    Everything,
}

/// What a power cut lets through of names that were not synced.
#[derive(Clone, Copy, Debug)]
enum Names {
    Nothing,
    OnlyNew,
    OnlyRemovals,
    Everything,
}

#[derive(Debug)]
struct Node {
    /// Held so that the inode stays this file's as long as anything here speaks of it.
    handle: File,
    bytes: Vec<u8>,
    names: BTreeMap<OsString, u64>,
    /// Bytes that a failed sync has given up: the system shows them, and no later sync writes them.
    lost: Range<usize>,
}

impl Node {
    fn live_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        let mut handle = &self.handle;
        handle.rewind().unwrap();
        handle.read_to_end(&mut bytes).unwrap();
        bytes
    }

    /// What a sync makes durable.
    fn written_bytes(&self) -> Vec<u8> {
        let mut bytes = self.live_bytes();
        let end = self.lost.end.min(bytes.len());
        let start = self.lost.start.min(end);
        bytes[start..end].fill(0);
        bytes
    }

    /// What is left of it after each of the three cuts.
    fn after_cuts(&self) -> [Arc<[u8]>; 3] {
        // What was given up shows once something behind it was written.
        let live = match self.bytes.len() < self.lost.end {
            true => self.live_bytes(),
            false => self.written_bytes(),
        };
        let nothing: Arc<[u8]> = Arc::from(&*self.bytes);
        if live == self.bytes {
            return [Arc::clone(&nothing), Arc::clone(&nothing), nothing];
        }
        // Growth that came half through, or a cut that did not while bytes behind it did: a mixture.
        let common = live.iter().zip(&self.bytes).take_while(|(a, b)| a == b);
        let common = common.count();
        let half = common + (live.len() - common) / 2;
        let mut mixed = live[..half].to_vec();
        mixed.extend(self.bytes.iter().skip(half));
        [nothing, mixed.into(), live.into()]
    }
}

/// A name in a directory, which goes by its inode.
#[derive(Clone, Debug)]
struct Name {
    dir: u64,
    name: OsString,
}

/// A directory got another name, and neither of the two parents was synced since.
#[derive(Debug)]
struct Move {
    inode: u64,
    from: Name,
    to: Name,
}

struct State {
    top: PathBuf,
    nodes: HashMap<u64, Node>,
    /// In the order in which they were made.
    moves: Vec<Move>,
    ops: Vec<Op>,
    faults: Vec<(usize, Fault)>,
    full: bool,
    out: bool,
    stopped: bool,
}

/// The disk. Clones are the same one.
#[derive(Clone)]
pub(crate) struct SimDisk(Arc<Mutex<State>>);

impl fmt::Debug for SimDisk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SimDisk")
    }
}

impl SimDisk {
    /// A disk over what is below `top`, all of it durable.
    pub(crate) fn over(top: &Path, faults: &[(usize, Fault)]) -> Self {
        let mut state = State {
            top: top.to_owned(),
            nodes: HashMap::new(),
            moves: Vec::new(),
            ops: Vec::new(),
            faults: faults.to_vec(),
            full: false,
            out: false,
            stopped: false,
        };
        state.settle(top);
        Self(Arc::new(Mutex::new(state)))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap()
    }

    /// What was asked for so far.
    pub(crate) fn ops(&self) -> Vec<Op> {
        self.state().ops.clone()
    }

    /// Whether the process that uses the disk has ended.
    pub(crate) fn stopped(&self) -> bool {
        self.state().stopped
    }

    /// There is room again, and everything works.
    pub(crate) fn recover(&self) {
        let mut state = self.state();
        (state.full, state.out) = (false, false);
    }

    /// Another process comes; the power was on all the time.
    pub(crate) fn restart(&self, faults: &[(usize, Fault)]) {
        let mut state = self.state();
        state.stopped = false;
        state.faults = faults.to_vec();
    }

    /// Every home that a power cut at this moment may leave.
    pub(crate) fn power_cuts(&self) -> Vec<(String, Image)> {
        let state = self.state();
        let mut images: Vec<(String, Image)> = Vec::new();
        let mut live = Live::default();
        state.look(&state.top, &mut live);
        let top = fs::metadata(&state.top).unwrap().ino();
        for names in [
            Names::Nothing,
            Names::OnlyNew,
            Names::OnlyRemovals,
            Names::Everything,
        ] {
            for bytes in [Bytes::Nothing, Bytes::Half, Bytes::Everything] {
                let mut image = Image::default();
                state.collect(top, Path::new(""), (names, bytes), &mut live, &mut image);
                if images.iter().all(|(_, other)| *other != image) {
                    images.push((format!("names {names:?}, bytes {bytes:?}"), image));
                }
            }
        }
        images
    }
}

/// What is there while the power is on, and what was found out about it.
#[derive(Default)]
struct Live {
    /// The names in each directory.
    dirs: HashMap<u64, BTreeMap<OsString, u64>>,
    /// What each cut leaves of each file.
    files: HashMap<u64, [Arc<[u8]>; 3]>,
}

impl State {
    fn step(&mut self, op: Op) -> Verdict {
        let now = self.ops.len();
        self.ops.push(op);
        let fail = |half| Verdict::Fail {
            half,
            error: io::Error::other("the disk is broken"),
        };
        if self.stopped || self.out {
            return fail(false);
        }
        let fault = self.faults.iter().find(|(at, _)| *at == now);
        match fault.map(|(_, fault)| *fault) {
            Some(Fault::Fail) => return fail(false),
            Some(Fault::Short) => return fail(true),
            Some(Fault::Lie) if op.is_sync() => return Verdict::Pretend,
            Some(Fault::Lie) | None => {}
            Some(Fault::Full) => self.full = true,
            Some(Fault::Outage) => {
                self.out = true;
                return fail(false);
            }
            Some(Fault::Stop) => {
                self.stopped = true;
                return fail(false);
            }
        }
        if self.full && op.needs_room() {
            return Verdict::Fail {
                half: true,
                error: io::ErrorKind::StorageFull.into(),
            };
        }
        Verdict::Do
    }

    /// For everything but an append, half of it is nothing.
    fn check(&mut self, op: Op) -> io::Result<()> {
        match self.step(op) {
            Verdict::Do | Verdict::Pretend => Ok(()),
            Verdict::Fail { error, .. } => Err(error),
        }
    }

    fn node(&mut self, path: &Path) -> &mut Node {
        let handle = File::open(path).unwrap();
        let inode = handle.metadata().unwrap().ino();
        self.nodes.entry(inode).or_insert_with(|| Node {
            handle,
            bytes: Vec::new(),
            names: BTreeMap::new(),
            lost: 0..0,
        })
    }

    /// Everything below a directory becomes durable.
    fn settle(&mut self, dir: &Path) {
        for name in names(dir).into_keys() {
            let path = dir.join(name);
            if path.is_dir() {
                self.settle(&path);
                continue;
            }
            let node = self.node(&path);
            node.bytes = node.live_bytes();
        }
        self.node(dir).names = names(dir);
    }

    fn sync(&mut self, inode: u64) -> io::Result<()> {
        let verdict = self.step(Op::Sync);
        // In an outage the system keeps what it could not write.
        let gives_up = !self.out && !self.stopped;
        let node = self.nodes.get_mut(&inode).unwrap();
        match verdict {
            Verdict::Do => node.bytes = node.written_bytes(),
            Verdict::Pretend => {}
            Verdict::Fail { error, .. } => {
                if gives_up {
                    node.lost = node.bytes.len()..node.live_bytes().len();
                }
                return Err(error);
            }
        }
        Ok(())
    }

    /// The directory `to` was `from` until now.
    fn moved(&mut self, from: &Path, to: &Path) {
        let mut name = |path: &Path| Name {
            dir: self.inode(path.parent().unwrap()),
            name: path.file_name().unwrap().to_owned(),
        };
        let (from, new) = (name(from), name(to));
        let inode = self.inode(to);
        self.moves.push(Move {
            inode,
            from,
            to: new,
        });
    }

    fn inode(&mut self, path: &Path) -> u64 {
        self.node(path).handle.metadata().unwrap().ino()
    }

    /// Moves out of a directory and into it become durable at both ends.
    fn sync_moves(&mut self, dir: u64) {
        let touches = |one: &&Move| one.from.dir == dir || one.to.dir == dir;
        let inodes: Vec<u64> = self
            .moves
            .iter()
            .filter(touches)
            .map(|one| one.inode)
            .collect();
        let (done, left) = std::mem::take(&mut self.moves)
            .into_iter()
            .partition(|one| inodes.contains(&one.inode));
        self.moves = left;
        let done: Vec<Move> = done;
        for Move { inode, from, to } in done {
            let old = &mut self.nodes.get_mut(&from.dir).unwrap().names;
            if old.get(&from.name) == Some(&inode) {
                old.remove(&from.name);
            }
            let new = &mut self.nodes.get_mut(&to.dir).unwrap().names;
            new.insert(to.name, inode);
        }
    }

    fn sync_dir(&mut self, dir: &Path) {
        let inode = self.inode(dir);
        self.sync_moves(inode);
        let names = names(dir);
        for name in names.keys() {
            self.node(&dir.join(name));
        }
        self.node(dir).names = names;
    }

    /// Takes down the names below a directory.
    fn look(&self, dir: &Path, live: &mut Live) {
        let found = names(dir);
        for name in found.keys() {
            let path = dir.join(name);
            if path.is_dir() {
                self.look(&path, live);
            }
        }
        let inode = fs::metadata(dir).unwrap().ino();
        live.dirs.insert(inode, found);
    }

    /// Adds what a power cut leaves in a directory.
    fn collect(
        &self,
        inode: u64,
        below: &Path,
        cut: (Names, Bytes),
        live: &mut Live,
        image: &mut Image,
    ) {
        let nothing = BTreeMap::new();
        let durable = self.nodes.get(&inode).map_or(&nothing, |node| &node.names);
        // A directory that was removed has no names any more.
        let now = live.dirs.get(&inode).cloned().unwrap_or_default();
        let mut left = match cut.0 {
            Names::Nothing | Names::OnlyNew => durable.clone(),
            Names::OnlyRemovals | Names::Everything => durable
                .iter()
                .filter(|(name, _)| now.contains_key(*name))
                .map(|(name, inode)| (name.clone(), *inode))
                .collect(),
        };
        let lets_new_names = matches!(cut.0, Names::OnlyNew | Names::Everything);
        let is_moving = |inode: &u64| self.moves.iter().any(|one| one.inode == *inode);
        let moving = match lets_new_names {
            true => &now,
            false => durable,
        };
        let moving = moving.iter().filter(|(_, inode)| is_moving(inode));
        let moving: Vec<_> = moving.map(|(name, inode)| (name.clone(), *inode)).collect();
        if lets_new_names {
            left.extend(now);
        }
        left.retain(|_, inode| !is_moving(inode));
        left.extend(moving);
        for (name, inode) in left {
            let below = below.join(&name);
            let node = self.nodes.get(&inode);
            let is_dir = |node: &Node| node.handle.metadata().unwrap().is_dir();
            if live.dirs.contains_key(&inode) || node.is_some_and(is_dir) {
                image.0.insert(below.clone(), Entry::Dir);
                self.collect(inode, &below, cut, live, image);
                continue;
            }
            // One that nobody ever synced, nor its directory: a lock, which is empty.
            let bytes = node.map_or_else(
                || Arc::from([]),
                |node| {
                    let after = live.files.entry(inode).or_insert_with(|| node.after_cuts());
                    Arc::clone(&after[cut.1 as usize])
                },
            );
            image.0.insert(below, Entry::File { inode, bytes });
        }
    }
}

fn names(dir: &Path) -> BTreeMap<OsString, u64> {
    let Ok(entries) = fs::read_dir(dir) else {
        return BTreeMap::new();
    };
    entries
        .map(|entry| entry.unwrap())
        .map(|entry| (entry.file_name(), entry.ino()))
        .collect()
}

impl Disk for SimDisk {
    fn open_log(&self, path: &Path) -> io::Result<Box<dyn LogFile>> {
        self.state().check(Op::Open)?;
        self.log(path)
    }

    fn create_file(&self, path: &Path) -> io::Result<Box<dyn LogFile>> {
        self.state().check(Op::CreateFile)?;
        drop(RealDisk.create_file(path)?);
        self.log(path)
    }

    fn create_dir(&self, dir: &Path) -> io::Result<()> {
        self.state().check(Op::CreateDir)?;
        RealDisk.create_dir(dir)
    }

    fn link(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.state().check(Op::Link)?;
        RealDisk.link(from, to)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let mut state = self.state();
        state.check(Op::Rename)?;
        RealDisk.rename(from, to)?;
        if to.is_dir() {
            state.moved(from, to);
        }
        Ok(())
    }

    fn remove_dir(&self, dir: &Path) -> io::Result<()> {
        self.state().check(Op::RemoveDir)?;
        RealDisk.remove_dir(dir)
    }

    fn renew(&self, path: &Path, at: i64) -> io::Result<()> {
        self.state().check(Op::Renew)?;
        RealDisk.renew(path, at)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.state().check(Op::Remove)?;
        RealDisk.remove(path)
    }

    fn sync_file(&self, path: &Path) -> io::Result<()> {
        let inode = fs::metadata(path)?.ino();
        let mut state = self.state();
        state.node(path);
        state.sync(inode)
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        let mut state = self.state();
        match state.step(Op::SyncDir) {
            Verdict::Do => state.sync_dir(dir),
            Verdict::Pretend => {}
            Verdict::Fail { error, .. } => return Err(error),
        }
        Ok(())
    }
}

impl SimDisk {
    fn log(&self, path: &Path) -> io::Result<Box<dyn LogFile>> {
        let file = OpenOptions::new().append(true).open(path)?;
        let inode = file.metadata()?.ino();
        self.state().node(path);
        Ok(Box::new(SimLog {
            disk: self.clone(),
            inode,
            file,
        }))
    }
}

#[derive(Debug)]
struct SimLog {
    disk: SimDisk,
    inode: u64,
    file: File,
}

impl LogFile for SimLog {
    fn size(&self) -> io::Result<u64> {
        self.disk.state().check(Op::Size)?;
        Ok(self.file.metadata()?.len())
    }

    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        match self.disk.state().step(Op::Append) {
            Verdict::Do | Verdict::Pretend => self.file.write_all(bytes),
            Verdict::Fail { half: false, error } => Err(error),
            Verdict::Fail { half: true, error } => {
                self.file.write_all(&bytes[..bytes.len() / 2])?;
                Err(error)
            }
        }
    }

    fn truncate(&mut self, len: u64) -> io::Result<()> {
        let mut state = self.disk.state();
        state.check(Op::Truncate)?;
        self.file.set_len(len)?;
        let node = state.nodes.get_mut(&self.inode).unwrap();
        node.lost.end = node.lost.end.min(usize::try_from(len).unwrap());
        node.lost.start = node.lost.start.min(node.lost.end);
        Ok(())
    }

    fn sync(&mut self) -> io::Result<()> {
        self.disk.state().sync(self.inode)
    }
}
