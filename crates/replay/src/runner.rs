//! Does what a scenario says, step by step, over real sessions and agents.
//!
//! A run has parts: each `kill` ends one, and the next begins in another process on the same home. What a part hands on is a
//! [`State`]: which session is which, how far each script was followed, and what the steps have come to.
//!
//! Nothing waits longer than the scenario's patience. Who has waited in vain says for what, and how every session stood.

mod act;
mod state;
mod waits;
mod who;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use offshoot_agent::{
    Agent, AgentError, AgentObserver, AgentSetup, Attached, NewSubagent, Notice, SessionService,
    SetupError, SubagentSetup, Subagents,
};
use serde_json::{Value, json};

use crate::answers::Answers;
use crate::flaw::Flaw;
use crate::names::SessionName;
use crate::run::RunError;
use crate::scenario::Scenario;
use crate::steps::Action;
use crate::wiring::{Parts, Place, Wiring};

pub(crate) use state::{End, State};
use who::Company;
pub(crate) use who::{Record, names};

/// One part of a run.
struct Runner {
    scenario: Scenario,
    place: Place,
    parts: Arc<dyn Parts>,
    service: SessionService,
    subagents: Subagents,
    company: Company,
    answers: Answers,
    /// The sessions that people work in, as far as this process has them open.
    open: BTreeMap<SessionName, Open>,
    /// How long a step waits that does not say so itself.
    patience: Duration,
    output: Vec<Value>,
}

/// A session that is open.
struct Open {
    agent: Agent,
    /// What its turns have come to since somebody has asked.
    turns: Turns,
}

#[derive(Clone, Debug, Default)]
struct Turns(Arc<Mutex<Vec<Value>>>);

/// Makes subagents' parts: those that the wiring has, with the model that is theirs.
#[derive(Debug)]
struct Setups {
    parts: Arc<dyn Parts>,
    company: Company,
    answers: Answers,
}

/// Runs the next part of a scenario, up to the next `kill` or the end. Where a `kill` is next, the process dies in here, once
/// what follows from the steps so far is stored.
///
/// # Errors
/// [`RunError`]: the part could not even begin, or its outcome could not be kept.
pub async fn run_stage(state: &Path, wiring: &dyn Wiring) -> Result<(), RunError> {
    let mut handed = State::load(state)?;
    handed.end = None;
    let scenario = Scenario::load(&handed.scenario)?;
    let place = handed.place();
    let parts = wiring.assemble(&scenario, &place)?;
    let answers = match handed.records {
        true => Answers::real(&*parts)?,
        false => Answers::scripted(&scenario, &place, &handed.positions)?,
    };
    let mut runner = Runner::new(scenario, place, parts, answers, &handed);
    let stopped = runner.go_on(handed.next).await;
    let end = match stopped {
        Ok(Stopped::AtKill(step)) => {
            handed.next = step + 1;
            runner.make_durable().await?;
            End::Killed
        }
        Ok(Stopped::AtEnd) => match Box::pin(runner.finish()).await {
            Ok(()) => {
                let mut flaws = runner.answers.flaws();
                flaws.extend(runner.answers.left_over());
                End::Done(flaws)
            }
            Err(flaw) => End::Stuck(runner.with_answers(flaw)),
        },
        Err(flaw) => End::Stuck(runner.with_answers(flaw)),
    };
    handed.sessions = runner.company.records();
    handed.positions = runner.answers.positions();
    handed.output = std::mem::take(&mut runner.output);
    handed.end = Some(end.clone());
    handed.save(state)?;
    match end {
        End::Killed => die(),
        End::Stuck(_) => runner.give_up().await,
        End::Done(_) => {}
    }
    Ok(())
}

/// Where a part of a run has come to.
enum Stopped {
    AtKill(usize),
    AtEnd,
}

impl Runner {
    fn new(
        scenario: Scenario,
        place: Place,
        parts: Arc<dyn Parts>,
        answers: Answers,
        handed: &State,
    ) -> Self {
        let company = Company::new(handed.sessions.clone());
        let service = parts.service();
        let setups = Setups {
            parts: Arc::clone(&parts),
            company: company.clone(),
            answers: answers.clone(),
        };
        let subagents = Subagents::new(
            service.clone(),
            parts.env(),
            Arc::new(setups),
            parts.limits(),
        );
        Self {
            patience: scenario.patience(handed.records),
            scenario,
            place,
            parts,
            service,
            subagents,
            company,
            answers,
            open: BTreeMap::new(),
            output: handed.output.clone(),
        }
    }

    /// Does the steps from one on, until one is left to whoever comes next.
    async fn go_on(&mut self, from: usize) -> Result<Stopped, Flaw> {
        if from == 0 {
            let cwd = self.place.workspace.to_string_lossy().into_owned();
            let attached = self.service.create(Some(cwd));
            let attached = attached.map_err(|error| self.broken("create `main`", &error))?;
            self.put_agent_on(attached, &SessionName::main())?;
        }
        let steps = self.scenario.steps.clone();
        for (at, step) in steps.iter().enumerate().skip(from) {
            if step.action == Action::Kill {
                return Ok(Stopped::AtKill(at));
            }
            Box::pin(self.act(at, step)).await?;
        }
        Ok(Stopped::AtEnd)
    }

