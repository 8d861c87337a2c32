//! All scripts of a scenario, and who has come how far in which.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use offshoot_format::CURRENT_VERSION;
use offshoot_model::{Model, ModelRequest};
use offshoot_session::SessionId;
use serde::{Deserialize, Serialize};

use crate::binding::{Children, SessionKey, children};
use crate::divergence::{Parts, RecordedRequest, compare, without_header};
use crate::entry::Entry;
use crate::live::with_live_names;
use crate::model::ReplayModel;
use crate::problem::Problem;
use crate::routing::Routing;
use crate::script::{Script, ScriptError};
use crate::tokens::{Tokens, session_token};
use crate::wiring::CWD;

/// How scripts are replayed.
#[derive(Clone, Debug, Default)]
pub struct Replaying {
    /// The directory that files of entries are named relative to.
    pub workspace: PathBuf,
    /// The provider that takes the calls.
    pub provider: String,
    /// How many tokens a model can see. Unless it is said, that is what the recording says.
    pub context_window: Option<u64>,
    /// Which requests are compared with the recorded ones.
    pub comparing: Comparing,
    /// What differs in this run from any other besides its sessions, such as its directories.
    pub live: Tokens,
    /// The same of the run that was recorded, besides its sessions and their working directory.
    pub recorded: Tokens,
}

/// Which requests are compared with the recorded ones.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Comparing {
    /// Those of recordings in the current version of the format. Older ones were made by other programs, whose prompts and
    /// tools are others by nature.
    #[default]
    Current,
    /// The same, but system prompts and tools are not looked at: what a program says of its tools changes more often than what
    /// it does.
    Conversation,
    /// All.
    All,
    /// None.
    None,
}

/// All scripts of a scenario. Clones are the same scripts.
#[derive(Clone, Debug)]
pub struct Scripts(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    scripts: Vec<Script>,
    /// For each script.
    children: Vec<Children>,
    routing: Vec<Routing>,
    replaying: Replaying,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    bound: BTreeMap<SessionId, Bound>,
    /// How many calls each script has answered, and those that it could not.
    made: Vec<usize>,
    /// Of which scripts a request has differed. Whatever is behind that differs for the same reason.
    differs: Vec<bool>,
    problems: Vec<Problem>,
    waiting: Vec<Waiting>,
}

#[derive(Clone, Debug)]
struct Bound {
    key: SessionKey,
    script: Option<usize>,
}

/// An answer that waits for a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Waiting {
    /// The session.
    pub session: String,
    /// Which call, from 1.
    pub call: usize,
    /// The file that it waits for.
    pub file: PathBuf,
}

/// How far a replay has come, for another process to go on with.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Progress {
    /// The live sessions that are bound.
    pub sessions: Vec<(SessionId, SessionKey)>,
    /// How many calls each script has answered, by the script's name.
    pub made: BTreeMap<String, usize>,
    /// What went differently.
    pub problems: Vec<Problem>,
}

/// What a call is answered with.
#[derive(Debug)]
pub(crate) struct Served {
    pub(crate) session: String,
    /// Which call, from 1.
    pub(crate) call: usize,
    /// The answer; `None` if there is none, which is a problem that was noted.
    pub(crate) answer: Result<Entry, Problem>,
}

impl Scripts {
    /// The scripts of a scenario.
    ///
    /// # Errors
    /// Two scripts for one session.
    pub fn new(scripts: Vec<Script>, replaying: Replaying) -> Result<Self, ScriptError> {
        for (at, script) in scripts.iter().enumerate() {
            refuse_twin(script, &scripts[..at])?;
        }
        let state = State {
            made: vec![0; scripts.len()],
            differs: vec![false; scripts.len()],
            ..State::default()
        };
        Ok(Self(Arc::new(Inner {
            children: children(&scripts),
            routing: scripts.iter().map(Routing::of).collect(),
            replaying,
            state: Mutex::new(state),
            scripts,
        })))
    }

    /// The model of a live session. Whoever is bound already stays so: that is how a session that was closed goes on. A session
    /// without a script can be bound, and fails when it calls its model.
    #[must_use]
    pub fn bind(&self, key: SessionKey, live: &SessionId) -> Arc<dyn Model> {
        self.bind_in(&mut self.state(), key, live)
    }

