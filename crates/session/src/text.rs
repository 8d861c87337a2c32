//! The text of rows, held once for all that were read together.

use std::ops::Range;
use std::sync::Arc;

/// A text that events hold parts of. Cloning it copies nothing.
///
/// Loading a log costs one of these for some hundred rows, instead of a text for each. It lives as long as any of its
/// events, so it should hold rows that belong together, and not too many.
#[derive(Clone, Debug)]
pub struct RowsText(Arc<Whole>);

#[derive(Debug)]
struct Whole {
    text: Box<str>,
}

impl RowsText {
    /// The text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0.text
    }

    pub(crate) fn get(&self, part: Part) -> &str {
        &self.0.text[part.start as usize..part.end as usize]
    }

    /// Where `part`, a slice of the text, lies in it; `None` if the text is too long for that.
    pub(crate) fn part(&self, part: &str) -> Option<Part> {
        let Range { start, end } = range_in(self.as_str(), part);
        Some(Part {
            start: u32::try_from(start).ok()?,
            end: u32::try_from(end).ok()?,
        })
    }
}

impl<T: Into<Box<str>>> From<T> for RowsText {
    fn from(text: T) -> Self {
        Self(Arc::new(Whole { text: text.into() }))
    }
}

/// A part of such a text, in bytes.
#[derive(Clone, Copy)]
pub(crate) struct Part {
    start: u32,
    end: u32,
}

/// Where `part`, a slice of `whole`, lies in it.
fn range_in(whole: &str, part: &str) -> Range<usize> {
    let start = part.as_ptr() as usize - whole.as_ptr() as usize;
    start..start + part.len()
}
