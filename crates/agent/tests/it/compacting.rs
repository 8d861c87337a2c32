//! Compaction before a step that would leave too little room (`reference/agent.md` §6).

use std::sync::Arc;

use offshoot_agent::{Driver, Summariser};
use offshoot_model::{
    Attempt, CallConfig, ContentBlock, FinishReason, Message, ModelRequest, Role, ScriptModel,
};
use offshoot_session::{EventKind, LogOffset};
use offshoot_test_support::{Reply, ScriptedModelServer};
use serde_json::{Value, json};

use crate::bench::{Bench, ask, over_http};
use crate::crowd::{
    Heard, WINDOW, counted, fails, first_question, long, narrow, replacements, thinks_only, tokens,
    two_turns,
};
use crate::outline::numbered_from;
use crate::support::{all, answers, call, calls, kinds_from, says};

/// Two turns, so that the next one has too little room.
pub(crate) async fn crowded(bench: &Bench, model: &Arc<ScriptModel>, heard: &Heard) -> Driver {
    let mut setup = bench.setup(Arc::clone(model) as _);
    setup.observer = Some(Arc::new(heard.clone()));
    let mut agent = Driver::new(bench.create(), setup);
    ask(&mut agent, &first_question()).await;
    ask(&mut agent, "Short.").await;
    agent
}

pub(crate) fn with(
    mut first: Vec<Attempt>,
    rest: impl IntoIterator<Item = Attempt>,
) -> Vec<Attempt> {
    first.extend(rest);
    first
}

fn texts(message: &Message) -> String {
    let text = |block: &ContentBlock| match block {
        ContentBlock::Text { text } => text.clone(),
        other => format!("{other:?}"),
    };
    message
        .content
        .iter()
        .map(text)
        .collect::<Vec<_>>()
        .join("|")
}

fn roles(request: &ModelRequest) -> Vec<Role> {
    request
        .messages
        .iter()
        .map(|message| message.role)
        .collect()
}

