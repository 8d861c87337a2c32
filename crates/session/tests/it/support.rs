//! Small builders: rows written by hand, and a script that numbers and dates them.

use offshoot_session::{Event, EventLog, LogError, LogOffset, Seq, SessionHeader};
use serde_json::{Value, json};

/// A whole turn by hand: a step with two parallel calls (events 1 to 11), then a step that answers.
pub(crate) const TWO_CALLS: &str = include_str!("two_calls.jsonl");

pub(crate) fn seq(n: u64) -> Seq {
    Seq::new(n)
}

pub(crate) fn at(n: u64) -> LogOffset {
    LogOffset::new(n)
}

pub(crate) fn seqs(numbers: &[u64]) -> Vec<Seq> {
    numbers.iter().copied().map(Seq::new).collect()
}

pub(crate) fn event(row: &str) -> Event {
    Event::from_row(row).unwrap_or_else(|error| panic!("{error}: {row}"))
}

/// The log of events, every one validated.
pub(crate) fn replay(events: impl IntoIterator<Item = Event>) -> EventLog {
    let mut log = EventLog::new();
    for event in events {
        log.push(event).unwrap();
    }
    log
}

/// The first `len` events of [`TWO_CALLS`], read anew.
pub(crate) fn two_calls(len: usize) -> EventLog {
    replay(TWO_CALLS.lines().take(len).map(event))
}

pub(crate) fn rows(log: &EventLog) -> Vec<String> {
    log.events().map(|event| event.text().to_owned()).collect()
}

pub(crate) fn rows_from(log: &EventLog, from: u64) -> Vec<String> {
    log.events_from(at(from))
        .map(|event| event.text().to_owned())
        .collect()
}

pub(crate) fn texts<'a>(events: impl IntoIterator<Item = &'a Event>) -> Vec<&'a str> {
    events.into_iter().map(Event::text).collect()
}

pub(crate) fn surface(log: &EventLog) -> Vec<u64> {
    log.surface().nodes().map(Seq::get).collect()
}

pub(crate) fn header(id: &str) -> SessionHeader {
    SessionHeader::new(id.into(), 1)
}

pub(crate) fn seeded(id: &str) -> SessionHeader {
    SessionHeader {
        is_seeded: true,
        ..header(id)
    }
}

/// A log in the making: every event is numbered, and dated ten times its number.
#[derive(Clone, Default)]
pub(crate) struct Script {
    pub(crate) log: EventLog,
}

impl Script {
    pub(crate) fn new() -> Self {
        Self::default()
    }

    /// The row that `kind` with this data would be next; `rest` are further members with a leading comma.
    pub(crate) fn row(&self, kind: &str, data: &Value, rest: &str) -> String {
        let n = self.log.end().get();
        format!(
            r#"{{"type":"{kind}","seq":{n},"time":{},"data":{data}{rest}}}"#,
            n * 10
        )
    }

    pub(crate) fn attempt(&mut self, kind: &str, data: &Value, rest: &str) -> Result<Seq, String> {
        let row = self.row(kind, data, rest);
        let event = Event::from_row(row).map_err(|error| error.to_string())?;
        let pushed: Result<_, LogError> = self.log.push(event);
        pushed
            .map(|event| event.seq())
            .map_err(|error| error.to_string())
    }

    pub(crate) fn log(&mut self, kind: &str, data: &Value) -> Seq {
        self.attempt(kind, data, "").unwrap()
    }

