//! What a random script does things to.

use std::path::Path;
use std::pin::pin;
use std::sync::{Arc, Mutex};

use offshoot_agent::{
    AgentError, AgentHook, Attached, Cancel, CancelCause, Driver, HookError, Input, PruneConfig,
    StepContext, SystemPromptPolicy, count_requests,
};
use offshoot_model::{Attempt, CallConfig, ContentBlock, FinishReason, ModelRequest};
use offshoot_session::{EventDraft, EventKind, LogOffset, Seq};
use offshoot_tool_api::{
    Effects, InstructionFile, Instructions, SandboxMode, ToolOutput, ToolRegistry,
};
use serde_json::json;

use super::Action;
use super::player::{Player, Summaries, breaks_off, fails_within};
use crate::bench::{Bench, NOW, call_config};
use crate::crowd::{long, too_long};
use crate::parts::agent_with;
use crate::scene::Probe;
use crate::support::{answers, call, calls, says};

/// How many tokens a long text has.
const MUCH: usize = 500;

/// What lasts from one process to the next besides the files.
pub(super) struct World {
    pub(super) bench: Bench,
    pub(super) model: Arc<Player>,
    /// The requests of the conversation, as they were sent, in its present branch.
    pub(super) sent: Vec<Arc<ModelRequest>>,
    /// Those for summaries, in the last action.
    pub(super) summaries: Vec<Arc<ModelRequest>>,
    /// Where the last action began.
    pub(super) since: LogOffset,
    /// Whether an answer may have been lost with its process.
    pub(super) loses: bool,
    call: CallConfig,
    tools: u8,
    prompt: String,
    mode: SandboxMode,
    instructions: File,
    more: More,
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

/// Something to add when a turn would end.
#[derive(Clone, Debug, Default)]
struct More(Arc<Mutex<Vec<Input>>>);

#[async_trait::async_trait]
impl AgentHook for More {
    async fn turn_stopping(&self, _: &StepContext<'_>) -> Result<Vec<Input>, HookError> {
        Ok(std::mem::take(&mut *self.0.lock().unwrap()))
    }
}

impl World {
    pub(super) fn new(flexible: bool) -> Self {
        Self {
            bench: Bench::new(),
            model: Arc::new(Player::new(flexible)),
            sent: Vec::new(),
            summaries: Vec::new(),
            since: LogOffset::START,
            loses: false,
            call: call_config("acme-small"),
            tools: 0,
            prompt: "You are a test agent.".into(),
            mode: SandboxMode::WorkspaceWrite,
            instructions: File::default(),
            more: More::default(),
            steps: 0,
        }
    }

    fn tools(&self) -> ToolRegistry {
        let all = self.bench.work.tools();
        let mut tools = ToolRegistry::new();
        // Somebody calls the others, so they are always there.
        let coming_and_going = [("check", 1), ("alter", 2)];
        let wanted = |name: &str| {
            let bit = coming_and_going.iter().find(|(other, _)| *other == name);
            bit.is_none_or(|(_, bit)| self.tools & bit != 0)
        };
        for tool in all.iter().filter(|tool| wanted(&tool.spec().name)) {
            tools.register(Arc::clone(tool)).unwrap();
        }
        let talk = Probe::new("talk", |_| Ok(ToolOutput::text(long("talk", MUCH))));
        let talk = talk.with_effects(Effects::ReadOnly);
        tools.register(Arc::new(talk)).unwrap();
        tools
    }

    pub(super) fn agent(&self, attached: Attached) -> Driver {
        let model = Arc::clone(&self.model) as _;
        agent_with(&self.bench, attached, model, |setup| {
            setup.tools = self.tools();
            setup.config.call = self.call.clone();
            setup.config.system_prompt.clone_from(&self.prompt);
            setup.config.context.system_prompt = SystemPromptPolicy::Update;
            setup.config.context.verify_requests = true;
            setup.config.permissions.mode = Some(self.mode);
            setup.config.compaction.prune = Some(PruneConfig {
                threshold_chars: 800,
                head_chars: 100,
                tail_chars: 50,
            });
            setup.instructions = Some(Arc::new(self.instructions.clone()));
            setup.hooks.push(Arc::new(self.more.clone()));
        })
    }

