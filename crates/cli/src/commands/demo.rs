//! `offshoot demo`: the main job on a recorded conversation, through the same code as the other commands.

use std::io::Write;
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::Context as _;
use offshoot_agent::{
    AgentConfig, AgentSetup, Cancel, Driver, TurnReport, count_requests, script_from,
};
use offshoot_format::{Container, decode_as};
use offshoot_model::{Attempt, Chunk, ContentBlock, FinishReason, ScriptModel};
use offshoot_session::{Event, EventKind, LiveSession, Seq};
use offshoot_store::{Persistence as _, Prefix, ReadSession};
use offshoot_tool_api::ToolRegistry;
use serde_json::json;
use serde_json::value::RawValue;

use crate::agents::model_of;
use crate::args::Demo;
use crate::commands::{fork, ls};
use crate::config::ModelName;
use crate::failure::Failure;
use crate::headless::ResultLine;
use crate::home::Home;
use crate::source::read_file;
use crate::text::quoted;
use crate::{system, text};

/// A conversation that our own driver has recorded against a scripted server: a step with two calls.
const RECORDING: &[u8] = include_bytes!("../../assets/demo.jsonl");

const PROMPT: &str = "Go on from here.";

pub(crate) fn run(
    args: &Demo,
    home: Option<&Home>,
    json: bool,
    out: &mut dyn Write,
) -> Result<(), Failure> {
    let source = source(args)?;
    let cut = first_call(&source)?;
    let home = match home {
        Some(home) => home.clone(),
        None => temporary_home()?,
    };
    home.ensure()?;
    keep(&source, &home)?;

    let service = home.service();
    let prepared = service.prepare_fork(&source, Some(cut), None)?;
    let attached = service.store_fork(&prepared)?;
    if !json {
        before(&source, cut, &home, out)?;
        fork::Forked::from(&prepared).print_closers(out)?;
        writeln!(
            out,
            "\nThe parent may have gone on to run these calls. The fork says so instead of inventing a result.\n"
        )?;
        out.flush()?;
    }

    let child = attached.session().clone();
    let inherited = child.log().end();
    let name = model_of(&source.stored.log).unwrap_or_else(|| ModelName {
        provider: "replay".to_owned(),
        model: "recorded".to_owned(),
    });
    let model = ScriptModel::new(name.provider.as_str(), script(&source, cut)?);
    let config = AgentConfig::new(name.provider, name.model);
    // No tools: a recording is somebody else's, and nothing in it may run here.
    let mut agent = Driver::new(
        attached,
        AgentSetup::new(Arc::new(model), ToolRegistry::new(), config, system::env()),
    );
    let report = go_on(&mut agent)?;
    drop(agent);

    if json {
        let rows = child.log();
        let turn = rows
            .events_from(inherited)
            .map(|event| serde_json::from_str(event.text()));
        let turn: Vec<&RawValue> = turn.collect::<Result<_, _>>()?;
        let value = json!({
            "home": home.path(),
            "parent": source.stored.header.id,
            "cut": cut,
            "fork": fork::Forked::from(&prepared).report()?,
            "turn": turn,
            "result": ResultLine::new(child.id(), &report),
        });
        writeln!(out, "{value}")?;
        return Ok(());
    }
    writeln!(
        out,
        "3. The fork goes on. A replay model answers in place of a real one: what the recorded model said next.\n"
    )?;
    for event in child.log().events_from(inherited) {
        writeln!(out, "{}", text::ledger_line(event))?;
    }
    writeln!(out, "\n4. Both branches are kept.\n")?;
    let family = ls::family(ls::rows(&home)?, source.stored.header.id.as_str());
    ls::tree(&family, out)?;
    after(&source, &child, &home, out)
}

fn source(args: &Demo) -> Result<ReadSession, Failure> {
    if let Some(file) = &args.from {
        return Ok(read_file(file)?);
    }
    let stored =
        decode_as(Container::Raw, RECORDING).context("the bundled recording is damaged")?;
    Ok(ReadSession {
        stored,
        path: PathBuf::from("the bundled recording"),
        modified: 0,
        settled: None,
        stray: None,
        shareable: Prefix::default(),
    })
}

fn first_call(source: &ReadSession) -> Result<Seq, Failure> {
    let mut events = source.stored.log.events().map(|event| &**event);
    events
        .find(|event| *event.kind() == EventKind::ToolCall)
        .map(Event::seq)
        .ok_or_else(|| {
            Failure::new(
                "NO_TOOL_CALL",
                format!("`{}` has no tool call to cut at", source.path.display()),
            )
            .hint("name a session in which a tool was called, or leave --from out")
        })
}

