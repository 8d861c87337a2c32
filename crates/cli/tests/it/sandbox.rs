//! `offshoot __sandbox-exec` for real: what a confined command tries and does not get.
//!
//! Every attempt is also made without a sandbox, where it must work: an attempt that fails by itself proves nothing.

use std::collections::BTreeMap;
use std::fs;
use std::io::Read as _;
use std::net::TcpListener;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::fs::symlink;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use offshoot_tool_api::SandboxMode;
use offshoot_tools::sandbox::{Network, Partial, SandboxPolicy, Support, support};
use tempfile::TempDir;

use crate::support::BINARY;

/// Whether the kernel has all that these tests need; says so if not.
#[expect(
    clippy::print_stderr,
    reason = "whoever runs the tests must know what was not tested"
)]
pub(crate) fn is_testable() -> bool {
    let support = support();
    let testable = matches!(support, Support::Landlock { abi: 6.. });
    if !testable {
        eprintln!("skipped: this needs Landlock ABI 6 (Linux 6.12), but here it is: {support}");
    }
    testable
}

/// A place for commands: `work` and `scratch`, which a policy may open, and `outside`, which none does.
pub(crate) struct Jail {
    _dir: TempDir,
    pub(crate) root: PathBuf,
}

impl Jail {
    pub(crate) fn new() -> Self {
        let dir = TempDir::new().unwrap();
        let root = dir.path().canonicalize().unwrap();
        let jail = Self { _dir: dir, root };
        for directory in ["work", "scratch", "outside/deep"] {
            fs::create_dir_all(jail.root.join(directory)).unwrap();
        }
        jail.put("outside/kept", "kept\n");
        jail.put("outside/deep/kept", "deep\n");
        jail.put("work/mine", "mine\n");
        symlink(jail.root.join("outside"), jail.root.join("work/way-out")).unwrap();
        jail
    }

    fn put(&self, name: &str, content: &str) {
        #[expect(clippy::disallowed_methods, reason = "an input of a test is no log")]
        fs::write(self.root.join(name), content).unwrap();
    }

    pub(crate) fn content(&self, name: &str) -> String {
        fs::read_to_string(self.root.join(name)).unwrap()
    }

    pub(crate) fn has(&self, name: &str) -> bool {
        self.root.join(name).exists()
    }

    /// Everything below a directory: files with their content, all else with its kind.
    pub(crate) fn tree(&self, directory: &str) -> BTreeMap<PathBuf, String> {
        let mut tree = BTreeMap::new();
        let mut open = vec![self.root.join(directory)];
        while let Some(directory) = open.pop() {
            for entry in fs::read_dir(directory).unwrap() {
                let entry = entry.unwrap();
                let kind = entry.file_type().unwrap();
                let what = if kind.is_file() {
                    fs::read_to_string(entry.path()).unwrap()
                } else {
                    format!("{kind:?}")
                };
                if kind.is_dir() {
                    open.push(entry.path());
                }
                tree.insert(entry.path(), what);
            }
        }
        tree
    }

    pub(crate) fn policy(&self, mode: SandboxMode) -> SandboxPolicy {
        let writable: &[&str] = match mode {
            SandboxMode::WorkspaceWrite => &["work", "scratch"],
            _ => &[],
        };
        SandboxPolicy {
            mode,
            writable: writable.iter().map(|root| self.root.join(root)).collect(),
            network: Network::Refused,
            partial: Partial::Refuse,
        }
    }

    /// The command line that runs a script within the limits of the mode.
    fn command_line(&self, mode: SandboxMode, script: &str) -> Vec<String> {
        let policy = serde_json::to_string(&self.policy(mode)).unwrap();
        let launcher = [BINARY, "__sandbox-exec", &policy, "--"];
        let shell = ["bash", "-c", script];
        let line: Vec<&str> = match mode {
            SandboxMode::DangerFullAccess => shell.into(),
            _ => launcher.into_iter().chain(shell).collect(),
        };
        line.into_iter().map(str::to_owned).collect()
    }

    /// Runs a script in `work`, within the limits of the mode.
    fn run(&self, mode: SandboxMode, script: &str) -> Output {
        self.run_line(&self.command_line(mode, script))
    }

    /// The same with a shell as the parent.
    fn run_below_a_shell(&self, mode: SandboxMode, script: &str) -> Output {
        let shell = ["bash", "-c", "\"$@\"; exit $?", "bash"];
        let mut line = shell.map(str::to_owned).to_vec();
        line.extend(self.command_line(mode, script));
        self.run_line(&line)
    }

