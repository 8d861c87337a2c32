//! Whatever happens in a session: every request can be rebuilt from the file, by both paths, is what the model was sent,
//! extends the one before as long as nothing of the history was rewritten, and is one that no provider refuses.
//!
//! What happens is turns with and without tools, whatever fails in them, compactions of every kind, and other processes
//! that go on with the session or with a fork of it. The window of the model is so small that history has to give way.

mod player;
mod world;

use std::collections::BTreeMap;

use offshoot_agent::{build_request, count_requests, reconstruct, request_at, script_from};
use offshoot_model::{ModelRequest, encode_messages};
use offshoot_session::{EventKind, EventLog, LogOffset, SessionId};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use serde_json::Value;

use crate::bench::DIALECT;
use crate::prefix::elements;
use crate::support::{all, says};
use crate::transcripts::violations;
use player::Summaries;
use world::World;

/// What somebody does.
#[derive(Clone, Copy, Debug)]
enum Action {
    /// A turn without tools.
    Talk { much: bool },
    /// A turn with two calls, and something said meanwhile and at its end.
    Work { steered: bool, much: bool },
    /// A turn whose model fails for good.
    Fail,
    /// A turn whose model fails at first.
    Retry,
    /// A turn whose first request is refused as too long.
    Overflow,
    /// An answer that is cut off.
    CutOff { within_a_call: bool },
    /// A turn that is cancelled while the model answers.
    CancelAnswer,
    /// A turn that is cancelled while a tool runs.
    CancelCall,
    /// A turn that nobody waits for any more.
    Abandon,
    /// The process is killed in the middle of an answer, and another one goes on.
    Crash,
    /// Somebody asks for a compaction, and gives up if the model hangs.
    Compact { hangs: bool },
    /// From now on, what becomes of requests for summaries.
    Summaries(Summaries),
    /// Another model, or the same one otherwise.
    Choose(u8),
    /// Other tools.
    Tools(u8),
    /// Another prompt; 0 is none.
    Prompt(u8),
    /// The instructions of the project change; 0 is none.
    Instructions(u8),
    /// Somebody chooses what tools may do, and opens the session anew.
    Mode { read_only: bool },
    /// The process ends, and another one goes on.
    Restart,
    /// Another process goes on with a fork, made at this many thousandths of the log.
    Fork(u16),
}

fn action() -> impl Strategy<Value = Action> {
    let flag = any::<bool>;
    let summaries = prop_oneof![
        4 => Just(Summaries::Good),
        1 => Just(Summaries::Failing),
        1 => Just(Summaries::Unusable),
        1 => Just(Summaries::TooLong),
    ];
    prop_oneof![
        4 => flag().prop_map(|much| Action::Talk { much }),
        4 => (flag(), flag()).prop_map(|(steered, much)| Action::Work { steered, much }),
        1 => Just(Action::Fail),
        2 => Just(Action::Retry),
        2 => Just(Action::Overflow),
        1 => flag().prop_map(|within_a_call| Action::CutOff { within_a_call }),
        1 => Just(Action::CancelAnswer),
        1 => Just(Action::CancelCall),
        1 => Just(Action::Abandon),
        1 => Just(Action::Crash),
        2 => (0..4_u8).prop_map(|n| Action::Compact { hangs: n == 0 }),
        1 => summaries.prop_map(Action::Summaries),
        2 => (0..4_u8).prop_map(Action::Choose),
        2 => (0..4_u8).prop_map(Action::Tools),
        2 => (0..3_u8).prop_map(Action::Prompt),
        2 => (0..3_u8).prop_map(Action::Instructions),
        1 => flag().prop_map(|read_only| Action::Mode { read_only }),
        2 => Just(Action::Restart),
        3 => (0..1000_u16).prop_map(Action::Fork),
    ]
}

/// Looks at all requests of a session, from its file.
fn check(world: &mut World, id: &SessionId) -> Result<(), TestCaseError> {
    let log = world.bench.log(id);
    prop_assert_eq!(log.findings().count(), 0);
    let made = count_requests(&log);
    prop_assert!(made <= world.sent.len(), "every settled attempt was one");
    if world.loses {
        world.sent.truncate(made);
    }
    let mut before: Option<(u64, Vec<String>)> = None;
    for n in 1..=made {
        let (settled, request) = request_at(&log, id, n).unwrap();
        let prefix = log.prefix(settled.before());
        let rows = prefix.events().map(|event| event.text());
        let rebuilt = reconstruct(rows, id).unwrap();
        prop_assert_eq!(&rebuilt, &request, "request {} by the other path", n);
        // A fork is another session; that is all there is to tell its requests from those of its parent.
        let mut sent = (*world.sent[n - 1]).clone();
        sent.session_id.clone_from(&request.session_id);
        prop_assert_eq!(&request, &sent, "request {} as it was sent", n);
        acceptable(&request)?;
        let messages = encoded(&request);
        let generation = prefix.surface().content_generation();
        if let Some((earlier, begun)) = before
            && earlier == generation
        {
            let beginning = messages.get(..begun.len());
            prop_assert_eq!(beginning, Some(&*begun), "request {} extends the last", n);
        }
        before = Some((generation, messages));
    }
    check_summaries(world, &log, id)?;
    check_replay(&log)
}

