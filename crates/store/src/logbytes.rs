//! The bytes of a log as one self-contained file, whether that is what lies on the disk or what a branch stands for.

use std::io;
use std::path::Path;

use offshoot_format::{
    Base, BranchHeader, Container, FormatError, FrameScan, Place, RunningDigest, StoredSession,
    base_name, read_header, scan_frame,
};
use offshoot_session::LogOffset;

use crate::StoreError;
use crate::generations::container_of;
use crate::inode::Inode;
use crate::prefix::Prefix;

/// The bytes of a log at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogBytes {
    pub(crate) bytes: Vec<u8>,
    /// What of it lies where; `None` for a file that is self-contained itself.
    branch: Option<Branch>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Branch {
    bases: Vec<(Option<Inode>, u64, Base)>,
    bases_at: Vec<u64>,
    own_at: u64,
    /// How long the first frame of the branch file is.
    header: u64,
}

/// The part of a log that lies in the session's own file and grows there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct OwnPart {
    /// Where it begins in the self-contained file.
    pub(crate) in_log: u64,
    /// Where it begins in the session's own file.
    pub(crate) in_file: u64,
    /// How many lines lie ahead of it that are not in the session's own file.
    lines: u64,
}

impl OwnPart {
    /// Where in the session's own file a byte of the self-contained one lies; 0 if it is a base's.
    pub(crate) const fn own_offset(&self, byte: u64) -> u64 {
        (byte + self.in_file).saturating_sub(self.in_log)
    }

    fn place(&self, place: Place) -> Place {
        place.moved(self.in_log, self.in_file, self.lines)
    }

    /// What an error says about the self-contained file, said of the session's own file.
    pub(crate) fn error_in_own_file(&self, error: FormatError) -> FormatError {
        error.moved(self.in_log, self.in_file, self.lines)
    }
}

impl LogBytes {
    pub(crate) const fn whole(bytes: Vec<u8>) -> Self {
        Self {
            bytes,
            branch: None,
        }
    }

    /// What a session file anywhere holds, from the bytes of that file: a branch is put together with its bases, which must
    /// lie beside it.
    ///
    /// # Errors
    /// A base that cannot be read or is not what it was. What is wrong with the file itself shows when it is decoded.
    pub fn of_file(path: &Path, bytes: Vec<u8>) -> Result<Self, StoreError> {
        let is_branch = container_of(path, &bytes) == Container::Zstd
            && read_header(Container::Zstd, &bytes)
                .is_ok_and(|line| BranchHeader::is_branch(&line));
        match is_branch {
            true => Self::of_branch(path, &bytes),
            false => Ok(Self::whole(bytes)),
        }
    }

    /// The self-contained file: what lies on the disk, or the V4 file that a branch stands for.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// A place in the self-contained file, as one in the session's own file.
    #[must_use]
    pub fn place_in_own_file(&self, place: Place) -> Place {
        self.own_part().place(place)
    }

    /// What an error says about the self-contained file, said of the session's own file.
    #[must_use]
    pub fn error_in_own_file(&self, error: FormatError) -> FormatError {
        self.own_part().error_in_own_file(error)
    }

    /// What was read, with the place of a torn tail as one in the session's own file.
    #[must_use]
    pub fn in_own_file(&self, mut stored: StoredSession) -> StoredSession {
        if let Some(tail) = &mut stored.tail {
            tail.place = self.place_in_own_file(tail.place);
            tail.keep = self.own_offset(tail.keep);
        }
        stored
    }