    fn asks(&mut self, agent: &Driver, attempts: Vec<Attempt>) {
        self.model.answer_with(attempts);
        self.steps += 1;
        agent.submit(&format!("Request {}.", self.steps)).unwrap();
    }

    pub(super) async fn turn(&mut self, agent: &mut Driver, attempts: Vec<Attempt>) {
        self.asks(agent, attempts);
        agent.run(&Cancel::new()).await.unwrap();
        self.take_requests();
    }

    /// Notes what was sent since the last look.
    fn take_requests(&mut self) {
        let [sent, summaries] = self.model.take_requests();
        self.sent.extend(sent);
        self.summaries.extend(summaries);
    }

    /// A turn that is cancelled when the model hangs, or `call` has begun.
    async fn cancelled(
        &mut self,
        agent: &mut Driver,
        attempts: Vec<Attempt>,
        call: Option<&str>,
        cancel: &Cancel,
    ) {
        let hold = call.map(|call| self.bench.work.hold(call));
        let before = self.model.count();
        self.asks(agent, attempts);
        let model = Arc::clone(&self.model);
        let ready = async move {
            match hold {
                Some(hold) => hold.started.cancelled().await,
                None => asked(&model, before).await,
            }
        };
        let mut run = pin!(agent.run(cancel));
        tokio::select! {
            biased;
            done = &mut run => {
                done.unwrap();
                return;
            }
            () = ready => cancel.cancel(CancelCause::User),
        }
        run.await.unwrap();
    }

    /// A turn that nobody waits for any more when the model hangs.
    async fn abandoned(&mut self, agent: &mut Driver) {
        let before = self.model.count();
        self.asks(agent, vec![breaks_off("I was")]);
        let model = Arc::clone(&self.model);
        let cancel = Cancel::new();
        tokio::select! {
            biased;
            done = agent.run(&cancel) => drop(done.unwrap()),
            () = asked(&model, before) => {}
        }
    }

    async fn compacted(&self, agent: &mut Driver, hangs: bool) {
        if !hangs {
            // Whatever comes of it, nothing of the conversation is lost: that is what is checked.
            drop(agent.compact(&Cancel::new()).await);
            return;
        }
        self.model.summarise(Summaries::Hanging);
        let before = self.model.count();
        let (model, cancel) = (Arc::clone(&self.model), Cancel::new());
        {
            let mut compacting = pin!(agent.compact(&cancel));
            tokio::select! {
                biased;
                _nothing = &mut compacting => {}
                () = asked(&model, before) => {
                    cancel.cancel(CancelCause::User);
                    compacting.await.unwrap_err();
                }
            }
        }
        self.model.summarise(Summaries::Good);
    }

    fn reopened(&mut self, agent: Driver) -> Driver {
        let id = agent.session().id().clone();
        drop(agent);
        self.bench.restart();
        self.agent(self.bench.open(&id))
    }

    fn forked(&mut self, agent: Driver, thousandths: u16) -> Driver {
        agent.flush().unwrap();
        let source = self.bench.read(agent.session().id());
        let events = source.stored.log.end().seq().get();
        let cut = Seq::new(u64::from(thousandths) * events / 1000);
        let service = &self.bench.service;
        let fork = |cut| service.prepare_fork(&source, Some(cut), None);
        let fork = fork(cut).or_else(|error| match error {
            // Of an answer that is still coming in there is no event yet.
            AgentError::StillStreaming { last, .. } => fork(last),
            error => Err(error),
        });
        let fork = fork.unwrap();
        drop(service.store_fork(&fork).unwrap());
        drop(agent);
        self.bench.restart();
        let agent = self.agent(self.bench.open(&fork.header.id));
        self.sent.truncate(count_requests(&agent.session().log()));
        agent
    }

