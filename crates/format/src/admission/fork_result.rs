//! Results that were written for calls that nobody started (`reference/persistence.md` §5.4).
//!
//! A repair writes them after a crash and a fork writes them at its cut. They are the only results that may stand for a
//! call without a `tool/call`, so a reader has to recognise them exactly.

use std::borrow::Cow;

use offshoot_session::{
    Body, Event, INTERRUPTED_NOT_STARTED, MAX_SAFE_INTEGER, MessageHead, SurfaceOp,
    TOOL_NOT_STARTED,
};
use serde::Deserialize;
use serde_json::value::RawValue;

const NOT_STARTED_NAME: &str = "ToolNotStartedError";
const INTERRUPTED: &str = "interrupted-tool-result-";
const FORKED: &str = "forked-tool-result-";

/// Rule 6: a result that calls itself the not-started result of a fork must be exactly that.
pub(super) fn check(event: &Event) -> Result<(), String> {
    let Some(result) = NotStarted::of(event) else {
        return Ok(());
    };
    if !result.message.id.starts_with(FORKED) {
        return Ok(());
    }
    let bad = |reason: String| {
        Err(format!(
            "not a valid not-started result of a fork: {reason}"
        ))
    };
    if let Err(reason) = result.check_named_error() {
        return bad(reason);
    }
    let Some(suffix) = result.suffix(FORKED) else {
        return bad(format!(
            "its id must be `{FORKED}{}-` and a number, found `{}`",
            result.call_id, result.message.id
        ));
    };
    if only_text(event).is_none() {
        return bad("its content must be exactly one text block".into());
    }
    let (seq, sources) = (event.seq().get(), event.sources());
    match event.surface_op() {
        Some(SurfaceOp::Append) if suffix != seq => {
            bad(format!("its id ends with {suffix}, but it is event {seq}"))
        }
        Some(SurfaceOp::Append) if sources.is_some() => {
            bad("it was appended and must not have `sourceEventSeqs`".into())
        }
        Some(SurfaceOp::Replace { .. }) if suffix >= seq => bad(format!(
            "its id ends with {suffix}, but it replaces an event before {seq}"
        )),
        Some(SurfaceOp::Replace { .. })
            if !sources.is_some_and(|cited| matches!(cited, [only] if only.get() == suffix)) =>
        {
            bad(format!("`sourceEventSeqs` must be exactly [{suffix}]"))
        }
        _ => Ok(()),
    }
}

/// Whether an appended result may stand for a call that was never started: only a repair or a fork writes one.
pub(crate) fn check_never_started(event: &Event) -> Result<(), String> {
    let Some(result) = NotStarted::of(event) else {
        return Err(format!("its error code is not {TOOL_NOT_STARTED}"));
    };
    result.check_named_error()?;
    if result.suffix(FORKED).is_some() {
        return check(event);
    }
    if result.suffix(INTERRUPTED).is_none() {
        return Err(format!(
            "its id must be `{INTERRUPTED}{call}-` or `{FORKED}{call}-` and a number, found `{}`",
            result.message.id,
            call = result.call_id,
        ));
    }
    if event.sources().is_some() {
        return Err("it must not have `sourceEventSeqs`".into());
    }
    match only_text(event).map(serde_json::from_str::<Cow<'_, str>>) {
        Some(Ok(text)) if text == INTERRUPTED_NOT_STARTED => Ok(()),
        _ => Err("its content must be exactly the text of a repair".into()),
    }
}

/// A result with the code of a call that was not started. That it is marked as an error is a core rule, so is that the
/// call of its source is the call it answers.
struct NotStarted<'a> {
    message: &'a MessageHead,
    call_id: &'a str,
    error_name: &'a str,
}

impl<'a> NotStarted<'a> {
    fn of(event: &'a Event) -> Option<Self> {
        match event.body() {
            Body::ToolResult {
                message,
                call_id,
                error: Some(error),
                ..
            } if &*error.code == TOOL_NOT_STARTED => Some(Self {
                message,
                call_id,
                error_name: &error.name,
            }),
            _ => None,
        }
    }

    fn check_named_error(&self) -> Result<(), String> {
        if self.error_name != NOT_STARTED_NAME {
            return Err(format!(
                "its error name must be {NOT_STARTED_NAME}, found `{}`",
                self.error_name
            ));
        }
        Ok(())
    }

    /// The number at the end of the message id, if the rest of the id is `prefix` and the call. It is the seq that the
    /// result was first written with; migrations may have moved the event since.
    fn suffix(&self, prefix: &str) -> Option<u64> {
        let rest = self.message.id.strip_prefix(prefix)?;
        let digits = rest.strip_prefix(self.call_id)?.strip_prefix('-')?;
        let canonical = digits == "0"
            || (!digits.starts_with('0') && digits.bytes().all(|byte| byte.is_ascii_digit()));
        let number = digits.parse().ok().filter(|_| canonical)?;
        (number <= MAX_SAFE_INTEGER).then_some(number)
    }
}

/// The JSON text of the only block's `text`, if the content is one text block.
fn only_text(event: &Event) -> Option<&str> {
    #[derive(Deserialize)]
    struct Content<'a> {
        #[serde(borrow)]
        content: Vec<Block<'a>>,
    }
    #[derive(Deserialize)]
    struct Block<'a> {
        #[serde(rename = "type", borrow)]
        kind: Cow<'a, str>,
        #[serde(borrow)]
        text: Option<&'a RawValue>,
    }
    let Content { content } = serde_json::from_str(event.message()?).ok()?;
    let [block] = &content[..] else {
        return None;
    };
    let text = block.text.map(RawValue::get)?;
    (block.kind == "text" && text.starts_with('"')).then_some(text)
}
