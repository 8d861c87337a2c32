use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use offshoot_test_support::TestHome;

#[test]
fn a_new_home_is_empty_and_the_two_directories_are_apart() {
    let home = TestHome::new();
    assert_eq!(home.bytes_of_tree(), BTreeMap::new());
    assert!(home.path().is_dir() && home.user_path().is_dir());
    assert!(!home.user_path().starts_with(home.path()));
}

#[test]
fn the_tree_shows_files_directories_and_links() {
    let home = TestHome::new();
    let dir = home.path().join("sessions");
    fs::create_dir_all(dir.join("empty")).unwrap();
    let this_file = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/home.rs");
    fs::copy(this_file, dir.join("copy")).unwrap();
    std::os::unix::fs::symlink("copy", dir.join("link")).unwrap();

    let expected = BTreeMap::from([
        ("sessions/".to_owned(), Vec::new()),
        (
            "sessions/copy".to_owned(),
            include_bytes!("home.rs").to_vec(),
        ),
        ("sessions/empty/".to_owned(), Vec::new()),
        ("sessions/link".to_owned(), b"-> copy".to_vec()),
    ]);
    assert_eq!(home.bytes_of_tree(), expected);
}

#[test]
fn a_home_is_gone_when_dropped() {
    let home = TestHome::new();
    let path = home.path().to_owned();
    drop(home);
    assert!(!path.exists());
}
