//! Cutting down long tool results (`reference/agent.md` §6.6).
//!
//! Beginning and end are kept, and the model is told what is missing. Only text is cut; pictures and whatever else a result
//! has keep their places. A result that was cut is not cut again.

use std::ops::RangeBounds;

use offshoot_session::{Event, EventKind, EventLog, SurfaceOp};
use serde::Deserialize;
use serde_json::value::RawValue;

use super::config::PruneConfig;
use super::events::{Prune, Range};
use super::{CompactionError, CompactionNotice};
use crate::driver::Driver;
use crate::events::{logged, row_text};
use crate::meter;
use offshoot_session::StepRef;

/// What a remark has at most, whatever number it names.
pub(super) const LONGEST_MARKER: usize = 160;

impl Driver {
    /// Cuts down the long results in a part of the surface. Returns about how many tokens are free now.
    pub(super) fn prune(
        &self,
        at: StepRef,
        log: &EventLog,
        places: impl RangeBounds<usize>,
    ) -> Result<u64, CompactionError> {
        let Some(config) = self.config.compaction.prune.filter(PruneConfig::converges) else {
            return Ok(0);
        };
        let nodes = log.surface().nodes().enumerate();
        let results = nodes
            .filter(|(place, _)| places.contains(place))
            .filter_map(|(_, seq)| log.get(seq))
            .filter(|event| *event.kind() == EventKind::ToolResult);
        let (mut cut, mut freed) = (0, 0);
        for event in results {
            let Some(data) = pruned(event, &config) else {
                continue;
            };
            freed += self.replace_result(event, &data)?;
            cut += 1;
        }
        if cut > 0 {
            self.notify(CompactionNotice::Pruned {
                turn: at.turn,
                results: cut,
                tokens: freed,
            });
        }
        Ok(freed)
    }

    fn replace_result(&self, old: &Event, data: &RawValue) -> Result<u64, CompactionError> {
        let (seq, price) = (old.seq(), meter::price(old));
        let range = Range {
            start: seq,
            end: seq,
        };
        let prune = Prune {
            shadowed_range: range,
            shadowed_seqs: [seq],
            shadowed_token_count: price,
        };
        let replacement = logged(EventKind::ToolResult, &data)
            .with_sources([seq])
            .with_surface_op(SurfaceOp::Replace {
                start: seq,
                end: seq,
            });
        let now = self.env.now();
        let refused = |error: offshoot_session::LogError| CompactionError::Commit(error.into());
        let mut session = self.session.lock();
        session
            .append(logged(EventKind::CompactionPrune, &prune), now)
            .map_err(refused)?;
        let new = session.append(replacement, now).map_err(refused)?;
        Ok(price.saturating_sub(meter::price(&new)))
    }
}

/// The payload of a result with less text; `None` if it is short enough. Nothing but the content changes by a byte.
fn pruned(event: &Event, config: &PruneConfig) -> Option<Box<RawValue>> {
    #[derive(Deserialize)]
    struct Data<'a> {
        #[serde(borrow)]
        message: &'a RawValue,
    }
    #[derive(Deserialize)]
    struct Message<'a> {
        #[serde(borrow)]
        content: &'a RawValue,
    }
    let data = event.data();
    let Data { message } = serde_json::from_str(data).ok()?;
    let Message { content } = serde_json::from_str(message.get()).ok()?;
    let content = content.get();
    let shorter = cut(content, config)?;
    let start = content.as_ptr() as usize - data.as_ptr() as usize;
    let (before, behind) = (&data[..start], &data[start + content.len()..]);
    RawValue::from_string(format!("{before}{shorter}{behind}")).ok()
}

/// A list of content blocks with less text; `None` if there is little enough.
fn cut(content: &str, config: &PruneConfig) -> Option<String> {
    #[derive(Deserialize)]
    struct Text {
        #[serde(rename = "type")]
        kind: String,
        text: Option<String>,
    }
    let blocks: Vec<&RawValue> = serde_json::from_str(content).ok()?;
    let mut texts = Vec::with_capacity(blocks.len());
    for block in &blocks {
        // What cannot be read cannot be cut.
        let block: Text = serde_json::from_str(block.get()).ok()?;
        texts.push(block.text.filter(|_| block.kind == "text"));
    }
    let length = |text: &Option<String>| text.as_ref().map_or(0, |text| text.chars().count());
    let total: usize = texts.iter().map(length).sum();
    if total <= config.threshold_chars {
        return None;
    }
    let (from, to) = (config.head_chars, total - config.tail_chars);
    let mut marker = Some(marker(to - from));
    let mut kept: Vec<Box<RawValue>> = Vec::with_capacity(blocks.len());
    let mut place = 0;
    for (block, text) in blocks.into_iter().zip(texts) {
        let start = place;
        place += length(&text);
        let is_whole = place <= from || start >= to;
        let Some(text) = text.filter(|_| !is_whole) else {
            kept.push(block.to_owned());
            continue;
        };
        let mut shorter: String = text.chars().take(from.saturating_sub(start)).collect();
        shorter.extend(marker.take());
        shorter.extend(text.chars().skip(to.saturating_sub(start)));
        if !shorter.is_empty() {
            kept.push(row_text(&offshoot_model::ContentBlock::text(shorter)));
        }
    }
    Some(row_text(&kept).get().to_owned())
}

fn marker(missing: usize) -> String {
    format!(
        "\n\n[{missing} characters were cut out of the middle of this result to save room. \
         Call the tool again if you need them.]\n\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    const SMALL: PruneConfig = PruneConfig {
        threshold_chars: 10,
        head_chars: 4,
        tail_chars: 2,
    };

    fn texts(content: &str) -> Vec<String> {
        let blocks: Vec<serde_json::Value> = serde_json::from_str(content).expect("JSON");
        let text = |block: &serde_json::Value| match block["text"].as_str() {
            Some(text) => text.replace(&marker(0)[2..3], "["),
            None => block.to_string(),
        };
        blocks.iter().map(text).collect()
    }

    #[test]
    fn text_is_cut_by_code_points_across_blocks_and_everything_else_keeps_its_place() {
        let content = r#"[{"type":"text","text":"äöü"},{"type":"image", "n":1e2},{"type":"text","text":"ß😀cdef"},{"type":"text","text":"ghi"},{"type":"text","text":"jk"}]"#;
        let shorter = cut(content, &SMALL).expect("it is long");
        assert!(
            shorter.contains(r#"{"type":"image", "n":1e2}"#),
            "{shorter}"
        );
        assert_eq!(
            texts(&shorter),
            [
                "äöü".to_owned(),
                r#"{"type":"image","n":100.0}"#.to_owned(),
                format!("ß{}", marker(8)),
                "jk".to_owned(),
            ]
        );
    }

    #[test]
    fn what_is_short_enough_or_cannot_be_read_is_left_alone() {
        for content in [
            r#"[{"type":"text","text":"0123456789"}]"#,
            r#"[{"type":"text","text":"0123456789ab\ud800"}]"#,
            "[]",
        ] {
            assert_eq!(cut(content, &SMALL), None, "{content}");
        }
    }

    #[test]
    fn one_pass_is_enough() {
        let config = PruneConfig::default();
        let long = "x".repeat(1_000_000);
        let content = serde_json::json!([{"type": "text", "text": long}]).to_string();
        let once = cut(&content, &config).expect("it is long");
        assert_eq!(cut(&once, &config), None);
        assert!(marker(usize::MAX).chars().count() <= LONGEST_MARKER);
    }
}
