//! Recording a scenario, and what there is then: it replays, says so when something is another, and can be refreshed.

use offshoot_model::{Chunk, Failure};
use offshoot_replay::{Existing, RunError, record};
use serde_json::json;

use crate::bench::{Bench, Folder, calls, recorded, refreshed, replayed, says, scratch};

const READING: &str = r#"
[[step]]
do = "prompt"
text = "What does a.txt say?"
"#;

fn reading() -> Bench {
    let read = json!({"file_path": "a.txt"});
    Bench::saying([
        ("What does a.txt say?", calls(&[("call-1", "read", read)])),
        ("alpha", says("It says alpha.")),
    ])
}

fn reading_folder() -> Folder {
    let folder = Folder::new(READING);
    folder.write("workspace/a.txt", "alpha\n");
    folder
}

#[tokio::test(flavor = "multi_thread")]
async fn a_recorded_scenario_replays_differs_when_it_is_changed_and_is_refreshed() {
    let folder = reading_folder();
    assert_eq!(recorded(&folder, &reading()).await.flaws, []);
    assert_eq!(
        folder.files(),
        [
            "expected/main.jsonl",
            "expected/output.jsonl",
            "scenario.toml",
            "sessions/main.jsonl",
            "workspace/a.txt"
        ]
    );
    assert_eq!(replayed(&folder).await.flaws, []);

    folder.write("workspace/a.txt", "beta\n");
    let flaws = replayed(&folder).await.flaws;
    let codes: Vec<&str> = flaws.iter().map(|flaw| flaw.code.as_str()).collect();
    assert_eq!(codes, ["REQUEST_DIFFERS", "SCENARIO_DIFFERS"]);
    let shown: Vec<String> = flaws.iter().map(ToString::to_string).collect();
    // How long the prompt and the tools are that come first is not this test's business.
    insta::with_settings!({filters => vec![(r"from byte \d+ on", "from byte N on")]}, {
        insta::assert_snapshot!(shown.join("\n"));
    });

    assert_eq!(
        refreshed(&folder).await,
        ["sessions/main.jsonl", "expected/main.jsonl"]
    );
    assert!(folder.read("sessions/main.jsonl").contains("1: beta"));
    assert_eq!(replayed(&folder).await.flaws, []);
    assert_eq!(refreshed(&folder).await, [""; 0], "nothing has changed");
}

#[tokio::test(flavor = "multi_thread")]
async fn recordings_are_replaced_only_if_somebody_says_so() {
    let folder = reading_folder();
    let (_dir, place) = scratch();
    recorded(&folder, &reading()).await;
    let before = folder.read("sessions/main.jsonl");
    folder.write("sessions/main.1.jsonl", &before);
    folder.write("expected/main.1.jsonl", "{}\n");
    let refused = record(folder.path(), Existing::Keep, &reading(), &place, None).await;
    let error = refused.unwrap_err();
    assert_eq!(error.code(), "ALREADY_RECORDED");
    assert_eq!(
        error.hint().unwrap(),
        "say that they are to be replaced, or use another folder"
    );
    assert_eq!(folder.read("sessions/main.jsonl"), before);

    let (_dir, place) = scratch();
    let again = record(folder.path(), Existing::Replace, &reading(), &place, None).await;
    let again = again.unwrap();
    let changed = |paths: &[std::path::PathBuf]| -> Vec<String> {
        paths.iter().map(|path| folder.name(path)).collect()
    };
    assert_eq!(
        changed(&again.changed),
        ["sessions/main.jsonl", "sessions/main.1.jsonl"],
        "one is another, and one is no more"
    );
    assert_eq!(changed(&again.replayed.changed), ["expected/main.1.jsonl"]);
    assert!(!folder.files().contains(&"sessions/main.1.jsonl".to_owned()));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_is_never_recorded() {
    let folder = reading_folder();
    folder.write("workspace/a.txt", "alpha sk-verysecret\n");
    let mut bench = reading();
    bench.secrets = vec![String::new(), "sk-verysecret".to_owned()];
    let (_dir, place) = scratch();
    let refused = record(folder.path(), Existing::Keep, &bench, &place, None).await;
    let error = refused.unwrap_err();
    let RunError::Secret { name, line } = &error else {
        panic!("{error}")
    };
    assert_eq!((name.as_str(), *line), ("main", 15));
    assert!(!error.to_string().contains("verysecret"));
    assert_eq!(folder.files(), ["scenario.toml", "workspace/a.txt"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_recorded_of_steps_that_cannot_be_done() {
    let folder = Folder::new("[[step]]\ndo = \"wait\"\nfile = \"never\"\ntimeout = 1\n");
    let (_dir, place) = scratch();
    let refused = record(folder.path(), Existing::Keep, &reading(), &place, None).await;
    let error = refused.unwrap_err();
    assert_eq!(error.code(), "SCENARIO_HUNG");
    assert_eq!(folder.files(), ["scenario.toml"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_recorded_of_a_model_that_never_answers() {
    let folder = Folder::new("[[step]]\ndo = \"prompt\"\ntext = \"Hello.\"\n");
    let refuses = vec![Chunk::failed(Failure::new("AUTH", "The key is wrong."))];
    let bench = Bench::saying([("Hello.", refuses)]);
    let (_dir, place) = scratch();
    let refused = record(folder.path(), Existing::Keep, &bench, &place, None).await;
    let error = refused.unwrap_err();
    assert_eq!(error.code(), "AUTH");
    assert_eq!(
        error.to_string(),
        "nothing was recorded: every turn has failed: The key is wrong."
    );
    assert_eq!(folder.files(), ["scenario.toml"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn no_path_of_this_machine_stays_in_a_recording() {
    let folder = reading_folder();
    let (dir, place) = scratch();
    let recording = record(folder.path(), Existing::Keep, &reading(), &place, None).await;
    assert_eq!(recording.unwrap().replayed.flaws, []);
    let here = dir.path().canonicalize().unwrap();
    for file in folder.files() {
        let text = folder.read(&file);
        assert!(!text.contains(&*here.to_string_lossy()), "{file}");
    }
    assert!(
        folder
            .read("sessions/main.jsonl")
            .contains(r#""cwd":"{{cwd}}""#)
    );
}
