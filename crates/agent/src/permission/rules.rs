//! The rules of a policy file: what is allowed, asked about or denied, by tool and argument.

use std::path::Path;
use std::sync::Arc;

use globset::{Glob, GlobMatcher};
use offshoot_tool_api::ToolArguments;
use serde::Deserialize;
use serde_json::Value;

use super::command::{mentions, simple_command};
use super::paths::{NamedFile, PathPattern};

/// What a policy file holds. In TOML, where every rule is a table:
///
/// ```toml
/// [[rule]]
/// tool = "bash"
/// command = "git push"
/// decision = "ask"
/// reason = "it leaves this machine"
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PolicyFile {
    /// The rules. Their order means nothing.
    #[serde(default, rename = "rule")]
    pub rules: Vec<PermissionRule>,
}

/// What is decided of some calls.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PermissionRule {
    /// The tool's name, or a pattern of names such as `*` or `{write,edit}`.
    pub tool: String,
    /// Only calls whose argument `command` begins with these words. A rule that allows is about simple commands alone: no
    /// list, pipe, redirection, substitution or variable passes it. One that asks or denies finds the words anywhere in a
    /// command, but not what a shell only puts together when it runs: against malice there is the sandbox.
    #[serde(default)]
    pub command: Option<String>,
    /// Only calls whose argument `file_path` or `path` fits this pattern: `*` stays within a directory, `**` does not. It is
    /// about files below the session's directory unless it begins with `/` or `**`.
    #[serde(default)]
    pub path: Option<String>,
    /// What is decided.
    pub decision: Decision,
    /// Why, for the person who is asked, or for the model that is denied.
    #[serde(default)]
    pub reason: Option<String>,
    /// Of a rule that allows: the call also gets what goes beyond the sandbox, if it wants that.
    #[serde(default)]
    pub unsandboxed: bool,
}

/// What a rule decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Decision {
    /// The call runs, within the limits of the session.
    Allow,
    /// A person is asked.
    Ask,
    /// The call does not run.
    Deny,
}

/// A rule that cannot be one.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("rule {number} (`{tool}`): {problem}")]
pub struct RuleError {
    /// Which rule, from 1.
    pub number: usize,
    /// The tool that it names.
    pub tool: String,
    /// What is wrong with it.
    pub problem: String,
}

/// Rules that are ready to be asked.
///
/// A rule that denies beats every other. Between rules that allow and rules that ask the one that says more counts: with an
/// argument more than without, with more words of a command more than with fewer, with a name more than with a pattern of
/// names. Between equals it is asked.
#[derive(Clone, Debug, Default)]
pub struct PermissionRules {
    rules: Arc<[Rule]>,
}

#[derive(Debug)]
struct Rule {
    tool: Pattern,
    argument: Argument,
    decision: Decision,
    reason: Option<String>,
    unsandboxed: bool,
}

#[derive(Debug)]
enum Argument {
    Any,
    Command(Vec<String>),
    Path(PathPattern),
}

/// How much a rule says; the greater counts.
type Precision = (bool, usize, bool);

/// What the rules say of a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Ruling {
    /// Nothing.
    Silent,
    Allow {
        unsandboxed: bool,
    },
    Ask {
        reason: Option<String>,
    },
    Deny {
        reason: Option<String>,
    },
}

impl PermissionRules {
    /// Makes rules ready.
    ///
    /// # Errors
    /// The first rule that cannot be one.
    pub fn new(rules: impl IntoIterator<Item = PermissionRule>) -> Result<Self, RuleError> {
        let numbered = rules.into_iter().zip(1..);
        let ready = numbered.map(|(rule, number)| {
            let tool = rule.tool.clone();
            Rule::new(rule).map_err(|problem| RuleError {
                number,
                tool,
                problem,
            })
        });
        Ok(Self {
            rules: ready.collect::<Result<_, _>>()?,
        })
    }

    pub(crate) fn ruling(&self, call: &Subject) -> Ruling {
        let matching = || self.rules.iter().filter(|rule| rule.matches(call));
        let of = |decision| matching().filter(move |rule| rule.decision == decision);
        if let Some(rule) = of(Decision::Deny).max_by_key(|rule| rule.precision()) {
            let reason = rule.reason.clone();
            return Ruling::Deny { reason };
        }
        let asking = of(Decision::Ask).max_by_key(|rule| rule.precision());
        let beats =
            |rule: &&Rule| asking.is_none_or(|asking| rule.precision() > asking.precision());
        let mut allowing = of(Decision::Allow).filter(beats).peekable();
        if allowing.peek().is_some() {
            let unsandboxed = allowing.any(|rule| rule.unsandboxed);
            return Ruling::Allow { unsandboxed };
        }
        asking.map_or(Ruling::Silent, |rule| Ruling::Ask {
            reason: rule.reason.clone(),
        })
    }
}

