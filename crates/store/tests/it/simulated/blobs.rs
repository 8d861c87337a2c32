//! A blob that comes piece by piece: whatever the disk does, it is there whole or not at all.

use std::fs;
use std::io::Write as _;
use std::sync::Arc;

use offshoot_store::{BlobId, Blobs};

use super::disk::{Fault, SimDisk};
use super::scratch;
use crate::support::NOW;

#[test]
fn what_was_stored_in_pieces_survives_a_power_cut_and_nothing_bears_its_name_before() {
    let id = BlobId::of(b"some bytes");
    let (mut stored, mut failed) = (0, 0);
    for fault in [
        Fault::Fail,
        Fault::Short,
        Fault::Full,
        Fault::Outage,
        Fault::Stop,
    ] {
        for at in 0.. {
            let home = scratch();
            let disk = SimDisk::over(home.path(), &[(at, fault)]);
            let blobs = Blobs::on(home.path().join("blobs"), Arc::new(disk.clone()));
            let write = || {
                let mut writer = blobs.begin(100).ok()?;
                writer.write_all(b"some ").ok()?;
                writer.write_all(b"bytes").ok()?;
                writer.finish(NOW).ok()
            };
            let written = write();
            assert!(written.is_none_or(|written| written == id));
            stored += usize::from(written.is_some());
            failed += usize::from(written.is_none());
            for (cut, image) in disk.power_cuts() {
                let after = scratch();
                image.write_below(after.path());
                let sound = Blobs::new(after.path().join("blobs"));
                let path = sound.path(&id);
                let found = fs::read(&path).ok();
                let context = format!("{fault:?} at {at}, {cut}");
                if written.is_some() || found.is_some() {
                    assert_eq!(found.as_deref(), Some(&b"some bytes"[..]), "{context}");
                }
            }
            if disk.ops().len() <= at {
                break;
            }
        }
    }
    assert!(
        stored > 5 && failed > 20,
        "{stored} stored, {failed} failed"
    );
}