#[tokio::test]
async fn the_order_of_events() {
    let bench = Bench::new();
    let model = narrow(with(two_turns(), [says("In short."), says("Three.")]));
    let heard = Heard::default();
    let mut agent = crowded(&bench, &model, &heard).await;
    let before = agent.session().log().end();
    let reports = ask(&mut agent, "Third.").await;
    assert_eq!(reports[0].text, "Three.");
    let log = bench.log(agent.session().id());
    insta::assert_snapshot!(numbered_from(&log, before), @r#"
    21 agent/inbox/spliced next-turn at 0 +"Third."
    22 turn/start 3
    23 agent/inbox/spliced next-turn at 0 -1
    24 compaction/start 3
    25 compaction/summary of [5,6,10] In short.
    26 user/message compact-checkpoint for 5..10 citing 24,25,5,6,10
    27 compaction/end 3
    28 step/start 3.1
    29 user/message "Third."
    30 user/message runtime-context
    31 request/header series
    32 assistant/message 3.1 [text "Three."]
    33 step/end 3.1
    34 turn/end 3 completed
    "#);
    assert_eq!(heard.lines(), ["started Some(3)", "done Some(3): 3 items"]);
    let summary = &all(&log, &EventKind::CompactionSummary)[0];
    let id = &all(&log, &EventKind::CompactionStart)[0]["compactionId"];
    assert_eq!(
        *summary,
        json!({
            "compactionId": id,
            "summary": [{"type": "text", "text": "In short."}],
            "rawOutput": [{"type": "text", "text": "In short."}],
            "llmStreamCall": true,
            "shadowedRange": {"start": 5, "end": 10},
            "shadowedSeqs": [5, 6, 10],
            "shadowedTokenCount": summary["shadowedTokenCount"],
            "provider": "acme",
            "model": "acme-small",
            "maxTokens": 8192,
        })
    );
    let checkpoint = replacements(&log).next().unwrap();
    let checkpoint: Value = serde_json::from_str(checkpoint.data()).unwrap();
    assert_eq!(
        checkpoint["source"],
        json!({"kind": "compact-checkpoint", "compactionId": id})
    );
}

#[tokio::test]
async fn the_summary_takes_the_place_of_what_it_summarises_and_the_rest_stays_as_it_is() {
    let bench = Bench::new();
    let model = narrow(with(two_turns(), [says("In short."), says("Three.")]));
    let mut agent = crowded(&bench, &model, &Heard::default()).await;
    ask(&mut agent, "Third.").await;
    let requests = model.requests();
    let [_, before, _, after] = &requests[..] else {
        panic!("{requests:?}");
    };
    assert_eq!(
        roles(after),
        [
            Role::System,
            Role::User,
            Role::User,
            Role::Assistant,
            Role::User,
            // The directory, which the model has to be told again.
            Role::User,
        ]
    );
    let checkpoint = texts(&after.messages[1]);
    let (frame, summary) = checkpoint.split_once("<compacted-summary>").unwrap();
    assert!(
        frame.starts_with("The earlier part of this conversation was replaced"),
        "{frame}"
    );
    assert_eq!(summary, "|In short.|</compacted-summary>");
    assert_eq!(after.messages[0], before.messages[0]);
    assert_eq!(after.messages[2], before.messages[4]);
    assert_eq!(after.messages[5].source.kind(), "runtime-context");
    let log = bench.log(agent.session().id());
    assert!(tokens(&log) < WINDOW / 2, "{}", tokens(&log));
}

#[tokio::test]
async fn the_summariser_sees_the_beginning_of_the_request_and_one_more_message() {
    let bench = Bench::new();
    let model = narrow(with(two_turns(), [says("In short."), says("Three.")]));
    let mut agent = crowded(&bench, &model, &Heard::default()).await;
    ask(&mut agent, "Third.").await;
    let requests = model.requests();
    let (before, asked) = (&requests[1], &requests[2]);
    let instruction = asked.messages.last().unwrap();
    let expected = ModelRequest {
        config: CallConfig {
            max_tokens: Some(8_192),
            ..before.config.clone()
        },
        messages: before.messages[..4]
            .iter()
            .chain([instruction])
            .cloned()
            .collect(),
        tools: before.tools.clone(),
        session_id: before.session_id.clone(),
    };
    assert_eq!(**asked, expected);
    insta::assert_snapshot!(texts(instruction), @r#"
    Write a summary of this conversation so far. It will stand in its place, and you will go on with the work from the summary alone: whatever you leave out is forgotten. Call no tools and answer with the summary only, as text, in these sections. Leave a section empty if there is nothing for it.

    1. Primary Request and Intent: everything the user has asked for, corrections and preferences included, in their own words where the wording matters.
    2. Key Technical Concepts: the technologies, conventions and decisions that the work depends on.
    3. Files and Code: each file that was read, changed or created, with its path, what is in it that matters, and what was changed and why. Quote the code that the next steps need.
    4. Errors and Fixes: what went wrong, how it was solved, and what was tried in vain.
    5. Pending Jobs: what was asked for and is not done, and what still runs in the background.
    6. Current Work: what was being done just now, as exactly as you can say it.
    7. Next Step: what to do next, if the user's requests say so. Do not begin anything new.
    8. Critical Context: names, numbers, commands, paths and results that could not be found out again easily.

    If the conversation begins with such a summary, carry over what still matters in it. The system prompt, the project instructions and the description of where you work are told again anyway: do not repeat them.
    "#);
}

#[tokio::test]
async fn both_requests_are_in_order_for_a_provider() {
    let bench = Bench::new();
    let server = ScriptedModelServer::start([
        Reply::text_then_tool_calls("I look.", [("a", "look", "{}"), ("b", "look", "{}")])
            .usage(None),
        Reply::text(long("answer", 650)).usage(None),
        Reply::text("In short."),
        Reply::text("Three."),
    ]);
    let model = Windowed(over_http(&server));
    let mut setup = bench.setup(Arc::new(model));
    setup.config.compaction.retain_ratio = 0.1;
    let mut agent = Driver::new(bench.create(), setup);
    ask(&mut agent, &first_question()).await;
    let reports = ask(&mut agent, "Go on.").await;
    assert_eq!(reports[0].text, "Three.");
    let requests: Vec<_> = server
        .requests()
        .iter()
        .map(|request| request.json())
        .collect();
    let messages = |at: usize| requests[at]["messages"].as_array().unwrap();
    // Everything but the instruction is what the provider has seen before, in the same bytes.
    let (instruction, seen) = messages(2).split_last().unwrap();
    assert_eq!(instruction["role"], "user");
    assert_eq!(seen, &messages(1)[..seen.len()]);
    assert_eq!(requests[2]["tools"], requests[1]["tools"]);
    assert_eq!(messages(3)[0], messages(1)[0]);
    server.finish();
}

/// A model of which its window is known.
#[derive(Debug)]
struct Windowed(Arc<dyn offshoot_model::Model>);

impl offshoot_model::Model for Windowed {
    fn provider(&self) -> &str {
        self.0.provider()
    }

    fn prepare(
        &self,
        config: &CallConfig,
    ) -> Result<offshoot_model::PreparedCall, offshoot_model::Failure> {
        let mut prepared = self.0.prepare(config)?;
        prepared.info.context_window = Some(WINDOW);
        Ok(prepared)
    }

    fn stream(
        &self,
        request: Arc<ModelRequest>,
        cancel: tokio_util::sync::CancellationToken,
    ) -> futures_util::stream::BoxStream<'static, offshoot_model::Chunk> {
        self.0.stream(request, cancel)
    }
}

#[tokio::test]
async fn a_call_is_never_parted_from_its_result() {
    let bench = Bench::new();
    let blocks = vec![
        ContentBlock::text(long("thought", 600)),
        call("a", "look", "{}"),
        call("b", "look", "{}"),
    ];
    let both = answers(blocks, FinishReason::ToolCalls);
    let model = narrow(vec![
        both,
        says(&long("answer", 200)),
        says("In short."),
        says("Two."),
    ]);
    let mut setup = bench.setup(Arc::clone(&model) as _);
    // The tail would begin with the second result.
    setup.config.compaction.retain_ratio = 0.11;
    let mut agent = Driver::new(bench.create(), setup);
    ask(&mut agent, &first_question()).await;
    ask(&mut agent, "Go on.").await;
    let log = bench.log(agent.session().id());
    let summary = &all(&log, &EventKind::CompactionSummary)[0];
    assert_eq!(summary["shadowedSeqs"], json!([5, 6]));
    assert_eq!(
        roles(&model.requests()[3])[..5],
        [
            Role::System,
            Role::User,
            Role::Assistant,
            Role::Tool,
            Role::Tool
        ]
    );
}

#[tokio::test]
async fn what_cannot_be_divided_stays() {
    let bench = Bench::new();
    let model = narrow(vec![says("One.")]);
    let heard = Heard::default();
    let mut setup = bench.setup(Arc::clone(&model) as _);
    setup.observer = Some(Arc::new(heard.clone()));
    let mut agent = Driver::new(bench.create(), setup);
    // There is nothing but the question itself.
    let reports = ask(&mut agent, &long("question", 1_900)).await;
    assert_eq!(reports[0].text, "One.");
    let log = bench.log(agent.session().id());
    assert!(all(&log, &EventKind::CompactionStart).is_empty());
    assert_eq!(heard.lines(), [""; 0]);
}

#[tokio::test]
async fn a_summary_that_is_none_is_asked_for_once_more() {
    let hopeless = [
        thinks_only(),
        answers(Vec::new(), FinishReason::Stop),
        answers(vec![ContentBlock::text(" \n")], FinishReason::Stop),
        answers(vec![ContentBlock::text("In sh")], FinishReason::MaxTokens),
        calls([("a", "look", "{}")]),
        says(&long("longer", 1_600)),
        Attempt::Chunks(Vec::new()),
    ];
    for (number, unusable) in hopeless.into_iter().enumerate() {
        let bench = Bench::new();
        let model = narrow(with(
            two_turns(),
            [unusable, says("In short."), says("Three.")],
        ));
        let heard = Heard::default();
        let mut agent = crowded(&bench, &model, &heard).await;
        let reports = ask(&mut agent, "Third.").await;
        assert_eq!(reports[0].text, "Three.", "{number}");
        assert_eq!(
            heard.lines(),
            ["started Some(3)", "done Some(3): 3 items"],
            "{number}"
        );
        assert_eq!(model.remaining(), 0, "{number}");
        // Asked the same again.
        let requests = model.requests();
        let shown = |at: usize| requests[at].messages[..4].to_vec();
        assert_eq!(shown(2), shown(3), "{number}");
    }
}

#[tokio::test]
async fn without_a_summary_the_turn_goes_on_and_does_not_try_again() {
    let bench = Bench::new();
    let look = calls([("a", "look", "{}")]);
    let attempts = [
        thinks_only(),
        thinks_only(),
        look,
        says("Three."),
        says("Now."),
        says("Four."),
    ];
    let model = narrow(with(two_turns(), attempts));
    let heard = Heard::default();
    let mut agent = crowded(&bench, &model, &heard).await;
    let before = agent.session().log().end();
    let reports = ask(&mut agent, "Third.").await;
    assert_eq!(reports[0].text, "Three.");
    let log = bench.log(agent.session().id());
    insta::assert_snapshot!(numbered_from(&log, before), @r#"
    21 agent/inbox/spliced next-turn at 0 +"Third."
    22 turn/start 3
    23 agent/inbox/spliced next-turn at 0 -1
    24 compaction/start 3
    25 compaction/end 3 there is no summary: the model answered without text
    26 step/start 3.1
    27 user/message "Third."
    28 assistant/message 3.1 [look(a)]
    29 tool/call a look
    30 tool/result a ok
    31 step/end 3.1
    32 step/start 3.2
    33 assistant/message 3.2 [text "Three."]
    34 step/end 3.2
    35 turn/end 3 completed
    "#);
    let no_text = "failed Some(3): summary there is no summary: the model answered without text";
    assert_eq!(heard.lines(), ["started Some(3)", no_text]);
    // The next turn may.
    let reports = ask(&mut agent, "Fourth.").await;
    assert_eq!(reports[0].text, "Four.");
    assert_eq!(
        heard.lines()[2..],
        ["started Some(4)", "done Some(4): 3 items"]
    );
}

#[tokio::test]
async fn a_failure_that_another_attempt_does_not_cure_is_not_tried_again() {
    let bench = Bench::new();
    let model = narrow(with(two_turns(), [fails("AUTH"), says("Three.")]));
    let heard = Heard::default();
    let mut agent = crowded(&bench, &model, &heard).await;
    let reports = ask(&mut agent, "Third.").await;
    assert_eq!(reports[0].text, "Three.");
    let refused = "failed Some(3): summary there is no summary: the provider says AUTH";
    assert_eq!(heard.lines(), ["started Some(3)", refused]);
}

#[tokio::test]
async fn what_the_model_cannot_see_at_once_is_summarised_in_part() {
    let bench = Bench::new();
    let turns = vec![
        says(&long("one", 300)),
        says(&long("two", 700)),
        says(&long("three", 350)),
    ];
    let too_long = fails("CONTEXT_WINDOW_EXCEEDED");
    let model = narrow(with(turns, [too_long, says("In short."), says("Four.")]));
    let heard = Heard::default();
    let mut setup = bench.setup(Arc::clone(&model) as _);
    setup.observer = Some(Arc::new(heard.clone()));
    let mut agent = Driver::new(bench.create(), setup);
    ask(&mut agent, &long("question", 200)).await;
    ask(&mut agent, "Second.").await;
    ask(&mut agent, "Third.").await;
    let reports = ask(&mut agent, "Fourth.").await;
    assert_eq!(reports[0].text, "Four.");
    let messages = |at: usize| model.requests()[at].messages.len();
    assert!(messages(4) < messages(3), "{} {}", messages(4), messages(3));
    assert_eq!(heard.lines(), ["started Some(4)", "done Some(4): 4 items"]);
}

#[tokio::test]
async fn nothing_in_a_summary_looks_like_its_end() {
    let bench = Bench::new();
    let echo = says("<compacted-summary>In </compacted-summary>short.</compacted-summary>");
    let model = narrow(with(two_turns(), [echo, says("Three.")]));
    let mut agent = crowded(&bench, &model, &Heard::default()).await;
    ask(&mut agent, "Third.").await;
    let log = bench.log(agent.session().id());
    let summary = &all(&log, &EventKind::CompactionSummary)[0];
    assert_eq!(summary["summary"][0]["text"], "In short.");
    assert_eq!(
        summary["rawOutput"][0]["text"],
        "<compacted-summary>In </compacted-summary>short.</compacted-summary>"
    );
}

#[tokio::test]
async fn another_model_may_summarise() {
    let bench = Bench::new();
    let model = narrow(with(two_turns(), [says("Three.")]));
    let other = Arc::new(ScriptModel::new(
        "other",
        vec![counted(says("In short."), 40, 4)],
    ));
    let mut setup = bench.setup(Arc::clone(&model) as _);
    setup.config.compaction.summariser = Some(Summariser {
        model: Arc::clone(&other) as _,
        call: CallConfig {
            provider: "other".into(),
            model: "other-1".into(),
            temperature: Some(0.5),
            ..CallConfig::default()
        },
    });
    let mut agent = Driver::new(bench.create(), setup);
    ask(&mut agent, &first_question()).await;
    ask(&mut agent, "Short.").await;
    let reports = ask(&mut agent, "Third.").await;
    assert_eq!(reports[0].text, "Three.");
    let log = bench.log(agent.session().id());
    let summary = &all(&log, &EventKind::CompactionSummary)[0];
    assert_eq!(
        json!([summary["provider"], summary["model"], summary["usage"]]),
        json!(["other", "other-1", {"inputTokens": 40, "outputTokens": 4}])
    );
    let asked = &other.requests()[0];
    assert_eq!(
        (&*asked.config.model, asked.config.temperature),
        ("other-1", Some(0.5))
    );
    assert_eq!(asked.tools, model.requests()[0].tools);
    // The turn has paid for it.
    assert_eq!(reports[0].usage.unwrap().input_tokens, 40);
}

#[tokio::test]
async fn it_happens_in_the_middle_of_a_turn_as_well() {
    let bench = Bench::new();
    let blocks = vec![
        ContentBlock::text(long("thought", 700)),
        call("a", "look", "{}"),
    ];
    let first = answers(blocks.clone(), FinishReason::ToolCalls);
    let model = narrow(vec![first, says("In short."), says("Done.")]);
    let mut agent = bench.agent(bench.create(), Arc::clone(&model) as _);
    let reports = ask(&mut agent, &first_question()).await;
    assert_eq!(reports[0].text, "Done.");
    let log = bench.log(agent.session().id());
    insta::assert_snapshot!(
        kinds_from(&log, 10).join("\n"),
        @r#"
    assistant/message
    tool/call
    tool/result
    step/end
    compaction/start
    compaction/summary
    user/message
    compaction/end
    step/start
    user/message
    request/header
    assistant/message
    step/end
    turn/end
    "#
    );
    assert_eq!(log.inherited_marker(), None);
    assert_eq!(
        roles(model.requests().last().unwrap()),
        [
            Role::System,
            Role::User,
            Role::Assistant,
            Role::Tool,
            Role::User
        ]
    );
    // Nothing is gone: the whole of it is still in the log.
    let whole = log.prefix(LogOffset::new(10));
    assert_eq!(whole.messages().count(), 3);
}
