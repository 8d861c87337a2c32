//! `offshoot run`: one turn, headless.

use std::io::Write;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use offshoot_agent::{
    Agent, AgentSetup, Attached, CancelCause, InboxTarget, Input, Queue, TurnEndReason, TurnReport,
    Wake, usage_from,
};
use offshoot_model::Usage;
use offshoot_session::{LiveSession, SessionId};
use serde::Serialize;
use tokio::sync::Notify;

use crate::agents::{self, Called};
use crate::args::{Age, Output, Run};
use crate::asking::Question;
use crate::config::Config;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::home::Home;
use crate::interrupts::Interrupts;
use crate::limits::TurnLimit;
use crate::live::Live;
use crate::notes::Notes;
use crate::opening::{Opening, Wanted};
use crate::providers::Providers;
use crate::source::Source;
use crate::{money, system, text, watching};

/// The last line of `run --output json`. Stable: see `docs/cli.md`.
#[derive(Debug, Serialize)]
pub(crate) struct ResultLine<'a> {
    r#type: &'static str,
    session: &'a str,
    turn: u64,
    reason: &'a TurnEndReason,
    text: &'a str,
    usage: Option<Usage>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cost_usd: Option<f64>,
}

impl<'a> ResultLine<'a> {
    pub(crate) fn new(session: &'a SessionId, report: &'a TurnReport) -> Self {
        let TurnReport {
            turn,
            reason,
            text,
            usage,
        } = report;
        Self {
            r#type: "result",
            session: session.as_str(),
            turn: *turn,
            reason,
            text,
            usage: *usage,
            cost_usd: None,
        }
    }
}

/// Runs the turn.
pub(crate) fn run(
    args: &Run,
    home: &Home,
    json: bool,
    out: &mut dyn Write,
) -> Result<Exit, Failure> {
    let json = json || args.output == Some(Output::Json);
    let notes = Notes::new(json);
    home.check()?;
    // Whatever can be wrong is said before anything is created, repaired or forked.
    let question = Question::read(args.prompt.as_deref(), &args.images, notes)?;
    let opening = Opening::of(wanted(args), home, notes)?;
    let config = Config::load(home, &opening.directory(), &args.calling.flags())?;
    config.warn(notes);
    let providers = Providers::of(&config, home)?;
    let called = match &args.replay {
        Some(named) => Called::replaying(&Source::resolve(home, named).read(home)?)?,
        None => Called::configured(&config, &providers, opening.log())?,
    };
    agents::warn_of_kernel(&config, notes);
    if question.has_images() && !called.sees_images {
        notes.say(&format!(
            "note: {} is not known to look at pictures and is told so in their place; if it does, set `images = true` for \
             it in `{}`",
            called.name,
            config.user_file().display()
        ));
    }

    let service = home.service().on_unstored(notes.on_unstored());
    let attached = opening.attach(home, &service, notes)?;
    let session = attached.session().clone();
    // First, so that it is known whatever happens to the turn.
    notes.say(&format!("session {}", session.id()));
    if let Some(cwd) = session.header().cwd.filter(|cwd| !Path::new(cwd).is_dir()) {
        notes.say(&format!(
            "warning: the session works in `{cwd}`, which is not a directory here"
        ));
    }
    agents::warn_of_home_in_reach(&config, &session, notes);
    let turn = Turn {
        live: Arc::new(Live::new(notes)),
        notes,
        json,
        max_turns: args.max_turns.map(std::num::NonZeroU64::get),
        timeout: args.timeout,
    };
    let blobs = home.store().blobs();
    let input = question.store(&blobs)?;
    let behind = session.log().end();
    let setup = agents::setup(&called, &config, &providers, &session, blobs)?;
    let ended = turn.run(attached, setup, &input).map_err(|failure| {
        // It may have failed at the very first event.
        failure.or_hint(match home.store().locate(session.id()) {
            Ok(_) => go_on_with(&session),
            Err(_) => "nothing of the session was stored: there is none to go on with".to_owned(),
        })
    })?;
    let Some(report) = ended.reports.last() else {
        return Err(Failure::new("NO_TURN", "no turn was run"));
    };
    let exit = match ended.limit {
        Some(_) if matches!(report.reason, TurnEndReason::Aborted { .. }) => Exit::Limit,
        _ => Exit::of_turn(report),
    };
    // What waited was answered too: it is all of this run.
    let used = usage_from(&session.log(), behind);
    let printed = if json {
        let cost = money::cost(&used, &providers);
        let line = ResultLine {
            cost_usd: cost.map(|cost| money::in_dollars(cost.micro_dollars)),
            ..ResultLine::new(session.id(), report)
        };
        print_result_line(&line, out)
    } else {
        let used = money::is_known(&used).then(|| money::said(&used, &providers));
        print_result(&session, &ended, report, used, &called, &turn, out)
    };
    match printed {
        // Nobody reads the answer, but it is in the log, and somebody may look at the exit code.
        Err(failure) if failure.broken_pipe => Ok(exit),
        printed => printed.map(|()| exit),
    }
}

