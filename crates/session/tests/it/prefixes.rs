//! Any log, cut anywhere: a shared prefix is what the same events folded from scratch are.

use offshoot_session::{
    CloseCause, Event, EventLog, LogOffset, Seq, build_fork_seed, latest_completed_boundary,
    open_turn_closers,
};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::support::{Script, at, request_header, rows, text, user};

/// One move of the model; what it cannot do where it stands, it leaves out.
#[derive(Clone, Copy, Debug)]
enum Move {
    Turn,
    Step,
    Say(u8),
    Start(u8),
    Answer(u8),
    EndStep,
    EndTurn,
    User,
    System,
    Header,
    Fact,
    Opaque,
    Queue,
    Compact(u8, u8),
    Rewrite(u8),
    Offload(u8),
    Marker(bool),
}

fn moves() -> impl Strategy<Value = Move> {
    prop_oneof![
        3 => Just(Move::Turn),
        4 => Just(Move::Step),
        5 => (0..4u8).prop_map(Move::Say),
        4 => any::<u8>().prop_map(Move::Start),
        5 => any::<u8>().prop_map(Move::Answer),
        4 => Just(Move::EndStep),
        2 => Just(Move::EndTurn),
        2 => Just(Move::User),
        1 => Just(Move::System),
        1 => Just(Move::Header),
        2 => Just(Move::Fact),
        1 => Just(Move::Opaque),
        1 => Just(Move::Queue),
        1 => (any::<u8>(), any::<u8>()).prop_map(|(from, to)| Move::Compact(from, to)),
        1 => any::<u8>().prop_map(Move::Rewrite),
        1 => any::<u8>().prop_map(Move::Offload),
        1 => any::<bool>().prop_map(Move::Marker),
    ]
}

/// Where the model stands, kept apart from the folds of the log under test.
#[derive(Default)]
struct Model {
    script: Script,
    turn: u64,
    step: u64,
    in_turn: bool,
    in_step: bool,
    asked: Vec<(String, bool)>,
    calls: u64,
    queued: u64,
}

impl Model {
    fn make(&mut self, a_move: Move) {
        let (turn, step) = (self.turn, self.step);
        match a_move {
            Move::Turn if !self.in_turn => {
                (self.turn, self.step, self.in_turn) = (turn + 1, 0, true);
                self.script.turn(self.turn);
            }
            Move::Step if self.in_turn && !self.in_step => {
                (self.step, self.in_step) = (step + 1, true);
                self.script.step(turn, self.step);
            }
            Move::Say(calls) if self.in_step => {
                let ids: Vec<String> = (0..u64::from(calls))
                    .map(|n| format!("c{}", self.calls + n))
                    .collect();
                self.calls += ids.len() as u64;
                self.script.assistant(
                    turn,
                    step,
                    &ids.iter().map(String::as_str).collect::<Vec<_>>(),
                );
                self.asked.extend(ids.into_iter().map(|id| (id, false)));
            }
            Move::Start(pick) if !self.asked.is_empty() => {
                let at = usize::from(pick) % self.asked.len();
                if !std::mem::replace(&mut self.asked[at].1, true) {
                    self.script.call(turn, step, &self.asked[at].0);
                }
            }
            Move::Answer(pick) if !self.asked.is_empty() => {
                let (id, _) = self.asked.remove(usize::from(pick) % self.asked.len());
                self.script.result(turn, step, &id);
            }
            Move::EndStep if self.in_step => {
                self.in_step = false;
                self.asked.clear();
                self.script.end_step(turn, step);
            }
            Move::EndTurn if self.in_turn && !self.in_step => {
                self.in_turn = false;
                self.script.end_turn(turn, "completed");
            }
            Move::User => {
                self.script.user("u");
            }
            Move::System if self.in_step => {
                self.script.system("s");
            }
            Move::Header => {
                self.script.log("request/header", &request_header());
            }
            Move::Fact => {
                self.script.log("feedback/record", &json!({"text": "fact"}));
            }
            Move::Opaque => {
                self.script
                    .attempt(
                        "plugin:x",
                        &json!([1]),
                        r#","surfaceOp":7,"ignorable":true"#,
                    )
                    .unwrap();
            }
            Move::Queue => {
                let splice = json!({"target": "next-turn", "start": self.queued, "inserted": [user("q", "later")]});
                self.script.log("agent/inbox/spliced", &splice);
                self.queued += 1;
            }
            Move::Compact(from, to) => self.compact(from.into(), to.into()),
            Move::Rewrite(pick) => self.rewrite(pick.into()),
            Move::Offload(pick) if !self.script.log.is_empty() => {
                let target = u64::from(pick) % self.script.log.end().get();
                self.script.log(
                    "image/offload",
                    &json!({"targets": [{"seq": target, "imageIndexes": [0]}]}),
                );
            }
            Move::Marker(inherited) => {
                let data = if inherited {
                    json!({"inherited": true})
                } else {
                    json!({})
                };
                self.queued = if inherited { 0 } else { self.queued };
                self.script.log("session/end-seed", &data);
            }
            _ => {}
        }
    }

