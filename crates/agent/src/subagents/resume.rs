//! Opening a continuable child again that has come to rest, also one of an earlier process (`reference/agent.md` §4.5).
//!
//! What its agent is made of comes from its own log: the descriptor has its model and its tools, the limits are where they
//! were logged when it was created, or narrower ones if its parent has those by now. The filter of its parent narrows its tools
//! as it did then.

use offshoot_model::CallConfig;
use offshoot_session::{EventDraft, EventKind, EventLog, LiveSession, Origin};
use offshoot_tool_api::ApprovalPolicy;
use tokio::task::spawn_blocking;
use tokio_util::sync::CancellationToken;

use super::child::{Child, Role};
use super::descriptor::{Descriptor, delegated_approvals, delegated_mode};
use super::error::SubagentError;
use super::notice::in_order;
use super::places::Held;
use super::request::Mode;
use super::service::Subagents;
use super::status::Known;
use crate::AgentError;
use crate::agent::{Agent, Wake};
use crate::events::{StoredHeader, read};
use crate::input::Input;
use crate::permission::Said;
use crate::service::Attached;

impl Subagents {
    /// Opens a child of `parent` again, gives it a message and lets it run on in the place that was taken for it.
    pub(super) async fn resume(
        &self,
        parent: &Agent,
        known: &Known,
        held: Held,
        message: &Input,
        cancel: &CancellationToken,
    ) -> Result<(), SubagentError> {
        let slot = self.take_slot(parent.session().id())?;
        let attached = self.open_child(parent, known).await?;
        let session = attached.session().clone();
        let descriptor = own_descriptor(&session)
            .filter(|descriptor| descriptor.mode == Mode::Continuable)
            .ok_or_else(|| SubagentError::NotResumable(known.session.clone()))?;
        let filter = descriptor.tool_filter.as_ref();
        let role = Role {
            provider: descriptor.provider,
            mode: descriptor.mode,
            label: descriptor.label.as_deref(),
            call_id: None,
            tools: filter.and_then(|filter| filter.allow.as_deref()),
            denied: filter
                .and_then(|filter| filter.deny.as_deref())
                .unwrap_or_default(),
            call: &route(&session, &descriptor),
        };
        let (setup, broken) = self.child_setup(parent, &session, &role)?;
        for draft in narrowed(&parent.session().log(), &session.log()) {
            let appended = session.append(draft, self.env().now());
            appended.map_err(AgentError::from)?;
        }
        let from = session.log().end();
        let child = Child {
            agent: Agent::new(attached, setup),
            parent: parent.session().id().clone(),
            provider: descriptor.provider,
            mode: descriptor.mode,
            label: descriptor.label,
            broken,
            slot,
        };
        let given = if cancel.is_cancelled() {
            Err(SubagentError::NotSent)
        } else {
            self.give(&child.agent, message)
        };
        match given {
            Ok(()) => self.activate(child, held, from),
            Err(_) => {
                // What was repaired when it was opened is durable, and nothing else has happened in it.
                let _unclosed = child.agent.dispose().await;
            }
        }
        given
    }

    fn give(&self, agent: &Agent, message: &Input) -> Result<(), SubagentError> {
        let target = in_order(agent)?;
        Ok(self.hand(agent, message, target, Wake::Yes)?)
    }

    /// A child's session, if it is what the catalog says.
    async fn open_child(&self, parent: &Agent, known: &Known) -> Result<Attached, SubagentError> {
        let (service, id) = (self.service().clone(), known.session.clone());
        let opened = spawn_blocking(move || service.open(&id)).await;
        let opened = opened.map_err(|error| AgentError::Worker(error.to_string()))?;
        let attached = opened?.attached;
        let header = attached.session().header();
        let is_child = header.origin == Some(Origin::Subagent)
            && header.parent.as_ref() == Some(parent.session().id());
        if is_child {
            Ok(attached)
        } else {
            Err(SubagentError::NotYours(known.session.clone()))
        }
    }
}

/// What a child says it is; what it has inherited says what another one was.
fn own_descriptor(session: &LiveSession) -> Option<Descriptor> {
    let own = session.lock().inherited_event_count();
    let log = session.log();
    let mut all = log.events_from(own);
    let first = all.find(|event| *event.kind() == EventKind::SubagentDescriptor);
    first.and_then(|event| read(event))
}

/// What a child's log does not say yet of what its parent may not do any more: somebody may have given that one narrower limits
/// since the child was created. Wider ones are none of the child's.
fn narrowed(parent: &EventLog, child: &EventLog) -> Vec<EventDraft> {
    let (above, own) = (Said::by(parent).in_force(), Said::by(child).in_force());
    let mut drafts = Vec::new();
    if above.mode < own.mode {
        drafts.push(delegated_mode(above.mode));
    }
    if above.approvals == ApprovalPolicy::Never && own.approvals != ApprovalPolicy::Never {
        drafts.push(delegated_approvals(ApprovalPolicy::Never));
    }
    drafts
}

/// What it calls its model with: as in its latest request, as far as the descriptor does not say it.
fn route(session: &LiveSession, descriptor: &Descriptor) -> CallConfig {
    let log = session.log();
    let header = log.request_header();
    let stored = header.and_then(|event| read::<StoredHeader>(event));
    let latest = stored.map_or_else(CallConfig::default, |stored| stored.header.chosen());
    let Descriptor {
        agent_provider: Some(provider),
        agent_model: Some(model),
        ..
    } = descriptor
    else {
        return latest;
    };
    let is_another = latest.provider != *provider || latest.model != *model;
    CallConfig {
        provider: provider.clone(),
        model: model.clone(),
        reasoning_effort: descriptor.agent_reasoning_effort.clone(),
        ..if is_another {
            CallConfig::default()
        } else {
            latest
        }
    }
}
