//! Where a provider is and how it is called.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use reqwest::Url;
use thiserror::Error;

use super::key::ApiKey;
use crate::attachments::{Attachments, NoAttachments};
use crate::codes;
use crate::message::ModelRequest;
use crate::pictures::{PictureLimits, Pictures};
use crate::prepared::{ModelSettings, Route};
use crate::protocol::Protocol;
use crate::providers::ProviderKind;
use crate::retry::RetryPolicy;
use crate::stream::Failure;

/// Where a provider is and how to talk to it.
#[derive(Clone, Debug)]
pub struct ProviderConfig {
    /// The provider name under which the rest of the program knows it.
    pub provider: String,
    /// What it is, which decides what is known of its models.
    pub kind: ProviderKind,
    /// How it is spoken to.
    pub protocol: Protocol,
    /// The URL to which `/chat/completions` or `/messages` is appended; for Messages a `/v1` between them if it has none.
    pub base_url: String,
    /// The credential; local servers need none.
    pub api_key: Option<ApiKey>,
    /// How long the provider may be silent, before and between bytes. Comments count as a sign of life.
    pub idle_timeout: Duration,
    /// How long a connection may take.
    pub connect_timeout: Duration,
    /// What is said of models, by id.
    pub models: BTreeMap<String, ModelSettings>,
    /// How failed attempts are made again.
    pub retry: RetryPolicy,
    /// Where the pictures of a history are.
    pub attachments: Arc<dyn Attachments>,
    /// How many of them one request may have.
    pub picture_limits: PictureLimits,
}

impl ProviderConfig {
    /// A provider of this kind at this address: no key, 300 s of silence, 30 s to connect, no pictures at hand.
    #[must_use]
    pub fn new(
        kind: ProviderKind,
        provider: impl Into<String>,
        base_url: impl Into<String>,
    ) -> Self {
        Self {
            provider: provider.into(),
            kind,
            protocol: kind.protocol(),
            base_url: base_url.into(),
            api_key: None,
            idle_timeout: Duration::from_secs(300),
            connect_timeout: Duration::from_secs(30),
            models: BTreeMap::new(),
            retry: RetryPolicy::default(),
            attachments: Arc::new(NoAttachments),
            picture_limits: PictureLimits::default(),
        }
    }

    /// How requests to the model `model` look.
    #[must_use]
    pub fn route(&self, model: &str) -> Route<'_> {
        Route {
            kind: self.kind,
            protocol: self.protocol,
            settings: self.models.get(model),
        }
    }

    /// The exact bytes of the body of the call that `request` asks for. It may wait for a disk if there are pictures.
    ///
    /// # Errors
    /// Those of [`Protocol::encode`].
    pub fn encode(&self, request: &ModelRequest) -> Result<Vec<u8>, Failure> {
        let model = &request.config.model;
        let pictures = if self.route(model).info(model).images {
            Pictures::Shown {
                attachments: self.attachments.as_ref(),
                limits: self.picture_limits,
            }
        } else {
            Pictures::Named
        };
        self.protocol.encode(request, pictures)
    }

    pub(super) fn endpoint(&self) -> Result<Url, SetupError> {
        let invalid = || SetupError::InvalidBaseUrl {
            provider: self.provider.clone(),
        };
        let mut url = Url::parse(&self.base_url).map_err(|_| invalid())?;
        if !matches!(url.scheme(), "http" | "https") {
            return Err(invalid());
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err(SetupError::CredentialsInUrl {
                provider: self.provider.clone(),
            });
        }
        let is_versioned = url.path().trim_end_matches('/').ends_with("/v1");
        let path: &[&str] = match self.protocol {
            Protocol::ChatCompletions(_) => &["chat", "completions"],
            Protocol::Messages(_) if is_versioned => &["messages"],
            Protocol::Messages(_) => &["v1", "messages"],
        };
        url.path_segments_mut()
            .map_err(|()| invalid())?
            .pop_if_empty()
            .extend(path);
        Ok(url)
    }
}

/// Why a provider cannot be set up.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum SetupError {
    /// The base URL is not one.
    #[error("base URL of the provider `{provider}` is not a usable http or https URL")]
    InvalidBaseUrl {
        /// The provider.
        provider: String,
    },
    /// The base URL has a user name or a password in it, which would end up in error messages.
    #[error("base URL of the provider `{provider}` contains credentials; set an API key instead")]
    CredentialsInUrl {
        /// The provider.
        provider: String,
    },
    /// The key cannot be sent.
    #[error("API key contains characters that an HTTP header cannot carry")]
    InvalidApiKey,
    /// The HTTP client did not start, for example for want of TLS certificates.
    #[error("cannot set up the HTTP client")]
    Client {
        /// What the client says.
        #[source]
        source: reqwest::Error,
    },
}

impl SetupError {
    /// For a program.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Self::InvalidBaseUrl { .. } | Self::CredentialsInUrl { .. } => "INVALID_BASE_URL",
            Self::InvalidApiKey => codes::INVALID_CREDENTIAL,
            Self::Client { .. } => codes::TRANSPORT,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn endpoint(kind: ProviderKind, base: &str) -> Option<String> {
        let config = ProviderConfig::new(kind, "p", base);
        config.endpoint().map(String::from).ok()
    }

    #[test]
    fn the_endpoint_keeps_path_and_query_of_the_base_url() {
        let of = |base| endpoint(ProviderKind::Compatible, base);
        assert_eq!(
            of("https://a.test"),
            Some("https://a.test/chat/completions".into())
        );
        assert_eq!(
            of("https://a.test/v1/"),
            Some("https://a.test/v1/chat/completions".into())
        );
        assert_eq!(
            of("https://a.test/v1?api-version=2"),
            Some("https://a.test/v1/chat/completions?api-version=2".into())
        );
        assert_eq!(of("ftp://a.test"), None);
        assert_eq!(of("https://me:secret@a.test"), None);
    }

    #[test]
    fn the_endpoint_of_messages_has_its_version_once() {
        let of = |base| endpoint(ProviderKind::Anthropic, base);
        assert_eq!(
            of("https://a.test"),
            Some("https://a.test/v1/messages".into())
        );
        assert_eq!(
            of("https://a.test/anthropic/v1/"),
            Some("https://a.test/anthropic/v1/messages".into())
        );
    }
}
