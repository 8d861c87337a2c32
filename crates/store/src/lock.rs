//! One writer: a kernel lock on `session.lock` (`reference/persistence.md` §1.10).
//!
//! The lock is `flock`, shared with DSH. It is held while the file is open and falls with the process; the file is never
//! deleted where there is a log. After locking, the inode behind the path is compared with the locked one: a directory that was swapped
//! meanwhile must not leave two writers with two locks.
//!
//! Losing leaves no trace. The error names the process that has the lock, where the system tells (`/proc/locks`).
//!
//! A second lock, on the root directory itself, is held for the moment in which a new id is claimed: so two processes that
//! create the same id, in two projects or with two packings, do not both find it free.

use std::collections::BTreeSet;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use offshoot_session::SessionId;

use crate::StoreError;
use crate::disk::Disk;
use crate::inode::Inode;

const ATTEMPTS: usize = 3;

/// How long a writer waits for forks that are being stored: two seconds, many times what one takes.
const FORK_STEPS: usize = 400;
const FORK_STEP: Duration = Duration::from_millis(5);

/// "No locks available", which the standard library has no kind for.
#[cfg(target_os = "linux")]
const ENOLCK: i32 = 37;
#[cfg(not(target_os = "linux"))]
const ENOLCK: i32 = 77;

/// What to do where the file system has no locks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Locking {
    /// Refuse to write: nothing would keep two writers apart.
    #[default]
    Flock,
    /// Write all the same. Where there are locks they are taken and respected as ever, and this process never has two
    /// writers; but where there are none, whoever asks for this answers for it that no other process writes to the same
    /// session. Two that do destroy it.
    UnsafeNone,
}

/// A held lock.
#[derive(Debug)]
pub(crate) struct Lock {
    /// Given back after the lock itself, and before the file is closed: a file that was deleted meanwhile gives its number to
    /// the next one that is created when nobody has it open any more.
    _held: Option<Held>,
    file: File,
}

impl Lock {
    /// Takes the lock of a session, without waiting. Whoever fails leaves no file behind that was not there.
    pub(crate) fn take(
        disk: &dyn Disk,
        locking: Locking,
        path: &Path,
        id: &SessionId,
    ) -> Result<Self, StoreError> {
        let owned = |holder| StoreError::AlreadyOwned {
            id: id.clone(),
            lock: path.to_owned(),
            holder,
        };
        for _ in 0..ATTEMPTS {
            let (file, is_new) = open(path).map_err(|error| unopened(error, path, id))?;
            let meta = file.metadata();
            let inode = meta.ok().as_ref().and_then(Inode::of);
            let held = match inode.map(Held::take) {
                Some(None) => return Err(owned(Some(std::process::id()))),
                Some(held) => held,
                None => None,
            };
            match try_lock(disk, &file, inode) {
                Ok(()) => {}
                Err(TryLockError::WouldBlock) => return Err(owned(inode.and_then(writer))),
                Err(TryLockError::Error(source)) if is_unsupported(&source) => {
                    if locking == Locking::Flock {
                        if is_new {
                            let _nobody_can_hold_it = fs::remove_file(path);
                        }
                        let path = path.to_owned();
                        return Err(StoreError::LocksUnsupported { path, source });
                    }
                }
                Err(TryLockError::Error(error)) => {
                    return Err(StoreError::io("take the lock", path)(error));
                }
            }
            let lock = Self { file, _held: held };
            if is_same_file(&lock.file, path) {
                return Ok(lock);
            }
        }
        Err(owned(None))
    }

    /// Whether a writer has it, as far as the system says. Takes no lock.
    pub(crate) fn has_writer(path: &Path) -> bool {
        let inode = fs::metadata(path).ok().as_ref().and_then(Inode::of);
        inode.is_some_and(|inode| {
            held().contains(&inode) || matches!(holder(inode), Holder::Writer(_))
        })
    }

    /// Keeps writers away, if there is none and the lock file is there. Whoever else does this is no hindrance.
    pub(crate) fn share(path: &Path) -> Option<Self> {
        let file = File::open(path).ok()?;
        file.try_lock_shared().ok()?;
        let lock = Self { file, _held: None };
        is_same_file(&lock.file, path).then_some(lock)
    }

    /// Waits for the lock on a directory; nobody holds it longer than it takes to publish one file. `None` where the file
    /// system locks no directories: there only the check that follows stands between two processes.
    pub(crate) fn directory(dir: &Path) -> Option<Self> {
        let file = File::open(dir).ok()?;
        file.lock().ok()?;
        Some(Self { file, _held: None })
    }
}

