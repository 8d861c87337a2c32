use offshoot_tool_api::{ToolArguments, ToolError};
use serde::Deserialize;
use serde_json::{Value, json, value::RawValue};

#[derive(Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct Wanted {
    file_path: String,
    #[serde(default)]
    limit: Option<u32>,
    #[serde(default)]
    lines: Vec<Line>,
}

#[derive(Debug, PartialEq, Deserialize)]
struct Line {
    text: String,
}

fn refusal(raw: &str) -> String {
    let error = ToolArguments::from_model(raw)
        .parse::<Wanted>()
        .unwrap_err();
    assert_eq!(
        (error.name(), error.code()),
        ("ToolArgsError", "INVALID_ARGS"),
        "{raw}"
    );
    error.message().to_owned()
}

#[test]
fn no_text_at_all_is_an_empty_object() {
    let arguments = ToolArguments::from_model("");
    assert_eq!(arguments.to_value(), json!({}));
    assert_eq!(arguments.raw(), "");
}

#[test]
fn broken_json_is_kept_as_a_string() {
    let arguments = ToolArguments::from_model(r#"{"file_path": "#);
    assert_eq!(
        arguments.to_value(),
        Value::String(r#"{"file_path": "#.to_owned())
    );
    assert_eq!(arguments.raw(), r#"{"file_path": "#);
}

#[test]
fn fitting_arguments_become_the_tools_own_type() {
    let arguments =
        ToolArguments::from_model(r#"{ "limit": 3, "filePath": "a", "lines": [{"text": "x"}] }"#);
    assert_eq!(
        arguments.parse::<Wanted>(),
        Ok(Wanted {
            file_path: "a".to_owned(),
            limit: Some(3),
            lines: vec![Line {
                text: "x".to_owned()
            }],
        })
    );
}

#[test]
fn a_refusal_names_the_member_that_is_wrong() {
    let cases = [
        ("", "invalid arguments: missing field `filePath`"),
        (
            r#"{"filePath":"a","speed":1}"#,
            "invalid arguments: unknown field `speed`, expected one of `filePath`, `limit`, `lines`",
        ),
        (
            r#"{"filePath":3}"#,
            "invalid argument `filePath`: invalid type: integer `3`, expected a string",
        ),
        (
            r#"{"filePath":"a","limit":-1}"#,
            "invalid argument `limit`: invalid value: integer `-1`, expected u32",
        ),
        (
            r#"{"filePath":"a","lines":[{}]}"#,
            "invalid argument `lines`: missing field `text`",
        ),
        (
            "[]",
            "the arguments must be a JSON object, but they are an array",
        ),
        (
            "null",
            "the arguments must be a JSON object, but they are null",
        ),
        (
            r#""a""#,
            "the arguments must be a JSON object, but they are a string",
        ),
        (
            r#"{"filePath":"#,
            "the arguments are not valid JSON: EOF while parsing a value at line 1 column 12",
        ),
    ];
    for (raw, expected) in cases {
        assert_eq!(refusal(raw), expected, "{raw}");
    }
}

#[test]
fn any_type_can_be_asked_for() {
    #[derive(Debug, PartialEq, Deserialize)]
    struct Wrapper(Value);
    #[derive(Debug, Deserialize)]
    struct Opaque {
        value: Box<RawValue>,
    }
    let arguments = ToolArguments::from_model(r#"{"value":[1,{"b":null}]}"#);
    assert_eq!(
        arguments.parse::<Value>(),
        Ok(json!({"value": [1, {"b": null}]}))
    );
    assert_eq!(
        arguments.parse::<Wrapper>(),
        Ok(Wrapper(json!({"value": [1, {"b": null}]})))
    );
    assert_eq!(
        arguments.parse::<Opaque>().unwrap().value.get(),
        r#"[1,{"b":null}]"#
    );
    assert_eq!(
        arguments.parse::<Vec<u8>>(),
        Err(ToolError::invalid_arguments(
            "invalid arguments: invalid type: map, expected a sequence"
        ))
    );
}
