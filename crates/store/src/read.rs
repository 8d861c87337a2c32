//! Reading one log, without a lock and without writing, also while somebody else writes (`reference/persistence.md` §1.11).

use std::fs::{self, File, Metadata};
use std::io::{self, Read as _, Seek as _};
use std::path::Path;
use std::time::UNIX_EPOCH;

use offshoot_format::{
    BRANCH_VERSION, BranchHeader, CURRENT_VERSION, ChildEvidence, Container, FormatError,
    FrameScan, GrowingLog, Rest, StoredHeader, StoredSession, decode_with, read_header, scan_frame,
};
use offshoot_session::SessionHeader;

use crate::layout::Form;
use crate::logbytes::LogBytes;
use crate::tree::Found;
use crate::{StoreError, note};

/// How often a log that changes while it is read is read again.
const ATTEMPTS: usize = 3;
const CHUNK: u64 = 8 << 10;

/// A log's bytes at one moment: what is in the file, or what a repair on its way will make of it.
pub(crate) fn bytes_of(found: &Found) -> Result<(LogBytes, Metadata), StoreError> {
    let (bytes, meta) = own_bytes(found)?;
    let log = match found.generation.form {
        Form::SelfContained => LogBytes::whole(bytes),
        Form::Branch(_) => {
            check_not_newer(found).map_err(|source| format(found, source))?;
            LogBytes::of_branch(&found.place.path, &bytes)?
        }
    };
    Ok((log, meta))
}

/// Whether reading fails like this when a session is moved away meanwhile.
pub(crate) fn may_have_moved(error: &StoreError) -> bool {
    match error {
        StoreError::Format { source, .. } => matches!(source, FormatError::BaseDamaged { .. }),
        StoreError::Io { source, .. } => source.kind() == io::ErrorKind::NotFound,
        _ => false,
    }
}

/// The bytes of the session's own file.
fn own_bytes(found: &Found) -> Result<(Vec<u8>, Metadata), StoreError> {
    let path = &found.place.path;
    let failed = |error| StoreError::io("read", path)(error);
    let mut file = open(path)?;
    let mut read = || -> io::Result<_> {
        let mut attempt = 1;
        loop {
            let before = file.metadata()?;
            let mut bytes = Vec::new();
            file.rewind()?;
            file.by_ref().take(before.len()).read_to_end(&mut bytes)?;
            // Between the two looks at the file: a log that a repair has cut has its note for as long as it is like that.
            let pending = note::pending(&found.place.dir, &bytes);
            let after = file.metadata()?;
            let stable = bytes.len() as u64 == before.len()
                && after.len() == before.len()
                && after.modified().ok() == before.modified().ok();
            // One that changes all the time is read up to where it ended when reading began.
            if stable || attempt == ATTEMPTS {
                return Ok((pending.unwrap_or(bytes), after));
            }
            attempt += 1;
        }
    };
    read().map_err(failed)
}

/// The bytes of a file that nobody is writing to, or that is read once, however it is.
pub(crate) fn whole(path: &Path) -> Result<Vec<u8>, StoreError> {
    let mut bytes = Vec::new();
    open(path)?
        .read_to_end(&mut bytes)
        .map_err(StoreError::io("read", path))?;
    Ok(bytes)
}

/// The first `len` bytes of a file, or all that there are.
pub(crate) fn beginning(path: &Path, len: u64) -> Result<(Vec<u8>, Metadata), StoreError> {
    range(path, 0, len)
}

/// The bytes of a file from `start` to `end`, as far as there are any.
pub(crate) fn range(path: &Path, start: u64, end: u64) -> Result<(Vec<u8>, Metadata), StoreError> {
    let failed = |error| StoreError::io("read", path)(error);
    let mut file = open(path)?;
    let meta = file.metadata().map_err(failed)?;
    let len = end.min(meta.len()).saturating_sub(start);
    let mut bytes = Vec::with_capacity(usize::try_from(len).unwrap_or(0));
    file.seek(io::SeekFrom::Start(start)).map_err(failed)?;
    file.take(len).read_to_end(&mut bytes).map_err(failed)?;
    Ok((bytes, meta))
}

/// Validates the bytes of a log.
pub(crate) fn decode(
    found: &Found,
    log: &LogBytes,
    children: &[ChildEvidence],
) -> Result<StoredSession, StoreError> {
    check_not_newer(found)
        .and_then(|()| decode_with(found.generation.container, &log.bytes, children))
        .and_then(|stored| check_version(found, stored.version).map(|()| stored))
        .map_err(|source| format(found, log.error_in_own_file(source)))
}

