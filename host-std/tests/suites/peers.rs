//! Programs and launchers of others.

#[path = "../common/mod.rs"]
mod common;

#[path = "../abi.rs"]
mod abi;
#[path = "../intel.rs"]
mod intel;
#[path = "../mpi.rs"]
mod mpi;
#[path = "../mpich.rs"]
mod mpich;
#[path = "../munge.rs"]
mod munge;
#[path = "../openmpi.rs"]
mod openmpi;
#[path = "../peer_options.rs"]
mod peer_options;
#[path = "../personalities.rs"]
mod personalities;
#[path = "../python.rs"]
mod python;
#[path = "../slurm.rs"]
mod slurm;
#[path = "../switching.rs"]
mod switching;
