//! `offshoot check --deep`: an answer and its stream are two accounts of the same thing.

use insta::assert_snapshot;
use offshoot_test_support::TestHome;
use serde_json::{Value, json};

use crate::support::{demo, file, json, of_version, run, seen};

/// The session with another answer in it.
fn with_answer(change: impl FnOnce(&mut Value)) -> String {
    let text = of_version(4);
    let row = text
        .lines()
        .find(|line| line.contains("assistant/message"))
        .unwrap();
    let mut changed: Value = serde_json::from_str(row).unwrap();
    change(&mut changed["data"]);
    text.replace(row, &changed.to_string())
}

#[test]
fn what_differs_is_named_with_its_event_and_the_session_stays_usable() {
    let home = TestHome::new();
    file(
        &home,
        "content.jsonl",
        with_answer(|data| {
            data["message"]["content"][0]["text"] = json!("Two thousand grams.");
        }),
    );
    file(
        &home,
        "usage.jsonl",
        with_answer(|data| data["usage"] = json!({"inputTokens": 1, "outputTokens": 2})),
    );
    file(
        &home,
        "replay.jsonl",
        with_answer(|data| data["message"]["source"]["replayState"] = json!({"response": "r-1"})),
    );
    file(
        &home,
        "interrupted.jsonl",
        with_answer(|data| {
            data["interrupted"] = json!(true);
            data["message"]["content"] = json!([{"type": "text", "text": "Two "}]);
        }),
    );
    file(
        &home,
        "unreadable.jsonl",
        with_answer(|data| data["stream"] = json!([{"type": "chunk", "time": 1}])),
    );
    let files = [
        "content.jsonl",
        "usage.jsonl",
        "replay.jsonl",
        "interrupted.jsonl",
        "unreadable.jsonl",
    ];
    assert_snapshot!(seen(&run(&home, ["check", "--deep"].iter().chain(&files))), @r#"
    exit code: 1
    ----- stdout -----
    content.jsonl: mismatched (8 events)
      STREAM_MISMATCH: event 5: block 1: text from character 5 on: the stream gives "hundred grams.", the message has "thousand grams."
      hint: the conversation goes by the message, so it can go on; the stream only tells how the answer came
    usage.jsonl: mismatched (8 events)
      STREAM_MISMATCH: event 5: usage: the stream gives none, the message has {"inputTokens":1,"outputTokens":2}
      hint: the conversation goes by the message, so it can go on; the stream only tells how the answer came
    replay.jsonl: mismatched (8 events)
      STREAM_MISMATCH: event 5: replay state: the stream gives none, the message has one
      hint: the conversation goes by the message, so it can go on; the stream only tells how the answer came
    interrupted.jsonl: mismatched (8 events)
      STREAM_MISMATCH: event 5: block 1: text from character 5 on: the stream gives "hundred grams.", the message has nothing more
      hint: the conversation goes by the message, so it can go on; the stream only tells how the answer came
    unreadable.jsonl: mismatched (8 events)
      STREAM_MISMATCH: event 5: the answer cannot be read: missing field `chunk`
      hint: the conversation goes by the message, so it can go on; the stream only tells how the answer came
    ----- stderr -----
    "#);
    let verdicts = json(&run(&home, ["check", "--deep", "--json", "usage.jsonl"]));
    assert_eq!(
        verdicts,
        json!([{"file": "usage.jsonl", "status": "mismatched", "format": "current", "version": 4, "findings": [{
            "code": "STREAM_MISMATCH",
            "seq": 5,
            "reason": "event 5: usage: the stream gives none, the message has {\"inputTokens\":1,\"outputTokens\":2}",
            "hint": "the conversation goes by the message, so it can go on; the stream only tells how the answer came",
        }]}])
    );
    // Nobody else minds.
    drop(run(&home, ["check"].iter().chain(&files)).success());
    drop(run(&home, ["show", "content.jsonl"]).success());
    drop(run(&home, ["fork", "content.jsonl"]).success());
}

#[test]
fn answers_that_their_streams_give_are_sound_in_every_version() {
    let home = TestHome::new();
    let mut args = vec!["check".to_owned(), "--deep".to_owned()];
    for version in 0..=4 {
        let name = format!("v{version}.jsonl");
        file(&home, &name, of_version(version));
        args.push(name);
    }
    args.push(demo().display().to_string());
    drop(run(&home, args).success());
}

#[test]
fn an_interrupted_answer_is_what_is_worth_keeping_and_one_without_a_stream_is_exempt() {
    let home = TestHome::new();
    file(
        &home,
        "interrupted.jsonl",
        with_answer(|data| {
            data["interrupted"] = json!(true);
            data["message"]["content"] = json!([{"type": "text", "text": "Two hundred "}]);
            data["stream"] = json!([
                {"type": "text-chunks", "time0": 1010, "index": 0, "dt": [2], "texts": ["Two ", "hundred "]},
                {"type": "tool-call-chunks", "time0": 1010, "index": 1, "dt": [], "id": "c", "name": "weigh", "args": ["{"]},
                {"type": "chunk", "time": 1016, "chunk": {"type": "text-delta", "index": 2, "text": " "}},
            ]);
        }),
    );
    file(
        &home,
        "exempt.jsonl",
        with_answer(|data| data["stream"] = json!([])),
    );
    let checked = run(
        &home,
        ["check", "--deep", "interrupted.jsonl", "exempt.jsonl"],
    );
    assert_eq!(
        checked.success().stdout_text(),
        "interrupted.jsonl: ok (8 events)\nexempt.jsonl: ok (8 events)\n"
    );
}
