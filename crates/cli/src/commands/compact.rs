//! `offshoot compact`: the older part of a conversation gives way to a summary, as the model sees it. The log keeps all of it.

use std::io::Write;
use std::sync::Arc;

use anyhow::Context as _;
use offshoot_agent::{Agent, CancelCause, Compacted, Queue};
use offshoot_session::SessionId;
use serde_json::json;

use crate::agents::{Answers, Around, Called, Children, Parts};
use crate::args::Compact;
use crate::exit::Exit;
use crate::failure::{CANCELLED, Failure};
use crate::home::Home;
use crate::interrupts::Interrupts;
use crate::notes::Notes;
use crate::opening::{Opening, Wanted};
use crate::system;

pub(crate) fn run(
    args: &Compact,
    home: &Home,
    json: bool,
    out: &mut dyn Write,
) -> Result<Exit, Failure> {
    let notes = Notes::new(json);
    home.check()?;
    let wanted = Wanted::Session(SessionId::new(args.id.as_str()));
    let opening = Opening::of(wanted, home, notes)?;
    let parts = Parts::load(home, &opening.directory(), &args.calling.flags(), notes)?;
    let parts = Arc::new(parts);
    let called = Called::configured(&parts.config, &parts.providers, opening.log())?;
    let service = home.service().on_unstored(notes.on_unstored());
    let attached = opening.attach(home, &service, notes)?;
    // It hands no work to anybody; but the summary is asked for with the tools that the conversation was led with.
    let children = Children::new(&parts, &service, Answers::Configured, Around::default());
    let setup = children.setup(&called, attached.session())?;
    let compacted = system::runtime()?.block_on(async {
        let mut interrupts = Interrupts::new().context("could not listen for Ctrl-C")?;
        let agent = Agent::new(attached, setup);
        let mut is_stopping = false;
        let compact = agent.compact();
        tokio::pin!(compact);
        let compacted = loop {
            tokio::select! {
                compacted = &mut compact => break compacted,
                _ = interrupts.next() => {
                    if is_stopping {
                        Exit::Cancelled.at_once();
                    }
                    is_stopping = true;
                    notes.say("cancelling; press Ctrl-C again to stop at once");
                    agent.cancel(CancelCause::User, Queue::Keep)?;
                }
            }
        };
        let closed = agent.dispose().await;
        let compacted = compacted?;
        closed.map_err(|error| Failure::from(&*error))?;
        Ok::<_, Failure>(compacted)
    });
    let compacted = match compacted {
        Err(failure) if failure.code == CANCELLED => {
            notes.say(&failure.message);
            return Ok(Exit::Cancelled);
        }
        compacted => compacted?,
    };
    if json {
        let told = compacted.map(|compacted| {
            let Compacted {
                items,
                tokens,
                summary_tokens,
                checkpoint,
            } = compacted;
            json!({"messages": items, "tokens": tokens, "summary_tokens": summary_tokens, "checkpoint": checkpoint})
        });
        writeln!(out, "{}", json!({"session": args.id, "compacted": told}))?;
    } else {
        writeln!(out, "{}", told(compacted.as_ref()))?;
    }
    Ok(Exit::Done)
}

/// What was done, in words.
pub(crate) fn told(compacted: Option<&Compacted>) -> String {
    match compacted {
        None => "there is nothing to compact yet".to_owned(),
        Some(compacted) => format!(
            "{} messages of about {} tokens gave way to a summary of about {}, event {}; the log keeps them",
            compacted.items, compacted.tokens, compacted.summary_tokens, compacted.checkpoint
        ),
    }
}
