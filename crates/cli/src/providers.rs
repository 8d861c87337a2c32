//! Which model is called: chosen among the providers that are configured, and set up to be called.

use std::collections::BTreeMap;
use std::sync::Arc;

use offshoot_agent::Prices;
use offshoot_model::{
    Attachments, Model, ModelInfo, ProviderConfig, ProviderKind, ProviderModel, SetupError,
};

use crate::attachments::HomeAttachments;
use crate::config::{CREDENTIALS, Config, FILE, ModelName, Origin, Provider};
use crate::failure::Failure;
use crate::home::Home;

/// What is called where nobody has said anything but a key.
const FALLBACK: (&str, &str) = ("deepseek", "deepseek-chat");

/// The providers that are configured.
#[derive(Debug)]
pub(crate) struct Providers {
    /// PROVIDER/MODEL, and who said so.
    default_model: Option<(ModelName, Origin)>,
    providers: BTreeMap<String, Provider>,
    home: Home,
}

impl Providers {
    pub(crate) fn of(config: &Config, home: &Home) -> Result<Self, Failure> {
        let default_model = config.text(&["default_model"]).and_then(|(name, origin)| {
            // It was checked when it was read.
            Some((ModelName::parse(name).ok()?, origin.clone()))
        });
        Ok(Self {
            default_model,
            providers: config.providers()?,
            home: home.clone(),
        })
    }

    /// All of them.
    pub(crate) fn all(&self) -> impl Iterator<Item = &Provider> {
        self.providers.values()
    }

    /// The model to call: the one that was asked for, else the one the session used, if it can be called here, else the
    /// configured one.
    pub(crate) fn choose(&self, used: Option<ModelName>) -> Result<ModelName, Failure> {
        let default = self.default_model.as_ref();
        if let Some((asked, _)) = default.filter(|(_, origin)| origin.is_of_this_run()) {
            return Ok(asked.clone());
        }
        let is_usable = |used: &ModelName| {
            let provider = self.providers.get(&used.provider);
            provider.is_some_and(|provider| provider.find_key().is_ok())
        };
        if let Some(used) = used.filter(is_usable) {
            return Ok(used);
        }
        if let Some((configured, _)) = default {
            return Ok(configured.clone());
        }
        let at_hand = self.at_hand()?;
        let (provider, model) = FALLBACK;
        if at_hand.iter().any(|one| one.name == provider) {
            return Ok(ModelName {
                provider: provider.to_owned(),
                model: model.to_owned(),
            });
        }
        match at_hand.first() {
            None => Err(
                Failure::new("NO_PROVIDER", "no model provider is configured").hint(self.advice()),
            ),
            Some(provider) => {
                // What the server behind another address calls its models is not known.
                let known = provider.models().next();
                let known = known.filter(|_| provider.origin == Origin::Default);
                let model = known.unwrap_or("MODEL");
                Err(Failure::new("NO_MODEL", "no model was named").hint(format!(
                    "pass --model {}/{model}, or set OFFSHOOT_MODEL, or default_model in `{}`\n\
                     `offshoot models` lists what can be called",
                    provider.name,
                    self.config_file()
                )))
            }
        }
    }

    /// Those that can be called and that the person has to do with: a local server that nobody has mentioned may not be
    /// there.
    fn at_hand(&self) -> Result<Vec<&Provider>, Failure> {
        let mut at_hand = Vec::new();
        let mut refused = None;
        for provider in self.providers.values() {
            match provider.find_key() {
                Ok(Some(_)) => at_hand.push(provider),
                Ok(None) if provider.is_mentioned => at_hand.push(provider),
                Err(failure) if provider.is_mentioned || failure.code != "MISSING_API_KEY" => {
                    refused = refused.or(Some(failure));
                }
                Ok(None) | Err(_) => {}
            }
        }
        match refused {
            // Better than to say that nothing is configured.
            Some(failure) if at_hand.is_empty() => Err(failure),
            _ => Ok(at_hand),
        }
    }

