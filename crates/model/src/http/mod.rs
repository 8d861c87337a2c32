//! Calls over HTTP. `reference/agent.md` §2.5 and §2.8.
//!
//! Everything that can go wrong after the model was set up ends up as the finish of the stream, with the provider's
//! request id when it gave one. The API key appears in the request and nowhere else: not in debug output, and not in a
//! message of a provider that repeats it.

mod answer;
mod config;
mod decode;
mod headers;
mod key;

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use futures_util::stream::{self, BoxStream, StreamExt as _};
use reqwest::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderValue};
use reqwest::{Client, Response, Url, redirect};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use self::answer::{Facts, answer};
pub use self::config::{ProviderConfig, SetupError};
use self::headers::{EVENT_STREAM, foreign_content_type, request_id, retry_after_ms};
pub use self::key::ApiKey;
use crate::anthropic::thinking::betas;
use crate::client::Model;
use crate::codes;
use crate::failure;
use crate::message::{CallConfig, ModelRequest};
use crate::prepared::PreparedCall;
use crate::protocol::{Protocol, has_pictures};
use crate::stream::{Chunk, Failure};

const USER_AGENT: &str = concat!("offshoot/", env!("CARGO_PKG_VERSION"));
/// An error answer is read up to here, in bytes.
const MAX_ERROR_BODY: usize = 64 << 10;
/// The version of Messages that is spoken.
const ANTHROPIC_VERSION: HeaderValue = HeaderValue::from_static("2023-06-01");

/// A provider that is called over HTTP. Cheap to clone; clones share their connections.
#[derive(Clone, Debug)]
pub struct ProviderModel {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    config: ProviderConfig,
    client: Client,
    url: Url,
    headers: HeaderMap,
}

impl ProviderModel {
    /// Sets up the client; connects to nothing.
    ///
    /// # Errors
    /// When the URL or the key cannot be used, or the HTTP client cannot start.
    pub fn new(config: impl Into<ProviderConfig>) -> Result<Self, SetupError> {
        let config = config.into();
        let url = config.endpoint()?;
        let mut builder = Client::builder()
            .user_agent(USER_AGENT)
            .connect_timeout(config.connect_timeout)
            // A redirect would send the history, and on some paths the key, somewhere nobody configured.
            .redirect(redirect::Policy::none());
        if is_loopback(&url) {
            builder = builder.no_proxy();
        }
        let headers = fixed_headers(&config)?;
        let client = builder
            .build()
            .map_err(|source| SetupError::Client { source })?;
        Ok(Self {
            shared: Arc::new(Shared {
                config,
                client,
                url,
                headers,
            }),
        })
    }
}

fn fixed_headers(config: &ProviderConfig) -> Result<HeaderMap, SetupError> {
    let mut headers = HeaderMap::new();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(ACCEPT, HeaderValue::from_static(EVENT_STREAM));
    let (name, scheme) = match config.protocol {
        Protocol::ChatCompletions(_) => (AUTHORIZATION.as_str(), "Bearer "),
        Protocol::Messages(_) => {
            headers.insert("anthropic-version", ANTHROPIC_VERSION);
            ("x-api-key", "")
        }
    };
    if let Some(key) = &config.api_key {
        headers.insert(name, key.header(scheme)?);
    }
    Ok(headers)
}

impl Model for ProviderModel {
    fn provider(&self) -> &str {
        &self.shared.config.provider
    }

    fn prepare(&self, config: &CallConfig) -> Result<PreparedCall, Failure> {
        let mut prepared = self.shared.config.route(&config.model).prepare(config)?;
        prepared.retry = self.shared.config.retry.clone();
        Ok(prepared)
    }

    fn stream(
        &self,
        request: Arc<ModelRequest>,
        cancel: CancellationToken,
    ) -> BoxStream<'static, Chunk> {
        let shared = Arc::clone(&self.shared);
        stream::once(async move {
            let key = shared.config.api_key.clone();
            let opened = cancel
                .run_until_cancelled(Arc::clone(&shared).open(request))
                .await;
            match opened {
                Some(Ok(response)) => {
                    let facts = Facts {
                        protocol: shared.config.protocol,
                        request_id: request_id(response.headers()),
                        key,
                        idle_timeout: shared.config.idle_timeout,
                    };
                    answer(response.bytes_stream().boxed(), facts, cancel).boxed()
                }
                Some(Err(mut failure)) => {
                    if let Some(key) = key {
                        key.redact(&mut failure.message);
                    }
                    only(Chunk::failed(failure))
                }
                None => only(Chunk::aborted()),
            }
        })
        .flatten()
        .boxed()
    }
}

