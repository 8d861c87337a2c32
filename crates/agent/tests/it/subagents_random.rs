//! Whatever happens at the same time in a family of agents: nothing is left running, every parent is told of every child that
//! it has let go of, and every log is one that no provider refuses.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

use futures_util::stream::BoxStream;
use offshoot_agent::{
    Agent, CancelCause, Mode, Provider, Queue, SubagentError, SubagentLimits, count_requests,
    request_at,
};
use offshoot_model::{
    Attempt, CallConfig, Chunk, Failure, Model, ModelRequest, PreparedCall, ScriptModel,
};
use offshoot_session::{EventKind, SessionId};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use serde_json::{Value, json};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::bench::script;
use crate::family::{Family, delegation, task};
use crate::random::acceptable;
use crate::subagents_background::{continuable, in_background, live};
use crate::support::{Hold, Work, all, calls, says};

/// How many requests do something before everybody comes to an end.
const BUDGET: usize = 24;

#[derive(Clone, Copy, Debug)]
enum Action {
    /// A child of the parent, started by the program.
    Start {
        continuable: bool,
        background: bool,
        fork: bool,
    },
    /// A message to one of the children that can be sent more.
    Send(u8),
    Interrupt(u8),
    /// Somebody says something to the parent.
    Say,
    Cancel {
        keeps: bool,
    },
    CancelBelow,
    /// A call that is held goes on.
    Release,
    /// Others have their turn.
    Yield(u8),
    /// Everything comes to rest.
    Rest,
    /// The parent is ended in good order, and opened again.
    Reopen,
    /// The parent is just gone, and opened again.
    Drop,
}

fn action() -> impl Strategy<Value = Action> {
    let flag = any::<bool>;
    prop_oneof![
        4 => (flag(), flag(), flag()).prop_map(|(continuable, background, fork)| Action::Start {
            continuable,
            background,
            fork
        }),
        5 => any::<u8>().prop_map(Action::Send),
        3 => any::<u8>().prop_map(Action::Interrupt),
        2 => Just(Action::Say),
        2 => flag().prop_map(|keeps| Action::Cancel { keeps }),
        1 => Just(Action::CancelBelow),
        4 => Just(Action::Release),
        8 => (1..60_u8).prop_map(Action::Yield),
        1 => Just(Action::Rest),
        1 => Just(Action::Reopen),
        1 => Just(Action::Drop),
    ]
}

/// Answers everything, at first with whatever its seed says.
#[derive(Debug)]
struct Whim {
    script: ScriptModel,
    work: Work,
    chance: Mutex<Chance>,
}

#[derive(Debug)]
struct Chance {
    state: u64,
    asked: usize,
    held: Vec<Hold>,
}

impl Chance {
    fn next(&mut self, below: u64) -> u64 {
        // Knuth's MMIX.
        self.state = self
            .state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.state >> 33) % below
    }
}

impl Whim {
    fn new(seed: u64, work: &Work) -> Self {
        Self {
            script: ScriptModel::new("acme", Vec::new()),
            work: work.clone(),
            chance: Mutex::new(Chance {
                state: seed,
                asked: 0,
                held: Vec::new(),
            }),
        }
    }

    fn attempt(&self) -> Attempt {
        let mut chance = self.chance.lock().unwrap();
        chance.asked += 1;
        let n = chance.asked;
        if n > BUDGET {
            return says("Done.");
        }
        let id = format!("h{n}");
        let one = |name, arguments: &str| calls([(id.as_str(), name, arguments)]);
        match chance.next(10) {
            0 | 1 => {
                chance.held.push(self.work.hold(&id));
                one("look", "{}")
            }
            2 => {
                chance.held.push(self.work.hold(&id));
                one("change", "{}")
            }
            3 => one("delegate", &task("child", in_background())),
            4 => one("delegate", &task("child", continuable())),
            5 => one(
                "delegate",
                &task("child", json!({"context": "conversation"})),
            ),
            6 => one("list_agents", "{}"),
            7 => one(
                "send_message",
                r#"{"subagent_id":"parent","message":"By the way."}"#,
            ),
            8 => Attempt::Throw {
                chunks: vec![Chunk::TextDelta {
                    index: 0,
                    text: "I".into(),
                }],
                message: "busy".into(),
                code: "AUTH".into(),
            },
            _ => says("Done."),
        }
    }

    /// Lets one call go on that is held, the oldest.
    fn release(&self) -> bool {
        let mut chance = self.chance.lock().unwrap();
        if chance.held.is_empty() {
            return false;
        }
        chance.held.remove(0).released.cancel();
        true
    }
}

