//! v3_to_v4

use crate::chain::{Context, Item, Stage};
use crate::record::Refusal;

/// The stage.
pub(crate) struct V3ToV4;

impl V3ToV4 {
    pub(crate) fn new(_context: &Context<'_>) -> Self {
        Self
    }
}

impl Stage for V3ToV4 {
    fn take(&mut self, item: Item, out: &mut Vec<Item>) -> Result<(), Refusal> {
        out.push(item);
        Ok(())
    }

    fn finish(&mut self, _out: &mut Vec<Item>) -> Result<(), Refusal> {
        Ok(())
    }
}
