//! Watching an answer come in, from the start or from the middle, at any pace (`reference/agent.md` §1.5).

use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex};

use futures_util::StreamExt as _;
use futures_util::stream::{self, BoxStream};
use offshoot_agent::{
    AgentStatus, Cancel, CancelCause, Driver, FrameBody, LiveAnswer, Notice, Queue, Snapshot,
    StreamFrame, Subscription, Update,
};
use offshoot_model::{
    Attempt, CallConfig, Chunk, ContentBlock, Failure, FinishReason, Model, ModelRequest,
    PreparedCall,
};
use offshoot_session::{EventKind, StepRef};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use crate::bench::{Bench, NOW, ask, script};
use crate::support::{calls, results, says};

fn capacity(notices: usize) -> NonZeroUsize {
    NonZeroUsize::new(notices).unwrap()
}

fn delta(text: impl Into<String>) -> Chunk {
    Chunk::TextDelta {
        index: 0,
        text: text.into(),
    }
}

fn at(turn: u64) -> StepRef {
    StepRef { turn, step: 1 }
}

/// Takes what there is of frames until nothing runs any more.
async fn frames(subscription: &mut Subscription) -> Vec<Arc<StreamFrame>> {
    let mut frames = Vec::new();
    loop {
        match subscription.next().await.unwrap() {
            Update::Notice(Notice::Stream(frame)) => frames.push(frame),
            Update::Notice(Notice::Status(AgentStatus::Idle)) => return frames,
            Update::Notice(_) => {}
            Update::Lagged(_) => panic!("it keeps up"),
        }
    }
}

#[tokio::test]
async fn every_attempt_is_a_start_its_chunks_and_what_became_of_them() {
    let bench = Bench::new();
    let failed = Attempt::Throw {
        chunks: vec![delta("I ")],
        message: "busy".into(),
        code: "SERVER".into(),
    };
    let agent = bench.running(script(vec![says("Hi."), failed]));
    let (snapshot, mut subscription) = agent.subscribe(capacity(100));
    assert_eq!((snapshot.revision, snapshot.status), (0, AgentStatus::Idle));
    agent.followup("Hello.").unwrap();
    let first = frames(&mut subscription).await;
    agent.followup("And now?").unwrap();
    let second = frames(&mut subscription).await;

    let id = agent.session().id();
    let bodies = |frames: &[Arc<StreamFrame>]| -> Vec<FrameBody> {
        frames.iter().map(|frame| frame.body.clone()).collect()
    };
    let chunk = |index, chunk| FrameBody::Chunk {
        index,
        time: NOW,
        chunk,
    };
    let settled = |kind: EventKind| {
        let log = agent.session().log();
        let seq = crate::support::first(&log, &kind).seq();
        FrameBody::Committed { event: kind, seq }
    };
    let Attempt::Chunks(said) = says("Hi.") else {
        unreachable!()
    };
    let mut expected = vec![FrameBody::Start { at: at(1) }];
    expected.extend((0..).zip(said).map(|(index, said)| chunk(index, said)));
    expected.push(settled(EventKind::AssistantMessage));
    assert_eq!(bodies(&first), expected);
    let failure = Failure::new("SERVER", "busy");
    assert_eq!(
        bodies(&second),
        [
            FrameBody::Start { at: at(2) },
            chunk(0, delta("I ")),
            chunk(1, Chunk::failed(failure)),
            settled(EventKind::AssistantAttempt),
        ]
    );
    let all: Vec<_> = first.iter().chain(&second).collect();
    let revisions: Vec<u64> = all.iter().map(|frame| frame.revision).collect();
    assert_eq!(revisions, (1..=all.len() as u64).collect::<Vec<_>>());
    assert!(
        first
            .iter()
            .all(|frame| *frame.attempt == *format!("{id}:1"))
    );
    assert!(
        second
            .iter()
            .all(|frame| *frame.attempt == *format!("{id}:2"))
    );
    assert_eq!(agent.live_answer(), None);
}

/// A model that says so many numbered words a turn, each when it is allowed to.
#[derive(Debug)]
struct Words {
    count: usize,
    allowed: Arc<Semaphore>,
}

