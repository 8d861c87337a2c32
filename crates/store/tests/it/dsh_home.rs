//! A home that DSH made and goes on using: it is read as it is, and no byte of it changes.

use std::fmt::Write as _;
use std::fs;
use std::time::SystemTime;

use offshoot_format::Container;
use offshoot_session::build_fork_seed;
use offshoot_store::{JsonlStore, Persistence as _};

use crate::support::{Home, TWO_CALLS, all, event, events, file_bytes, header, texts};

const COMPLETED: &str = r#"{"type":"session","version":4,"id":"session-4f1c","createdAt":50,"cwd":"/work/demo","isSeeded":false,"delegationDepth":0}"#;
const CRASHED: &str = r#"{"type":"session","version":4,"id":"session-9a20","createdAt":60,"isSeeded":false,"delegationDepth":0,"agentPreset":"careful"}"#;
const CHILD: &str = r#"{"type":"session","version":4,"id":"session/child 1","createdAt":70,"cwd":"/work/demo","parentSession":"session-4f1c","isSeeded":true,"delegationDepth":0}"#;
const SUBAGENT: &str = r#"{"type":"session","version":4,"id":"session-sub","createdAt":80,"cwd":"C:\\Users\\me","parentSession":"session-4f1c","isSeeded":false,"origin":"subagent","delegationDepth":1}"#;
const OLD: &str = r#"{"type":"session","version":0,"id":"demo-a","createdAt":1000,"cwd":"/work/demo","delegationDepth":0}"#;

fn packed(header: &str, rows: usize) -> Vec<u8> {
    // The header line as DSH wrote it, in a frame of its own.
    let header = offshoot_format::StoredHeader::read(header)
        .unwrap()
        .into_header();
    let mut bytes = Container::Zstd.header(&header).unwrap();
    for event in events(rows) {
        bytes.extend(Container::Zstd.batch([&*event]));
    }
    bytes
}

fn put_everything(home: &Home) {
    let lines = |header: &str, rows: &str| format!("{header}\n{rows}");
    home.put(
        "--work-demo--/session-4f1c/session.v4.jsonl.zstd",
        packed(COMPLETED, 16),
    );
    home.put("--work-demo--/session-4f1c/session.lock", "");
    home.put(
        "--work-demo--/session-4f1c/session.v3.jsonl.zstd",
        "history",
    );
    home.put("--work-demo--/session-4f1c/session.jsonl", lines(OLD, ""));
    let mut crashed: String = TWO_CALLS
        .lines()
        .take(8)
        .fold(String::new(), |mut text, row| {
            writeln!(text, "{row}").unwrap();
            text
        });
    crashed.push_str(r#"{"type":"tool/call","seq":8,"ti"#);
    home.put(
        "_no-cwd/session-9a20/session.v4.jsonl",
        lines(CRASHED, &crashed),
    );
    let mut child = Container::Zstd
        .header(
            &offshoot_format::StoredHeader::read(CHILD)
                .unwrap()
                .into_header(),
        )
        .unwrap();
    let mut seed = events(16);
    seed.push(event(
        r#"{"type":"session/end-seed","seq":16,"time":132,"data":{"inherited":true}}"#,
    ));
    child.extend(Container::Zstd.batch(seed.iter().map(|event| &**event)));
    home.put(
        "--work-demo--/session~002Fchild~00201/session.v4.jsonl.zstd",
        child,
    );
    home.put(
        "--C-Users-me--/session-sub/session.v4.jsonl",
        lines(SUBAGENT, ""),
    );
    home.put("--work-demo--/demo-a/session.jsonl", lines(OLD, ""));
    home.put(
        "--work-demo--/demo-b/session.v4.jsonl.zstd.0123456789ab.tmp",
        "left behind",
    );
    home.put("../config.toml", "model = \"acme-small\"\n");
    home.put("../skills/README.md", "not ours\n");
}

fn times(home: &Home) -> Vec<(String, SystemTime)> {
    let root = home.root().parent().unwrap().to_owned();
    let names = home.tree().into_keys();
    names
        .map(|name| {
            let time = fs::metadata(root.join(&name)).unwrap().modified().unwrap();
            (name, time)
        })
        .collect()
}

#[test]
fn listing_and_reading_a_home_of_dsh_changes_no_byte_of_it() {
    let home = Home::new();
    put_everything(&home);
    let (before, times_before) = (home.tree(), times(&home));

    let mut told = String::new();
    let store = JsonlStore::new(home.root(), Container::Zstd);
    for listed in all(&store) {
        let header = match &listed.header {
            Ok(header) => offshoot_format::encode_header(header)
                .unwrap()
                .trim_end()
                .to_owned(),
            Err(error) => format!("{}: {error}", error.code()),
        };
        let read = match store.read(&listed.id) {
            Ok(read) => format!(
                "{} events, {} inherited, torn: {:?}",
                read.stored.log.end(),
                read.stored.inherited,
                read.stored.tail.map(|tail| tail.bytes)
            ),
            Err(error) => format!("{}: {error}", error.code()),
        };
        let path = listed.path.display();
        write!(
            told,
            "{}\n  {}\n  {header}\n  {read}\n",
            listed.id,
            home.shorten(&path.to_string())
        )
        .unwrap();
    }
    insta::assert_snapshot!(home.shorten(&told));
    assert_eq!(home.tree(), before);
    assert_eq!(times(&home), times_before);
}

#[test]
fn a_new_log_is_packed_like_those_that_are_there() {
    for packing in [Container::Raw, Container::Zstd] {
        let home = Home::new();
        let put = |container| {
            home.put_log(
                "old",
                container,
                file_bytes(container, &header("old"), &[&events(2)]),
            )
        };
        put(packing);
        for wished in [Container::Raw, Container::Zstd] {
            let id = format!("new-{wished:?}");
            let mut writer = home.store(wished).create(&header(&id)).unwrap();
            writer.flush().unwrap();
            assert!(
                home.log(&id, packing).exists(),
                "{wished:?} beside {packing:?}"
            );
        }
    }
}

#[test]
fn forking_every_session_of_a_home_of_dsh_adds_files_that_it_reads_and_changes_none() {
    let home = Home::new();
    put_everything(&home);
    let before = home.tree();
    let store = JsonlStore::new(home.root(), Container::Zstd);
    let mut forks = 0;
    for listed in all(&store) {
        let Ok(read) = store.read(&listed.id) else {
            continue;
        };
        let Some(last) = read.stored.log.end().last() else {
            continue;
        };
        forks += 1;
        let seed = build_fork_seed(&read.stored.log, last).unwrap();
        let id = format!("fork-{forks}").as_str().into();
        let header = read.stored.header.forked(id, 2);
        drop(store.fork(&header, &seed, &read.shareable).unwrap());
        let forked = store.read(&header.id).unwrap();
        assert_eq!(
            texts(forked.stored.log.events()),
            texts(seed.log().events())
        );
        let name = forked.path.file_name().unwrap().to_owned();
        assert_eq!(name, "session.v4.jsonl.zstd", "other tools know no other");
    }
    assert_eq!(forks, 3);
    let after = home.tree();
    let changed = before
        .iter()
        .filter(|(name, bytes)| after.get(*name) != Some(bytes));
    assert_eq!(changed.map(|(name, _)| name).collect::<Vec<_>>(), [""; 0]);
    let added = after.keys().filter(|name| !before.contains_key(*name));
    assert!(added.into_iter().all(|name| name.contains("/fork-")));
}
