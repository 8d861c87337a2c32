//! What is there.

use offshoot_session::SessionHeader;

use crate::Query;

use super::Bed;
use super::material::{events, header, ids, put};

pub(super) fn a_store_without_sessions_lists_none(bed: &dyn Bed) {
    let before = bed.image();
    assert_eq!(ids(&*bed.store()), []);
    assert_eq!(bed.image(), before);
}

pub(super) fn every_session_is_listed_with_its_header(bed: &dyn Bed) {
    let long = SessionHeader {
        agent_preset: Some("p".repeat(20 << 10)),
        ..header("long")
    };
    let without = SessionHeader {
        cwd: None,
        ..header("z")
    };
    let fork = SessionHeader {
        is_seeded: false,
        ..header("a").forked("b".into(), 3)
    };
    let headers = [header("a"), fork, long, without];
    let store = bed.store();
    for header in headers.iter().rev() {
        put(&*store, header, &events(2));
    }
    let before = bed.image();
    for store in [store, bed.store()] {
        let mut listed = store.list(&Query::default()).unwrap().rows;
        listed.sort_by(|a, b| a.id.cmp(&b.id));
        let found: Vec<_> = listed
            .into_iter()
            .map(|listed| (listed.id, listed.header.unwrap()))
            .collect();
        let expected = headers.clone().map(|header| (header.id.clone(), header));
        assert_eq!(found, expected);
    }
    assert_eq!(bed.image(), before);
}
