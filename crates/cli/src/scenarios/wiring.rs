//! What the agents of a scenario are made of.

use std::io;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use offshoot_agent::{AgentSetup, Env, NewSubagent, SessionService, SubagentLimits};
use offshoot_model::Model;
use offshoot_replay::{Parts as ScenarioParts, Place, Processes, Scenario, Wiring, WiringError};
use offshoot_session::LiveSession;

use crate::agents::{Called, Parts};
use crate::config::{Config, ModelName};
use crate::failure::Failure;
use crate::home::Home;
use crate::providers::Providers;
use crate::system;

/// What this program makes agents of.
#[derive(Clone, Debug)]
pub(crate) struct Program {
    /// Whose providers and keys count for recording.
    person: Home,
}

impl Program {
    /// The command that runs a part of a scenario in a process of its own. Not for people.
    pub(crate) const STAGE: &str = "replay-stage";

    pub(crate) fn of(person: &Home) -> Self {
        Self {
            person: person.clone(),
        }
    }
}

impl Wiring for Program {
    fn assemble(
        &self,
        scenario: &Scenario,
        place: &Place,
    ) -> Result<Arc<dyn ScenarioParts>, WiringError> {
        let assembled = Assembled::new(scenario, place, &self.person).map_err(refused)?;
        Ok(Arc::new(assembled))
    }
}

impl Processes for Program {
    fn stage(&self, state: &Path) -> io::Result<Command> {
        let mut command = Command::new(std::env::current_exe()?);
        command
            .arg("--home")
            .arg(self.person.path())
            .arg(Self::STAGE)
            .arg(state);
        Ok(command)
    }
}

/// The parts for one scenario in one place.
#[derive(Debug)]
struct Assembled {
    parts: Parts,
    service: SessionService,
    name: ModelName,
    person: Home,
}

impl Assembled {
    fn new(scenario: &Scenario, place: &Place, person: &Home) -> Result<Self, Failure> {
        let home = Home::alone(&place.home);
        home.ensure()?;
        let settings = scenario.settings.to_string();
        let config = Config::alone(&home, &settings, Path::new("[settings] of the scenario"))?;
        if config.text(&["title_model"]).is_some() {
            let told = "a scenario cannot have a title_model: what it says is in no recording";
            return Err(Failure::new("INVALID_CONFIG", told));
        }
        let (provider, model) = scenario.model.parts();
        Ok(Self {
            parts: Parts::of(config, &home)?,
            service: home.service(),
            name: ModelName {
                provider: provider.to_owned(),
                model: model.to_owned(),
            },
            person: person.clone(),
        })
    }

    /// The providers that are configured for the person.
    fn providers(&self) -> Result<(Config, Providers), Failure> {
        let config = Config::here(&self.person)?;
        let providers = Providers::of(&config, &self.person)?;
        Ok((config, providers))
    }
}

impl ScenarioParts for Assembled {
    fn service(&self) -> SessionService {
        self.service.clone()
    }

    fn env(&self) -> Env {
        system::env()
    }

    fn model(&self) -> Result<Arc<dyn Model>, WiringError> {
        let connected = || {
            let (_, providers) = self.providers()?;
            providers.connect(&self.name)
        };
        connected().map_err(refused)
    }

    fn agent(
        &self,
        session: &LiveSession,
        model: Arc<dyn Model>,
    ) -> Result<AgentSetup, WiringError> {
        let Parts {
            config, providers, ..
        } = &self.parts;
        let called = Called::given(config, providers, self.name.clone(), model);
        self.parts.setup(&called, session).map_err(refused)
    }

    fn subagent(
        &self,
        child: &NewSubagent<'_>,
        model: Arc<dyn Model>,
    ) -> Result<AgentSetup, WiringError> {
        let setup = self.parts.setup_of_child(child, model);
        setup.map_err(refused)
    }

    fn limits(&self) -> SubagentLimits {
        self.parts.subagent_limits()
    }

    fn secrets(&self) -> Vec<String> {
        let Ok((_, providers)) = self.providers() else {
            // Then nothing was called with a key either.
            return Vec::new();
        };
        let found = providers
            .all()
            .filter_map(|provider| provider.find_key().ok()?);
        found.map(|found| found.key.reveal().to_owned()).collect()
    }
}

fn refused(failure: Failure) -> WiringError {
    WiringError {
        code: failure.code.to_owned(),
        message: failure.message,
        hint: failure.hint,
    }
}
