//! What is true after the process has been killed while a model was answering.

use std::fs;
use std::path::PathBuf;

use offshoot_test_support::{Reply, ScriptedModelServer, TestHome};
use serde_json::json;

use crate::support::{Background, events, json, run, turn, work};

/// A home whose only session was killed in the middle of an answer, when a reader had seen this much of it.
fn killed_in_mid_stream(server: &ScriptedModelServer, seen: &str) -> (TestHome, String) {
    let home = TestHome::new();
    work(&home);
    let (reply, _gate) = Reply::text("One two three four.").stall_after(4);
    server.push(reply);
    let running = Background::turn(&home, server, &["Count."]);
    let id = loop {
        let rows = json(&run(&home, ["ls", "--json"]).success());
        let id = rows[0]["id"].as_str().map(str::to_owned);
        let shown = id.filter(|id| run(&home, ["show", id]).stdout_text().contains(seen));
        if let Some(id) = shown {
            break id;
        }
    };
    running.kill();
    (home, id)
}

fn journal(home: &TestHome) -> PathBuf {
    let tree = home.bytes_of_tree();
    let name = tree
        .into_keys()
        .find(|name| name.ends_with("attempt.journal"));
    home.path().join(name.expect("there is a journal"))
}

#[test]
fn the_text_is_shown_forked_and_gone_on_with() {
    let server = ScriptedModelServer::start([]);
    let (home, id) = killed_in_mid_stream(&server, "One two three");
    let before = home.bytes_of_tree();
    let shown = run(&home, ["show", &id]).success().stdout_text();
    let note = "is an answer as far as it had come in; it is not in the file yet, going on with the session stores it";
    assert!(shown.contains(note), "{shown}");
    let rows = run(&home, ["show", &id, "--json"]).success();
    assert!(rows.stderr_text().contains(note), "{rows}");
    let last = json(&rows).as_array().unwrap().last().unwrap().clone();
    assert_eq!(last["data"]["interrupted"], json!(true));
    let seq = last["seq"].to_string();
    let checked = json(&run(&home, ["check", &id, "--deep", "--json"]).success());
    assert_eq!(checked[0]["status"], "ok");
    assert_eq!(checked[0]["findings"][0]["code"], "UNSTORED_ANSWER");
    assert_eq!(home.bytes_of_tree(), before, "nothing of that writes");

    let child = run(&home, ["fork", &id, "--at", &seq, "--json"]).success();
    let child = json(&child)["session"].as_str().unwrap().to_owned();
    let inherited = events(&home, &child);
    assert!(inherited.contains(&last), "{inherited:?}");

    server.push(Reply::text("Four, five."));
    let output = turn(&home, &server)
        .args(["--session", &id, "Go on."])
        .run()
        .success();
    let told = format!(
        "note: the session had ended in the middle of something; event {seq} keeps the answer that was coming in, 2 events \
         close its open turn"
    );
    assert!(output.stderr_text().contains(&told), "{output}");
    assert!(events(&home, &id).contains(&last));
    let sent = server.requests().pop().unwrap().messages();
    assert!(
        sent.contains(&json!({"role": "assistant", "content": "One two three "})),
        "{sent:?}"
    );
    server.finish();
}

#[test]
fn a_journal_of_another_session_is_named_and_moved_aside() {
    let server = ScriptedModelServer::start([]);
    let (home, id) = killed_in_mid_stream(&server, "One two");
    let path = journal(&home);
    let text = fs::read_to_string(&path).unwrap();
    let strange = text.replacen(&id, "another", 1);
    #[expect(clippy::disallowed_methods, reason = "an input of a test is no log")]
    fs::write(&path, &strange).unwrap();
    let reason = "the stream of an answer, was not used: it is of session `another`";
    let shown = run(&home, ["show", &id]).success().stdout_text();
    assert!(shown.contains(reason), "{shown}");
    let checked = json(&run(&home, ["check", &id, "--json"]).success());
    assert_eq!(checked[0]["findings"][0]["code"], "STRAY_JOURNAL");
    server.push(Reply::text("Where were we?"));
    let output = turn(&home, &server)
        .args(["--session", &id, "Go on."])
        .run()
        .success();
    assert!(output.stderr_text().contains(reason), "{output}");
    let aside = path.with_file_name("attempt.journal.stray-1");
    assert_eq!(fs::read_to_string(aside).unwrap(), strange);
    assert!(!path.exists());
    server.finish();
}

#[test]
fn who_names_the_file_beside_which_an_answer_lies_is_told_of_it() {
    let server = ScriptedModelServer::start([]);
    let (home, id) = killed_in_mid_stream(&server, "One two three");
    let journal = journal(&home);
    let path = journal.with_file_name("session.v4.jsonl.zstd");
    let (file, id) = (path.to_str().unwrap(), id.as_str());
    let beside = "an answer that was coming in lies beside the file, in `[home]/sessions/";
    let seq = run(&home, ["show", file, "--json"]);
    let seq = (json(&seq).as_array().unwrap().len() - 1).to_string();
    for args in [
        &["show", file][..],
        &["show", file, "--json"],
        &["show", file, "--stored"],
        &["check", file],
        &["fork", file, "--at", &seq],
        &["export", file, "--to", "copy.jsonl"],
        &["salvage", file, "--to", "rescue"],
        &["salvage", id, "--to", "rescue"],
    ] {
        let output = run(&home, args).success();
        let said = output.stderr_text();
        assert_eq!(said.matches(beside).count(), 1, "{args:?}: {output}");
        assert!(
            !output.stdout_text().contains("nothing was lost"),
            "{output}"
        );
    }
    let report = json(&run(&home, ["salvage", file, "--to", "rescue", "--json"]).success());
    assert_eq!(
        (&report["stream"], &report["loss"]),
        (&json!(journal), &json!(null))
    );
    // Beside a file that is damaged it is there as well.
    let bytes = fs::read(&path).unwrap();
    let damaged = [&bytes[..], &bytes[..]].concat();
    #[expect(clippy::disallowed_methods, reason = "an input of a test is no log")]
    fs::write(&path, damaged).unwrap();
    let output = run(&home, ["salvage", file, "--to", "rescue"]).success();
    assert!(output.stderr_text().contains(beside), "{output}");
    #[expect(clippy::disallowed_methods, reason = "an input of a test is no log")]
    fs::write(&path, bytes).unwrap();

    // Whoever names the session is not told, and once it is stored nobody is.
    let output = run(&home, ["show", id]).success();
    assert!(
        !output.stderr_text().contains("beside the file"),
        "{output}"
    );
    let old = fs::read(&journal).unwrap();
    server.push(Reply::text("Four, five."));
    drop(
        turn(&home, &server)
            .args(["--session", id, "Go on."])
            .run()
            .success(),
    );
    #[expect(clippy::disallowed_methods, reason = "an input of a test is no log")]
    fs::write(&journal, old).unwrap();
    let output = run(&home, ["salvage", file, "--to", "rescue"]).success();
    assert_eq!(output.stderr_text(), "");
    assert!(
        output.stdout_text().contains("nothing was lost"),
        "{output}"
    );
    server.finish();
}
