//! A credential that shows itself only in a request.

use std::fmt;

use reqwest::header::HeaderValue;

use super::config::SetupError;

/// A credential. Debug output does not show it.
#[derive(Clone, PartialEq, Eq)]
pub struct ApiKey(String);

impl ApiKey {
    /// Takes the key; white space around it, as from a file, is removed.
    #[must_use]
    pub fn new(key: impl AsRef<str>) -> Self {
        Self(key.as_ref().trim().to_owned())
    }

    /// The key itself, for whoever has to make sure that it is not in a text.
    #[must_use]
    pub fn reveal(&self) -> &str {
        &self.0
    }

    /// The value of a header with `scheme` before the key.
    pub(super) fn header(&self, scheme: &str) -> Result<HeaderValue, SetupError> {
        let mut value = HeaderValue::try_from(format!("{scheme}{}", self.0))
            .map_err(|_| SetupError::InvalidApiKey)?;
        value.set_sensitive(true);
        Ok(value)
    }

    /// Takes the key out of a text that somebody else wrote.
    pub(super) fn redact(&self, text: &mut String) {
        if !self.0.is_empty() && text.contains(&self.0) {
            *text = text.replace(&self.0, "[API key]");
        }
    }
}

impl fmt::Debug for ApiKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ApiKey(..)")
    }
}
