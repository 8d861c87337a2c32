//! What the calls of an agent may do unasked, what a person is asked about, and what is refused (`reference/agent.md` §3.4).
//!
//! Inside the limits of the session's sandbox mode a call runs unasked, unless a rule or a hook wants it otherwise. A call
//! that wants more is an escalation: a person is asked, or a rule has decided already. An answer for the session covers calls
//! that are alike for as long as the session is open in this process.
//!
//! Mode and approval policy are facts of the log (`sandbox/mode`, `approval/policy`). A log that says nothing has the
//! defaults, so they are written only when they change. Who opens a session again, or forks it, goes on with what its log
//! says unless the configuration says something else. What is in force is always what the log says, so that the model is
//! told of the very limits that hold; what somebody logs in the middle of a turn holds from the next step on.

mod command;
mod grants;
mod paths;
mod rules;

use std::path::PathBuf;

use offshoot_session::{EventKind, EventLog, LogOffset};
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
    /// Each of these lists has to name it.
    allow: Vec<Vec<Pattern>>,
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
            allow: allow
                .map(|allow| patterns(allow, 0))
                .transpose()?
                .into_iter()
                .collect(),
            deny: patterns(deny, allow.map_or(0, <[String]>::len))?,
        })
    }

    /// A filter that lets pass what both let pass.
    #[must_use]
    pub fn and(mut self, other: Self) -> Self {
        self.allow.extend(other.allow);
        self.deny.extend(other.deny);
        self
    }

    pub(crate) fn lets_pass(&self, tool: &str) -> bool {
        let named = |patterns: &Vec<Pattern>| patterns.iter().any(|pattern| pattern.matches(tool));
        self.allow.iter().all(named) && !named(&self.deny)
    }
}

/// The permissions of a session that is open: what its log says, once that says what the configuration wants.
#[derive(Debug)]
pub(crate) struct Permissions {
    /// What the configuration wants and the log does not say yet.
    wanted: Wanted,
    pub(crate) current: Chosen,
    /// How far the log was read.
    upto: LogOffset,
    pub(crate) grants: Grants,
}

#[derive(Debug)]
struct Wanted {
    mode: Option<SandboxMode>,
    approvals: Option<ApprovalPolicy>,
}

/// Mode and policy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Chosen {
    pub(crate) mode: SandboxMode,
    pub(crate) approvals: ApprovalPolicy,
}

/// What a log says of mode and policy, last.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Said {
    pub(crate) mode: Option<SandboxMode>,
    pub(crate) approvals: Option<ApprovalPolicy>,
}

impl Said {
    pub(crate) fn by(log: &EventLog) -> Self {
        let mut said = Self::default();
        said.follow(log, LogOffset::START);
        said
    }

    /// What holds in a session whose log says this.
    pub(crate) fn in_force(self) -> Chosen {
        Chosen {
            mode: self.mode.unwrap_or_default(),
            approvals: self.approvals.unwrap_or_default(),
        }
    }

    /// Reads on. What cannot be read says nothing.
    fn follow(&mut self, log: &EventLog, from: LogOffset) {
        for event in log.events_from(from) {
            match event.kind() {
                EventKind::SandboxMode => {
                    let data = read::<ModeData>(event);
                    self.mode = data.map(|data| data.mode).or(self.mode);
                }
                EventKind::ApprovalPolicy => {
                    let data = read::<PolicyData>(event);
                    self.approvals = data.map(|data| data.policy).or(self.approvals);
                }
                _ => {}
            }
        }
    }
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
    pub(crate) fn new(config: &PermissionConfig) -> Self {
        Self {
            wanted: Wanted {
                mode: config.mode,
                approvals: config.approvals,
            },
            current: Chosen::default(),
            upto: LogOffset::START,
            grants: Grants::default(),
        }
    }

    /// Reads on. What counts is the last that a log says.
    fn follow(&mut self, log: &EventLog) {
        let mut said = Said::default();
        said.follow(log, self.upto);
        let current = &mut self.current;
        current.mode = said.mode.unwrap_or(current.mode);
        current.approvals = said.approvals.unwrap_or(current.approvals);
        self.upto = log.end();
    }
}

impl Driver {
    /// Brings the permissions up to date before a step: somebody may have chosen others, in the configuration before the
    /// first turn, or in the log.
    pub(crate) fn follow_permissions(&mut self) -> Result<(), AgentError> {
        self.permissions.follow(&self.session.log());
        if let Some(mode) = self.permissions.wanted.mode {
            if mode != self.permissions.current.mode {
                self.append(logged(EventKind::SandboxMode, &ModeData { mode }))?;
            }
            self.permissions.wanted.mode = None;
        }
        if let Some(policy) = self.permissions.wanted.approvals {
            if policy != self.permissions.current.approvals {
                self.append(logged(EventKind::ApprovalPolicy, &PolicyData { policy }))?;
            }
            self.permissions.wanted.approvals = None;
        }
        self.permissions.follow(&self.session.log());
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
