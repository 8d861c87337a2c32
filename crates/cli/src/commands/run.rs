//! `offshoot run`: one turn, headless.

use std::io::{IsTerminal as _, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Context as _;
use offshoot_agent::{
    AgentConfig, AgentSetup, Attached, Cancel, CancelCause, Driver, DurableListener,
    SessionService, TurnEndReason, TurnReport, script_from,
};
use offshoot_model::{Model, ScriptModel, Usage};
use offshoot_session::{Event, EventKind, EventLog, LiveSession, SessionId};
use offshoot_store::{Persistence as _, ReadSession, Repair};
use offshoot_tool_api::ToolRegistry;
use serde::{Deserialize, Serialize};

use crate::args::{Output, Run};
use crate::commands::fork;
use crate::failure::Failure;
use crate::home::Home;
use crate::notes::Notes;
use crate::providers::{ModelName, Providers};
use crate::source::Source;
use crate::{system, text};

/// The last line of `run --output json`. Stable: see `docs/cli.md`.
#[derive(Debug, Serialize)]
pub(crate) struct ResultLine<'a> {
    r#type: &'static str,
    session: &'a str,
    turn: u64,
    reason: &'a TurnEndReason,
    text: &'a str,
    usage: Option<Usage>,
}

impl<'a> ResultLine<'a> {
    pub(crate) fn new(session: &'a SessionId, report: &'a TurnReport) -> Self {
        let TurnReport {
            turn,
            reason,
            text,
            usage,
        } = report;
        Self {
            r#type: "result",
            session: session.as_str(),
            turn: *turn,
            reason,
            text,
            usage: *usage,
        }
    }
}

/// Runs the turn; `Ok(false)` if it did not complete.
pub(crate) fn run(
    args: &Run,
    home: &Home,
    json: bool,
    out: &mut dyn Write,
) -> Result<bool, Failure> {
    let json = json || args.output == Some(Output::Json);
    let notes = Notes::new(json);
    home.check()?;
    // Whatever can be wrong is said before anything is created, repaired or forked.
    let source = source(args, home, notes)?;
    let Called {
        model,
        name,
        address,
    } = model(args, home, source.as_ref())?;
    let service = home.service().on_unstored(notes.on_unstored());
    let attached = attach(args, home, &service, source, notes)?;
    let session = attached.session().clone();
    // First, so that it is known whatever happens to the turn.
    notes.say(&format!("session {}", session.id()));
    if let Some(cwd) = session.header().cwd.filter(|cwd| !Path::new(cwd).is_dir()) {
        notes.say(&format!(
            "warning: the session works in `{cwd}`, which is not a directory here"
        ));
    }
    let config = AgentConfig::new(name.provider, name.model);
    let listener: DurableListener = if json {
        Arc::new(print_row)
    } else {
        Arc::new(move |event| print_progress(event, notes))
    };
    let mut setup = AgentSetup::new(model, tools()?, config, system::env());
    setup.on_durable = Some(listener);
    let agent = Driver::new(attached, setup);
    let reports = block_on(agent, &args.prompt, notes)?;
    let Some(report) = reports.last() else {
        return Err(Failure::new("NO_TURN", "no turn was run"));
    };
    let completed = matches!(
        report.reason,
        TurnEndReason::Completed | TurnEndReason::MaxTokens
    );
    let printed = if json {
        print_result_line(&session, report, out)
    } else {
        print_result(&session, report, address.as_deref(), notes, out)
    };
    match printed {
        // Nobody reads the answer, but it is in the log, and somebody may look at the exit code.
        Err(failure) if failure.broken_pipe => Ok(completed),
        printed => printed.map(|()| completed),
    }
}

fn print_result_line(
    session: &LiveSession,
    report: &TurnReport,
    out: &mut dyn Write,
) -> Result<(), Failure> {
    serde_json::to_writer(&mut *out, &ResultLine::new(session.id(), report))?;
    writeln!(out)?;
    Ok(out.flush()?)
}

