//! What is true of every cut of every session, tried at random: recorded sessions of every version that can be read, our
//! own, and both once more with all message ids alike. `cuts.rs` tries the V4 ones exhaustively.

use std::fs;
use std::sync::LazyLock;

use offshoot_format::{Container, StoredSession, decode};
use offshoot_session::{
    Body, CloseCause, Event, EventKind, EventLog, LogOffset, Seq, SessionHeader, build_fork_seed,
    open_turn_closers,
};
use offshoot_test_support::corpus;
use proptest::prelude::*;
use proptest::sample::Index;
use serde_json::Value;

use crate::cuts::{Tried, one_cut};
use crate::support::{BOTH, FIXTURES, encode, fixture, rows, stored, text_of, whole_lines};

struct Sample {
    name: String,
    header: SessionHeader,
    log: EventLog,
}

impl Sample {
    fn new(name: String, session: StoredSession) -> Self {
        Self {
            name,
            header: session.header,
            log: session.log,
        }
    }
}

/// The sessions that have events. A recorded file that is refused is the business of the tests of its version.
static SAMPLES: LazyLock<Vec<Sample>> = LazyLock::new(|| {
    let mut samples: Vec<Sample> = FIXTURES
        .iter()
        .map(|(name, text)| Sample::new((*name).to_owned(), stored(BOTH[0], text.as_bytes())))
        .collect();
    for version in 0..=4 {
        for path in corpus::files(format!("v{version}-completed")) {
            if let Ok(session) = decode(&fs::read(&path).unwrap()) {
                samples.push(Sample::new(path.display().to_string(), session));
            }
        }
    }
    samples.retain(|sample| !sample.log.is_empty());
    let alike: Vec<Sample> = samples.iter().map(with_one_message_id).collect();
    samples.into_iter().chain(alike).collect()
});

/// The same session, but every message has the same id: ids need not be unique, so nothing may depend on them.
fn with_one_message_id(sample: &Sample) -> Sample {
    let text: String = sample
        .log
        .events()
        .map(|event| one_id(event) + "\n")
        .collect();
    let header = Container::Raw.header(&sample.header).unwrap();
    let session = stored(Container::Raw, &[&header, text.as_bytes()].concat());
    Sample::new(format!("{}, one message id", sample.name), session)
}

fn one_id(event: &Event) -> String {
    let Some(mut row) = tree(event.text()).filter(|_| event.message().is_some()) else {
        return event.text().to_owned();
    };
    let data = &mut row["data"];
    let message = match event.kind() {
        EventKind::UserMessage => data,
        _ => &mut data["message"],
    };
    let id = message["id"].as_str().unwrap();
    // The id of a closer says what it is.
    if !id.starts_with("forked-tool-result-") && !id.starts_with("interrupted-tool-result-") {
        message["id"] = Value::from("the same");
    }
    row.to_string()
}

/// `None` for a row with something opaque in it that a tree cannot hold: great depth, half a surrogate pair.
fn tree(row: &str) -> Option<Value> {
    serde_json::from_str(row).ok()
}

/// The sample and the cut that two numbers choose.
fn chosen(which: Index, cut: Index) -> (&'static Sample, Seq) {
    let sample = &SAMPLES[which.index(SAMPLES.len())];
    (sample, any_event(&sample.log, cut))
}

fn any_event(log: &EventLog, cut: Index) -> Seq {
    Seq::new(cut.index(log.end().get() as usize) as u64)
}

/// The calls of the open step that have no result, by the rows alone: a second opinion on what the folds say. Only where a
/// turn is open is anything to be closed.
fn unanswered(rows: &[&str]) -> Option<Vec<String>> {
    let mut open_turn = false;
    let mut calls: Vec<String> = Vec::new();
    // No sample has such rows among the types that count.
    for row in rows.iter().filter_map(|row| tree(row)) {
        let data = &row["data"];
        match row["type"].as_str().unwrap() {
            kind @ ("turn/start" | "turn/end") => {
                open_turn = kind == "turn/start";
                calls.clear();
            }
            "step/end" => calls.clear(),
            "assistant/message" => {
                let blocks = data["message"]["content"].as_array().unwrap().iter();
                let asked = blocks.filter(|block| block["type"] == "tool-call");
                calls.extend(asked.map(|call| call["id"].as_str().unwrap().to_owned()));
            }
            "tool/result" if row["surfaceOp"] == "append" => {
                calls.retain(|call| data["message"]["toolCallId"] != **call);
            }
            _ => {}
        }
    }
    open_turn.then_some(calls)
}

/// The calls that closers answer.
fn answered<'a>(closers: impl IntoIterator<Item = &'a Event>) -> Vec<String> {
    let closers = closers.into_iter();
    closers
        .filter_map(|closer| match closer.body() {
            Body::ToolResult { call_id, .. } => Some(call_id.to_string()),
            _ => None,
        })
        .collect()
}

