//! What people do in a scenario, step by step, as `scenario.toml` writes it down.

use std::collections::BTreeSet;
use std::path::{Component, Path, PathBuf};
use std::time::Duration;

use offshoot_agent::InboxTarget;
use offshoot_session::{EventKind, Seq};
use serde::Deserialize;
use toml::Spanned;

use crate::names::SessionName;

/// A step.
#[derive(Clone, Debug, PartialEq)]
pub struct Step {
    /// What is done.
    pub action: Action,
    /// The line of `scenario.toml` that it begins on.
    pub line: usize,
    /// How long the step may wait for anything; the scenario's own patience if it does not say.
    pub patience: Option<Duration>,
}

/// What a step does.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    /// Sends a message, which wakes the session.
    Prompt {
        /// To whom.
        session: SessionName,
        /// What it says.
        text: String,
        /// Whether it waits for the next turn or only for the next step of the one that is running.
        target: InboxTarget,
        /// Whether the step is over only when the session is idle again.
        wait: bool,
    },
    /// Waits.
    Wait {
        /// For what.
        until: Until,
    },
    /// Cancels what is running, as a person does.
    Cancel {
        /// Where.
        session: SessionName,
        /// Whether the step is over only when the session is idle again.
        wait: bool,
    },
    /// Compacts.
    Compact {
        /// Which session.
        session: SessionName,
    },
    /// Forks, also while the source is running.
    Fork {
        /// Which session.
        of: SessionName,
        /// What the fork is called.
        child: SessionName,
        /// The last inherited event; the last completed turn if that is not said.
        at: Option<Seq>,
    },
    /// Opens a side session.
    Side {
        /// Beside which session.
        of: SessionName,
        /// What it is called.
        child: SessionName,
        /// Where it is cut; the last completed turn if that is not said.
        at: Option<Seq>,
    },
    /// Brings the note of a side session back to its parent.
    Merge {
        /// The side session.
        child: SessionName,
        /// Where the note comes from.
        note: Note,
    },
    /// Makes an ordinary session of a side session.
    Promote {
        /// Which one.
        session: SessionName,
    },
    /// Somebody changes a file.
    Write {
        /// Where, below the workspace.
        path: PathBuf,
        /// What it says then.
        text: String,
    },
    /// The process dies by SIGKILL, and nothing is closed. What was logged and has come in by then is stored: otherwise it
    /// would depend on the moment what is left. What follows runs in another process.
    Kill,
    /// Opens a session again.
    Open {
        /// Which one.
        session: SessionName,
    },
}

/// What a step waits for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Until {
    /// Nothing runs in the session or below it, and every notice was delivered.
    Idle(SessionName),
    /// A file of the workspace is there.
    File(PathBuf),
    /// The session's own events hold so many of a type.
    Event {
        /// Whose.
        session: SessionName,
        /// Which type.
        kind: EventKind,
        /// How many, at least.
        count: usize,
    },
}

/// Where the note of a side session comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Note {
    /// It is the last answer of the side session.
    Latest,
    /// The side session is asked for it.
    Asked,
    /// A person has written it.
    Written(String),
}

impl Action {
    /// The word after `do`.
    #[must_use]
    pub const fn word(&self) -> &'static str {
        match self {
            Self::Prompt { .. } => "prompt",
            Self::Wait { .. } => "wait",
            Self::Cancel { .. } => "cancel",
            Self::Compact { .. } => "compact",
            Self::Fork { .. } => "fork",
            Self::Side { .. } => "side",
            Self::Merge { .. } => "merge",
            Self::Promote { .. } => "promote",
            Self::Write { .. } => "write",
            Self::Kill => "kill",
            Self::Open { .. } => "open",
        }
    }
}

/// A step as it is written, before anybody has looked whether its members belong to it.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Written {
    #[serde(rename = "do")]
    word: Spanned<String>,
    session: Option<Spanned<String>>,
    text: Option<Spanned<String>>,
    target: Option<Spanned<String>>,
    wait: Option<Spanned<bool>>,
    idle: Option<Spanned<bool>>,
    file: Option<Spanned<String>>,
    event: Option<Spanned<String>>,
    count: Option<Spanned<u32>>,
    of: Option<Spanned<String>>,
    #[serde(rename = "as")]
    named: Option<Spanned<String>>,
    at: Option<Spanned<u64>>,
    child: Option<Spanned<String>>,
    note: Option<Spanned<String>>,
    ask: Option<Spanned<bool>>,
    path: Option<Spanned<String>>,
    timeout: Option<Spanned<u32>>,
}

/// What is wrong with a step, and where in the text.
pub(crate) type Wrong = (usize, String);

/// The sessions that there are before a step.
#[derive(Debug)]
pub(crate) struct Cast {
    /// All that have been made so far.
    known: BTreeSet<SessionName>,
    /// Those that this process has open.
    open: BTreeSet<SessionName>,
}

impl Cast {
    /// Before the first step.
    pub(crate) fn new() -> Self {
        let main = BTreeSet::from([SessionName::main()]);
        Self {
            known: main.clone(),
            open: main,
        }
    }

