//! `offshoot run`: one turn, headless.

use std::io::Write;

use offshoot_session::SessionId;

use crate::args::Run;
use crate::aside;
use crate::asking::Question;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::headless::Headless;
use crate::home::Home;
use crate::notes::Notes;
use crate::opening::{Opening, Wanted};

/// Runs the turn.
pub(crate) fn run(
    args: &Run,
    home: &Home,
    json: bool,
    out: &mut dyn Write,
) -> Result<Exit, Failure> {
    let turn = &args.turn;
    let notes = Notes::new(json || turn.is_for_a_program());
    home.check()?;
    // Whatever can be wrong is said before anything is created, repaired or forked.
    let question = Question::read(turn, "offshoot run", notes)?;
    let opening = Opening::of(wanted(args), home, notes)?;
    let headless = Headless::new(
        home,
        &turn.calling,
        turn.replay.as_deref(),
        &opening.directory(),
        opening.log(),
        notes,
    )?;
    headless.warn_of_pictures(&question);
    let attached = opening.attach(home, headless.service(), notes)?;
    headless.announce(attached.session());
    aside::remind(attached.session(), notes);
    headless.answer(attached, &question, turn, out)
}

fn wanted(args: &Run) -> Wanted {
    match (&args.session, &args.fork) {
        (Some(id), _) => Wanted::Session(SessionId::new(id.as_str())),
        (None, Some(source)) => Wanted::Fork {
            source: source.clone(),
            at: args.at,
            worktree: args.worktree.clone(),
        },
        (None, None) => Wanted::New {
            cwd: args.cwd.clone(),
        },
    }
}
