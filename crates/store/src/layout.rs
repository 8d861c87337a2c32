//! Names on disk: which directory and which file a session has (`reference/persistence.md` §1.2).

use std::path::{Path, PathBuf};

use offshoot_format::{BRANCH_VERSION, CURRENT_VERSION, Container};
use offshoot_session::{SessionHeader, SessionId};

use crate::StoreError;

/// The lock beside a log. It is never deleted as long as there is a log, and has no content.
pub(crate) const LOCK_NAME: &str = "session.lock";
/// In a home, beside the sessions: Offshoot created it, and no other tool reads it.
pub const HOME_MARKER: &str = "offshoot-home";
/// The layout of homes that this version knows.
pub const HOME_LAYOUT: u64 = 1;

/// What the mark says, as it is written: `{"layout":1}`.
#[must_use]
pub fn home_marker() -> String {
    format!("{{\"layout\":{HOME_LAYOUT}}}\n")
}

/// The layout that a mark names.
pub(crate) fn layout_in(marker: &[u8]) -> Option<u64> {
    #[derive(serde::Deserialize)]
    struct Marker {
        layout: u64,
    }
    serde_json::from_slice::<Marker>(marker)
        .ok()
        .map(|marker| marker.layout)
}
/// A repair on its way into a log; see `repair.rs`.
pub(crate) const REPAIR_NAME: &str = "session.repair";
/// Files that change what a reader sees of the log beside them: nothing that is read of it then is remembered.
pub(crate) const UNDER_WAY: [&str; 2] = [REPAIR_NAME, crate::journal::NAME];

const NO_CWD: &str = "_no-cwd";
const MAX_SLUG: usize = 251;
/// What every common file system takes as one name, in bytes.
const MAX_NAME: usize = 255;

/// A generation of a log: its format version, how it is packed, and whether all of it is there; told by the file name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Generation {
    /// That of the rows.
    pub(crate) version: u64,
    pub(crate) container: Container,
    pub(crate) form: Form,
}

/// What a log file is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// A whole session.
    SelfContained,
    /// A linked fork, in this version of that format: its beginning lies in other files.
    Branch(u64),
}

impl Generation {
    pub(crate) const fn current(container: Container) -> Self {
        Self {
            version: CURRENT_VERSION,
            container,
            form: Form::SelfContained,
        }
    }

    /// A linked fork, as this program writes it.
    pub(crate) const BRANCH: Self = Self {
        version: CURRENT_VERSION,
        container: Container::Zstd,
        form: Form::Branch(BRANCH_VERSION),
    };

    pub(crate) fn file_name(self) -> String {
        if let Form::Branch(version) = self.form {
            return format!("branch.o{version}.jsonl.zstd");
        }
        let version = match self.version {
            0 => String::new(),
            version => format!(".v{version}"),
        };
        let packing = match self.container {
            Container::Raw => "",
            Container::Zstd => ".zstd",
        };
        format!("session{version}.jsonl{packing}")
    }

    /// Reads a file name; `None` for every name that is not canonical, such as a temporary one.
    pub(crate) fn parse(name: &str) -> Option<Self> {
        if let Some(version) = name
            .strip_prefix("branch.o")
            .and_then(|rest| rest.strip_suffix(".jsonl.zstd"))
        {
            return Some(Self {
                form: Form::Branch(canonical_number(version)?),
                ..Self::BRANCH
            });
        }
        let (stem, container) = match name.strip_suffix(".zstd") {
            Some(stem) => (stem, Container::Zstd),
            None => (name, Container::Raw),
        };
        let middle = stem.strip_prefix("session")?.strip_suffix(".jsonl")?;
        let version = match middle {
            "" => 0,
            _ => canonical_number(middle.strip_prefix(".v")?)?,
        };
        Some(Self {
            version,
            container,
            form: Form::SelfContained,
        })
    }
}

/// Whether a log of this name is one that this program writes.
pub(crate) fn is_written_here(name: &str) -> bool {
    let ours = [
        Generation::current(Container::Raw),
        Generation::current(Container::Zstd),
        Generation::BRANCH,
    ];
    Generation::parse(name).is_some_and(|generation| ours.contains(&generation))
}

/// A number from 1 on without leading zeros.
fn canonical_number(digits: &str) -> Option<u64> {
    let canonical = digits.starts_with(|first: char| ('1'..='9').contains(&first))
        && digits.bytes().all(|byte| byte.is_ascii_digit());
    canonical.then(|| digits.parse().ok())?
}

/// The directory of a session below a root.
pub(crate) fn session_dir(root: &Path, header: &SessionHeader) -> Result<PathBuf, StoreError> {
    let project = match &header.cwd {
        None => NO_CWD.to_owned(),
        Some(cwd) => project_dir(cwd)?,
    };
    Ok(root.join(project).join(encode_id(&header.id)?))
}

/// The directory name of an id. Injective: no two ids share one, and none escapes its parent.
pub(crate) fn encode_id(id: &SessionId) -> Result<String, StoreError> {
    let refused = |reason| StoreError::InvalidName {
        name: format!("the session id {:?}", id.as_str()),
        reason,
    };
    let name = match id.as_str() {
        "" => return Err(refused("it is empty")),
        "." => "~002E".into(),
        ".." => "~002E~002E".into(),
        id => encode_units(id, false),
    };
    if name.len() > MAX_NAME {
        return Err(refused("its name would be longer than 255 bytes"));
    }
    Ok(name)
}

