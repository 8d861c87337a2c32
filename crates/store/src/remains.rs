//! What there is of a session file and of the bases that it begins with, whatever is wrong with them.
//!
//! Nothing is verified here: whoever shows it says what [`Remains::refused`] says, and whoever saves something of it
//! proves that.

use std::borrow::Cow;
use std::io;
use std::path::{Path, PathBuf};

use offshoot_format::{
    BranchHeader, Container, FormatError, Gap, Part, Place, Salvage, StoredHeader, StoredLine,
    base_name, decode_as, read_header, salvage, salvage_ahead_of, stored_lines,
};

use crate::generations::container_of;
use crate::journal::{self, Beside, Outcome, Settle};
use crate::{LogBytes, StoreError};

/// The remains of a session.
#[derive(Debug)]
pub struct Remains<'a> {
    container: Container,
    /// The file, or of a branch what it and its bases have behind the session's header.
    bytes: Cow<'a, [u8]>,
    pieces: Vec<Piece>,
    refused: Option<StoreError>,
}

/// What one file holds of the session.
#[derive(Debug)]
struct Piece {
    path: PathBuf,
    part: Part,
    /// Why it does not go on to where the next one begins.
    lack: Option<FormatError>,
}

impl<'a> Remains<'a> {
    /// Of a session file anywhere, from the bytes of that file: the bases of a branch lie beside it, as far as they are
    /// there.
    #[must_use]
    pub fn of_file(path: &Path, bytes: &'a [u8]) -> Self {
        let container = container_of(path, bytes);
        let line = read_header(container, bytes).ok();
        let line =
            line.filter(|line| container == Container::Zstd && BranchHeader::is_branch(line));
        let Some(line) = line else {
            return Self::whole(path, container, bytes, None);
        };
        let gathered = BranchHeader::read(&line).and_then(|header| gather(path, &header, bytes));
        match gathered {
            Ok((gathered, pieces)) => Self {
                container,
                bytes: gathered.into(),
                pieces,
                refused: LogBytes::of_branch(path, bytes).err(),
            },
            Err(source) => {
                let path = path.to_owned();
                let refused = StoreError::Format {
                    path: path.clone(),
                    source,
                };
                Self::whole(&path, container, bytes, Some(refused))
            }
        }
    }

    fn whole(
        path: &Path,
        container: Container,
        bytes: &'a [u8],
        refused: Option<StoreError>,
    ) -> Self {
        let piece = Piece {
            path: path.to_owned(),
            part: Part { at: 0, in_file: 0 },
            lack: None,
        };
        Self {
            container,
            bytes: bytes.into(),
            pieces: vec![piece],
            refused,
        }
    }

    /// Why the file and its bases do not make a session, if that shows before any event is read. Of a self-contained file
    /// it never does.
    #[must_use]
    pub const fn refused(&self) -> Option<&StoreError> {
        self.refused.as_ref()
    }

    /// The session's header, also of a file that is damaged behind it.
    ///
    /// # Errors
    /// There is none, or not one that can be used.
    pub fn header(&self) -> Result<StoredHeader, FormatError> {
        read_header(self.container, &self.bytes).and_then(|line| StoredHeader::read(&line))
    }

