//! Finding the parts of a JSON text that is known to be valid.
//!
//! A row is read by a real parser once; after that its parts are looked for many times, level by level, and then only the
//! ends of strings, lists and objects matter. Text that is not valid after all gives wrong parts, or none, and nothing worse.

use memchr::memchr2;

/// The members of an object: names and values, as JSON texts.
pub(super) fn members(json: &str) -> Option<Vec<(&str, &str)>> {
    let mut members = Vec::new();
    visit(json, |name, value| members.push((name, value)))?;
    Some(members)
}

/// The value of the last member whose name is wanted.
pub(super) fn member(json: &str, is_wanted: impl Fn(&str) -> bool) -> Option<&str> {
    let mut found = None;
    visit(json, |name, value| {
        if is_wanted(name) {
            found = Some(value);
        }
    })?;
    found
}

fn visit<'a>(json: &'a str, mut visit: impl FnMut(&'a str, &'a str)) -> Option<()> {
    let inner = json.strip_prefix('{')?.strip_suffix('}')?;
    let mut rest = inner.trim_ascii_start();
    while !rest.is_empty() {
        let (name, behind) = rest.split_at_checked(string_end(rest))?;
        let behind = behind.trim_ascii_start().strip_prefix(':')?;
        let (value, behind) = value(behind.trim_ascii_start())?;
        visit(name, value);
        rest = next(behind)?;
    }
    Some(())
}

/// The elements of a list, as JSON texts.
pub(super) fn items(json: &str) -> Option<Vec<&str>> {
    let inner = json.strip_prefix('[')?.strip_suffix(']')?;
    let mut items = Vec::new();
    let mut rest = inner.trim_ascii_start();
    while !rest.is_empty() {
        let (item, behind) = value(rest)?;
        items.push(item);
        rest = next(behind)?;
    }
    Some(items)
}

/// What follows behind a comma; nothing if there is nothing.
fn next(behind: &str) -> Option<&str> {
    match behind.trim_ascii_start() {
        "" => Some(""),
        behind => Some(behind.strip_prefix(',')?.trim_ascii_start()),
    }
}

/// The value that the text begins with, and what is behind it.
fn value(json: &str) -> Option<(&str, &str)> {
    let bytes = json.as_bytes();
    let end = match bytes.first()? {
        b'"' => string_end(json),
        b'{' | b'[' => {
            let (mut at, mut depth) = (0, 0usize);
            loop {
                match bytes.get(at)? {
                    b'"' => at += string_end(&json[at..]) - 1,
                    b'{' | b'[' => depth += 1,
                    b'}' | b']' => depth -= 1,
                    _ => {}
                }
                at += 1;
                if depth == 0 {
                    break at;
                }
            }
        }
        _ => {
            let ends = |byte: &u8| matches!(byte, b',' | b'}' | b']') || byte.is_ascii_whitespace();
            bytes.iter().position(ends).unwrap_or(bytes.len())
        }
    };
    (end > 0).then(|| json.split_at_checked(end))?
}

/// Where the string ends that the text begins with.
pub(crate) fn string_end(json: &str) -> usize {
    let bytes = json.as_bytes();
    let mut at = 1;
    while let Some(found) = bytes.get(at..).and_then(|rest| memchr2(b'"', b'\\', rest)) {
        at += found + 1;
        if bytes[at - 1] == b'"' {
            return at;
        }
        at += 1;
    }
    json.len()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::Value;

    use super::*;

    #[test]
    fn parts_are_found_whatever_stands_in_strings_and_between() {
        let text = "{ \"a\" :\t[1, \"]}\\\"\\\\\" ,{\"b\":[]}] ,\"c}\\u0022\": -1.5e+3,\"d\":\"\\\\\" , \"e\" : null }";
        assert_eq!(
            members(text).unwrap(),
            [
                ("\"a\"", "[1, \"]}\\\"\\\\\" ,{\"b\":[]}]"),
                ("\"c}\\u0022\"", "-1.5e+3"),
                ("\"d\"", "\"\\\\\""),
                ("\"e\"", "null"),
            ]
        );
        assert_eq!(
            items("[1, \"]}\\\"\\\\\" ,{\"b\":[]}]").unwrap(),
            ["1", "\"]}\\\"\\\\\"", "{\"b\":[]}"]
        );
        assert_eq!(members("{ }"), Some(vec![]));
        assert_eq!(items("[\n]"), Some(vec![]));
    }

    fn json() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<f64>().prop_map(Value::from),
            any::<String>().prop_map(Value::from),
        ];
        leaf.prop_recursive(4, 32, 5, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
                prop::collection::vec((any::<String>(), inner), 0..5)
                    .prop_map(|members| Value::Object(members.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn parts_are_those_that_a_parser_finds(value in json(), pretty: bool) {
            let text = if pretty { serde_json::to_string_pretty(&value) } else { serde_json::to_string(&value) };
            let text = text.unwrap();
            let read = |part: &str| serde_json::from_str::<Value>(part).unwrap();
            match &value {
                Value::Object(object) => {
                    let found = members(&text).unwrap();
                    let found: Vec<_> = found.into_iter().map(|(name, value)| (read(name), read(value))).collect();
                    let real: Vec<_> = object.iter().map(|(name, value)| (Value::from(name.clone()), value.clone())).collect();
                    prop_assert_eq!(found, real);
                }
                Value::Array(array) => {
                    let found: Vec<_> = items(&text).unwrap().into_iter().map(read).collect();
                    prop_assert_eq!(&found, array);
                }
                _ => prop_assert!(members(&text).is_none() && items(&text).is_none()),
            }
        }

        #[test]
        fn what_is_not_valid_ends_nothing(text: String) {
            for text in [text.clone(), format!("{{{text}}}"), format!("[{text}]"), format!("{{\"a\":{text}}}")] {
                let _parts = (members(&text), items(&text));
            }
        }
    }
}
