//! What the settings say of one provider, and its key.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use offshoot_agent::Prices;
use offshoot_model::{
    Attachments, ModelInfo, ModelSettings, NoAttachments, ProviderConfig, ProviderKind,
};

use super::protocol::protocol;
use super::secrets::{self, FoundKey};
use super::{Config, Layer, Origin, environment};
use crate::failure::Failure;

/// A provider as it is configured.
#[derive(Clone, Debug)]
pub(crate) struct Provider {
    pub(crate) name: String,
    pub(crate) kind: ProviderKind,
    /// Who said where it is.
    pub(crate) origin: Origin,
    /// Whether the person has said anything about it.
    pub(crate) is_mentioned: bool,
    /// How it is called, apart from its key and the pictures.
    config: ProviderConfig,
    /// Of its models of which nothing else is said, in tokens.
    context_window: Option<u64>,
    prices: BTreeMap<String, Prices>,
    key: KeyPlan,
    user_file: PathBuf,
    home: PathBuf,
}

/// Where a key is looked for.
#[derive(Clone, Debug)]
struct KeyPlan {
    variable: Option<String>,
    file: Option<PathBuf>,
    need: KeyNeed,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum KeyNeed {
    /// The provider's own place, or one for which a key was named.
    Required,
    /// A server that was named by the environment may need none.
    Optional,
    /// None was named.
    None,
}

impl Provider {
    pub(super) fn read(config: &Config, name: &str) -> Result<Self, Failure> {
        let text = |key: &str| config.text(&["providers", name, key]);
        let kind = text("kind").map_or(name, |(kind, _)| kind);
        let kind = ProviderKind::parse(kind).unwrap_or_default();
        let own = |key: &str| {
            // A kind has a place of its own, under whatever name it is configured.
            text(key).or_else(|| {
                let of_kind = config.text(&["providers", kind.name(), key])?;
                (*of_kind.1 == Origin::Default).then_some(of_kind)
            })
        };
        let Some((base_url, origin)) = own("base_url") else {
            return Err(without_address(config, name));
        };
        let mut called = ProviderConfig::new(kind, name, base_url);
        called.protocol = protocol(name, kind, text)?;
        let count = |key: &str| config.count(&["providers", name, key]);
        if let Some(seconds) = count("idle_timeout") {
            called.idle_timeout = Duration::from_secs(seconds);
        }
        if let Some(seconds) = count("connect_timeout") {
            called.connect_timeout = Duration::from_secs(seconds);
        }
        if let Some(retries) = count("max_retries") {
            called.retry.max_retries = Some(u32::try_from(retries).unwrap_or(u32::MAX));
        }
        called.models = models(config, name);
        Ok(Self {
            name: name.to_owned(),
            kind,
            context_window: count("context_window"),
            prices: prices(config, name),
            is_mentioned: is_mentioned(config, name),
            key: key_plan(config, origin, own("api_key_env"), text("api_key_file")),
            origin: origin.clone(),
            user_file: config.user_file(),
            home: config.home.clone(),
            config: called,
        })
    }

    /// How its model `model` is called, with these pictures at hand, apart from the key.
    pub(crate) fn call(&self, model: &str, attachments: Arc<dyn Attachments>) -> ProviderConfig {
        let mut config = self.config.clone();
        config.attachments = attachments;
        if let Some(tokens) = self.context_window {
            let settings = config.models.entry(model.to_owned()).or_default();
            settings.context_window = settings.context_window.or(Some(tokens));
        }
        config
    }

    /// What is known of one of its models.
    pub(crate) fn info(&self, model: &str) -> ModelInfo {
        let config = self.call(model, Arc::new(NoAttachments));
        config.route(model).info(model)
    }

    /// How hard one of its models thinks, if the settings say so.
    pub(crate) fn effort(&self, model: &str) -> Option<&str> {
        let settings = self.config.models.get(model)?;
        settings.reasoning_effort.as_deref()
    }

    /// What one of its models costs, if the settings say so.
    pub(crate) fn prices(&self, model: &str) -> Option<Prices> {
        self.prices.get(model).copied()
    }

    /// The models that the settings know of.
    pub(crate) fn models(&self) -> impl Iterator<Item = &str> {
        self.config.models.keys().map(String::as_str)
    }

    /// Its key, if it has one.
    ///
    /// # Errors
    /// It needs one and there is none, or what holds it cannot be used; the error says what to do.
    pub(crate) fn find_key(&self) -> Result<Option<FoundKey>, Failure> {
        let in_variable = self.key.variable.as_deref().and_then(secrets::in_variable);
        if in_variable.is_some() {
            return Ok(in_variable);
        }
        if let Some(file) = &self.key.file {
            return secrets::in_file(file).map(Some);
        }
        let kept = secrets::in_credentials(&self.home, &self.name)?;
        if kept.is_none() && self.key.need == KeyNeed::Required {
            return Err(self.missing_key());
        }
        Ok(kept)
    }

    /// Where the key is looked for, for whoever wants to know.
    pub(crate) fn key_variable(&self) -> Option<&str> {
        self.key.variable.as_deref()
    }

