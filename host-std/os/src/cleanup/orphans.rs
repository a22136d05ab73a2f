//! Processes that ranks leave behind.
//!
//! A rank is often a script, and terminating the script does not terminate the program it runs. A
//! program may also become a daemon, which detaches from all its ancestors. So the launcher is a
//! "subreaper" from the start: a descendant with a terminated parent becomes a child of the launcher.
//! When a run fails, processes that came from ranks are terminated; when it succeeds, they are left
//! alone.
//!
//! A launcher may have children that it did not start: a shell that becomes one by `exec` passes on its
//! background jobs and process substitutions. They and their descendants are not part of the run, so the
//! processes present at the start are remembered. Their own orphans become children of the launcher too,
//! and are distinguished from those of ranks by the session, by the mark of the run in the environment,
//! or by the control group. A process without any of these marks is spared, for it may be the user's. Where
//! one process serves several runs, those of the others are distinguished in the same way, except by the
//! group, which has all of them in it.

use super::cgroup;
use super::guard_protocol::RUN;
use crate::processes::{self, ProcessIdentity};
use rustix::process::{
    Pid, Signal, WaitOptions, getpid, kill_process, set_child_subreaper, waitpid,
};

/// Finds the processes that ranks leave behind.
#[derive(Debug)]
pub struct Orphans {
    /// Descendants of the launcher before it started any process.
    inherited: Vec<ProcessIdentity>,
    guard: Option<Pid>,
    /// The mark of the run.
    mark: Option<String>,
    /// True if this process serves other runs, too.
    is_shared: bool,
}

impl Orphans {
    /// Remembers the present descendants, and adopts later orphans. Call this before any process is
    /// started.
    pub fn adopt() -> Self {
        // Unsupported by kernels before 3.4; orphans then go to the first process of the system.
        let _ = set_child_subreaper(Some(getpid()));
        let children = processes::children();
        let inherited = match children.is_empty() {
            true => Vec::new(),
            false => {
                let is_child = |one: &processes::Relations| children.contains(&one.id.pid);
                let found = processes::descendants(&processes::all(), is_child, |_| false);
                found.into_iter().map(|one| one.id).collect()
            }
        };
        Self { inherited, guard: None, mark: None, is_shared: false }
    }

    /// Descendants of the launcher before it started any process.
    pub fn inherited(&self) -> &[ProcessIdentity] {
        &self.inherited
    }

    /// Sets the process of the guard, which does not come from a rank, and the mark of the run.
    pub fn set_guard(&mut self, pid: Pid, mark: &str) {
        self.guard = Some(pid);
        self.mark = Some(mark.to_owned());
    }

    /// Spares children that came from other runs of this process.
    #[cfg(any(test, feature = "testing"))]
    pub const fn share(&mut self) {
        self.is_shared = true;
    }

    /// Reaps terminated children, except those for which `is_rank` holds: the launcher waits for these. Ranks
    /// have led the sessions for which `is_session` holds.
    pub fn reap(&self, is_rank: impl Fn(i32) -> bool, is_session: impl Fn(i32) -> bool) {
        for pid in processes::children() {
            let is_waited_for = is_rank(pid) || self.is_guard(pid);
            let is_ours = || !self.is_shared || self.is_of_run(pid, &is_session);
            if let Some(pid) = Pid::from_raw(pid).filter(|_| !is_waited_for && is_ours()) {
                let _ = waitpid(Some(pid), WaitOptions::NOHANG);
            }
        }
    }

    /// True if any process is left that came from a rank; terminated ones are removed first.
    ///
    /// Call this only when no rank runs any more. Ranks have led the sessions for which `is_session`
    /// holds.
    pub fn any_left(&self, is_session: impl Fn(i32) -> bool) -> bool {
        self.reap(|_| false, &is_session);
        self.left(&is_session).next().is_some()
    }

    /// Sends `signal` to all remaining processes that came from ranks; see [`any_left`](Self::any_left).
    pub fn signal(&self, signal: Signal, is_session: impl Fn(i32) -> bool) {
        for pid in self.left(&is_session) {
            // Not reaped yet, so the pid is not reused.
            let _ = kill_process(pid, signal);
        }
    }

    fn left(&self, is_session: &impl Fn(i32) -> bool) -> impl Iterator<Item = Pid> {
        let children = processes::children().into_iter().filter(|pid| !self.is_guard(*pid));
        children.filter(|pid| self.is_of_run(*pid, is_session)).filter_map(Pid::from_raw)
    }

    /// True if a child of the launcher came from a rank.
    fn is_of_run(&self, pid: i32, is_session: &impl Fn(i32) -> bool) -> bool {
        if self.inherited.is_empty() && !self.is_shared {
            return true;
        }
        let Some(relations) = processes::relations(pid) else { return false };
        if self.inherited.contains(&relations.id) {
            return false;
        }
        let mark = self.mark.as_deref();
        let is_marked = || processes::has_entry(pid, &format!("{RUN}={}", mark?));
        // The group has the launcher in it, with whatever it starts, for other runs as well.
        let is_in_group =
            || !self.is_shared && mark.is_some_and(|mark| cgroup::is_of_run(mark, pid));
        // A process can leave a session, but never enter another one. Sessions from outside this PID
        // namespace all have the number 0, and no rank began one of them.
        let is_in_ours = processes::own_session() == relations.session;
        is_session(relations.session) || is_marked() == Some(true) || (!is_in_ours && is_in_group())
    }

    fn is_guard(&self, pid: i32) -> bool {
        self.guard.is_some_and(|guard| guard.as_raw_nonzero().get() == pid)
    }
}
