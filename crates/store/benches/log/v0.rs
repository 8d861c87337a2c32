//! A log as the first released program wrote it: format V0, whose model deltas are events of their own
//! (`reference/persistence.md` §3.5, §3.7, §3.8).
//!
//! The same log at every call: its words come from a fixed sequence. Turns have steps of reasoning and two tool calls with
//! their results, and end with a text. The deltas of every other turn are packed into rows of runs, those of the rest lie
//! one in a row, as writers of both kinds have left them.

use std::fmt::Write as _;

use serde_json::{Value, json};

/// A raw file of whole turns with at least this many events.
pub(crate) fn generate(events: u64) -> Vec<u8> {
    let mut log = Log::default();
    log.line(
        &json!({"type": "session", "version": 0, "id": "bench", "createdAt": 1_700_000_000_000_u64,
        "cwd": "/work/demo", "delegationDepth": 0}),
    );
    let mut turn = 0;
    while log.seq < events {
        turn += 1;
        log.turn(turn);
    }
    log.text.into_bytes()
}

/// The same file as zstd frames: the header, then some rows in each.
pub(crate) fn packed(raw: &[u8]) -> Vec<u8> {
    let lines: Vec<&[u8]> = raw.split_inclusive(|&byte| byte == b'\n').collect();
    let (header, rows) = lines.split_at(1);
    let batches = [header].into_iter().chain(rows.chunks(64));
    batches.flat_map(|batch| frame(&batch.concat())).collect()
}

fn frame(text: &[u8]) -> Vec<u8> {
    let compress = || {
        let mut compressor = zstd::bulk::Compressor::new(zstd::DEFAULT_COMPRESSION_LEVEL)?;
        compressor.include_checksum(true)?;
        compressor.compress(text)
    };
    compress().expect("memory takes everything")
}

#[derive(Default)]
struct Log {
    text: String,
    seq: u64,
    /// Where the sequence of words stands.
    random: u64,
    packs: bool,
    turn: u64,
    step: u64,
}

/// What one attempt of the model streams: its blocks, each with the deltas that build it.
struct Block {
    whole: Value,
    deltas: Vec<Value>,
}

impl Log {
    fn turn(&mut self, turn: u64) {
        (self.turn, self.step, self.packs) = (turn, 1, turn.is_multiple_of(2));
        let ask = self.words(12).concat();
        let user = json!({"id": format!("u-{turn}"), "role": "user",
            "content": [{"type": "text", "text": ask}], "source": {"kind": "user"}});
        let splice = |more: Value| {
            let mut splice = json!({"target": "next-turn", "start": 0});
            let members = splice.as_object_mut().expect("an object");
            members.extend(more.as_object().expect("an object").clone());
            splice
        };
        self.event(
            "agent/inbox/spliced",
            &splice(json!({"inserted": [user]})),
            "",
        );
        self.event("turn/start", &json!({"turn": turn}), "");
        self.event(
            "agent/inbox/spliced",
            &splice(json!({"removedCount": 1, "inserted": []})),
            "",
        );
        for step in 1..=3 {
            self.step = step;
            self.event("step/start", &json!({"turn": turn, "step": step}), "");
            if step == 1 {
                self.event("user/message", &user, APPEND);
            }
            if (turn, step) == (1, 1) {
                self.event("request/header", &header(), "");
                let context =
                    json!({"provider": "demo", "model": "demo-1", "contextWindow": 128_000});
                self.event("request/context", &context, "");
            }
            match step {
                1 | 2 => self.step_with_calls(),
                _ => self.step_with_an_answer(),
            }
            self.event("step/end", &json!({"turn": turn, "step": step}), "");
        }
        self.event(
            "turn/end",
            &json!({"turn": turn, "reason": {"kind": "completed"}}),
            "",
        );
    }

