//! Where a path leads, and a file that is changed there without being led elsewhere.
//!
//! [`canonical`] says where a path leads at this moment. Between that look and the change somebody else, a command in the
//! background for example, may put a symbolic link in the way. So a [`Place`] goes the way again, from a directory that
//! may be changed downwards, one name at a time and through no link; what is done with it is done beside that open
//! directory and not by path.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File, Metadata, Permissions};
use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Component, Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::fs::{AtFlags, Gid, Mode, OFlags, Uid};
use rustix::io::Errno;

/// As many symbolic links as Linux follows.
const MAX_LINKS: usize = 40;

/// A directory that is only gone through needs no right to list it, where the system can say so.
#[cfg(any(target_os = "linux", target_os = "android"))]
const THROUGH: OFlags = OFlags::PATH;
#[cfg(not(any(target_os = "linux", target_os = "android")))]
const THROUGH: OFlags = OFlags::RDONLY;

/// The absolute path without links and `..` that the kernel would come to. The last names of it need not exist.
pub(crate) fn canonical(path: &Path) -> io::Result<PathBuf> {
    Ok(Way::of(path)?.end)
}

/// How an absolute path is followed.
#[derive(Debug)]
pub(crate) struct Way {
    /// The directories, without links, in which a name was looked up.
    through: Vec<PathBuf>,
    /// Where it ends, without links.
    pub(crate) end: PathBuf,
}

impl Way {
    /// Whether somebody who may change everything beneath `directory` could make the path lead elsewhere.
    pub(crate) fn passes(&self, directory: &Path) -> bool {
        self.through
            .iter()
            .any(|passed| passed.starts_with(directory))
    }

    pub(crate) fn of(path: &Path) -> io::Result<Self> {
        let mut through = Vec::new();
        let mut resolved = PathBuf::from("/");
        let mut rest = Vec::new();
        push_names(&mut rest, path);
        let mut links = 0;
        let mut exists = true;
        while let Some(name) = rest.pop() {
            if name == ".." {
                if !exists {
                    return Err(io::ErrorKind::NotFound.into());
                }
                resolved.pop();
                continue;
            }
            let next = resolved.join(&name);
            if !exists {
                resolved = next;
                continue;
            }
            through.push(resolved.clone());
            match fs::symlink_metadata(&next) {
                Ok(found) if found.is_symlink() => {
                    links += 1;
                    if links > MAX_LINKS {
                        return Err(io::Error::other("too many levels of symbolic links"));
                    }
                    let link = fs::read_link(&next)?;
                    if link.is_absolute() {
                        resolved = PathBuf::from("/");
                    }
                    push_names(&mut rest, &link);
                }
                Ok(found) if !found.is_dir() && !rest.is_empty() => {
                    return Err(io::ErrorKind::NotADirectory.into());
                }
                Ok(_) => resolved = next,
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    exists = false;
                    resolved = next;
                }
                Err(error) => return Err(error),
            }
        }
        Ok(Self {
            through,
            end: resolved,
        })
    }
}

/// Puts the names of a path on a stack, the first on top.
fn push_names(stack: &mut Vec<OsString>, path: &Path) {
    let names = path.components().rev().filter_map(|part| match part {
        Component::Normal(name) => Some(name.to_owned()),
        Component::ParentDir => Some("..".into()),
        Component::RootDir | Component::CurDir | Component::Prefix(_) => None,
    });
    stack.extend(names);
}

/// What to do about directories on the way that do not exist.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Missing {
    Create,
    Refuse,
}

/// A name in an open directory: the place of a file, which may exist or not.
#[derive(Debug)]
pub(crate) struct Place {
    directory: OwnedFd,
    name: OsString,
}

/// What a new content takes the place of.
#[derive(Debug)]
pub(crate) enum Replaces<'a> {
    /// Nothing: if there is a file by now, it stays and this is an error of kind `AlreadyExists`.
    Nothing,
    /// The file with this owner and these permissions, which the new one keeps.
    File(&'a Metadata),
}

impl Place {
    /// Goes from the directory `root` down to the place of `file`. Both are canonical, and `file` is beneath `root`.
    ///
    /// # Errors
    /// Also if there is a symbolic link on the way: then the path is not canonical any more.
    pub(crate) fn beneath(root: &Path, file: &Path, missing: Missing) -> io::Result<Self> {
        let way = file
            .strip_prefix(root)
            .expect("BUG: the caller has looked for the root of this file");
        let name = way
            .file_name()
            .expect("BUG: a canonical path beneath a root ends in a name");
        let flags = THROUGH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let mut directory = rustix::fs::open(root, flags, Mode::empty())?;
        for name in way.parent().unwrap_or(Path::new("")) {
            directory = enter(&directory, name, missing)?;
        }
        Ok(Self {
            directory,
            name: name.to_owned(),
        })
    }