    fn run_line(&self, line: &[String]) -> Output {
        Command::new(&line[0])
            .args(&line[1..])
            .current_dir(self.root.join("work"))
            .env("OUT", self.root.join("outside"))
            .env("ROOT", &self.root)
            .env("BINARY", BINARY)
            .stdin(Stdio::null())
            .output()
            .unwrap()
    }

    fn succeeds(&self, mode: SandboxMode, script: &str) -> String {
        let output = self.run(mode, script);
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{script}\n{text}{error}");
        text
    }
}

fn launched(policy: &str, program: &str) -> Command {
    let mut command = Command::new(BINARY);
    command.args(["__sandbox-exec", policy, "--", program]);
    command
}

const LIMITED: [SandboxMode; 2] = [SandboxMode::ReadOnly, SandboxMode::WorkspaceWrite];

/// Ways to change what is outside.
const ATTEMPTS: [(&str, &str); 22] = [
    ("create", "echo x > $OUT/new"),
    ("overwrite", "echo x > $OUT/kept"),
    ("append", "echo x >> $OUT/kept"),
    ("open for both", "exec 3<> $OUT/kept; echo x >&3"),
    ("remove", "rm -f $OUT/kept"),
    ("make a directory", "mkdir $OUT/new"),
    ("remove a directory", "rm -r $OUT/deep"),
    ("make a link", "ln -s / $OUT/new"),
    ("make a pipe", "mkfifo $OUT/new"),
    ("through a link that is there", "echo x > way-out/kept"),
    ("through a directory up", "echo x > ../outside/kept"),
    (
        "through a link of one's own",
        "ln -sf $OUT own 2>/dev/null; echo x > own/kept || echo x > $OUT/kept",
    ),
    ("through a hard link", "ln $OUT/kept hard && echo x > hard"),
    ("rename out", "mv mine $OUT/new"),
    ("rename in", "mv $OUT/kept here"),
    ("rename outside", "mv $OUT/kept $OUT/new"),
    ("exchange by copying", "cp mine $OUT/kept"),
    (
        "through one's own root",
        "echo x > /proc/self/root$OUT/kept",
    ),
    (
        "through the root of the parent",
        "echo x > /proc/$PPID/root$OUT/kept || echo x > $OUT/kept",
    ),
    (
        "through one's own directory",
        "cd $OUT && echo x > /proc/self/cwd/kept",
    ),
    (
        "through a file that is open for reading",
        "exec 3< $OUT/kept; echo x > /dev/fd/3",
    ),
    (
        "in another process",
        "(setsid bash -c 'echo x > $OUT/kept; echo done') | grep -q done; sync; ! grep -q kept $OUT/kept",
    ),
];

#[test]
fn nothing_outside_can_be_changed_in_a_limited_mode() {
    if !is_testable() {
        return;
    }
    for (name, script) in ATTEMPTS {
        let free = Jail::new();
        let before = free.tree("outside");
        free.succeeds(SandboxMode::DangerFullAccess, script);
        assert_ne!(free.tree("outside"), before, "{name}: it should work");

        for mode in LIMITED {
            let jail = Jail::new();
            let before = jail.tree("outside");
            let output = jail.run(mode, script);
            assert!(!output.status.success(), "{name} in {mode:?}");
            assert_eq!(jail.tree("outside"), before, "{name} in {mode:?}");
        }
    }
}

#[test]
fn emptying_a_file_by_its_name_is_refused_too() {
    let script = "perl -e 'truncate($ENV{OUT}.\"/kept\", 0) or exit 1'";
    if !is_testable() || !has("perl") {
        return;
    }
    let free = Jail::new();
    free.succeeds(SandboxMode::DangerFullAccess, script);
    assert_eq!(free.content("outside/kept"), "");
    for mode in LIMITED {
        let jail = Jail::new();
        assert!(!jail.run(mode, script).status.success(), "{mode:?}");
        assert_eq!(jail.content("outside/kept"), "kept\n", "{mode:?}");
    }
}

