//! `cargo xtask torture`: the store's test of killed processes, for as many rounds as one likes.

use std::path::Path;

use anyhow::Result;

use crate::cargo::Cargo;

/// Runs the test. Without a seed it takes one by itself, and prints it.
pub(crate) fn run(root: &Path, rounds: u32, seed: Option<u32>) -> Result<()> {
    let call = call(rounds, seed);
    eprintln!("running `{call}`");
    call.run(root)
}

fn call(rounds: u32, seed: Option<u32>) -> Cargo {
    let mut call = Cargo::new([
        "test",
        "--locked",
        "-p",
        "offshoot-store",
        "--test",
        "it",
        "--",
        "--exact",
        "--nocapture",
        "torture::what_a_killed_process_had_acknowledged_is_there",
    ])
    .env("OFFSHOOT_STORE_TEST_ROUNDS", rounds.to_string());
    if let Some(seed) = seed {
        call = call.env("OFFSHOOT_STORE_TEST_SEED", seed.to_string());
    }
    call
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounds_and_seed_are_handed_to_the_test() {
        let by_hand = "cargo test --locked -p offshoot-store --test it -- --exact --nocapture \
            torture::what_a_killed_process_had_acknowledged_is_there";
        assert_eq!(
            call(5, None).to_string(),
            format!("OFFSHOOT_STORE_TEST_ROUNDS=5 {by_hand}")
        );
        assert_eq!(
            call(5, Some(7)).to_string(),
            format!("OFFSHOOT_STORE_TEST_ROUNDS=5 OFFSHOOT_STORE_TEST_SEED=7 {by_hand}")
        );
    }
}
