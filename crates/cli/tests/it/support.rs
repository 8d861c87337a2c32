//! What the tests of the binary share.

use std::ffi::OsStr;
use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use offshoot_test_support::{CommandOutput, OffshootCommand, ScriptedModelServer, TestHome};
use serde_json::Value;

pub(crate) const BINARY: &str = env!("CARGO_BIN_EXE_offshoot");

/// How long a test waits for another process before it calls itself broken.
const PATIENCE: Duration = Duration::from_secs(30);

/// The bundled recording: one turn, a step with two calls and a step with the answer. The first call is event 11.
pub(crate) fn demo() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("assets/demo.jsonl")
}

pub(crate) fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/fixtures")
        .join(name)
}

/// Writes a file beside the home, where nobody looks for sessions.
pub(crate) fn file(home: &TestHome, name: &str, bytes: impl AsRef<[u8]>) -> PathBuf {
    let path = home.user_path().join(name);
    #[expect(clippy::disallowed_methods, reason = "an input of a test is no log")]
    fs::write(&path, bytes).unwrap();
    path
}

/// The bundled recording up to and including an event, as a crash would have left it.
pub(crate) fn demo_up_to(seq: usize) -> String {
    let demo = fs::read_to_string(demo()).unwrap();
    demo.split_inclusive('\n').take(seq + 2).collect()
}

/// One conversation of one turn, as the format versions 0 to 4 store it.
pub(crate) fn of_version(version: usize) -> String {
    let header = match version {
        0 | 1 => format!(
            r#"{{"type":"session","version":{version},"id":"old","createdAt":1000,"cwd":"/work/demo","delegationDepth":0}}"#
        ),
        _ => format!(
            r#"{{"type":"session","version":{version},"id":"old","createdAt":1000,"cwd":"/work/demo","isSeeded":false,"delegationDepth":0}}"#
        ),
    };
    let rows: &[&str] = match version {
        0 | 1 => &[
            r#"{"type":"user/message","seq":2,"time":1003,"data":{"id":"m-1","role":"user","content":[{"type":"text","text":"How heavy is it?"}],"source":{"kind":"user"}},"surfaceOp":"append"}"#,
            r#"{"type":"request/header","seq":3,"time":1004,"data":{"header":{"config":{"provider":"post","model":"clerk-1"},"system":"Be brief."},"reason":"initial"}}"#,
            r#"{"type":"text-chunks","seq0":4,"time0":1010,"data":{"turn":1,"step":1,"index":0,"dt":[2,3],"texts":["Two ","hundred ","grams."]}}"#,
            r#"{"type":"assistant/chunk","seq":7,"time":1016,"data":{"turn":1,"step":1,"chunk":{"type":"finish","reason":{"kind":"stop"}}}}"#,
            r#"{"type":"assistant/message","seq":8,"time":1017,"data":{"turn":1,"step":1,"message":{"id":"m-2","role":"assistant","content":[{"type":"text","text":"Two hundred grams."}],"source":{"kind":"model","provider":"post","model":"clerk-1"}}},"sourceEventSeqs":[[4,7]],"surfaceOp":"append"}"#,
        ],
        2 => &[
            r#"{"type":"user/message","seq":2,"time":1003,"data":{"id":"m-1","role":"user","content":[{"type":"text","text":"How heavy is it?"}],"source":{"kind":"user"}},"surfaceOp":"append"}"#,
            r#"{"type":"request/header","seq":3,"time":1004,"data":{"header":{"config":{"provider":"post","model":"clerk-1"},"system":"Be brief."},"reason":"initial"}}"#,
            STREAMED,
        ],
        3 => &[
            r#"{"type":"system/message","seq":2,"time":1002,"data":{"turn":1,"step":1,"message":{"id":"s-1","role":"system","source":{"kind":"plugin","plugin":"@deepseek-ai/dsh-system-prompt"},"content":[{"type":"text","text":"Be brief."}]}},"surfaceOp":"append"}"#,
            r#"{"type":"user/message","seq":3,"time":1003,"data":{"id":"m-1","role":"user","content":[{"type":"text","text":"How heavy is it?"}],"source":{"kind":"user"}},"surfaceOp":"append"}"#,
            r#"{"type":"request/header","seq":4,"time":1004,"data":{"header":{"config":{"provider":"post","model":"clerk-1"}},"reason":"initial"}}"#,
            STREAMED,
        ],
        _ => &[
            r#"{"type":"system/message","seq":2,"time":1002,"data":{"turn":1,"step":1,"message":{"id":"s-1","role":"system","source":{"kind":"system-prompt"},"content":[{"type":"text","text":"Be brief."}]}},"surfaceOp":"append"}"#,
            r#"{"type":"user/message","seq":3,"time":1003,"data":{"id":"m-1","role":"user","content":[{"type":"text","text":"How heavy is it?"}],"source":{"kind":"user"}},"surfaceOp":"append"}"#,
            r#"{"type":"request/header","seq":4,"time":1004,"data":{"header":{"config":{"provider":"post","model":"clerk-1"}},"reason":"initial"}}"#,
            STREAMED,
        ],
    };
    let answer = match version {
        0 | 1 => 8,
        2 => 4,
        _ => 5,
    };
    let mut lines = vec![
        header,
        r#"{"type":"turn/start","seq":0,"time":1001,"data":{"turn":1}}"#.to_owned(),
        r#"{"type":"step/start","seq":1,"time":1002,"data":{"turn":1,"step":1}}"#.to_owned(),
    ];
    lines.extend(
        rows.iter()
            .map(|row| row.replace("ANSWER", &answer.to_string())),
    );
    lines.extend([
        format!(
            r#"{{"type":"step/end","seq":{},"time":1018,"data":{{"turn":1,"step":1}}}}"#,
            answer + 1
        ),
        format!(
            r#"{{"type":"turn/end","seq":{},"time":1019,"data":{{"turn":1,"reason":{{"kind":"completed"}}}}}}"#,
            answer + 2
        ),
    ]);
    lines.join("\n") + "\n"
}