    /// Those that the steps so far have made.
    pub(crate) const fn known(&self) -> &BTreeSet<SessionName> {
        &self.known
    }

    fn make(&mut self, name: &Spanned<String>) -> Result<SessionName, Wrong> {
        let start = name.span().start;
        let parsed = parsed(name)?;
        if parsed.caller().is_some() {
            let told = format!("`{parsed}` is what a subagent is called: use a name without a dot");
            return Err((start, told));
        }
        // Beside its log, the folder of what is expected has a file of this name.
        if parsed.as_str() == "output" {
            return Err((start, "no session can be called `output`".to_owned()));
        }
        if !self.known.insert(parsed.clone()) {
            return Err((start, format!("there is a session `{parsed}` already")));
        }
        self.open.insert(parsed.clone());
        Ok(parsed)
    }

    /// A session that was made before. Whether there is such a subagent turns out when the step runs.
    fn find(&self, name: &Spanned<String>) -> Result<SessionName, Wrong> {
        let found = parsed(name)?;
        if self.known.contains(&found.root()) {
            return Ok(found);
        }
        let known: Vec<_> = self.known.iter().map(|name| format!("`{name}`")).collect();
        let told = format!(
            "there is no session `{found}` yet, only {}",
            known.join(", ")
        );
        Err((name.span().start, told))
    }

    /// The same, and the process has it open.
    fn live(&self, name: &Spanned<String>) -> Result<SessionName, Wrong> {
        let found = self.find(name)?;
        if found.caller().is_some() || self.open.contains(&found) {
            return Ok(found);
        }
        let told =
            format!("`{found}` is not open since the process was killed: `do = \"open\"` opens it");
        Err((name.span().start, told))
    }
}

fn parsed(name: &Spanned<String>) -> Result<SessionName, Wrong> {
    SessionName::parse(name.get_ref())
        .map_err(|why| (name.span().start, format!("`{}`: {why}", name.get_ref())))
}

/// A path that stays in the workspace.
fn workspace_path(path: &Spanned<String>) -> Result<PathBuf, Wrong> {
    let written = Path::new(path.get_ref());
    let stays = |part| matches!(part, Component::Normal(_));
    if written.as_os_str().is_empty() || !written.components().all(stays) {
        let told = format!("`{}` is no path below the workspace", path.get_ref());
        return Err((path.span().start, told));
    }
    Ok(written.to_owned())
}

impl Written {
    /// Where it begins in the text.
    pub(crate) fn start(&self) -> usize {
        self.word.span().start
    }

    /// How long it may wait.
    pub(crate) fn patience(&self) -> Result<Option<Duration>, Wrong> {
        self.timeout.as_ref().map(patience).transpose()
    }

    /// The step that it is. Sessions that it makes enter the cast, and all leave it that it closes.
    pub(crate) fn read(self, cast: &mut Cast) -> Result<Action, Wrong> {
        let start = self.start();
        let word = self.word.get_ref().as_str();
        let members: &[&str] = match word {
            "prompt" => &["session", "text", "target", "wait"],
            "wait" => &["session", "idle", "file", "event", "count"],
            "cancel" => &["session", "wait"],
            "compact" | "promote" | "open" => &["session"],
            "fork" | "side" => &["of", "as", "at"],
            "merge" => &["child", "note", "ask"],
            "write" => &["path", "text"],
            "kill" => &[],
            _ => {
                let told = format!(
                    "no step does `{word}`, expected one of `prompt`, `wait`, `cancel`, `compact`, `fork`, `side`, `merge`, \
                     `promote`, `write`, `kill`, `open`"
                );
                return Err((start, told));
            }
        };
        for (name, at) in self.present() {
            if !members.contains(&name) {
                return Err((at, format!("`{word}` has no member `{name}`")));
            }
        }
        let missing = |name: &str| (start, format!("`{word}` needs `{name}`"));
        let main = Spanned::new(start..start, SessionName::MAIN.to_owned());
        let session = self.session.as_ref().unwrap_or(&main);
        Ok(match word {
            "prompt" => Action::Prompt {
                session: cast.live(session)?,
                text: self.text.ok_or_else(|| missing("text"))?.into_inner(),
                target: self
                    .target
                    .as_ref()
                    .map_or(Ok(InboxTarget::NextTurn), target)?,
                wait: self.wait.is_none_or(Spanned::into_inner),
            },
            "wait" => Action::Wait {
                until: self.until(cast, session)?,
            },
            "cancel" => Action::Cancel {
                session: cast.live(session)?,
                wait: self.wait.is_none_or(Spanned::into_inner),
            },
            "compact" => Action::Compact {
                session: cast.live(session)?,
            },
            "fork" | "side" => {
                let of = cast.find(self.of.as_ref().unwrap_or(&main))?;
                let child = cast.make(self.named.as_ref().ok_or_else(|| missing("as"))?)?;
                let at = self.at.map(|at| Seq::new(at.into_inner()));
                match word {
                    "fork" => Action::Fork { of, child, at },
                    _ => Action::Side { of, child, at },
                }
            }
            "merge" => {
                let named = self.child.as_ref().ok_or_else(|| missing("child"))?;
                let ask = self.ask.as_ref().is_some_and(|ask| *ask.get_ref());
                match (self.note, ask) {
                    (Some(note), true) => {
                        let told = "`merge` either has a `note` or asks for one".to_owned();
                        return Err((note.span().start, told));
                    }
                    (note, false) => Action::Merge {
                        child: cast.find(named)?,
                        note: note.map_or(Note::Latest, |note| Note::Written(note.into_inner())),
                    },
                    (None, true) => Action::Merge {
                        child: cast.live(named)?,
                        note: Note::Asked,
                    },
                }
            }
            "promote" => Action::Promote {
                session: cast.find(session)?,
            },
            "write" => Action::Write {
                path: workspace_path(self.path.as_ref().ok_or_else(|| missing("path"))?)?,
                text: self.text.ok_or_else(|| missing("text"))?.into_inner(),
            },
            "kill" => {
                cast.open.clear();
                Action::Kill
            }
            _ => {
                let found = cast.find(session)?;
                if !cast.open.insert(found.clone()) {
                    return Err((session.span().start, format!("`{found}` is open already")));
                }
                Action::Open { session: found }
            }
        })
    }

