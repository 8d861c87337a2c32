//! `offshoot chat`: a conversation, line by line.

mod approval;
mod line;
mod slash;
mod terminal;

use std::path::PathBuf;
use std::sync::Arc;

use anyhow::Context as _;
use offshoot_agent::{
    Agent, CancelCause, InboxTarget, Queue, SessionService, TurnEndReason, TurnReport, UsageReport,
    Wake, own_usage, usage_from,
};
use offshoot_session::{Body, EventLog, LiveSession, Seq, SessionId};
use offshoot_tool_api::PermissionAnswer;
use tokio::sync::mpsc::UnboundedReceiver;

use self::approval::{AskInline, Asked};
use self::line::{Entered, Lines};
use self::slash::Slash;
use crate::agents::{self, Called};
use crate::args;
use crate::asking::Question;
use crate::commands::{compact, ls};
use crate::config::{Config, ModelName};
use crate::exit::Exit;
use crate::failure::{CANCELLED, Failure};
use crate::home::Home;
use crate::interrupts::{Interrupt, Interrupts};
use crate::live::Live;
use crate::notes::Notes;
use crate::opening::{Opening, Wanted};
use crate::providers::Providers;
use crate::watching::Seen;
use crate::{money, system, text, watching};

const PROMPT: &str = "> ";

pub(crate) fn run(args: &args::Chat, home: &Home, json: bool) -> Result<Exit, Failure> {
    if json {
        let failure = Failure::usage("chat is for people and has no JSON");
        return Err(failure.hint("programs use: offshoot run --output json PROMPT"));
    }
    home.check()?;
    system::runtime()?.block_on(async {
        let mut chat = Chat::open(args, home)?;
        let done = chat.run().await;
        let closed = tokio::select! {
            closed = chat.here.close() => closed,
            _ = chat.interrupts.next() => Exit::Cancelled.at_once(),
        };
        done.and(closed)?;
        Ok(match chat.is_ending {
            true => Exit::Cancelled,
            false => Exit::Done,
        })
    })
}

/// A conversation in one session at a time.
struct Chat<'a> {
    args: &'a args::Chat,
    home: &'a Home,
    service: SessionService,
    live: Arc<Live>,
    lines: Lines,
    interrupts: Interrupts,
    /// A signal has asked the program to end.
    is_ending: bool,
    here: Here,
    /// What the next line begins with.
    draft: String,
}

/// The session that is talked in.
struct Here {
    agent: Agent,
    config: Config,
    providers: Providers,
    called: Called,
    seen: Seen,
    questions: UnboundedReceiver<Asked>,
}

impl<'a> Chat<'a> {
    fn open(args: &'a args::Chat, home: &'a Home) -> Result<Self, Failure> {
        let notes = Notes::new(false);
        let interrupts = Interrupts::new().context("could not listen for Ctrl-C")?;
        let service = home.service().on_unstored(notes.on_unstored());
        let live = Arc::new(Live::always(notes));
        let wanted = match (&args.session, &args.fork) {
            (Some(id), _) => Wanted::Session(SessionId::new(id.as_str())),
            (None, Some(source)) => Wanted::Fork {
                source: source.clone(),
                at: args.at,
                worktree: None,
            },
            (None, None) => Wanted::New {
                cwd: args.cwd.clone(),
            },
        };
        let here = Here::open(wanted, args, home, &service, &live, None)?;
        agents::warn_of_kernel(&here.config, notes);
        agents::warn_of_home_in_reach(&here.config, here.session(), notes);
        live.say(&format!(
            "session {}, with {}; /help lists what there is besides talking",
            here.session().id(),
            here.called.name
        ));
        Ok(Self {
            args,
            home,
            service,
            live,
            lines: Lines::open()?,
            interrupts,
            is_ending: false,
            here,
            draft: String::new(),
        })
    }

    fn say_where(&self) {
        self.live
            .say(&format!("now in session {}", self.here.session().id()));
    }

    async fn run(&mut self) -> Result<(), Failure> {
        while !self.is_ending {
            let draft = std::mem::take(&mut self.draft);
            let read = self.lines.message(PROMPT, &draft, &mut self.interrupts);
            let line = match read.await? {
                Entered::Line(line) => line,
                Entered::Interrupted => continue,
                Entered::End => return Ok(()),
                Entered::Terminated => {
                    self.is_ending = true;
                    continue;
                }
            };
            if line.trim().is_empty() {
                continue;
            }
            let done = match Slash::parse(&line) {
                Some(Ok(Slash::Quit)) => return Ok(()),
                Some(Ok(slash)) => self.obey(slash).await,
                Some(Err(what)) => Err(Failure::usage(what)),
                None => self.turn(&line).await,
            };
            // A conversation outlives what goes wrong in it.
            if let Err(failure) = done {
                self.complain(&failure);
            }
        }
        Ok(())
    }

    fn complain(&self, failure: &Failure) {
        match failure.code {
            CANCELLED => self.live.say(&failure.message),
            _ => self.live.say(&format!("error: {failure}")),
        }
        for hint in failure.hint.iter().flat_map(|hint| hint.lines()) {
            self.live.say(&format!("hint: {hint}"));
        }
    }

