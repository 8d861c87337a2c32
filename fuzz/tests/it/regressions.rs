//! What a fuzzer has found, and what was worth keeping: `regressions/TARGET/*`.

use std::fs;
use std::path::Path;

use offshoot_fuzz::TARGETS;

#[test]
fn every_regression_is_one_no_more() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("regressions");
    let mut known = Vec::new();
    for (target, body) in TARGETS {
        known.push(target.to_owned());
        let Ok(entries) = fs::read_dir(root.join(target)) else {
            continue;
        };
        for entry in entries {
            let path = entry.unwrap().path();
            println!("{}", path.display());
            body(&fs::read(path).unwrap());
        }
    }
    for entry in fs::read_dir(root).unwrap() {
        let folder = entry.unwrap().file_name().into_string().unwrap();
        assert!(known.contains(&folder), "`{folder}` is no target");
    }
}

#[test]
fn every_target_has_its_program() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("targets");
    let mut programs: Vec<String> = fs::read_dir(root)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .map(|path| path.file_stem().unwrap().to_str().unwrap().to_owned())
        .collect();
    programs.sort();
    assert_eq!(programs, TARGETS.map(|(name, _)| name));
}
