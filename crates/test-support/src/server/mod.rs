//! A model provider for tests: real HTTP on the loopback interface, answers from a script.
//!
//! Behaviours follow `reference/agent.md` §2.9. The server runs on a thread and a runtime of its own, so that tests
//! may be synchronous, asynchronous, or have their clock paused.

mod behaviour;
mod endpoint;
mod gate;
mod port;
mod reply;

use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::panic::resume_unwind;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{Method, StatusCode};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use futures_util::stream;
use serde_json::{Value, json};
use tokio::runtime::{self, Handle};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

pub use self::behaviour::Behaviour;
pub use self::endpoint::Endpoint;
pub use self::gate::{Gate, Gates};
pub use self::port::ClosedPort;
use self::reply::Ending;
pub use self::reply::{Reply, ScriptedToolCall, Usage};
use crate::transcript::{self, Rules, messages};

/// How long [`ScriptedModelServer::wait_for_requests`] waits before it calls the test broken.
const PATIENCE: Duration = Duration::from_secs(30);

/// A request as it arrived.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CapturedRequest {
    /// The path, as in `/v1/chat/completions`.
    pub path: String,
    /// Names in lower case, in order of arrival.
    pub headers: Vec<(String, String)>,
    /// The exact bytes of the body.
    pub body: Bytes,
}

impl CapturedRequest {
    /// The first header of that name, which is given in lower case.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers
            .iter()
            .find(|(other, _)| other == name)
            .map(|(_, value)| value.as_str())
    }

    /// The body as JSON.
    ///
    /// # Panics
    /// If it is not JSON.
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| {
            panic!(
                "the request body is not JSON ({error}): {}",
                String::from_utf8_lossy(&self.body)
            )
        })
    }

    /// The messages of the body.
    ///
    /// # Panics
    /// If the body is not JSON or has no list of messages.
    pub fn messages(&self) -> Vec<Value> {
        match self.json().get_mut("messages").map(Value::take) {
            Some(Value::Array(messages)) => messages,
            other => panic!("the request has no list of messages, but {other:?}"),
        }
    }

    fn problems(&self, rules: Rules) -> Vec<String> {
        let body: Value = match serde_json::from_slice(&self.body) {
            Ok(body) => body,
            Err(error) => return vec![format!("the body is not JSON: {error}")],
        };
        match Endpoint::at(&self.path) {
            Some(Endpoint::Messages) => {
                let violations = messages::validate(&body);
                let mut problems: Vec<_> = violations.iter().map(ToString::to_string).collect();
                if self.header("anthropic-version").is_none() {
                    problems.push("the header `anthropic-version` is missing".to_owned());
                }
                problems
            }
            _ => transcript::validate_with(&body["messages"], rules)
                .iter()
                .map(ToString::to_string)
                .collect(),
        }
    }
}

/// A model provider that answers from a script.
///
/// `POST /chat/completions` and `POST /messages`, both also behind `/v1`, take the next [`Reply`] that is for them; when there is
/// none left they answer 500 and say so. Every request is kept, and checked by [`transcript`] when the server ends, by
/// [`finish`](Self::finish) or by being dropped: a test that sent a broken transcript panics, whatever else it
/// asserts. A test that means to send one says [`expect_invalid`](Self::expect_invalid).
#[derive(Debug)]
pub struct ScriptedModelServer {
    address: SocketAddr,
    shared: Arc<Shared>,
    handle: Handle,
    stop: CancellationToken,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct Shared {
    state: Mutex<Script>,
    arrived: watch::Sender<usize>,
}

#[derive(Debug, Default)]
struct Script {
    replies: VecDeque<Reply>,
    last: Option<Reply>,
    repeats_last: bool,
    requests: Vec<CapturedRequest>,
    expects_invalid: bool,
    rules: Rules,
}

impl ScriptedModelServer {
    /// Starts a server that gives these replies in order.
    ///
    /// # Panics
    /// If the loopback interface has no free port.
    pub fn start(replies: impl IntoIterator<Item = Reply>) -> Self {
        ClosedPort::new().listen(replies)
    }