    fn bind_in(&self, state: &mut State, key: SessionKey, live: &SessionId) -> Arc<dyn Model> {
        if !state.bound.contains_key(live) {
            let script = self.script_of(&key).filter(|script| {
                let taken = |bound: &Bound| bound.script == Some(*script);
                !state.bound.values().any(taken)
            });
            state.bound.insert(live.clone(), Bound { key, script });
        }
        Arc::new(ReplayModel::new(self.clone(), live.clone()))
    }

    /// The model of a subagent that was started by a call of a live session.
    #[must_use]
    pub fn bind_child(
        &self,
        parent: &SessionId,
        call_id: &str,
        child: &SessionId,
    ) -> Arc<dyn Model> {
        // Held until it is bound: several may start at the same time.
        let mut state = self.state();
        let caller = state.bound.get(parent).map(|bound| bound.key.clone());
        // A caller that nobody knows has no recorded children either.
        let caller = caller.unwrap_or_else(|| SessionKey::named(parent.as_str()));
        let started = |bound: &&Bound| match &bound.key {
            SessionKey::Delegated {
                parent,
                call_id: id,
                ..
            } => **parent == caller && id == call_id,
            SessionKey::Named(_) => false,
        };
        let nth = state.bound.values().filter(started).count();
        let key = SessionKey::Delegated {
            parent: Box::new(caller),
            call_id: call_id.to_owned(),
            nth,
        };
        self.bind_in(&mut state, key, child)
    }

    /// The key of a live session.
    #[must_use]
    pub fn key_of(&self, live: &SessionId) -> Option<SessionKey> {
        self.state().bound.get(live).map(|bound| bound.key.clone())
    }

    /// The name of the script that a live session answers from.
    #[must_use]
    pub fn name_of(&self, live: &SessionId) -> Option<String> {
        let script = self.state().bound.get(live)?.script?;
        Some(self.0.scripts[script].name().to_owned())
    }

    /// The scripts.
    #[must_use]
    pub fn all(&self) -> &[Script] {
        &self.0.scripts
    }

    /// What has gone differently so far, oldest first. [`Problem::Unconsumed`] and [`Problem::NeverBound`] are not among it.
    #[must_use]
    pub fn problems(&self) -> Vec<Problem> {
        self.state().problems.clone()
    }

    /// What is left now that nobody calls a model any more.
    #[must_use]
    pub fn unconsumed(&self) -> Vec<Problem> {
        let state = self.state();
        let scripts = self.0.scripts.iter().zip(&state.made).enumerate();
        let left = scripts.filter_map(|(at, (script, made))| {
            let session = script.name().to_owned();
            let length = script.entries().len();
            match *made {
                0 if length > 0 => Some(Problem::NeverBound {
                    session,
                    length,
                    started_by: self.started_by(at),
                }),
                made if made < length => Some(Problem::Unconsumed {
                    session,
                    made,
                    length,
                }),
                _ => None,
            }
        });
        left.collect()
    }

    /// Which session has started one in the recording, and with which tool.
    fn started_by(&self, script: usize) -> Option<(String, String)> {
        let callers = self.0.scripts.iter().zip(&self.0.children);
        let mut started = callers.filter_map(|(caller, children)| {
            let mut children = children.iter();
            let ((id, _), _) = children.find(|(_, child)| **child == Some(script))?;
            let (_, tool) = caller.calls().find(|(call, _)| call == id)?;
            Some((caller.name().to_owned(), tool.to_owned()))
        });
        started.next()
    }

    /// The answers that wait for a file just now.
    #[must_use]
    pub fn waiting(&self) -> Vec<Waiting> {
        self.state().waiting.clone()
    }

    /// How far the replay has come.
    #[must_use]
    pub fn progress(&self) -> Progress {
        let state = self.state();
        let bound = state.bound.iter();
        let names = self.0.scripts.iter().map(|script| script.name().to_owned());
        Progress {
            sessions: bound
                .map(|(id, bound)| (id.clone(), bound.key.clone()))
                .collect(),
            made: names.zip(state.made.iter().copied()).collect(),
            problems: state.problems.clone(),
        }
    }

