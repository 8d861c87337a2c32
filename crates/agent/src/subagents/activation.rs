//! Children that go on when the call that wanted them is answered (`reference/agent.md` §4.5).
//!
//! Such a child has an *activation* from the moment it is told something until it has come to rest: it is idle, and so is
//! everything that it has delegated itself. Then it is settled, in this order: it takes nothing more, its log is made durable,
//! what it came to is read from it, its session is closed, its parent is told ([`notice`](super::notice)), and its place is free.
//! A continuable child that is sent more after that is opened again and has another activation.
//!
//! An activation does not keep its parent alive. When the parent goes, whichever way, its children are cancelled and closed.

use offshoot_session::LogOffset;
use tokio_util::sync::CancellationToken;

use super::child::Child;
use super::collapse::RunEnd;
use super::notice::Settled;
use super::places::Held;
use super::request::{Delegation, Mode, Started};
use super::service::Subagents;
use crate::agent::Agent;

/// A child at work in the background.
struct Activation {
    subagents: Subagents,
    child: Child,
    held: Held,
    /// Where its work begins in its log.
    from: LogOffset,
    /// Cancelled when its parent goes.
    parent_gone: CancellationToken,
}

impl Subagents {
    /// Tells a new child its task and lets it run on. What is returned has an end only if it could not be told.
    pub(super) async fn run_on(&self, child: Child, request: &Delegation) -> Started {
        let log = child.agent.session().log();
        let mut started = Started {
            session: child.agent.session().id().clone(),
            provider: child.provider,
            mode: child.mode,
            end: None,
            unclosed: None,
        };
        let parent = self.service().agent(&child.parent);
        let entered = parent.and_then(|parent| {
            let label = child.label.as_deref();
            self.enter(&parent, &started.session, child.mode, label)
                .ok()
        });
        // Whoever stops a session cancels its turn first and looks here afterwards, so that nothing slips by.
        let wanted = entered.filter(|_| !request.cancel.is_cancelled());
        let told = wanted.map(|held| child.tell(&request.prompt).map(|()| held));
        match told {
            Some(Ok(held)) => self.activate(child, held, log.end()),
            untold => {
                let refused = untold.and_then(Result::err);
                let end = RunEnd::of(&log, log.end(), refused.is_none(), refused.as_ref());
                started.end = Some(end);
                started.unclosed = child.agent.dispose().await.err();
            }
        }
        started
    }

    /// Whether a child goes on behind its call.
    pub(super) const fn goes_on(request: &Delegation) -> bool {
        request.background || matches!(request.mode, Mode::Continuable)
    }

    /// Lets a child that was told something run on, and sees to it that its parent hears of its end.
    pub(super) fn activate(&self, child: Child, held: Held, from: LogOffset) {
        held.fill(&child.agent);
        let parent = self.service().agent(&child.parent);
        let parent_gone = parent.as_ref().map_or_else(
            || {
                let gone = CancellationToken::new();
                gone.cancel();
                gone
            },
            Agent::disposal,
        );
        let activation = Activation {
            subagents: self.clone(),
            child,
            held,
            from,
            parent_gone,
        };
        tokio::spawn(activation.run());
    }
}

impl Activation {
    async fn run(self) {
        tokio::select! {
            biased;
            () = self.parent_gone.cancelled() => self.held.close(),
            () = self.held.closing().cancelled() => {}
            () = self.come_to_rest() => {}
        }
        if self.held.closing().is_cancelled() {
            self.subagents.end(&self.child.agent).await;
        }
        self.settle().await;
    }

    /// Until it takes nothing more, because it has nothing to do.
    async fn come_to_rest(&self) {
        let agent = &self.child.agent;
        let id = agent.session().id();
        loop {
            self.subagents.at_rest(agent).await;
            if agent.retire(|| self.subagents.places().has_none_below(id)) {
                return;
            }
        }
    }

    async fn settle(self) {
        let Self {
            subagents,
            child,
            held,
            from,
            ..
        } = self;
        let Child {
            agent,
            parent,
            mode,
            label,
            broken,
            slot,
            ..
        } = child;
        // What cannot be stored now is tried once more when the session is closed, and told then.
        let _tried = agent.flush().await;
        let is_stopped = held.is_stopped();
        let log = agent.session().log();
        let settled = Settled {
            session: agent.session().id().clone(),
            mode,
            label,
            end: RunEnd::of(&log, from, is_stopped, broken.error().as_deref()),
            waiting: agent.pending().map_or(0, |pending| pending.next_turn.len()),
            unclosed: agent.dispose().await.err(),
        };
        // Nothing of it is left when its parent hears of it, and another one may be at work in its stead.
        drop(agent);
        held.empty();
        drop(slot);
        let notice = settled.notice(subagents.env().fresh_id());
        subagents.tell_of(&parent, &notice, is_stopped);
        drop(held);
    }
}
