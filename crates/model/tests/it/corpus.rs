//! Recorded V4 sessions: their streams must amount to their messages.

use std::fs;
use std::path::{Path, PathBuf};

use offshoot_model::{Message, StreamRecord, StreamRecorder, ToolSpec, expand, verify_stream};
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

const V4: [&str; 2] = ["v4", "v4-completed"];

/// Where assistant messages have their streams beside them: the versions from 2 on, and what earlier ones become.
const WITH_STREAMS: [&str; 8] = [
    "v2-completed",
    "v3-completed",
    "v4",
    "v4-completed",
    "expected-v3/v0",
    "expected-v3/v0-completed",
    "expected-v3/v1-completed",
    "expected-v3/v2-completed",
];

/// All rows of all sessions in some folders; nothing, with a word about it, where the recordings are not at hand.
#[expect(clippy::print_stdout, reason = "a skipped test must say so")]
fn for_each_row(folders: &[&str], mut check: impl FnMut(&Path, &Row<'_>)) -> Option<()> {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/corpus");
    if !corpus.is_dir() {
        println!(
            "skipped: there is no folder with recorded sessions at {}",
            corpus.display()
        );
        return None;
    }
    for folder in folders {
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
    let read = for_each_row(&WITH_STREAMS, |file, row| {
        let (Some(data), "assistant/message") = (row.data, row.kind.as_str()) else {
            return;
        };
        let stream = &serde_json::from_str::<Value>(data.get()).unwrap()["stream"];
        if stream.as_array().is_some_and(Vec::is_empty) {
            return;
        }
        assert_eq!(verify_stream(data.get()), Ok(()), "{}", file.display());
        checked += 1;
    });
    if read.is_some() {
        assert!(checked >= 300, "only {checked} messages were checked");
    }
}

#[test]
fn every_recorded_stream_packs_into_its_own_records() {
    for_each_row(&V4, |file, row| {
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
    for_each_row(&V4, |file, row| {
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