/// The id that a directory name stands for; of a name that no id has, the name itself.
pub(crate) fn decode_id(name: &str) -> SessionId {
    let mut units = Vec::with_capacity(name.len());
    let mut rest = name;
    while let Some(first) = rest.chars().next() {
        let escaped = rest.strip_prefix('~').and_then(|rest| rest.get(..4));
        let escaped = escaped.and_then(|digits| u16::from_str_radix(digits, 16).ok());
        match escaped {
            Some(unit) => {
                units.push(unit);
                rest = &rest[5..];
            }
            None => {
                units.extend_from_slice(first.encode_utf16(&mut [0; 2]));
                rest = &rest[first.len_utf8()..];
            }
        }
    }
    let id = SessionId::new(String::from_utf16(&units).unwrap_or_default());
    match encode_id(&id) {
        Ok(encoded) if encoded == name => id,
        _ => SessionId::from(name),
    }
}

/// The session name in a file name of the obsolete layout, which kept logs directly in a project directory.
pub(crate) fn flat_log(name: &str) -> Option<&str> {
    name.strip_suffix(".zstd")
        .unwrap_or(name)
        .strip_suffix(".jsonl")
}

fn project_dir(cwd: &str) -> Result<String, StoreError> {
    if cwd.is_empty() {
        return Err(StoreError::InvalidName {
            name: "the working directory \"\"".into(),
            reason: "it is empty",
        });
    }
    let slug = encode_units(cwd, true);
    let slug = match slug.trim_start_matches('-') {
        "" => "root",
        slug => slug,
    };
    Ok(format!("--{}--", &slug[..slug.len().min(MAX_SLUG)]))
}

/// `~XXXX` per UTF-16 unit that is not a plain character; runs of separators become one `-` where that is wanted.
fn encode_units(text: &str, join_separators: bool) -> String {
    let mut out = String::with_capacity(text.len());
    let mut in_separator = false;
    for unit in text.encode_utf16() {
        let plain = char::from_u32(u32::from(unit))
            .filter(|unit| unit.is_ascii_alphanumeric() || matches!(unit, '.' | '_' | '-'));
        let separator = join_separators && [b'/', b'\\', b':'].map(u16::from).contains(&unit);
        if let Some(plain) = plain {
            out.push(plain);
        } else if separator && !in_separator {
            out.push('-');
        } else if !separator {
            out.push_str(&format!("~{unit:04X}"));
        }
        in_separator = separator;
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_become_names_that_never_escape_and_never_collide() {
        let cases = [
            ("session-1", "session-1"),
            ("../../etc/passwd", "..~002F..~002Fetc~002Fpasswd"),
            (".", "~002E"),
            ("..", "~002E~002E"),
            ("a~b", "a~007Eb"),
            ("ä b", "~00E4~0020b"),
            ("😀", "~D83D~DE00"),
        ];
        for (id, name) in cases {
            assert_eq!(encode_id(&id.into()).unwrap(), name);
            assert_eq!(decode_id(name), id.into());
        }
        assert!(encode_id(&"".into()).is_err());
    }

    #[test]
    fn a_name_that_no_id_has_stands_for_itself() {
        for name in ["a b", "~00", "~D83D", "~0041", "~00e4", "ä", ".", "..", ""] {
            assert_eq!(decode_id(name), name.into());
        }
    }

    #[test]
    fn project_directories_are_readable_and_bounded() {
        let cases = [
            ("/work/demo", "--work-demo--"),
            ("/", "--root--"),
            (r"C:\Users\me", "--C-Users-me--"),
            ("/a//b/ c", "--a-b-~0020c--"),
            ("/-x", "--x--"),
        ];
        for (cwd, name) in cases {
            assert_eq!(project_dir(cwd).unwrap(), name, "{cwd}");
        }
        assert_eq!(
            project_dir(&format!("/{}", "x".repeat(999))).unwrap().len(),
            255
        );
    }

    #[test]
    fn only_canonical_file_names_are_generations() {
        for name in [
            "session.jsonl",
            "session.jsonl.zstd",
            "session.v4.jsonl",
            "session.v12.jsonl.zstd",
            "branch.o1.jsonl.zstd",
            "branch.o2.jsonl.zstd",
        ] {
            assert_eq!(
                Generation::parse(name).map(Generation::file_name),
                Some(name.to_owned())
            );
        }
        for name in [
            "session.v0.jsonl",
            "session.v04.jsonl",
            "session.V4.jsonl",
            "session.v.jsonl",
            "session.v4.jsonl.0123456789ab.tmp",
            "session.v4.jsonl.gz",
            "session.lock",
            "session.v99999999999999999999.jsonl",
            "branch.o0.jsonl.zstd",
            "branch.o1.jsonl",
            "branch.o01.jsonl.zstd",
            "branch.jsonl.zstd",
            "base-0.jsonl.zstd",
        ] {
            assert_eq!(Generation::parse(name), None, "{name}");
        }
    }
}
