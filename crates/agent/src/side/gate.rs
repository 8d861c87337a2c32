//! What a side session may do: look.
//!
//! The tools stay in sight of the model, so that a side session sends the same beginning of a request as its parent. What
//! counts is what a tool declares that it can do ([`Effects`]); whether it may run beside others says nothing about that.

use offshoot_session::EventLog;
use offshoot_tool_api::Effects;

use crate::hooks::ProposedCall;

/// Why a call does not run, if it is one that a side session may not make: it can change something, or hands work to an
/// agent which might.
///
/// What runs below a side session cannot act either, because nothing comes to run below one.
pub(crate) fn refusal(log: &EventLog, call: &ProposedCall<'_>) -> Option<String> {
    if !log.is_side_session() {
        return None;
    }
    let does = match call.effects {
        // A tool that does not exist does nothing, and the model is told so.
        None | Some(Effects::ReadOnly) => return None,
        Some(Effects::Mutating) => "can change things",
        Some(Effects::Delegating) => "hands work to another agent",
    };
    let tool = call.tool_name;
    Some(format!(
        "tool \"{tool}\" {does}, and a side session may only look: say what should be done instead"
    ))
}
