//! Requests of a replay that are not those that were recorded.

use std::path::Path;
use std::sync::Arc;

use futures_util::StreamExt as _;
use offshoot_agent::{AgentSetup, Asked, Driver, request_at};
use offshoot_format::StoredSession;
use offshoot_model::{
    AdapterDefaults, Attempt, CallConfig, Failure, Message, MessageSource, Model, ModelRequest,
    PreparedCall, Role, ScriptModel,
};
use offshoot_replay::{Comparing, Problem, Progress, Replaying, Script, Scripts, SessionKey};
use offshoot_session::Seq;
use serde_json::json;
use tokio_util::sync::CancellationToken;

use crate::runs::{Run, ask, entry, overrides, recorded, says};

const PROMPTS: [&str; 3] = ["Where are we?", "And now?", "Thanks."];

fn three() -> Vec<Attempt> {
    ["Here: /srv/recorded.", "There.", "Bye."]
        .map(says)
        .to_vec()
}

async fn converse(mut driver: Driver, prompts: &[&str]) -> offshoot_session::SessionId {
    for prompt in prompts {
        ask(&mut driver, prompt).await;
    }
    driver.session().id().clone()
}

async fn recording(model: Arc<dyn Model>, prompts: &[&str]) -> StoredSession {
    let run = Run::new("recorded");
    let driver = run.driver(run.create("/srv/recorded"), model);
    let id = converse(driver, prompts).await;
    run.stored(&id)
}

fn comparing(script: Script, comparing: Comparing) -> Scripts {
    let replaying = Replaying {
        provider: "acme".into(),
        workspace: "/srv/live".into(),
        comparing,
        ..Replaying::default()
    };
    Scripts::new(vec![script], replaying).unwrap()
}

async fn replay(
    scripts: &Scripts,
    prompts: &[&str],
    change: impl FnOnce(&mut AgentSetup),
) -> Vec<Problem> {
    let run = Run::new("live");
    let attached = run.create("/srv/live");
    let model = scripts.bind(SessionKey::named("main"), attached.session().id());
    let mut setup = run.setup(model);
    change(&mut setup);
    converse(Driver::new(attached, setup), prompts).await;
    scripts.problems()
}

async fn three_turns() -> Script {
    let model = Arc::new(ScriptModel::new("acme", three()));
    recorded("main", recording(model, &PROMPTS).await)
}

#[tokio::test]
async fn the_same_conversation_elsewhere_makes_the_same_requests() {
    let scripts = comparing(three_turns().await, Comparing::Current);
    // An answer names the recorded directory, which is another one now.
    let problems = replay(&scripts, &PROMPTS, |_| {}).await;
    assert_eq!(problems, []);
    assert_eq!(scripts.unconsumed(), []);
}

#[tokio::test]
async fn a_prompt_that_differs_is_told_with_its_first_byte_and_the_event_that_holds_it() {
    let script = three_turns().await;
    let log = &script.recording().unwrap().log;
    let second: Vec<Seq> = log
        .messages()
        .filter(|message| message.text.contains("And now?"))
        .map(|message| message.seq)
        .collect();
    let scripts = comparing(script, Comparing::Current);
    let problems = replay(&scripts, &["Where are we?", "And then?", "Thanks."], |_| {}).await;
    // What follows differs for the same reason.
    let [Problem::Differs(differs)] = &problems[..] else {
        panic!("{problems:?}");
    };
    assert_eq!(differs.request, 2);
    assert_eq!(differs.event, Some(second[0]));
    assert!(
        differs.expected.contains("And now?"),
        "{}",
        differs.expected
    );
    assert!(differs.found.contains("And then?"), "{}", differs.found);
    insta::assert_snapshot!(problems[0].to_string());
    assert_eq!(problems[0].code(), "REQUEST_DIFFERS");
}

