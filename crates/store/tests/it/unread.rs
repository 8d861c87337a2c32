//! Forks of a session that is not read: what is remembered of it gives the same fork, or none.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;

use offshoot_format::Container;
use offshoot_session::{Event, EventLog, Seq, build_fork_seed};
use offshoot_store::{Collecting, JsonlStore, Persistence as _, Query};

use crate::support::{Home, NOW, PROJECT, event, file_bytes, header, log, texts, write};

const CREATED: u64 = 2;

/// Text that does not compress, always the same.
fn noise(seed: u64) -> String {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let digits = std::iter::repeat_with(|| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        char::from(b'0' + (state % 74) as u8)
    });
    digits
        .map(|digit| if digit == '\\' { 'x' } else { digit })
        .take(3_000)
        .collect()
}

/// Turns with a call each, packed in frames that end in the middle of steps and turns.
fn turns(count: u64) -> Vec<Vec<Arc<Event>>> {
    let mut rows = Vec::new();
    for turn in 1..=count {
        let text = noise(turn);
        for row in [
            format!(r#""turn/start","data":{{"turn":{turn}}}"#),
            format!(r#""step/start","data":{{"turn":{turn},"step":1}}"#),
            format!(
                r#""user/message","data":{{"id":"u-{turn}","role":"user","content":[{{"type":"text","text":"{text}"}}],"source":{{"kind":"user"}}}},"surfaceOp":"append""#
            ),
            format!(
                r#""assistant/message","data":{{"turn":{turn},"step":1,"message":{{"id":"a-{turn}","role":"assistant","content":[{{"type":"tool-call","id":"c-{turn}","name":"look","arguments":"{{}}"}},{{"type":"tool-call","id":"d-{turn}","name":"look","arguments":"{{}}"}}],"source":{{"kind":"model","provider":"acme","model":"small"}}}},"stream":[]}},"surfaceOp":"append""#
            ),
            format!(
                r#""tool/call","data":{{"turn":{turn},"step":1,"callId":"c-{turn}","name":"look","arguments":"{{}}"}}"#
            ),
            format!(
                r#""tool/result","data":{{"turn":{turn},"step":1,"message":{{"id":"r-{turn}","role":"tool","toolCallId":"c-{turn}","source":{{"kind":"tool","callId":"c-{turn}"}},"content":[{{"type":"text","text":"figs"}}]}}}},"surfaceOp":"append""#
            ),
            format!(
                r#""tool/call","data":{{"turn":{turn},"step":1,"callId":"d-{turn}","name":"look","arguments":"{{}}"}}"#
            ),
            format!(
                r#""tool/result","data":{{"turn":{turn},"step":1,"message":{{"id":"s-{turn}","role":"tool","toolCallId":"d-{turn}","source":{{"kind":"tool","callId":"d-{turn}"}},"content":[{{"type":"text","text":"figs"}}]}}}},"surfaceOp":"append""#
            ),
            format!(r#""step/end","data":{{"turn":{turn},"step":1}}"#),
            format!(r#""turn/end","data":{{"turn":{turn},"reason":{{"kind":"completed"}}}}"#),
        ] {
            let seq = rows.len();
            let (kind, rest) = row.split_once(',').unwrap();
            rows.push(event(&format!(
                r#"{{"type":{kind},"seq":{seq},"time":{},{rest}}}"#,
                100 + seq
            )));
        }
    }
    rows.chunks(7).map(<[_]>::to_vec).collect()
}

struct Remembered {
    home: Home,
    store: JsonlStore,
    cache: PathBuf,
    log: EventLog,
}

/// A session that was read once.
fn remembered(turns_count: u64) -> Remembered {
    let home = Home::ours();
    let batches = turns(turns_count);
    let slices: Vec<&[Arc<Event>]> = batches.iter().map(Vec::as_slice).collect();
    home.put_log(
        "demo",
        Container::Zstd,
        file_bytes(Container::Zstd, &header("demo"), &slices),
    );
    // As whoever wrote it has left it.
    write(&home.dir("demo").join("session.lock"), "");
    let cache = home.root().parent().unwrap().join("cache");
    let store = home.store(Container::Zstd).with_cache(&cache);
    let before = fs::read(home.log("demo", Container::Zstd)).unwrap();
    drop(store.read(&"demo".into()).unwrap());
    assert_eq!(fs::read(home.log("demo", Container::Zstd)).unwrap(), before);
    Remembered {
        home,
        store,
        cache,
        log: log(&batches.concat()),
    }
}

impl Remembered {
    /// Forks at an event, or at the default cut, and compares with the fork that reading the session gives.
    fn check(&self, parent: &str, log: &EventLog, at: Option<u64>) -> String {
        let child = format!(
            "{parent}-{}",
            at.map_or_else(|| "end".into(), |at| at.to_string())
        );
        let forked = self
            .store
            .fork_unread(
                &parent.into(),
                at.map(Seq::new),
                &child.as_str().into(),
                CREATED,
            )
            .unwrap()
            .unwrap_or_else(|| panic!("{child} is not known"));
        let cut = at.map_or_else(|| log.latest_completed_boundary().unwrap(), Seq::new);
        let seed = build_fork_seed(log, cut).unwrap();
        assert_eq!(forked.cut, cut);
        assert_eq!(texts(&forked.closers), texts(seed.closers()), "{child}");
        let read = self
            .home
            .store(Container::Zstd)
            .read(&child.as_str().into())
            .unwrap();
        assert_eq!(read.stored.header, forked.header);
        assert_eq!(read.stored.header.parent, Some(parent.into()));
        assert_eq!(
            texts(read.stored.log.events()),
            texts(seed.log().events()),
            "{child}"
        );
        child
    }

    fn is_known(&self) -> bool {
        let children = fs::read_dir(self.home.root().join(PROJECT)).unwrap();
        let child = format!("probe-{}", children.count()).as_str().into();
        let forked = self
            .store
            .fork_unread(&"demo".into(), None, &child, CREATED);
        forked.unwrap().is_some()
    }

    fn table(&self) -> PathBuf {
        let only = |dir: PathBuf| fs::read_dir(dir).unwrap().next().unwrap().unwrap().path();
        only(only(self.cache.clone()).join("checkpoints"))
    }
}

#[test]
fn a_fork_at_any_event_is_what_reading_the_session_gives() {
    let it = remembered(120);
    let end = it.log.end().get();
    for at in (7..60).chain((60..end).step_by(61)).chain(end - 12..end) {
        it.check("demo", &it.log, Some(at));
    }
    it.check("demo", &it.log, None);
}

#[test]
fn a_fork_of_a_linked_fork_is_found_in_its_bases_too() {
    let it = remembered(120);
    let child = it.check("demo", &it.log, Some(1_001));
    let seed = it.store.read(&child.as_str().into()).unwrap().stored.log;
    for at in [8, 500, 994, 1_000, 1_001, seed.end().get() - 1] {
        it.check(&child, &seed, Some(at));
    }
}

#[test]
fn what_is_remembered_counts_for_the_file_it_was_made_of_alone() {
    let it = remembered(60);
    assert!(it.is_known());
    let opened = it.store.open(&"demo".into(), NOW).unwrap();
    drop(opened);
    assert!(!it.is_known(), "the resume marker was appended");
    drop(it.store.read(&"demo".into()).unwrap());
    assert!(it.is_known());
    // A cut that is no event is told by whoever reads the session.
    let beyond = it
        .store
        .fork_unread(&"demo".into(), Some(Seq::new(9_999)), &"x".into(), CREATED);
    assert!(beyond.unwrap().is_none());
    // An id that is taken is taken.
    it.check("demo", &it.log, Some(300));
    let taken = it.store.fork_unread(
        &"demo".into(),
        Some(Seq::new(300)),
        &"demo-300".into(),
        CREATED,
    );
    assert_eq!(taken.unwrap_err().code(), "SESSION_ALREADY_EXISTS");
    // While somebody writes, a cut in the last frame is left to who reads it.
    let held = it.store.open(&"demo".into(), NOW + 1).unwrap();
    drop(it.store.read(&"demo".into()).unwrap());
    let last = held.session.log().end().last();
    let forked = it
        .store
        .fork_unread(&"demo".into(), last, &"last".into(), CREATED)
        .unwrap();
    assert!(forked.is_none());
    assert!(
        it.store
            .fork_unread(
                &"demo".into(),
                Some(Seq::new(299)),
                &"early".into(),
                CREATED
            )
            .unwrap()
            .is_some()
    );
}

#[test]
fn a_damaged_or_missing_memory_is_none() {
    let it = remembered(60);
    let path = it.table();
    let whole = fs::read(&path).unwrap();
    for at in (0..whole.len()).step_by(whole.len() / 97) {
        let mut damaged = whole.clone();
        damaged[at] ^= 1;
        write(&path, &damaged);
        assert!(!it.is_known(), "byte {at}");
        write(&path, &whole[..at]);
        assert!(!it.is_known(), "cut at {at}");
    }
    write(&path, &whole);
    assert!(it.is_known());
    fs::remove_dir_all(&it.cache).unwrap();
    assert!(!it.is_known());
}

#[test]
fn what_only_who_reads_a_session_can_tell_is_left_to_them() {
    // A short one is read as fast; one with a torn end, or a repair under way, is not what its frames say.
    let short = remembered(3);
    assert!(!short.is_known());
    assert!(!short.cache.exists());

    let it = remembered(60);
    let path = it.home.log("demo", Container::Zstd);
    let whole = fs::read(&path).unwrap();
    write(&path, [&whole[..], &[0x28, 0xB5]].concat());
    drop(it.store.read(&"demo".into()).unwrap());
    assert!(!it.is_known());

    let it = remembered(60);
    write(&it.home.dir("demo").join("session.repair"), "");
    assert!(!it.is_known());

    // An answer that is coming in adds nothing to what a cut ahead of it inherits.
    let it = remembered(60);
    write(
        &it.home.dir("demo").join("attempt.journal"),
        "whatever it says",
    );
    it.check("demo", &it.log, Some(300));

    // In a home of others forks are no links.
    let it = remembered(60);
    fs::remove_file(it.home.root().parent().unwrap().join("offshoot-home")).unwrap();
    assert!(!it.is_known());
}

#[test]
fn what_was_known_of_a_base_that_collecting_has_replaced_is_found_out_anew() {
    let it = remembered(120);
    let child = it.check("demo", &it.log, Some(800));
    let log = it.store.read(&child.as_str().into()).unwrap().stored.log;
    it.check(&child, &log, Some(300));
    it.store.delete(&"demo".into(), NOW).unwrap();
    // Long behind the times of the files: all that is left of it is what the forks have.
    let collected = it
        .store
        .collect(0, Collecting::Remove, 4_000_000_000_000)
        .unwrap();
    assert_eq!(collected.pruned.len(), 1);
    let fork = |at| {
        let cut = Some(Seq::new(at));
        let child = format!("late-{at}").as_str().into();
        it.store
            .fork_unread(&"demo-800".into(), cut, &child, CREATED)
            .unwrap()
    };
    assert!(fork(301).is_none());
    drop(it.store.read(&"demo-800".into()).unwrap());
    assert!(fork(302).is_some());
}

#[test]
fn nothing_of_a_session_is_in_the_cache_once_it_is_deleted_and_collected() {
    const LATER: i64 = 9_000_000_000_000;
    let it = remembered(120);
    let words = "what to do about the figs";
    let row = format!(
        r#"{{"type":"session/title","seq":{},"time":9,"data":{{"title":"{words}","messageSeqs":[2],"source":{{"kind":"fallback"}}}}}}"#,
        it.log.end()
    );
    let mut bytes = fs::read(it.home.log("demo", Container::Zstd)).unwrap();
    bytes.extend(Container::Zstd.batch([&*event(&row)]));
    let query = Query {
        now: LATER,
        ..Query::default()
    };
    let put = || {
        it.home.put_log("demo", Container::Zstd, &bytes);
        drop(it.store.read(&"demo".into()).unwrap());
        let filled = it.store.list_filled(&query, u64::MAX).unwrap();
        let summary = filled.page.rows[0].summary().unwrap();
        assert_eq!(summary.title.as_deref(), Some(words));
    };
    put();
    let is_in_cache = || {
        let mut walk = vec![it.cache.clone()];
        while let Some(path) = walk.pop() {
            match fs::read_dir(&path) {
                Ok(dir) => walk.extend(dir.map(|entry| entry.unwrap().path())),
                Err(_)
                    if String::from_utf8(fs::read(&path).unwrap())
                        .unwrap()
                        .contains(words) =>
                {
                    return true;
                }
                Err(_) => {}
            }
        }
        false
    };
    assert!(is_in_cache());
    it.store.delete(&"demo".into(), NOW).unwrap();
    assert!(!is_in_cache(), "at once");

    // Another session of this id keeps what is remembered of it.
    put();
    let table = it.table();
    let collect = || {
        let done = it.store.collect(0, Collecting::Remove, LATER).unwrap();
        assert_eq!(done.removed.len(), 1, "{done:?}");
    };
    collect();
    assert!(is_in_cache() && table.exists());

    // Deleted by somebody without a cache.
    let other = it.home.store(Container::Zstd);
    other.delete(&"demo".into(), NOW).unwrap();
    assert!(is_in_cache());
    collect();
    assert!(!is_in_cache() && !table.exists());
    // Who lists finds out as well, and leaves nothing either.
    put();
    other.delete(&"demo".into(), NOW).unwrap();
    assert!(is_in_cache());
    it.store.list(&query).unwrap();
    assert!(!is_in_cache());
}

#[test]
fn who_closes_a_session_leaves_word_of_where_it_can_be_cut() {
    let it = remembered(60);
    let opened = it.store.open(&"demo".into(), NOW).unwrap();
    assert!(!it.is_known(), "the resume marker was appended");
    it.store.note(&opened.session, &opened.writer.shareable());
    let log = opened.session.log().clone();
    drop(opened);
    it.check("demo", &log, Some(500));
    it.check("demo", &log, Some(log.end().get() - 1));
}
