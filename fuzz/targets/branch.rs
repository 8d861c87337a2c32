//! See [`offshoot_fuzz::branch`].
#![cfg_attr(fuzzing, no_main)]

#[cfg(fuzzing)]
libfuzzer_sys::fuzz_target!(|bytes: &[u8]| offshoot_fuzz::branch(bytes));

#[cfg(not(fuzzing))]
fn main() -> std::io::Result<()> {
    offshoot_fuzz::replay(offshoot_fuzz::branch)
}
