//! A session as one file: whatever it is made of, it holds what the session holds.

use std::fs;

use offshoot_format::{Container, decode_as};
use offshoot_session::{Seq, build_fork_seed};
use offshoot_store::{BlobId, Persistence as _, export_file};

use crate::support::{BOTH, Home, NOW, PROJECT, event, events, file_bytes, header, texts, write};

#[test]
fn a_linked_fork_is_exported_with_all_it_inherited() {
    let home = Home::ours();
    let all = events(16);
    let source = file_bytes(
        Container::Zstd,
        &header("demo"),
        &[&all[..4], &all[4..9], &all[9..]],
    );
    home.put_log("demo", Container::Zstd, &source);
    let store = home.store(Container::Zstd);
    let read = store.read(&"demo".into()).unwrap();
    let seed = build_fork_seed(&read.stored.log, Seq::new(10)).unwrap();
    let child = header("demo").forked("child".into(), 2);
    drop(store.fork(&child, &seed, &read.shareable).unwrap());
    let tree = home.tree();

    let branch = home.dir("child").join("branch.o1.jsonl.zstd");
    for (name, container) in [
        ("out/a.jsonl", Container::Raw),
        ("out/a.jsonl.zstd", Container::Zstd),
    ] {
        let to = home.root().parent().unwrap().join(name);
        let exported = store.export(&"child".into(), &to, NOW).unwrap();
        let bytes = fs::read(&to).unwrap();
        assert_eq!(
            (exported.bytes, exported.events),
            (bytes.len() as u64, seed.log().end())
        );
        let stored = decode_as(container, &bytes).unwrap();
        assert_eq!(stored.header, child);
        assert_eq!(texts(stored.log.events()), texts(seed.log().events()));
        let again = store.export(&"child".into(), &to, NOW).unwrap_err();
        assert_eq!(again.code(), "FILE_EXISTS");
        assert_eq!(fs::read(&to).unwrap(), bytes);
        // The file of the branch is one like any other.
        let other = to.with_file_name(format!(
            "other-{}",
            to.file_name().unwrap().to_string_lossy()
        ));
        export_file(&branch, &other).unwrap();
        assert_eq!(fs::read(&other).unwrap(), bytes);
    }
    let packed = fs::read(home.root().parent().unwrap().join("out/a.jsonl.zstd")).unwrap();
    let header_len = Container::Zstd.header(&header("demo")).unwrap().len();
    let frames = &source
        [header_len..file_bytes(Container::Zstd, &header("demo"), &[&all[..4], &all[4..9]]).len()];
    let found = packed.windows(frames.len()).any(|window| window == frames);
    assert!(found, "whole frames are copied as they are");

    fs::remove_dir_all(home.root().parent().unwrap().join("out")).unwrap();
    assert_eq!(home.tree(), tree);
}

#[test]
fn what_a_crash_left_is_told_and_left_out() {
    for container in BOTH {
        let home = Home::ours();
        let whole = file_bytes(container, &header("demo"), &[&events(4), &events(9)[4..]]);
        home.put_log("demo", container, &whole[..whole.len() - 3]);
        let store = home.store(container);
        let to = home.root().parent().unwrap().join("out.jsonl.zstd");
        let exported = store.export(&"demo".into(), &to, NOW).unwrap();
        let read = store.read(&"demo".into()).unwrap().stored;
        assert_eq!(exported.torn_bytes, read.tail.unwrap().bytes);
        let stored = decode_as(Container::Zstd, &fs::read(&to).unwrap()).unwrap();
        assert_eq!(
            (texts(stored.log.events()), stored.tail),
            (texts(read.log.events()), None)
        );
    }
}

#[test]
fn an_older_session_is_exported_in_the_current_format_and_a_damaged_one_not_at_all() {
    let home = Home::ours();
    let path = home.put(format!("{PROJECT}/demo/session.jsonl"), crate::older::V0);
    let store = home.store(Container::Zstd);
    let to = home.root().parent().unwrap().join("out.jsonl");
    store.export(&"demo".into(), &to, NOW).unwrap();
    let stored = decode_as(Container::Raw, &fs::read(&to).unwrap()).unwrap();
    assert_eq!(stored.version, 4);
    let read = store.read(&"demo".into()).unwrap().stored;
    assert_eq!(texts(stored.log.events()), texts(read.log.events()));
    // An export is a session file: it opens where it belongs.
    let other = Home::ours();
    other.put_log("demo", Container::Raw, fs::read(&to).unwrap());
    drop(
        other
            .store(Container::Raw)
            .open(&"demo".into(), NOW)
            .unwrap(),
    );

    write(&path, "no header\n");
    let failed = home.root().parent().unwrap().join("failed.jsonl");
    assert_eq!(
        export_file(&path, &failed).unwrap_err().code(),
        "MALFORMED_HEADER"
    );
    assert!(!failed.exists());
}

#[test]
fn the_blobs_that_a_session_names_go_beside_its_file_and_missing_ones_are_told() {
    let home = Home::ours();
    let store = home.store(Container::Zstd);
    let kept = store.blobs().put(b"a picture", NOW).unwrap();
    store.blobs().put(b"of somebody else", NOW).unwrap();
    let gone = BlobId::of(b"never stored");
    let image = |id: &BlobId| {
        format!(
            r#"{{"type":"image","attachment":{{"attachmentId":"{id}","mediaType":"image/png","bytes":9,"width":1,"height":1}}}}"#
        )
    };
    let message = format!(
        r#"{{"type":"user/message","seq":0,"time":1,"data":{{"id":"m","role":"user","content":[{},{}],"source":{{"kind":"user"}}}},"surfaceOp":"append"}}"#,
        image(&kept),
        image(&gone)
    );
    let mut writer = store.create(&header("demo")).unwrap();
    writer.append(&[event(&message)]).unwrap();
    drop(writer);

    let to = home.root().parent().unwrap().join("out/demo.jsonl");
    let exported = store.export(&"demo".into(), &to, NOW).unwrap();
    let beside = to.with_file_name("demo.jsonl.blobs");
    assert_eq!(exported.blobs.as_ref(), Some(&beside));
    assert_eq!(exported.missing, [gone]);
    let names: Vec<_> = fs::read_dir(&beside)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    assert_eq!([format!("sha256:{}", names[0])], [kept.to_string()]);
    assert_eq!(fs::read(beside.join(&names[0])).unwrap(), b"a picture");
    assert_eq!(
        store.export(&"demo".into(), &to, NOW).unwrap_err().code(),
        "FILE_EXISTS"
    );
    // Of a file that lies anywhere nobody knows where its blobs are.
    let again = export_file(&to, &to.with_file_name("again.jsonl")).unwrap();
    let mut missing = [kept, gone];
    missing.sort();
    assert_eq!((again.blobs, again.missing), (None, missing.to_vec()));
}
