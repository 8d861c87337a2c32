//! Turns that nobody ended: an early program that was restarted in the middle of a turn went on with the next one.
//!
//! Its logs show it by what stands there: a turn is open and no step is, the last event put new input into the queue for the
//! next turn, and the next event starts the turn behind the open one. Two migrations put the missing `turn/end` there
//! (`reference/persistence.md` §2.4, §2.6).

use crate::record::Record;

/// Watches the events of a log for such a place.
#[derive(Debug, Default)]
pub(crate) struct Restart {
    turn: Option<u64>,
    in_step: bool,
    queued: bool,
}

impl Restart {
    /// The `turn/end` that is missing in front of the record, with the record's seq and time.
    pub(crate) fn before(&mut self, record: &Record) -> Option<Record> {
        let missing = self.missing(record);
        self.see(record);
        missing
    }

    /// Something that is no record stands here: a chunk.
    pub(crate) fn interrupt(&mut self) {
        self.queued = false;
    }

    fn missing(&self, record: &Record) -> Option<Record> {
        let open = self.turn.filter(|_| self.queued && !self.in_step)?;
        let next = turn(record).filter(|_| record.is("turn/start"))?;
        (next == open + 1).then(|| {
            let data = format!(r#"{{"turn":{open},"reason":{{"kind":"interrupted"}}}}"#);
            Record::beside(record, "turn/end", data)
        })
    }

    fn see(&mut self, record: &Record) {
        self.queued = false;
        match &*record.kind {
            "turn/start" => (self.turn, self.in_step) = (turn(record), false),
            "turn/end" => (self.turn, self.in_step) = (None, false),
            "step/start" => self.in_step = true,
            "step/end" => self.in_step = false,
            "agent/inbox/spliced" => {
                let data = record.node();
                let inserted = data
                    .get("inserted")
                    .map_or(0, |inserted| inserted.items().len());
                self.queued = inserted > 0 && data.names("target", "next-turn");
            }
            _ => {}
        }
    }
}

fn turn(record: &Record) -> Option<u64> {
    record.node().get("turn")?.count()
}

#[cfg(test)]
mod tests {
    use offshoot_session::LogOffset;

    use super::*;
    use crate::Place;

    fn record(kind: &'static str, seq: u64, data: &str) -> Record {
        let place = Place {
            line: seq + 2,
            seq: LogOffset::new(seq),
            byte: 0,
        };
        Record::added(place, kind, seq, seq as i64 * 10, data)
    }

    const QUEUED: (&str, &str) = (
        "agent/inbox/spliced",
        r#"{"target":"next-turn","start":0,"inserted":[{"id":"u"}]}"#,
    );

    /// What is missing in front of the last of the events.
    fn missing(events: &[(&'static str, &str)]) -> Option<Record> {
        let mut restart = Restart::default();
        let mut found = None;
        for (seq, (kind, data)) in (0..).zip(events) {
            assert_eq!(found, None, "only the last one can be the one");
            found = restart.before(&record(kind, seq, data));
        }
        found
    }

    #[test]
    fn the_end_of_a_turn_is_missing_between_its_queue_and_the_next_turn() {
        let start = ("turn/start", r#"{"turn":4}"#);
        let step = [
            ("step/start", r#"{"turn":4,"step":1}"#),
            ("step/end", r#"{"turn":4,"step":1}"#),
        ];
        let next = ("turn/start", r#"{"turn":5}"#);
        let end = |seq: u64| {
            let end = r#"{"turn":4,"reason":{"kind":"interrupted"}}"#;
            Some(record("turn/end", seq, end))
        };
        assert_eq!(missing(&[start, QUEUED, next]), end(2));
        assert_eq!(missing(&[start, step[0], step[1], QUEUED, next]), end(4));
    }

    #[test]
    fn nothing_is_missing_anywhere_else() {
        let start = ("turn/start", r#"{"turn":4}"#);
        let next = ("turn/start", r#"{"turn":5}"#);
        let other = ("todo/write", r#"{"todos":[]}"#);
        let end = ("turn/end", r#"{"turn":4}"#);
        let step = ("step/start", r#"{"turn":4,"step":1}"#);
        let steered = QUEUED.1.replace("next-turn", "next-step");
        let removed = r#"{"target":"next-turn","start":0,"removedCount":1,"inserted":[]}"#;
        for events in [
            &[QUEUED, next][..],
            &[start, next],
            &[start, QUEUED, other, next],
            &[start, end, QUEUED, next],
            &[start, step, QUEUED, next],
            &[start, (QUEUED.0, &steered), next],
            &[start, (QUEUED.0, removed), next],
            &[start, QUEUED, ("turn/start", r#"{"turn":6}"#)],
            &[start, QUEUED, start],
            &[start, QUEUED, end],
        ] {
            assert_eq!(missing(events), None, "{events:?}");
        }
    }
}
