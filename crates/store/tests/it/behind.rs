//! Write-behind: what is written when, by a clock that stands until a test moves it (`reference/persistence.md` §1.9).

mod scripted;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use offshoot_format::Container;
use offshoot_session::{Event, StepRef};
use offshoot_store::{
    AttemptStart, Closed, Completion, Persistence as _, WriteBehind, WriteListener, WriterThread,
};

use self::scripted::{Bench, Scripted};
use crate::faulty::{Fault, FaultyDisk};
use crate::support::{BOTH, Home, NOW, events, file_bytes, header, texts};

fn enqueue(behind: &WriteBehind, range: std::ops::Range<usize>) {
    for event in &events(range.end)[range] {
        behind.enqueue(Arc::clone(event)).unwrap();
    }
}

fn attempt(number: u64) -> AttemptStart {
    AttemptStart {
        at: StepRef { turn: 1, step: 1 },
        attempt: number,
        provider: "acme".into(),
        model: "acme-small".into(),
    }
}

#[test]
fn the_window_begins_with_the_first_queued_event_and_does_not_slide() {
    let (bench, disk) = (Bench::new(), Scripted::default());
    let behind = bench.attach(&disk);
    enqueue(&behind, 0..1);
    bench.advance(150);
    enqueue(&behind, 1..2);
    bench.advance(49);
    bench.settle();
    assert_eq!(disk.done(), [""; 0]);
    bench.advance(1);
    bench.settle();
    assert_eq!(disk.done(), ["append 0,1"]);
    assert_eq!(disk.heard(), ["durable 0,1"]);

    // The next event begins a window of its own.
    enqueue(&behind, 2..3);
    bench.advance(199);
    bench.settle();
    assert_eq!(disk.done().len(), 1);
    bench.advance(1);
    bench.settle();
    assert_eq!(disk.done(), ["append 0,1", "append 2"]);
    assert_eq!(WriterThread::window(), Duration::from_millis(200));
}

#[test]
fn what_comes_during_a_write_follows_at_once_if_its_window_has_run_out_and_else_when_it_does() {
    for (ms, written) in [(200, "append 1,2"), (199, "")] {
        let (bench, disk) = (Bench::new(), Scripted::default());
        let behind = bench.attach(&disk);
        let held = disk.hold();
        enqueue(&behind, 0..1);
        bench.advance(200);
        held.begun();
        // The disk is slow, and nobody who queues something waits for it.
        enqueue(&behind, 1..3);
        bench.advance(ms);
        held.go();
        bench.settle();
        let expected: Vec<&str> = ["append 0", written]
            .into_iter()
            .filter(|write| !write.is_empty())
            .collect();
        assert_eq!(disk.done(), expected, "{ms}");
        bench.advance(1);
        bench.settle();
        assert_eq!(disk.done(), ["append 0", "append 1,2"], "{ms}");
    }
}

#[test]
fn a_failed_batch_stays_in_front_is_reported_once_and_waits_for_the_next_flush() {
    let (bench, disk) = (Bench::new(), Scripted::default());
    let behind = bench.attach(&disk);
    disk.fail(1);
    enqueue(&behind, 0..2);
    bench.advance(200);
    bench.settle();
    let report = "Events: could not append to `the log`: the disk is full";
    assert_eq!(disk.heard(), [report]);
    // Neither time nor another event starts it again.
    enqueue(&behind, 2..3);
    bench.advance(10_000);
    bench.settle();
    assert_eq!(disk.done(), [""; 0]);

    behind.flush().wait().unwrap();
    assert_eq!(disk.done(), ["append 0,1,2"]);
    assert_eq!(disk.heard(), [report, "durable 0,1,2"]);
    // And the timer runs again.
    enqueue(&behind, 3..4);
    bench.advance(200);
    bench.settle();
    assert_eq!(disk.done(), ["append 0,1,2", "append 3"]);
}

