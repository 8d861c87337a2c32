//! Recorded V4 sessions: their streams must amount to their messages.

use std::fs;
use std::path::{Path, PathBuf};

use offshoot_model::{
    Assembler, Message, MessageSource, StreamRecord, StreamRecorder, ToolSpec, Usage, expand,
};
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

#[derive(Deserialize)]
struct Row<'a> {
    #[serde(rename = "type")]
    kind: String,
    #[serde(borrow)]
    data: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Settled {
    message: Message,
    stream: Vec<StreamRecord>,
    #[serde(default)]
    interrupted: bool,
    usage: Option<Usage>,
}

/// All rows of all V4 sessions; nothing, with a word about it, where the recordings are not at hand.
#[expect(clippy::print_stdout, reason = "a skipped test must say so")]
fn for_each_row(mut check: impl FnMut(&Path, &Row<'_>)) -> Option<()> {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/corpus");
    if !corpus.is_dir() {
        println!(
            "skipped: there is no folder with recorded sessions at {}",
            corpus.display()
        );
        return None;
    }
    for folder in ["v4", "v4-completed"] {
        let entries = fs::read_dir(corpus.join(folder)).unwrap();
        let mut files: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
        files.sort();
        for file in files {
            for line in fs::read_to_string(&file).unwrap().lines() {
                // The fragments of the corpus end in a torn line.
                if let Ok(row) = serde_json::from_str::<Row<'_>>(line) {
                    check(&file, &row);
                }
            }
        }
    }
    Some(())
}

#[test]
fn every_recorded_stream_amounts_to_its_message() {
    let mut checked = 0;
    let read = for_each_row(|file, row| {
        let (Some(data), "assistant/message") = (row.data, row.kind.as_str()) else {
            return;
        };
        let settled: Settled = serde_json::from_str(data.get()).unwrap();
        if settled.stream.is_empty() {
            return;
        }
        let mut assembler = Assembler::new();
        for (_, chunk) in expand(&settled.stream) {
            assembler.push(&chunk);
        }
        let file = file.display();
        let MessageSource::Model { replay_state, .. } = settled.message.source else {
            panic!("{file}: an assistant message that no model wrote");
        };
        let content = if settled.interrupted {
            assembler.interrupted_blocks()
        } else {
            let assembled = assembler.clone().finish();
            assert_eq!(assembled.replay_state, replay_state, "{file}");
            assembled.content
        };
        assert_eq!(content, settled.message.content, "{file}");
        assert_eq!(assembler.usage(), settled.usage, "{file}");
        checked += 1;
    });
    if read.is_some() {
        assert!(checked >= 100, "only {checked} messages were checked");
    }
}

#[test]
fn every_recorded_stream_packs_into_its_own_records() {
    for_each_row(|file, row| {
        let (Some(data), "assistant/message" | "assistant/attempt") = (row.data, row.kind.as_str())
        else {
            return;
        };
        let recorded = serde_json::from_str::<Value>(data.get()).unwrap()["stream"].take();
        let records: Vec<StreamRecord> = serde_json::from_value(recorded.clone()).unwrap();
        let mut recorder = StreamRecorder::new();
        for (time, chunk) in expand(&records) {
            recorder.push(time, &chunk);
        }
        let packed = recorder.finish();
        assert_eq!(packed, records, "{}", file.display());
        assert_eq!(
            serde_json::to_string(&packed).unwrap(),
            recorded.to_string(),
            "{}: the bytes differ",
            file.display()
        );
    });
}

#[test]
fn every_recorded_message_and_tool_is_read_without_loss() {
    for_each_row(|file, row| {
        let Some(data) = row.data else {
            return;
        };
        let data: Value = serde_json::from_str(data.get()).unwrap();
        let message = match row.kind.as_str() {
            "user/message" => &data,
            "system/message" | "assistant/message" | "tool/result" | "developer/message" => {
                &data["message"]
            }
            "request/header" => {
                for tool in data["header"]["tools"].as_array().into_iter().flatten() {
                    if tool.is_object() {
                        let spec: ToolSpec = serde_json::from_str(&tool.to_string()).unwrap();
                        assert_eq!(serde_json::to_value(spec).unwrap(), *tool);
                    }
                }
                return;
            }
            _ => return,
        };
        let read: Message = serde_json::from_str(&message.to_string()).unwrap();
        assert_eq!(
            serde_json::to_value(read).unwrap(),
            *message,
            "{}",
            file.display()
        );
    });
}
