//! The tool `bash` with the binary as its launcher, called as an agent calls it.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use offshoot_tool_api::{Limits, SandboxMode, ToolArguments, ToolContext, ToolError, ToolOutput};
use offshoot_tools::sandbox::{Network, SandboxLauncher, temporary_directories};
use offshoot_tools::{EnvironmentFilter, ShellOptions, ToolSet};
use serde_json::{Value, json};

use crate::sandbox::{Jail, has, is_testable};
use crate::support::{BINARY, Fifo};

fn options() -> ShellOptions {
    ShellOptions {
        launcher: Some(SandboxLauncher::new(BINARY, [SandboxLauncher::COMMAND])),
        ..ShellOptions::default()
    }
}

/// Tools whose temporary files are in `scratch`.
fn tools(jail: &Jail, options: ShellOptions) -> ToolSet {
    ToolSet::default()
        .with_scratch([jail.root.join("scratch")])
        .with_shell(options)
}

fn context(jail: &Jail, mode: SandboxMode) -> ToolContext {
    let work = jail.root.join("work");
    let mut cx = ToolContext::new("call-1").in_directory(&work);
    cx.limits = Limits {
        mode,
        workspace: vec![work],
    };
    cx
}

async fn call(
    tools: &ToolSet,
    name: &str,
    cx: &ToolContext,
    arguments: Value,
) -> Result<ToolOutput, ToolError> {
    let mut tools = tools.tools().into_iter();
    let tool = tools.find(|tool| tool.spec().name == name).unwrap();
    let arguments = ToolArguments::from_model(arguments.to_string());
    tool.execute(arguments, cx).await
}

/// What the model reads, with the jail's place shown as `[jail]`.
async fn bash(jail: &Jail, tools: &ToolSet, mode: SandboxMode, command: &str) -> String {
    let arguments = json!({ "command": command });
    let text = match call(tools, "bash", &context(jail, mode), arguments).await {
        Ok(output) => output.text,
        Err(error) => format!("{}: {}", error.code(), error.message()),
    };
    text.replace(jail.root.to_str().unwrap(), "[jail]")
}

#[tokio::test]
async fn each_mode_lets_a_command_change_what_it_promises_and_says_what_it_refused() {
    if !is_testable() {
        return;
    }
    let command =
        "for at in . ../scratch ../outside; do echo x > $at/new && echo $at; done; exit 3";
    let refused = |mode, limits| {
        format!(
            "\n[exit code: 3]\n[This ran in the sandbox `{mode}`: {limits}, and TCP is refused. If that is why it failed, \
             and it is needed, call bash again with sandbox_permissions \"require_escalated\" and a justification.]"
        )
    };
    let cases = [
        (
            SandboxMode::ReadOnly,
            "[stderr]\n".to_owned()
                + "bash: line 1: ./new: Permission denied\nbash: line 1: ../scratch/new: Permission denied\n\
                   bash: line 1: ../outside/new: Permission denied"
                + &refused("read-only", "no file may be changed"),
        ),
        (
            SandboxMode::WorkspaceWrite,
            ".\n../scratch\n[stderr]\nbash: line 1: ../outside/new: Permission denied".to_owned()
                + &refused(
                    "workspace-write",
                    "files may be changed only in `[jail]/work`, `[jail]/scratch`",
                ),
        ),
        (
            SandboxMode::DangerFullAccess,
            ".\n../scratch\n../outside\n[exit code: 3]".to_owned(),
        ),
    ];
    for (mode, expected) in cases {
        let jail = Jail::new();
        let text = bash(&jail, &tools(&jail, options()), mode, command).await;
        assert_eq!(text, expected, "{mode:?}");
        assert_eq!(jail.has("work/new"), mode != SandboxMode::ReadOnly);
        assert_eq!(jail.has("scratch/new"), mode != SandboxMode::ReadOnly);
        assert_eq!(
            jail.has("outside/new"),
            mode == SandboxMode::DangerFullAccess
        );
    }
}

