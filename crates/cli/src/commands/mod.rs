//! The commands. Each takes its arguments and the home, and writes to the output it is given.

pub(crate) mod chat;
pub(crate) mod check;
pub(crate) mod compact;
pub(crate) mod config;
pub(crate) mod convert;
pub(crate) mod demo;
pub(crate) mod du;
pub(crate) mod export;
pub(crate) mod follow;
pub(crate) mod fork;
pub(crate) mod gc;
pub(crate) mod ls;
pub(crate) mod merge;
pub(crate) mod models;
pub(crate) mod promote;
pub(crate) mod record;
pub(crate) mod replay;
pub(crate) mod restore;
pub(crate) mod rm;
pub(crate) mod run;
pub(crate) mod salvage;
pub(crate) mod show;
pub(crate) mod side;