impl Model for Whim {
    fn provider(&self) -> &str {
        self.script.provider()
    }

    fn prepare(&self, config: &CallConfig) -> Result<PreparedCall, Failure> {
        self.script.prepare(config)
    }

    fn stream(
        &self,
        request: Arc<ModelRequest>,
        cancel: CancellationToken,
    ) -> BoxStream<'static, Chunk> {
        self.script.push(self.attempt());
        self.script.stream(request, cancel)
    }
}

struct World {
    family: Family,
    whim: Arc<Whim>,
    parent: Agent,
    /// Children that the program has started and that go on behind that.
    let_go: Vec<SessionId>,
    can_be_sent_more: Vec<SessionId>,
    waited_for: Vec<(CancellationToken, JoinHandle<()>)>,
    sending: Vec<JoinHandle<Result<(), SubagentError>>>,
    /// Whether the parent was not told of everything because it was gone.
    is_lossy: bool,
}

impl World {
    fn new(seed: u64) -> Self {
        let family = Family::with(SubagentLimits {
            max_depth: 2,
            max_running: 4,
            ..SubagentLimits::default()
        });
        let whim = Arc::new(Whim::new(seed, &family.bench.work));
        family.children.are("child", Arc::clone(&whim) as _);
        let parent = family.on(family.bench.create(), Arc::clone(&whim) as _);
        Self {
            family,
            whim,
            parent,
            let_go: Vec::new(),
            can_be_sent_more: Vec::new(),
            waited_for: Vec::new(),
            sending: Vec::new(),
            is_lossy: false,
        }
    }

    async fn act(&mut self, action: Action) {
        match action {
            Action::Start {
                continuable,
                background,
                fork,
            } => self.start(continuable, background, fork).await,
            Action::Send(which) => self.send(which),
            Action::Interrupt(which) => {
                let made = self.family.children.made();
                let Some(id) = made.get(usize::from(which) % made.len().max(1)) else {
                    return;
                };
                self.family
                    .subagents
                    .interrupt(&self.parent, id)
                    .await
                    .unwrap();
            }
            Action::Say => drop(self.parent.followup("Well?").unwrap()),
            Action::Cancel { keeps } => {
                let queue = if keeps { Queue::Keep } else { Queue::Clear };
                self.parent.cancel(CancelCause::User, queue).unwrap();
            }
            Action::CancelBelow => {
                let id = self.parent.session().id();
                self.family.subagents.cancel_below(id, CancelCause::User);
            }
            Action::Release => drop(self.whim.release()),
            Action::Yield(times) => {
                for _ in 0..times {
                    tokio::task::yield_now().await;
                }
            }
            Action::Rest => self.rest().await,
            Action::Reopen => {
                self.ends_waiting().await;
                let id = self.parent.session().id().clone();
                self.family.subagents.dispose(&id).await;
                self.reopened().await;
            }
            Action::Drop => {
                self.ends_waiting().await;
                self.is_lossy = true;
                self.reopened().await;
            }
        }
    }

    async fn start(&mut self, continuable: bool, background: bool, fork: bool) {
        let mut request = delegation("child");
        request.background = background;
        request.provider = if fork {
            Provider::Fork
        } else {
            Provider::Spawn
        };
        if continuable {
            request.mode = Mode::Continuable;
        }
        if !continuable && !background {
            let (subagents, parent) = (self.family.subagents.clone(), self.parent.clone());
            let cancel = request.cancel.clone();
            let waits = tokio::spawn(async move {
                if let Err(error) = subagents.start(&parent, request).await {
                    expected(&error);
                }
            });
            self.waited_for.push((cancel, waits));
            return;
        }
        match self.family.subagents.start(&self.parent, request).await {
            Ok(started) => {
                assert_eq!(started.end, None);
                self.let_go.push(started.session.clone());
                if continuable {
                    self.can_be_sent_more.push(started.session);
                }
            }
            Err(error) => expected(&error),
        }
    }

    fn send(&mut self, which: u8) {
        let all = &self.can_be_sent_more;
        let Some(id) = all.get(usize::from(which) % all.len().max(1)).cloned() else {
            return;
        };
        let (subagents, parent) = (self.family.subagents.clone(), self.parent.clone());
        self.sending.push(tokio::spawn(async move {
            let never = CancellationToken::new();
            subagents
                .send(&parent, &id, "More.", &never)
                .await
                .map(drop)
        }));
    }

