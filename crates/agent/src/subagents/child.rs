//! How a child comes to be (`reference/agent.md` §4.3).

use std::sync::{Arc, Mutex, PoisonError};

use offshoot_model::CallConfig;
use offshoot_session::{EventKind, LiveSession, Origin, SessionHeader, SessionId};
use offshoot_tool_api::ApprovalPolicy;
use tokio::task::spawn_blocking;

use super::descriptor::{Descriptor, Introduces, catalog, delegated_approvals, delegated_mode};
use super::error::SubagentError;
use super::notice::one_line;
use super::request::{Delegation, Mode, Provider};
use super::service::Subagents;
use super::setup::NewSubagent;
use super::slots::Slot;
use crate::AgentError;
use crate::agent::Agent;
use crate::context::{ContextSection, SystemPromptPolicy};
use crate::events::{StoredHeader, read};
use crate::inbox::last_of;
use crate::notices::{AgentObserver, Notice};
use crate::permission::{Said, ToolFilter};
use crate::prompt;
use crate::service::Attached;
use crate::setup::AgentSetup;
use crate::titles::fallback_title;

/// What a child is told of itself. It stands behind what it shares with its parent.
const DELEGATED: &str = "\
You are a subagent: another agent has given you its task, and it reads your last message \
and nothing else of your work. What you may do was settled when you were started and cannot be changed from here. When the task \
needs more than that, do not try again: say in your answer what could not be done, and why.";

/// A child that has not been told its task yet. It is stored, and in the catalog of its parent.
pub(super) struct Child {
    pub(super) agent: Agent,
    pub(super) parent: SessionId,
    pub(super) provider: Provider,
    pub(super) mode: Mode,
    /// What it is called.
    pub(super) label: Option<String>,
    /// What keeps its agent from going on, when something does.
    pub(super) broken: Arc<Broken>,
    /// It counts as being at work for as long as somebody has this.
    pub(super) slot: Slot,
}

/// What the agent of a child has to be made for.
pub(super) struct Role<'a> {
    pub(super) provider: Provider,
    pub(super) mode: Mode,
    pub(super) label: Option<&'a str>,
    pub(super) call_id: Option<&'a str>,
    /// The only tools that it may use.
    pub(super) tools: Option<&'a [String]>,
    /// Those that it may not use, whatever else is said.
    pub(super) denied: &'a [String],
    pub(super) call: &'a CallConfig,
}

impl Subagents {
    /// Creates a child and writes it into the catalog of its parent. Whoever drops this in the middle leaves nothing live.
    pub(super) async fn create(
        &self,
        parent: &Agent,
        request: &Delegation,
        slot: Result<Slot, SubagentError>,
    ) -> Result<Child, SubagentError> {
        let depth = self.check(parent, request)?;
        let slot = slot?;
        let attached = self.child_session(parent, request.provider, depth).await?;
        let label = label(request);
        let role = Role {
            provider: request.provider,
            mode: request.mode,
            label: label.as_deref(),
            call_id: request.call_id.as_deref(),
            tools: request.tools.as_deref(),
            denied: &[],
            call: &latest_call(parent),
        };
        let (setup, broken) = match self.prepare(parent, attached.session(), &role) {
            Ok(prepared) => prepared,
            Err(error) => {
                self.service().discard(attached);
                return Err(error);
            }
        };
        let fact = catalog(&attached.session().header(), role.mode, role.label);
        let agent = Agent::new(attached, setup);
        let stored = async {
            agent.flush().await?;
            parent.session().append(fact, self.env().now())?;
            parent.flush().await
        };
        if let Err(error) = stored.await {
            // Nothing has happened in it yet, so nothing more can be lost.
            let _unclosed = agent.dispose().await;
            return Err(error.into());
        }
        Ok(Child {
            agent,
            parent: parent.session().id().clone(),
            provider: request.provider,
            mode: request.mode,
            label,
            broken,
            slot,
        })
    }

    /// Makes the parts of a new child's agent, and logs what stands ahead of its task.
    fn prepare(
        &self,
        parent: &Agent,
        session: &LiveSession,
        role: &Role<'_>,
    ) -> Result<(AgentSetup, Arc<Broken>), SubagentError> {
        let (mut setup, broken) = self.child_setup(parent, session, role)?;
        let mut beginning = Vec::new();
        match role.mode {
            // Known when its first step is about to begin.
            Mode::OneShot => {
                let label = role.label.map(str::to_owned);
                let descriptor = Descriptor::one_shot(role.provider, label);
                let introduces = Introduces::new(descriptor, self.env().clone());
                setup.hooks.insert(0, Arc::new(introduces));
            }
            Mode::Continuable => {
                let descriptor = Descriptor::continuable(
                    role.provider,
                    role.label.unwrap_or_default().to_owned(),
                    &setup.config.call,
                    role.tools.map(ToOwned::to_owned),
                );
                beginning.push(descriptor.draft());
            }
        }
        let said = Said::by(&parent.session().log());
        beginning.extend(said.mode.map(delegated_mode));
        // Nobody is asked for a child who is not asked for its parent.
        let approvals = match said.approvals {
            Some(ApprovalPolicy::Never) => ApprovalPolicy::Never,
            _ => self.limits().approvals,
        };
        beginning.push(delegated_approvals(approvals));
        for draft in beginning {
            let appended = session.append(draft, self.env().now());
            appended.map_err(AgentError::from)?;
        }
        Ok((setup, broken))
    }

