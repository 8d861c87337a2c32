//! Requests rebuilt from the text of a log alone, by another path than the one they were built on.
//!
//! [`build_request`](crate::build_request) reads a request off the folds that the log keeps. Here the rows are replayed from
//! their JSON text: what joins the surface, what takes the place of what, which images are taken out, and which header was
//! last. Both must come to the same bytes before a request is sent (`reference/agent.md` §1.15). Whoever has the file and
//! not this process rebuilds requests the same way.

#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use offshoot_model::{CallConfig, ContentBlock, Message, ModelRequest, ToolSpec};
use offshoot_session::{Seq, SessionId};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::error::RequestError;

/// What a log says so far of the next request.
#[derive(Clone, Debug, Default)]
pub struct Reconstruction {
    /// How many rows there were.
    rows: u64,
    /// The events on the surface, in its order.
    nodes: Vec<u64>,
    /// The messages of the surface, by their events.
    messages: BTreeMap<u64, Logged>,
    /// Images that are not sent, by event and number within its message.
    offloaded: BTreeSet<(u64, u64)>,
    /// The last header.
    header: Option<Box<RawValue>>,
}

/// A message as its row has it.
#[derive(Clone, Debug)]
struct Logged {
    kind: String,
    message: Box<RawValue>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Row<'a> {
    #[serde(rename = "type", borrow)]
    kind: Cow<'a, str>,
    seq: u64,
    #[serde(borrow)]
    data: &'a RawValue,
    #[serde(borrow)]
    surface_op: Option<&'a RawValue>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Replace {
    start_seq: u64,
    end_seq: u64,
}

impl Reconstruction {
    /// A log without rows.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// How many rows there were.
    #[must_use]
    pub const fn rows(&self) -> u64 {
        self.rows
    }

    /// Reads the next row: one event as its file has it, without the line feed.
    ///
    /// # Errors
    /// A row that is none, or that takes the place of something that is not there.
    pub fn push(&mut self, row: &str) -> Result<(), RequestError> {
        let seq = Seq::new(self.rows);
        let wrong = |reason: String| RequestError::Message { seq, reason };
        let unreadable = |error: serde_json::Error| wrong(error.to_string());
        let read: Row<'_> = serde_json::from_str(row).map_err(unreadable)?;
        if read.seq != self.rows {
            return Err(wrong(format!("it has the seq {}", read.seq)));
        }
        self.rows += 1;
        match &*read.kind {
            "request/header" => {
                #[derive(Deserialize)]
                struct Data {
                    header: Box<RawValue>,
                }
                let Data { header } = serde_json::from_str(read.data.get()).map_err(unreadable)?;
                self.header = Some(header);
            }
            "image/offload" => {
                #[derive(Deserialize)]
                struct Data {
                    targets: Vec<Target>,
                }
                #[derive(Deserialize)]
                #[serde(rename_all = "camelCase")]
                struct Target {
                    seq: u64,
                    image_indexes: Vec<u64>,
                }
                let Data { targets } = serde_json::from_str(read.data.get()).map_err(unreadable)?;
                for target in targets {
                    let images = target.image_indexes.into_iter();
                    self.offloaded
                        .extend(images.map(|image| (target.seq, image)));
                }
            }
            "user/message" | "system/message" | "developer/message" | "assistant/message"
            | "tool/result" => {
                let op = read
                    .surface_op
                    .ok_or_else(|| wrong("it says nothing of the surface".into()))?;
                self.place(read.seq, op).map_err(wrong)?;
                let message = message(&read.kind, read.data).map_err(unreadable)?;
                let kind = read.kind.into_owned();
                self.messages.insert(read.seq, Logged { kind, message });
            }
            _ => {}
        }
        Ok(())
    }

    /// Puts an event where it wants to be.
    fn place(&mut self, seq: u64, op: &RawValue) -> Result<(), String> {
        if serde_json::from_str::<String>(op.get()).is_ok_and(|op| op == "append") {
            self.nodes.push(seq);
            return Ok(());
        }
        let Replace { start_seq, end_seq } =
            serde_json::from_str(op.get()).map_err(|error| error.to_string())?;
        let at = |seq: u64| {
            let found = self.nodes.iter().position(|node| *node == seq);
            found.ok_or_else(|| format!("it replaces event {seq}, which is not on the surface"))
        };
        let (first, last) = (at(start_seq)?, at(end_seq)?);
        if first > last {
            return Err("what it replaces ends before it begins".into());
        }
        for gone in self.nodes.splice(first..=last, [seq]) {
            self.messages.remove(&gone);
        }
        Ok(())
    }

