//! The file of a linked fork, `branch.o1.jsonl.zstd`: a format of our own beside V4, with a version of its own.
//!
//! A branch is a session whose beginning lies in other files, its **bases**. It stands for one V4 file: the child's header,
//! then the frames of each base up to its recorded end, then the frames of the branch itself. [`BranchHeader::assemble`]
//! puts these together, and everything that reads V4 files reads the result; written out, it is a portable V4 file.
//!
//! The file is zstd frames like any other: the first holds exactly this line, the others hold rows as in V4, and the first
//! of them has the seq at which the bases end.
//!
//! ```jsonl
//! {"type":"offshoot-branch","version":1,"session":{…the child's V4 header…},"bases":[{"file":"base-0.jsonl.zstd","frames":3,"bytes":2048,"events":17,"digest":"…"}]}
//! ```
//!
//! A base is a file whose own first frame is a header; that frame is part of `bytes`, and of nothing else. `frames` counts
//! those behind it. `events` is the length of the log at the end of the base, and `digest` the [`RunningDigest`] there,
//! both over all bases so far. What stands behind `bytes` in the file is none of the branch's business: its owner may be
//! appending to it.

use offshoot_session::{LogOffset, MAX_SAFE_INTEGER, SessionHeader};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::digest::RunningDigest;
use crate::frames::{FrameScan, Hidden, encode_frame, frames_behind, scan_frame};
use crate::header::{StoredHeader, encode_header, plain};
use crate::version::Version;
use crate::{Container, FormatError};

/// The version of branch files that this program reads and writes.
pub const BRANCH_VERSION: u64 = 1;

const TYPE: &str = "offshoot-branch";

/// The first line of a branch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BranchHeader {
    /// The session's own header.
    pub session: SessionHeader,
    /// Where its beginning lies: at least one, in order.
    pub bases: Vec<Base>,
}

/// The beginning of another session's file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Base {
    /// How many frames count, without the one of the file's header. At least 1.
    pub frames: u64,
    /// Where the last of them ends in the file, in bytes.
    pub bytes: u64,
    /// How long the log is there.
    pub events: LogOffset,
    /// The digest there.
    pub digest: RunningDigest,
}

/// A branch put together with its bases: the V4 file that it stands for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Assembled {
    /// The file.
    pub bytes: Vec<u8>,
    /// Where in it each base begins, without the base's own header.
    pub bases_at: Vec<u64>,
    /// Where in it the branch's own frames begin.
    pub own_at: u64,
}

/// What there is of a branch and its bases, put together as in [`Assembled`], with nothing proved about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gathered {
    /// The session's header as V4 has it, and then the parts.
    pub bytes: Vec<u8>,
    /// The bases in order, and last the branch's own frames.
    pub parts: Vec<Part>,
}

/// A part of a session that lies in a file of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    /// Where it begins in what was put together.
    pub at: u64,
    /// Where it begins in its own file: behind that file's header.
    pub in_file: u64,
}

