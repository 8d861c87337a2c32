//! When a conversation is compacted by itself.

use std::sync::Arc;

use offshoot_agent::{Cancel, CancelCause, CompactionPolicy, Driver, RepeatReminder};
use offshoot_model::{Attempt, ScriptModel};
use offshoot_session::EventKind;

use crate::bench::{Bench, ask, call_config, script};
use crate::compacting::{crowded, with};
use crate::crowd::{Heard, counted, fails, first_question, long, narrow, two_turns};
use crate::support::{all, endings, says};

#[tokio::test]
async fn what_the_provider_has_counted_decides() {
    let bench = Bench::new();
    let text = |word: &str, input, output| counted(says(&long(word, 300)), input, output);
    // By rule of thumb there would be room.
    let answers = [
        text("a", 500, 300),
        text("b", 1_300, 330),
        says("In short."),
        says("Three."),
    ];
    let model = narrow(answers.to_vec());
    let heard = Heard::default();
    let mut setup = bench.setup(Arc::clone(&model) as _);
    setup.observer = Some(Arc::new(heard.clone()));
    let mut agent = Driver::new(bench.create(), setup);
    ask(&mut agent, &long("question", 300)).await;
    ask(&mut agent, "Second.").await;
    assert_eq!(heard.lines(), [""; 0]);
    ask(&mut agent, "Third.").await;
    assert_eq!(heard.lines(), ["started Some(3)", "done Some(3): 3 items"]);
}

#[tokio::test]
async fn an_unknown_window_is_told_once_and_nothing_is_compacted() {
    let bench = Bench::new();
    let heard = Heard::default();
    let model = script(with(two_turns(), [says("Three.")]));
    let mut agent = crowded(&bench, &model, &heard).await;
    ask(&mut agent, "Third.").await;
    assert_eq!(heard.lines(), ["unknown window of acme/acme-small"]);
    agent.set_model(script(vec![says("Four.")]), call_config("acme-large"));
    ask(&mut agent, "Fourth.").await;
    assert_eq!(heard.lines()[1..], ["unknown window of acme/acme-large"]);
    let log = bench.log(agent.session().id());
    assert!(all(&log, &EventKind::CompactionStart).is_empty());
}

#[tokio::test]
async fn the_model_that_is_asked_next_decides_how_much_there_is_room_for() {
    let bench = Bench::new();
    let heard = Heard::default();
    let large = Arc::new(ScriptModel::new("acme", two_turns()).with_context_window(100_000));
    let mut agent = crowded(&bench, &large, &heard).await;
    assert_eq!(heard.lines(), [""; 0]);
    agent.set_model(
        narrow(vec![says("In short."), says("Three.")]),
        call_config("acme-small-2"),
    );
    ask(&mut agent, "Third.").await;
    assert_eq!(heard.lines(), ["started Some(3)", "done Some(3): 3 items"]);
    let log = bench.log(agent.session().id());
    let summary = &all(&log, &EventKind::CompactionSummary)[0];
    assert_eq!(summary["model"], "acme-small-2");
}

#[tokio::test]
async fn models_may_have_their_own_ratios() {
    let policy = |model: &str, threshold, retain| CompactionPolicy {
        provider: "acme".into(),
        model: model.into(),
        threshold_ratio: threshold,
        retain_ratio: retain,
    };
    let third = [says("In short."), says("Three.")];
    for (policies, compacts, items) in [
        (vec![], true, 3),
        (vec![policy("acme-small", Some(1.0), None)], false, 0),
        (vec![policy("acme-smal", Some(1.0), None)], true, 3),
        // Nothing but what has no answer yet is kept.
        (vec![policy("acme-small", None, Some(0.0))], true, 4),
    ] {
        let bench = Bench::new();
        let model = narrow(with(two_turns(), third.clone()));
        let mut setup = bench.setup(Arc::clone(&model) as _);
        setup.config.compaction.policies = policies.clone();
        let mut agent = Driver::new(bench.create(), setup);
        ask(&mut agent, &first_question()).await;
        ask(&mut agent, "Short.").await;
        ask(&mut agent, "Third.").await;
        let log = bench.log(agent.session().id());
        let summaries = all(&log, &EventKind::CompactionSummary);
        assert_eq!(summaries.len(), usize::from(compacts), "{policies:?}");
        if let Some(summary) = summaries.first() {
            let seqs = summary["shadowedSeqs"].as_array().unwrap();
            assert_eq!(seqs.len(), items, "{policies:?}");
        }
    }
}

#[tokio::test]
async fn an_answer_keeps_its_room() {
    let bench = Bench::new();
    let model = narrow(vec![
        says(&long("answer", 500)),
        says("In short."),
        says("Two."),
    ]);
    let mut setup = bench.setup(Arc::clone(&model) as _);
    // 1,500 of 2,000 tokens would be for the answer: half of the window is.
    setup.config.call.max_tokens = Some(1_500);
    let mut agent = Driver::new(bench.create(), setup);
    ask(&mut agent, &long("question", 500)).await;
    ask(&mut agent, "Second.").await;
    let log = bench.log(agent.session().id());
    let summary = &all(&log, &EventKind::CompactionSummary)[0];
    assert_eq!(
        summary["maxTokens"], 1_500,
        "no more than the conversation itself asks for"
    );
}

#[tokio::test]
async fn switched_off_it_does_not_happen_by_itself() {
    let bench = Bench::new();
    let model = narrow(with(two_turns(), [fails("CONTEXT_WINDOW_EXCEEDED")]));
    let mut setup = bench.setup(Arc::clone(&model) as _);
    setup.config.compaction.auto = false;
    let mut agent = Driver::new(bench.create(), setup);
    ask(&mut agent, &first_question()).await;
    ask(&mut agent, "Short.").await;
    ask(&mut agent, "Third.").await;
    let log = bench.log(agent.session().id());
    assert!(all(&log, &EventKind::CompactionStart).is_empty());
}

#[tokio::test]
async fn what_was_said_before_a_compaction_that_is_cancelled_is_said() {
    let bench = Bench::new();
    let hangs = Attempt::Hang { chunks: Vec::new() };
    let model = narrow(with(two_turns(), [hangs, says("Four.")]));
    let mut setup = bench.setup(Arc::clone(&model) as _);
    // Who joins in every step.
    let reminder = RepeatReminder::new(bench.env.clone());
    setup.hooks.push(Arc::new(reminder));
    let mut agent = Driver::new(bench.create(), setup);
    ask(&mut agent, &first_question()).await;
    ask(&mut agent, "Short.").await;
    agent.submit("Third.").unwrap();
    let cancel = Cancel::new();
    let (done, ()) = tokio::join!(agent.run(&cancel), async {
        while model.requests().len() < 3 {
            tokio::task::yield_now().await;
        }
        cancel.cancel(CancelCause::User);
    });
    done.unwrap();
    let log = bench.log(agent.session().id());
    assert_eq!(endings(&log), ["completed", "completed", "aborted"]);
    let messages = all(&log, &EventKind::UserMessage);
    let said = messages
        .iter()
        .any(|message| message["content"][0]["text"] == "Third.");
    assert!(said, "{messages:?}");
}