    /// Whatever is held goes on until everything rests.
    async fn rest(&mut self) {
        let rests = async {
            for sent in self.sending.drain(..) {
                if let Err(error) = sent.await.unwrap() {
                    expected(&error);
                }
            }
            for (_, waits) in self.waited_for.drain(..) {
                waits.await.unwrap();
            }
            self.family.subagents.at_rest(&self.parent).await;
        };
        let whim = Arc::clone(&self.whim);
        let releases = async {
            loop {
                whim.release();
                tokio::task::yield_now().await;
            }
        };
        tokio::select! {
            () = rests => {}
            () = releases => {}
        }
    }

    async fn ends_waiting(&mut self) {
        for (cancel, waits) in self.waited_for.drain(..) {
            cancel.cancel();
            waits.await.unwrap();
        }
    }

    async fn reopened(&mut self) {
        let id = self.parent.session().id().clone();
        self.parent.dispose().await.unwrap();
        self.family.subagents.quiet(&id).await;
        let attached = self.family.bench.open(&id);
        self.parent = self.family.on(attached, Arc::clone(&self.whim) as _);
    }
}

/// What may be refused when anything can happen at any time.
fn expected(error: &SubagentError) {
    let codes = [
        "CAPACITY_EXCEEDED",
        "ACTIVATION_CLOSING",
        "AGENT_DISPOSED",
        "CANCELLED",
    ];
    assert!(codes.contains(&error.code()), "{error:?}");
}

async fn run(seed: u64, actions: &[Action]) -> Result<(), TestCaseError> {
    let mut world = World::new(seed);
    world.parent.followup("Go.").unwrap();
    for action in actions {
        world.act(*action).await;
    }
    world.rest().await;
    let World {
        family,
        parent,
        let_go,
        is_lossy,
        ..
    } = world;
    let id = parent.session().id().clone();
    prop_assert_eq!(family.subagents.running(&id), []);
    prop_assert_eq!(live(&family), [id.clone()]);
    // What it was told while it was stopped waits for it, and so does what came when a turn had failed.
    parent.set_model(
        script(vec![says("I see."); 100]),
        crate::bench::call_config("acme-small"),
    );
    parent.followup("And?").unwrap();
    parent.when_idle().await;
    family.subagents.dispose(&id).await;
    parent.dispose().await.unwrap();
    prop_assert_eq!(live(&family), []);
    if !is_lossy {
        let made = family.children.made();
        let log = family.bench.log(&id);
        let mut told: BTreeMap<String, usize> = BTreeMap::new();
        for notice in all(&log, &EventKind::UserMessage) {
            if notice["source"]["kind"] == "subagent-settled" {
                *told
                    .entry(text(&notice["source"]["senderSessionId"]))
                    .or_default() += 1;
            }
        }
        for child in &let_go {
            let opened = made.iter().filter(|made| *made == child).count();
            prop_assert_eq!(told.get(child.as_str()), Some(&opened), "{}", child);
        }
    }
    let sessions: BTreeSet<_> = family.children.made().into_iter().chain([id]).collect();
    for session in &sessions {
        family.bench.open(session);
        let log = family.bench.log(session);
        prop_assert_eq!(log.findings().count(), 0);
        prop_assert_eq!(log.open_tail().turn(), None);
        // The last has everything in it that was sent before.
        if let made @ 1.. = count_requests(&log) {
            acceptable(&request_at(&log, session, made).unwrap().1)?;
        }
    }
    Ok(())
}

fn text(value: &Value) -> String {
    value.as_str().unwrap().to_owned()
}

fn check(threads: usize, cases: u32) {
    let config = Config {
        cases,
        failure_persistence: None,
        max_shrink_iters: 100,
        ..Config::default()
    };
    let script = (any::<u64>(), prop::collection::vec(action(), 1..30));
    let outcome = TestRunner::new(config).run(&script, |(seed, actions)| {
        let mut runtime = match threads {
            1 => tokio::runtime::Builder::new_current_thread(),
            _ => tokio::runtime::Builder::new_multi_thread(),
        };
        let runtime = runtime
            .worker_threads(threads)
            .enable_all()
            .build()
            .unwrap();
        runtime.block_on(run(seed, &actions))
    });
    if let Err(error) = outcome {
        panic!("{error}");
    }
}

#[test]
fn whatever_happens_on_one_thread_nothing_is_left_running_and_everybody_is_told() {
    check(1, 32);
}

#[test]
fn whatever_happens_on_several_threads_nothing_is_left_running_and_everybody_is_told() {
    check(3, 16);
}