fn wanted(args: &Run) -> Wanted {
    match (&args.session, &args.fork) {
        (Some(id), _) => Wanted::Session(SessionId::new(id.as_str())),
        (None, Some(source)) => Wanted::Fork {
            source: source.clone(),
            at: args.at,
            worktree: args.worktree.clone(),
        },
        (None, None) => Wanted::New {
            cwd: args.cwd.clone(),
        },
    }
}

/// How the turn is watched and when it is ended.
struct Turn {
    live: Arc<Live>,
    notes: Notes,
    json: bool,
    max_turns: Option<u64>,
    timeout: Option<Age>,
}

/// What came of it.
struct Ended {
    reports: Vec<TurnReport>,
    /// The limit that ended it, in words.
    limit: Option<String>,
}

impl Turn {
    fn run(&self, attached: Attached, setup: AgentSetup, input: &Input) -> Result<Ended, Failure> {
        system::runtime()?.block_on(self.until_idle(attached, setup, input))
    }

    async fn until_idle(
        &self,
        attached: Attached,
        mut setup: AgentSetup,
        input: &Input,
    ) -> Result<Ended, Failure> {
        let mut interrupts = Interrupts::new().context("could not listen for Ctrl-C")?;
        let enough = Arc::new(Notify::new());
        let seen = match self.json {
            true => watching::for_a_program(&mut setup),
            false => watching::for_a_person(&mut setup, &self.live),
        };
        if let Some(max) = self.max_turns {
            setup.hooks.push(Arc::new(TurnLimit::new(max, &enough)));
        }
        let timeout = async {
            match self.timeout {
                Some(Age(ms)) => tokio::time::sleep(Duration::from_millis(ms)).await,
                None => std::future::pending().await,
            }
        };

        let agent = Agent::new(attached, setup);
        agent.send(input, InboxTarget::NextTurn, Wake::Yes)?;
        let mut limit = None;
        let mut is_stopping = false;
        let stop = |why: CancelCause| agent.cancel(why, Queue::Clear).map_err(Failure::from);
        tokio::pin!(timeout);
        loop {
            tokio::select! {
                () = agent.when_idle() => break,
                _ = interrupts.next() => {
                    if is_stopping {
                        // The log is repaired when the session is opened next: nothing that was acknowledged is lost.
                        Exit::Cancelled.at_once();
                    }
                    is_stopping = true;
                    self.live.say("cancelling; press Ctrl-C again to stop at once");
                    stop(CancelCause::User)?;
                }
                () = &mut timeout, if limit.is_none() => {
                    let reason = "the time that --timeout gives it is over".to_owned();
                    limit = Some(reason.clone());
                    stop(CancelCause::Hook { reason })?;
                }
                () = enough.notified(), if limit.is_none() => {
                    let reason = "the model has answered as often as --max-turns lets it".to_owned();
                    limit = Some(reason.clone());
                    stop(CancelCause::Hook { reason })?;
                }
            }
        }
        let closed = tokio::select! {
            closed = agent.dispose() => closed,
            _ = interrupts.next() => Exit::Cancelled.at_once(),
        };
        // Why the turn could not go on says more than why the rest could not be stored.
        let reports = seen.take()?;
        closed.map_err(|error| Failure::from(&*error))?;
        Ok(Ended { reports, limit })
    }
}

fn print_result_line(line: &ResultLine<'_>, out: &mut dyn Write) -> Result<(), Failure> {
    serde_json::to_writer(&mut *out, line)?;
    writeln!(out)?;
    Ok(out.flush()?)
}

fn print_result(
    session: &LiveSession,
    ended: &Ended,
    report: &TurnReport,
    used: Option<String>,
    called: &Called,
    turn: &Turn,
    out: &mut dyn Write,
) -> Result<(), Failure> {
    let notes = turn.notes;
    // At a terminal it was seen as it came in.
    if !report.text.is_empty() && !turn.live.streams() {
        writeln!(out, "{}", report.text)?;
        out.flush()?;
    }
    if let Some(used) = used {
        notes.say(&used);
    }
    match (&report.reason, &ended.limit) {
        (TurnEndReason::Completed, _) => return Ok(()),
        (TurnEndReason::MaxTokens, _) => {
            notes.say("note: the answer was cut off at the model's output limit");
            return Ok(());
        }
        (TurnEndReason::Error { error }, _) => {
            called.told(error).iter().for_each(|line| notes.say(line));
        }
        (TurnEndReason::Aborted { .. }, Some(limit)) => {
            notes.say(&format!("the turn was stopped: {limit}"));
        }
        (other, _) => notes.say(&format!("the turn ended: {}", other.kind())),
    }
    notes.say(&format!("hint: {}", go_on_with(session)));
    Ok(())
}

fn go_on_with(session: &LiveSession) -> String {
    format!(
        "what was said so far is kept; go on with: offshoot run --session {} PROMPT",
        text::quoted(session.id().as_str())
    )
}
