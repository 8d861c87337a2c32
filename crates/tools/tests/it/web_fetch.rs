//! Fetching from a server on this machine, which only a test may.

use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::thread::JoinHandle;

use offshoot_tools::{ToolSet, WebReach};
use serde_json::json;

use crate::workbench::{Kept, Workbench, meta, refused};

/// Answers one request after the other, each on a connection of its own, and then ends.
struct Server {
    base: String,
    thread: Option<JoinHandle<Vec<String>>>,
}

impl Server {
    /// What each answer is, given the base URL: status line and headers, and the body.
    fn start<const N: usize>(answers: impl FnOnce(&str) -> [(String, Vec<u8>); N]) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let base = format!("http://{}", listener.local_addr().unwrap());
        let answers = answers(&base);
        let thread = std::thread::spawn(move || {
            let answer = |(head, body)| Self::answer(&listener.accept().unwrap().0, head, body);
            answers.into_iter().map(answer).collect()
        });
        let thread = Some(thread);
        Self { base, thread }
    }

    fn answer(mut stream: &TcpStream, head: String, body: Vec<u8>) -> String {
        let mut lines = BufReader::new(stream).lines();
        let request = lines.next().unwrap().unwrap();
        while !lines.next().unwrap().unwrap().is_empty() {}
        let head = format!(
            "HTTP/1.1 {head}\r\nConnection: close\r\nContent-Length: {}\r\n\r\n",
            body.len()
        );
        stream.write_all(head.as_bytes()).unwrap();
        // Who has read enough goes away.
        let _all_or_not = stream.write_all(&body);
        request
    }

    /// The request lines, when all answers were given.
    fn requests(mut self) -> Vec<String> {
        self.thread.take().unwrap().join().unwrap()
    }
}

fn ok(content_type: &str, body: impl AsRef<[u8]>) -> (String, Vec<u8>) {
    (
        format!("200 OK\r\nContent-Type: {content_type}"),
        body.as_ref().to_owned(),
    )
}

fn redirect(status: &str, to: &str) -> (String, Vec<u8>) {
    (format!("{status} Redirect\r\nLocation: {to}"), Vec::new())
}

fn bench(reach: WebReach) -> Workbench {
    let mut bench = Workbench::new();
    bench.set = ToolSet::default().with_web(reach);
    bench
}

fn local() -> Workbench {
    bench(WebReach::PublicAndLoopback)
}

#[tokio::test]
async fn a_page_becomes_markdown_under_its_final_url() {
    let server = Server::start(|_| {
        [
            redirect("301", "/moved?to=menu"),
            redirect("307", "menu.html"),
            ok(
                "text/html; charset=utf-8",
                "<title>Menu</title><h1>Café</h1><p>Open <b>daily</b>.",
            ),
        ]
    });
    let bench = local();
    let base = server.base.clone();
    let output = bench
        .run("web_fetch", json!({ "url": format!("{base}/old#top") }))
        .await
        .unwrap();
    assert_eq!(
        output.text,
        format!(
            "Fetched {base}/menu.html (HTTP 200, text/html; charset=utf-8)\n\nMenu\n\n# Café\n\nOpen **daily**."
        )
    );
    assert_eq!(
        meta(&bench, &output),
        json!({
            "url": format!("{base}/menu.html"),
            "statusCode": 200,
            "contentType": "text/html; charset=utf-8",
            "truncated": false,
        })
    );
    assert_eq!(
        server.requests(),
        [
            "GET /old HTTP/1.1",
            "GET /moved?to=menu HTTP/1.1",
            "GET /menu.html HTTP/1.1"
        ]
    );
}

