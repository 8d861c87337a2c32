//! Blobs: stored once, never changed, verified when they are read.

use std::fs;
use std::io::Write as _;
use std::time::{Duration, UNIX_EPOCH};

use offshoot_format::Container;
use offshoot_store::{BlobId, Blobs};

use crate::faulty::{Fault, FaultyDisk};
use crate::support::{Home, NOW, write};
use crate::trash::LATER;

fn blobs(home: &Home) -> Blobs {
    home.store(Container::Zstd).blobs()
}

fn code<T: std::fmt::Debug>(result: Result<T, offshoot_store::StoreError>) -> &'static str {
    result.unwrap_err().code()
}

#[test]
fn a_blob_is_stored_once_under_its_hash_and_read_back() {
    let home = Home::new();
    let blobs = blobs(&home);
    let id = blobs.put(b"hello\n", NOW).unwrap();
    let hash = "5891b5b522d5df086d0ff0b110fbd9d21bb4fc7163af34d08286a2e846f6be03";
    assert_eq!(id.to_string(), format!("sha256:{hash}"));
    assert_eq!(blobs.put(b"hello\n", NOW).unwrap(), id);
    let empty = blobs.put(b"", NOW).unwrap();
    let expected = [
        ("blobs/".to_owned(), Vec::new()),
        (format!("blobs/{hash}"), b"hello\n".to_vec()),
        (format!("blobs/{}", &empty.to_string()[7..]), Vec::new()),
    ];
    assert_eq!(home.tree(), expected.into());
    assert_eq!(blobs.get(&id).unwrap(), b"hello\n");
    assert_eq!(blobs.get(&empty).unwrap(), b"");
    assert_eq!(Blobs::new(blobs.dir()).get(&id).unwrap(), b"hello\n");
}

#[test]
fn storing_a_blob_again_makes_it_young_and_never_older() {
    let home = Home::new();
    let blobs = blobs(&home);
    let id = blobs.put(b"x", NOW).unwrap();
    let changed = || fs::metadata(blobs.path(&id)).unwrap().modified().unwrap();
    blobs.put(b"x", LATER).unwrap();
    let later = UNIX_EPOCH + Duration::from_millis(LATER.unsigned_abs());
    assert_eq!(changed(), later);
    for now in [0, -5_000, i64::MIN] {
        blobs.put(b"x", now).unwrap();
        assert_eq!(changed(), later);
    }
}

#[test]
fn a_blob_that_is_missing_or_damaged_is_named_and_never_replaced() {
    let home = Home::new();
    let blobs = blobs(&home);
    let missing = BlobId::of(b"x");
    let error = blobs.get(&missing).unwrap_err();
    assert_eq!(error.code(), "BLOB_NOT_FOUND");
    assert_eq!(
        error.to_string(),
        format!("there is no blob `{}`", blobs.path(&missing).display())
    );
    let id = blobs.put(b"x", NOW).unwrap();
    for damage in ["", "y", "xx"] {
        write(&blobs.path(&id), damage);
        let error = blobs.get(&id).unwrap_err();
        assert!(error.to_string().contains(&id.to_string()[7..]), "{error}");
        assert_eq!(error.code(), "BLOB_DAMAGED");
        assert_eq!(code(blobs.put(b"x", NOW)), "BLOB_DAMAGED");
        assert_eq!(fs::read_to_string(blobs.path(&id)).unwrap(), damage);
    }
    fs::remove_file(blobs.path(&id)).unwrap();
    fs::create_dir(blobs.path(&id)).unwrap();
    assert_eq!(code(blobs.get(&id)), "NOT_A_FILE");
    assert_eq!(code(blobs.put(b"x", NOW)), "NOT_A_FILE");
}

#[test]
fn a_fault_at_any_step_leaves_no_blob_or_a_whole_one() {
    for fault in [Fault::Once, Fault::Forever] {
        for step in 0.. {
            let home = Home::new();
            let disk = FaultyDisk::new(fault, step);
            let dir = blobs(&home).dir().to_owned();
            let faulty = Blobs::on(&dir, disk.clone());
            let put = faulty.put(b"some bytes", NOW);
            let sound = Blobs::new(&dir);
            let id = BlobId::of(b"some bytes");
            match (&put, sound.get(&id)) {
                (_, Ok(bytes)) => assert_eq!(bytes, b"some bytes"),
                (Err(_), Err(error)) => assert_eq!(error.code(), "BLOB_NOT_FOUND"),
                (Ok(_), Err(error)) => panic!("step {step}: {error}"),
            }
            // It comes to the same end when it is done again.
            assert_eq!(sound.put(b"some bytes", NOW).unwrap(), id);
            if disk.steps() <= step {
                assert!(put.is_ok() && step > 15, "only {step} steps");
                break;
            }
        }
    }
}

