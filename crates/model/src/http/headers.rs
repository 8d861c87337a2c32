//! What the headers of an answer say.

use reqwest::header::{CONTENT_TYPE, DATE, HeaderMap, RETRY_AFTER};

/// The content type of server-sent events.
pub(crate) const EVENT_STREAM: &str = "text/event-stream";

/// The content type, if there is one and it is not the expected one.
pub(crate) fn foreign_content_type(headers: &HeaderMap) -> Option<String> {
    let value = String::from_utf8_lossy(headers.get(CONTENT_TYPE)?.as_bytes());
    let essence = value.split(';').next().unwrap_or_default().trim();
    (!essence.eq_ignore_ascii_case(EVENT_STREAM)).then(|| essence.to_owned())
}

/// The provider's id of the request.
pub(crate) fn request_id(headers: &HeaderMap) -> Option<String> {
    let names = ["request-id", "x-request-id", "x-deepseek-request-id"];
    let value = names.iter().find_map(|name| headers.get(*name))?;
    value
        .to_str()
        .ok()
        .filter(|id| !id.is_empty())
        .map(str::to_owned)
}

/// How long the provider asks to wait, in milliseconds: `retry-after-ms`, or else `Retry-After`. A date is measured against the `Date` of the same answer, so that no clock is needed
/// and a wrong one does no harm.
pub(crate) fn retry_after_ms(headers: &HeaderMap) -> Option<u64> {
    let milliseconds = exact_wait(headers).or_else(|| wait(headers))?;
    if !milliseconds.is_finite() || milliseconds <= 0.0 {
        return None;
    }
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "`as` saturates"
    )]
    Some(milliseconds.ceil() as u64)
}

fn exact_wait(headers: &HeaderMap) -> Option<f64> {
    let value = headers.get("retry-after-ms")?.to_str().ok()?;
    value.trim().parse().ok()
}

fn wait(headers: &HeaderMap) -> Option<f64> {
    let value = headers.get(RETRY_AFTER)?.to_str().ok()?.trim();
    if let Ok(seconds) = value.parse::<f64>() {
        return Some(seconds * 1_000.0);
    }
    let now = http_date(headers.get(DATE)?.to_str().ok()?)?;
    let wait = http_date(value)?.duration_since(now);
    Some(wait.as_secs_f64() * 1_000.0)
}

fn http_date(text: &str) -> Option<jiff::Timestamp> {
    jiff::fmt::rfc2822::parse(text)
        .ok()
        .map(|date| date.timestamp())
}

#[cfg(test)]
mod tests {
    use reqwest::header::HeaderValue;

    use super::*;

    fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        let pairs = pairs
            .iter()
            .map(|(name, value)| (name.parse().unwrap(), HeaderValue::from_static(value)));
        pairs.collect()
    }

    #[test]
    fn retry_after_is_milliseconds_or_seconds_or_a_date_relative_to_the_answers_own_date() {
        let date = ("date", "Sun, 06 Nov 1994 08:49:37 GMT");
        let cases: [(&[_], _); 8] = [
            (&[("retry-after", "3")], Some(3_000)),
            (&[("retry-after", "0.25")], Some(250)),
            (&[("retry-after", "0")], None),
            (
                &[("retry-after", "Sun, 06 Nov 1994 08:49:40 GMT"), date],
                Some(3_000),
            ),
            (&[("retry-after", "Sun, 06 Nov 1994 08:49:40 GMT")], None),
            (&[("retry-after", "soon"), date], None),
            (
                &[("retry-after-ms", "1500"), ("retry-after", "9")],
                Some(1_500),
            ),
            (
                &[("retry-after-ms", "soon"), ("retry-after", "9")],
                Some(9_000),
            ),
        ];
        for (pairs, expected) in cases {
            assert_eq!(retry_after_ms(&headers(pairs)), expected, "{pairs:?}");
        }
    }
}
