//! The header line of format V4 (`reference/persistence.md` §2.1).

use offshoot_session::{Origin, SessionHeader, SessionId};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::value::RawValue;

use crate::FormatError;

/// The format version that this program writes.
pub const CURRENT_VERSION: u64 = 4;

/// The line as it is stored. The member order is that of the writer.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct PhysicalHeader {
    r#type: String,
    version: u64,
    id: String,
    created_at: u64,
    #[serde(
        default,
        deserialize_with = "some",
        skip_serializing_if = "Option::is_none"
    )]
    cwd: Option<String>,
    #[serde(
        default,
        deserialize_with = "some",
        skip_serializing_if = "Option::is_none"
    )]
    parent_session: Option<String>,
    is_seeded: bool,
    #[serde(
        default,
        deserialize_with = "some",
        skip_serializing_if = "Option::is_none"
    )]
    origin: Option<Origin>,
    delegation_depth: u64,
    #[serde(
        default,
        deserialize_with = "some",
        skip_serializing_if = "Option::is_none"
    )]
    agent_preset: Option<String>,
}

/// Optional members are omitted, never null.
fn some<'de, T: Deserialize<'de>, D: Deserializer<'de>>(d: D) -> Result<Option<T>, D::Error> {
    T::deserialize(d).map(Some)
}

/// What the version gate reads before any other rule applies.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Gate<'a> {
    #[serde(borrow)]
    r#type: Option<&'a RawValue>,
    #[serde(borrow)]
    version: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "some")]
    sandbox_mode: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "some")]
    approval_policy: Option<&'a RawValue>,
}

/// Reads the version that a header line names. A number that is not this version's is not damage, whatever else the line
/// holds (§1.7).
pub(crate) fn version_gate(line: &str) -> Result<u64, FormatError> {
    let malformed = |reason: String| FormatError::MalformedHeader { reason };
    let is_object = line.trim_start().starts_with('{');
    let gate: Gate<'_> = match serde_json::from_str(line) {
        Ok(gate) if is_object => gate,
        Err(error) if is_object || !error.is_data() => {
            return Err(malformed(format!(
                "expected a session header: {}",
                plain(&error)
            )));
        }
        _ => {
            return Err(malformed(
                "expected a session header, found JSON that is no object".into(),
            ));
        }
    };
    let version = gate.version.map(RawValue::get);
    match version.map(str::parse::<u64>) {
        Some(Ok(version)) if version == CURRENT_VERSION => {}
        Some(Ok(_)) => return Err(unsupported(version)),
        Some(Err(_)) if version.is_some_and(|text| text.parse::<f64>().is_ok()) => {
            return Err(unsupported(version));
        }
        _ => {
            return Err(malformed(
                "expected a session header, found no numeric `version`".into(),
            ));
        }
    }
    if gate.r#type.map(RawValue::get) != Some(r#""session""#) {
        return Err(malformed(r#"expected `"type":"session"`"#.into()));
    }
    for (name, member) in [
        ("sandboxMode", gate.sandbox_mode),
        ("approvalPolicy", gate.approval_policy),
    ] {
        if member.is_some() {
            return Err(malformed(format!("the header member `{name}` is retired")));
        }
    }
    Ok(CURRENT_VERSION)
}

fn unsupported(version: Option<&str>) -> FormatError {
    FormatError::UnsupportedVersion {
        version: version.unwrap_or_default().to_owned(),
        current: CURRENT_VERSION,
    }
}

/// Reads a header line, without its line feed, of version 4.
///
/// # Errors
/// Another version, a line that is no header, or members that break the rules of the version.
pub fn decode_header(line: &str) -> Result<SessionHeader, FormatError> {
    version_gate(line)?;
    let malformed = |reason: String| FormatError::MalformedHeader { reason };
    let physical: PhysicalHeader =
        serde_json::from_str(line).map_err(|error| malformed(plain(&error)))?;
    let header = SessionHeader {
        id: SessionId::new(physical.id),
        created_at: physical.created_at,
        cwd: physical.cwd,
        parent: physical.parent_session.map(SessionId::new),
        is_seeded: physical.is_seeded,
        origin: physical.origin,
        delegation_depth: physical.delegation_depth,
        agent_preset: physical.agent_preset,
    };
    header.check().map_err(malformed)?;
    Ok(header)
}

/// Writes a header as the first line of a file, with its line feed.
///
/// # Errors
/// A header that [`decode_header`] would refuse.
pub fn encode_header(header: &SessionHeader) -> Result<String, FormatError> {
    header
        .check()
        .map_err(|reason| FormatError::MalformedHeader { reason })?;
    let physical = PhysicalHeader {
        r#type: "session".to_owned(),
        version: CURRENT_VERSION,
        id: header.id.as_str().to_owned(),
        created_at: header.created_at,
        cwd: header.cwd.clone(),
        parent_session: header.parent.as_ref().map(|id| id.as_str().to_owned()),
        is_seeded: header.is_seeded,
        origin: header.origin,
        delegation_depth: header.delegation_depth,
        agent_preset: header.agent_preset.clone(),
    };
    let mut line = serde_json::to_string(&physical).expect("BUG: a header is strings and numbers");
    line.push('\n');
    Ok(line)
}

/// serde's text with the byte for its position, because the line is known elsewhere.
fn plain(error: &serde_json::Error) -> String {
    let text = error.to_string();
    let Some((text, _)) = text.rsplit_once(" at line ") else {
        return text;
    };
    let text = match text {
        // What JavaScript writes for a string that was cut inside of a character.
        "unexpected end of hex escape" | "lone leading surrogate in hex escape" => {
            "a string has half of a surrogate pair, which is no character"
        }
        text => text,
    };
    format!("{text} (byte {})", error.column())
}
