//! Observers that do not admit an event.

use std::sync::{Arc, Mutex};

use offshoot_session::{Event, EventDraft, EventKind, LogError, Session, SessionObserver, StepRef};
use serde_json::json;

use crate::listener::fact;
use crate::support::{header, seq};

/// Writes down what it is asked and told, and refuses events of one kind.
struct Doorkeeper {
    name: &'static str,
    refuses: Option<EventKind>,
    heard: Arc<Mutex<Vec<String>>>,
}

impl Doorkeeper {
    fn hear(&self, what: &str, event: &Event) {
        let line = format!("{} {what} {} {}", self.name, event.seq(), event.kind());
        self.heard.lock().unwrap().push(line);
    }
}

impl SessionObserver for Doorkeeper {
    fn admit(&mut self, event: &Event) -> Result<(), String> {
        self.hear("asked", event);
        if self.refuses.as_ref() == Some(event.kind()) {
            return Err("not this".to_owned());
        }
        Ok(())
    }

    fn event(&mut self, event: &Arc<Event>) -> Result<(), String> {
        self.hear("told", event);
        Ok(())
    }
}

#[test]
fn an_event_is_asked_about_before_it_is_in_the_log_and_one_refusal_is_enough() {
    let heard: Arc<Mutex<Vec<String>>> = Arc::default();
    let mut session = Session::new(header("s")).unwrap();
    for (name, refuses) in [("a", None), ("b", Some(EventKind::TurnStart)), ("c", None)] {
        session.observe(Box::new(Doorkeeper {
            name,
            refuses,
            heard: Arc::clone(&heard),
        }));
    }
    session.append(fact(), 1).unwrap();
    let turn = EventDraft::log_only(EventKind::TurnStart, &json!({"turn": 1})).unwrap();
    let refused = session.append(turn, 2).unwrap_err();
    assert_eq!(
        refused,
        LogError::Refused {
            seq: seq(1),
            reason: "not this".to_owned(),
        }
    );
    assert_eq!(refused.code(), "EVENT_REFUSED");
    assert_eq!(refused.to_string(), "event 1 was refused: not this");
    assert_eq!(session.log().end().get(), 1);
    assert_eq!(session.log().open_tail().turn(), None);
    assert_eq!(
        *heard.lock().unwrap(),
        [
            "a asked 0 feedback/record",
            "b asked 0 feedback/record",
            "c asked 0 feedback/record",
            "a told 0 feedback/record",
            "b told 0 feedback/record",
            "c told 0 feedback/record",
            "a asked 1 turn/start",
            "b asked 1 turn/start",
        ]
    );
    // The seq is free for the next event.
    assert_eq!(session.append(fact(), 3).unwrap().seq(), seq(1));
}

#[test]
fn also_the_answers_to_pending_calls_are_asked_about() {
    let heard = Arc::default();
    let mut session = Session::new(header("s")).unwrap();
    let at = StepRef { turn: 1, step: 1 };
    let message = json!({
        "id": "m", "role": "assistant",
        "source": {"kind": "model", "provider": "p", "model": "m"},
        "content": [{"type": "tool-call", "id": "c", "name": "look", "arguments": "{}"}],
    });
    for draft in [
        EventDraft::log_only(EventKind::TurnStart, &json!({"turn": 1})),
        EventDraft::log_only(EventKind::StepStart, &at),
        EventDraft::message(
            EventKind::AssistantMessage,
            &json!({"turn": 1, "step": 1, "message": message, "stream": []}),
        ),
    ] {
        session.append(draft.unwrap(), 1).unwrap();
    }
    session.observe(Box::new(Doorkeeper {
        name: "a",
        refuses: Some(EventKind::ToolResult),
        heard,
    }));
    let refused = session.answer_pending(2).unwrap_err();
    assert_eq!(refused.code(), "EVENT_REFUSED");
    assert_eq!(session.log().open_tail().pending().len(), 1);
}
