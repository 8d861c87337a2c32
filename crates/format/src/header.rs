//! The header line of every version (`reference/persistence.md` §1.7, §2.1).

use offshoot_session::{MAX_SAFE_INTEGER, Origin, SessionHeader, SessionId};
use serde::de::IgnoredAny;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::value::RawValue;

use crate::FormatError;
use crate::stages::migrate_preset;
use crate::status::Status;
use crate::version::Version;

/// The format version that this program writes.
pub const CURRENT_VERSION: u64 = Version::CURRENT.number();

/// A header as a file of any readable version has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredHeader {
    pub(crate) version: Version,
    pub(crate) header: SessionHeader,
    pub(crate) seed_length: Option<u64>,
}

impl StoredHeader {
    /// Reads a header line, without its line feed, of any version that this program reads.
    ///
    /// # Errors
    /// Another version, a line that is no header, or members that break the rules of the version.
    pub fn read(line: &str) -> Result<Self, FormatError> {
        let malformed = |reason: String| FormatError::MalformedHeader { reason };
        let version = version_gate(line)?;
        let read = |error: serde_json::Error| malformed(plain(&error));
        let (mut header, seed_length) = if version <= Version::V1 {
            let physical: OldHeader = serde_json::from_str(line).map_err(read)?;
            physical.into_header()
        } else {
            let physical: PhysicalHeader = serde_json::from_str(line).map_err(read)?;
            (physical.into_header(), None)
        };
        header.check().map_err(malformed)?;
        if seed_length.is_some_and(|length| length > MAX_SAFE_INTEGER) {
            return Err(malformed(
                "header member `seedLength` is beyond 2^53 − 1".into(),
            ));
        }
        if version <= Version::V2 {
            migrate_preset(&mut header.agent_preset);
        }
        Ok(Self {
            version,
            header,
            seed_length,
        })
    }

    /// The version that the file has.
    #[must_use]
    pub const fn version(&self) -> u64 {
        self.version.number()
    }

    /// The header in current terms.
    #[must_use]
    pub const fn header(&self) -> &SessionHeader {
        &self.header
    }

    /// What a reader has to do with the file, as far as its header tells.
    #[must_use]
    pub fn status(&self) -> Status {
        Status::of_version(self.version)
    }

    /// The header in current terms, without a copy.
    #[must_use]
    pub fn into_header(self) -> SessionHeader {
        self.header
    }
}

/// The line of V0 and V1.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct OldHeader {
    #[serde(rename = "type")]
    _type: IgnoredAny,
    #[serde(rename = "version")]
    _version: IgnoredAny,
    id: String,
    created_at: u64,
    #[serde(default, deserialize_with = "some")]
    cwd: Option<String>,
    #[serde(default, deserialize_with = "some")]
    parent_session: Option<String>,
    #[serde(default, deserialize_with = "some")]
    seed_length: Option<u64>,
    #[serde(default, deserialize_with = "some")]
    origin: Option<Origin>,
    delegation_depth: u64,
    #[serde(default, deserialize_with = "some")]
    agent_preset: Option<String>,
}

impl OldHeader {
    fn into_header(self) -> (SessionHeader, Option<u64>) {
        let header = SessionHeader {
            id: SessionId::new(self.id),
            created_at: self.created_at,
            cwd: self.cwd,
            parent: self.parent_session.map(SessionId::new),
            is_seeded: self.seed_length.is_some(),
            origin: self.origin,
            delegation_depth: self.delegation_depth,
            agent_preset: self.agent_preset,
        };
        (header, self.seed_length)
    }
}

/// The line of V2 to V4 as it is stored. The member order is that of the writer.
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

impl PhysicalHeader {
    fn into_header(self) -> SessionHeader {
        SessionHeader {
            id: SessionId::new(self.id),
            created_at: self.created_at,
            cwd: self.cwd,
            parent: self.parent_session.map(SessionId::new),
            is_seeded: self.is_seeded,
            origin: self.origin,
            delegation_depth: self.delegation_depth,
            agent_preset: self.agent_preset,
        }
    }
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
fn version_gate(line: &str) -> Result<Version, FormatError> {
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
    let known = match version.map(str::parse::<u64>) {
        Some(Ok(number)) => Version::of(number).ok_or_else(|| unsupported(version))?,
        Some(Err(_)) if version.is_some_and(|text| text.parse::<f64>().is_ok()) => {
            return Err(unsupported(version));
        }
        _ => {
            return Err(malformed(
                "expected a session header, found no numeric `version`".into(),
            ));
        }
    };
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
    Ok(known)
}

fn unsupported(version: Option<&str>) -> FormatError {
    FormatError::UnsupportedVersion {
        version: version.unwrap_or_default().to_owned(),
        current: CURRENT_VERSION,
    }
}

/// Writes a header as the first line of a file, with its line feed.
///
/// # Errors
/// A header that [`StoredHeader::read`] would refuse.
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
pub(crate) fn plain(error: &serde_json::Error) -> String {
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
