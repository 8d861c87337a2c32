//! What a person is told of side sessions: what one knows, and what it may not do.

use offshoot_agent::{SideSession, is_side};
use offshoot_session::{LiveSession, SessionId};

use crate::changes;
use crate::notes::Notes;
use crate::text;

/// Where a side session begins, what it lacks, and what it has to reckon with.
pub(crate) fn told(side: &SideSession) -> Vec<String> {
    let header = side.attached.session().header();
    let parent = header.parent.as_ref().map_or("", SessionId::as_str);
    let parent = text::shorten(parent);
    let begins = match side.cut {
        Some(cut) => format!("a side session of {parent}, cut at event {cut}"),
        None => format!(
            "a side session of {parent}, in which no turn has been completed: it starts from nothing"
        ),
    };
    let mut told = vec![format!(
        "{begins}; it explains, and its tools may only look"
    )];
    if !side.is_new {
        told.push("it was there already, and is gone on with".to_owned());
    }
    if side.summarised {
        told.push(format!(
            "{parent} was compacted: the side session has summaries in place of the turns that they stand for"
        ));
    }
    told.extend(changes::told(&side.changed, false));
    told
}

/// Says of a session that somebody goes on with that it is a side session, if it is one.
pub(crate) fn remind(session: &LiveSession, notes: Notes) {
    if is_side(&session.log()) {
        notes.say(&format!(
            "note: this is a side session: it explains, and its tools may only look; this ends that: offshoot promote {}",
            text::quoted(session.id().as_str())
        ));
    }
}
