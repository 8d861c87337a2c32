//! Changes of the goal that early programs told the model in a message, and kept nowhere else.

use crate::json::{Members, Node};
use crate::record::{Record, Refusal};

const OPENING: &str = "<goal_state>";
const CLOSING: &str = "</goal_state>";

/// The change as an event of its own, and the payload of the message that stays; `None` if the record holds no change.
///
/// # Errors
/// A message that says it is such a change and does not have its form.
pub(super) fn split(record: &Record) -> Result<Option<(Record, Box<str>)>, Refusal> {
    // A look at the text spares most messages the reading.
    if !record.is("user/message") || !record.data.contains(r#""change""#) {
        return Ok(None);
    }
    let mut members = record.members()?;
    let Some(source) = members.get("source") else {
        return Ok(None);
    };
    let is_start = source.get("round").and_then(|round| round.count()) == Some(0);
    let Some(change) = source.get("change").filter(|_| is_start) else {
        return Ok(None);
    };
    if !source.names("kind", "goal") {
        return Ok(None);
    }
    let bad = |reason: &str| record.unsupported(format!("a change of the goal: {reason}"));
    let stated = members.get("content").and_then(stated).ok_or_else(|| {
        bad("expected one text block with `<goal_state>`, JSON, and `</goal_state>`")
    })?;
    // Where the source only names the operation, the whole change is in the text.
    let stated = match change.is_object() {
        true => change.json(),
        false => &*stated,
    };
    let payload = Members::of(Node::new(stated)).ok_or_else(|| bad("expected an object"))?;
    if !payload
        .get("kind")
        .is_some_and(|kind| kind.is("goal/change"))
    {
        return Err(bad("expected the `kind` goal/change"));
    }
    let change = Record::beside(record, "goal/change", payload.render());
    members.set("source", r#"{"kind":"plugin","plugin":"goal"}"#);
    Ok(Some((change, members.render().into())))
}

/// The JSON text within the only block.
fn stated(content: Node<'_>) -> Option<String> {
    let blocks = content.items();
    let [block] = &*blocks else {
        return None;
    };
    let text = block.get("text").filter(|_| block.names("type", "text"))?;
    let text = text.text()?;
    let json = text.strip_prefix(OPENING)?.strip_suffix(CLOSING)?.trim();
    Node::new(json).is_object().then(|| json.to_owned())
}