#[test]
fn whoever_flushes_is_told_of_the_failure_and_nobody_else() {
    let (bench, disk) = (Bench::new(), Scripted::default());
    let behind = bench.attach(&disk);
    disk.fail(1);
    enqueue(&behind, 0..1);
    let error = behind.flush().wait().unwrap_err();
    assert_eq!(error.code(), "IO_ERROR");
    assert_eq!(disk.heard(), [""; 0]);
    behind.flush().wait().unwrap();
    assert_eq!(disk.done(), ["append 0"]);
}

#[test]
fn a_flush_goes_on_until_nothing_is_queued_and_those_who_ask_meanwhile_join_it() {
    let (bench, disk) = (Bench::new(), Scripted::default());
    let behind = bench.attach(&disk);
    let held = disk.hold();
    enqueue(&behind, 0..1);
    let first = behind.flush();
    held.begun();
    enqueue(&behind, 1..2);
    let second = behind.flush();
    let (told, hears) = channel();
    for completion in [&first, &second] {
        let told = told.clone();
        completion.on_done(move |stored| told.send(stored.is_ok()).unwrap());
    }
    assert_eq!(format!("{second:?}"), "Completion(open)");
    held.go();
    first.wait().unwrap();
    // It is the same barrier: when the first is reached, what came behind it is stored too.
    assert_eq!(disk.done(), ["append 0", "append 1"]);
    second.wait().unwrap();
    assert_eq!([hears.recv(), hears.recv()], [Ok(true); 2]);
    assert_eq!(format!("{second:?}"), "Completion(Ok(()))");
    // Whoever comes late is called at once.
    let late = Arc::new(AtomicBool::new(false));
    let called = Arc::clone(&late);
    first.on_done(move |_| called.store(true, Ordering::SeqCst));
    assert!(late.load(Ordering::SeqCst));
}

#[test]
fn a_flush_makes_a_new_session_exist() {
    for container in BOTH {
        let (bench, home) = (Bench::new(), Home::new());
        let writer = home.store(container).create(&header("demo")).unwrap();
        let behind = bench.thread.attach(writer, Arc::new(()));
        assert!(!home.log("demo", container).exists());
        behind.flush().wait().unwrap();
        let bytes = std::fs::read(home.log("demo", container)).unwrap();
        assert_eq!(bytes, file_bytes(container, &header("demo"), &[]));
    }
}

#[test]
fn one_batch_is_one_frame() {
    let (bench, home) = (Bench::new(), Home::new());
    let store = home.store(Container::Zstd);
    let writer = store.create(&header("demo")).unwrap();
    let behind = bench.thread.attach(writer, Arc::new(()));
    enqueue(&behind, 0..5);
    behind.flush().wait().unwrap();
    enqueue(&behind, 5..9);
    bench.advance(200);
    bench.settle();
    let all = events(9);
    assert_eq!(
        std::fs::read(home.log("demo", Container::Zstd)).unwrap(),
        file_bytes(Container::Zstd, &header("demo"), &[&all[..5], &all[5..]])
    );
}

#[test]
fn closing_writes_the_rest_and_gives_up_the_lock() {
    let (bench, home) = (Bench::new(), Home::new());
    let store = home.store(Container::Raw);
    let writer = store.create(&header("demo")).unwrap();
    let behind = bench.thread.attach(writer, Arc::new(()));
    enqueue(&behind, 0..2);
    behind.close().wait().unwrap();
    let opened = store.open(&"demo".into(), NOW).unwrap();
    assert_eq!(texts(opened.session.log().events())[..2], texts(&events(2)));

    // Nothing more can be queued, and asking again says the same.
    let [_, _, third] = &events(3)[..] else {
        unreachable!()
    };
    assert_eq!(behind.enqueue(Arc::clone(third)), Err(Closed));
    assert_eq!(behind.inlet().enqueue(Arc::clone(third)), Err(Closed));
    behind.close().wait().unwrap();
    behind.flush().wait().unwrap();
}

