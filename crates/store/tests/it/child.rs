//! Parts of tests that need a process of their own: this very program, told by a variable what to do.

use std::env;
use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::Arc;

use offshoot_format::Container;
use offshoot_store::{JsonlStore, Persistence as _};

use crate::faulty::{Fault, FaultyDisk};
use crate::journal::Texts;
use crate::support::{NOW, events, header};
use crate::writing::Writing;

const JOB: &str = "OFFSHOOT_STORE_TEST_JOB";
const ROOT: &str = "OFFSHOOT_STORE_TEST_ROOT";
const CONTAINER: &str = "OFFSHOOT_STORE_TEST_CONTAINER";
const STEP: &str = "OFFSHOOT_STORE_TEST_STEP";
const SEED: &str = "OFFSHOOT_STORE_TEST_SEED";
const READY: &str = "the child is ready";

/// What a child process runs. On its own it has nothing to do.
#[test]
fn entry() {
    let Ok(job) = env::var(JOB) else {
        return;
    };
    let root = env::var_os(ROOT).unwrap();
    let container = match env::var(CONTAINER).unwrap().as_str() {
        "raw" => Container::Raw,
        _ => Container::Zstd,
    };
    let store = JsonlStore::new(&root, container);
    let _held: Box<dyn std::any::Any> = match job.as_str() {
        "repair" => {
            let store =
                JsonlStore::on(&root, container, FaultyDisk::new(Fault::Kill, number(STEP)));
            store.open(&"demo".into(), NOW).unwrap();
            return;
        }
        "unreadable" => {
            crate::locks::one_unreadable_directory_hides_nothing_else();
            println!("{READY}");
            return;
        }
        "stream" => Box::new(crate::journal::stream_until_killed(&store)),
        "torture" => {
            let store = store.settling(Arc::new(Texts));
            crate::torture::work(&store, number(SEED));
            return;
        }
        "contend" => {
            crate::processes::work(&store, number(SEED));
            return;
        }
        "read_only" => {
            crate::unwritable::a_home_that_cannot_be_written_is_read_and_named();
            println!("{READY}");
            return;
        }
        "full" => {
            crate::unwritable::a_full_disk_takes_nothing_back(Path::new(&root));
            println!("{READY}");
            return;
        }
        "limited" => {
            crate::unwritable::a_limit_on_files_stops_an_append(Path::new(&root));
            println!("{READY}");
            return;
        }
        "read-only" => {
            crate::trash::a_home_that_cannot_be_written();
            println!("{READY}");
            return;
        }
        "hold" => Box::new(store.open(&"demo".into(), NOW).unwrap()),
        "feed" => {
            let mut writing = Writing::create(&store);
            writing.append(1);
            println!("{READY}");
            for count in std::io::stdin().lines() {
                writing.append(count.unwrap().parse().unwrap());
                println!("{READY}");
            }
            return;
        }
        "create" => {
            let mut writer = store.create(&header("demo")).unwrap();
            writer.append(&events(2)).unwrap();
            Box::new(writer)
        }
        other => panic!("no such job: {other}"),
    };
    println!("{READY}");
    // Until the parent closes the pipe, or kills this process.
    std::io::stdin().read_to_end(&mut Vec::new()).unwrap();
}

fn number(name: &str) -> u64 {
    env::var(name).unwrap().parse().unwrap()
}

/// Starts a job that reports on its standard output and depends on a seed.
pub(crate) fn reporting(job: &str, root: &Path, container: Container, seed: u64) -> Child {
    command(job, root, container)
        .env(SEED, seed.to_string())
        .stdout(Stdio::piped())
        .stderr(Stdio::inherit())
        .spawn()
        .unwrap()
}

/// Runs a job at the end of a shell command, which finds the rest of its own command line in `"$0" "$@"`. Returns whether
/// it went well, and what the shell had to say.
pub(crate) fn by_shell(job: &str, root: &Path, shell: &[&str]) -> (bool, String) {
    let job = command(job, root, Container::Zstd);
    let mut command = Command::new(shell[0]);
    command.args(&shell[1..]).arg(job.get_program());
    command.args(job.get_args());
    command.envs(
        job.get_envs()
            .filter_map(|(name, value)| Some((name, value?))),
    );
    let output = command.output().unwrap();
    let ready = String::from_utf8_lossy(&output.stdout).contains(READY);
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    (output.status.success() && ready, errors)
}

