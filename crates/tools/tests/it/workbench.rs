//! A directory to work in, and calls with it.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};

use offshoot_tool_api::{Tool, ToolArguments, ToolContext, ToolError, ToolOutput};
use serde_json::Value;
use tempfile::TempDir;

pub(crate) struct Workbench {
    dir: TempDir,
    pub(crate) cx: ToolContext,
}

impl Workbench {
    pub(crate) fn new() -> Self {
        let dir = TempDir::new().unwrap();
        let cx = ToolContext::new("call-1").in_directory(dir.path());
        Self { dir, cx }
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

    fn shown(&self, text: &str) -> String {
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
