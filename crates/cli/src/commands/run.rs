//! `offshoot run`: one turn, headless.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Context as _;
use offshoot_agent::{
    Agent, AgentConfig, Attached, Cancel, CancelCause, DurableListener, SessionService,
    TurnEndReason, TurnReport, derive_script,
};
use offshoot_model::{Model, ScriptModel, Usage};
use offshoot_session::{Event, EventKind, EventLog, SessionId};
use offshoot_tool_api::ToolRegistry;
use serde::{Deserialize, Serialize};

use crate::args::{Output, Run};
use crate::failure::Failure;
use crate::home::Home;
use crate::providers::{ModelName, Providers};
use crate::source::{Source, read_file};
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
    if args.prompt.trim().is_empty() {
        return Err(
            Failure::new("EMPTY_PROMPT", "the prompt is empty").hint("say what the agent is to do")
        );
    }
    // Whatever can be wrong with the model is said before anything is created, repaired or forked.
    let (model, name) = model(args, home)?;
    let service = home.service();
    let attached = attach(args, home, &service)?;
    let session = attached.session().clone();
    if let Some(cwd) = session.header().cwd.filter(|cwd| !Path::new(cwd).is_dir()) {
        complain(&format!(
            "warning: the session works in `{cwd}`, which is not a directory here"
        ));
    }
    let config = AgentConfig::new(name.provider, name.model);
    let listener: DurableListener = if json {
        Arc::new(print_row)
    } else {
        Arc::new(print_progress)
    };
    let agent = Agent::new(
        attached,
        model,
        tools()?,
        config,
        system::env(),
        Some(listener),
    );
    let reports = block_on(agent, &args.prompt)?;
    let Some(report) = reports.last() else {
        return Err(Failure::new("NO_TURN", "no turn was run"));
    };
    if json {
        serde_json::to_writer(&mut *out, &ResultLine::new(session.id(), report))?;
        writeln!(out)?;
    } else {
        print_result(&session, report, out)?;
    }
    Ok(matches!(
        report.reason,
        TurnEndReason::Completed | TurnEndReason::MaxTokens
    ))
}

fn print_result(
    session: &offshoot_session::LiveSession,
    report: &TurnReport,
    out: &mut dyn Write,
) -> Result<(), Failure> {
    if !report.text.is_empty() {
        writeln!(out, "{}", report.text)?;
    }
    match &report.reason {
        TurnEndReason::Completed => {}
        TurnEndReason::MaxTokens => {
            complain("note: the answer was cut off at the model's output limit")
        }
        TurnEndReason::Error { error } => {
            complain(&format!("error: {} ({})", error.message, error.code))
        }
        other => complain(&format!("the turn ended: {}", other.kind())),
    }
    complain(&format!("session {}", session.id()));
    Ok(())
}

fn block_on(mut agent: Agent, prompt: &str) -> Result<Vec<TurnReport>, Failure> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .context("could not start the async runtime")?;
    runtime.block_on(async {
        let cancel = Cancel::new();
        let interrupt = cancel.clone();
        let watch = tokio::spawn(async move {
            if tokio::signal::ctrl_c().await.is_ok() {
                complain("cancelling; press Ctrl-C again to stop at once");
                interrupt.cancel(CancelCause::User);
            }
            if tokio::signal::ctrl_c().await.is_ok() {
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

fn attach(args: &Run, home: &Home, service: &SessionService) -> Result<Attached, Failure> {
    if let Some(id) = &args.session {
        let opened = service.open(&SessionId::new(id.as_str()))?;
        if let Some(repair) = opened.repair {
            complain(&format!(
                "note: the session had ended in the middle of something: {} torn bytes taken out, {} events added to close it",
                repair.torn_bytes,
                repair.closers.len()
            ));
        }
        return Ok(opened.attached);
    }
    if let Some(source) = &args.fork {
        let read = Source::resolve(home, source).read(home)?;
        let fork = service.prepare_fork(&read, args.at, None)?;
        if let Err(refused) = fork.seed.log().continuable() {
            return Err(Failure::new(
                refused.code(),
                format!("the fork could not go on: {refused}"),
            )
            .hint(refused.nearest_cut.map_or_else(String::new, |cut| {
                format!("fork at {cut} instead: --at {cut}")
            })));
        }
        home.ensure()?;
        return Ok(service.store_fork(&fork)?);
    }
    let cwd = working_directory(args.cwd.as_deref())?;
    home.ensure()?;
    Ok(service.create(Some(cwd))?)
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

fn model(args: &Run, home: &Home) -> Result<(Arc<dyn Model>, ModelName), Failure> {
    if let Some(file) = &args.replay {
        let read = read_file(file)?;
        let name = model_of(&read.stored.log).unwrap_or_else(|| ModelName {
            provider: "replay".to_owned(),
            model: "recorded".to_owned(),
        });
        let recorded = read.stored.balanced(system::env().clock.now());
        let recorded = recorded.map_err(|error| Failure::new("INVALID_SEED", error.to_string()))?;
        let script = derive_script(&recorded)?;
        if script.is_empty() {
            return Err(Failure::new(
                "REPLAY_UNAVAILABLE",
                format!("`{}` holds no answer of a model of its own", file.display()),
            )
            .hint("name a recording in which a model has answered"));
        }
        return Ok((
            Arc::new(ScriptModel::new(name.provider.as_str(), script)),
            name,
        ));
    }
    let providers = Providers::load(home)?;
    let name = providers.choose(args.model.as_deref(), used_model(args, home))?;
    Ok((Arc::new(providers.connect(&name)?), name))
}

/// The model that the session to go on with was using. A session that cannot be read says so where it is opened.
fn used_model(args: &Run, home: &Home) -> Option<ModelName> {
    let source = args.session.as_deref().or(args.fork.as_deref())?;
    let read = Source::resolve(home, source).read(home).ok()?;
    model_of(&read.stored.log)
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
fn print_progress(event: &Arc<Event>) {
    if *event.kind() == EventKind::ToolCall {
        complain(&format!("· {}", text::summary(event)));
    }
}

#[expect(
    clippy::print_stderr,
    reason = "this is a front end: notes go where they do not mix with the answer"
)]
fn complain(text: &str) {
    eprintln!("{text}");
}
