//! Whatever happens in a session: every request can be rebuilt from the file, by both paths, is what the model was sent,
//! extends the one before as long as nothing of the history was rewritten, and is one that no provider refuses.

use std::path::Path;
use std::sync::{Arc, Mutex};

use offshoot_agent::{Cancel, Driver, SystemPromptPolicy, count_requests, reconstruct, request_at};
use offshoot_model::{
    Attempt, CallConfig, ContentBlock, FinishReason, LateInstructions, MessagesDialect,
    ModelRequest, Pictures, Protocol, Role, encode_messages,
};
use offshoot_session::{EventDraft, EventKind, Seq, SessionId, SurfaceOp};
use offshoot_test_support::transcript::{
    Rules, SystemMessages, Violation, messages, validate, validate_with,
};
use offshoot_tool_api::{InstructionFile, Instructions, ToolRegistry};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use serde_json::{Value, json};

use crate::bench::{Bench, DIALECT, NOW, call_config};
use crate::crowd::{long, too_long};
use crate::parts::{Routed, agent_with};
use crate::prefix::elements;
use crate::support::{answers, call, calls, says};

/// What somebody does.
#[derive(Clone, Copy, Debug)]
enum Action {
    /// A turn without tools.
    Talk,
    /// A turn with two calls, and something said meanwhile.
    Work { steered: bool },
    /// A turn whose model fails.
    Fail,
    /// An answer that is cut off.
    CutOff,
    /// Another model, or the same one otherwise.
    Choose(u8),
    /// Other tools.
    Tools(u8),
    /// Another prompt; 0 is none.
    Prompt(u8),
    /// The instructions of the project change; 0 is none.
    Instructions(u8),
    /// Somebody chooses what tools may do.
    Mode(bool),
    /// Earlier messages are replaced by one.
    Rewrite(u8),
    /// Somebody has the conversation compacted.
    Compact,
    /// It is too long for the provider, which happens in the middle of a turn.
    Overflow,
    /// The process ends, and another one goes on.
    Restart,
    /// Another process goes on with a fork, made at this many thousandths of the log.
    Fork(u16),
}

fn action() -> impl Strategy<Value = Action> {
    prop_oneof![
        4 => Just(Action::Talk),
        4 => any::<bool>().prop_map(|steered| Action::Work { steered }),
        1 => Just(Action::Fail),
        1 => Just(Action::CutOff),
        2 => (0..4_u8).prop_map(Action::Choose),
        2 => (0..4_u8).prop_map(Action::Tools),
        2 => (0..3_u8).prop_map(Action::Prompt),
        2 => (0..3_u8).prop_map(Action::Instructions),
        1 => any::<bool>().prop_map(Action::Mode),
        2 => (0..6_u8).prop_map(Action::Rewrite),
        2 => Just(Action::Compact),
        2 => Just(Action::Overflow),
        2 => Just(Action::Restart),
        3 => (0..1000_u16).prop_map(Action::Fork),
    ]
}

/// What lasts from one process to the next besides the files.
struct World {
    bench: Bench,
    model: Arc<Routed>,
    call: CallConfig,
    tools: u8,
    prompt: String,
    instructions: File,
    steps: usize,
}

#[derive(Clone, Debug, Default)]
struct File(Arc<Mutex<Option<String>>>);

impl Instructions for File {
    fn files(&self, _cwd: Option<&Path>) -> Vec<InstructionFile> {
        let text = self.0.lock().unwrap().clone();
        let file = text.map(|text| InstructionFile {
            scope: ".\0AGENTS.md".into(),
            path: "AGENTS.md".into(),
            digest: format!("sha256:{text}"),
            text,
        });
        file.into_iter().collect()
    }
}

impl World {
    fn new(flexible: bool) -> Self {
        let mut model = Routed::flexible(0);
        model.info.tool_updates = flexible;
        model.info.system_prompt_in_history = flexible;
        Self {
            bench: Bench::new(),
            model: Arc::new(model),
            call: call_config("acme-small"),
            tools: 0,
            prompt: "You are a test agent.".into(),
            instructions: File::default(),
            steps: 0,
        }
    }

    fn tools(&self) -> ToolRegistry {
        let all = self.bench.work.tools();
        let mut tools = ToolRegistry::new();
        // `look` and `change` are always there: somebody calls them.
        let others = [("check", 1), ("alter", 2)];
        let wanted = |name: &str| {
            let bit = others.iter().find(|(other, _)| *other == name);
            bit.is_none_or(|(_, bit)| self.tools & bit != 0)
        };
        for tool in all.iter().filter(|tool| wanted(&tool.spec().name)) {
            tools.register(Arc::clone(tool)).unwrap();
        }
        tools
    }

    fn agent(&self, attached: offshoot_agent::Attached) -> Driver {
        agent_with(
            &self.bench,
            attached,
            Arc::clone(&self.model) as _,
            |setup| {
                setup.tools = self.tools();
                setup.config.call = self.call.clone();
                setup.config.system_prompt.clone_from(&self.prompt);
                setup.config.context.system_prompt = SystemPromptPolicy::Update;
                setup.instructions = Some(Arc::new(self.instructions.clone()));
            },
        )
    }

