//! Every rule with logs that keep it and logs that break it, and the recorded sessions, which keep them all.

mod corpus;
mod requests;
mod spans;
mod turns;

use offshoot_session::{EventLog, SessionHeader};

use super::Relationships;
use crate::admission::Admission;
use crate::admission::tests::events;

/// An open step with a system head: events 0 to 4.
const OPEN: &str = r#"
    turn/start {"turn":1}
    step/start {"turn":1,"step":1}
    system/message {"turn":1,"step":1,"message":{"id":"s","role":"system","source":{"kind":"system-prompt"},"content":[]}}
    user/message {"id":"u","role":"user","source":{"kind":"user"},"content":[{"type":"text","text":"hello"}]}
    request/header {"header":{"config":{"provider":"p","model":"m"}},"reason":"initial"}
"#;

/// What ends it.
const CLOSE: &str = r#"
    step/end {"turn":1,"step":1}
    turn/end {"turn":1,"reason":{"kind":"completed"}}
"#;

fn header() -> SessionHeader {
    SessionHeader::new("me".into(), 0)
}

/// Runs rows through everything that reading a file runs them through.
fn validate_as(header: &SessionHeader, parts: &[&str]) -> Result<EventLog, String> {
    let mut admission = Admission::new();
    let mut relationships = Relationships::new(header);
    let mut log = EventLog::new();
    for event in events(parts) {
        let seq = event.seq();
        admission
            .admit(&event)
            .map_err(|reason| format!("row {seq}: {reason}"))?;
        relationships
            .check(&event, &log)
            .map_err(|reason| format!("{seq}: {reason}"))?;
        log.push(event).map_err(|error| format!("log: {error}"))?;
    }
    relationships
        .finish()
        .map_err(|(seq, reason)| format!("end, {seq}: {reason}"))?;
    Ok(log)
}

#[track_caller]
fn accepts(parts: &[&str]) -> EventLog {
    match validate_as(&header(), parts) {
        Ok(log) => log,
        Err(reason) => panic!("{reason}\n{}", parts.concat()),
    }
}

#[track_caller]
fn refuses(parts: &[&str], reason: &str) {
    let result = validate_as(&header(), parts).map(|log| log.end());
    assert_eq!(result, Err(reason.to_owned()), "{}", parts.concat());
}

#[test]
fn an_empty_log_and_everything_open_at_the_end_are_fine() {
    accepts(&[]);
    let everything_open = [
        OPEN,
        r#"
        command/run {"commandId":"k","name":"n","source":{"kind":"user"}}
        assistant/attempt {"turn":1,"step":1,"stream":[]}
        llm/retry {"retryId":"r","turn":1,"step":1,"provider":"p","policyKey":"k","retry":1}
        llm/retry-started {"retryId":"r","turn":1,"step":1,"retry":1}
        llm/retry {"retryId":"r","turn":1,"step":1,"provider":"p","policyKey":"k","retry":2}
        assistant/message {"turn":1,"step":1,"message":{"id":"a","role":"assistant","source":{"kind":"model","provider":"p","model":"m"},"content":[{"type":"tool-call","id":"c1","name":"ls","arguments":"{}"},{"type":"tool-call","id":"c2","name":"ls","arguments":"{}"}]},"stream":[]}
        tool/call {"turn":1,"step":1,"callId":"c1","name":"ls","arguments":"{}"}
        tool/ptc-dispatch-start {"rootCallId":"c1","parentCallId":"c1","subCallId":"d","name":"ls","arguments":{}}
        compaction/start {"compactionId":"z","turn":1}
        "#,
    ]
    .concat();
    let lines: Vec<&str> = everything_open.lines().collect();
    for end in 0..=lines.len() {
        accepts(&[&lines[..end].join("\n")]);
    }
}

#[test]
fn unknown_types_that_may_be_passed_over_relate_to_nothing() {
    accepts(&[r#"someone/else {"turn":9} | "ignorable":true"#, OPEN]);
}

#[test]
fn a_system_message_cannot_be_added_behind_a_surface_without_head() {
    let system = r#"system/message {"turn":1,"step":1,"message":{"id":"s2","role":"system","source":{"kind":"system-prompt"},"content":[]}}"#;
    accepts(&[OPEN, system]);
    let user = r#"user/message {"id":"u","role":"user","source":{"kind":"user"},"content":[]}"#;
    let start = "turn/start {\"turn\":1}\nstep/start {\"turn\":1,\"step\":1}\n";
    accepts(&[start, user]);
    accepts(&[start, system, "\n", user]);
    let reason =
        "the surface begins with event 2, which is no system message, so none can be added";
    refuses(&[start, user, system], &format!("3: {reason}"));
    let replacing = format!(
        r#"{system} | "surfaceOp":{{"op":"replace","startSeq":2,"endSeq":2}},"sourceEventSeqs":[2]"#
    );
    refuses(&[start, user, &replacing], &format!("3: {reason}"));
    accepts(&[OPEN, &replacing]);
}
