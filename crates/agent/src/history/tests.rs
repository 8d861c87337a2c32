//! Folds that follow logs say what those say that see them for the first time.

use offshoot_session::{EventDraft, EventKind, LogOffset, SurfaceOp};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::reconstruct::{Reconstruction, verify_request};

/// What happens to one of several logs.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Happens {
    /// Somebody says something, with a picture.
    Question,
    /// Something is said on behalf of this source.
    Told(&'static str, u8),
    /// The model answers; without words nobody sees it.
    Answer { silent: bool },
    /// One message takes the place of some, from this place on.
    Replace(usize, usize),
    /// The picture of a message is taken out.
    Offload(usize),
    /// Another configuration.
    Header,
    /// A log of its own begins at this many thousandths of the log.
    Fork(u64),
    /// Another log is looked at.
    Switch(usize),
}

pub(crate) fn happens() -> impl Strategy<Value = Happens> {
    prop_oneof![
        3 => Just(Happens::Question),
        2 => (prop_oneof![Just("runtime-context"), Just("agent-instructions")], 0..3_u8)
            .prop_map(|(source, what)| Happens::Told(source, what)),
        3 => any::<bool>().prop_map(|silent| Happens::Answer { silent }),
        1 => (any::<usize>(), 0..3_usize).prop_map(|(from, more)| Happens::Replace(from, more)),
        1 => any::<usize>().prop_map(Happens::Offload),
        1 => Just(Happens::Header),
        1 => (0..=1000_u64).prop_map(Happens::Fork),
        1 => any::<usize>().prop_map(Happens::Switch),
    ]
}

/// Several logs, of which one is looked at.
pub(crate) struct Logs {
    all: Vec<EventLog>,
    at: usize,
}

impl Logs {
    pub(crate) fn new() -> Self {
        let mut log = EventLog::new();
        header(&mut log);
        let (all, at) = (vec![log], 0);
        Self { all, at }
    }

    pub(crate) fn log(&self) -> &EventLog {
        &self.all[self.at]
    }

    pub(crate) fn happen(&mut self, what: Happens) {
        let count = self.all.len();
        let log = &mut self.all[self.at];
        let nodes: Vec<Seq> = log.surface().nodes().collect();
        match what {
            Happens::Question => {
                let picture = json!({"type": "image", "attachment": {
                    "attachmentId": "sha256:01", "mediaType": "image/png", "bytes": 7, "width": 1, "height": 1,
                }});
                let message = said(log, json!([picture]), json!({"kind": "user"}));
                add(
                    log,
                    EventKind::UserMessage,
                    &message,
                    Some(SurfaceOp::Append),
                    &[],
                );
            }
            Happens::Told(kind, what) => {
                let source = match (kind, what) {
                    (_, 0) => json!({"kind": kind, "form": "snapshot"}),
                    ("runtime-context", _) => {
                        json!({"kind": kind, "form": "snapshot", "sections": [
                            {"name": "mood", "text": format!("{what}")},
                        ]})
                    }
                    _ => json!({"kind": kind, "form": "instructions", "changes": [
                        {"action": "set", "scope": format!("{what}"), "path": "AGENTS.md", "digest": format!("{}", log.end())},
                    ]}),
                };
                let message = said(log, json!([{"type": "text", "text": "So."}]), source);
                add(
                    log,
                    EventKind::UserMessage,
                    &message,
                    Some(SurfaceOp::Append),
                    &[],
                );
            }
            Happens::Answer { silent } => {
                let content = if silent {
                    json!([])
                } else {
                    json!([{"type": "text", "text": "Well."}])
                };
                let source = json!({"kind": "model", "provider": "p", "model": "m"});
                let mut message = said(log, content, source);
                message["role"] = "assistant".into();
                let data = json!({"turn": 1, "step": 1, "stream": [], "message": message});
                add(
                    log,
                    EventKind::AssistantMessage,
                    &data,
                    Some(SurfaceOp::Append),
                    &[],
                );
            }
            Happens::Replace(from, more) => {
                if nodes.is_empty() {
                    return;
                }
                let gone = &nodes[from % nodes.len()..];
                let gone = &gone[..gone.len().min(more + 1)];
                let op = SurfaceOp::Replace {
                    start: gone[0],
                    end: gone[gone.len() - 1],
                };
                let message = said(
                    log,
                    json!([{"type": "text", "text": "In short."}]),
                    json!({"kind": "user"}),
                );
                add(log, EventKind::UserMessage, &message, Some(op), gone);
            }
            Happens::Offload(place) => {
                if let Some(seq) = nodes.get(place % nodes.len().max(1)) {
                    let data = json!({"targets": [{"seq": seq.get(), "imageIndexes": [0]}]});
                    add(log, EventKind::ImageOffload, &data, None, &[]);
                }
            }
            Happens::Header => header(log),
            Happens::Fork(thousandths) => {
                let cut = (log.end().get() * thousandths).div_ceil(1000).max(1);
                let fork = log.prefix(LogOffset::new(cut));
                self.all.push(fork);
                self.at = count;
            }
            Happens::Switch(to) => self.at = to % count,
        }
    }
}

