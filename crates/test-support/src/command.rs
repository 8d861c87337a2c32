//! Running the built binary and looking at what it says.

use std::env;
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::path::PathBuf;
use std::process::{ExitStatus, Stdio};
use std::thread;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::process::Command;
use tokio::runtime;

use crate::TestHome;

/// Variables that would let the surroundings of the tests decide what a command does.
const CLEARED_PREFIXES: [&str; 5] = [
    "OFFSHOOT_",
    "OPENAI_",
    "DEEPSEEK_",
    "ANTHROPIC_",
    "OPENROUTER_",
];
const CLEARED: [&str; 4] = [
    "XDG_CONFIG_HOME",
    "XDG_CACHE_HOME",
    "XDG_DATA_HOME",
    "XDG_STATE_HOME",
];

/// One run of a binary in a [`TestHome`].
///
/// The command gets `--home <home>` before its own arguments. It inherits the environment except for provider and
/// project variables; `HOME` points into the test home. Its standard input is empty unless [`stdin`](Self::stdin)
/// says otherwise.
#[derive(Debug)]
pub struct OffshootCommand {
    binary: PathBuf,
    home: PathBuf,
    user: PathBuf,
    args: Vec<OsString>,
    env: Vec<(OsString, OsString)>,
    current_dir: Option<PathBuf>,
    stdin: Vec<u8>,
    timeout: Duration,
}

impl OffshootCommand {
    /// A run of `binary`, which a test of the binary's own package knows from `env!("CARGO_BIN_EXE_offshoot")`.
    pub fn new(binary: impl Into<PathBuf>, home: &TestHome) -> Self {
        Self {
            binary: binary.into(),
            home: home.path().to_owned(),
            user: home.user_path().to_owned(),
            args: Vec::new(),
            env: Vec::new(),
            current_dir: None,
            stdin: Vec::new(),
            timeout: Duration::from_secs(60),
        }
    }

    /// Adds one argument.
    #[must_use]
    pub fn arg(mut self, arg: impl AsRef<OsStr>) -> Self {
        self.args.push(arg.as_ref().to_owned());
        self
    }

    /// Adds arguments.
    #[must_use]
    pub fn args(mut self, args: impl IntoIterator<Item = impl AsRef<OsStr>>) -> Self {
        self.args
            .extend(args.into_iter().map(|arg| arg.as_ref().to_owned()));
        self
    }

    /// Sets a variable, after the clearing.
    #[must_use]
    pub fn env(mut self, name: impl AsRef<OsStr>, value: impl AsRef<OsStr>) -> Self {
        self.env
            .push((name.as_ref().to_owned(), value.as_ref().to_owned()));
        self
    }

    /// Runs in this directory instead of the test's own.
    #[must_use]
    pub fn current_dir(mut self, dir: impl Into<PathBuf>) -> Self {
        self.current_dir = Some(dir.into());
        self
    }

    /// What the command can read from its standard input.
    #[must_use]
    pub fn stdin(mut self, bytes: impl Into<Vec<u8>>) -> Self {
        self.stdin = bytes.into();
        self
    }

    /// How long the command may take; a minute unless set.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// Runs the command to its end. Works in synchronous and asynchronous tests.
    ///
    /// # Panics
    /// If the command cannot be started, or has not ended in time; it is then killed, and the panic shows what it
    /// said until then.
    pub fn run(self) -> CommandOutput {
        // A thread of its own, because a test may already be inside a runtime.
        let run = thread::spawn(move || {
            let runtime = runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .expect("start a runtime for one command");
            runtime.block_on(self.run_to_end())
        });
        match run.join() {
            Ok(output) => output,
            Err(panic) => std::panic::resume_unwind(panic),
        }
    }