#[test]
fn dropping_the_last_handle_closes_and_an_inlet_is_none() {
    let (bench, disk) = (Bench::new(), Scripted::default());
    let behind = bench.attach(&disk);
    let inlet = behind.inlet();
    let other = behind.clone();
    drop(behind);
    for event in events(2) {
        inlet.enqueue(event).unwrap();
    }
    assert!(!disk.0.lock().unwrap().dropped);
    drop(other);
    assert_eq!(disk.done(), ["append 0,1"]);
    assert!(disk.0.lock().unwrap().dropped);
    let event = events(3).remove(2);
    assert_eq!(inlet.enqueue(event), Err(Closed));
}

#[test]
fn closing_waits_for_the_write_that_is_under_way() {
    let (bench, disk) = (Bench::new(), Scripted::default());
    let behind = bench.attach(&disk);
    let held = disk.hold();
    enqueue(&behind, 0..1);
    bench.advance(200);
    held.begun();
    enqueue(&behind, 1..2);
    let closed = behind.close();
    assert!(!disk.0.lock().unwrap().dropped);
    held.go();
    closed.wait().unwrap();
    assert_eq!(disk.done(), ["append 0", "append 1"]);
}

#[test]
fn closing_tries_a_failed_batch_again_once_and_then_says_what_is_lost() {
    for (failures, stored) in [(1, true), (2, false)] {
        let (bench, disk) = (Bench::new(), Scripted::default());
        let behind = bench.attach(&disk);
        enqueue(&behind, 0..1);
        disk.fail(failures);
        assert_eq!(behind.close().wait().is_ok(), stored);
        assert_eq!(disk.done().len(), usize::from(stored));
        assert!(disk.0.lock().unwrap().dropped, "the writer is given up");
        // Whoever has been told is not told again.
        drop(behind);
        assert_eq!(disk.heard().len(), usize::from(stored));

        // Nobody waits for a handle that is dropped, so the listener hears of it.
        let disk = Scripted::default();
        let behind = bench.attach(&disk);
        enqueue(&behind, 0..1);
        disk.fail(failures);
        drop(behind);
        let heard = match stored {
            true => "durable 0",
            false => "Events: could not append to `the log`: the disk is full",
        };
        assert_eq!(disk.heard(), [heard]);
    }
}

#[test]
fn one_thread_serves_all_sessions_and_ends_with_the_last() {
    let bench = Bench::new();
    let disks: Vec<Scripted> = (0..3).map(|_| Scripted::default()).collect();
    let behinds: Vec<_> = disks.iter().map(|disk| bench.attach(disk)).collect();
    for behind in &behinds {
        enqueue(behind, 0..1);
    }
    bench.advance(200);
    bench.settle();
    let threads: Vec<_> = disks
        .iter()
        .flat_map(|disk| disk.0.lock().unwrap().threads.clone())
        .collect();
    assert_eq!(threads, [threads[0]; 3]);
    assert_ne!(threads[0], thread::current().id());
    drop(behinds);
    // It starts again when it is needed.
    let disk = Scripted::default();
    let behind = bench.attach(&disk);
    enqueue(&behind, 0..1);
    behind.flush().wait().unwrap();
    assert_eq!(disk.done(), ["append 0"]);
}

#[test]
fn a_slow_session_delays_the_flush_of_another_by_one_batch_and_no_more() {
    let bench = Bench::new();
    let (slow, quick) = (Scripted::default(), Scripted::default());
    let (behind, other) = (bench.attach(&slow), bench.attach(&quick));
    let mut held = slow.hold();
    enqueue(&behind, 0..1);
    let drained = behind.flush();
    held.begun();
    // As often as it is written, there is more: this barrier is not reached for long.
    enqueue(&behind, 1..2);
    bench.advance(1);
    enqueue(&other, 0..1);
    let flushed = other.flush();
    bench.advance(1);
    let next = slow.hold();
    std::mem::replace(&mut held, next).go();
    flushed.wait().unwrap();
    assert_eq!(quick.done(), ["append 0"]);
    held.begun();
    assert_eq!(slow.done(), ["append 0"]);
    held.go();
    drained.wait().unwrap();
}