#[test]
fn a_read_only_command_can_change_nothing_at_all_but_runs() {
    if !is_testable() {
        return;
    }
    let jail = Jail::new();
    let before = jail.tree("");
    for script in [
        "echo x > new",
        "echo x > mine",
        "rm mine",
        "chmod u+w . && mkdir new",
        "echo x > $ROOT/scratch/new",
        "mktemp",
        "mktemp -p /dev/shm",
        "mktemp -p /var/tmp",
        "echo x > /proc/self/comm",
    ] {
        let output = jail.run(SandboxMode::ReadOnly, script);
        assert!(!output.status.success(), "{script}");
    }
    let script = "cat mine $OUT/kept; ls / > /dev/null; echo a > /dev/full || true; head -c 1 /dev/zero | wc -c; \
                  sort <(printf '2\\n1\\n') | tee >(cat >&2) | head -n 1";
    let text = jail.succeeds(SandboxMode::ReadOnly, script);
    assert_eq!(text, "mine\nkept\n1\n1\n");
    assert_eq!(jail.tree(""), before);
}

#[test]
fn a_workspace_can_be_worked_in() {
    if !is_testable() {
        return;
    }
    let jail = Jail::new();
    let script = "set -e; mkdir -p a/.git; echo x > a/.git/config; mv a b; ln mine twin; ln -s mine link; mkfifo pipe; \
                  mv mine $ROOT/scratch/moved; truncate -s 1 $ROOT/scratch/moved; cp $OUT/kept copy; rm way-out; \
                  ls; cat $ROOT/scratch/moved";
    let text = jail.succeeds(SandboxMode::WorkspaceWrite, script);
    assert_eq!(text, "b\ncopy\nlink\npipe\ntwin\nm");
    // What a link of the workspace led to is still there.
    assert_eq!(jail.content("outside/kept"), "kept\n");
}

#[test]
fn limits_cannot_be_widened_from_within() {
    if !is_testable() {
        return;
    }
    let wide =
        r#"{"mode":"workspace-write","writable":["/"],"network":"allowed","partial":"report"}"#;
    let again = format!("$BINARY __sandbox-exec '{wide}' -- bash -c 'echo x > $OUT/kept'");
    let device = "mknod disk b 8 0 || mknod disk c 1 3";
    let mount =
        "unshare --user --map-root-user --mount bash -c 'mount --bind $OUT . && echo x > kept'";
    for mode in LIMITED {
        let jail = Jail::new();
        for script in [&*again, device, mount] {
            assert!(!jail.run(mode, script).status.success(), "{script}");
        }
        assert_eq!(jail.content("outside/kept"), "kept\n");
        let privileges = jail.succeeds(mode, "grep NoNewPrivs /proc/self/status");
        assert_eq!(privileges, "NoNewPrivs:\t1\n");
    }
}

#[test]
fn a_confined_command_inherits_nothing_of_its_launcher() {
    if !is_testable() {
        return;
    }
    let jail = Jail::new();
    // Whoever runs the tests may have left files open to them.
    let open = "exec ls /proc/self/fd";
    let usual = jail.succeeds(SandboxMode::DangerFullAccess, open);
    for mode in LIMITED {
        assert_eq!(jail.succeeds(mode, open), usual);
        let stdin = jail.succeeds(mode, "readlink /proc/self/fd/0");
        assert_eq!(stdin, "/dev/null\n");
    }
}

#[test]
fn processes_outside_can_be_neither_signalled_nor_looked_into() {
    if !is_testable() {
        return;
    }
    let scripts = [
        "kill -0 $PPID",
        "cat /proc/$PPID/environ",
        "head -c 1 /proc/$PPID/mem 2>&1 | grep -q 'Input/output'",
        "readlink /proc/$PPID/fd/0",
        "readlink /proc/$PPID/cwd",
    ];
    for script in scripts {
        let jail = Jail::new();
        let free = jail.run_below_a_shell(SandboxMode::DangerFullAccess, script);
        assert!(free.status.success(), "{script}: {free:?}");
        for mode in LIMITED {
            let confined = jail.run_below_a_shell(mode, script);
            assert!(!confined.status.success(), "{script}");
        }
    }
    // One's own are no others.
    let own = "sleep 300 & kill -0 $! && cat /proc/$!/environ > /dev/null && kill $!";
    for mode in LIMITED {
        Jail::new().succeeds(mode, own);
    }
}