#[tokio::test]
async fn the_usual_places_for_temporary_files_are_writable_in_a_workspace() {
    if !is_testable() {
        return;
    }
    let jail = Jail::new();
    let tools = tools(&jail, options()).with_scratch(temporary_directories());
    let command = "set -e; for at in /tmp /var/tmp /dev/shm; do file=$(mktemp -p $at); rm $file; done; echo fine";
    let text = bash(&jail, &tools, SandboxMode::WorkspaceWrite, command).await;
    assert_eq!(text, "fine\n");
    let text = bash(&jail, &tools, SandboxMode::ReadOnly, command).await;
    assert!(text.contains("[exit code: 1]"), "{text}");
}

#[tokio::test]
async fn front_ends_learn_which_limits_held() {
    if !is_testable() {
        return;
    }
    let jail = Jail::new();
    let options = ShellOptions {
        network: Network::Allowed,
        ..options()
    };
    let tools = tools(&jail, options);
    for (mode, sandbox) in [
        (
            SandboxMode::ReadOnly,
            json!({ "mode": "read-only", "network": "refused" }),
        ),
        (
            SandboxMode::WorkspaceWrite,
            json!({ "mode": "workspace-write", "network": "allowed" }),
        ),
    ] {
        let output = call(
            &tools,
            "bash",
            &context(&jail, mode),
            json!({ "command": "true" }),
        )
        .await;
        let meta: Value = serde_json::from_str(output.unwrap().meta.unwrap().get()).unwrap();
        let cwd = jail.root.join("work");
        assert_eq!(meta, json!({ "cwd": cwd, "sandbox": sandbox }));
    }
}

#[tokio::test]
async fn a_root_that_a_command_replaced_opens_nothing_to_the_next_one() {
    if !is_testable() {
        return;
    }
    let jail = Jail::new();
    fs::create_dir(jail.root.join("work/tmp")).unwrap();
    let tools = tools(&jail, options()).with_scratch([jail.root.join("work/tmp")]);
    let mode = SandboxMode::WorkspaceWrite;
    let replace = "touch tmp/a && rm -r tmp && ln -s $PWD/../outside tmp";
    assert_eq!(bash(&jail, &tools, mode, replace).await, "(no output)");
    let text = bash(&jail, &tools, mode, "echo x > tmp/b").await;
    let refused = "[stderr]\nbash: line 1: tmp/b: Permission denied\n[exit code: 1]\n[This ran in the sandbox \
                   `workspace-write`: files may be changed only in `[jail]/work`, and TCP is refused.";
    assert!(text.starts_with(refused), "{text}");
    assert!(!jail.has("outside/b"));
}

#[tokio::test]
async fn without_a_launcher_that_confines_nothing_runs() {
    let jail = Jail::new();
    let launchers = [
        (
            vec!["/none/such"],
            "cannot start the launcher: No such file or directory (os error 2)",
        ),
        (vec!["true"], "the launcher ended before the limits held"),
        (
            vec!["bash", "-c", "echo nonsense >&0"],
            "the launcher said something that makes no sense",
        ),
        (
            vec![BINARY, "--home"],
            "the launcher ended before the limits held",
        ),
    ];
    for (launcher, why) in launchers {
        let options = ShellOptions {
            launcher: Some(SandboxLauncher::new(launcher[0], &launcher[1..])),
            ..options()
        };
        for mode in [SandboxMode::ReadOnly, SandboxMode::WorkspaceWrite] {
            let text = bash(&jail, &tools(&jail, options.clone()), mode, "echo x > ran").await;
            let expected = format!(
                "SANDBOX_UNAVAILABLE: nothing was run, because the limits of `{}` cannot be put on a command: {why}\n\
                 To run it without limits, call bash again with sandbox_permissions \"require_escalated\" and a \
                 justification; the person can also choose the mode `danger-full-access`.",
                mode.as_str()
            );
            assert_eq!(text, expected, "{launcher:?}");
            assert!(!jail.has("work/ran"));
        }
    }
}

