//! A conversation and its side session run at the same time, over one model, and nothing of one gets into the other.
//!
//! Everything that is said in either carries its word: prompts, every delta of every answer, and the names of calls. The
//! model is let go on one chunk at a time, in turns, so that both are in the middle of an answer nearly always.

use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex};

use futures_util::StreamExt as _;
use futures_util::stream::{self, BoxStream};
use offshoot_agent::{Agent, Notice, Subscription, Update};
use offshoot_model::{
    CallConfig, Chunk, ContentBlock, Failure, FinishReason, Model, ModelRequest, PreparedCall,
};
use offshoot_session::{EventKind, SessionId};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use crate::bench::{Bench, script};
use crate::beside::{after_a_turn, side_of};
use crate::support::{all, call, endings, results, says};
use crate::transcripts::acceptable_requests;

const TURNS: usize = 50;
const DELTAS: usize = 4;
/// Every so many turns there is a call.
const CALLS: usize = 5;
const WORDS: [&str; 2] = ["ALDER", "BIRCH"];

/// One model for all: it answers each session with that session's word.
#[derive(Debug, Default)]
struct Shared(Mutex<BTreeMap<String, Arc<Talk>>>);

/// What is said in one session.
#[derive(Debug)]
struct Talk {
    word: &'static str,
    allowed: Semaphore,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    requests: Vec<Arc<ModelRequest>>,
    /// How many chunks have come.
    came: usize,
    /// How many answers have ended without a call.
    turns: usize,
}

impl Shared {
    fn talk(&self, session: &SessionId, word: &'static str) -> Arc<Talk> {
        let talk = Arc::new(Talk {
            word,
            allowed: Semaphore::new(0),
            state: Mutex::default(),
        });
        let name = session.as_str().to_owned();
        self.0.lock().unwrap().insert(name, Arc::clone(&talk));
        talk
    }
}

impl Talk {
    /// The answer to the next request.
    fn answer(&self, request: Arc<ModelRequest>) -> Vec<Chunk> {
        let mut state = self.state.lock().unwrap();
        state.requests.push(request);
        let (word, number) = (self.word, state.requests.len());
        let mut chunks = vec![Chunk::BlockStart {
            index: 0,
            block_type: "text".into(),
        }];
        let deltas = (0..DELTAS).map(|delta| format!("{word} {number}.{delta} "));
        chunks.extend(
            deltas
                .clone()
                .map(|text| Chunk::TextDelta { index: 0, text }),
        );
        chunks.push(Chunk::BlockEnd {
            index: 0,
            block: ContentBlock::text(deltas.collect::<String>()),
        });
        // A request whose last message is a result is the second one of its turn.
        let is_first = state.requests[number - 1]
            .messages
            .last()
            .is_some_and(|last| last.tool_call_id.is_none());
        if is_first && state.turns.is_multiple_of(CALLS) {
            let block = call(&format!("{word}-{number}"), "look", "{}");
            chunks.push(Chunk::BlockEnd { index: 1, block });
            chunks.push(Chunk::finish(FinishReason::ToolCalls));
        } else {
            state.turns += 1;
            chunks.push(Chunk::finish(FinishReason::Stop));
        }
        chunks
    }

    fn came(&self) -> usize {
        self.state.lock().unwrap().came
    }

    /// Lets one chunk come, unless there are none any more.
    async fn go_on(&self, agent: &Agent) {
        let before = self.came();
        self.allowed.add_permits(1);
        while self.came() == before {
            let is_over = endings(&agent.session().log()).len() == TURNS + 1;
            if is_over {
                return;
            }
            tokio::task::yield_now().await;
        }
    }
}

impl Model for Shared {
    fn provider(&self) -> &'static str {
        "acme"
    }

    fn prepare(&self, config: &CallConfig) -> Result<PreparedCall, Failure> {
        Ok(PreparedCall::plain(config.clone()))
    }

    fn stream(
        &self,
        request: Arc<ModelRequest>,
        _: CancellationToken,
    ) -> BoxStream<'static, Chunk> {
        let session = request.session_id.clone().unwrap();
        let talk = Arc::clone(&self.0.lock().unwrap()[&session]);
        let chunks = talk.answer(request);
        stream::iter(chunks)
            .then(move |chunk| {
                let talk = Arc::clone(&talk);
                async move {
                    talk.allowed.acquire().await.unwrap().forget();
                    talk.state.lock().unwrap().came += 1;
                    chunk
                }
            })
            .boxed()
    }
}

