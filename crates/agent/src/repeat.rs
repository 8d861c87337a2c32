//! A word to a model that makes the same call over and over (`reference/agent.md` §3.2).

use std::sync::{Mutex, PoisonError};

use async_trait::async_trait;
use offshoot_model::{ContentBlock, MessageSource};
use offshoot_tool_api::{ToolArguments, ToolError, ToolOutput};
use serde::Deserialize;

use crate::canonical::canonical;
use crate::env::Env;
use crate::hooks::{AgentHook, HookError, PostExecute, PreStep, ProposedCall, StepContext};
use crate::input::Input;

/// After how many like calls in a row the model is reminded.
const THRESHOLDS: [u32; 3] = [3, 5, 8];
/// How much of the arguments is quoted, in characters.
const QUOTED: usize = 500;

/// Reminds the model when it has made the same call, with arguments that mean the same, 3, 5 and 8 times in a row. Calls that
/// were denied count. What a person says begins the count anew. One for each agent.
#[derive(Debug)]
pub struct RepeatReminder {
    env: Env,
    except: Vec<String>,
    last: Mutex<Option<Repeated>>,
}

#[derive(Debug)]
struct Repeated {
    tool: String,
    arguments: String,
    times: u32,
}

impl RepeatReminder {
    /// A reminder about all tools.
    #[must_use]
    pub const fn new(env: Env) -> Self {
        Self {
            env,
            except: Vec::new(),
            last: Mutex::new(None),
        }
    }

    /// Passes over the calls of these tools, as if they had not been made: those that are there to be called again.
    #[must_use]
    pub fn except(mut self, tools: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.except.extend(tools.into_iter().map(Into::into));
        self
    }

    /// How often the call was made in a row, with this one.
    fn count(&self, tool: &str, arguments: &str) -> u32 {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        match &mut *last {
            Some(last) if last.tool == tool && last.arguments == arguments => {
                last.times += 1;
                last.times
            }
            other => {
                *other = Some(Repeated {
                    tool: tool.to_owned(),
                    arguments: arguments.to_owned(),
                    times: 1,
                });
                1
            }
        }
    }
}

#[async_trait]
impl AgentHook for RepeatReminder {
    async fn pre_step(
        &self,
        _cx: &StepContext<'_>,
        entering: Vec<Input>,
    ) -> Result<PreStep, HookError> {
        if entering.iter().any(is_said_by_a_person) {
            *self.last.lock().unwrap_or_else(PoisonError::into_inner) = None;
        }
        Ok(PreStep::Enter {
            messages: entering,
            starts_series: false,
        })
    }

    async fn post_execute(
        &self,
        _cx: &StepContext<'_>,
        call: &ProposedCall<'_>,
        _outcome: &Result<ToolOutput, ToolError>,
    ) -> Result<PostExecute, HookError> {
        let tool = call.tool_name;
        if self.except.iter().any(|name| name == tool) {
            return Ok(PostExecute::default());
        }
        let arguments = canonical(&ToolArguments::from_model(call.arguments).to_value());
        let times = self.count(tool, &arguments);
        if !THRESHOLDS.contains(&times) {
            return Ok(PostExecute::default());
        }
        let text = reminder(tool, &arguments, times);
        let source = MessageSource::of_kind("repeat-tool-reminder");
        let reminder = Input::blocks(self.env.fresh_id(), vec![ContentBlock::text(text)], source);
        Ok(PostExecute {
            block: None,
            contexts: vec![reminder],
        })
    }
}

fn reminder(tool: &str, arguments: &str, times: u32) -> String {
    let general = format!(
        "The tool `{tool}` was called {times} times in a row with the same arguments. Another call like it will \
         hardly tell you more: use what you have, or try something else."
    );
    if times == THRESHOLDS[0] {
        return general;
    }
    let mut quoted: String = arguments.chars().take(QUOTED).collect();
    if quoted.len() < arguments.len() {
        quoted.push('…');
    }
    format!("{general} If you cannot go on, say what is missing. The arguments were: {quoted}")
}

fn is_said_by_a_person(input: &Input) -> bool {
    #[derive(Deserialize)]
    struct Sourced {
        source: Source,
    }
    #[derive(Deserialize)]
    struct Source {
        kind: String,
    }
    serde_json::from_str::<Sourced>(input.json()).is_ok_and(|input| input.source.kind == "user")
}
