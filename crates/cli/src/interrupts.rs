//! Ctrl-C, and what a supervisor or a terminal that goes away sends in its place.

use std::io;
use std::time::Duration;

#[cfg(unix)]
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::time::Instant;

/// How soon after another a signal counts as the same one. `timeout` and others send theirs to a process and then to its group,
/// which nobody means as a second Ctrl-C.
const TWIN: Duration = Duration::from_millis(300);

/// What somebody asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Interrupt {
    /// Ctrl-C: to stop what is being done.
    Interrupt,
    /// SIGTERM, or SIGHUP where it is not ignored: to end.
    Terminate,
}

/// Listens from the moment it is made on: signals no longer end the process by themselves.
#[derive(Debug)]
pub(crate) struct Interrupts {
    #[cfg(unix)]
    interrupt: Signal,
    #[cfg(unix)]
    terminate: Signal,
    #[cfg(unix)]
    hangup: Option<Signal>,
    last: Option<Instant>,
}

impl Interrupts {
    /// # Errors
    /// Signals cannot be listened for.
    ///
    /// # Panics
    /// Outside of a tokio runtime.
    pub(crate) fn new() -> io::Result<Self> {
        Ok(Self {
            #[cfg(unix)]
            interrupt: signal(SignalKind::interrupt())?,
            #[cfg(unix)]
            terminate: signal(SignalKind::terminate())?,
            #[cfg(unix)]
            hangup: match hears_hangup() {
                true => Some(signal(SignalKind::hangup())?),
                false => None,
            },
            last: None,
        })
    }

    /// Waits for the next one. Nothing is lost if the future is dropped.
    pub(crate) async fn next(&mut self) -> Interrupt {
        loop {
            let next = self.signal().await;
            let now = Instant::now();
            let before = self.last.replace(now);
            if before.is_none_or(|before| now.duration_since(before) >= TWIN) {
                return next;
            }
        }
    }

    #[cfg(unix)]
    async fn signal(&mut self) -> Interrupt {
        let hangup = async {
            match &mut self.hangup {
                Some(hangup) => hangup.recv().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            _ = self.interrupt.recv() => Interrupt::Interrupt,
            _ = self.terminate.recv() => Interrupt::Terminate,
            _ = hangup => Interrupt::Terminate,
        }
    }

    #[cfg(not(unix))]
    async fn signal(&mut self) -> Interrupt {
        if tokio::signal::ctrl_c().await.is_err() {
            std::future::pending::<()>().await;
        }
        Interrupt::Interrupt
    }
}

/// Whether a terminal that goes away should end the program: `nohup` starts it with SIGHUP ignored, which listening would undo.
/// Elsewhere than on Linux that cannot be looked up, and SIGHUP does what it does by itself.
#[cfg(unix)]
fn hears_hangup() -> bool {
    const IGNORED: &str = "SigIgn:";
    let status = match cfg!(target_os = "linux") {
        true => std::fs::read_to_string("/proc/self/status").unwrap_or_default(),
        false => String::new(),
    };
    let ignored = status.lines().find_map(|line| line.strip_prefix(IGNORED));
    let mask = ignored.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    // Bit 0 is signal 1.
    mask.is_some_and(|mask| mask & 1 == 0)
}
