//! The live store: how sessions enter, are announced, flushed and leave (§8.1).

use std::sync::Arc;

use offshoot_session::{
    EventDraft, EventKind, ObserverFailure, SeedError, Session, SessionStore, StoreError,
};
use serde_json::json;

use crate::listener::{Listener, fact, ids, listening, take};
use crate::support::{at, header, seeded, seq};

#[test]
fn a_session_is_prepared_then_enters_then_is_announced() {
    let (store, heard) = listening(vec![Listener::default()]);
    let prepared = store.prepare(header("s"), None, 1).unwrap();
    assert_eq!((ids(&store), take(&heard)), (vec![], vec![]));

    let session = store.enter(prepared).unwrap();
    session.append(fact(), 1).unwrap();
    assert_eq!((ids(&store), take(&heard)), (vec!["s".to_owned()], vec![]));

    store.announce(&session).unwrap();
    session.append(fact(), 2).unwrap();
    assert!(store.detach(&session));
    assert_eq!(take(&heard), ["created s of 1", "event s 1", "disposed s"]);
    assert!(ids(&store).is_empty());
}

#[test]
fn create_does_all_three() {
    let (store, heard) = listening(vec![
        Listener {
            name: "1 ",
            ..Listener::default()
        },
        Listener {
            name: "2 ",
            ..Listener::default()
        },
    ]);
    let session = store.create(header("s"), None, 1).unwrap();
    assert_eq!(take(&heard), ["1 created s of 0", "2 created s of 0"]);
    assert_eq!(session.header(), header("s"));
}

#[test]
fn an_id_is_live_once() {
    let store = SessionStore::new();
    let early = store.prepare(header("s"), None, 1).unwrap();
    let session = store.create(header("s"), None, 1).unwrap();
    let taken = StoreError::SessionAlreadyExists("s".into());
    assert_eq!(store.enter(early).unwrap_err(), taken);
    assert_eq!(store.prepare(header("s"), None, 1).unwrap_err(), taken);
    assert_eq!(store.create(header("s"), None, 1).unwrap_err(), taken);
    assert_eq!(
        store.adopt(Session::new(header("s")).unwrap()).unwrap_err(),
        taken
    );
    assert_eq!(
        (taken.code(), taken.to_string()),
        (
            "SESSION_ALREADY_EXISTS",
            "session `s` exists already".to_owned()
        )
    );

    store.detach(&session);
    store.create(header("s"), None, 1).unwrap();
    assert_eq!(ids(&store), ["s"]);
}

#[test]
fn a_header_and_a_seed_that_do_not_fit_leave_no_trace() {
    let (store, heard) = listening(vec![Listener::default()]);
    let error = store.create(seeded("s"), None, 1).unwrap_err();
    assert_eq!(
        error,
        StoreError::Seed {
            id: "s".into(),
            source: SeedError::SeedMissing
        }
    );
    assert_eq!(error.code(), "INVALID_SEED");
    assert_eq!((ids(&store), take(&heard)), (vec![], vec![]));
}

#[test]
fn a_session_is_announced_once() {
    let store = SessionStore::new();
    let session = store.create(header("s"), None, 1).unwrap();
    let error = store.announce(&session).unwrap_err();
    assert_eq!(
        (error.code(), error.to_string()),
        (
            "SESSION_ALREADY_ANNOUNCED",
            "session `s` was announced already".to_owned()
        )
    );
    store.detach(&session);
    assert_eq!(
        store.announce(&session).unwrap_err(),
        StoreError::SessionNotLive("s".into())
    );
}

#[test]
fn a_session_that_leaves_unannounced_is_not_spoken_of() {
    let (store, heard) = listening(vec![Listener::default()]);
    let session = store
        .enter(store.prepare(header("s"), None, 1).unwrap())
        .unwrap();
    assert!(store.detach(&session));
    assert!(!store.detach(&session), "it was out already");
    assert_eq!(take(&heard), Vec::<String>::new());
}

#[test]
fn a_veto_takes_the_session_out_again_and_everybody_hears_it_once() {
    let (store, heard) = listening(vec![
        Listener {
            name: "1 ",
            ..Listener::default()
        },
        Listener {
            name: "2 ",
            veto: true,
            ..Listener::default()
        },
        Listener {
            name: "3 ",
            ..Listener::default()
        },
    ]);
    let error = store.create(header("s"), None, 1).unwrap_err();
    assert_eq!(
        error,
        StoreError::Vetoed {
            id: "s".into(),
            reason: "not here".to_owned()
        }
    );
    assert_eq!(
        (error.code(), error.to_string()),
        (
            "SESSION_VETOED",
            "session `s` was refused: not here".to_owned()
        )
    );
    assert_eq!(
        take(&heard),
        [
            "1 created s of 0",
            "2 created s of 0",
            "1 disposed s",
            "2 disposed s",
            "3 disposed s"
        ]
    );
    assert!(ids(&store).is_empty());
}

#[test]
fn a_session_detached_while_it_is_announced_leaves_when_all_have_heard_of_it() {
    let (store, heard) = listening(vec![]);
    for (name, detach_on) in [
        ("1 ", Some(("created", Arc::downgrade(&store)))),
        ("2 ", None),
    ] {
        store.listen(Arc::new(Listener {
            name,
            detach_on,
            heard: Arc::clone(&heard),
            ..Listener::default()
        }));
    }
    let session = store.create(header("s"), None, 1).unwrap();
    assert_eq!(
        take(&heard),
        [
            "1 created s of 0",
            "1 detach true",
            "2 created s of 0",
            "1 disposed s",
            "2 disposed s"
        ]
    );
    assert_eq!((ids(&store), store.detach(&session)), (vec![], false));
}

