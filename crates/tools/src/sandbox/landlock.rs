//! The policy as Landlock rules.

use std::io;

use landlock::{
    ABI, Access, AccessFs, AccessNet, BitFlags, CompatLevel, Compatible, LandlockStatus,
    PathBeneath, PathFd, PathFdError, RestrictSelf, Ruleset, RulesetAttr, RulesetCreatedAttr,
    RulesetStatus, Scope, make_bitflags,
};

use rustix::thread::{CapabilitySet, CapabilitySets, capabilities, set_capabilities};

use super::policy::{Network, SandboxPolicy};
use super::support::Support;

/// The newest interface whose effects are known from tests.
const TESTED: ABI = ABI::V7;

/// What programs write to without meaning to change anything.
const DEVICES: [&str; 5] = [
    "/dev/null",
    "/dev/zero",
    "/dev/full",
    "/dev/random",
    "/dev/urandom",
];

pub(super) fn probe() -> Support {
    // The library tells the status only with a restriction; this one is empty, so nothing is restricted.
    match RestrictSelf::default().no_new_privs(false).apply() {
        Ok(status) => known(status.landlock),
        Err(error) => Support::Unavailable {
            reason: format!("the kernel does not tell whether it has Landlock: {error}"),
        },
    }
}

fn known(status: LandlockStatus) -> Support {
    let reason = match status {
        LandlockStatus::Available { effective_abi, .. } => {
            return Support::Landlock {
                abi: effective_abi as u32,
            };
        }
        LandlockStatus::NotEnabled => {
            "Landlock is switched off in this kernel; add `landlock` to `lsm=` on its command line"
        }
        LandlockStatus::NotImplemented => {
            "this kernel has no Landlock, or a container hides it; it needs Linux 5.13 or newer"
        }
    };
    Support::Unavailable {
        reason: reason.to_owned(),
    }
}

/// Puts the limits on this thread, for good. What it becomes or starts has them too.
pub(super) fn confine(policy: &SandboxPolicy) -> Result<Support, String> {
    let changes = AccessFs::from_write(TESTED);
    // A device node that root makes in the workspace would be a way to the disk itself.
    let in_roots = changes & !make_bitflags!(AccessFs::{MakeChar | MakeBlock | IoctlDev});
    let to_devices = make_bitflags!(AccessFs::{WriteFile | Truncate | IoctlDev});

    let restricted = (|| {
        let mut rules = Ruleset::default()
            .set_compatibility(CompatLevel::BestEffort)
            .handle_access(changes)?;
        if policy.network == Network::Refused {
            rules = rules.handle_access(AccessNet::from_all(TESTED))?;
        }
        let mut rules = rules.scope(Scope::from_all(TESTED))?.create()?;
        let devices = DEVICES.iter().map(|device| (device.as_ref(), to_devices));
        let roots = policy
            .writable
            .iter()
            .map(|root| (root.as_path(), in_roots));
        for (path, access) in devices.chain(roots) {
            if let Some(rule) = rule(path, access)? {
                rules = rules.add_rule(rule)?;
            }
        }
        let status = rules.restrict_self()?;
        Ok::<_, Box<dyn std::error::Error>>(status)
    })();
    let status = restricted.map_err(|error| error.to_string())?;
    give_up_powers().map_err(|error| format!("the powers of root cannot be given up: {error}"))?;
    let support = known(status.landlock);
    match status.ruleset {
        RulesetStatus::FullyEnforced | RulesetStatus::PartiallyEnforced if status.no_new_privs => {
            Ok(support)
        }
        _ => Err(match support {
            Support::Unavailable { reason } => reason,
            Support::Landlock { .. } => "the kernel did not accept the limits".to_owned(),
        }),
    }
}

/// Gives up what lets root look into processes and change the kernel, whatever Landlock says: `perf` rights alone open the
/// environment of every process, with the keys of the agent. With `no_new_privs`, no program gives them back. Root can
/// still work on files of others.
fn give_up_powers() -> rustix::io::Result<()> {
    const POWERS: CapabilitySet = CapabilitySet::SYS_ADMIN
        .union(CapabilitySet::SYS_PTRACE)
        .union(CapabilitySet::PERFMON)
        .union(CapabilitySet::BPF)
        .union(CapabilitySet::SYS_MODULE)
        .union(CapabilitySet::SYS_RAWIO);
    let CapabilitySets {
        effective,
        permitted,
        inheritable,
    } = capabilities(None)?;
    // Without rights of root there is nothing to give up.
    if !(effective | permitted | inheritable).intersects(POWERS) {
        return Ok(());
    }
    set_capabilities(
        None,
        CapabilitySets {
            effective: effective - POWERS,
            permitted: permitted - POWERS,
            inheritable: inheritable - POWERS,
        },
    )
}

/// `None` for what is not there. A root may be a file.
fn rule(
    path: &std::path::Path,
    access: BitFlags<AccessFs>,
) -> Result<Option<PathBeneath<PathFd>>, Box<dyn std::error::Error>> {
    match PathFd::new(path) {
        Ok(place) => Ok(Some(PathBeneath::new(place, access))),
        Err(PathFdError::OpenCall { source, .. }) if source.kind() == io::ErrorKind::NotFound => {
            Ok(None)
        }
        Err(error) => Err(error.into()),
    }
}
