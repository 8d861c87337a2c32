//! Retries of failed model requests: scheduled in unbroken sequence, each started at most once.

use std::collections::{HashMap, HashSet};

use offshoot_session::{Event, StepRef};
use serde::Deserialize;

use super::read;
use super::turns::Turns;

/// The retry chains of the log.
#[derive(Default)]
pub(super) struct Retries {
    provider: Option<Box<str>>,
    /// The chains of the open turn: which id each goes by.
    chains: HashMap<ChainKey, Box<str>>,
    /// All chains of the log by id.
    known: HashMap<Box<str>, Chain>,
}

#[derive(PartialEq, Eq, Hash)]
struct ChainKey {
    step: u64,
    provider: Box<str>,
    policy: Box<str>,
}

struct Chain {
    at: StepRef,
    scheduled: u64,
    started: HashSet<u64>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RetryData {
    retry_id: Box<str>,
    turn: u64,
    step: u64,
    provider: Box<str>,
    policy_key: Box<str>,
    retry: u64,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct StartedData {
    retry_id: Box<str>,
    turn: u64,
    step: u64,
    retry: u64,
}

impl Retries {
    /// A retry can only belong to the open turn, so the chains of others are done.
    pub(super) fn start_turn(&mut self) {
        self.chains.clear();
    }

    /// The provider that requests go to from here.
    pub(super) fn route(&mut self, provider: &str) {
        if self.provider.as_deref() != Some(provider) {
            self.provider = Some(provider.into());
        }
    }

    pub(super) fn schedule(&mut self, event: &Event, turns: &Turns) -> Result<(), String> {
        let data: RetryData = read(event)?;
        let at = StepRef {
            turn: data.turn,
            step: data.step,
        };
        turns.must_be_at_or_behind(at)?;
        if self.provider.as_ref() != Some(&data.provider) {
            return Err(format!(
                "retries at the provider `{}`, but the last request/header names {}",
                data.provider,
                self.provider
                    .as_ref()
                    .map_or_else(|| "none".into(), |provider| format!("`{provider}`")),
            ));
        }
        let key = ChainKey {
            step: data.step,
            provider: data.provider,
            policy: data.policy_key,
        };
        let (id, retry) = (data.retry_id, data.retry);
        let Some(chain_id) = self.chains.get(&key) else {
            return self.begin(key, id, at, retry);
        };
        if *chain_id != id {
            return Err(format!(
                "expected the retry id `{chain_id}` of its sequence, found `{id}`"
            ));
        }
        let Some(chain) = self.known.get_mut(&id) else {
            return Err(format!("the retry id `{id}` is unknown"));
        };
        let next = chain.scheduled + 1;
        if retry != next {
            return Err(format!("expected retry {next} of `{id}`, found {retry}"));
        }
        chain.scheduled = next;
        Ok(())
    }

    fn begin(
        &mut self,
        key: ChainKey,
        id: Box<str>,
        at: StepRef,
        retry: u64,
    ) -> Result<(), String> {
        if let Some(chain) = self.known.get(&id) {
            return Err(format!(
                "the retry id `{id}` belongs to another sequence, of turn {} step {}",
                chain.at.turn, chain.at.step
            ));
        }
        if retry != 1 {
            return Err(format!("expected retry 1 of `{id}`, found {retry}"));
        }
        self.chains.insert(key, id.clone());
        let chain = Chain {
            at,
            scheduled: 1,
            started: HashSet::new(),
        };
        self.known.insert(id, chain);
        Ok(())
    }

    pub(super) fn start(&mut self, event: &Event) -> Result<(), String> {
        let data: StartedData = read(event)?;
        let (id, retry) = (&*data.retry_id, data.retry);
        let chain = self
            .known
            .get_mut(id)
            .filter(|chain| (1..=chain.scheduled).contains(&retry));
        let Some(chain) = chain else {
            return Err(format!(
                "starts retry {retry} of `{id}`, which was not scheduled"
            ));
        };
        let at = StepRef {
            turn: data.turn,
            step: data.step,
        };
        if chain.at != at {
            return Err(format!(
                "starts retry {retry} of `{id}` in turn {} step {}, but it was scheduled in turn {} step {}",
                at.turn, at.step, chain.at.turn, chain.at.step
            ));
        }
        if !chain.started.insert(retry) {
            return Err(format!("starts retry {retry} of `{id}` a second time"));
        }
        Ok(())
    }
}