    /// A message to the model, and what comes of it. Ctrl-C stops it; a second one ends the program.
    async fn turn(&mut self, line: &str) -> Result<(), Failure> {
        let input = Question::of(line).store(&self.home.store().blobs())?;
        let agent = self.here.agent.clone();
        let behind = agent.session().log().end();
        agent.send(&input, InboxTarget::NextTurn, Wake::Yes)?;
        let mut is_stopping = false;
        loop {
            tokio::select! {
                () = agent.when_idle() => break,
                interrupt = self.interrupts.next() => {
                    self.stop(interrupt, &mut is_stopping);
                    agent.cancel(CancelCause::User, Queue::Clear)?;
                }
                Some(asked) = self.here.questions.recv() => {
                    let answer = self.ask(&asked).await?;
                    if answer == PermissionAnswer::Cancelled {
                        agent.cancel(CancelCause::User, Queue::Clear)?;
                    }
                    // It was withdrawn if nobody waits for the answer.
                    asked.answer.send(answer).ok();
                }
            }
        }
        for report in self.here.seen.take()? {
            self.sum_up(&report);
        }
        self.say_used(&usage_from(&agent.session().log(), behind));
        Ok(())
    }

    /// Ctrl-C stops what is being done, and a second one ends the program; what asks the program to end does both.
    fn stop(&mut self, interrupt: Interrupt, is_stopping: &mut bool) {
        if *is_stopping {
            Exit::Cancelled.at_once();
        }
        *is_stopping = true;
        self.is_ending |= interrupt == Interrupt::Terminate;
        self.live.say(match self.is_ending {
            true => "stopping; press Ctrl-C to end the program at once",
            false => "stopping; press Ctrl-C again to end the program",
        });
    }

    async fn ask(&mut self, asked: &Asked) -> Result<PermissionAnswer, Failure> {
        self.live.say(&approval::told(&asked.question));
        loop {
            if !self.lines.is_terminal() {
                self.live.say(approval::PROMPT.trim_end());
            }
            let read = self.lines.read(approval::PROMPT, "", &mut self.interrupts);
            match read.await? {
                Entered::Line(line) => match approval::read(&line) {
                    Some(answer) => return Ok(answer),
                    None => self.live.say("say y, a or n"),
                },
                Entered::Interrupted => return Ok(PermissionAnswer::Cancelled),
                Entered::Terminated => {
                    self.is_ending = true;
                    return Ok(PermissionAnswer::Cancelled);
                }
                Entered::End => return Ok(PermissionAnswer::Unavailable),
            }
        }
    }

    fn sum_up(&self, report: &TurnReport) {
        match &report.reason {
            TurnEndReason::Completed => {}
            TurnEndReason::MaxTokens => self
                .live
                .say("note: the answer was cut off at the model's output limit"),
            TurnEndReason::Error { error } => {
                let told = self.here.called.told(error);
                told.iter().for_each(|line| self.live.say(line));
            }
            other => self.live.say(&format!("the turn ended: {}", other.kind())),
        }
    }

    /// What was used, as far as anybody knows.
    fn say_used(&self, used: &UsageReport) -> bool {
        let is_known = money::is_known(used);
        if is_known {
            self.live.say(&money::said(used, &self.here.providers));
        }
        is_known
    }

    async fn obey(&mut self, slash: Slash) -> Result<(), Failure> {
        match slash {
            Slash::Help => {
                self.live.say(slash::help().trim_end());
                Ok(())
            }
            Slash::Fork(at) => self.fork(at).await,
            Slash::UndoTurn => self.undo_turn().await,
            Slash::Tree => self.tree(),
            Slash::Switch(id) => self.switch(Wanted::Session(id)).await,
            Slash::Compact => self.compact().await,
            Slash::Cost => {
                self.cost();
                Ok(())
            }
            Slash::Model(None) => {
                self.live.say(&self.here.called.name.to_string());
                Ok(())
            }
            Slash::Model(Some(name)) => self.call(name),
            // It has ended the loop.
            Slash::Quit => Ok(()),
        }
    }

    async fn fork(&mut self, at: Option<Seq>) -> Result<(), Failure> {
        let id = self.here.session().id().clone();
        self.switch(Wanted::Fork {
            source: PathBuf::from(id.as_str()).into_os_string(),
            at,
            worktree: None,
        })
        .await
    }

    /// The last turn stays in this session; the fork begins without it. What was said is there to be said otherwise.
    async fn undo_turn(&mut self) -> Result<(), Failure> {
        let undone = {
            let log = self.here.session().log();
            LastTurn::of(&log)
        };
        let Some(LastTurn { start, said }) = undone else {
            return Err(Failure::usage("there is no turn to undo yet"));
        };
        match start.before().last() {
            Some(before) => self.fork(Some(before)).await?,
            None => {
                self.switch(Wanted::New {
                    cwd: self.here.session().header().cwd.map(PathBuf::from),
                })
                .await?;
            }
        }
        if !said.is_empty() {
            if self.lines.is_terminal() {
                self.draft = said;
            } else {
                self.live
                    .say(&format!("you had said: {}", text::printable(&said)));
            }
        }
        Ok(())
    }