fn said(log: &EventLog, content: Value, source: Value) -> Value {
    let id = format!("m-{}", log.end());
    json!({"id": id, "role": "user", "content": content, "source": source})
}

fn header(log: &mut EventLog) {
    let config = json!({"provider": "p", "model": format!("m-{}", log.end())});
    let data = json!({"header": {"config": config}, "reason": "change"});
    add(log, EventKind::RequestHeader, &data, None, &[]);
}

fn add(log: &mut EventLog, kind: EventKind, data: &Value, op: Option<SurfaceOp>, cited: &[Seq]) {
    let mut draft = EventDraft::log_only(kind, data).unwrap();
    if let Some(op) = op {
        draft = draft.with_surface_op(op);
    }
    if !cited.is_empty() {
        draft = draft.with_sources(cited);
    }
    let event = draft.dated(log.end().seq(), 0).unwrap();
    log.push(event).unwrap();
}

fn ask(history: &mut History, log: &EventLog) -> ModelRequest {
    history.request(log, &SessionId::new("s")).unwrap()
}

proptest! {
    #[test]
    fn a_request_is_a_function_of_the_log_whatever_was_asked_before(script in prop::collection::vec((happens(), any::<bool>()), 1..60)) {
        let mut logs = Logs::new();
        let mut history = History::default();
        for (what, asked) in script {
            logs.happen(what);
            // Not after every event, as a driver asks once a step.
            if !asked {
                continue;
            }
            let log = logs.log();
            let request = ask(&mut history, log);
            prop_assert_eq!(&request, &ask(&mut History::default(), log));
            let mut rebuilt = Reconstruction::new();
            for event in log.events() {
                rebuilt.push(event.text()).unwrap();
            }
            prop_assert_eq!(verify_request(&request, &rebuilt, &SessionId::new("s")), Ok(()));
        }
    }
}

#[test]
fn a_request_shares_what_it_has_in_common_with_the_one_before_until_that_is_rewritten() {
    let mut logs = Logs::new();
    let mut history = History::default();
    let shared = |before: &ModelRequest, after: &ModelRequest| {
        let pairs = before.messages.iter().zip(&after.messages);
        pairs.filter(|(a, b)| Arc::ptr_eq(a, b)).count()
    };
    for _ in 0..3 {
        logs.happen(Happens::Question);
        logs.happen(Happens::Answer { silent: false });
    }
    let first = ask(&mut history, logs.log());
    logs.happen(Happens::Question);
    logs.happen(Happens::Header);
    let second = ask(&mut history, logs.log());
    assert_eq!((first.messages.len(), second.messages.len()), (6, 7));
    assert_eq!(shared(&first, &second), 6);
    logs.happen(Happens::Replace(1, 1));
    let third = ask(&mut history, logs.log());
    assert_eq!((third.messages.len(), shared(&second, &third)), (6, 0));
}

#[test]
fn a_message_that_cannot_be_sent_is_told_each_time_and_spoils_nothing() {
    let mut logs = Logs::new();
    let mut history = History::default();
    logs.happen(Happens::Question);
    assert_eq!(ask(&mut history, logs.log()).messages.len(), 1);
    // It is read before the other one fails.
    logs.happen(Happens::Question);
    let sound = logs.log().clone();
    let log = &mut logs.all[0];
    let mut message = said(log, json!([{"type": "text"}]), json!({"kind": "user"}));
    add(
        log,
        EventKind::UserMessage,
        &message,
        Some(SurfaceOp::Append),
        &[],
    );
    let session = SessionId::new("s");
    let refused = history.request(log, &session).unwrap_err();
    assert_eq!(refused.code(), "UNSENDABLE_MESSAGE");
    assert_eq!(history.request(log, &session), Err(refused));
    let fresh = ask(&mut History::default(), &sound);
    assert_eq!(ask(&mut history, &sound), fresh);
    // Whoever replaces it goes on.
    let seq = log.end().last().unwrap();
    message = said(
        log,
        json!([{"type": "text", "text": "So."}]),
        json!({"kind": "user"}),
    );
    let op = SurfaceOp::Replace {
        start: seq,
        end: seq,
    };
    add(log, EventKind::UserMessage, &message, Some(op), &[seq]);
    assert_eq!(ask(&mut history, log).messages.len(), 3);
}