    /// Puts an agent on a session that a person works in.
    fn put_agent_on(&mut self, attached: Attached, name: &SessionName) -> Result<(), Flaw> {
        let session = attached.session().clone();
        self.company.enter_named(&session, name);
        let model = self.answers.named(name, session.id());
        let failed = |told: String| Flaw::new(Flaw::STEP, format!("`{name}` has no agent: {told}"));
        let mut setup = self
            .parts
            .agent(&session, model)
            .map_err(|error| failed(error.to_string()))?;
        self.subagents
            .equip(&mut setup, session.id())
            .map_err(|error| failed(error.to_string()))?;
        // What a model says of titles is in no log, so that nobody could say it again.
        setup.titles = None;
        let turns = Turns::default();
        turns.watch(&mut setup);
        let agent = Agent::new(attached, setup);
        self.open.insert(name.clone(), Open { agent, turns });
        Ok(())
    }

    /// Waits for what is still running, and closes everything.
    async fn finish(&mut self) -> Result<(), Flaw> {
        let names: Vec<SessionName> = self.open.keys().cloned().collect();
        for name in &names {
            self.until_quiet(None, name).await?;
            let turns = self.open[name].turns.take();
            if !turns.is_empty() {
                self.output
                    .push(json!({"do": "end", "session": name.as_str(), "turns": turns}));
            }
        }
        for name in &names {
            self.close(name).await?;
        }
        Ok(())
    }

    async fn close(&mut self, name: &SessionName) -> Result<(), Flaw> {
        let agent = self.open[name].agent.clone();
        let closed = async {
            self.subagents.dispose(agent.session().id()).await;
            agent.dispose().await
        };
        let closed = self
            .patiently(None, &format!("`{name}` to close"), closed)
            .await?;
        closed.map_err(|error| self.broken(&format!("close `{name}`"), &error))?;
        self.open.remove(name);
        Ok(())
    }

    /// Stores whatever was logged and has come in, everywhere.
    async fn make_durable(&self) -> Result<(), RunError> {
        for agent in self.service.agents() {
            agent.flush().await?;
        }
        Ok(())
    }

    /// Ends what runs, after something went wrong. Whoever does not end in time is left alone.
    async fn give_up(&mut self) {
        for (_, open) in std::mem::take(&mut self.open) {
            let closing = async {
                self.subagents.dispose(open.agent.session().id()).await;
                open.agent.dispose().await
            };
            // What is wrong was said already.
            drop(tokio::time::timeout(Duration::from_secs(2), closing).await);
        }
    }

    /// What went wrong, with what the scripts say of it: that is often why.
    fn with_answers(&self, flaw: Flaw) -> Vec<Flaw> {
        let mut flaws = self.answers.flaws();
        flaws.push(flaw);
        flaws
    }

    fn broken(&self, what: &str, error: &AgentError) -> Flaw {
        let told = format!("could not {what}: {error}");
        Flaw::new(error.code(), told).with_detail(error.hint().unwrap_or_default())
    }
}

impl Turns {
    /// Has an agent tell what its turns come to, besides whoever watches it already.
    fn watch(&self, setup: &mut AgentSetup) {
        let (turns, before) = (self.clone(), setup.observer.take());
        let observer: Arc<dyn AgentObserver> = Arc::new(move |notice: &Notice| {
            if let Some(before) = &before {
                before.notice(notice);
            }
            turns.note(notice);
        });
        setup.observer = Some(observer);
    }

    fn note(&self, notice: &Notice) {
        let told = match notice {
            Notice::TurnEnded(report) => {
                let mut told = json!({
                    "turn": report.turn,
                    "reason": report.reason,
                    "text": report.text,
                });
                if let Some(usage) = report.usage {
                    told["usage"] = json!(usage);
                }
                told
            }
            Notice::Failed(error) => {
                json!({"failed": {"code": error.code(), "message": error.to_string()}})
            }
            _ => return,
        };
        self.lock().push(told);
    }

    fn take(&self) -> Vec<Value> {
        std::mem::take(&mut *self.lock())
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<Value>> {
        // Nothing panics between two changes of the list.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl SubagentSetup for Setups {
    fn setup(&self, child: &NewSubagent<'_>) -> Result<AgentSetup, SetupError> {
        self.company
            .enter_subagent(child.session, child.parent, child.call_id);
        let setup = self.parts.subagent(child, self.answers.subagent(child));
        let mut setup = setup.map_err(|error| SetupError {
            message: error.message,
            code: error.code,
        })?;
        setup.titles = None;
        Ok(setup)
    }
}

/// Ends this process at once: nothing is closed, nothing is written any more.
fn die() -> ! {
    #[cfg(unix)]
    {
        use rustix::process::{Signal, getpid, kill_process};
        let _dead = kill_process(getpid(), Signal::KILL);
    }
    std::process::abort()
}
