//! The home directory: where sessions and configuration are, and the mark that Offshoot made it.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context as _, Result};
use offshoot_agent::{AnswerSettler, SessionService};
use offshoot_format::Container;
use offshoot_store::{ForkLayout, HOME_MARKER, JsonlStore, Locking, home_marker};

use crate::failure::Failure;
use crate::system;

/// A home.
#[derive(Clone, Debug)]
pub(crate) struct Home {
    path: PathBuf,
    locking: Locking,
    /// Where what is read of it is remembered.
    cache: Option<PathBuf>,
}

impl Home {
    /// The home that was asked for, else `$OFFSHOOT_HOME`, else `~/.offshoot`. A blank path counts as none.
    pub(crate) fn resolve(asked: Option<PathBuf>) -> Result<Self> {
        let named = asked.or_else(|| std::env::var_os("OFFSHOOT_HOME").map(PathBuf::from));
        let asked = named.filter(|path| !path.to_string_lossy().trim().is_empty());
        let path = match asked {
            Some(path) => expand(path)?,
            None => user_home()?.join(".offshoot"),
        };
        let path = std::path::absolute(&path)
            .with_context(|| format!("could not find out where `{}` is", path.display()))?;
        Ok(Self {
            path,
            locking: Locking::default(),
            cache: cache(),
        })
    }

    /// One that nobody else knows of: nothing outside of it is read or changed for it.
    pub(crate) fn alone(path: &Path) -> Self {
        Self {
            path: path.to_owned(),
            locking: Locking::default(),
            cache: None,
        }
    }

    /// Says what to do where the file system has no locks.
    pub(crate) const fn with_locking(mut self, locking: Locking) -> Self {
        self.locking = locking;
        self
    }

    pub(crate) const fn locking(&self) -> Locking {
        self.locking
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// The sessions. What is read of them is remembered in the cache folder, if there is one.
    pub(crate) fn store(&self) -> JsonlStore {
        let store = JsonlStore::new(self.path.join("sessions"), Container::Zstd)
            .with_locking(self.locking)
            .settling(Arc::new(AnswerSettler));
        match &self.cache {
            Some(cache) => store.with_cache(cache),
            None => store,
        }
    }

    pub(crate) fn service(&self) -> SessionService {
        self.service_keeping(ForkLayout::default())
    }

    pub(crate) fn service_keeping(&self, forks: ForkLayout) -> SessionService {
        let store = self.store().keeping_forks(forks);
        SessionService::new(Arc::new(store), system::env())
    }

    /// Says so if what is named as the home cannot be one. A home that is not there yet can.
    pub(crate) fn check(&self) -> Result<(), Failure> {
        match fs::metadata(&self.path) {
            Ok(meta) if !meta.is_dir() => Err(unusable(format!(
                "the home `{}` is not a directory",
                self.path.display()
            ))),
            Err(error) if error.kind() != ErrorKind::NotFound => Err(unusable(format!(
                "could not look at the home `{}`: {error}",
                self.path.display()
            ))),
            _ => Ok(()),
        }
    }

    /// Creates the home if it is not there, and marks it as made here; an empty directory counts as not there. A home that
    /// others made stays theirs.
    pub(crate) fn ensure(&self) -> Result<(), Failure> {
        self.check()?;
        self.create().map_err(|error| {
            unusable(format!(
                "could not create the home `{}`: {error}",
                self.path.display()
            ))
        })
    }

    fn create(&self) -> std::io::Result<()> {
        if self.path.is_dir() {
            if fs::read_dir(&self.path)?.next().is_some() {
                return Ok(());
            }
        } else {
            let mut builder = fs::DirBuilder::new();
            builder.recursive(true);
            #[cfg(unix)]
            std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
            builder.create(&self.path)?;
        }
        let mut options = fs::OpenOptions::new();
        options.write(true).create_new(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        match options.open(self.path.join(HOME_MARKER)) {
            // Another process is creating the same home at this moment.
            Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(()),
            marker => {
                let mut marker = marker?;
                std::io::Write::write_all(&mut marker, home_marker().as_bytes())?;
                marker.sync_all()?;
                // The name as well: without it other tools would be shown forks that they cannot read.
                fs::File::open(&self.path)?.sync_all()
            }
        }
    }
}

/// Where what can be made again is kept: `$OFFSHOOT_CACHE`, else `$XDG_CACHE_HOME/offshoot`, else `~/.cache/offshoot`. A
/// blank path counts as none, and so does a relative `$XDG_CACHE_HOME`, as its specification says.
pub(crate) fn cache() -> Option<PathBuf> {
    let named = |name| {
        std::env::var_os(name)
            .map(PathBuf::from)
            .filter(|path| !path.to_string_lossy().trim().is_empty())
    };
    if let Some(own) = named("OFFSHOOT_CACHE") {
        return expand(own).ok();
    }
    let shared = named("XDG_CACHE_HOME").filter(|path| path.is_absolute());
    let shared = shared.or_else(|| Some(user_home().ok()?.join(".cache")));
    Some(shared?.join("offshoot"))
}

fn unusable(message: String) -> Failure {
    Failure::new("HOME_UNUSABLE", message)
        .hint("name a directory that you can write to with --home or OFFSHOOT_HOME")
}

/// A leading `~` that no shell has expanded.
pub(crate) fn expand(path: PathBuf) -> Result<PathBuf> {
    match path.strip_prefix("~") {
        Ok(rest) => Ok(user_home()?.join(rest)),
        Err(_) => Ok(path),
    }
}

fn user_home() -> Result<PathBuf> {
    std::env::home_dir()
        .filter(|home| !home.as_os_str().is_empty())
        .context("could not find your home directory; name one with --home or OFFSHOOT_HOME")
}
