//! What the program was told to do, and by whom.
//!
//! Every setting is looked for in five places, the later of which go before the earlier: what the program comes with
//! (`defaults.toml`), the person's file (`config.toml` in the home), the project's file (`.offshoot/config.toml`, see
//! `project.rs` for where), the environment, and flags. Each value remembers who has said it.
//!
//! - `schema.rs` is the list of all keys, `file.rs` reads a file by it, `environment.rs` the variables.
//! - [`Config`] is the outcome. [`Provider`] is what it says of one provider, and `secrets.rs` finds its key.
//!
//! Keys are no settings: they are neither in these files nor in this type.

mod environment;
mod file;
mod key_state;
mod policy;
mod project;
mod protocol;
mod provider;
mod schema;
mod secrets;
mod setting;

use std::collections::BTreeMap;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use offshoot_agent::{HANDBACK_MAX_CHARS, PermissionRules};
use offshoot_model::ProviderKind;

pub(crate) use self::key_state::KeyState;
pub(crate) use self::policy::PERMISSIONS;
pub(crate) use self::provider::Provider;
pub(crate) use self::schema::{PERMISSION_MODE, SANDBOX};
pub(crate) use self::secrets::CREDENTIALS;
pub(crate) use self::setting::{KeyPath, Origin, Value};
use self::setting::{Layer, Setting};
use crate::failure::Failure;
use crate::home::Home;
use crate::notes::Notes;

/// The name of a configuration file.
pub(crate) const FILE: &str = "config.toml";

const DEFAULTS: &str = include_str!("defaults.toml");

/// A model that can be called.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ModelName {
    pub(crate) provider: String,
    pub(crate) model: String,
}

impl ModelName {
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        match text.split_once('/') {
            Some((provider, model)) if !provider.is_empty() && !model.is_empty() => Ok(Self {
                provider: provider.to_owned(),
                model: model.to_owned(),
            }),
            _ => Err("a model is named PROVIDER/MODEL, such as deepseek/deepseek-chat".to_owned()),
        }
    }
}

impl std::fmt::Display for ModelName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", self.provider, self.model)
    }
}

/// What was said on the command line.
#[derive(Clone, Debug, Default)]
pub(crate) struct Flags<'a> {
    pub(crate) model: Option<&'a ModelName>,
    pub(crate) effort: Option<&'a str>,
    pub(crate) sandbox: Option<&'a str>,
    pub(crate) permission_mode: Option<&'a str>,
}

/// Something that a project's file says and may not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Ignored {
    pub(crate) key: KeyPath,
    pub(crate) path: PathBuf,
    pub(crate) line: usize,
    pub(crate) reason: String,
}

/// Where files are, or would be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Places {
    /// The person's own settings.
    pub(crate) user: PathBuf,
    /// Those of the project, if it has any.
    pub(crate) project: Option<PathBuf>,
    /// The keys.
    pub(crate) credentials: PathBuf,
    /// The person's own rules about calls.
    pub(crate) permissions: PathBuf,
    /// Those of the project, if it has any.
    pub(crate) project_permissions: Option<PathBuf>,
}

/// All settings.
#[derive(Debug)]
pub(crate) struct Config {
    home: PathBuf,
    settings: BTreeMap<KeyPath, Setting>,
    ignored: Vec<Ignored>,
    rules: PermissionRules,
    /// Warnings of rules that do not count.
    ignored_rules: Vec<String>,
}

impl Config {
    /// The files that are read, whether they are there or not. `start` is the directory that is worked in.
    pub(crate) fn places(home: &Home, start: &Path) -> Places {
        let (user, permissions) = (home.path().join(FILE), home.path().join(PERMISSIONS));
        let person = std::env::home_dir();
        let of_project =
            |name: &str, user: &Path| project::find(name, start, user, person.as_deref());
        Places {
            project: of_project(FILE, &user),
            project_permissions: of_project(PERMISSIONS, &permissions),
            credentials: home.path().join(CREDENTIALS),
            permissions,
            user,
        }
    }

