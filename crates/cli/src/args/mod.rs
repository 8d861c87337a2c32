//! The command line: every command and flag with its help, defined once.

mod replaying;
mod running;
mod side;
mod values;

use std::ffi::OsString;
use std::num::NonZeroUsize;
use std::path::PathBuf;

use clap::builder::{NonEmptyStringValueParser, OsStringValueParser, TypedValueParser as _};
use clap::{Args, Parser, Subcommand, ValueEnum};
use offshoot_session::Seq;
use offshoot_store::{Locking, Status};

pub(crate) use self::replaying::{Record, Replay, ReplayStage};
pub(crate) use self::running::{Calling, Chat, Compact, Run, Turn};
pub(crate) use self::side::{Merge, Promote, Side};
pub(crate) use self::values::Age;
use self::values::{named, parse_age, parse_limit, parse_number, parse_seq};
use crate::scenarios::Program;

/// An agent harness whose conversations are event logs: fork them at any event, repair them after a crash, replay them
/// without a key.
#[derive(Debug, Parser)]
#[command(
    name = "offshoot",
    version,
    max_term_width = 100,
    after_help = "New here? `offshoot demo` shows what it is about, without a key."
)]
pub(crate) struct Cli {
    /// The home directory with sessions and configuration [default: $OFFSHOOT_HOME, else ~/.offshoot]
    #[arg(long, global = true, value_name = "DIR", help_heading = "Everywhere")]
    pub(crate) home: Option<PathBuf>,

    /// Print JSON instead of text
    #[arg(long, global = true, help_heading = "Everywhere")]
    pub(crate) json: bool,

    /// Write also where the file system has no locks. UNSAFE: nothing then keeps two programs from writing to one session,
    /// which destroys it. Only for a home that nothing else uses at the same time
    #[arg(long, global = true, help_heading = "Everywhere")]
    unsafe_no_lock: bool,

    #[command(subcommand)]
    pub(crate) command: Command,
}

impl Cli {
    pub(crate) const fn locking(&self) -> Locking {
        match self.unsafe_no_lock {
            true => Locking::UnsafeNone,
            false => Locking::Flock,
        }
    }
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// See it work on a recorded conversation: no key, no network, a temporary home
    Demo(Demo),
    /// Run one turn, in a new session, in one that is there, or in a fork of one
    Run(Run),
    /// Talk with the model, line by line
    Chat(Chat),
    /// Replace older history, as the model sees it, by a summary; the log keeps all of it
    Compact(Compact),
    /// List the models that can be called, and say of the others what they take
    Models,
    /// Show what is configured, and where each setting comes from
    Config(Config),
    /// List the sessions
    Ls(Ls),
    /// Show a session: its events, the messages the model sees, or a request as it was sent
    Show(Show),
    /// Branch a session off at an event; the source is only read
    Fork(Fork),
    /// Ask on the side, in a fork that explains and may only look; the session itself goes on
    Side(Side),
    /// Bring a note from a side session back to the session that it was forked from
    Merge(Merge),
    /// Make an ordinary session of a side session: from then on it may act
    Promote(Promote),
    /// Do the steps of a scenario with its model, and write down what comes of it
    Record(Record),
    /// Run recorded scenarios again, without a key, and say whether they come to the same
    Replay(Replay),
    /// Run a part of a scenario; `replay` and `record` start this themselves
    #[command(name = Program::STAGE, hide = true)]
    ReplayStage(ReplayStage),
    /// Say whether session files are sound, and if not, what is wrong and where; never writes
    Check(Check),
    /// Write a session as one self-contained file of the current format, to carry it elsewhere
    Export(Export),
    /// Write a session file of an older format version as one of the current version, beside it
    Convert(Convert),
    /// Make a new session of the sound beginning of a damaged file, and say what is lost
    Salvage(Salvage),
    /// Delete sessions: they go to the trash, and their forks stay
    Rm(Rm),
    /// Bring a deleted session back, or list those that can be brought back
    Restore(Restore),
    /// Remove for good what was deleted long ago, and what nothing uses any more
    Gc(Gc),
    /// Show how much room sessions take
    Du(Du),
}

