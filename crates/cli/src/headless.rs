//! One turn without a person in it: how it is run and watched, what ends it, and what is printed of it.
//!
//! [`Headless`] is made before a session is created, opened or forked, so that whatever can be wrong is said first.

use std::ffi::OsStr;
use std::io::Write;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use offshoot_agent::{
    Agent, AgentHook, AgentSetup, Attached, CancelCause, InboxTarget, Input, SessionService,
    TurnEndReason, TurnReport, UsageReport, Wake, usage_from,
};
use offshoot_model::Usage;
use offshoot_session::{EventLog, LiveSession, SessionId};
use serde::Serialize;
use tokio::sync::Notify;

use crate::agents::{self, Answers, Around, Called, Children, Parts, UsedBelow};
use crate::args::{Age, Calling, Turn};
use crate::asking::Question;
use crate::config::Config;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::home::Home;
use crate::interrupts::Interrupts;
use crate::limits::TurnLimit;
use crate::live::Live;
use crate::notes::Notes;
use crate::source::Source;
use crate::{money, system, text, watching};

/// The last line of the JSON output of a turn. Stable: see `docs/cli.md`.
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
    #[serde(skip_serializing_if = "Vec::is_empty")]
    subagents: Vec<SubagentLine<'a>>,
}

/// A subagent that was at work meanwhile, in a [`ResultLine`].
#[derive(Debug, Serialize)]
struct SubagentLine<'a> {
    session: &'a str,
    parent: &'a str,
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
            subagents: Vec::new(),
        }
    }
}

/// Who follows what happens in a turn.
#[derive(Clone, Debug)]
pub(crate) enum Audience {
    /// Each event is a line of JSON on standard output.
    Program,
    /// What is said and done is shown.
    Person(Arc<Live>),
}

/// What ends a turn that does not end by itself.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Limits {
    max_turns: Option<u64>,
    timeout: Option<Age>,
}

impl Limits {
    fn of(args: &Turn) -> Self {
        Self {
            max_turns: args.max_turns.map(std::num::NonZeroU64::get),
            timeout: args.timeout,
        }
    }
}

/// What a turn is ended by from outside.
struct Stops {
    /// Told when the model may not answer again.
    enough: Arc<Notify>,
    timeout: Option<Age>,
}

/// The turns that were run, and what has stopped them, if anything has.
struct Stopped {
    reports: Vec<TurnReport>,
    limit: Option<String>,
    cut_below: bool,
}

/// What came of a turn.
#[derive(Debug)]
pub(crate) struct Ended {
    session: LiveSession,
    reports: Vec<TurnReport>,
    /// The limit that ended it, in words.
    limit: Option<String>,
    /// Subagents were at work in the background when it was ended.
    cut_below: bool,
    /// What was used. Input that waited was answered too: it is all of this run.
    used: UsageReport,
    /// What subagents have used.
    used_below: Vec<UsedBelow>,
}

impl Ended {
    /// The last turn, and the code that the program ends with because of it.
    pub(crate) fn last(&self) -> Result<(&TurnReport, Exit), Failure> {
        let report = self.reports.last();
        let report = report.ok_or_else(|| Failure::new("NO_TURN", "no turn was run"))?;
        let was_cut = self.cut_below || matches!(report.reason, TurnEndReason::Aborted { .. });
        let exit = match self.limit {
            Some(_) if was_cut => Exit::Limit,
            None if self.cut_below => Exit::Cancelled,
            _ => Exit::of_turn(report),
        };
        Ok((report, exit))
    }
}

/// Who answers, and with what, in a session that is not open yet.
#[derive(Debug)]
pub(crate) struct Headless<'a> {
    home: &'a Home,
    notes: Notes,
    service: SessionService,
    parts: Arc<Parts>,
    called: Called,
    /// What answers in subagents.
    answers: Answers,
}

impl<'a> Headless<'a> {
    /// For a session that works in this directory, and of which this much is stored.
    pub(crate) fn new(
        home: &'a Home,
        calling: &Calling,
        replay: Option<&OsStr>,
        directory: &Path,
        log: Option<&EventLog>,
        notes: Notes,
    ) -> Result<Self, Failure> {
        let parts = Parts::load(home, directory, &calling.flags(), notes)?;
        let (called, answers) = match replay {
            Some(named) => {
                let recording = Source::resolve(home, named).read(home)?;
                (Called::replaying(&recording)?, Answers::Recording)
            }
            None => {
                let called = Called::configured(&parts.config, &parts.providers, log)?;
                (called, Answers::Configured)
            }
        };
        agents::warn_of_kernel(&parts.config, notes);
        Ok(Self {
            home,
            notes,
            service: home.service().on_unstored(notes.on_unstored()),
            parts: Arc::new(parts),
            called,
            answers,
        })
    }

