//! `offshoot record`: does the steps of a scenario with its model, and writes down what comes of it.

use std::io::Write;

use offshoot_replay::{Existing, Flaw, Recording, RunError, record};

use crate::args::Record;
use crate::commands::replay::{Report, stopped, uninterrupted};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::home::Home;
use crate::notes::Notes;
use crate::scenarios::{Program, Room};
use crate::system;

pub(crate) fn run(
    args: &Record,
    home: &Home,
    json: bool,
    out: &mut dyn Write,
) -> Result<Exit, Failure> {
    let room = Room::new(None)?;
    let program = Program::of(home);
    let existing = match args.replace {
        true => Existing::Replace,
        false => Existing::Keep,
    };
    let part = room.part(1, &args.dir);
    let notes = Notes::new(json);
    notes.say(&format!("recording {}", args.dir.display()));
    let recording = Box::pin(record(&args.dir, existing, &program, &part, Some(&program)));
    let Some(recorded) = system::runtime()?.block_on(uninterrupted(recording))? else {
        return Ok(stopped(notes));
    };
    let report = match recorded {
        Ok(Recording {
            mut changed,
            replayed,
        }) => {
            changed.extend(replayed.changed);
            Report::of(&args.dir, replayed.flaws, changed)
        }
        Err(RunError::Recorded(_)) => {
            let told = "it has been recorded before";
            let flaw = Flaw::new("ALREADY_RECORDED", told);
            let flaw = flaw.with_detail("hint: --replace records it anew");
            Report::of(&args.dir, vec![flaw], Vec::new())
        }
        Err(error) => Report::failed(&args.dir, &error),
    };
    if json {
        serde_json::to_writer_pretty(&mut *out, &report)?;
        writeln!(out)?;
    } else {
        report.print(out)?;
    }
    Ok(match report.is_good() {
        true => Exit::Done,
        false => Exit::Failed,
    })
}
