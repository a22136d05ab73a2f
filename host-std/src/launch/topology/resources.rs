//! What a node offers to ranks.

use super::binding;
use std::cell::OnceCell;
use std::thread::available_parallelism;

/// What this process may use: each fact is read when it is first needed, and once.
#[derive(Debug, Default)]
pub(crate) struct OwnResources {
    allowed: OnceCell<Vec<u32>>,
    parallelism: OnceCell<usize>,
}

impl OwnResources {
    /// Processors, in ascending order; none if the system does not list them.
    pub(crate) fn allowed(&self) -> &[u32] {
        self.allowed.get_or_init(|| binding::allowed().unwrap_or_default())
    }

    /// As many of the processors as the control group grants at the same time.
    pub(crate) fn granted(&self) -> &[u32] {
        let allowed = self.allowed();
        &allowed[..self.parallelism().min(allowed.len())]
    }

    /// It is read from files of the control group.
    fn parallelism(&self) -> usize {
        let read = || available_parallelism().map_or(self.allowed().len(), usize::from);
        *self.parallelism.get_or_init(read)
    }
}