impl Model for Words {
    fn provider(&self) -> &'static str {
        "acme"
    }

    fn prepare(&self, config: &CallConfig) -> Result<PreparedCall, Failure> {
        Ok(PreparedCall::plain(config.clone()))
    }

    fn stream(&self, _: Arc<ModelRequest>, _: CancellationToken) -> BoxStream<'static, Chunk> {
        let words = (0..self.count).map(|word| delta(format!("{word} ")));
        stream::iter(words.chain([Chunk::finish(FinishReason::Stop)]))
            .zip(stream::repeat(Arc::clone(&self.allowed)))
            .then(|(chunk, allowed)| async move {
                allowed.acquire().await.unwrap().forget();
                chunk
            })
            .boxed()
    }
}

/// What a client shows: the answer that is coming in, and how many it has seen become events.
#[derive(Default)]
struct Client {
    revision: u64,
    words: usize,
    is_streaming: bool,
    lagged: usize,
}

impl Client {
    fn join(snapshot: &Snapshot) -> Self {
        let mut client = Self::default();
        client.see(snapshot);
        client
    }

    fn see(&mut self, snapshot: &Snapshot) {
        self.revision = snapshot.revision;
        self.is_streaming = snapshot.answer.is_some();
        self.words = snapshot.answer.as_ref().map_or(0, |answer| {
            assert_eq!(answer.revision, snapshot.revision);
            let words: Vec<Chunk> = answer.chunks().map(|(_, chunk)| chunk.clone()).collect();
            for (word, chunk) in words.iter().enumerate() {
                assert!(is_word(chunk, word), "{chunk:?}");
            }
            words.len()
        });
    }

    fn take(&mut self, frame: &StreamFrame) {
        assert_eq!(
            frame.revision,
            self.revision + 1,
            "no gap and no repetition"
        );
        self.revision = frame.revision;
        match &frame.body {
            FrameBody::Start { .. } => {
                assert!(!self.is_streaming);
                (self.is_streaming, self.words) = (true, 0);
            }
            FrameBody::Chunk { index, chunk, .. } => {
                assert!(self.is_streaming && is_word(chunk, self.words));
                assert_eq!(*index, self.words as u64);
                self.words += 1;
            }
            FrameBody::Committed { .. } | FrameBody::Abandoned => {
                assert!(self.is_streaming);
                self.is_streaming = false;
            }
        }
    }

    /// Follows until the agent is gone.
    async fn follow(mut self, mut subscription: Subscription, slow: bool) -> Self {
        while let Some(update) = subscription.next().await {
            match update {
                Update::Notice(Notice::Stream(frame)) => self.take(&frame),
                Update::Notice(_) => {}
                Update::Lagged(snapshot) => {
                    assert!(snapshot.revision >= self.revision);
                    self.lagged += 1;
                    self.see(&snapshot);
                }
            }
            if slow {
                for _ in 0..20 {
                    tokio::task::yield_now().await;
                }
            }
        }
        self
    }
}

