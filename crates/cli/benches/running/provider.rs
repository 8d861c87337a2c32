//! A model on loopback that answers at once and always the same, so that what is left is the harness.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Instant;

/// What the model says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    /// A few words.
    Text,
    /// It reads a file, and says a few words once it has the result.
    ToolThenText,
    /// A page, another one each time.
    Prose,
}

/// English text that a packer has not seen before: this much of the project's own documents, from another place each time.
pub(crate) fn prose(number: usize, bytes: usize) -> String {
    const TEXT: &str = include_str!("../../../../docs/format.md");
    let words = TEXT.split_whitespace().cycle().skip(number * 331 % 4_000);
    let mut text = String::new();
    for word in words {
        if text.len() + word.len() > bytes {
            break;
        }
        text.push_str(word);
        text.push(' ');
    }
    text
}

pub(crate) const TEXT: &str = "Everything is as it should be.";

/// When requests arrived, and what the first of them said.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    pub(crate) arrived: Vec<Instant>,
    pub(crate) bodies: Vec<Vec<u8>>,
}

pub(crate) struct Provider {
    pub(crate) base_url: String,
    pub(crate) seen: Arc<Mutex<Seen>>,
}

impl Provider {
    pub(crate) fn start(answer: Answer, file: &str) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).expect("bind to loopback");
        let address = listener.local_addr().expect("it is bound");
        let seen = Arc::new(Mutex::new(Seen::default()));
        let file = file.to_owned();
        let noted = Arc::clone(&seen);
        thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let (noted, file) = (Arc::clone(&noted), file.clone());
                thread::spawn(move || serve(stream, answer, &file, &noted));
            }
        });
        Self {
            base_url: format!("http://{address}/v1"),
            seen,
        }
    }
}

fn serve(stream: TcpStream, answer: Answer, file: &str, seen: &Mutex<Seen>) {
    stream.set_nodelay(true).expect("loopback allows it");
    let mut reader = BufReader::new(stream.try_clone().expect("clone a socket"));
    let mut writer = stream;
    loop {
        let mut length = 0;
        let mut line = String::new();
        loop {
            line.clear();
            if reader.read_line(&mut line).unwrap_or(0) == 0 {
                return;
            }
            let header = line.trim().to_ascii_lowercase();
            if header.is_empty() {
                break;
            }
            if let Some(value) = header.strip_prefix("content-length:") {
                length = value.trim().parse().expect("a length");
            }
        }
        let mut body = vec![0; length];
        reader.read_exact(&mut body).expect("the whole body");
        // A request that ends with a tool's result gets the words.
        let asks = answer == Answer::ToolThenText && !ends_with_result(&body);
        let number = {
            let mut seen = seen.lock().expect("nobody panics with it");
            seen.arrived.push(Instant::now());
            if seen.bodies.len() < KEPT {
                seen.bodies.push(body);
            }
            seen.arrived.len()
        };
        let events = match answer {
            _ if asks => tool_call(file),
            Answer::Prose => text(&prose(number, 3_000)),
            _ => text(TEXT),
        };
        let reply = format!(
            "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-length: {}\r\n\r\n{events}",
            events.len()
        );
        if writer.write_all(reply.as_bytes()).is_err() {
            return;
        }
    }
}

/// A turn has at most so many requests.
const KEPT: usize = 2;

/// More than stands behind the last message of a request, and less than would take long to look through.
const END: usize = 64 * 1024;

fn ends_with_result(body: &[u8]) -> bool {
    let end = &body[body.len().saturating_sub(END)..];
    let text = String::from_utf8_lossy(end);
    let last = |what: &str| text.rfind(what).unwrap_or(0);
    last("\"role\":\"tool\"") > last("\"role\":\"user\"")
}

fn text(words: &str) -> String {
    let mut events = String::new();
    for word in words.split_inclusive(' ') {
        let word = serde_json::to_string(word).expect("text has a JSON form");
        events.push_str(&format!(
            "data: {{\"choices\":[{{\"index\":0,\"delta\":{{\"content\":{word}}}}}]}}\n\n"
        ));
    }
    events.push_str(
        "data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n",
    );
    events.push_str(
        "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":9,\"completion_tokens\":7}}\n\n",
    );
    events.push_str("data: [DONE]\n\n");
    events
}

fn tool_call(file: &str) -> String {
    let arguments = format!("{{\\\"file_path\\\":\\\"{file}\\\"}}");
    format!(
        "data: {{\"choices\":[{{\"index\":0,\"delta\":{{\"tool_calls\":[{{\"index\":0,\"id\":\"call_1\",\"function\":{{\"name\":\"read\",\"arguments\":\"{arguments}\"}}}}]}}}}]}}\n\n\
         data: {{\"choices\":[{{\"index\":0,\"delta\":{{}},\"finish_reason\":\"tool_calls\"}}]}}\n\ndata: [DONE]\n\n"
    )
}
