//! The `offshoot` binary: reads the command line, wires the concrete parts, and leaves everything else to the crates.

mod args;
mod commands;
mod failure;
mod home;
mod providers;
mod source;
mod system;
mod text;

use std::io::Write as _;
use std::process::ExitCode;

use clap::Parser as _;

use crate::args::{Cli, Command, Output};
use crate::failure::Failure;
use crate::home::Home;

/// 0: done. 1: it did not work, or a check found something. 2: the command line was wrong (clap's own).
fn main() -> ExitCode {
    let cli = Cli::parse();
    let json =
        cli.json || matches!(&cli.command, Command::Run(run) if run.output == Some(Output::Json));
    match run(&cli) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(failure) if failure.broken_pipe => ExitCode::SUCCESS,
        Err(failure) => {
            report(&failure, json);
            ExitCode::FAILURE
        }
    }
}

fn run(cli: &Cli) -> Result<bool, Failure> {
    let home = Home::resolve(cli.home.clone())?;
    let mut out = std::io::BufWriter::new(std::io::stdout());
    let out: &mut dyn std::io::Write = &mut out;
    let done = match &cli.command {
        Command::Demo(args) => {
            commands::demo::run(args, cli.home.is_some().then_some(&home), cli.json, out)
                .map(|()| true)
        }
        Command::Run(args) => commands::run::run(args, &home, cli.json, out),
        Command::Ls(args) => commands::ls::run(args, &home, cli.json, out).map(|()| true),
        Command::Show(args) => commands::show::run(args, &home, cli.json, out).map(|()| true),
        Command::Fork(args) => commands::fork::run(args, &home, cli.json, out).map(|()| true),
        Command::Check(args) => commands::check::run(args, &home, cli.json, out),
    };
    let flushed = out.flush();
    let done = done?;
    flushed?;
    Ok(done)
}

/// For people on two lines; for programs as one object, with the stable code.
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
        let hint = hint
            .iter()
            .filter(|hint| !hint.is_empty())
            .map(|hint| format!("\nhint: {hint}"));
        writeln!(err, "error: {message}{}", hint.collect::<String>())
    };
    // Nobody is left to tell.
    drop(written);
}