fn temporary_home() -> Result<Home, Failure> {
    let dir = tempfile::Builder::new().prefix("offshoot-demo-").tempdir();
    let dir = dir
        .context("could not create a temporary directory")?
        .keep();
    // Inside, so that it is made the way a home is made.
    Ok(Home::resolve(Some(dir.join("home")))?)
}

/// Stores the recording in the home, unless an earlier demo has.
fn keep(source: &ReadSession, home: &Home) -> Result<(), Failure> {
    let store = home.store();
    let id = &source.stored.header.id;
    if store.locate(id).is_ok() {
        let kept = store.read(id)?.stored.log;
        let same =
            kept.end() == source.stored.log.end() && kept.events().eq(source.stored.log.events());
        return if same {
            Ok(())
        } else {
            Err(Failure::new(
                "SESSION_ALREADY_EXISTS",
                format!("the home has another session with the id `{id}`"),
            )
            .hint("leave --home out: the demo then makes a home of its own"))
        };
    }
    let mut writer = store.create(&source.stored.header)?;
    let events: Vec<_> = source.stored.log.events().cloned().collect();
    Ok(writer.append(&events)?)
}

/// What the recorded model said behind the cut, as far as it asked for no tool.
fn script(source: &ReadSession, cut: Seq) -> Result<Vec<Attempt>, Failure> {
    let asks = |chunk: &Chunk| {
        matches!(
            chunk,
            Chunk::BlockEnd {
                block: ContentBlock::ToolCall { .. },
                ..
            }
        )
    };
    let speaks = |attempt: &Attempt| match attempt {
        Attempt::Chunks(chunks) => !chunks.iter().any(asks),
        _ => false,
    };
    let recorded = script_from(&source.stored.log, cut.after())?;
    let next = recorded.into_iter().find(speaks);
    Ok(vec![next.unwrap_or_else(|| {
        let answer =
            "The recorded model said no more behind this cut; this sentence is the demo's own.";
        Attempt::Chunks(vec![
            Chunk::BlockStart {
                index: 0,
                block_type: "text".into(),
            },
            Chunk::BlockEnd {
                index: 0,
                block: ContentBlock::text(answer),
            },
            Chunk::finish(FinishReason::Stop),
        ])
    })])
}

fn go_on(agent: &mut Driver) -> Result<TurnReport, Failure> {
    agent.submit(PROMPT)?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build();
    let runtime = runtime.context("could not start the async runtime")?;
    let reports = runtime.block_on(agent.run(&Cancel::new()))?;
    reports
        .into_iter()
        .last()
        .ok_or_else(|| Failure::new("NO_TURN", "no turn was run"))
}

fn before(source: &ReadSession, cut: Seq, home: &Home, out: &mut dyn Write) -> Result<(), Failure> {
    writeln!(
        out,
        "offshoot demo: a recorded conversation, in the home `{}`\n",
        home.path().display()
    )?;
    writeln!(
        out,
        "1. Every conversation is a log of events. This is the recorded one, {}.\n",
        source.stored.header.id
    )?;
    for event in source.stored.log.events() {
        let here = if event.seq() == cut {
            "  <- fork here"
        } else {
            ""
        };
        writeln!(out, "{}{here}", text::ledger_line(event))?;
    }
    writeln!(
        out,
        "\n2. Fork it at event {cut}, in the middle of a tool call. These events close what the cut left open.\n"
    )?;
    Ok(())
}

fn after(
    source: &ReadSession,
    child: &LiveSession,
    home: &Home,
    out: &mut dyn Write,
) -> Result<(), Failure> {
    // The way this program was called works again: it may not be on anybody's path.
    let offshoot = std::env::args()
        .next()
        .map_or_else(|| "offshoot".to_owned(), |name| quoted(&name));
    let (parent, id) = (
        quoted(source.stored.header.id.as_str()),
        quoted(child.id().as_str()),
    );
    let requests = count_requests(&child.log());
    let middle = source.stored.log.end().get() / 2;
    writeln!(out, "\nTry next:\n")?;
    writeln!(
        out,
        "  export OFFSHOOT_HOME={}",
        quoted(&home.path().display().to_string())
    )?;
    for (command, what) in [
        (
            format!("show {id} --messages"),
            "what the model was told in the fork",
        ),
        (
            format!("show {id} --request {requests}"),
            "the fork's request, byte for byte",
        ),
        (
            format!("fork {parent} --at {middle}"),
            "any other event will do",
        ),
        ("ls --tree".to_owned(), "every branch"),
    ] {
        writeln!(out, "  {offshoot} {command}    # {what}")?;
    }
    writeln!(
        out,
        "\nFor real, with DEEPSEEK_API_KEY or OPENAI_API_KEY set:\n"
    )?;
    writeln!(out, "  {offshoot} run \"what is in this directory?\"")?;
    writeln!(out, "\nThe home of this demo stays until you delete it.")?;
    Ok(())
}
