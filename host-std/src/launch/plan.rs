//! Who runs where, decided before anything runs.

use crate::cli::config::{Config, Program};

/// A job that can be started: which ranks, which program, which place.
#[derive(Clone, Debug)]
pub struct Plan {
    /// How many ranks the job has.
    pub ranks: u32,
    /// What every rank runs.
    pub program: Program,
    /// The name of the node all ranks run on.
    pub host: String,
    /// The name of the job's key-value space.
    pub kvsname: String,
}

impl Plan {
    /// Places all ranks of `config` on this node. `pid` keeps the names of two jobs on one node apart.
    pub fn new(config: Config, pid: u32) -> Self {
        let Config { ranks, program, host } = config;
        Self { ranks, program, host, kvsname: format!("kvs_{pid}_0") }
    }

    /// The program's name for messages.
    pub fn program_name(&self) -> String {
        self.program.name.display().to_string()
    }
}
