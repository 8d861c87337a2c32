//! `offshoot demo`: the main job, seen in one go.

use std::fs;
use std::process::Command;

use insta::assert_snapshot;
use offshoot_test_support::{ScriptedModelServer, TestHome, corpus};

use crate::support::{BINARY, demo, file, fixture, json, offshoot, run, scrub, seen, types};

#[test]
fn it_shows_a_fork_in_the_middle_of_a_call_and_both_branches() {
    let home = TestHome::new();
    let output = run(&home, ["demo"]).success().replacing(BINARY, "offshoot");
    assert_snapshot!(seen(&output), @r##"
    exit code: 0
    ----- stdout -----
    offshoot demo: a recorded conversation, in the home `[home]`

    1. Every conversation is a log of events. This is the recorded one, session-demo.

         0  agent/inbox/spliced    next-turn: 1 queued
         1  turn/start             turn 1
         2  agent/inbox/spliced    next-turn: 1 claimed
         3  step/start             turn 1, step 1
         4  system/message         You are Offshoot, an agent that works on a person's files through tools. - Look before yo…
         5  user/message           Start a CHANGES.md that says forks work at any event, and tell me how long it is.
         6  user/message           (runtime-context) This is where you work now; it replaces what was said before. Current w…
         7  request/header         initial: scripted/scripted-1
         8  request/context        scripted-1
         9  session/title          Start a CHANGES.md that says forks work at
        10  assistant/message      I will write the file and then count its lines. [write call_write] [bash call_count]
        11  tool/call              call_write: write({"file_path":"CHANGES.md","content":"# Changes\n\n- forks at any event\…  <- fork here
        12  tool/result            call_write: <path>/work/demo/CHANGES.md</path> <type>file</type> <content> Created file <…
        13  tool/call              call_count: bash({"command":"wc -l < CHANGES.md","description":"Count the lines"})
        14  tool/result            call_count: 3
        15  step/end               turn 1, step 1
        16  step/start             turn 1, step 2
        17  assistant/message      `CHANGES.md` should have 3 lines now; `wc -l CHANGES.md` tells for sure.
        18  step/end               turn 1, step 2
        19  turn/end               turn 1: completed

    2. Fork it at event 11, in the middle of a tool call. These events close what the cut left open.

        12  session/end-seed       inherited up to here
        13  tool/result            call_write: TOOL_OUTCOME_UNKNOWN This conversation was branched off while the tool call w…
        14  tool/result            call_count: TOOL_NOT_STARTED This conversation was branched off before the tool call was …
        15  step/end               turn 1, step 1
        16  turn/end               turn 1: forked

    The parent may have gone on to run these calls. The fork says so instead of inventing a result.

    3. The fork goes on. A replay model answers in place of a real one: what the recorded model said next.

        17  agent/inbox/spliced    next-turn: 1 queued
        18  turn/start             turn 2
        19  agent/inbox/spliced    next-turn: 1 claimed
        20  step/start             turn 2, step 1
        21  user/message           Go on from here.
        22  user/message           (runtime-context) This is where you work now; it replaces what was said before. Current w…
        23  request/header         resume: scripted/scripted-1
        24  assistant/message      `CHANGES.md` should have 3 lines now; `wc -l CHANGES.md` tells for sure.
        25  step/end               turn 2, step 1
        26  turn/end               turn 2: completed

    4. Both branches are kept.

    session-demo  (20 events)  Start a CHANGES.md that says forks work at
    └─ session-[uuid] @11  (27 events)  Start a CHANGES.md that says forks work at

    Try next:

      export OFFSHOOT_HOME=[home]
      offshoot show session-[uuid] --messages    # what the model was told in the fork
      offshoot show session-[uuid] --request 2    # the fork's request, byte for byte
      offshoot fork session-demo --at 10    # any other event will do
      offshoot ls --tree    # every branch

    For real, with DEEPSEEK_API_KEY or OPENAI_API_KEY set:

      offshoot run "what is in this directory?"

    The home of this demo stays until you delete it.
    ----- stderr -----
    "##);
}

#[test]
fn by_default_it_touches_neither_your_home_nor_the_network() {
    let home = TestHome::new();
    let server = ScriptedModelServer::start([]);
    let temporary = home.user_path().join("tmp");
    fs::create_dir(&temporary).unwrap();
    // Without --home, but with a home in the environment: also that one is yours.
    let output = Command::new(BINARY)
        .args(["demo", "--json"])
        .env("OFFSHOOT_HOME", home.path())
        .env("HOME", home.user_path())
        .env("TMPDIR", &temporary)
        .env("OPENAI_BASE_URL", server.base_url())
        .env("HTTP_PROXY", server.base_url())
        .env("HTTPS_PROXY", server.base_url())
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(0));
    let said: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(home.bytes_of_tree().is_empty());
    assert!(!home.user_path().join(".offshoot").exists());
    assert!(
        said["home"]
            .as_str()
            .unwrap()
            .starts_with(temporary.to_str().unwrap())
    );
    assert!(server.requests().is_empty());
}

#[test]
fn as_json_it_is_the_fork_the_turn_and_the_result() {
    let home = TestHome::new();
    let said = json(&run(&home, ["demo", "--json"]).success());
    assert_eq!(said["parent"], "session-demo");
    assert_eq!(said["cut"], 11);
    assert_eq!(said["fork"]["cut"], 11);
    assert_eq!(
        types(said["fork"]["closers"].as_array().unwrap()),
        [
            "session/end-seed",
            "tool/result",
            "tool/result",
            "step/end",
            "turn/end"
        ]
    );
    assert_eq!(
        types(said["turn"].as_array().unwrap()).last(),
        Some(&"turn/end")
    );
    assert_eq!(said["result"]["type"], "result");
    assert_eq!(said["result"]["session"], said["fork"]["session"]);
    assert_eq!(
        said["result"]["text"],
        "`CHANGES.md` should have 3 lines now; `wc -l CHANGES.md` tells for sure."
    );
}

#[test]
fn again_in_the_same_home_it_adds_a_branch_and_shows_no_session_of_others() {
    let home = TestHome::new();
    drop(run(&home, ["demo"]).success());
    let other = fixture("answer.jsonl");
    drop(
        run(
            &home,
            ["fork", other.to_str().unwrap(), "--id", "somebody-else"],
        )
        .success(),
    );
    let output = run(&home, ["demo"]).success();
    let said = scrub(&output.stdout_text());
    assert!(!said.contains("somebody-else"), "{output}");
    assert_eq!(said.matches("─ session-[uuid] @11").count(), 2, "{output}");
}

#[test]
fn what_it_says_to_try_next_works() {
    let home = TestHome::new();
    let output = run(&home, ["demo"]).success();
    let said = output.stdout_text();
    let commands: Vec<&str> = said
        .lines()
        .filter_map(|line| line.strip_prefix("  ")?.strip_prefix(BINARY))
        .collect();
    let (model, tries): (Vec<&str>, Vec<&str>) = commands
        .iter()
        .partition(|command| command.starts_with(" run"));
    assert_eq!((model.len(), tries.len()), (1, 4), "{output}");
    for command in tries {
        let args = command.split('#').next().unwrap().split_whitespace();
        drop(run(&home, args).success());
    }
}

#[test]
fn it_takes_a_session_of_yours_and_leaves_it_as_it_is() {
    let home = TestHome::new();
    let mine = file(&home, "mine.jsonl", fs::read(demo()).unwrap());
    let output = offshoot(&home)
        .args(["demo", "--from", "mine.jsonl", "--json"])
        .run();
    assert_eq!(json(&output.success())["cut"], 11);
    assert_eq!(fs::read(mine).unwrap(), fs::read(demo()).unwrap());
}

#[test]
fn a_session_without_a_call_is_refused_before_anything_is_made() {
    let home = TestHome::new();
    let quiet = fixture("answer.jsonl");
    let output = run(&home, ["demo", "--from", quiet.to_str().unwrap()]);
    assert_snapshot!(seen(&output), @r#"
    exit code: 1
    ----- stdout -----
    ----- stderr -----
    error: `[cli]/tests/fixtures/answer.jsonl` has no tool call to cut at
    hint: name a session in which a tool was called, or leave --from out
    "#);
    assert!(home.bytes_of_tree().is_empty());
}

#[test]
fn every_recorded_session_with_a_call_can_be_the_demo() {
    let Some(_) = corpus::corpus_dir() else {
        return corpus::skip_notice("every_recorded_session_with_a_call_can_be_the_demo");
    };
    let mut shown = 0;
    for recorded in corpus::files("v4-completed") {
        let home = TestHome::new();
        let before = fs::read(&recorded).unwrap();
        let output = run(
            &home,
            [
                "demo".as_ref(),
                "--from".as_ref(),
                recorded.as_os_str(),
                "--json".as_ref(),
            ],
        );
        assert_eq!(fs::read(&recorded).unwrap(), before);
        if output.code() == Some(1) {
            assert!(
                output.stderr_text().contains("NO_TOOL_CALL"),
                "{}: {output}",
                recorded.display()
            );
            continue;
        }
        let said = json(&output.success());
        assert_eq!(said["fork"]["closers"][0]["type"], "session/end-seed");
        assert_eq!(
            said["result"]["reason"]["kind"],
            "completed",
            "{}",
            recorded.display()
        );
        shown += 1;
    }
    assert!(shown > 5, "only {shown}");
}

#[test]
fn a_home_that_has_another_session_of_the_recordings_name_is_left_alone() {
    let home = TestHome::new();
    // The same name, another conversation: a fork that was given it.
    let source = demo();
    let fork = [
        "fork",
        source.to_str().unwrap(),
        "--at",
        "5",
        "--id",
        "session-demo",
    ];
    drop(run(&home, fork).success());
    let before = home.bytes_of_tree();
    let path = home.path().to_owned();
    let output = run(
        &home,
        ["demo".as_ref(), "--home".as_ref(), path.as_os_str()],
    );
    assert_eq!(output.code(), Some(1));
    let said = output.stderr_text();
    assert!(
        said.contains("has another session with the id `session-demo`"),
        "{said}"
    );
    assert_eq!(home.bytes_of_tree(), before);
}
