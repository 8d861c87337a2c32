//! What of this process's environment a command gets.

use std::ffi::OsStr;

/// The last words of names whose values are secrets, as in `OPENAI_API_KEY`, `GITHUB_TOKEN` or `TOKEN`.
const SECRET_ENDINGS: [&str; 11] = [
    "ACCESS_KEY",
    "APIKEY",
    "API_KEY",
    "PASSPHRASE",
    "PASSWD",
    "PASSWORD",
    "PRIVATE_KEY",
    "SECRET",
    "SECRETS",
    "SECRET_KEY",
    "TOKEN",
];

/// Which variables commands do not get: what they print is logged and goes to the model, and `env` prints everything.
///
/// Withheld are names that end in one of `ACCESS_KEY`, `API_KEY`, `APIKEY`, `PASSPHRASE`, `PASSWD`, `PASSWORD`,
/// `PRIVATE_KEY`, `SECRET`, `SECRETS`, `SECRET_KEY` and `TOKEN`, as whole words and in any case, and whatever else is
/// named with [`withholding`](Self::withholding). This holds in every sandbox mode. A program that cannot do without its
/// token gets it with [`keeping`](Self::keeping).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EnvironmentFilter {
    withheld: Vec<String>,
    kept: Vec<String>,
}

impl EnvironmentFilter {
    /// The same filter, withholding these too: the variables that a configuration reads its keys from.
    #[must_use]
    pub fn withholding<N: Into<String>>(mut self, names: impl IntoIterator<Item = N>) -> Self {
        self.withheld.extend(names.into_iter().map(Into::into));
        self
    }

    /// The same filter, letting these through whatever else it says.
    #[must_use]
    pub fn keeping<N: Into<String>>(mut self, names: impl IntoIterator<Item = N>) -> Self {
        self.kept.extend(names.into_iter().map(Into::into));
        self
    }

    /// Whether a command does not get the variable.
    #[must_use]
    pub fn withholds(&self, name: &OsStr) -> bool {
        let name = name.to_string_lossy();
        let is_named = |names: &[String]| names.iter().any(|known| *known == name);
        if is_named(&self.kept) {
            return false;
        }
        let upper = name.to_ascii_uppercase();
        let is_secret = SECRET_ENDINGS.iter().any(|ending| {
            upper
                .strip_suffix(ending)
                .is_some_and(|start| start.is_empty() || start.ends_with('_'))
        });
        is_secret || is_named(&self.withheld)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_secrets_are_withheld_and_others_are_not() {
        let filter = EnvironmentFilter::default()
            .withholding(["MY_PROVIDER"])
            .keeping(["GH_TOKEN"]);
        let withheld = [
            "OPENAI_API_KEY",
            "deepseek_api_key",
            "ANTHROPIC_AUTH_TOKEN",
            "AWS_SECRET_ACCESS_KEY",
            "TOKEN",
            "PGPASSWORD_PASSWORD",
            "MY_PROVIDER",
        ];
        let given = [
            "PATH",
            "HOME",
            "TOKENIZERS_PARALLELISM",
            "NOTATOKEN",
            "GH_TOKEN",
            "SSH_AUTH_SOCK",
            "AWS_ACCESS_KEY_ID",
            "GOOGLE_APPLICATION_CREDENTIALS",
        ];
        for name in withheld {
            assert!(filter.withholds(OsStr::new(name)), "{name}");
        }
        for name in given {
            assert!(!filter.withholds(OsStr::new(name)), "{name}");
        }
    }
}