fn command(job: &str, root: &Path, container: Container) -> Command {
    command_of(&env::current_exe().unwrap(), job, root, container)
}

fn command_of(binary: &Path, job: &str, root: &Path, container: Container) -> Command {
    let mut command = Command::new(binary);
    command
        .args(["--exact", "child::entry", "--nocapture", "--test-threads=1"])
        .env(JOB, job)
        .env(ROOT, root)
        .env(
            CONTAINER,
            if container == Container::Raw {
                "raw"
            } else {
                "zstd"
            },
        )
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    command
}

/// Repairs session `demo` in a process that is killed at a step. Whether it was.
pub(crate) fn repair(root: &Path, container: Container, step: u64) -> bool {
    let status = command("repair", root, container)
        .env(STEP, step.to_string())
        .status()
        .unwrap();
    let killed = status.signal() == Some(9);
    assert!(killed || status.success(), "step {step}: {status}");
    killed
}

/// Runs a job under an account that file modes apply to. Whether it went well.
pub(crate) fn as_nobody(job: &str) -> bool {
    // The account may not be let into the directory that this binary was built in: it gets a copy.
    let dir = tempfile::tempdir().unwrap();
    let open = || fs::Permissions::from_mode(0o755);
    fs::set_permissions(dir.path(), open()).unwrap();
    let binary = dir.path().join("it");
    fs::copy(env::current_exe().unwrap(), &binary).unwrap();
    fs::set_permissions(&binary, open()).unwrap();
    let mut command = command_of(&binary, job, Path::new("/"), Container::Raw);
    command.uid(65_534).gid(65_534).stdout(Stdio::piped());
    command.current_dir("/");
    let output = command.output().unwrap();
    // A name that selects no test would look like success too.
    output.status.success() && String::from_utf8_lossy(&output.stdout).contains(READY)
}

/// A process that has session `demo` open for writing.
#[derive(Debug)]
pub(crate) struct Holder(Child);

impl Holder {
    pub(crate) fn start(job: &str, root: &Path, container: Container) -> Self {
        let mut child = command(job, root, container)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let ready = lines.map_while(Result::ok).any(|line| line.contains(READY));
        assert!(ready, "the child could not open the session");
        Self(child)
    }

    /// Its process.
    pub(crate) fn id(&self) -> u32 {
        self.0.id()
    }

    /// SIGKILL.
    pub(crate) fn kill(mut self) {
        self.0.kill().unwrap();
        assert_eq!(self.0.wait().unwrap().signal(), Some(9));
    }

    /// Lets it close the session and end.
    pub(crate) fn finish(mut self) {
        let mut stdin = self.0.stdin.take().unwrap();
        stdin.flush().unwrap();
        drop(stdin);
        // Its last lines have nobody to read them, so only that it ended counts.
        self.0.wait().unwrap();
    }
}

/// A process that writes session `demo`, which has one event at first, as it is told.
#[derive(Debug)]
pub(crate) struct Feeder {
    child: Child,
    stdout: BufReader<ChildStdout>,
}

impl Feeder {
    pub(crate) fn start(root: &Path, container: Container) -> Self {
        let mut child = command("feed", root, container)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let stdout = BufReader::new(child.stdout.take().unwrap());
        let mut feeder = Self { child, stdout };
        feeder.wait();
        feeder
    }

    /// Has it append a batch of so many events; returns when they are acknowledged.
    pub(crate) fn append(&mut self, count: usize) {
        let stdin = self.child.stdin.as_mut().unwrap();
        writeln!(stdin, "{count}").unwrap();
        self.wait();
    }

    /// SIGKILL.
    pub(crate) fn kill(mut self) {
        self.child.kill().unwrap();
        assert_eq!(self.child.wait().unwrap().signal(), Some(9));
    }

    fn wait(&mut self) {
        let mut lines = self.stdout.by_ref().lines().map_while(Result::ok);
        assert!(lines.any(|line| line.contains(READY)), "the child writes");
    }
}