    fn on(port: ClosedPort, replies: impl IntoIterator<Item = Reply>) -> Self {
        let address = port.address();
        let script = Script {
            replies: replies.into_iter().collect(),
            ..Script::default()
        };
        let shared = Arc::new(Shared {
            state: Mutex::new(script),
            arrived: watch::Sender::new(0),
        });
        let stop = CancellationToken::new();
        let runtime = runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .expect("start a runtime for the model server");
        let handle = runtime.handle().clone();
        let router = Router::new()
            .fallback(answer)
            .with_state(Arc::clone(&shared));
        let stopped = stop.clone();
        let (listens, listening) = std::sync::mpsc::channel();
        let thread = thread::spawn(move || {
            runtime.block_on(async {
                let listener = port.into_listener();
                let _listens = listens.send(());
                tokio::select! {
                    ended = axum::serve(listener, router).into_future() => {
                        ended.expect("accept connections");
                    }
                    () = stopped.cancelled() => {}
                }
            });
            // Dropping the runtime drops stalled replies with their connections.
        });
        listening
            .recv()
            .expect("the model server's thread has begun to listen");
        Self {
            address,
            shared,
            handle,
            stop,
            thread: Some(thread),
        }
    }

    /// The URL to which a client adds `/chat/completions`, or `/v1/messages`.
    pub fn base_url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Adds a reply at the end of the script.
    pub fn push(&self, reply: Reply) {
        self.shared.script().replies.push_back(reply);
    }

    /// From now on an exhausted script gives its last reply again.
    pub fn repeat_last(&self) {
        self.shared.script().repeats_last = true;
    }

    /// Judges requests by these rules instead of the default ones.
    pub fn judge_by(&self, rules: Rules) {
        self.shared.script().rules = rules;
    }

    /// Declares that at least one request of this test is broken, on purpose.
    pub fn expect_invalid(&self) {
        self.shared.script().expects_invalid = true;
    }

    /// All requests so far.
    pub fn requests(&self) -> Vec<CapturedRequest> {
        self.shared.script().requests.clone()
    }

    /// Waits until at least `count` requests have arrived, and returns all there are.
    ///
    /// # Panics
    /// If they do not arrive within half a minute of real time.
    pub async fn wait_for_requests(&self, count: usize) -> Vec<CapturedRequest> {
        let mut arrived = self.shared.arrived.subscribe();
        // On the server's runtime, because the clock of the test's own may be paused.
        let waited = self
            .handle
            .spawn(async move {
                tokio::time::timeout(PATIENCE, arrived.wait_for(|seen| *seen >= count))
                    .await
                    .is_ok_and(|seen| seen.is_ok())
            })
            .await;
        let requests = self.requests();
        assert!(
            matches!(waited, Ok(true)),
            "waited for {count} requests, but only {} arrived",
            requests.len()
        );
        requests
    }

    /// Ends the server and checks the requests, as dropping it does, but at a point that the test chooses.
    ///
    /// # Panics
    /// If a request was broken and the test did not expect it, or none was although the test did.
    pub fn finish(self) {
        drop(self);
    }

