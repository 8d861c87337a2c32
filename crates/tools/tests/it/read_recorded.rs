//! Recorded results of `read` are what this `read` says too.

use std::collections::BTreeMap;
use std::fs;

use offshoot_test_support::corpus;
use serde_json::Value;

use crate::workbench::Workbench;

/// Arguments, text and meta of every recorded read of a session that worked.
fn recorded(session: &str) -> Vec<(Value, String, Value)> {
    let mut calls = BTreeMap::new();
    let mut reads = Vec::new();
    for line in session.lines() {
        let Ok(event) = serde_json::from_str::<Value>(line) else {
            continue;
        };
        let data = &event["data"];
        match event["type"].as_str() {
            Some("tool/call") if data["name"] == "read" => {
                let arguments = serde_json::from_str(data["arguments"].as_str().unwrap()).unwrap();
                calls.insert(data["callId"].as_str().unwrap().to_owned(), arguments);
            }
            Some("tool/result") if data["meta"]["totalLines"].is_u64() => {
                let message = &data["message"];
                let call = message["source"]["callId"].as_str().unwrap();
                let block = &message["content"][0];
                // Before V4 the text is inside a tool-result block.
                let text = block["text"]
                    .as_str()
                    .or(block["content"][0]["text"].as_str());
                let Some(arguments) = calls.remove(call) else {
                    continue;
                };
                reads.push((arguments, text.unwrap().to_owned(), data["meta"].clone()));
            }
            _ => {}
        }
    }
    reads
}

#[tokio::test]
async fn recorded_reads_come_out_the_same() {
    if corpus::corpus_dir().is_none() {
        return corpus::skip_notice("recorded_reads_come_out_the_same");
    }
    let mut compared = 0;
    for dir in ["v0-completed", "v3-completed", "v4-completed"] {
        for file in corpus::files(dir) {
            let Ok(session) = fs::read_to_string(&file) else {
                continue;
            };
            for (arguments, text, meta) in recorded(&session) {
                // The recorded file itself is not kept; only the lines that were read matter.
                let total = usize::try_from(meta["totalLines"].as_u64().unwrap()).unwrap();
                let mut lines = vec!["not shown".to_owned(); total];
                for line in meta["lines"].as_array().unwrap() {
                    let number = usize::try_from(line["number"].as_u64().unwrap()).unwrap();
                    line["text"]
                        .as_str()
                        .unwrap()
                        .clone_into(&mut lines[number - 1]);
                }
                let bench = Workbench::new();
                let name = arguments["file_path"].as_str().unwrap();
                let name = name.rsplit('/').next().unwrap();
                let path = bench.put(name, lines.join("\n")).display().to_string();
                let mut arguments = arguments;
                arguments["file_path"] = path.clone().into();

                let output = bench
                    .call(bench.tool("read").as_ref(), arguments)
                    .await
                    .unwrap();

                // Recorded sessions know no versions of files.
                let mut facts: Value =
                    serde_json::from_str(output.meta.as_ref().unwrap().get()).unwrap();
                facts
                    .as_object_mut()
                    .unwrap()
                    .shift_remove("digest")
                    .unwrap();

                let was = meta["path"].as_str().unwrap();
                assert_eq!(output.text, text.replace(was, &path), "{}", file.display());
                assert_eq!(
                    facts.to_string(),
                    meta.to_string().replace(was, &path),
                    "{}",
                    file.display()
                );
                compared += 1;
            }
        }
    }
    assert!(compared >= 4, "only {compared} recorded reads were found");
}