const STREAMED: &str = r#"{"type":"assistant/message","seq":ANSWER,"time":1017,"data":{"turn":1,"step":1,"message":{"id":"m-2","role":"assistant","content":[{"type":"text","text":"Two hundred grams."}],"source":{"kind":"model","provider":"post","model":"clerk-1"}},"stream":[{"type":"text-chunks","time0":1010,"index":0,"dt":[2,3],"texts":["Two ","hundred ","grams."]},{"type":"chunk","time":1016,"chunk":{"type":"finish","reason":{"kind":"stop"}}}]},"surfaceOp":"append"}"#;

/// A directory to work in, beside the home.
pub(crate) fn work(home: &TestHome) -> PathBuf {
    let dir = home.user_path().join("work");
    fs::create_dir_all(&dir).unwrap();
    dir
}

pub(crate) fn offshoot(home: &TestHome) -> OffshootCommand {
    OffshootCommand::new(BINARY, home).current_dir(home.user_path())
}

/// Runs with these arguments.
pub(crate) fn run<A: AsRef<OsStr>>(
    home: &TestHome,
    args: impl IntoIterator<Item = A>,
) -> CommandOutput {
    offshoot(home).args(args).run()
}

/// A home in which a failed call of the provider `openai` is not made again.
pub(crate) fn without_retries() -> TestHome {
    let home = TestHome::new();
    fs::create_dir_all(home.path()).unwrap();
    #[expect(clippy::disallowed_methods, reason = "an input of a test is no log")]
    fs::write(
        home.path().join("config.toml"),
        "providers.openai.max_retries = 0\n",
    )
    .unwrap();
    home
}

/// `offshoot run` with its tools in [`work`] and its model on the server.
pub(crate) fn turn(home: &TestHome, server: &ScriptedModelServer) -> OffshootCommand {
    calling(home, server).arg("run")
}

/// `offshoot`, with its tools in [`work`] and its model on the server.
pub(crate) fn calling(home: &TestHome, server: &ScriptedModelServer) -> OffshootCommand {
    offshoot(home)
        .current_dir(work(home))
        .env("OPENAI_BASE_URL", server.base_url())
        .env("OPENAI_API_KEY", KEY)
        .env("OFFSHOOT_MODEL", "openai/scripted-1")
}