fn print_result(
    session: &LiveSession,
    report: &TurnReport,
    address: Option<&str>,
    notes: Notes,
    out: &mut dyn Write,
) -> Result<(), Failure> {
    if !report.text.is_empty() {
        let text = if std::io::stdout().is_terminal() {
            &text::printable(&report.text)
        } else {
            &report.text
        };
        writeln!(out, "{text}")?;
        out.flush()?;
    }
    match &report.reason {
        TurnEndReason::Completed => return Ok(()),
        TurnEndReason::MaxTokens => {
            notes.say("note: the answer was cut off at the model's output limit");
            return Ok(());
        }
        TurnEndReason::Error { error } => {
            notes.say(&format!("error: {} ({})", error.message, error.code));
            if let Some(address) = address {
                notes.say(&format!("hint: {address}"));
            }
        }
        other => notes.say(&format!("the turn ended: {}", other.kind())),
    }
    notes.say(&format!(
        "hint: what was said so far is kept; go on with: offshoot run --session {} PROMPT",
        text::quoted(session.id().as_str())
    ));
    Ok(())
}

fn block_on(mut agent: Driver, prompt: &str, notes: Notes) -> Result<Vec<TurnReport>, Failure> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .context("could not start the async runtime")?;
    runtime.block_on(async {
        let cancel = Cancel::new();
        let interrupt = cancel.clone();
        let watch = tokio::spawn(async move {
            if asked_to_stop().await.is_ok() {
                notes.say("cancelling; press Ctrl-C again to stop at once");
                interrupt.cancel(CancelCause::User);
            }
            if asked_to_stop().await.is_ok() {
                // The log is repaired when the session is opened next: nothing that was acknowledged is lost by this.
                #[expect(
                    clippy::exit,
                    reason = "a second Ctrl-C must end the process whatever hangs"
                )]
                std::process::exit(130);
            }
        });
        agent.submit(prompt)?;
        let reports = agent.run(&cancel).await;
        watch.abort();
        Ok(reports?)
    })
}

/// Waits for Ctrl-C, or for what a supervisor sends in its place.
async fn asked_to_stop() -> std::io::Result<()> {
    #[cfg(unix)]
    {
        use tokio::signal::unix::{SignalKind, signal};
        let mut terminate = signal(SignalKind::terminate())?;
        tokio::select! {
            stopped = tokio::signal::ctrl_c() => stopped,
            _ = terminate.recv() => Ok(()),
        }
    }
    #[cfg(not(unix))]
    tokio::signal::ctrl_c().await
}

/// The session to go on with or to fork, as it is stored now.
fn source(args: &Run, home: &Home, notes: Notes) -> Result<Option<ReadSession>, Failure> {
    if let Some(id) = &args.session {
        let id = SessionId::new(id.as_str());
        return Ok(Some(home.store().read(&id)?));
    }
    let Some(named) = &args.fork else {
        return Ok(None);
    };
    let source = Source::resolve(home, named);
    source.warn_if_ambiguous(notes);
    let read = source.read(home)?;
    notes.say_all(text::journal_notes(&read));
    Ok(Some(read))
}

fn attach(
    args: &Run,
    home: &Home,
    service: &SessionService,
    source: Option<ReadSession>,
    notes: Notes,
) -> Result<Attached, Failure> {
    if let Some(id) = &args.session {
        let opened = service.open(&SessionId::new(id.as_str()))?;
        if let Some(repair) = opened.repair {
            tell_repair(&repair, notes);
        }
        return Ok(opened.attached);
    }
    if let (Some(named), Some(read)) = (&args.fork, source) {
        let fork = fork::prepare(service, &read, named, args.at, None)?;
        if let Err(refused) = fork.seed.log().continuable() {
            let hint = refused.nearest_cut.map_or_else(String::new, |cut| {
                format!("fork at {cut} instead, where its step is still open: --at {cut}")
            });
            let message = format!("the fork could not go on: {refused}");
            return Err(Failure::new(refused.code(), message).hint(hint));
        }
        home.ensure()?;
        return Ok(service.store_fork(&fork)?);
    }
    let cwd = working_directory(args.cwd.as_deref())?;
    home.ensure()?;
    Ok(service.create(Some(cwd))?)
}

fn tell_repair(repair: &Repair, notes: Notes) {
    if let Some(stray) = &repair.stray {
        notes.say(&format!("note: {stray}"));
    }
    if let Some(done) = repaired(repair) {
        notes.say(&format!("note: {done}"));
    }
}

