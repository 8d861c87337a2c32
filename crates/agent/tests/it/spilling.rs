//! Results that are too long to be shown (`reference/agent.md` §3.2, point 7).

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use offshoot_agent::BlobSpill;
use offshoot_session::EventLog;
use offshoot_store::{BlobId, Collecting, HOME_MARKER, Persistence as _};
use offshoot_tool_api::{Spill, SpillFile, ToolError, ToolOutput};
use serde_json::json;

use crate::bench::{Bench, NOW, ask};
use crate::scene::{Probe, Scene, texts};

/// Long after everything that a test has done; the disk dates what it does by the real clock. In ms.
const LATER: i64 = 4_102_444_800_000;

/// A thousand lines of 100 bytes.
fn long() -> String {
    (0..1000).map(|line| format!("{line:099}\n")).collect()
}

fn talkative() -> Probe {
    Probe::new("talk", |_| Ok(ToolOutput::text(long())))
}

fn scene(bench: &Bench) -> Scene<'_> {
    let blobs = bench.persistence().blobs();
    let mut scene = Scene::new(bench);
    scene.spill = Some(Arc::new(BlobSpill::new(blobs, bench.env.clone())));
    scene
}

fn kept(bench: &Bench) -> PathBuf {
    bench
        .persistence()
        .blobs()
        .path(&BlobId::of(long().as_bytes()))
}

/// The one result of a log with the file's name made the same on every machine.
fn shown(log: &EventLog, file: &Path) -> String {
    let text = texts(log)
        .remove(0)
        .replace(&file.display().to_string(), "[file]");
    // The lines that are shown are not of interest.
    let interesting = |line: &&str| !line.starts_with("00");
    let lines: Vec<_> = text.lines().filter(interesting).collect();
    format!("{} bytes: {}", text.len(), lines.join("\n"))
}

#[tokio::test]
async fn a_long_result_is_kept_whole_and_shown_at_both_ends() {
    let bench = Bench::new();
    let log = scene(&bench)
        .tool(talkative())
        .play(&[("a", "talk", "{}")])
        .await;
    let text = &texts(&log)[0];
    let all = long();
    let (head, tail) = (&all[..32 * 1024], &all[all.len() - 32 * 1024..]);
    assert!(text.starts_with(head) && text.contains(tail));
    insta::assert_snapshot!(shown(&log, &kept(&bench)), @r"
    65639 bytes: [... 34464 bytes omitted, in 346 lines ...]
    [The whole output is in `[file]`: use read or grep on it.]
    ");
    assert_eq!(fs::read_to_string(kept(&bench)).unwrap(), all);
}

#[tokio::test]
async fn what_is_not_too_long_stays_as_it_is() {
    let bench = Bench::new();
    for text in ["x".repeat(64 * 1024), "\n".repeat(64 * 1024)] {
        let said = text.clone();
        let probe = Probe::new("talk", move |_| Ok(ToolOutput::text(&*said)));
        let log = scene(&bench).tool(probe).play(&[("a", "talk", "{}")]).await;
        assert_eq!(texts(&log), [text]);
    }
    assert!(!bench.persistence().blobs().dir().exists());
}

#[tokio::test]
async fn a_long_error_is_kept_too() {
    let bench = Bench::new();
    let probe = Probe::new("talk", |_| Err(ToolError::new("X", "X", long())));
    let log = scene(&bench).tool(probe).play(&[("a", "talk", "{}")]).await;
    let whole = format!("Error: {}", long());
    let blobs = bench.persistence().blobs();
    let file = blobs.path(&BlobId::of(whole.as_bytes()));
    assert_eq!(fs::read_to_string(&file).unwrap(), whole);
    assert!(texts(&log)[0].contains(&file.display().to_string()));
}

#[tokio::test]
async fn the_model_can_read_what_was_kept() {
    let bench = Bench::new();
    let path = json!({"file_path": kept(&bench), "offset": 500, "limit": 1}).to_string();
    let mut scene = scene(&bench).tool(talkative());
    for tool in offshoot_tools::builtin().iter() {
        if tool.spec().name == "read" {
            scene.tools.register(Arc::clone(tool)).unwrap();
        }
    }
    let log = scene
        .play(&[("a", "talk", "{}"), ("b", "read", &path)])
        .await;
    let line = format!("{:099}", 499);
    assert!(texts(&log)[1].contains(&line), "{}", texts(&log)[1]);
}

/// A place where nothing can be kept.
#[derive(Debug)]
struct Full;

impl Spill for Full {
    fn begin(&self) -> io::Result<Box<dyn SpillFile>> {
        Err(io::Error::from(io::ErrorKind::StorageFull))
    }
}

#[tokio::test]
async fn a_result_that_cannot_be_kept_is_cut_and_the_model_is_told() {
    let bench = Bench::new();
    for (spill, note) in [
        (
            Some(Arc::new(Full) as Arc<dyn Spill>),
            "[The whole output could not be kept: no storage space.]",
        ),
        (
            None,
            "[There is no place for the whole output: it is lost.]",
        ),
    ] {
        let mut scene = Scene::new(&bench).tool(talkative());
        scene.spill = spill;
        let log = scene.play(&[("a", "talk", "{}")]).await;
        let text = texts(&log).remove(0);
        assert_eq!(text.lines().last(), Some(note));
    }
}

#[tokio::test]
async fn what_a_session_names_is_kept_for_its_forks_and_goes_with_the_last_of_them() {
    let bench = Bench::new();
    let store = bench.persistence();
    let home = store.root().parent().unwrap();
    fs::create_dir_all(home).unwrap();
    #[expect(
        clippy::disallowed_methods,
        reason = "a marker of a test need not be durable"
    )]
    fs::write(home.join(HOME_MARKER), "{\"layout\":1}\n").unwrap();
    let mut agent = scene(&bench)
        .tool(talkative())
        .agent(&[("a", "talk", "{}")]);
    ask(&mut agent, "Talk.").await;
    let parent = agent.session().id().clone();
    drop(agent);
    let fork = bench
        .service
        .prepare_fork(&bench.read(&parent), None, None)
        .unwrap();
    let child = fork.header.id.clone();
    drop(bench.service.store_fork(&fork).unwrap());
    let to = home.join("out/exported.jsonl");
    let exported = store.export(&child, &to, NOW).unwrap();
    assert_eq!(exported.missing, []);
    let beside = exported
        .blobs
        .unwrap()
        .join(kept(&bench).file_name().unwrap());
    assert_eq!(fs::read_to_string(beside).unwrap(), long());

    for gone in [parent, child] {
        let collected = store.collect(0, Collecting::Remove, LATER).unwrap();
        assert_eq!(collected.kept, []);
        assert!(kept(&bench).exists());
        store.delete(&gone, NOW).unwrap();
    }
    store.collect(0, Collecting::Remove, LATER).unwrap();
    assert!(!kept(&bench).exists());
}
