//! `offshoot promote`: a side session becomes an ordinary one.

use std::io::Write;

use offshoot_agent::Promoted;
use offshoot_session::SessionId;
use serde_json::json;

use crate::args::Promote;
use crate::failure::Failure;
use crate::home::Home;
use crate::text;

pub(crate) fn run(
    args: &Promote,
    home: &Home,
    json: bool,
    out: &mut dyn Write,
) -> Result<(), Failure> {
    home.check()?;
    let id = SessionId::new(args.child.as_str());
    let promoted = home.service().promote(&id).map_err(|error| {
        let failure = Failure::from(error);
        match failure.code {
            // A fork of it would be a side session too.
            "SESSION_ALREADY_OWNED" => failure.hint("wait until it is closed there"),
            _ => failure,
        }
    })?;
    if json {
        let (state, seq) = match promoted {
            Promoted::Logged { seq } => ("logged", Some(seq)),
            Promoted::Queued => ("queued", None),
            Promoted::Withdrawn => ("withdrawn", None),
        };
        let mut report = json!({"session": id, "state": state});
        if let Some(seq) = seq {
            report["seq"] = json!(seq);
        }
        writeln!(out, "{report}")?;
        return Ok(());
    }
    match promoted {
        Promoted::Logged { seq } => {
            writeln!(out, "an ordinary session from event {seq} on: it may act")?;
        }
        Promoted::Queued => writeln!(
            out,
            "queued: it is told with its next step, and is an ordinary session from then on"
        )?,
        Promoted::Withdrawn => writeln!(
            out,
            "an ordinary session: it had not been told yet that it is a side session"
        )?,
    }
    writeln!(
        out,
        "\ngo on with it: offshoot run --session {} PROMPT",
        text::quoted(id.as_str())
    )?;
    Ok(())
}
