//! What the children of an older session prove about it: the catalog that V4 wants complete
//! (`reference/persistence.md` §2.6).

use offshoot_format::Container;
use offshoot_store::{JsonlStore, Locking, Persistence as _, convert};

use crate::older::{V0, V3, put};
use crate::support::{BOTH, Home, NOW, PROJECT, texts};

/// A child session of `demo` as a file of version 3.
fn child(id: &str, created: u64, origin: &str, rows: &str) -> String {
    format!(
        "{{\"type\":\"session\",\"version\":3,\"id\":\"{id}\",\"createdAt\":{created},\"cwd\":\"/work/demo\",\"parentSession\":\"demo\",\"isSeeded\":false{origin},\"delegationDepth\":1}}\n{rows}"
    )
}

const SUBAGENT: &str = r#","origin":"subagent""#;

fn descriptor(seq: u64, data: &str) -> String {
    format!("{{\"type\":\"subagent/descriptor\",\"seq\":{seq},\"time\":1,\"data\":{data}}}\n")
}

/// The catalog events that the session `demo` has, as `read` and then `open` tell them; both say the same.
fn catalog(home: &Home, container: Container) -> Vec<String> {
    let store = JsonlStore::new(home.root(), container);
    let facts = |rows: Vec<String>| -> Vec<String> {
        let rows = rows.into_iter();
        rows.filter(|row| row.contains(r#""type":"subagent/catalog""#))
            .collect()
    };
    let read = store.read(&"demo".into()).unwrap();
    let read = facts(texts(read.stored.log.events()));
    let opened = store.open(&"demo".into(), NOW).unwrap();
    assert_eq!(facts(texts(opened.session.log().events())), read);
    drop(opened);
    let again = store.read(&"demo".into()).unwrap();
    assert_eq!(again.stored.version, 4);
    assert_eq!(facts(texts(again.stored.log.events())), read);
    read
}

fn fact(seq: u64, time: u64, data: &str) -> String {
    format!(r#"{{"type":"subagent/catalog","seq":{seq},"time":{time},"data":{data}}}"#)
}

#[test]
fn a_childs_own_descriptor_completes_the_catalog_of_its_parent() {
    let digger = r#"{"version":3,"mode":"one-shot","label":"the digger"}"#;
    for container in BOTH {
        let home = Home::new();
        put(&home, "demo", 3, container, V3);
        let text = child("kid", 95, SUBAGENT, &descriptor(0, digger));
        put(&home, "kid", 3, container, &text);
        assert_eq!(
            catalog(&home, container),
            [fact(
                7,
                113,
                r#"{"version":0,"childId":"kid","childCreatedAt":95,"mode":"one-shot","label":"the digger"}"#
            )]
        );
    }
}

#[test]
fn a_forked_session_is_no_child_and_one_that_cannot_be_read_proves_nothing() {
    let home = Home::new();
    put(&home, "demo", 3, Container::Raw, V3);
    put(
        &home,
        "forked",
        3,
        Container::Raw,
        &child("forked", 95, "", ""),
    );
    home.put(format!("{PROJECT}/broken/session.v3.jsonl"), "{\n");
    home.put(format!("{PROJECT}/newer/session.v5.jsonl"), "{\n");
    let misnamed = child("misnamed", 96, SUBAGENT, "");
    home.put(format!("{PROJECT}/misnamed/session.v2.jsonl"), &misnamed);
    // Somebody's copy, with another date.
    let copy = child("kid", 97, SUBAGENT, "");
    home.put(format!("{PROJECT}/kid.bak/session.v3.jsonl"), &copy);
    home.put("--elsewhere--/kid/session.v3.jsonl", &copy);
    assert_eq!(catalog(&home, Container::Raw), [""; 0]);

    let home = Home::new();
    put(&home, "demo", 3, Container::Raw, V3);
    home.put(format!("{PROJECT}/kid.bak/session.v3.jsonl"), &copy);
    put(
        &home,
        "kid",
        3,
        Container::Raw,
        &child("kid", 95, SUBAGENT, ""),
    );
    assert_eq!(
        catalog(&home, Container::Raw),
        [fact(
            7,
            113,
            r#"{"version":1,"childId":"kid","childCreatedAt":95,"mode":"unknown"}"#
        )],
        "the copy is no evidence against the child"
    );
}

#[test]
fn the_children_come_in_the_order_of_their_age_and_each_says_what_it_can() {
    let home = Home::new();
    put(&home, "demo", 3, Container::Raw, V3);
    let one =
        |version: u64, rest: &str| descriptor(0, &format!(r#"{{"version":{version}{rest}}}"#));
    let two = descriptor(0, r#"{"version":3,"mode":"one-shot"}"#)
        + &descriptor(1, r#"{"version":3,"mode":"one-shot"}"#);
    let damaged = one(3, r#","mode":"continuable""#) + "no row\n" + &row_behind(2);
    for (id, created, rows) in [
        ("first", 99, one(1, r#","label":"b""#)),
        ("second", 98, one(2, r#","mode":"continuable""#)),
        ("twice", 97, two),
        ("silent", 97, String::new()),
        ("damaged", 96, damaged),
    ] {
        put(
            &home,
            id,
            3,
            Container::Raw,
            &child(id, created, SUBAGENT, &rows),
        );
    }
    let data = [
        r#"{"version":0,"childId":"damaged","childCreatedAt":96,"mode":"continuable"}"#,
        r#"{"version":1,"childId":"silent","childCreatedAt":97,"mode":"unknown"}"#,
        r#"{"version":1,"childId":"twice","childCreatedAt":97,"mode":"unknown"}"#,
        r#"{"version":0,"childId":"second","childCreatedAt":98,"mode":"continuable"}"#,
        r#"{"version":0,"childId":"first","childCreatedAt":99,"mode":"continuable","label":"b"}"#,
    ];
    let expected: Vec<String> = (7..)
        .zip(data)
        .map(|(seq, data)| fact(seq, 113, data))
        .collect();
    assert_eq!(catalog(&home, Container::Raw), expected);
}

/// A turn's end, which shows that everything ahead of it was committed.
fn row_behind(seq: u64) -> String {
    format!(
        "{{\"type\":\"turn/end\",\"seq\":{seq},\"time\":2,\"data\":{{\"turn\":1,\"reason\":{{\"kind\":\"completed\"}}}}}}\n"
    )
}

#[test]
fn children_of_a_v0_session_are_found_whatever_their_version_and_a_current_session_is_not_completed()
 {
    let home = Home::new();
    put(&home, "demo", 0, Container::Raw, V0);
    let kid = child("kid", 95, SUBAGENT, "").replace(r#""version":3"#, r#""version":4"#);
    put(&home, "kid", 4, Container::Raw, &kid);
    let found = catalog(&home, Container::Raw);
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(found[0].ends_with(
        r#""time":200,"data":{"version":1,"childId":"kid","childCreatedAt":95,"mode":"unknown"}}"#
    ));
    // It is current now.
    put(
        &home,
        "late",
        3,
        Container::Raw,
        &child("late", 99, SUBAGENT, ""),
    );
    assert_eq!(catalog(&home, Container::Raw), found);
}

#[test]
fn what_the_log_says_already_is_not_said_twice_and_must_not_be_contradicted() {
    let said = r#"{"type":"subagent/catalog","seq":7,"time":114,"data":{"version":0,"childId":"kid","childCreatedAt":95,"mode":"one-shot"}}"#;
    let parent = format!("{V3}{said}\n");
    let home = Home::new();
    put(&home, "demo", 3, Container::Raw, &parent);
    put(
        &home,
        "kid",
        3,
        Container::Raw,
        &child("kid", 95, SUBAGENT, ""),
    );
    assert_eq!(catalog(&home, Container::Raw), [said]);

    let home = Home::new();
    put(&home, "demo", 3, Container::Raw, &parent);
    put(
        &home,
        "kid",
        3,
        Container::Raw,
        &child("kid", 96, SUBAGENT, ""),
    );
    let before = home.tree();
    let store = home.store(Container::Raw);
    for error in [
        store.read(&"demo".into()).unwrap_err(),
        store.open(&"demo".into(), NOW).unwrap_err(),
    ] {
        assert_eq!(error.code(), "UNSUPPORTED_MIGRATION");
        assert!(
            error
                .to_string()
                .ends_with("the child session `kid` was created at 96, but the log says 95"),
            "{error}"
        );
    }
    assert_eq!(home.tree(), before);
}

#[test]
fn a_conversion_of_a_session_in_a_home_says_of_its_children_what_opening_it_would() {
    let home = Home::new();
    put(&home, "demo", 3, Container::Raw, V3);
    let digger = r#"{"version":3,"mode":"one-shot","label":"the digger"}"#;
    let text = child("kid", 95, SUBAGENT, &descriptor(0, digger));
    put(&home, "kid", 3, Container::Raw, &text);
    convert(
        &home.dir("demo").join("session.v3.jsonl"),
        None,
        Locking::Flock,
    )
    .unwrap();
    assert_eq!(
        catalog(&home, Container::Raw),
        [fact(
            7,
            113,
            r#"{"version":0,"childId":"kid","childCreatedAt":95,"mode":"one-shot","label":"the digger"}"#
        )]
    );
}
