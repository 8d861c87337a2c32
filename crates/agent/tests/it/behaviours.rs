//! Whatever a provider does, the turn ends in a state that is documented, and the next turn works
//! (`reference/agent.md` §2.9).

use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

use offshoot_agent::{Driver, TurnEndReason};
use offshoot_model::{ProviderConfig, ProviderKind, ProviderModel, RetryPolicy};
use offshoot_session::EventKind;
use offshoot_test_support::{Behaviour, ClosedPort, Endpoint, Reply, ScriptedModelServer};

use crate::bench::{Bench, ask};
use crate::support::{all, endings};

/// One retry, soon; a provider that asks for more than 5 ms is not waited for.
fn model(endpoint: Endpoint, base_url: String, behaviour: Behaviour) -> Arc<ProviderModel> {
    let kind = match endpoint {
        Endpoint::ChatCompletions => ProviderKind::Compatible,
        Endpoint::Messages => ProviderKind::Anthropic,
    };
    let mut config = ProviderConfig::new(kind, "acme", base_url);
    config.retry = RetryPolicy {
        max_retries: Some(1),
        initial: Duration::from_millis(1),
        max: Duration::from_millis(5),
        ..RetryPolicy::default()
    };
    if behaviour == Behaviour::Stall {
        config.idle_timeout = Duration::from_secs(1);
    }
    Arc::new(ProviderModel::new(config).unwrap())
}

/// A turn in which the provider behaves so, once, and the turn after it.
async fn behaving(behaviour: Behaviour, endpoint: Endpoint) -> String {
    let bench = Bench::new();
    let well = || Reply::text("It works.");
    let server = if behaviour == Behaviour::ConnectionRefused {
        None
    } else {
        Some(ScriptedModelServer::start([behaviour.reply(endpoint)]))
    };
    let port = ClosedPort::new();
    let base_url = match &server {
        Some(server) => server.base_url(),
        None => port.base_url(),
    };
    let mut agent = bench.agent(bench.create(), model(endpoint, base_url, behaviour));
    // Whatever is asked for after the first answer is answered well.
    let server = server.inspect(|server| {
        server.push(well());
        server.push(well());
        server.push(well());
    });
    let reports = ask(&mut agent, "Do you work?").await;
    let line = told(&agent, &reports[0].reason, &reports[0].text);
    let server = server.unwrap_or_else(|| port.listen([well()]));
    let reports = ask(&mut agent, "And now?").await;
    assert_eq!(reports[0].text, "It works.", "{behaviour:?} {endpoint:?}");
    assert_eq!(endings(&agent.session().log()).len(), 2);
    drop(server);
    line
}

fn told(agent: &Driver, reason: &TurnEndReason, text: &str) -> String {
    let log = agent.session().log();
    let count = |kind: &EventKind| all(&log, kind).len();
    let how = match reason {
        TurnEndReason::Error { error } => error.code.clone(),
        other => other.kind().to_owned(),
    };
    let (messages, attempts) = (
        count(&EventKind::AssistantMessage),
        count(&EventKind::AssistantAttempt),
    );
    let retries = count(&EventKind::LlmRetry);
    format!("{how}: {messages} messages, {attempts} attempts, {retries} retries, {text:?}")
}

#[tokio::test]
async fn every_behaviour_of_a_provider_ends_in_its_state_and_the_next_turn_works() {
    let mut table = String::new();
    for behaviour in Behaviour::ALL {
        let mut said = Vec::new();
        for endpoint in [Endpoint::ChatCompletions, Endpoint::Messages] {
            said.push(behaving(behaviour, endpoint).await);
        }
        if said[0] == said[1] {
            said.pop();
        }
        writeln!(table, "{behaviour:?} -> {}", said.join(" | Messages: ")).unwrap();
    }
    insta::assert_snapshot!(table, @r#"
    ConnectionRefused -> TRANSPORT: 0 messages, 2 attempts, 1 retries, ""
    ConnectionReset -> completed: 1 messages, 1 attempts, 1 retries, "It works."
    StreamDisconnect -> completed: 1 messages, 1 attempts, 1 retries, "It works."
    PartialDisconnect -> completed: 1 messages, 1 attempts, 1 retries, "It works."
    Stall -> completed: 1 messages, 1 attempts, 1 retries, "It works."
    Empty -> completed: 1 messages, 1 attempts, 1 retries, "It works."
    EmptyBody -> STREAM_CLOSED: 0 messages, 1 attempts, 0 retries, ""
    StreamEof -> STREAM_CLOSED: 0 messages, 1 attempts, 0 retries, ""
    PartialEof -> STREAM_CLOSED: 0 messages, 1 attempts, 0 retries, ""
    MalformedJson -> MALFORMED_RESPONSE: 0 messages, 1 attempts, 0 retries, ""
    MalformedEvent -> MALFORMED_RESPONSE: 0 messages, 1 attempts, 0 retries, ""
    RateLimit -> RATE_LIMIT: 0 messages, 1 attempts, 0 retries, ""
    ServerError -> completed: 1 messages, 1 attempts, 1 retries, "It works."
    ServiceUnavailable -> completed: 1 messages, 1 attempts, 1 retries, "It works."
    AuthError -> AUTH: 0 messages, 1 attempts, 0 retries, ""
    InvalidRequest -> INVALID_REQUEST: 0 messages, 1 attempts, 0 retries, ""
    ContextOverflow -> CONTEXT_WINDOW_EXCEEDED: 0 messages, 1 attempts, 0 retries, ""
    QuotaExceeded -> QUOTA: 0 messages, 1 attempts, 0 retries, ""
    Success -> completed: 1 messages, 0 attempts, 0 retries, "One two three."
    SlowSuccess -> completed: 1 messages, 0 attempts, 0 retries, "One two three."
    ReasoningSuccess -> completed: 1 messages, 0 attempts, 0 retries, "One two three."
    ToolCallSuccess -> completed: 2 messages, 0 attempts, 0 retries, "It works."
    MaxTokens -> max-tokens: 1 messages, 0 attempts, 0 retries, "One two three."
    WrongContentType -> MALFORMED_RESPONSE: 0 messages, 1 attempts, 0 retries, ""
    "#);
}