    /// A model, ready to be called; connects to nothing.
    pub(crate) fn connect(&self, name: &ModelName) -> Result<Arc<dyn Model>, Failure> {
        let provider = self.provider(name)?;
        let mut config = provider.call(&name.model, self.attachments());
        let found = provider.find_key()?;
        config.api_key = found.as_ref().map(|found| found.key.clone());
        let error = match ProviderModel::new(config) {
            Ok(model) => return Ok(Arc::new(model)),
            Err(error) => error,
        };
        let failure = Failure::new("INVALID_PROVIDER", error.to_string());
        Err(match (&error, &provider.origin, found) {
            (SetupError::InvalidApiKey, _, Some(found)) => {
                failure.hint(format!("the key is in {}", found.source))
            }
            (SetupError::Client { .. }, ..) | (_, Origin::Default, _) => failure,
            (_, Origin::Variable { name }, _) => {
                failure.hint(format!("its address is set by {name}"))
            }
            (_, origin, _) => failure.hint(format!("its address is set in `{origin}`")),
        })
    }

    /// The pictures of the home.
    fn attachments(&self) -> Arc<dyn Attachments> {
        Arc::new(HomeAttachments::new(self.home.store().blobs()))
    }

    /// The variables that keys are taken from, whether they are set or not.
    pub(crate) fn key_variables(&self) -> impl Iterator<Item = &str> {
        self.providers.values().filter_map(Provider::key_variable)
    }

    /// What is known of a model.
    pub(crate) fn info(&self, name: &ModelName) -> ModelInfo {
        let provider = self.providers.get(&name.provider);
        provider.map_or_else(ModelInfo::default, |provider| provider.info(&name.model))
    }

    /// How hard a model thinks, if the settings say so.
    pub(crate) fn effort(&self, name: &ModelName) -> Option<&str> {
        self.providers.get(&name.provider)?.effort(&name.model)
    }

    /// What a model costs, if the settings say so.
    pub(crate) fn prices(&self, provider: &str, model: &str) -> Option<Prices> {
        self.providers.get(provider)?.prices(model)
    }

    /// Where the requests for a model go, as far as nothing of it is secret.
    pub(crate) fn address(&self, name: &ModelName) -> Result<String, Failure> {
        let provider = self.provider(name)?;
        let key = match provider.find_key()? {
            Some(found) => format!("with the key in {}", found.source),
            None => "without a key".to_owned(),
        };
        Ok(format!(
            "provider `{}` is asked at {}, {key}",
            name.provider,
            provider.shown_url()
        ))
    }

    fn provider(&self, name: &ModelName) -> Result<&Provider, Failure> {
        self.providers.get(&name.provider).ok_or_else(|| {
            let message = format!("provider `{}` is not configured", name.provider);
            let known: Vec<&str> = self.providers.keys().map(String::as_str).collect();
            Failure::new("UNKNOWN_PROVIDER", message).hint(format!(
                "known are: {}; others go into `{}`",
                known.join(", "),
                self.config_file()
            ))
        })
    }

    /// How a provider is called, without its key. For one that is not configured here, the name decides: a recorded
    /// request can be shown where it could not be made.
    pub(crate) fn as_called(&self, name: &ModelName) -> ProviderConfig {
        match self.providers.get(&name.provider) {
            Some(provider) => provider.call(&name.model, self.attachments()),
            None => {
                let kind = match &*name.provider {
                    provider if provider.starts_with("deepseek") => ProviderKind::DeepSeek,
                    provider => ProviderKind::parse(provider).unwrap_or_default(),
                };
                let mut config = ProviderConfig::new(kind, &*name.provider, String::new());
                config.attachments = self.attachments();
                config
            }
        }
    }

    fn config_file(&self) -> String {
        self.home.path().join(FILE).display().to_string()
    }

    /// What to do where nothing is configured.
    fn advice(&self) -> String {
        let home = self.home.path();
        format!(
            "set DEEPSEEK_API_KEY; or ANTHROPIC_API_KEY, OPENAI_API_KEY or OPENROUTER_API_KEY, and pass --model \
             PROVIDER/MODEL; keys may also stand in `{}`\n\
             for a server of your own: OPENAI_BASE_URL and --model openai/MODEL, or --model ollama/MODEL, or describe it \
             in `{}`\n\
             `offshoot models` lists what can be called, and what it takes\n\
             to try without a key: `offshoot demo`, or `offshoot run --replay FILE PROMPT`",
            home.join(CREDENTIALS).display(),
            self.config_file()
        )
    }
}
