//! A request for a side session can be repeated, whatever became of it the first time.

use offshoot_agent::{AgentError, Framing, SideRequest, SideSession};
use offshoot_session::{Origin, Seq, SessionHeader, SessionId};
use offshoot_store::{Persistence as _, Query};

use crate::bench::{Bench, ask, script};
use crate::outline::outline_from;
use crate::side_sessions::{marks, parent, talking, texts};
use crate::support::says;

const CHILD: &str = "child";

fn named(at: Option<Seq>) -> SideRequest {
    SideRequest {
        at,
        child: Some(CHILD.into()),
    }
}

fn ask_for(bench: &Bench, source: &SessionId, at: Option<Seq>) -> Result<SideSession, AgentError> {
    bench.service.side(&bench.read(source), &named(at))
}

/// A session in which a prompt waits and no turn has begun.
async fn nothing_yet(bench: &Bench) -> SessionId {
    let agent = bench.scripted(Vec::new());
    agent.submit("First.").unwrap();
    agent.flush().unwrap();
    agent.session().id().clone()
}

fn listed(bench: &Bench) -> Vec<SessionId> {
    let page = bench.service.list(&Query::default()).unwrap();
    let mut ids: Vec<_> = page.rows.into_iter().map(|row| row.id).collect();
    ids.sort();
    ids
}

#[tokio::test]
async fn the_same_request_gives_the_same_child() {
    for from_nothing in [false, true] {
        let bench = Bench::new();
        let source = match from_nothing {
            false => parent(&bench).await.session().id().clone(),
            true => nothing_yet(&bench).await,
        };
        let first = ask_for(&bench, &source, None).unwrap();
        let (cut, framing) = (first.cut, first.framing);
        assert_eq!(cut.is_none(), from_nothing);
        let live = ask_for(&bench, &source, None).unwrap_err();
        assert_eq!(live.code(), "SESSION_LIVE");
        drop(first);
        for _ in 0..2 {
            let again = ask_for(&bench, &source, None).unwrap();
            assert_eq!(
                (again.cut, again.framing, again.is_new),
                (cut, framing, false)
            );
        }
        let log = bench.log(&CHILD.into());
        let waiting = log.pending_input().next_step().len();
        assert_eq!(marks(&log).len() + waiting, 1, "one framing");
        let mut child = talking(&bench, ask_for(&bench, &source, None).unwrap());
        ask(&mut child, "Why?").await;
        assert_eq!(marks(&child.session().log()).len(), 1);
    }
}

#[tokio::test]
async fn a_parent_that_has_gone_on_meanwhile_does_not_change_which_child_is_meant() {
    let bench = Bench::new();
    let mut parent = parent(&bench).await;
    let source = parent.session().id().clone();
    let cut = ask_for(&bench, &source, None).unwrap().cut;
    ask(&mut parent, "Second.").await;
    let again = bench.service.side_of(&parent, &named(None)).await.unwrap();
    assert_eq!((again.cut, again.is_new), (cut, false));
    drop(again);
    // Whoever names a place means that place.
    assert!(!ask_for(&bench, &source, cut).unwrap().is_new);
    let later = parent.session().log().latest_completed_boundary();
    let refused = ask_for(&bench, &source, later).unwrap_err();
    assert_eq!(refused.code(), "SIDE_CHILD_EXISTS");
}

