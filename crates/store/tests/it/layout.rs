//! Where sessions are looked for, and that one that is in a bad place or shape never hides another.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};

use offshoot_format::Container;
use offshoot_session::{SessionHeader, SessionId};
use offshoot_store::{JsonlStore, Persistence as _, Query};

use crate::support::{BOTH, Home, NOW, all, events, file_bytes, file_name, header, write};

/// What `list` says: id, path and either `ok` or the code and the text of the problem.
fn listed(home: &Home) -> Vec<String> {
    let list = all(&home.store(Container::Zstd));
    let line = |listed: offshoot_store::Listed| {
        let state = match &listed.header {
            Ok(_) => "ok".to_owned(),
            Err(error) => format!("{}: {error}", error.code()),
        };
        home.shorten(&format!("{} {} {state}", listed.id, listed.path.display()))
    };
    list.into_iter().map(line).collect()
}

fn put_good(home: &Home, id: &str) {
    let bytes = file_bytes(Container::Zstd, &header(id), &[&events(16)]);
    home.put_log(id, Container::Zstd, bytes);
}

const GOOD: &str = "good <root>/--work-demo--/good/session.v4.jsonl.zstd ok";

fn error_of<T: std::fmt::Debug>(
    home: &Home,
    result: Result<T, offshoot_store::StoreError>,
) -> String {
    let error = result.unwrap_err();
    home.shorten(&format!("{}: {error}", error.code()))
}

#[test]
fn a_root_that_does_not_exist_is_empty_and_stays_that_way() {
    let home = Home::new();
    let before = home.tree();
    let store = home.store(Container::Zstd);
    assert_eq!(listed(&home), [""; 0]);
    assert_eq!(
        error_of(&home, store.read(&"demo".into())),
        "SESSION_NOT_FOUND: session `demo` was not found in `<root>`"
    );
    assert_eq!(
        error_of(&home, store.open(&"demo".into(), NOW)),
        "SESSION_NOT_FOUND: session `demo` was not found in `<root>`"
    );
    assert_eq!(home.tree(), before);
}

#[test]
fn a_root_that_is_a_file_is_an_error_that_names_it() {
    let home = Home::new();
    write(&home.root(), "no directory");
    let before = home.tree();
    let store = home.store(Container::Zstd);
    let expected = "IO_ERROR: could not list `<root>`: Not a directory (os error 20)";
    assert_eq!(error_of(&home, store.list(&Query::default())), expected);
    assert_eq!(error_of(&home, store.read(&"demo".into())), expected);
    assert_eq!(error_of(&home, store.create(&header("demo"))), expected);
    assert_eq!(home.tree(), before);
}

#[test]
fn ids_with_separators_are_encoded_and_stay_in_the_root() {
    for id in [
        "../../etc/passwd",
        "/etc/passwd",
        "..",
        ".",
        r"..\..\x",
        "a\0b",
    ] {
        let home = Home::new();
        let store = home.store(Container::Zstd);
        let mut writer = store.create(&header(id)).unwrap();
        writer.append(&events(2)).unwrap();
        drop(writer);
        let path = store.open(&id.into(), NOW).map(drop).and_then(|()| {
            let path = store.locate(&id.into())?;
            assert_eq!(
                path.components().count(),
                home.root().components().count() + 3
            );
            Ok(path)
        });
        assert!(path.unwrap().starts_with(home.root()), "{id}");
        let ids: Vec<_> = all(&store).into_iter().map(|one| one.id).collect();
        assert_eq!(ids, [SessionId::from(id)]);
        let tops: Vec<_> = fs::read_dir(home.root().parent().unwrap())
            .unwrap()
            .collect();
        assert_eq!(tops.len(), 1);
    }
}

#[test]
fn names_that_no_directory_can_have_are_refused_by_name() {
    let home = Home::new();
    let store = home.store(Container::Zstd);
    let fits = "x".repeat(255);
    assert_eq!(
        store.read(&fits.as_str().into()).unwrap_err().code(),
        "SESSION_NOT_FOUND"
    );
    // 52 characters that take five bytes each.
    let encoded = "ä".repeat(52);
    let too_long = format!("{fits}x");
    for id in [&encoded, &too_long] {
        let text = format!(
            "INVALID_NAME: the session id \"{id}\" cannot name a session directory: its name would be longer than 255 bytes"
        );
        let id = SessionId::from(id.as_str());
        assert_eq!(error_of(&home, store.read(&id)), text);
        assert_eq!(error_of(&home, store.open(&id, NOW)), text);
        assert_eq!(error_of(&home, store.create(&header(id.as_str()))), text);
    }
    assert_eq!(
        error_of(&home, store.read(&"".into())),
        "INVALID_NAME: the session id \"\" cannot name a session directory: it is empty"
    );
}

