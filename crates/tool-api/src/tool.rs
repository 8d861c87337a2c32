//! The trait itself and the values that go in and come out.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::value::RawValue;
use thiserror::Error;
use tokio_util::sync::CancellationToken;

use crate::{Escalation, Limits, Spill, ToolArguments, ToolError};

/// Something the model may call.
///
/// A tool is shared by every call of every turn, so it keeps no state of a call in itself. Its error is an answer to
/// the model and never fails a turn.
///
/// **Invariant:** `spec().name` and `effects()` do not change while the tool is registered.
#[async_trait]
pub trait Tool: Send + Sync + fmt::Debug {
    /// What the model is told about this tool.
    fn spec(&self) -> &ToolSpec;

    /// The worst that a call can do. Permission gates and the flush before side effects decide on this alone.
    fn effects(&self) -> Effects;

    /// Whether this very call may run beside others.
    ///
    /// This says nothing about side effects: see [`Effects`] for those. The default is the safe answer.
    fn concurrency(&self, _arguments: &ToolArguments) -> Concurrency {
        Concurrency::Exclusive
    }

    /// How long the driver lets a call run before it cancels it and answers with `TOOL_TIMEOUT`.
    ///
    /// `None` (the default) means for as long as it likes; there is no global limit.
    fn timeout(&self) -> Option<Duration> {
        None
    }

    /// Whether this very call wants more than `cx.limits` allows. It is asked before the call runs; if that is allowed, the
    /// call runs with [`Limits::none`], else it does not run.
    ///
    /// A tool that does not look at the limits itself need not say anything: the default is that it stays within them.
    fn escalation(&self, _arguments: &ToolArguments, _cx: &ToolContext) -> Option<Escalation> {
        None
    }

    /// A call has been allowed and will run. Told once for each, in the order in which the model has asked for them, before
    /// the body of this call or of any later one begins; `cx` is that of the call. For tools whose calls may run beside others
    /// and yet have an order. When `cx.cancel` is cancelled the call is over, perhaps without having run.
    ///
    /// It must return at once.
    fn will_run(&self, _cx: &ToolContext) {}

    /// Runs one call to its end. It must keep within `cx.limits`.
    ///
    /// An implementation watches `cx.cancel` wherever it may wait long, releases what it holds, and then returns
    /// [`ToolError::aborted`]. It checks its arguments itself, with [`ToolArguments::parse`].
    ///
    /// # Errors
    /// Whatever went wrong, in words that help the model to do better next time.
    async fn execute(
        &self,
        arguments: ToolArguments,
        cx: &ToolContext,
    ) -> Result<ToolOutput, ToolError>;
}

/// What a tool may do to the world outside the conversation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Effects {
    /// Only looks. It may be run again, or be lost in a crash, without harm.
    ReadOnly,
    /// Changes something that outlives the call: files, processes, services.
    Mutating,
    /// Hands work to another agent, whose own tools have their own effects.
    Delegating,
}

/// Whether a call may share its time with other calls of the same step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Concurrency {
    /// Runs alone: everything before it has ended, nothing after it has begun.
    Exclusive,
    /// May run beside other parallel calls.
    Parallel,
}

/// How a tool presents itself to the model.
#[derive(Clone, Debug, Serialize)]
pub struct ToolSpec {
    /// The name by which the model calls it.
    pub name: String,
    /// What it does and when to use it, for the model.
    pub description: String,
    /// The JSON schema of the arguments; its exact bytes go to the provider.
    pub parameters: Box<RawValue>,
}

impl ToolSpec {
    /// Builds a description from the JSON text of its schema.
    ///
    /// # Errors
    /// If `parameters` is not JSON, or not a JSON object.
    pub fn new(
        name: impl Into<String>,
        description: impl Into<String>,
        parameters: impl Into<String>,
    ) -> Result<Self, SpecError> {
        let name = name.into();
        let parameters = match RawValue::from_string(parameters.into()) {
            Ok(parameters) => parameters,
            Err(source) => return Err(SpecError::InvalidJson { name, source }),
        };
        if !parameters.get().starts_with('{') {
            return Err(SpecError::NotAnObject { name });
        }
        Ok(Self {
            name,
            description: description.into(),
            parameters,
        })
    }
}