    /// Puts the layers together. `start` is the directory that is worked in.
    ///
    /// # Errors
    /// A file, a variable or a flag that cannot be understood; the error says where.
    pub(crate) fn load(home: &Home, start: &Path, flags: &Flags<'_>) -> Result<Self, Failure> {
        let Places {
            user,
            project,
            permissions,
            project_permissions,
            ..
        } = Self::places(home, start);
        let (rules, ignored_rules) = policy::rules(&permissions, project_permissions.as_deref())?;
        let mut config = Self {
            home: home.path().to_owned(),
            rules,
            ignored_rules,
            settings: BTreeMap::new(),
            ignored: Vec::new(),
        };
        config.take_kinds();
        config.take(DEFAULTS, Layer::Default, Path::new("defaults.toml"))?;
        config.take_file(Layer::User, &user)?;
        if let Some(project) = project {
            config.take_file(Layer::Project, &project)?;
        }
        config.settings.extend(environment::settings()?);
        config.take_flags(flags)?;
        Ok(config)
    }

    /// What these settings say, as the person's file would, and the program itself; nothing else counts.
    ///
    /// # Errors
    /// As [`Self::load`]; `path` is where the settings are from.
    pub(crate) fn alone(home: &Home, settings: &str, path: &Path) -> Result<Self, Failure> {
        let mut config = Self {
            home: home.path().to_owned(),
            rules: PermissionRules::default(),
            ignored_rules: Vec::new(),
            settings: BTreeMap::new(),
            ignored: Vec::new(),
        };
        config.take_kinds();
        config.take(DEFAULTS, Layer::Default, Path::new("defaults.toml"))?;
        config.take(settings, Layer::User, path)?;
        Ok(config)
    }

    /// As [`Self::load`] for the current directory, and without flags.
    pub(crate) fn here(home: &Home) -> Result<Self, Failure> {
        let start = std::env::current_dir().unwrap_or_default();
        Self::load(home, &start, &Flags::default())
    }

    /// Every kind of provider that has a place of its own is one, under its own name.
    fn take_kinds(&mut self) {
        for kind in ProviderKind::ALL {
            let Some(base_url) = kind.base_url() else {
                continue;
            };
            for (key, value) in [
                ("kind", Some(kind.name())),
                ("base_url", Some(base_url)),
                ("api_key_env", kind.key_variable()),
            ] {
                if let Some(value) = value {
                    let value = Value::Text(value.to_owned());
                    let path = ["providers", kind.name(), key];
                    self.settings
                        .extend([environment::given(&path, value, Origin::Default)]);
                }
            }
        }
    }

    fn take_file(&mut self, layer: Layer, path: &Path) -> Result<(), Failure> {
        match fs::read_to_string(path) {
            Ok(text) => self.take(&text, layer, path),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
            Err(error) => Err(Failure::new("INVALID_CONFIG", error.to_string()).at(path)),
        }
    }

    fn take(&mut self, text: &str, layer: Layer, path: &Path) -> Result<(), Failure> {
        for read in file::read(text).map_err(|failure| failure.at(path))? {
            if layer == Layer::Project {
                let below = self.settings.get(&read.path).map(|setting| &setting.value);
                if let Some(reason) = project::refusal(&read.path, &read.value, below) {
                    if read.value == Value::Opened {
                        // What is in the table is told of, line by line.
                        continue;
                    }
                    self.ignored.push(Ignored {
                        key: read.path,
                        path: path.to_owned(),
                        line: read.line,
                        reason,
                    });
                    continue;
                }
            }
            let origin = Origin::in_file(layer, path, read.line);
            let value = read.value;
            self.settings.insert(read.path, Setting { value, origin });
        }
        Ok(())
    }

    fn take_flags(&mut self, flags: &Flags<'_>) -> Result<(), Failure> {
        if let Some(model) = flags.model {
            // It was read with the command line.
            let origin = Origin::Flag { name: "--model" };
            let value = Value::Text(model.to_string());
            self.settings
                .extend([environment::given(&["default_model"], value, origin)]);
        }
        for (key, flag, text) in [
            ("effort", "--effort", flags.effort),
            ("sandbox", "--sandbox", flags.sandbox),
            (
                "permission_mode",
                "--permission-mode",
                flags.permission_mode,
            ),
        ] {
            if let Some(text) = text {
                let origin = Origin::Flag { name: flag };
                self.settings
                    .extend([environment::said(&[key], text, origin)?]);
            }
        }
        Ok(())
    }