#[derive(Debug, Args)]
pub(crate) struct Demo {
    /// A session file to use instead of the bundled recording; it is only read
    #[arg(long, value_name = "FILE")]
    pub(crate) from: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct Config {
    #[command(subcommand)]
    pub(crate) what: ConfigCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum ConfigCommand {
    /// Show every setting as it is in force; keys only as set or not set
    Show {
        /// Say of each setting where it comes from
        #[arg(long)]
        origin: bool,
    },
    /// Show which files settings and keys are read from
    Path,
}

#[derive(Debug, Args)]
pub(crate) struct Ls {
    /// Show forks and subagents below their parents; all of them, unless --limit is given
    #[arg(long)]
    pub(crate) tree: bool,

    /// Show at most N sessions, the last changed ones [default: 50; with --json or --tree all]
    #[arg(long, value_name = "N", value_parser = parse_limit, allow_negative_numbers = true)]
    pub(crate) limit: Option<NonZeroUsize>,

    /// Go on behind a list that was not shown to its end; it says where
    #[arg(long, value_name = "CURSOR")]
    pub(crate) cursor: Option<String>,

    /// Only sessions that work in this directory or below
    #[arg(long, value_name = "DIR")]
    pub(crate) cwd: Option<PathBuf>,

    /// Only sessions with this text in title, id or directory, in capitals or not
    #[arg(long, value_name = "TEXT", value_parser = NonEmptyStringValueParser::new())]
    pub(crate) grep: Option<String>,

    /// Only sessions in this state; may be given more than once
    #[arg(long, value_enum, value_name = "STATUS")]
    pub(crate) status: Vec<InStatus>,

    /// Show subagents too, the sessions that others have delegated work to; --tree and --all always do
    #[arg(long)]
    pub(crate) subagents: bool,

    /// Show all sessions, and read all that has to be read for it, however long it takes
    #[arg(long, conflicts_with_all = ["limit", "cursor"])]
    pub(crate) all: bool,
}

/// A state to look for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum InStatus {
    Ok,
    Open,
    Torn,
    /// Open or torn
    NeedsRepair,
    Damaged,
    Unsupported,
    Unreadable,
    Unknown,
}

impl InStatus {
    /// The states that it stands for.
    pub(crate) fn all(self) -> Vec<Status> {
        match self {
            Self::Ok => vec![Status::Ok],
            Self::Open => vec![Status::Open],
            Self::Torn => vec![Status::Torn],
            Self::NeedsRepair => vec![Status::Open, Status::Torn],
            Self::Damaged => vec![Status::Damaged],
            Self::Unsupported => vec![Status::Unsupported],
            Self::Unreadable => vec![Status::Unreadable],
            Self::Unknown => vec![Status::Unknown],
        }
    }
}

#[derive(Debug, Args)]
pub(crate) struct Show {
    /// A session's id, or a session file
    #[arg(value_name = "ID|FILE", value_parser = OsStringValueParser::new().try_map(named))]
    pub(crate) source: OsString,

    /// The events, in order (this is the default)
    #[arg(long, group = "view")]
    pub(crate) events: bool,

    /// The messages as the model sees them at the end
    #[arg(long, group = "view")]
    pub(crate) messages: bool,

    /// The body of the N-th request, exactly as it was sent; counted from 1
    #[arg(long, value_name = "N", group = "view", conflicts_with_all = ["from", "to"], value_parser = parse_number, allow_negative_numbers = true)]
    pub(crate) request: Option<NonZeroUsize>,

    /// The lines of the file as they stand in it, with their own seqs; also of damaged files
    #[arg(long, group = "view", conflicts_with_all = ["from", "to"])]
    pub(crate) stored: bool,

    /// Go on with every new event as it becomes visible, until Ctrl-C; with --json one line of JSON for each event
    #[arg(long, conflicts_with_all = ["messages", "request", "stored", "to"])]
    pub(crate) follow: bool,

