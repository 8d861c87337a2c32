//! Side sessions: where they begin, what they inherit, and what their model is told first.

use std::sync::Arc;

use offshoot_agent::{
    Agent, AgentHook, Cancel, CancelCause, Driver, Framing, HookError, PreStep, Queue, SideRequest,
    SideSession, StepContext,
};
use offshoot_model::{CallConfig, Role};
use offshoot_session::{EventKind, EventLog, LogOffset, Seq, SessionHeader, SessionId};
use offshoot_test_support::{Reply, ScriptedModelServer};
use serde_json::Value;

use crate::bench::{Bench, ask, over_http, script};
use crate::hooks::{Before, broken, enter};
use crate::outline::{numbered_from, outline, outline_from};
use crate::parts::texts_of;
use crate::prefix::elements;
use crate::support::{Hold, all, calls, data, endings, first, says};

/// A side session of a stored session, which begins where that was last at rest.
pub(crate) fn side(bench: &Bench, source: &SessionId) -> SideSession {
    side_at(bench, source, None).unwrap()
}

pub(crate) fn side_at(
    bench: &Bench,
    source: &SessionId,
    at: Option<Seq>,
) -> Result<SideSession, offshoot_agent::AgentError> {
    let request = SideRequest {
        at,
        ..SideRequest::default()
    };
    bench.service.side(&bench.read(source), &request)
}

/// An agent on a side session, with an answer for every turn.
pub(crate) fn talking(bench: &Bench, side: SideSession) -> Driver {
    bench.agent(side.attached, script(vec![says("Because."); 5]))
}

/// The messages about side sessions in a log: which they are, and where they stand.
pub(crate) fn marks(log: &EventLog) -> Vec<(String, u64)> {
    let messages = log
        .events()
        .filter(|event| *event.kind() == EventKind::UserMessage);
    messages
        .map(|event| (data(event)["source"].clone(), event.seq().get()))
        .filter(|(source, _)| source["kind"] == "sidechat")
        .map(|(source, seq)| (source["act"].as_str().unwrap().to_owned(), seq))
        .collect()
}

pub(crate) fn texts(log: &EventLog) -> Vec<String> {
    log.events().map(|event| event.text().to_owned()).collect()
}

/// A parent that has completed a turn.
pub(crate) async fn parent(bench: &Bench) -> Driver {
    let mut agent = bench.scripted(vec![says("One."); 5]);
    ask(&mut agent, "First.").await;
    agent
}

/// An agent whose second turn is in the middle of a tool.
async fn in_a_tool(bench: &Bench) -> (Agent, Hold) {
    let hold = bench.work.hold("a");
    let agent = bench.running(script(vec![
        says("One."),
        calls([("a", "change", "{}")]),
        says("Two."),
    ]));
    agent.followup("First.").unwrap();
    agent.when_idle().await;
    agent.followup("Second.").unwrap();
    hold.started.cancelled().await;
    (agent, hold)
}

/// An agent in its first turn, in the middle of a tool.
async fn in_its_first_turn(bench: &Bench) -> (Agent, Hold) {
    let hold = bench.work.hold("a");
    let agent = bench.running(script(vec![calls([("a", "change", "{}")]), says("One.")]));
    agent.followup("First.").unwrap();
    hold.started.cancelled().await;
    (agent, hold)
}

