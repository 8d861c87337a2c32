//! How many children of a session work at the same time.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use offshoot_session::SessionId;
use tokio_util::sync::CancellationToken;

use super::error::SubagentError;

/// The children at work, counted by the session that they work for.
#[derive(Clone, Debug, Default)]
pub(super) struct Slots(Arc<Mutex<Table>>);

#[derive(Debug, Default)]
struct Table {
    taken: BTreeMap<u64, Taken>,
    numbered: u64,
}

#[derive(Debug)]
struct Taken {
    parent: SessionId,
    /// A call whose body has yet to come. When it is over before that, there will be no child.
    call: Option<CancellationToken>,
}

impl Taken {
    fn counts_for(&self, parent: &SessionId) -> bool {
        let is_over = |call: &CancellationToken| call.is_cancelled();
        self.parent == *parent && !self.call.as_ref().is_some_and(is_over)
    }
}

/// A child at work. It is counted for as long as this exists.
#[derive(Debug)]
pub(super) struct Slot {
    number: u64,
    slots: Slots,
}

impl Slots {
    /// A slot for a child of `parent`.
    ///
    /// # Errors
    /// There are `max` at work already.
    pub(super) fn take(&self, parent: &SessionId, max: usize) -> Result<Slot, SubagentError> {
        self.taken(parent, max, None)
    }

    /// The same for a call that may yet be over before its body has come; until that takes it, it counts no longer than the
    /// call.
    ///
    /// # Errors
    /// There are `max` at work already.
    pub(super) fn reserve(
        &self,
        parent: &SessionId,
        max: usize,
        call: &CancellationToken,
    ) -> Result<Slot, SubagentError> {
        self.taken(parent, max, Some(call.clone()))
    }

    fn taken(
        &self,
        parent: &SessionId,
        max: usize,
        call: Option<CancellationToken>,
    ) -> Result<Slot, SubagentError> {
        let mut table = self.table();
        let all = table.taken.values();
        let running = all.filter(|taken| taken.counts_for(parent)).count();
        if running >= max {
            return Err(SubagentError::TooMany { running, max });
        }
        let parent = parent.clone();
        let number = table.numbered;
        table.numbered += 1;
        table.taken.insert(number, Taken { parent, call });
        Ok(Slot {
            number,
            slots: self.clone(),
        })
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        // Nothing panics between two changes of the table.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Slot {
    /// The body of the call has come: it counts until this goes.
    pub(super) fn keep(self) -> Self {
        if let Some(taken) = self.slots.table().taken.get_mut(&self.number) {
            taken.call = None;
        }
        self
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.slots.table().taken.remove(&self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_session_has_so_many_at_work_and_one_more_when_one_is_done() {
        let slots = Slots::default();
        let (one, other) = (SessionId::new("one"), SessionId::new("other"));
        let first = slots.take(&one, 2).unwrap();
        let _second = slots.take(&one, 2).unwrap();
        let refused = slots.take(&one, 2).unwrap_err();
        assert!(matches!(
            refused,
            SubagentError::TooMany { running: 2, max: 2 }
        ));
        let elsewhere = slots.take(&other, 2).unwrap();
        drop(first);
        let _third = slots.take(&one, 2).unwrap();
        drop(elsewhere);
        assert_eq!(slots.table().taken.len(), 2, "the others are gone");
    }

    #[test]
    fn a_call_that_is_over_before_its_body_has_come_takes_no_room() {
        let (slots, caller) = (Slots::default(), SessionId::new("caller"));
        let [over, begun] = [(); 2].map(|()| CancellationToken::new());
        let _never_begun = slots.reserve(&caller, 2, &over).unwrap();
        let _begun = slots.reserve(&caller, 2, &begun).unwrap().keep();
        assert!(slots.take(&caller, 2).is_err(), "both may have a child");
        over.cancel();
        // Its child is being ended, and is at work until then.
        begun.cancel();
        let _room = slots.take(&caller, 2).unwrap();
        assert!(slots.take(&caller, 2).is_err());
    }
}
