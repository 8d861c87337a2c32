//! What a model is shown of blocks that have no form of their own on the wire.
//!
//! Everything here is a function of the block alone: these texts are part of a history that providers keep in a cache.

use std::borrow::Cow;
use std::fmt::Write as _;

use crate::message::{ContentBlock, ImageAttachment};

/// What stands for the result of a tool that has nothing to say.
pub(crate) const NO_OUTPUT: &str = "(no output)";

/// The texts of a message, one below the other, without pictures.
pub(crate) fn shown_text(content: &[ContentBlock]) -> Cow<'_, str> {
    joined("\n", content.iter().filter_map(shown_text_of))
}

/// The text of a message of the harness, with tool changes in words.
pub(crate) fn developer_text(content: &[ContentBlock]) -> Cow<'_, str> {
    let lines = content.iter().filter_map(|block| match block {
        ContentBlock::ToolAddition { tool_name } => Some(Cow::Owned(format!(
            "The tool `{tool_name}` is now available."
        ))),
        ContentBlock::ToolRemoval { tool_name } => Some(Cow::Owned(format!(
            "The tool `{tool_name}` is no longer available."
        ))),
        other => shown_text_of(other),
    });
    joined("\n", lines)
}

/// Instructions where the protocol has no place for them but among what a person says.
pub(crate) fn instructions_among_user_text(text: &str) -> String {
    format!("<system-message>\n{text}\n</system-message>")
}

/// Text, and a line for what has no text form.
pub(crate) fn shown_text_of(block: &ContentBlock) -> Option<Cow<'_, str>> {
    match block {
        ContentBlock::Text { text } => Some(Cow::Borrowed(text)),
        ContentBlock::File { attachment } => Some(Cow::Owned(format!(
            "[file {}, {} bytes, {}]",
            attachment.name, attachment.bytes, attachment.attachment_id
        ))),
        ContentBlock::Unknown(_) => {
            let kind = block.block_type();
            Some(Cow::Owned(format!(
                "[content of type {kind} cannot be shown to this model]"
            )))
        }
        _ => None,
    }
}

/// Whether the model sees a picture, and if not, why.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Visibility {
    /// The picture stands right behind its line.
    Shown,
    /// The model has no eyes.
    NotShown,
    /// It was taken out of the context to save room.
    Offloaded,
}

/// The line that names a picture, in its place or before it.
pub(crate) fn image_line(image: &ImageAttachment, visibility: Visibility) -> String {
    let ImageAttachment {
        attachment_id,
        media_type,
        bytes,
        width,
        height,
        name,
        ..
    } = image;
    let mut line = String::from("[image");
    if let Some(name) = name {
        line.push(' ');
        line.push_str(name);
    }
    let state = match visibility {
        Visibility::Shown => "",
        Visibility::NotShown => ": not shown to this model",
        Visibility::Offloaded => ": no longer in the context",
    };
    write!(
        line,
        ", {media_type}, {width}×{height}, {bytes} bytes, {attachment_id}{state}]"
    )
    .expect("BUG: writing to a string cannot fail");
    line
}

/// The parts with `separator` between them. Empty parts are left out; a single part is not copied.
pub(crate) fn joined<'a>(
    separator: &str,
    parts: impl Iterator<Item = Cow<'a, str>>,
) -> Cow<'a, str> {
    let mut whole = Cow::Borrowed("");
    for part in parts.filter(|part| !part.is_empty()) {
        if whole.is_empty() {
            whole = part;
            continue;
        }
        let whole = whole.to_mut();
        whole.push_str(separator);
        whole.push_str(&part);
    }
    whole
}
