//! A disk of which a test knows what would survive a power cut.
//!
//! What is *live* lies in a real directory, so that the store reads it as it always does. What is *durable* is kept here:
//! for each file its bytes at its last sync, for each directory its names at its last sync. Both go by inode, because a
//! file may have several names, and a directory may move. A power cut is a directory made of the durable part, and of as
//! much of the rest as the cut lets through.

use std::collections::{BTreeMap, HashMap};
use std::ffi::OsString;
use std::fmt;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Seek as _, Write as _};
use std::ops::Range;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};

use offshoot_store::{Disk, LogFile, RealDisk};

use crate::support::write;

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
    Sync,
    SyncDir,
}

impl Op {
    fn needs_room(self) -> bool {
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

/// A home after a power cut: each path with the file that it names, or a directory.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Image(BTreeMap<PathBuf, Entry>);

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Entry {
    Dir,
    File { inode: u64, bytes: Vec<u8> },
}

/// Paths, and what is there.
pub(crate) type Files = Vec<(PathBuf, Vec<u8>)>;

impl Image {
    /// What lies in directories of one name, with the names below them.
    pub(crate) fn of_session(&self, name: &str) -> Files {
        let inside = |path: &&PathBuf| path.iter().any(|part| part == name);
        let paths = self.0.keys().filter(inside);
        let bytes = |path: &PathBuf| match &self.0[path] {
            Entry::Dir => Vec::new(),
            Entry::File { bytes, .. } => bytes.clone(),
        };
        paths.map(|path| (path.clone(), bytes(path))).collect()
    }

    /// Makes it real below a directory. Names of one file are hard links again.
    pub(crate) fn write_below(&self, top: &Path) {
        let mut first_names: HashMap<u64, PathBuf> = HashMap::new();
        for (path, entry) in &self.0 {
            let path = top.join(path);
            match entry {
                Entry::Dir => fs::create_dir(&path).unwrap(),
                Entry::File { inode, bytes } => match first_names.get(inode) {
                    Some(first) => fs::hard_link(first, &path).unwrap(),
                    None => {
                        write(&path, bytes);
                        first_names.insert(*inode, path);
                    }
                },
            }
        }
    }
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

    fn bytes_after(&self, cut: Bytes) -> Vec<u8> {
        // What was given up shows once something behind it was written.
        let live = match self.bytes.len() < self.lost.end {
            true => self.live_bytes(),
            false => self.written_bytes(),
        };
        match cut {
            Bytes::Nothing => self.bytes.clone(),
            Bytes::Everything => live,
            // Growth that came half through, or a cut that did not while bytes behind it did: a mixture.
            Bytes::Half => {
                let common = live.iter().zip(&self.bytes).take_while(|(a, b)| a == b);
                let common = common.count();
                let half = common + (live.len() - common) / 2;
                let mut bytes = live[..half].to_vec();
                bytes.extend(self.bytes.iter().skip(half));
                bytes
            }
        }
    }
}

struct State {
    top: PathBuf,
    nodes: HashMap<u64, Node>,
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
        let mut places = HashMap::new();
        find_dirs(&state.top, &mut places);
        for names in [
            Names::Nothing,
            Names::OnlyNew,
            Names::OnlyRemovals,
            Names::Everything,
        ] {
            for bytes in [Bytes::Nothing, Bytes::Half, Bytes::Everything] {
                let mut image = Image(BTreeMap::new());
                let top = fs::metadata(&state.top).unwrap().ino();
                state.collect(
                    top,
                    &state.top,
                    Path::new(""),
                    (names, bytes),
                    &places,
                    &mut image,
                );
                if images.iter().all(|(_, other)| *other != image) {
                    images.push((format!("names {names:?}, bytes {bytes:?}"), image));
                }
            }
        }
        images
    }
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

    fn sync_dir(&mut self, dir: &Path) {
        let names = names(dir);
        for name in names.keys() {
            self.node(&dir.join(name));
        }
        self.node(dir).names = names;
    }

    /// Adds what a power cut leaves in a directory that is live at `live`.
    fn collect(
        &self,
        inode: u64,
        live: &Path,
        below: &Path,
        cut: (Names, Bytes),
        places: &HashMap<u64, PathBuf>,
        image: &mut Image,
    ) {
        let nothing = BTreeMap::new();
        let durable = self.nodes.get(&inode).map_or(&nothing, |node| &node.names);
        let now = names(live);
        let mut left = match cut.0 {
            Names::Nothing | Names::OnlyNew => durable.clone(),
            Names::OnlyRemovals | Names::Everything => durable
                .iter()
                .filter(|(name, _)| now.contains_key(*name))
                .map(|(name, inode)| (name.clone(), *inode))
                .collect(),
        };
        if matches!(cut.0, Names::OnlyNew | Names::Everything) {
            left.extend(now);
        }
        for (name, inode) in left {
            let below = below.join(&name);
            // Elsewhere, if it was moved meanwhile.
            let live = match places.get(&inode) {
                Some(place) => place.clone(),
                None => live.join(&name),
            };
            let node = self.nodes.get(&inode);
            let meta = node.map_or_else(|| fs::metadata(&live), |node| node.handle.metadata());
            if meta.unwrap().is_dir() {
                image.0.insert(below.clone(), Entry::Dir);
                self.collect(inode, &live, &below, cut, places, image);
                continue;
            }
            // One that nobody ever synced, nor its directory: a lock, which is empty.
            let bytes = node.map_or_else(Vec::new, |node| node.bytes_after(cut.1));
            image.0.insert(below, Entry::File { inode, bytes });
        }
    }
}

/// Where each directory below one is now.
fn find_dirs(dir: &Path, places: &mut HashMap<u64, PathBuf>) {
    for (name, inode) in names(dir) {
        let path = dir.join(name);
        if path.is_dir() {
            find_dirs(&path, places);
            places.insert(inode, path);
        }
    }
}

fn names(dir: &Path) -> BTreeMap<OsString, u64> {
    let Ok(entries) = fs::read_dir(dir) else {
        return BTreeMap::new();
    };
    entries
        .map(|entry| entry.unwrap())
        .map(|entry| (entry.file_name(), entry.metadata().unwrap().ino()))
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
        self.state().check(Op::Rename)?;
        RealDisk.rename(from, to)
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
