//! Sessions of older versions, and what each becomes, by hand.

use offshoot_format::Container;

use crate::support::{Home, PROJECT};

/// A V0 session with a packed answer, and a turn that a crash left open.
pub(crate) const V0: &str = r#"{"type":"session","version":0,"id":"demo","createdAt":90,"cwd":"/work/demo","delegationDepth":0}
{"type":"turn/start","seq":0,"time":100,"data":{"turn":1}}
{"type":"step/start","seq":1,"time":101,"data":{"turn":1,"step":1}}
{"type":"user/message","seq":2,"time":102,"data":{"id":"u-1","role":"user","content":[{"type":"text","text":"How many figs?"}],"source":{"kind":"user"}},"surfaceOp":"append"}
{"type":"request/header","seq":3,"time":103,"data":{"header":{"config":{"provider":"acme","model":"acme-small"}},"reason":"initial"}}
{"type":"assistant/chunk","seq":4,"time":110,"data":{"turn":1,"step":1,"chunk":{"type":"block-start","index":0,"blockType":"text"}}}
{"type":"text-chunks","seq0":5,"time0":111,"data":{"turn":1,"step":1,"index":0,"dt":[1,2],"texts":["Three ","figs","."]}}
{"type":"assistant/chunk","seq":8,"time":115,"data":{"turn":1,"step":1,"chunk":{"type":"block-end","index":0,"block":{"type":"text","text":"Three figs."}}}}
{"type":"assistant/chunk","seq":9,"time":116,"data":{"turn":1,"step":1,"chunk":{"type":"finish","reason":{"kind":"stop"}}}}
{"type":"assistant/message","seq":10,"time":117,"data":{"turn":1,"step":1,"message":{"id":"a-1","role":"assistant","content":[{"type":"text","text":"Three figs."}],"source":{"kind":"model","provider":"acme","model":"acme-small"}}},"sourceEventSeqs":[[4,9]],"surfaceOp":"append"}
{"type":"step/end","seq":11,"time":118,"data":{"turn":1,"step":1}}
{"type":"turn/end","seq":12,"time":119,"data":{"turn":1,"reason":{"kind":"completed"}}}
{"type":"turn/start","seq":13,"time":200,"data":{"turn":2}}
"#;

/// What [`V0`] becomes, without the lines of its system head, whose ids are digests.
pub(crate) const V0_KINDS: [&str; 10] = [
    "turn/start",
    "step/start",
    "system/message",
    "user/message",
    "request/header",
    "assistant/message",
    "step/end",
    "turn/end",
    "turn/start",
    "turn/end",
];

/// A V0 fork: its header counts what it inherited.
pub(crate) const V0_FORK: &str = r#"{"type":"session","version":0,"id":"demo","createdAt":300,"cwd":"/work/demo","parentSession":"origin","seedLength":5,"delegationDepth":0}
{"type":"turn/start","seq":0,"time":100,"data":{"turn":1}}
{"type":"step/start","seq":1,"time":101,"data":{"turn":1,"step":1}}
{"type":"user/message","seq":2,"time":102,"data":{"id":"u-1","role":"user","content":[{"type":"text","text":"How many figs?"}],"source":{"kind":"user"}},"surfaceOp":"append"}
{"type":"step/end","seq":3,"time":103,"data":{"turn":1,"step":1}}
{"type":"turn/end","seq":4,"time":104,"data":{"turn":1,"reason":{"kind":"completed"}}}
{"type":"session/end-seed","seq":5,"time":301,"data":{}}
{"type":"turn/start","seq":6,"time":302,"data":{"turn":2}}
"#;

/// A V3 session that delegated nothing by its own account, with a wrapped result and an open turn.
pub(crate) const V3: &str = r#"{"type":"session","version":3,"id":"demo","createdAt":90,"cwd":"/work/demo","isSeeded":false,"delegationDepth":0}
{"type":"turn/start","seq":0,"time":100,"data":{"turn":1}}
{"type":"step/start","seq":1,"time":101,"data":{"turn":1,"step":1}}
{"type":"user/message","seq":2,"time":102,"data":{"id":"u-1","role":"user","content":[{"type":"text","text":"Look."}],"source":{"kind":"user"}},"surfaceOp":"append"}
{"type":"assistant/message","seq":3,"time":110,"data":{"turn":1,"step":1,"message":{"id":"a-1","role":"assistant","content":[{"type":"tool-call","id":"c-1","name":"peek","arguments":"{}"}],"source":{"kind":"model","provider":"acme","model":"acme-small"}},"stream":[]},"surfaceOp":"append"}
{"type":"tool/call","seq":4,"time":111,"data":{"turn":1,"step":1,"callId":"c-1","name":"peek","arguments":"{}"}}
{"type":"tool/result","seq":5,"time":112,"data":{"turn":1,"step":1,"message":{"id":"r-1","role":"user","source":{"kind":"tool","callId":"c-1"},"content":[{"type":"tool-result","toolCallId":"c-1","content":[{"type":"text","text":"figs"}]}]}},"surfaceOp":"append","sourceEventSeqs":[4]}
{"type":"step/end","seq":6,"time":113,"data":{"turn":1,"step":1}}
"#;

/// A V3 fork of two inherited events.
pub(crate) const V3_FORK: &str = r#"{"type":"session","version":3,"id":"demo","createdAt":300,"cwd":"/work/demo","parentSession":"origin","isSeeded":true,"delegationDepth":0}
{"type":"turn/start","seq":0,"time":100,"data":{"turn":1}}
{"type":"turn/end","seq":1,"time":101,"data":{"turn":1,"reason":{"kind":"completed"}}}
{"type":"session/end-seed","seq":2,"time":301,"data":{"inherited":true}}
{"type":"turn/start","seq":3,"time":302,"data":{"turn":2}}
"#;

/// A V0 session that no released program can bring up: its descriptor is of a kind that came and went before.
pub(crate) const REFUSED: &str = r#"{"type":"session","version":0,"id":"demo","createdAt":90,"cwd":"/work/demo","delegationDepth":0}
{"type":"subagent/descriptor","seq":0,"time":99,"data":{"version":1,"label":"digger"}}
{"type":"turn/start","seq":1,"time":100,"data":{"turn":1}}
"#;

/// The bytes of a text as a file: raw, or its header and its rows in a frame each.
pub(crate) fn file(container: Container, text: &str) -> Vec<u8> {
    match container {
        Container::Raw => text.as_bytes().to_vec(),
        Container::Zstd => text.split_inclusive('\n').flat_map(frame).collect(),
    }
}

pub(crate) fn frame(text: &str) -> Vec<u8> {
    let mut compressor = zstd::bulk::Compressor::new(3).unwrap();
    compressor.include_checksum(true).unwrap();
    compressor.compress(text.as_bytes()).unwrap()
}

/// The file name of a generation.
pub(crate) fn name(version: u64, container: Container) -> String {
    let version = match version {
        0 => String::new(),
        version => format!(".v{version}"),
    };
    let packing = match container {
        Container::Raw => "",
        Container::Zstd => ".zstd",
    };
    format!("session{version}.jsonl{packing}")
}

/// Puts a text where a session of that version has its log.
pub(crate) fn put(home: &Home, id: &str, version: u64, container: Container, text: &str) {
    let name = name(version, container);
    home.put(format!("{PROJECT}/{id}/{name}"), file(container, text));
}
