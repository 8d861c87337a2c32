//! Which models there are to call: `config.toml` in the home, and the environment.
//!
//! | variable | meaning |
//! |---|---|
//! | `OFFSHOOT_HOME` | the home directory, as `--home` |
//! | `OFFSHOOT_MODEL` | the model to call, as `run --model` |
//! | `OPENAI_API_KEY` | key of the provider `openai` |
//! | `OPENAI_BASE_URL` | address of the provider `openai`, for anything that speaks its chat completions |
//! | `DEEPSEEK_API_KEY` | key of the provider `deepseek` |
//!
//! A provider of that name in `config.toml` goes before what the environment says of it.
//!
//! ```toml
//! default_model = "local/some-model"
//!
//! [providers.local]
//! base_url = "http://127.0.0.1:8080/v1"
//! api_key_env = "LOCAL_API_KEY"   # the variable that holds the key; leave out if there is none
//! dialect = "compatible"          # or "openai" or "deepseek"
//! context_window = 32768          # in tokens; optional
//! ```

use std::collections::BTreeMap;
use std::fs;
use std::io::ErrorKind;

use offshoot_model::{ApiKey, Dialect, OpenAiConfig, OpenAiModel};
use serde::Deserialize;

use crate::failure::Failure;
use crate::home::Home;

const CONFIG: &str = "config.toml";
const CONFIG_HINT: &str = "docs/cli.md describes this file; keys are not kept in it: api_key_env names the variable that holds one";
const ENVIRONMENT: [&str; 3] = ["OPENAI_API_KEY", "OPENAI_BASE_URL", "DEEPSEEK_API_KEY"];

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct ConfigFile {
    default_model: Option<String>,
    #[serde(default)]
    providers: BTreeMap<String, Provider>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, expecting = "a table with a base_url")]
struct Provider {
    base_url: String,
    api_key_env: Option<String>,
    #[serde(default)]
    dialect: DialectName,
    context_window: Option<u64>,
    #[serde(skip)]
    from: From,
}

/// Who has described a provider.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum From {
    #[default]
    Config,
    Environment,
}

#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
enum DialectName {
    #[default]
    Compatible,
    OpenAi,
    DeepSeek,
}

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

    /// Reads a name that was not given on the command line; the error says where it stands.
    fn from_setting(setting: &str, text: &str) -> Result<Self, Failure> {
        Self::parse(text).map_err(|error| {
            Failure::new("INVALID_MODEL", format!("{setting} is {text:?}: {error}"))
        })
    }
}

/// The providers that are configured.
#[derive(Debug)]
pub(crate) struct Providers {
    default_model: Option<String>,
    providers: BTreeMap<String, Provider>,
    config: std::path::PathBuf,
}

impl Providers {
    pub(crate) fn load(home: &Home) -> Result<Self, Failure> {
        let path = home.path().join(CONFIG);
        let broken = |reason: String| {
            Failure::new("INVALID_CONFIG", format!("`{}`: {reason}", path.display()))
        };
        let file: ConfigFile = match fs::read_to_string(&path) {
            Ok(text) => toml::from_str(&text)
                .map_err(|error| broken(misread(&text, &error)).hint(CONFIG_HINT))?,
            Err(error) if error.kind() == ErrorKind::NotFound => ConfigFile::default(),
            Err(error) => return Err(broken(error.to_string())),
        };
        let mut providers = file.providers;
        if set("OPENAI_API_KEY")
            .or_else(|| set("OPENAI_BASE_URL"))
            .is_some()
        {
            providers
                .entry("openai".to_owned())
                .or_insert_with(|| Provider {
                    base_url: set("OPENAI_BASE_URL")
                        .unwrap_or_else(|| "https://api.openai.com/v1".to_owned()),
                    api_key_env: Some("OPENAI_API_KEY".to_owned()),
                    dialect: DialectName::OpenAi,
                    context_window: None,
                    from: From::Environment,
                });
        }
        if set("DEEPSEEK_API_KEY").is_some() {
            providers
                .entry("deepseek".to_owned())
                .or_insert_with(|| Provider {
                    base_url: "https://api.deepseek.com".to_owned(),
                    api_key_env: Some("DEEPSEEK_API_KEY".to_owned()),
                    dialect: DialectName::DeepSeek,
                    context_window: None,
                    from: From::Environment,
                });
        }
        Ok(Self {
            default_model: file.default_model,
            providers,
            config: path,
        })
    }

    /// The model to call: the one that was asked for, else the one the session used, if it can be called here, else the
    /// configured one.
    pub(crate) fn choose(
        &self,
        asked: Option<&ModelName>,
        used: Option<ModelName>,
    ) -> Result<ModelName, Failure> {
        if let Some(asked) = asked {
            return Ok(asked.clone());
        }
        if let Some(asked) = set("OFFSHOOT_MODEL") {
            return ModelName::from_setting("OFFSHOOT_MODEL", &asked);
        }
        if let Some(used) = used.filter(|used| self.providers.contains_key(&used.provider)) {
            return Ok(used);
        }
        if let Some(default) = &self.default_model {
            let setting = format!("default_model in `{}`", self.config.display());
            return ModelName::from_setting(&setting, default);
        }
        if self.providers.contains_key("deepseek") {
            return Ok(ModelName {
                provider: "deepseek".to_owned(),
                model: "deepseek-chat".to_owned(),
            });
        }
        match self.providers.keys().next() {
            None => Err(
                Failure::new("NO_PROVIDER", "no model provider is configured").hint(self.advice()),
            ),
            Some(provider) => Err(Failure::new("NO_MODEL", "no model was named").hint(format!(
                "pass --model {provider}/MODEL, or set OFFSHOOT_MODEL, or default_model in `{}`",
                self.config.display()
            ))),
        }
    }

