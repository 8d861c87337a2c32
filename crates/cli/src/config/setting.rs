//! One setting: where it stands among the others, what it says, and who said it.

use std::fmt;
use std::path::{Path, PathBuf};

use serde::Serialize;

/// The place of a setting, as in `providers.local.base_url`.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct KeyPath(Vec<String>);

impl KeyPath {
    pub(crate) fn new<'a>(parts: impl IntoIterator<Item = &'a str>) -> Self {
        Self(parts.into_iter().map(str::to_owned).collect())
    }

    /// The key `name` in the table that this is.
    pub(crate) fn child(&self, name: &str) -> Self {
        let mut parts = self.0.clone();
        parts.push(name.to_owned());
        Self(parts)
    }

    pub(crate) fn parts(&self) -> &[String] {
        &self.0
    }
}

/// As TOML writes it: parts that are no bare keys in quotes.
impl fmt::Display for KeyPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bare = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
        for (index, part) in self.0.iter().enumerate() {
            if index > 0 {
                f.write_str(".")?;
            }
            if !part.is_empty() && part.chars().all(bare) {
                f.write_str(part)?;
            } else {
                write!(f, "{}", Value::Text(part.clone()))?;
            }
        }
        Ok(())
    }
}

/// What a setting says.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(untagged)]
pub(crate) enum Value {
    Text(String),
    Count(u64),
    Amount(f64),
    Switch(bool),
    List(Vec<String>),
    /// Nothing by itself: a table with a name of the user's own was opened here.
    Opened,
}

/// As TOML writes it.
impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text(text) => write!(f, "{}", toml::Value::String(text.clone())),
            Self::Count(count) => write!(f, "{count}"),
            Self::Amount(amount) => write!(f, "{amount:?}"),
            Self::Switch(on) => write!(f, "{on}"),
            Self::List(names) => {
                let names = names.iter().map(|name| toml::Value::String(name.clone()));
                write!(f, "{}", toml::Value::Array(names.collect()))
            }
            Self::Opened => f.write_str("{}"),
        }
    }
}

/// Whose file it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Layer {
    /// The one that comes with the program.
    Default,
    /// That of the person: `config.toml` in the home.
    User,
    /// That of the directory that is worked in, which somebody else may have written.
    Project,
}

/// Who said what a setting is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
pub(crate) enum Origin {
    /// The program itself.
    Default,
    /// A line of a file, counted from 1.
    File {
        layer: Layer,
        path: PathBuf,
        line: usize,
    },
    /// A variable of the environment.
    Variable { name: &'static str },
    /// A flag of the command line.
    Flag { name: &'static str },
}

impl Origin {
    /// Whether it was said for this one run: by the environment or by a flag.
    pub(crate) const fn is_of_this_run(&self) -> bool {
        matches!(self, Self::Variable { .. } | Self::Flag { .. })
    }

    pub(crate) fn in_file(layer: Layer, path: &Path, line: usize) -> Self {
        match layer {
            Layer::Default => Self::Default,
            layer => Self::File {
                layer,
                path: path.to_owned(),
                line,
            },
        }
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => f.write_str("default"),
            Self::File { path, line, .. } => write!(f, "{}:{line}", path.display()),
            Self::Variable { name } => write!(f, "environment: {name}"),
            Self::Flag { name } => write!(f, "flag: {name}"),
        }
    }
}

/// A value and who said it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Setting {
    pub(crate) value: Value,
    pub(crate) origin: Origin,
}
