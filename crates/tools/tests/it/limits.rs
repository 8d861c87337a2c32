//! What may be changed in each mode, and ways out that do not work.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use offshoot_tool_api::{Escalation, Limits, SandboxMode, ToolArguments};
use offshoot_tools::FileDigest;
use serde_json::{Value, json};

use crate::workbench::{Workbench, refused};

/// A workspace in `work`, and a file beside it that must stay as it is.
struct Confined {
    bench: Workbench,
}

impl Confined {
    fn new(mode: SandboxMode) -> Self {
        let mut bench = Workbench::new();
        bench.put("outside/secret.txt", "keep");
        bench.put("work/a.txt", "one");
        let seen = [
            (bench.path("outside/secret.txt"), FileDigest::of(b"keep")),
            (bench.path("work/a.txt"), FileDigest::of(b"one")),
        ];
        bench.set.observations().restore(seen);
        bench.cx.limits = Limits {
            mode,
            workspace: vec![bench.path("work")],
        };
        bench.cx.cwd = Some(bench.path("work"));
        Self { bench }
    }

    fn asks(&self, tool: &str, arguments: &Value) -> Option<String> {
        let arguments = ToolArguments::from_model(arguments.to_string());
        let asked = self.bench.tool(tool).escalation(&arguments, &self.bench.cx);
        asked.map(|Escalation { reason }| self.bench.shown(&reason))
    }

    /// What is asked about a write, and how it ends if it is made all the same.
    async fn write(&self, path: impl AsRef<Path>) -> (Option<String>, String) {
        let arguments = json!({ "file_path": path.as_ref(), "content": "changed" });
        let asked = self.asks("write", &arguments);
        let ended = match self.bench.run("write", arguments).await {
            Ok(_) => "done".to_owned(),
            Err(error) => error.code().to_owned(),
        };
        (asked, ended)
    }

    fn assert_nothing_outside_changed(&self) {
        assert_eq!(self.bench.content("outside/secret.txt"), "keep");
        let names: Vec<_> = fs::read_dir(self.bench.path("outside"))
            .unwrap()
            .map(|entry| entry.unwrap().file_name())
            .collect();
        assert_eq!(names, ["secret.txt"]);
    }
}

fn asked(reason: &str) -> (Option<String>, String) {
    (Some(reason.to_owned()), "SANDBOX_DENIED".to_owned())
}

fn unasked(ended: &str) -> (Option<String>, String) {
    (None, ended.to_owned())
}

#[tokio::test]
async fn the_workspace_may_be_changed_unasked() {
    let confined = Confined::new(SandboxMode::WorkspaceWrite);
    assert_eq!(confined.write("a.txt").await, unasked("done"));
    assert_eq!(confined.write("new/deep/b.txt").await, unasked("done"));
    assert_eq!(confined.write("new/../c.txt").await, unasked("done"));
    symlink("new/deep", confined.bench.path("work/inner")).unwrap();
    assert_eq!(confined.write("inner/d.txt").await, unasked("done"));
    assert_eq!(confined.bench.content("work/new/deep/d.txt"), "changed");
}

#[tokio::test]
async fn every_way_out_of_the_workspace_is_asked_about_and_closed() {
    let confined = Confined::new(SandboxMode::WorkspaceWrite);
    let bench = &confined.bench;
    symlink("../outside", bench.path("work/out")).unwrap();
    symlink(bench.path("outside/secret.txt"), bench.path("work/file")).unwrap();
    symlink("../outside/new.txt", bench.path("work/dangling")).unwrap();
    symlink("out", bench.path("work/twice")).unwrap();
    fs::create_dir(bench.path("work-too")).unwrap();
    let outside = "it is outside the workspace (mode workspace-write)";
    for (path, leads) in [
        ("../outside/secret.txt", "outside/secret.txt"),
        ("out/secret.txt", "outside/secret.txt"),
        ("out/new.txt", "outside/new.txt"),
        ("out/new/deep.txt", "outside/new/deep.txt"),
        ("twice/secret.txt", "outside/secret.txt"),
        ("file", "outside/secret.txt"),
        ("dangling", "outside/new.txt"),
        ("out/../outside/secret.txt", "outside/secret.txt"),
        ("../work-too/a.txt", "work-too/a.txt"),
        ("../new.txt", "new.txt"),
    ] {
        let reason =
            format!("write `[dir]/work/{path}`, which leads to `[dir]/{leads}`: {outside}");
        assert_eq!(confined.write(path).await, asked(&reason), "{path}");
    }
    let absolute = bench.path("outside/secret.txt");
    assert_eq!(
        confined.write(absolute).await,
        asked(&format!("write `[dir]/outside/secret.txt`: {outside}"))
    );
    // `..` behind something that does not exist leads nowhere.
    assert_eq!(
        confined.write("none/../../outside/x").await,
        unasked("FS_NOT_FOUND")
    );
    assert_eq!(
        confined.write("a.txt/../../outside/x").await,
        unasked("FS_NOT_A_DIRECTORY")
    );
    assert_eq!(confined.write("..").await, unasked("FS_IS_A_DIRECTORY"));
    confined.assert_nothing_outside_changed();
}

