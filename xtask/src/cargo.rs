//! Calls of cargo that can be run and can be shown to a person who wants to repeat them.

use std::env;
use std::ffi::OsString;
use std::fmt;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};

/// One call of cargo. Its `Display` is what to type in a shell to get the same.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Cargo {
    env: Vec<(&'static str, String)>,
    args: Vec<String>,
}

impl Cargo {
    pub(crate) fn new<const N: usize>(args: [&str; N]) -> Self {
        Self {
            env: Vec::new(),
            args: args.map(str::to_owned).into(),
        }
    }

    pub(crate) fn args(mut self, args: &[String]) -> Self {
        self.args.extend_from_slice(args);
        self
    }

    pub(crate) fn env(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.env.push((name, value.into()));
        self
    }

    /// Runs it with this process's output, and without input: nothing here may wait for a person.
    pub(crate) fn run(&self, root: &Path) -> Result<()> {
        let status = self
            .command(root)
            .stdin(Stdio::null())
            .status()
            .with_context(|| format!("start `{self}`"))?;
        ensure!(status.success(), "`{self}` failed ({status})");
        Ok(())
    }

    /// Runs it and returns what it printed on standard output.
    pub(crate) fn output(&self, root: &Path) -> Result<Vec<u8>> {
        let output = self
            .command(root)
            .stdin(Stdio::null())
            .stderr(Stdio::inherit())
            .output()
            .with_context(|| format!("start `{self}`"))?;
        ensure!(
            output.status.success(),
            "`{self}` failed ({})",
            output.status
        );
        Ok(output.stdout)
    }

    /// Whether it can be run with success; its output is dropped.
    pub(crate) fn works(&self, root: &Path) -> bool {
        self.command(root)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status()
            .is_ok_and(|status| status.success())
    }

    fn command(&self, root: &Path) -> Command {
        let program = env::var_os("CARGO").unwrap_or_else(|| OsString::from("cargo"));
        let mut command = Command::new(program);
        command.args(&self.args).current_dir(root);
        // `cargo run` describes xtask to us in these. Some build scripts watch them, so that passing them on would
        // rebuild their crates at each change between `cargo xtask test` and a plain `cargo test`.
        for (name, _) in env::vars_os() {
            let described = name.to_str().is_some_and(|name| {
                name.starts_with("CARGO_PKG_") || name.starts_with("CARGO_MANIFEST_")
            });
            if described {
                command.env_remove(name);
            }
        }
        command.envs(self.env.iter().map(|(name, value)| (name, value)));
        command
    }
}

impl fmt::Display for Cargo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (name, value) in &self.env {
            write!(f, "{name}={} ", quoted(value))?;
        }
        f.write_str("cargo")?;
        for arg in &self.args {
            write!(f, " {}", quoted(arg))?;
        }
        Ok(())
    }
}

fn quoted(arg: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_=./:,+@".contains(c);
    if !arg.is_empty() && arg.chars().all(plain) {
        arg.to_owned()
    } else {
        format!("'{}'", arg.replace('\'', r"'\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn is_shown_as_a_shell_would_take_it() {
        let call = Cargo::new(["nextest", "run"]).env("CI", "true").args(&[
            "-E".into(),
            "test(it's)".into(),
            "--profile=ci".into(),
        ]);
        assert_eq!(
            call.to_string(),
            r"CI=true cargo nextest run -E 'test(it'\''s)' --profile=ci"
        );
    }
}