/// Must never be printed, nor stored.
pub(crate) const KEY: &str = "sk-this-is-the-secret";

pub(crate) fn json(output: &CommandOutput) -> Value {
    serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|error| panic!("not JSON ({error}):\n{output}"))
}

/// The lines of `run --output json`: the events, and the result.
pub(crate) fn json_lines(output: &CommandOutput) -> (Vec<Value>, Value) {
    let text = std::str::from_utf8(&output.stdout).unwrap();
    let mut lines: Vec<Value> = text
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let result = lines.pop().unwrap_or_else(|| panic!("no lines:\n{output}"));
    (lines, result)
}

/// The id of the session that a turn with `--output json` ran in.
pub(crate) fn session_of(output: &CommandOutput) -> String {
    let (_, result) = json_lines(output);
    result["session"].as_str().unwrap().to_owned()
}

pub(crate) fn events(home: &TestHome, id: &str) -> Vec<Value> {
    let shown = run(home, ["show", id, "--events", "--json"]).success();
    serde_json::from_slice(&shown.stdout).unwrap()
}

pub(crate) fn types(events: &[Value]) -> Vec<&str> {
    events
        .iter()
        .map(|event| event["type"].as_str().unwrap())
        .collect()
}

/// What differs from run to run gets a name: ids, moments, versions of a directory.
pub(crate) fn scrub(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some(next) = rest.chars().next() {
        let (length, name) = if is_shape(rest, "xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx") {
            (36, "[uuid]")
        } else if is_shape(rest, "dddd-dd-dd dd:dd:ddZ") {
            (20, "[moment]")
        } else {
            out.push(next);
            rest = &rest[next.len_utf8()..];
            continue;
        };
        out.push_str(name);
        rest = &rest[length..];
    }
    out
}

fn is_shape(text: &str, shape: &str) -> bool {
    text.len() >= shape.len()
        && text
            .bytes()
            .zip(shape.bytes())
            .all(|(byte, shape)| match shape {
                b'x' => byte.is_ascii_hexdigit(),
                b'd' => byte.is_ascii_digit(),
                other => byte == other,
            })
}

/// All that a person sees, ready for a snapshot.
pub(crate) fn seen(output: &CommandOutput) -> String {
    let repository = Path::new(env!("CARGO_MANIFEST_DIR"));
    let output = output
        .clone()
        .replacing(repository.to_str().unwrap(), "[cli]");
    scrub(&output.to_string())
}

/// A run in the background, in a process that can be killed.
pub(crate) struct Background {
    child: Child,
    stdout: ChildStdout,
    stderr: BufReader<ChildStderr>,
    /// What was read of its standard error.
    said: String,
}

impl Background {
    /// As [`turn`] with `--output json`.
    pub(crate) fn turn(home: &TestHome, server: &ScriptedModelServer, args: &[&str]) -> Self {
        let args = [&["run", "--output", "json"], args].concat();
        Self::start(home, server, &args, Stdio::null())
    }

    /// Any command without standard input.
    pub(crate) fn command(home: &TestHome, server: &ScriptedModelServer, args: &[&str]) -> Self {
        Self::start(home, server, args, Stdio::null())
    }

    /// As `offshoot chat` with this on its standard input, which stays open; also gives that end.
    pub(crate) fn chat(
        home: &TestHome,
        server: &ScriptedModelServer,
        says: &str,
    ) -> (Self, ChildStdin) {
        let mut chat = Self::start(home, server, &["chat"], Stdio::piped());
        let mut stdin = chat.child.stdin.take().unwrap();
        stdin.write_all(says.as_bytes()).unwrap();
        (chat, stdin)
    }

