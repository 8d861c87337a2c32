//! Titles: made from what a person wrote, and nothing else.

use std::borrow::Cow;
use std::collections::HashSet;

use offshoot_session::{Body, Event, EventLog, Seq};
use serde::Deserialize;

use super::read;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct TitleData<'a> {
    message_seqs: Vec<Seq>,
    #[serde(borrow)]
    source: Kind<'a>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RequestData<'a> {
    message_seqs: Vec<Seq>,
    #[serde(borrow)]
    messages: Vec<Message<'a>>,
}

#[derive(Deserialize)]
struct Message<'a> {
    #[serde(borrow)]
    role: Cow<'a, str>,
    #[serde(borrow)]
    source: Kind<'a>,
    #[serde(borrow)]
    content: Vec<Block<'a>>,
}

#[derive(Deserialize)]
struct Kind<'a> {
    #[serde(borrow)]
    kind: Cow<'a, str>,
}

#[derive(Deserialize)]
struct Block<'a> {
    #[serde(rename = "type", borrow)]
    kind: Cow<'a, str>,
}

pub(super) fn check_title(event: &Event, before: &EventLog) -> Result<(), String> {
    let TitleData {
        message_seqs,
        source,
    } = read(event)?;
    check_sources(&message_seqs, before)?;
    match (&*source.kind, message_seqs.len()) {
        ("user", 0) => Ok(()),
        ("user", found) => Err(format!(
            "a title that a person wrote has no `messageSeqs`, found {found}"
        )),
        (kind, 0) => Err(format!("a title from `{kind}` needs `messageSeqs`")),
        _ => Ok(()),
    }
}

pub(super) fn check_request(event: &Event, before: &EventLog) -> Result<(), String> {
    let RequestData {
        message_seqs,
        messages,
    } = read(event)?;
    if message_seqs.is_empty() {
        return Err("`messageSeqs` must not be empty".into());
    }
    check_sources(&message_seqs, before)?;
    let [message] = &messages[..] else {
        return Err(format!(
            "`messages` must be exactly one, found {}",
            messages.len()
        ));
    };
    if message.role != "user" || message.source.kind != "dsh-session-title-llm" {
        return Err(format!(
            "expected a user message of kind `dsh-session-title-llm`, found role `{}` and kind `{}`",
            message.role, message.source.kind
        ));
    }
    if !matches!(&message.content[..], [block] if block.kind == "text") {
        return Err("the message must be exactly one text block".into());
    }
    Ok(())
}

fn check_sources(seqs: &[Seq], before: &EventLog) -> Result<(), String> {
    let mut seen = HashSet::with_capacity(seqs.len());
    for &seq in seqs {
        if !seen.insert(seq) {
            return Err(format!("`messageSeqs` names event {seq} twice"));
        }
        let Some(named) = before.get(seq) else {
            return Err(format!(
                "`messageSeqs` names event {seq}, which is not earlier"
            ));
        };
        match named.body() {
            Body::UserMessage(message) if &*message.source == "user" => {}
            Body::UserMessage(message) => {
                return Err(format!(
                    "`messageSeqs` names event {seq}, a message from `{}` and not from a person",
                    message.source
                ));
            }
            _ => {
                return Err(format!(
                    "`messageSeqs` names event {seq}, which is `{}` and no user/message",
                    named.kind()
                ));
            }
        }
    }
    Ok(())
}
