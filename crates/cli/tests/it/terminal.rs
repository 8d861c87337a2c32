//! The binary at a terminal, which `script` makes.

use std::io::{Read as _, Write as _};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use offshoot_test_support::{ScriptedModelServer, TestHome};

use crate::support::{BINARY, KEY, work};

/// How long nothing may be shown before the test is called broken.
const PATIENCE: Duration = Duration::from_secs(30);

pub(crate) struct Terminal {
    child: Child,
    keys: Option<ChildStdin>,
    shown: Receiver<Vec<u8>>,
    text: String,
    /// Up to where it has been waited for.
    seen: usize,
}

impl Terminal {
    /// Starts it with these arguments, as a shell takes them.
    pub(crate) fn start(home: &TestHome, server: &ScriptedModelServer, args: &str) -> Self {
        // In the place of the shell: one that waits for it would be hit by Ctrl-C as well, and some then say 130 whatever happened.
        let line = format!("exec '{BINARY}' --home '{}' {args}", home.path().display());
        let mut child = Command::new("script")
            .args(["--quiet", "--return", "--command", &line, "/dev/null"])
            .env("HOME", home.user_path())
            .env("TERM", "xterm")
            .env("OPENAI_BASE_URL", server.base_url())
            .env("OPENAI_API_KEY", KEY)
            .env("OFFSHOOT_MODEL", "openai/scripted-1")
            .env("OFFSHOOT_CACHE", home.user_path().join("cache"))
            .current_dir(work(home))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut stdout = child.stdout.take().unwrap();
        let (send, shown) = channel();
        std::thread::spawn(move || {
            let mut buffer = [0; 4096];
            while let Ok(length @ 1..) = stdout.read(&mut buffer) {
                if send.send(buffer[..length].to_vec()).is_err() {
                    return;
                }
            }
        });
        Self {
            keys: child.stdin.take(),
            child,
            shown,
            text: String::new(),
            seen: 0,
        }
    }

    /// Waits until this is shown behind what was waited for before.
    pub(crate) fn until(&mut self, expected: &str) {
        loop {
            if let Some(at) = self.text[self.seen..].find(expected) {
                self.seen += at + expected.len();
                return;
            }
            match self.shown.recv_timeout(PATIENCE) {
                Ok(more) => self.text.push_str(&String::from_utf8_lossy(&more)),
                Err(_) => panic!("`{expected}` is not shown:\n{}", self.text),
            }
        }
    }

    pub(crate) fn press(&mut self, keys: &str) {
        let to = self.keys.as_mut().unwrap();
        to.write_all(keys.as_bytes()).unwrap();
        to.flush().unwrap();
    }

    /// Waits for the end: the exit code, and all that was shown.
    pub(crate) fn end(mut self) -> (Option<i32>, String) {
        while let Ok(more) = self.shown.recv_timeout(PATIENCE) {
            self.text.push_str(&String::from_utf8_lossy(&more));
        }
        drop(self.keys.take());
        let ended = self.child.try_wait().unwrap();
        let ended = ended.or_else(|| Some(self.child.wait().unwrap()));
        (ended.unwrap().code(), std::mem::take(&mut self.text))
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        // A test that fails leaves nothing running; the process may be gone already.
        self.child.kill().ok();
        self.child.wait().ok();
    }
}
