//! What the calls of an agent may do unasked, what a person is asked about, and what is refused (`reference/agent.md` §3.4).
//!
//! Inside the limits of the session's sandbox mode a call runs unasked, unless a rule or a hook wants it otherwise. A call
//! that wants more is an escalation: a person is asked, or a rule has decided already. An answer for the session covers calls
//! that are alike for as long as the session is open in this process.
//!
//! Mode and approval policy are facts of the log (`sandbox/mode`, `approval/policy`). A log that says nothing has the
//! defaults, so they are written only when they change. Who opens a session again, or forks it, goes on with what its log
//! says unless the configuration says something else.

mod command;
mod grants;
mod paths;
mod rules;

use std::path::PathBuf;

use offshoot_session::{EventKind, EventLog};
use offshoot_tool_api::{ApprovalPolicy, Limits, SandboxMode};
use serde::{Deserialize, Serialize};

use crate::AgentError;
use crate::driver::Driver;
use crate::events::{logged, read};

pub(crate) use grants::{Grants, Like};
use rules::Pattern;
pub use rules::{Decision, PermissionRule, PermissionRules, PolicyFile, RuleError};
pub(crate) use rules::{Ruling, Subject};

/// What an agent's calls may do. By default: change the workspace unasked, ask about the rest.
#[derive(Clone, Debug, Default)]
pub struct PermissionConfig {
    /// How far tools may reach. `None` goes on with what the session's log says, which is `workspace-write` if it says
    /// nothing.
    pub mode: Option<SandboxMode>,
    /// Whether anybody is asked. `None` goes on with what the session's log says, which is `ask` if it says nothing.
    pub approvals: Option<ApprovalPolicy>,
    /// Absolute directories that belong to the workspace besides the session's own.
    pub workspace: Vec<PathBuf>,
    /// What was decided beforehand.
    pub rules: PermissionRules,
    /// Which tools the agent may use.
    pub tools: ToolFilter,
}

/// Which tools an agent may use at all.
///
/// The model is shown the others too: what it is shown stands ahead of the conversation, and an agent that goes on with the
/// conversation of another one must not change that.
#[derive(Clone, Debug, Default)]
pub struct ToolFilter {
    /// Anything, if there is nothing here.
    allow: Option<Vec<Pattern>>,
    deny: Vec<Pattern>,
}

impl ToolFilter {
    /// A filter that lets pass what `allow` names, or everything if that is `None`, except for what `deny` names. Both are
    /// names or patterns of names.
    ///
    /// # Errors
    /// Which of them, from 1 and `allow` first, is no pattern.
    pub fn new(allow: Option<&[String]>, deny: &[String]) -> Result<Self, RuleError> {
        let patterns = |names: &[String], before: usize| {
            let numbered = names.iter().zip(before + 1..);
            let patterns = numbered.map(|(name, number)| {
                Pattern::new(name).map_err(|problem| RuleError {
                    number,
                    tool: name.clone(),
                    problem,
                })
            });
            patterns.collect::<Result<Vec<_>, _>>()
        };
        Ok(Self {
            allow: allow.map(|allow| patterns(allow, 0)).transpose()?,
            deny: patterns(deny, allow.map_or(0, <[String]>::len))?,
        })
    }

    pub(crate) fn lets_pass(&self, tool: &str) -> bool {
        let named = |patterns: &[Pattern]| patterns.iter().any(|pattern| pattern.matches(tool));
        self.allow.as_deref().is_none_or(named) && !named(&self.deny)
    }
}

/// The permissions of a session that is open.
#[derive(Debug)]
pub(crate) struct Permissions {
    pub(crate) current: Chosen,
    /// What the log says.
    logged: Chosen,
    pub(crate) grants: Grants,
}

/// Mode and policy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Chosen {
    pub(crate) mode: SandboxMode,
    pub(crate) approvals: ApprovalPolicy,
}

#[derive(Serialize, Deserialize)]
struct ModeData {
    mode: SandboxMode,
}

#[derive(Serialize, Deserialize)]
struct PolicyData {
    policy: ApprovalPolicy,
}

impl Permissions {
    pub(crate) fn new(config: &PermissionConfig, log: &EventLog) -> Self {
        let logged = Chosen::in_log(log);
        Self {
            current: Chosen {
                mode: config.mode.unwrap_or(logged.mode),
                approvals: config.approvals.unwrap_or(logged.approvals),
            },
            logged,
            grants: Grants::default(),
        }
    }
}

impl Chosen {
    /// The last that a log says. What cannot be read says nothing.
    fn in_log(log: &EventLog) -> Self {
        let mut last = Self::default();
        for event in log.events() {
            match event.kind() {
                EventKind::SandboxMode => {
                    last.mode = read::<ModeData>(event).map_or(last.mode, |data| data.mode);
                }
                EventKind::ApprovalPolicy => {
                    let data = read::<PolicyData>(event);
                    last.approvals = data.map_or(last.approvals, |data| data.policy);
                }
                _ => {}
            }
        }
        last
    }
}

impl Driver {
    /// Logs mode and policy if they are not what the log says.
    pub(crate) fn log_permissions(&mut self) -> Result<(), AgentError> {
        let Chosen { mode, approvals } = self.permissions.current;
        if mode != self.permissions.logged.mode {
            self.append(logged(EventKind::SandboxMode, &ModeData { mode }))?;
            self.permissions.logged.mode = mode;
        }
        if approvals != self.permissions.logged.approvals {
            let data = PolicyData { policy: approvals };
            self.append(logged(EventKind::ApprovalPolicy, &data))?;
            self.permissions.logged.approvals = approvals;
        }
        Ok(())
    }

    /// What a call may do unasked.
    pub(crate) fn limits(&self) -> Limits {
        let cwd = self.session.header().cwd.map(PathBuf::from);
        let extra = &self.config.permissions.workspace;
        Limits {
            mode: self.permissions.current.mode,
            workspace: cwd.into_iter().chain(extra.iter().cloned()).collect(),
        }
    }
}