#[tokio::test]
async fn all_tools_that_change_files_ask_and_refuse() {
    let confined = Confined::new(SandboxMode::WorkspaceWrite);
    let path = "../outside/secret.txt";
    for (tool, verb, arguments) in [
        (
            "write",
            "write",
            json!({ "file_path": path, "content": "x" }),
        ),
        (
            "edit",
            "edit",
            json!({ "file_path": path, "old_string": "keep", "new_string": "x" }),
        ),
        (
            "multi_edit",
            "edit",
            json!({ "file_path": path, "edits": [{ "old_string": "keep", "new_string": "x" }] }),
        ),
    ] {
        assert_eq!(
            confined.asks(tool, &arguments).unwrap(),
            format!(
                "{verb} `[dir]/work/{path}`, which leads to `[dir]/outside/secret.txt`: it is outside the workspace (mode workspace-write)"
            )
        );
        assert_eq!(
            confined.bench.refuses(tool, arguments).await,
            refused(
                "SANDBOX_DENIED",
                &format!(
                    "cannot {verb} `[dir]/work/{path}`: it is outside the workspace (mode workspace-write)"
                )
            )
        );
    }
    confined.assert_nothing_outside_changed();
}

#[tokio::test]
async fn in_read_only_mode_nothing_may_be_changed_and_everything_read() {
    let confined = Confined::new(SandboxMode::ReadOnly);
    assert_eq!(
        confined.write("a.txt").await,
        asked("write `[dir]/work/a.txt`: nothing may be changed (mode read-only)")
    );
    assert_eq!(
        confined
            .bench
            .refuses("write", json!({ "file_path": "b.txt", "content": "" }))
            .await,
        refused(
            "SANDBOX_DENIED",
            "cannot write `[dir]/work/b.txt`: nothing may be changed (mode read-only)"
        )
    );
    assert_eq!(confined.bench.content("work/a.txt"), "one");
    confined.bench.read("a.txt").await;
    confined.bench.read("../outside/secret.txt").await;
}

#[tokio::test]
async fn with_full_access_or_after_an_allowed_escalation_everything_may_be_changed() {
    let mut confined = Confined::new(SandboxMode::DangerFullAccess);
    assert_eq!(
        confined.write("../outside/secret.txt").await,
        unasked("done")
    );
    confined.bench.cx.limits = Limits::none();
    assert_eq!(
        confined.write("../outside/new/b.txt").await,
        unasked("done")
    );
    assert_eq!(confined.bench.content("outside/new/b.txt"), "changed");
}

#[tokio::test]
async fn directories_for_temporary_files_belong_to_every_workspace() {
    let mut confined = Confined::new(SandboxMode::WorkspaceWrite);
    let scratch = confined.bench.path("scratch");
    fs::create_dir(&scratch).unwrap();
    assert!(confined.write("../scratch/a.txt").await.0.is_some());
    confined.bench.set = confined.bench.set.clone().with_scratch([scratch]);
    assert_eq!(confined.write("../scratch/a.txt").await, unasked("done"));
    confined.bench.cx.limits.mode = SandboxMode::ReadOnly;
    assert!(confined.write("../scratch/b.txt").await.0.is_some());
}