    /// Goes on where another process has come to.
    pub fn resume(&self, progress: Progress) {
        let mut state = self.state();
        let Progress {
            sessions,
            made,
            problems,
        } = progress;
        for (id, key) in sessions {
            let script = self.script_of(&key);
            state.bound.insert(id, Bound { key, script });
        }
        for (at, script) in self.0.scripts.iter().enumerate() {
            state.made[at] = made.get(script.name()).copied().unwrap_or(0);
            state.differs[at] = problems.iter().any(|problem| {
                matches!(problem, Problem::Differs(differs) if differs.session == script.name())
            });
        }
        state.problems = problems;
    }

    pub(crate) fn replaying(&self) -> &Replaying {
        &self.0.replaying
    }

    /// What is known of how the model of a session was called.
    pub(crate) fn routing_of(&self, live: &SessionId) -> Option<&Routing> {
        let script = self.state().bound.get(live)?.script?;
        self.0.routing.get(script)
    }

    /// The answer to the next call of a session.
    pub(crate) fn serve(&self, live: &SessionId, request: &ModelRequest) -> Served {
        let mut state = self.state();
        let bound = state.bound.get(live).cloned();
        let Some(script) = bound.as_ref().and_then(|bound| bound.script) else {
            let session = bound.map_or_else(|| live.to_string(), |bound| bound.key.to_string());
            let names = self.0.scripts.iter().map(|script| script.name().to_owned());
            let problem = Problem::Unrecorded {
                session: session.clone(),
                recorded: names.collect(),
            };
            return state.fails(session, 1, problem);
        };
        let at = state.made[script];
        let session = self.0.scripts[script].name().to_owned();
        let entries = self.0.scripts[script].entries();
        let Some(entry) = entries.get(at) else {
            let problem = Problem::Exhausted {
                session: session.clone(),
                call: at + 1,
                length: entries.len(),
            };
            return state.fails(session, at + 1, problem);
        };
        state.made[script] = at + 1;
        if !state.differs[script]
            && let Some(problem) = self.compare(&state, script, at, request)
        {
            state.differs[script] = true;
            state.problems.push(problem);
        }
        let names = self.live_names(&state);
        drop(state);
        let mut entry = entry.clone();
        with_live_names(&mut entry.chunks, &names);
        Served {
            session,
            call: at + 1,
            answer: Ok(entry),
        }
    }

    pub(crate) fn note(&self, problem: Problem) {
        self.state().problems.push(problem);
    }

    pub(crate) fn waits(&self, waiting: Waiting) {
        self.state().waiting.push(waiting);
    }