    fn compact(&mut self, from: usize, to: usize) {
        let surface = self.script.log.surface();
        let nodes: Vec<Seq> = surface.nodes().collect();
        let first = usize::from(surface.has_protected_head());
        if nodes.len() > first {
            let (a, b) = (
                first + from % (nodes.len() - first),
                first + to % (nodes.len() - first),
            );
            self.script.compact(nodes[a.min(b)], nodes[a.max(b)]);
        }
    }

    fn rewrite(&mut self, pick: usize) {
        let log = &self.script.log;
        let results: Vec<(Seq, Value)> = log
            .surface()
            .nodes()
            .filter_map(|seq| {
                let data: Value = serde_json::from_str(log.get(seq)?.data()).ok()?;
                // A fresh result of the open step is left alone: only old ones are cut down.
                let call = data["message"]["toolCallId"].as_str()?;
                let pending = log
                    .open_tail()
                    .pending()
                    .iter()
                    .any(|pending| &*pending.id == call);
                (!pending).then_some((seq, data))
            })
            .collect();
        if !results.is_empty() {
            let (seq, mut data) = results[pick % results.len()].clone();
            data["message"]["content"] = json!([text("cut")]);
            self.script
                .replace("tool/result", &data, (seq, seq), &[seq])
                .unwrap();
        }
    }
}

fn logs(moves_up_to: usize) -> impl Strategy<Value = EventLog> {
    prop::collection::vec(moves(), 1..moves_up_to).prop_map(|moves| {
        let mut model = Model::default();
        for a_move in moves {
            model.make(a_move);
        }
        model.script.log
    })
}

/// Everything that is derived from a log, to be compared as one.
fn derived(log: &EventLog) -> String {
    let messages: Vec<_> = log
        .messages()
        .map(|message| (message.seq, message.text.into_owned()))
        .collect();
    format!(
        "{:?}",
        (
            (
                rows(log),
                messages,
                log.surface().nodes().collect::<Vec<_>>(),
                log.surface().content_generation(),
                log.surface().has_protected_head()
            ),
            (
                log.open_tail(),
                log.findings().collect::<Vec<_>>(),
                log.continuable(),
                log.pending_input()
            ),
            (
                log.request_header(),
                log.request_context(),
                log.title(),
                log.last_turn(),
                log.inherited_marker(),
                log.latest_completed_boundary()
            ),
        )
    )
}

fn scratch<'a>(rows: impl IntoIterator<Item = &'a str>) -> EventLog {
    let mut log = EventLog::new();
    for row in rows {
        log.push(Event::from_row(row).unwrap()).unwrap();
    }
    log
}

fn events(log: &EventLog) -> impl Iterator<Item = &Event> {
    log.events().map(|event| &**event)
}