/// Whoever is asked for a summary sees the beginning of what the conversation was when the compaction began.
fn check_summaries(world: &World, log: &EventLog, id: &SessionId) -> Result<(), TestCaseError> {
    let conversations: Vec<_> = log
        .events_from(world.since)
        .filter(|event| *event.kind() == EventKind::CompactionStart)
        .map(|event| encoded(&build_request(&log.prefix(event.seq().before()), id).unwrap()))
        .collect();
    for request in &world.summaries {
        acceptable(request)?;
        let mut asked = encoded(request);
        asked.pop();
        let begins = |all: &Vec<String>| all.starts_with(&asked);
        prop_assert!(conversations.iter().any(begins), "a question of its own");
    }
    Ok(())
}

/// The log is a script for a model, with one answer for each that was given.
fn check_replay(log: &EventLog) -> Result<(), TestCaseError> {
    let script = script_from(log, LogOffset::START).unwrap();
    let kinds = [EventKind::AssistantMessage, EventKind::AssistantAttempt];
    let streams = kinds.iter().flat_map(|kind| all(log, kind));
    let told = streams.filter(|event| event["stream"] != Value::Array(Vec::new()));
    let ended = all(log, &EventKind::CompactionEnd).len();
    let open = usize::from(
        log.events()
            .any(|event| *event.kind() == EventKind::CompactionStart),
    );
    let compactions = script.len() - told.count();
    prop_assert!((ended..=ended + open).contains(&compactions));
    Ok(())
}

fn encoded(request: &ModelRequest) -> Vec<String> {
    let encoded = String::from_utf8(encode_messages(&request.messages, &DIALECT)).unwrap();
    elements(format!(r#"{{"messages":{encoded}}}"#).as_bytes())
}

/// No provider refuses it, however it is spoken to.
pub(crate) fn acceptable(request: &ModelRequest) -> Result<(), TestCaseError> {
    prop_assert_eq!(violations(request), Vec::<String>::new());
    Ok(())
}

/// What a script has come across, and how often.
type Met = BTreeMap<&'static str, usize>;

fn note(met: &mut Met, log: &EventLog, since: LogOffset) {
    for event in log.events_from(since) {
        let what = match event.kind() {
            EventKind::CompactionSummary => "summary",
            EventKind::CompactionPrune => "pruned",
            EventKind::LlmRetryStarted => "retried",
            EventKind::AssistantAttempt => "failed attempt",
            EventKind::EndSeed => "another lifecycle",
            _ => continue,
        };
        *met.entry(what).or_default() += 1;
    }
}

async fn run(flexible: bool, actions: &[Action]) -> Result<Met, TestCaseError> {
    let mut met = Met::new();
    let mut world = World::new(flexible);
    let mut agent = world.agent(world.bench.create());
    world.turn(&mut agent, vec![says("Hello.")]).await;
    for action in actions {
        agent = world.act(agent, *action).await;
        let id = agent.session().id().clone();
        note(&mut met, &agent.session().log(), world.since);
        check(&mut world, &id)?;
    }
    Ok(met)
}

/// So that the random ones are not about conversations in which nothing happens.
#[tokio::test]
async fn a_script_in_which_everything_happens() {
    let (much, steered) = (true, true);
    let script = [
        Action::Work { steered, much },
        Action::Work { steered, much },
        Action::Talk { much },
        Action::Retry,
        Action::Fork(900),
        Action::CancelCall,
        Action::Talk { much },
        Action::Overflow,
        Action::Abandon,
        Action::Compact { hangs: true },
        Action::Crash,
        Action::Compact { hangs: false },
        Action::CutOff {
            within_a_call: true,
        },
        Action::CancelAnswer,
        Action::Restart,
        Action::Talk { much },
    ];
    for flexible in [false, true] {
        let met = run(flexible, &script).await.unwrap();
        let met: Vec<_> = met.into_iter().collect();
        assert_eq!(
            met.iter().map(|(what, _)| *what).collect::<Vec<_>>(),
            [
                "another lifecycle",
                "failed attempt",
                "pruned",
                "retried",
                "summary"
            ],
            "{met:?}"
        );
    }
}

#[test]
fn every_request_of_every_script_can_be_rebuilt_and_extends_the_one_before() {
    let config = Config {
        cases: 24,
        failure_persistence: None,
        max_shrink_iters: 200,
        ..Config::default()
    };
    let script = (any::<bool>(), prop::collection::vec(action(), 1..20));
    let outcome = TestRunner::new(config).run(&script, |(flexible, actions)| {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        runtime.block_on(run(flexible, &actions)).map(drop)
    });
    if let Err(error) = outcome {
        panic!("{error}");
    }
}
