//! Pictures that leave the context when a request would have too many of them (`reference/agent.md` §2.4, V4).
//!
//! The provider's limits are its adapter's business: it says how many have to go. Which ones is a fact of the log
//! (`image/offload`): the oldest. They stay in the history, and a line stands for each in every later request.

use offshoot_model::{ContentBlock, Message};
use offshoot_session::{EventKind, EventLog, Seq};
use serde::Serialize;

use crate::AgentError;
use crate::driver::Driver;
use crate::events::logged;

#[derive(Serialize)]
struct ImageOffload {
    targets: Vec<Target>,
}

/// Pictures of one message.
#[derive(Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
struct Target {
    seq: Seq,
    /// Counted from 0 among the message's pictures.
    image_indexes: Vec<u64>,
}

impl Driver {
    /// Takes so many of the oldest pictures out of the context. Whether there were any: then the next request has fewer.
    pub(crate) fn offload_images(&self, count: u64) -> Result<bool, AgentError> {
        let targets = oldest(&self.session.log(), count);
        if targets.is_empty() {
            return Ok(false);
        }
        self.append(logged(EventKind::ImageOffload, &ImageOffload { targets }))?;
        Ok(true)
    }
}

fn oldest(log: &EventLog, count: u64) -> Vec<Target> {
    let mut left = usize::try_from(count).unwrap_or(usize::MAX);
    let mut targets = Vec::new();
    for message in log.messages() {
        if left == 0 {
            break;
        }
        // What cannot be read fails its request, and says so there.
        let Ok(Message { content, .. }) = Message::from_stored(&message.text) else {
            continue;
        };
        let images = content.iter().filter_map(|block| match block {
            ContentBlock::Image { offloaded, .. } => Some(*offloaded),
            _ => None,
        });
        let shown = (0..).zip(images).filter(|(_, offloaded)| !offloaded);
        let image_indexes: Vec<u64> = shown.map(|(index, _)| index).take(left).collect();
        left -= image_indexes.len();
        if !image_indexes.is_empty() {
            targets.push(Target {
                seq: message.seq,
                image_indexes,
            });
        }
    }
    targets
}