#[test]
fn a_project_directory_name_is_cut_to_what_a_directory_can_have() {
    let home = Home::new();
    let store = home.store(Container::Zstd);
    let header = SessionHeader {
        cwd: Some(format!("/{}", "d".repeat(900))),
        ..header("demo")
    };
    let mut writer = store.create(&header).unwrap();
    writer.append(&events(2)).unwrap();
    drop(writer);
    let project = format!("--{}--", "d".repeat(251));
    assert!(home.root().join(&project).is_dir());
    assert_eq!(store.read(&"demo".into()).unwrap().stored.header, header);
}

#[test]
fn directories_and_files_are_for_their_owner_alone() {
    for container in BOTH {
        let home = Home::new();
        let mut writer = home.store(container).create(&header("demo")).unwrap();
        writer.append(&events(2)).unwrap();
        let mode =
            |path: &std::path::Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        let dir = home.dir("demo");
        for dir in [&home.root(), &home.root().join("--work-demo--"), &dir] {
            assert_eq!(mode(dir), 0o700, "{}", dir.display());
        }
        for file in ["session.lock", file_name(container)] {
            assert_eq!(mode(&dir.join(file)), 0o600, "{file}");
        }
    }
}

#[test]
fn the_highest_generation_is_the_session() {
    let home = Home::new();
    put_good(&home, "good");
    home.put(
        "--work-demo--/good/session.jsonl",
        r#"{"type":"session","version":0,"id":"good"}"#,
    );
    home.put("--work-demo--/good/session.v3.jsonl", "whatever");
    assert_eq!(listed(&home), [GOOD]);
    let opened = home.store(Container::Raw).open(&"good".into(), NOW);
    assert!(opened.is_ok());
}

#[test]
fn a_newer_generation_wins_is_named_as_newer_and_hides_no_other_session() {
    let newer = "UNSUPPORTED_VERSION: `<root>/--work-demo--/new/session.v9.jsonl.zstd`: the file has format version 9; \
                 this program reads versions 0 to 4: it was written by a newer one";
    // Nothing is known about what a newer version holds, not even that it begins with a header like ours.
    let contents: [&[u8]; 3] = [
        b"",
        b"something new",
        &Container::Zstd.batch([&*events(1)[0]]),
    ];
    for content in contents {
        let home = Home::new();
        put_good(&home, "good");
        put_good(&home, "new");
        home.put("--work-demo--/new/session.v9.jsonl.zstd", content);
        let before = home.tree();
        let store = home.store(Container::Zstd);
        let id = "new".into();
        assert_eq!(
            listed(&home),
            [
                GOOD.to_owned(),
                format!("new <root>/--work-demo--/new/session.v9.jsonl.zstd {newer}")
            ]
        );
        assert_eq!(error_of(&home, store.read(&id)), newer);
        assert_eq!(error_of(&home, store.open(&id, NOW)), newer);
        assert_eq!(
            store.create(&header("new")).unwrap_err().code(),
            "SESSION_ALREADY_EXISTS"
        );
        assert_eq!(home.tree(), before);
    }
}

#[test]
fn a_file_name_and_a_header_that_disagree_about_the_version_are_an_error() {
    let home = Home::new();
    put_good(&home, "good");
    let bytes = file_bytes(Container::Raw, &header("odd"), &[]);
    home.put("--work-demo--/odd/session.v3.jsonl", bytes);
    let text = "INCONSISTENT_LOG: `<root>/--work-demo--/odd/session.v3.jsonl`: \
                the file name says version 3, the header says 4";
    assert_eq!(
        listed(&home),
        [
            GOOD.to_owned(),
            format!("odd <root>/--work-demo--/odd/session.v3.jsonl {text}")
        ]
    );
    let store = home.store(Container::Raw);
    assert_eq!(error_of(&home, store.read(&"odd".into())), text);
}

#[test]
fn one_session_raw_and_packed_in_one_directory_is_ambiguous() {
    let home = Home::new();
    put_good(&home, "good");
    for container in BOTH {
        home.put_log(
            "twice",
            container,
            file_bytes(container, &header("twice"), &[]),
        );
    }
    let text = "SESSION_AMBIGUOUS: session `twice` is stored more than once: \
                `<root>/--work-demo--/twice/session.v4.jsonl`, `<root>/--work-demo--/twice/session.v4.jsonl.zstd`";
    assert_eq!(
        listed(&home),
        [
            GOOD.to_owned(),
            format!("twice <root>/--work-demo--/twice/session.v4.jsonl {text}")
        ]
    );
    let before = home.tree();
    let store = home.store(Container::Raw);
    assert_eq!(error_of(&home, store.read(&"twice".into())), text);
    assert_eq!(error_of(&home, store.open(&"twice".into(), NOW)), text);
    assert_eq!(home.tree(), before);
}