    pub(super) async fn act(&mut self, mut agent: Driver, action: Action) -> Driver {
        self.since = agent.session().log().end();
        self.loses = false;
        self.summaries.clear();
        let n = self.steps + 1;
        let [a, b] = [format!("a{n}"), format!("b{n}")];
        match action {
            Action::Talk { much } => {
                let text = if much {
                    long("yes", MUCH)
                } else {
                    "Yes.".into()
                };
                self.turn(&mut agent, vec![says(&text)]).await;
            }
            Action::Work { steered, much } => {
                if steered {
                    self.steer(&agent);
                    let more = Input::user(format!("more-{n}-{}", agent.session().id()), "More.");
                    self.more.0.lock().unwrap().push(more);
                }
                let second = if much { "talk" } else { "change" };
                let asked = calls([(&*a, "look", "{}"), (&*b, second, "{}")]);
                self.turn(&mut agent, vec![asked, says("Done.")]).await;
            }
            Action::Fail => self.turn(&mut agent, vec![fails_within("I", "AUTH")]).await,
            Action::Retry => {
                let attempts = vec![fails_within("I", "SERVER"), says("Now.")];
                self.turn(&mut agent, attempts).await;
            }
            Action::Overflow => self.turn(&mut agent, vec![too_long(), says("Now.")]).await,
            Action::CutOff { within_a_call } => {
                let arguments = if within_a_call { "{" } else { "{}" };
                let blocks = vec![ContentBlock::text("I beg"), call("lost", "look", arguments)];
                let cut = answers(blocks, FinishReason::MaxTokens);
                self.turn(&mut agent, vec![cut]).await;
            }
            Action::CancelAnswer => {
                self.steer(&agent);
                let attempts = vec![breaks_off("I beg")];
                let cancel = Cancel::new();
                self.cancelled(&mut agent, attempts, None, &cancel).await;
            }
            Action::CancelCall => {
                let attempts = vec![calls([(&*a, "change", "{}"), (&*b, "look", "{}")])];
                let cancel = Cancel::new();
                self.cancelled(&mut agent, attempts, Some(&a), &cancel)
                    .await;
            }
            Action::Abandon => self.abandoned(&mut agent).await,
            Action::Crash => {
                self.abandoned(&mut agent).await;
                let id = agent.session().id().clone();
                self.bench.crash(agent);
                self.loses = true;
                agent = self.agent(self.bench.open(&id));
            }
            Action::Compact { hangs } => self.compacted(&mut agent, hangs).await,
            Action::Summaries(summaries) => self.model.summarise(summaries),
            Action::Choose(n) => {
                let small = n & 1 == 0;
                self.call = call_config(if small { "acme-small" } else { "acme-large" });
                self.call.temperature = (n & 2 == 0).then_some(0.5);
                agent.set_model(Arc::clone(&self.model) as _, self.call.clone());
            }
            Action::Tools(n) => {
                self.tools = n;
                agent.set_tools(self.tools());
            }
            Action::Prompt(n) => {
                self.prompt = match n {
                    0 => String::new(),
                    n => format!("You are test agent {n}."),
                };
                agent.set_system_prompt(self.prompt.clone());
            }
            Action::Instructions(n) => {
                *self.instructions.0.lock().unwrap() = (n > 0).then(|| format!("Rule {n}."));
            }
            Action::Mode { read_only } => {
                self.mode = if read_only {
                    SandboxMode::ReadOnly
                } else {
                    SandboxMode::WorkspaceWrite
                };
                agent = self.reopened(agent);
            }
            Action::Restart => agent = self.reopened(agent),
            Action::Fork(thousandths) => agent = self.forked(agent, thousandths),
        }
        agent.flush().unwrap();
        self.take_requests();
        agent
    }

    /// Says something that the next step claims.
    fn steer(&self, agent: &Driver) {
        let waiting = agent.session().log().pending_input().next_step().len();
        let id = format!("steer-{}-{}", self.steps, agent.session().log().end());
        let message = json!({
            "id": id, "role": "user", "source": {"kind": "user"},
            "content": [{"type": "text", "text": "By the way."}],
        });
        let data = json!({"target": "next-step", "start": waiting, "inserted": [message]});
        let draft = EventDraft::log_only(EventKind::InboxSpliced, &data).unwrap();
        agent.session().append(draft, NOW).unwrap();
    }
}

/// Waits for a request more than there were.
async fn asked(model: &Player, before: usize) {
    while model.count() <= before {
        tokio::task::yield_now().await;
    }
}