#[tokio::test]
async fn other_text_and_errors_of_the_server_are_shown() {
    let server = Server::start(|_| {
        [
            ok("application/json", "{\"a\": 1}"),
            (
                "404 Not Found\r\nContent-Type: text/plain".to_owned(),
                b"no such page".to_vec(),
            ),
            ("200 OK".to_owned(), b"plain".to_vec()),
        ]
    });
    let (bench, base) = (local(), server.base.clone());
    let mut said = Vec::new();
    for name in ["a.json", "b", "c"] {
        said.push(
            bench
                .said("web_fetch", json!({ "url": format!("{base}/{name}") }))
                .await,
        );
    }
    assert_eq!(
        said,
        [
            format!("Fetched {base}/a.json (HTTP 200, application/json)\n\n{{\"a\": 1}}"),
            format!("Fetched {base}/b (HTTP 404, text/plain)\n\nno such page"),
            format!("Fetched {base}/c (HTTP 200, no content type)\n\nplain"),
        ]
    );
    server.requests();
}

#[tokio::test]
async fn what_is_not_text_is_refused_whatever_it_is_called() {
    let server = Server::start(|_| {
        [
            ok("image/png", b"\x89PNG\r\n\x1A\n\0"),
            ok("text/html", b"%PDF-1.7\n"),
            ok("application/octet-stream", b"a\0b"),
        ]
    });
    let (bench, base) = (local(), server.base.clone());
    for (content_type, kind) in [
        ("image/png", "an image (PNG)"),
        ("text/html", "a binary file (PDF)"),
        ("application/octet-stream", "a binary file"),
    ] {
        assert_eq!(
            bench.refuses("web_fetch", json!({ "url": base })).await,
            refused(
                "WEB_BINARY",
                &format!(
                    "Fetched {base}/ (HTTP 200, {content_type}): it is {kind}, and only text is returned"
                )
            )
        );
    }
    server.requests();
}

#[tokio::test]
async fn a_long_page_is_cut_and_kept() {
    let server = Server::start(|_| {
        [
            ok("text/plain; charset=utf-8", "é".repeat(200_001)),
            ok("text/plain", "x".repeat(6 * 1024 * 1024)),
        ]
    });
    let mut bench = local();
    let kept = Kept::default();
    bench.cx.spill = Some(Arc::new(kept.clone()));
    let base = server.base.clone();
    let output = bench
        .run("web_fetch", json!({ "url": base }))
        .await
        .unwrap();
    assert_eq!(
        output.text,
        format!(
            "Fetched {base}/ (HTTP 200, text/plain; charset=utf-8)\n\n{}\n[… cut at 200000 characters]\n[The whole output is in `/kept/1`: use read or grep on it.]",
            "é".repeat(200_000)
        )
    );
    assert_eq!(kept.files(), ["é".repeat(200_001)]);
    assert_eq!(meta(&bench, &output)["truncated"], true);

    let said = bench.said("web_fetch", json!({ "url": base })).await;
    assert!(said.ends_with("\n[The page is longer: only its first 5242880 bytes were read.]"));
    assert_eq!(kept.files()[1].len(), 5_242_880);
    server.requests();
}

#[tokio::test]
async fn only_the_public_internet_is_reached() {
    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = server.local_addr().unwrap().port();
    let bench = bench(WebReach::Public);
    for (url, reason) in [
        (
            format!("http://127.0.0.1:{port}/"),
            "127.0.0.1 is not a public address",
        ),
        (
            format!("http://2130706433:{port}/"),
            "127.0.0.1 is not a public address",
        ),
        (
            format!("http://0x7f.1:{port}/"),
            "127.0.0.1 is not a public address",
        ),
        (
            format!("http://[::1]:{port}/"),
            "::1 is not a public address",
        ),
        (
            format!("http://[::ffff:127.0.0.1]:{port}/"),
            "::ffff:127.0.0.1 is not a public address",
        ),
        (
            "http://169.254.169.254/latest/meta-data/".to_owned(),
            "169.254.169.254 is not a public address",
        ),
        (
            "https://10.0.0.1/".to_owned(),
            "10.0.0.1 is not a public address",
        ),
        (
            "http://0.0.0.0/".to_owned(),
            "0.0.0.0 is not a public address",
        ),
    ] {
        let (code, message) = bench.refuses("web_fetch", json!({ "url": url })).await;
        assert_eq!(code, "WEB_ADDRESS_REFUSED", "{url}");
        assert!(message.ends_with(&format!("`: {reason}")), "{message}");
    }
    // A name is judged by the addresses that the connection would go to.
    let (code, message) = bench
        .refuses(
            "web_fetch",
            json!({ "url": format!("http://localhost:{port}/") }),
        )
        .await;
    assert_eq!(code, "WEB_ADDRESS_REFUSED");
    assert!(message.contains("`localhost` is at "), "{message}");
    assert!(
        message.ends_with(", which is not a public address"),
        "{message}"
    );
    // Nobody has knocked.
    server.set_nonblocking(true).unwrap();
    assert_eq!(
        server.accept().unwrap_err().kind(),
        std::io::ErrorKind::WouldBlock
    );
}

