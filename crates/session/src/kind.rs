//! The event vocabulary of format V4 (`reference/persistence.md` §3.4).

use std::fmt;

macro_rules! kinds {
    ($($(#[$doc:meta])* $variant:ident = $name:literal,)*) => {
        /// The type of an event.
        ///
        /// A type that is not listed is kept as [`EventKind::Other`]: with `ignorable: true` it stays opaque in the log
        /// and derives nothing; without, the log is refused.
        #[derive(Clone, Debug, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum EventKind {
            $($(#[$doc])* $variant,)*
            /// A type that this version does not know.
            Other(Box<str>),
        }

        impl EventKind {
            /// Every known type, in the order of the enum.
            pub const KNOWN: &'static [Self] = &[$(Self::$variant,)*];

            /// The name on disk.
            #[must_use]
            pub fn as_str(&self) -> &str {
                match self {
                    $(Self::$variant => $name,)*
                    Self::Other(name) => name,
                }
            }

            /// The type with this name on disk.
            #[must_use]
            pub fn from_name(name: &str) -> Self {
                match name {
                    $($name => Self::$variant,)*
                    other => Self::Other(other.into()),
                }
            }
        }
    };
}

kinds! {
    /// A preset was chosen for the agent.
    AgentPresetSelected = "agent-preset/selected",
    /// The pending input changed.
    InboxSpliced = "agent/inbox/spliced",
    /// A person was asked for permission.
    ApprovalAsked = "approval/asked",
    /// The question for permission was answered.
    ApprovalDecided = "approval/decided",
    /// Whether permission is asked for at all.
    ApprovalPolicy = "approval/policy",
    /// A model attempt that produced no message of its own.
    AssistantAttempt = "assistant/attempt",
    /// What the model said, with the stream it came in.
    AssistantMessage = "assistant/message",
    /// A command has ended.
    CommandDone = "command/done",
    /// A command was run.
    CommandRun = "command/run",
    /// A compaction has ended.
    CompactionEnd = "compaction/end",
    /// Old tool output was cut down.
    CompactionPrune = "compaction/prune",
    /// A compaction has begun.
    CompactionStart = "compaction/start",
    /// The summary that stands in for older messages.
    CompactionSummary = "compaction/summary",
    /// Files offered as results.
    DeliverablesPresented = "deliverables/presented",
    /// A change of the available tools, told to the model.
    DeveloperMessage = "developer/message",
    /// Rating of a message taken back.
    FeedbackMessageDelete = "feedback/message-delete",
    /// Rating of a message.
    FeedbackMessagePut = "feedback/message-put",
    /// Free feedback.
    FeedbackRecord = "feedback/record",
    /// A goal was created or changed.
    GoalChange = "goal/change",
    /// A hook was called.
    HookInvoked = "hook/invoked",
    /// A hook has answered.
    HookResult = "hook/result",
    /// Images that are no longer sent.
    ImageOffload = "image/offload",
    /// A failed attempt will be repeated.
    LlmRetry = "llm/retry",
    /// The repeated attempt has begun.
    LlmRetryStarted = "llm/retry-started",
    /// Another model was chosen.
    ModelSelection = "model/selection",
    /// A bundle of permissions was chosen.
    PermissionPreset = "permission/preset",
    /// Plan mode was entered or left.
    PlanMode = "plan/mode",
    /// The route and its context window.
    RequestContext = "request/context",
    /// Configuration and tools of the requests that follow.
    RequestHeader = "request/header",
    /// What the sandbox allows.
    SandboxMode = "sandbox/mode",
    /// A schedule changed.
    ScheduleChange = "schedule/change",
    /// The log up to here was a seed; tagged `inherited` in a fork.
    EndSeed = "session/end-seed",
    /// The title.
    SessionTitle = "session/title",
    /// A title was asked of a model.
    SessionTitleLlmRequest = "session/title-llm-request",
    /// Delivery of the log to a provider was accepted.
    DeliveryAccepted = "session-log-deepseek/delivery-accepted",
    /// A step has ended.
    StepEnd = "step/end",
    /// A step has begun: one model call and its tools.
    StepStart = "step/start",
    /// Facts about a child session.
    SubagentCatalog = "subagent/catalog",
    /// What kind of subagent this session is.
    SubagentDescriptor = "subagent/descriptor",
    /// Models that subagents may use.
    SubagentModelSelectionPolicy = "subagent/model-selection-policy",
    /// The system prompt.
    SystemMessage = "system/message",
    /// A team member changed.
    TeamMember = "team/member",
    /// A team message arrived.
    TeamMessageDelivered = "team/message/delivered",
    /// A team message was queued.
    TeamMessageQueued = "team/message/queued",
    /// A team task changed.
    TeamTask = "team/task",
    /// The to-do list.
    TodoWrite = "todo/write",
    /// A tool call was started.
    ToolCall = "tool/call",
    /// A programmatic tool call has settled.
    PtcDispatch = "tool/ptc-dispatch",
    /// A programmatic tool call was started.
    PtcDispatchStart = "tool/ptc-dispatch-start",
    /// The outcome of a tool call.
    ToolResult = "tool/result",
    /// An agent of a workflow has ended.
    WorkflowAgentEnd = "tool-workflow/agent-end",
    /// An agent of a workflow was started.
    WorkflowAgentStart = "tool-workflow/agent-start",
    /// A workflow has ended.
    WorkflowRunEnd = "tool-workflow/run-end",
    /// A workflow was started.
    WorkflowRunStart = "tool-workflow/run-start",
    /// A turn has ended: the witness that everything before it was committed.
    TurnEnd = "turn/end",
    /// A turn has begun.
    TurnStart = "turn/start",
    /// Input from a person or a machine.
    UserMessage = "user/message",
    /// A web search was asked of the provider.
    WebSearchLlmRequest = "web/deepseek-search-llm-request",
    /// Files changed in the workspace.
    WorkspaceChanges = "workspace/changes",
}

impl EventKind {
    /// Whether events of this type are nodes of the surface, which the model sees (§3.4, V4).
    #[must_use]
    pub const fn is_surface(&self) -> bool {
        matches!(
            self,
            Self::UserMessage
                | Self::AssistantMessage
                | Self::ToolResult
                | Self::SystemMessage
                | Self::DeveloperMessage
        )
    }

    /// Whether this version knows the type.
    #[must_use]
    pub const fn is_known(&self) -> bool {
        !matches!(self, Self::Other(_))
    }
}

impl fmt::Display for EventKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
