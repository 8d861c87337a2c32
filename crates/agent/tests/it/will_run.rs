//! A tool hears of its calls in the model's order, before any of them runs.

use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use offshoot_agent::{Gate, ProposedCall};
use offshoot_tool_api::{
    Concurrency, Effects, Tool, ToolArguments, ToolContext, ToolError, ToolOutput, ToolSpec,
};

use crate::bench::Bench;
use crate::scene::{Around, Scene};

/// A tool that notes what it is told, and panics when it is told of `p`.
#[derive(Debug)]
struct Notes {
    spec: ToolSpec,
    notes: Arc<Mutex<Vec<String>>>,
}

impl Notes {
    fn note(&self, what: &str, cx: &ToolContext) {
        let note = format!("{what} {}", cx.call_id);
        self.notes.lock().unwrap().push(note);
    }
}

#[async_trait]
impl Tool for Notes {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn effects(&self) -> Effects {
        Effects::Mutating
    }

    fn concurrency(&self, _: &ToolArguments) -> Concurrency {
        Concurrency::Parallel
    }

    fn will_run(&self, cx: &ToolContext) {
        self.note("hears of", cx);
        assert_ne!(cx.call_id, "p");
    }

    async fn execute(&self, _: ToolArguments, cx: &ToolContext) -> Result<ToolOutput, ToolError> {
        self.note("runs", cx);
        Ok(ToolOutput::text("noted"))
    }
}

#[tokio::test]
async fn a_tool_hears_of_the_calls_that_will_run_in_the_models_order_before_any_of_them_runs() {
    let bench = Bench::new();
    let notes = Arc::new(Mutex::new(Vec::new()));
    let tool = Notes {
        spec: ToolSpec::new("note", "A tool of a test.", r#"{"type":"object"}"#).unwrap(),
        notes: Arc::clone(&notes),
    };
    let denies = Around::before(|call: &ProposedCall<'_>| {
        Ok(match call.call_id {
            "denied" => Gate::Deny {
                reason: "no".into(),
            },
            _ => Gate::Allow,
        })
    });
    let mut scene = Scene::new(&bench).hook(denies);
    scene.tools.register(Arc::new(tool)).unwrap();
    scene
        .play(&[
            ("a", "note", "{}"),
            ("denied", "note", "{}"),
            ("p", "note", "{}"),
            ("b", "note", "{}"),
        ])
        .await;
    let notes = notes.lock().unwrap().clone();
    assert_eq!(notes[..3], ["hears of a", "hears of p", "hears of b"]);
    let mut ran = notes[3..].to_vec();
    ran.sort();
    assert_eq!(
        ran,
        ["runs a", "runs b", "runs p"],
        "also the one that panicked"
    );
}
