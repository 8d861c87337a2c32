//! What is there.

use std::collections::BTreeSet;
use std::num::NonZeroUsize;

use offshoot_session::{SessionHeader, SessionId};

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

pub(super) fn pages_have_every_session_once_and_in_order_while_others_come_and_go(bed: &dyn Bed) {
    let store = bed.store();
    let number = |number: usize| format!("session-{number:02}");
    for at in 0..20 {
        put(&*store, &header(&number(at)), &events(2));
    }
    let whole = store.list(&Query::default()).unwrap();
    assert_eq!((whole.rows.len(), whole.next), (20, None));
    let activity: Vec<i64> = whole.rows.iter().map(|row| row.activity()).collect();
    assert!(activity.is_sorted_by(|a, b| a >= b), "{activity:?}");

    let mut query = Query {
        limit: NonZeroUsize::new(3),
        ..Query::default()
    };
    let mut seen: Vec<SessionId> = Vec::new();
    for page in 0.. {
        let store = bed.store();
        let found = store.list(&query).unwrap();
        seen.extend(found.rows.into_iter().map(|row| row.id));
        let Some(next) = found.next else {
            break;
        };
        query.cursor = Some(next);
        // Newer ones come ahead of where the pages are; the last one seen goes.
        put(&*store, &header(&format!("new-{page}")), &events(2));
        let last = seen.last().unwrap();
        store.delete(last, 9_000).unwrap();
    }
    let expected: Vec<SessionId> = whole.rows.into_iter().map(|row| row.id).collect();
    let new = |id: &&SessionId| id.as_str().starts_with("new-");
    let old: Vec<&SessionId> = seen.iter().filter(|id| !new(id)).collect();
    assert_eq!(old, expected.iter().collect::<Vec<_>>());
    assert_eq!(seen.iter().collect::<BTreeSet<_>>().len(), seen.len());

    query.cursor = Some("no cursor".into());
    assert_eq!(super::material::code(store.list(&query)), "INVALID_CURSOR");
}
