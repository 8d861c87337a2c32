//! Every key that a configuration file may have, and what may stand behind it.
//!
//! This is the one list: files are read by it, variables and flags are checked by it, slips of the pen are compared
//! with it.

use super::setting::Value;

/// What stands behind a key.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Shape {
    /// Any text that is not blank.
    Text,
    /// PROVIDER/MODEL.
    Model,
    /// A whole number from 1 on.
    Count,
    /// A whole number from 0 on.
    Whole,
    /// A number from 0 on, whole or not.
    Amount,
    /// `true` or `false`.
    Switch,
    /// Names, in a list.
    Names,
    /// Absolute paths, in a list.
    Paths,
    /// One of these words.
    Choice(&'static [&'static str]),
    /// A table with these keys.
    Table(&'static [Key]),
    /// A table whose keys are names of the user's own; behind each is a table with these keys.
    Named(&'static [Key]),
}

/// A key of a table.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Key {
    pub(crate) name: &'static str,
    pub(crate) shape: Shape,
    /// Whether a file of a project may set it, which somebody else may have written.
    pub(crate) project: Project,
}

/// What a file of a project may do about a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Project {
    /// Set it.
    May,
    /// Choose one of these words that allows no more than what is chosen without it; the strictest stands first.
    MayNarrow(&'static [&'static str]),
    /// Set a number that is no more than what is set without it.
    MayLower,
    /// Nothing: it says where secrets and conversations go.
    MayNot,
}

const fn key(name: &'static str, shape: Shape) -> Key {
    Key {
        name,
        shape,
        project: Project::MayNot,
    }
}

const fn open(name: &'static str, shape: Shape, project: Project) -> Key {
    Key {
        name,
        shape,
        project,
    }
}

/// How far tools may reach, the strictest first.
pub(crate) const SANDBOX: &[&str] = &["read-only", "workspace-write", "danger-full-access"];

/// Whether commands may use TCP in a sandbox, the stricter first.
const NETWORK: &[&str] = &["refused", "allowed"];

/// What becomes of a command that the kernel can only confine in part, the stricter first.
const PARTIAL: &[&str] = &["refuse", "report"];

/// What happens to a call that wants more, the strictest first.
pub(crate) const PERMISSION_MODE: &[&str] = &["never", "ask", "allow"];

/// What a provider is.
pub(crate) const KIND: &[&str] = &[
    "anthropic",
    "deepseek",
    "openai",
    "openrouter",
    "ollama",
    "vllm",
    "llama-cpp",
    "compatible",
];

/// The top of every file.
pub(crate) const ROOT: &[Key] = &[
    open("default_model", Shape::Model, Project::May),
    open("effort", Shape::Text, Project::May),
    key("title_model", Shape::Model),
    open(
        "sandbox",
        Shape::Choice(SANDBOX),
        Project::MayNarrow(SANDBOX),
    ),
    open(
        "permission_mode",
        Shape::Choice(PERMISSION_MODE),
        Project::MayNarrow(PERMISSION_MODE),
    ),
    open(
        "sandbox_network",
        Shape::Choice(NETWORK),
        Project::MayNarrow(NETWORK),
    ),
    open(
        "sandbox_partial",
        Shape::Choice(PARTIAL),
        Project::MayNarrow(PARTIAL),
    ),
    open("handback_max_chars", Shape::Count, Project::May),
    key("workspace", Shape::Paths),
    key("environment_keep", Shape::Names),
    open("subagents", Shape::Table(SUBAGENTS), Project::MayLower),
    key("providers", Shape::Named(PROVIDER)),
];

/// What keeps subagents from starting ever more of themselves.
const SUBAGENTS: &[Key] = &[
    open("max_depth", Shape::Whole, Project::MayLower),
    open("max_running", Shape::Count, Project::MayLower),
];

const PROVIDER: &[Key] = &[
    key("kind", Shape::Choice(KIND)),
    key("base_url", Shape::Text),
    key("api_key_env", Shape::Text),
    key("api_key_file", Shape::Text),
    key("protocol", Shape::Choice(&["chat-completions", "messages"])),
    key("dialect", Shape::Choice(KIND)),
    key(
        "reasoning_passback",
        Shape::Choice(&["reasoning-content", "reasoning", "details", "omit"]),
    ),
    key(
        "effort_style",
        Shape::Choice(&["plain", "thinking", "object", "template"]),
    ),
    key(
        "token_limit",
        Shape::Choice(&["max_tokens", "max_completion_tokens"]),
    ),
    key("late_instructions", Shape::Choice(&["system", "user"])),
    key("idle_timeout", Shape::Count),
    key("connect_timeout", Shape::Count),
    key("max_retries", Shape::Whole),
    key("context_window", Shape::Count),
    key("models", Shape::Named(MODEL)),
];

const MODEL: &[Key] = &[
    key("context_window", Shape::Count),
    key("max_tokens", Shape::Count),
    key("images", Shape::Switch),
    key("effort", Shape::Text),
    key("prices", Shape::Table(PRICES)),
];

const PRICES: &[Key] = &[
    key("input", Shape::Amount),
    key("output", Shape::Amount),
    key("cache_read", Shape::Amount),
    key("cache_write", Shape::Amount),
];

