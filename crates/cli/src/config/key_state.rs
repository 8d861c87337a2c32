//! Whether a provider has its key, for whoever asks: never the key itself.

use std::fmt;

use serde::Serialize;

use super::{Config, Provider};
use crate::failure::Failure;

/// What there is of a provider's key.
#[derive(Debug, Serialize)]
pub(crate) struct KeyState {
    provider: String,
    /// Whether there is one.
    set: bool,
    /// Where it comes from, or would have to.
    from: Option<String>,
    #[serde(skip)]
    failure: Option<Failure>,
}

impl KeyState {
    pub(crate) fn of(provider: &Provider) -> Self {
        let found = provider.find_key();
        let variable = provider.key_variable().map(str::to_owned);
        let (set, from, failure) = match found {
            Ok(Some(found)) => (true, Some(found.source.to_string()), None),
            Ok(None) => (false, variable, None),
            Err(failure) => (false, variable, Some(failure)),
        };
        Self {
            provider: provider.name.clone(),
            set,
            from,
            failure,
        }
    }

    /// Those of all providers that have a key, or may have one.
    ///
    /// # Errors
    /// A provider is described in a way that cannot be.
    pub(crate) fn of_all(config: &Config) -> Result<Vec<Self>, Failure> {
        let providers = config.providers()?;
        let states = providers.values().map(Self::of);
        Ok(states
            .filter(|state| state.from.is_some() || state.failure.is_some())
            .collect())
    }

    /// Whether the provider can be called.
    pub(crate) const fn is_usable(&self) -> bool {
        self.failure.is_none()
    }

    /// Why it cannot.
    pub(crate) const fn refused(&self) -> Option<&Failure> {
        self.failure.as_ref()
    }

    /// Whether the provider can be called, and what it takes if it cannot.
    pub(crate) fn usability(&self) -> String {
        match (&self.failure, &self.from) {
            (None, Some(from)) if self.set => format!("usable, with the key in {from}"),
            (None, _) => "needs no key; whether it runs is not looked up".to_owned(),
            (Some(failure), Some(variable)) if failure.code == "MISSING_API_KEY" => {
                format!("not usable: {variable} is not set")
            }
            (Some(failure), _) => format!("not usable: {}", failure.message),
        }
    }
}

impl fmt::Display for KeyState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "key of {}: ", self.provider)?;
        match (&self.failure, &self.from) {
            (_, Some(from)) if self.set => write!(f, "set, in {from}"),
            (Some(failure), _) if failure.code != "MISSING_API_KEY" => {
                write!(f, "not usable: {}", failure.message)
            }
            (_, Some(from)) => write!(f, "not set; {from} would hold it"),
            (_, None) => f.write_str("not set"),
        }
    }
}
