//! What the help says.

use std::process::Command;

use insta::assert_snapshot;
use offshoot_test_support::TestHome;

use crate::support::{BINARY, run, seen};

#[test]
fn without_a_command_the_help_is_shown() {
    let home = TestHome::new();
    let output = Command::new(BINARY).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert_eq!(output.stderr, run(&home, ["--help"]).success().stdout);
    assert_snapshot!(seen(&run(&home, ["--help"])), @r#"
    exit code: 0
    ----- stdout -----
    An agent harness whose conversations are event logs: fork them at any event, repair them after a
    crash, replay them without a key

    Usage: offshoot [OPTIONS] <COMMAND>

    Commands:
      demo     See it work on a recorded conversation: no key, no network, a temporary home
      run      Run one turn, in a new session, in one that is there, or in a fork of one
      chat     Talk with the model, line by line
      compact  Replace older history, as the model sees it, by a summary; the log keeps all of it
      models   List the models that can be called, and say of the others what they take
      config   Show what is configured, and where each setting comes from
      ls       List the sessions
      show     Show a session: its events, the messages the model sees, or a request as it was sent
      fork     Branch a session off at an event; the source is only read
      side     Ask on the side, in a fork that explains and may only look; the session itself goes on
      merge    Bring a note from a side session back to the session that it was forked from
      promote  Make an ordinary session of a side session: from then on it may act
      record   Do the steps of a scenario with its model, and write down what comes of it
      replay   Run recorded scenarios again, without a key, and say whether they come to the same
      check    Say whether session files are sound, and if not, what is wrong and where; never writes
      export   Write a session as one self-contained file of the current format, to carry it elsewhere
      convert  Write a session file of an older format version as one of the current version, beside it
      salvage  Make a new session of the sound beginning of a damaged file, and say what is lost
      rm       Delete sessions: they go to the trash, and their forks stay
      restore  Bring a deleted session back, or list those that can be brought back
      gc       Remove for good what was deleted long ago, and what nothing uses any more
      du       Show how much room sessions take
      help     Print this message or the help of the given subcommand(s)

    Options:
      -h, --help     Print help
      -V, --version  Print version

    Everywhere:
          --home <DIR>      The home directory with sessions and configuration [default: $OFFSHOOT_HOME,
                            else ~/.offshoot]
          --json            Print JSON instead of text
          --unsafe-no-lock  Write also where the file system has no locks. UNSAFE: nothing then keeps
                            two programs from writing to one session, which destroys it. Only for a home
                            that nothing else uses at the same time

    New here? `offshoot demo` shows what it is about, without a key.
    ----- stderr -----
    "#);
}

#[test]
fn the_commands_for_old_and_damaged_files_say_what_they_do() {
    let home = TestHome::new();
    let mut all = String::new();
    for command in ["check", "convert", "salvage"] {
        let help = run(&home, [command, "--help"]).success().stdout_text();
        all.push_str(help.split("\nEverywhere:").next().unwrap());
        all.push('\n');
    }
    assert_snapshot!(all, @r"
    Say whether session files are sound, and if not, what is wrong and where; never writes

    Usage: offshoot check [OPTIONS] [ID|FILE]...

    Arguments:
      [ID|FILE]...  Ids or session files [default: every session of the home]

    Options:
          --deep  Also compare every answer with the stream that it came in
      -h, --help  Print help

    Write a session file of an older format version as one of the current version, beside it

    Usage: offshoot convert [OPTIONS] <FILE>

    Arguments:
      <FILE>  The session file, or a session's id; it is only read

    Options:
          --to <DIR>  The directory for the new file [default: that of the old one]
      -h, --help      Print help

    Make a new session of the sound beginning of a damaged file, and say what is lost

    Usage: offshoot salvage [OPTIONS] --to <HOME> <FILE>

    Arguments:
      <FILE>  The session file, or a session's id; it is only read

    Options:
          --to <HOME>  The home that the new session goes to
      -h, --help       Print help
    ");
}