    pub(crate) fn connect(&self, name: &ModelName) -> Result<OpenAiModel, Failure> {
        let provider = self.provider(name)?;
        let mut config = OpenAiConfig::new(name.provider.as_str(), provider.base_url.as_str());
        config.dialect = provider.dialect.dialect();
        config.api_key = provider
            .api_key_env
            .as_deref()
            .and_then(set)
            .map(ApiKey::new);
        if let Some(variable) = provider.missing_key() {
            let message = format!(
                "provider `{}` takes its key from {variable}, which is not set",
                name.provider
            );
            return Err(Failure::new("MISSING_API_KEY", message).hint(format!(
                "set {variable}, or take api_key_env out of `{}` if no key is needed",
                self.config.display()
            )));
        }
        if let Some(tokens) = provider.context_window {
            config.context_windows.insert(name.model.clone(), tokens);
        }
        OpenAiModel::new(config).map_err(|error| {
            Failure::new("INVALID_PROVIDER", error.to_string()).hint(match provider.from {
                From::Config => format!("it is described in `{}`", self.config.display()),
                From::Environment => format!(
                    "it is described by the environment: {}",
                    ENVIRONMENT.join(", ")
                ),
            })
        })
    }

    /// Where the requests for a model go, as far as nothing of it is secret.
    pub(crate) fn address(&self, name: &ModelName) -> Result<String, Failure> {
        let provider = self.provider(name)?;
        // Credentials before the host are refused; a query may hold some.
        let url = provider
            .base_url
            .split(['?', '#'])
            .next()
            .unwrap_or_default();
        let key = match &provider.api_key_env {
            Some(variable) if set(variable).is_some() => format!("with the key in {variable}"),
            _ => "without a key".to_owned(),
        };
        Ok(format!(
            "provider `{}` is asked at {url}, {key}",
            name.provider
        ))
    }

    fn provider(&self, name: &ModelName) -> Result<&Provider, Failure> {
        self.providers.get(&name.provider).ok_or_else(|| {
            let message = format!("provider `{}` is not configured", name.provider);
            let known: Vec<&str> = self.providers.keys().map(String::as_str).collect();
            let hint = match (known.as_slice(), name.provider.as_str()) {
                (_, "openai") => {
                    "set OPENAI_API_KEY, or OPENAI_BASE_URL for a compatible server".to_owned()
                }
                (_, "deepseek") => "set DEEPSEEK_API_KEY".to_owned(),
                ([], _) => self.advice(),
                _ => format!(
                    "configured are: {}; others go into `{}`",
                    known.join(", "),
                    self.config.display()
                ),
            };
            Failure::new("UNKNOWN_PROVIDER", message).hint(hint)
        })
    }

    /// How a provider wants its requests written. For one that is not configured here, the name decides: a recorded
    /// request can be shown where it could not be made.
    pub(crate) fn dialect(&self, provider: &str) -> Dialect {
        match self.providers.get(provider) {
            Some(provider) => provider.dialect.dialect(),
            None if provider == "openai" => Dialect::openai(),
            None if provider.starts_with("deepseek") => Dialect::deepseek(),
            None => Dialect::compatible(),
        }
    }

    /// What to do where nothing is configured.
    fn advice(&self) -> String {
        format!(
            "set DEEPSEEK_API_KEY; or OPENAI_API_KEY (for a compatible server also OPENAI_BASE_URL), and pass --model \
             openai/MODEL; or describe a provider in `{}`\n\
             to try without a key: `offshoot demo`, or `offshoot run --replay FILE PROMPT`",
            self.config.display()
        )
    }
}

impl Provider {
    /// The variable that should hold the key and does not. A server behind `OPENAI_BASE_URL` may need none.
    fn missing_key(&self) -> Option<&str> {
        let variable = self.api_key_env.as_deref()?;
        (self.from == From::Config && set(variable).is_none()).then_some(variable)
    }
}

/// What is wrong with a `config.toml`, and where. The line itself is not shown, nor any value: it may hold a key.
fn misread(text: &str, error: &toml::de::Error) -> String {
    let place = error.span().and_then(|span| text.get(..span.start));
    let place = place.map_or_else(String::new, |before| {
        let line = before.matches('\n').count() + 1;
        let column = before.chars().rev().take_while(|c| *c != '\n').count() + 1;
        format!("line {line}, column {column}: ")
    });
    let mut message = error.message().trim().replace('\n', "; ");
    if let (Some(from), Some(to)) = (message.find("string \""), message.rfind("\", expected")) {
        message.replace_range(from..=to, "a string");
    }
    format!("{place}{message}")
}

impl DialectName {
    const fn dialect(self) -> Dialect {
        match self {
            Self::Compatible => Dialect::compatible(),
            Self::OpenAi => Dialect::openai(),
            Self::DeepSeek => Dialect::deepseek(),
        }
    }
}

/// A variable that is set to something.
fn set(variable: &str) -> Option<String> {
    std::env::var(variable)
        .ok()
        .filter(|value| !value.trim().is_empty())
}
