//! A disk that fails, or ends the process, at a chosen step. Every operation is a step, and so is every byte of an append.

use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::path::Path;
use std::sync::{Arc, Mutex};

use offshoot_store::{Disk, LogFile, RealDisk};

/// What happens at the chosen step, instead of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// It fails; what comes after it works.
    Once,
    /// It fails, and so does everything after it: the disk is gone, or, seen from the disk, the process is.
    Forever,
    /// The process is killed.
    Kill,
}

#[derive(Debug)]
struct Plan {
    done: u64,
    at: Option<u64>,
    fault: Fault,
    dead: bool,
    /// Links to this name are refused, and how.
    no_links: Option<(&'static str, io::ErrorKind)>,
    /// Whether an append is one step, which fails in the middle of its bytes.
    is_coarse: bool,
}

/// The disk. What is written can be read at once; nothing is made durable, because no power is cut in these tests.
#[derive(Clone, Debug)]
pub(crate) struct FaultyDisk(Arc<Mutex<Plan>>);

impl FaultyDisk {
    pub(crate) fn new(fault: Fault, at: u64) -> Arc<Self> {
        Self::with(fault, Some(at))
    }

    /// A disk that never fails.
    pub(crate) fn sound() -> Arc<Self> {
        Self::with(Fault::Once, None)
    }

    fn with(fault: Fault, at: Option<u64>) -> Arc<Self> {
        Arc::new(Self(Arc::new(Mutex::new(Plan {
            done: 0,
            at,
            fault,
            dead: false,
            no_links: None,
            is_coarse: false,
        }))))
    }

    /// As [`FaultyDisk::new`], for where it does not matter at which of its bytes a write fails: an append is one step.
    pub(crate) fn coarse(fault: Fault, at: u64) -> Arc<Self> {
        let disk = Self::new(fault, at);
        disk.0.lock().unwrap().is_coarse = true;
        disk
    }

    /// A disk that never fails, but on which this file name cannot be given to anything that has a name.
    pub(crate) fn refusing_links_to(name: &'static str, kind: io::ErrorKind) -> Arc<Self> {
        let disk = Self::sound();
        disk.0.lock().unwrap().no_links = Some((name, kind));
        disk
    }

    /// How many steps were taken.
    pub(crate) fn steps(&self) -> u64 {
        self.0.lock().unwrap().done
    }

    fn step(&self) -> io::Result<()> {
        let mut plan = self.0.lock().unwrap();
        let failed = || Err(io::Error::other("the disk is broken"));
        if plan.dead {
            return failed();
        }
        let step = plan.done;
        plan.done += 1;
        if plan.at != Some(step) {
            return Ok(());
        }
        match plan.fault {
            Fault::Once => failed(),
            Fault::Forever => {
                plan.dead = true;
                failed()
            }
            Fault::Kill => kill_this_process(),
        }
    }

    /// How many of `len` bytes get written, and what happens then. The fault is not carried out yet.
    fn bytes(&self, len: usize) -> usize {
        let plan = self.0.lock().unwrap();
        let left = match plan.at {
            _ if plan.dead => 0,
            Some(at) if at >= plan.done => at - plan.done,
            _ => u64::MAX,
        };
        usize::try_from(left).unwrap_or(usize::MAX).min(len)
    }

    fn is_coarse(&self) -> bool {
        self.0.lock().unwrap().is_coarse
    }

    fn advance(&self, steps: usize) {
        self.0.lock().unwrap().done += steps as u64;
    }
}

/// SIGKILL: no destructor runs, no buffer is flushed.
fn kill_this_process() -> ! {
    let id = std::process::id().to_string();
    let killed = std::process::Command::new("kill")
        .args(["-KILL", &id])
        .status();
    unreachable!("this process was killed: {killed:?}");
}

impl Disk for FaultyDisk {
    fn open_log(&self, path: &Path) -> io::Result<Box<dyn LogFile>> {
        self.step()?;
        let file = OpenOptions::new().append(true).open(path)?;
        Ok(Box::new(FaultyLog {
            disk: self.clone(),
            file,
        }))
    }

    fn create_file(&self, path: &Path) -> io::Result<Box<dyn LogFile>> {
        self.step()?;
        drop(RealDisk.create_file(path)?);
        let file = OpenOptions::new().append(true).open(path)?;
        Ok(Box::new(FaultyLog {
            disk: self.clone(),
            file,
        }))
    }

    fn create_dir(&self, dir: &Path) -> io::Result<()> {
        self.step()?;
        RealDisk.create_dir(dir)
    }

    fn link(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.step()?;
        if let Some((name, kind)) = self.0.lock().unwrap().no_links
            && to.ends_with(name)
        {
            return Err(kind.into());
        }
        RealDisk.link(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.step()?;
        RealDisk.remove(path)
    }

    fn remove_dir(&self, dir: &Path) -> io::Result<()> {
        self.step()?;
        RealDisk.remove_dir(dir)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.step()?;
        RealDisk.rename(from, to)
    }

    fn renew(&self, path: &Path, at: i64) -> io::Result<()> {
        self.step()?;
        RealDisk.renew(path, at)
    }

    fn sync_file(&self, _: &Path) -> io::Result<()> {
        self.step()
    }

    fn sync_dir(&self, _: &Path) -> io::Result<()> {
        self.step()
    }
}

#[derive(Debug)]
struct FaultyLog {
    disk: FaultyDisk,
    file: File,
}

impl LogFile for FaultyLog {
    fn size(&self) -> io::Result<u64> {
        self.disk.step()?;
        Ok(self.file.metadata()?.len())
    }

    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        if self.disk.is_coarse() {
            let (half, rest) = bytes.split_at(bytes.len() / 2);
            self.file.write_all(half)?;
            self.disk.step()?;
            return self.file.write_all(rest);
        }
        let written = self.disk.bytes(bytes.len());
        self.file.write_all(&bytes[..written])?;
        self.disk.advance(written);
        if written < bytes.len() {
            self.disk.step()?;
            unreachable!("BUG: the fault is due");
        }
        Ok(())
    }

    fn truncate(&mut self, len: u64) -> io::Result<()> {
        self.disk.step()?;
        self.file.set_len(len)
    }

    fn sync(&mut self) -> io::Result<()> {
        self.disk.step()
    }
}
