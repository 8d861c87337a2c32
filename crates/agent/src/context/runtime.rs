//! The snapshot of the runtime context: where the conversation works, and what its tools may do there.
//!
//! The last snapshot that the model still sees counts, whole. If the next one would say the same it is not said.

use offshoot_session::{Body, Event, EventLog, LogOffset, SideMark};
use offshoot_tool_api::{ApprovalPolicy, SandboxMode};
use serde::{Deserialize, Serialize};

use super::{Said, fork};
use crate::driver::Driver;
use crate::events::{SourceKind, read};
use crate::input::Input;
use crate::permission::Chosen;

pub(super) const KIND: &str = "runtime-context";

/// A fact of the runtime context. It should stay the same for as long as the fact does: every change is a message to the
/// model.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ContextSection {
    /// What it is about, such as `platform`. Names that begin with `fork:` are the driver's own.
    pub name: String,
    /// What the model reads.
    pub text: String,
}

impl ContextSection {
    /// A fact.
    #[must_use]
    pub fn new(name: impl Into<String>, text: impl Into<String>) -> Self {
        let (name, text) = (name.into(), text.into());
        Self { name, text }
    }

    /// The operating system that this program was built for.
    #[must_use]
    pub fn platform() -> Self {
        let text = format!("Operating system: {}", std::env::consts::OS);
        Self::new("platform", text)
    }
}

/// What the log says of the world, event by event.
#[derive(Debug, Default)]
pub(crate) struct Surroundings {
    upto: LogOffset,
    /// What the last snapshot says of forks: it goes on being true, and is said again with every later one.
    pub(super) forks: Vec<ContextSection>,
    /// Whether a request was made behind the last inherited cut.
    pub(super) has_requested: bool,
}

impl Surroundings {
    pub(super) fn follow(&mut self, log: &EventLog) {
        for event in log.events_from(self.upto) {
            self.apply(event);
        }
        self.upto = log.end();
    }

    fn apply(&mut self, event: &Event) {
        match event.body() {
            Body::EndSeed { inherited: true } => self.has_requested = false,
            Body::RequestHeader { .. } => self.has_requested = true,
            Body::UserMessage(message) if &*message.source == KIND => {
                self.forks = sections_of(event).unwrap_or_default();
                self.forks.retain(fork::is_about_forks);
            }
            _ => {}
        }
    }
}

/// What the tools of a side session may do, whatever else is chosen. It is said again when a compaction has covered what the
/// session was told first, so it says as much.
const ON_THE_SIDE: &str = "This is a side session: explain, and do not act or go on with the task of the conversation that it \
was branched off from. Tools may look at things and change none, and none may hand work to another agent. Nobody can give \
permission for more, so do not ask for it: say what should be done instead.";

/// What the tools may do.
fn permissions(chosen: Chosen) -> ContextSection {
    let may = match chosen.mode {
        SandboxMode::ReadOnly => "Tools may read files and change none.",
        SandboxMode::WorkspaceWrite => {
            "Tools may change files below the working directory and temporary files, and no others."
        }
        SandboxMode::DangerFullAccess => "Tools may change any file.",
    };
    let beyond = match (chosen.mode, chosen.approvals) {
        (SandboxMode::DangerFullAccess, _) => "",
        (_, ApprovalPolicy::Ask) => " A call that needs more has to ask for permission.",
        (_, ApprovalPolicy::Never) => {
            " Nobody can give permission for more, so do not ask for it: find another way, or say what could not be done."
        }
    };
    ContextSection::new("permissions", format!("{may}{beyond}"))
}

impl Driver {
    /// The snapshot to add, if the model's picture is out of date.
    pub(super) fn snapshot(
        &mut self,
        log: &EventLog,
        cwd: Option<&str>,
        entering: &[Input],
    ) -> Option<Said> {
        self.surroundings.follow(log);
        let mut sections = Vec::new();
        if let Some(cwd) = cwd {
            let text = format!("Current working directory: {cwd}");
            sections.push(ContextSection::new("working-directory:current", text));
        }
        sections.extend(self.config.context.sections.iter().cloned());
        let mark = entering.iter().rev().find_map(Input::side_mark);
        if mark.map_or(log.is_side_session(), |mark| mark == SideMark::Framing) {
            sections.push(ContextSection::new("permissions", ON_THE_SIDE));
        } else if self.tools.iter().len() > 0 {
            sections.push(permissions(self.permissions.current));
        }
        sections.extend(self.forks(log));
        update(self.told.sections.as_deref(), &sections)
    }
}

#[derive(Serialize)]
struct SnapshotSource<'a> {
    kind: &'static str,
    form: &'static str,
    sections: &'a [ContextSection],
}

/// What has to be said, if the model knows something else.
fn update(known: Option<&[ContextSection]>, sections: &[ContextSection]) -> Option<Said> {
    // What cannot be read is replaced.
    if known == Some(sections) {
        return None;
    }
    if sections.is_empty() {
        let text = "What was said before of where you work no longer holds.".to_owned();
        return Some(Said::new(text, &SourceKind { kind: KIND }));
    }
    let mut text = String::from("This is where you work now; it replaces what was said before.");
    for section in sections {
        text.push_str("\n\n");
        text.push_str(&section.text);
    }
    let source = SnapshotSource {
        kind: KIND,
        form: "snapshot",
        sections,
    };
    Some(Said::new(text, &source))
}

/// What a message of this kind says; nothing if it takes back what others have said. `None` if it cannot be read.
pub(super) fn sections_of(event: &Event) -> Option<Vec<ContextSection>> {
    #[derive(Deserialize)]
    struct Stored {
        source: Source,
    }
    #[derive(Deserialize)]
    struct Source {
        form: Option<String>,
        sections: Option<Vec<ContextSection>>,
    }
    let Source { form, sections } = read::<Stored>(event)?.source;
    match form {
        None => Some(Vec::new()),
        Some(_) => sections,
    }
}