fn is_word(chunk: &Chunk, word: usize) -> bool {
    *chunk == delta(format!("{word} ")) || matches!(chunk, Chunk::Finish { .. })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn whoever_joins_in_the_middle_misses_nothing_and_sees_nothing_twice() {
    const WORDS: usize = 300;
    let bench = Bench::new();
    let allowed = Arc::new(Semaphore::new(0));
    let agent = bench.running(Arc::new(Words {
        count: WORDS,
        allowed: Arc::clone(&allowed),
    }));
    let mut clients = Vec::new();
    for turn in 0..3 {
        agent.followup(&format!("Turn {turn}.")).unwrap();
    }
    // They join wherever the answers happen to be.
    for _ in 0..3 * (WORDS + 1) / 10 + 1 {
        allowed.add_permits(10);
        let (snapshot, subscription) = agent.subscribe(capacity(2_000));
        let client = Client::join(&snapshot);
        clients.push(tokio::spawn(client.follow(subscription, false)));
        tokio::task::yield_now().await;
    }
    agent.when_idle().await;
    agent.dispose().await.unwrap();
    for client in clients {
        let client = client.await.unwrap();
        assert_eq!(client.lagged, 0);
        // Two more than the words of each turn: the start and the end, and the finish among the chunks.
        assert_eq!(client.revision, 3 * (WORDS as u64 + 3));
        assert!(!client.is_streaming);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_slow_client_is_told_and_goes_on_behind_a_new_snapshot_and_slows_nobody() {
    const WORDS: usize = 2_000;
    let bench = Bench::new();
    let agent = bench.running(Arc::new(Words {
        count: WORDS,
        allowed: Arc::new(Semaphore::new(WORDS + 1)),
    }));
    let (snapshot, subscription) = agent.subscribe(capacity(4));
    let slow = Client::join(&snapshot);
    let slow = tokio::spawn(slow.follow(subscription, true));
    // This one never asks.
    let (_, idle) = agent.subscribe(capacity(1));
    agent.followup("Go.").unwrap();
    agent.when_idle().await;
    agent.dispose().await.unwrap();
    let slow = slow.await.unwrap();
    assert!(slow.lagged > 0);
    assert_eq!(slow.revision, WORDS as u64 + 3);
    let mut idle = idle;
    let Some(Update::Lagged(snapshot)) = idle.next().await else {
        panic!("it has missed nearly everything");
    };
    assert_eq!(snapshot.log.end(), agent.session().log().end());
    assert_eq!(
        (snapshot.status, snapshot.answer),
        (AgentStatus::Idle, None)
    );
    assert!(idle.next().await.is_none());
}

#[tokio::test]
async fn a_snapshot_has_what_was_said_so_far_and_shares_it() {
    let bench = Bench::new();
    let chunks = (0..200).map(|word| delta(format!("{word} "))).collect();
    let agent = bench.running(script(vec![Attempt::Hang { chunks }]));
    agent.followup("Count.").unwrap();
    let counted = |answer: &LiveAnswer| answer.chunks().count();
    while agent.live_answer().as_ref().map(counted) != Some(200) {
        tokio::task::yield_now().await;
    }
    let (snapshot, mut subscription) = agent.subscribe(capacity(100));
    let answer = snapshot.answer.unwrap();
    assert_eq!((answer.revision, answer.at), (201, at(1)));
    assert_eq!(snapshot.status, AgentStatus::Running);
    // It is the same memory, however often somebody looks.
    let again = agent.live_answer().unwrap();
    let address = |answer: &LiveAnswer| {
        answer
            .chunks()
            .map(|(_, chunk)| std::ptr::from_ref(chunk) as usize)
            .collect::<Vec<_>>()
    };
    assert_eq!(address(&answer), address(&again));
    agent.cancel(CancelCause::User, Queue::Clear).unwrap();
    let rest = frames(&mut subscription).await;
    assert_eq!(rest.len(), 1);
    assert_eq!(rest[0].revision, 202);
    assert!(matches!(rest[0].body, FrameBody::Committed { .. }));
}

#[tokio::test]
async fn an_answer_of_which_nothing_has_come_is_abandoned_with_its_run() {
    let bench = Bench::new();
    let hang = Attempt::Hang { chunks: Vec::new() };
    let heard: Arc<Mutex<Vec<Arc<StreamFrame>>>> = Arc::default();
    let frames = Arc::clone(&heard);
    let mut setup = bench.setup(script(vec![hang, says("Two.")]));
    setup.observer = Some(Arc::new(move |notice: &Notice| {
        if let Notice::Stream(frame) = notice {
            frames.lock().unwrap().push(Arc::clone(frame));
        }
    }));
    let mut agent = Driver::new(bench.create(), setup);
    agent.submit("One.").unwrap();
    let cancel = Cancel::new();
    tokio::select! {
        done = agent.run(&cancel) => panic!("{done:?}"),
        () = async {
            while heard.lock().unwrap().is_empty() {
                tokio::task::yield_now().await;
            }
        } => {}
    }
    ask(&mut agent, "Two.").await;
    assert_eq!(heard.lock().unwrap()[1].body, FrameBody::Abandoned);
}

#[tokio::test]
async fn whoever_watches_knows_calls_by_the_names_that_the_log_has() {
    let bench = Bench::new();
    let twice = calls([("a", "look", "{}"), ("a", "look", "{}")]);
    let agent = bench.running(script(vec![twice, says("Done.")]));
    let (_, mut subscription) = agent.subscribe(capacity(100));
    agent.followup("Look twice.").unwrap();
    agent.when_idle().await;
    agent.dispose().await.unwrap();
    let mut seen = Vec::new();
    while let Some(Update::Notice(notice)) = subscription.next().await {
        let Notice::Stream(frame) = notice else {
            continue;
        };
        if let FrameBody::Chunk {
            chunk:
                Chunk::BlockEnd {
                    block: ContentBlock::ToolCall { id, .. },
                    ..
                },
            ..
        } = &frame.body
        {
            seen.push(id.clone());
        }
    }
    let log = bench.log(agent.session().id());
    let logged: Vec<_> = results(&log).into_iter().map(|(call, ..)| call).collect();
    assert_eq!((&seen, seen.len()), (&logged, 2));
}
