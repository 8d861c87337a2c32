//! Where time, names and chance come from. The driver reads no clock and makes no id itself, so that a test or a replay
//! decides all of them.

use std::fmt;
use std::sync::Arc;

/// The time.
pub trait Clock: Send + Sync + fmt::Debug {
    /// Milliseconds since the Unix epoch.
    fn now(&self) -> i64;
}

/// New names, and chance.
pub trait IdSource: Send + Sync + fmt::Debug {
    /// A string that nobody else has.
    fn fresh(&self) -> String;

    /// A number from 0 to 1, by which waits differ so that many who failed together do not come back together. Always the
    /// middle unless somebody throws dice: then a run can be repeated.
    fn random(&self) -> f64 {
        0.5
    }
}

/// The two of them, as every part of the driver needs them.
#[derive(Clone, Debug)]
pub struct Env {
    /// The time.
    pub clock: Arc<dyn Clock>,
    /// New names, and chance.
    pub ids: Arc<dyn IdSource>,
}

impl Env {
    pub(crate) fn now(&self) -> i64 {
        self.clock.now()
    }

    pub(crate) fn fresh_id(&self) -> String {
        self.ids.fresh()
    }

    pub(crate) fn random(&self) -> f64 {
        self.ids.random()
    }
}
