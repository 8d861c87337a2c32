//! What a recording cannot tell: `overrides/<name>.json` beside it (`reference/agent.md` §8.1).
//!
//! A list of entries takes the place of the whole script. An object `{"patches": [{"at": N, "entry": …}]}` changes single
//! entries: `at` counts from 0; the number of recorded entries appends one, the next number one more.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use serde_json::value::RawValue;

use crate::entry::{Entry, Fault, Members, Written, short, without_place};
use crate::script::ScriptError;

/// What is written in place of what was recorded.
#[derive(Clone, Debug, PartialEq)]
pub struct Overrides {
    file: PathBuf,
    changes: Changes,
}

#[derive(Clone, Debug, PartialEq)]
enum Changes {
    /// The whole script.
    All(Vec<Written>),
    /// Single entries of it, each with its place in the list of patches.
    Some(Vec<Patch>),
}

#[derive(Clone, Debug, PartialEq)]
struct Patch {
    at: usize,
    entry: Written,
}

impl Overrides {
    /// Reads an override. `file` is where it comes from, for messages.
    ///
    /// # Errors
    /// [`ScriptError::Override`]: what is wrong, and where.
    pub fn parse(file: &Path, text: &str) -> Result<Self, ScriptError> {
        Ok(Self {
            file: file.to_owned(),
            changes: Changes::read(text).map_err(|fault| at(file, fault))?,
        })
    }

    /// Whether nothing of what was recorded is left.
    #[must_use]
    pub const fn is_whole_script(&self) -> bool {
        matches!(self.changes, Changes::All(_))
    }

    /// The script with the changes in it.
    ///
    /// # Errors
    /// [`ScriptError::Override`]: a patch of something that is not there.
    pub(crate) fn apply(&self, recorded: Vec<Entry>) -> Result<Vec<Entry>, ScriptError> {
        let applied = match &self.changes {
            Changes::All(written) => written
                .iter()
                .enumerate()
                .map(|(place, entry)| {
                    let entry = entry.clone().in_place_of(None);
                    entry.map_err(|fault| fault.within(&format!("[{place}]")))
                })
                .collect(),
            Changes::Some(patches) => patched(patches, recorded),
        };
        applied.map_err(|fault| at(&self.file, fault))
    }
}

fn at(file: &Path, Fault { place, problem }: Fault) -> ScriptError {
    ScriptError::Override {
        file: file.to_owned(),
        place,
        problem,
    }
}

fn patched(patches: &[Patch], mut script: Vec<Entry>) -> Result<Vec<Entry>, Fault> {
    // In the order of their places, so that appended entries may be written in any order.
    let mut order: Vec<(usize, &Patch)> = patches.iter().enumerate().collect();
    order.sort_by_key(|(_, patch)| patch.at);
    for (place, Patch { at, entry }) in order {
        let within = |inner: &str| format!("patches[{place}].{inner}");
        let length = script.len();
        if *at > length {
            let problem = format!(
                "there is no entry {at}: the script has {length}, and {length} appends one"
            );
            return Err(Fault::here(problem).within(&within("at")));
        }
        let entry = entry.clone().in_place_of(script.get(*at));
        let entry = entry.map_err(|fault| fault.within(&within("entry")))?;
        match script.get_mut(*at) {
            Some(there) => *there = entry,
            None => script.push(entry),
        }
    }
    Ok(script)
}

impl Changes {
    fn read(text: &str) -> Result<Self, Fault> {
        let json: &RawValue = serde_json::from_str(text)
            .map_err(|error| Fault::here(format!("it is no JSON: {error}")))?;
        match json.get().bytes().next() {
            Some(b'[') => {
                let list: Vec<&RawValue> = list(json)?;
                let read = |(place, entry): (usize, &RawValue)| {
                    Written::read(entry).map_err(|fault| fault.within(&format!("[{place}]")))
                };
                let entries: Result<_, _> = list.into_iter().enumerate().map(read).collect();
                entries.map(Self::All)
            }
            Some(b'{') => {
                let mut members = Members::of(json)?;
                let patches = members.need("patches")?;
                members.nothing_else("an override")?;
                read_patches(patches).map(Self::Some)
            }
            _ => Err(Fault::here(
                "it has to be a list of entries, or an object with `patches`",
            )),
        }
    }
}

fn list(json: &RawValue) -> Result<Vec<&RawValue>, Fault> {
    serde_json::from_str(json.get()).map_err(|error| Fault::here(without_place(&error)))
}

fn read_patches(json: &RawValue) -> Result<Vec<Patch>, Fault> {
    let patches = list(json).map_err(|_| Fault::here("it has to be a list").within("patches"))?;
    let mut taken = BTreeSet::new();
    let read = |(place, json): (usize, &RawValue)| {
        let patch = read_patch(json).and_then(|patch| {
            if taken.insert(patch.at) {
                return Ok(patch);
            }
            let problem = format!("entry {} is changed by an earlier patch already", patch.at);
            Err(Fault::here(problem).within("at"))
        });
        patch.map_err(|fault| fault.within(&format!("patches[{place}]")))
    };
    patches.into_iter().enumerate().map(read).collect()
}

fn read_patch(json: &RawValue) -> Result<Patch, Fault> {
    let mut members = Members::of(json)?;
    let (at, entry) = (members.need("at")?, members.need("entry")?);
    members.nothing_else("a patch")?;
    // No number that is exact everywhere is larger, and none is less than zero.
    let number = serde_json::from_str::<u64>(at.get()).ok();
    let number = number.filter(|number| *number <= 9_007_199_254_740_991);
    let number = number.and_then(|number| usize::try_from(number).ok());
    let not_a_place = || {
        let problem = format!(
            "it has to be a whole number from 0, and is {}",
            short(at.get())
        );
        Fault::here(problem).within("at")
    };
    Ok(Patch {
        at: number.ok_or_else(not_a_place)?,
        entry: Written::read(entry).map_err(|fault| fault.within("entry"))?,
    })
}
