//! Side sessions of a test, and what has come of their notes.

use std::sync::Arc;

use offshoot_agent::{
    Agent, AgentSetup, Attached, HANDBACK_MAX_CHARS, Handback, OnSession, SideRequest,
};
use offshoot_model::{Attempt, ScriptModel};
use offshoot_session::{EventKind, EventLog, LiveSession, Seq};

use crate::bench::{Bench, script};
use crate::support::{data, says};
use crate::transcripts::acceptable_requests;

/// A model that answers `One.` at first, and then this.
pub(crate) fn one_and(attempts: Vec<Attempt>) -> Arc<ScriptModel> {
    script([vec![says("One.")], attempts].concat())
}

/// An agent that has had its first turn.
pub(crate) async fn after_a_turn(bench: &Bench, setup: AgentSetup) -> Agent {
    let agent = Agent::new(bench.create(), setup);
    agent.followup("First.").unwrap();
    agent.when_idle().await;
    agent
}

/// A side session of what an agent is on.
pub(crate) async fn side_of<'a>(bench: &Bench, parent: impl Into<OnSession<'a>>) -> Attached {
    let request = SideRequest::default();
    let side = bench.service.side_of(parent, &request).await;
    side.unwrap().attached
}

/// A note of a side session.
pub(crate) fn note(child: &Attached, text: &str) -> Handback {
    let session = child.session();
    Handback::of(
        &session.header(),
        &session.log(),
        Some(text),
        HANDBACK_MAX_CHARS,
    )
    .unwrap()
}

/// Where the conversation says notes of side sessions.
pub(crate) fn notes(log: &EventLog) -> Vec<Seq> {
    let said = log
        .events()
        .filter(|event| *event.kind() == EventKind::UserMessage);
    said.filter(|event| data(event)["source"]["act"] == "handback")
        .map(|event| event.seq())
        .collect()
}

/// Exactly one note was said, and every request from then on has it once; no provider refuses any of them. Returns where it
/// was said.
pub(crate) fn said_once(session: &LiveSession, text: &str) -> Seq {
    let log = session.log();
    let said = notes(&log);
    assert_eq!(said.len(), 1, "{}", crate::outline::outline(&log));
    let requests = acceptable_requests(&log, session.id());
    let counts = requests.iter().map(|request| {
        let told = request.messages.iter();
        told.filter(|message| format!("{:?}", message.content).contains(text))
            .count()
    });
    let counts: Vec<usize> = counts.collect();
    let first = counts.iter().position(|count| *count > 0);
    let first =
        first.unwrap_or_else(|| panic!("no request has it:\n{}", crate::outline::outline(&log)));
    assert!(
        counts[first..].iter().all(|count| *count == 1),
        "{counts:?}"
    );
    said[0]
}
