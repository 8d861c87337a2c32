//! The `offshoot` binary: reads the command line, wires the concrete parts, and leaves everything else to the crates.

mod agents;
mod args;
mod aside;
mod asking;
mod attachments;
mod changes;
mod commands;
mod config;
mod exit;
mod failure;
mod git;
mod headless;
mod home;
mod interrupts;
mod limits;
mod live;
mod money;
mod notes;
mod opening;
mod providers;
mod scenarios;
mod source;
mod subagent_lines;
mod system;
mod text;
mod watching;
mod worktree;

use std::ffi::{OsStr, OsString};
use std::io::Write as _;
use std::process::ExitCode;

use clap::Parser as _;
use clap::error::ErrorKind;
use offshoot_tools::sandbox::{SandboxLauncher, sandbox_exec};

use crate::args::{Cli, Command};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::home::Home;

fn main() -> ExitCode {
    let mut arguments = std::env::args_os().skip(1);
    // No command for people, and nothing may happen before it: this process confines itself and becomes another program.
    if arguments
        .next()
        .is_some_and(|first| first == SandboxLauncher::COMMAND)
    {
        return sandbox_exec(arguments);
    }
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return misused(&error),
    };
    let turn = match &cli.command {
        Command::Run(run) => Some(&run.turn),
        Command::Side(side) => Some(&side.turn),
        _ => None,
    };
    let json = cli.json || turn.is_some_and(args::Turn::is_for_a_program);
    match run(&cli) {
        Ok(exit) => exit.into(),
        Err(failure) if failure.broken_pipe => Exit::Done.into(),
        Err(failure) => {
            report(&failure, json);
            let exit = match failure.code {
                failure::USAGE => Exit::Usage,
                _ => Exit::Failed,
            };
            exit.into()
        }
    }
}

fn run(cli: &Cli) -> Result<Exit, Failure> {
    let home = Home::resolve(cli.home.clone())?.with_locking(cli.locking());
    let mut out = std::io::BufWriter::new(std::io::stdout());
    let out: &mut dyn std::io::Write = &mut out;
    let done = match &cli.command {
        Command::Demo(args) => {
            let home = cli.home.is_some().then_some(&home);
            commands::demo::run(args, home, cli.json, out).map(|()| Exit::Done)
        }
        Command::Run(args) => commands::run::run(args, &home, cli.json, out),
        Command::Chat(args) => commands::chat::run(args, &home, cli.json),
        Command::Compact(args) => commands::compact::run(args, &home, cli.json, out),
        Command::Models => commands::models::run(&home, cli.json, out).map(|()| Exit::Done),
        Command::Config(args) => {
            commands::config::run(args, &home, cli.json, out).map(|()| Exit::Done)
        }
        Command::Ls(args) => commands::ls::run(args, &home, cli.json, out).map(|()| Exit::Done),
        Command::Show(args) => commands::show::run(args, &home, cli.json, out).map(|()| Exit::Done),
        Command::Fork(args) => commands::fork::run(args, &home, cli.json, out).map(|()| Exit::Done),
        Command::Side(args) => commands::side::run(args, &home, cli.json, out),
        Command::Merge(args) => commands::merge::run(args, &home, cli.json, out),
        Command::Promote(args) => {
            commands::promote::run(args, &home, cli.json, out).map(|()| Exit::Done)
        }
        Command::Record(args) => commands::record::run(args, &home, cli.json, out),
        Command::Replay(args) => commands::replay::run(args, &home, cli.json, out),
        Command::ReplayStage(args) => commands::replay::stage(args, &home),
        Command::Check(args) => commands::check::run(args, &home, cli.json, out).map(Exit::of),
        Command::Export(args) => {
            commands::export::run(args, &home, cli.json, out).map(|()| Exit::Done)
        }
        Command::Convert(args) => {
            commands::convert::run(args, &home, cli.json, out).map(|()| Exit::Done)
        }
        Command::Salvage(args) => {
            commands::salvage::run(args, &home, cli.json, out).map(|()| Exit::Done)
        }
        Command::Rm(args) => commands::rm::run(args, &home, cli.json, out).map(Exit::of),
        Command::Restore(args) => commands::restore::run(args, &home, cli.json, out).map(Exit::of),
        Command::Gc(args) => commands::gc::run(args, &home, cli.json, out).map(Exit::of),
        Command::Du(args) => commands::du::run(args, &home, cli.json, out).map(Exit::of),
    };
    let flushed = out.flush();
    let done = done.map_err(|failure| failure.or_in_trash(&home))?;
    match flushed {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => Err(error.into()),
        // Whoever closed the pipe early may still ask how it went.
        _ => Ok(done),
    }
}

/// What clap has to say: help and version as they are, a misuse also as JSON where JSON was asked for.
fn misused(error: &clap::Error) -> ExitCode {
    if error.use_stderr() && wants_json(std::env::args_os().skip(1)) {
        let text = error.to_string();
        let text = text.trim_start_matches("error: ");
        let message = text.split("\n\n").next().unwrap_or(text).trim_end();
        report(&Failure::usage(message).hint("see `offshoot --help`"), true);
        return Exit::Usage.into();
    }
    // Nobody is left to tell.
    drop(error.print());
    match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => Exit::Done.into(),
        _ => Exit::Usage.into(),
    }
}

fn wants_json(args: impl Iterator<Item = OsString>) -> bool {
    let mut previous = OsString::new();
    for arg in args.take_while(|arg| arg != "--") {
        let output = previous == "--output" && arg == "json";
        if output || [OsStr::new("--json"), OsStr::new("--output=json")].contains(&&*arg) {
            return true;
        }
        previous = arg;
    }
    false
}

/// For people on a line of its own each; for programs as one object, with the stable code.
fn report(failure: &Failure, json: bool) {
    let Failure {
        code,
        message,
        hint,
        ..
    } = failure;
    let mut err = std::io::stderr().lock();
    let written = if json {
        writeln!(
            err,
            "{}",
            serde_json::json!({"type": "error", "code": code, "message": message, "hint": hint})
        )
    } else {
        let hints = hint.iter().flat_map(|hint| hint.lines());
        let hints: String = hints.map(|hint| format!("\nhint: {hint}")).collect();
        writeln!(err, "error: {message}{hints}")
    };
    // Nobody is left to tell.
    drop(written);
}