#[tokio::test]
async fn the_byte_is_the_first_that_differs_in_the_requests_as_text() {
    let script = three_turns().await;
    let header = script
        .recording()
        .unwrap()
        .log
        .request_header()
        .unwrap()
        .seq();
    let scripts = comparing(script, Comparing::Current);
    let problems = replay(&scripts, &PROMPTS, |setup| {
        setup.config.call.model = "acme-large".into();
    })
    .await;
    let at = r#"{"config":{"provider":"acme","model":"acme-"#.len();
    let rest = r#""},"tools":[],"messages":[{"role":"system","content":[{"type":"text","text""#;
    let [Problem::Differs(differs)] = &problems[..] else {
        panic!("{problems:?}");
    };
    assert_eq!(
        (differs.at, differs.event, differs.request),
        (at, Some(header), 1)
    );
    assert_eq!(differs.session, "main");
    let expected = format!(r#"…onfig":{{"provider":"acme","model":"acme-small{rest}…"#);
    assert_eq!(differs.expected, expected);
}

/// What is told of the first request if it is asked with this change.
async fn asked(script: Script, n: usize, change: impl FnOnce(&mut ModelRequest)) -> Vec<Problem> {
    let StoredSession { header, log, .. } = script.recording().unwrap();
    let (_, mut request) = request_at(log, &header.id, n).unwrap();
    change(&mut request);
    let scripts = comparing(script, Comparing::Current);
    let model = scripts.bind(SessionKey::named("main"), &"live".into());
    let mut stream = model.stream(Arc::new(request), CancellationToken::new());
    while stream.next().await.is_some() {}
    scripts.problems()
}

#[tokio::test]
async fn a_message_too_many_stands_behind_what_was_recorded_and_one_too_few_is_missing_there() {
    assert_eq!(asked(three_turns().await, 1, |_| {}).await, []);

    let more = |request: &mut ModelRequest| {
        let more = Message::text("m", Role::User, "More.", MessageSource::user());
        request.messages.push(more.into());
    };
    let problems = asked(three_turns().await, 1, more).await;
    let [Problem::Differs(differs)] = &problems[..] else {
        panic!("{problems:?}");
    };
    assert_eq!(differs.event, None);
    assert!(differs.expected.ends_with("]}"), "{}", differs.expected);
    assert!(differs.found.contains("More."), "{}", differs.found);

    let script = three_turns().await;
    let asked_first = script.recording().unwrap().log.messages();
    let last = asked_first
        .filter(|message| message.kind.as_str() == "user/message")
        .map(|message| message.seq)
        .nth(1);
    let fewer = |request: &mut ModelRequest| drop(request.messages.pop());
    let problems = asked(script, 1, fewer).await;
    let [Problem::Differs(differs)] = &problems[..] else {
        panic!("{problems:?}");
    };
    assert_eq!(differs.event, last);
    assert!(differs.found.ends_with("]}"), "{}", differs.found);
}

#[tokio::test]
async fn names_of_messages_and_who_has_written_them_are_no_part_of_what_a_model_is_asked() {
    let renamed = |request: &mut ModelRequest| {
        let message = Arc::make_mut(&mut request.messages[1]);
        message.id = "other".into();
        message.source = MessageSource::of_kind("other");
    };
    assert_eq!(asked(three_turns().await, 1, renamed).await, []);
}

#[tokio::test]
async fn what_the_recorded_provider_had_filled_in_is_filled_in_again() {
    #[derive(Debug)]
    struct Filling(ScriptModel);

    impl Model for Filling {
        fn provider(&self) -> &str {
            self.0.provider()
        }

        fn prepare(&self, config: &CallConfig) -> Result<PreparedCall, Failure> {
            let mut prepared = self.0.prepare(config)?;
            prepared.config.max_tokens = Some(4_096);
            prepared.adapter_defaults = AdapterDefaults {
                max_tokens: true,
                ..AdapterDefaults::default()
            };
            prepared.info.context_window = Some(64_000);
            Ok(prepared)
        }

        fn stream(
            &self,
            request: Arc<ModelRequest>,
            cancel: CancellationToken,
        ) -> futures_util::stream::BoxStream<'static, offshoot_model::Chunk> {
            self.0.stream(request, cancel)
        }
    }

    let model = Arc::new(Filling(ScriptModel::new("acme", three())));
    let script = recorded("main", recording(model, &PROMPTS).await);
    let scripts = comparing(script, Comparing::Current);
    assert_eq!(replay(&scripts, &PROMPTS, |_| {}).await, []);
    let model = scripts.bind(SessionKey::named("main"), &"session-live-0".into());
    let config = CallConfig {
        provider: "acme".into(),
        model: "acme-small".into(),
        ..CallConfig::default()
    };
    let prepared = model.prepare(&config).unwrap();
    assert_eq!(prepared.info.context_window, Some(64_000));
    assert_eq!(prepared.config.max_tokens, Some(4_096));
    // Of another model the recording says nothing.
    let other = CallConfig {
        model: "acme-large".into(),
        ..config
    };
    assert_eq!(model.prepare(&other).unwrap().config.max_tokens, None);
}

