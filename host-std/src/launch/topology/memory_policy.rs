//! Memory domains of a rank, by the policy that a process inherits.
//!
//! As with processors, the launcher takes on the policy of the rank, starts it, and restores its own. The
//! system keeps a policy for each thread, so threads that start ranks do not disturb each other.

use nix::libc::{self, c_int, c_long, c_ulong};
use pmi_host_base::ranges::ranges;
use rustix::io::Errno;
use std::io;
use std::ptr;

/// Memory of a rank.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct MemoryPolicy {
    /// What the domains are used for.
    pub(crate) mode: MemoryMode,
    /// Numbers of the domains.
    pub(crate) domains: Vec<u32>,
}

/// Use of memory domains.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum MemoryMode {
    /// Memory comes from them alone.
    Bind,
    /// It comes from others when they are full. A system that refuses it does without.
    Preferred,
    /// Pages come from one after the other.
    Interleave,
}

impl MemoryPolicy {
    /// Calls `start` while this thread has the policy.
    ///
    /// # Errors
    ///
    /// Those of `start`, and a sentence about the refusal of the system; nothing was started then.
    pub(crate) fn during<T>(&self, start: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
        let (ours, taken) = match ThreadPolicy::current() {
            Ok(ours) => (Some(ours), self.take_on()),
            Err(error) => (None, Err(error)),
        };
        if let (Err(error), true) = (taken, self.mode != MemoryMode::Preferred) {
            return Err(self.refused(error));
        }
        let started = start();
        if let Some(ours) = ours {
            // As of processors: the rank has started all the same.
            let _ = ours.set();
        }
        started
    }

    fn take_on(&self) -> Result<(), Errno> {
        let domains = |mode, domains: &[u32]| ThreadPolicy { mode, domains: mask(domains)? }.set();
        match self.mode {
            MemoryMode::Bind => domains(libc::MPOL_BIND, &self.domains),
            MemoryMode::Interleave => domains(libc::MPOL_INTERLEAVE, &self.domains),
            // Linux before 5.15 prefers one domain only.
            MemoryMode::Preferred => domains(PREFERRED_MANY, &self.domains).or_else(|_| {
                domains(libc::MPOL_PREFERRED, self.domains.get(..1).unwrap_or_default())
            }),
        }
    }

    fn refused(&self, error: Errno) -> io::Error {
        let domains = ranges(&self.domains, ",");
        io::Error::other(format!(
            "the system refuses memory domains {domains} ({error}); '--mem-bind preferred' does without, and \
             '--mem-bind none' leaves memory to the system"
        ))
    }
}

/// Policy of a thread, as the system has it.
struct ThreadPolicy {
    mode: c_int,
    domains: [c_ulong; WORDS],
}

impl ThreadPolicy {
    #[allow(unsafe_code, reason = "the C library has no function for this call")]
    fn current() -> Result<Self, Errno> {
        let mut policy = Self { mode: 0, domains: [0; WORDS] };
        let nowhere = ptr::null_mut::<libc::c_void>();
        let flags: c_ulong = 0;
        // SAFETY: the system writes a number, and no more bits than are passed to it.
        let result: c_long = unsafe {
            let (mode, domains) = (ptr::from_mut(&mut policy.mode), policy.domains.as_mut_ptr());
            libc::syscall(libc::SYS_get_mempolicy, mode, domains, BITS, nowhere, flags)
        };
        if result == 0 { Ok(policy) } else { Err(last_error()) }
    }

    #[allow(unsafe_code, reason = "the C library has no function for this call")]
    fn set(&self) -> Result<(), Errno> {
        // SAFETY: the system reads no more bits than are passed to it.
        let result: c_long = unsafe {
            libc::syscall(libc::SYS_set_mempolicy, self.mode, self.domains.as_ptr(), BITS)
        };
        if result == 0 { Ok(()) } else { Err(last_error()) }
    }
}

fn last_error() -> Errno {
    Errno::from_io_error(&io::Error::last_os_error()).unwrap_or(Errno::INVAL)
}

/// Bits of the domains. A number that no system has is refused as the system would.
fn mask(domains: &[u32]) -> Result<[c_ulong; WORDS], Errno> {
    let mut mask = [0; WORDS];
    for domain in domains {
        let word = usize::try_from(domain / c_ulong::BITS).ok();
        let word = word.and_then(|at| mask.get_mut(at)).ok_or(Errno::INVAL)?;
        *word |= 1 << (domain % c_ulong::BITS);
    }
    Ok(mask)
}

/// Policy of Linux 5.15 for which the C library has no name.
const PREFERRED_MANY: c_int = 5;

/// Words of a set of domains: Linux can have 1024 of them, and refuses to write to less.
const WORDS: usize = 1024 / c_ulong::BITS as usize;

/// Bits of a set of domains; Linux reads one less than is passed to it.
const BITS: c_ulong = 1025;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn policy_holds_during_a_start_and_is_restored() {
        let policy = MemoryPolicy { mode: MemoryMode::Bind, domains: vec![0] };
        let Ok(before) = ThreadPolicy::current() else { return };
        let inside = policy.during(|| Ok(ThreadPolicy::current()?)).unwrap();
        assert_eq!((inside.mode, inside.domains[0]), (libc::MPOL_BIND, 1));
        let after = ThreadPolicy::current().unwrap();
        assert_eq!((after.mode, after.domains), (before.mode, before.domains));
    }

    #[test]
    fn domain_that_is_not_there_is_refused_unless_it_is_preferred() {
        let of = |mode, domain| MemoryPolicy { mode, domains: vec![domain] }.during(|| Ok(()));
        for domain in [1000, 5000] {
            for mode in [MemoryMode::Bind, MemoryMode::Interleave] {
                let error = of(mode, domain).unwrap_err().to_string();
                assert!(
                    error.starts_with(&format!("the system refuses memory domains {domain} ("))
                );
            }
            assert!(of(MemoryMode::Preferred, domain).is_ok());
        }
    }
}
