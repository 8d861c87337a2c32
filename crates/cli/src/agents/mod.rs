//! The agents of the program: what answers in them, what they work with, and those that they hand work to.
//!
//! - [`Called`] is what answers: a configured model, or a recording.
//! - [`Parts`] is everything else that agents of one directory are made of.
//! - [`Children`] are the sessions that they hand work to. Every agent of a person's session gets its parts from there, so that
//!   all of them have the same tools.

mod called;
mod children;
mod parts;
mod warnings;

pub(crate) use self::called::{Called, model_of};
pub(crate) use self::children::{Answers, Around, Children, UsedBelow};
pub(crate) use self::parts::Parts;
pub(crate) use self::warnings::{warn_of_home_in_reach, warn_of_kernel};