    /// The request that these rows amount to.
    ///
    /// # Errors
    /// No header yet, or a message that cannot be sent.
    pub fn request(&self, session: &SessionId) -> Result<ModelRequest, RequestError> {
        #[derive(Deserialize)]
        struct Header {
            config: CallConfig,
            #[serde(default)]
            tools: Vec<ToolSpec>,
        }
        let end = Seq::new(self.rows);
        let header = self.header.as_ref().ok_or(RequestError::NoHeader(end))?;
        let Header { config, tools } =
            serde_json::from_str(header.get()).map_err(|error| RequestError::Message {
                seq: end,
                reason: format!("its header cannot be read: {error}"),
            })?;
        let mut messages = Vec::with_capacity(self.nodes.len());
        for seq in &self.nodes {
            let Some(logged) = self.messages.get(seq) else {
                continue;
            };
            let message = self
                .message(*seq, logged)
                .map_err(|error| RequestError::Message {
                    seq: Seq::new(*seq),
                    reason: error.to_string(),
                })?;
            messages.extend(message.map(Arc::new));
        }
        Ok(ModelRequest {
            config,
            messages,
            tools,
            session_id: Some(session.as_str().to_owned()),
        })
    }

    /// A message as the model sees it; `None` if it says nothing and nobody waits for it.
    fn message(&self, seq: u64, logged: &Logged) -> Result<Option<Message>, serde_json::Error> {
        let mut message = Message::from_stored(logged.message.get())?;
        let images = message.content.iter_mut().filter_map(|block| match block {
            ContentBlock::Image { offloaded, .. } => Some(offloaded),
            _ => None,
        });
        for (offloaded, number) in images.zip(0..) {
            *offloaded |= self.offloaded.contains(&(seq, number));
        }
        let may_be_silent = !matches!(&*logged.kind, "user/message" | "tool/result");
        Ok((!(may_be_silent && message.content.is_empty())).then_some(message))
    }
}

fn message(kind: &str, data: &RawValue) -> Result<Box<RawValue>, serde_json::Error> {
    #[derive(Deserialize)]
    struct Carrier {
        message: Box<RawValue>,
    }
    if kind == "user/message" {
        return Ok(data.to_owned());
    }
    serde_json::from_str::<Carrier>(data.get()).map(|carrier| carrier.message)
}

/// The request that the rows of a log amount to.
///
/// # Errors
/// As [`Reconstruction::push`] and [`Reconstruction::request`].
pub fn reconstruct<'a>(
    rows: impl IntoIterator<Item = &'a str>,
    session: &SessionId,
) -> Result<ModelRequest, RequestError> {
    let mut log = Reconstruction::new();
    for row in rows {
        log.push(row)?;
    }
    log.request(session)
}

/// Compares a request with the one that the log amounts to, byte for byte as JSON.
///
/// # Errors
/// `REQUEST_MISMATCH`: they differ. Or none can be rebuilt.
pub fn verify_request(
    request: &ModelRequest,
    log: &Reconstruction,
    session: &SessionId,
) -> Result<(), RequestError> {
    let (built, rebuilt) = (bytes(request), bytes(&log.request(session)?));
    if built == rebuilt {
        return Ok(());
    }
    let same = built
        .iter()
        .zip(&rebuilt)
        .take_while(|(a, b)| a == b)
        .count();
    Err(RequestError::Mismatch {
        seq: Seq::new(log.rows()),
        byte: same,
    })
}

/// A request as JSON, of which every part of it is a part.
fn bytes(request: &ModelRequest) -> Vec<u8> {
    #[derive(Serialize)]
    struct Whole<'a> {
        config: &'a CallConfig,
        tools: &'a [ToolSpec],
        session: Option<&'a str>,
        messages: Vec<&'a Message>,
    }
    let ModelRequest {
        config,
        messages,
        tools,
        session_id,
    } = request;
    serde_json::to_vec(&Whole {
        config,
        tools,
        session: session_id.as_deref(),
        messages: messages.iter().map(Arc::as_ref).collect(),
    })
    .expect("BUG: requests are made of strings, finite numbers and JSON")
}
