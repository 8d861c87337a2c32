//! Forks say what the original has done to files behind the cut, and may get a git worktree of their own.

use std::fs;
use std::path::Path;
use std::process::Command;

use insta::assert_snapshot;
use offshoot_test_support::{Reply, ScriptedModelServer, TestHome};

use crate::support::{events, json, json_lines, run, seen, session_of, turn, work};

fn git(dir: &Path, args: &[&str]) -> String {
    let output = Command::new("git")
        .args(["-c", "user.name=A", "-c", "user.email=a@example.com"])
        .args([
            "-c",
            "init.defaultBranch=main",
            "-c",
            "commit.gpgsign=false",
        ])
        .arg("-C")
        .arg(dir)
        .args(args)
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

/// A repository with one commit, in which a session works below its root.
fn repository(home: &TestHome) -> String {
    let work = work(home);
    git(&work, &["init", "--quiet"]);
    fs::create_dir_all(work.join("src")).unwrap();
    crate::support::file(home, "work/src/a.txt", "committed\n");
    git(&work, &["add", "."]);
    git(&work, &["commit", "--quiet", "-m", "first"]);
    git(&work, &["rev-parse", "HEAD"])
}

fn session_in(home: &TestHome, server: &ScriptedModelServer, dir: &Path) -> String {
    let output = turn(home, server)
        .args(["--json", "--cwd", dir.to_str().unwrap(), "Hello."])
        .run()
        .success();
    session_of(&output)
}

#[test]
fn a_fork_gets_a_worktree_and_works_in_it_as_deep_as_its_parent() {
    let home = TestHome::new();
    let head = repository(&home);
    let server = ScriptedModelServer::start([
        Reply::text("Hello."),
        Reply::tool_calls([("call_1", "bash", r#"{"command":"pwd; cat a.txt"}"#)]),
        Reply::text("Done."),
    ]);
    let id = session_in(&home, &server, &work(&home).join("src"));
    // Not committed: it is not in the worktree.
    crate::support::file(&home, "work/src/a.txt", "changed\n");
    let place = home.user_path().join("tree");
    let output = run(
        &home,
        [
            "fork",
            &id,
            "--worktree",
            place.to_str().unwrap(),
            "--id",
            "child",
        ],
    );
    assert_snapshot!(seen(&output.replacing(&head[..12], "[head]")), @r#"
    exit code: 0
    ----- stdout -----
    child
      forked from session-[uuid] at event 12: 13 events inherited
      works in the git worktree `[user]/tree` at commit [head], the last one that the log names before the cut; changes that were not committed are not in it
        13  session/end-seed       inherited up to here

    go on with it: offshoot run --session child PROMPT
    ----- stderr -----
    "#);
    assert_eq!(git(&place, &["rev-parse", "HEAD"]), head);
    let output = turn(&home, &server)
        .args(["--json", "--session", "child", "Where are you?"])
        .run()
        .success();
    let (lines, _) = json_lines(&output);
    let result = lines
        .iter()
        .find(|event| event["type"] == "tool/result")
        .unwrap();
    let said = result["data"]["message"]["content"][0]["text"].to_string();
    assert!(said.contains("tree/src"), "{said}");
    assert!(said.contains("committed"), "{said}");
}

#[test]
fn run_with_fork_makes_one_too_and_says_so_as_json() {
    let home = TestHome::new();
    let head = repository(&home);
    let server = ScriptedModelServer::start([Reply::text("Hello."), Reply::text("Again.")]);
    let id = session_in(&home, &server, &work(&home));
    let place = home.user_path().join("tree");
    let output = turn(&home, &server)
        .args([
            "--fork",
            &id,
            "--worktree",
            place.to_str().unwrap(),
            "And now?",
        ])
        .run()
        .replacing(&head[..12], "[head]");
    assert_snapshot!(seen(&output), @r#"
    exit code: 0
    ----- stdout -----
    Again.
    ----- stderr -----
    note: the fork works in the git worktree `[user]/tree` at commit [head], the last one that the log names before the cut; changes that were not committed are not in it
    session session-[uuid]
    tokens: 14 in, 5 out, 3 from the cache
    "#);
    assert!(place.join("src/a.txt").is_file());

    let place = home.user_path().join("another");
    let report = json(
        &run(
            &home,
            ["fork", &id, "--json", "--worktree", place.to_str().unwrap()],
        )
        .success(),
    );
    assert_eq!(
        report["worktree"],
        serde_json::json!({"path": place, "cwd": place, "commit": head, "at_cut": true})
    );
}

#[test]
fn a_worktree_is_at_the_commit_that_the_log_names_before_the_cut() {
    let home = TestHome::new();
    let first = repository(&home);
    let server = ScriptedModelServer::start([Reply::text("Yes.")]);
    server.repeat_last();
    let id = session_in(&home, &server, &work(&home));
    let cut = events(&home, &id).len() - 1;
    crate::support::file(&home, "work/src/b.txt", "later\n");
    git(&work(&home), &["add", "."]);
    git(&work(&home), &["commit", "--quiet", "-m", "second"]);
    let second = git(&work(&home), &["rev-parse", "HEAD"]);
    drop(
        turn(&home, &server)
            .args(["--session", &id, "And now?"])
            .run()
            .success(),
    );
    for (name, at, commit) in [
        ("early", cut, &first),
        ("late", events(&home, &id).len() - 1, &second),
    ] {
        let place = home.user_path().join(name);
        let report = json(
            &run(
                &home,
                [
                    "fork",
                    &id,
                    "--json",
                    "--at",
                    &at.to_string(),
                    "--worktree",
                    place.to_str().unwrap(),
                ],
            )
            .success(),
        );
        assert_eq!(report["worktree"]["at_cut"], true);
        assert_eq!(report["worktree"]["commit"], **commit);
        assert_eq!(git(&place, &["rev-parse", "HEAD"]), *commit);
    }
}

#[test]
fn without_a_repository_or_with_a_place_that_is_taken_there_is_no_fork() {
    let home = TestHome::new();
    let server = ScriptedModelServer::start([Reply::text("Hello.")]);
    server.repeat_last();
    let outside = session_in(&home, &server, &work(&home));
    let place = home.user_path().join("tree");
    let fork =
        |id: &str, place: &Path| run(&home, ["fork", id, "--worktree", place.to_str().unwrap()]);
    assert_snapshot!(seen(&fork(&outside, &place)), @r#"
    exit code: 1
    ----- stdout -----
    ----- stderr -----
    error: no git worktree could be made at `[user]/tree`: not a git repository (or any of the parent directories): .git
    hint: --worktree needs a session that works in a git repository
    "#);
    repository(&home);
    let inside = session_in(&home, &server, &work(&home));
    let taken = home.user_path().join("taken");
    fs::create_dir_all(taken.join("something")).unwrap();
    assert_snapshot!(seen(&fork(&inside, &taken)), @r#"
    exit code: 1
    ----- stdout -----
    ----- stderr -----
    error: no git worktree could be made at `[user]/taken`: '[user]/taken' already exists
    "#);
    let sessions = json(&run(&home, ["ls", "--json"]).success());
    assert_eq!(sessions.as_array().unwrap().len(), 2);

    // A fork that is refused leaves no worktree behind.
    let place = home.user_path().join("tree");
    let refused = run(
        &home,
        [
            "fork",
            &inside,
            "--id",
            &outside,
            "--worktree",
            place.to_str().unwrap(),
        ],
    );
    assert_eq!(refused.code(), Some(1), "{refused}");
    assert!(!place.exists());
    assert_eq!(git(&work(&home), &["worktree", "list"]).lines().count(), 1);
}

#[test]
fn files_that_the_original_changed_behind_the_cut_are_named() {
    let home = TestHome::new();
    let server = ScriptedModelServer::start([
        Reply::text("Hello."),
        Reply::tool_calls([
            (
                "call_1",
                "write",
                r#"{"file_path":"new.txt","content":"alpha\n"}"#,
            ),
            ("call_2", "bash", r#"{"command":"true"}"#),
        ]),
        Reply::text("Done."),
    ]);
    let id = session_in(&home, &server, &work(&home));
    let first = json(&run(&home, ["ls", "--json"]).success())[0]["events"]
        .as_u64()
        .unwrap();
    let output = turn(&home, &server)
        .args(["--session", &id, "Write."])
        .run();
    drop(output.success());
    let cut = (first - 1).to_string();
    let output = run(&home, ["fork", &id, "--at", &cut, "--id", "child"]).success();
    assert_snapshot!(output.stderr_text(), @r#"
    note: files that the original changed behind the cut, which the fork finds as they are now: `[user]/work/new.txt` (made there)
    note: the original also ran commands behind the cut; what they changed is not known
    "#);
    let report = json(&run(&home, ["fork", &id, "--at", &cut, "--json"]).success());
    let written = work(&home).canonicalize().unwrap().join("new.txt");
    let changed = &report["changed_after_cut"];
    assert_eq!(changed["files"].as_array().unwrap().len(), 1);
    let file = &changed["files"][0];
    assert_eq!(file["path"], written.to_str().unwrap());
    assert_eq!(file["change"], "created");
    assert!(file["digest"].as_str().unwrap().starts_with("sha256:"));
    assert_eq!(changed["shell_commands"], true);
    // Behind the end of the log nothing was done.
    let output = run(&home, ["fork", &id]).success();
    assert_eq!(output.stderr_text(), "");
    // A fork with a worktree does not find the files so.
    git(&work(&home), &["init", "--quiet"]);
    git(
        &work(&home),
        &["commit", "--quiet", "--allow-empty", "-m", "first"],
    );
    let place = home.user_path().join("tree");
    let args = [
        "fork",
        &id,
        "--at",
        &cut,
        "--worktree",
        place.to_str().unwrap(),
    ];
    let said = run(&home, args).success().stderr_text();
    let expected = "note: files that the original changed behind the cut, outside of the worktree of the fork: `";
    assert!(said.starts_with(expected), "{said}");
}

#[test]
fn the_directory_of_the_fork_is_there_also_if_git_does_not_know_of_it() {
    let home = TestHome::new();
    repository(&home);
    let server = ScriptedModelServer::start([Reply::text("Hello."), Reply::text("Yes.")]);
    let empty = work(&home).join("empty");
    fs::create_dir_all(&empty).unwrap();
    let id = session_in(&home, &server, &empty);
    let place = home.user_path().join("tree");
    let args = [
        "--fork",
        &id,
        "--worktree",
        place.to_str().unwrap(),
        "Where?",
    ];
    let output = turn(&home, &server).args(args).run().success();
    assert!(!output.stderr_text().contains("warning"), "{output}");
    assert!(place.join("empty").is_dir());
    // The model is told that what it remembers of files elsewhere is of other files.
    let asked = server.requests()[1].json()["messages"].to_string();
    let main = work(&home).canonicalize().unwrap();
    let told = format!(
        "This is a git worktree, with files of its own: those below `{}` are others.",
        main.display()
    );
    assert_eq!(asked.matches(&told).count(), 1, "{asked}");
}
