use std::sync::Arc;

use async_trait::async_trait;
use offshoot_tool_api::{
    Concurrency, Effects, RegistryError, SpecError, Tool, ToolArguments, ToolContext, ToolError,
    ToolOutput, ToolRegistry, ToolSpec,
};
use serde_json::value::RawValue;

#[derive(Debug)]
struct Named(ToolSpec);

#[async_trait]
impl Tool for Named {
    fn spec(&self) -> &ToolSpec {
        &self.0
    }

    fn effects(&self) -> Effects {
        Effects::ReadOnly
    }

    async fn execute(
        &self,
        _arguments: ToolArguments,
        cx: &ToolContext,
    ) -> Result<ToolOutput, ToolError> {
        Ok(ToolOutput::text(&cx.call_id)
            .with_meta(RawValue::from_string("{ }".to_owned()).unwrap())
            .concluding_turn())
    }
}

fn named(name: &str) -> Arc<dyn Tool> {
    Arc::new(Named(
        ToolSpec::new(name, format!("does {name}"), "{ }").unwrap(),
    ))
}

fn names(registry: &ToolRegistry) -> Vec<&str> {
    registry.specs().map(|spec| spec.name.as_str()).collect()
}

#[test]
fn tools_keep_the_order_of_their_registration() {
    let mut registry = ToolRegistry::new();
    for name in ["write", "bash", "read"] {
        registry.register(named(name)).unwrap();
    }
    assert_eq!(names(&registry), ["write", "bash", "read"]);
    assert_eq!(
        registry.get("bash").unwrap().spec().description,
        "does bash"
    );
    assert!(registry.get("Bash").is_none());
    assert_eq!(registry.iter().len(), 3);
}

#[test]
fn a_refused_tool_changes_nothing() {
    let mut registry = ToolRegistry::new();
    registry.register(named("read")).unwrap();
    assert_eq!(
        registry.register(named("read")),
        Err(RegistryError::DuplicateName {
            name: "read".to_owned()
        })
    );
    assert_eq!(registry.register(named("")), Err(RegistryError::EmptyName));
    assert_eq!(names(&registry), ["read"]);
}

#[test]
fn a_tool_is_exclusive_and_has_no_time_limit_unless_it_says_otherwise() {
    let tool = named("read");
    assert_eq!(
        tool.concurrency(&ToolArguments::from_model("")),
        Concurrency::Exclusive
    );
    assert_eq!(tool.timeout(), None);
}

#[tokio::test]
async fn a_tool_runs_behind_the_trait_object() {
    let output = named("read")
        .execute(
            ToolArguments::from_model(""),
            &ToolContext::new("c1").in_directory("/"),
        )
        .await;
    let expected = ToolOutput {
        text: "c1".to_owned(),
        meta: Some(RawValue::from_string("{ }".to_owned()).unwrap()),
        concludes_turn: true,
        ..ToolOutput::default()
    };
    assert_eq!(output, Ok(expected));
}

#[test]
fn a_schema_must_be_an_object_and_keeps_its_bytes() {
    let spec = ToolSpec::new("t", "d", r#"{ "type" : "object" }"#).unwrap();
    assert_eq!(spec.parameters.get(), r#"{ "type" : "object" }"#);
    assert_eq!(
        serde_json::to_string(&spec).unwrap(),
        r#"{"name":"t","description":"d","parameters":{ "type" : "object" }}"#
    );
    assert!(matches!(
        ToolSpec::new("t", "d", "{"),
        Err(SpecError::InvalidJson { .. })
    ));
    assert!(matches!(
        ToolSpec::new("t", "d", "[]"),
        Err(SpecError::NotAnObject { .. })
    ));
}

/// What whoever reads the code is told of these arguments.
#[derive(schemars::JsonSchema)]
struct Documented {
    /// The file.
    #[expect(dead_code, reason = "only its schema counts")]
    path: String,
}

#[test]
fn a_model_reads_what_fields_are_and_not_what_was_written_about_the_rust_type() {
    let spec = ToolSpec::typed::<Documented>("t", "d");
    assert_eq!(
        spec.parameters.get(),
        r#"{"type":"object","properties":{"path":{"description":"The file.","type":"string"}},"required":["path"]}"#
    );
}