#[test]
fn a_panic_of_a_writer_or_a_listener_is_not_that_of_the_thread() {
    struct Shaky;
    impl WriteListener for Shaky {
        fn durable(&self, _: &[Arc<Event>]) {
            std::panic::panic_any("the listener is broken");
        }
    }
    let (bench, disk) = (Bench::new(), Scripted::default());
    disk.0.lock().unwrap().panics = true;
    let behind = bench.thread.attach(disk.writer(), Arc::new(Shaky));
    enqueue(&behind, 0..1);
    let error = behind.flush().wait().unwrap_err();
    assert_eq!(
        (error.code(), error.to_string()),
        (
            "STORAGE_THREAD_FAILED",
            "the storage thread failed: the writer is broken".to_owned()
        )
    );
    behind.flush().wait().unwrap();
    assert_eq!(disk.done(), ["append 0"]);
}

#[test]
fn a_handle_may_go_on_the_thread_itself() {
    struct Keeper(Mutex<Option<WriteBehind>>);
    impl WriteListener for Keeper {
        fn durable(&self, _: &[Arc<Event>]) {
            drop(self.0.lock().unwrap().take());
        }
    }
    let (bench, disk) = (Bench::new(), Scripted::default());
    let keeper = Arc::new(Keeper(Mutex::default()));
    let behind = bench.thread.attach(disk.writer(), Arc::clone(&keeper) as _);
    enqueue(&behind, 0..1);
    *keeper.0.lock().unwrap() = Some(behind);
    bench.advance(200);
    bench.settle();
    bench.settle();
    assert_eq!(disk.done()[0], "append 0");
    assert!(disk.0.lock().unwrap().dropped);
}

#[test]
fn chunks_go_to_the_journal_in_the_same_windows_and_behind_the_events_ahead_of_them() {
    let (bench, disk) = (Bench::new(), Scripted::default());
    let behind = bench.attach(&disk);
    enqueue(&behind, 0..1);
    behind.begin_attempt(attempt(1));
    // As long as nothing comes there is nothing to write down.
    behind.flush().wait().unwrap();
    assert_eq!(disk.done(), ["append 0"]);
    behind.delta("a".into());
    bench.advance(150);
    behind.delta("b".into());
    bench.advance(50);
    bench.settle();
    assert_eq!(disk.done()[1..], ["begin 1", "chunks a,b"]);
    // An event that has nothing to do with the answer, and more of that.
    enqueue(&behind, 1..2);
    behind.delta("c".into());
    bench.advance(200);
    bench.settle();
    assert_eq!(disk.done()[3..], ["chunks c", "append 1"]);
    // The answer is complete: what has not been written of it need not be, and the journal goes when it is stored.
    behind.delta("d".into());
    enqueue(&behind, 2..3);
    behind.end_attempt();
    behind.flush().wait().unwrap();
    assert_eq!(disk.done()[5..], ["append 2", "end"]);
}

#[test]
fn a_quick_answer_leaves_no_trace_and_the_next_attempt_begins_behind_it() {
    let (bench, disk) = (Bench::new(), Scripted::default());
    let behind = bench.attach(&disk);
    behind.begin_attempt(attempt(1));
    behind.delta("a".into());
    enqueue(&behind, 0..1);
    behind.end_attempt();
    behind.begin_attempt(attempt(2));
    behind.delta("b".into());
    enqueue(&behind, 1..2);
    bench.advance(200);
    bench.settle();
    let writes = ["append 0", "begin 2", "chunks b", "append 1"];
    assert_eq!(disk.done(), writes);
}

