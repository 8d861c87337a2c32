//! How full a context is (`reference/agent.md` §2.11).

use std::sync::Arc;

use offshoot_agent::{Breakdown, Driver, Pressure};
use offshoot_model::{Attempt, Chunk, ScriptModel, Usage};
use offshoot_session::{EventDraft, EventKind, EventLog, SurfaceOp};
use serde_json::json;

use crate::bench::{Bench, NOW, ask, call_config, script};
use crate::crowd::{counted, long, narrow};
use crate::support::{calls, says};

async fn said(bench: &Bench, attempts: Vec<Attempt>) -> Driver {
    let turns = attempts.len();
    let mut agent = bench.scripted(attempts);
    for _ in 0..turns {
        ask(&mut agent, "Go on.").await;
    }
    agent
}

fn tokens(agent: &Driver) -> u64 {
    Pressure::of(&agent.session().log()).tokens
}

#[test]
fn nothing_costs_nothing() {
    let nothing = Pressure {
        tokens: 0,
        window: None,
        breakdown: Breakdown {
            system: 0,
            tools: 0,
            messages: 0,
        },
    };
    assert_eq!(Pressure::of(&EventLog::new()), nothing);
}

#[tokio::test]
async fn what_nobody_has_counted_is_four_bytes_a_token_and_a_little_for_each_message() {
    let bench = Bench::new();
    let agent = said(&bench, vec![says("x".repeat(4_000).as_str())]).await;
    let log = agent.session().log();
    let pressure = Pressure::of(&log);
    let header = log.request_header().unwrap().data().to_owned();
    let header: serde_json::Value = serde_json::from_str(&header).unwrap();
    let tools = header["header"]["tools"].to_string().len().div_ceil(4) as u64;
    // The text, the braces around it, and four for the message.
    let block = |text: usize| (text + r#"{"type":"text","text":""}"#.len()).div_ceil(4) as u64 + 4;
    let system = block("You are a test agent.".len());
    let messages = log.messages().skip(1).map(|message| {
        let message: serde_json::Value = serde_json::from_str(&message.text).unwrap();
        let text = message["content"][0]["text"].to_string();
        block(text.len() - 2)
    });
    let messages = messages.sum();
    assert_eq!(
        pressure.breakdown,
        Breakdown {
            system,
            tools,
            messages
        }
    );
    assert_eq!(pressure.tokens, system + tools + messages);
    assert!(messages > 1_000, "{messages}");
}

#[tokio::test]
async fn a_count_of_the_provider_is_the_anchor_and_only_what_is_behind_it_is_guessed() {
    let bench = Bench::new();
    let usage = Usage {
        input_tokens: 5_000,
        output_tokens: 300,
        cache_read_tokens: Some(20_000),
        cache_write_tokens: Some(1_000),
        ..Usage::default()
    };
    let Attempt::Chunks(mut chunks) = calls([("a", "look", "{}")]) else {
        unreachable!();
    };
    chunks.insert(chunks.len() - 1, Chunk::Usage { usage });
    let mut agent = bench.scripted(vec![Attempt::Chunks(chunks), says(&long("answer", 100))]);
    ask(&mut agent, "Look.").await;
    let guessed = tokens(&agent) - 26_300;
    assert!((100..200).contains(&guessed), "{guessed}");
    let pressure = Pressure::of(&agent.session().log());
    let Breakdown {
        system,
        tools,
        messages,
    } = pressure.breakdown;
    assert_eq!(system + tools + messages, pressure.tokens);
}

#[tokio::test]
async fn a_later_count_is_better() {
    let bench = Bench::new();
    let answers = [(10_000, 10), (500, 20)];
    let answers = answers.map(|(input, output)| counted(says("Yes."), input, output));
    let agent = said(&bench, answers.to_vec()).await;
    assert_eq!(tokens(&agent), 520);
}

#[tokio::test]
async fn a_count_of_another_envelope_says_nothing() {
    let bench = Bench::new();
    let mut agent = said(&bench, vec![counted(says("Yes."), 50_000, 10)]).await;
    assert_eq!(tokens(&agent), 50_010);
    // Another model counts otherwise, and has not counted yet.
    agent.set_model(script(vec![says("Two.")]), call_config("acme-large"));
    ask(&mut agent, "Second.").await;
    assert!(tokens(&agent) < 1_000, "{}", tokens(&agent));
}

#[tokio::test]
async fn a_header_that_says_the_same_is_the_same_envelope() {
    let mut bench = Bench::new();
    let agent = said(&bench, vec![counted(says("Yes."), 50_000, 10)]).await;
    let id = agent.session().id().clone();
    drop(agent);
    bench.restart();
    let mut agent = bench.agent(bench.open(&id), script(vec![says("Two.")]));
    ask(&mut agent, "Second.").await;
    let pressure = tokens(&agent);
    assert!((50_011..50_100).contains(&pressure), "{pressure}");
}

#[tokio::test]
async fn history_that_was_rewritten_is_not_what_was_counted() {
    let bench = Bench::new();
    let agent = said(&bench, vec![counted(says("Yes."), 50_000, 10)]).await;
    let log = agent.session().log();
    let question = log.surface().node(1).unwrap();
    let message = json!({
        "id": "rewritten", "role": "user", "content": [{"type": "text", "text": "Other."}],
        "source": {"kind": "user"},
    });
    let op = SurfaceOp::Replace {
        start: question,
        end: question,
    };
    let draft = EventDraft::message(EventKind::UserMessage, &message).unwrap();
    let draft = draft.with_sources([question]).with_surface_op(op);
    agent.session().append(draft, NOW).unwrap();
    assert!(tokens(&agent) < 1_000, "{}", tokens(&agent));
}

#[tokio::test]
async fn pictures_cost_by_their_size() {
    let bench = Bench::new();
    let agent = said(&bench, vec![says("Yes.")]).await;
    let picture = |width: u64| {
        let before = tokens(&agent);
        let message = json!({
            "id": format!("picture-{width}"), "role": "user", "source": {"kind": "user"},
            "content": [{"type": "image", "attachment": {
                "attachmentId": "sha256:00", "mediaType": "image/png", "bytes": 9, "width": width, "height": width,
            }}],
        });
        let draft = EventDraft::message(EventKind::UserMessage, &message).unwrap();
        agent.session().append(draft, NOW).unwrap();
        tokens(&agent) - before
    };
    assert_eq!([1, 600, 100_000].map(picture), [68, 484, 1_604]);
}

#[tokio::test]
async fn the_window_is_that_of_the_last_request() {
    let bench = Bench::new();
    let model = narrow(vec![says("One.")]);
    let mut agent = bench.agent(bench.create(), model);
    ask(&mut agent, "First.").await;
    assert_eq!(Pressure::of(&agent.session().log()).window, Some(2_000));
    let wide = ScriptModel::new("acme", vec![says("Two.")]).with_context_window(9_000);
    agent.set_model(Arc::new(wide), call_config("acme-large"));
    ask(&mut agent, "Second.").await;
    assert_eq!(Pressure::of(&agent.session().log()).window, Some(9_000));
}
