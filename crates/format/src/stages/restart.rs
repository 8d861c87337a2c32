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