#[test]
fn one_id_in_two_projects_is_ambiguous_in_both() {
    let home = Home::new();
    put_good(&home, "good");
    put_good(&home, "twice");
    let other = SessionHeader {
        cwd: None,
        ..header("twice")
    };
    home.put(
        "_no-cwd/twice/session.v4.jsonl",
        file_bytes(Container::Raw, &other, &[]),
    );
    let (a, b) = (
        "<root>/--work-demo--/twice/session.v4.jsonl.zstd",
        "<root>/_no-cwd/twice/session.v4.jsonl",
    );
    let text = format!("SESSION_AMBIGUOUS: session `twice` is stored more than once: `{a}`, `{b}`");
    assert_eq!(
        listed(&home),
        [
            GOOD.to_owned(),
            format!("twice {a} {text}"),
            format!("twice {b} {text}")
        ]
    );
    let store = home.store(Container::Raw);
    assert_eq!(error_of(&home, store.read(&"twice".into())), text);
}

#[test]
fn a_file_that_belongs_elsewhere_is_not_the_session() {
    let home = Home::new();
    put_good(&home, "good");
    let bytes = file_bytes(Container::Raw, &header("good"), &[]);
    home.put("--work-demo--/copy~0020of/session.v4.jsonl", &bytes);
    home.put(
        "--other--/moved/session.v4.jsonl",
        file_bytes(Container::Raw, &header("moved"), &[]),
    );
    let copy = "SESSION_MISPLACED: `<root>/--work-demo--/copy~0020of/session.v4.jsonl` holds session `good`, \
                which belongs into `<root>/--work-demo--/good`";
    let moved = "SESSION_MISPLACED: `<root>/--other--/moved/session.v4.jsonl` holds session `moved`, \
                 which belongs into `<root>/--work-demo--/moved`";
    assert_eq!(
        listed(&home),
        [
            format!("moved <root>/--other--/moved/session.v4.jsonl {moved}"),
            format!("copy of <root>/--work-demo--/copy~0020of/session.v4.jsonl {copy}"),
            GOOD.to_owned(),
        ]
    );
    let before = home.tree();
    let store = home.store(Container::Raw);
    assert_eq!(error_of(&home, store.read(&"copy of".into())), copy);
    assert_eq!(error_of(&home, store.open(&"moved".into(), NOW)), moved);
    assert_eq!(home.tree(), before);
}

#[test]
fn logs_in_the_flat_layout_of_early_versions_are_named_and_not_ignored() {
    let home = Home::new();
    put_good(&home, "good");
    home.put("--work-demo--/old.jsonl", "{}");
    home.put("--work-demo--/older.jsonl.zstd", "{}");
    home.put("--work-demo--/notes.txt", "not a log");
    let flat = |name: &str| {
        format!(
            "OBSOLETE_LAYOUT: `<root>/--work-demo--/{name}` lies directly in a project directory, \
             as early versions kept their logs; it is not read there"
        )
    };
    assert_eq!(
        listed(&home),
        [
            GOOD.to_owned(),
            format!("old <root>/--work-demo--/old.jsonl {}", flat("old.jsonl")),
            format!(
                "older <root>/--work-demo--/older.jsonl.zstd {}",
                flat("older.jsonl.zstd")
            ),
        ]
    );
    let before = home.tree();
    let store = home.store(Container::Raw);
    assert_eq!(
        error_of(&home, store.read(&"old".into())),
        flat("old.jsonl")
    );
    assert_eq!(
        error_of(&home, store.create(&header("older"))),
        flat("older.jsonl.zstd")
    );
    assert_eq!(home.tree(), before);
}

#[test]
fn what_is_no_log_is_passed_over() {
    let home = Home::new();
    put_good(&home, "good");
    for name in [
        "--work-demo--/good/session.v4.jsonl.zstd.0123456789ab.tmp",
        "--work-demo--/good/session.migration.0123456789abcdef.jsonl.tmp",
        "--work-demo--/good/session.v04.jsonl",
        "--work-demo--/good/session.V4.jsonl",
        "--work-demo--/good/session.v99999999999999999999.jsonl",
        "--work-demo--/only-a-lock/session.lock",
        "--work-demo--/.dsh-mkdir-1/x",
        "README",
    ] {
        home.put(name, "no log");
    }
    assert_eq!(listed(&home), [GOOD]);
    let store = home.store(Container::Raw);
    assert!(store.open(&"good".into(), NOW).is_ok());
    // A crash before the file was linked into place leaves a directory and a lock: the id is free.
    let mut writer = store.create(&header("only-a-lock")).unwrap();
    writer.append(&events(2)).unwrap();
}

