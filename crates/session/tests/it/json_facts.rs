//! What the log relies on in `serde_json`, and what a careless feature of any dependency would take away
//! (`reference/rust.md` §1.8).

use serde_json::Value;
use serde_json::value::RawValue;

#[test]
fn a_value_keeps_the_order_of_its_members() {
    let text = r#"{"z":1,"a":2,"m":{"y":3,"b":4}}"#;
    assert_eq!(
        serde_json::from_str::<Value>(text).unwrap().to_string(),
        text
    );
}

#[test]
fn hard_doubles_read_back_as_they_were_written() {
    for double in [
        0.1 + 0.2,
        1.0 / 3.0,
        2.225_073_858_507_201e-308,
        1.797_693_134_862_315_7e308,
        9_007_199_254_740_993.0,
        123_456.789_012_345_68,
        5e-324,
        8.41e21,
    ] {
        let text = serde_json::to_string(&double).unwrap();
        assert_eq!(
            serde_json::from_str::<f64>(&text).unwrap().to_bits(),
            f64::to_bits(double),
            "{text}"
        );
    }
}

#[test]
fn numbers_in_a_value_are_not_kept_as_text() {
    let value: Value = serde_json::from_str("1e2").unwrap();
    assert_eq!(value.to_string(), "100.0");
}

#[test]
fn a_raw_value_gives_back_the_bytes_it_was_read_from() {
    for text in [
        r#"{"n":1e2,"big":12345678901234567890123,"minus":-0.0,"e":"\u00e9","s":"\/","n":2}"#,
        "[ 1 ,\t2.50,\"\\ud800\" ]",
    ] {
        assert_eq!(serde_json::from_str::<&RawValue>(text).unwrap().get(), text);
    }
}
