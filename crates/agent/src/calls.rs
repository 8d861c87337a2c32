//! The tool calls of a step (`reference/agent.md` §1.9).
//!
//! Calls start in the model's order and are logged as they start. Then each is prepared, one at a time: hooks, rules and
//! perhaps a person say whether it may run ([`prepare`]). Only the bodies overlap ([`body`]): neighbours that allow it run at
//! the same time, one that does not is a barrier. Results are settled ([`settle`]) and logged strictly in the model's order,
//! also while later calls are still being prepared or running. A failing tool is a result, never a failed turn.

mod body;
mod prepare;
mod settle;

use std::collections::{BTreeMap, VecDeque};
use std::future::pending;
use std::panic::{AssertUnwindSafe, catch_unwind};

use futures_util::future::BoxFuture;
use futures_util::stream::FuturesUnordered;
use futures_util::{FutureExt as _, StreamExt as _};
use offshoot_model::ContentBlock;
use offshoot_session::{EventKind, Seq, StepRef};
use offshoot_tool_api::{Concurrency, Effects, ToolArguments, ToolError, ToolOutput};

use crate::AgentError;
use crate::cancel::Cancel;
use crate::driver::{Driver, StepEnding, StepFailure, check};
use crate::events::{ToolCall, logged};
use crate::hooks::ProposedCall;
use prepare::Prepared;

/// A call that the model asked for.
#[derive(Clone, Copy)]
struct Asked<'a> {
    /// Its place in the model's order.
    place: usize,
    id: &'a str,
    name: &'a str,
    arguments: &'a str,
    /// What its tool can do; `None` if there is no such tool.
    effects: Option<Effects>,
}

impl<'a> Asked<'a> {
    const fn proposed(self) -> ProposedCall<'a> {
        ProposedCall {
            call_id: self.id,
            tool_name: self.name,
            arguments: self.arguments,
            effects: self.effects,
        }
    }
}

type Outcome = Result<ToolOutput, ToolError>;

/// How a call came to its end.
enum Ending {
    /// It ran, or it was not allowed to. Hooks are told.
    Settled(Outcome),
    /// The turn was over before it began. Nobody is asked about it any more.
    NeverBegan,
}

/// A call that has come to its end.
struct Ended<'a> {
    call: Asked<'a>,
    started: Seq,
    ending: Ending,
    /// Why the tool did not run although the call was logged: that could not be made durable.
    undurable: Option<AgentError>,
}

/// A call that was prepared.
struct Ready<'a> {
    call: Asked<'a>,
    started: Seq,
    prepared: Prepared,
}

impl Driver {
    pub(crate) async fn calls(
        &self,
        at: StepRef,
        content: &[ContentBlock],
        cancel: &Cancel,
    ) -> Result<StepEnding, StepFailure> {
        let mut round = Round {
            driver: self,
            at,
            cancel,
            waiting: self.asked(content),
            preparing: None,
            running: FuturesUnordered::new(),
            ended: BTreeMap::new(),
            settling: None,
            settled: 0,
            alone: false,
            concluded: false,
            failure: None,
        };
        round.run().await;
        round.finish()
    }

    fn asked<'a>(&self, content: &'a [ContentBlock]) -> VecDeque<Asked<'a>> {
        let calls = content.iter().filter_map(|block| match block {
            ContentBlock::ToolCall {
                id,
                name,
                arguments,
            } => Some((id, name, arguments)),
            _ => None,
        });
        let numbered = calls.enumerate();
        numbered
            .map(|(place, (id, name, arguments))| Asked {
                place,
                id,
                name,
                arguments,
                effects: self.tools.get(name).map(|tool| tool.effects()),
            })
            .collect()
    }

    /// Whatever does not say that it may run beside others does not.
    fn concurrency(&self, call: Asked<'_>) -> Concurrency {
        let Some(tool) = self.tools.get(call.name) else {
            return Concurrency::Exclusive;
        };
        let arguments = ToolArguments::from_model(call.arguments);
        catch_unwind(AssertUnwindSafe(|| tool.concurrency(&arguments)))
            .unwrap_or(Concurrency::Exclusive)
    }

    fn log_call(&self, at: StepRef, call: Asked<'_>) -> Result<Seq, AgentError> {
        let data = ToolCall {
            turn: at.turn,
            step: at.step,
            call_id: call.id,
            name: call.name,
            arguments: call.arguments,
        };
        Ok(self.append(logged(EventKind::ToolCall, &data))?.seq())
    }
}