#[tokio::test]
async fn a_recording_of_an_older_version_is_compared_only_if_that_is_wanted() {
    let differs = ["Where?", "And then?", "Thanks."];
    for (version, wanted, count) in [
        (4, Comparing::Current, 1),
        (3, Comparing::Current, 0),
        (3, Comparing::All, 1),
        (4, Comparing::None, 0),
    ] {
        let model = Arc::new(ScriptModel::new("acme", three()));
        let mut recording = recording(model, &PROMPTS).await;
        recording.version = version;
        let scripts = comparing(recorded("main", recording), wanted);
        let problems = replay(&scripts, &differs, |_| {}).await;
        assert_eq!(problems.len(), count, "V{version}, {wanted:?}");
    }
}

#[tokio::test]
async fn behind_an_override_that_says_something_else_nothing_is_compared() {
    let patch = |entry: &serde_json::Value| {
        overrides(&json!({"patches": [{"at": 0, "entry": entry}]})).unwrap()
    };
    let held = json!({"kind": "chunks", "chunks": "recorded", "paceMs": 1});
    for (entry, count) in [(held, 1), (entry("Other."), 0)] {
        let model = Arc::new(ScriptModel::new("acme", three()));
        let recording = recording(model, &PROMPTS).await;
        let (name, file) = ("main", Path::new("sessions/main.jsonl"));
        let script = Script::of_recording(name, file, recording, Some(&patch(&entry))).unwrap();
        let scripts = comparing(script, Comparing::Current);
        let prompts = [PROMPTS[0], "And then?", PROMPTS[2]];
        let problems = replay(&scripts, &prompts, |_| {}).await;
        assert_eq!(problems.len(), count, "{entry}");
    }
}

fn long(word: &str, tokens: usize) -> String {
    vec![word; tokens * 4 / (word.len() + 1) + 1].join(" ")
}

/// A conversation whose third turn finds its context full, and the prompts that make it.
async fn compacted() -> (Script, [String; 3]) {
    let answers = [
        says(&long("answer", 700)),
        says(&long("two", 150)),
        says("In short."),
        says("Three."),
    ];
    let prompts = [long("question", 800), "Second.".into(), "Third.".into()];
    let model = ScriptModel::new("acme", answers.to_vec()).with_context_window(2_000);
    let texts = prompts.each_ref().map(String::as_str);
    let recording = recording(Arc::new(model), &texts).await;
    (recorded("main", recording), prompts)
}

#[tokio::test]
async fn a_request_for_a_summary_is_compared_up_to_the_question() {
    let (script, prompts) = compacted().await;
    let asked: Vec<_> = script
        .entries()
        .iter()
        .map(|entry| entry.recorded.unwrap().asked)
        .collect();
    assert_eq!(asked[2], Asked::Summary);
    // The second answer is kept as it is, and no part of what is summarised.
    let kept = script.recording().unwrap().log.messages();
    let kept = kept.filter(|message| message.text.contains("two two"));
    assert_eq!(kept.count(), 1);
    let texts = prompts.each_ref().map(String::as_str);
    let scripts = comparing(script, Comparing::Current);
    assert_eq!(replay(&scripts, &texts, |_| {}).await, []);
    assert_eq!(scripts.unconsumed(), []);

    // The first two calls are not made, so that the summary is the first that differs.
    let (script, _) = compacted().await;
    let head = script.recording().unwrap().log.surface().head();
    let question = Message::text("q", Role::User, "Sum up.", MessageSource::user());
    let request = Arc::new(ModelRequest {
        messages: vec![question.into()],
        ..ModelRequest::default()
    });
    let scripts = comparing(script, Comparing::Current);
    scripts.resume(Progress {
        made: [("main".to_owned(), 2)].into(),
        ..Progress::default()
    });
    let model = scripts.bind(SessionKey::named("main"), &"live".into());
    let mut stream = model.stream(request, CancellationToken::new());
    while stream.next().await.is_some() {}
    let problems = scripts.problems();
    let [Problem::Differs(differs)] = &problems[..] else {
        panic!("{problems:?}");
    };
    assert_eq!((differs.request, differs.event), (3, head));
    assert!(
        differs.found.ends_with(r#""messages":[]}"#),
        "{}",
        differs.found
    );
}
