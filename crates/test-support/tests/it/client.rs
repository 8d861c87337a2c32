//! A blocking HTTP client small enough to see exactly what the server does to a connection.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;

use offshoot_test_support::ScriptedModelServer;

/// A body that no rule forbids.
pub(crate) const SOUND: &str = r#"{"messages":[{"role":"user","content":"hi"}]}"#;

/// A response whose body is still to be read.
#[derive(Debug)]
pub(crate) struct Response {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(String, String)>,
    reader: BufReader<TcpStream>,
}

/// How a body went on.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Next {
    Chunk(String),
    End,
    Broken,
}

/// Sends a request and returns without waiting for the answer.
pub(crate) fn send(server: &ScriptedModelServer, path: &str, body: &str) -> TcpStream {
    let address = server.base_url().trim_start_matches("http://").to_owned();
    let mut stream = TcpStream::connect(&address).unwrap();
    write!(
        stream,
        "POST {path} HTTP/1.1\r\nhost: {address}\r\nx-test: yes\r\nconnection: close\r\n\
         content-length: {}\r\n\r\n{body}",
        body.len()
    )
    .unwrap();
    stream
}

/// Waits for the head of the answer; `None` if the connection closed without one.
pub(crate) fn receive(stream: TcpStream) -> Option<Response> {
    let mut reader = BufReader::new(stream);
    let mut line = String::new();
    if reader.read_line(&mut line).ok()? == 0 {
        return None;
    }
    let status = line.split(' ').nth(1).unwrap().parse().unwrap();
    let mut headers = Vec::new();
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).unwrap();
        let Some((name, value)) = line.trim_end().split_once(": ") else {
            break;
        };
        headers.push((name.to_owned(), value.to_owned()));
    }
    Some(Response {
        status,
        headers,
        reader,
    })
}

pub(crate) fn post(server: &ScriptedModelServer, body: &str) -> Response {
    receive(send(server, "/chat/completions", body)).unwrap()
}

impl Response {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers
            .iter()
            .find(|(other, _)| other == name)
            .map(|(_, value)| value.as_str())
    }

    /// The next chunk of a chunked body.
    pub(crate) fn next(&mut self) -> Next {
        let mut size = String::new();
        if self.reader.read_line(&mut size).unwrap_or(0) == 0 {
            return Next::Broken;
        }
        let size = usize::from_str_radix(size.trim_end(), 16).unwrap();
        let mut bytes = vec![0; size + 2];
        if self.reader.read_exact(&mut bytes).is_err() {
            return Next::Broken;
        }
        if size == 0 {
            return Next::End;
        }
        bytes.truncate(size);
        Next::Chunk(String::from_utf8(bytes).unwrap())
    }

    /// The rest of a chunked body, and how it ended.
    pub(crate) fn rest(&mut self) -> (Vec<String>, Next) {
        let mut chunks = Vec::new();
        loop {
            match self.next() {
                Next::Chunk(chunk) => chunks.push(chunk),
                end => return (chunks, end),
            }
        }
    }

    /// The whole body, which must end as it should.
    pub(crate) fn text(&mut self) -> String {
        if let Some(length) = self.header("content-length") {
            let mut bytes = vec![0; length.parse().unwrap()];
            self.reader.read_exact(&mut bytes).unwrap();
            return String::from_utf8(bytes).unwrap();
        }
        let (chunks, end) = self.rest();
        assert_eq!(end, Next::End);
        chunks.concat()
    }
}
