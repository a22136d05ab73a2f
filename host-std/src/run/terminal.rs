//! Terminal of one rank of a run on several nodes. The rank has it on its own node; the head makes the
//! terminal of the user raw meanwhile, and follows its size.

use super::Run;
use crate::link::job_message::TerminalMessage;
use crate::link::message::ToNode;
use crate::stdio::StreamOwner;
use crate::stdio::interrupt_keys::InterruptKeys;
use pmi_host_os::cleanup::guard::Guard;
use pmi_host_os::console::{Console, size};
use pmi_tree::{Destination, NodeId};
use std::io;

/// The rank with a terminal, and the terminal of the user.
#[derive(Debug)]
pub(crate) struct HeadTerminal {
    rank: u32,
    node: NodeId,
    /// Terminal of the user, if standard input is one, until the end of the rank.
    console: Option<Console>,
    keys: InterruptKeys,
    /// Restores the modes of the terminal if the head is killed.
    guard: Option<Guard>,
}

impl HeadTerminal {
    /// The terminal of `rank` on `node`, and that of the user, which `guard` restores.
    pub(crate) fn new(
        (rank, node): (u32, NodeId),
        console: Option<Console>,
        guard: Option<Guard>,
    ) -> Self {
        Self { rank, node, console, keys: InterruptKeys::default(), guard }
    }

    /// Description for the node of the rank.
    pub(crate) fn describe(&self) -> TerminalMessage {
        let size = self.console.as_ref().map_or_else(|| size(None), Console::size);
        TerminalMessage { rank: self.rank, rows: size.ws_row, columns: size.ws_col }
    }

    /// True for the rank with the terminal.
    pub(super) const fn is_of(&self, job: u32, rank: u32) -> bool {
        job == 0 && rank == self.rank
    }

    /// True for the node of the rank.
    pub(super) fn is_on(&self, node: NodeId) -> bool {
        node == self.node
    }

    /// Looks for keys that interrupt the head in input for the rank.
    pub(super) fn check_keys(&mut self, typed: &[u8]) {
        if self.console.is_some() {
            self.keys.check(typed);
        }
    }

    /// True while keys belong to others than the rank: before its start, and while another program has the
    /// terminal.
    pub(super) fn withholds_keys(&self) -> bool {
        self.console.as_ref().is_some_and(|console| !console.is_raw())
    }

    /// The rank for which the terminal of the user is raw.
    fn raw_for(&self) -> Option<StreamOwner> {
        let is_raw = self.console.as_ref().is_some_and(Console::is_raw);
        is_raw.then_some(StreamOwner { group: 0, rank: self.rank })
    }
}

impl Drop for HeadTerminal {
    fn drop(&mut self) {
        self.console = None;
        if let Some(guard) = &self.guard {
            guard.dismiss();
        }
    }
}

/// The rank has started: it gets all keys from now on.
fn begin(run: &mut Run) {
    let Some(terminal) = &mut run.input.terminal else { return };
    if let Some(console) = &mut terminal.console {
        console.enter();
    }
    run.io.outputs.set_raw(terminal.raw_for());
}

/// The rank has started, or the terminal of the user may have another size, or modes of another program.
pub(super) fn follow_changes(run: &mut Run) {
    let Some(terminal) = run.input.terminal.as_ref().filter(|terminal| terminal.console.is_some())
    else {
        return;
    };
    let TerminalMessage { rows, columns, .. } = terminal.describe();
    let (node, is_begun) = (terminal.node, run.nodes.pid((0, terminal.rank)).is_some());
    if is_begun {
        begin(run);
        run.send(Destination::Node(node), ToNode::TerminalSize { rows, columns });
    }
}

/// The output of the rank has ended: restores the terminal of the user, and leaves unread input in place.
pub(super) fn end(run: &mut Run) -> io::Result<()> {
    let Some(terminal) = &mut run.input.terminal else { return Ok(()) };
    // The last output is meant for a terminal that is still that of the rank.
    run.io.outputs.flush(&mut run.poller)?;
    terminal.console = None;
    let node = terminal.node;
    run.io.outputs.set_raw(None);
    run.input.remove(node);
    run.serve_input()
}