#[tokio::test]
async fn without_a_named_workspace_it_is_the_directory_of_the_session() {
    let mut confined = Confined::new(SandboxMode::WorkspaceWrite);
    confined.bench.cx.limits.workspace.clear();
    assert_eq!(confined.write("a.txt").await, unasked("done"));
    assert!(confined.write("../outside/secret.txt").await.0.is_some());
    confined.bench.cx.cwd = None;
    assert!(
        confined
            .write(confined.bench.path("work/b.txt"))
            .await
            .0
            .is_some()
    );
}

#[tokio::test]
async fn a_workspace_in_a_place_that_commands_may_change_cannot_be_moved_elsewhere() {
    let mut confined = Confined::new(SandboxMode::WorkspaceWrite);
    let bench = &mut confined.bench;
    fs::create_dir_all(bench.path("scratch/work")).unwrap();
    bench.set = bench.set.clone().with_scratch([bench.path("scratch")]);
    bench.cx.limits.workspace = vec![bench.path("scratch/work")];
    bench.cx.cwd = Some(bench.path("scratch/work"));
    assert_eq!(confined.write("a.txt").await, unasked("done"));
    // A command has put a link in the place of the workspace.
    let bench = &confined.bench;
    fs::remove_dir_all(bench.path("scratch/work")).unwrap();
    symlink(bench.path("outside"), bench.path("scratch/work")).unwrap();
    assert_eq!(
        confined.write("secret.txt").await,
        asked(
            "write `[dir]/scratch/work/secret.txt`, which leads to `[dir]/outside/secret.txt`: it is outside the workspace (mode workspace-write)"
        )
    );
    confined.assert_nothing_outside_changed();
}

/// Somebody swaps a directory and a link to the outside all the time, between the look at the path and the write.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_link_that_appears_while_a_file_is_written_leads_nowhere() {
    let confined = Confined::new(SandboxMode::WorkspaceWrite);
    let bench = &confined.bench;
    fs::create_dir(bench.path("work/inner")).unwrap();
    symlink("../outside", bench.path("work/link")).unwrap();
    let stop = AtomicBool::new(false);
    let mut written = 0;
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let [inner, link, aside] =
                ["inner", "link", "aside"].map(|name| bench.path(&format!("work/{name}")));
            while !stop.load(Ordering::Relaxed) {
                for (from, to) in [
                    (&inner, &aside),
                    (&link, &inner),
                    (&inner, &link),
                    (&aside, &inner),
                ] {
                    move_to(from, to);
                }
            }
        });
        let handle = tokio::runtime::Handle::current();
        tokio::task::block_in_place(|| {
            for round in 0..300 {
                let arguments =
                    json!({ "file_path": format!("inner/{round}.txt"), "content": "changed" });
                match handle.block_on(bench.run("write", arguments)) {
                    Ok(_) => written += 1,
                    Err(error) => assert!(
                        [
                            "SANDBOX_DENIED",
                            "FS_IO",
                            "FS_NOT_FOUND",
                            "FS_NOT_A_DIRECTORY"
                        ]
                        .contains(&error.code()),
                        "{error:?}"
                    ),
                }
            }
        });
        stop.store(true, Ordering::Relaxed);
    });
    assert!(written > 0, "no write found its directory");
    confined.assert_nothing_outside_changed();
}

#[expect(
    clippy::disallowed_methods,
    reason = "nothing is published here: this is what an attacker does"
)]
fn move_to(from: &Path, to: &Path) {
    // Meanwhile a write may have made a directory there, and then this one stays where it is.
    let _moved_or_not = fs::rename(from, to);
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn the_environment_of_this_process_cannot_be_looked_at_as_a_file() {
    let bench = Workbench::new();
    let environment = "/proc/self/environ";
    let reads = json!({ "file_path": environment });
    let searches = json!({ "pattern": "PATH", "path": environment });
    for (tool, arguments) in [("read", reads), ("grep", searches)] {
        let error = bench.run(tool, arguments).await.unwrap_err();
        assert_eq!(error.code(), "FS_BINARY_FILE", "{tool}: {error}");
    }
    let found = json!({ "pattern": "PATH=", "path": "/proc/self", "include": "environ" });
    let found = bench.said("grep", found).await;
    assert!(found.starts_with("No lines match"), "{found}");
}
