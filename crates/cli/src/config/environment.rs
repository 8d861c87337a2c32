//! The variables of the environment that settings and keys come from. All others are in `home.rs`; `docs/cli.md` lists
//! every one.

use super::schema;
use super::setting::{KeyPath, Origin, Setting, Value};
use crate::failure::Failure;

/// A variable that sets something.
struct Variable {
    name: &'static str,
    sets: &'static [&'static str],
}

const VARIABLES: &[Variable] = &[
    Variable {
        name: "OFFSHOOT_MODEL",
        sets: &["default_model"],
    },
    Variable {
        name: "OFFSHOOT_EFFORT",
        sets: &["effort"],
    },
    Variable {
        name: "OFFSHOOT_SANDBOX",
        sets: &["sandbox"],
    },
    Variable {
        name: "OFFSHOOT_PERMISSION_MODE",
        sets: &["permission_mode"],
    },
    Variable {
        name: "OFFSHOOT_HANDBACK_MAX_CHARS",
        sets: &["handback_max_chars"],
    },
    Variable {
        name: "ANTHROPIC_BASE_URL",
        sets: &["providers", "anthropic", "base_url"],
    },
    Variable {
        name: "DEEPSEEK_BASE_URL",
        sets: &["providers", "deepseek", "base_url"],
    },
    Variable {
        name: "OPENAI_BASE_URL",
        sets: &["providers", "openai", "base_url"],
    },
    Variable {
        name: "OPENROUTER_BASE_URL",
        sets: &["providers", "openrouter", "base_url"],
    },
];

/// A variable that is set to something.
pub(crate) fn set(variable: &str) -> Option<String> {
    std::env::var(variable)
        .ok()
        .filter(|value| !value.trim().is_empty())
}

/// The variable that says where a provider is, if there is one.
pub(super) fn address_of(provider: &str) -> Option<&'static str> {
    let of = |variable: &&Variable| matches!(variable.sets, ["providers", name, "base_url"] if *name == provider);
    VARIABLES.iter().find(of).map(|variable| variable.name)
}

/// What the environment sets.
pub(super) fn settings() -> Result<Vec<(KeyPath, Setting)>, Failure> {
    let mut settings = Vec::new();
    for variable in VARIABLES {
        if let Some(text) = set(variable.name) {
            let origin = Origin::Variable {
                name: variable.name,
            };
            settings.push(said(variable.sets, &text, origin)?);
        }
    }
    Ok(settings)
}

/// A setting that somebody gave as a text.
pub(super) fn said(
    path: &[&str],
    text: &str,
    origin: Origin,
) -> Result<(KeyPath, Setting), Failure> {
    let path = KeyPath::new(path.iter().copied());
    let key =
        schema::find(path.parts()).expect("BUG: what variables and flags set is in the schema");
    match key.shape.parse(text) {
        Some(value) => Ok((path, Setting { value, origin })),
        None => Err(refused(&origin, text, key.shape)),
    }
}

fn refused(origin: &Origin, text: &str, shape: schema::Shape) -> Failure {
    let name = match origin {
        Origin::Variable { name } | Origin::Flag { name } => *name,
        Origin::Default | Origin::File { .. } => "a setting",
    };
    let expected = shape.expected();
    match shape {
        schema::Shape::Model => {
            Failure::new("INVALID_MODEL", format!("{name} is {text:?}: {expected}"))
        }
        _ => Failure::new(
            "INVALID_CONFIG",
            format!("{name} is {text:?}, expected {expected}"),
        ),
    }
}

/// A value that needs no reading.
pub(super) fn given(path: &[&str], value: Value, origin: Origin) -> (KeyPath, Setting) {
    (
        KeyPath::new(path.iter().copied()),
        Setting { value, origin },
    )
}
