//! Who answers in a run: scripts, or the model itself while a scenario is recorded.

use std::fs;
use std::sync::Arc;

use offshoot_agent::NewSubagent;
use offshoot_format::{StoredSession, decode};
use offshoot_model::Model;
use offshoot_session::SessionId;
use serde_json::Value;

use crate::binding::SessionKey;
use crate::flaw::Flaw;
use crate::names::SessionName;
use crate::overrides::Overrides;
use crate::problem::Problem;
use crate::run::RunError;
use crate::scenario::Scenario;
use crate::script::{Script, ScriptError};
use crate::scripts::{Progress, Replaying, Scripts};
use crate::tokens::Tokens;
use crate::wiring::{HOME, Parts, Place};

/// Who answers. Clones are the same.
#[derive(Clone, Debug)]
pub(crate) enum Answers {
    /// The model that the scenario names.
    Real(Arc<dyn Model>),
    /// What was recorded.
    Scripts(Scripts),
}

impl Answers {
    /// The model that the scenario names.
    pub(crate) fn real(parts: &dyn Parts) -> Result<Self, RunError> {
        Ok(Self::Real(parts.model()?))
    }

    /// The scripts of a scenario, from where an earlier part of the run has come to.
    pub(crate) fn scripted(
        scenario: &Scenario,
        place: &Place,
        positions: &Value,
    ) -> Result<Self, RunError> {
        let mut names: Vec<&SessionName> = scenario.recordings.keys().collect();
        let written = scenario.overrides.keys();
        names.extend(written.filter(|name| !scenario.recordings.contains_key(*name)));
        let scripts = names.into_iter().map(|name| script(scenario, place, name));
        let scripts = scripts.collect::<Result<Vec<_>, _>>()?;
        let (provider, _) = scenario.model.parts();
        let mut live = Tokens::new();
        live.add_path(&place.home, HOME);
        let replaying = Replaying {
            workspace: place.workspace.clone(),
            provider: provider.to_owned(),
            context_window: scenario.model.context_window,
            comparing: scenario.compare_requests,
            // Recordings have the paths of this run by now.
            recorded: live.clone(),
            live,
        };
        let scripts = Scripts::new(scripts, replaying)?;
        if !positions.is_null() {
            let progress: Progress = serde_json::from_value(positions.clone())
                .expect("BUG: an earlier part of this run has written it");
            scripts.resume(progress);
        }
        Ok(Self::Scripts(scripts))
    }

    /// The model of a session that the scenario names.
    pub(crate) fn named(&self, name: &SessionName, session: &SessionId) -> Arc<dyn Model> {
        match self {
            Self::Real(model) => Arc::clone(model),
            Self::Scripts(scripts) => scripts.bind(SessionKey::named(name.as_str()), session),
        }
    }

    /// The model of a subagent, also of one that is opened again.
    pub(crate) fn subagent(&self, child: &NewSubagent<'_>) -> Arc<dyn Model> {
        let id = child.session.id();
        match self {
            Self::Real(model) => Arc::clone(model),
            Self::Scripts(scripts) => match scripts.key_of(id) {
                Some(key) => scripts.bind(key, id),
                None => scripts.bind_child(child.parent, child.call_id.unwrap_or_default(), id),
            },
        }
    }

    /// How far scripts were followed.
    pub(crate) fn positions(&self) -> Value {
        match self {
            Self::Real(_) => Value::Null,
            Self::Scripts(scripts) => serde_json::to_value(scripts.progress())
                .expect("BUG: progress is names and numbers"),
        }
    }

    /// What went differently so far.
    pub(crate) fn flaws(&self) -> Vec<Flaw> {
        match self {
            Self::Real(_) => Vec::new(),
            Self::Scripts(scripts) => scripts.problems().iter().map(flaw).collect(),
        }
    }

    /// What is left, now that nobody calls a model any more.
    pub(crate) fn left_over(&self) -> Vec<Flaw> {
        match self {
            Self::Real(_) => Vec::new(),
            Self::Scripts(scripts) => scripts.unconsumed().iter().map(flaw).collect(),
        }
    }

    /// The answers that wait for a file, for whoever asks why nothing goes on.
    pub(crate) fn waiting(&self) -> Vec<String> {
        let Self::Scripts(scripts) = self else {
            return Vec::new();
        };
        let waiting = scripts.waiting().into_iter().map(|waiting| {
            let file = waiting.file.display();
            format!(
                "{}: the answer to model call #{} waits for the file `{file}`",
                waiting.session, waiting.call
            )
        });
        waiting.collect()
    }
}

/// The script of a session: what was recorded, or what is written in its place, or both.
fn script(scenario: &Scenario, place: &Place, name: &SessionName) -> Result<Script, RunError> {
    let overrides = match scenario.overrides.get(name) {
        None => None,
        Some(path) => {
            let text = fs::read_to_string(path).map_err(|source| RunError::io(path, source))?;
            Some(Overrides::parse(path, &place.fill_json(&text))?)
        }
    };
    let Some(path) = scenario.recordings.get(name) else {
        let overrides = overrides.expect("BUG: a name is that of a recording or of an override");
        return Ok(Script::written(name.as_str(), &overrides)?);
    };
    let recording = recording(path, place)?;
    Ok(Script::of_recording(
        name.as_str(),
        path,
        recording,
        overrides.as_ref(),
    )?)
}

/// A recording, as if it had been made where this run is.
fn recording(path: &std::path::Path, place: &Place) -> Result<StoredSession, RunError> {
    let failed = |source| RunError::io(path, source);
    let bytes = fs::read(path).map_err(failed)?;
    let decoded = match String::from_utf8(bytes) {
        Ok(text) => decode(place.fill_json(&text).as_bytes()),
        // Packed: no paths of this machine are hidden in it.
        Err(packed) => decode(packed.as_bytes()),
    };
    let refused = |code: &str, told: &str, hint: Option<&str>| RunError::Script {
        code: code.to_owned(),
        message: format!("`{}`: {told}", path.display()),
        hint: hint.map(str::to_owned),
    };
    let stored = decoded.map_err(|error| refused(error.code(), &error.to_string(), None))?;
    // A store goes on without it; here it may be the very answer that is to be given.
    if let Some(tail) = &stored.tail {
        let told = format!("line {}: the file is cut off here", tail.place.line);
        let hint = "get the whole file back, or record the scenario anew";
        return Err(refused("RECORDING_TORN", &told, Some(hint)));
    }
    Ok(stored)
}

fn flaw(problem: &Problem) -> Flaw {
    let text = problem.to_string();
    let (message, detail) = text.split_once('\n').unwrap_or((&text, ""));
    let detail: Vec<&str> = detail.lines().map(str::trim_start).collect();
    Flaw::new(problem.code(), message).with_detail(detail.join("\n"))
}

impl From<ScriptError> for RunError {
    fn from(error: ScriptError) -> Self {
        Self::Script {
            code: error.code().to_owned(),
            message: error.to_string(),
            hint: error.hint(),
        }
    }
}
