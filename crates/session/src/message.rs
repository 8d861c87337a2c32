//! Reading the payloads of the surface: the five types that carry a message (`reference/persistence.md` §5.1).
//!
//! Members are read only where a rule of their own type needs them; everywhere else they may be anything.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::body::{Body, Call, MessageHead, ResultError, SideMark, StepRef};
use crate::json::{ModelText, Object, ahead, count, non_empty, plain, present, read};
use crate::{EventKind, Seq};

/// Reads the `data` of a surface event.
pub(crate) fn parse(kind: &EventKind, data: &str) -> Result<Body, String> {
    if *kind == EventKind::UserMessage {
        let message: Message<'_> = read(data).map_err(|error| format!("message: {error}"))?;
        return Ok(Body::UserMessage(message.checked("user")?.head()?));
    }
    let outer: Outer<'_, &RawValue> = read(data)?;
    let message = outer.message.get();
    let message: Message<'_> = read(message).map_err(|error| format!("message: {error}"))?;
    body(kind, &outer, message)
}

/// [`parse`] in one pass, for JSON that begins with the `data`; also says where it ends. `None` says nothing: whatever is
/// unusual is left to [`parse`], which explains it.
pub(crate) fn parse_ahead(kind: &EventKind, json: &str) -> Option<(Body, usize)> {
    if *kind == EventKind::UserMessage {
        let (Object(message), end): (Object<Message<'_>>, _) = ahead(json)?;
        let head = message.checked("user").ok()?.head().ok()?;
        return Some((Body::UserMessage(head), end));
    }
    let (Object(mut outer), end): (Object<Outer<'_, Option<Object<Message<'_>>>>>, _) =
        ahead(json)?;
    let Object(message) = outer.message.take()?;
    Some((body(kind, &outer, message).ok()?, end))
}

fn body<M>(kind: &EventKind, outer: &Outer<'_, M>, message: Message<'_>) -> Result<Body, String> {
    match kind {
        EventKind::SystemMessage => system(outer, message.checked("system")?),
        EventKind::DeveloperMessage => developer(outer, message.checked("developer")?),
        EventKind::AssistantMessage => assistant(outer, message),
        _ => tool_result(outer, message.checked("tool")?),
    }
}

/// A stream is opaque, but it is a list.
pub(crate) fn check_stream(stream: Option<&RawValue>) -> Result<(), String> {
    match stream {
        Some(stream) if stream.get().starts_with('[') => Ok(()),
        _ => Err("`stream` must be a list".into()),
    }
}

fn system<M>(outer: &Outer<'_, M>, message: Message<'_>) -> Result<Body, String> {
    let head = message.head()?;
    if &*head.source != "system-prompt" {
        return Err(format!(
            "source kind must be `system-prompt`, found `{}`",
            head.source
        ));
    }
    Ok(Body::SystemMessage(outer.at(), head))
}

fn developer<M>(outer: &Outer<'_, M>, message: Message<'_>) -> Result<Body, String> {
    let mut adds = false;
    for block in message.blocks.iter().filter(|block| block.changes_tools()) {
        block.name_in(block.tool_name, "toolName")?;
        if block.kind == "tool-addition" {
            adds = true;
            if block.tool.is_some() {
                return Err("a tool-addition block must not carry the tool itself".into());
            }
        }
    }
    let header = match (adds, outer.header_seq) {
        (true, None) => return Err("`headerSeq` is missing although tools are added".into()),
        (false, Some(_)) => {
            return Err("`headerSeq` stands although no tool is added".into());
        }
        (_, raw) => raw
            .map(|raw| serde_json::from_str::<Seq>(raw.get()))
            .transpose()
            .map_err(|error| format!("`headerSeq`: {}", plain(&error)))?,
    };
    Ok(Body::DeveloperMessage {
        at: outer.at(),
        message: message.head()?,
        header,
    })
}

fn assistant<M>(outer: &Outer<'_, M>, message: Message<'_>) -> Result<Body, String> {
    check_stream(outer.stream)?;
    let message = message.checked("assistant")?;
    let source = &message.source;
    if source.kind != "model" || !is_name(source.provider) || !is_name(source.model) {
        return Err("source must be kind `model` with `provider` and `model`".into());
    }
    let calls = message.blocks.iter();
    let calls = calls.filter(|block| block.kind == "tool-call");
    Ok(Body::AssistantMessage {
        at: outer.at(),
        calls: calls.map(|block| block.call()).collect::<Result<_, _>>()?,
        message: message.head()?,
    })
}

fn tool_result<M>(outer: &Outer<'_, M>, message: Message<'_>) -> Result<Body, String> {
    let source = &message.source;
    if source.kind != "tool" {
        return Err(format!(
            "source kind must be `tool`, found `{}`",
            source.kind
        ));
    }
    let call_id = name(source.call_id).ok_or("`source.callId` must be a non-empty string")?;
    if name(message.tool_call_id).as_ref() != Some(&call_id) {
        return Err("`toolCallId` differs from `source.callId`".into());
    }
    let is_error = match message.is_error.map(RawValue::get) {
        None | Some("false") => false,
        Some("true") => true,
        Some(other) => return Err(format!("`isError` must be true or false, found {other}")),
    };
    let error = outer
        .error
        .map(|raw| read::<ResultError>(raw.get()).map(Box::new))
        .transpose()
        .map_err(|reason| format!("`error`: {reason}"))?;
    if error.is_some() && !is_error {
        return Err("`error` stands on a result that is no error".into());
    }
    Ok(Body::ToolResult {
        at: outer.at(),
        call_id: call_id.into(),
        is_error,
        error,
        message: message.head()?,
    })
}

/// The value of a string that is not empty; `None` for anything else.
fn name(raw: Option<&RawValue>) -> Option<Cow<'_, str>> {
    let json = raw?.get();
    let inner = json.strip_prefix('"')?.strip_suffix('"')?;
    let text = match memchr::memchr(b'\\', inner.as_bytes()) {
        None => Cow::Borrowed(inner),
        Some(_) => Cow::Owned(serde_json::from_str(json).ok()?),
    };
    (!text.is_empty()).then_some(text)
}

