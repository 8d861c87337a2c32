//! Messages derived from the surface, with the projections that later events lay over them.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::body::Body;
use crate::{Event, EventKind, EventLog, Seq};

/// A message as the model sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DerivedMessage<'a> {
    /// The event it comes from.
    pub seq: Seq,
    /// The type of that event.
    pub kind: &'a EventKind,
    /// The message's JSON text: exactly as logged, unless an `image/offload` changed it.
    pub text: Cow<'a, str>,
}

pub(crate) fn messages(
    log: &EventLog,
    from: usize,
) -> impl Iterator<Item = DerivedMessage<'_>> + '_ {
    let offloaded = offloaded_images(log);
    log.surface().nodes_from(from).filter_map(move |seq| {
        let event = log
            .get(seq)
            .expect("BUG: a node of the surface is an event of its log");
        let text = event.message()?;
        let hides_empty = matches!(
            event.kind(),
            EventKind::SystemMessage | EventKind::DeveloperMessage | EventKind::AssistantMessage
        );
        if hides_empty && event.body().message()?.is_empty {
            return None;
        }
        let text = match offloaded.get(&seq) {
            Some(indexes) => Cow::Owned(mark_offloaded(text, indexes)),
            None => Cow::Borrowed(text),
        };
        Some(DerivedMessage {
            seq,
            kind: event.kind(),
            text,
        })
    })
}

fn offloaded_images(log: &EventLog) -> BTreeMap<Seq, BTreeSet<u64>> {
    let mut images: BTreeMap<Seq, BTreeSet<u64>> = BTreeMap::new();
    let offloads = log.folds().offloads.iter().filter_map(|seq| log.get(*seq));
    for event in offloads {
        if let Body::ImageOffload(targets) = Event::body(event) {
            for target in targets {
                images
                    .entry(target.seq)
                    .or_default()
                    .extend(target.image_indexes.iter());
            }
        }
    }
    images
}

/// Adds `offloaded: true` to the images counted by `indexes`. Works on the text: nothing else may change by a byte.
fn mark_offloaded(message: &str, indexes: &BTreeSet<u64>) -> String {
    #[derive(Deserialize)]
    struct Blocks<'a> {
        #[serde(borrow)]
        content: Vec<&'a RawValue>,
    }
    #[derive(Deserialize)]
    struct Kind<'a> {
        #[serde(rename = "type", borrow)]
        kind: Cow<'a, str>,
    }
    let blocks: Blocks<'_> =
        serde_json::from_str(message).expect("BUG: the message was read when its event was");
    let images = blocks
        .content
        .iter()
        .map(|block| block.get())
        .filter(|block| {
            serde_json::from_str::<Kind<'_>>(block).is_ok_and(|block| block.kind == "image")
        });
    let mut out = String::with_capacity(message.len() + 20 * indexes.len());
    let mut copied = 0;
    for (index, image) in (0..).zip(images) {
        if indexes.contains(&index) {
            let closing = image.as_ptr() as usize - message.as_ptr() as usize + image.len() - 1;
            out.push_str(&message[copied..closing]);
            out.push_str(r#","offloaded":true"#);
            copied = closing;
        }
    }
    out.push_str(&message[copied..]);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn offloaded_images_are_marked_and_nothing_else_changes_by_a_byte() {
        let message = r#"{"id":"m","content":[{"type":"image","n":1e2 },{"type":"text","text":"image"},{"type":"image"},{"type":"image"}]}"#;
        assert_eq!(
            mark_offloaded(message, &BTreeSet::from([0, 2, 9])),
            r#"{"id":"m","content":[{"type":"image","n":1e2 ,"offloaded":true},{"type":"text","text":"image"},{"type":"image"},{"type":"image","offloaded":true}]}"#,
        );
    }
}