    /// Only from this event on
    #[arg(long, value_name = "SEQ", value_parser = parse_seq, allow_negative_numbers = true)]
    pub(crate) from: Option<Seq>,

    /// Only up to this event
    #[arg(long, value_name = "SEQ", value_parser = parse_seq, allow_negative_numbers = true)]
    pub(crate) to: Option<Seq>,
}

#[derive(Debug, Args)]
pub(crate) struct Fork {
    /// The session to fork: an id or a session file
    #[arg(value_name = "ID|FILE", value_parser = OsStringValueParser::new().try_map(named))]
    pub(crate) source: OsString,

    /// The last event to inherit; any event will do [default: the last completed turn]
    #[arg(long, value_name = "SEQ", value_parser = parse_seq, allow_negative_numbers = true)]
    pub(crate) at: Option<Seq>,

    /// The id of the fork [default: a new one]
    #[arg(long, value_name = "CHILD", value_parser = NonEmptyStringValueParser::new())]
    pub(crate) id: Option<String>,

    /// Give the fork a git worktree of its own, made here
    #[arg(long, value_name = "PATH")]
    pub(crate) worktree: Option<PathBuf>,

    /// Copy what the fork inherits, so that every tool for this format reads its file; else it is linked where it can be
    #[arg(long)]
    pub(crate) portable: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Check {
    /// Ids or session files [default: every session of the home]
    #[arg(value_name = "ID|FILE")]
    pub(crate) sources: Vec<OsString>,

    /// Also compare every answer with the stream that it came in
    #[arg(long)]
    pub(crate) deep: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Convert {
    /// The session file, or a session's id; it is only read
    #[arg(value_name = "FILE", value_parser = OsStringValueParser::new().try_map(named))]
    pub(crate) source: OsString,

    /// The directory for the new file [default: that of the old one]
    #[arg(long, value_name = "DIR")]
    pub(crate) to: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct Export {
    /// The session: an id or a session file; it is only read
    #[arg(value_name = "ID|FILE", value_parser = OsStringValueParser::new().try_map(named))]
    pub(crate) source: OsString,

    /// The new file: compressed if its name ends in .zstd, else lines of JSON; never replaces one that is there
    #[arg(long, value_name = "FILE")]
    pub(crate) to: PathBuf,
}

#[derive(Debug, Args)]
pub(crate) struct Salvage {
    /// The session file, or a session's id; it is only read
    #[arg(value_name = "FILE", value_parser = OsStringValueParser::new().try_map(named))]
    pub(crate) source: OsString,

    /// The home that the new session goes to
    #[arg(long, value_name = "HOME")]
    pub(crate) to: PathBuf,
}

#[derive(Debug, Args)]
pub(crate) struct Rm {
    /// The ids of the sessions
    #[arg(value_name = "ID", required = true, value_parser = NonEmptyStringValueParser::new())]
    pub(crate) ids: Vec<String>,
}

#[derive(Debug, Args)]
pub(crate) struct Restore {
    /// The id of the deleted session [default: list what is in the trash]
    #[arg(value_name = "ID", value_parser = NonEmptyStringValueParser::new())]
    pub(crate) id: Option<String>,

    /// Of several with this id, the one in this entry of the trash [default: the one that was deleted last]
    #[arg(long, value_name = "ENTRY", requires = "id", value_parser = NonEmptyStringValueParser::new())]
    pub(crate) entry: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct Gc {
    /// Remove sessions that were deleted at least this long ago: a number and s, m, h, d or w
    #[arg(long, value_name = "AGE", default_value = "30d", value_parser = parse_age, allow_negative_numbers = true)]
    pub(crate) older_than: Age,

    /// Only say what would be removed
    #[arg(long)]
    pub(crate) dry_run: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Du {
    /// The ids of sessions [default: the whole home]
    #[arg(value_name = "ID", value_parser = NonEmptyStringValueParser::new())]
    pub(crate) ids: Vec<String>,
}
