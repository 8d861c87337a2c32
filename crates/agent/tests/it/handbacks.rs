//! What a side session hands back: what the note is, what it is known by, and when there is none.

use std::sync::Arc;

use offshoot_agent::{
    Agent, HANDBACK_MAX_CHARS, Handback, InboxTarget, Promoted, SideError, SideRequest, Wake,
    handback_request,
};
use offshoot_model::{Attempt, ContentBlock, FinishReason, ScriptModel};
use offshoot_session::{LiveSession, SessionId};
use serde_json::Value;

use crate::bench::{Bench, script};
use crate::beside::{after_a_turn, one_and, side_of};
use crate::support::{answers, calls, says};

fn of(session: &LiveSession, note: Option<&str>) -> Result<Handback, SideError> {
    let (header, log) = (session.header(), session.log());
    Handback::of(&header, &log, note, HANDBACK_MAX_CHARS)
}

fn code(refused: Result<Handback, SideError>) -> &'static str {
    refused.unwrap_err().code()
}

/// An agent on a side session of a conversation that has had a turn, with these answers to come.
async fn side_agent(bench: &Bench, attempts: Vec<Attempt>) -> (Agent, Agent) {
    let parent = after_a_turn(bench, bench.setup(one_and(Vec::new()))).await;
    let attached = side_of(bench, &parent).await;
    let child = Agent::new(attached, bench.setup(script(attempts)));
    (parent, child)
}

async fn asked(agent: &Agent, prompt: &str) {
    agent.followup(prompt).unwrap();
    agent.when_idle().await;
}

#[tokio::test]
async fn without_a_note_it_is_the_text_of_the_last_answer_of_the_side_session_itself() {
    let bench = Bench::new();
    let blocks = vec![
        ContentBlock::Reasoning { text: "Hm.".into() },
        ContentBlock::text(" It is the cache."),
        ContentBlock::text("Look at its keys. \n"),
    ];
    let attempts = vec![
        answers(blocks, FinishReason::Stop),
        calls([("a", "look", "{}")]),
        Attempt::Hang { chunks: Vec::new() },
    ];
    let (parent, child) = side_agent(&bench, attempts).await;
    // What the parent has said is no news to it.
    assert_eq!(code(of(child.session(), None)), "HANDBACK_EMPTY");
    asked(&child, "Why is it slow?").await;
    let handback = of(child.session(), None).unwrap();
    assert_eq!(handback.text(), "It is the cache.\n\nLook at its keys.");
    assert_eq!(handback.parent(), parent.session().id());
    assert_eq!(handback.child(), child.session().id());
    let inherited = child.session().log().inherited_marker().unwrap();
    assert_eq!(handback.cut(), inherited.before().last());
    // An answer without a text is none, nor is one that is still coming in.
    child.followup("Look again.").unwrap();
    while child.live_answer().is_none_or(|answer| answer.at.step < 2) {
        tokio::task::yield_now().await;
    }
    assert_eq!(of(child.session(), None), Ok(handback));
}