impl Drop for Lock {
    /// Explicitly, not by closing: a child process that is being started holds a copy of every open file until it runs
    /// its own program, and with the copy it would hold the lock.
    fn drop(&mut self) {
        let _closing_unlocks_too = self.file.unlock();
    }
}

/// Takes a lock that no writer has. Who forks the session at this moment shares it for as long as it takes to store the fork:
/// that is no reason to turn a writer away.
fn try_lock(disk: &dyn Disk, file: &File, inode: Option<Inode>) -> Result<(), TryLockError> {
    let (mut forks, mut nobody) = (0, 0);
    loop {
        let tried = disk.try_lock(file);
        if !matches!(tried, Err(TryLockError::WouldBlock)) {
            return tried;
        }
        match inode.map_or(Holder::Unknown, holder) {
            Holder::Forks if forks < FORK_STEPS => {
                thread::sleep(FORK_STEP);
                forks += 1;
            }
            // It was given back a moment ago; or whoever has it cannot be seen from here.
            Holder::Nobody if nobody < ATTEMPTS => nobody += 1,
            _ => return tried,
        }
    }
}

/// Opens the lock, and says whether it was not there before.
fn open(path: &Path) -> io::Result<(File, bool)> {
    let mut options = OpenOptions::new();
    options.write(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    match options.open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        opened => return opened.map(|file| (file, false)),
    }
    match options.clone().create_new(true).open(path) {
        // Somebody else has just created it.
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            options.open(path).map(|file| (file, false))
        }
        created => created.map(|file| (file, true)),
    }
}

/// A lock that cannot even be created has no directory any more: the session was deleted a moment ago.
fn unopened(error: io::Error, path: &Path, id: &SessionId) -> StoreError {
    let root = path.ancestors().nth(3);
    match root.filter(|_| error.kind() == io::ErrorKind::NotFound) {
        Some(root) => StoreError::NotFound {
            id: id.clone(),
            root: root.to_owned(),
        },
        None => StoreError::io("open the lock", path)(error),
    }
}

/// Whether the system means that it has no such locks here, and not that this one cannot be had.
fn is_unsupported(error: &io::Error) -> bool {
    // ENOSYS, ENOTSUP and EOPNOTSUPP are the first kind, EINVAL is the second.
    matches!(
        error.kind(),
        io::ErrorKind::Unsupported | io::ErrorKind::InvalidInput
    ) || error.raw_os_error() == Some(ENOLCK)
}

/// Who has the lock on a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Holder {
    /// Somebody who writes: the process, as far as it can be seen from here.
    Writer(Option<u32>),
    /// Those who share it.
    Forks,
    /// Nobody any more.
    Nobody,
    /// The system does not say.
    Unknown,
}

/// Who has the lock on a file, as far as the system says: it does so on Linux, and not which process it is if that lives in
/// another container.
fn holder(inode: Inode) -> Holder {
    let Ok(locks) = fs::read_to_string("/proc/locks") else {
        return Holder::Unknown;
    };
    let mut holders = locks.lines().filter_map(|line| holder_in(line, inode));
    holders.next().unwrap_or(Holder::Nobody)
}

/// The process that writes, if that is what has the lock.
fn writer(inode: Inode) -> Option<u32> {
    match holder(inode) {
        Holder::Writer(pid) => pid,
        _ => None,
    }
}

/// The holder in a line such as `1: FLOCK  ADVISORY  WRITE 14653 fe:00:10010682 0 EOF`, if it is about this file. Lines
/// with an arrow before the kind are of those who wait.
fn holder_in(line: &str, inode: Inode) -> Option<Holder> {
    let mut words = line.split_whitespace().skip(1);
    let kind = words.next()?;
    let mode = words.nth(1)?;
    let pid = words.next()?;
    let (device, number) = words.next()?.rsplit_once(':')?;
    let (major, minor) = device.split_once(':')?;
    let (major, minor) = (
        u64::from_str_radix(major, 16).ok()?,
        u64::from_str_radix(minor, 16).ok()?,
    );
    let same = kind == "FLOCK"
        && number.parse() == Ok(inode.number)
        && (major, minor) == device_numbers(inode.device);
    let pid = pid.parse().ok().filter(|&pid| pid != 0);
    same.then_some(match mode {
        "READ" => Holder::Forks,
        _ => Holder::Writer(pid),
    })
}

