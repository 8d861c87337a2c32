//! What the commands of side sessions take.

use std::ffi::OsString;

use clap::Args;
use clap::builder::{NonEmptyStringValueParser, OsStringValueParser, TypedValueParser as _};
use offshoot_session::Seq;

use super::running::{Calling, EXIT_CODES, Turn};
use super::values::{named, parse_seq};

#[derive(Debug, Args)]
#[command(after_help = EXIT_CODES)]
pub(crate) struct Side {
    /// The session that the question is about: an id or a session file; it is only read, and may be running meanwhile
    #[arg(value_name = "ID|FILE", value_parser = OsStringValueParser::new().try_map(named))]
    pub(crate) source: OsString,

    /// What the side session is to know: everything up to this event, or to the end of the turn that it is in [default:
    /// the last completed turn]
    #[arg(long, value_name = "SEQ", value_parser = parse_seq, allow_negative_numbers = true)]
    pub(crate) at: Option<Seq>,

    /// The id of the side session; if that is one of this session already, it is gone on with [default: a new one]
    #[arg(long, value_name = "NEW_ID", value_parser = NonEmptyStringValueParser::new())]
    pub(crate) child: Option<String>,

    #[command(flatten)]
    pub(crate) turn: Turn,
}

#[derive(Debug, Args)]
pub(crate) struct Merge {
    /// The side session
    #[arg(value_name = "CHILD", value_parser = NonEmptyStringValueParser::new())]
    pub(crate) child: String,

    /// The note [default: the side session's latest answer]
    #[arg(long, value_name = "TEXT", conflicts_with = "ask")]
    pub(crate) note: Option<String>,

    /// Have the side session write the note; this calls the model
    #[arg(long)]
    pub(crate) ask: bool,

    /// What the note is known by: two with the same key are one [default: made from the side session and the note, so that
    /// doing this again brings nothing twice]
    #[arg(long, value_name = "KEY", value_parser = NonEmptyStringValueParser::new())]
    pub(crate) id: Option<String>,

    #[command(flatten, next_help_heading = "Where it is asked for the note")]
    pub(crate) calling: Calling,
}

#[derive(Debug, Args)]
pub(crate) struct Promote {
    /// The side session
    #[arg(value_name = "CHILD", value_parser = NonEmptyStringValueParser::new())]
    pub(crate) child: String,
}