#[tokio::test]
async fn a_side_session_that_is_asked_for_its_handback_answers_with_it() {
    let bench = Bench::new();
    let attempts = vec![says("It is slow."), says("Keys are not hashed.")];
    let (_parent, child) = side_agent(&bench, attempts).await;
    asked(&child, "Why is it slow?").await;
    let request = handback_request("ask-1", 500);
    child
        .send(&request, InboxTarget::NextTurn, Wake::Yes)
        .unwrap();
    child.when_idle().await;
    let handback = of(child.session(), None).unwrap();
    assert_eq!(handback.text(), "Keys are not hashed.");
    assert!(child.session().log().is_side_session());
    let request: Value = serde_json::from_str(request.json()).unwrap();
    insta::assert_snapshot!(request["source"], @r#"
    {"kind":"sidechat","form":"notice","summary":"Asks for the note that goes back","act":"ask"}
    "#);
    insta::assert_snapshot!(request["content"][0]["text"].as_str().unwrap(), @r#"
    Write the note that goes back from here to the conversation that this one was branched off from. Say what has come out of this side session that matters there: findings, decisions, names of files, open questions. Whoever reads it has seen nothing of this side session. Use at most 500 characters of plain text. Your whole answer is the note: no greeting, no heading, and no tool calls.
    "#);
}

#[tokio::test]
async fn the_parent_reads_who_hands_it_back_and_the_source_has_the_rest() {
    let bench = Bench::new();
    let (parent, child) = side_agent(&bench, vec![says("It is the cache.")]).await;
    asked(&child, "Why?").await;
    let handback = of(child.session(), None).unwrap().with_id("first");
    assert_eq!(handback.id(), "first");
    bench.service.merge(&handback).await.unwrap();
    let pending = parent.pending().unwrap().next_step;
    assert!(pending[0].is_kept());
    let message: Value = serde_json::from_str(pending[0].json()).unwrap();
    insta::assert_snapshot!(serde_json::to_string_pretty(&message).unwrap(), @r#"
    {
      "id": "handback:session-id-5:first",
      "role": "user",
      "content": [
        {
          "type": "text",
          "text": "A note from the side session `session-id-5` of this conversation:\n\nIt is the cache."
        }
      ],
      "source": {
        "kind": "sidechat",
        "form": "notice",
        "summary": "Note from a side session",
        "act": "handback",
        "sessionId": "session-id-5",
        "cut": 12,
        "handbackId": "first",
        "kept": true
      }
    }
    "#);
}

#[tokio::test]
async fn the_same_request_is_the_same_handback_until_the_side_session_goes_on() {
    let bench = Bench::new();
    let answers = vec![says("The cache."), says("The cache.")];
    let (_parent, child) = side_agent(&bench, answers).await;
    asked(&child, "Why?").await;
    let first = of(child.session(), None).unwrap();
    assert_eq!(of(child.session(), None).as_ref(), Ok(&first));
    // However it is asked for, and whatever happens to the session that is no answer.
    child.rename("Why it is slow").unwrap();
    let (header, log) = (child.session().header(), child.session().log());
    let shorter = Handback::of(&header, &log, Some(" The cache.\n"), 5).unwrap();
    assert_eq!((shorter.id(), shorter.text()), (first.id(), "The…"));
    let other = of(child.session(), Some("Not the cache.")).unwrap();
    assert_ne!(other.id(), first.id());
    asked(&child, "Still?").await;
    let later = of(child.session(), None).unwrap();
    assert_eq!(later.text(), first.text());
    assert_ne!(later.id(), first.id());
}

#[tokio::test]
async fn a_handback_is_of_one_side_session_whatever_id_a_caller_gives_it() {
    let bench = Bench::new();
    let parent = after_a_turn(&bench, bench.setup(one_and(Vec::new()))).await;
    for _ in 0..2 {
        let child = side_of(&bench, &parent).await;
        let handback = of(child.session(), Some("Done.")).unwrap().with_id("1");
        bench.service.merge(&handback).await.unwrap();
    }
    assert_eq!(parent.pending().unwrap().next_step.len(), 2);
}

#[tokio::test]
async fn handbacks_of_two_side_sessions_are_two_however_the_ids_look() {
    let bench = Bench::new();
    let parent = after_a_turn(&bench, bench.setup(one_and(Vec::new()))).await;
    for (child, id) in [("a", "b:1"), ("a:b", "1"), ("a%3Ab", "1")] {
        let request = SideRequest {
            at: None,
            child: Some(child.into()),
        };
        let side = bench.service.side_of(&parent, &request).await.unwrap();
        let handback = of(side.attached.session(), Some("Done.")).unwrap();
        bench.service.merge(&handback.with_id(id)).await.unwrap();
    }
    assert_eq!(parent.pending().unwrap().next_step.len(), 3);
}

#[tokio::test]
async fn a_note_without_text_is_refused_and_so_is_one_without_room() {
    let bench = Bench::new();
    let (_parent, child) = side_agent(&bench, Vec::new()).await;
    for blank in ["", " \n\t"] {
        assert_eq!(code(of(child.session(), Some(blank))), "HANDBACK_EMPTY");
    }
    let (header, log) = (child.session().header(), child.session().log());
    assert_eq!(
        code(Handback::of(&header, &log, Some("No."), 0)),
        "HANDBACK_EMPTY"
    );
    let refused = of(child.session(), None).unwrap_err();
    insta::assert_snapshot!(format!("{refused}\nhint: {}", refused.hint().unwrap()), @r#"
    the handback of side session `session-id-5` would be empty
    hint: say what to bring back, or ask the side session something first
    "#);
}

#[tokio::test]
async fn what_is_no_side_session_hands_nothing_back() {
    let bench = Bench::new();
    let (parent, child) = side_agent(&bench, vec![says("Yes.")]).await;
    let fork = bench.service.prepare_fork_of(&parent, None, None).await;
    let fork = bench.service.store_fork(&fork.unwrap()).unwrap();
    for session in [parent.session(), fork.session()] {
        assert_eq!(code(of(session, Some("Hi."))), "NOT_A_SIDE_SESSION");
    }
    // Nor does it once it is promoted.
    of(child.session(), Some("Hi.")).unwrap();
    let promoted = bench.service.promote(child.session().id()).unwrap();
    assert!(matches!(promoted, Promoted::Logged { .. }));
    assert_eq!(code(of(child.session(), Some("Hi."))), "NOT_A_SIDE_SESSION");
    // A parent that has received a note is none either.
    let side = side_of(&bench, &parent).await;
    let handback = of(side.session(), Some("Hi.")).unwrap();
    bench.service.merge(&handback).await.unwrap();
    assert_eq!(
        code(of(parent.session(), Some("Hi."))),
        "NOT_A_SIDE_SESSION"
    );
}

#[tokio::test]
async fn one_that_began_with_nothing_has_no_cut_and_may_hand_back_before_it_is_told_what_it_is() {
    let bench = Bench::new();
    let parent = bench.running(script(Vec::new()));
    let request = SideRequest::default();
    let side = bench.service.side_of(&parent, &request).await.unwrap();
    let handback = of(side.attached.session(), Some("Hi.")).unwrap();
    assert_eq!((side.cut, handback.cut()), (None, None));
    bench.service.merge(&handback).await.unwrap();
    let waiting = parent.pending().unwrap().next_step;
    let message: Value = serde_json::from_str(waiting[0].json()).unwrap();
    assert_eq!(message["source"].get("cut"), None);
    // So that the parent, of which nothing else was ever stored, is a conversation.
    parent.dispose().await.unwrap();
}

#[tokio::test]
async fn a_foreign_side_session_and_one_of_nobody_are_refused() {
    let bench = Bench::new();
    let (parent, child) = side_agent(&bench, Vec::new()).await;
    let handback = of(child.session(), Some("Hi.")).unwrap();
    let same = handback.clone().for_parent(parent.session().id());
    assert_eq!(same, Ok(handback.clone()));
    let other = SessionId::new("other");
    let refused = handback.for_parent(&other).unwrap_err();
    assert_eq!(refused.code(), "FOREIGN_CHILD");
    let expected = SideError::ForeignChild {
        child: child.session().id().clone(),
        parent: parent.session().id().clone(),
        asked: other,
    };
    assert_eq!(refused, expected);
    let (mut header, log) = (child.session().header(), child.session().log());
    header.parent = None;
    let refused = Handback::of(&header, &log, Some("Hi."), 9);
    assert_eq!(code(refused), "NO_PARENT");
}

/// A side session of a side session is one of the other, and not of what that was branched off from.
#[tokio::test]
async fn a_side_session_may_have_one_of_its_own() {
    let bench = Bench::new();
    let (_parent, child) = side_agent(&bench, vec![says("Yes.")]).await;
    asked(&child, "Is it?").await;
    let model: Arc<ScriptModel> = script(vec![says("Indeed.")]);
    let grandchild = Agent::new(side_of(&bench, &child).await, bench.setup(model));
    asked(&grandchild, "Is it really?").await;
    let handback = of(grandchild.session(), None).unwrap();
    assert_eq!(
        (handback.parent(), handback.text()),
        (child.session().id(), "Indeed.")
    );
    bench.service.merge(&handback).await.unwrap();
    assert_eq!(child.pending().unwrap().next_step.len(), 1);
    assert!(child.session().log().is_side_session());
}
