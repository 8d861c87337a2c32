//! Scripts for models, a tool that counts, and short views of logs.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use offshoot_model::{Attempt, Chunk, ContentBlock, FinishReason};
use offshoot_session::{Event, EventKind, EventLog};
use offshoot_tool_api::{
    Concurrency, Effects, Tool, ToolArguments, ToolContext, ToolError, ToolOutput, ToolRegistry,
    ToolSpec,
};
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;
use tokio_util::sync::CancellationToken;

/// The types of a log's events.
pub(crate) fn kinds(log: &EventLog) -> Vec<&str> {
    log.events().map(|event| event.kind().as_str()).collect()
}

/// The types of the events behind the first `skip`.
pub(crate) fn kinds_from(log: &EventLog, skip: usize) -> Vec<&str> {
    kinds(log).split_off(skip)
}

pub(crate) fn data(event: &Event) -> Value {
    serde_json::from_str(event.data()).unwrap()
}

/// The payloads of all events of a type.
pub(crate) fn all(log: &EventLog, kind: &EventKind) -> Vec<Value> {
    let events = log.events().filter(|event| event.kind() == kind);
    events.map(|event| data(event)).collect()
}

pub(crate) fn first(log: &EventLog, kind: &EventKind) -> Arc<Event> {
    let found = log.events().find(|event| event.kind() == kind);
    Arc::clone(found.unwrap_or_else(|| panic!("there is no {kind}")))
}

/// What every result says: the call, the error code if it failed, the text.
pub(crate) fn results(log: &EventLog) -> Vec<(String, String, String)> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    all(log, &EventKind::ToolResult)
        .iter()
        .map(|result| {
            let message = &result["message"];
            (
                text(&message["toolCallId"]),
                text(&result["error"]["code"]),
                text(&message["content"][0]["text"]),
            )
        })
        .collect()
}

pub(crate) fn result(call: &str, code: &str, text: &str) -> (String, String, String) {
    (call.to_owned(), code.to_owned(), text.to_owned())
}

/// The kinds of the reasons for which turns ended.
pub(crate) fn endings(log: &EventLog) -> Vec<String> {
    all(log, &EventKind::TurnEnd)
        .iter()
        .map(|end| end["reason"]["kind"].as_str().unwrap().to_owned())
        .collect()
}

pub(crate) fn says(text: &str) -> Attempt {
    Attempt::Chunks(vec![
        Chunk::BlockStart {
            index: 0,
            block_type: "text".into(),
        },
        Chunk::TextDelta {
            index: 0,
            text: text.into(),
        },
        Chunk::BlockEnd {
            index: 0,
            block: ContentBlock::text(text),
        },
        Chunk::finish(FinishReason::Stop),
    ])
}

/// An answer of these blocks, each of which comes whole.
pub(crate) fn answers(blocks: Vec<ContentBlock>, finish: FinishReason) -> Attempt {
    let ends = (0..).zip(blocks).flat_map(|(index, block)| {
        let block_type = block.block_type();
        [
            Chunk::BlockStart { index, block_type },
            Chunk::BlockEnd { index, block },
        ]
    });
    Attempt::Chunks(ends.chain([Chunk::finish(finish)]).collect())
}

pub(crate) fn calls<'a>(calls: impl IntoIterator<Item = (&'a str, &'a str, &'a str)>) -> Attempt {
    let blocks = calls
        .into_iter()
        .map(|(id, name, arguments)| call(id, name, arguments));
    answers(blocks.collect(), FinishReason::ToolCalls)
}

pub(crate) fn call(id: &str, name: &str, arguments: &str) -> ContentBlock {
    ContentBlock::ToolCall {
        id: id.into(),
        name: name.into(),
        arguments: arguments.into(),
    }
}

/// A point in a tool's work at which it waits for the test.
#[derive(Clone, Debug, Default)]
pub(crate) struct Hold {
    pub(crate) started: CancellationToken,
    pub(crate) released: CancellationToken,
    /// The context's token, seen cancelled while the tool was held.
    pub(crate) told: CancellationToken,
}

/// What the tools of a test have done, in order, as `start <call>` and `end <call>`.
#[derive(Clone, Debug, Default)]
pub(crate) struct Work {
    log: Arc<Mutex<Vec<String>>>,
    holds: Arc<Mutex<BTreeMap<String, Hold>>>,
}

