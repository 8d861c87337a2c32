//! What a response says, as text: HTML becomes Markdown, other text stays as it is.

use encoding_rs::{Encoding, UTF_8};
use htmd::HtmlToMarkdown;

use crate::kind::{Binary, binary};

/// What a reader of the page does not see.
const SKIPPED: [&str; 8] = [
    "script", "style", "noscript", "template", "svg", "iframe", "object", "canvas",
];
/// Elements that a browser closes by itself, or that have no end: many of them in a row are not nested.
const SELF_CLOSING: [&str; 27] = [
    "area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "param", "source",
    "track", "wbr", "p", "li", "dt", "dd", "tr", "td", "th", "thead", "tbody", "tfoot", "option",
    "optgroup", "colgroup",
];
/// HTML that is nested deeper is not converted: the time it takes to read grows with the square of this.
const MAX_NESTING: usize = 300;
/// How much of the beginning is searched for the declaration of a charset.
const CHARSET_SAMPLE_BYTES: usize = 1024;

/// The text of a body, which the server calls `content_type`.
///
/// # Errors
/// What it is, if it is no text.
pub(crate) fn text_of(body: &[u8], content_type: Option<&str>) -> Result<String, Binary> {
    let media_type = content_type.and_then(|value| value.split(';').next());
    let media_type = media_type.unwrap_or_default().trim().to_ascii_lowercase();
    let declared = content_type.and_then(charset);
    match binary(body) {
        None | Some(Binary::Known("UTF-16 text")) => {}
        // Without a mark at its beginning, only the server knows that this is text.
        Some(Binary::Unknown) if declared.is_some_and(|charset| !charset.is_ascii_compatible()) => {
        }
        Some(kind) => return Err(kind),
    }
    let is_html = match media_type.as_str() {
        "text/html" | "application/xhtml+xml" => true,
        "" => looks_like_html(body),
        _ => false,
    };
    let declared = declared.or_else(|| is_html.then(|| charset_in(body)).flatten());
    let (text, _, _) = declared.unwrap_or(UTF_8).decode(body);
    if !is_html || nesting(&text) > MAX_NESTING {
        return Ok(text.into_owned());
    }
    let converter = HtmlToMarkdown::builder()
        .skip_tags(SKIPPED.to_vec())
        .build();
    Ok(match converter.convert(&text) {
        Ok(markdown) => markdown,
        Err(_) => text.into_owned(),
    })
}

/// The charset of a `Content-Type`, or of what a page says about itself.
fn charset(declaration: &str) -> Option<&'static Encoding> {
    let lower = declaration.to_ascii_lowercase();
    let (_, label) = lower.split_once("charset")?;
    let label = label.trim_start().strip_prefix('=')?;
    let label = label.trim_start().trim_start_matches(['"', '\'']);
    let end = label.find(|char: char| !(char.is_ascii_alphanumeric() || "-_:.".contains(char)));
    Encoding::for_label(&label.as_bytes()[..end.unwrap_or(label.len())])
}

fn charset_in(body: &[u8]) -> Option<&'static Encoding> {
    let start = &body[..body.len().min(CHARSET_SAMPLE_BYTES)];
    // A page that could be read this far is not UTF-16, whatever it says.
    charset(&String::from_utf8_lossy(start)).map(Encoding::output_encoding)
}

fn looks_like_html(body: &[u8]) -> bool {
    let start = String::from_utf8_lossy(&body[..body.len().min(CHARSET_SAMPLE_BYTES)]);
    let start = start
        .trim_start_matches('\u{FEFF}')
        .trim_start()
        .to_ascii_lowercase();
    start.starts_with("<!doctype html") || start.starts_with("<html")
}

/// At least as deep as the elements of a page are nested, without building them.
fn nesting(html: &str) -> usize {
    let (mut depth, mut deepest) = (0_usize, 0);
    for tag in html.split('<').skip(1) {
        let (is_end, tag) = match tag.strip_prefix('/') {
            Some(tag) => (true, tag),
            None => (false, tag),
        };
        let end = tag.find(|char: char| !char.is_ascii_alphanumeric());
        let name = tag[..end.unwrap_or(tag.len())].to_ascii_lowercase();
        if name.is_empty() || SELF_CLOSING.contains(&name.as_str()) {
            continue;
        }
        if is_end {
            depth = depth.saturating_sub(1);
        } else {
            depth += 1;
            deepest = deepest.max(depth);
        }
    }
    deepest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn html_becomes_markdown() {
        let html = "<!DOCTYPE html><html><head><title>Menu</title><style>p{}</style><script>run()</script></head>\
            <body><h1>Café menu</h1><p>Prices include <strong>service</strong>.</p><ul><li>Espresso<li>Flat white</ul>\
            <table><tr><th>Drink</th><th>Price</th></tr><tr><td>Espresso</td><td>2</td></tr></table>\
            <pre><code>let a = 1;</code></pre><a href=\"/today\">today</a></body></html>";
        insta::assert_snapshot!(
            text_of(html.as_bytes(), Some("text/html; charset=utf-8")).unwrap()
        );
    }

    #[test]
    fn the_charset_is_that_of_the_server_then_of_the_page() {
        let page = b"<meta charset='windows-1252'><p>caf\xE9";
        assert_eq!(text_of(page, Some("text/html")).unwrap(), "café");
        assert_eq!(
            text_of(b"caf\xE9", Some("text/plain; charset=\"ISO-8859-1\"")).unwrap(),
            "café"
        );
        assert_eq!(
            text_of("café".as_bytes(), Some("text/plain")).unwrap(),
            "café"
        );
        assert_eq!(
            text_of(b"\xFF\xFEa\0b\0", Some("text/plain")).unwrap(),
            "ab"
        );
        assert_eq!(
            text_of(b"a\0b\0", Some("text/plain; charset=utf-16le")).unwrap(),
            "ab"
        );
    }

    #[test]
    fn other_text_stays_as_it_is() {
        assert_eq!(
            text_of(b"{\"a\": [1]}", Some("application/json")).unwrap(),
            "{\"a\": [1]}"
        );
        assert_eq!(
            text_of(b"<b>x</b>", Some("text/plain")).unwrap(),
            "<b>x</b>"
        );
        assert_eq!(text_of(b"\n<HTML><b>x</b>", None).unwrap(), "**x**");
    }

    #[test]
    fn what_is_no_text_is_named() {
        assert_eq!(
            text_of(b"\x89PNG\r\n\x1A\n", Some("text/html")),
            Err(Binary::Image("PNG"))
        );
        assert_eq!(text_of(b"a\0b", Some("text/plain")), Err(Binary::Unknown));
    }

    #[test]
    fn a_page_that_is_nested_without_end_is_not_converted() {
        let deep = format!("<html>{}x", "<div>".repeat(300_000));
        assert_eq!(text_of(deep.as_bytes(), Some("text/html")).unwrap(), deep);
        let nested = format!(
            "{}x{}",
            "<div>".repeat(MAX_NESTING),
            "</div>".repeat(MAX_NESTING)
        );
        assert_eq!(text_of(nested.as_bytes(), Some("text/html")).unwrap(), "x");
        let flat = "<p>x<br>".repeat(5000);
        assert!(
            text_of(flat.as_bytes(), Some("text/html"))
                .unwrap()
                .starts_with("x")
        );
    }
}