/// The calls of one step on their way.
struct Round<'a> {
    driver: &'a Driver,
    at: StepRef,
    cancel: &'a Cancel,
    /// What was not started.
    waiting: VecDeque<Asked<'a>>,
    /// The call that was started last, until it runs or may not.
    preparing: Option<BoxFuture<'a, Result<Ready<'a>, AgentError>>>,
    running: FuturesUnordered<BoxFuture<'a, Ended<'a>>>,
    /// What has ended and was not settled, by place.
    ended: BTreeMap<usize, Ended<'a>>,
    settling: Option<BoxFuture<'a, Result<settle::Settled, AgentError>>>,
    /// How many are settled.
    settled: usize,
    /// Whether the call that was started last runs alone.
    alone: bool,
    concluded: bool,
    failure: Option<AgentError>,
}

impl<'a> Round<'a> {
    /// Until nothing is on its way any more.
    async fn run(&mut self) {
        loop {
            self.settle_ended();
            self.start_next();
            if self.settling.is_none() && self.preparing.is_none() && self.running.is_empty() {
                return;
            }
            tokio::select! {
                // A call is on its way before those that are on theirs go on: all start before any ends.
                biased;
                settled = once(&mut self.settling) => self.on_settled(settled),
                ready = once(&mut self.preparing) => match ready {
                    Ok(ready) => self.on_ready(ready),
                    Err(error) => self.fail(error),
                },
                Some(ended) = self.running.next(), if !self.running.is_empty() => {
                    self.ended.insert(ended.call.place, ended);
                }
            }
        }
    }

    /// Settles what has ended, as far as it is its turn and nobody has to be waited for.
    fn settle_ended(&mut self) {
        loop {
            if self.settling.is_none() {
                let Some(ended) = self.ended.remove(&self.settled) else {
                    return;
                };
                let settling = self.driver.settle_call(self.at, ended, self.cancel);
                self.settling = Some(settling.boxed());
            }
            let ready = self
                .settling
                .as_mut()
                .and_then(|settling| settling.now_or_never());
            let Some(settled) = ready else { return };
            self.settling = None;
            self.on_settled(settled);
        }
    }

    fn on_settled(&mut self, settled: Result<settle::Settled, AgentError>) {
        self.settled += 1;
        match settled {
            Ok(settled) => {
                self.concluded |= settled.concludes_turn;
                if let Some(error) = settled.undurable {
                    self.fail(error);
                }
            }
            Err(error) => self.fail(error),
        }
    }

    /// Starts the next call, if it may be started beside what is on its way: neighbours that allow company, or one alone.
    fn start_next(&mut self) {
        let over = self.failure.is_some() || self.cancel.token().is_cancelled();
        if over || self.preparing.is_some() {
            return;
        }
        let Some(&call) = self.waiting.front() else {
            return;
        };
        // Asked again whenever a call might start: what the tool says may depend on what the calls before it have done.
        let parallel = self.driver.concurrency(call) == Concurrency::Parallel;
        let quiet = self.running.is_empty() && self.settling.is_none();
        let room = self.running.len() < self.driver.config.max_parallel_tool_calls.max(1);
        if !quiet && (self.alone || !parallel || !room) {
            return;
        }
        self.alone = !parallel;
        self.waiting.pop_front();
        let (driver, at, cancel) = (self.driver, self.at, self.cancel);
        match driver.log_call(at, call) {
            Ok(started) => {
                let preparing = async move {
                    let prepared = driver.prepare_call(at, call, cancel).await?;
                    Ok(Ready {
                        call,
                        started,
                        prepared,
                    })
                };
                self.preparing = Some(preparing.boxed());
            }
            Err(error) => self.fail(error),
        }
    }

    fn on_ready(&mut self, ready: Ready<'a>) {
        let Ready {
            call,
            started,
            prepared,
        } = ready;
        let ending = match prepared {
            Prepared::Run(run) => {
                let body = self.driver.execute(call, started, run, self.cancel);
                self.running.push(body);
                return;
            }
            Prepared::Refused(error) => Ending::Settled(Err(error)),
            Prepared::NeverBegan => Ending::NeverBegan,
        };
        let ended = Ended {
            call,
            started,
            ending,
            undurable: None,
        };
        self.ended.insert(call.place, ended);
    }

    /// No call is started any more. What runs has its end and is logged; only the first failure counts.
    fn fail(&mut self, error: AgentError) {
        self.failure.get_or_insert(error);
    }

    /// What was never started is answered when the step is closed, unless it was cancelled: then each gets its answer here.
    fn finish(self) -> Result<StepEnding, StepFailure> {
        if let Some(error) = self.failure {
            return Err(error.into());
        }
        for call in self.waiting {
            let started = self.driver.log_call(self.at, call)?;
            self.driver.log_never_began(self.at, call, started)?;
        }
        check(self.cancel)?;
        Ok(if self.concluded {
            StepEnding::Completed
        } else {
            StepEnding::Continue
        })
    }
}

/// What comes of a future, which is then gone; of none nothing ever comes.
async fn once<T>(slot: &mut Option<BoxFuture<'_, T>>) -> T {
    let Some(future) = slot.as_mut() else {
        return pending().await;
    };
    let output = future.await;
    *slot = None;
    output
}