#[tokio::test]
async fn secrets_of_this_process_do_not_reach_a_command() {
    if !is_testable() {
        return;
    }
    let jail = Jail::new();
    let command = "echo ${CARGO_MANIFEST_DIR:+known} ${CARGO_PKG_NAME-unknown}";
    for mode in [
        SandboxMode::ReadOnly,
        SandboxMode::WorkspaceWrite,
        SandboxMode::DangerFullAccess,
    ] {
        let options = ShellOptions {
            environment: EnvironmentFilter::default().withholding(["CARGO_PKG_NAME"]),
            ..options()
        };
        let text = bash(&jail, &tools(&jail, options), mode, command).await;
        assert_eq!(text, "known unknown\n", "{mode:?}");
    }
}

#[tokio::test]
async fn a_pipe_that_is_closed_ends_its_writer_in_a_sandbox_too() {
    if !is_testable() {
        return;
    }
    let jail = Jail::new();
    let command = "yes | head -n 1; echo ${PIPESTATUS[0]}";
    let text = bash(
        &jail,
        &tools(&jail, options()),
        SandboxMode::ReadOnly,
        command,
    )
    .await;
    assert_eq!(text, "y\n141\n");
}

#[tokio::test]
async fn a_confined_job_keeps_its_limits_and_is_killed_with_all_it_started() {
    if !is_testable() {
        return;
    }
    let jail = Jail::new();
    let fifo = Fifo::new(&jail.root.join("work"), "alive");
    let tools = tools(&jail, options());
    let cx = context(&jail, SandboxMode::WorkspaceWrite);
    let command = "echo x > ../outside/new; setsid sleep 300 & echo $! > pids; sleep 300 & echo $! $$ >> pids; \
                   echo ready > alive; wait";
    let arguments = json!({ "command": command, "run_in_background": true });
    let started = call(&tools, "bash", &cx, arguments).await.unwrap();
    assert_eq!(started.text, "started background job job-1");
    tokio::task::spawn_blocking(move || assert_eq!(fifo.read(), "ready\n"))
        .await
        .unwrap();

    let killed = call(&tools, "job_kill", &cx, json!({ "job_id": "job-1" })).await;
    assert_eq!(
        killed.unwrap().text,
        "killed background job job-1\n[stderr]\nbash: line 1: ../outside/new: Permission denied\n[killed]"
    );
    assert!(!jail.has("outside/new"));
    for pid in jail.content("work/pids").split_whitespace() {
        ends(pid);
    }
}

/// Waits until a process has ended, or is only waited for.
fn ends(pid: &str) {
    for _ in 0..200_000 {
        let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
        if !status.contains("State:") || status.contains("State:\tZ") {
            return;
        }
        std::thread::yield_now();
    }
    panic!("process {pid} goes on");
}

#[tokio::test]
async fn a_workspace_that_is_a_link_is_the_directory_it_leads_to() {
    if !is_testable() {
        return;
    }
    let jail = Jail::new();
    let link: PathBuf = jail.root.join("link");
    symlink(jail.root.join("work"), &link).unwrap();
    let mut cx = context(&jail, SandboxMode::WorkspaceWrite).in_directory(&link);
    cx.limits.workspace = vec![link];
    let tools = tools(&jail, options());
    let output = call(
        &tools,
        "bash",
        &cx,
        json!({ "command": "echo x > new && cat new" }),
    )
    .await;
    assert_eq!(output.unwrap().text, "x\n");
    assert!(jail.has("work/new"));
}

#[tokio::test]
async fn git_works_in_a_workspace() {
    if !is_testable() || !has("git") {
        return;
    }
    let jail = Jail::new();
    let command = "export HOME=$PWD; git init -q . && git add mine && \
                   git -c user.name=a -c user.email=a@b commit -qm first && git log --format=%s";
    let text = bash(
        &jail,
        &tools(&jail, options()),
        SandboxMode::WorkspaceWrite,
        command,
    )
    .await;
    assert_eq!(text, "first\n");
    assert!(Path::new(&jail.root).join("work/.git/HEAD").exists());
}