#[test]
fn a_session_detached_by_one_listener_of_an_event_leaves_when_all_have_heard_the_event() {
    let (store, heard) = listening(vec![]);
    for (name, detach_on) in [
        ("1 ", Some(("event", Arc::downgrade(&store)))),
        ("2 ", None),
    ] {
        store.listen(Arc::new(Listener {
            name,
            detach_on,
            heard: Arc::clone(&heard),
            ..Listener::default()
        }));
    }
    let session = store.create(header("s"), None, 1).unwrap();
    take(&heard);
    session.append(fact(), 1).unwrap();
    assert_eq!(
        take(&heard),
        [
            "1 event s 0",
            "1 detach true",
            "2 event s 0",
            "1 disposed s",
            "2 disposed s"
        ]
    );
    assert!(ids(&store).is_empty());
}

#[test]
fn nobody_hears_what_a_detached_session_appends() {
    let (store, heard) = listening(vec![Listener::default()]);
    let session = store.create(header("s"), None, 1).unwrap();
    store.detach(&session);
    take(&heard);
    session.append(fact(), 1).unwrap();
    assert_eq!((take(&heard), session.log().end()), (vec![], at(1)));

    drop(store);
    session.append(fact(), 1).unwrap();
    assert_eq!(session.log().end(), at(2), "a handle outlives its store");
}

#[test]
fn a_listener_that_comes_later_hears_what_happens_from_then_on() {
    let (store, heard) = listening(vec![]);
    let session = store.create(header("s"), None, 1).unwrap();
    session.append(fact(), 1).unwrap();
    store.listen(Arc::new(Listener {
        heard: Arc::clone(&heard),
        ..Listener::default()
    }));
    session.append(fact(), 2).unwrap();
    store.detach(&session);
    assert_eq!(take(&heard), ["event s 1", "disposed s"]);
}

#[test]
fn the_failure_of_a_listener_changes_nothing_about_the_event() {
    let (store, heard) = listening(vec![
        Listener {
            name: "1 ",
            fail_events: true,
            ..Listener::default()
        },
        Listener {
            name: "2 ",
            fail_events: true,
            ..Listener::default()
        },
    ]);
    let session = store.create(header("s"), None, 1).unwrap();
    take(&heard);
    let event = session.append(fact(), 1).unwrap();
    assert_eq!(take(&heard), ["1 event s 0", "2 event s 0"]);
    assert_eq!(session.log().last(), Some(&event));
    assert_eq!(
        session.lock().take_observer_failures(),
        [ObserverFailure {
            seq: seq(0),
            reason: "1 full; 2 full".to_owned()
        }]
    );
    assert_eq!(session.lock().take_observer_failures(), []);
}

#[test]
fn a_refused_event_is_told_to_nobody() {
    let (store, heard) = listening(vec![Listener::default()]);
    let session = store.create(header("s"), None, 1).unwrap();
    take(&heard);
    let wrong = EventDraft::log_only(EventKind::TurnStart, &json!({})).unwrap();
    session.append(wrong, 1).unwrap_err();
    assert_eq!((take(&heard), session.log().is_empty()), (vec![], true));
}

#[test]
fn a_flush_asks_everybody_and_says_whether_anybody_keeps_anything() {
    let listener = |name, flush| Listener {
        name,
        flush: Some(flush),
        ..Listener::default()
    };
    let fails = |reason: &str| Err(reason.to_owned());
    for (flushes, expected) in [
        (vec![], Ok(false)),
        (vec![Ok(false)], Ok(false)),
        (vec![Ok(false), Ok(true)], Ok(true)),
        (
            vec![fails("disk full"), Ok(true), fails("gone")],
            Err("session `s` could not be flushed: disk full"),
        ),
    ] {
        let count = flushes.len();
        let names = ["1 ", "2 ", "3 "];
        let (store, heard) = listening(
            names
                .into_iter()
                .zip(flushes)
                .map(|(name, flush)| listener(name, flush))
                .collect(),
        );
        let session = store.create(header("s"), None, 1).unwrap();
        take(&heard);
        let flushed = store.flush(&session).map_err(|error| error.to_string());
        assert_eq!(flushed, expected.map_err(str::to_owned));
        let asked: Vec<String> = names[..count]
            .iter()
            .map(|name| format!("{name}flush s"))
            .collect();
        assert_eq!(take(&heard), asked);
        store.detach(&session);
        assert_eq!(
            store.flush(&session),
            Err(StoreError::SessionNotLive("s".into()))
        );
    }
}

#[test]
fn minted_ids_pass_over_taken_ones() {
    let store = SessionStore::new();
    store.create(header("session-2"), None, 1).unwrap();
    let minted: Vec<String> = (0..3).map(|_| store.mint_id().to_string()).collect();
    assert_eq!(minted, ["session-1", "session-3", "session-4"]);
}

#[test]
fn sessions_are_listed_in_the_order_in_which_they_entered() {
    let store = SessionStore::new();
    for id in ["b", "c", "a"] {
        store.create(header(id), None, 1).unwrap();
    }
    let c = store.get(&"c".into()).unwrap();
    store.detach(&c);
    store.create(header("c"), None, 1).unwrap();
    assert_eq!(ids(&store), ["b", "a", "c"]);
    assert!(store.get(&"d".into()).is_none());
}
