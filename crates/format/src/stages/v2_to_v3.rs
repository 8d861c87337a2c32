//! v2_to_v3

use crate::chain::{Context, Item, Stage};
use crate::record::Refusal;

/// The stage.
pub(crate) struct V2ToV3;

impl V2ToV3 {
    pub(crate) fn new(_context: &Context<'_>) -> Self {
        Self
    }
}

impl Stage for V2ToV3 {
    fn take(&mut self, item: Item, out: &mut Vec<Item>) -> Result<(), Refusal> {
        out.push(item);
        Ok(())
    }

    fn finish(&mut self, _out: &mut Vec<Item>) -> Result<(), Refusal> {
        Ok(())
    }
}

/// The preset that the header names: code mode became PTC.
pub(crate) fn migrate_preset(preset: &mut Option<String>) {
    if preset.as_deref() == Some("code") {
        *preset = Some("ptc".into());
    }
}
