//! The built-in tools, driven by a model over HTTP.

use std::fs;

use offshoot_agent::{AgentSetup, Driver};
use offshoot_test_support::{Reply, ScriptedModelServer};
use offshoot_tool_api::ToolRegistry;

use crate::bench::{Bench, ask, config, over_http};
use crate::support::{endings, results};

#[tokio::test]
async fn a_file_is_written_read_and_shown_by_a_command_in_the_sessions_directory() {
    let bench = Bench::new();
    let place = tempfile::tempdir().unwrap();
    let server = ScriptedModelServer::start([
        Reply::tool_calls([
            ("w", "write", r#"{"file_path":"a.txt","content":"alpha\n"}"#),
            ("r", "read", r#"{"file_path":"a.txt"}"#),
            ("b", "bash", r#"{"command":"cat a.txt; exit 3"}"#),
            ("n", "read", r#"{"file_path":"none.txt"}"#),
        ]),
        Reply::text("Done."),
    ]);
    let mut tools = ToolRegistry::new();
    for tool in offshoot_tools::builtin() {
        tools.register(tool).unwrap();
    }
    let cwd = place.path().canonicalize().unwrap();
    let attached = bench
        .service
        .create(Some(cwd.display().to_string()))
        .unwrap();
    let (model, env) = (over_http(&server), bench.env.clone());
    let mut agent = Driver::new(attached, AgentSetup::new(model, tools, config(), env));
    let reports = ask(&mut agent, "Write, read, show.").await;
    assert_eq!(reports[0].text, "Done.");
    assert_eq!(fs::read_to_string(cwd.join("a.txt")).unwrap(), "alpha\n");
    let log = bench.log(agent.session().id());
    assert_eq!(endings(&log), ["completed"]);
    let results = results(&log);
    let said: Vec<_> = results
        .iter()
        .map(|(call, code, _)| (&**call, &**code))
        .collect();
    assert_eq!(
        said,
        [("w", ""), ("r", ""), ("b", ""), ("n", "FS_NOT_FOUND")]
    );
    assert!(results[1].2.contains("alpha"), "{}", results[1].2);
    assert_eq!(results[2].2, "alpha\n[exit code: 3]");
    server.finish();
}
