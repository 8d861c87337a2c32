//! Pictures that leave the context when a request would have too many of them (`reference/agent.md` §2.4).

use std::sync::Arc;

use offshoot_agent::{Agent, InboxTarget, Input, Wake, reconstruct, request_at};
use offshoot_model::{
    Attempt, Chunk, ContentBlock, Failure, ImageAttachment, MessageSource, ModelRequest,
};
use offshoot_session::EventKind;
use serde_json::json;

use crate::bench::{Bench, script};
use crate::support::{all, endings, says};

fn picture(name: &str) -> ContentBlock {
    let attachment = ImageAttachment {
        attachment_id: format!("sha256:{}", "0".repeat(64)),
        media_type: "image/png".into(),
        bytes: 10,
        width: 1,
        height: 1,
        name: Some(name.into()),
        original_dimensions: None,
    };
    ContentBlock::Image {
        attachment,
        offloaded: false,
    }
}

fn shows(id: &str, pictures: &[&str]) -> Input {
    let text = ContentBlock::text("Look at these.");
    let pictures = pictures.iter().map(|name| picture(name));
    let blocks = std::iter::once(text).chain(pictures).collect();
    Input::blocks(id, blocks, MessageSource::of_kind("user"))
}

/// The adapter's word that so many pictures have to go.
fn too_many(excess: u64) -> Attempt {
    let mut failure = Failure::new("IMAGE_OFFLOAD_REQUIRED", "too many pictures");
    failure.offload_images = Some(excess);
    Attempt::Chunks(vec![Chunk::failed(failure)])
}

/// The names of the pictures that a request shows.
fn shown(request: &ModelRequest) -> Vec<&str> {
    let blocks = request.messages.iter().flat_map(|message| &message.content);
    let shown = blocks.filter_map(|block| match block {
        ContentBlock::Image {
            attachment,
            offloaded: false,
        } => attachment.name.as_deref(),
        _ => None,
    });
    shown.collect()
}

async fn say(agent: &Agent, input: &Input) {
    agent.send(input, InboxTarget::NextTurn, Wake::Yes).unwrap();
    agent.when_idle().await;
}

#[tokio::test]
async fn the_oldest_pictures_leave_the_context_for_good_and_the_step_goes_on() {
    let bench = Bench::new();
    let attempts = [
        says("I see."),
        too_many(3),
        says("I see."),
        too_many(1),
        says("I see."),
    ];
    let model = script(attempts.into());
    let agent = bench.running(Arc::clone(&model) as _);
    say(&agent, &shows("one", &["a", "b"])).await;
    say(&agent, &shows("two", &["c", "d"])).await;
    say(&agent, &shows("three", &["e"])).await;
    agent.dispose().await.unwrap();
    let requests = model.requests();
    let seen: Vec<_> = requests.iter().map(|request| shown(request)).collect();
    assert_eq!(
        seen,
        [
            vec!["a", "b"],
            vec!["a", "b", "c", "d"],
            vec!["d"],
            vec!["d", "e"],
            vec!["e"],
        ]
    );
    let id = agent.session().id();
    let log = bench.log(id);
    assert_eq!(endings(&log), ["completed"; 3]);
    let seq = |id: &str| {
        let said = log.events().find(|event| {
            event.data().contains(&format!("\"id\":\"{id}\""))
                && *event.kind() == EventKind::UserMessage
        });
        said.unwrap().seq()
    };
    assert_eq!(
        all(&log, &EventKind::ImageOffload),
        [
            json!({"targets": [
                {"seq": seq("one"), "imageIndexes": [0, 1]}, {"seq": seq("two"), "imageIndexes": [0]},
            ]}),
            json!({"targets": [{"seq": seq("two"), "imageIndexes": [1]}]}),
        ]
    );
    for (n, sent) in requests.iter().enumerate() {
        let (settled, rebuilt) = request_at(&log, id, n + 1).unwrap();
        let prefix = log.prefix(settled.before());
        let by_rows = reconstruct(prefix.events().map(|event| event.text()), id).unwrap();
        assert_eq!(
            (&rebuilt, &by_rows),
            (&**sent, &**sent),
            "request {}",
            n + 1
        );
    }
}

#[tokio::test]
async fn an_adapter_that_is_never_content_fails_the_turn_when_no_picture_is_left() {
    let bench = Bench::new();
    let model = script((0..4).map(|_| too_many(1)).collect());
    let agent = bench.running(Arc::clone(&model) as _);
    say(&agent, &shows("one", &["a", "b"])).await;
    let log = agent.session().log();
    let end = &all(&log, &EventKind::TurnEnd)[0]["reason"];
    assert_eq!(end["error"]["code"], "IMAGE_OFFLOAD_REQUIRED");
    assert_eq!(model.requests().len(), 3);
    agent.dispose().await.unwrap();
}