    /// Opens what is there, for reading. `None` if there is nothing.
    ///
    /// It may be anything but a symbolic link. Opening a named pipe does not wait for the other end.
    pub(crate) fn open(&self) -> io::Result<Option<File>> {
        self.open_as(OFlags::RDONLY)
    }

    /// Whether the file may be written to. Replacing it needs rights to its directory only, but a file that is protected
    /// shall stay as it is.
    pub(crate) fn check_writable(&self) -> io::Result<()> {
        self.open_as(OFlags::WRONLY).map(drop)
    }

    fn open_as(&self, access: OFlags) -> io::Result<Option<File>> {
        let flags = access | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        match rustix::fs::openat(&self.directory, &self.name, flags, Mode::empty()) {
            Ok(file) => Ok(Some(File::from(file))),
            Err(Errno::NOENT) => Ok(None),
            Err(Errno::LOOP) => Err(link_in_the_way()),
            Err(error) => Err(error.into()),
        }
    }

    /// Whether the place still has this very file.
    pub(crate) fn has(&self, file: &Metadata) -> io::Result<bool> {
        let now = rustix::fs::statat(&self.directory, &self.name, AtFlags::SYMLINK_NOFOLLOW);
        match now {
            Ok(now) => Ok(now.st_ino == file.ino() && now.st_dev == file.dev()),
            Err(Errno::NOENT) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// Puts a file with this content here in one step: no reader and no crash sees half of it.
    ///
    /// The file is locked before anybody can find it, until what is returned is dropped: so there is no moment between
    /// this change and the lock of the next.
    pub(crate) fn publish(&self, content: &[u8], replaces: Replaces<'_>) -> io::Result<File> {
        let temporary = Temporary::create(self)?;
        let mut file = &temporary.file;
        // Nobody else has it, so this fails only where there are no locks.
        let _locked_if_possible = file.try_lock();
        file.write_all(content)?;
        if let Replaces::File(old) = replaces {
            // Only the superuser may give files away; everybody else owns what they write.
            let owner = (Uid::from_raw(old.uid()), Gid::from_raw(old.gid()));
            let _kept_if_allowed = rustix::fs::fchown(file, Some(owner.0), Some(owner.1));
            file.set_permissions(Permissions::from_mode(old.mode() & 0o7777))?;
        }
        file.sync_all()?;
        match replaces {
            Replaces::Nothing => temporary.link()?,
            Replaces::File(_) => temporary.rename()?,
        }
        temporary.file.try_clone()
    }
}

/// Opens a directory in a directory, unless a link has that name.
fn enter(directory: &OwnedFd, name: &OsStr, missing: Missing) -> io::Result<OwnedFd> {
    let flags = THROUGH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let open = || rustix::fs::openat(directory, name, flags, Mode::empty());
    let opened = match open() {
        Err(Errno::NOENT) if missing == Missing::Create => {
            match rustix::fs::mkdirat(directory, name, Mode::from_raw_mode(0o777)) {
                // Somebody else made it at the same time.
                Ok(()) | Err(Errno::EXIST) => {}
                Err(error) => return Err(error.into()),
            }
            open()
        }
        opened => opened,
    };
    match opened {
        Ok(opened) => Ok(opened),
        Err(Errno::LOOP) => Err(link_in_the_way()),
        // The same for a link and for a file, on some systems.
        Err(Errno::NOTDIR) if is_link(directory, name) => Err(link_in_the_way()),
        Err(error) => Err(error.into()),
    }
}

fn is_link(directory: &OwnedFd, name: &OsStr) -> bool {
    rustix::fs::statat(directory, name, AtFlags::SYMLINK_NOFOLLOW).is_ok_and(|found| {
        rustix::fs::FileType::from_raw_mode(found.st_mode) == rustix::fs::FileType::Symlink
    })
}

fn link_in_the_way() -> io::Error {
    io::Error::other("a symbolic link was put there meanwhile")
}

/// A file beside the place, gone when this is dropped.
struct Temporary<'a> {
    place: &'a Place,
    name: String,
    file: File,
}

impl<'a> Temporary<'a> {
    fn create(place: &'a Place) -> io::Result<Self> {
        /// Tells the files of one process apart; another process has another number in the name.
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let flags =
            OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        loop {
            let count = COUNT.fetch_add(1, Ordering::Relaxed);
            let name = format!(".offshoot-write-{}-{count}", std::process::id());
            // Less the umask, as for any new file.
            let mode = Mode::from_raw_mode(0o666);
            match rustix::fs::openat(&place.directory, &name, flags, mode) {
                Ok(file) => {
                    let file = File::from(file);
                    return Ok(Self { place, name, file });
                }
                // Left behind by a process of the same number that was killed.
                Err(Errno::EXIST) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    fn rename(&self) -> io::Result<()> {
        let directory = &self.place.directory;
        Ok(rustix::fs::renameat(
            directory,
            &self.name,
            directory,
            &self.place.name,
        )?)
    }

    fn link(&self) -> io::Result<()> {
        let directory = &self.place.directory;
        let (name, flags) = (&self.place.name, AtFlags::empty());
        match rustix::fs::linkat(directory, &self.name, directory, name, flags) {
            Ok(()) => Ok(()),
            // A file system without hard links.
            Err(Errno::PERM | Errno::OPNOTSUPP | Errno::NOSYS) => match self.place.open()? {
                None => self.rename(),
                Some(_) => Err(io::ErrorKind::AlreadyExists.into()),
            },
            Err(error) => Err(error.into()),
        }
    }
}

impl Drop for Temporary<'_> {
    fn drop(&mut self) {
        // After a rename there is nothing to remove.
        let _gone = rustix::fs::unlinkat(&self.place.directory, &self.name, AtFlags::empty());
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use tempfile::TempDir;

    use super::*;

    fn tree() -> (TempDir, PathBuf) {
        let dir = TempDir::new().unwrap();
        let root = dir.path().canonicalize().unwrap();
        fs::create_dir_all(root.join("work/inner")).unwrap();
        fs::create_dir(root.join("outside")).unwrap();
        (dir, root)
    }

    #[test]
    fn a_link_that_took_the_place_of_a_directory_is_not_followed() {
        let (_dir, root) = tree();
        let work = root.join("work");
        // What was canonical a moment ago.
        let file = work.join("inner/a.txt");
        fs::remove_dir(work.join("inner")).unwrap();
        symlink(root.join("outside"), work.join("inner")).unwrap();
        for missing in [Missing::Create, Missing::Refuse] {
            let error = Place::beneath(&work, &file, missing).unwrap_err();
            assert_eq!(error.to_string(), "a symbolic link was put there meanwhile");
        }
        assert_eq!(fs::read_dir(root.join("outside")).unwrap().count(), 0);
    }

    #[test]
    fn a_link_that_took_the_place_of_the_file_is_replaced_and_not_followed() {
        let (_dir, root) = tree();
        let work = root.join("work");
        let place = Place::beneath(&work, &work.join("a.txt"), Missing::Refuse).unwrap();
        symlink(root.join("outside/new.txt"), work.join("a.txt")).unwrap();
        let said = |result: io::Result<()>| result.unwrap_err().to_string();
        assert_eq!(
            said(place.open().map(drop)),
            "a symbolic link was put there meanwhile"
        );
        assert_eq!(
            said(place.check_writable()),
            "a symbolic link was put there meanwhile"
        );
        let error = place.publish(b"x", Replaces::Nothing).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::AlreadyExists);
        let old = fs::metadata(&work).unwrap();
        drop(place.publish(b"x", Replaces::File(&old)).unwrap());
        assert!(
            !fs::symlink_metadata(work.join("a.txt"))
                .unwrap()
                .is_symlink()
        );
        assert_eq!(fs::read_dir(root.join("outside")).unwrap().count(), 0);
    }

    #[test]
    fn nothing_is_written_where_a_directory_was_removed() {
        let (_dir, root) = tree();
        let work = root.join("work");
        let place = Place::beneath(&work, &work.join("inner/a.txt"), Missing::Refuse).unwrap();
        fs::remove_dir(work.join("inner")).unwrap();
        symlink(root.join("outside"), work.join("inner")).unwrap();
        let error = place.publish(b"x", Replaces::Nothing).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::NotFound);
        assert_eq!(fs::read_dir(root.join("outside")).unwrap().count(), 0);
    }

    #[test]
    fn paths_are_followed_as_the_kernel_does() {
        let (_dir, root) = tree();
        symlink("work/inner", root.join("link")).unwrap();
        symlink("link/none", root.join("dangling")).unwrap();
        symlink("loop", root.join("loop")).unwrap();
        let at = |path: &str| {
            canonical(&root.join(path))
                .map(|end| end.strip_prefix(&root).unwrap().display().to_string())
                .map_err(|error| error.kind())
        };
        assert_eq!(at("link"), Ok("work/inner".to_owned()));
        assert_eq!(at("link/../a"), Ok("work/a".to_owned()));
        assert_eq!(at("dangling/b"), Ok("work/inner/none/b".to_owned()));
        assert_eq!(at("none/.."), Err(io::ErrorKind::NotFound));
        assert_eq!(at("loop"), Err(io::ErrorKind::Other));
    }
}