    fn until(&self, cast: &Cast, session: &Spanned<String>) -> Result<Until, Wrong> {
        let start = self.start();
        if let Some(count) = self.count.as_ref().filter(|_| self.event.is_none()) {
            return Err((count.span().start, "`count` belongs to `event`".to_owned()));
        }
        match (&self.idle, &self.file, &self.event) {
            (Some(idle), None, None) => match idle.get_ref() {
                true => Ok(Until::Idle(cast.live(session)?)),
                false => Err((
                    idle.span().start,
                    "`idle` is `true` or is left out".to_owned(),
                )),
            },
            (None, Some(file), None) => match &self.session {
                None => Ok(Until::File(workspace_path(file)?)),
                Some(session) => {
                    let told = "a file is in the workspace and no session's: leave `session` out";
                    Err((session.span().start, told.to_owned()))
                }
            },
            (None, None, Some(event)) => {
                let kind = EventKind::from_name(event.get_ref());
                if !kind.is_known() {
                    let told = format!("`{}` is no type of an event", event.get_ref());
                    return Err((event.span().start, told));
                }
                let count = match &self.count {
                    Some(count) if *count.get_ref() == 0 => {
                        return Err((count.span().start, "`count` is at least 1".to_owned()));
                    }
                    count => count.as_ref().map_or(1, |count| *count.get_ref() as usize),
                };
                Ok(Until::Event {
                    session: cast.live(session)?,
                    kind,
                    count,
                })
            }
            _ => {
                let told = "`wait` needs exactly one of `idle`, `file` and `event`".to_owned();
                Err((start, told))
            }
        }
    }

    /// The members that are there, in the order in which they are told, each with its place.
    fn present(&self) -> Vec<(&'static str, usize)> {
        fn at<T>(member: Option<&Spanned<T>>) -> Option<usize> {
            member.map(|member| member.span().start)
        }
        let all = [
            ("session", at(self.session.as_ref())),
            ("text", at(self.text.as_ref())),
            ("target", at(self.target.as_ref())),
            ("wait", at(self.wait.as_ref())),
            ("idle", at(self.idle.as_ref())),
            ("file", at(self.file.as_ref())),
            ("event", at(self.event.as_ref())),
            ("count", at(self.count.as_ref())),
            ("of", at(self.of.as_ref())),
            ("as", at(self.named.as_ref())),
            ("at", at(self.at.as_ref())),
            ("child", at(self.child.as_ref())),
            ("note", at(self.note.as_ref())),
            ("ask", at(self.ask.as_ref())),
            ("path", at(self.path.as_ref())),
        ];
        let mut present: Vec<_> = all
            .into_iter()
            .filter_map(|(name, at)| Some((name, at?)))
            .collect();
        present.sort_by_key(|(_, at)| *at);
        present
    }
}

fn target(target: &Spanned<String>) -> Result<InboxTarget, Wrong> {
    match target.get_ref().as_str() {
        "turn" => Ok(InboxTarget::NextTurn),
        "step" => Ok(InboxTarget::NextStep),
        other => {
            let told = format!("`target` is `turn` or `step`, not `{other}`");
            Err((target.span().start, told))
        }
    }
}

/// Seconds, from 1 to an hour.
pub(crate) fn patience(seconds: &Spanned<u32>) -> Result<Duration, Wrong> {
    match seconds.get_ref() {
        1..=3600 => Ok(Duration::from_secs((*seconds.get_ref()).into())),
        _ => {
            let told = "`timeout` is a number of seconds from 1 to 3600".to_owned();
            Err((seconds.span().start, told))
        }
    }
}
