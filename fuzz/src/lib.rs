//! What must be true of the session format whatever bytes it is given, as functions of any bytes.
//!
//! Each function is the body of a libFuzzer target (`targets/`, run by `cargo xtask fuzz`) and of bounded tests on a stable
//! toolchain (`tests/it`). A body that returns has found nothing; it panics where an invariant does not hold. It asserts
//! what a reader or a writer relies on, not only that nothing panics.
//!
//! What this crate is not: it has no code that ships, and no expected outputs. What a certain file means is said by the
//! tests of `offshoot-format`.
//!
//! Built without libFuzzer, a target runs the files that it is given: `cargo run -p offshoot-fuzz --bin fuzz-row -- FILE`
//! repeats a finding under a debugger.
//!
//! ```
//! offshoot_fuzz::row(br#"{"type":"turn/start","seq":0,"time":1,"data":{"turn":1}}"#);
//! ```

mod branch;
mod chain;
mod check;
mod choices;
mod closers;
mod files;
mod frames;
mod header;
mod row;
mod salvage;
mod script;

use std::fs;
use std::io;

pub use branch::branch;
pub use chain::chain;
pub use closers::closers;
pub use frames::frames;
pub use header::header;
pub use row::row;
pub use salvage::salvage;

/// A target: its name and its body.
pub type Target = (&'static str, fn(&[u8]));

/// Every target.
pub const TARGETS: [Target; 7] = [
    ("branch", branch),
    ("chain", chain),
    ("closers", closers),
    ("frames", frames),
    ("header", header),
    ("row", row),
    ("salvage", salvage),
];

/// Runs a body on the files that this process was given.
///
/// # Errors
/// A file that cannot be read.
pub fn replay(body: fn(&[u8])) -> io::Result<()> {
    for path in std::env::args_os().skip(1) {
        body(&fs::read(path)?);
    }
    Ok(())
}
