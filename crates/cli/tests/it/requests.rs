//! Every request of a conversation that works with tools, goes on in other processes and is forked: another process rebuilds
//! it from the file, and each begins with the one before.

use offshoot_test_support::{CapturedRequest, Reply, ScriptedModelServer, TestHome};
use serde_json::{Value, json};

use crate::continuing::{assert_shown_again, count, head};
use crate::support::{events, session_of, turn, work};

fn call(tool: &str, arguments: Value) -> Reply {
    let id = format!("call_{tool}");
    Reply::tool_calls([(&*id, tool, &*arguments.to_string())])
}

/// Each request begins with all of the one before it.
fn assert_extends(sent: &[&CapturedRequest]) {
    for (pair, n) in sent.windows(2).zip(2..) {
        let before = count(pair[0]);
        assert_eq!(head(pair[1], before), head(pair[0], before), "request {n}");
    }
}

fn text(request: &CapturedRequest) -> String {
    String::from_utf8(request.body.to_vec()).unwrap()
}

#[test]
fn of_a_session_with_tools_of_its_continuation_and_of_its_fork() {
    let home = TestHome::new();
    let file = |content: &str| json!({"file_path": "notes.txt", "content": content});
    let server = ScriptedModelServer::start([
        Reply::text("Hello."),
        call("write", file("one\n")),
        call("read", json!({"file_path": "notes.txt"})),
        Reply::reasoning_then_text("Hm.", "Written."),
        Reply::text("It says one."),
        Reply::text("I have not written anything."),
        Reply::text("Really."),
    ]);
    let say = |args: &[&str]| {
        session_of(
            &turn(&home, &server)
                .args(["--json"])
                .args(args)
                .run()
                .success(),
        )
    };
    let parent = say(&["Hello."]);
    let cut = events(&home, &parent).len() - 1;
    say(&["--session", &parent, "Write a note, and look at it."]);
    say(&["--session", &parent, "What does it say?"]);
    let child = say(&[
        "--fork",
        &parent,
        "--at",
        &cut.to_string(),
        "Have you written a note?",
    ]);
    say(&["--session", &child, "Really?"]);

    let sent = server.requests();
    let all: Vec<&CapturedRequest> = sent.iter().collect();
    let (parents, childs) = all.split_at(5);
    assert_shown_again(&home, &parent, parents);
    assert_extends(parents);
    // What the child has inherited is one request and its answer.
    let of_child = [&[parents[0]], childs].concat();
    assert_shown_again(&home, &child, &of_child);
    assert_extends(&of_child);
    let shared = count(parents[0]) + 1;
    assert_eq!(head(childs[0], shared), head(parents[1], shared));

    // Nothing that varies stands in what they share.
    let shared = head(childs[0], shared);
    for varying in [&*parent, &*child, "branched off from"] {
        assert!(!shared.contains(varying), "{varying} in {shared}");
    }
    // Behind it the child is told what it finds.
    let note = work(&home).join("notes.txt").display().to_string();
    let told = text(childs[0]);
    assert!(told.contains(&format!("- {note} (new)")), "{told}");
    assert_eq!(
        text(childs[1]).matches("branched off from").count(),
        1,
        "it is said once"
    );
}
