//! How much room sessions take.

use std::fs;

use offshoot_store::{Persistence as _, SessionUsage, Usage};

use crate::collect::BRANCH;
use crate::pruned::base;
use crate::support::{BOTH, Home, NOW, PROJECT, file_name, write};

#[test]
fn usage_tells_what_is_a_sessions_own_and_counts_what_is_shared_once() {
    for container in BOTH {
        let home = Home::new();
        let store = home.store(container);
        for (id, len) in [("small", 3), ("big", 20), ("shared", 50)] {
            home.put(
                format!("{PROJECT}/{id}/{}", file_name(container)),
                "x".repeat(len),
            );
        }
        write(&home.dir("big").join("session.v3.jsonl"), "x".repeat(7));
        write(&home.dir("big").join("attempt.journal"), "x".repeat(2));
        home.put(format!("{PROJECT}/fork/{BRANCH}"), "x".repeat(1_000));
        write(&home.dir("fork").join("base-1.jsonl.zstd"), "x".repeat(5));
        let shared = home.log("shared", container);
        fs::hard_link(&shared, base(&home, "fork")).unwrap();
        fs::create_dir(home.root().join("--empty--")).unwrap();
        fs::create_dir(home.root().join("--empty--/x")).unwrap();
        store.blobs().put(b"12345", NOW).unwrap();
        home.put(
            format!("{PROJECT}/gone/{}", file_name(container)),
            "x".repeat(11),
        );
        store.delete(&"gone".into(), NOW).unwrap();
        let note = home.tree()["trash/9000-0/trash.json"].len() as u64;
        let one = |id: &str, own, shared, other| SessionUsage {
            id: id.into(),
            path: home.dir(id),
            own,
            shared,
            other,
        };
        let sessions = vec![
            one("fork", 1_005, 50, 0),
            one("big", 20, 0, 9),
            one("small", 3, 0, 0),
            one("shared", 0, 50, 0),
        ];
        let usage = Usage {
            sessions: sessions.clone(),
            in_sessions: 1_055 + 29 + 3,
            in_blobs: 5,
            in_trash: 11 + note,
            unread: Vec::new(),
        };
        assert_eq!(store.usage(), usage);
        assert_eq!(usage.total(), 1_055 + 29 + 3 + 5 + 11 + note);
        let ids = ["shared".into(), "fork".into(), "shared".into()];
        let some = Usage {
            sessions: vec![sessions[0].clone(), sessions[3].clone()],
            in_sessions: 1_055,
            ..Usage::default()
        };
        assert_eq!(store.usage_of(&ids).unwrap(), some);
    }
}