    /// The home.
    pub(crate) fn home(&self) -> &Path {
        &self.home
    }

    /// The person's file, whether it is there or not.
    pub(crate) fn user_file(&self) -> PathBuf {
        self.home.join(FILE)
    }

    /// Every setting in the order of the keys, with who said it. What may be secret in an address is left out.
    pub(crate) fn shown(&self) -> impl Iterator<Item = (&KeyPath, Value, &Origin)> {
        let said = self.settings.iter();
        let said = said.filter(|(_, setting)| setting.value != Value::Opened);
        said.map(|(key, Setting { value, origin })| {
            let is_address = key.parts().last().is_some_and(|last| last == "base_url");
            let value = match value {
                Value::Text(url) if is_address => Value::Text(provider::shown_url(url)),
                value => value.clone(),
            };
            (key, value, origin)
        })
    }

    /// What the project's file says and may not.
    pub(crate) fn ignored(&self) -> &[Ignored] {
        &self.ignored
    }

    /// Warns of what the project's file says and may not.
    pub(crate) fn warn(&self, notes: Notes) {
        for Ignored {
            key,
            path,
            line,
            reason,
        } in &self.ignored
        {
            notes.say(&format!(
                "warning: `{}`, line {line}: `{key}` is ignored: {reason}; to set it yourself: `{}`",
                path.display(),
                self.user_file().display()
            ));
        }
        for warning in &self.ignored_rules {
            notes.say(warning);
        }
    }

    /// What is decided of calls beforehand.
    pub(crate) const fn rules(&self) -> &PermissionRules {
        &self.rules
    }

    /// How long the note of a side session may be, in characters, from 1 on.
    pub(crate) fn handback_max_chars(&self) -> usize {
        let max = self.count(&["handback_max_chars"]);
        max.map_or(HANDBACK_MAX_CHARS, |max| {
            usize::try_from(max).unwrap_or(usize::MAX)
        })
    }

    fn get(&self, path: &[&str]) -> Option<&Setting> {
        self.settings.get(&KeyPath::new(path.iter().copied()))
    }

    /// A text with who said it.
    pub(crate) fn text(&self, path: &[&str]) -> Option<(&str, &Origin)> {
        let setting = self.get(path)?;
        match &setting.value {
            Value::Text(text) => Some((text, &setting.origin)),
            _ => None,
        }
    }

    /// The names of a list.
    pub(crate) fn list(&self, path: &[&str]) -> Vec<String> {
        match self.get(path).map(|setting| &setting.value) {
            Some(Value::List(names)) => names.clone(),
            _ => Vec::new(),
        }
    }

    /// A number.
    pub(crate) fn count(&self, path: &[&str]) -> Option<u64> {
        match self.get(path)?.value {
            Value::Count(count) => Some(count),
            _ => None,
        }
    }

    fn amount(&self, path: &[&str]) -> Option<f64> {
        match self.get(path)?.value {
            Value::Amount(amount) => Some(amount),
            _ => None,
        }
    }

    fn switch(&self, path: &[&str]) -> Option<bool> {
        match self.get(path)?.value {
            Value::Switch(on) => Some(on),
            _ => None,
        }
    }

    /// The names in a table of named tables.
    fn names(&self, path: &[&str]) -> Vec<&str> {
        let mut names: Vec<&str> = Vec::new();
        for key in self.settings.keys() {
            let parts = key.parts();
            if parts.len() > path.len() && parts.iter().zip(path).all(|(a, b)| a == b) {
                let name = parts[path.len()].as_str();
                if names.last() != Some(&name) {
                    names.push(name);
                }
            }
        }
        names
    }

    /// Every provider, the program's own included.
    ///
    /// # Errors
    /// One is described in a way that cannot be.
    pub(crate) fn providers(&self) -> Result<BTreeMap<String, Provider>, Failure> {
        let names = self.names(&["providers"]);
        names
            .into_iter()
            .map(|name| Ok((name.to_owned(), Provider::read(self, name)?)))
            .collect()
    }
}
