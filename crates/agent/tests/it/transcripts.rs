//! Whether any provider would refuse a request.

use offshoot_agent::{count_requests, request_at};
use offshoot_model::{LateInstructions, MessagesDialect, ModelRequest, Pictures, Protocol, Role};
use offshoot_session::{EventLog, SessionId};
use offshoot_test_support::transcript::{
    Rules, SystemMessages, Violation, messages, validate, validate_with,
};
use serde_json::Value;

use crate::bench::DIALECT;

/// What is wrong with a request, however the provider is spoken to.
pub(crate) fn violations(request: &ModelRequest) -> Vec<String> {
    let body = |protocol: Protocol| -> Value {
        let bytes = protocol.encode(request, Pictures::Named).unwrap();
        serde_json::from_slice(&bytes).unwrap()
    };
    let anywhere = Rules {
        system_messages: SystemMessages::Anywhere,
    };
    let mut late = validate_with(
        &body(Protocol::ChatCompletions(DIALECT))["messages"],
        anywhere,
    );
    // A route that is told of tools in the middle answers the message before that.
    let last = request.messages.last();
    let told = last.is_some_and(|last| last.role == Role::Developer);
    late.retain(|violation| !(told && matches!(violation, Violation::NothingToAnswer { .. })));
    let mut strict = DIALECT;
    strict.late_instructions = LateInstructions::User;
    let early = validate(&body(Protocol::ChatCompletions(strict))["messages"]);
    let anthropic = body(Protocol::Messages(MessagesDialect::anthropic()));
    let late = late.iter().chain(&early).map(ToString::to_string);
    let messages = messages::validate(&anthropic);
    late.chain(messages.iter().map(ToString::to_string))
        .collect()
}

/// No provider refuses a request that this log tells of. Returns them in their order.
pub(crate) fn acceptable_requests(log: &EventLog, id: &SessionId) -> Vec<ModelRequest> {
    let numbers = 1..=count_requests(log);
    let requests = numbers.map(|number| request_at(log, id, number).unwrap().1);
    requests
        .inspect(|request| assert_eq!(violations(request), Vec::<String>::new()))
        .collect()
}
