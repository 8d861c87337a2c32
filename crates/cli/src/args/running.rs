//! What the commands take that call a model.

use std::ffi::OsString;
use std::num::NonZeroU64;
use std::path::PathBuf;

use clap::builder::{
    NonEmptyStringValueParser, OsStringValueParser, PossibleValuesParser, TypedValueParser as _,
};
use clap::{Args, ValueEnum};
use offshoot_session::Seq;

use super::values::{Age, named, parse_prompt, parse_seq, parse_timeout, parse_turns};
use crate::config::{Flags, ModelName, PERMISSION_MODE, SANDBOX};

/// At the end of the help of what runs one turn.
pub(super) const EXIT_CODES: &str = "Exit codes: 0 the turn completed; 1 it did not work; 2 the command line was wrong; 3 the model, or the \
                          way to it, failed; 4 --max-turns or --timeout ended it; 130 it was cancelled.";

#[derive(Debug, Args)]
#[command(after_help = EXIT_CODES)]
pub(crate) struct Run {
    /// Go on with this session; what a crash has left open in it is closed first
    #[arg(long, value_name = "ID", conflicts_with = "fork", value_parser = NonEmptyStringValueParser::new())]
    pub(crate) session: Option<String>,

    /// Fork this session (an id or a file) and go on with the fork
    #[arg(long, value_name = "ID|FILE", value_parser = OsStringValueParser::new().try_map(named))]
    pub(crate) fork: Option<OsString>,

    /// With --fork: the last event to inherit [default: the last completed turn]
    #[arg(long, value_name = "SEQ", requires = "fork", value_parser = parse_seq, allow_negative_numbers = true)]
    pub(crate) at: Option<Seq>,

    /// With --fork: give the fork a git worktree of its own, made here
    #[arg(long, value_name = "PATH", requires = "fork")]
    pub(crate) worktree: Option<PathBuf>,

    /// The directory a new session works in [default: the current one]
    #[arg(long, value_name = "DIR", conflicts_with_all = ["session", "fork"])]
    pub(crate) cwd: Option<PathBuf>,

    #[command(flatten)]
    pub(crate) turn: Turn,
}

/// One headless turn: who answers, what is asked, what ends it, and what is printed.
#[derive(Debug, Args)]
pub(crate) struct Turn {
    #[command(flatten)]
    pub(crate) calling: Calling,

    /// Answer from this recorded session (an id or a file) instead of calling a model; tools do run
    #[arg(long, value_name = "FILE", conflicts_with = "model", value_parser = OsStringValueParser::new().try_map(named))]
    pub(crate) replay: Option<OsString>,

    /// A picture that belongs to the prompt (PNG, JPEG, WebP or GIF); may be given more than once
    #[arg(long = "image", value_name = "FILE")]
    pub(crate) images: Vec<PathBuf>,

    /// Stop after so many answers of the model; retries of a failed call and summaries are not counted
    #[arg(long, value_name = "N", value_parser = parse_turns, allow_negative_numbers = true)]
    pub(crate) max_turns: Option<NonZeroU64>,

    /// Stop after so long: a number and s, m, h, d or w
    #[arg(long, value_name = "DURATION", value_parser = parse_timeout, allow_negative_numbers = true)]
    pub(crate) timeout: Option<Age>,

    /// What to print: the answer, or (as with --json) every event as one line of JSON and then the result
    #[arg(long, value_enum, value_name = "FORMAT")]
    pub(crate) output: Option<Output>,

    /// What to ask; one argument, so put it into quotes. What is piped in is added to it; - or nothing stands for that alone
    #[arg(value_parser = parse_prompt)]
    pub(crate) prompt: Option<String>,
}

impl Turn {
    /// Whether a program reads what is printed.
    pub(crate) fn is_for_a_program(&self) -> bool {
        self.output == Some(Output::Json)
    }
}

/// Which model is called, and what its tools may do.
#[derive(Debug, Args)]
pub(crate) struct Calling {
    /// The model to call, such as deepseek/deepseek-chat [default: $OFFSHOOT_MODEL, else the one the session used, else
    /// the configured one]
    #[arg(long, value_name = "PROVIDER/MODEL", value_parser = ModelName::parse)]
    pub(crate) model: Option<ModelName>,

    /// How hard the model thinks, in its provider's words, such as low or high [default: as configured]
    #[arg(long, value_name = "EFFORT", value_parser = NonEmptyStringValueParser::new())]
    pub(crate) effort: Option<String>,

    /// What tools may do unasked [default: as configured, else workspace-write]
    #[arg(long, value_name = "MODE", value_parser = PossibleValuesParser::new(SANDBOX))]
    pub(crate) sandbox: Option<String>,

    /// What happens to a call that wants to do more: a person is asked (where none is there it is rejected), it is
    /// rejected, or it is allowed [default: as configured, else ask]
    #[arg(long, value_name = "MODE", value_parser = PossibleValuesParser::new(PERMISSION_MODE))]
    pub(crate) permission_mode: Option<String>,
}

impl Calling {
    /// One of its flags that was given.
    pub(crate) fn first_given(&self) -> Option<&'static str> {
        let given = [
            ("--model", self.model.is_some()),
            ("--effort", self.effort.is_some()),
            ("--sandbox", self.sandbox.is_some()),
            ("--permission-mode", self.permission_mode.is_some()),
        ];
        given
            .into_iter()
            .find_map(|(flag, is_given)| is_given.then_some(flag))
    }

    /// As settings.
    pub(crate) fn flags(&self) -> Flags<'_> {
        Flags {
            model: self.model.as_ref(),
            effort: self.effort.as_deref(),
            sandbox: self.sandbox.as_deref(),
            permission_mode: self.permission_mode.as_deref(),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Output {
    Text,
    Json,
}

#[derive(Debug, Args)]
pub(crate) struct Chat {
    /// Go on with this session; what a crash has left open in it is closed first
    #[arg(long, value_name = "ID", conflicts_with = "fork", value_parser = NonEmptyStringValueParser::new())]
    pub(crate) session: Option<String>,

    /// Fork this session (an id or a file) and go on with the fork
    #[arg(long, value_name = "ID|FILE", value_parser = OsStringValueParser::new().try_map(named))]
    pub(crate) fork: Option<OsString>,

    /// With --fork: the last event to inherit [default: the last completed turn]
    #[arg(long, value_name = "SEQ", requires = "fork", value_parser = parse_seq, allow_negative_numbers = true)]
    pub(crate) at: Option<Seq>,

    /// The directory a new session works in [default: the current one]
    #[arg(long, value_name = "DIR", conflicts_with_all = ["session", "fork"])]
    pub(crate) cwd: Option<PathBuf>,

    #[command(flatten)]
    pub(crate) calling: Calling,
}

#[derive(Debug, Args)]
pub(crate) struct Compact {
    /// The session
    #[arg(value_name = "ID", value_parser = NonEmptyStringValueParser::new())]
    pub(crate) id: String,

    #[command(flatten)]
    pub(crate) calling: Calling,
}
