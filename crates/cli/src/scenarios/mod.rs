//! Scenarios with the agents of this program: what they are made of, and where they run.
//!
//! A scenario runs in a home and a directory of its own, with the settings that it brings and no others. Only who records one
//! calls a model; where that is and with which key is what the person has configured.

mod place;
mod wiring;

pub(crate) use self::place::{Room, find};
pub(crate) use self::wiring::Program;