fn is_name(raw: Option<&RawValue>) -> bool {
    raw.is_some_and(|raw| raw.get().starts_with('"') && raw.get() != "\"\"")
}

/// What stands around a message that is not itself the payload.
#[derive(Deserialize)]
#[serde(
    rename_all = "camelCase",
    expecting = "an object",
    bound(deserialize = "M: Deserialize<'de>")
)]
struct Outer<'a, M> {
    #[serde(deserialize_with = "count")]
    turn: u64,
    #[serde(deserialize_with = "count")]
    step: u64,
    message: M,
    #[serde(borrow, default, deserialize_with = "present")]
    stream: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    header_seq: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    error: Option<&'a RawValue>,
}

impl<M> Outer<'_, M> {
    const fn at(&self) -> StepRef {
        StepRef {
            turn: self.turn,
            step: self.step,
        }
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", expecting = "an object")]
struct Message<'a> {
    #[serde(deserialize_with = "non_empty")]
    id: Box<str>,
    #[serde(borrow)]
    role: Cow<'a, str>,
    #[serde(borrow, rename = "content")]
    blocks: Vec<Object<Block<'a>>>,
    #[serde(borrow)]
    source: Object<Source<'a>>,
    #[serde(borrow, default, deserialize_with = "present")]
    tool_call_id: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    is_error: Option<&'a RawValue>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", expecting = "an object")]
struct Source<'a> {
    #[serde(borrow)]
    kind: Cow<'a, str>,
    #[serde(borrow)]
    call_id: Option<&'a RawValue>,
    #[serde(borrow)]
    provider: Option<&'a RawValue>,
    #[serde(borrow)]
    model: Option<&'a RawValue>,
    #[serde(borrow)]
    act: Option<&'a RawValue>,
}

/// A content block. Members are raw: in a block of a type that no rule reads they may be anything.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", expecting = "an object")]
struct Block<'a> {
    #[serde(rename = "type", borrow)]
    kind: Cow<'a, str>,
    #[serde(borrow)]
    id: Option<&'a RawValue>,
    #[serde(borrow)]
    name: Option<&'a RawValue>,
    #[serde(borrow)]
    arguments: Option<&'a RawValue>,
    #[serde(borrow)]
    tool_name: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    tool: Option<&'a RawValue>,
}

impl Message<'_> {
    /// The message, if it is one that such a role can have said.
    fn checked(self, role: &str) -> Result<Self, String> {
        if self.role != role {
            return Err(format!("role must be `{role}`, found `{}`", self.role));
        }
        if self.source.kind.is_empty() {
            return Err("`source.kind` must not be empty".into());
        }
        match self.blocks.iter().find(|block| block.changes_tools()) {
            Some(block) if role != "developer" => Err(format!(
                "a {} block stands outside a developer/message",
                block.kind
            )),
            _ => Ok(self),
        }
    }

    fn head(self) -> Result<MessageHead, String> {
        if self.blocks.iter().any(|block| block.kind.is_empty()) {
            return Err("a content block has an empty `type`".into());
        }
        Ok(MessageHead {
            id: self.id,
            source: (&*self.source.kind).into(),
            is_empty: self.blocks.is_empty(),
            side: SideMark::of_source(&self.source.kind, self.source.act),
        })
    }
}

impl Block<'_> {
    fn changes_tools(&self) -> bool {
        matches!(&*self.kind, "tool-addition" | "tool-removal")
    }

    fn call(&self) -> Result<Call, String> {
        Ok(Call {
            id: self.name_in(self.id, "id")?,
            name: self.text_in(self.name, "name")?,
            arguments: self.text_in(self.arguments, "arguments")?,
        })
    }

    fn name_in(&self, raw: Option<&RawValue>, member: &str) -> Result<Box<str>, String> {
        name(raw)
            .map(Into::into)
            .ok_or_else(|| format!("{} block: `{member}` must be a non-empty string", self.kind))
    }

    /// Whatever the model wrote, an empty name too: only its tool can say that there is no such tool.
    fn text_in(&self, raw: Option<&RawValue>, member: &str) -> Result<Box<str>, String> {
        raw.and_then(|raw| serde_json::from_str(raw.get()).ok())
            .map(|ModelText(text)| text)
            .ok_or_else(|| format!("{} block: `{member}` must be a string", self.kind))
    }
}
