//! What the running kernel can enforce.

use std::fmt;

use super::policy::{Network, SandboxPolicy};

/// What this system has of the sandbox.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Support {
    /// Landlock, in this version of its interface.
    Landlock {
        /// 1 is Linux 5.13; see [`Missing`] for what came later.
        abi: u32,
    },
    /// None at all: only `danger-full-access` can run commands.
    Unavailable {
        /// Why, and what could be done.
        reason: String,
    },
}

impl Support {
    /// Whether TCP can be refused.
    #[must_use]
    pub fn network(&self) -> bool {
        !self.lacks(Missing::Network)
    }

    /// Everything that this system cannot refuse, whatever a policy asks for. Nothing of it is refused if there is no
    /// sandbox.
    #[must_use]
    pub fn missing(&self) -> Vec<Missing> {
        let all = Missing::ALL.into_iter();
        all.filter(|missing| self.lacks(*missing)).collect()
    }

    /// The promises of a policy that this system cannot keep.
    #[must_use]
    pub fn missing_for(&self, policy: &SandboxPolicy) -> Vec<Missing> {
        let mut missing = self.missing();
        if policy.network == Network::Allowed {
            missing.retain(|missing| *missing != Missing::Network);
        }
        missing
    }

    fn lacks(&self, what: Missing) -> bool {
        match self {
            Self::Landlock { abi } => *abi < what.abi(),
            Self::Unavailable { .. } => true,
        }
    }
}

impl fmt::Display for Support {
    /// One line for a person.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Landlock { abi } => {
                write!(f, "Landlock ABI {abi}")?;
                match missing_in_words(&self.missing()) {
                    Some(missing) => write!(f, ", which cannot refuse {missing}"),
                    None => Ok(()),
                }
            }
            Self::Unavailable { reason } => write!(f, "not available: {reason}"),
        }
    }
}

/// A limit that older kernels cannot enforce.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Missing {
    /// Emptying files outside the writable directories without opening them (Landlock ABI 3).
    Truncation,
    /// TCP connections and ports (ABI 4).
    Network,
    /// Commands to devices that are open for reading (ABI 5).
    Devices,
    /// Signals and abstract Unix sockets to processes outside (ABI 6).
    Processes,
}

impl Missing {
    const ALL: [Self; 4] = [
        Self::Truncation,
        Self::Network,
        Self::Devices,
        Self::Processes,
    ];

    /// The version of Landlock's interface that brought it.
    #[must_use]
    pub const fn abi(self) -> u32 {
        match self {
            Self::Truncation => 3,
            Self::Network => 4,
            Self::Devices => 5,
            Self::Processes => 6,
        }
    }

    /// The version of Linux that brought it.
    #[must_use]
    pub const fn linux(self) -> &'static str {
        match self {
            Self::Truncation => "6.2",
            Self::Network => "6.7",
            Self::Devices => "6.10",
            Self::Processes => "6.12",
        }
    }

    const fn what(self) -> &'static str {
        match self {
            Self::Truncation => "emptying of files",
            Self::Network => "TCP",
            Self::Devices => "commands to devices",
            Self::Processes => "signals to other processes",
        }
    }
}

/// What is missing and which Linux has it all; `None` if nothing is missing.
pub(crate) fn missing_in_words(missing: &[Missing]) -> Option<String> {
    let newest = missing.last()?;
    let what: Vec<&str> = missing.iter().map(|missing| missing.what()).collect();
    Some(format!(
        "{} (Linux {} can)",
        what.join(", "),
        newest.linux()
    ))
}

/// Asks the kernel. This changes nothing.
#[must_use]
pub fn support() -> Support {
    super::landlock::probe()
}

#[cfg(test)]
mod tests {
    use offshoot_tool_api::SandboxMode;

    use super::super::policy::Partial;
    use super::*;

    #[test]
    fn what_is_missing_depends_on_the_kernel_and_on_what_is_asked() {
        let mut policy = SandboxPolicy {
            mode: SandboxMode::ReadOnly,
            writable: Vec::new(),
            network: Network::Refused,
            partial: Partial::Report,
        };
        let missing = |abi, policy: &SandboxPolicy| {
            let missing = Support::Landlock { abi }.missing_for(policy);
            missing_in_words(&missing)
        };
        assert_eq!(
            missing(2, &policy).as_deref(),
            Some(
                "emptying of files, TCP, commands to devices, signals to other processes (Linux 6.12 can)"
            )
        );
        assert_eq!(
            missing(5, &policy).as_deref(),
            Some("signals to other processes (Linux 6.12 can)")
        );
        assert_eq!(missing(6, &policy), None);
        policy.network = Network::Allowed;
        assert_eq!(
            missing(3, &policy).as_deref(),
            Some("commands to devices, signals to other processes (Linux 6.12 can)")
        );
    }

    #[test]
    fn a_person_reads_what_a_system_has() {
        assert_eq!(Support::Landlock { abi: 7 }.to_string(), "Landlock ABI 7");
        assert_eq!(
            Support::Landlock { abi: 4 }.to_string(),
            "Landlock ABI 4, which cannot refuse commands to devices, signals to other processes (Linux 6.12 can)"
        );
        let none = Support::Unavailable {
            reason: "no such thing".to_owned(),
        };
        assert_eq!(none.to_string(), "not available: no such thing");
        assert!(!none.network());
    }
}