#[test]
fn tcp_is_refused_in_both_directions_unless_it_is_allowed() {
    if !is_testable() {
        return;
    }
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let jail = Jail::new();
    let connect = format!("exec 3<> /dev/tcp/127.0.0.1/{port}; echo reached >&3");
    let mut received = String::new();

    jail.succeeds(SandboxMode::DangerFullAccess, &connect);
    listener
        .accept()
        .unwrap()
        .0
        .read_to_string(&mut received)
        .unwrap();
    assert_eq!(received, "reached\n");

    listener.set_nonblocking(true).unwrap();
    for mode in LIMITED {
        let output = jail.run(mode, &connect);
        assert!(!output.status.success(), "{mode:?}");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(said.contains("Permission denied"), "{said}");
    }
    let nobody = listener.accept().unwrap_err();
    assert_eq!(nobody.kind(), std::io::ErrorKind::WouldBlock);

    let mut policy = jail.policy(SandboxMode::WorkspaceWrite);
    policy.network = Network::Allowed;
    let status = launched(&serde_json::to_string(&policy).unwrap(), "bash")
        .args(["-c", &connect])
        .status()
        .unwrap();
    assert!(status.success());

    if has("perl") {
        let listen = "perl -MSocket -e 'socket(S,PF_INET,SOCK_STREAM,0); bind(S,sockaddr_in(0,INADDR_LOOPBACK)) or exit 1'";
        jail.succeeds(SandboxMode::DangerFullAccess, listen);
        for mode in LIMITED {
            assert!(!jail.run(mode, listen).status.success(), "{mode:?}");
        }
    }
}

#[test]
fn abstract_sockets_of_others_are_out_of_reach() {
    if !is_testable() || !has("perl") {
        return;
    }
    let name = format!("offshoot-test-{}", std::process::id());
    let address = SocketAddr::from_abstract_name(&name).unwrap();
    let _listener = UnixListener::bind_addr(&address).unwrap();
    let connect = format!(
        "perl -MSocket -e 'socket(S,PF_UNIX,SOCK_STREAM,0); connect(S,pack_sockaddr_un(\"\\0{name}\")) or exit 1'"
    );
    let jail = Jail::new();
    jail.succeeds(SandboxMode::DangerFullAccess, &connect);
    for mode in LIMITED {
        assert!(!jail.run(mode, &connect).status.success(), "{mode:?}");
    }
}

#[test]
fn a_launcher_that_cannot_do_its_part_says_so_and_runs_nothing() {
    let jail = Jail::new();
    let policy = serde_json::to_string(&jail.policy(SandboxMode::ReadOnly)).unwrap();
    let marker = jail.root.join("work/ran");
    let touch = ["touch", marker.to_str().unwrap()];
    let cases: [(&[&str], &str); 6] = [
        (&[], "error: there is no policy\n"),
        (
            &["{}", "--", touch[0], touch[1]],
            "error: the policy cannot be read: missing field `mode` at line 1 column 2\n",
        ),
        (
            &[
                r#"{"mode":"read-only","writable":[],"network":"refused","partial":"report","root":1}"#,
                "--",
                "true",
            ],
            "error: the policy cannot be read: unknown field `root`, expected one of `mode`, `writable`, `network`, `partial` at line 1 column 79\n",
        ),
        (
            &[&policy, touch[0], touch[1]],
            "error: there must be `--` behind the policy\n",
        ),
        (&[&policy, "--"], "error: there is no command to run\n"),
        (
            &[&policy, "--", "/none/such"],
            "error: cannot run `/none/such`: No such file or directory (os error 2)\n",
        ),
    ];
    for (arguments, said) in cases {
        if arguments.contains(&"/none/such") && !is_testable() {
            continue;
        }
        let output = Command::new(BINARY)
            .arg("__sandbox-exec")
            .args(arguments)
            .stdin(Stdio::null())
            .output()
            .unwrap();
        let seen = (
            output.status.code(),
            String::from_utf8_lossy(&output.stderr).into_owned(),
            String::from_utf8_lossy(&output.stdout).into_owned(),
        );
        assert_eq!(seen, (Some(125), said.to_owned(), String::new()));
    }
    assert!(!marker.exists());
}

#[expect(
    clippy::print_stderr,
    reason = "whoever runs the tests must know what was not tested"
)]
pub(crate) fn has(program: &str) -> bool {
    let found = std::env::var_os("PATH").is_some_and(|path| {
        std::env::split_paths(&path).any(|at| Path::new(&at).join(program).exists())
    });
    if !found {
        eprintln!("skipped in part: there is no `{program}` here");
    }
    found
}
