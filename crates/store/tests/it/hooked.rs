//! A disk that lets a test act between the moment in which bytes are in a file and the one in which they are durable.

use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::path::Path;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread;

use offshoot_store::{Disk, LogFile};

/// Who is asked at the next sync: told that it has come, it answers whether it works.
type Asked = (Sender<()>, Receiver<bool>);

/// The disk. Nothing is made durable, because no power is cut in these tests.
#[derive(Clone, Debug, Default)]
pub(crate) struct HookedDisk(Arc<Mutex<Option<Asked>>>);

impl HookedDisk {
    pub(crate) fn new() -> Arc<Self> {
        Arc::default()
    }

    /// Runs `write`, on a thread of its own, and `between` at its first sync, which works if that says so. Returns what
    /// `write` has come to.
    pub(crate) fn at_next_sync<T: Send>(
        &self,
        between: impl FnOnce() -> bool,
        write: impl FnOnce() -> T + Send,
    ) -> T {
        let (reached, at_sync) = channel();
        let (answer, works) = channel();
        *self.0.lock().unwrap() = Some((reached, works));
        thread::scope(|scope| {
            let writing = scope.spawn(write);
            at_sync.recv().unwrap();
            answer.send(between()).unwrap();
            writing.join().unwrap()
        })
    }

    fn sync(&self) -> io::Result<()> {
        let asked = self.0.lock().unwrap().take();
        let Some((reached, works)) = asked else {
            return Ok(());
        };
        reached.send(()).unwrap();
        match works.recv().unwrap() {
            true => Ok(()),
            false => Err(io::Error::other("the disk is broken")),
        }
    }
}

impl Disk for HookedDisk {
    fn open_log(&self, path: &Path) -> io::Result<Box<dyn LogFile>> {
        let file = OpenOptions::new().append(true).open(path)?;
        Ok(Box::new(HookedLog {
            disk: self.clone(),
            file,
        }))
    }
}

#[derive(Debug)]
struct HookedLog {
    disk: HookedDisk,
    file: File,
}

impl LogFile for HookedLog {
    fn size(&self) -> io::Result<u64> {
        Ok(self.file.metadata()?.len())
    }

    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.file.write_all(bytes)
    }

    fn truncate(&mut self, len: u64) -> io::Result<()> {
        self.file.set_len(len)
    }

    fn sync(&mut self) -> io::Result<()> {
        self.disk.sync()
    }
}
