//! The order in which the model sees the tools (`reference/agent.md` §1.8).
//!
//! It is part of what providers cache, so it does not depend on who registered which tool first.

use offshoot_model::{Failure, ToolSpec};
use offshoot_tool_api::ToolRegistry;

use crate::events::one_line;

/// Stands for all tools that are not named.
const REST: &str = "*";

/// The stable code of an order that cannot be followed.
const INVALID_TOOL_ORDER: &str = "INVALID_TOOL_ORDER";

/// The tools in their order: by name, unless `order` names some of them.
///
/// # Errors
/// `INVALID_TOOL_ORDER`: a name that no tool has, or one that stands there twice.
pub(crate) fn ordered(
    tools: &ToolRegistry,
    order: Option<&[String]>,
) -> Result<Vec<ToolSpec>, Failure> {
    let mut rest: Vec<_> = tools.specs().collect();
    rest.sort_by(|a, b| a.name.cmp(&b.name));
    let order = order.unwrap_or_default();
    let mut first = Vec::new();
    let mut last = Vec::new();
    let mut seen_rest = false;
    for (at, name) in order.iter().enumerate() {
        let refused = |problem: &str| {
            let message = format!("the tool order names `{name}`, {problem}");
            Err(Failure::new(INVALID_TOOL_ORDER, message))
        };
        if order[..at].contains(name) {
            return refused("which stands there twice");
        }
        if name == REST {
            seen_rest = true;
            continue;
        }
        let Some(found) = rest.iter().position(|spec| spec.name == *name) else {
            return refused("and there is no such tool");
        };
        let named = rest.remove(found);
        if seen_rest {
            last.push(named);
        } else {
            first.push(named);
        }
    }
    let all = first.into_iter().chain(rest).chain(last);
    Ok(all
        .map(|spec| ToolSpec {
            name: spec.name.clone(),
            description: spec.description.clone(),
            parameters: one_line(spec.parameters.clone()).into(),
            defer_loading: None,
        })
        .collect())
}
