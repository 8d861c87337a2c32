//! The children that a log does not name.

use super::*;
use crate::evidence::ChildDescriptor;

fn child(id: &str, created_at: u64, descriptors: Vec<ChildDescriptor>) -> ChildEvidence {
    ChildEvidence {
        id: id.into(),
        created_at,
        descriptors,
    }
}

fn descriptor(version: u64, mode: Option<&str>, label: Option<&str>) -> ChildDescriptor {
    ChildDescriptor {
        version,
        mode: mode.map(str::to_owned),
        label: label.map(str::to_owned),
    }
}

/// The payloads of the facts that are added behind the rows.
fn added(children: &[ChildEvidence], rows: &[String]) -> Vec<String> {
    let made = upper_with(children, rows).unwrap();
    let facts = made.iter().skip(rows.len());
    let time = if rows.is_empty() { 7 } else { 99 + rows.len() };
    let facts = (rows.len()..).zip(facts).map(|(seq, fact)| {
        let head = format!(r#"{{"type":"subagent/catalog","seq":{seq},"time":{time},"data":"#);
        let data = fact
            .strip_prefix(&head)
            .unwrap_or_else(|| panic!("{head}: {fact}"));
        data.strip_suffix('}').unwrap().to_owned()
    });
    facts.collect()
}

fn known(seq: u64, id: &str, created_at: &str) -> String {
    let data = format!(
        r#"{{"version":0,"childId":"{id}","childCreatedAt":{created_at},"mode":"one-shot"}}"#
    );
    at(seq, 100 + seq, "subagent/catalog", &data)
}

fn unknown_fact(id: &str, created_at: u64) -> String {
    format!(r#"{{"version":1,"childId":"{id}","childCreatedAt":{created_at},"mode":"unknown"}}"#)
}

#[test]
fn one_descriptor_says_what_the_child_is_and_anything_else_does_not() {
    let one = |version, mode, label| vec![descriptor(version, mode, label)];
    let fact = |rest: &str| format!(r#"{{"version":0,"childId":"c","childCreatedAt":5,{rest}}}"#);
    let unknown = unknown_fact("c", 5);
    for (descriptors, expected) in [
        (vec![], unknown.clone()),
        (one(1, None, None), fact(r#""mode":"continuable""#)),
        (
            one(1, None, Some("l")),
            fact(r#""mode":"continuable","label":"l""#),
        ),
        (one(2, Some("one-shot"), None), fact(r#""mode":"one-shot""#)),
        (
            one(2, Some("continuable"), Some("l")),
            fact(r#""mode":"continuable","label":"l""#),
        ),
        (one(3, Some("one-shot"), None), fact(r#""mode":"one-shot""#)),
        (
            one(3, Some("continuable"), Some("a \"b\"")),
            fact(r#""mode":"continuable","label":"a \"b\"""#),
        ),
        (one(3, None, Some("l")), unknown.clone()),
        (one(3, Some("sideways"), None), unknown.clone()),
        (one(4, Some("one-shot"), None), unknown.clone()),
        (one(0, Some("one-shot"), None), unknown.clone()),
        (
            vec![
                descriptor(3, Some("one-shot"), None),
                descriptor(3, Some("one-shot"), None),
            ],
            unknown,
        ),
    ] {
        let children = [child("c", 5, descriptors)];
        assert_eq!(
            added(&children, &[turn(0, 100, 1)]),
            [expected],
            "{children:?}"
        );
    }
}

#[test]
fn missing_facts_are_the_last_events_in_the_order_of_creation_then_id() {
    let children = [("b", 9), ("z", 2), ("a", 9), ("B", 9)].map(|(id, at)| child(id, at, vec![]));
    let expected = [("z", 2), ("B", 9), ("a", 9), ("b", 9)].map(|(id, at)| unknown_fact(id, at));
    assert_eq!(
        added(&children, &[turn(0, 100, 1), queued(1, 101)]),
        expected
    );
    assert_eq!(added(&children, &[]), expected, "dated by the header");
    assert_eq!(added(&[], &[]), [""; 0]);
}

#[test]
fn what_the_log_names_is_not_added_again() {
    let children = [child("a", 5, vec![]), child("b", 6, vec![])];
    assert_eq!(
        added(&children, &[known(0, "a", "5")]),
        [unknown_fact("b", 6)]
    );
    let twice = [child("b", 6, vec![]), child("b", 6, vec![])];
    assert_eq!(added(&twice, &[]), [unknown_fact("b", 6)]);
}

#[test]
fn what_a_parent_had_does_not_count() {
    let marker = |seq: u64, data: &str| at(seq, 100 + seq, "session/end-seed", data);
    let inherited = r#"{"inherited":true}"#;
    let children = [child("a", 5, vec![]), child("b", 6, vec![])];
    let rows = [known(0, "a", "8"), marker(1, inherited), known(2, "b", "6")];
    assert_eq!(added(&children, &rows), [unknown_fact("a", 5)]);
    // A marker of a mere restart ends nothing.
    let resumed = [known(0, "a", "5"), marker(1, "{}"), known(2, "b", "6")];
    assert_eq!(added(&children, &resumed), [""; 0]);
    // The last one is the one that counts.
    let nested = [
        marker(0, inherited),
        known(1, "a", "8"),
        marker(2, inherited),
    ];
    assert_eq!(
        added(&children, &nested),
        [unknown_fact("a", 5), unknown_fact("b", 6)]
    );
}

#[test]
fn evidence_that_contradicts_is_refused() {
    let refused = |children: &[ChildEvidence], rows: &[String]| {
        let refused = upper_with(children, rows).unwrap_err();
        match refused {
            FormatError::UnsupportedMigration {
                version: 3,
                place: None,
                reason,
            } => reason,
            other => panic!("{other:#?}"),
        }
    };
    assert_eq!(
        refused(&[child("a", 5, vec![])], &[known(0, "a", "6")]),
        "the child session `a` was created at 5, but the log says 6"
    );
    let twins = "the child session `a` is described in two ways that contradict each other";
    let one = child("a", 5, vec![descriptor(3, Some("one-shot"), None)]);
    for other in [
        child("a", 6, one.descriptors.clone()),
        child("a", 5, vec![]),
        child("a", 5, vec![descriptor(3, Some("continuable"), None)]),
    ] {
        assert_eq!(refused(&[one.clone(), other], &[]), twins);
    }
}

#[test]
fn a_fact_without_a_child_is_damage() {
    assert_eq!(
        damaged(row("subagent/catalog", r#"{"childId":7}"#)),
        "`subagent/catalog`: `childId` must be a string"
    );
}

#[test]
fn current_rows_hold_the_facts() {
    let children = [
        child("a", 5, vec![]),
        child("b", 6, vec![descriptor(1, None, Some("l"))]),
    ];
    let text = file(3, &[turn(0, 100, 1)]);
    let stored = crate::decode_with(Container::Raw, text.as_bytes(), &children).unwrap();
    assert_eq!(stored.log.end(), LogOffset::new(3));
    let again = written(&stored);
    assert_eq!(written(&load(&again).unwrap()), again);
}