impl ToolSpec {
    /// Builds a description whose schema is that of the type that the tool reads its arguments into.
    ///
    /// # Panics
    /// If the type has no schema that is an object: that is a mistake in the program.
    #[must_use]
    pub fn typed<Arguments: JsonSchema>(
        name: impl Into<String>,
        description: impl Into<String>,
    ) -> Self {
        let settings = schemars::generate::SchemaSettings::draft07().with(|settings| {
            settings.meta_schema = None;
            settings.inline_subschemas = true;
        });
        let mut schema = settings
            .into_generator()
            .into_root_schema_for::<Arguments>();
        // The name of a Rust type and its doc comment tell a model nothing, and some providers refuse formats that they do not know.
        schema.remove("title");
        schema.remove("description");
        let mut plain = schemars::transform::RecursiveTransform(|schema: &mut schemars::Schema| {
            schema.remove("format");
        });
        schemars::transform::Transform::transform(&mut plain, &mut schema);
        let text = serde_json::to_string(&schema).expect("BUG: a schema is JSON");
        Self::new(name, description, text).expect("BUG: arguments are an object")
    }
}

impl PartialEq for ToolSpec {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
            && self.description == other.description
            && self.parameters.get() == other.parameters.get()
    }
}

/// Why a tool cannot be described.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum SpecError {
    /// The schema is not JSON.
    #[error("read the parameter schema of tool `{name}`")]
    InvalidJson {
        /// The tool.
        name: String,
        /// What is wrong with the text.
        source: serde_json::Error,
    },
    /// The schema is JSON, but providers accept only an object.
    #[error("the parameter schema of tool `{name}` is not a JSON object")]
    NotAnObject {
        /// The tool.
        name: String,
    },
}

/// What surrounds one call.
#[derive(Clone, Debug)]
pub struct ToolContext {
    /// The id that the model gave the call.
    pub call_id: String,
    /// The directory that relative paths start from; `None` if the session has none.
    pub cwd: Option<PathBuf>,
    /// Cancelled when the turn is aborted or the tool's own time is over.
    pub cancel: CancellationToken,
    /// What the call may do.
    pub limits: Limits,
    /// Where output goes that is too long to be shown; `None` where there is no such place, then it is cut.
    pub spill: Option<Arc<dyn Spill>>,
}

impl ToolContext {
    /// A context without a directory and without limits, whose token only the caller can cancel.
    pub fn new(call_id: impl Into<String>) -> Self {
        Self {
            call_id: call_id.into(),
            cwd: None,
            cancel: CancellationToken::new(),
            limits: Limits::none(),
            spill: None,
        }
    }

    /// The same context in a directory.
    #[must_use]
    pub fn in_directory(self, cwd: impl AsRef<Path>) -> Self {
        Self {
            cwd: Some(cwd.as_ref().to_owned()),
            ..self
        }
    }
}

/// A fact that a call adds to the session's log, ahead of its result: `todo/write`, for example.
#[derive(Clone, Debug)]
pub struct ToolRecord {
    /// The type of the event. It must be one that shows nothing to the model.
    pub kind: String,
    /// The payload.
    pub data: Box<RawValue>,
}

/// What a call that worked tells.
#[derive(Clone, Debug, Default)]
pub struct ToolOutput {
    /// What the model reads.
    pub text: String,
    /// Facts for front ends, kept in the log with the result and never sent to the model.
    pub meta: Option<Box<RawValue>>,
    /// Whether the turn has reached its end with this call.
    pub concludes_turn: bool,
    /// What the model is told besides, as messages of their own before the next step.
    pub contexts: Vec<String>,
    /// What else goes into the log.
    pub records: Vec<ToolRecord>,
}

impl ToolOutput {
    /// Plain text, nothing else.
    pub fn text(text: impl Into<String>) -> Self {
        Self {
            text: text.into(),
            ..Self::default()
        }
    }

    /// The same output with facts for front ends.
    #[must_use]
    pub fn with_meta(self, meta: Box<RawValue>) -> Self {
        Self {
            meta: Some(meta),
            ..self
        }
    }

    /// The same output, ending the turn.
    #[must_use]
    pub fn concluding_turn(self) -> Self {
        Self {
            concludes_turn: true,
            ..self
        }
    }
}

impl ToolOutput {
    /// The same output with one more message for the model, before the next step.
    #[must_use]
    pub fn with_context(mut self, text: impl Into<String>) -> Self {
        self.contexts.push(text.into());
        self
    }

    /// The same output with one more event for the log.
    #[must_use]
    pub fn with_record(mut self, kind: impl Into<String>, data: Box<RawValue>) -> Self {
        let kind = kind.into();
        self.records.push(ToolRecord { kind, data });
        self
    }
}

impl PartialEq for ToolRecord {
    fn eq(&self, other: &Self) -> bool {
        self.kind == other.kind && self.data.get() == other.data.get()
    }
}

impl PartialEq for ToolOutput {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
            && self.meta.as_deref().map(RawValue::get) == other.meta.as_deref().map(RawValue::get)
            && self.concludes_turn == other.concludes_turn
            && self.contexts == other.contexts
            && self.records == other.records
    }
}
