//! The journal of an attempt: what survives of an answer that was streaming, and what is made of a journal that is there.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;

use offshoot_format::{Container, decode_as};
use offshoot_session::{EventDraft, EventKind, EventLog, Seq, SessionId, StepRef, build_fork_seed};
use offshoot_store::{
    AttemptStart, JsonlStore, Persistence, SessionWriter, Settle, Settlement, StrayJournal,
    WriteBehind, WriterThread,
};
use serde_json::json;

use crate::child;
use crate::faulty::{Fault, FaultyDisk};
use crate::support::{BOTH, Home, NOW, event, events, header, texts, write};

/// Takes each line, a JSON string, as a piece of text, which came when as many had come.
#[derive(Debug)]
pub(crate) struct Texts;

impl Settle for Texts {
    fn settle(
        &self,
        attempt: &AttemptStart,
        chunks: &[&str],
        _: &EventLog,
    ) -> Result<Option<Settlement>, String> {
        let pieces = chunks.iter().map(|line| serde_json::from_str(line));
        let pieces: Result<Vec<String>, _> = pieces.collect();
        let text = pieces.map_err(|error| error.to_string())?.concat();
        let AttemptStart {
            at: StepRef { turn, step },
            provider,
            model,
            ..
        } = attempt;
        let message = json!({
            "id": "settled", "role": "assistant", "content": [{"type": "text", "text": text}],
            "source": {"kind": "model", "provider": provider, "model": model},
        });
        let data = json!({"turn": turn, "step": step, "message": message, "interrupted": true, "stream": []});
        let draft = match text.trim() {
            "" => EventDraft::log_only(
                EventKind::AssistantAttempt,
                &json!({"turn": turn, "step": step, "stream": []}),
            ),
            _ => EventDraft::message(EventKind::AssistantMessage, &data),
        };
        Ok(Some(Settlement {
            draft: draft.unwrap(),
            time: 1_000 + i64::try_from(chunks.len()).unwrap(),
        }))
    }
}

pub(crate) fn store(home: &Home, container: Container) -> JsonlStore {
    home.store(container).settling(Arc::new(Texts))
}

pub(crate) fn attempt() -> AttemptStart {
    AttemptStart {
        at: StepRef { turn: 1, step: 1 },
        attempt: 1,
        provider: "acme".into(),
        model: "acme-small".into(),
    }
}

/// As [`store`], on a disk that makes nothing durable, which is quicker.
fn sound(home: &Home, container: Container) -> JsonlStore {
    let store = JsonlStore::on(home.root(), container, FaultyDisk::sound());
    store.settling(Arc::new(Texts))
}

fn path(home: &Home) -> PathBuf {
    home.dir("demo").join("attempt.journal")
}

fn names(home: &Home) -> Vec<String> {
    let entries = fs::read_dir(home.dir("demo")).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<_> = names.filter(|name| name.starts_with("attempt")).collect();
    names.sort();
    names
}

/// A session whose model is answering: six events, and these chunks, all durable. The writer is gone.
fn streaming(home: &Home, container: Container, chunks: &[&str]) {
    let mut writer = store(home, container).create(&header("demo")).unwrap();
    writer.append(&events(4)).unwrap();
    writer.append(&events(6)[4..]).unwrap();
    stream(&mut *writer, chunks);
}

fn stream(writer: &mut dyn SessionWriter, chunks: &[&str]) {
    writer.begin_attempt(&attempt()).unwrap();
    let lines: Vec<Arc<str>> = chunks.iter().map(|chunk| Arc::from(*chunk)).collect();
    writer.journal(&lines).unwrap();
}

fn demo() -> SessionId {
    "demo".into()
}