impl Shared {
    /// Sends the request; gives the response when it is the beginning of an event stream.
    async fn open(self: Arc<Self>, request: Arc<ModelRequest>) -> Result<Response, Failure> {
        let idle = self.config.idle_timeout;
        let mut headers = self.headers.clone();
        if let Protocol::Messages(dialect) = self.config.protocol {
            for beta in betas(dialect, &request.config) {
                headers.append("anthropic-beta", HeaderValue::from_static(beta));
            }
        }
        let body = body(Arc::clone(&self), request).await?;
        let sending = self
            .client
            .post(self.url.clone())
            .headers(headers)
            .body(body)
            .send();
        let response = match timeout(idle, sending).await {
            Ok(Ok(response)) => response,
            Ok(Err(error)) => return Err(transport_failure(error)),
            Err(_elapsed) => return Err(silence(idle)),
        };
        let headers = response.headers();
        let request_id = request_id(headers);
        let status = response.status();
        if !status.is_success() {
            let retry_after = retry_after_ms(headers);
            let body = timeout(idle, error_body(response))
                .await
                .unwrap_or_default();
            let mut failure = failure::from_status(status.as_u16(), &body);
            failure.provider_retry_after_ms = retry_after;
            failure.request_id = request_id.or(failure.request_id);
            return Err(failure);
        }
        let Some(content_type) = foreign_content_type(headers) else {
            return Ok(response);
        };
        let body = timeout(idle, error_body(response))
            .await
            .unwrap_or_default();
        let message = format!(
            "the provider answered with the content type `{content_type}` instead of an event stream: {}",
            body.trim()
        );
        let mut failure = Failure::new(codes::MALFORMED_RESPONSE, failure::bounded(message));
        failure.status = Some(status.as_u16());
        failure.request_id = request_id;
        Err(failure)
    }
}

/// The bytes of the request. Pictures are fetched where waiting for a disk holds nobody up.
async fn body(shared: Arc<Shared>, request: Arc<ModelRequest>) -> Result<Vec<u8>, Failure> {
    if !has_pictures(&request) {
        return shared.config.encode(&request);
    }
    let written = tokio::task::spawn_blocking(move || shared.config.encode(&request));
    written.await.unwrap_or_else(|error| {
        let message = format!("the request could not be written: {error}");
        Err(Failure::new(codes::UNKNOWN, message))
    })
}

fn only(chunk: Chunk) -> BoxStream<'static, Chunk> {
    stream::once(std::future::ready(chunk)).boxed()
}

fn is_loopback(url: &Url) -> bool {
    let host = url.host_str().unwrap_or_default();
    let address = host
        .trim_start_matches('[')
        .trim_end_matches(']')
        .parse::<IpAddr>();
    host == "localhost" || address.is_ok_and(|address| address.is_loopback())
}

fn silence(idle: Duration) -> Failure {
    let message = format!("the provider was silent for {} s", idle.as_secs_f64());
    Failure::new(codes::TIMEOUT, message)
}

fn transport_failure(error: reqwest::Error) -> Failure {
    let code = if error.is_timeout() {
        codes::TIMEOUT
    } else {
        codes::TRANSPORT
    };
    let message = format!("cannot reach the provider: {}", chain(&error.without_url()));
    Failure::new(code, message)
}

fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(error) = source {
        text.push_str(": ");
        text.push_str(&error.to_string());
        source = error.source();
    }
    text
}

/// The beginning of an error answer. A body that breaks off still says something.
async fn error_body(mut response: Response) -> String {
    let mut body = Vec::new();
    while let Ok(Some(bytes)) = response.chunk().await {
        let room = MAX_ERROR_BODY - body.len();
        body.extend_from_slice(&bytes[..bytes.len().min(room)]);
        if body.len() == MAX_ERROR_BODY {
            break;
        }
    }
    String::from_utf8_lossy(&body).into_owned()
}
