//! What the files of children prove, by version.

use super::*;

/// A descriptor at a seq, with a label that says where it stands.
fn row(seq: u64, label: &str) -> String {
    format!(
        r#"{{"type":"subagent/descriptor","seq":{seq},"time":1,"data":{{"mode":"one-shot","version":3,"provider":"p","label":"{label}"}}}}"#
    )
}

fn told(label: &str) -> ChildDescriptor {
    ChildDescriptor {
        version: 3,
        mode: Some("one-shot".into()),
        label: Some(label.into()),
    }
}

fn marker(seq: u64, data: &str) -> String {
    format!(r#"{{"type":"session/end-seed","seq":{seq},"time":1,"data":{data}}}"#)
}

fn evidence(version: u64, members: &str, rows: &[String]) -> ChildEvidence {
    let header = format!(
        r#"{{"type":"session","version":{version},"id":"c","createdAt":5,"parentSession":"p",{members}"origin":"subagent","delegationDepth":1}}"#
    );
    let lines = std::iter::once(&header).chain(rows);
    let text: String = lines.flat_map(|line| [line, "\n"]).collect();
    ChildEvidence::of_file(Container::Raw, text.as_bytes()).unwrap()
}

fn child(descriptors: Vec<ChildDescriptor>) -> ChildEvidence {
    ChildEvidence {
        id: "c".into(),
        created_at: 5,
        descriptors,
    }
}

#[test]
fn up_to_v1_the_header_says_where_the_childs_own_events_begin() {
    let rows = [row(0, "a"), row(1, "b"), marker(2, "{}"), row(3, "c")];
    for version in [0, 1] {
        for (members, own) in [
            ("", vec!["a", "b", "c"]),
            (r#""seedLength":0,"#, vec!["a", "b", "c"]),
            (r#""seedLength":1,"#, vec!["b", "c"]),
            (r#""seedLength":2,"#, vec!["c"]),
            (r#""seedLength":4,"#, vec![]),
        ] {
            let expected = child(own.into_iter().map(told).collect());
            assert_eq!(evidence(version, members, &rows), expected, "{members}");
        }
    }
}

#[test]
fn since_v2_the_last_tagged_marker_says_so() {
    let inherited = r#"{"inherited":true}"#;
    let rows = [
        row(0, "a"),
        marker(1, inherited),
        row(2, "b"),
        marker(3, inherited),
        row(4, "c"),
        marker(5, "{}"),
        row(6, "d"),
    ];
    for version in [2, 3, 4] {
        let seeded = evidence(version, r#""isSeeded":true,"#, &rows);
        assert_eq!(seeded, child(vec![told("c"), told("d")]));
        let unseeded = evidence(version, r#""isSeeded":false,"#, &rows[4..]);
        assert_eq!(unseeded, child(vec![told("c"), told("d")]));
        let none = evidence(version, r#""isSeeded":true,"#, &rows[..4]);
        assert_eq!(none, child(vec![]));
    }
}

#[test]
fn early_descriptors_say_what_they_knew() {
    let early =
        |data: &str| format!(r#"{{"type":"subagent/descriptor","seq":0,"time":1,"data":{data}}}"#);
    for (data, version, mode, label) in [
        (r#"{"version":1,"label":"l"}"#, 1, None, Some("l")),
        (
            r#"{"version":2,"mode":"continuable"}"#,
            2,
            Some("continuable"),
            None,
        ),
        (r#"{"mode":7}"#, 0, None, None),
    ] {
        let expected = ChildDescriptor {
            version,
            mode: mode.map(str::to_owned),
            label: label.map(str::to_owned),
        };
        assert_eq!(evidence(0, "", &[early(data)]), child(vec![expected]));
    }
}

#[test]
fn rows_that_only_mention_a_descriptor_prove_nothing() {
    let rows = [
        r#"{"type":"todo/write","seq":0,"time":1,"data":{"type":"subagent/descriptor"}}"#.into(),
        r#"["subagent/descriptor"]"#.into(),
        r#"{"type":"subagent/descriptor","data":{"version":3,"mode":"one-shot"}}"#.into(),
        r#"{"type":"todo/write","seq":1,"time":1,"data":"session/end-seed"}"#.into(),
    ];
    assert_eq!(evidence(0, "", &rows), child(vec![]));
    let damaged = [row(0, "a"), r#"{"type":"#.into(), row(2, "b")];
    assert_eq!(
        evidence(0, "", &damaged),
        child(vec![told("a"), told("b")]),
        "a file that cannot be brought up still says what it is"
    );
}

#[test]
fn a_line_that_was_cut_off_is_no_event() {
    let header = r#"{"type":"session","version":4,"id":"c","createdAt":5,"isSeeded":false,"delegationDepth":1}"#;
    let text = format!("{header}\n{}\n{}", row(0, "a"), row(1, "b"));
    assert_eq!(
        ChildEvidence::of_file(Container::Raw, text.as_bytes()).unwrap(),
        child(vec![told("a")])
    );
}

#[test]
fn a_compressed_file_says_the_same_and_one_without_a_header_says_nothing() {
    let header = r#"{"type":"session","version":3,"id":"c","createdAt":5,"isSeeded":false,"delegationDepth":1}"#;
    let frame = |text: String| zstd::bulk::compress(text.as_bytes(), 3).unwrap();
    let mut bytes = frame(format!("{header}\n"));
    bytes.extend(frame(format!("{}\n", row(0, "a"))));
    bytes.extend(frame(format!("{}\n", row(1, "b"))));
    let read = |bytes: &[u8]| ChildEvidence::of_file(Container::Zstd, bytes);
    assert_eq!(read(&bytes).unwrap(), child(vec![told("a"), told("b")]));
    assert_eq!(
        ChildEvidence::of_file(Container::Raw, b"{}\n")
            .unwrap_err()
            .code(),
        "MALFORMED_HEADER"
    );
    assert_eq!(read(b"").unwrap_err(), FormatError::Empty { bytes: 0 });
}