/// Validates the bytes of a log that will grow; `None` for one of an older version. Without what [`decode`] says about the
/// rest, which may be being written.
pub(crate) fn grow(
    found: &Found,
    log: &LogBytes,
) -> Result<Option<(GrowingLog, Rest)>, StoreError> {
    let begun = check_not_newer(found)
        .and_then(|()| GrowingLog::begin(found.generation.container, &log.bytes))
        .and_then(|begun| match &begun {
            Some(_) => check_version(found, CURRENT_VERSION).map(|()| begun),
            None => Ok(None),
        });
    begun.map_err(|source| format(found, log.error_in_own_file(source)))
}

/// The header alone: the first line, or the first frame.
pub(crate) fn header_of(found: &Found) -> Result<SessionHeader, StoreError> {
    let path = &found.place.path;
    check_not_newer(found).map_err(|source| format(found, source))?;
    let bytes = head_of(path, found.generation.container)?;
    let line = read_header(found.generation.container, &bytes);
    let header = match found.generation.form {
        Form::Branch(_) => line
            .and_then(|line| BranchHeader::read(&line))
            .map(|branch| branch.session),
        Form::SelfContained => line
            .and_then(|line| StoredHeader::read(&line))
            .and_then(|header| {
                check_version(found, header.version()).map(|()| header.into_header())
            }),
    };
    header.map_err(|source| format(found, source))
}

/// When a file last changed, in ms since the epoch.
pub(crate) fn modified(meta: &Metadata) -> i64 {
    let since = meta
        .modified()
        .ok()
        .and_then(|time| time.duration_since(UNIX_EPOCH).ok());
    since
        .and_then(|since| i64::try_from(since.as_millis()).ok())
        .unwrap_or(0)
}

/// A log that is a link may be written under another lock by whoever reaches it by its own name.
pub(crate) fn check_writable(path: &Path) -> Result<(), StoreError> {
    let meta = fs::symlink_metadata(path).map_err(StoreError::io("read", path))?;
    if meta.is_symlink() {
        return Err(StoreError::NotAFile {
            path: path.to_owned(),
            found: "a symbolic link",
        });
    }
    Ok(())
}

/// Looks before it opens: opening a pipe would wait for somebody to write to it.
fn open(path: &Path) -> Result<File, StoreError> {
    let failed = |error| StoreError::io("read", path)(error);
    let meta = fs::metadata(path).map_err(failed)?;
    if meta.is_file() {
        return File::open(path).map_err(failed);
    }
    Err(StoreError::NotAFile {
        path: path.to_owned(),
        found: match meta.is_dir() {
            true => "a directory",
            false => "neither a file nor a directory",
        },
    })
}

/// The beginning of a file, with at least the whole header if there is one.
pub(crate) fn head_of(path: &Path, container: Container) -> Result<Vec<u8>, StoreError> {
    head(open(path)?, container).map_err(StoreError::io("read", path))
}

fn head(mut file: File, container: Container) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    loop {
        let before = bytes.len();
        file.by_ref().take(CHUNK).read_to_end(&mut bytes)?;
        let whole = match container {
            Container::Raw => bytes[before..].contains(&b'\n'),
            Container::Zstd => !matches!(scan_frame(&bytes), Ok(FrameScan::Incomplete)),
        };
        if whole || bytes.len() == before {
            return Ok(bytes);
        }
    }
}

pub(crate) fn format(found: &Found, source: FormatError) -> StoreError {
    StoreError::Format {
        path: found.place.path.clone(),
        source,
    }
}

/// Nothing is known about what a newer version keeps in its files, so they are not even looked into.
fn check_not_newer(found: &Found) -> Result<(), FormatError> {
    if let Form::Branch(version) = found.generation.form
        && version > BRANCH_VERSION
    {
        return Err(FormatError::UnsupportedBranch { version });
    }
    let version = found.generation.version;
    if version > CURRENT_VERSION {
        return Err(FormatError::UnsupportedVersion {
            version: version.to_string(),
            current: CURRENT_VERSION,
        });
    }
    Ok(())
}

/// The file name must say the same version as the header.
fn check_version(found: &Found, version: u64) -> Result<(), FormatError> {
    let named = found.generation.version;
    if named != version {
        return Err(FormatError::Inconsistent {
            reason: format!("the file name says version {named}, the header says {version}"),
        });
    }
    Ok(())
}