/// The two numbers of a device, as Linux packs them into one.
const fn device_numbers(device: u64) -> (u64, u64) {
    let major = ((device >> 8) & 0xFFF) | ((device >> 32) & !0xFFF);
    let minor = (device & 0xFF) | ((device >> 12) & 0xFFFF_FF00);
    (major, minor)
}

#[cfg(unix)]
fn is_same_file(file: &File, path: &Path) -> bool {
    use std::os::unix::fs::MetadataExt as _;
    let id = |meta: fs::Metadata| (meta.dev(), meta.ino());
    match (file.metadata(), fs::metadata(path)) {
        (Ok(held), Ok(named)) => id(held) == id(named),
        _ => false,
    }
}

#[cfg(not(unix))]
fn is_same_file(_: &File, path: &Path) -> bool {
    fs::metadata(path).is_ok()
}

/// The locks that this process holds. There is one set for the whole process, as the system has one: two stores of one
/// home must not have one writer each, also where the file system has no locks to tell them apart.
static HELD: Mutex<BTreeSet<Inode>> = Mutex::new(BTreeSet::new());

/// One of them, until it is dropped.
#[derive(Debug)]
struct Held(Inode);

impl Held {
    /// `None` if this process holds it already.
    fn take(inode: Inode) -> Option<Self> {
        // Not made at all if it is refused: dropping it would give back somebody else's.
        held().insert(inode).then(|| Self(inode))
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        held().remove(&self.0);
    }
}

fn held() -> MutexGuard<'static, BTreeSet<Inode>> {
    // A set is whole between any two operations.
    HELD.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The ids of sessions that were created in this process and are not on disk yet.
#[derive(Clone, Debug, Default)]
pub(crate) struct Claims(Arc<Mutex<BTreeSet<SessionId>>>);

/// One of them, until it is dropped.
#[derive(Debug)]
pub(crate) struct Claim {
    claims: Claims,
    id: SessionId,
}

impl Claims {
    /// `None` if the id is taken.
    pub(crate) fn take(&self, id: &SessionId) -> Option<Claim> {
        let fresh = self.ids().insert(id.clone());
        fresh.then(|| Claim {
            claims: self.clone(),
            id: id.clone(),
        })
    }

    fn ids(&self) -> MutexGuard<'_, BTreeSet<SessionId>> {
        // A set of ids is whole between any two operations.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        self.claims.ids().remove(&self.id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::RealDisk;

    const ROUNDS: usize = 5000;

    #[test]
    fn the_holder_is_read_from_the_line_of_the_very_file() {
        let inode = Inode {
            device: 0xFE00,
            number: 42,
        };
        let cases = [
            (
                "1: FLOCK  ADVISORY  WRITE 14653 fe:00:42 0 EOF",
                Some(Holder::Writer(Some(14653))),
            ),
            (
                "1: FLOCK  ADVISORY  WRITE 0 fe:00:42 0 EOF",
                Some(Holder::Writer(None)),
            ),
            (
                "1: FLOCK  ADVISORY  WRITE -1 fe:00:42 0 EOF",
                Some(Holder::Writer(None)),
            ),
            (
                "1: FLOCK  ADVISORY  READ 14653 fe:00:42 0 EOF",
                Some(Holder::Forks),
            ),
            ("1: -> FLOCK  ADVISORY  WRITE 14653 fe:00:42 0 EOF", None),
            ("1: POSIX  ADVISORY  WRITE 14653 fe:00:42 0 EOF", None),
            ("1: FLOCK  ADVISORY  WRITE 14653 fe:00:43 0 EOF", None),
            ("1: FLOCK  ADVISORY  WRITE 14653 fe:01:42 0 EOF", None),
            ("1: FLOCK  ADVISORY  WRITE", None),
            ("", None),
        ];
        for (line, holder) in cases {
            assert_eq!(holder_in(line, inode), holder, "{line}");
        }
        assert_eq!(device_numbers(0x0000_7000_0012_3456), (0x7234, 0x156));
    }

    #[test]
    fn a_file_that_gets_the_number_of_one_that_was_locked_and_deleted_is_free() {
        let dir = tempfile::tempdir().unwrap();
        // Numbers are given again at once: threads that do this all the time get those of each other.
        let all_the_time = |name: usize| {
            let path = dir.path().join(name.to_string());
            let id = SessionId::new(name.to_string());
            for _ in 0..ROUNDS {
                let lock = Lock::take(&RealDisk, Locking::Flock, &path, &id).unwrap();
                fs::remove_file(&path).unwrap();
                drop(lock);
            }
        };
        thread::scope(|threads| {
            for name in 0..4 {
                threads.spawn(move || all_the_time(name));
            }
        });
    }
}
