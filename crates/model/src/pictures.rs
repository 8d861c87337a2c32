//! The pictures of a request. `reference/agent.md` §2.4 and §2.8.
//!
//! A history names pictures; their bytes are elsewhere. Before a request is written they are fetched into a [`Gallery`], so
//! that writing it is a pure function of what was fetched.

use std::collections::BTreeMap;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use crate::attachments::Attachments;
use crate::codes;
use crate::message::{ContentBlock, ImageAttachment, Message};
use crate::shown::{Visibility, image_line};
use crate::stream::Failure;

/// What becomes of the pictures in a request.
#[derive(Clone, Copy, Debug)]
pub enum Pictures<'a> {
    /// The model cannot look at pictures: a line of text stands for each.
    Named,
    /// They go along.
    Shown {
        /// Where their bytes are.
        attachments: &'a dyn Attachments,
        /// How many of them one request may have.
        limits: PictureLimits,
    },
}

/// How many pictures one request may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PictureLimits {
    /// How many, at least 1.
    pub count: u64,
    /// How large they may be together, in bytes before they are encoded for the wire.
    pub bytes: u64,
}

impl Default for PictureLimits {
    /// 100 pictures of 20 MiB together: what fits into the strictest request limit (32 MB) of the providers that show pictures.
    fn default() -> Self {
        Self {
            count: 100,
            bytes: 20 << 20,
        }
    }
}

/// The pictures of one request, ready for the wire.
#[derive(Debug)]
pub(crate) struct Gallery {
    /// In base64, by attachment id; `None` for a model that cannot look at pictures.
    shown: Option<BTreeMap<String, String>>,
}

/// A picture as it stands in a request.
pub(crate) enum Picture<'a> {
    /// Only this line.
    Named(String),
    /// This line, and the picture behind it.
    Shown {
        line: String,
        media_type: &'a str,
        base64: &'a str,
    },
}

impl Gallery {
    /// No pictures, only their names.
    pub(crate) const fn named() -> Self {
        Self { shown: None }
    }

    /// Fetches what `messages` need.
    ///
    /// # Errors
    /// [`codes::IMAGE_OFFLOAD_REQUIRED`] if there is too much of it, [`codes::UNSUPPORTED_CONTENT`] if a picture is missing.
    pub(crate) fn load(messages: &[Arc<Message>], pictures: Pictures<'_>) -> Result<Self, Failure> {
        let Pictures::Shown {
            attachments,
            limits,
        } = pictures
        else {
            return Ok(Self::named());
        };
        let images: Vec<_> = images_of(messages).collect();
        let too_many = limits.excess(&images);
        if too_many > 0 {
            return Err(offload(&images, limits, too_many));
        }
        let mut shown = BTreeMap::new();
        for image in images {
            let id = &image.attachment_id;
            if shown.contains_key(id) {
                continue;
            }
            let bytes = attachments.bytes(id).map_err(|error| {
                let message = format!("the image {id} of the history cannot be read: {error}");
                Failure::new(codes::UNSUPPORTED_CONTENT, message)
            })?;
            shown.insert(id.clone(), STANDARD.encode(bytes));
        }
        Ok(Self { shown: Some(shown) })
    }

    /// How a block stands in the request, if it is a picture.
    pub(crate) fn picture<'a>(&'a self, block: &'a ContentBlock) -> Option<Picture<'a>> {
        let ContentBlock::Image {
            attachment,
            offloaded,
        } = block
        else {
            return None;
        };
        if *offloaded {
            let line = image_line(attachment, Visibility::Offloaded);
            return Some(Picture::Named(line));
        }
        let base64 = self
            .shown
            .as_ref()
            .and_then(|shown| shown.get(&attachment.attachment_id));
        Some(match base64 {
            None => Picture::Named(image_line(attachment, Visibility::NotShown)),
            Some(base64) => Picture::Shown {
                line: image_line(attachment, Visibility::Shown),
                media_type: &attachment.media_type,
                base64,
            },
        })
    }
}

/// The pictures that are in the context, oldest first.
fn images_of(messages: &[Arc<Message>]) -> impl Iterator<Item = &ImageAttachment> {
    let blocks = messages.iter().flat_map(|message| &message.content);
    blocks.filter_map(|block| match block {
        ContentBlock::Image {
            attachment,
            offloaded: false,
        } => Some(attachment),
        _ => None,
    })
}

impl PictureLimits {
    /// How many of the oldest pictures have to go. If any, then so many that a quarter of the room is free again: each time
    /// a picture goes, what providers have cached from there on is worthless, so it must not happen at every request.
    fn excess(self, images: &[&ImageAttachment]) -> u64 {
        if self.admit(images) {
            return 0;
        }
        let roomy = Self {
            count: self.count - self.count / 4,
            bytes: self.bytes - self.bytes / 4,
        };
        let gone = (1..images.len()).find(|gone| roomy.admit(&images[*gone..]));
        gone.unwrap_or(images.len()) as u64
    }

    fn admit(self, images: &[&ImageAttachment]) -> bool {
        let bytes = images.iter().map(|image| image.bytes);
        images.len() as u64 <= self.count && bytes.fold(0, u64::saturating_add) <= self.bytes
    }
}

fn offload(images: &[&ImageAttachment], limits: PictureLimits, excess: u64) -> Failure {
    let bytes = images.iter().map(|image| image.bytes);
    let message = format!(
        "the history has {} images of {} bytes, more than the {} of {} bytes that one request may have",
        images.len(),
        bytes.fold(0, u64::saturating_add),
        limits.count,
        limits.bytes,
    );
    Failure {
        offload_images: Some(excess),
        ..Failure::new(codes::IMAGE_OFFLOAD_REQUIRED, message)
    }
}
