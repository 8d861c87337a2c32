//! What the model of a side session is told, and by which message.
//!
//! The messages have the source kind `sidechat`; their member `act` says which one it is.

use offshoot_model::{ContentBlock, MessageSource};
use offshoot_session::{EventKind, Session, SideMark};
use serde::Serialize;

use super::Framing;
use crate::AgentError;
use crate::events::{row_text, shown};
use crate::inbox;
use crate::input::Input;

const FRAMED: &str = "\
You are in a side session now. It was branched off from the conversation above, which goes on elsewhere without you and does \
not see what is said here.

Somebody wants to understand something about it. Explain, compare, look things up, and say what you think. Do not act, and \
do not go on with the task of that conversation: what you did or planned there is its business.

Only tools that look at things run here, such as those that read, search and fetch. A call of any other tool is refused, and \
nobody can give permission for it. Where something should be changed, say what and how.

When you are asked for a handback, write in a few sentences what that conversation should know.";

const FRAMED_ALONE: &str = "\
You are in a side session. It belongs to another conversation, in which nothing had been completed yet when this one began, \
so you know nothing of it. That one goes on elsewhere and does not see what is said here.

Somebody wants to understand something. Explain, compare, look things up, and say what you think. Do not act.

Only tools that look at things run here, such as those that read, search and fetch. A call of any other tool is refused, and \
nobody can give permission for it. Where something should be changed, say what and how.

When you are asked for a handback, write in a few sentences what that conversation should know.";

const PROMOTED: &str = "\
This is no longer a side session: it goes on as a conversation of its own. You may act again, with all of your tools, within \
the limits that hold here. The conversation that it was branched off from has gone on meanwhile, so look at files again \
before you rely on what you remember of them.";

/// The source of a message about a side session.
#[derive(Serialize)]
struct Source {
    kind: &'static str,
    form: &'static str,
    summary: &'static str,
    act: &'static str,
}

/// Tells the model of a session without own messages that it is in a side session: at once, or, if there is no system
/// prompt yet, in the first step.
pub(super) fn frame(session: &mut Session, id: String, now: i64) -> Result<Framing, AgentError> {
    if session.log().surface().is_empty() {
        let framing = message(id, SideMark::Framing, FRAMED_ALONE);
        inbox::queue(session, &framing.kept(), now)?;
        return Ok(Framing::Waiting);
    }
    let framing = message(id, SideMark::Framing, FRAMED);
    let event = session.append(shown(EventKind::UserMessage, &framing.raw()), now)?;
    Ok(Framing::Logged(event.seq()))
}

/// The message that makes an ordinary session of a side session.
pub(super) fn promotion(id: String) -> Input {
    message(id, SideMark::Promote, PROMOTED)
}

fn message(id: String, mark: SideMark, text: &str) -> Input {
    let summary = match mark {
        SideMark::Framing => "Side session: explains and does not act",
        SideMark::Promote => "No longer a side session",
    };
    let source = Source {
        kind: SideMark::SOURCE,
        form: "notice",
        summary,
        act: mark.act(),
    };
    let source: MessageSource =
        serde_json::from_str(row_text(&source).get()).expect("BUG: a source has a kind");
    Input::blocks(id, vec![ContentBlock::text(text)], source)
}
