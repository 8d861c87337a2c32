//! What holds for the whole way up, whatever the version is that a file has.

use std::fs;

use offshoot_test_support::corpus;

use crate::{Container, StoredSession, decode_as};

/// The file of V4 that holds the session.
fn written(stored: &StoredSession) -> String {
    let header = String::from_utf8(Container::Raw.header(&stored.header).unwrap()).unwrap();
    let events = stored.log.events().map(|event| &**event);
    header + std::str::from_utf8(&Container::Raw.batch(events)).unwrap()
}

/// A session whose only call was interrupted before it was started, and answered by a repair; and the seq of the answer.
fn repaired(version: u64) -> (String, u64) {
    let seeded = if version < 2 {
        ""
    } else {
        r#""isSeeded":false,"#
    };
    let mut text = format!(
        r#"{{"type":"session","version":{version},"id":"s","createdAt":1,{seeded}"delegationDepth":0}}"#
    );
    let mut seq = 0;
    let mut push = |kind: &str, data: &str, members: &str| {
        text += &format!(
            "\n{{\"type\":\"{kind}\",\"seq\":{seq},\"time\":{seq},\"data\":{data}{members}}}"
        );
        seq += 1;
        seq - 1
    };
    const APPEND: &str = r#","surfaceOp":"append""#;
    push("turn/start", r#"{"turn":1}"#, "");
    push("step/start", r#"{"turn":1,"step":1}"#, "");
    let user = r#"{"id":"u","role":"user","content":[{"type":"text","text":"go"}],"source":{"kind":"user"}}"#;
    push("user/message", user, APPEND);
    let header = r#"{"header":{"config":{"provider":"p","model":"m"},"system":"be brief"},"reason":"initial"}"#;
    push("request/header", header, "");
    let call = r#"{"type":"tool-call","id":"c","name":"ls","arguments":"{}"}"#;
    let chunks = [
        r#"{"type":"block-start","index":0,"blockType":"tool-call"}"#.to_owned(),
        r#"{"type":"tool-call-delta","index":0,"id":"c","name":"ls","argumentsDelta":"{}"}"#
            .to_owned(),
        format!(r#"{{"type":"block-end","index":0,"block":{call}}}"#),
        r#"{"type":"finish","reason":{"kind":"tool-calls"}}"#.to_owned(),
    ];
    let assistant = |stream: &str| {
        format!(
            r#"{{"turn":1,"step":1,"message":{{"id":"a","role":"assistant","content":[{call}],"source":{{"kind":"model","provider":"p","model":"m"}}}}{stream}}}"#
        )
    };
    if version < 2 {
        let seqs = chunks.map(|chunk| {
            let data = format!(r#"{{"turn":1,"step":1,"chunk":{chunk}}}"#);
            push("assistant/chunk", &data, "").to_string()
        });
        let cited = format!(r#","sourceEventSeqs":[{}]{APPEND}"#, seqs.join(","));
        push("assistant/message", &assistant(""), &cited);
    } else {
        push("assistant/message", &assistant(r#","stream":[]"#), APPEND);
    }
    let at = push("todo/write", r#"{"todos":[]}"#, "") + 1;
    let result = format!(
        r#"{{"turn":1,"step":1,"message":{{"id":"interrupted-tool-result-c-{at}","role":"user","source":{{"kind":"tool","callId":"c"}},"content":[{{"type":"tool-result","toolCallId":"c","isError":true,"content":[{{"type":"text","text":"{}"}}]}}]}},"error":{{"name":"ToolNotStartedError","code":"TOOL_NOT_STARTED"}}}}"#,
        offshoot_session::INTERRUPTED_NOT_STARTED
    );
    push("tool/result", &result, APPEND);
    push("step/end", r#"{"turn":1,"step":1}"#, "");
    push(
        "turn/end",
        r#"{"turn":1,"reason":{"kind":"interrupted"}}"#,
        "",
    );
    (text + "\n", at)
}

#[test]
fn the_id_of_a_repair_keeps_its_number_when_its_event_moves() {
    for (version, is_at) in [(0, 8), (1, 8), (2, 8)] {
        let (text, was_at) = repaired(version);
        let stored = decode_as(Container::Raw, text.as_bytes()).unwrap();
        let results = stored
            .log
            .events()
            .filter(|event| event.text().contains("interrupted-tool"));
        let results: Vec<(u64, String)> = results
            .map(|event| {
                let data: serde_json::Value = serde_json::from_str(event.data()).unwrap();
                (
                    event.seq().get(),
                    data["message"]["id"].as_str().unwrap().to_owned(),
                )
            })
            .collect();
        assert_ne!(is_at, was_at, "V{version}: the event moves");
        let id = format!("interrupted-tool-result-c-{was_at}");
        assert_eq!(results, [(is_at, id)], "V{version}");

        let current = written(&stored);
        let again = decode_as(Container::Raw, current.as_bytes()).unwrap();
        assert_eq!(written(&again), current, "V{version}");
    }
}

#[test]
fn bringing_up_twice_gives_the_same_bytes() {
    let up = |bytes: &[u8]| {
        let stored = decode_as(Container::Raw, bytes);
        stored.as_ref().map(written).map_err(Clone::clone)
    };
    for version in 0..=2 {
        let (text, _) = repaired(version);
        let once = up(text.as_bytes()).unwrap();
        assert_eq!(up(text.as_bytes()), Ok(once.clone()), "V{version}");
        assert_eq!(up(once.as_bytes()), Ok(once), "V{version}: and stays there");
    }
    let dirs = [
        "v0",
        "v0-completed",
        "v1-completed",
        "v2-completed",
        "v3-completed",
    ];
    let files: Vec<_> = dirs.into_iter().flat_map(corpus::files).collect();
    if files.is_empty() {
        return corpus::skip_notice("bringing_up_twice_gives_the_same_bytes");
    }
    for path in files {
        let bytes = fs::read(&path).unwrap();
        let once = up(&bytes);
        assert_eq!(up(&bytes), once, "{}", path.display());
        if let Ok(once) = once {
            assert_eq!(
                up(once.as_bytes()).as_ref(),
                Ok(&once),
                "{}",
                path.display()
            );
        }
    }
}
