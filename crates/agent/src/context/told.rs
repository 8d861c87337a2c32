//! What the model has been told of the world, in the messages that it still sees.
//!
//! A fold of the surface in its order. What a compaction has covered was never told, so after one it begins anew.

use std::collections::BTreeMap;

use offshoot_session::{Event, EventKind, EventLog};

use super::instructions::{self, Change};
use super::runtime::{self, ContextSection};
use crate::history::Followed;

/// What the model knows.
#[derive(Debug)]
pub(crate) struct Told {
    followed: Followed,
    /// What the last snapshot of the runtime context says; `None` if that cannot be read.
    pub(super) sections: Option<Vec<ContextSection>>,
    /// The version of each file of instructions, by scope.
    pub(super) instructions: BTreeMap<String, Change>,
}

impl Default for Told {
    fn default() -> Self {
        Self {
            followed: Followed::default(),
            sections: Some(Vec::new()),
            instructions: BTreeMap::new(),
        }
    }
}

impl Told {
    /// Reads what the log has of it up to its end.
    pub(super) fn follow(&mut self, log: &EventLog) {
        let place = self.followed.place(log);
        if place == 0 {
            *self = Self::default();
        }
        let nodes = log.surface().nodes_from(place);
        for event in nodes.filter_map(|seq| log.get(seq)) {
            self.apply(event);
        }
        self.followed.reached_end(log);
    }

    fn apply(&mut self, event: &Event) {
        if *event.kind() != EventKind::UserMessage {
            return;
        }
        match event.body().message().map(|message| &*message.source) {
            Some(runtime::KIND) => self.sections = runtime::sections_of(event),
            Some(instructions::KIND) => instructions::apply(event, &mut self.instructions),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::history::tests::{Logs, happens};

    proptest! {
        #[test]
        fn what_was_told_is_a_function_of_the_log_whatever_was_followed_before(
            script in prop::collection::vec((happens(), any::<bool>()), 1..60),
        ) {
            let mut logs = Logs::new();
            let mut told = Told::default();
            for (what, looks) in script {
                logs.happen(what);
                if looks {
                    let mut fresh = Told::default();
                    fresh.follow(logs.log());
                    told.follow(logs.log());
                    prop_assert_eq!(&told.sections, &fresh.sections);
                    prop_assert_eq!(&told.instructions, &fresh.instructions);
                }
            }
        }
    }
}
