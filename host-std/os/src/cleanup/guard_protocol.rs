//! What a launcher tells its guard: by the command line with which it starts, and by records in a pipe.

use crate::processes::ProcessIdentity;
use std::ffi::CStr;

/// Variable that marks processes of a run.
pub const RUN: &str = "PMI_RUN_MARK";

/// Process of the launcher of the run with this mark.
pub(super) fn launcher_of(mark: &str) -> Option<i32> {
    mark.split('.').next()?.parse().ok()
}

/// The command word of the guard; only a launcher starts it.
pub const GUARD: &str = "guard";

/// Name of the process, as `ps -o comm` and `killall` know it.
pub(crate) const NAME: &CStr = c"pmi-guard";

/// Processes that a guard terminates.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Guarded {
    /// Ranks of a launcher.
    #[default]
    Ranks,
    /// Ranks of a node server, whose standard error leads to its starter: the guard watches that, too.
    NodeRanks,
    /// Starters, with what is left in their sessions. A process in another one, such as the connection
    /// that `ssh` shares with later ones, outlives every run.
    Starters,
}

/// Report of the launcher to the guard. A record ends with a NUL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum GuardRecord<'a> {
    /// A rank or starter is about to be started, with others of its batch; its end of a socket pair or
    /// pipe has this inode number.
    Starting(u64),
    /// A rank or starter was started with this process.
    Started(i32),
    /// The processes of the batch were reported.
    BatchStarted,
    /// This one has terminated, and no process of its group is left.
    Ended(i32),
    /// A file to remove if the launcher cannot do it.
    File(&'a [u8]),
    /// A directory to remove after the last process, with everything in it.
    Directory(&'a [u8]),
    /// The run is over; nothing is to be terminated.
    Goodbye,
}

impl Guarded {
    /// Reads the word of a command line.
    pub(crate) fn parse(word: &str) -> Self {
        let all = [Self::Ranks, Self::NodeRanks, Self::Starters];
        all.into_iter().find(|guarded| guarded.word() == word).unwrap_or_default()
    }

    /// The word of a command line.
    pub(super) const fn word(self) -> &'static str {
        match self {
            Self::Ranks => "ranks",
            Self::NodeRanks => "node-ranks",
            Self::Starters => "starters",
        }
    }
}

impl<'a> GuardRecord<'a> {
    /// Parses a record without its NUL.
    pub(crate) fn parse(bytes: &'a [u8]) -> Option<Self> {
        let (kind, rest) = bytes.split_first()?;
        let pid = || std::str::from_utf8(rest).ok()?.parse().ok();
        match kind {
            b'*' => std::str::from_utf8(rest).ok()?.parse().ok().map(Self::Starting),
            b'+' => pid().map(Self::Started),
            b'=' if rest.is_empty() => Some(Self::BatchStarted),
            b'-' => pid().map(Self::Ended),
            b'@' => Some(Self::File(rest)),
            b'/' => Some(Self::Directory(rest)),
            b'.' => Some(Self::Goodbye),
            _ => None,
        }
    }

    /// Records in front of the start of a batch whose ranks have sockets with these inode numbers.
    pub(crate) fn starting(inodes: impl Iterator<Item = u64>) -> Vec<u8> {
        inodes.flat_map(|inode| Self::Starting(inode).bytes()).collect()
    }

    /// Records behind the start of a batch with these processes.
    pub(crate) fn started(ranks: impl Iterator<Item = i32>) -> Vec<u8> {
        ranks.map(Self::Started).chain([Self::BatchStarted]).flat_map(Self::bytes).collect()
    }

    /// The record with its NUL.
    pub(super) fn bytes(self) -> Vec<u8> {
        match self {
            Self::Starting(inode) => format!("*{inode}\0").into_bytes(),
            Self::Started(pid) => format!("+{pid}\0").into_bytes(),
            Self::BatchStarted => b"=\0".to_vec(),
            Self::Ended(pid) => format!("-{pid}\0").into_bytes(),
            Self::File(path) => [b"@", path, b"\0"].concat(),
            Self::Directory(path) => [b"/", path, b"\0"].concat(),
            Self::Goodbye => b".\0".to_vec(),
        }
    }
}

/// Encodes inherited processes of the launcher for the guard's command line.
pub(super) fn inherited_words(inherited: &[ProcessIdentity]) -> String {
    inherited.iter().map(|process| format!("{}:{},", process.pid, process.start)).collect()
}

/// Decodes one of them.
pub(super) fn identity(word: &str) -> Option<ProcessIdentity> {
    let (pid, start) = word.split_once(':')?;
    Some(ProcessIdentity { pid: pid.parse().ok()?, start: start.parse().ok()? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_are_read_as_they_were_written() {
        for record in [
            GuardRecord::Starting(7),
            GuardRecord::Started(7),
            GuardRecord::BatchStarted,
            GuardRecord::Ended(7),
            GuardRecord::File(b"/a b"),
            GuardRecord::Directory(b"/a b"),
            GuardRecord::Goodbye,
        ] {
            let bytes = record.bytes();
            assert_eq!(GuardRecord::parse(bytes.strip_suffix(&[0]).unwrap()), Some(record));
        }
        assert_eq!([&b""[..], b"+", b"+x", b"*", b"=1", b"?"].map(GuardRecord::parse), [None; 6]);
    }

    #[test]
    fn identities_are_read_as_they_were_written() {
        let all = [ProcessIdentity { pid: 7, start: 99 }, ProcessIdentity { pid: 8, start: 1 }];
        let words = inherited_words(&all);
        assert_eq!(words.split_terminator(',').filter_map(identity).collect::<Vec<_>>(), all);
        assert_eq!(inherited_words(&[]), "");
    }
}
