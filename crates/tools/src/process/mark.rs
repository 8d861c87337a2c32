//! Finding what a command has started, wherever it went.
//!
//! A process that makes a session of its own (`setsid`) leaves the group that is killed with a command. What it can
//! hardly lose is its environment, which it inherits: every command gets a variable that names it, and so do all its
//! descendants. This finds them on Linux, unless they cleaned their environment or belong to somebody else.

use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt as _;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::process::{Pid, Signal, kill_process};

/// Names the command that a process belongs to, behind those that this process itself belongs to.
const VARIABLE: &str = "OFFSHOOT_COMMAND";

/// How often is looked again for what was started while the others were killed.
const ROUNDS: usize = 5;

/// The value that all processes of one command have in their environment.
#[derive(Debug)]
pub(crate) struct Mark(OsString);

impl Mark {
    pub(crate) fn new() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        // Whoever runs this program in a command of their own finds all of it by their own mark.
        let mut value = std::env::var_os(VARIABLE).unwrap_or_default();
        value.push(format!("{}-{number},", std::process::id()));
        Self(value)
    }

    pub(crate) fn variable(&self) -> (&'static str, &OsString) {
        (VARIABLE, &self.0)
    }

    /// Kills whatever still has the mark. It looks at every process of the system, which takes a moment.
    pub(crate) fn kill_survivors(&self) {
        for _ in 0..ROUNDS {
            let survivors = self.survivors();
            if survivors.is_empty() {
                return;
            }
            for survivor in survivors {
                // It fails if it has ended by itself, and the next look tells.
                kill_process(survivor, Signal::KILL).ok();
            }
        }
    }

    fn survivors(&self) -> Vec<Pid> {
        let Ok(processes) = std::fs::read_dir("/proc") else {
            return Vec::new();
        };
        let mut entry = format!("{VARIABLE}=").into_bytes();
        entry.extend_from_slice(self.0.as_bytes());
        let names = processes.flatten().map(|process| process.file_name());
        names
            .filter_map(|name| Pid::from_raw(name.to_str()?.parse().ok()?))
            .filter(|pid| {
                // Processes of others cannot be read, and those that have ended have no environment.
                let environment = std::fs::read(format!("/proc/{pid}/environ"));
                environment.is_ok_and(|environment| {
                    environment
                        .split(|byte| *byte == 0)
                        .any(|variable| variable.starts_with(&entry))
                })
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_command_has_a_mark_of_its_own_that_is_no_beginning_of_another() {
        let marks: Vec<Vec<u8>> = (0..20).map(|_| Mark::new().0.as_bytes().to_vec()).collect();
        for (at, mark) in marks.iter().enumerate() {
            let alike = marks.iter().filter(|other| other.starts_with(mark)).count();
            assert_eq!(alike, 1, "{at}");
        }
    }
}
