//! Long tool results that are cut down (`reference/agent.md` §6.6).

use std::sync::Arc;

use async_trait::async_trait;
use offshoot_agent::{AgentSetup, Driver, PruneConfig, build_request, request_at};
use offshoot_model::{Attempt, Model, ScriptModel};
use offshoot_session::{EventKind, EventLog};
use offshoot_tool_api::{
    Concurrency, Effects, Tool, ToolArguments, ToolContext, ToolError, ToolOutput, ToolRegistry,
    ToolSpec,
};
use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::bench::{Bench, ask, config, script};
use crate::crowd::{Heard, fails, long, narrow, replacements, too_long};
use crate::outline::numbered_from;
use crate::support::{all, calls, says};

#[derive(serde::Deserialize)]
struct Much {
    tokens: usize,
}

/// Says as many words as it is asked for.
#[derive(Debug)]
struct Talks(ToolSpec);

#[async_trait]
impl Tool for Talks {
    fn spec(&self) -> &ToolSpec {
        &self.0
    }

    fn effects(&self) -> Effects {
        Effects::ReadOnly
    }

    fn concurrency(&self, _: &ToolArguments) -> Concurrency {
        Concurrency::Parallel
    }

    async fn execute(
        &self,
        arguments: ToolArguments,
        _: &ToolContext,
    ) -> Result<ToolOutput, ToolError> {
        let Much { tokens } = arguments.parse()?;
        let mut output = ToolOutput::text(format!("<{}>", long("talk", tokens)));
        output.meta = Some(RawValue::from_string(r#"{"n": 1e2}"#.to_owned()).unwrap());
        Ok(output)
    }
}

fn setup(bench: &Bench, model: Arc<dyn Model>, heard: &Heard) -> AgentSetup {
    let mut tools = ToolRegistry::new();
    let spec = ToolSpec::new("talk", "Talks.", r#"{"type":"object"}"#).unwrap();
    tools.register(Arc::new(Talks(spec))).unwrap();
    let mut setup = AgentSetup::new(model, tools, config(), bench.env.clone());
    setup.observer = Some(Arc::new(heard.clone()));
    setup.config.compaction.prune = Some(PruneConfig {
        threshold_chars: 400,
        head_chars: 100,
        tail_chars: 50,
    });
    setup
}

fn agent(bench: &Bench, model: Arc<ScriptModel>, heard: &Heard) -> Driver {
    Driver::new(bench.create(), setup(bench, model, heard))
}

fn talks(id: &str, tokens: usize) -> Attempt {
    let arguments = json!({"tokens": tokens}).to_string();
    calls([(id, "talk", &*arguments)])
}

fn shown(log: &EventLog) -> Vec<usize> {
    let results = log
        .messages()
        .filter(|message| *message.kind == EventKind::ToolResult);
    let text = |text: &str| {
        let message: Value = serde_json::from_str(text).unwrap();
        message["content"][0]["text"]
            .as_str()
            .unwrap()
            .chars()
            .count()
    };
    results.map(|message| text(&message.text)).collect()
}

#[tokio::test]
async fn that_may_be_enough_so_that_nothing_is_summarised() {
    let bench = Bench::new();
    let heard = Heard::default();
    let turn = [
        talks("a", 700),
        talks("b", 90),
        talks("c", 500),
        says(&long("one", 150)),
    ];
    let model = narrow(turn.into_iter().chain([says("Two.")]).collect());
    let mut agent = agent(&bench, Arc::clone(&model), &heard);
    ask(&mut agent, "Talk.").await;
    let before = agent.session().log().end();
    let whole = agent.session().log();
    ask(&mut agent, &long("second", 100)).await;
    assert_eq!(heard.lines(), ["pruned 2: 2 results"]);
    let log = bench.log(agent.session().id());
    insta::assert_snapshot!(numbered_from(&log, before), @r#"
    28 agent/inbox/spliced next-turn at 0 +"second second second second second second second second seco"…
    29 turn/start 2
    30 agent/inbox/spliced next-turn at 0 -1
    31 compaction/prune of [12]
    32 tool/result a ok for 12..12 citing 12
    33 compaction/prune of [22]
    34 tool/result c ok for 22..22 citing 22
    35 step/start 2.1
    36 user/message "second second second second second second second second seco"…
    37 request/header series
    38 assistant/message 2.1 [text "Two."]
    39 step/end 2.1
    40 turn/end 2 completed
    "#);
    let short = shown(&log);
    assert_eq!((shown(&whole)[1], short[1]), (366, 366));
    assert!(short[0] < 400 && short[2] < 400, "{short:?}");
    // Nothing but the text has changed, by a byte.
    let results = all(&log, &EventKind::ToolResult);
    let (mut old, mut new) = (results[0].clone(), results[3].clone());
    let text = new["message"]["content"][0]["text"].take();
    old["message"]["content"][0]["text"].take();
    assert_eq!(old, new);
    for event in replacements(&log) {
        assert!(
            event.data().contains(r#""meta":{"n": 1e2}"#),
            "{}",
            event.data()
        );
    }
    let text = text.as_str().unwrap();
    assert!(text.starts_with("<talk talk"), "{text}");
    assert!(text.ends_with("talk>"), "{text}");
    insta::assert_snapshot!(text.split("\n\n").nth(1).unwrap(), @"[2656 characters were cut out of the middle of this result to save room. Call the tool again if you need them.]");
    // Every request can still be built from the log, the ones before it as they were.
    let id = agent.session().id();
    for (number, made) in model.requests().iter().enumerate() {
        let (_, rebuilt) = request_at(&log, id, number + 1).unwrap();
        assert_eq!(rebuilt, **made, "{number}");
    }
}

#[tokio::test]
async fn what_it_cuts_once_it_leaves_alone() {
    let bench = Bench::new();
    let heard = Heard::default();
    let turn = [
        talks("a", 700),
        talks("b", 700),
        says(&long("one", 200)),
        says(&long("two", 900)),
    ];
    let more = [says(&long("three", 400)), says("In short."), says("Four.")];
    let model = narrow(turn.into_iter().chain(more).collect());
    let mut agent = agent(&bench, model, &heard);
    for question in ["Talk.", &long("second", 100), "Third.", "Fourth."] {
        ask(&mut agent, question).await;
    }
    let lines = heard.lines();
    let pruned: Vec<_> = lines
        .iter()
        .filter(|line| line.starts_with("pruned"))
        .collect();
    assert_eq!(pruned, ["pruned 2: 2 results"], "{lines:?}");
}

#[tokio::test]
async fn what_is_new_is_not_cut_under_pressure() {
    let bench = Bench::new();
    let heard = Heard::default();
    let turn = [
        talks("a", 700),
        talks("b", 1_000),
        says("In short."),
        says("One."),
    ];
    let model = narrow(turn.to_vec());
    let mut agent = agent(&bench, model, &heard);
    ask(&mut agent, &long("question", 200)).await;
    let log = bench.log(agent.session().id());
    // The first was cut, the second has just come.
    let sizes = shown(&log);
    assert_eq!(sizes.last(), Some(&4_006), "{sizes:?} {:?}", heard.lines());
}

#[tokio::test]
async fn when_it_is_not_enough_the_rest_is_summarised() {
    let bench = Bench::new();
    let heard = Heard::default();
    let turn = [
        talks("a", 300),
        says(&long("one", 1_500)),
        says("In short."),
        says("Two."),
    ];
    let mut agent = agent(&bench, narrow(turn.to_vec()), &heard);
    ask(&mut agent, &long("question", 200)).await;
    ask(&mut agent, "Second.").await;
    assert_eq!(
        heard.lines(),
        [
            "pruned 2: 1 results",
            "started Some(2)",
            "done Some(2): 4 items"
        ]
    );
    let log = bench.log(agent.session().id());
    let cut = replacements(&log).next().unwrap().seq();
    let summary = &all(&log, &EventKind::CompactionSummary)[0];
    let seqs = summary["shadowedSeqs"].as_array().unwrap();
    assert!(seqs.contains(&json!(cut)), "{seqs:?}");
}

#[tokio::test]
async fn after_an_overflow_it_is_enough_to_try_again() {
    let bench = Bench::new();
    let heard = Heard::default();
    // Nothing older could be summarised, and what is new is too long.
    let turn = [talks("a", 3_000), too_long(), fails("AUTH"), says("One.")];
    let mut agent = agent(&bench, script(turn.to_vec()), &heard);
    let before = agent.session().log().end();
    let reports = ask(&mut agent, "Talk.").await;
    assert_eq!(reports[0].text, "One.");
    let log = bench.log(agent.session().id());
    insta::assert_snapshot!(numbered_from(&log, before), @r#"
    0 agent/inbox/spliced next-turn at 0 +"Talk."
    1 turn/start 1
    2 agent/inbox/spliced next-turn at 0 -1
    3 step/start 1.1
    4 system/message
    5 user/message "Talk."
    6 user/message runtime-context
    7 request/header initial
    8 request/context
    9 session/title
    10 assistant/message 1.1 [talk(a)]
    11 tool/call a talk
    12 tool/result a ok
    13 step/end 1.1
    14 step/start 1.2
    15 assistant/attempt 1.2
    16 compaction/start 1
    17 compaction/end 1 there is no summary: the provider says AUTH
    18 compaction/prune of [12]
    19 tool/result a ok for 12..12 citing 12
    20 request/header series
    21 assistant/message 1.2 [text "One."]
    22 step/end 1.2
    23 turn/end 1 completed
    "#);
}

#[tokio::test]
async fn switched_off_or_impossible_nothing_is_cut() {
    let unsound = PruneConfig {
        threshold_chars: 300,
        head_chars: 200,
        tail_chars: 100,
    };
    for prune in [None, Some(unsound)] {
        let bench = Bench::new();
        let heard = Heard::default();
        let turn = [
            talks("a", 700),
            talks("b", 700),
            says("One."),
            says("In short."),
            says("Two."),
        ];
        let mut setup = setup(&bench, narrow(turn.to_vec()), &heard);
        setup.config.compaction.prune = prune;
        assert_eq!(setup.config.compaction.check().is_err(), prune.is_some());
        let mut agent = Driver::new(bench.create(), setup);
        ask(&mut agent, &long("question", 400)).await;
        ask(&mut agent, "Second.").await;
        let log = bench.log(agent.session().id());
        assert!(
            all(&log, &EventKind::CompactionPrune).is_empty(),
            "{prune:?}"
        );
        assert_eq!(
            all(&log, &EventKind::CompactionSummary).len(),
            1,
            "{prune:?}"
        );
        build_request(&log, agent.session().id()).unwrap();
    }
}

#[test]
fn a_configuration_says_what_is_wrong_with_it() {
    let default = || offshoot_agent::CompactionConfig::default();
    default().check().unwrap();
    let told = |change: fn(&mut offshoot_agent::CompactionConfig)| {
        let mut config = default();
        change(&mut config);
        config.check().unwrap_err().to_string()
    };
    let wrong = [
        told(|config| config.threshold_ratio = 0.0),
        told(|config| config.threshold_ratio = f64::NAN),
        told(|config| config.retain_ratio = 0.8),
        told(|config| config.max_tokens = 0),
        told(|config| {
            config.policies = vec![offshoot_agent::CompactionPolicy {
                provider: "acme".into(),
                model: "small".into(),
                threshold_ratio: Some(0.1),
                retain_ratio: None,
            }];
        }),
        told(|config| config.prune.as_mut().unwrap().threshold_chars = 5_000),
    ];
    insta::assert_snapshot!(wrong.join("\n"), @r#"
    the threshold must be more than 0 and at most 1, found 0
    the threshold must be more than 0 and at most 1, found NaN
    what is kept must be at least 0 and less than the threshold 0.8, found 0.8
    a summary needs at least one token
    what is kept must be at least 0 and less than the threshold 0.1, found 0.16
    beginning and end of a result (5120 characters) and a remark of about 160 must be less than the threshold of 5000
    "#);
}