    /// The lines as they stand in the files, as far as they can be had. What cannot is an error in its place.
    pub fn lines(&self) -> impl Iterator<Item = Result<StoredLine<'_>, FormatError>> {
        let first = self.pieces.first().map_or(0, |piece| piece.part.at);
        let header = stored_lines(self.container, &self.bytes[..offset(first)]);
        let behind = self.pieces.iter().enumerate().flat_map(|(index, piece)| {
            let lines = stored_lines(self.container, self.bytes_of(index));
            lines.chain(piece.lack.clone().map(Err))
        });
        header.chain(behind)
    }

    /// Saves the longest beginning that passes everything. Places are those of what was put together.
    pub(crate) fn salvage(&self) -> Result<Salvage, FormatError> {
        let gap = self.pieces.iter().enumerate().find_map(|(index, piece)| {
            let reason = piece.lack.as_ref()?.to_string();
            let behind = (index + 1..self.pieces.len()).map(|index| self.bytes_of(index));
            let behind = behind.collect();
            Some((self.end_of(index), Gap { reason, behind }))
        });
        match gap {
            Some((end, gap)) => salvage_ahead_of(&gap, self.container, &self.bytes[..end]),
            None => salvage(self.container, &self.bytes),
        }
    }

    /// The file that a place lies in, and where in it.
    pub(crate) fn locate(&self, place: Place) -> (&Path, Place) {
        // A file that has nothing can only be where something is missing: then it is the last that begins there.
        let end = self.pieces.iter().position(|piece| piece.lack.is_some());
        let reached = &self.pieces[..end.map_or(self.pieces.len(), |end| end + 1)];
        let piece = reached.iter().rfind(|piece| piece.part.at <= place.byte);
        let Some(Piece { path, part, .. }) = piece else {
            return (&self.pieces[0].path, place);
        };
        let ahead = stored_lines(self.container, &self.bytes[..offset(part.at)]);
        let ahead = ahead.filter(Result::is_ok).count() as u64;
        // Each file has one line of its own ahead of its rows, unless it has nothing.
        let own = u64::from(part.in_file > 0);
        let place = Place {
            line: place.line - ahead + own,
            byte: place.byte - part.at + part.in_file,
            ..place
        };
        (path, place)
    }

    fn end_of(&self, index: usize) -> usize {
        let next = self.pieces.get(index + 1);
        next.map_or(self.bytes.len(), |next| offset(next.part.at))
    }

    fn bytes_of(&self, index: usize) -> &[u8] {
        &self.bytes[offset(self.pieces[index].part.at)..self.end_of(index)]
    }
}

/// The stream of an answer that was coming in when a session file's process ended, or is coming in now: where it lies, if
/// there is one beside the file that the file does not have. Beside a file that is damaged it is any of that session.
pub fn stream_beside(file: &Path, settle: &dyn Settle) -> Option<PathBuf> {
    let journal = journal::Found::in_dir(crate::disk::parent(file))?;
    let bytes = crate::read::whole(file).ok()?;
    let remains = Remains::of_file(file, &bytes);
    let is_unsettled = match decode_as(remains.container, &remains.bytes) {
        Ok(stored) => {
            let beside = Beside {
                session: &stored.header.id,
                log: &stored.log,
                container: remains.container,
                bytes: &remains.bytes,
            };
            matches!(journal.judge(Some(settle), beside), Outcome::Settled(_))
        }
        Err(_) => {
            let header = remains.header().ok()?.into_header();
            journal.is_of(&header.id)
        }
    };
    is_unsettled.then(|| journal.path().to_owned())
}

/// Puts a branch together with what there is of its bases, and says which file each part is from.
fn gather(
    path: &Path,
    header: &BranchHeader,
    own: &[u8],
) -> Result<(Vec<u8>, Vec<Piece>), FormatError> {
    let dir = crate::disk::parent(path);
    let mut files = Vec::new();
    let mut found = Vec::new();
    for (index, base) in header.bases.iter().enumerate() {
        let path = dir.join(base_name(index));
        let (bytes, reason) = match crate::read::beginning(&path, base.bytes) {
            Ok((bytes, _)) if bytes.len() as u64 == base.bytes => (bytes, None),
            Ok((bytes, _)) => {
                let reason = "it is shorter than the part that belongs to the session";
                (bytes, Some(reason.to_owned()))
            }
            Err(StoreError::Io { source, .. }) if source.kind() == io::ErrorKind::NotFound => {
                (Vec::new(), Some("it is not there".to_owned()))
            }
            Err(error) => (Vec::new(), Some(error.to_string())),
        };
        let lack = reason.map(|reason| FormatError::BaseDamaged { index, reason });
        files.push(bytes);
        found.push((path, lack));
    }
    found.push((path.to_owned(), None));
    let gathered = header.gather(&files, own)?;
    let pieces = found.into_iter().zip(gathered.parts);
    let pieces = pieces.map(|((path, lack), part)| Piece { path, part, lack });
    Ok((gathered.bytes, pieces.collect()))
}

fn offset(byte: u64) -> usize {
    usize::try_from(byte).expect("BUG: the offset of bytes in memory")
}