#[tokio::test]
async fn a_session_that_is_something_else_is_refused_and_not_touched() {
    let bench = Bench::new();
    let parent = parent(&bench).await;
    let source = parent.session().id().clone();
    let taken = |bench: &Bench| {
        let before = bench.bytes(&CHILD.into());
        let refused = ask_for(bench, &source, None).unwrap_err();
        assert_eq!(refused.code(), "SIDE_CHILD_EXISTS");
        assert_eq!(bench.bytes(&CHILD.into()), before);
        insta::allow_duplicates! {
            insta::assert_snapshot!(format!("{refused}\n{}", refused.hint().unwrap()), @r"
            session `child` exists already and is not a fresh side session of `session-id-0` at this place
            choose another id, or go on with that session
            ");
        }
        bench.persistence().delete(&CHILD.into(), 1).unwrap();
    };

    // A session of its own.
    let header = SessionHeader::new(CHILD.into(), 1);
    bench
        .persistence()
        .create(&header)
        .unwrap()
        .flush()
        .unwrap();
    taken(&bench);

    // A task that was handed over, and has not begun.
    let header = SessionHeader {
        parent: Some(source.clone()),
        origin: Some(Origin::Subagent),
        ..SessionHeader::new(CHILD.into(), 1)
    };
    bench
        .persistence()
        .create(&header)
        .unwrap()
        .flush()
        .unwrap();
    taken(&bench);

    // A fork from within a turn.
    let within = Some(Seq::new(5));
    let fork = bench
        .service
        .prepare_fork(&bench.read(&source), within, Some(CHILD.into()));
    drop(bench.service.store_fork(&fork.unwrap()).unwrap());
    taken(&bench);

    // A side session that has gone on.
    let mut child = talking(&bench, ask_for(&bench, &source, None).unwrap());
    ask(&mut child, "Why?").await;
    drop(child);
    taken(&bench);

    // One to which somebody is about to say something.
    let child = talking(&bench, ask_for(&bench, &source, None).unwrap());
    child.submit("Why?").unwrap();
    child.flush().unwrap();
    drop(child);
    taken(&bench);

    // One that is none any more.
    drop(ask_for(&bench, &source, None).unwrap());
    bench.service.promote(&CHILD.into()).unwrap();
    taken(&bench);

    // A side session of another one.
    let other = crate::side_sessions::parent(&bench).await;
    drop(ask_for(&bench, other.session().id(), None).unwrap());
    taken(&bench);

    // A side session of one that has had this id.
    drop(ask_for(&bench, &source, None).unwrap());
    let mut bytes = String::from_utf8(bench.bytes(&CHILD.into())).unwrap();
    bench.persistence().delete(&CHILD.into(), 1).unwrap();
    bytes = bytes.replace("\"completed\"", "\"elsewhere\"");
    bench.import(bytes.as_bytes());
    taken(&bench);
}

#[tokio::test]
async fn a_framing_that_was_taken_back_is_not_given_again() {
    let bench = Bench::new();
    let source = nothing_yet(&bench).await;
    drop(ask_for(&bench, &source, None).unwrap());
    bench.service.promote(&CHILD.into()).unwrap();
    let refused = ask_for(&bench, &source, None).unwrap_err();
    assert_eq!(refused.code(), "SIDE_CHILD_EXISTS");
}

#[tokio::test]
async fn a_child_and_its_framing_are_stored_in_one_step() {
    for (from_nothing, batches) in [(false, 0), (true, 1)] {
        let bench = Bench::new();
        let source = match from_nothing {
            false => parent(&bench).await.session().id().clone(),
            true => nothing_yet(&bench).await,
        };
        // There is no other step at which a process could end.
        bench.disk.fail(batches + 1..=usize::MAX);
        let made = ask_for(&bench, &source, None).unwrap();
        assert_eq!(bench.disk.batches(), batches);
        bench.disk.mend();
        assert_eq!(
            texts(&bench.log(&CHILD.into())),
            texts(&made.attached.session().log())
        );
    }
}

#[tokio::test]
async fn a_child_without_framing_is_an_ordinary_fork_that_is_listed_valid_and_can_be_completed() {
    let mut bench = Bench::new();
    let source = parent(&bench).await.session().id().clone();
    // As far as a process would come that stores the fork first and its framing then.
    let fork = bench
        .service
        .prepare_fork(&bench.read(&source), None, Some(CHILD.into()))
        .unwrap();
    drop(bench.service.store_fork(&fork).unwrap());
    bench.restart();
    assert_eq!(listed(&bench), [CHILD.into(), source.clone()]);
    assert!(!bench.log(&CHILD.into()).is_side_session());

    bench.disk.fail(1..=1);
    let failed = ask_for(&bench, &source, None).unwrap_err();
    assert!(matches!(failed, AgentError::Store(_)), "{failed}");
    assert_eq!(marks(&bench.log(&CHILD.into())), []);
    let done = ask_for(&bench, &source, None).unwrap();
    assert!(!done.is_new);
    let log = bench.log(&CHILD.into());
    assert_eq!(texts(&log), texts(&done.attached.session().log()));
    insta::assert_snapshot!(outline_from(&log, log.inherited_marker().unwrap().before()), @r"
    session/end-seed
    user/message sidechat framing
    ");
    assert_eq!(Framing::Logged(log.end().last().unwrap()), done.framing);
    let mut child = talking(&bench, done);
    ask(&mut child, "Why?").await;
    assert_eq!(marks(&child.session().log()).len(), 1);
}

#[tokio::test]
async fn a_child_from_nothing_is_not_there_before_its_framing_waits_in_it() {
    let mut bench = Bench::new();
    let source = nothing_yet(&bench).await;
    bench.disk.fail(1..=1);
    let failed = ask_for(&bench, &source, None).unwrap_err();
    assert!(matches!(failed, AgentError::Store(_)), "{failed}");
    assert_eq!(listed(&bench), std::slice::from_ref(&source));
    let made = ask_for(&bench, &source, None).unwrap();
    assert_eq!((made.framing, made.is_new), (Framing::Waiting, true));
    drop(made);

    // One that another program has made without.
    bench.persistence().delete(&CHILD.into(), 1).unwrap();
    let header = SessionHeader {
        parent: Some(source.clone()),
        ..SessionHeader::new(CHILD.into(), 1)
    };
    bench
        .persistence()
        .create(&header)
        .unwrap()
        .flush()
        .unwrap();
    bench.restart();
    let done = ask_for(&bench, &source, None).unwrap();
    assert_eq!((done.framing, done.is_new), (Framing::Waiting, false));
    let mut child = bench.agent(done.attached, script(vec![says("Because.")]));
    ask(&mut child, "Why?").await;
    assert_eq!(marks(&child.session().log()).len(), 1);
}
