//! The stream of one attempt as V2 and later embed it.

use super::DeltaRun;

/// Collects the records of a stream as JSON text. Deltas that may be one run become one, however they were stored.
#[derive(Debug, Default)]
pub(crate) struct Stream {
    /// The finished records, joined by commas.
    records: String,
    /// The run that the next delta may join.
    open: Option<DeltaRun>,
}

impl Stream {
    /// Adds deltas. Those that no run can hold, because their call has no id or an empty name, stay chunks of their own.
    pub(crate) fn deltas(&mut self, run: DeltaRun) {
        if run.kind.is_nameless() {
            self.close();
            for (time, part) in run.members() {
                self.chunk(time, &run.chunk(part));
            }
            return;
        }
        let rest = match &mut self.open {
            Some(open) => open.join(run),
            None => Some(run),
        };
        if rest.is_some() {
            self.close();
            self.open = rest;
        }
    }

    /// Adds a chunk that is no delta, as it was stored.
    pub(crate) fn chunk(&mut self, time: i64, chunk: &str) {
        self.close();
        self.separate();
        self.records
            .push_str(&format!(r#"{{"type":"chunk","time":{time},"chunk":"#));
        self.records.push_str(chunk);
        self.records.push('}');
    }

    /// The JSON text of the list of records.
    pub(crate) fn finish(mut self) -> String {
        self.close();
        format!("[{}]", self.records)
    }

    fn close(&mut self) {
        let Some(run) = self.open.take() else {
            return;
        };
        self.separate();
        self.records.push_str(&format!(
            r#"{{"type":"{}","time0":{},"#,
            run.kind.row_type(),
            run.time
        ));
        run.render(&mut self.records);
        self.records.push('}');
    }

    fn separate(&mut self) {
        if !self.records.is_empty() {
            self.records.push(',');
        }
    }
}
