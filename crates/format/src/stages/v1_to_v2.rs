//! v1_to_v2

use crate::chain::{Context, Item, Stage};
use crate::record::Refusal;

/// The stage.
pub(crate) struct V1ToV2;

impl V1ToV2 {
    pub(crate) fn new(_context: &Context<'_>) -> Self {
        Self
    }
}

impl Stage for V1ToV2 {
    fn take(&mut self, item: Item, out: &mut Vec<Item>) -> Result<(), Refusal> {
        out.push(item);
        Ok(())
    }

    fn finish(&mut self, _out: &mut Vec<Item>) -> Result<(), Refusal> {
        Ok(())
    }
}