const CHUNKS: [&str; 2] = [r#""Hello, ""#, r#""world.""#];
const SETTLED: &str = r#"{"type":"assistant/message","seq":6,"time":1002,"data":{"turn":1,"step":1,"message":{"id":"settled","role":"assistant","content":[{"type":"text","text":"Hello, world."}],"source":{"kind":"model","provider":"acme","model":"acme-small"}},"interrupted":true,"stream":[]},"surfaceOp":"append"}"#;

#[test]
fn the_file_is_what_the_document_says() {
    let home = Home::new();
    streaming(&home, Container::Raw, &CHUNKS);
    let text = fs::read_to_string(path(&home)).unwrap();
    let digest = "1b38174af9998ab769eacb3184145604b2c1f53f57dfe337071dd68bc611f9a0";
    let expected = format!(
        "{{\"type\":\"attempt-journal\",\"version\":1,\"session\":\"demo\",\"turn\":1,\"step\":1,\"attempt\":1,\
         \"provider\":\"acme\",\"model\":\"acme-small\",\"events\":6,\"digest\":\"{digest}\"}}\n\
         \"Hello, \"\n\"world.\"\n"
    );
    assert_eq!(text, expected);
}

#[test]
fn a_reader_sees_the_text_at_once_and_opening_stores_it_with_the_closers() {
    for container in BOTH {
        let home = Home::new();
        let store = store(&home, container);
        streaming(&home, container, &CHUNKS);
        let before = home.tree();
        let read = store.read(&demo()).unwrap();
        assert_eq!((read.settled, read.stray), (Some(Seq::new(6)), None));
        let mut expected = texts(&events(6));
        expected.push(SETTLED.to_owned());
        assert_eq!(texts(read.stored.log.events()), expected);
        assert_eq!(home.tree(), before, "a reader writes nothing");

        let opened = store.open(&demo(), NOW).unwrap();
        let repair = opened.repair.unwrap();
        assert_eq!((repair.settled, repair.stray), (Some(Seq::new(6)), None));
        let kinds: Vec<_> = repair.closers.iter().map(|event| event.kind()).collect();
        assert_eq!(kinds, [&EventKind::StepEnd, &EventKind::TurnEnd]);
        let rows = texts(opened.session.log().events());
        assert_eq!(rows[..7], expected);
        assert_eq!(rows.len(), 10);
        // It came into the file in the one batch of the repair.
        let bytes = fs::read(home.log("demo", container)).unwrap();
        let added = container.batch(opened.session.log().events().skip(6).map(|event| &**event));
        assert!(bytes.ends_with(&added));
        assert_eq!(names(&home), [""; 0]);
        drop(opened.writer);

        // Doing it again changes nothing.
        let before = home.tree();
        let again = store.open(&demo(), NOW).unwrap();
        assert_eq!(again.repair, None);
        assert_eq!(texts(again.session.log().events()), rows);
        drop(again.writer);
        assert_eq!(home.tree(), before);
        let read = store.read(&demo()).unwrap();
        assert_eq!(
            (read.settled, texts(read.stored.log.events())),
            (None, rows)
        );
    }
}

#[test]
fn a_fork_of_what_a_reader_sees_has_the_text() {
    let home = Home::new();
    let store = store(&home, Container::Zstd);
    streaming(&home, Container::Zstd, &CHUNKS);
    let read = store.read(&demo()).unwrap();
    let seed = build_fork_seed(&read.stored.log, read.settled.unwrap()).unwrap();
    let child = read.stored.header.forked("child".into(), 1);
    let mut writer = store.create(&child).unwrap();
    let events: Vec<_> = seed.log().events().cloned().collect();
    writer.append(&events).unwrap();
    drop(writer);
    let read = store.read(&"child".into()).unwrap();
    assert_eq!(texts(read.stored.log.events())[6], SETTLED);
}

#[test]
fn an_answer_of_which_nothing_could_be_seen_is_an_attempt() {
    let home = Home::new();
    let store = store(&home, Container::Zstd);
    streaming(&home, Container::Zstd, &[r#"" ""#]);
    let opened = store.open(&demo(), NOW).unwrap();
    let row = r#"{"type":"assistant/attempt","seq":6,"time":1001,"data":{"turn":1,"step":1,"stream":[]}}"#;
    assert_eq!(texts(opened.session.log().events())[6], row);
}

#[test]
fn a_journal_cut_anywhere_gives_the_chunks_that_are_whole_in_it() {
    let home = Home::new();
    let store = store(&home, Container::Raw);
    streaming(&home, Container::Raw, &CHUNKS);
    let whole = fs::read(path(&home)).unwrap();
    let log = fs::read(home.log("demo", Container::Raw)).unwrap();
    let second = whole.len() - CHUNKS[1].len() - 1;
    let first = second - CHUNKS[0].len() - 1;
    for length in 0..=whole.len() {
        write(&home.log("demo", Container::Raw), &log);
        write(&path(&home), &whole[..length]);
        let read = store.read(&demo()).unwrap();
        assert_eq!(read.stray, None, "{length}");
        let text = match length {
            _ if length == whole.len() => Some("Hello, world."),
            _ if length >= second => Some("Hello, "),
            _ => None,
        };
        let seen = texts(read.stored.log.events());
        match text {
            None => assert_eq!(seen.len(), 6, "{length}, chunks begin at {first}"),
            Some(text) => assert!(
                seen[6].contains(&format!("\"text\":\"{text}\"")),
                "{length}"
            ),
        }
        let opened = store.open(&demo(), NOW).unwrap();
        assert!(texts(opened.session.log().events()).starts_with(&seen));
        assert_eq!(names(&home), [""; 0], "{length}");
    }
}

#[test]
fn what_was_queued_behind_the_beginning_of_the_attempt_stays_ahead_of_its_end() {
    let home = Home::new();
    let store = store(&home, Container::Zstd);
    let mut writer = store.create(&header("demo")).unwrap();
    writer.append(&events(6)).unwrap();
    stream(&mut *writer, &CHUNKS);
    let queued = r#"{"type":"agent/inbox/spliced","seq":6,"time":105,"data":{"target":"next-turn","start":0,"inserted":[{"id":"u-9","role":"user","content":[{"type":"text","text":"And?"}],"source":{"kind":"user"}}]}}"#;
    writer.append(&[event(queued)]).unwrap();
    drop(writer);
    let opened = store.open(&demo(), NOW).unwrap();
    assert_eq!(opened.repair.unwrap().settled, Some(Seq::new(7)));
    assert_eq!(texts(opened.session.log().events())[6], queued);
}

#[test]
fn a_journal_whose_attempt_the_log_has_settled_is_removed_without_a_word() {
    // Settled by the answer itself; and an answer, and the end of its step, that came later.
    for stored in [7, 12, 16] {
        let home = Home::new();
        let store = store(&home, Container::Zstd);
        let mut writer = store.create(&header("demo")).unwrap();
        writer.append(&events(6)).unwrap();
        stream(&mut *writer, &CHUNKS);
        writer.append(&events(stored)[6..]).unwrap();
        drop(writer);
        let read = store.read(&demo()).unwrap();
        assert_eq!((read.settled, read.stray), (None, None), "{stored}");
        assert_eq!(texts(read.stored.log.events()), texts(&events(stored)));
        let opened = store.open(&demo(), NOW).unwrap();
        let repair = opened.repair.unwrap_or_default();
        assert_eq!((repair.settled, repair.stray), (None, None), "{stored}");
        assert_eq!(names(&home), [""; 0]);
    }
}

#[test]
fn an_attempt_that_was_settled_ahead_of_this_one_does_not_settle_it() {
    let home = Home::new();
    let store = store(&home, Container::Zstd);
    let mut writer = store.create(&header("demo")).unwrap();
    writer.append(&events(6)).unwrap();
    let first =
        r#"{"type":"assistant/attempt","seq":6,"time":105,"data":{"turn":1,"step":1,"stream":[]}}"#;
    writer.append(&[event(first)]).unwrap();
    stream(&mut *writer, &CHUNKS);
    drop(writer);
    let read = store.read(&demo()).unwrap();
    assert_eq!(read.settled, Some(Seq::new(7)));
}

#[test]
fn the_end_of_an_attempt_takes_its_journal_away_and_the_next_one_begins_anew() {
    let home = Home::new();
    let store = store(&home, Container::Zstd);
    let mut writer = store.create(&header("demo")).unwrap();
    writer.append(&events(6)).unwrap();
    stream(&mut *writer, &CHUNKS);
    writer.end_attempt();
    assert_eq!(names(&home), [""; 0]);
    let error = writer.journal(&["\"x\"".into()]).unwrap_err();
    assert_eq!(error.code(), "IO_ERROR");
    // Also over one that was not ended.
    stream(&mut *writer, &CHUNKS);
    stream(&mut *writer, &[r#""Anew.""#]);
    drop(writer);
    let read = store.read(&demo()).unwrap();
    assert!(texts(read.stored.log.events())[6].contains("\"text\":\"Anew.\""));
}

#[test]
fn a_journal_that_does_not_belong_to_the_log_is_reported_and_moved_aside() {
    let strange = |text: String, from: &str, to: &str| {
        assert!(text.contains(from), "{text}");
        text.replacen(from, to, 1)
    };
    for (from, to, reason) in [
        (
            "\"session\":\"demo\"",
            "\"session\":\"other\"",
            "it is of session `other`",
        ),
        (
            "\"events\":6",
            "\"events\":7",
            "it follows 7 events, and the log has 6",
        ),
        (
            "\"digest\":\"",
            "\"digest\":\"00000000",
            "its first line is damaged: no digest",
        ),
        (
            "\"version\":1",
            "\"version\":9",
            "it has version 9; this program reads version 1",
        ),
        ("\n\"Hello", "\n Hello", "expected value at line 1 column 2"),
    ] {
        let home = Home::new();
        let store = store(&home, Container::Zstd);
        streaming(&home, Container::Zstd, &CHUNKS);
        let text = strange(fs::read_to_string(path(&home)).unwrap(), from, to);
        write(&path(&home), &text);
        let at = |path| StrayJournal {
            path,
            reason: reason.to_owned(),
        };
        let read = store.read(&demo()).unwrap();
        assert_eq!((read.settled, read.stray), (None, Some(at(path(&home)))));
        assert_eq!(read.stored.log.end().get(), 6);

        // A name that is taken is not taken again.
        let aside = |number| {
            home.dir("demo")
                .join(format!("attempt.journal.stray-{number}"))
        };
        write(&aside(1), "somebody's");
        let opened = store.open(&demo(), NOW).unwrap();
        let repair = opened.repair.unwrap();
        assert_eq!((repair.settled, repair.stray), (None, Some(at(aside(2)))));
        assert_eq!(fs::read_to_string(aside(2)).unwrap(), text);
        assert_eq!(fs::read_to_string(aside(1)).unwrap(), "somebody's");
        drop(opened.writer);
        // It is never looked at again.
        assert_eq!(store.open(&demo(), NOW).unwrap().repair, None);
        assert_eq!(store.read(&demo()).unwrap().stray, None);
    }
}

#[test]
fn a_journal_of_another_history_is_not_put_behind_this_one() {
    for container in BOTH {
        let home = Home::new();
        let store = store(&home, container);
        streaming(&home, container, &CHUNKS);
        let journal = fs::read(path(&home)).unwrap();
        // The same number of events, the first of them at another time.
        fs::remove_dir_all(home.dir("demo")).unwrap();
        let mut others = events(6);
        others[0] = event(r#"{"type":"turn/start","seq":0,"time":99,"data":{"turn":1}}"#);
        let mut writer = store.create(&header("demo")).unwrap();
        writer.append(&others).unwrap();
        drop(writer);
        write(&path(&home), journal);
        let read = store.read(&demo()).unwrap();
        assert_eq!(read.settled, None);
        assert_eq!(
            read.stray.unwrap().reason,
            "it follows 6 events that are not those of the log"
        );
    }
}

#[test]
fn a_store_that_cannot_read_answers_keeps_them() {
    let home = Home::new();
    streaming(&home, Container::Zstd, &CHUNKS);
    let opened = home.store(Container::Zstd).open(&demo(), NOW).unwrap();
    let stray = opened.repair.unwrap().stray.unwrap();
    assert_eq!(
        stray
            .to_string()
            .replace(&*home.dir("demo").to_string_lossy(), "<dir>"),
        "`<dir>/attempt.journal.stray-1`, the stream of an answer, was not used: this program cannot read answers"
    );
}

#[test]
fn something_else_with_the_journals_name_is_reported_to_readers_and_never_removed() {
    let home = Home::new();
    let store = store(&home, Container::Zstd);
    streaming(&home, Container::Zstd, &CHUNKS);
    fs::remove_file(path(&home)).unwrap();
    fs::create_dir(path(&home)).unwrap();
    let read = store.read(&demo()).unwrap();
    let reason = read.stray.unwrap().reason;
    assert!(reason.starts_with("it cannot be read: "), "{reason}");
    let error = store.open(&demo(), NOW).unwrap_err();
    assert_eq!(error.code(), "IO_ERROR");
    assert!(path(&home).is_dir());
}

/// Writing a journal, with the disk failing at any step: the log is what it was, and what was acknowledged is there.
#[test]
fn whatever_fails_while_a_journal_is_written_the_log_goes_on() {
    let settles = event(
        r#"{"type":"assistant/attempt","seq":6,"time":105,"data":{"turn":1,"step":1,"stream":[]}}"#,
    );
    for fault in [Fault::Once, Fault::Forever] {
        let (mut first, mut kept) = (None, 0);
        for step in 0.. {
            let home = Home::new();
            let disk = match first {
                // How long it takes until the journal begins.
                None => FaultyDisk::sound(),
                Some(first) => FaultyDisk::new(fault, first + step),
            };
            let faulty = JsonlStore::on(home.root(), Container::Raw, Arc::clone(&disk) as _);
            let mut writer = faulty.create(&header("demo")).unwrap();
            writer.append(&events(6)).unwrap();
            first.get_or_insert(disk.steps());
            let begun = writer.begin_attempt(&attempt()).is_ok();
            let chunk = begun && writer.journal(&[CHUNKS[0].into()]).is_ok();
            let settled = writer.append(&[Arc::clone(&settles)]).is_ok();
            if settled {
                writer.end_attempt();
            }
            drop(writer);
            let read = store(&home, Container::Raw).read(&demo()).unwrap();
            assert_eq!(read.stray, None, "step {step}");
            let seen = texts(read.stored.log.events());
            assert_eq!(seen[..6], texts(&events(6)), "step {step}");
            if settled {
                assert_eq!(seen[6..], [settles.text()], "step {step}");
            } else if chunk {
                // By the journal, or by the event that was written and not taken back.
                assert_eq!(seen.len(), 7, "step {step}");
                kept += u64::from(read.settled.is_some());
            }
            if step > 0 && disk.steps() <= first.unwrap() + step {
                assert!(chunk && settled, "the last round meets no fault");
                break;
            }
        }
        assert!(
            kept > 0,
            "there were rounds in which only the journal had the text"
        );
    }
}

/// Opening a session that was streaming, with the process ending at any step: whoever opens it next comes to the same end.
#[test]
fn a_settlement_that_is_cut_off_anywhere_is_done_again_with_the_same_end() {
    for container in BOTH {
        for torn in [false, true] {
            let home = Home::new();
            streaming(&home, container, &CHUNKS);
            if torn {
                // What a crash has left of another batch.
                let queued = event(
                    r#"{"type":"agent/inbox/spliced","seq":6,"time":105,"data":{"target":"next-turn","start":0,"inserted":[]}}"#,
                );
                let batch = container.batch([&*queued]);
                let mut bytes = fs::read(home.log("demo", container)).unwrap();
                bytes.extend(&batch[..batch.len() - 2]);
                write(&home.log("demo", container), bytes);
            }
            let left: Vec<(PathBuf, Vec<u8>)> = [path(&home), home.log("demo", container)]
                .into_iter()
                .map(|path| (path.clone(), fs::read(path).unwrap()))
                .collect();
            let reset = || {
                for entry in fs::read_dir(home.dir("demo")).unwrap() {
                    fs::remove_file(entry.unwrap().path()).unwrap();
                }
                left.iter().for_each(|(path, bytes)| write(path, bytes));
            };
            let seen = texts(
                store(&home, container)
                    .read(&demo())
                    .unwrap()
                    .stored
                    .log
                    .events(),
            );
            drop(store(&home, container).open(&demo(), NOW).unwrap());
            let expected = fs::read(home.log("demo", container)).unwrap();
            let rows = texts(decode_as(container, &expected).unwrap().log.events());
            assert!(rows.starts_with(&seen));
            for step in 0.. {
                reset();
                let disk = FaultyDisk::new(Fault::Forever, step);
                let faulty = JsonlStore::on(home.root(), container, Arc::clone(&disk) as _);
                let opened = faulty.settling(Arc::new(Texts)).open(&demo(), NOW);
                let was_opened = opened.is_ok();
                drop(opened);
                let store = sound(&home, container);
                let read = store.read(&demo()).unwrap();
                let now = texts(read.stored.log.events());
                assert!(
                    now.starts_with(&seen) && rows.starts_with(&now),
                    "step {step}"
                );
                drop(store.open(&demo(), NOW).unwrap());
                let bytes = fs::read(home.log("demo", container)).unwrap();
                assert_eq!(bytes, expected, "step {step}");
                assert_eq!(names(&home), [""; 0], "step {step}");
                if disk.steps() <= step {
                    assert!(was_opened);
                    break;
                }
            }
        }
    }
}

/// What the child process streams, for as long as it lives: numbers, one chunk each, and one every now and then flushed.
pub(crate) fn stream_until_killed(store: &JsonlStore) -> WriteBehind {
    let mut writer = store.create(&header("demo")).unwrap();
    writer.append(&events(6)).unwrap();
    let behind = WriterThread::new().attach(writer, Arc::new(()));
    behind.begin_attempt(attempt());
    for number in 0..100 {
        behind.delta(format!("\"{number} \"").into());
    }
    behind.flush().wait().unwrap();
    behind.delta("\"and\"".into());
    behind
}

#[test]
fn a_process_that_is_killed_while_it_streams_loses_nothing_that_was_written() {
    for container in BOTH {
        let home = Home::new();
        child::Holder::start("stream", &home.root(), container).kill();
        let store = store(&home, container);
        let opened = store.open(&demo(), NOW).unwrap();
        assert_eq!(opened.repair.unwrap().settled, Some(Seq::new(6)));
        let text: String = (0..100).map(|number| format!("{number} ")).collect();
        let rows = texts(opened.session.log().events());
        // What came in the last window may be there or not.
        let is_kept = |end: &str| rows[6].contains(&format!("\"text\":\"{text}{end}\""));
        assert!(is_kept("") || is_kept("and"), "{}", rows[6]);
        drop(opened.writer);
        let before = home.tree();
        assert_eq!(store.open(&demo(), NOW).unwrap().repair, None);
        assert_eq!(home.tree(), before);
    }
}
