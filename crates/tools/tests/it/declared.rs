//! What models are told of the tools, and what the driver is.

use offshoot_tool_api::{ToolArguments, ToolRegistry};
use offshoot_tools::{ToolSet, WebReach};
use serde_json::Value;

fn all() -> ToolSet {
    ToolSet::default().with_web(WebReach::Public)
}

#[test]
fn every_tool_declares_what_it_does() {
    let any = ToolArguments::from_model("");
    let declared: Vec<_> = all()
        .tools()
        .iter()
        .map(|tool| {
            format!(
                "{}: {:?}, {:?}, {:?}",
                tool.spec().name,
                tool.effects(),
                tool.concurrency(&any),
                tool.timeout()
            )
        })
        .collect();
    assert_eq!(
        declared,
        [
            "read: ReadOnly, Parallel, None",
            "write: Mutating, Exclusive, None",
            "edit: Mutating, Exclusive, None",
            "multi_edit: Mutating, Exclusive, None",
            "bash: Mutating, Exclusive, None",
            "job_output: ReadOnly, Exclusive, None",
            "job_kill: Mutating, Exclusive, None",
            "job_list: ReadOnly, Exclusive, None",
            "glob: ReadOnly, Parallel, Some(60s)",
            "grep: ReadOnly, Parallel, Some(60s)",
            "ls: ReadOnly, Parallel, Some(60s)",
            "todo_write: ReadOnly, Exclusive, None",
            "web_fetch: ReadOnly, Parallel, Some(30s)",
        ]
    );
}

#[test]
fn without_the_web_there_is_no_web_fetch_and_nothing_else_changes() {
    let names = |set: ToolSet| -> Vec<String> {
        set.tools()
            .iter()
            .map(|tool| tool.spec().name.clone())
            .collect()
    };
    let mut with = names(all());
    assert_eq!(with.pop().unwrap(), "web_fetch");
    assert_eq!(names(ToolSet::default()), with);
}

#[test]
fn every_schema_describes_its_members_and_closes_itself() {
    let mut registry = ToolRegistry::new();
    for tool in all().tools() {
        registry.register(tool).unwrap();
    }
    for spec in registry.specs() {
        let text = spec.parameters.get();
        assert!(!text.contains('\n'), "{}", spec.name);
        let schema: Value = serde_json::from_str(text).unwrap();
        assert_eq!(schema["type"], "object", "{}", spec.name);
        assert_eq!(schema["additionalProperties"], false, "{}", spec.name);
        for (name, member) in schema["properties"].as_object().unwrap() {
            assert!(member["description"].is_string(), "{}: {name}", spec.name);
        }
    }
}

#[test]
fn models_are_told_this() {
    let told: Vec<String> = all()
        .tools()
        .iter()
        .map(|tool| {
            let spec = tool.spec();
            let schema: Value = serde_json::from_str(spec.parameters.get()).unwrap();
            format!("# {}\n{}\n{schema:#}\n", spec.name, spec.description)
        })
        .collect();
    insta::assert_snapshot!(told.join("\n"));
}