    pub(crate) fn append(&mut self, kind: &str, data: &Value) -> Seq {
        self.attempt(kind, data, r#","surfaceOp":"append""#)
            .unwrap()
    }

    pub(crate) fn replace(
        &mut self,
        kind: &str,
        data: &Value,
        (start, end): (Seq, Seq),
        cited: &[Seq],
    ) -> Result<Seq, String> {
        let cited: Vec<u64> = cited.iter().map(|seq| seq.get()).collect();
        let sources = if cited.is_empty() {
            String::new()
        } else {
            format!(r#","sourceEventSeqs":{cited:?}"#)
        };
        let op = format!(
            r#","surfaceOp":{{"op":"replace","startSeq":{start},"endSeq":{end}}}{sources}"#
        );
        self.attempt(kind, data, &op)
    }

    pub(crate) fn turn(&mut self, turn: u64) -> Seq {
        self.log("turn/start", &json!({"turn": turn}))
    }

    pub(crate) fn step(&mut self, turn: u64, step: u64) -> Seq {
        self.log("step/start", &json!({"turn": turn, "step": step}))
    }

    pub(crate) fn end_step(&mut self, turn: u64, step: u64) -> Seq {
        self.log("step/end", &json!({"turn": turn, "step": step}))
    }

    pub(crate) fn end_turn(&mut self, turn: u64, reason: &str) -> Seq {
        self.log(
            "turn/end",
            &json!({"turn": turn, "reason": {"kind": reason}}),
        )
    }

    pub(crate) fn user(&mut self, id: &str) -> Seq {
        self.append("user/message", &user(id, id))
    }

    pub(crate) fn system(&mut self, id: &str) -> Seq {
        self.append("system/message", &system(id, &json!([text(id)])))
    }

    pub(crate) fn assistant(&mut self, turn: u64, step: u64, calls: &[&str]) -> Seq {
        let id = format!("a-{}", self.log.end());
        self.append("assistant/message", &assistant(&id, turn, step, calls))
    }

    pub(crate) fn call(&mut self, turn: u64, step: u64, id: &str) -> Seq {
        self.log(
            "tool/call",
            &json!({"turn": turn, "step": step, "callId": id, "name": "peek", "arguments": "{}"}),
        )
    }

    pub(crate) fn result(&mut self, turn: u64, step: u64, call: &str) -> Seq {
        let id = format!("r-{}", self.log.end());
        self.append(
            "tool/result",
            &result(&id, turn, step, call, &json!([text("seen")])),
        )
    }

    /// A compaction's checkpoint in the place of a range of the surface.
    pub(crate) fn compact(&mut self, start: Seq, end: Seq) -> Seq {
        let shadowed = self.log.surface().slice(start, end).unwrap();
        let mut message = user("checkpoint", "the story so far");
        message["source"]["kind"] = json!("compact-checkpoint");
        self.replace("user/message", &message, (start, end), &shadowed)
            .unwrap()
    }
}

pub(crate) fn text(text: &str) -> Value {
    json!({"type": "text", "text": text})
}

pub(crate) fn user(id: &str, words: &str) -> Value {
    json!({"id": id, "role": "user", "content": [text(words)], "source": {"kind": "user"}})
}

pub(crate) fn system(id: &str, content: &Value) -> Value {
    json!({"turn": 1, "step": 1, "message": {"id": id, "role": "system", "source": {"kind": "system-prompt"}, "content": content}})
}

pub(crate) fn assistant(id: &str, turn: u64, step: u64, calls: &[&str]) -> Value {
    let calls = calls
        .iter()
        .map(|id| json!({"type": "tool-call", "id": id, "name": "peek", "arguments": "{}"}));
    let content: Vec<Value> = std::iter::once(text("well")).chain(calls).collect();
    json!({"turn": turn, "step": step, "stream": [],
        "message": {"id": id, "role": "assistant", "content": content,
            "source": {"kind": "model", "provider": "acme", "model": "acme-small"}}})
}

pub(crate) fn result(id: &str, turn: u64, step: u64, call: &str, content: &Value) -> Value {
    json!({"turn": turn, "step": step, "message": {"id": id, "role": "tool", "toolCallId": call,
        "source": {"kind": "tool", "callId": call}, "content": content}})
}

pub(crate) fn request_header() -> Value {
    json!({"header": {"config": {"provider": "acme", "model": "acme-small"}}, "reason": "initial"})
}