fn findings(log: &EventLog) -> Vec<(&'static str, Seq)> {
    log.findings()
        .map(|finding| (finding.code(), finding.seq()))
        .collect()
}

fn markers(log: &EventLog) -> Vec<Seq> {
    let tagged = log
        .events()
        .filter(|event| matches!(event.body(), Body::EndSeed { inherited: true }));
    tagged.map(|event| event.seq()).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_cut_of_a_cut_of_a_cut_is_valid_or_carries_its_finding(which in any::<Index>(), cuts in any::<[Index; 3]>()) {
        let (sample, first) = chosen(which, cuts[0]);
        let (mut header, mut log) = (sample.header.clone(), sample.log.clone());
        let mut cut = first;
        for next in cuts {
            let mut tried = Tried::default();
            let place = format!("{} at {cut}", sample.name);
            (header, log) = one_cut(&place, &header, &log, cut, &mut tried);
            let codes: Vec<&str> = findings(&log).iter().map(|(code, _)| *code).collect();
            if tried.refused > 0 {
                prop_assert!(codes.contains(&"UNANSWERED_CALLS"), "{place}: {codes:?}");
            }
            cut = any_event(&log, next);
        }
    }

    #[test]
    fn closers_follow_from_the_rows_alone(which in any::<Index>(), cut in any::<Index>()) {
        let (sample, cut) = chosen(which, cut);
        let log = sample.log.prefix(cut.after());
        let expected = unanswered(&rows(&log));
        let open_step = log.open_tail().step();
        let ends = |kinds: Vec<&str>| {
            let mut ends = vec!["turn/end"];
            if open_step.is_some() {
                ends.insert(0, "step/end");
            }
            kinds == ends
        };
        let seed = build_fork_seed(&sample.log, cut).unwrap();
        let again = build_fork_seed(&log, cut).unwrap();
        prop_assert_eq!(rows(seed.log()), rows(again.log()), "what is behind the cut does not matter");
        let interrupted = log.interrupted_closers();
        let forked: Vec<&Event> = seed.closers().map(|event| &**event).skip(1).collect();
        for (cause, closers) in [
            (CloseCause::Interrupted, interrupted.iter().collect::<Vec<_>>()),
            (CloseCause::Forked, forked),
        ] {
            let shown: Vec<&str> = closers.iter().map(|event| event.text()).collect();
            let Some(calls) = &expected else {
                prop_assert_eq!(shown, [""; 0]);
                continue;
            };
            prop_assert_eq!(&answered(closers.iter().copied()), calls);
            let kinds = closers[calls.len()..].iter().map(|event| event.kind().as_str());
            prop_assert!(ends(kinds.collect()), "{:?}", shown);
            let last = log.last().unwrap().time();
            prop_assert!(closers.iter().all(|event| event.time() == last));
            let reason = format!(r#""reason":{{"kind":"{}"}}"#, cause.as_str());
            prop_assert!(shown[shown.len() - 1].contains(&reason));
        }
        let read_anew = open_turn_closers(log.events().map(|event| &**event), CloseCause::Interrupted);
        prop_assert_eq!(
            interrupted.iter().map(Event::text).collect::<Vec<_>>(),
            read_anew.iter().map(Event::text).collect::<Vec<_>>()
        );
    }

    #[test]
    fn a_crash_anywhere_is_closed_into_a_valid_file_whose_past_is_unchanged(
        which in any::<Index>(),
        cut in any::<Index>(),
    ) {
        let (sample, cut) = chosen(which, cut);
        let log = sample.log.prefix(cut.after());
        let mut header = sample.header.clone();
        header.is_seeded = log.inherited_marker().is_some();
        let open: Vec<_> = findings(&log);
        for container in BOTH {
            let mut bytes = encode(container, &header, &log, 7);
            bytes.extend(container.batch(log.interrupted_closers()));
            let closed = stored(container, &bytes);
            let before = log.end().get() as usize;
            prop_assert_eq!(&rows(&closed.log)[..before], &rows(&log)[..]);
            prop_assert_eq!(closed.closers(), vec![]);
            // A step that was closed with calls unanswered stays so: nothing answers them later, nobody forgets it.
            prop_assert_eq!(findings(&closed.log), open.clone());
            let text = text_of(&closed);
            let session = closed.balanced(9_000).unwrap();
            let bytes = encode(container, session.header(), session.log(), 7);
            let reopened = stored(container, &bytes);
            prop_assert!(text_of(&reopened).split_once('\n').unwrap().1.starts_with(text.split_once('\n').unwrap().1));
        }
    }

    #[test]
    fn a_fork_of_a_fork_keeps_the_markers_of_its_ancestors_and_counts_its_own(
        which in any::<Index>(),
        cuts in any::<[Index; 2]>(),
    ) {
        let (sample, cut) = chosen(which, cuts[0]);
        let child = build_fork_seed(&sample.log, cut).unwrap();
        let second = any_event(child.log(), cuts[1]);
        let grandchild = build_fork_seed(child.log(), second).unwrap();
        let mut expected = markers(child.log());
        expected.retain(|marker| *marker <= second);
        expected.push(second.after().seq());
        prop_assert_eq!(markers(grandchild.log()), expected);

        let header = sample.header.forked("child".into(), 1).forked("grandchild".into(), 2);
        let read = stored(BOTH[1], &encode(BOTH[1], &header, grandchild.log(), 3));
        prop_assert_eq!(read.inherited, second.after());
        let session = read.balanced(3).unwrap();
        prop_assert!(!session.is_own(second));
        prop_assert!(session.is_own(second.after().seq()));
    }
}

#[test]
fn a_crash_inside_a_compaction_of_a_turn_opens_and_closes_validly() {
    let whole = stored(BOTH[0], fixture("compaction").as_bytes());
    let text = whole_lines(fixture("compaction"));
    // The compaction of turn 2: its start, the summary, the message in place of what it sums up, its end.
    for last in 16..=19 {
        let crashed: String = text.split_inclusive('\n').take(1 + last + 1).collect();
        for container in BOTH {
            let torn = stored(container, &crate::support::packed(container, &crashed, 3));
            assert_eq!(torn.log.end(), LogOffset::new(last as u64 + 1));
            let closers = torn.closers();
            let shown: Vec<&str> = closers.iter().map(Event::text).collect();
            let [end] = &shown[..] else {
                panic!("one closer, found {shown:?}");
            };
            let time = whole.log.get(Seq::new(last as u64)).unwrap().time();
            assert_eq!(
                *end,
                format!(
                    r#"{{"type":"turn/end","seq":{},"time":{time},"data":{{"turn":2,"reason":{{"kind":"interrupted"}}}}}}"#,
                    last + 1
                )
            );
            // The file is valid after each write of a repair, and when a new turn follows.
            let mut bytes = encode(container, &torn.header, &torn.log, 3);
            bytes.extend(container.batch(&closers));
            let closed = stored(container, &bytes);
            let session = closed.balanced(9_000).unwrap();
            let seq = session.log().end();
            let next =
                format!(r#"{{"type":"turn/start","seq":{seq},"time":9001,"data":{{"turn":3}}}}"#);
            let mut log = session.log().clone();
            log.push(Event::from_row(next).unwrap()).unwrap();
            let again = stored(container, &encode(container, session.header(), &log, 3));
            assert_eq!(rows(&again.log), rows(&log));

            // A fork there gives the compaction up as well.
            let seed = build_fork_seed(&torn.log, Seq::new(last as u64)).unwrap();
            let header = torn.header.forked("child".into(), 1);
            let child = stored(container, &encode(container, &header, seed.log(), 3));
            let kinds: Vec<&str> = seed.closers().map(|event| event.kind().as_str()).collect();
            assert_eq!(kinds, ["session/end-seed", "turn/end"]);
            assert_eq!(child.closers(), vec![]);
        }
    }
}

#[test]
fn a_failed_step_that_was_closed_stays_as_it_is_in_every_fork() {
    let parent = stored(BOTH[0], fixture("closed-step").as_bytes());
    let (asked, closed) = (Seq::new(5), Seq::new(8));
    for cut in (0..parent.log.end().get()).map(Seq::new) {
        let seed = build_fork_seed(&parent.log, cut).unwrap();
        let answers = answered(seed.closers().map(|event| &**event));
        let expected: &[&str] = match cut {
            cut if cut < asked || cut >= closed => &[],
            cut if cut.get() < 7 => &["c1", "c2"],
            _ => &["c2"],
        };
        assert_eq!(answers, expected, "cut at {cut}");
        let found: &[(&str, Seq)] = if cut >= closed {
            &[("UNANSWERED_CALLS", closed)]
        } else {
            &[]
        };
        assert_eq!(findings(seed.log()), found, "cut at {cut}");
        assert_eq!(
            seed.log().continuable().is_err(),
            cut >= closed,
            "cut at {cut}"
        );
    }
}

#[test]
fn samples_of_every_version_that_can_be_read_are_tried() {
    if corpus::corpus_dir().is_none() {
        return corpus::skip_notice("samples_of_every_version_that_can_be_read_are_tried");
    }
    let count = |part: &str| {
        SAMPLES
            .iter()
            .filter(|sample| sample.name.contains(part))
            .count()
    };
    for version in 0..=4 {
        println!(
            "V{version}: {} samples",
            count(&format!("v{version}-completed"))
        );
    }
    let files = corpus::files("v4-completed").len();
    assert_eq!(count("v4-completed"), 2 * files);
    assert_eq!(count("one message id") * 2, SAMPLES.len());
}
