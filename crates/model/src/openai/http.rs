//! One call over HTTP. `reference/agent.md` §2.5 and §2.8.
//!
//! Everything that can go wrong after the model was set up ends up as the finish of the stream, with the provider's
//! request id when it gave one. The API key appears in the request and nowhere else: not in debug output, and not in a
//! message of a provider that repeats it.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::stream::{self, BoxStream, Stream, StreamExt as _};
use reqwest::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderValue};
use reqwest::{Client, Response, Url, redirect};
use thiserror::Error;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::decode::{DONE, Decoder};
use super::encode::{Dialect, encode_request};
use super::failure;
use super::headers::{EVENT_STREAM, foreign_content_type, request_id, retry_after_ms};
use crate::client::Model;
use crate::codes;
use crate::message::{CallConfig, ModelRequest};
use crate::prepared::PreparedCall;
use crate::sse::{SseFrame, SseSplitter};
use crate::stream::{Chunk, Failure, FinishReason};

const USER_AGENT: &str = concat!("offshoot/", env!("CARGO_PKG_VERSION"));
/// An error answer is read up to here, in bytes.
const MAX_ERROR_BODY: usize = 64 << 10;

/// A credential. Debug output does not show it.
#[derive(Clone, PartialEq, Eq)]
pub struct ApiKey(String);

impl ApiKey {
    /// Takes the key; white space around it, as from a file, is removed.
    #[must_use]
    pub fn new(key: impl AsRef<str>) -> Self {
        Self(key.as_ref().trim().to_owned())
    }

    fn header(&self) -> Result<HeaderValue, OpenAiError> {
        let mut value = HeaderValue::try_from(format!("Bearer {}", self.0))
            .map_err(|_| OpenAiError::InvalidApiKey)?;
        value.set_sensitive(true);
        Ok(value)
    }

    fn redact(&self, text: &mut String) {
        if !self.0.is_empty() && text.contains(&self.0) {
            *text = text.replace(&self.0, "[API key]");
        }
    }
}

impl fmt::Debug for ApiKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ApiKey(..)")
    }
}

/// Where an OpenAI-compatible provider is and how to talk to it.
#[derive(Clone, Debug)]
pub struct OpenAiConfig {
    /// The provider name under which the rest of the program knows it.
    pub provider: String,
    /// The URL to which `/chat/completions` is appended.
    pub base_url: String,
    /// The credential; local servers need none.
    pub api_key: Option<ApiKey>,
    /// How the provider's requests look.
    pub dialect: Dialect,
    /// How long the provider may be silent, before and between bytes. Comments count as a sign of life.
    pub idle_timeout: Duration,
    /// How long a connection may take.
    pub connect_timeout: Duration,
    /// Context windows by model id, in tokens.
    pub context_windows: BTreeMap<String, u64>,
}

impl OpenAiConfig {
    /// No key, the common dialect, 300 s of silence, 30 s to connect.
    #[must_use]
    pub fn new(provider: impl Into<String>, base_url: impl Into<String>) -> Self {
        Self {
            provider: provider.into(),
            base_url: base_url.into(),
            api_key: None,
            dialect: Dialect::compatible(),
            idle_timeout: Duration::from_secs(300),
            connect_timeout: Duration::from_secs(30),
            context_windows: BTreeMap::new(),
        }
    }
}

/// Why a provider cannot be set up.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum OpenAiError {
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

/// A provider that speaks OpenAI's chat completions. Cheap to clone; clones share their connections.
#[derive(Clone, Debug)]
pub struct OpenAiModel {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    config: OpenAiConfig,
    client: Client,
    url: Url,
    headers: HeaderMap,
}