/// The name of a branch's base: `base-0.jsonl.zstd` and so on.
#[must_use]
pub fn base_name(index: usize) -> String {
    format!("base-{index}.jsonl.zstd")
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct PhysicalBranch<'a> {
    r#type: String,
    version: u64,
    #[serde(borrow)]
    session: &'a RawValue,
    bases: Vec<PhysicalBase>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct PhysicalBase {
    file: String,
    frames: u64,
    bytes: u64,
    events: u64,
    digest: String,
}

/// What the version gate reads before any other rule applies.
#[derive(Deserialize)]
struct Gate {
    r#type: Option<String>,
    version: Option<u64>,
}

impl BranchHeader {
    /// Whether the first line is that of a branch, of whatever version.
    #[must_use]
    pub fn is_branch(line: &str) -> bool {
        serde_json::from_str::<Gate>(line).is_ok_and(|gate| gate.r#type.as_deref() == Some(TYPE))
    }

    /// Reads the first line, without its line feed.
    ///
    /// # Errors
    /// Another version, a line that is no branch header, or members that contradict each other.
    pub fn read(line: &str) -> Result<Self, FormatError> {
        check_version(line)?;
        let physical: PhysicalBranch<'_> =
            serde_json::from_str(line).map_err(|error| malformed(plain(&error)))?;
        let session = StoredHeader::read(physical.session.get())?;
        if session.version != Version::CURRENT {
            return Err(malformed(format!(
                "the session header of a branch has version {}",
                session.version()
            )));
        }
        if physical.bases.is_empty() {
            return Err(malformed("a branch names at least one base".into()));
        }
        let mut bases: Vec<Base> = Vec::new();
        for (index, base) in physical.bases.iter().enumerate() {
            let base = read_base(index, base)?;
            if bases
                .last()
                .is_some_and(|before| before.events >= base.events)
            {
                return Err(malformed(format!("base {index} adds no events")));
            }
            bases.push(base);
        }
        Ok(Self {
            session: session.into_header(),
            bases,
        })
    }

    /// The frame that a branch file begins with.
    ///
    /// # Errors
    /// A session header that would not be read back.
    pub fn encode(&self) -> Result<Vec<u8>, FormatError> {
        let session = encode_header(&self.session)?;
        let bases = self
            .bases
            .iter()
            .enumerate()
            .map(|(index, base)| PhysicalBase {
                file: base_name(index),
                frames: base.frames,
                bytes: base.bytes,
                events: base.events.get(),
                digest: base.digest.to_string(),
            });
        let physical = PhysicalBranch {
            r#type: TYPE.to_owned(),
            version: BRANCH_VERSION,
            session: serde_json::from_str(session.trim_end())
                .expect("BUG: a header was written as JSON"),
            bases: bases.collect(),
        };
        let mut line = serde_json::to_vec(&physical).expect("BUG: numbers and strings");
        line.push(b'\n');
        Ok(encode_frame(&line))
    }

    /// How long the log is at the end of the bases.
    #[must_use]
    pub fn shared(&self) -> LogOffset {
        self.bases
            .last()
            .map_or(LogOffset::START, |base| base.events)
    }

    /// Puts the branch together. `bases` are the beginnings of the base files, each exactly as long as the header says;
    /// `own` is the whole branch file.
    ///
    /// # Errors
    /// [`FormatError::BaseDamaged`] for a base that is not what the header says.
    pub fn assemble(
        &self,
        bases: &[impl AsRef<[u8]>],
        own: &[u8],
    ) -> Result<Assembled, FormatError> {
        let mut bytes = encode_frame(encode_header(&self.session)?.as_bytes());
        let size = bases.iter().map(|base| base.as_ref().len()).sum::<usize>();
        bytes.reserve_exact(size + own.len());
        let mut bases_at = Vec::with_capacity(bases.len());
        let mut digest = RunningDigest::START;
        for (index, base) in self.bases.iter().enumerate() {
            let damaged = |reason: &str| FormatError::BaseDamaged {
                index,
                reason: reason.to_owned(),
            };
            let file = bases.get(index).map(AsRef::as_ref).unwrap_or_default();
            if file.len() as u64 != base.bytes {
                return Err(damaged(
                    "it is shorter than the part that belongs to the session",
                ));
            }
            let rows = frames_of(file).map_err(damaged)?;
            let (end, frames) = digest.push_all(Container::Zstd, rows);
            if end != rows.len() || frames != base.frames || digest != base.digest {
                return Err(damaged(
                    "its bytes are not those that the session was forked from",
                ));
            }
            bases_at.push(bytes.len() as u64);
            bytes.extend_from_slice(rows);
        }
        let own_at = bytes.len() as u64;
        bytes.extend_from_slice(frames_of(own).map_err(|reason| FormatError::CorruptFrame {
            byte: 0,
            reason: reason.to_owned(),
        })?);
        Ok(Assembled {
            bytes,
            bases_at,
            own_at,
        })
    }

    /// Puts together what there is of the branch, whether that is what the header says or not. `bases` are the beginnings
    /// of the base files as far as there are any, none longer than the header says; `own` is the whole branch file.
    ///
    /// # Errors
    /// A session header that would not be read back.
    pub fn gather(&self, bases: &[impl AsRef<[u8]>], own: &[u8]) -> Result<Gathered, FormatError> {
        let mut bytes = encode_frame(encode_header(&self.session)?.as_bytes());
        let mut parts = Vec::with_capacity(bases.len() + 1);
        for file in bases.iter().map(AsRef::as_ref).chain([own]) {
            let behind = behind_header(file);
            parts.push(Part {
                at: bytes.len() as u64,
                in_file: behind as u64,
            });
            bytes.extend_from_slice(&file[behind..]);
        }
        Ok(Gathered { bytes, parts })
    }
}

/// Where the first frame of a file ends, or what comes behind it begins; the end of a file in which nothing does.
fn behind_header(file: &[u8]) -> usize {
    if let Ok(FrameScan::Complete(length)) = scan_frame(file) {
        return length;
    }
    match frames_behind(file).next() {
        Some(Hidden::Frame { at, .. }) => at,
        Some(Hidden::Suspicious) | None => file.len(),
    }
}

/// What stands behind the first frame of a file.
fn frames_of(file: &[u8]) -> Result<&[u8], &'static str> {
    match scan_frame(file)? {
        FrameScan::Complete(length) => Ok(&file[length..]),
        FrameScan::Incomplete => Err("its first frame was cut off"),
    }
}

fn check_version(line: &str) -> Result<(), FormatError> {
    let gate: Gate = serde_json::from_str(line)
        .map_err(|error| malformed(format!("expected a branch header: {}", plain(&error))))?;
    if gate.r#type.as_deref() != Some(TYPE) {
        return Err(malformed(format!("expected `\"type\":\"{TYPE}\"`")));
    }
    match gate.version {
        Some(BRANCH_VERSION) => Ok(()),
        Some(version) => Err(FormatError::UnsupportedBranch { version }),
        None => Err(malformed(
            "expected a branch header, found no numeric `version`".into(),
        )),
    }
}

fn read_base(index: usize, base: &PhysicalBase) -> Result<Base, FormatError> {
    let name = base_name(index);
    if base.file != name {
        return Err(malformed(format!(
            "base {index} is `{}`, expected `{name}`",
            base.file
        )));
    }
    let numbers = [base.frames, base.bytes, base.events];
    if numbers
        .iter()
        .any(|number| *number == 0 || *number > MAX_SAFE_INTEGER)
    {
        return Err(malformed(format!(
            "base {index} has a number that is not from 1 to 2^53 − 1"
        )));
    }
    let digest = RunningDigest::parse(&base.digest)
        .ok_or_else(|| malformed(format!("the digest of base {index} is not 64 hex digits")))?;
    Ok(Base {
        frames: base.frames,
        bytes: base.bytes,
        events: LogOffset::new(base.events),
        digest,
    })
}

const fn malformed(reason: String) -> FormatError {
    FormatError::MalformedHeader { reason }
}
