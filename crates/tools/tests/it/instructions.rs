//! Which files a project's instructions are in, and which are not shown.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use offshoot_tool_api::Instructions as _;
use offshoot_tools::ProjectInstructions;

fn put(path: &Path, text: &str) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    #[expect(
        clippy::disallowed_methods,
        reason = "a file of a test need not be durable"
    )]
    fs::write(path, text).unwrap();
}

/// What was found: scope, name and text.
fn found(instructions: &ProjectInstructions, cwd: &Path) -> Vec<[String; 3]> {
    let files = instructions.files(Some(cwd));
    files
        .into_iter()
        .map(|file| [file.scope.replace('\0', "|"), file.path, file.text])
        .collect()
}

fn is(scope: &str, path: &str, text: &str) -> [String; 3] {
    [scope, path, text].map(str::to_owned)
}

#[test]
fn from_the_user_over_the_root_of_the_repository_down_to_the_directory() {
    let dir = tempfile::tempdir().unwrap();
    let (user, repo) = (dir.path().join("home/mine.md"), dir.path().join("repo"));
    put(&user, "mine");
    put(&dir.path().join("AGENTS.md"), "above the repository");
    fs::create_dir_all(repo.join(".git")).unwrap();
    put(&repo.join("AGENTS.md"), "root");
    put(&repo.join("a/b/AGENTS.md"), "deep");
    put(&repo.join("other/AGENTS.md"), "beside");
    let instructions = ProjectInstructions::new(Some(user.clone()));
    assert_eq!(
        found(&instructions, &repo.join("a/b")),
        [
            is("~|mine.md", &user.display().to_string(), "mine"),
            is(".|AGENTS.md", "AGENTS.md", "root"),
            is("a/b|AGENTS.md", "a/b/AGENTS.md", "deep"),
        ]
    );
    assert_eq!(instructions.files(None).len(), 1);
}

#[test]
fn without_a_repository_only_the_directory_itself_counts() {
    let dir = tempfile::tempdir().unwrap();
    put(&dir.path().join("AGENTS.md"), "above");
    put(&dir.path().join("work/AGENTS.md"), "here");
    assert_eq!(
        found(&ProjectInstructions::new(None), &dir.path().join("work")),
        [is(".|AGENTS.md", "AGENTS.md", "here")]
    );
}

#[test]
fn a_file_is_shown_once_whatever_names_it_has() {
    let dir = tempfile::tempdir().unwrap();
    let names = ["AGENTS.md", "CLAUDE.md", "COPY.md", "OTHER.md"];
    put(&dir.path().join("AGENTS.md"), "one");
    symlink("AGENTS.md", dir.path().join("CLAUDE.md")).unwrap();
    put(&dir.path().join("COPY.md"), "one");
    put(&dir.path().join("OTHER.md"), "two");
    let instructions = ProjectInstructions::new(Some(dir.path().join("AGENTS.md")));
    assert_eq!(
        found(&instructions.named(names.map(str::to_owned)), dir.path()),
        [
            is(
                "~|AGENTS.md",
                &dir.path().join("AGENTS.md").display().to_string(),
                "one"
            ),
            is(".|OTHER.md", "OTHER.md", "two"),
        ]
    );
}

#[test]
fn what_leads_out_of_the_project_or_is_no_file_is_not_there() {
    let dir = tempfile::tempdir().unwrap();
    let repo = dir.path().join("repo");
    fs::create_dir_all(repo.join(".git")).unwrap();
    fs::create_dir_all(repo.join("a/AGENTS.md")).unwrap();
    put(&dir.path().join("secret"), "secret");
    symlink("../secret", repo.join("AGENTS.md")).unwrap();
    assert!(found(&ProjectInstructions::new(None), &repo.join("a")).is_empty());
}

#[test]
fn the_digest_follows_the_content_and_the_scope_does_not() {
    let dir = tempfile::tempdir().unwrap();
    let instructions = ProjectInstructions::new(None);
    let look = |text: &str| {
        put(&dir.path().join("AGENTS.md"), text);
        let file = instructions.files(Some(dir.path())).remove(0);
        (file.scope, file.digest)
    };
    let (one, two) = (look("one"), look("two"));
    assert_eq!(one.0, two.0);
    assert!(one.1 != two.1 && one.1.starts_with("sha256:"));
}
