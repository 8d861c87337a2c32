//! The rules that decide about calls beforehand: the person's `permissions.toml`, and the project's.
//!
//! A project's rules may ask about calls and deny them. What they would allow is left out, with a warning, for the same
//! reasons as in `project.rs`.

use std::fs;
use std::io::ErrorKind;
use std::path::Path;

use offshoot_agent::{Decision, PermissionRule, PermissionRules, PolicyFile};

use crate::failure::Failure;

/// The name of a file with rules.
pub(crate) const PERMISSIONS: &str = "permissions.toml";

/// The rules that are in force, and what the project's file says and may not.
pub(super) fn rules(
    user: &Path,
    project: Option<&Path>,
) -> Result<(PermissionRules, Vec<String>), Failure> {
    let mut all = read(user)?;
    let mut ignored = Vec::new();
    if let Some(path) = project {
        for rule in read(path)? {
            if rule.decision == Decision::Allow {
                ignored.push(format!(
                    "warning: `{}`: a rule that allows `{}` is ignored: a project may only allow less than you do yourself; \
                     to allow it yourself: `{}`",
                    path.display(),
                    rule.tool,
                    user.display()
                ));
            } else {
                all.push(rule);
            }
        }
    }
    let rules = PermissionRules::new(all).expect("BUG: each file's rules were made ready before");
    Ok((rules, ignored))
}

/// The rules of a file, each of which can be one; none if there is no file.
fn read(path: &Path) -> Result<Vec<PermissionRule>, Failure> {
    let broken = |reason: String| {
        Failure::new("INVALID_PERMISSIONS", reason)
            .at(path)
            .hint("docs/cli.md describes this file, in \"Permissions\"")
    };
    let text = match fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(broken(error.to_string())),
    };
    let file: PolicyFile = toml::from_str(&text).map_err(|error| {
        let before = error.span().and_then(|span| text.get(..span.start));
        let line = before.map_or(0, |before| before.matches('\n').count()) + 1;
        broken(format!(
            "line {line}: {}",
            error.message().replace('\n', "; ")
        ))
    })?;
    PermissionRules::new(file.rules.clone()).map_err(|error| broken(error.to_string()))?;
    Ok(file.rules)
}
