//! How the model of a recorded session was called, as far as its log says.

use std::time::Duration;

use offshoot_agent::Asked;
use offshoot_model::{
    AdapterDefaults, CallConfig, Chunk, Failure, FinishReason, PreparedCall, RetryPolicy, Waits,
};
use offshoot_session::{EventKind, EventLog, LogOffset};
use serde::Deserialize;

use crate::entry::{End, Entry};
use crate::script::Script;

/// What a provider adds to a call, and when it is tried again.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Routing {
    /// What the provider had filled in, for each model that was called.
    filled: Vec<Filled>,
    context_window: Option<u64>,
    prompt_in_history: bool,
    retry: RetryPolicy,
}

#[derive(Clone, Debug, PartialEq)]
struct Filled {
    config: CallConfig,
    defaults: AdapterDefaults,
}

impl Routing {
    pub(crate) fn of(script: &Script) -> Self {
        let mut routing = Self {
            filled: Vec::new(),
            context_window: None,
            prompt_in_history: false,
            retry: RetryPolicy::default(),
        };
        if let Some(recording) = script.recording() {
            routing.read(&recording.log);
            routing.retry = retry_policy(&recording.log, recording.inherited, script.entries());
        }
        routing.retry.waits = Waits::Skipped;
        routing
    }

    fn read(&mut self, log: &EventLog) {
        #[derive(Deserialize)]
        struct Stored {
            header: Header,
        }
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Header {
            config: CallConfig,
            #[serde(default)]
            adapter_defaults: Flags,
        }
        #[derive(Default, Deserialize)]
        #[serde(rename_all = "camelCase", default)]
        struct Flags {
            reasoning_effort: bool,
            max_tokens: bool,
        }
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Context {
            context_window: Option<u64>,
            system_prompt_update: Option<String>,
        }
        for event in log.events() {
            match event.kind() {
                EventKind::RequestHeader => {
                    let Ok(Stored { header }) = event.parse() else {
                        continue;
                    };
                    let defaults = AdapterDefaults {
                        reasoning_effort: header.adapter_defaults.reasoning_effort,
                        max_tokens: header.adapter_defaults.max_tokens,
                    };
                    self.filled.push(Filled {
                        config: header.config,
                        defaults,
                    });
                }
                EventKind::RequestContext => {
                    let Ok(context) = event.parse::<Context>() else {
                        continue;
                    };
                    self.context_window = context.context_window.or(self.context_window);
                    self.prompt_in_history |=
                        context.system_prompt_update.as_deref() == Some("in-history");
                }
                _ => {}
            }
        }
    }

    /// A configuration as the recorded provider would have made it.
    pub(crate) fn prepare(&self, config: &CallConfig) -> PreparedCall {
        let mut prepared = PreparedCall::plain(config.clone());
        prepared.info.context_window = self.context_window;
        prepared.info.images = true;
        prepared.info.system_prompt_in_history = self.prompt_in_history;
        prepared.retry = self.retry.clone();
        let is_same = |filled: &&Filled| {
            filled.config.provider == config.provider && filled.config.model == config.model
        };
        let Some(Filled {
            config: recorded,
            defaults,
        }) = self.filled.iter().rev().find(is_same)
        else {
            return prepared;
        };
        if defaults.max_tokens && config.max_tokens.is_none() {
            prepared.config.max_tokens = recorded.max_tokens;
            prepared.adapter_defaults.max_tokens = true;
        }
        if defaults.reasoning_effort && config.reasoning_effort.is_none() {
            prepared
                .config
                .reasoning_effort
                .clone_from(&recorded.reasoning_effort);
            prepared.adapter_defaults.reasoning_effort = true;
        }
        prepared
    }
}

/// When failed attempts were made again.
///
/// What a log says of a retry has the whole policy in it. A log without retries says as much if an attempt has failed that any
/// policy would have made again: then there was none. Else nobody knows, and it is the policy that everybody has.
fn retry_policy(log: &EventLog, own: LogOffset, entries: &[Entry]) -> RetryPolicy {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Retry {
        policy_key: Option<String>,
        mode: Option<String>,
        max_retries: Option<u32>,
    }
    let mut events = log.events_from(own);
    let retry = events.find(|event| *event.kind() == EventKind::LlmRetry);
    if let Some(Retry {
        policy_key,
        mode,
        max_retries,
    }) = retry.and_then(|event| event.parse().ok())
    {
        let known = policy_key.as_deref().and_then(RetryPolicy::of_policy_key);
        return known.unwrap_or_else(|| match mode.as_deref() {
            Some("always") => RetryPolicy::always(),
            _ => RetryPolicy {
                max_retries,
                ..RetryPolicy::default()
            },
        });
    }
    let gave_up = entries.iter().filter(|entry| !entry.is_written);
    let mut failures = gave_up.filter_map(failure);
    let patient = RetryPolicy {
        max: Duration::MAX,
        ..RetryPolicy::default()
    };
    match failures.any(|failure| patient.delay(1, failure, 0.5).is_some()) {
        true => RetryPolicy::never(),
        false => RetryPolicy::default(),
    }
}

/// What a recorded answer has failed of. The failures of summaries have a policy of their own.
fn failure(entry: &Entry) -> Option<&Failure> {
    let recorded = entry.recorded?;
    if !matches!(recorded.asked, Asked::Answer { .. }) || entry.end != End::Nothing {
        return None;
    }
    match entry.chunks.last()? {
        Chunk::Finish {
            reason: FinishReason::Error { failure },
            ..
        } => Some(failure),
        _ => None,
    }
}