fn repaired(repair: &Repair) -> Option<String> {
    let mut done = Vec::new();
    if repair.torn_bytes > 0 {
        done.push(format!("{} torn bytes were taken out", repair.torn_bytes));
    }
    if repair.recovered > 0 {
        done.push(format!(
            "{} whole events were saved from them",
            repair.recovered
        ));
    }
    if let Some(seq) = repair.settled {
        done.push(format!("event {seq} keeps the answer that was coming in"));
    }
    if !repair.closers.is_empty() {
        done.push(format!(
            "{} events close its open turn",
            repair.closers.len()
        ));
    }
    if done.is_empty() {
        return None;
    }
    Some(format!(
        "the session had ended in the middle of something; {}",
        done.join(", ")
    ))
}

fn working_directory(asked: Option<&Path>) -> Result<String, Failure> {
    let dir = match asked {
        Some(dir) => dir.to_owned(),
        None => std::env::current_dir().context("could not find the current directory")?,
    };
    let no_directory = |reason: String| {
        Failure::new(
            "NO_SUCH_DIRECTORY",
            format!("cannot work in `{}`: {reason}", dir.display()),
        )
        .hint("name a directory that is there with --cwd")
    };
    let absolute: PathBuf = dir
        .canonicalize()
        .map_err(|error| no_directory(error.to_string()))?;
    if !absolute.is_dir() {
        return Err(no_directory("it is not a directory".to_owned()));
    }
    match absolute.into_os_string().into_string() {
        Ok(path) => Ok(path),
        Err(_) => Err(no_directory(
            "its path is not UTF-8, which a session cannot store".to_owned(),
        )),
    }
}

/// What answers.
struct Called {
    model: Arc<dyn Model>,
    name: ModelName,
    /// Where it is, for whoever has to find out why it does not answer.
    address: Option<String>,
}

fn model(args: &Run, home: &Home, source: Option<&ReadSession>) -> Result<Called, Failure> {
    if let Some(named) = &args.replay {
        return replay(&Source::resolve(home, named).read(home)?);
    }
    let providers = Providers::load(home)?;
    let used = source.and_then(|read| model_of(&read.stored.log));
    let name = providers.choose(args.model.as_ref(), used)?;
    Ok(Called {
        model: Arc::new(providers.connect(&name)?),
        address: Some(providers.address(&name)?),
        name,
    })
}

fn replay(read: &ReadSession) -> Result<Called, Failure> {
    let name = model_of(&read.stored.log).unwrap_or_else(|| ModelName {
        provider: "replay".to_owned(),
        model: "recorded".to_owned(),
    });
    // What was inherited is the parent's to replay.
    let script = script_from(&read.stored.log, read.stored.inherited)
        .map_err(|error| Failure::from(error).at(&read.path))?;
    if script.is_empty() {
        return Err(Failure::new(
            "REPLAY_UNAVAILABLE",
            "it holds no answer of a model of its own",
        )
        .at(&read.path)
        .hint("name a recording in which a model has answered"));
    }
    Ok(Called {
        model: Arc::new(ScriptModel::new(name.provider.as_str(), script)),
        name,
        address: None,
    })
}

pub(crate) fn model_of(log: &EventLog) -> Option<ModelName> {
    #[derive(Deserialize)]
    struct Stored {
        header: Header,
    }
    #[derive(Deserialize)]
    struct Header {
        config: Config,
    }
    #[derive(Deserialize)]
    struct Config {
        provider: String,
        model: String,
    }
    let Stored {
        header: Header { config },
    } = log.request_header()?.parse().ok()?;
    Some(ModelName {
        provider: config.provider,
        model: config.model,
    })
}

fn tools() -> Result<ToolRegistry, Failure> {
    let mut tools = ToolRegistry::new();
    for tool in offshoot_tools::builtin() {
        tools
            .register(tool)
            .map_err(|error| Failure::new("INTERNAL", error.to_string()))?;
    }
    Ok(tools)
}

/// One event as it is stored, as soon as it is durable.
fn print_row(event: &Arc<Event>) {
    let mut out = std::io::stdout().lock();
    // A reader who has gone away does not stop the turn: what it does is in the log.
    drop(writeln!(out, "{}", event.text()).and_then(|()| out.flush()));
}

/// What happens, for a person who waits.
fn print_progress(event: &Event, notes: Notes) {
    if *event.kind() == EventKind::ToolCall {
        notes.say(&format!("· {}", text::summary(event)));
    }
}
