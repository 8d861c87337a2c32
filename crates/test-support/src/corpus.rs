//! Recorded sessions, which are kept beside the repository and may be absent.
//!
//! A test that needs them asks [`corpus_dir`] first and, if they are not there, calls [`skip_notice`] and returns.

use std::env;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

/// Where the recorded sessions are: `$OFFSHOOT_CORPUS`, else `shared/corpus` beside the repository.
///
/// # Panics
/// If there are none although both `CI` and `OFFSHOOT_REQUIRE_CORPUS` are set: a run that must cover them shall not
/// pass by skipping.
pub fn corpus_dir() -> Option<PathBuf> {
    let place = place(env::var_os("OFFSHOOT_CORPUS"));
    let found = place.as_ref().filter(|place| place.is_dir()).cloned();
    let required = env::var_os("CI").is_some() && env::var_os("OFFSHOOT_REQUIRE_CORPUS").is_some();
    assert!(
        found.is_some() || !required,
        "OFFSHOOT_REQUIRE_CORPUS is set, but there is no corpus at `{}`",
        place.unwrap_or_default().display()
    );
    found
}

fn place(overridden: Option<OsString>) -> Option<PathBuf> {
    if let Some(place) = overridden.filter(|place| !place.is_empty()) {
        return Some(place.into());
    }
    let repository = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2)?;
    Some(repository.parent()?.join("shared").join("corpus"))
}

/// The files directly in a directory of the corpus, sorted by path; none if the corpus is not there.
///
/// # Panics
/// If the corpus is there but `subdir` is not, so that a misspelt name does not look like an empty set.
pub fn files(subdir: impl AsRef<Path>) -> Vec<PathBuf> {
    let Some(dir) = corpus_dir().map(|corpus| corpus.join(subdir)) else {
        return Vec::new();
    };
    let entries = fs::read_dir(&dir)
        .unwrap_or_else(|error| panic!("list the corpus directory `{}`: {error}", dir.display()));
    let mut files: Vec<PathBuf> = entries
        .map(|entry| {
            entry
                .expect("the corpus does not change during a test")
                .path()
        })
        .filter(|path| path.is_file())
        .collect();
    files.sort();
    files
}

/// Says on standard error that a test did nothing because the corpus is not there.
pub fn skip_notice(test: &str) {
    eprintln!(
        "skipped {test}: the corpus of recorded sessions is not there\n\
         hint: put it into `shared/corpus` beside the repository, or set OFFSHOOT_CORPUS"
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_override_wins_and_an_empty_one_counts_as_unset() {
        assert_eq!(
            place(Some("elsewhere".into())),
            Some(PathBuf::from("elsewhere"))
        );
        assert_eq!(place(Some(OsString::new())), place(None));
        assert!(place(None).is_some_and(|place| place.ends_with("shared/corpus")));
    }

    #[test]
    fn files_are_sorted_and_lie_in_the_corpus() {
        let Some(dir) = corpus_dir() else {
            return skip_notice("files_are_sorted_and_lie_in_the_corpus");
        };
        let files = files("v4-completed");
        assert!(!files.is_empty());
        assert!(files.is_sorted());
        assert!(
            files
                .iter()
                .all(|file| file.starts_with(&dir) && file.is_file())
        );
    }
}
