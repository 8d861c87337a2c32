//! JSON that is carried but not read.
//!
//! Tool schemas, replay states and unknown blocks belong to somebody else. Re-serialising them could change number
//! formats or member order, and a byte that changes costs a warm prefix cache, so their exact text is kept.

use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

/// A valid JSON text, kept verbatim. Two values are equal when their texts are equal.
#[derive(Clone, Serialize, Deserialize)]
#[serde(transparent)]
pub struct RawJson(Box<RawValue>);

impl RawJson {
    /// Checks that `text` is one JSON value and keeps it.
    ///
    /// # Errors
    /// When `text` is not exactly one JSON value.
    pub fn parse(text: impl Into<String>) -> Result<Self, serde_json::Error> {
        RawValue::from_string(text.into()).map(Self)
    }

    /// Serialises `value` once; from then on its text is fixed.
    ///
    /// # Errors
    /// When `value` has no JSON form, for example a map whose keys are not strings.
    pub fn from_value<T: Serialize + ?Sized>(value: &T) -> Result<Self, serde_json::Error> {
        serde_json::value::to_raw_value(value).map(Self)
    }

    /// The exact text.
    #[must_use]
    pub fn get(&self) -> &str {
        self.0.get()
    }

    /// The text as `serde_json` knows it.
    #[must_use]
    pub fn as_raw_value(&self) -> &RawValue {
        &self.0
    }
}

impl From<Box<RawValue>> for RawJson {
    fn from(raw: Box<RawValue>) -> Self {
        Self(raw)
    }
}

impl From<RawJson> for Box<RawValue> {
    fn from(raw: RawJson) -> Self {
        raw.0
    }
}

impl PartialEq for RawJson {
    fn eq(&self, other: &Self) -> bool {
        self.get() == other.get()
    }
}

impl Eq for RawJson {}

impl fmt::Debug for RawJson {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RawJson({})", self.get())
    }
}
