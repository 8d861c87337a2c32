//! Which directories may be changed in a workspace, and that no command can move them.
//!
//! A root is named by a path, and a path means whatever stands there at the moment. If one root lies in another, a command
//! could replace it with a symbolic link to `/`, and the next command would find the whole disk writable. So a root counts
//! only if no directory on the way to it, through all symbolic links, may be changed. Any other root adds nothing, as long
//! as it lies in one that counts; if it leads elsewhere, it is none.

use std::path::{Path, PathBuf};

use offshoot_tool_api::Limits;

use crate::place::Way;

/// The roots of a session in `workspace-write`, without symbolic links: its workspace, or the directory `cwd` if none is
/// named, and `scratch`, the directories for temporary files. What does not exist, or is no directory, is no root.
pub(crate) fn workspace_roots(
    limits: &Limits,
    cwd: Option<&Path>,
    scratch: &[PathBuf],
) -> Vec<PathBuf> {
    let workspace = limits.workspace.iter().map(PathBuf::as_path);
    let unnamed = cwd.filter(|_| limits.workspace.is_empty());
    let scratch = scratch.iter().map(PathBuf::as_path);
    settle(workspace.chain(unnamed).chain(scratch))
}

/// The roots that count, in their order and each once.
fn settle<'a>(named: impl Iterator<Item = &'a Path>) -> Vec<PathBuf> {
    let ways: Vec<Way> = named
        .filter(|root| root.is_absolute())
        .filter_map(|root| Way::of(root).ok())
        .filter(|way| way.end.is_dir())
        .collect();
    let mut roots: Vec<PathBuf> = Vec::new();
    for way in &ways {
        let moved = ways.iter().any(|other| way.passes(&other.end));
        if !moved && !roots.contains(&way.end) {
            roots.push(way.end.clone());
        }
    }
    roots
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use tempfile::TempDir;

    use super::*;

    struct Tree {
        _dir: TempDir,
        root: PathBuf,
    }

    impl Tree {
        fn new(directories: &[&str]) -> Self {
            let dir = TempDir::new().unwrap();
            let root = dir.path().canonicalize().unwrap();
            for directory in directories {
                fs::create_dir_all(root.join(directory)).unwrap();
            }
            Self { _dir: dir, root }
        }

        fn link(&self, name: &str, target: &str) {
            symlink(self.root.join(target), self.root.join(name)).unwrap();
        }

        /// What the roots come to, as names in this tree.
        fn settled(&self, roots: &[&str]) -> Vec<String> {
            let roots: Vec<PathBuf> = roots.iter().map(|root| self.root.join(root)).collect();
            settle(roots.iter().map(PathBuf::as_path))
                .iter()
                .map(|root| root.strip_prefix(&self.root).unwrap().to_str().unwrap())
                .map(str::to_owned)
                .collect()
        }
    }

    #[test]
    fn roots_count_by_where_they_lead_and_once() {
        let tree = Tree::new(&["work", "tmp"]);
        tree.link("link", "work");
        tree.link("circle", "circle");
        assert_eq!(
            tree.settled(&[
                "link",
                "tmp",
                "work",
                "tmp",
                "work/../tmp",
                "none",
                "circle"
            ]),
            ["work", "tmp"]
        );
    }

    #[test]
    fn a_root_in_another_adds_nothing() {
        let tree = Tree::new(&["tmp/work/deep", "elsewhere"]);
        tree.link("link", "tmp/work");
        tree.link("tmp/inner", "tmp/work/deep");
        for inner in ["tmp/work", "link", "tmp/inner", "link/deep"] {
            assert_eq!(tree.settled(&[inner, "tmp"]), ["tmp"], "{inner}");
        }
    }

    #[test]
    fn a_root_that_a_command_replaced_with_a_link_is_none() {
        let tree = Tree::new(&["tmp/work", "elsewhere"]);
        tree.link("outer", "tmp/way");
        tree.link("tmp/way", "elsewhere");
        for replaced in ["tmp/way", "outer"] {
            assert_eq!(tree.settled(&[replaced, "tmp"]), ["tmp"]);
        }
    }

    #[test]
    fn a_replaced_root_that_leads_above_the_others_makes_nothing_writable() {
        let tree = Tree::new(&["all/tmp"]);
        tree.link("all/tmp/way", "all");
        assert_eq!(tree.settled(&["all/tmp/way", "all/tmp"]), [""; 0]);
    }

    #[test]
    fn the_whole_disk_may_be_the_workspace() {
        let roots = settle([Path::new("/"), Path::new("/tmp")].into_iter());
        assert_eq!(roots, [PathBuf::from("/")]);
    }

    #[test]
    fn the_directory_of_the_session_is_the_workspace_if_none_is_named() {
        let tree = Tree::new(&["cwd", "work", "tmp"]);
        let [cwd, work, tmp] = ["cwd", "work", "tmp"].map(|name| tree.root.join(name));
        let mut limits = Limits::default();
        let roots =
            |limits: &Limits| workspace_roots(limits, Some(&cwd), std::slice::from_ref(&tmp));
        assert_eq!(roots(&limits), [cwd.clone(), tmp.clone()]);
        limits.workspace.push(work.clone());
        assert_eq!(roots(&limits), [work, tmp.clone()]);
    }
}
