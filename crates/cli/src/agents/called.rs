//! What answers: a model that is configured, or a recording in its place.

use std::sync::Arc;

use offshoot_agent::{AgentConfig, script_from};
use offshoot_model::{Model, ScriptModel, codes};
use offshoot_session::EventLog;
use offshoot_store::ReadSession;
use serde::Deserialize;

use crate::config::{Config, ModelName};
use crate::failure::Failure;
use crate::providers::Providers;

/// What answers.
#[derive(Clone, Debug)]
pub(crate) struct Called {
    pub(crate) model: Arc<dyn Model>,
    pub(crate) name: ModelName,
    /// Whether it can look at pictures, as far as that is known.
    pub(crate) sees_images: bool,
    /// How hard it thinks, if that is said.
    effort: Option<String>,
    /// Where it is, for whoever has to find out why it does not answer.
    pub(crate) address: Option<String>,
}

impl Called {
    /// The model that is configured for a session of which this much is stored.
    pub(crate) fn configured(
        config: &Config,
        providers: &Providers,
        log: Option<&EventLog>,
    ) -> Result<Self, Failure> {
        let name = providers.choose(log.and_then(model_of))?;
        Self::named(config, providers, name)?.checked()
    }

    /// The same, if it could be called so.
    ///
    /// # Errors
    /// The model does not have what is set for it. Said now, that costs nobody a message.
    pub(crate) fn checked(self) -> Result<Self, Failure> {
        match self.model.prepare(&self.agent_config().call) {
            Ok(_) => Ok(self),
            Err(refused) => {
                let known = [
                    codes::UNSUPPORTED_REASONING_EFFORT,
                    codes::UNSUPPORTED_OPTION,
                    codes::INVALID_MODEL_CONTEXT,
                    codes::INVALID_MODEL_MAX_TOKENS,
                    codes::INVALID_MODEL_REASONING,
                ];
                let code = known.into_iter().find(|code| *code == refused.code);
                Err(
                    Failure::new(code.unwrap_or("INVALID_CONFIG"), refused.message).hint(
                        "`offshoot config show --origin` tells where each setting comes from",
                    ),
                )
            }
        }
    }

    /// A model that was named.
    pub(crate) fn named(
        config: &Config,
        providers: &Providers,
        name: ModelName,
    ) -> Result<Self, Failure> {
        Ok(Self {
            model: providers.connect(&name)?,
            address: Some(providers.address(&name)?),
            effort: effort(config, providers, &name),
            sees_images: providers.info(&name).images,
            name,
        })
    }

    /// A recording in place of a model.
    pub(crate) fn replaying(read: &ReadSession) -> Result<Self, Failure> {
        let name = model_of(&read.stored.log).unwrap_or_else(|| ModelName {
            provider: "replay".to_owned(),
            model: "recorded".to_owned(),
        });
        // What was inherited is the parent's to replay.
        let script = script_from(&read.stored.log, read.stored.inherited)
            .map_err(|error| Failure::from(error).at(&read.path))?;
        if script.is_empty() {
            return Err(Failure::new(
                "REPLAY_UNAVAILABLE",
                "it holds no answer of a model of its own",
            )
            .at(&read.path)
            .hint("name a recording in which a model has answered"));
        }
        Ok(Self {
            model: Arc::new(ScriptModel::new(name.provider.as_str(), script)),
            name,
            sees_images: true,
            effort: None,
            address: None,
        })
    }

    /// A model that somebody else has at hand, called as this one would be.
    pub(crate) fn given(
        config: &Config,
        providers: &Providers,
        name: ModelName,
        model: Arc<dyn Model>,
    ) -> Self {
        Self {
            model,
            effort: effort(config, providers, &name),
            name,
            sees_images: true,
            address: None,
        }
    }

    /// What a person is told of a turn that failed: why, and what may help.
    pub(crate) fn told(&self, failed: &offshoot_model::Failure) -> Vec<String> {
        let mut told = vec![format!("error: {} ({})", failed.message, failed.code)];
        if let Some(ms) = failed.provider_retry_after_ms {
            let seconds = ms.div_ceil(1000);
            told.push(format!("hint: the provider asks to wait for {seconds} s"));
        }
        told.extend(
            self.address
                .iter()
                .map(|address| format!("hint: {address}")),
        );
        told
    }

    /// How an agent calls it.
    pub(crate) fn agent_config(&self) -> AgentConfig {
        let mut config = AgentConfig::new(&*self.name.provider, &*self.name.model);
        config.call.reasoning_effort.clone_from(&self.effort);
        config
    }
}

/// What was asked for this once. What is set for the model is its default, and goes before what is set for all models; that
/// counts only for those that have such an effort.
fn effort(config: &Config, providers: &Providers, name: &ModelName) -> Option<String> {
    let (effort, said_by) = config.text(&["effort"])?;
    let is_known = || {
        let efforts = providers.info(name).efforts;
        efforts.is_none_or(|efforts| efforts.contains(&effort))
    };
    let counts = said_by.is_of_this_run() || (providers.effort(name).is_none() && is_known());
    counts.then(|| effort.to_owned())
}

/// The model that the last request of a session was for.
pub(crate) fn model_of(log: &EventLog) -> Option<ModelName> {
    #[derive(Deserialize)]
    struct Stored {
        header: Header,
    }
    #[derive(Deserialize)]
    struct Header {
        config: Config,
    }
    #[derive(Deserialize)]
    struct Config {
        provider: String,
        model: String,
    }
    let Stored {
        header: Header { config },
    } = log.request_header()?.parse().ok()?;
    Some(ModelName {
        provider: config.provider,
        model: config.model,
    })
}
