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

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct ConfigFile {
    default_model: Option<String>,
    #[serde(default)]
    providers: BTreeMap<String, Provider>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Provider {
    base_url: String,
    api_key_env: Option<String>,
    #[serde(default)]
    dialect: DialectName,
    context_window: Option<u64>,
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
    fn parse(text: &str) -> Result<Self, Failure> {
        match text.split_once('/') {
            Some((provider, model)) if !provider.is_empty() && !model.is_empty() => Ok(Self {
                provider: provider.to_owned(),
                model: model.to_owned(),
            }),
            _ => Err(Failure::new(
                "INVALID_MODEL",
                format!(
                    "a model is named PROVIDER/MODEL, such as deepseek/deepseek-chat; found {text:?}"
                ),
            )),
        }
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
            Ok(text) => toml::from_str(&text).map_err(|error| broken(error.to_string()))?,
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
        asked: Option<&str>,
        used: Option<ModelName>,
    ) -> Result<ModelName, Failure> {
        if let Some(asked) = asked {
            return ModelName::parse(asked);
        }
        if let Some(used) = used.filter(|used| self.providers.contains_key(&used.provider)) {
            return Ok(used);
        }
        if let Some(default) = &self.default_model {
            return ModelName::parse(default);
        }
        if self.providers.contains_key("deepseek") {
            return ModelName::parse("deepseek/deepseek-chat");
        }
        match self.providers.keys().next() {
            None => Err(self.nothing_configured()),
            Some(provider) => Err(Failure::new(
                "NO_MODEL",
                format!("which model of `{provider}` is meant was not said"),
            )
            .hint(format!(
                "pass --model {provider}/MODEL, or set default_model in `{}`",
                self.config.display()
            ))),
        }
    }

    pub(crate) fn connect(&self, name: &ModelName) -> Result<OpenAiModel, Failure> {
        let Some(provider) = self.providers.get(&name.provider) else {
            return Err(self.unknown(&name.provider));
        };
        let mut config = OpenAiConfig::new(name.provider.as_str(), provider.base_url.as_str());
        config.dialect = provider.dialect.dialect();
        if let Some(variable) = &provider.api_key_env {
            config.api_key = set(variable).map(ApiKey::new);
        }
        if let Some(tokens) = provider.context_window {
            config.context_windows.insert(name.model.clone(), tokens);
        }
        OpenAiModel::new(config).map_err(|error| {
            Failure::new(
                "INVALID_PROVIDER",
                format!("provider `{}`: {error}", name.provider),
            )
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

    fn nothing_configured(&self) -> Failure {
        Failure::new("NO_PROVIDER", "no model provider is configured").hint(format!(
            "set DEEPSEEK_API_KEY, or OPENAI_API_KEY with --model openai/MODEL (and OPENAI_BASE_URL for a compatible \
             server), or describe a provider in `{}`; to try without a key: `offshoot demo`, or `offshoot run --replay \
             FILE PROMPT`",
            self.config.display()
        ))
    }

    fn unknown(&self, provider: &str) -> Failure {
        if self.providers.is_empty() {
            return self.nothing_configured();
        }
        let known: Vec<&str> = self.providers.keys().map(String::as_str).collect();
        Failure::new(
            "UNKNOWN_PROVIDER",
            format!("provider `{provider}` is not configured"),
        )
        .hint(format!(
            "configured are: {}; others go into `{}`",
            known.join(", "),
            self.config.display()
        ))
    }
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