impl Shape {
    /// What should stand there, for whoever wrote something else.
    pub(crate) fn expected(self) -> String {
        match self {
            Self::Text => "a text in quotes".to_owned(),
            Self::Model => {
                "a model is named PROVIDER/MODEL, such as deepseek/deepseek-chat".to_owned()
            }
            Self::Count => "a whole number from 1 on".to_owned(),
            Self::Whole => "a whole number from 0 on".to_owned(),
            Self::Amount => "a number from 0 on".to_owned(),
            Self::Switch => "true or false".to_owned(),
            Self::Names => "a list of names in quotes".to_owned(),
            Self::Paths => "a list of absolute paths in quotes".to_owned(),
            Self::Choice(words) => format!("one of {}", quoted(words)),
            Self::Table(keys) | Self::Named(keys) => {
                let names: Vec<&str> = keys.iter().map(|key| key.name).collect();
                match self {
                    Self::Table(_) => format!("a table with {}", quoted(&names)),
                    _ => format!("tables with {}", quoted(&names)),
                }
            }
        }
    }

    /// The value, if a text can be one: variables and flags are texts.
    pub(crate) fn parse(self, text: &str) -> Option<Value> {
        let text = text.trim();
        match self {
            Self::Text => (!text.is_empty()).then(|| Value::Text(text.to_owned())),
            Self::Model => super::ModelName::parse(text)
                .ok()
                .map(|_| Value::Text(text.to_owned())),
            Self::Choice(words) => words.contains(&text).then(|| Value::Text(text.to_owned())),
            Self::Count => text
                .parse()
                .ok()
                .filter(|count| *count > 0)
                .map(Value::Count),
            Self::Whole => text.parse().ok().map(Value::Count),
            Self::Amount => text
                .parse()
                .ok()
                .filter(|amount: &f64| amount.is_finite() && *amount >= 0.0)
                .map(Value::Amount),
            Self::Switch => text.parse().ok().map(Value::Switch),
            Self::Names | Self::Paths | Self::Table(_) | Self::Named(_) => None,
        }
    }
}

fn quoted(names: &[&str]) -> String {
    let names: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
    names.join(", ")
}

/// The key at a place.
pub(crate) fn find(parts: &[String]) -> Option<Key> {
    let mut keys = ROOT;
    let mut parts = parts.iter();
    loop {
        let name = parts.next()?;
        let found = keys.iter().find(|key| key.name == name)?;
        keys = match found.shape {
            Shape::Table(keys) => keys,
            Shape::Named(keys) => {
                // The name of the user's own.
                parts.next()?;
                keys
            }
            _ => return parts.next().is_none().then_some(*found),
        };
    }
}

/// The known key that somebody may have meant.
pub(crate) fn nearest(keys: &[Key], written: &str) -> Option<&'static str> {
    let close = |name: &str| {
        // One is the beginning of the other, such as `api_key` and `api_key_env`.
        if written.len() >= 3 && (name.starts_with(written) || written.starts_with(name)) {
            return Some(1);
        }
        let steps = distance(name, written);
        (steps <= 1 + written.chars().count() / 4).then_some(steps + 1)
    };
    keys.iter()
        .filter_map(|key| Some((close(key.name)?, key.name)))
        .min()
        .map(|(_, name)| name)
}

/// How many letters have to be put in, taken out or replaced, or swapped with their neighbour.
fn distance(a: &str, b: &str) -> usize {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    let mut rows: Vec<Vec<usize>> = vec![(0..=b.len()).collect()];
    for i in 1..=a.len() {
        let mut row = vec![i];
        for j in 1..=b.len() {
            let replaced = rows[i - 1][j - 1] + usize::from(a[i - 1] != b[j - 1]);
            let mut least = replaced.min(rows[i - 1][j] + 1).min(row[j - 1] + 1);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                least = least.min(rows[i - 2][j - 2] + 1);
            }
            row.push(least);
        }
        rows.push(row);
    }
    rows[a.len()][b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slip_of_the_pen_is_near_what_was_meant() {
        let near = [
            ("defualt_model", Some("default_model")),
            ("sandbx", Some("sandbox")),
            ("permissions", None),
            ("provider", Some("providers")),
            ("x", None),
        ];
        for (written, meant) in near {
            assert_eq!(nearest(ROOT, written), meant, "{written}");
        }
        assert_eq!(nearest(PROVIDER, "base_ulr"), Some("base_url"));
        assert_eq!(nearest(PROVIDER, "api_key"), Some("api_key_env"));
        assert_eq!(distance("ab", "ba"), 1);
    }

    #[test]
    fn every_kind_of_provider_can_be_configured() {
        let kinds = offshoot_model::ProviderKind::ALL.map(offshoot_model::ProviderKind::name);
        assert_eq!(KIND, kinds);
    }

    #[test]
    fn a_file_of_a_project_may_set_nothing_about_providers() {
        fn none(keys: &[Key]) -> bool {
            keys.iter().all(|key| {
                key.project == Project::MayNot
                    && match key.shape {
                        Shape::Table(keys) | Shape::Named(keys) => none(keys),
                        _ => true,
                    }
            })
        }
        assert!(none(PROVIDER));
    }
}