    /// Goes on in another session; if that cannot be, in this one.
    async fn switch(&mut self, wanted: Wanted) -> Result<(), Failure> {
        if let Wanted::Session(id) = &wanted
            && id == self.here.session().id()
        {
            self.say_where();
            return Ok(());
        }
        let model = &self.here.called.name;
        let keep = matches!(wanted, Wanted::Fork { .. } | Wanted::New { .. }).then_some(model);
        let here = Here::open(
            wanted,
            self.args,
            self.home,
            &self.service,
            &self.live,
            keep,
        )?;
        let before = std::mem::replace(&mut self.here, here);
        self.say_where();
        before.close().await
    }

    fn tree(&self) -> Result<(), Failure> {
        let rows = ls::rows(self.home)?;
        let root = ls::root_of(&rows, self.here.session().id().as_str());
        let mut shown = Vec::new();
        ls::tree(&ls::family(rows, &root), &mut shown)?;
        let shown = String::from_utf8_lossy(&shown).into_owned();
        match shown.trim_end() {
            "" => self.live.say("nothing has been said yet"),
            tree => self.live.say(tree),
        }
        Ok(())
    }

    /// The older part gives way to a summary. Ctrl-C stops it.
    async fn compact(&mut self) -> Result<(), Failure> {
        let agent = self.here.agent.clone();
        let mut is_stopping = false;
        let compact = agent.compact();
        tokio::pin!(compact);
        loop {
            tokio::select! {
                compacted = &mut compact => {
                    self.live.say(&compact::told(compacted?.as_ref()));
                    return Ok(());
                }
                interrupt = self.interrupts.next() => {
                    self.stop(interrupt, &mut is_stopping);
                    agent.cancel(CancelCause::User, Queue::Keep)?;
                }
            }
        }
    }

    /// What this session has used by itself: what a fork inherits was paid for by its parent.
    fn cost(&self) {
        let log = self.here.session().log();
        if !self.say_used(&own_usage(&log)) {
            self.live.say("nothing has been used yet");
        } else if log.inherited_marker().is_some() {
            self.live
                .say("what was inherited is not counted: it is the parent's");
        }
    }

    /// Calls another model from now on.
    fn call(&mut self, name: ModelName) -> Result<(), Failure> {
        let called = Called::named(&self.here.config, &self.here.providers, name)?.checked()?;
        let model = Arc::clone(&called.model);
        self.here.agent.set_model(model, called.agent_config().call);
        self.live.say(&format!("calls {} from now on", called.name));
        self.here.called = called;
        Ok(())
    }
}

impl Here {
    fn open(
        wanted: Wanted,
        args: &args::Chat,
        home: &Home,
        service: &SessionService,
        live: &Arc<Live>,
        keep: Option<&ModelName>,
    ) -> Result<Self, Failure> {
        let notes = Notes::new(false);
        let opening = Opening::of(wanted, home, notes)?;
        let config = Config::load(home, &opening.directory(), &args.calling.flags())?;
        config.warn(notes);
        let providers = Providers::of(&config, home)?;
        let called = match keep {
            Some(name) => Called::named(&config, &providers, name.clone())?.checked()?,
            None => Called::configured(&config, &providers, opening.log())?,
        };
        let attached = opening.attach(home, service, notes)?;
        let blobs = home.store().blobs();
        let mut setup = agents::setup(&called, &config, &providers, attached.session(), blobs)?;
        let (approver, questions) = AskInline::new();
        if !agents::allows_everything(&config) {
            setup.approver = Arc::new(approver);
        }
        let seen = watching::for_a_person(&mut setup, live);
        Ok(Self {
            agent: Agent::new(attached, setup),
            config,
            providers,
            called,
            seen,
            questions,
        })
    }

    fn session(&self) -> &LiveSession {
        self.agent.session()
    }

    /// Ends the agent; the session is closed when this returns.
    async fn close(&self) -> Result<(), Failure> {
        let closed = self.agent.dispose().await;
        closed.map_err(|error| Failure::from(&*error))
    }
}

/// The last turn of a session.
#[derive(Debug, PartialEq, Eq)]
struct LastTurn {
    start: Seq,
    /// What the person said in it first.
    said: String,
}

impl LastTurn {
    fn of(log: &EventLog) -> Option<Self> {
        let turn = log.last_turn();
        let started = |event: &&Arc<offshoot_session::Event>| matches!(event.body(), Body::TurnStart { turn: this } if *this == turn);
        let start = log.events().find(started)?.seq();
        let mut behind = log.events_from(start.after());
        let said = behind.find(|event| {
            matches!(event.body(), Body::UserMessage(message) if &*message.source == "user")
        });
        Some(Self {
            start,
            said: said
                .map(|event| text::message_text(event))
                .unwrap_or_default(),
        })
    }
}