    /// Whether there may be such a child, and how deep it is.
    fn check(&self, parent: &Agent, request: &Delegation) -> Result<u64, SubagentError> {
        if request.prompt.trim().is_empty() {
            return Err(SubagentError::EmptyPrompt);
        }
        if request.cancel.is_cancelled() {
            return Err(SubagentError::Cancelled);
        }
        let log = parent.session().log();
        if log.is_side_session() {
            return Err(SubagentError::SideSession);
        }
        if self.places().is_stopped(parent.session().id()) {
            return Err(SubagentError::Closing);
        }
        let max = self.limits().max_depth;
        let depth = parent.session().header().delegation_depth + 1;
        if depth > max {
            return Err(SubagentError::TooDeep { depth, max });
        }
        let header = log.request_header();
        let known = header.and_then(|event| read::<StoredHeader>(event));
        let Some((names, known)) = request.tools.as_deref().zip(known) else {
            return Ok(depth);
        };
        for name in names {
            let filter = ToolFilter::new(Some(std::slice::from_ref(name)), &[])?;
            let tools = &known.header.tools;
            if !tools.iter().any(|tool| filter.lets_pass(&tool.name)) {
                return Err(SubagentError::UnknownTool(name.clone()));
            }
        }
        Ok(depth)
    }

    async fn child_session(
        &self,
        parent: &Agent,
        provider: Provider,
        depth: u64,
    ) -> Result<Attached, SubagentError> {
        let log = parent.session().log();
        let cut = match provider {
            Provider::Spawn => None,
            Provider::Fork => last_of(&log, EventKind::TurnEnd).map(|end| end.seq()),
        };
        let service = self.service().clone();
        let delegated = |header: SessionHeader| SessionHeader {
            origin: Some(Origin::Subagent),
            delegation_depth: depth,
            ..header
        };
        let created = match cut {
            Some(_) => {
                let mut fork = service.prepare_fork_of(parent, cut, None).await?;
                fork.header = delegated(fork.header);
                spawn_blocking(move || service.store_fork(&fork)).await
            }
            None => {
                let header = delegated(service.header_below(&parent.session().header()));
                spawn_blocking(move || service.create_as(header)).await
            }
        };
        let created = created.map_err(|error| AgentError::Worker(error.to_string()))?;
        Ok(created?)
    }

    /// What a child's agent is made of, a new one's or one's that is opened again: what the program says, within what the
    /// parent may do. Its limits are in its log.
    pub(super) fn child_setup(
        &self,
        parent: &Agent,
        session: &LiveSession,
        role: &Role<'_>,
    ) -> Result<(AgentSetup, Arc<Broken>), SubagentError> {
        let mut setup = self.setups().setup(&NewSubagent {
            session,
            parent: parent.session().id(),
            call_id: role.call_id,
            provider: role.provider,
            mode: role.mode,
            label: role.label,
            call: role.call,
        })?;
        let config = &mut setup.config;
        config.permissions.mode = None;
        config.permissions.approvals = None;
        let own = ToolFilter::new(role.tools, role.denied)?;
        let configured = std::mem::take(&mut config.permissions.tools);
        config.permissions.tools = configured.and(parent.core().tool_filter.clone()).and(own);
        // Whatever is configured by now: a child begins as its parent did, or goes on from there.
        config.context.system_prompt = SystemPromptPolicy::Keep;
        if let Some(text) = prompt::current(&parent.session().log()) {
            config.system_prompt = text;
        }
        let told = ContextSection::new("subagent:delegation", DELEGATED);
        config.context.sections.push(told);
        self.equip(&mut setup, session.id())?;
        let broken = Arc::new(Broken {
            told: setup.observer.take(),
            first: Mutex::default(),
        });
        let observer: Arc<dyn AgentObserver> = Arc::clone(&broken) as _;
        setup.observer = Some(observer);
        Ok((setup, broken))
    }
}

/// What it is called. A child that goes on always has a name: its parent has to tell it from others.
fn label(request: &Delegation) -> Option<String> {
    // One line, wherever it stands: a list of children has one for each.
    let given = request.label.as_deref().map(one_line);
    let given = given.filter(|label| !label.is_empty());
    match request.mode {
        Mode::OneShot => given,
        Mode::Continuable => given.or_else(|| fallback_title(&request.prompt)),
    }
}

/// What the latest request was made with, without what the provider had filled in; before the first one what it will be made
/// with.
fn latest_call(agent: &Agent) -> CallConfig {
    let log = agent.session().log();
    let header = log.request_header();
    let stored = header.and_then(|event| read::<StoredHeader>(event));
    stored.map_or_else(
        || agent.core().route().call,
        |stored| stored.header.chosen(),
    )
}

/// Remembers the first thing that has kept an agent from going on: its log may be what is broken.
pub(super) struct Broken {
    told: Option<Arc<dyn AgentObserver>>,
    first: Mutex<Option<Arc<AgentError>>>,
}

impl Broken {
    pub(super) fn error(&self) -> Option<Arc<AgentError>> {
        let first = self.first.lock().unwrap_or_else(PoisonError::into_inner);
        first.clone()
    }
}

impl AgentObserver for Broken {
    fn notice(&self, notice: &Notice) {
        if let Notice::Failed(error) = notice {
            let mut first = self.first.lock().unwrap_or_else(PoisonError::into_inner);
            first.get_or_insert_with(|| Arc::clone(error));
        }
        if let Some(told) = &self.told {
            told.notice(notice);
        }
    }
}
