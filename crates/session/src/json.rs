//! Reading JSON as strictly as the format asks, where serde's derived readers are more generous.
//!
//! A derived reader also takes a list for a struct, and `null` for an absent member. The format does neither: such a row
//! would be kept here and refused by every other reader of the same file.

use std::fmt;
use std::ops::Deref;

use serde::de::{Error as _, Visitor};
use serde::{Deserialize, Deserializer, forward_to_deserialize_any};

use crate::ids::MAX_SAFE_INTEGER;

/// A struct that must be written as a JSON object: serde's derived readers also take a list of the members' values.
#[derive(Clone, Debug)]
pub struct Object<T>(pub T);

impl<T> Deref for Object<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Object<T> {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        T::deserialize(MapOnly(d)).map(Self)
    }
}

/// Asks for a map, whatever it is asked for.
struct MapOnly<D>(D);

impl<'de, D: Deserializer<'de>> Deserializer<'de> for MapOnly<D> {
    type Error = D::Error;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, D::Error> {
        self.0.deserialize_map(visitor)
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option unit unit_struct
        newtype_struct seq tuple tuple_struct map struct enum identifier ignored_any
    }
}

/// Reads a whole JSON text as an object.
pub(crate) fn read<'a, T: Deserialize<'a>>(text: &'a str) -> Result<T, String> {
    serde_json::from_str(text)
        .map(|Object(value)| value)
        .map_err(|error| plain(&error))
}

/// Reads the value that a JSON text begins with, and says where it ends.
pub(crate) fn ahead<'a, T: Deserialize<'a>>(json: &'a str) -> Option<(T, usize)> {
    let mut values = serde_json::Deserializer::from_str(json).into_iter();
    let value = values.next()?.ok()?;
    Some((value, values.byte_offset()))
}

/// serde's text without its position: a row is one line, and its line in the file is known elsewhere.
pub(crate) fn plain(error: &serde_json::Error) -> String {
    let text = error.to_string();
    match text.rfind(" at line 1 column ") {
        Some(at) => format!("{} (byte {})", &text[..at], error.column()),
        None => text,
    }
}

/// Keeps an explicit `null` apart from an absent member: optional members are omitted, never null.
pub(crate) fn present<'de, T, D>(d: D) -> Result<Option<T>, D::Error>
where
    T: Deserialize<'de>,
    D: Deserializer<'de>,
{
    T::deserialize(d).map(Some)
}

/// A string that must not be empty.
pub(crate) fn non_empty<'de, D: Deserializer<'de>>(d: D) -> Result<Box<str>, D::Error> {
    let text = Box::<str>::deserialize(d)?;
    if text.is_empty() {
        Err(D::Error::custom("must not be an empty string"))
    } else {
        Ok(text)
    }
}

/// An integer from 0 to 2^53 − 1.
pub(crate) fn count<'de, D: Deserializer<'de>>(d: D) -> Result<u64, D::Error> {
    let count = u64::deserialize(d)?;
    if count > MAX_SAFE_INTEGER {
        Err(D::Error::custom(format_args!(
            "{count} is beyond 2^53 \u{2212} 1"
        )))
    } else {
        Ok(count)
    }
}

/// A string that a model wrote. It may hold lone surrogates, which a Rust string cannot: in this view they are replaced,
/// in the row they stay.
#[derive(Clone, Debug)]
pub(crate) struct ModelText(pub(crate) Box<str>);

impl<'de> Deserialize<'de> for ModelText {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        struct Replacing;
        impl Visitor<'_> for Replacing {
            type Value = ModelText;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a string")
            }

            fn visit_bytes<E>(self, bytes: &[u8]) -> Result<ModelText, E> {
                Ok(ModelText(String::from_utf8_lossy(bytes).into()))
            }
        }
        // Asked for bytes, serde_json hands over a string without insisting that its escapes make sense.
        d.deserialize_bytes(Replacing)
    }
}
