//! The bundled recording is what our own driver writes against the scripted server, with its real tools.
//!
//! With `OFFSHOOT_UPDATE_FIXTURES=1` the test writes the file anew instead of comparing it.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

use offshoot_agent::{
    AgentConfig, AgentSetup, Cancel, Clock, Driver, Env, IdSource, SessionService,
};
use offshoot_format::Container;
use offshoot_model::{ProviderConfig, ProviderKind, ProviderModel};
use offshoot_store::JsonlStore;
use offshoot_test_support::{Reply, ScriptedModelServer, TestHome};
use offshoot_tool_api::ToolRegistry;
use offshoot_tools::sandbox::SandboxLauncher;
use offshoot_tools::{ShellOptions, ToolSet};

use crate::support::BINARY;

/// 2026-11-02 09:00:00 UTC, and a second more with every question.
#[derive(Debug)]
struct SteppingClock(AtomicI64);

impl Clock for SteppingClock {
    fn now(&self) -> i64 {
        self.0.fetch_add(1_000, Ordering::Relaxed)
    }
}

#[derive(Debug)]
struct NumberedIds(AtomicU64);

impl IdSource for NumberedIds {
    fn fresh(&self) -> String {
        match self.0.fetch_add(1, Ordering::Relaxed) {
            0 => "demo".to_owned(),
            n => format!("message-{n}"),
        }
    }
}

#[test]
fn the_bundled_recording_is_what_the_driver_writes() {
    let home = TestHome::new();
    let work = home.path().join("work");
    std::fs::create_dir_all(&work).unwrap();
    let recorded = record(&home, &work);
    // Where it ran is the machine's business, not the recording's.
    let recorded = recorded.replace(work.to_str().unwrap(), "/work/demo");

    let asset = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("assets/demo.jsonl");
    if std::env::var_os("OFFSHOOT_UPDATE_FIXTURES").is_some() {
        #[expect(
            clippy::disallowed_methods,
            reason = "a fixture is no log: git keeps its past"
        )]
        std::fs::write(&asset, &recorded).unwrap();
    }
    let bundled = std::fs::read_to_string(&asset).unwrap();
    assert!(
        bundled == recorded,
        "the driver writes another conversation than the bundled one; if that is meant, run this test with \
         OFFSHOOT_UPDATE_FIXTURES=1\n\nbundled:\n{bundled}\nnow:\n{recorded}"
    );
}

fn record(home: &TestHome, work: &std::path::Path) -> String {
    let server = ScriptedModelServer::start([
        Reply::text_then_tool_calls(
            "I will write the file and then count its lines.",
            [
                (
                    "call_write",
                    "write",
                    r##"{"file_path":"CHANGES.md","content":"# Changes\n\n- forks at any event\n"}"##,
                ),
                (
                    "call_count",
                    "bash",
                    r#"{"command":"wc -l < CHANGES.md","description":"Count the lines"}"#,
                ),
            ],
        ),
        Reply::text("`CHANGES.md` should have 3 lines now; `wc -l CHANGES.md` tells for sure."),
    ]);
    let env = Env {
        clock: Arc::new(SteppingClock(AtomicI64::new(1_793_610_000_000))),
        ids: Arc::new(NumberedIds(AtomicU64::new(0))),
    };
    let store = Arc::new(JsonlStore::new(
        home.path().join("sessions"),
        Container::Raw,
    ));
    let service = SessionService::new(Arc::clone(&store) as _, env.clone());
    let model = ProviderModel::new(ProviderConfig::new(
        ProviderKind::Compatible,
        "scripted",
        server.base_url(),
    ))
    .unwrap();
    let mut tools = ToolRegistry::new();
    let shell = ShellOptions {
        launcher: Some(SandboxLauncher::new(BINARY, [SandboxLauncher::COMMAND])),
        ..ShellOptions::default()
    };
    for tool in ToolSet::default().with_shell(shell).tools() {
        tools.register(tool).unwrap();
    }
    let attached = service
        .create(Some(work.to_str().unwrap().to_owned()))
        .unwrap();
    let id = attached.session().id().clone();
    let config = AgentConfig::new("scripted", "scripted-1");
    let mut agent = Driver::new(
        attached,
        AgentSetup::new(Arc::new(model), tools, config, env),
    );
    agent
        .submit("Start a CHANGES.md that says forks work at any event, and tell me how long it is.")
        .unwrap();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .unwrap();
    let reports = runtime.block_on(agent.run(&Cancel::new())).unwrap();
    assert_eq!(
        reports.last().unwrap().text,
        "`CHANGES.md` should have 3 lines now; `wc -l CHANGES.md` tells for sure."
    );
    drop(agent);
    server.finish();
    std::fs::read_to_string(store.locate(&id).unwrap()).unwrap()
}
