//! A new session of what is sound in a damaged file.
//!
//! It is a fork of the damaged session at the last event that can be proved: its parent is named, and the calls whose
//! results are lost are answered as those of any fork are. So the model is told what is known, and the tree shows where the
//! conversation comes from.

use std::path::{Path, PathBuf};

use offshoot_format::Loss;
use offshoot_session::{MAX_SAFE_INTEGER, SeedError, SessionId, build_fork_seed};

use crate::{JsonlStore, Persistence as _, Prefix, Remains, StoreError};

/// What was saved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Salvaged {
    /// The new session.
    pub id: SessionId,
    /// Its file.
    pub path: PathBuf,
    /// How many events it has, with those that close what the damage left open.
    pub events: u64,
    /// How many of them were saved.
    pub saved: u64,
    /// What is lost; `None` if nothing is. Its place is one in `loss_in`.
    pub loss: Option<Loss>,
    /// The file in which the loss begins: the source, or a base of it.
    pub loss_in: PathBuf,
    /// Why the source is no session although every row may be sound: its bases are not what it was forked from.
    pub refused: Option<String>,
    /// The version of the source.
    pub version: u64,
}

/// Makes the session `child` of the longest beginning of a file that can be proved sound. The file is only read; `now` is
/// in ms since the epoch.
///
/// # Errors
/// A file that cannot be read, or has no header; one in which not even the first event is sound; a store that takes no new
/// session of that name. Nothing is written then.
pub fn salvage_into(
    store: &JsonlStore,
    file: &Path,
    child: SessionId,
    now: i64,
) -> Result<Salvaged, StoreError> {
    let created = u64::try_from(now)
        .ok()
        .filter(|now| *now <= MAX_SAFE_INTEGER);
    let created = created.ok_or_else(|| StoreError::Seed {
        path: file.to_owned(),
        source: SeedError::Time(now),
    })?;
    let bytes = crate::read::whole(file)?;
    let remains = Remains::of_file(file, &bytes);
    let saved = remains.salvage().map_err(|source| StoreError::Format {
        path: file.to_owned(),
        source,
    })?;
    let mut loss = saved.loss;
    let mut loss_in = file;
    if let Some(loss) = &mut loss {
        (loss_in, loss.place) = remains.locate(loss.place);
    }
    let Some(last) = saved.log.end().last() else {
        return Err(StoreError::NothingSound {
            path: file.to_owned(),
            reason: loss.map_or_else(
                || "it has no event".to_owned(),
                |loss| reason(file, loss_in, &loss),
            ),
        });
    };
    let header = saved.header.forked(child.clone(), created);
    let seed = build_fork_seed(&saved.log, last).expect("BUG: the last event is there");
    drop(store.fork(&header, &seed, &Prefix::default())?);
    Ok(Salvaged {
        path: store.locate(&child)?,
        id: child,
        events: seed.log().end().get(),
        saved: saved.log.end().get(),
        loss,
        loss_in: loss_in.to_owned(),
        refused: remains.refused().map(ToString::to_string),
        version: saved.version,
    })
}

/// Why nothing of a file could be saved.
fn reason(file: &Path, loss_in: &Path, loss: &Loss) -> String {
    let place = match loss_in == file {
        true => String::new(),
        false => format!(" of `{}`", loss_in.display()),
    };
    format!("line {}{place}: {}", loss.place.line, loss.reason)
}