    /// Says so if pictures belong to the question and the model is not known to look at them.
    pub(crate) fn warn_of_pictures(&self, question: &Question) {
        if question.has_images() && !self.called.sees_images {
            self.notes.say(&format!(
                "note: {} is not known to look at pictures and is told so in their place; if it does, set `images = true` for \
                 it in `{}`",
                self.called.name,
                self.parts.config.user_file().display()
            ));
        }
    }

    /// What is configured where the session works.
    pub(crate) fn config(&self) -> &Config {
        &self.parts.config
    }

    /// Where the session is opened, created or forked.
    pub(crate) const fn service(&self) -> &SessionService {
        &self.service
    }

    /// Says which session it is, and what may surprise about where it works. Before the turn, so that it is known whatever
    /// happens in it.
    pub(crate) fn announce(&self, session: &LiveSession) {
        self.notes.say(&format!("session {}", session.id()));
        if let Some(cwd) = session.header().cwd.filter(|cwd| !Path::new(cwd).is_dir()) {
            self.notes.say(&format!(
                "warning: the session works in `{cwd}`, which is not a directory here"
            ));
        }
        agents::warn_of_home_in_reach(&self.parts.config, session, self.notes);
    }

    /// Has the question answered and prints what comes of it.
    pub(crate) fn answer(
        &self,
        attached: Attached,
        question: &Question,
        args: &Turn,
        out: &mut dyn Write,
    ) -> Result<Exit, Failure> {
        let input = question.store(&self.home.store().blobs())?;
        let live = Arc::new(Live::new(self.notes));
        let audience = match self.notes.are_json() {
            true => Audience::Program,
            false => Audience::Person(Arc::clone(&live)),
        };
        let ended = self.run(attached, &input, &audience, Limits::of(args))?;
        let (report, exit) = ended.last()?;
        let printed = match audience {
            Audience::Program => self.print_line(&ended, report, out),
            // At a terminal it was seen as it came in.
            Audience::Person(_) => {
                print_text(report, !live.streams(), out).map(|()| self.sum_up(&ended, report))
            }
        };
        match printed {
            // Nobody reads the answer, but it is in the log, and somebody may look at the exit code.
            Err(failure) if failure.broken_pipe => Ok(exit),
            printed => printed.map(|()| exit),
        }
    }

    /// Sends a message to a session and waits until nothing is left to do in it. The session is closed then.
    pub(crate) fn run(
        &self,
        attached: Attached,
        input: &Input,
        audience: &Audience,
        limits: Limits,
    ) -> Result<Ended, Failure> {
        let session = attached.session().clone();
        let behind = session.log().end();
        let enough = Arc::new(Notify::new());
        let limit = limits.max_turns.map(|max| TurnLimit::new(max, &enough));
        let limit = limit.map(|limit| Arc::new(limit) as Arc<dyn AgentHook>);
        let around = Around {
            hooks: limit.iter().cloned().collect(),
            on_durable: match audience {
                Audience::Program => None,
                Audience::Person(live) => Some(watching::of_a_child(live)),
            },
        };
        let children = Children::new(&self.parts, &self.service, self.answers, around);
        let mut setup = children.setup(&self.called, &session)?;
        setup.hooks.extend(limit);
        let stops = Stops {
            enough,
            timeout: limits.timeout,
        };
        let turn = self.until_idle(attached, setup, &children, input, audience, stops);
        let ended = system::runtime()?.block_on(turn);
        let stopped = ended.map_err(|failure| {
            // It may have failed at the very first event.
            failure.or_hint(match self.home.store().locate(session.id()) {
                Ok(_) => go_on_with(&session),
                Err(_) => {
                    "nothing of the session was stored: there is none to go on with".to_owned()
                }
            })
        })?;
        let used = usage_from(&session.log(), behind);
        Ok(Ended {
            session,
            reports: stopped.reports,
            limit: stopped.limit,
            cut_below: stopped.cut_below,
            used,
            used_below: children.take_used(),
        })
    }