#[test]
fn the_end_of_a_journal_waits_for_the_event_that_settles_it() {
    let (bench, disk) = (Bench::new(), Scripted::default());
    let behind = bench.attach(&disk);
    behind.begin_attempt(attempt(1));
    behind.delta("a".into());
    behind.flush().wait().unwrap();
    disk.fail(1);
    enqueue(&behind, 0..1);
    behind.end_attempt();
    assert!(behind.flush().wait().is_err());
    assert_eq!(disk.done(), ["begin 1", "chunks a"]);
    behind.flush().wait().unwrap();
    assert_eq!(disk.done()[2..], ["append 0", "end"]);
}

#[test]
fn a_journal_that_fails_is_reported_and_stops_nothing() {
    let (bench, disk) = (Bench::new(), Scripted::default());
    let behind = bench.attach(&disk);
    disk.0.lock().unwrap().journal_fails = true;
    behind.begin_attempt(attempt(1));
    behind.delta("a".into());
    enqueue(&behind, 0..1);
    behind.flush().wait().unwrap();
    let report = "Stream: could not begin `the log`: the disk is full";
    assert_eq!(disk.heard(), [report, "durable 0"]);
    // Nothing is written behind a gap; the next attempt begins anew.
    disk.0.lock().unwrap().journal_fails = false;
    behind.delta("b".into());
    behind.flush().wait().unwrap();
    behind.begin_attempt(attempt(2));
    behind.delta("c".into());
    behind.flush().wait().unwrap();
    assert_eq!(disk.done(), ["append 0", "begin 2", "chunks c"]);
}

#[test]
fn by_the_real_clock_an_event_becomes_durable_without_a_flush() {
    struct Told(Sender<usize>);
    impl WriteListener for Told {
        fn durable(&self, events: &[Arc<Event>]) {
            self.0.send(events.len()).unwrap();
        }
    }
    let home = Home::new();
    let store = home.store(Container::Zstd);
    let (told, hears) = channel();
    let writer = store.create(&header("demo")).unwrap();
    let behind = WriterThread::default().attach(writer, Arc::new(Told(told)));
    enqueue(&behind, 0..1);
    assert_eq!(hears.recv(), Ok(1));
    let read = store.read(&"demo".into()).unwrap();
    assert_eq!(texts(read.stored.log.events()), texts(&events(1)));
}

/// Everything that was acknowledged is there, whichever operation of the disk fails, for once or for good.
#[test]
fn whatever_the_disk_does_an_acknowledged_event_is_stored_and_order_is_kept() {
    for (container, fault) in BOTH.into_iter().zip([Fault::Once, Fault::Forever]) {
        let mut outcomes = BTreeMap::new();
        for step in 0.. {
            let (bench, home) = (Bench::new(), Home::new());
            let disk = FaultyDisk::new(fault, step);
            let store =
                offshoot_store::JsonlStore::on(home.root(), container, Arc::clone(&disk) as _);
            let writer = store.create(&header("demo")).unwrap();
            let behind = bench.thread.attach(writer, Arc::new(()));
            let all = events(2);
            let mut acknowledged = 0;
            for (number, event) in (1..).zip(&all) {
                behind.enqueue(Arc::clone(event)).unwrap();
                if behind.flush().wait().is_ok() {
                    acknowledged = number;
                }
            }
            let closed: Completion = behind.close();
            if closed.wait().is_ok() {
                acknowledged = 2;
            }
            let stored = match home.store(container).read(&"demo".into()) {
                Ok(read) => texts(read.stored.log.events()),
                Err(error) => {
                    assert_eq!(error.code(), "SESSION_NOT_FOUND");
                    Vec::new()
                }
            };
            assert!(texts(&all).starts_with(&stored), "step {step}: {stored:?}");
            assert!(stored.len() >= acknowledged, "step {step}");
            *outcomes.entry(acknowledged).or_insert(0) += 1;
            if disk.steps() <= step {
                break;
            }
        }
        let lost = outcomes.keys().any(|acknowledged| *acknowledged < 2);
        assert_eq!(lost, fault == Fault::Forever, "{outcomes:?}");
    }
}