    async fn turn(&mut self, agent: &mut Driver, attempts: Vec<Attempt>) {
        for attempt in attempts {
            self.model.script.push(attempt);
        }
        self.steps += 1;
        agent.submit(&format!("Request {}.", self.steps)).unwrap();
        agent.run(&Cancel::new()).await.unwrap();
        assert_eq!(self.model.script.remaining(), 0);
    }

    /// Two turns, of which the first can be summarised.
    async fn talk_long(&mut self, agent: &mut Driver) {
        self.turn(agent, vec![says(&long("answer", 500))]).await;
        self.turn(agent, vec![says("Yes.")]).await;
    }

    async fn act(&mut self, mut agent: Driver, action: Action) -> Driver {
        match action {
            Action::Talk => self.turn(&mut agent, vec![says("Yes.")]).await,
            Action::Work { steered } => {
                if steered {
                    steer(&agent, self.steps);
                }
                let ids = [format!("a{}", self.steps), format!("b{}", self.steps)];
                let asked = calls([(&*ids[0], "look", "{}"), (&*ids[1], "change", "{}")]);
                self.turn(&mut agent, vec![asked, says("Done.")]).await;
            }
            Action::Fail => {
                let failed = Attempt::Throw {
                    chunks: Vec::new(),
                    message: "no".into(),
                    code: "SERVER".into(),
                };
                self.turn(&mut agent, vec![failed]).await;
            }
            Action::CutOff => {
                let blocks = vec![ContentBlock::text("I beg"), call("lost", "look", "{")];
                self.turn(&mut agent, vec![answers(blocks, FinishReason::MaxTokens)])
                    .await;
            }
            Action::Choose(n) => {
                self.call = call_config(if n & 1 == 0 {
                    "acme-small"
                } else {
                    "acme-large"
                });
                self.call.temperature = (n & 2 == 0).then_some(0.5);
                agent.set_model(Arc::clone(&self.model) as _, self.call.clone());
            }
            Action::Tools(n) => {
                self.tools = n;
                agent.set_tools(self.tools());
            }
            Action::Prompt(n) => {
                self.prompt = if n == 0 {
                    String::new()
                } else {
                    format!("You are test agent {n}.")
                };
                agent.set_system_prompt(self.prompt.clone());
            }
            Action::Instructions(n) => {
                *self.instructions.0.lock().unwrap() = (n > 0).then(|| format!("Rule {n}."));
            }
            Action::Mode(read_only) => {
                let mode = if read_only {
                    "read-only"
                } else {
                    "workspace-write"
                };
                let data = json!({"mode": mode});
                let draft = EventDraft::log_only(EventKind::SandboxMode, &data).unwrap();
                agent.session().append(draft, NOW).unwrap();
            }
            Action::Rewrite(kept) => rewrite(&agent, usize::from(kept), self.steps),
            Action::Compact => {
                self.talk_long(&mut agent).await;
                self.model.script.push(says("In short."));
                let compacted = agent.compact(&Cancel::new()).await.unwrap();
                assert!(compacted.is_some());
                assert_eq!(self.model.script.remaining(), 0);
            }
            Action::Overflow => {
                self.talk_long(&mut agent).await;
                let attempts = vec![too_long(), says("In short."), says("Yes.")];
                self.turn(&mut agent, attempts).await;
            }
            Action::Restart => {
                let id = agent.session().id().clone();
                agent.flush().unwrap();
                drop(agent);
                self.bench.restart();
                agent = self.agent(self.bench.open(&id));
            }
            Action::Fork(thousandths) => {
                agent.flush().unwrap();
                let source = self.bench.read(agent.session().id());
                let events = source.stored.log.end().seq().get();
                let cut = Seq::new(u64::from(thousandths) * events / 1000);
                let fork = self
                    .bench
                    .service
                    .prepare_fork(&source, Some(cut), None)
                    .unwrap();
                drop(self.bench.service.store_fork(&fork).unwrap());
                drop(agent);
                self.bench.restart();
                agent = self.agent(self.bench.open(&fork.header.id));
            }
        }
        agent
    }
}

/// Says something that the next step claims.
fn steer(agent: &Driver, n: usize) {
    let waiting = agent.session().log().pending_input().next_step().len();
    let message = json!({
        "id": format!("steer-{n}-{}", agent.session().id()), "role": "user", "source": {"kind": "user"},
        "content": [{"type": "text", "text": "By the way."}],
    });
    let data = json!({"target": "next-step", "start": waiting, "inserted": [message]});
    let draft = EventDraft::log_only(EventKind::InboxSpliced, &data).unwrap();
    agent.session().append(draft, NOW).unwrap();
}

