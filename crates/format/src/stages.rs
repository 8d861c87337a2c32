//! The adjacent migrations, one module each (`reference/persistence.md` §2.3–§2.6).

mod messages;
mod restart;
#[cfg(test)]
mod tests;
mod v0_to_v1;
mod v1_to_v2;
mod v2_to_v3;
mod v3_to_v4;

pub(crate) use v0_to_v1::V0ToV1;
pub(crate) use v1_to_v2::V1ToV2;
pub(crate) use v2_to_v3::{V2ToV3, migrate_preset};
pub(crate) use v3_to_v4::V3ToV4;