impl OpenAiModel {
    /// Sets up the client; connects to nothing.
    ///
    /// # Errors
    /// When the URL or the key cannot be used, or the HTTP client cannot start.
    pub fn new(config: OpenAiConfig) -> Result<Self, OpenAiError> {
        let url = endpoint(&config)?;
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        headers.insert(ACCEPT, HeaderValue::from_static(EVENT_STREAM));
        if let Some(key) = &config.api_key {
            headers.insert(AUTHORIZATION, key.header()?);
        }
        let mut builder = Client::builder()
            .user_agent(USER_AGENT)
            .connect_timeout(config.connect_timeout)
            // A redirect would send the history, and on some paths the key, somewhere nobody configured.
            .redirect(redirect::Policy::none());
        if is_loopback(&url) {
            builder = builder.no_proxy();
        }
        let client = builder
            .build()
            .map_err(|source| OpenAiError::Client { source })?;
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

impl Model for OpenAiModel {
    fn provider(&self) -> &str {
        &self.shared.config.provider
    }

    fn prepare(&self, config: &CallConfig) -> Result<PreparedCall, Failure> {
        let mut prepared = PreparedCall::plain(config.clone());
        let windows = &self.shared.config.context_windows;
        prepared.info.context_window = windows.get(&config.model).copied();
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
            let opened = cancel.run_until_cancelled(shared.open(&request)).await;
            match opened {
                Some(Ok(response)) => {
                    let facts = Facts {
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
    async fn open(&self, request: &ModelRequest) -> Result<Response, Failure> {
        let idle = self.config.idle_timeout;
        let body = encode_request(request, &self.config.dialect);
        let sending = self
            .client
            .post(self.url.clone())
            .headers(self.headers.clone())
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
            failure.request_id = request_id;
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

fn only(chunk: Chunk) -> BoxStream<'static, Chunk> {
    stream::once(std::future::ready(chunk)).boxed()
}

/// What the reading of an answer needs to know about its call.
struct Facts {
    request_id: Option<String>,
    key: Option<ApiKey>,
    idle_timeout: Duration,
}

/// The chunks of an answer whose body is `body`.
fn answer<S, E>(body: S, facts: Facts, cancel: CancellationToken) -> impl Stream<Item = Chunk>
where
    S: Stream<Item = Result<Bytes, E>> + Unpin,
    E: std::error::Error,
{
    let answer = Answer {
        body,
        facts,
        cancel,
        splitter: SseSplitter::default(),
        decoder: Decoder::new(),
        ready: VecDeque::new(),
    };
    stream::unfold(answer, |mut answer| async move {
        let chunk = answer.next().await?;
        Some((chunk, answer))
    })
}

struct Answer<S> {
    body: S,
    facts: Facts,
    cancel: CancellationToken,
    splitter: SseSplitter,
    decoder: Decoder,
    ready: VecDeque<Chunk>,
}

impl<S, E> Answer<S>
where
    S: Stream<Item = Result<Bytes, E>> + Unpin,
    E: std::error::Error,
{
    async fn next(&mut self) -> Option<Chunk> {
        loop {
            if self.cancel.is_cancelled() && !self.decoder.is_finished() {
                self.ready.clear();
                self.fail(codes::ABORTED, "the model call was cancelled");
            }
            if let Some(chunk) = self.ready.pop_front() {
                return Some(self.stamped(chunk));
            }
            if self.decoder.is_finished() {
                return None;
            }
            self.read().await;
        }
    }

    async fn read(&mut self) {
        let idle = self.facts.idle_timeout;
        let next = self
            .cancel
            .run_until_cancelled(timeout(idle, self.body.next()))
            .await;
        match next {
            // The loop above sees the cancellation.
            None => {}
            Some(Ok(Some(Ok(bytes)))) => self.take(&bytes),
            Some(Ok(Some(Err(error)))) => {
                let message = format!("the connection to the provider broke: {}", chain(&error));
                self.fail(codes::TRANSPORT, message);
            }
            Some(Ok(None)) => self.end(),
            Some(Err(_elapsed)) => {
                let mut chunks = Vec::new();
                self.decoder.fail(silence(idle), &mut chunks);
                self.ready.extend(chunks);
            }
        }
    }

    fn take(&mut self, bytes: &[u8]) {
        let mut frames = Vec::new();
        let split = self.splitter.push(bytes, &mut frames);
        for frame in &frames {
            self.decode(frame);
        }
        if let Err(error) = split {
            self.fail(codes::MALFORMED_RESPONSE, error.to_string());
        }
    }

    fn decode(&mut self, frame: &SseFrame) {
        let mut chunks = Vec::new();
        if frame.event.as_deref() == Some("error") {
            let error = serde_json::from_str(&frame.data)
                .unwrap_or_else(|_| serde_json::Value::String(frame.data.clone()));
            self.decoder
                .fail(failure::from_error_object(&error), &mut chunks);
        } else {
            self.decoder.push(&frame.data, &mut chunks);
        }
        self.ready.extend(chunks);
    }

    /// A frame without its blank line may be cut, but the end marker cannot be mistaken.
    fn end(&mut self) {
        let end = std::mem::take(&mut self.splitter).finish();
        let mut chunks = Vec::new();
        if end.pending.is_some_and(|frame| frame.data.trim() == DONE) {
            self.decoder.push(DONE, &mut chunks);
        } else {
            self.decoder.close(&mut chunks);
        }
        self.ready.extend(chunks);
    }

    fn fail(&mut self, code: &str, message: impl Into<String>) {
        let mut chunks = Vec::new();
        self.decoder.fail(Failure::new(code, message), &mut chunks);
        self.ready.extend(chunks);
    }

    fn stamped(&self, mut chunk: Chunk) -> Chunk {
        if let Chunk::Finish {
            reason: FinishReason::Error { failure } | FinishReason::Aborted { failure },
            ..
        } = &mut chunk
        {
            failure.request_id.clone_from(&self.facts.request_id);
            if let Some(key) = &self.facts.key {
                key.redact(&mut failure.message);
            }
        }
        chunk
    }
}

fn endpoint(config: &OpenAiConfig) -> Result<Url, OpenAiError> {
    let invalid = || OpenAiError::InvalidBaseUrl {
        provider: config.provider.clone(),
    };
    let mut url = Url::parse(&config.base_url).map_err(|_| invalid())?;
    if !matches!(url.scheme(), "http" | "https") {
        return Err(invalid());
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err(OpenAiError::CredentialsInUrl {
            provider: config.provider.clone(),
        });
    }
    url.path_segments_mut()
        .map_err(|()| invalid())?
        .pop_if_empty()
        .extend(["chat", "completions"]);
    Ok(url)
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

#[cfg(test)]
mod tests {
    use super::*;

    fn facts() -> Facts {
        Facts {
            request_id: None,
            key: None,
            idle_timeout: Duration::from_secs(300),
        }
    }

    /// Pieces that arrive after a wait each, on the test's virtual clock.
    fn paced(
        pieces: &'static [(u64, &'static str)],
    ) -> impl Stream<Item = Result<Bytes, fmt::Error>> {
        stream::iter(pieces).then(|(seconds, text)| async move {
            tokio::time::sleep(Duration::from_secs(*seconds)).await;
            Ok(Bytes::from_static(text.as_bytes()))
        })
    }

    #[tokio::test(start_paused = true)]
    async fn comments_keep_a_slow_answer_alive() {
        let body = paced(&[
            (200, ": still here\n\n"),
            (200, ": still here\n\n"),
            (
                200,
                "data: {\"choices\":[{\"delta\":{\"content\":\"hi\"},\"finish_reason\":\"stop\"}]}\n\n",
            ),
            (200, "data: [DONE]\n\n"),
        ]);
        let chunks: Vec<_> = answer(Box::pin(body), facts(), CancellationToken::new())
            .collect()
            .await;
        assert_eq!(chunks.last(), Some(&Chunk::finish(FinishReason::Stop)));
    }

    #[tokio::test(start_paused = true)]
    async fn silence_within_an_answer_is_a_timeout() {
        let body = paced(&[
            (
                10,
                "data: {\"choices\":[{\"delta\":{\"content\":\"hi\"}}]}\n\n",
            ),
            (301, "data: [DONE]\n\n"),
        ]);
        let chunks: Vec<_> = answer(Box::pin(body), facts(), CancellationToken::new())
            .collect()
            .await;
        assert_eq!(
            chunks,
            [
                Chunk::BlockStart {
                    index: 0,
                    block_type: "text".into()
                },
                Chunk::TextDelta {
                    index: 0,
                    text: "hi".into()
                },
                Chunk::failed(Failure::new("TIMEOUT", "the provider was silent for 300 s")),
            ]
        );
    }

    #[test]
    fn the_endpoint_keeps_path_and_query_of_the_base_url() {
        let of = |base: &str| {
            endpoint(&OpenAiConfig::new("p", base))
                .map(String::from)
                .ok()
        };
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
}