/// Writes these pieces as one blob.
fn piecewise(blobs: &Blobs, pieces: &[&str]) -> Result<BlobId, Box<dyn std::error::Error>> {
    let mut writer = blobs.begin(1_000)?;
    for piece in pieces {
        writer.write_all(piece.as_bytes())?;
    }
    Ok(writer.finish(NOW)?)
}

#[test]
fn a_blob_may_come_piece_by_piece_and_is_the_same_one() {
    let home = Home::new();
    let blobs = blobs(&home);
    let id = piecewise(&blobs, &["some ", "", "bytes"]).unwrap();
    assert_eq!(id, BlobId::of(b"some bytes"));
    let once = home.tree();
    assert_eq!(blobs.put(b"some bytes", NOW).unwrap(), id);
    assert_eq!(piecewise(&blobs, &["some bytes"]).unwrap(), id);
    assert_eq!(piecewise(&blobs, &[]).unwrap(), BlobId::of(b""));
    fs::remove_file(blobs.path(&BlobId::of(b""))).unwrap();
    assert_eq!(home.tree(), once, "and nothing else is left");
}

#[test]
fn a_blob_that_is_not_finished_leaves_nothing() {
    let home = Home::new();
    let blobs = blobs(&home);
    let mut writer = blobs.begin(1_000).unwrap();
    writer.write_all(b"some bytes").unwrap();
    assert_eq!(home.tree().len(), 2);
    drop(writer);
    assert_eq!(home.tree(), [("blobs/".to_owned(), Vec::new())].into());
}

#[test]
fn a_blob_does_not_grow_beyond_what_was_allowed_and_is_none_after_that() {
    let home = Home::new();
    let blobs = blobs(&home);
    let mut writer = blobs.begin(4).unwrap();
    writer.write_all(b"1234").unwrap();
    let error = writer.write_all(b"5").unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::FileTooLarge);
    assert_eq!(error.to_string(), "it would be longer than 4 bytes");
    assert_eq!(
        writer.write(b"").unwrap_err().to_string(),
        "an earlier write failed"
    );
    assert_eq!(code(writer.finish(NOW)), "IO_ERROR");
    assert_eq!(home.tree(), [("blobs/".to_owned(), Vec::new())].into());
}

#[test]
fn a_damaged_blob_is_not_replaced_by_one_that_comes_piece_by_piece() {
    let home = Home::new();
    let blobs = blobs(&home);
    let id = blobs.put(b"x", NOW).unwrap();
    write(&blobs.path(&id), "y");
    let mut writer = blobs.begin(1).unwrap();
    writer.write_all(b"x").unwrap();
    assert_eq!(code(writer.finish(NOW)), "BLOB_DAMAGED");
    assert_eq!(fs::read_to_string(blobs.path(&id)).unwrap(), "y");
    assert_eq!(home.tree().len(), 2);
}

#[test]
fn a_fault_at_any_step_of_a_blob_in_pieces_leaves_no_blob_or_a_whole_one() {
    let pieces = ["some ", "bytes"];
    let id = BlobId::of(b"some bytes");
    for fault in [Fault::Once, Fault::Forever] {
        for step in 0.. {
            let home = Home::new();
            let disk = FaultyDisk::new(fault, step);
            let sound = blobs(&home);
            let faulty = Blobs::on(sound.dir(), disk.clone());
            let written = piecewise(&faulty, &pieces);
            match (&written, sound.get(&id)) {
                (_, Ok(bytes)) => assert_eq!(bytes, b"some bytes"),
                (Err(_), Err(error)) => assert_eq!(error.code(), "BLOB_NOT_FOUND"),
                (Ok(_), Err(error)) => panic!("step {step}: {error}"),
            }
            assert_eq!(piecewise(&sound, &pieces).unwrap(), id);
            if disk.steps() <= step {
                assert!(written.is_ok() && step > 10, "only {step} steps");
                break;
            }
        }
    }
}