    fn verdict(&self) -> Result<(), String> {
        let script = self.shared.script();
        let mut problems = String::new();
        for (index, request) in script.requests.iter().enumerate() {
            for problem in request.problems(script.rules) {
                problems.push_str(&format!("\n  request {index}: {problem}"));
            }
        }
        match (problems.is_empty(), script.expects_invalid) {
            (true, false) | (false, true) => Ok(()),
            (false, false) => Err(format!("the model server got broken requests:{problems}")),
            (true, true) => {
                Err("the test expects a broken request, but all requests are sound".to_owned())
            }
        }
    }
}

impl Drop for ScriptedModelServer {
    fn drop(&mut self) {
        self.stop.cancel();
        let joined = self.thread.take().map(JoinHandle::join);
        if thread::panicking() {
            // The test has already failed; a second panic would end the process and hide why.
            return;
        }
        if let Some(Err(panic)) = joined {
            resume_unwind(panic);
        }
        if let Err(problems) = self.verdict() {
            panic!("{problems}");
        }
    }
}

impl Shared {
    fn script(&self) -> MutexGuard<'_, Script> {
        // Nothing panics while it holds the lock half-changed, so a poisoned script is still a good one.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps the request and takes its reply in one step, so that both lists stay in the same order.
    fn accept(&self, request: CapturedRequest) -> Reply {
        let (reply, count) = {
            let mut script = self.script();
            // What is no JSON is complained of when the server ends.
            let body = serde_json::from_slice(&request.body).unwrap_or_default();
            script.requests.push(request);
            let at = script.replies.iter().position(|reply| reply.answers(&body));
            let reply = match at.and_then(|at| script.replies.remove(at)) {
                Some(reply) => {
                    script.last = Some(reply.clone());
                    Some(reply)
                }
                None if script.repeats_last => script.last.clone(),
                None => None,
            };
            (reply, script.requests.len())
        };
        self.arrived.send_replace(count);
        reply.unwrap_or_else(|| {
            let message = format!("the script has no reply left for request {count}");
            Reply::status(500, failure(&message))
        })
    }
}

async fn answer(State(shared): State<Arc<Shared>>, request: Request) -> Response {
    let (head, body) = request.into_parts();
    let path = head.uri.path().to_owned();
    let endpoint = Endpoint::at(&path).filter(|_| head.method == Method::POST);
    let Some(endpoint) = endpoint else {
        let message = format!("the scripted model server knows no {} {path}", head.method);
        return (StatusCode::NOT_FOUND, failure(&message)).into_response();
    };
    let Ok(body) = axum::body::to_bytes(body, usize::MAX).await else {
        return (StatusCode::BAD_REQUEST, failure("the request broke off")).into_response();
    };
    let headers = head
        .headers
        .iter()
        .map(|(name, value)| {
            (
                name.as_str().to_owned(),
                String::from_utf8_lossy(value.as_bytes()).into_owned(),
            )
        })
        .collect();
    let reply = shared.accept(CapturedRequest {
        path,
        headers,
        body,
    });
    let reply = reply.asked_at(endpoint);

    if let Some(gate) = &reply.head_gate {
        gate.pass().await;
    }
    if reply.resets {
        // Unwinds the task of this one connection, which closes it; unlike a panic this prints nothing.
        resume_unwind(Box::new("connection reset by the script"));
    }
    let mut response = Response::builder().status(reply.status);
    for (name, value) in &reply.headers {
        response = response.header(name, value);
    }
    response
        .body(body_of(reply))
        .expect("the script has a valid status and valid headers")
}

/// The body, chunk by chunk.
fn body_of(reply: Reply) -> Body {
    let chunks: VecDeque<Bytes> = reply.chunks().into();
    Body::from_stream(stream::unfold(
        (reply, chunks, 0_usize),
        |(mut reply, mut chunks, sent)| async move {
            // Without a pause the connection would gather what came before, and lose it if the next thing is a
            // disconnect.
            tokio::task::yield_now().await;
            if let Some(gate) = reply.gates.remove(&sent) {
                gate.pass().await;
            }
            if let Some(pause) = reply.pause {
                tokio::time::sleep(pause).await;
            }
            if let Some(chunk) = chunks.pop_front() {
                return Some((Ok(chunk), (reply, chunks, sent + 1)));
            }
            match reply.ending {
                Ending::Complete => None,
                Ending::Disconnect => {
                    reply.ending = Ending::Complete;
                    let cut = io::Error::new(io::ErrorKind::ConnectionReset, "cut by the script");
                    Some((Err(cut), (reply, chunks, sent)))
                }
            }
        },
    ))
}

fn failure(message: &str) -> String {
    json!({ "error": { "message": message } }).to_string()
}