#[test]
fn what_is_no_file_is_named_and_hides_no_other() {
    let home = Home::new();
    put_good(&home, "good");
    home.put("--work-demo--/dir/session.v4.jsonl/x", "");
    let pipe = home.dir("pipe").join("session.v4.jsonl");
    fs::create_dir(home.dir("pipe")).unwrap();
    let made = std::process::Command::new("mkfifo").arg(&pipe).status();
    assert!(made.unwrap().success());
    fs::create_dir(home.dir("gone")).unwrap();
    symlink("nowhere", home.dir("gone").join("session.v4.jsonl")).unwrap();
    symlink("loop", home.dir("loop")).unwrap();
    symlink("loop", home.root().join("loop")).unwrap();

    let before = home.tree();
    let no_file = |id: &str, what: &str| {
        format!(
            "NOT_A_FILE: `<root>/--work-demo--/{id}/session.v4.jsonl` is {what}, not a log file"
        )
    };
    assert_eq!(
        listed(&home),
        [
            format!("dir <root>/--work-demo--/dir/session.v4.jsonl {}", no_file("dir", "a directory")),
            "gone <root>/--work-demo--/gone/session.v4.jsonl IO_ERROR: could not read \
             `<root>/--work-demo--/gone/session.v4.jsonl`: No such file or directory (os error 2)"
                .to_owned(),
            GOOD.to_owned(),
            "loop <root>/--work-demo--/loop IO_ERROR: could not list `<root>/--work-demo--/loop`: \
             Too many levels of symbolic links (os error 40)"
                .to_owned(),
            format!("pipe <root>/--work-demo--/pipe/session.v4.jsonl {}", no_file("pipe", "neither a file nor a directory")),
            "loop <root>/loop IO_ERROR: could not list `<root>/loop`: Too many levels of symbolic links (os error 40)"
                .to_owned(),
        ]
    );
    let store = home.store(Container::Zstd);
    assert_eq!(
        error_of(&home, store.read(&"dir".into())),
        no_file("dir", "a directory")
    );
    assert_eq!(
        error_of(&home, store.open(&"pipe".into(), NOW)),
        no_file("pipe", "neither a file nor a directory")
    );
    assert_eq!(home.tree(), before);
    assert!(store.open(&"good".into(), NOW).is_ok());
}

#[test]
fn a_linked_directory_is_followed_and_found_once() {
    let home = Home::new();
    put_good(&home, "good");
    let aside = home.root().parent().unwrap().join("aside");
    move_dir(&home.root().join("--work-demo--"), &aside);
    symlink(&aside, home.root().join("--work-demo--")).unwrap();
    symlink("--work-demo--", home.root().join("--alias--")).unwrap();

    let store = home.store(Container::Zstd);
    let opened = store.open(&"good".into(), NOW).unwrap();
    // The lock is that of the directory itself, so another home that links to it sees it too.
    assert!(aside.join("good/session.lock").exists());
    let other = Home::new();
    fs::create_dir(other.root()).unwrap();
    symlink(&aside, other.root().join("--work-demo--")).unwrap();
    let again = other.store(Container::Zstd).open(&"good".into(), NOW);
    assert_eq!(again.unwrap_err().code(), "SESSION_ALREADY_OWNED");
    drop(opened);
    let ids: Vec<_> = all(&store).into_iter().map(|one| one.id).collect();
    assert_eq!(ids, ["good".into()]);
}

#[test]
fn a_linked_log_can_be_read_but_not_written_because_its_lock_would_be_another() {
    let home = Home::new();
    put_good(&home, "good");
    let aside = home.root().parent().unwrap().join("aside.zstd");
    fs::copy(home.log("good", Container::Zstd), &aside).unwrap();
    fs::remove_file(home.log("good", Container::Zstd)).unwrap();
    symlink(&aside, home.log("good", Container::Zstd)).unwrap();
    let before = home.tree();

    let store = home.store(Container::Zstd);
    assert!(store.read(&"good".into()).is_ok());
    assert_eq!(listed(&home), [GOOD]);
    assert_eq!(
        error_of(&home, store.open(&"good".into(), NOW)),
        "NOT_A_FILE: `<root>/--work-demo--/good/session.v4.jsonl.zstd` is a symbolic link, not a log file"
    );
    assert_eq!(home.tree(), before);
}

#[test]
fn a_relative_root_works() {
    // The only test that depends on the working directory, which it does not change.
    let store = JsonlStore::new("no-such-directory/sessions", Container::Raw);
    assert!(all(&store).is_empty());
    assert_eq!(
        store.read(&"demo".into()).unwrap_err().to_string(),
        "session `demo` was not found in `no-such-directory/sessions`"
    );
}

#[expect(
    clippy::disallowed_methods,
    reason = "a directory of a test home is moved, no log is replaced"
)]
fn move_dir(from: &std::path::Path, to: &std::path::Path) {
    fs::rename(from, to).unwrap();
}
