//! Forking a live session (§6.4).

use std::sync::{Arc, Mutex};

use offshoot_session::{
    ForkError, ForkSource, LiveSession, Origin, Session, SessionHeader, SessionStore,
};

use crate::listener::{Listener, fact, ids, take};
use crate::support::{at, header, rows, seq, two_calls};

/// A store with the session `p`, whose log is the first `len` events of the two-call turn and a resume marker.
fn with_parent(len: usize) -> (SessionStore, LiveSession) {
    let store = SessionStore::new();
    let parent = Session::restored(header("p"), two_calls(len), at(0), 500).unwrap();
    let parent = store.enter(store.adopt(parent).unwrap()).unwrap();
    (store, parent)
}

#[test]
fn a_vetoed_fork_says_so_and_leaves_the_parent_alone() {
    let (store, parent) = with_parent(16);
    store.listen(Arc::new(Listener {
        veto: true,
        ..Listener::default()
    }));
    let error = store
        .fork(ForkSource::Live(&parent), None, "c".into(), 9)
        .unwrap_err();
    assert_eq!(
        (error.code(), error.to_string()),
        (
            "FORK_REFUSED",
            "the fork of session `p` was refused: session `c` was refused: not here".to_owned()
        )
    );
    assert_eq!(
        (ids(&store), parent.log().end()),
        (vec!["p".to_owned()], at(17))
    );
}

#[test]
fn a_taken_child_id_is_refused_before_anything_else_is_looked_at() {
    let (store, parent) = with_parent(16);
    let error = store
        .fork(ForkSource::Live(&parent), Some(seq(99)), "p".into(), 9)
        .unwrap_err();
    assert_eq!(error, ForkError::SessionAlreadyExists("p".into()));
    let error = store
        .fork(ForkSource::Id(&"none".into()), Some(seq(99)), "p".into(), 9)
        .unwrap_err();
    assert_eq!(
        (error.code(), error.to_string()),
        (
            "SESSION_ALREADY_EXISTS",
            "session `p` exists already".to_owned()
        )
    );
}

#[test]
fn a_source_that_is_not_live_is_refused_before_its_boundary_is_looked_at() {
    let (store, parent) = with_parent(16);
    let unknown = store
        .fork(ForkSource::Id(&"none".into()), Some(seq(99)), "c".into(), 9)
        .unwrap_err();
    assert_eq!(unknown, ForkError::SessionNotFound("none".into()));
    assert_eq!(
        (unknown.code(), unknown.to_string()),
        (
            "SESSION_NOT_FOUND",
            "session `none` is not live in this store".to_owned()
        )
    );

    store.detach(&parent);
    let stale = store
        .fork(ForkSource::Live(&parent), Some(seq(99)), "c".into(), 9)
        .unwrap_err();
    assert_eq!(stale, ForkError::SessionNotFound("p".into()));

    store.create(header("p"), None, 1).unwrap();
    let other = store
        .fork(ForkSource::Live(&parent), Some(seq(99)), "c".into(), 9)
        .unwrap_err();
    assert_eq!(other, ForkError::SessionNotLive("p".into()));
    assert_eq!(
        (other.code(), other.to_string()),
        (
            "SESSION_NOT_LIVE",
            "this handle of session `p` is not the live one".to_owned()
        )
    );

    let elsewhere = SessionStore::new().create(header("p"), None, 1).unwrap();
    let other = store
        .fork(ForkSource::Live(&elsewhere), None, "c".into(), 9)
        .unwrap_err();
    assert_eq!(other, ForkError::SessionNotLive("p".into()));
    assert_eq!(ids(&store), ["p"]);
}

#[test]
fn a_boundary_that_is_no_event_is_refused() {
    let (store, parent) = with_parent(16);
    for boundary in [17, u64::MAX] {
        let error = store
            .fork(
                ForkSource::Live(&parent),
                Some(seq(boundary)),
                "c".into(),
                9,
            )
            .unwrap_err();
        assert_eq!(
            error,
            ForkError::InvalidBoundary {
                boundary: seq(boundary),
                end: at(17)
            }
        );
    }
    let empty = store.create(header("empty"), None, 1).unwrap();
    let error = store
        .fork(ForkSource::Live(&empty), Some(seq(0)), "c".into(), 9)
        .unwrap_err();
    assert_eq!(
        error,
        ForkError::InvalidBoundary {
            boundary: seq(0),
            end: at(0)
        }
    );
    assert_eq!(ids(&store), ["p", "empty"]);
}

#[test]
fn a_child_takes_directory_and_parent_and_nothing_else() {
    let store = SessionStore::new();
    let parent = SessionHeader {
        cwd: Some("/work".to_owned()),
        parent: Some("grandparent".into()),
        origin: Some(Origin::Subagent),
        delegation_depth: 3,
        agent_preset: Some("ptc".to_owned()),
        ..header("p")
    };
    store.create(parent, None, 1).unwrap();
    let child = store
        .fork(ForkSource::Id(&"p".into()), None, "c".into(), 77)
        .unwrap();
    assert_eq!(
        child.header(),
        SessionHeader {
            cwd: Some("/work".to_owned()),
            parent: Some("p".into()),
            is_seeded: true,
            created_at: 77,
            ..header("c")
        }
    );
    assert_eq!(
        rows(&child.log()),
        [r#"{"type":"session/end-seed","seq":0,"time":77,"data":{"inherited":true}}"#],
        "an empty parent gives an empty child"
    );
}

#[test]
fn a_time_of_creation_beyond_the_format_is_refused() {
    let (store, parent) = with_parent(0);
    let error = store
        .fork(ForkSource::Live(&parent), None, "c".into(), u64::MAX)
        .unwrap_err();
    assert_eq!(error.code(), "FORK_REFUSED");
    assert_eq!(
        store
            .create(
                header("d"),
                Some(offshoot_session::ForkSeed::default()),
                i64::MAX
            )
            .unwrap_err()
            .to_string(),
        "session `d`: the time 9223372036854775807 is not within ±(2^53 − 1)"
    );
    assert_eq!(ids(&store), ["p"]);
}

#[test]
fn parent_and_child_go_their_own_ways() {
    let (store, parent) = with_parent(16);
    let child = store
        .fork(ForkSource::Live(&parent), Some(seq(7)), "c".into(), 9)
        .unwrap();
    let (parent_before, child_before) = (parent.log(), child.log());
    child.append(fact(), 600).unwrap();
    parent.append(fact(), 601).unwrap();
    parent.append(fact(), 602).unwrap();
    assert_eq!(
        (parent_before.end(), child_before.end()),
        (at(17), at(13)),
        "observations stay"
    );
    assert_eq!((parent.log().end(), child.log().end()), (at(19), at(14)));
    assert_eq!(rows(&parent.log())[..17], rows(&parent_before)[..]);
    assert_eq!(rows(&child.log())[..13], rows(&child_before)[..]);

    store.detach(&parent);
    child.append(fact(), 603).unwrap();
    assert_eq!(
        (ids(&store), child.log().end()),
        (vec!["c".to_owned()], at(15))
    );
}

#[test]
fn a_fork_is_announced_with_its_seed_and_none_of_it_as_an_event() {
    let (store, parent) = with_parent(8);
    let heard = Arc::new(Mutex::new(Vec::new()));
    store.listen(Arc::new(Listener {
        heard: Arc::clone(&heard),
        ..Listener::default()
    }));
    let child = store
        .fork(ForkSource::Live(&parent), Some(seq(7)), "c".into(), 9)
        .unwrap();
    child.append(fact(), 600).unwrap();
    assert_eq!(take(&heard), ["created c of 13", "event c 13"]);
}