    pub(crate) fn waits_no_more(&self, waiting: &Waiting) {
        self.state().waiting.retain(|other| other != waiting);
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // No code panics between two changes of the state, so that a poisoned one is still consistent.
        let state = &self.0.state;
        state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn script_of(&self, key: &SessionKey) -> Option<usize> {
        match key {
            SessionKey::Named(name) => {
                let scripts = &self.0.scripts;
                scripts.iter().position(|script| script.name() == name)
            }
            SessionKey::Delegated {
                parent,
                call_id,
                nth,
            } => {
                let caller = self.script_of(parent)?;
                let call = (call_id.clone(), *nth);
                self.0.children[caller].get(&call).copied().flatten()
            }
        }
    }

    /// What is put in the place of recorded names in answers.
    fn live_names(&self, state: &State) -> Tokens {
        let mut names = Tokens::new();
        let workspace = self.0.replaying.workspace.to_string_lossy();
        for (live, bound) in &state.bound {
            let Some(script) = bound.script.map(|script| &self.0.scripts[script]) else {
                continue;
            };
            names.add(session_token(script.name()), live.as_str());
            if let Some(recording) = script.recording() {
                names.add(recording.header.id.as_str(), live.as_str());
            }
        }
        if !workspace.is_empty() {
            names.add(CWD, workspace.clone());
            for recording in self.0.scripts.iter().filter_map(Script::recording) {
                let cwd = recording.header.cwd.as_deref().unwrap_or_default();
                names.add(cwd, workspace.clone());
            }
        }
        names
    }

    fn compare(
        &self,
        state: &State,
        script: usize,
        at: usize,
        request: &ModelRequest,
    ) -> Option<Problem> {
        let (index, script) = (script, &self.0.scripts[script]);
        let recording = script.recording()?;
        if self.is_off_course(index, at) {
            return None;
        }
        let is_compared = match self.0.replaying.comparing {
            Comparing::Current | Comparing::Conversation => recording.version == CURRENT_VERSION,
            Comparing::All => true,
            Comparing::None => false,
        };
        let call = script.entries()[at].recorded.filter(|_| is_compared)?;
        // What cannot be rebuilt was never a request of this program.
        let mut recorded = RecordedRequest::of(recording, call).ok().flatten()?;
        let bare;
        let request = match self.0.replaying.comparing {
            Comparing::Conversation => {
                recorded.hide_header();
                bare = without_header(request);
                &bare
            }
            Comparing::Current | Comparing::All | Comparing::None => request,
        };
        let expected = recorded.parts(&self.recorded_tokens());
        let found = Parts::of_live(request, recorded.scope, &self.live_tokens(state));
        compare(script.name(), at + 1, &expected, &found).map(Problem::Differs)
    }

    /// Whether what was recorded for an entry belongs to another conversation: an override has changed what was said before, or
    /// what was said by whoever this session was forked from or delegated by, and so on.
    fn is_off_course(&self, script: usize, at: usize) -> bool {
        let own = &self.0.scripts[script].entries()[..at];
        // A file may say anything, also that a session is its own ancestor.
        let mut above = vec![script];
        while let Some(parent) = self.parent_of(above[above.len() - 1])
            && !above.contains(&parent)
        {
            above.push(parent);
        }
        let parents = above[1..].iter().map(|at| self.0.scripts[*at].entries());
        let mut said = parents.chain([own]).flatten();
        said.any(|entry| entry.changes_course)
    }

    /// Whom a recorded session was forked from or delegated by.
    fn parent_of(&self, script: usize) -> Option<usize> {
        let parent = &self.0.scripts[script].recording()?.header.parent;
        let is_parent = |other: &Script| {
            let recorded = other.recording().map(|recording| &recording.header.id);
            recorded.is_some() && recorded == parent.as_ref()
        };
        self.0.scripts.iter().position(is_parent)
    }

    fn recorded_tokens(&self) -> Tokens {
        let mut tokens = self.0.replaying.recorded.clone();
        self.add_recorded(&mut tokens);
        tokens
    }

    fn add_recorded(&self, tokens: &mut Tokens) {
        for script in &self.0.scripts {
            let Some(recording) = script.recording() else {
                continue;
            };
            tokens.add_session(&recording.header.id, script.name());
            let cwd = recording.header.cwd.as_deref().unwrap_or_default();
            tokens.add(cwd, CWD);
        }
    }

    fn live_tokens(&self, state: &State) -> Tokens {
        let mut tokens = self.0.replaying.live.clone();
        tokens.add_path(&self.0.replaying.workspace, CWD);
        for (live, bound) in &state.bound {
            match bound.script {
                Some(script) => tokens.add_session(live, self.0.scripts[script].name()),
                None => tokens.add_session(live, &bound.key.to_string()),
            }
        }
        // Answers may name those that are not there yet.
        self.add_recorded(&mut tokens);
        tokens
    }
}

impl State {
    fn fails(&mut self, session: String, call: usize, problem: Problem) -> Served {
        self.problems.push(problem.clone());
        Served {
            session,
            call,
            answer: Err(problem),
        }
    }
}

fn refuse_twin(script: &Script, others: &[Script]) -> Result<(), ScriptError> {
    if others.iter().any(|other| other.name() == script.name()) {
        return Err(ScriptError::SameName {
            name: script.name().to_owned(),
        });
    }
    let id = |script: &Script| Some(script.recording()?.header.id.clone());
    let Some(recorded) = id(script) else {
        return Ok(());
    };
    match others
        .iter()
        .find(|other| id(other).as_ref() == Some(&recorded))
    {
        None => Ok(()),
        Some(other) => Err(ScriptError::SameSession {
            first: other.name().to_owned(),
            second: script.name().to_owned(),
            id: recorded.to_string(),
        }),
    }
}
