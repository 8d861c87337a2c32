//! The way up: adjacent migrations, composed into one stream.
//!
//! Each [`Stage`] turns the items of one version into those of the next and keeps only what it cannot decide yet. An item
//! goes all the way up before the next one is read, so there is never a second copy of a log.

#[cfg(test)]
mod tests;

use std::sync::Arc;

use offshoot_session::{Event, SessionHeader};

use crate::FormatError;
use crate::admission::Admission;
use crate::chunks::ChunkRun;
use crate::codec::Placed;
use crate::evidence::ChildEvidence;
use crate::header::StoredHeader;
use crate::record::{Record, Refusal};
use crate::shapes;
use crate::stages::{V0ToV1, V1ToV2, V2ToV3, V3ToV4};
use crate::version::Version;

/// What moves through the chain. Runs end with V1.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Item {
    Event(Record),
    Chunks(ChunkRun),
}

/// One adjacent migration.
pub(crate) trait Stage {
    /// Takes the next item of the lower version and adds to `out` what is settled by it, in the upper version.
    fn take(&mut self, item: Item, out: &mut Vec<Item>) -> Result<(), Refusal>;

    /// The lower version has no more items.
    fn finish(&mut self, out: &mut Vec<Item>) -> Result<(), Refusal>;
}

/// What the stages know about the session from its header.
pub(crate) struct Context<'a> {
    pub(crate) header: &'a SessionHeader,
    /// V0 and V1: how many events were inherited. Later versions mark it in the log.
    pub(crate) seed_length: Option<u64>,
    pub(crate) children: &'a [ChildEvidence],
}

/// The stages from one version up to another.
pub(crate) struct Chain {
    version: Version,
    stages: Vec<Box<dyn Stage>>,
    /// The items between two stages, and those that the next one makes of them; kept for their space.
    queues: [Vec<Item>; 2],
    admission: Admission,
}

impl Chain {
    /// The chain for a file with this header, up to `target`.
    pub(crate) fn new(stored: &StoredHeader, target: Version, children: &[ChildEvidence]) -> Self {
        let context = Context {
            header: &stored.header,
            seed_length: stored.seed_length,
            children,
        };
        let mut stages: Vec<Box<dyn Stage>> = Vec::new();
        let mut at = stored.version;
        while let Some(next) = at.next().filter(|next| *next <= target) {
            stages.push(match at {
                Version::V0 => Box::new(V0ToV1::new(&context)),
                Version::V1 => Box::new(V1ToV2::new(&context)),
                Version::V2 => Box::new(V2ToV3::new(&context)),
                Version::V3 | Version::V4 => Box::new(V3ToV4::new(&context)),
            });
            at = next;
        }
        Self {
            version: stored.version,
            stages,
            queues: Default::default(),
            admission: Admission::new(),
        }
    }

    /// Sends an item up and adds the current events that are finished with it.
    pub(crate) fn take(&mut self, item: Item, out: &mut Vec<Placed>) -> Result<(), FormatError> {
        let version = self.version;
        let refused = |refusal: Refusal| refusal.into_error(version);
        // What was frozen with V0 holds up to V2. V0 itself is normalised first, by the stage that brings it up.
        if let Item::Event(record) = &item
            && matches!(self.version, Version::V1 | Version::V2)
            && self.version.knows(&record.kind)
        {
            let checked = shapes::check(&record.kind, record.node(), self.version);
            checked.map_err(|reason| refused(record.unsupported(reason)))?;
        }
        self.queues[0].push(item);
        self.rise(0).map_err(refused)?;
        self.emit(out)
    }

    /// Ends every stage, the lowest first.
    pub(crate) fn finish(&mut self, out: &mut Vec<Placed>) -> Result<(), FormatError> {
        for at in 0..self.stages.len() {
            let ended = self.stages[at]
                .finish(&mut self.queues[0])
                .and_then(|()| self.rise(at + 1));
            ended.map_err(|refusal| refusal.into_error(self.version))?;
            self.emit(out)?;
        }
        Ok(())
    }

    /// Takes what is in the first queue through the stages from `from` on.
    fn rise(&mut self, from: usize) -> Result<(), Refusal> {
        let [items, next] = &mut self.queues;
        for stage in &mut self.stages[from..] {
            for item in items.drain(..) {
                stage.take(item, next)?;
            }
            std::mem::swap(items, next);
        }
        Ok(())
    }

    fn emit(&mut self, out: &mut Vec<Placed>) -> Result<(), FormatError> {
        for item in self.queues[0].drain(..) {
            let Item::Event(record) = item else {
                unreachable!("runs end with V1");
            };
            out.push(current(&record, &mut self.admission)?);
        }
        Ok(())
    }

    /// What has come out at the top, for a chain that ends below V4.
    #[cfg(test)]
    pub(crate) fn records(
        &mut self,
        items: impl IntoIterator<Item = Item>,
    ) -> Result<Vec<Record>, FormatError> {
        let version = self.version;
        let failed = |refusal: Refusal| refusal.into_error(version);
        let mut records = Vec::new();
        let mut drain = |queue: &mut Vec<Item>| {
            records.extend(queue.drain(..).map(|item| match item {
                Item::Event(record) => record,
                Item::Chunks(_) => panic!("runs end with V1"),
            }));
        };
        for item in items {
            self.queues[0].push(item);
            self.rise(0).map_err(failed)?;
            drain(&mut self.queues[0]);
        }
        for at in 0..self.stages.len() {
            self.stages[at]
                .finish(&mut self.queues[0])
                .map_err(failed)?;
            self.rise(at + 1).map_err(failed)?;
            drain(&mut self.queues[0]);
        }
        Ok(records)
    }
}

/// Reads a record that has come up to V4 through the one reader of rows, so that nothing enters a log by another door.
fn current(record: &Record, admission: &mut Admission) -> Result<Placed, FormatError> {
    let place = record.place;
    let damaged = |reason: String| FormatError::Damaged { place, reason };
    let event =
        Event::from_row(record.render(Version::V4)).map_err(|error| damaged(error.to_string()))?;
    admission
        .admit(&event)
        .map_err(|reason| damaged(format!("`{}`: {reason}", event.kind())))?;
    let event = Arc::new(event);
    Ok(Placed { event, place })
}
