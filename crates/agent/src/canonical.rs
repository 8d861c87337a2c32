//! JSON in a form that is the same for arguments that mean the same.

use serde_json::Value;

/// The JSON text of a value with the members of its objects in the order of their names.
pub(crate) fn canonical(value: &Value) -> String {
    sorted(value).to_string()
}

fn sorted(value: &Value) -> Value {
    match value {
        Value::Array(items) => items.iter().map(sorted).collect(),
        Value::Object(members) => {
            let mut members: Vec<_> = members.iter().collect();
            members.sort_unstable_by_key(|(name, _)| *name);
            let members = members.into_iter();
            members
                .map(|(name, value)| (name.clone(), sorted(value)))
                .collect()
        }
        plain => plain.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_order_of_members_and_white_space_mean_nothing() {
        let texts = [
            r#"{"b":[{"d":1,"c":2}],"a":null}"#,
            "{\"a\": null,\n\"b\": [{\"c\": 2, \"d\": 1}]}",
        ];
        for text in texts {
            let value: Value = serde_json::from_str(text).unwrap();
            assert_eq!(canonical(&value), r#"{"a":null,"b":[{"c":2,"d":1}]}"#);
        }
    }
}
