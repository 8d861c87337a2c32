//! The messages of a conversation, read once.
//!
//! Every request has the whole history in it, and hardly ever is more than its end new. So a driver keeps what it has read
//! and shares it with its requests. What it keeps is only ever what it would read from the log again: it says how far it has
//! followed which log, and whatever does not go on from there is read from the start.

#[cfg(test)]
pub(crate) mod tests;

use std::sync::Arc;

use offshoot_model::{CallConfig, Message, ModelRequest, ToolSpec};
use offshoot_session::{Event, EventLog, Seq, SessionId};

use crate::error::RequestError;
use crate::events::StoredHeader;

/// How far a fold over the surface has followed a log.
#[derive(Debug, Default)]
pub(crate) struct Followed {
    /// How many nodes it has seen.
    nodes: usize,
    /// The generation of the surface that they were on.
    generation: u64,
    /// The last event of the log then. Logs share events only with the logs that they were cut from.
    last: Option<Arc<Event>>,
}

impl Followed {
    /// The place of the first node that is new to the fold. At 0 the fold begins anew: earlier nodes have changed since, or it
    /// is another log.
    pub(crate) fn place(&self, log: &EventLog) -> usize {
        let goes_on = |last: &Arc<Event>| {
            log.get(last.seq())
                .is_some_and(|event| Arc::ptr_eq(event, last))
        };
        let is_unchanged = log.surface().content_generation() == self.generation;
        if is_unchanged && self.last.as_ref().is_some_and(goes_on) {
            self.nodes
        } else {
            0
        }
    }

    /// The fold has seen all nodes.
    pub(crate) fn reached_end(&mut self, log: &EventLog) {
        *self = Self {
            nodes: log.surface().len(),
            generation: log.surface().content_generation(),
            last: log.last().cloned(),
        };
    }
}

/// What requests are made of, as far as it was read.
#[derive(Debug, Default)]
pub(crate) struct History {
    followed: Followed,
    messages: Vec<Arc<Message>>,
    header: Option<Declared>,
}

/// A header that was read.
#[derive(Debug)]
struct Declared {
    event: Arc<Event>,
    config: CallConfig,
    tools: Vec<ToolSpec>,
}

impl History {
    /// The request that would be made at the end of this log: whichever log it is, and whatever was read before.
    ///
    /// # Errors
    /// No `request/header` yet, or a message that cannot be sent.
    pub(crate) fn request(
        &mut self,
        log: &EventLog,
        session: &SessionId,
    ) -> Result<ModelRequest, RequestError> {
        self.read_header(log)?;
        self.read_messages(log)?;
        let Declared { config, tools, .. } = self
            .header
            .as_ref()
            .expect("BUG: the header was read just now");
        Ok(ModelRequest {
            config: config.clone(),
            messages: self.messages.clone(),
            tools: tools.clone(),
            session_id: Some(session.as_str().to_owned()),
        })
    }

    fn read_header(&mut self, log: &EventLog) -> Result<(), RequestError> {
        let event = log
            .request_header()
            .ok_or(RequestError::NoHeader(log.end().seq()))?;
        let is_read = |known: &Declared| Arc::ptr_eq(&known.event, event);
        if self.header.as_ref().is_some_and(is_read) {
            return Ok(());
        }
        let StoredHeader { header } = event
            .parse()
            .map_err(|error| unsendable(event.seq(), &error))?;
        self.header = Some(Declared {
            event: Arc::clone(event),
            config: header.config,
            tools: header.tools,
        });
        Ok(())
    }

    fn read_messages(&mut self, log: &EventLog) -> Result<(), RequestError> {
        let place = self.followed.place(log);
        if place == 0 {
            self.messages.clear();
        }
        // Nothing was followed if this fails half-way.
        self.followed = Followed::default();
        for message in log.messages_from(place) {
            let read = Message::from_stored(&message.text);
            let read = read.map_err(|error| unsendable(message.seq, &error))?;
            self.messages.push(Arc::new(read));
        }
        self.followed.reached_end(log);
        Ok(())
    }
}

fn unsendable(seq: Seq, error: &impl ToString) -> RequestError {
    let reason = error.to_string();
    RequestError::Message { seq, reason }
}
