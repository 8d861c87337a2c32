//! A system without Landlock.

use super::policy::SandboxPolicy;
use super::support::Support;

const REASON: &str = "commands can be confined on Linux only";

pub(super) fn probe() -> Support {
    Support::Unavailable {
        reason: REASON.to_owned(),
    }
}

pub(super) fn confine(_policy: &SandboxPolicy) -> Result<Support, String> {
    Err(REASON.to_owned())
}