/// Replaces the beginning of the conversation behind the prompt, up to the beginning of one of its last turns.
fn rewrite(agent: &Driver, kept: usize, n: usize) {
    let log = agent.session().log();
    let nodes: Vec<Seq> = log.surface().nodes().collect();
    let asked = |seq: &Seq| {
        let event = log.get(*seq).unwrap();
        event
            .body()
            .message()
            .is_some_and(|message| &*message.source == "user")
    };
    let from = usize::from(log.surface().has_protected_head());
    let starts: Vec<usize> = (from + 1..nodes.len())
        .filter(|at| asked(&nodes[*at]))
        .collect();
    let Some(end) = starts.iter().rev().nth(kept) else {
        return;
    };
    let shadowed = &nodes[from..*end];
    let message = json!({
        "id": format!("summary-{n}-{}", log.end()), "role": "user", "source": {"kind": "user"},
        "content": [{"type": "text", "text": "We talked."}],
    });
    let op = SurfaceOp::Replace {
        start: shadowed[0],
        end: *shadowed.last().unwrap(),
    };
    let draft = EventDraft::message(EventKind::UserMessage, &message).unwrap();
    let draft = draft.with_surface_op(op).with_sources(shadowed.to_vec());
    agent.session().append(draft, NOW).unwrap();
}

/// Looks at all requests of a session, from its file. `sent` are those that were made in the last action.
fn check(world: &World, id: &SessionId, sent: &[Arc<ModelRequest>]) -> Result<(), TestCaseError> {
    let log = world.bench.log(id);
    let made = count_requests(&log);
    let mut before: Option<(u64, Vec<String>)> = None;
    for n in 1..=made {
        let (settled, request) = request_at(&log, id, n).unwrap();
        let prefix = log.prefix(settled.before());
        let rows = prefix.events().map(|event| event.text());
        prop_assert_eq!(
            &reconstruct(rows, id).unwrap(),
            &request,
            "request {} by the other path",
            n
        );
        if let Some(at) = (n + sent.len()).checked_sub(made + 1) {
            prop_assert_eq!(&request, &*sent[at], "request {} as it was sent", n);
        }
        acceptable(&request)?;
        let encoded = String::from_utf8(encode_messages(&request.messages, &DIALECT)).unwrap();
        let messages = elements(format!(r#"{{"messages":{encoded}}}"#).as_bytes());
        let generation = prefix.surface().content_generation();
        if let Some((earlier, begun)) = before
            && earlier == generation
        {
            prop_assert_eq!(
                &messages[..begun.len()],
                begun,
                "request {} extends the one before",
                n
            );
        }
        before = Some((generation, messages));
    }
    Ok(())
}

/// Whether a summary is asked for: no request of the conversation itself.
fn is_of_a_summary(request: &Arc<ModelRequest>) -> bool {
    let last = request.messages.last();
    last.is_some_and(|message| message.source.kind() == "compaction")
}

/// No provider refuses it, however it is spoken to.
fn acceptable(request: &ModelRequest) -> Result<(), TestCaseError> {
    let body = |protocol: Protocol| -> Value {
        let bytes = protocol.encode(request, Pictures::Named).unwrap();
        serde_json::from_slice(&bytes).unwrap()
    };
    let rules = Rules {
        system_messages: SystemMessages::Anywhere,
    };
    let mut violations =
        validate_with(&body(Protocol::ChatCompletions(DIALECT))["messages"], rules);
    // A route that is told of tools in the middle answers the message before that.
    let told = request
        .messages
        .last()
        .is_some_and(|last| last.role == Role::Developer);
    violations
        .retain(|violation| !(told && matches!(violation, Violation::NothingToAnswer { .. })));
    prop_assert_eq!(violations, []);
    let mut strict = DIALECT;
    strict.late_instructions = LateInstructions::User;
    prop_assert_eq!(
        validate(&body(Protocol::ChatCompletions(strict))["messages"]),
        []
    );
    let messages = Protocol::Messages(MessagesDialect::anthropic());
    prop_assert_eq!(messages::validate(&body(messages)), []);
    Ok(())
}

async fn run(flexible: bool, actions: &[Action]) -> Result<(), TestCaseError> {
    let mut world = World::new(flexible);
    let mut agent = world.agent(world.bench.create());
    world.turn(&mut agent, vec![says("Hello.")]).await;
    for action in actions {
        let sent = world.model.script.requests().len();
        agent = world.act(agent, *action).await;
        agent.flush().unwrap();
        let sent = world.model.script.requests().split_off(sent);
        let (summaries, sent): (Vec<_>, Vec<_>) = sent.into_iter().partition(is_of_a_summary);
        for request in summaries {
            acceptable(&request)?;
        }
        check(&world, agent.session().id(), &sent)?;
    }
    Ok(())
}

#[test]
fn every_request_of_every_script_can_be_rebuilt_and_extends_the_one_before() {
    let config = Config {
        cases: 24,
        failure_persistence: None,
        max_shrink_iters: 200,
        ..Config::default()
    };
    let script = (any::<bool>(), prop::collection::vec(action(), 1..14));
    let outcome = TestRunner::new(config).run(&script, |(flexible, actions)| {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        runtime.block_on(run(flexible, &actions))
    });
    if let Err(error) = outcome {
        panic!("{error}");
    }
}