    async fn run_to_end(self) -> CommandOutput {
        let mut child = self
            .command()
            .spawn()
            .unwrap_or_else(|error| panic!("start `{}`: {error}", self.binary.display()));
        let mut stdin = child.stdin.take().expect("its standard input is a pipe");
        let mut stdout_pipe = child.stdout.take().expect("its standard output is a pipe");
        let mut stderr_pipe = child.stderr.take().expect("its standard error is a pipe");
        let (mut stdout, mut stderr) = (Vec::new(), Vec::new());

        let ended = tokio::time::timeout(self.timeout, async {
            let feed = async {
                // A command that ends without reading closes the pipe; that is its right.
                stdin.write_all(&self.stdin).await.ok();
                drop(stdin);
            };
            let (status, (), out, err) = tokio::join!(
                child.wait(),
                feed,
                stdout_pipe.read_to_end(&mut stdout),
                stderr_pipe.read_to_end(&mut stderr),
            );
            out.expect("read its standard output");
            err.expect("read its standard error");
            status.expect("wait for its end")
        })
        .await;

        let replacements = vec![
            (
                self.home.to_string_lossy().into_owned(),
                "[home]".to_owned(),
            ),
            (
                self.user.to_string_lossy().into_owned(),
                "[user]".to_owned(),
            ),
        ];
        let Ok(status) = ended else {
            let said = CommandOutput {
                status: None,
                stdout,
                stderr,
                replacements,
            };
            panic!(
                "`{}` did not end within {:?}:\n{said}",
                self.binary.display(),
                self.timeout
            );
        };
        CommandOutput {
            status: Some(status),
            stdout,
            stderr,
            replacements,
        }
    }

    fn command(&self) -> Command {
        let mut command = Command::new(&self.binary);
        command.arg("--home").arg(&self.home).args(&self.args);
        for (name, _) in env::vars_os() {
            let text = name.to_string_lossy();
            if CLEARED_PREFIXES
                .iter()
                .any(|prefix| text.starts_with(prefix))
                || CLEARED.contains(&text.as_ref())
            {
                command.env_remove(&name);
            }
        }
        command.env("HOME", &self.user);
        command.envs(self.env.iter().map(|(name, value)| (name, value)));
        if let Some(dir) = &self.current_dir {
            command.current_dir(dir);
        }
        command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true);
        command
    }
}

/// What a command left behind.
///
/// [`Display`](fmt::Display) shows all of it for a snapshot, with the paths of the test home already replaced.
#[derive(Clone, Debug)]
#[must_use]
pub struct CommandOutput {
    status: Option<ExitStatus>,
    /// Everything written to standard output.
    pub stdout: Vec<u8>,
    /// Everything written to standard error.
    pub stderr: Vec<u8>,
    replacements: Vec<(String, String)>,
}

impl CommandOutput {
    /// The exit code; `None` if a signal ended the command.
    pub fn code(&self) -> Option<i32> {
        self.status?.code()
    }

    /// The same output, or a panic that shows it if the command failed.
    ///
    /// # Panics
    /// If the exit code is not 0.
    pub fn success(self) -> Self {
        assert!(self.code() == Some(0), "the command failed:\n{self}");
        self
    }

    /// Standard output as text, with replacements made.
    pub fn stdout_text(&self) -> String {
        self.replaced(&self.stdout)
    }

    /// Standard error as text, with replacements made.
    pub fn stderr_text(&self) -> String {
        self.replaced(&self.stderr)
    }

    /// Shows `to` wherever the output says `from`. Earlier replacements are made first.
    pub fn replacing(mut self, from: impl Into<String>, to: impl Into<String>) -> Self {
        self.replacements.push((from.into(), to.into()));
        self
    }

    fn replaced(&self, bytes: &[u8]) -> String {
        let text = String::from_utf8_lossy(bytes).into_owned();
        self.replacements
            .iter()
            .filter(|(from, _)| !from.is_empty())
            .fold(text, |text, (from, to)| text.replace(from, to))
    }
}

impl fmt::Display for CommandOutput {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.status, self.code()) {
            (_, Some(code)) => writeln!(f, "exit code: {code}")?,
            (Some(status), None) => writeln!(f, "exit: {status}")?,
            (None, None) => writeln!(f, "still running")?,
        }
        for (name, text) in [
            ("stdout", self.stdout_text()),
            ("stderr", self.stderr_text()),
        ] {
            writeln!(f, "----- {name} -----")?;
            write!(f, "{text}")?;
            if !text.is_empty() && !text.ends_with('\n') {
                writeln!(f, "⏎ (no line end)")?;
            }
        }
        Ok(())
    }
}
