//! What the logs say of a child (`reference/persistence.md` §3.5): its own `subagent/descriptor`, the `subagent/catalog` of its
//! parent, and the limits that it was given.

use std::sync::atomic::{AtomicBool, Ordering};

use async_trait::async_trait;
use offshoot_model::CallConfig;
use offshoot_session::{EventDraft, EventKind, SessionHeader};
use offshoot_tool_api::{ApprovalPolicy, SandboxMode};
use serde::{Deserialize, Serialize};

use super::request::{Mode, Provider};
use crate::env::Env;
use crate::events::logged;
use crate::hooks::{AgentHook, HookError, PreStep, StepContext};
use crate::input::Input;

/// The only version that was released with this format.
const DESCRIPTOR_VERSION: u64 = 3;

/// `subagent/descriptor`: what a child is. Of a child that goes on it has what its agent is made of when it is opened again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Descriptor {
    version: u64,
    pub(crate) mode: Mode,
    pub(crate) provider: Provider,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) label: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) agent_provider: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) agent_model: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) agent_reasoning_effort: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) tool_filter: Option<Filter>,
}

/// The tools that a child may use: names and patterns of names.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Filter {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) allow: Option<Vec<String>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) deny: Option<Vec<String>>,
}

impl Descriptor {
    pub(super) const fn one_shot(provider: Provider, label: Option<String>) -> Self {
        Self {
            version: DESCRIPTOR_VERSION,
            mode: Mode::OneShot,
            provider,
            label,
            agent_provider: None,
            agent_model: None,
            agent_reasoning_effort: None,
            tool_filter: None,
        }
    }

    pub(super) fn continuable(
        provider: Provider,
        label: String,
        call: &CallConfig,
        tools: Option<Vec<String>>,
    ) -> Self {
        Self {
            mode: Mode::Continuable,
            agent_provider: Some(call.provider.clone()),
            agent_model: Some(call.model.clone()),
            agent_reasoning_effort: call.reasoning_effort.clone(),
            tool_filter: tools.map(|allow| Filter {
                allow: Some(allow),
                deny: None,
            }),
            ..Self::one_shot(provider, Some(label))
        }
    }

    pub(super) fn draft(&self) -> EventDraft {
        logged(EventKind::SubagentDescriptor, self)
    }
}

/// Logs what a one-shot child is, when its first step is about to begin.
#[derive(Debug)]
pub(super) struct Introduces {
    descriptor: Descriptor,
    env: Env,
    is_done: AtomicBool,
}

impl Introduces {
    pub(super) const fn new(descriptor: Descriptor, env: Env) -> Self {
        Self {
            descriptor,
            env,
            is_done: AtomicBool::new(false),
        }
    }
}

#[async_trait]
impl AgentHook for Introduces {
    async fn pre_step(
        &self,
        cx: &StepContext<'_>,
        entering: Vec<Input>,
    ) -> Result<PreStep, HookError> {
        if !self.is_done.swap(true, Ordering::Relaxed) {
            let logged = cx.session.append(self.descriptor.draft(), self.env.now());
            logged.map_err(|error| HookError {
                message: error.to_string(),
                code: error.code().to_owned(),
            })?;
        }
        Ok(PreStep::Enter {
            messages: entering,
            starts_series: false,
        })
    }
}

/// `subagent/catalog`: that a session has this child.
pub(super) fn catalog(child: &SessionHeader, mode: Mode, label: Option<&str>) -> EventDraft {
    #[derive(Serialize)]
    #[serde(rename_all = "camelCase")]
    struct Catalog<'a> {
        version: u64,
        child_id: &'a str,
        child_created_at: u64,
        mode: Mode,
        #[serde(skip_serializing_if = "Option::is_none")]
        label: Option<&'a str>,
    }
    let fact = Catalog {
        version: 0,
        child_id: child.id.as_str(),
        child_created_at: child.created_at,
        mode,
        label,
    };
    logged(EventKind::SubagentCatalog, &fact)
}

/// `sandbox/mode` of a child.
pub(super) fn delegated_mode(mode: SandboxMode) -> EventDraft {
    #[derive(Serialize)]
    struct Delegated {
        mode: SandboxMode,
        source: &'static str,
    }
    let source = "delegation";
    logged(EventKind::SandboxMode, &Delegated { mode, source })
}

/// `approval/policy` of a child.
pub(super) fn delegated_approvals(policy: ApprovalPolicy) -> EventDraft {
    #[derive(Serialize)]
    struct Delegated {
        policy: ApprovalPolicy,
        source: &'static str,
    }
    let source = "delegation";
    logged(EventKind::ApprovalPolicy, &Delegated { policy, source })
}
