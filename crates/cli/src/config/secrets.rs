//! Keys of providers: from the environment, from a file of their own, or from `credentials.toml` in the home.
//!
//! A file that others can read is refused. A key is never printed, logged or put into an error.

use std::collections::BTreeMap;
use std::fs;
use std::io::{ErrorKind, Read as _};
use std::path::{Path, PathBuf};

use offshoot_model::ApiKey;

use super::environment;
use crate::failure::Failure;
use crate::text::quoted;

/// In the home: a key for each provider, as `NAME = "…"`.
pub(crate) const CREDENTIALS: &str = "credentials.toml";

/// Where a key comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum KeySource {
    Variable(String),
    File(PathBuf),
}

impl std::fmt::Display for KeySource {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Variable(name) => f.write_str(name),
            Self::File(path) => write!(f, "`{}`", path.display()),
        }
    }
}

/// A key with where it comes from.
#[derive(Clone, Debug)]
pub(crate) struct FoundKey {
    pub(crate) key: ApiKey,
    pub(crate) source: KeySource,
}

/// The key in a variable.
pub(super) fn in_variable(name: &str) -> Option<FoundKey> {
    Some(FoundKey {
        key: ApiKey::new(environment::set(name)?),
        source: KeySource::Variable(name.to_owned()),
    })
}

/// The key in a file that holds nothing else.
pub(super) fn in_file(path: &Path) -> Result<FoundKey, Failure> {
    let text = read_private(path)?.ok_or_else(|| {
        Failure::new(
            "MISSING_API_KEY",
            format!(
                "the file `{}`, which should hold a key, is not there",
                path.display()
            ),
        )
        .hint("put the key into it, and nothing else, so that only you can read it")
    })?;
    if text.trim().is_empty() {
        return Err(Failure::new(
            "MISSING_API_KEY",
            format!(
                "the file `{}`, which should hold a key, is empty",
                path.display()
            ),
        ));
    }
    Ok(FoundKey {
        key: ApiKey::new(text),
        source: KeySource::File(path.to_owned()),
    })
}

/// The key of a provider in `credentials.toml`.
pub(super) fn in_credentials(home: &Path, provider: &str) -> Result<Option<FoundKey>, Failure> {
    let path = home.join(CREDENTIALS);
    let Some(text) = read_private(&path)? else {
        return Ok(None);
    };
    // What the parser says may repeat what it has read.
    let keys: BTreeMap<String, String> = toml::from_str(&text).map_err(|_| {
        Failure::new(
            "INVALID_CONFIG",
            format!("`{}` cannot be understood", path.display()),
        )
        .hint("it holds a line for each provider: NAME = \"KEY\"")
    })?;
    let key = keys.get(provider).filter(|key| !key.trim().is_empty());
    Ok(key.map(|key| FoundKey {
        key: ApiKey::new(key),
        source: KeySource::File(path),
    }))
}

/// A file that nobody else can read; `None` if it is not there.
fn read_private(path: &Path) -> Result<Option<String>, Failure> {
    let unread = |error: std::io::Error| {
        Failure::new(
            "IO_ERROR",
            format!("could not read `{}`: {error}", path.display()),
        )
    };
    let mut file = match fs::File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(unread(error)),
    };
    // Of the opened file: the name may stand for another one by now.
    let meta = file.metadata().map_err(unread)?;
    if let Some(mode) = open_to_others(&meta) {
        return Err(Failure::new(
            "INSECURE_FILE",
            format!(
                "`{}` holds keys and is open to others (mode {mode:04o})",
                path.display()
            ),
        )
        .hint(format!("chmod 600 {}", quoted(&path.to_string_lossy()))));
    }
    let mut text = String::new();
    file.read_to_string(&mut text).map_err(unread)?;
    Ok(Some(text))
}

#[cfg(unix)]
fn open_to_others(meta: &fs::Metadata) -> Option<u32> {
    use std::os::unix::fs::PermissionsExt as _;
    let mode = meta.permissions().mode() & 0o777;
    (mode & 0o077 != 0).then_some(mode)
}

#[cfg(not(unix))]
fn open_to_others(_: &fs::Metadata) -> Option<u32> {
    None
}
