//! The agents that are live in this process.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use offshoot_session::SessionId;

use crate::agent::{Agent, Owner};
use crate::core::Core;
use crate::driver::Driver;

/// The agents of a service by their sessions. It keeps none of them alive.
#[derive(Debug, Default)]
pub(crate) struct Registry(Mutex<BTreeMap<SessionId, Weak<Owner>>>);

impl Registry {
    pub(crate) fn enter(&self, id: &SessionId, owner: &Arc<Owner>) {
        self.agents().insert(id.clone(), Arc::downgrade(owner));
    }

    /// Forgets an agent, unless another one is on its session by now.
    pub(crate) fn leave(&self, id: &SessionId, owner: &Owner) {
        let mut agents = self.agents();
        let is_it = |found: &Weak<Owner>| std::ptr::eq(found.as_ptr(), owner);
        if agents.get(id).is_some_and(is_it) {
            agents.remove(id);
        }
    }

    pub(crate) fn get(&self, id: &SessionId) -> Option<Agent> {
        let owner = self.agents().get(id).cloned();
        owner.and_then(|owner| Agent::of(&owner))
    }

    pub(crate) fn list(&self) -> Vec<Agent> {
        let owners: Vec<_> = self.agents().values().cloned().collect();
        // Outside of the lock: whoever turns out to hold the last handle leaves the registry.
        owners.iter().filter_map(Agent::of).collect()
    }

    fn agents(&self) -> MutexGuard<'_, BTreeMap<SessionId, Weak<Owner>>> {
        // Nothing panics between two changes of the map.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What is on a session: an [`Agent`], or a [`Driver`].
#[derive(Clone, Copy)]
pub struct OnSession<'a>(pub(crate) &'a Core);

impl<'a> From<&'a Agent> for OnSession<'a> {
    fn from(agent: &'a Agent) -> Self {
        Self(agent.core())
    }
}

impl<'a> From<&'a Driver> for OnSession<'a> {
    fn from(driver: &'a Driver) -> Self {
        Self(&driver.core)
    }
}

impl fmt::Debug for OnSession<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("OnSession")
            .field(self.0.session.id())
            .finish()
    }
}
