//! The session that is talked in, with its agent.

use std::collections::VecDeque;
use std::sync::Arc;
use std::task::{Context, Poll};

use offshoot_agent::{Agent, AgentStatus, Attached, SessionService, is_side};
use offshoot_session::{LiveSession, LogOffset};
use tokio::sync::mpsc::UnboundedReceiver;

use super::approval::{AskInline, Asked};
use crate::agents::{Answers, Around, Called, Children, Parts};
use crate::args;
use crate::config::ModelName;
use crate::failure::Failure;
use crate::home::Home;
use crate::live::Live;
use crate::notes::Notes;
use crate::opening::{Opening, Wanted};
use crate::watching::{self, Seen};

/// The session that is talked in.
pub(super) struct Here {
    pub(super) agent: Agent,
    pub(super) parts: Arc<Parts>,
    pub(super) called: Called,
    pub(super) children: Children,
    pub(super) seen: Seen,
    pub(super) questions: UnboundedReceiver<Asked>,
    /// Questions that came while a person was typing.
    pub(super) asked: VecDeque<Asked>,
    /// Up to where it was said what was used.
    pub(super) summed_up: LogOffset,
}

impl Here {
    pub(super) fn open(
        wanted: Wanted,
        args: &args::Chat,
        home: &Home,
        service: &SessionService,
        live: &Arc<Live>,
        keep: Option<&ModelName>,
    ) -> Result<Self, Failure> {
        let notes = Notes::new(false);
        let opening = Opening::of(wanted, home, notes)?;
        let parts = Parts::load(home, &opening.directory(), &args.calling.flags(), notes)?;
        let Parts {
            config, providers, ..
        } = &parts;
        let called = match keep {
            Some(name) => Called::named(config, providers, name.clone())?.checked()?,
            None => Called::configured(config, providers, opening.log())?,
        };
        let attached = opening.attach(home, service, notes)?;
        Self::on(attached, Arc::new(parts), called, service, live)
    }

    /// A session that works where another one does, with the same model.
    pub(super) fn beside(
        &self,
        attached: Attached,
        service: &SessionService,
        live: &Arc<Live>,
    ) -> Result<Self, Failure> {
        let (parts, called) = (Arc::clone(&self.parts), self.called.clone());
        Self::on(attached, parts, called, service, live)
    }

    fn on(
        attached: Attached,
        parts: Arc<Parts>,
        called: Called,
        service: &SessionService,
        live: &Arc<Live>,
    ) -> Result<Self, Failure> {
        let around = Around {
            on_durable: Some(watching::of_a_child(live)),
            ..Around::default()
        };
        let children = Children::new(&parts, service, Answers::Configured, around);
        let mut setup = children.setup(&called, attached.session())?;
        let summed_up = attached.session().log().end();
        let (approver, questions) = AskInline::new();
        if !parts.allow_everything() {
            setup.approver = Arc::new(approver);
        }
        let seen = watching::for_a_person(&mut setup, live);
        Ok(Self {
            agent: Agent::new(attached, setup),
            parts,
            called,
            children,
            seen,
            questions,
            asked: VecDeque::new(),
            summed_up,
        })
    }

    pub(super) fn session(&self) -> &LiveSession {
        self.agent.session()
    }

    /// Whether it explains and may only look.
    pub(super) fn is_side(&self) -> bool {
        is_side(&self.session().log())
    }

    /// Whether something goes on in it or below, or has and was not told of.
    pub(super) fn is_at_work(&self) -> bool {
        self.agent.status() == AgentStatus::Running
            || self.children.running(&self.agent) > 0
            || self.seen.is_something()
    }

    /// The next question that a person has to answer.
    pub(super) async fn asked(&mut self) -> Asked {
        match self.asked.pop_front() {
            Some(asked) => asked,
            None => match self.questions.recv().await {
                Some(asked) => asked,
                // Everything is allowed, so nobody asks.
                None => std::future::pending().await,
            },
        }
    }

    /// Waits for a question, and keeps it.
    pub(super) fn poll_question(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        match self.questions.poll_recv(cx) {
            Poll::Ready(Some(asked)) => {
                self.asked.push_back(asked);
                Poll::Ready(())
            }
            Poll::Ready(None) | Poll::Pending => Poll::Pending,
        }
    }

    /// Ends the agent and all below it; the sessions are closed when this returns.
    pub(super) async fn close(&self, live: &Live) -> Result<(), Failure> {
        match self.children.running(&self.agent) {
            0 => {}
            1 => live.say("a subagent was at work and is stopped"),
            more => live.say(&format!("{more} subagents were at work and are stopped")),
        }
        self.children.close(&self.agent).await
    }

    /// The same, and then with the sessions that it came from, the last one first.
    pub(super) async fn close_with(
        &self,
        from: &mut Vec<Self>,
        live: &Live,
    ) -> Result<(), Failure> {
        let mut closed = self.close(live).await;
        while let Some(from) = from.pop() {
            closed = closed.and(from.close(live).await);
        }
        closed
    }
}