#[tokio::test]
async fn a_redirect_leads_no_further_than_a_request() {
    let bench = local();
    for (to, code, message) in [
        (
            "http://169.254.169.254/latest/meta-data/",
            "WEB_ADDRESS_REFUSED",
            "cannot fetch `http://169.254.169.254/latest/meta-data/`: 169.254.169.254 is not a public address",
        ),
        (
            "//192.168.1.1/",
            "WEB_ADDRESS_REFUSED",
            "cannot fetch `http://192.168.1.1/`: 192.168.1.1 is not a public address",
        ),
        (
            "file:///etc/passwd",
            "WEB_URL_REFUSED",
            "cannot fetch `file:///etc/passwd`: only http and https are fetched",
        ),
        (
            "http://me:secret@example.com/",
            "WEB_URL_REFUSED",
            "cannot fetch a URL with a user name or password in it",
        ),
    ] {
        let server = Server::start(|_| [redirect("302", to)]);
        let url = server.base.clone();
        assert_eq!(
            bench.refuses("web_fetch", json!({ "url": url })).await,
            refused(code, message)
        );
        server.requests();
    }
}

#[tokio::test]
async fn redirects_come_to_an_end() {
    let server = Server::start(|_| [(); 11].map(|()| redirect("302", "/again")));
    let (bench, base) = (local(), server.base.clone());
    assert_eq!(
        bench.refuses("web_fetch", json!({ "url": base })).await,
        refused(
            "WEB_TOO_MANY_REDIRECTS",
            &format!("there were more than 10 redirects; the last one leads to `{base}/again`")
        )
    );
    server.requests();
}

#[tokio::test]
async fn what_cannot_be_fetched_is_said() {
    let bench = local();
    for (url, code, message) in [
        (
            "example.com",
            "INVALID_ARGS",
            "invalid argument `url`: relative URL without a base",
        ),
        (
            "ftp://example.com/",
            "WEB_URL_REFUSED",
            "cannot fetch `ftp://example.com/`: only http and https are fetched",
        ),
        (
            "http://me@example.com/",
            "WEB_URL_REFUSED",
            "cannot fetch a URL with a user name or password in it",
        ),
    ] {
        assert_eq!(
            bench.refuses("web_fetch", json!({ "url": url })).await,
            refused(code, message)
        );
    }
    // Nobody listens there any more.
    let url = {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        format!("http://{}/", listener.local_addr().unwrap())
    };
    let (code, message) = bench.refuses("web_fetch", json!({ "url": url })).await;
    assert_eq!(code, "WEB_FETCH_FAILED");
    assert!(
        message.starts_with(&format!("cannot fetch `{url}`: ")),
        "{message}"
    );
    assert!(message.to_lowercase().contains("refused"), "{message}");
}

#[tokio::test]
async fn a_server_that_says_nothing_can_be_given_up() {
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let bench = local();
    let cancel = bench.cx.cancel.clone();
    let url = format!("http://{}/", silent.local_addr().unwrap());
    let waiting = std::thread::spawn(move || {
        let connection = silent.accept().unwrap();
        cancel.cancel();
        connection
    });
    assert_eq!(
        bench.refuses("web_fetch", json!({ "url": url })).await.0,
        "ABORTED"
    );
    waiting.join().unwrap();
}
