//! What every store does, as tests, whatever it is made of (feature `testing`).
//!
//! A backend shows the suite a place to keep sessions, the [`Bed`], and gets one `#[test]` per behaviour:
//!
//! ```
//! use std::collections::BTreeMap;
//! use offshoot_store::testing::Bed;
//! use offshoot_store::{MemoryStore, Persistence, Query};
//!
//! #[derive(Default)]
//! struct InMemory(MemoryStore);
//!
//! impl Bed for InMemory {
//!     fn store(&self) -> Box<dyn Persistence> {
//!         Box::new(self.0.clone())
//!     }
//!
//!     fn image(&self) -> BTreeMap<String, Vec<u8>> {
//!         let listed = self.0.list(&Query::default()).unwrap().rows.into_iter();
//!         listed.map(|one| (one.id.to_string(), self.0.bytes(&one.id).unwrap())).collect()
//!     }
//! }
//!
//! mod in_memory {
//!     offshoot_store::conformance!(super::InMemory::default());
//! }
//! ```
//!
//! A behaviour fails by panicking, as a test does. Nothing here knows files: what is on disk after each operation is
//! specified by the backend that puts it there.

#![allow(
    clippy::unwrap_used,
    reason = "a test says what went wrong by failing there"
)]

mod appending;
mod creating;
mod deleting;
mod forking;
mod listing;
mod material;
mod opening;

use std::collections::BTreeMap;

pub use material::{NOW, TWO_CALLS, event, events, header, log, seeded_child, texts};

use crate::Persistence;

/// A place where a store keeps its sessions, empty at first.
pub trait Bed: Sync {
    /// A store of what is there, that shares nothing else with those made before: as another process would have it.
    ///
    /// A store, or a writer, that is dropped is to leave behind what a process leaves that ends at that moment.
    fn store(&self) -> Box<dyn Persistence>;

    /// All that is stored, by name, for comparing before and after. What is only a lock may be left out.
    fn image(&self) -> BTreeMap<String, Vec<u8>>;
}

/// Every behaviour is named once, in the list below: from it come the table and the macro.
macro_rules! behaviours {
    ($dollar:tt $($part:ident::$behaviour:ident;)*) => {
        /// The behaviours by name, for a backend that needs its own way of running them.
        pub const BEHAVIOURS: &[(&str, fn(&dyn Bed))] = &[
            $((stringify!($behaviour), $part::$behaviour),)*
        ];

        /// One test per behaviour of the [conformance suite](crate::testing). The argument makes an empty
        /// [`Bed`](crate::testing::Bed), anew in each test.
        #[macro_export]
        macro_rules! conformance {
            ($dollar bed:expr) => {
                $(
                    #[test]
                    fn $behaviour() {
                        $dollar crate::testing::run(stringify!($behaviour), &$dollar bed);
                    }
                )*
            };
        }
    };
}

behaviours! { $
    creating::nothing_is_stored_before_the_first_batch_and_then_header_and_batch_together;
    creating::flushing_a_session_without_events_makes_it_exist;
    creating::every_member_of_a_header_is_kept;
    creating::a_header_that_no_reader_would_take_is_refused;
    creating::a_seeded_session_is_never_stored_without_its_inherited_part;
    creating::an_id_is_taken_from_its_creation_on_and_free_again_when_nothing_came_of_it;
    creating::of_two_stores_that_create_one_id_only_the_first_to_write_has_it;
    creating::of_many_that_create_one_id_at_once_exactly_one_succeeds;
    appending::what_was_appended_is_read_back_to_the_byte;
    appending::an_event_is_there_for_everybody_when_append_has_returned;
    appending::a_batch_that_does_not_follow_is_refused_and_the_next_good_one_goes_in;
    appending::what_was_read_stays_as_it_was_when_the_session_goes_on;
    opening::opening_closes_the_open_turn_and_the_session_goes_on;
    opening::a_crash_behind_any_event_is_repaired_once;
    opening::a_completed_session_gains_one_resume_marker_and_then_nothing_more;
    opening::a_session_has_one_writer_and_readers_go_on;
    opening::the_creator_of_a_session_is_its_writer;
    opening::of_many_that_open_one_session_at_once_exactly_one_succeeds;
    opening::a_session_that_no_provider_would_take_is_read_but_not_opened;
    opening::a_session_that_is_not_there_is_named;
    opening::a_time_that_no_log_can_hold_is_refused;
    forking::a_fork_at_any_event_of_a_cold_source_is_whole_and_goes_on;
    forking::a_fork_of_a_live_source_has_what_was_stored_and_the_source_goes_on;
    forking::a_fork_between_a_call_and_its_result_answers_it;
    forking::a_fork_of_a_fork_of_a_fork_has_all_it_inherited;
    forking::a_fork_to_an_id_that_is_taken_is_refused;
    forking::what_a_fork_inherited_stays_when_its_source_is_repaired_and_goes_on;
    listing::every_session_is_listed_with_its_header;
    listing::a_store_without_sessions_lists_none;
    listing::pages_have_every_session_once_and_in_order_while_others_come_and_go;
    deleting::a_deleted_session_is_gone_for_everybody_and_comes_back_as_it_was;
    deleting::a_session_that_somebody_writes_is_not_deleted;
    deleting::an_id_that_is_taken_again_is_not_overwritten_by_what_comes_back;
    deleting::a_child_goes_on_when_its_parent_is_deleted;
}

/// Runs one behaviour.
///
/// # Panics
/// If the store behaves otherwise, or nothing is called so.
pub fn run(name: &str, bed: &dyn Bed) {
    let named = BEHAVIOURS.iter().find(|(one, _)| *one == name);
    let (_, behaviour) = named.unwrap_or_else(|| panic!("no behaviour is called `{name}`"));
    behaviour(bed);
}
