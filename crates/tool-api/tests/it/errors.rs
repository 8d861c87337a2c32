use std::time::Duration;

use offshoot_tool_api::{PermissionAnswer, ToolError};
use serde_json::value::RawValue;

#[test]
fn known_errors_have_the_names_and_codes_of_the_log() {
    let cases = [
        (
            ToolError::unknown_tool("x"),
            (
                "ToolNotFoundError",
                "UNKNOWN_TOOL",
                "Error: there is no tool named `x`",
            ),
        ),
        (
            ToolError::invalid_arguments("no"),
            ("ToolArgsError", "INVALID_ARGS", "Error: no"),
        ),
        (
            ToolError::invalid_output("no"),
            ("ToolOutputError", "INVALID_TOOL_OUTPUT", "Error: no"),
        ),
        (
            ToolError::aborted(),
            ("AbortError", "ABORTED", "Error: tool call aborted"),
        ),
        (
            ToolError::aborted_before_dispatch(),
            (
                "AbortError",
                "ABORTED_BEFORE_DISPATCH",
                "Error: tool call aborted before dispatch",
            ),
        ),
        (
            ToolError::timed_out(Duration::from_millis(1500)),
            (
                "ToolTimeoutError",
                "TOOL_TIMEOUT",
                "Error: tool call timed out after 1500ms",
            ),
        ),
        (
            ToolError::aborted().with_details("so far: x"),
            (
                "AbortError",
                "ABORTED",
                "Error: tool call aborted\nso far: x",
            ),
        ),
        (
            ToolError::new("FsError", format!("FS_{}", "X"), "own"),
            ("FsError", "FS_X", "Error: own"),
        ),
    ];
    for (error, (name, code, text)) in cases {
        assert_eq!(
            (error.name(), error.code(), error.model_text().as_str()),
            (name, code, text)
        );
    }
}

#[test]
fn answers_are_logged_by_the_names_of_the_format() {
    let answers = [
        PermissionAnswer::AllowedOnce,
        PermissionAnswer::AllowedForSession,
        PermissionAnswer::Rejected,
        PermissionAnswer::Cancelled,
        PermissionAnswer::Unavailable,
    ];
    assert_eq!(
        answers.map(PermissionAnswer::outcome),
        [
            "allowed-once",
            "allowed-once",
            "rejected",
            "cancelled",
            "unavailable"
        ]
    );
}

#[test]
fn a_denial_is_a_reason_and_nothing_for_machines() {
    let denied = ToolError::denied("not today");
    assert!(denied.is_denial());
    assert_eq!(
        (denied.name(), denied.code(), &*denied.model_text()),
        ("", "", "Error: not today")
    );
    assert!(!ToolError::aborted().is_denial());
}

#[test]
fn facts_for_front_ends_are_part_of_an_error_and_not_of_what_the_model_reads() {
    let facts = |text: &str| RawValue::from_string(text.to_owned()).unwrap();
    let plain = ToolError::new("SomeError", "SOME", "it went wrong");
    let told = plain.clone().with_meta(facts(r#"{"a":1}"#));
    assert_eq!(told.meta().unwrap().get(), r#"{"a":1}"#);
    assert_eq!(told.model_text(), plain.model_text());
    assert_ne!(told, plain);
    assert_eq!(told, plain.clone().with_meta(facts(r#"{"a":1}"#)));
    assert_ne!(told, plain.with_meta(facts(r#"{"a":2}"#)));
}
