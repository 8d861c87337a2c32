//! `offshoot chat`: a conversation, line by line.

mod above;
mod approval;
mod here;
mod line;
mod side;
mod slash;
mod terminal;

use std::path::PathBuf;
use std::sync::Arc;

use anyhow::Context as _;
use offshoot_agent::{
    CancelCause, InboxTarget, Queue, SessionService, TurnEndReason, TurnReport, UsageReport, Wake,
    own_usage, usage_from,
};
use offshoot_session::{Body, EventLog, Seq, SessionId};
use offshoot_tool_api::PermissionAnswer;

use self::approval::Asked;
use self::here::Here;
use self::line::{Entered, Lines};
use self::slash::Slash;
use crate::agents::{self, Called};
use crate::args;
use crate::asking::Question;
use crate::commands::{compact, ls};
use crate::config::ModelName;
use crate::exit::Exit;
use crate::failure::{CANCELLED, Failure};
use crate::home::Home;
use crate::interrupts::{Interrupt, Interrupts};
use crate::live::Live;
use crate::notes::Notes;
use crate::opening::Wanted;
use crate::{aside, money, system, text};

const PROMPT: &str = "> ";
const SIDE_PROMPT: &str = "side> ";

pub(crate) fn run(args: &args::Chat, home: &Home, json: bool) -> Result<Exit, Failure> {
    if json {
        let failure = Failure::usage("chat is for people and has no JSON");
        return Err(failure.hint("programs use: offshoot run --output json PROMPT"));
    }
    home.check()?;
    system::runtime()?.block_on(async {
        let mut chat = Chat::open(args, home)?;
        let done = chat.run().await;
        let Chat {
            here,
            from,
            live,
            interrupts,
            is_ending,
            ..
        } = &mut chat;
        let closed = tokio::select! {
            closed = here.close_with(from, live) => closed,
            _ = interrupts.next() => Exit::Cancelled.at_once(),
        };
        done.and(closed)?;
        Ok(match is_ending {
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
    /// The sessions that side sessions were opened from, the first one first. They stay open meanwhile.
    from: Vec<Here>,
    /// What the next line begins with.
    draft: String,
}

/// How long to follow what is going on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Until {
    /// Until no turn is running.
    Idle,
    /// Until no subagent is at work either.
    AtRest,
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
        agents::warn_of_kernel(&here.parts.config, notes);
        agents::warn_of_home_in_reach(&here.parts.config, here.session(), notes);
        live.say(&format!(
            "session {}, with {}; /help lists what there is besides talking",
            here.session().id(),
            here.called.name
        ));
        aside::remind(here.session(), notes);
        Ok(Self {
            args,
            home,
            service,
            live,
            lines: Lines::open()?,
            interrupts,
            is_ending: false,
            here,
            from: Vec::new(),
            draft: String::new(),
        })
    }

    fn say_where(&self) {
        self.live
            .say(&format!("now in session {}", self.here.session().id()));
    }

    async fn run(&mut self) -> Result<(), Failure> {
        while !self.is_ending {
            // What was not asked for by a line: a turn that a subagent has brought about.
            let done = self.follow(Until::Idle).await;
            self.complain_of(done);
            if self.is_ending {
                break;
            }
            let line = match self.read_message().await? {
                None | Some(Entered::Interrupted) => continue,
                Some(Entered::Line(line)) => line,
                Some(Entered::End) => {
                    if !self.lines.is_terminal() {
                        let done = self.come_to_rest().await;
                        self.complain_of(done);
                    }
                    return Ok(());
                }
                Some(Entered::Terminated) => {
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
            self.complain_of(done);
        }
        Ok(())
    }

    /// What a person says. `None` if something else is to be done first, where nobody is typing.
    async fn read_message(&mut self) -> Result<Option<Entered>, Failure> {
        let is_typed = self.lines.is_terminal();
        if let Some(above) = self.lines.above() {
            self.live.print_above(above.clone());
        }
        let draft = std::mem::take(&mut self.draft);
        let prompt = match self.here.is_side() {
            true => SIDE_PROMPT,
            false => PROMPT,
        };
        let read = self.lines.message(prompt, &draft, &mut self.interrupts);
        tokio::pin!(read);
        let entered = loop {
            tokio::select! {
                id = side::asked_of(&mut self.from) => self.live.say(&format!(
                    "a call in {id} asks for more than it may do; /back lets you answer"
                )),
                entered = &mut read => break Some(entered),
                () = self.here.seen.woken(), if !is_typed => break None,
                Some(asked) = self.here.questions.recv() => {
                    self.here.asked.push_back(asked);
                    self.live.say("a call asks for more than it may do; press Enter to answer");
                    if !is_typed {
                        break None;
                    }
                }
            }
        };
        self.live.print_below();
        Ok(entered.transpose()?)
    }

    /// A conversation outlives what goes wrong in it.
    fn complain_of(&self, done: Result<(), Failure>) {
        if let Err(failure) = done {
            self.complain(&failure);
        }
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
        let agent = &self.here.agent;
        agent.send(&input, InboxTarget::NextTurn, Wake::Yes)?;
        self.follow(Until::Idle).await
    }

    /// Waits for what is going on, answers its questions, and sums up what came of it. Does nothing if nothing has.
    async fn follow(&mut self, until: Until) -> Result<(), Failure> {
        let (agent, children) = (self.here.agent.clone(), self.here.children.clone());
        let mut is_stopping = false;
        let done = async {
            match until {
                Until::Idle => agent.when_idle().await,
                Until::AtRest => children.at_rest(&agent).await,
            }
        };
        tokio::pin!(done);
        loop {
            let asked = tokio::select! {
                // What is over is not stopped: a signal is for whoever reads the next line.
                biased;
                () = &mut done => break,
                interrupt = self.interrupts.next() => {
                    self.stop(interrupt, &mut is_stopping);
                    match until {
                        Until::Idle => agent.cancel(CancelCause::User, Queue::Clear)?,
                        Until::AtRest => children.cancel(&agent, CancelCause::User)?,
                    }
                    continue;
                }
                asked = self.here.asked() => asked,
            };
            let answer = self.ask(&asked).await?;
            if answer == PermissionAnswer::Cancelled {
                agent.cancel(CancelCause::User, Queue::Clear)?;
            }
            // It was withdrawn if nobody waits for the answer.
            asked.answer.send(answer).ok();
        }
        if !self.here.seen.is_something() {
            return Ok(());
        }
        for report in self.here.seen.take()? {
            self.sum_up(&report);
        }
        let log = agent.session().log();
        self.say_used(&usage_from(&log, self.here.summed_up));
        self.here.summed_up = log.end();
        let below = children.take_used();
        if let Some(used) = money::said_below(&below, &self.here.parts.providers) {
            self.live.say(&used);
        }
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
            if let Some(above) = self.lines.above() {
                self.live.print_above(above.clone());
            }
            let read = self.lines.read(approval::PROMPT, "", &mut self.interrupts);
            let read = read.await;
            self.live.print_below();
            match read? {
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
            self.live
                .say(&money::said(used, &self.here.parts.providers));
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
            Slash::Switch(id) => self.leave_for(id).await,
            Slash::Side(prompt) => self.side(prompt.as_deref()).await,
            Slash::Merge(note) => self.merge(note.as_deref()).await,
            Slash::Back => self.back().await,
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
        if let Wanted::Session(id) = &wanted {
            if id == self.here.session().id() {
                self.say_where();
                return Ok(());
            }
            if self.has_come_from(id) {
                return self.return_to(id).await;
            }
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
        aside::remind(self.here.session(), Notes::new(false));
        before.close(&self.live).await
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
                    self.here.summed_up = agent.session().log().end();
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
        let called =
            Called::named(&self.here.parts.config, &self.here.parts.providers, name)?.checked()?;
        let model = Arc::clone(&called.model);
        self.here.agent.set_model(model, called.agent_config().call);
        self.live.say(&format!("calls {} from now on", called.name));
        self.here.called = called;
        Ok(())
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
