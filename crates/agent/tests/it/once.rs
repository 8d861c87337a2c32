//! No call runs twice, whatever happens to the process that ran it.

use offshoot_agent::Cancel;
use offshoot_session::{EventKind, SessionId};
use offshoot_test_support::{Reply, ScriptedModelServer};

use crate::bench::{Bench, ask, over_http};
use crate::support::{endings, first, kinds, results};

/// Starts a turn and ends everything but the files while call `a` runs.
async fn crash_in_the_middle_of_a_call(
    bench: &mut Bench,
    server: &ScriptedModelServer,
) -> SessionId {
    let hold = bench.work.hold("a");
    let mut agent = bench.agent(bench.create(), over_http(server));
    let id = agent.session().id().clone();
    agent.submit("Change both.").unwrap();
    let cancel = Cancel::new();
    tokio::select! {
        done = agent.run(&cancel) => panic!("{done:?}"),
        () = hold.started.cancelled() => {}
    }
    bench.crash(agent);
    id
}

#[tokio::test]
async fn neither_the_reopened_parent_nor_its_forks_repeat_a_call() {
    let mut bench = Bench::new();
    let server = ScriptedModelServer::start([Reply::tool_calls([
        ("a", "change", "{}"),
        ("b", "change", "{}"),
    ])]);
    let id = crash_in_the_middle_of_a_call(&mut bench, &server).await;
    let crashed = bench.read(&id);
    let cut = first(&crashed.stored.log, &EventKind::ToolCall).seq();
    assert_eq!(
        crashed.stored.log.end(),
        cut.after(),
        "durable before it ran, and nothing after"
    );

    // A fork of what the crash left, before anybody repaired it.
    let fork = bench
        .service
        .prepare_fork(&crashed, Some(cut), None)
        .unwrap();
    let child = fork.header.id.clone();
    let mut forked = bench.agent(bench.service.store_fork(&fork).unwrap(), over_http(&server));
    server.push(Reply::text("As you like."));
    ask(&mut forked, "Go on there.").await;

    // The parent, repaired.
    let opened = bench.service.open(&id).unwrap();
    let repaired: Vec<_> = opened
        .repair
        .unwrap()
        .closers
        .iter()
        .map(|event| event.kind().to_string())
        .collect();
    assert_eq!(
        repaired,
        ["tool/result", "tool/result", "step/end", "turn/end"]
    );
    let mut agent = bench.agent(opened.attached, over_http(&server));
    server.push(Reply::tool_calls([("c", "change", "{}")]));
    server.push(Reply::text("Now both are done."));
    ask(&mut agent, "Go on.").await;
    let log = bench.log(&id);
    let codes: Vec<_> = results(&log)
        .into_iter()
        .map(|(call, code, _)| (call, code))
        .collect();
    let code = |call: &str, code: &str| (call.to_owned(), code.to_owned());
    assert_eq!(
        codes,
        [
            code("a", "TOOL_OUTCOME_UNKNOWN"),
            code("b", "TOOL_NOT_STARTED"),
            code("c", ""),
        ]
    );
    assert_eq!(endings(&log), ["interrupted", "completed"]);
    assert_eq!(endings(&bench.log(&child)), ["forked", "completed"]);

    // A fork of the repaired parent, and a restart of everything.
    let source = bench.read(&id);
    let fork = bench
        .service
        .prepare_fork(&source, Some(cut), None)
        .unwrap();
    let mut late = bench.agent(bench.service.store_fork(&fork).unwrap(), over_http(&server));
    server.push(Reply::text("Fine."));
    ask(&mut late, "Go on here.").await;
    drop((agent, forked, late));
    bench.restart();
    for session in [id, child] {
        let mut agent = bench.agent(bench.open(&session), over_http(&server));
        server.push(Reply::text("Still here."));
        ask(&mut agent, "Still here?").await;
    }
    let runs: Vec<_> = bench.work.runs().into_iter().collect();
    assert_eq!(runs, [("a".into(), 1), ("c".into(), 1)]);
    server.finish();
}

#[tokio::test]
async fn a_call_that_only_reads_may_be_lost_with_its_start() {
    let mut bench = Bench::new();
    let server = ScriptedModelServer::start([Reply::tool_calls([("a", "look", "{}")])]);
    let id = crash_in_the_middle_of_a_call(&mut bench, &server).await;
    // Nothing had to be durable since the request: the answer is lost too, and the prompt has its turn to itself.
    let log = bench.log(&id);
    assert_eq!(kinds(&log).last(), Some(&"session/title"));
    server.push(Reply::text("Where were we?"));
    let mut agent = bench.agent(bench.open(&id), over_http(&server));
    ask(&mut agent, "Go on.").await;
    assert_eq!(endings(&bench.log(&id)), ["interrupted", "completed"]);
    server.finish();
}