impl Rule {
    fn new(rule: PermissionRule) -> Result<Self, String> {
        if rule.unsandboxed && rule.decision != Decision::Allow {
            return Err("only a rule that allows can be `unsandboxed`".to_owned());
        }
        let argument = match (rule.command, rule.path) {
            (None, None) => Argument::Any,
            (Some(command), None) => Argument::Command(words(&command)?),
            (None, Some(path)) => Argument::Path(PathPattern::new(&path)?),
            (Some(_), Some(_)) => return Err("it has both `command` and `path`".to_owned()),
        };
        Ok(Self {
            tool: Pattern::new(&rule.tool)?,
            argument,
            decision: rule.decision,
            reason: rule.reason,
            unsandboxed: rule.unsandboxed,
        })
    }

    fn matches(&self, call: &Subject) -> bool {
        if !self.tool.matches(&call.tool) {
            return false;
        }
        // What is allowed must be understood; what is asked about or denied need only be suspected.
        let allows = self.decision == Decision::Allow;
        let Subject { command, files, .. } = call;
        match &self.argument {
            Argument::Any => true,
            Argument::Command(words) if allows => {
                let command = command.as_deref().filter(|_| files.is_empty());
                let words_of_command = command.and_then(simple_command);
                words_of_command.is_some_and(|command| command.starts_with(words))
            }
            Argument::Command(words) => command
                .as_deref()
                .is_some_and(|command| mentions(command, words)),
            Argument::Path(pattern) if allows => {
                let meant = |file| pattern.matches_every_name(file);
                command.is_none() && !files.is_empty() && files.iter().all(meant)
            }
            Argument::Path(pattern) => files.iter().any(|file| pattern.matches_any_name(file)),
        }
    }

    fn precision(&self) -> Precision {
        let (has_argument, words) = match &self.argument {
            Argument::Any => (false, 0),
            Argument::Command(words) => (true, words.len()),
            Argument::Path(_) => (true, 0),
        };
        (has_argument, words, matches!(self.tool, Pattern::Name(_)))
    }
}

fn words(command: &str) -> Result<Vec<String>, String> {
    match simple_command(command) {
        Some(words) if !words.is_empty() => Ok(words),
        _ => Err(
            "`command` must be the first words of a simple command, without operators".to_owned(),
        ),
    }
}

/// Tools by their name.
#[derive(Clone, Debug)]
pub(crate) enum Pattern {
    Name(String),
    Names(GlobMatcher),
}

impl Pattern {
    pub(crate) fn new(pattern: &str) -> Result<Self, String> {
        if pattern.is_empty() {
            return Err("the name of a tool is missing".to_owned());
        }
        if !pattern.contains(['*', '?', '[', '{', '\\']) {
            return Ok(Self::Name(pattern.to_owned()));
        }
        let glob = Glob::new(pattern).map_err(|error| format!("`tool` is no pattern: {error}"))?;
        Ok(Self::Names(glob.compile_matcher()))
    }

    pub(crate) fn matches(&self, tool: &str) -> bool {
        match self {
            Self::Name(name) => name == tool,
            Self::Names(names) => names.is_match(tool),
        }
    }
}

/// A call as rules look at it: what it is about, by its arguments. A call may be about a command and files at once: nobody
/// can tell which of them its tool will look at.
#[derive(Clone, Debug)]
pub(crate) struct Subject {
    pub(crate) tool: String,
    pub(crate) command: Option<String>,
    pub(crate) workdir: Option<String>,
    pub(crate) files: Vec<NamedFile>,
    pub(crate) arguments: Value,
}

impl Subject {
    pub(crate) fn new(tool: &str, arguments: &ToolArguments, cwd: Option<&Path>) -> Self {
        let arguments = arguments.to_value();
        let text = |name| arguments.get(name).and_then(Value::as_str);
        let files = ["file_path", "path"].into_iter().filter_map(text);
        Self {
            tool: tool.to_owned(),
            command: text("command").map(str::to_owned),
            workdir: text("workdir").map(str::to_owned),
            files: files.map(|path| NamedFile::new(path, cwd)).collect(),
            arguments,
        }
    }
}
