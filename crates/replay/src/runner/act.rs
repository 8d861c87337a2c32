//! The steps themselves. What a step comes to is a line of output, also when it is refused: that may be what a scenario is
//! about.

use std::fs;

use offshoot_agent::{
    AgentError, CancelCause, Framing, HANDBACK_MAX_CHARS, Handback, InboxTarget, Input, Merged,
    Promoted, Queue, SideRequest, Wake, handback_request,
};
use offshoot_session::Seq;
use serde_json::{Map, Value, json};

use super::Runner;
use crate::flaw::Flaw;
use crate::names::SessionName;
use crate::steps::{Action, Note, Step, Until};

/// What a step has come to: members of its line, none if it comes to nothing.
type Outcome = Result<Map<String, Value>, Refused>;

/// Why a step has come to nothing.
enum Refused {
    /// The program refuses it, and says why.
    Told { code: String, message: String },
    /// The scenario cannot go on.
    Flaw(Flaw),
}

impl From<AgentError> for Refused {
    fn from(error: AgentError) -> Self {
        Self::Told {
            code: error.code().to_owned(),
            message: error.to_string(),
        }
    }
}

impl From<Flaw> for Refused {
    fn from(flaw: Flaw) -> Self {
        Self::Flaw(flaw)
    }
}

impl Runner {
    /// Does a step. `at` is its place, from 0.
    pub(super) async fn act(&mut self, at: usize, step: &Step) -> Result<(), Flaw> {
        let members = match Box::pin(self.do_step(step)).await {
            Ok(members) => members,
            Err(Refused::Flaw(flaw)) => return Err(flaw),
            Err(Refused::Told { code, message }) => {
                members([("error", json!({"code": code, "message": message}))])
            }
        };
        if members.is_empty() {
            return Ok(());
        }
        let mut line = Map::new();
        line.insert("step".to_owned(), json!(at + 1));
        line.insert("do".to_owned(), json!(step.action.word()));
        line.extend(members);
        self.output.push(Value::Object(line));
        Ok(())
    }

    async fn do_step(&mut self, step: &Step) -> Outcome {
        match &step.action {
            Action::Prompt {
                session,
                text,
                target,
                wait,
            } => {
                let agent = self.agent(session)?;
                let input = self.input(text);
                agent.send(&input, *target, Wake::Yes)?;
                self.after(step, session, *wait).await
            }
            Action::Wait { until } => self.wait(step, until).await,
            Action::Cancel { session, wait } => {
                let agent = self.agent(session)?;
                agent.cancel(CancelCause::User, Queue::Clear)?;
                self.after(step, session, *wait).await
            }
            Action::Compact { session } => self.compact(step, session).await,
            Action::Fork { of, child, at } => self.fork(step, of, child, *at).await,
            Action::Side { of, child, at } => self.side(step, of, child, *at).await,
            Action::Merge { child, note } => Box::pin(self.merge(step, child, note)).await,
            Action::Promote { session } => {
                let id = self.id(session)?;
                let promoted = match self.service.promote(&id)? {
                    Promoted::Logged { seq } => json!({"logged": seq}),
                    Promoted::Queued => json!("queued"),
                    Promoted::Withdrawn => json!("withdrawn"),
                };
                Ok(members([
                    ("session", json!(session.as_str())),
                    ("promoted", promoted),
                ]))
            }
            Action::Write { path, text } => self.write(path, text),
            // Who runs the steps stops before it.
            Action::Kill => Ok(Map::new()),
            Action::Open { session } => {
                let id = self.id(session)?;
                let opened = self.service.open(&id)?;
                let closed = opened
                    .repair
                    .as_ref()
                    .map_or(0, |repair| repair.closers.len());
                let settled = opened.repair.as_ref().and_then(|repair| repair.settled);
                self.put_agent_on(opened.attached, session)?;
                Ok(members([
                    ("session", json!(session.as_str())),
                    ("closers", json!(closed)),
                    ("settled", json!(settled)),
                ]))
            }
        }
    }

    /// What turns came to, if the step is to wait for them.
    async fn after(&self, step: &Step, session: &SessionName, wait: bool) -> Outcome {
        if !wait {
            return Ok(Map::new());
        }
        self.until_idle(step, session).await?;
        Ok(self.turns(session))
    }

    /// The turns that have ended since somebody last asked.
    fn turns(&self, session: &SessionName) -> Map<String, Value> {
        let turns = self.open.get(session).map(|open| open.turns.take());
        let turns = turns.filter(|turns| !turns.is_empty());
        turns.map_or_else(Map::new, |turns| {
            members([
                ("session", json!(session.as_str())),
                ("turns", turns.into()),
            ])
        })
    }

    async fn wait(&self, step: &Step, until: &Until) -> Outcome {
        match until {
            Until::Idle(session) => {
                self.until_quiet(Some(step), session).await?;
                return Ok(self.turns(session));
            }
            Until::File(path) => self.until_file(step, path).await?,
            Until::Event {
                session,
                kind,
                count,
            } => self.until_event(step, session, kind, *count).await?,
        }
        Ok(Map::new())
    }

    async fn compact(&self, step: &Step, session: &SessionName) -> Outcome {
        let agent = self.agent(session)?;
        let what = format!("`{session}` to be compacted");
        let compacted = self.patiently(Some(step), &what, agent.compact()).await?;
        let compacted = compacted.map_err(|error| Refused::Told {
            code: error.code().to_owned(),
            message: error.to_string(),
        })?;
        // How many tokens that were is an estimate, of texts that paths are part of.
        let told = compacted.map(
            |compacted| json!({"messages": compacted.items, "checkpoint": compacted.checkpoint}),
        );
        Ok(members([
            ("session", json!(session.as_str())),
            ("compacted", json!(told)),
        ]))
    }

