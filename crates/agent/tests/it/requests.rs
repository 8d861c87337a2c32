//! Any request that was ever made is rebuilt from the file alone, byte for byte.

use offshoot_agent::{Cancel, CancelCause, RequestError, build_request, request_at};
use offshoot_model::encode_request;
use offshoot_session::{EventKind, SessionId};
use offshoot_test_support::{Reply, ScriptedModelServer};

use crate::bench::{Bench, DIALECT, ask, call_config, over_http};
use crate::support::first;

fn captured(server: &ScriptedModelServer) -> Vec<String> {
    let requests = server.requests();
    let bodies = requests.iter().map(|request| request.body.to_vec());
    bodies
        .map(|body| String::from_utf8(body).unwrap())
        .collect()
}

/// All requests of a session, from its file.
fn rebuilt(bench: &Bench, id: &SessionId) -> Vec<String> {
    let log = bench.log(id);
    let requests = (1..).map_while(|n| match request_at(&log, id, n) {
        Ok((_, request)) => Some(encode_request(&request, &DIALECT)),
        Err(RequestError::NoSuchRequest { .. }) => None,
        Err(error) => panic!("{error}"),
    });
    requests
        .map(|body| String::from_utf8(body).unwrap())
        .collect()
}

#[tokio::test]
async fn across_steps_turns_failures_cancellation_configuration_restart_and_fork() {
    let mut bench = Bench::new();
    let server = ScriptedModelServer::start([
        Reply::tool_calls([("a", "look", "{}"), ("b", "change", "{}")]),
        Reply::reasoning_then_text("Hm.", "Done."),
        Reply::server_error(),
        Reply::text("Here."),
    ]);
    let mut agent = bench.agent(bench.create(), over_http(&server));
    let id = agent.session().id().clone();
    ask(&mut agent, "Do both.").await;
    ask(&mut agent, "This fails.").await;
    ask(&mut agent, "Again.").await;
    agent.set_model(over_http(&server), call_config("acme-large"));
    let (stalls, gate) = Reply::text("I begin and then").stall_after(2);
    server.push(stalls);
    agent.submit("This is cancelled.").unwrap();
    let cancel = Cancel::new();
    let (done, ()) = tokio::join!(agent.run(&cancel), async {
        gate.reached().await;
        cancel.cancel(CancelCause::User);
    });
    done.unwrap();
    gate.release();
    assert_eq!(rebuilt(&bench, &id), captured(&server));

    drop(agent);
    bench.restart();
    let mut agent = bench.agent(bench.open(&id), over_http(&server));
    server.push(Reply::text("Still here."));
    ask(&mut agent, "Back again.").await;
    let parents = captured(&server);
    assert_eq!(parents.len(), 6);
    assert_eq!(rebuilt(&bench, &id), parents);

    let source = bench.read(&id);
    let cut = first(&source.stored.log, &EventKind::ToolCall).seq();
    let fork = bench
        .service
        .prepare_fork(&source, Some(cut), None)
        .unwrap();
    let child = fork.header.id.clone();
    let mut agent = bench.agent(bench.service.store_fork(&fork).unwrap(), over_http(&server));
    server.push(Reply::tool_calls([("a", "look", "{}")]));
    server.push(Reply::text("The other way."));
    ask(&mut agent, "Otherwise.").await;
    let mut expected = captured(&server);
    expected.drain(1..6);
    assert_eq!(
        rebuilt(&bench, &child),
        expected,
        "the inherited request and its own two"
    );
    assert_eq!(rebuilt(&bench, &id), parents);
    server.finish();
}

#[tokio::test]
async fn a_request_that_was_not_made_is_none() {
    let bench = Bench::new();
    let agent = bench.scripted(Vec::new());
    let (log, id) = (agent.session().log(), agent.session().id());
    for asked in [0, 1] {
        let made = 0;
        assert_eq!(
            request_at(&log, id, asked),
            Err(RequestError::NoSuchRequest { asked, made })
        );
    }
    assert!(matches!(
        build_request(&log, id),
        Err(RequestError::NoHeader(_))
    ));
}
