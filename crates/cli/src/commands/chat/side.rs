//! Side sessions in a chat: into one, a note out of it, and back.
//!
//! The sessions that one came from stay open, so that what runs in them goes on; what they say meanwhile is shown when somebody
//! is back.

use std::task::Poll;

use offshoot_agent::SideRequest;
use offshoot_session::SessionId;

use super::here::Here;
use super::{Chat, Until};
use crate::aside;
use crate::commands::merge;
use crate::failure::Failure;
use crate::notes::Notes;
use crate::opening::Wanted;

impl Chat<'_> {
    /// Goes into a side session of this one, and asks something there at once if it is said what.
    pub(super) async fn side(&mut self, prompt: Option<&str>) -> Result<(), Failure> {
        let request = SideRequest::default();
        let made = self.service.side_of(&self.here.agent, &request).await?;
        let told = aside::told(&made);
        let here = self.here.beside(made.attached, &self.service, &self.live)?;
        self.here.seen.look_away();
        self.from.push(std::mem::replace(&mut self.here, here));
        self.say_where();
        told.iter().for_each(|told| self.live.say(told));
        self.live
            .say("/merge brings its latest answer back, or a note; /back returns");
        match prompt {
            Some(prompt) => self.turn(prompt).await,
            None => Ok(()),
        }
    }

    /// Brings a note to the session that this side session is of, or its latest answer.
    pub(super) async fn merge(&self, note: Option<&str>) -> Result<(), Failure> {
        let max_chars = self.here.parts.config.handback_max_chars();
        let session = self.here.session();
        let handback = merge::handback(
            &session.header(),
            &session.log(),
            note,
            max_chars,
            Notes::new(false),
        );
        let handback = handback.map_err(|failure| match failure.code {
            "NOT_A_SIDE_SESSION" => {
                failure.hint("/side goes into one; /tree shows those that are there")
            }
            _ => failure,
        })?;
        let merged = self.service.merge(&handback).await;
        let merged = merged.map_err(|error| Failure::from(error).of_parent())?;
        self.live.say(&merge::told(&handback, merged));
        Ok(())
    }

    /// Returns to the session that this side session is of.
    pub(super) async fn back(&mut self) -> Result<(), Failure> {
        let parent = self.here.session().header().parent;
        match parent.filter(|parent| self.here.is_side() || self.has_come_from(parent)) {
            Some(parent) => self.switch(Wanted::Session(parent)).await,
            None => Err(Failure::usage("this is no side session")
                .hint("/switch ID goes on in another session; /tree shows some")),
        }
    }

    /// Goes on in a session that was named. Unless one has come from there, what one has come from is left.
    pub(super) async fn leave_for(&mut self, id: SessionId) -> Result<(), Failure> {
        let is_there = self.has_come_from(&id) || *self.here.session().id() == id;
        self.switch(Wanted::Session(id)).await?;
        let mut closed = Ok(());
        while !is_there && let Some(from) = self.from.pop() {
            closed = closed.and(from.close(&self.live).await);
        }
        closed
    }

    /// Closes this session, and those between, and goes on in one that is open still.
    pub(super) async fn return_to(&mut self, id: &SessionId) -> Result<(), Failure> {
        let mut closed = Ok(());
        while self.here.session().id() != id
            && let Some(from) = self.from.pop()
        {
            let before = std::mem::replace(&mut self.here, from);
            closed = closed.and(before.close(&self.live).await);
        }
        self.say_where();
        for answer in self.here.seen.look_again() {
            self.live.print(&answer);
        }
        closed
    }

    /// Waits for what goes on here, and then for what goes on where one has come from, which is shown there.
    pub(super) async fn come_to_rest(&mut self) -> Result<(), Failure> {
        self.follow(Until::AtRest).await?;
        while self.from.iter().any(Here::is_at_work)
            && let Some(from) = self.from.last()
            && !self.is_ending
        {
            let id = from.session().id().clone();
            self.return_to(&id).await?;
            self.follow(Until::AtRest).await?;
        }
        Ok(())
    }

    /// Whether a session is one of those that side sessions were opened from.
    pub(super) fn has_come_from(&self, id: &SessionId) -> bool {
        self.from.iter().any(|from| from.session().id() == id)
    }
}

/// Waits until a person is asked something in one of these sessions, and says in which.
pub(super) async fn asked_of(from: &mut [Here]) -> SessionId {
    std::future::poll_fn(|cx| {
        for here in &mut *from {
            if here.poll_question(cx).is_ready() {
                return Poll::Ready(here.session().id().clone());
            }
        }
        Poll::Pending
    })
    .await
}