    fn step_with_calls(&mut self) {
        let calls = [1, 2].map(|n| format!("call-{}-{}-{n}", self.turn, self.step));
        let arguments = calls.each_ref().map(|_| {
            let mut parts = vec![
                "{\"".into(),
                "file_path".into(),
                "\":\"".into(),
                "src".into(),
            ];
            parts.extend(self.words(8).iter().map(|word| word.replace(' ', "/")));
            parts.extend([".rs".into(), "\"}".into()]);
            parts
        });
        let mut blocks = vec![self.text_block("reasoning", 40)];
        for (call, parts) in calls.iter().zip(&arguments) {
            let delta = |part: &String| json!({"id": call, "name": "read", "argumentsDelta": part});
            blocks.push(Block {
                whole: json!({"type": "tool-call", "id": call, "name": "read", "arguments": parts.concat()}),
                deltas: parts.iter().map(delta).collect(),
            });
        }
        self.attempt(&blocks, "tool-calls");
        let (turn, step) = (self.turn, self.step);
        for (call, parts) in calls.iter().zip(&arguments) {
            let start = json!({"turn": turn, "step": step, "callId": call, "name": "read", "arguments": parts.concat()});
            let started = self.event("tool/call", &start, "");
            let lines: String = (1..=LINES)
                .map(|line| format!("{line}: {}\n", self.words(9).concat()))
                .collect();
            let result = json!({"turn": turn, "step": step, "message": {"id": format!("result-{call}"), "role": "user",
                "content": [{"type": "tool-result", "toolCallId": call, "content": [{"type": "text", "text": lines}]}],
                "source": {"kind": "tool", "callId": call}}});
            let cites = format!(r#","sourceEventSeqs":[{started}]{APPEND}"#);
            self.event("tool/result", &result, &cites);
        }
    }

    fn step_with_an_answer(&mut self) {
        let blocks = [
            self.text_block("reasoning", 30),
            self.text_block("text", 70),
        ];
        self.attempt(&blocks, "stop");
    }

    fn text_block(&mut self, kind: &str, words: usize) -> Block {
        let words = self.words(words);
        Block {
            whole: json!({"type": kind, "text": words.concat()}),
            deltas: words.iter().map(|word| json!({"text": word})).collect(),
        }
    }

    /// The chunks of an attempt and the message that cites them.
    fn attempt(&mut self, blocks: &[Block], reason: &str) {
        let first = self.seq;
        for (index, Block { whole, deltas }) in blocks.iter().enumerate() {
            self.chunk(&json!({"type": "block-start", "index": index, "blockType": whole["type"]}));
            match self.packs {
                true => self.run(index, &whole["type"], deltas),
                false => self.deltas(index, &whole["type"], deltas),
            }
        }
        for (index, block) in blocks.iter().enumerate() {
            self.chunk(&json!({"type": "block-end", "index": index, "block": block.whole}));
        }
        let usage = json!({"inputTokens": 4_000 + first % 1_000, "outputTokens": self.seq - first});
        self.chunk(&json!({"type": "usage", "usage": usage}));
        let last = self.chunk(&json!({"type": "finish", "reason": {"kind": reason}}));
        let content: Vec<&Value> = blocks.iter().map(|block| &block.whole).collect();
        let message = json!({"turn": self.turn, "step": self.step, "message": {"id": format!("a-{}-{}", self.turn, self.step),
            "role": "assistant", "content": content,
            "source": {"kind": "model", "provider": "demo", "model": "demo-1"}}, "usage": usage});
        let cites = format!(r#","sourceEventSeqs":[[{first},{last}]]{APPEND}"#);
        self.event("assistant/message", &message, &cites);
    }

    fn deltas(&mut self, index: usize, kind: &Value, deltas: &[Value]) {
        for delta in deltas {
            let mut chunk = json!({"type": format!("{}-delta", kind.as_str().unwrap_or_default()), "index": index});
            let members = chunk.as_object_mut().expect("an object");
            members.extend(delta.as_object().expect("an object").clone());
            self.chunk(&chunk);
        }
    }

    /// The deltas as one row of a run.
    fn run(&mut self, index: usize, kind: &Value, deltas: &[Value]) {
        let dt: Vec<u64> = (1..deltas.len() as u64).map(|n| n % 3 * 20).collect();
        let mut data = json!({"turn": self.turn, "step": self.step, "index": index});
        let parts = |member: &str| deltas.iter().map(|delta| delta[member].clone()).collect();
        let members = data.as_object_mut().expect("an object");
        if let Some(id) = deltas[0].get("id") {
            members.insert("id".into(), id.clone());
            members.insert("name".into(), deltas[0]["name"].clone());
            members.insert("dt".into(), dt.into());
            members.insert("args".into(), Value::Array(parts("argumentsDelta")));
        } else {
            members.insert("dt".into(), dt.into());
            members.insert("texts".into(), Value::Array(parts("text")));
        }
        let row = json!({"type": format!("{}-chunks", kind.as_str().unwrap_or_default()), "seq0": self.seq,
            "time0": self.time(), "data": data});
        self.line(&row);
        self.seq += deltas.len() as u64;
    }

    fn chunk(&mut self, chunk: &Value) -> u64 {
        let data = json!({"turn": self.turn, "step": self.step, "chunk": chunk});
        self.event("assistant/chunk", &data, "")
    }

    /// One event with what stands behind its payload; gives its seq.
    fn event(&mut self, kind: &str, data: &Value, rest: &str) -> u64 {
        let (seq, time) = (self.seq, self.time());
        writeln!(
            self.text,
            r#"{{"type":"{kind}","seq":{seq},"time":{time},"data":{data}{rest}}}"#
        )
        .expect("a string takes everything");
        self.seq += 1;
        seq
    }

    fn line(&mut self, row: &Value) {
        writeln!(self.text, "{row}").expect("a string takes everything");
    }

    const fn time(&self) -> u64 {
        1_700_000_000_000 + 20 * self.seq
    }

    fn words(&mut self, count: usize) -> Vec<String> {
        let word = |log: &mut Self| {
            log.random = log
                .random
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            WORDS[(log.random >> 33) as usize % WORDS.len()].to_owned()
        };
        (0..count).map(|_| word(self)).collect()
    }
}

/// How long the result of a call is: so long that 204000 events come to 44 MB.
const LINES: usize = 132;

const APPEND: &str = r#","surfaceOp":"append""#;

const WORDS: [&str; 32] = [
    "the ",
    "test ",
    "reads ",
    "a ",
    "file ",
    "and ",
    "then ",
    "checks ",
    "whether ",
    "every ",
    "row ",
    "of ",
    "it ",
    "is ",
    "still ",
    "there, ",
    "which ",
    "may ",
    "not ",
    "hold ",
    "when ",
    "another ",
    "process ",
    "appends ",
    "to ",
    "same ",
    "“log” ",
    "at ",
    "once: ",
    "größer ",
    "as ",
    "before. ",
];

fn header() -> Value {
    let tool = |name: &str, description: &str| {
        json!({"name": name, "description": description,
        "parameters": {"type": "object", "properties": {"file_path": {"type": "string"}}, "required": ["file_path"]}})
    };
    json!({"header": {"config": {"provider": "demo", "model": "demo-1", "maxTokens": 32_000},
        "tools": [tool("read", "Reads a file"), tool("write", "Writes a file")],
        "system": "You are a careful engineer. Be brief."}, "reason": "initial"})
}
