//! v0_to_v1

use crate::chain::{Context, Item, Stage};
use crate::record::Refusal;

/// The stage.
pub(crate) struct V0ToV1;

impl V0ToV1 {
    pub(crate) fn new(_context: &Context<'_>) -> Self {
        Self
    }
}

impl Stage for V0ToV1 {
    fn take(&mut self, item: Item, out: &mut Vec<Item>) -> Result<(), Refusal> {
        out.push(item);
        Ok(())
    }

    fn finish(&mut self, _out: &mut Vec<Item>) -> Result<(), Refusal> {
        Ok(())
    }
}