    /// Puts a branch together with its bases, which lie in the same directory.
    pub(crate) fn of_branch(path: &Path, own: &[u8]) -> Result<Self, StoreError> {
        let failed = |source| StoreError::Format {
            path: path.to_owned(),
            source,
        };
        let header = read_header(Container::Zstd, own).and_then(|line| BranchHeader::read(&line));
        let header = header.map_err(failed)?;
        let dir = crate::disk::parent(path);
        let mut files = Vec::new();
        let mut bases = Vec::new();
        for (index, base) in header.bases.iter().enumerate() {
            let read = crate::read::beginning(&dir.join(base_name(index)), base.bytes);
            let (bytes, meta) = read.map_err(|error| match error {
                StoreError::Io { source, .. } if source.kind() == io::ErrorKind::NotFound => {
                    let reason = "it is not there".to_owned();
                    failed(FormatError::BaseDamaged { index, reason })
                }
                error => error,
            })?;
            bases.push((Inode::of(&meta), first_frame(&bytes), *base));
            files.push(bytes);
        }
        let assembled = header.assemble(&files, own).map_err(failed)?;
        Ok(Self {
            bytes: assembled.bytes,
            branch: Some(Branch {
                bases,
                bases_at: assembled.bases_at,
                own_at: assembled.own_at,
                header: first_frame(own),
            }),
        })
    }

    /// Where the session's own file goes on with the log. Of a self-contained file that is all of it.
    pub(crate) fn own_part(&self) -> OwnPart {
        let part = |branch: &Branch| OwnPart {
            in_log: branch.own_at,
            in_file: branch.header,
            lines: self.shared().get(),
        };
        self.branch.as_ref().map_or_else(OwnPart::default, part)
    }

    /// Where in the session's own file a byte of the self-contained one lies.
    pub(crate) fn own_offset(&self, byte: u64) -> u64 {
        self.own_part().own_offset(byte)
    }

    /// How long the session's own file is.
    pub(crate) fn own_size(&self) -> u64 {
        self.own_offset(self.bytes.len() as u64)
    }

    /// How much of the log lies in other sessions' files.
    pub(crate) fn shared(&self) -> LogOffset {
        self.branch
            .as_ref()
            .and_then(|branch| branch.bases.last())
            .map_or(LogOffset::START, |(_, _, base)| base.events)
    }

    /// The sound frames of the log that was read from these bytes, in the files that they lie in: `path` is its own.
    pub(crate) fn frames(&self, stored: &StoredSession, path: &Path, id: Option<Inode>) -> Prefix {
        let mut prefix = Prefix::default();
        let dir = crate::disk::parent(path);
        let mut files: Vec<(u64, Box<Path>, Option<Inode>, u64)> = Vec::new();
        match &self.branch {
            None => files.push((0, path.into(), id, first_frame(&self.bytes))),
            Some(branch) => {
                let bases = branch.bases.iter().zip(&branch.bases_at).enumerate();
                files.extend(bases.map(|(index, ((id, header, _), at))| {
                    (*at, dir.join(base_name(index)).into(), *id, *header)
                }));
                files.push((branch.own_at, path.into(), id, branch.header));
            }
        }
        let mut files = files.into_iter().peekable();
        let tail = stored.tail.as_ref();
        let end = tail.map_or(self.bytes.len() as u64, |tail| tail.keep);
        let events = LogOffset::new(stored.log.end().get() - tail.map_or(0, |tail| tail.recovered));
        let mut digest = RunningDigest::START;
        for (index, frame) in stored.frames.iter().enumerate() {
            while let Some((_, path, id, header)) = files.next_if(|(at, ..)| *at <= frame.byte) {
                prefix.begin_file(&path, id, header);
            }
            let next = stored.frames.get(index + 1);
            let (end, events) = next.map_or((end, events), |next| (next.byte, next.first));
            digest.push(&self.bytes[offset(frame.byte)..offset(end)]);
            prefix.push(end - frame.byte, events, digest);
        }
        for (_, path, id, header) in files {
            prefix.begin_file(&path, id, header);
        }
        prefix
    }
}

fn first_frame(bytes: &[u8]) -> u64 {
    match scan_frame(bytes) {
        Ok(FrameScan::Complete(length)) => length as u64,
        _ => 0,
    }
}

fn offset(byte: u64) -> usize {
    usize::try_from(byte).expect("BUG: the offset of bytes in memory")
}
