//! Where output goes, as the loop sees it.

use super::outlet::Outlet;
use super::target::Target;
use crate::server::ready::{Interest, Poller, Token};
use std::io;
use std::path::PathBuf;

/// An outlet and what became of it.
#[derive(Debug)]
pub struct Place {
    /// What goes there.
    pub outlet: Outlet,
    /// Its name, for a file.
    pub file: Option<PathBuf>,
    /// How many pipes lead or will lead here, for a file.
    pub uses: usize,
    /// A person looks at it.
    pub is_terminal: bool,
    /// The poller tells when it takes more.
    pub is_watched: bool,
    /// Pipes that lead here are not watched.
    pub is_held_up: bool,
    /// Its reader has gone.
    pub is_closed: bool,
    /// It cannot be written to, and that was said.
    pub failure_said: bool,
}

impl Place {
    /// A place for our own streams.
    pub fn new(target: Target) -> Self {
        Self {
            is_terminal: target.is_terminal(),
            outlet: Outlet::new(target),
            file: None,
            uses: 0,
            is_watched: false,
            is_held_up: false,
            is_closed: false,
            failure_said: false,
        }
    }

    /// Lets the poller tell when it takes more, or not.
    ///
    /// Errors: those of the system.
    pub fn watch(&mut self, number: u32, watch: bool, poller: &Poller) -> io::Result<()> {
        if watch == self.is_watched {
            return Ok(());
        }
        self.is_watched = watch;
        match watch {
            true => poller.add(Token::Outlet(number), self.outlet.source(), Interest::Write),
            false => poller.remove(Token::Outlet(number), self.outlet.source()),
        }
    }
}