/// Everything that a client of a session is told, as text.
async fn heard(mut subscription: Subscription) -> Vec<String> {
    let mut heard = Vec::new();
    while let Some(update) = subscription.next().await {
        let Update::Notice(notice) = update else {
            panic!("there is room for all of it");
        };
        match notice {
            Notice::Stream(frame) => heard.push(format!("{frame:?}")),
            Notice::TurnEnded(report) => heard.push(report.text.clone()),
            other => heard.push(format!("{other:?}")),
        }
    }
    heard
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn fifty_turns_of_a_parent_and_of_its_side_session_at_the_same_time() {
    let bench = Bench::new();
    // What both have in common has neither's word.
    let parent = after_a_turn(&bench, bench.setup(script(vec![says("One.")]))).await;
    let attached = side_of(&bench, &parent).await;
    let model = Arc::new(Shared::default());
    parent.set_model(
        Arc::clone(&model) as _,
        crate::bench::call_config("acme-small"),
    );
    let child = Agent::new(attached, bench.setup(Arc::clone(&model) as _));

    let agents = [&parent, &child];
    let talks = [0, 1].map(|who| model.talk(agents[who].session().id(), WORDS[who]));
    let capacity = NonZeroUsize::new(100_000).unwrap();
    let subscriptions = agents.map(|agent| agent.subscribe(capacity).1);
    for turn in 0..TURNS {
        for (agent, word) in agents.iter().zip(WORDS) {
            agent.followup(&format!("{word} asks {turn}.")).unwrap();
        }
    }
    let (mut rounds, mut both) = (0, 0);
    let is_over = |agent: &Agent| endings(&agent.session().log()).len() > TURNS;
    while !agents.iter().all(|agent| is_over(agent)) {
        // Who is first changes, and now and then one gets ahead.
        let first = rounds % 2;
        talks[first].go_on(agents[first]).await;
        talks[1 - first].go_on(agents[1 - first]).await;
        if rounds % 7 == 0 {
            talks[first].go_on(agents[first]).await;
        }
        rounds += 1;
        both += usize::from(agents.iter().all(|agent| agent.live_answer().is_some()));
    }
    assert!(both > rounds / 2, "{both} of {rounds}");
    for agent in agents {
        agent.when_idle().await;
        agent.dispose().await.unwrap();
    }

    for ((who, agent), subscription) in agents.iter().enumerate().zip(subscriptions) {
        let (word, foreign) = (WORDS[who], WORDS[1 - who]);
        let id = agent.session().id();
        let log = bench.log(id);
        assert_eq!(endings(&log), vec!["completed"; TURNS + 1]);
        let of_log: Vec<String> = log.events().map(|event| event.text().to_owned()).collect();
        let requests = talks[who].state.lock().unwrap().requests.clone();
        let of_requests = requests.iter().map(|request| format!("{request:?}"));
        let of_stream = heard(subscription).await;
        for text in of_log.iter().chain(&of_stream) {
            assert!(!text.contains(foreign), "{word}: {text}");
        }
        for text in of_requests {
            assert!(!text.contains(foreign), "{word}: {text}");
        }

        // And it has all of its own.
        let answers = all(&log, &EventKind::AssistantMessage);
        let own: Vec<String> = answers
            .iter()
            .map(|answer| answer["message"]["content"][0]["text"].to_string())
            .filter(|text| text.contains(word))
            .collect();
        let expected: Vec<String> = (1..=requests.len())
            .map(|number| {
                let deltas = (0..DELTAS).map(|delta| format!("{word} {number}.{delta} "));
                format!("{:?}", deltas.collect::<String>())
            })
            .collect();
        assert_eq!(own, expected);
        assert_eq!(requests.len(), TURNS + TURNS / CALLS);
        assert_eq!(results(&log).len(), TURNS / CALLS);
        let deltas = of_stream.iter().filter(|text| text.contains("TextDelta"));
        assert_eq!(deltas.count(), requests.len() * DELTAS);
        let told = acceptable_requests(&log, id);
        let sent: Vec<ModelRequest> = requests.iter().map(|request| (**request).clone()).collect();
        assert_eq!(told[1..], sent);
    }
}