    /// Runs turns until nothing is left to do, or somebody does not want it done.
    async fn until_idle(
        &self,
        attached: Attached,
        mut setup: AgentSetup,
        children: &Children,
        input: &Input,
        audience: &Audience,
        stops: Stops,
    ) -> Result<Stopped, Failure> {
        let mut interrupts = Interrupts::new().context("could not listen for Ctrl-C")?;
        let seen = match audience {
            Audience::Program => watching::for_a_program(&mut setup),
            Audience::Person(live) => watching::for_a_person(&mut setup, live),
        };
        let timeout = async {
            match stops.timeout {
                Some(Age(ms)) => tokio::time::sleep(Duration::from_millis(ms)).await,
                None => std::future::pending().await,
            }
        };

        let agent = Agent::new(attached, setup);
        agent.send(input, InboxTarget::NextTurn, Wake::Yes)?;
        let mut limit = None;
        let (mut is_stopping, mut cut_below) = (false, false);
        let mut stop = |why: CancelCause| {
            cut_below |= children.running(&agent) > 0;
            children.cancel(&agent, why)
        };
        let at_rest = children.at_rest(&agent);
        tokio::pin!(timeout, at_rest);
        loop {
            tokio::select! {
                () = &mut at_rest => break,
                _ = interrupts.next() => {
                    if is_stopping {
                        // The log is repaired when the session is opened next: nothing that was acknowledged is lost.
                        Exit::Cancelled.at_once();
                    }
                    is_stopping = true;
                    let told = "cancelling; press Ctrl-C again to stop at once";
                    match audience {
                        Audience::Program => self.notes.say(told),
                        Audience::Person(live) => live.say(told),
                    }
                    stop(CancelCause::User)?;
                }
                () = &mut timeout, if limit.is_none() => {
                    let reason = "the time that --timeout gives it is over".to_owned();
                    limit = Some(reason.clone());
                    stop(CancelCause::Hook { reason })?;
                }
                () = stops.enough.notified(), if limit.is_none() => {
                    let reason = "the model has answered as often as --max-turns lets it".to_owned();
                    limit = Some(reason.clone());
                    stop(CancelCause::Hook { reason })?;
                }
            }
        }
        let closed = tokio::select! {
            closed = children.close(&agent) => closed,
            _ = interrupts.next() => Exit::Cancelled.at_once(),
        };
        // Why the turn could not go on says more than why the rest could not be stored.
        let reports = seen.take()?;
        closed?;
        Ok(Stopped {
            reports,
            limit,
            cut_below,
        })
    }

    fn print_line(
        &self,
        ended: &Ended,
        report: &TurnReport,
        out: &mut dyn Write,
    ) -> Result<(), Failure> {
        let cost_usd = |used: &UsageReport| {
            let cost = money::cost(used, &self.parts.providers);
            cost.map(|cost| money::in_dollars(cost.micro_dollars))
        };
        let below = ended.used_below.iter().map(|below| SubagentLine {
            session: below.session.as_str(),
            parent: below.parent.as_str(),
            usage: money::is_known(&below.used).then(|| below.used.total()),
            cost_usd: cost_usd(&below.used),
        });
        let line = ResultLine {
            cost_usd: cost_usd(&ended.used),
            subagents: below.collect(),
            ..ResultLine::new(ended.session.id(), report)
        };
        serde_json::to_writer(&mut *out, &line)?;
        writeln!(out)?;
        Ok(out.flush()?)
    }

    /// What was used, and how the turn ended if not by itself.
    pub(crate) fn sum_up(&self, ended: &Ended, report: &TurnReport) {
        let notes = self.notes;
        if money::is_known(&ended.used) {
            notes.say(&money::said(&ended.used, &self.parts.providers));
        }
        if let Some(below) = money::said_below(&ended.used_below, &self.parts.providers) {
            notes.say(&below);
        }
        if ended.cut_below {
            let why = ended.limit.as_ref().map(|limit| format!(": {limit}"));
            let why = why.unwrap_or_default();
            notes.say(&format!("subagents were at work and were stopped{why}"));
        }
        match (&report.reason, &ended.limit) {
            (TurnEndReason::Completed, _) => return,
            (TurnEndReason::MaxTokens, _) => {
                notes.say("note: the answer was cut off at the model's output limit");
                return;
            }
            (TurnEndReason::Error { error }, _) => {
                let told = self.called.told(error);
                told.iter().for_each(|line| notes.say(line));
            }
            (TurnEndReason::Aborted { .. }, Some(limit)) => {
                notes.say(&format!("the turn was stopped: {limit}"));
            }
            (other, _) => notes.say(&format!("the turn ended: {}", other.kind())),
        }
        notes.say(&format!("hint: {}", go_on_with(&ended.session)));
    }
}

fn print_text(report: &TurnReport, is_new: bool, out: &mut dyn Write) -> Result<(), Failure> {
    if is_new && !report.text.is_empty() {
        writeln!(out, "{}", report.text)?;
        out.flush()?;
    }
    Ok(())
}

fn go_on_with(session: &LiveSession) -> String {
    format!(
        "what was said so far is kept; go on with: offshoot run --session {} PROMPT",
        text::quoted(session.id().as_str())
    )
}
