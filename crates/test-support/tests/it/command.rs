use std::panic::catch_unwind;
use std::path::{Path, PathBuf};
use std::time::Duration;

use offshoot_test_support::{OffshootCommand, TestHome};

fn surroundings() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/fixtures/surroundings.sh")
}

#[test]
fn output_shows_code_and_streams_without_temporary_paths() {
    let home = TestHome::new();
    let output = OffshootCommand::new(surroundings(), &home)
        .args(["list", "--all"])
        .arg("x")
        .env("EXTRA", "given")
        .env("CODE", "3")
        .stdin("from stdin\n")
        .run()
        .replacing("given", "[extra]");

    assert_eq!(output.code(), Some(3));
    assert_eq!(
        output.to_string(),
        "exit code: 3\n\
         ----- stdout -----\n\
         args: --home [home] list --all x\n\
         HOME=[user] OPENAI_API_KEY= OFFSHOOT_HOME= EXTRA=[extra]\n\
         from stdin\n\
         ----- stderr -----\n\
         no line end⏎ (no line end)\n"
    );
}

#[tokio::test]
async fn a_command_runs_inside_an_asynchronous_test_too() {
    let home = TestHome::new();
    let output = OffshootCommand::new(surroundings(), &home).run().success();
    assert_eq!(output.stderr, b"no line end");
}

#[test]
fn a_failure_where_success_was_expected_shows_the_output() {
    let home = TestHome::new();
    let output = OffshootCommand::new(surroundings(), &home)
        .env("CODE", "9")
        .run();
    let panic = catch_unwind(|| output.success()).expect_err("it should panic");
    let message = panic.downcast_ref::<String>().unwrap();
    assert!(
        message.starts_with("the command failed:\nexit code: 9\n"),
        "{message}"
    );
}

#[test]
fn a_command_that_does_not_end_is_killed_and_shown() {
    let home = TestHome::new();
    // Waits for a child that waits for its parent's word, which never comes.
    let hangs = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/fixtures/hangs.sh");
    let command = OffshootCommand::new(hangs, &home).timeout(Duration::from_millis(300));
    let panic = catch_unwind(|| command.run()).expect_err("it should panic");
    let message = panic.downcast_ref::<String>().unwrap();
    assert!(
        message.contains("did not end within 300ms:\nstill running\n"),
        "{message}"
    );
}