    fn missing_key(&self) -> Failure {
        let name = &self.name;
        let variable = self.key.variable.as_deref().unwrap_or("no variable");
        let message = format!("provider `{name}` takes its key from {variable}, which is not set");
        let credentials = self.home.join(secrets::CREDENTIALS);
        let file = self.user_file.display();
        let otherwise = match (&self.origin, environment::address_of(name)) {
            (Origin::Default, Some(variable)) => {
                format!("or set {variable} for a server that needs no key")
            }
            (Origin::Default, None) => {
                format!(
                    "or set `providers.{name}.base_url` in `{file}` for a server that needs no key"
                )
            }
            _ => format!("or take api_key_env out of `{file}` if no key is needed"),
        };
        Failure::new("MISSING_API_KEY", message).hint(format!(
            "set {variable}; or write {name} = \"KEY\" into `{}`, which only you may be able to read\n{otherwise}",
            credentials.display()
        ))
    }

    /// Its address, as far as nothing of it is secret.
    pub(crate) fn shown_url(&self) -> String {
        shown_url(&self.config.base_url)
    }
}

/// An address without what may be secret in it: a name and a password before the host, and what is asked.
pub(crate) fn shown_url(url: &str) -> String {
    let url = url.split(['?', '#']).next().unwrap_or_default();
    match url.split_once("://") {
        Some((scheme, rest)) => {
            let host = rest.split('/').next().unwrap_or_default();
            match host.rsplit_once('@') {
                Some((_, after)) => format!("{scheme}://{after}{}", &rest[host.len()..]),
                None => url.to_owned(),
            }
        }
        None => url.to_owned(),
    }
}

fn models(config: &Config, provider: &str) -> BTreeMap<String, ModelSettings> {
    let names = config.names(&["providers", provider, "models"]);
    let settings = names.into_iter().map(|name| {
        let at = |key| ["providers", provider, "models", name, key];
        let settings = ModelSettings {
            context_window: config.count(&at("context_window")),
            max_tokens: config.count(&at("max_tokens")),
            images: config.switch(&at("images")),
            reasoning_effort: config
                .text(&at("effort"))
                .map(|(effort, _)| effort.to_owned()),
        };
        (name.to_owned(), settings)
    });
    settings.collect()
}

fn prices(config: &Config, provider: &str) -> BTreeMap<String, Prices> {
    let names = config.names(&["providers", provider, "models"]);
    let prices = names.into_iter().filter_map(|name| {
        let price = |key| {
            let dollars = config.amount(&["providers", provider, "models", name, "prices", key])?;
            Some(micro_dollars(dollars))
        };
        let (input, output) = (price("input"), price("output"));
        input.or(output)?;
        let prices = Prices {
            input: input.unwrap_or(0),
            output: output.unwrap_or(0),
            cache_read: price("cache_read"),
            cache_write: price("cache_write"),
        };
        Some((name.to_owned(), prices))
    });
    prices.collect()
}

/// In millionths. A price is a number from 0 on, and no price that anybody has asked is too large.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "what is too large becomes the largest number there is"
)]
fn micro_dollars(dollars: f64) -> u64 {
    (dollars * 1e6).round() as u64
}

fn is_mentioned(config: &Config, provider: &str) -> bool {
    config.settings.iter().any(|(path, setting)| {
        let parts = path.parts();
        parts.len() > 1
            && parts[0] == "providers"
            && parts[1] == provider
            && setting.origin != Origin::Default
    })
}

/// A key goes only where it belongs: the variable of a kind is for the kind's own address, or for the one that the
/// environment names beside it. A file that names another address has to name the key as well.
fn key_plan(
    config: &Config,
    address: &Origin,
    variable: Option<(&str, &Origin)>,
    file: Option<(&str, &Origin)>,
) -> KeyPlan {
    let is_moved = matches!(address, Origin::File { .. });
    let variable = variable.filter(|(_, said_by)| **said_by != Origin::Default || !is_moved);
    let need = match (&variable, &file) {
        (_, Some(_)) => KeyNeed::Required,
        (None, None) => KeyNeed::None,
        (Some((_, Origin::Default)), None) if matches!(address, Origin::Variable { .. }) => {
            KeyNeed::Optional
        }
        (Some(_), None) => KeyNeed::Required,
    };
    KeyPlan {
        variable: variable.map(|(name, _)| name.to_owned()),
        file: file.map(|(path, _)| {
            let path = crate::home::expand(PathBuf::from(path)).unwrap_or_else(|_| path.into());
            config.home.join(path)
        }),
        need,
    }
}

fn without_address(config: &Config, name: &str) -> Failure {
    let origin = config
        .get(&["providers", name])
        .map(|opened| opened.origin.clone());
    let (path, line) = match origin {
        Some(Origin::File {
            path,
            line,
            layer: Layer::User | Layer::Project | Layer::Default,
        }) => (path, line),
        _ => (config.user_file(), 1),
    };
    let message = format!("line {line}: provider `{name}` has no `base_url`");
    Failure::new("INVALID_CONFIG", message)
        .at(&path)
        .hint("name the address of the server, or a `kind` that has one of its own")
}
