//! Which sessions a list shows.

use offshoot_format::Container;
use offshoot_session::{Origin, SessionHeader};
use offshoot_store::{Persistence as _, Query, Status, Within};

use crate::listing::{ids, put_at};
use crate::support::{Home, events, file_bytes, header};

#[test]
fn filters_choose_by_place_parent_text_and_status() {
    let home = Home::new();
    let store = home.store(Container::Raw);
    let put = |header: &SessionHeader, len: usize| {
        let project = match header.cwd.as_deref() {
            None => "_no-cwd".to_owned(),
            Some(cwd) => format!("-{}--", cwd.replace('/', "-")),
        };
        let bytes = file_bytes(Container::Raw, header, &[&events(len)]);
        home.put(format!("{project}/{}/session.v4.jsonl", header.id), bytes);
    };
    let at = |id: &str, cwd: &str| SessionHeader {
        cwd: Some(cwd.to_owned()),
        ..header(id)
    };
    put(&at("top", "/srv"), 16);
    put(&at("demo", "/srv/demo"), 16);
    put(&at("twin", "/srv/demo2"), 9);
    put(
        &SessionHeader {
            parent: Some("demo".into()),
            ..at("Kid", "/srv/demo/sub")
        },
        16,
    );
    put(
        &SessionHeader {
            cwd: None,
            ..header("nowhere")
        },
        0,
    );
    let chosen = |query: Query| {
        let filled = store.list_filled(&query, u64::MAX).unwrap();
        let mut ids: Vec<String> = ids(&filled.page).into_iter().map(str::to_owned).collect();
        assert_eq!(filled.page.matching, ids.len());
        ids.sort();
        ids
    };
    let cwd = |cwd| Query {
        cwd: Some(cwd),
        ..Query::default()
    };
    assert_eq!(chosen(cwd(Within::Exactly("/srv/demo/".into()))), ["demo"]);
    assert_eq!(
        chosen(cwd(Within::Below("/srv/demo".into()))),
        ["Kid", "demo"]
    );
    assert_eq!(
        chosen(cwd(Within::Below("/".into()))),
        ["Kid", "demo", "top", "twin"]
    );
    let text = |text: &str| Query {
        text: Some(text.into()),
        ..Query::default()
    };
    assert_eq!(chosen(text("KID")), ["Kid"]);
    assert_eq!(chosen(text("/SUB")), ["Kid"]);
    assert_eq!(chosen(text("no such text")), [""; 0]);
    let parent = Query {
        parent: Some("demo".into()),
        ..Query::default()
    };
    assert_eq!(chosen(parent), ["Kid"]);
    let status = |statuses: &[Status]| Query {
        statuses: statuses.to_vec(),
        ..Query::default()
    };
    assert_eq!(chosen(status(&[Status::Open])), ["twin"]);
    assert_eq!(
        chosen(status(&[Status::Open, Status::Ok])),
        ["Kid", "demo", "nowhere", "top", "twin"]
    );
    let unread = store.list(&status(&[Status::Unknown])).unwrap();
    assert_eq!(unread.matching, 5, "a list alone reads no body");
}

#[test]
fn subagents_can_be_left_out_and_what_cannot_be_read_is_none() {
    let home = Home::new();
    put_at(&home, &[("main", 10), ("damaged", 5)]);
    let child = SessionHeader {
        parent: Some("main".into()),
        origin: Some(Origin::Subagent),
        delegation_depth: 1,
        ..header("child")
    };
    let bytes = file_bytes(Container::Raw, &child, &[&events(16)]);
    home.put_log("child", Container::Raw, bytes);
    home.put_log("damaged", Container::Raw, "no header\n");
    let store = home.store(Container::Raw);
    let listed = |without_subagents| {
        let query = Query {
            without_subagents,
            ..Query::default()
        };
        let page = store.list(&query).unwrap();
        let mut ids: Vec<String> = ids(&page).into_iter().map(str::to_owned).collect();
        assert_eq!(page.matching, ids.len());
        ids.sort();
        ids
    };
    assert_eq!(listed(true), ["damaged", "main"]);
    assert_eq!(listed(false), ["child", "damaged", "main"]);
}
