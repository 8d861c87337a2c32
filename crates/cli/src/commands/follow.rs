//! `offshoot show --follow`: the ledger, and every new event as it becomes visible.

use std::io::Write;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, Result};
use offshoot_session::{LogOffset, Seq, SessionId};
use offshoot_store::{Follower, News, Notice};

use crate::args::Show;
use crate::commands::show::{self, Head};
use crate::failure::Failure;
use crate::home::Home;
use crate::notes::Notes;
use crate::source::Source;
use crate::text;

/// How long nobody looks whether the file has changed: short enough that a person sees no delay.
const POLL_INTERVAL: Duration = Duration::from_millis(150);

/// Runs until somebody asks it to stop, which is how it is meant to end.
pub(crate) fn run(
    args: &Show,
    source: &Source,
    home: &Home,
    json: bool,
    out: &mut dyn Write,
) -> Result<(), Failure> {
    let Source::Id(id) = source else {
        let failure = Failure::usage("--follow needs the id of a session of the home, not a file");
        return Err(failure.hint("`offshoot ls` shows the sessions that are there"));
    };
    home.check()?;
    let store = home.store();
    // A slip of the pen should not wait for a session that never comes.
    store.locate(id)?;
    let stopped = stopped()?;
    let from = args.from.map_or(LogOffset::START, Seq::before);
    let mut follower = store.follow(id, from);
    let mut news = follower.poll()?;
    if !json && let Some(head) = head(&follower) {
        show::head(&head, out)?;
    }
    loop {
        print(id, &news, json, out)?;
        match stopped.recv_timeout(POLL_INTERVAL) {
            Err(RecvTimeoutError::Timeout) => {}
            Ok(()) | Err(RecvTimeoutError::Disconnected) => return Ok(()),
        }
        news = follower.poll()?;
    }
}

fn head(follower: &Follower) -> Option<Head> {
    Some(Head {
        header: follower.header()?.clone(),
        log: follower.log(),
        inherited: follower.inherited(),
        version: follower.version()?,
    })
}

fn print(id: &SessionId, news: &News, json: bool, out: &mut dyn Write) -> Result<(), Failure> {
    for notice in &news.notices {
        Notes::new(json).say(&format!("note: {}", told(id, notice)));
    }
    for event in &news.events {
        match json {
            true => writeln!(out, "{}", event.text())?,
            false => writeln!(out, "{}", text::ledger_line(event))?,
        }
    }
    Ok(out.flush()?)
}

fn told(id: &SessionId, notice: &Notice) -> String {
    let id = text::shorten(id.as_str());
    match notice {
        Notice::Absent => {
            format!("session {id} was deleted or moved away; it goes on here if it comes back")
        }
        Notice::Appeared { .. } => format!("session {id} is back"),
        Notice::Replaced { path } => {
            format!("session {id} is in `{}` from now on", path.display())
        }
        Notice::CutBack { bytes } => format!(
            "an unfinished end of {bytes} bytes is gone: a repair has cut it, or a failed write was taken back"
        ),
        Notice::TakenBack { from, count } => format!(
            "{count} events from {from} on were taken back: they did not become durable; what follows takes their place"
        ),
        Notice::Repaired { marker } => format!(
            "session {id} was repaired after a crash: its open turn is closed, and it goes on behind event {marker}"
        ),
        other => format!("session {id}: {other:?}"),
    }
}

/// Says when somebody asks the program to stop. Asked twice it stops at once: it may be waiting for whoever reads its output.
fn stopped() -> Result<Receiver<()>> {
    let failed = "could not listen for Ctrl-C";
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context(failed)?;
    let (stop, stopped) = channel();
    #[cfg(unix)]
    let mut signals = {
        use tokio::signal::unix::{SignalKind, signal};
        let _in_runtime = runtime.enter();
        // Here and not on the thread: from now on a signal does not end the process.
        (
            signal(SignalKind::interrupt()).context(failed)?,
            signal(SignalKind::terminate()).context(failed)?,
        )
    };
    let mut asked = async move || {
        #[cfg(unix)]
        tokio::select! {
            _ = signals.0.recv() => {}
            _ = signals.1.recv() => {}
        }
        #[cfg(not(unix))]
        tokio::signal::ctrl_c().await.ok();
    };
    thread::spawn(move || {
        runtime.block_on(asked());
        // Nobody listens any more if following has ended by itself.
        stop.send(()).ok();
        runtime.block_on(asked());
        #[expect(
            clippy::exit,
            reason = "a second Ctrl-C must end the process whatever hangs"
        )]
        std::process::exit(130);
    });
    Ok(stopped)
}