#[tokio::test]
async fn it_begins_behind_the_last_completed_turn_with_its_framing_and_the_parent_is_only_read() {
    let bench = Bench::new();
    let parent = parent(&bench).await;
    let id = parent.session().id().clone();
    let before = bench.bytes(&id);
    let side = side(&bench, &id);
    assert_eq!(bench.bytes(&id), before);

    let log = bench.log(&id);
    let cut = log.latest_completed_boundary();
    assert_eq!(
        (side.cut, side.framing, side.summarised, side.is_new),
        (cut, Framing::Logged(Seq::new(14)), false, true)
    );
    // What is in memory is what is stored.
    let child = bench.read(side.attached.session().id()).stored;
    assert_eq!(texts(&child.log), texts(&side.attached.session().log()));
    assert_eq!(
        texts(&child.log.prefix(child.inherited)),
        texts(&log.prefix(cut.unwrap().after()))
    );
    insta::assert_snapshot!(numbered_from(&child.log, child.inherited), @r"
    13 session/end-seed
    14 user/message sidechat framing
    ");
    assert_eq!(
        child.header,
        SessionHeader {
            cwd: Some("/srv/demo".into()),
            parent: Some(id),
            is_seeded: true,
            ..SessionHeader::new(child.header.id.clone(), 1_000)
        }
    );
}

#[tokio::test]
async fn the_model_is_told_that_it_explains_and_does_not_act() {
    let bench = Bench::new();
    let parent = parent(&bench).await;
    let side = side(&bench, parent.session().id());
    let log = side.attached.session().log();
    let framing = data(log.last().unwrap());
    assert_eq!(framing["role"], "user");
    assert_eq!(
        framing["source"].to_string(),
        r#"{"kind":"sidechat","form":"notice","summary":"Side session: explains and does not act","act":"framing"}"#
    );
    insta::assert_snapshot!(framing["content"][0]["text"].as_str().unwrap());
}

#[tokio::test]
async fn it_begins_while_the_parent_is_in_the_middle_of_a_turn_here_or_elsewhere() {
    let bench = Bench::new();
    let (agent, hold) = in_a_tool(&bench).await;
    let id = agent.session().id().clone();
    let before = agent.session().log();
    let end_of_first = first(&before, &EventKind::TurnEnd).seq();

    let here = bench.service.side_of(&agent, &SideRequest::default()).await;
    let here = here.unwrap();
    let bytes = bench.bytes(&id);
    // Whoever reads the file knows nothing of the agent: so does another process.
    let elsewhere = side(&bench, &id);
    for side in [here, elsewhere] {
        assert_eq!(side.cut, Some(end_of_first));
        let mut child = talking(&bench, side);
        assert_eq!(ask(&mut child, "Why?").await[0].text, "Because.");
        assert_eq!(
            endings(&child.session().log()),
            ["completed", "completed"],
            "nothing of the open turn was inherited"
        );
    }
    assert_eq!(bench.bytes(&id), bytes);
    assert_eq!(texts(&agent.session().log()), texts(&before));

    hold.released.cancel();
    agent.when_idle().await;
    let log = agent.session().log();
    assert_eq!(endings(&log), ["completed", "completed"]);
    assert_eq!(marks(&log), []);
}

#[tokio::test]
async fn where_it_begins_for_every_event_of_the_source() {
    let bench = Bench::new();
    let (agent, hold) = in_a_tool(&bench).await;
    hold.released.cancel();
    agent.when_idle().await;
    // What belongs to no turn: an independent tail, and input that nobody has claimed.
    agent.rename("A name.").unwrap();
    agent.inject("For later.").unwrap();
    let hold = bench.work.hold("b");
    agent.set_model(
        script(vec![calls([("b", "check", "{}")]), says("Three.")]),
        crate::bench::call_config("acme-small"),
    );
    agent.followup("Third.").unwrap();
    hold.started.cancelled().await;
    agent.flush().await.unwrap();

    let id = agent.session().id();
    let log = bench.log(id);
    let mut told = String::new();
    let mut made = 0;
    for (event, line) in log.events().zip(outline(&log).lines()) {
        let begins = match side_at(&bench, id, Some(event.seq())) {
            Ok(side) => {
                made += 1;
                format!("{:>2}", side.cut.unwrap())
            }
            Err(error) => error.code().to_owned(),
        };
        told += &format!("{:>2} → {begins}  {line}\n", event.seq());
    }
    insta::assert_snapshot!(told);

    let error = side_at(&bench, id, log.end().last()).unwrap_err();
    insta::assert_snapshot!(format!("{error}\n{}", error.hint().unwrap()));
    let beyond = side_at(&bench, id, Some(log.end().seq())).unwrap_err();
    assert_eq!(beyond.code(), "INVALID_BOUNDARY");
    let left = bench.service.list(&offshoot_store::Query::default());
    assert_eq!(
        left.unwrap().rows.len(),
        made + 1,
        "what was refused left nothing"
    );

    // Without a place it is the last of them that is no place within a turn.
    let latest = side(&bench, id);
    assert_eq!(latest.cut, log.latest_completed_boundary());
    hold.released.cancel();
    agent.when_idle().await;
}

#[tokio::test]
async fn with_no_completed_turn_it_begins_from_nothing_and_says_so() {
    let bench = Bench::new();
    let (agent, hold) = in_its_first_turn(&bench).await;
    let id = agent.session().id().clone();
    let side = bench.service.side_of(&agent, &SideRequest::default()).await;
    let side = side.unwrap();
    assert_eq!(
        (side.cut, side.framing, side.summarised, side.is_new),
        (None, Framing::Waiting, false, true)
    );
    let child = bench.read(side.attached.session().id()).stored;
    assert_eq!(
        child.header,
        SessionHeader {
            cwd: Some("/srv/demo".into()),
            parent: Some(id),
            ..SessionHeader::new(child.header.id.clone(), 1_000)
        }
    );
    assert_eq!(child.inherited, LogOffset::START);
    assert!(
        !child.log.is_side_session(),
        "its model was told nothing yet"
    );

    let model = script(vec![says("Because.")]);
    let mut child = bench.agent(side.attached, Arc::clone(&model) as _);
    ask(&mut child, "Why?").await;
    insta::assert_snapshot!(outline(&child.session().log()), @r#"
    agent/inbox/spliced next-step at 0 +"You are in a side session. It belongs to another conversatio"…
    agent/inbox/spliced next-turn at 0 +"Why?"
    turn/start 1
    agent/inbox/spliced next-step at 0 -1
    agent/inbox/spliced next-turn at 0 -1
    step/start 1.1
    system/message
    user/message sidechat framing
    user/message "Why?"
    user/message runtime-context
    request/header initial
    request/context
    session/title
    assistant/message 1.1 [text "Because."]
    step/end 1.1
    turn/end 1 completed
    "#);
    assert!(child.session().log().is_side_session());
    insta::assert_snapshot!(texts_of(&child.session().log(), "sidechat").join("\n"));
    assert_eq!(
        model.requests()[0].messages[0].role,
        Role::System,
        "the prompt stands in front"
    );
    hold.released.cancel();
    agent.when_idle().await;
    assert_eq!(marks(&agent.session().log()), []);
}

#[tokio::test]
async fn behind_a_turn_that_never_said_anything_the_framing_waits_for_the_prompt() {
    let bench = Bench::new();
    let mut setup = bench.setup(script(Vec::new()));
    setup
        .hooks
        .push(Arc::new(Before::steps(|_, _| Ok(PreStep::Reject))));
    let mut blocked = Driver::new(bench.create(), setup);
    ask(&mut blocked, "First.").await;
    let side = side(&bench, blocked.session().id());
    let cut = blocked.session().log().latest_completed_boundary();
    assert!(cut.is_some());
    assert_eq!((side.cut, side.framing), (cut, Framing::Waiting));
    let mut child = talking(&bench, side);
    ask(&mut child, "Why?").await;
    let log = child.session().log();
    let own = log.inherited_marker().unwrap().before();
    insta::assert_snapshot!(outline_from(&log, own), @r#"
    session/end-seed
    agent/inbox/spliced next-step at 0 +"You are in a side session. It belongs to another conversatio"…
    agent/inbox/spliced next-turn at 0 +"Why?"
    turn/start 2
    agent/inbox/spliced next-step at 0 -1
    agent/inbox/spliced next-turn at 0 -1
    step/start 2.1
    system/message
    user/message sidechat framing
    user/message "Why?"
    user/message runtime-context
    request/header initial
    request/context
    session/title
    assistant/message 2.1 [text "Because."]
    step/end 2.1
    turn/end 2 completed
    "#);
}

/// Fails when the step has begun and nothing was said, the first time.
#[derive(Debug, Default)]
struct NoFirstRequest(std::sync::atomic::AtomicBool);

#[async_trait::async_trait]
impl AgentHook for NoFirstRequest {
    async fn request(
        &self,
        _: &StepContext<'_>,
        config: CallConfig,
    ) -> Result<CallConfig, HookError> {
        match self.0.swap(true, std::sync::atomic::Ordering::SeqCst) {
            false => Err(broken()),
            true => Ok(config),
        }
    }
}

/// Decides otherwise about the first step of all.
fn not_the_first(decision: fn() -> Result<PreStep, HookError>) -> Before {
    let seen = std::sync::atomic::AtomicBool::default();
    Before::steps(
        move |_, messages| match seen.swap(true, std::sync::atomic::Ordering::SeqCst) {
            false => decision(),
            true => Ok(enter(messages)),
        },
    )
}

#[tokio::test]
async fn a_framing_that_waits_is_the_first_message_whatever_becomes_of_the_first_turns() {
    let hooks: [fn() -> Arc<dyn AgentHook>; 3] = [
        || Arc::new(not_the_first(|| Ok(PreStep::Reject))),
        || Arc::new(not_the_first(|| Err(broken()))),
        || Arc::new(NoFirstRequest::default()),
    ];
    for hook in hooks {
        let bench = Bench::new();
        let (agent, hold) = in_its_first_turn(&bench).await;
        let side = bench.service.side_of(&agent, &SideRequest::default()).await;
        let mut setup = bench.setup(script(vec![says("Because.")]));
        setup.hooks.push(hook());
        let child = Agent::new(side.unwrap().attached, setup);
        child.cancel(CancelCause::User, Queue::Clear).unwrap();
        child.followup("Why?").unwrap();
        child.when_idle().await;
        child.cancel(CancelCause::User, Queue::Clear).unwrap();
        child.followup("Why, please?").unwrap();
        child.when_idle().await;
        let log = child.session().log();
        assert_eq!(endings(&log).last().unwrap(), "completed");
        let said = all(&log, &EventKind::UserMessage);
        assert_eq!(said[0]["source"]["act"], "framing", "{}", outline(&log));
        assert_eq!(marks(&log).len(), 1, "{}", outline(&log));
        hold.released.cancel();
        agent.when_idle().await;
    }
}

#[tokio::test]
async fn a_framing_that_a_crash_finds_claimed_and_unsaid_waits_again() {
    let mut bench = Bench::new();
    let (agent, hold) = in_its_first_turn(&bench).await;
    let side = bench.service.side_of(&agent, &SideRequest::default()).await;
    hold.released.cancel();
    agent.when_idle().await;
    agent.dispose().await.unwrap();

    #[derive(Debug)]
    struct Waits;
    #[async_trait::async_trait]
    impl AgentHook for Waits {
        async fn pre_step(
            &self,
            _: &StepContext<'_>,
            _: Vec<offshoot_agent::Input>,
        ) -> Result<PreStep, HookError> {
            std::future::pending().await
        }
    }
    let mut setup = bench.setup(script(Vec::new()));
    setup.hooks.push(Arc::new(Waits));
    let mut child = Driver::new(side.unwrap().attached, setup);
    let session = child.session().clone();
    child.submit("Why?").unwrap();
    let cancel = Cancel::new();
    tokio::select! {
        done = child.run(&cancel) => panic!("{done:?}"),
        () = async {
            while !session.log().pending_input().is_empty() {
                tokio::task::yield_now().await;
            }
        } => {}
    }
    child.flush().unwrap();
    bench.crash(child);
    let mut child = bench.agent(bench.open(session.id()), script(vec![says("Because.")]));
    child.run(&Cancel::new()).await.unwrap();
    let log = bench.log(session.id());
    assert_eq!(
        all(&log, &EventKind::UserMessage)[0]["source"]["act"],
        "framing"
    );
    assert_eq!(marks(&log).len(), 1);
}

/// The exact text of the tools of a request.
fn tools(body: &[u8]) -> String {
    let body: Value = serde_json::from_slice(body).unwrap();
    body["tools"].to_string()
}

#[tokio::test]
async fn its_first_request_begins_with_the_parents_last_one_byte_for_byte() {
    let bench = Bench::new();
    let server = ScriptedModelServer::start([
        Reply::text_then_tool_calls("Both.", [("a", "look", "{}"), ("b", "change", "{}")]),
        Reply::reasoning_then_text("Hm, so.", "Done."),
        Reply::text("Because."),
    ]);
    let mut parent = bench.agent(bench.create(), over_http(&server));
    ask(&mut parent, "Do both, with \"quotes\" and ünicode.").await;
    let side = side(&bench, parent.session().id());
    let mut child = bench.agent(side.attached, over_http(&server));
    ask(&mut child, "Why?").await;

    let requests = server.requests();
    let [_, parents, childs] = &requests[..] else {
        panic!("{} requests", requests.len());
    };
    assert_eq!(tools(&childs.body), tools(&parents.body));
    let (parents, childs) = (elements(&parents.body), elements(&childs.body));
    let (shared, own) = childs.split_at(parents.len());
    assert_eq!(shared, parents);
    // What the parent was answered, and then what is new.
    assert!(own[0].contains("Done."), "{}", own[0]);
    let role = |message: &String| serde_json::from_str::<Value>(message).unwrap()["role"].clone();
    assert_eq!(
        own.iter().map(role).collect::<Vec<_>>(),
        ["assistant", "user", "user", "user"]
    );
    assert!(
        own[1].contains("You are in a side session now."),
        "{}",
        own[1]
    );
    assert!(own[2].contains("Why?"), "{}", own[2]);
    server.finish();
}

#[tokio::test]
async fn one_that_begins_from_nothing_has_the_parents_prompt_and_tools_byte_for_byte() {
    let bench = Bench::new();
    let server = ScriptedModelServer::start([
        Reply::tool_calls([("a", "change", "{}")]),
        Reply::text("Because."),
        Reply::text("Done."),
    ]);
    let hold = bench.work.hold("a");
    let parent = Agent::new(bench.create(), bench.setup(over_http(&server)));
    parent.followup("First.").unwrap();
    hold.started.cancelled().await;
    let side = bench
        .service
        .side_of(&parent, &SideRequest::default())
        .await;
    let mut child = bench.agent(side.unwrap().attached, over_http(&server));
    ask(&mut child, "Why?").await;
    hold.released.cancel();
    parent.when_idle().await;

    let requests = server.requests();
    assert_eq!(tools(&requests[1].body), tools(&requests[0].body));
    let (parents, childs) = (elements(&requests[0].body), elements(&requests[1].body));
    assert_eq!(childs[0], parents[0]);
    assert!(
        childs[1].contains("You are in a side session."),
        "{}",
        childs[1]
    );
    server.finish();
}

#[tokio::test]
async fn one_of_a_compacted_source_says_that_summaries_are_inherited_in_place_of_turns() {
    let bench = Bench::new();
    let agent = bench.running(script(vec![says("One."), says("In short."), says("Two.")]));
    agent
        .followup(&crate::crowd::long("question", 400))
        .unwrap();
    agent.when_idle().await;
    let id = agent.session().id();
    agent.flush().await.unwrap();
    let before = side(&bench, id);
    assert!(!before.summarised);
    agent.compact().await.unwrap().unwrap();
    agent.followup("Second.").unwrap();
    agent.when_idle().await;
    let after = bench.service.side_of(&agent, &SideRequest::default()).await;
    assert!(after.unwrap().summarised);
    // What counts is what the side session inherits.
    let early = side_at(&bench, id, before.cut).unwrap();
    assert!(!early.summarised);
}

#[tokio::test]
async fn it_tells_which_files_the_source_has_changed_behind_the_cut() {
    let bench = Bench::new();
    let write = r#"{"file_path":"/srv/demo/a.txt"}"#;
    let tool = crate::scene::Probe::new("write", |_| Ok(offshoot_tool_api::ToolOutput::text("ok")));
    let mut scene = crate::scene::Scene::new(&bench).tool(tool);
    scene.config.system_prompt = "You are a test agent.".into();
    let mut agent = scene.agent(&[("w", "write", write)]);
    ask(&mut agent, "Write.").await;
    let early = side_at(&bench, agent.session().id(), Some(Seq::new(0))).unwrap();
    assert_eq!(early.cut, Some(Seq::new(0)));
    let paths: Vec<_> = early.changed.files.iter().map(|file| &*file.path).collect();
    assert_eq!(paths, ["/srv/demo/a.txt"]);
    let late = side(&bench, agent.session().id());
    assert!(late.changed.is_empty());
}

#[tokio::test]
async fn an_agent_of_another_service_is_no_source() {
    let bench = Bench::new();
    let other = Bench::new();
    let agent = other.running(script(Vec::new()));
    let refused = bench.service.side_of(&agent, &SideRequest::default()).await;
    assert_eq!(refused.unwrap_err().code(), "SESSION_NOT_LIVE");
}
