//! What a linked fork holds of other sessions' files.

use std::path::{Path, PathBuf};

use offshoot_format::{BranchHeader, base_name, read_header};

use crate::layout::Generation;
use crate::{StoreError, read};

/// A name of another session's file in a fork's directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct BaseLink {
    pub(crate) path: PathBuf,
    /// How much of the file the fork needs, in bytes from its start.
    pub(crate) bytes: u64,
}

/// The bases of the fork in a session's directory; none of a session that is self-contained.
pub(crate) fn bases_in(dir: &Path) -> Result<Vec<BaseLink>, StoreError> {
    let generation = Generation::BRANCH;
    let path = dir.join(generation.file_name());
    if !path.is_file() {
        return Ok(Vec::new());
    }
    let bytes = read::head_of(&path, generation.container)?;
    let header = read_header(generation.container, &bytes)
        .and_then(|line| BranchHeader::read(&line))
        .map_err(|source| StoreError::Format { path, source })?;
    let bases = header.bases.iter().enumerate();
    Ok(bases
        .map(|(index, base)| BaseLink {
            path: dir.join(base_name(index)),
            bytes: base.bytes,
        })
        .collect())
}
