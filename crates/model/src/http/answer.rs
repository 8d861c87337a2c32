//! The answer to one call, as it comes in. `reference/agent.md` §2.8.

use std::collections::VecDeque;
use std::time::Duration;

use bytes::Bytes;
use futures_util::stream::{self, Stream, StreamExt as _};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::chain;
use super::decode::AnswerDecoder;
use super::key::ApiKey;
use super::silence;
use crate::codes;
use crate::grammar::StreamGrammar;
use crate::protocol::Protocol;
use crate::sse::SseSplitter;
use crate::stream::{Chunk, Failure, FinishReason};

/// What the reading of an answer needs to know about its call.
pub(super) struct Facts {
    pub(super) protocol: Protocol,
    pub(super) request_id: Option<String>,
    pub(super) key: Option<ApiKey>,
    pub(super) idle_timeout: Duration,
}

/// The chunks of an answer whose body is `body`.
pub(super) fn answer<S, E>(
    body: S,
    facts: Facts,
    cancel: CancellationToken,
) -> impl Stream<Item = Chunk>
where
    S: Stream<Item = Result<Bytes, E>> + Unpin,
    E: std::error::Error,
{
    let answer = Answer {
        decoder: AnswerDecoder::new(facts.protocol),
        body,
        facts,
        cancel,
        splitter: SseSplitter::default(),
        grammar: StreamGrammar::new(),
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
    grammar: StreamGrammar,
    decoder: AnswerDecoder,
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
                debug_assert_eq!(self.grammar.check(&chunk), Ok(()), "an adapter's own fault");
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
        let mut chunks = Vec::new();
        for frame in &frames {
            self.decoder.frame(frame, &mut chunks);
        }
        self.ready.extend(chunks);
        if let Err(error) = split {
            self.fail(codes::MALFORMED_RESPONSE, error.to_string());
        }
    }

    fn end(&mut self) {
        let end = std::mem::take(&mut self.splitter).finish();
        let mut chunks = Vec::new();
        self.decoder.close(end.pending.as_ref(), &mut chunks);
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
            let known = failure.request_id.take();
            failure.request_id = self.facts.request_id.clone().or(known);
            if let Some(key) = &self.facts.key {
                key.redact(&mut failure.message);
            }
        }
        chunk
    }
}

#[cfg(test)]
mod tests {
    use std::fmt;

    use super::*;
    use crate::openai::dialect::Dialect;

    fn facts() -> Facts {
        Facts {
            protocol: Protocol::ChatCompletions(Dialect::compatible()),
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
}
