//! Waiting, with an end to it.

use std::time::Duration;

use offshoot_agent::{Agent, AgentStatus};
use offshoot_session::{EventKind, SessionId};

use super::{Runner, names};
use crate::flaw::Flaw;
use crate::names::SessionName;
use crate::steps::Step;
use crate::text::shorten;

/// How often somebody looks whether a file is there.
const LOOK_AGAIN: Duration = Duration::from_millis(5);

impl Runner {
    /// Waits, but only so long.
    pub(super) async fn patiently<T>(
        &self,
        step: Option<&Step>,
        what: &str,
        waiting: impl Future<Output = T>,
    ) -> Result<T, Flaw> {
        let patience = step.and_then(|step| step.patience);
        let patience = patience.unwrap_or(self.patience);
        let waited = tokio::time::timeout(patience, waiting).await;
        waited.map_err(|_| {
            let place = match step {
                Some(step) => format!("line {}, `{}`", step.line, step.action.word()),
                None => "the end".to_owned(),
            };
            let seconds = patience.as_secs();
            let told = format!("{place}: waited {seconds} s for {what}");
            Flaw::new(Flaw::HUNG, told).with_detail(self.how_things_stand())
        })
    }

    /// Until nothing runs in a session.
    pub(super) async fn until_idle(&self, step: &Step, name: &SessionName) -> Result<(), Flaw> {
        let agent = self.agent(name)?;
        let what = format!("`{name}` to be idle");
        self.patiently(Some(step), &what, agent.when_idle()).await
    }

    /// Until nothing runs in a session or below it, and it has heard of everything.
    pub(super) async fn until_quiet(
        &self,
        step: Option<&Step>,
        name: &SessionName,
    ) -> Result<(), Flaw> {
        let agent = self.agent(name)?;
        let what = format!("`{name}` and what runs below it to be idle");
        let quiet = self.subagents.at_rest(&agent);
        self.patiently(step, &what, quiet).await
    }

    /// Until a file of the workspace is there.
    pub(super) async fn until_file(&self, step: &Step, path: &std::path::Path) -> Result<(), Flaw> {
        let file = self.place.workspace.join(path);
        let there = async {
            while !file.exists() {
                tokio::time::sleep(LOOK_AGAIN).await;
            }
        };
        let what = format!("the file `{}`", path.display());
        self.patiently(Some(step), &what, there).await
    }

    /// Until a session's own events hold so many of a type.
    pub(super) async fn until_event(
        &self,
        step: &Step,
        name: &SessionName,
        kind: &EventKind,
        count: usize,
    ) -> Result<(), Flaw> {
        let what = format!("event {count} of the type `{kind}` in `{name}`");
        let mut changes = self.company.changes();
        let there = async {
            while self.count(name, kind) < count {
                // There is always one to come: this holds the sender.
                drop(changes.changed().await);
            }
        };
        self.patiently(Some(step), &what, there).await
    }

    /// How many of a session's own events are of a type, also of one that is closed.
    fn count(&self, name: &SessionName, kind: &EventKind) -> usize {
        let Some(id) = self.find(name) else {
            return 0;
        };
        self.company.count(&id, kind).unwrap_or_else(|| {
            // An earlier part of the run had it open.
            let Ok(read) = self.service.read(&id) else {
                return 0;
            };
            let own = read.stored.log.events_from(read.stored.inherited);
            own.filter(|event| event.kind() == kind).count()
        })
    }

    /// The agent of a session that is open.
    pub(super) fn agent(&self, name: &SessionName) -> Result<Agent, Flaw> {
        let found = self.find(name).and_then(|id| self.service.agent(&id));
        found.ok_or_else(|| {
            let told = format!("no agent is on `{name}`");
            let mut detail = self.how_things_stand();
            // What was refused before is often why.
            for line in self
                .output
                .iter()
                .filter(|line| line.get("error").is_some())
            {
                detail.push_str(&format!("\n{line}"));
            }
            Flaw::new(Flaw::STEP, told).with_detail(detail)
        })
    }

    /// The id of a session, if there is one of this name.
    pub(super) fn find(&self, name: &SessionName) -> Option<SessionId> {
        let all = self.names();
        let found = all.into_iter().find(|(_, known)| known == name);
        found.map(|(id, _)| id)
    }

    pub(super) fn names(&self) -> Vec<(SessionId, SessionName)> {
        names(&self.company.records(), |id| {
            let id = SessionId::new(id);
            let Some(agent) = self.service.agent(&id) else {
                let read = self.service.read(&id).ok()?;
                return Some((read.stored.log, read.stored.inherited));
            };
            let session = agent.session().lock();
            Some((session.log().clone(), session.inherited_event_count()))
        })
    }

    /// Every session, what it does, and where it has come to.
    fn how_things_stand(&self) -> String {
        let mut lines = Vec::new();
        for (id, name) in self.names() {
            let Some(agent) = self.service.agent(&id) else {
                lines.push(format!("{name}: not open"));
                continue;
            };
            let status = match agent.status() {
                AgentStatus::Idle => "idle",
                AgentStatus::Running => "running",
            };
            let log = agent.session().log();
            let last = log.last().map_or_else(
                || "no event yet".to_owned(),
                |event| {
                    let data = shorten(event.data(), 120);
                    format!("last event {} {} {data}", event.seq(), event.kind())
                },
            );
            let waiting = agent.pending().map_or(0, |pending| {
                pending.next_step.len() + pending.next_turn.len()
            });
            let waiting = match waiting {
                0 => String::new(),
                1 => ", 1 message waits".to_owned(),
                many => format!(", {many} messages wait"),
            };
            lines.push(format!("{name}: {status}{waiting}, {last}"));
        }
        lines.extend(self.answers.waiting());
        lines.join("\n")
    }
}
