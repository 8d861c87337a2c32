//! Where time and names come from. The driver reads no clock and makes no id itself, so that a test or a replay decides both.

use std::fmt;
use std::sync::Arc;

/// The time.
pub trait Clock: Send + Sync + fmt::Debug {
    /// Milliseconds since the Unix epoch.
    fn now(&self) -> i64;
}

/// New names.
pub trait IdSource: Send + Sync + fmt::Debug {
    /// A string that nobody else has.
    fn fresh(&self) -> String;
}

/// The two of them, as every part of the driver needs them.
#[derive(Clone, Debug)]
pub struct Env {
    /// The time.
    pub clock: Arc<dyn Clock>,
    /// New names.
    pub ids: Arc<dyn IdSource>,
}

impl Env {
    pub(crate) fn now(&self) -> i64 {
        self.clock.now()
    }

    pub(crate) fn fresh_id(&self) -> String {
        self.ids.fresh()
    }
}