    async fn fork(
        &mut self,
        step: &Step,
        of: &SessionName,
        child: &SessionName,
        at: Option<Seq>,
    ) -> Outcome {
        let id = self.id(of)?;
        let fork = match self.service.agent(&id) {
            Some(agent) => {
                let preparing = self.service.prepare_fork_of(&agent, at, None);
                let what = format!("a fork of `{of}`");
                self.patiently(Some(step), &what, preparing).await??
            }
            None => {
                let read = self.service.read(&id).map_err(AgentError::from)?;
                self.service.prepare_fork(&read, at, None)?
            }
        };
        let attached = self.service.store_fork(&fork)?;
        self.put_agent_on(attached, child)?;
        Ok(members([
            ("session", json!(child.as_str())),
            ("cut", json!(fork.cut)),
        ]))
    }

    async fn side(
        &mut self,
        step: &Step,
        of: &SessionName,
        child: &SessionName,
        at: Option<Seq>,
    ) -> Outcome {
        let id = self.id(of)?;
        let request = SideRequest { at, child: None };
        let side = match self.service.agent(&id) {
            Some(agent) => {
                let forking = self.service.side_of(&agent, &request);
                let what = format!("a side session of `{of}`");
                self.patiently(Some(step), &what, forking).await??
            }
            None => {
                let read = self.service.read(&id).map_err(AgentError::from)?;
                self.service.side(&read, &request)?
            }
        };
        let framing = match side.framing {
            Framing::Logged(seq) => json!({"logged": seq}),
            Framing::Waiting => json!("waiting"),
        };
        self.put_agent_on(side.attached, child)?;
        Ok(members([
            ("session", json!(child.as_str())),
            ("cut", json!(side.cut)),
            ("framing", framing),
            ("summarised", json!(side.summarised)),
        ]))
    }

    async fn merge(&self, step: &Step, child: &SessionName, note: &Note) -> Outcome {
        let mut line = Map::new();
        if *note == Note::Asked {
            let agent = self.agent(child)?;
            let id = self.parts.env().ids.fresh();
            let request = handback_request(id, HANDBACK_MAX_CHARS);
            agent.send(&request, InboxTarget::NextTurn, Wake::Yes)?;
            self.until_idle(step, child).await?;
            line.extend(self.turns(child));
            let last = line
                .get("turns")
                .and_then(Value::as_array)
                .and_then(|turns| turns.last());
            if last.is_none_or(|turn| turn["reason"]["kind"] != "completed") {
                let told = "the side session has not answered: there is no note to bring back";
                let error = json!({"code": "HANDBACK_UNANSWERED", "message": told});
                line.insert("error".to_owned(), error);
                return Ok(line);
            }
        }
        match Box::pin(self.hand_back(step, child, note)).await {
            Err(Refused::Flaw(flaw)) => return Err(flaw.into()),
            Err(Refused::Told { code, message }) => {
                let error = json!({"code": code, "message": message});
                line.insert("error".to_owned(), error);
            }
            Ok(merged) => {
                line.insert("session".to_owned(), json!(child.as_str()));
                line.insert("merged".to_owned(), merged);
            }
        }
        Ok(line)
    }

    async fn hand_back(
        &self,
        step: &Step,
        child: &SessionName,
        note: &Note,
    ) -> Result<Value, Refused> {
        let written = match note {
            Note::Written(note) => Some(self.place.fill(note)),
            Note::Latest | Note::Asked => None,
        };
        let id = self.id(child)?;
        let (header, log) = match self.service.agent(&id) {
            Some(agent) => {
                let session = agent.session().lock();
                (session.header().clone(), session.log().clone())
            }
            None => {
                let read = self.service.read(&id).map_err(AgentError::from)?;
                (read.stored.header, read.stored.log)
            }
        };
        let handback = Handback::of(&header, &log, written.as_deref(), HANDBACK_MAX_CHARS);
        let handback = handback.map_err(AgentError::from)?;
        let merging = self.service.merge(&handback);
        let what = format!("the note of `{child}` to be stored");
        Ok(match self.patiently(Some(step), &what, merging).await?? {
            Merged::Queued => json!("queued"),
            Merged::Logged { seq } => json!({"logged": seq}),
        })
    }

    #[expect(
        clippy::disallowed_methods,
        reason = "a file as anybody's editor would write it, in a temporary workspace"
    )]
    fn write(&self, path: &std::path::Path, text: &str) -> Outcome {
        let file = self.place.workspace.join(path);
        let parent = file.parent().map_or(Ok(()), fs::create_dir_all);
        let written = parent.and_then(|()| fs::write(&file, self.place.fill(text)));
        written.map_err(|error| {
            let told = format!("could not write `{}`: {error}", path.display());
            Flaw::new(Flaw::STEP, told)
        })?;
        Ok(Map::new())
    }

    fn input(&self, text: &str) -> Input {
        Input::user(self.parts.env().ids.fresh(), self.place.fill(text))
    }

    /// The id of a session that has to be there.
    fn id(&self, name: &SessionName) -> Result<offshoot_session::SessionId, Flaw> {
        self.find(name)
            .ok_or_else(|| Flaw::new(Flaw::STEP, format!("there is no session `{name}`")))
    }
}

fn members<const N: usize>(members: [(&str, Value); N]) -> Map<String, Value> {
    let members = members.into_iter();
    members
        .filter(|(_, value)| !value.is_null())
        .map(|(name, value)| (name.to_owned(), value))
        .collect()
}