fn check_cut(log: &EventLog, cut: u64) -> Result<(), TestCaseError> {
    let prefix = log.prefix(at(cut));
    let fresh = scratch(
        events(log)
            .take(usize::try_from(cut).unwrap())
            .map(Event::text),
    );
    prop_assert_eq!(derived(&prefix), derived(&fresh), "cut at {}", cut);
    prop_assert_eq!(
        prefix.latest_completed_boundary(),
        latest_completed_boundary(events(&prefix))
    );
    prop_assert_eq!(
        prefix.interrupted_closers(),
        open_turn_closers(events(&prefix), CloseCause::Interrupted)
    );

    let Some(boundary) = at(cut).last() else {
        return Ok(());
    };
    let child = build_fork_seed(log, boundary).unwrap();
    prop_assert_eq!(
        derived(child.log()),
        derived(&scratch(events(child.log()).map(Event::text)))
    );
    prop_assert_eq!(
        &rows(child.log())[..rows(&prefix).len()],
        &rows(&prefix)[..]
    );
    prop_assert_eq!(child.log().open_tail().turn(), None);
    prop_assert!(child.log().pending_input().is_empty());
    prop_assert_eq!(
        child.log().findings().count(),
        prefix.findings().count(),
        "a fork loses no call"
    );

    if let Err(refused) = prefix.continuable() {
        let cut = refused.nearest_cut.unwrap();
        prop_assert_eq!(
            build_fork_seed(log, cut).unwrap().log().continuable(),
            Ok(())
        );
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_cut_of_any_log_equals_the_same_events_folded_from_scratch(log in logs(60)) {
        for cut in 0..=log.end().get() {
            check_cut(&log, cut)?;
        }
    }

    #[test]
    fn a_fork_of_a_fork_equals_the_same_events_folded_from_scratch(log in logs(40), first: u64, second: u64, more in prop::collection::vec(moves(), 0..20)) {
        prop_assume!(!log.is_empty());
        let first = first % log.end().get();
        let child = build_fork_seed(&log, Seq::new(first)).unwrap().log().clone();
        let turn = child.last_turn();
        let mut model = Model { script: Script { log: child }, turn, calls: 1000, ..Model::default() };
        for a_move in more {
            model.make(a_move);
        }
        let child = model.script.log;
        let second = second % child.end().get();
        check_cut(&child, second + 1)?;
        let grandchild = build_fork_seed(&child, Seq::new(second)).unwrap();
        prop_assert_eq!(grandchild.log().inherited_marker(), Some(Seq::new(second + 1)));
        check_cut(grandchild.log(), grandchild.log().end().get())?;
        check_cut(&log, log.end().get())?;
    }
}

#[test]
fn cuts_around_every_remembered_state_of_a_long_log_are_exact() {
    let mut model = Model::default();
    let mut pick = 0_u8;
    let cycle = [
        Move::Turn,
        Move::Queue,
        Move::Step,
        Move::System,
        Move::User,
        Move::Header,
        Move::Say(3),
        Move::Start(0),
        Move::Answer(1),
        Move::Fact,
        Move::Start(1),
        Move::Answer(0),
        Move::EndStep,
        Move::Step,
        Move::Say(1),
        Move::Rewrite(3),
        Move::Answer(0),
        Move::EndStep,
        Move::EndTurn,
        Move::Compact(7, 9),
        Move::Offload(5),
        Move::Opaque,
    ];
    while model.script.log.end() < at(1300) {
        for a_move in cycle {
            pick = pick.wrapping_mul(31).wrapping_add(7);
            model.make(match a_move {
                Move::Compact(..) => Move::Compact(pick, pick.wrapping_add(3)),
                Move::Rewrite(_) => Move::Rewrite(pick),
                other => other,
            });
        }
    }
    let log = model.script.log;
    let end = log.end().get();
    let mut fresh = EventLog::new();
    for cut in 0..=end {
        let near = |step: u64| cut % step <= 1 || cut % step == step - 1;
        if near(64) || near(256) || cut % 37 == 0 || cut == end {
            assert_eq!(
                derived(&log.prefix(at(cut))),
                derived(&fresh),
                "cut at {cut}"
            );
        }
        if let Some(event) = log.get(LogOffset::new(cut).seq()) {
            fresh.push(Event::from_row(event.text()).unwrap()).unwrap();
        }
    }
    assert!(log.findings().count() > 50);
    assert_eq!(
        derived(&log.prefix(at(end + 9))),
        derived(&log),
        "beyond the end is the whole log"
    );
}

#[test]
fn a_prefix_of_a_prefix_may_grow_on_its_own() {
    let mut model = Model::default();
    while model.script.log.end() < at(700) {
        for a_move in [
            Move::Turn,
            Move::Step,
            Move::User,
            Move::Say(1),
            Move::Answer(0),
            Move::EndStep,
            Move::EndTurn,
        ] {
            model.make(a_move);
        }
    }
    let log = model.script.log;
    let whole = rows(&log);
    for (long, short) in [(600, 512), (513, 256), (512, 511), (300, 0)] {
        let prefix = log.prefix(at(long)).prefix(at(short));
        let mut script = Script { log: prefix };
        for _ in 0..600 {
            script.user("elsewhere");
        }
        let grown = script.log;
        let mut fresh = scratch(
            events(&grown)
                .take(usize::try_from(short).unwrap())
                .map(Event::text),
        );
        assert_eq!(rows(&fresh), whole[..usize::try_from(short).unwrap()]);
        for event in grown.events_from(at(short)) {
            fresh.push(Event::from_row(event.text()).unwrap()).unwrap();
            if fresh.end().get() % 64 == 1 {
                assert_eq!(derived(&grown.prefix(fresh.end())), derived(&fresh));
            }
        }
        assert_eq!(derived(&grown), derived(&fresh));
        assert_eq!(rows(&log), whole, "the longer log is as it was");
    }
}