    fn start(home: &TestHome, server: &ScriptedModelServer, args: &[&str], stdin: Stdio) -> Self {
        let mut command = Command::new(BINARY);
        for (name, _) in std::env::vars_os() {
            if ["OFFSHOOT_", "OPENAI_", "DEEPSEEK_"]
                .iter()
                .any(|prefix| name.to_string_lossy().starts_with(prefix))
            {
                command.env_remove(name);
            }
        }
        let mut child = command
            .arg("--home")
            .arg(home.path())
            .args(args)
            .env("HOME", home.user_path())
            .env("OPENAI_BASE_URL", server.base_url())
            .env("OFFSHOOT_MODEL", "openai/scripted-1")
            .current_dir(work(home))
            .stdin(stdin)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let stdout = child.stdout.take().unwrap();
        let stderr = BufReader::new(child.stderr.take().unwrap());
        Self {
            child,
            stdout,
            stderr,
            said: String::new(),
        }
    }

    /// Waits until it has said this.
    pub(crate) fn until_said(&mut self, text: &str) {
        self.until_said_times(text, 1);
    }

    /// Waits until it has said this so many times.
    pub(crate) fn until_said_times(&mut self, text: &str, times: usize) {
        while self.said.matches(text).count() < times {
            let read = self.stderr.read_line(&mut self.said).unwrap();
            assert!(read > 0, "it did not say `{text}`:\n{}", self.said);
        }
    }

    /// SIGKILL: nothing of the process runs any more.
    pub(crate) fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// The process.
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Sends a signal, as in `-INT` for Ctrl-C.
    pub(crate) fn signal(&self, signal: &str) {
        let pid = self.child.id().to_string();
        let sent = Command::new("kill").args([signal, &pid]).status().unwrap();
        assert!(sent.success());
    }

    /// Sends a signal again and again until the process has ended.
    pub(crate) fn signal_until_it_ends(&mut self, signal: &str) {
        const PAUSE: Duration = Duration::from_millis(50);
        for _ in 0..PATIENCE.as_millis() / PAUSE.as_millis() {
            self.signal(signal);
            std::thread::park_timeout(PAUSE);
            if self.child.try_wait().unwrap().is_some() {
                return;
            }
        }
        panic!("it does not end:\n{}", self.said);
    }

    /// Waits for the end: the exit code, the result line and standard error.
    pub(crate) fn finish(self) -> (Option<i32>, Value, String) {
        let (code, out, said) = self.end();
        let last = out.lines().last().unwrap_or("null");
        (code, serde_json::from_str(last).unwrap(), said)
    }

    /// Waits for the end: the exit code, standard output and standard error.
    pub(crate) fn end(mut self) -> (Option<i32>, String, String) {
        let mut out = String::new();
        self.stdout.read_to_string(&mut out).unwrap();
        self.stderr.read_to_string(&mut self.said).unwrap();
        let code = self.child.wait().unwrap().code();
        (code, out, std::mem::take(&mut self.said))
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        // A test that fails leaves nothing running; the process may be gone already.
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

/// A named pipe: a place where a command under test stands until the test comes.
pub(crate) struct Fifo(PathBuf);

impl Fifo {
    pub(crate) fn new(dir: &Path, name: &str) -> Self {
        let path = dir.join(name);
        assert!(
            Command::new("mkfifo")
                .arg(&path)
                .status()
                .unwrap()
                .success()
        );
        Self(path)
    }

    /// Waits until somebody writes to it and closes it.
    pub(crate) fn read(&self) -> String {
        let (done, waiting) = mpsc::channel();
        let path = self.0.clone();
        std::thread::spawn(move || done.send(fs::read_to_string(path)));
        waiting
            .recv_timeout(PATIENCE)
            .expect("somebody writes to the pipe")
            .unwrap()
    }

    /// Lets whoever reads from it go on.
    pub(crate) fn release(&self) {
        let (done, waiting) = mpsc::channel();
        let path = self.0.clone();
        std::thread::spawn(move || {
            done.send(fs::OpenOptions::new().write(true).open(path).map(drop))
        });
        waiting
            .recv_timeout(PATIENCE)
            .expect("somebody reads from the pipe")
            .unwrap();
    }
}

/// Waits until the server has got so many requests.
pub(crate) fn arrived(server: &ScriptedModelServer, count: usize) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .build()
        .unwrap();
    runtime.block_on(server.wait_for_requests(count));
}