impl Work {
    /// Holds a call when it comes.
    pub(crate) fn hold(&self, call: &str) -> Hold {
        let hold = Hold::default();
        self.holds
            .lock()
            .unwrap()
            .insert(call.to_owned(), hold.clone());
        hold
    }

    pub(crate) fn done(&self) -> Vec<String> {
        self.log.lock().unwrap().clone()
    }

    /// How often each call was started.
    pub(crate) fn runs(&self) -> BTreeMap<String, usize> {
        let mut runs = BTreeMap::new();
        for line in self.done() {
            if let Some(call) = line.strip_prefix("start ") {
                *runs.entry(call.to_owned()).or_insert(0) += 1;
            }
        }
        runs
    }

    fn note(&self, what: &str, call: &str) {
        self.log.lock().unwrap().push(format!("{what} {call}"));
    }

    /// Three tools: `look` only reads and runs beside others, `check` only reads, alone, and `change` changes things.
    pub(crate) fn tools(&self) -> ToolRegistry {
        self.tools_with(None)
    }

    pub(crate) fn tools_with(&self, timeout: Option<Duration>) -> ToolRegistry {
        let mut tools = ToolRegistry::new();
        for (name, effects, concurrency) in [
            ("look", Effects::ReadOnly, Concurrency::Parallel),
            ("check", Effects::ReadOnly, Concurrency::Exclusive),
            ("change", Effects::Mutating, Concurrency::Exclusive),
            ("alter", Effects::Mutating, Concurrency::Parallel),
        ] {
            let spec = ToolSpec::new(name, "A tool of a test.", r#"{"type":"object"}"#).unwrap();
            let tool = TestTool {
                spec,
                effects,
                concurrency,
                timeout,
                work: self.clone(),
            };
            tools.register(Arc::new(tool)).unwrap();
        }
        tools
    }
}

#[derive(Debug)]
struct TestTool {
    spec: ToolSpec,
    effects: Effects,
    concurrency: Concurrency,
    timeout: Option<Duration>,
    work: Work,
}

#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Arguments {
    panic: bool,
    panic_when_classified: bool,
    conclude: bool,
    /// Does not listen when it is cancelled.
    deaf: bool,
    /// Gives facts for front ends, laid out over several lines.
    spread_facts: bool,
    empty: bool,
}

#[async_trait]
impl Tool for TestTool {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn effects(&self) -> Effects {
        self.effects
    }

    fn concurrency(&self, arguments: &ToolArguments) -> Concurrency {
        if arguments.raw().contains("panic_when_classified") {
            std::panic::panic_any("classified");
        }
        self.concurrency
    }

    fn timeout(&self) -> Option<Duration> {
        self.timeout
    }

    async fn execute(
        &self,
        arguments: ToolArguments,
        cx: &ToolContext,
    ) -> Result<ToolOutput, ToolError> {
        self.work.note("start", &cx.call_id);
        let arguments: Arguments = arguments.parse()?;
        if arguments.panic {
            std::panic::panic_any("executed");
        }
        let hold = self.work.holds.lock().unwrap().get(&cx.call_id).cloned();
        if let Some(hold) = hold {
            hold.started.cancel();
            // Sees the cancellation also when the call itself is dropped.
            let (told, cancel) = (hold.told.clone(), cx.cancel.clone());
            tokio::spawn(async move {
                cancel.cancelled().await;
                told.cancel();
            });
            if arguments.deaf {
                hold.released.cancelled().await;
            } else if cx
                .cancel
                .run_until_cancelled(hold.released.cancelled())
                .await
                .is_none()
            {
                return Err(ToolError::aborted());
            }
        }
        self.work.note("end", &cx.call_id);
        let text = if arguments.empty {
            String::new()
        } else {
            format!("{} is done", cx.call_id)
        };
        let mut output = ToolOutput::text(text);
        if arguments.spread_facts {
            output.meta = Some(RawValue::from_string("{\n  \"a\": 1\r\n}".to_owned()).unwrap());
        }
        output.concludes_turn = arguments.conclude;
        Ok(output)
    }
}
