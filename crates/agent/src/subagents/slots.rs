//! How many children of a session work at the same time.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use offshoot_session::SessionId;

use super::error::SubagentError;

/// The children at work, counted by the session that they work for.
#[derive(Clone, Debug, Default)]
pub(super) struct Slots(Arc<Mutex<BTreeMap<SessionId, usize>>>);

/// A child at work. It is counted for as long as this exists.
#[derive(Debug)]
pub(super) struct Slot {
    parent: SessionId,
    slots: Slots,
}

impl Slots {
    /// # Errors
    /// There are `max` already.
    pub(super) fn take(&self, parent: &SessionId, max: usize) -> Result<Slot, SubagentError> {
        let mut counts = self.counts();
        let running = counts.get(parent).copied().unwrap_or(0);
        if running >= max {
            return Err(SubagentError::TooMany { running, max });
        }
        counts.insert(parent.clone(), running + 1);
        Ok(Slot {
            parent: parent.clone(),
            slots: self.clone(),
        })
    }

    fn counts(&self) -> MutexGuard<'_, BTreeMap<SessionId, usize>> {
        // Nothing panics between two changes of the map.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        let mut counts = self.slots.counts();
        if let Some(count) = counts.get_mut(&self.parent) {
            *count -= 1;
            if *count == 0 {
                counts.remove(&self.parent);
            }
        }
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
        assert_eq!(slots.counts().len(), 1, "nobody is counted who has none");
    }
}
