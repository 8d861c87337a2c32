//! What the commands of scenarios take.

use std::path::PathBuf;

use clap::Args;

#[derive(Debug, Args)]
pub(crate) struct Replay {
    /// Folders of scenarios, or folders that hold such folders
    #[arg(value_name = "DIR", required = true)]
    pub(crate) dirs: Vec<PathBuf>,

    /// Write down what comes of them as what is expected from now on, if nothing else is wrong
    #[arg(long)]
    pub(crate) refresh: bool,

    /// Keep the homes and workspaces that they ran in below this directory, which has to be empty or not there
    #[arg(long, value_name = "DIR")]
    pub(crate) keep: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct Record {
    /// The folder of a scenario: its scenario.toml says what is done and which model is called
    #[arg(value_name = "DIR")]
    pub(crate) dir: PathBuf,

    /// Replace what was recorded before
    #[arg(long)]
    pub(crate) replace: bool,
}

#[derive(Debug, Args)]
pub(crate) struct ReplayStage {
    /// What the part before has left
    pub(crate) state: PathBuf,
}
