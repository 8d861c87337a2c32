//! `offshoot chat`, with lines that are piped in, and once at a terminal.

use std::fs;
use std::process::Command;

use insta::assert_snapshot;
use offshoot_test_support::{OffshootCommand, Reply, ScriptedModelServer, TestHome};

use crate::support::{Background, Fifo, calling, json, run, seen, work};
use crate::terminal::Terminal;

fn chat(home: &TestHome, server: &ScriptedModelServer) -> OffshootCommand {
    calling(home, server).arg("chat")
}

/// What the person says in a request.
fn said(server: &ScriptedModelServer, request: usize) -> Vec<String> {
    let messages = server.requests()[request].messages();
    let users = messages.iter().filter(|one| one["role"] == "user");
    let texts = users.filter_map(|one| one["content"].as_str());
    texts.map(str::to_owned).collect()
}

fn sessions(home: &TestHome) -> Vec<serde_json::Value> {
    let listed = json(&run(home, ["ls", "--json"]).success());
    listed.as_array().unwrap().clone()
}

#[test]
fn each_line_is_a_turn_in_the_same_session() {
    let home = TestHome::new();
    let server = ScriptedModelServer::start([
        Reply::tool_calls([("call_1", "bash", r#"{"command":"echo one"}"#)]),
        Reply::text("It says one."),
        Reply::text("Two lines, yes."),
    ]);
    let output = chat(&home, &server)
        .stdin("What does it say?\n\nAnd if I\\\ngo on?\n")
        .run();
    assert_snapshot!(seen(&output), @r#"
    exit code: 0
    ----- stdout -----
    It says one.
    Two lines, yes.
    ----- stderr -----
    session session-[uuid], with openai/scripted-1; /help lists what there is besides talking
    · bash({"command":"echo one"})
    tokens: 28 in, 10 out, 6 from the cache
    tokens: 14 in, 5 out, 3 from the cache
    "#);
    let asked = said(&server, 2);
    assert!(asked.contains(&"And if I\ngo on?".to_owned()), "{asked:?}");
    let sessions = sessions(&home);
    assert_eq!(sessions.len(), 1);
    assert_eq!(sessions[0]["turns"], 2);
}

#[test]
fn what_begins_with_a_slash_is_for_the_program() {
    let home = TestHome::new();
    let server = ScriptedModelServer::start([Reply::text("Hello.")]);
    let output = chat(&home, &server)
        .stdin("/help\n/nonsense\n/cost\n/undo-turn\nHello?\n/cost\n/model\n/model openai/other\n/model nobody/x\n/switch nobody\n/quit\nNever said.\n")
        .run();
    assert_snapshot!(seen(&output), @r#"
    exit code: 0
    ----- stdout -----
    Hello.
    ----- stderr -----
    session session-[uuid], with openai/scripted-1; /help lists what there is besides talking
      /fork [SEQ]              go on in a fork, at an event or at the last completed turn
      /undo-turn               go on in a fork from before the last turn; this one stays
      /side [PROMPT]           ask on the side: in a fork that explains and may only look
      /merge [NOTE]            bring a note, or the latest answer, from the side session back
      /back                    return from the side session
      /tree                    this session and its relatives
      /switch ID               go on in another session
      /model [PROVIDER/MODEL]  which model is called, or call another
      /compact                 replace the older part, as the model sees it, by a summary
      /cost                    what this session has used
      /help                    this
      /quit                    end; so does Ctrl-D
    a line that ends in \ goes on; Ctrl-C stops the model while it works
    error: there is no /nonsense; /help lists what there is
    nothing has been used yet
    error: there is no turn to undo yet
    tokens: 14 in, 5 out, 3 from the cache
    tokens: 14 in, 5 out, 3 from the cache
    openai/scripted-1
    calls openai/other from now on
    error: provider `nobody` is not configured
    hint: known are: anthropic, deepseek, llama-cpp, ollama, openai, openrouter, vllm; others go into `[home]/config.toml`
    error: session `nobody` was not found in `[home]/sessions`
    hint: `offshoot ls` shows the sessions that are there
    "#);
    assert_eq!(server.requests().len(), 1);
}

#[test]
fn forks_are_gone_on_in_and_the_tree_shows_them() {
    let home = TestHome::new();
    let server = ScriptedModelServer::start([
        Reply::text("One."),
        Reply::text("Two."),
        Reply::text("Two, otherwise."),
        Reply::text("Three."),
    ]);
    let output = chat(&home, &server)
        .stdin("First.\nSecond.\n/undo-turn\nSecond, otherwise.\n/fork\nThird.\n/tree\n/cost\n")
        .run();
    assert_snapshot!(seen(&output), @r#"
    exit code: 0
    ----- stdout -----
    One.
    Two.
    Two, otherwise.
    Three.
    ----- stderr -----
    session session-[uuid], with openai/scripted-1; /help lists what there is besides talking
    tokens: 14 in, 5 out, 3 from the cache
    tokens: 14 in, 5 out, 3 from the cache
    now in session session-[uuid]
    you had said: Second.
    tokens: 14 in, 5 out, 3 from the cache
    now in session session-[uuid]
    tokens: 14 in, 5 out, 3 from the cache
    session-[uuid]  (21 events)  First.
    └─ session-[uuid] @13  (24 events)  First.
       └─ session-[uuid] @23  (34 events)  First.
    tokens: 14 in, 5 out, 3 from the cache
    what was inherited is not counted: it is the parent's
    "#);
    let asked = said(&server, 2);
    assert!(asked.iter().any(|one| one == "First."), "{asked:?}");
    assert!(!asked.iter().any(|one| one == "Second."), "{asked:?}");
    assert_eq!(sessions(&home).len(), 3);
}

#[test]
fn undoing_the_only_turn_begins_anew() {
    let home = TestHome::new();
    let server = ScriptedModelServer::start([Reply::text("One."), Reply::text("Anew.")]);
    let output = chat(&home, &server)
        .stdin("First.\n/undo-turn\nOtherwise.\n")
        .run()
        .success();
    let asked = server.requests()[1].json()["messages"].to_string();
    assert!(asked.contains("Otherwise."), "{output}");
    assert!(!asked.contains("First."), "{asked}");
}

#[test]
fn one_can_switch_to_another_session_and_back() {
    let home = TestHome::new();
    let server = ScriptedModelServer::start([Reply::text("Yes.")]);
    server.repeat_last();
    drop(chat(&home, &server).stdin("Here?\n").run().success());
    let first = sessions(&home)[0]["id"].as_str().unwrap().to_owned();
    let lines = format!("There?\n/switch {first}\nHere again?\n/switch {first}\n");
    drop(chat(&home, &server).stdin(lines).run().success());
    let mut turns: Vec<_> = sessions(&home)
        .iter()
        .map(|one| one["turns"].as_u64().unwrap())
        .collect();
    turns.sort_unstable();
    assert_eq!(turns, [1, 2]);
}

#[test]
fn a_turn_that_fails_is_told_and_the_conversation_goes_on() {
    let home = TestHome::new();
    let server = ScriptedModelServer::start([Reply::unauthorized(), Reply::text("Here I am.")]);
    let output = chat(&home, &server)
        .stdin("Hello?\nHello again?\n")
        .run()
        .replacing(server.base_url(), "[server]");
    assert_snapshot!(seen(&output), @r#"
    exit code: 0
    ----- stdout -----
    Here I am.
    ----- stderr -----
    session session-[uuid], with openai/scripted-1; /help lists what there is besides talking
    error: The API key is not valid. (AUTH)
    hint: provider `openai` is asked at [server], with the key in OPENAI_API_KEY
    tokens: 14 in, 5 out, 3 from the cache
    "#);
}

#[test]
fn a_session_or_a_fork_can_be_gone_on_with() {
    let home = TestHome::new();
    let server = ScriptedModelServer::start([Reply::text("Yes.")]);
    server.repeat_last();
    drop(chat(&home, &server).stdin("Here?\n").run().success());
    let id = sessions(&home)[0]["id"].as_str().unwrap().to_owned();
    drop(
        chat(&home, &server)
            .args(["--session", &id])
            .stdin("More?\n")
            .run()
            .success(),
    );
    drop(
        chat(&home, &server)
            .args(["--fork", &id])
            .stdin("Else?\n")
            .run()
            .success(),
    );
    let requests = server.requests();
    let asked = requests[2].json()["messages"].to_string();
    assert!(
        asked.contains("Here?") && asked.contains("More?"),
        "{asked}"
    );
    assert_eq!(sessions(&home).len(), 2);
}

#[test]
fn it_has_no_json() {
    let home = TestHome::new();
    assert_eq!(run(&home, ["--json", "chat"]).code(), Some(2));
}

#[test]
fn at_a_terminal_lines_are_edited_and_remembered() {
    let home = TestHome::new();
    let server = ScriptedModelServer::start([Reply::text("Hello you."), Reply::text("Again.")]);
    let mut terminal = Terminal::start(&home, &server, "chat");
    terminal.until("> ");
    // Ctrl-U takes back what was typed, and so does Ctrl-C; the arrow up brings the line before; Ctrl-D ends.
    terminal.press("wrong\x15Hello!\r");
    terminal.until("Hello you.");
    terminal.until("> ");
    terminal.press("never said\x03");
    terminal.until("> ");
    terminal.press("\x1b[A\r");
    terminal.until("Again.");
    terminal.until("> ");
    terminal.press("\x04");
    let (code, shown) = terminal.end();
    assert_eq!(code, Some(0), "{shown}");
    let asked: Vec<Vec<String>> = [0, 1].map(|request| said(&server, request)).to_vec();
    assert!(asked[0].contains(&"Hello!".to_owned()), "{asked:?}");
    let times = asked[1].iter().filter(|one| *one == "Hello!").count();
    assert_eq!(times, 2, "{asked:?}");
    assert!(!asked[1].contains(&"never said".to_owned()), "{asked:?}");
    let history = home.user_path().join("cache/chat-history");
    assert!(fs::read_to_string(history).unwrap().contains("Hello!"));
}

#[test]
fn ctrl_c_stops_the_turn_and_not_the_conversation() {
    let home = TestHome::new();
    let (reply, _gate) = Reply::text("One two three four.").stall_after(3);
    let server = ScriptedModelServer::start([reply, Reply::text("Still here.")]);
    let mut terminal = Terminal::start(&home, &server, "chat");
    terminal.until("> ");
    terminal.press("Count.\r");
    terminal.until("One two");
    terminal.press("\x03");
    terminal.until("the turn ended: aborted");
    terminal.until("> ");
    terminal.press("Are you there?\r");
    terminal.until("Still here.");
    terminal.until("> ");
    terminal.press("/quit\r");
    let (code, shown) = terminal.end();
    assert_eq!(code, Some(0), "{shown}");
    assert_eq!(sessions(&home)[0]["status"], "ok");
}

#[test]
fn who_asks_the_program_to_end_stops_what_runs_in_it() {
    let home = TestHome::new();
    let started = Fifo::new(&work(&home), "started");
    let command = r#"{"command":"echo $$ > started; exec sleep 600"}"#;
    for signal in ["-TERM", "-HUP"] {
        let server = ScriptedModelServer::start([Reply::tool_calls([("call_1", "bash", command)])]);
        let (chat, _stdin) = Background::chat(&home, &server, "Wait.\n");
        let pid = started.read();
        chat.signal(signal);
        let (code, _, said) = chat.end();
        assert_eq!(code, Some(130), "{said}");
        assert_eq!(sessions(&home)[0]["status"], "ok", "{said}");
        let lives = Command::new("kill")
            .args(["-0", pid.trim()])
            .output()
            .unwrap();
        assert!(!lives.status.success(), "the command goes on");
    }
}

#[test]
fn who_asks_the_program_to_end_is_heard_while_it_waits() {
    let home = TestHome::new();
    let server = ScriptedModelServer::start([Reply::text("Hello you.")]);
    let (mut chat, _stdin) = Background::chat(&home, &server, "Hello!\n");
    chat.until_said("tokens:");
    chat.signal("-TERM");
    let (code, out, said) = chat.end();
    assert_eq!((code, &*out), (Some(130), "Hello you.\n"), "{said}");
    assert_eq!(sessions(&home)[0]["status"], "ok");
}
