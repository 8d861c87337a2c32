//! A directory to work in, and calls with it.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use offshoot_tool_api::{
    Spill, SpillFile, Tool, ToolArguments, ToolContext, ToolError, ToolOutput,
};
use offshoot_tools::ToolSet;
use serde_json::{Value, json};
use tempfile::TempDir;

pub(crate) struct Workbench {
    dir: TempDir,
    pub(crate) cx: ToolContext,
    /// Its tools share what was seen, and have no directories for temporary files.
    pub(crate) set: ToolSet,
}

impl Workbench {
    pub(crate) fn new() -> Self {
        let dir = TempDir::new().unwrap();
        let cx = ToolContext::new("call-1").in_directory(dir.path());
        let set = ToolSet::default().with_scratch([]);
        Self { dir, cx, set }
    }

    pub(crate) fn tool(&self, name: &str) -> Arc<dyn Tool> {
        let mut tools = self.set.tools().into_iter();
        tools.find(|tool| tool.spec().name == name).unwrap()
    }

    /// Calls a tool of the set.
    pub(crate) async fn run(&self, name: &str, arguments: Value) -> Result<ToolOutput, ToolError> {
        self.call(self.tool(name).as_ref(), arguments).await
    }

    /// The text of a call that works, with the directory shown as `[dir]`.
    pub(crate) async fn said(&self, name: &str, arguments: Value) -> String {
        self.text(self.tool(name).as_ref(), arguments).await
    }

    /// Code and message of a call that fails, with the directory shown as `[dir]`.
    pub(crate) async fn refuses(&self, name: &str, arguments: Value) -> (String, String) {
        self.refusal(self.tool(name).as_ref(), arguments).await
    }

    /// The file is seen.
    pub(crate) async fn read(&self, name: &str) {
        self.run("read", json!({ "file_path": name }))
            .await
            .unwrap();
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Puts a file there and returns its path.
    pub(crate) fn put(&self, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        let mut file = OpenOptions::new()
            .write(true)
            .create_new(true)
            .open(&path)
            .unwrap();
        file.write_all(content.as_ref()).unwrap();
        path
    }

    pub(crate) fn content(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap()
    }

    /// The names in the directory itself, sorted.
    pub(crate) fn names(&self) -> Vec<String> {
        let mut names: Vec<String> = fs::read_dir(self.dir.path())
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }

    pub(crate) async fn call(
        &self,
        tool: &dyn Tool,
        arguments: Value,
    ) -> Result<ToolOutput, ToolError> {
        tool.execute(ToolArguments::from_model(arguments.to_string()), &self.cx)
            .await
    }

    /// The text of a call that works, with the directory shown as `[dir]`.
    pub(crate) async fn text(&self, tool: &dyn Tool, arguments: Value) -> String {
        self.shown(&self.call(tool, arguments).await.unwrap().text)
    }

    /// Code and message of a call that fails, with the directory shown as `[dir]`.
    pub(crate) async fn refusal(&self, tool: &dyn Tool, arguments: Value) -> (String, String) {
        let error = self
            .call(tool, arguments)
            .await
            .expect_err("it should be refused");
        (error.code().to_owned(), self.shown(error.message()))
    }

    pub(crate) fn shown(&self, text: &str) -> String {
        text.replace(&self.dir.path().display().to_string(), "[dir]")
    }
}

/// The meta of an output as a value, with the directory shown as `[dir]`.
pub(crate) fn meta(bench: &Workbench, output: &ToolOutput) -> Value {
    serde_json::from_str(&bench.shown(output.meta.as_ref().unwrap().get())).unwrap()
}

/// Owned strings for comparing with a refusal.
pub(crate) fn refused(code: &str, message: &str) -> (String, String) {
    (code.to_owned(), message.to_owned())
}

/// A named pipe. Its reader sees the end when everybody who had it open for writing is gone: a witness of deaths that
/// needs no polling.
pub(crate) fn make_pipe(path: &Path) {
    assert!(
        std::process::Command::new("mkfifo")
            .arg(path)
            .status()
            .unwrap()
            .success()
    );
}

/// What was kept, in memory. The files are called `/kept/1`, `/kept/2`, ….
#[derive(Clone, Debug, Default)]
pub(crate) struct Kept(Arc<Mutex<Vec<String>>>);

impl Kept {
    pub(crate) fn files(&self) -> Vec<String> {
        self.0.lock().unwrap().clone()
    }
}

impl Spill for Kept {
    fn begin(&self) -> io::Result<Box<dyn SpillFile>> {
        Ok(Box::new(KeptFile(Vec::new(), self.clone())))
    }
}

struct KeptFile(Vec<u8>, Kept);

impl Write for KeptFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl SpillFile for KeptFile {
    fn finish(self: Box<Self>) -> io::Result<PathBuf> {
        let Self(bytes, kept) = *self;
        let mut files = kept.0.lock().unwrap();
        files.push(String::from_utf8(bytes).unwrap());
        Ok(PathBuf::from(format!("/kept/{}", files.len())))
    }
}

/// Waits until a process has ended: one that was killed takes its time.
pub(crate) fn ends(pid: &str) {
    for _ in 0..200_000 {
        if is_gone(pid) {
            return;
        }
        std::thread::yield_now();
    }
    panic!("process {pid} goes on");
}

/// Whether a process has ended; one that nobody has waited for yet counts.
pub(crate) fn is_gone(pid: &str) -> bool {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    !status.contains("State:") || status.contains("State:\tZ")
}

/// Keeps what is spilled in numbered files of a directory.
#[derive(Debug)]
pub(crate) struct SpillDirectory {
    directory: PathBuf,
    begun: AtomicU64,
}

impl SpillDirectory {
    pub(crate) fn new(directory: PathBuf) -> Self {
        fs::create_dir_all(&directory).unwrap();
        Self {
            directory,
            begun: AtomicU64::new(0),
        }
    }
}

impl Spill for SpillDirectory {
    fn begin(&self) -> io::Result<Box<dyn SpillFile>> {
        let number = self.begun.fetch_add(1, Ordering::Relaxed);
        let path = self.directory.join(number.to_string());
        let file = OpenOptions::new()
            .write(true)
            .create_new(true)
            .open(&path)?;
        Ok(Box::new(Spilled { file, path }))
    }
}

struct Spilled {
    file: fs::File,
    path: PathBuf,
}

impl Write for Spilled {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

impl SpillFile for Spilled {
    fn finish(self: Box<Self>) -> io::Result<PathBuf> {
        Ok(self.path)
    }
}
