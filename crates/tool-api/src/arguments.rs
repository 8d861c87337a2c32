//! The arguments of one call: exactly what the model wrote, and what it means.

use std::cell::RefCell;

use serde::de::value::StrDeserializer;
use serde::de::{DeserializeOwned, DeserializeSeed, Deserializer, MapAccess, Visitor};
use serde_json::{Map, Value};

use crate::ToolError;

/// Arguments as the model sent them, parsed once.
///
/// Models may send nothing at all, which counts as `{}`, and broken JSON, which is kept as it is: what to say about it
/// is decided when a tool asks for its fields (`reference/agent.md` §1.9).
#[derive(Clone, Debug, PartialEq)]
pub struct ToolArguments {
    raw: String,
    parsed: Result<Value, String>,
}

impl ToolArguments {
    /// Reads what the model wrote. This never fails: [`parse`](Self::parse) does.
    pub fn from_model(raw: impl Into<String>) -> Self {
        let raw = raw.into();
        let parsed = if raw.is_empty() {
            Ok(Value::Object(Map::new()))
        } else {
            serde_json::from_str(&raw).map_err(|error| error.to_string())
        };
        Self { raw, parsed }
    }

    /// The exact text of the model; empty if it sent none.
    pub fn raw(&self) -> &str {
        &self.raw
    }

    /// The arguments as a JSON value: the raw text as a string if it is not JSON.
    pub fn to_value(&self) -> Value {
        match &self.parsed {
            Ok(value) => value.clone(),
            Err(_) => Value::String(self.raw.clone()),
        }
    }

    /// The arguments as a tool's own type.
    ///
    /// # Errors
    /// `INVALID_ARGS`, saying which member is wrong and how, if the text is not a JSON object that fits `T`.
    pub fn parse<T: DeserializeOwned>(&self) -> Result<T, ToolError> {
        let members = match &self.parsed {
            Ok(Value::Object(members)) => members,
            Ok(other) => {
                return Err(ToolError::invalid_arguments(format!(
                    "the arguments must be a JSON object, but they are {}",
                    kind(other)
                )));
            }
            Err(error) => {
                return Err(ToolError::invalid_arguments(format!(
                    "the arguments are not valid JSON: {error}"
                )));
            }
        };
        let at = RefCell::new(None);
        T::deserialize(Members { members, at: &at }).map_err(|error| {
            ToolError::invalid_arguments(match at.take() {
                Some(member) => format!("invalid argument `{member}`: {error}"),
                // Missing and unknown members are named by serde itself.
                None => format!("invalid arguments: {error}"),
            })
        })
    }
}

fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "an array",
        Value::Object(_) => "an object",
    }
}

/// A JSON object that remembers which of its members is being read: serde_json names the wrong type, but not where.
struct Members<'a> {
    members: &'a Map<String, Value>,
    at: &'a RefCell<Option<&'a str>>,
}

impl<'de> Deserializer<'de> for Members<'de> {
    type Error = serde_json::Error;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Self::Error> {
        visitor.visit_map(MembersAccess {
            rest: self.members.iter(),
            value: None,
            at: self.at,
        })
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        visitor: V,
    ) -> Result<V::Value, Self::Error> {
        visitor.visit_newtype_struct(self)
    }

    serde::forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option unit unit_struct
        seq tuple tuple_struct map struct enum identifier ignored_any
    }
}

struct MembersAccess<'a> {
    rest: serde_json::map::Iter<'a>,
    value: Option<(&'a str, &'a Value)>,
    at: &'a RefCell<Option<&'a str>>,
}

impl<'de> MapAccess<'de> for MembersAccess<'de> {
    type Error = serde_json::Error;

    fn next_key_seed<K: DeserializeSeed<'de>>(
        &mut self,
        seed: K,
    ) -> Result<Option<K::Value>, Self::Error> {
        let Some((name, value)) = self.rest.next() else {
            return Ok(None);
        };
        self.value = Some((name, value));
        seed.deserialize(StrDeserializer::new(name)).map(Some)
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(
        &mut self,
        seed: V,
    ) -> Result<V::Value, Self::Error> {
        let (name, value) = self
            .value
            .take()
            .expect("BUG: serde asks for a value after its key");
        self.at.replace(Some(name));
        let read = seed.deserialize(value)?;
        self.at.replace(None);
        Ok(read)
    }
}
