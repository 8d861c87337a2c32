//! The binary as a person uses it, and the recording that it brings.

mod recording;
