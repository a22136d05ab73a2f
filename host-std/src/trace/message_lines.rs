//! Messages as lines for users, while they pass.

use super::TraceSource;
use pmi_trace::Direction;
use pmi_trace::describe::describe;

/// Lines not yet taken.
#[derive(Debug, Default)]
pub(super) struct MessageLines {
    lines: Vec<String>,
    /// Number of lines taken since the reader last had everything.
    unread_count: usize,
    /// Number of lines without room.
    lost_count: u64,
}

impl MessageLines {
    /// Adds a message.
    pub(super) fn push(&mut self, subject: TraceSource, direction: Direction, bytes: &[u8]) {
        if self.unread_count + self.lines.len() >= UNREAD_MAX {
            self.lost_count += 1;
            return;
        }
        let rank = subject.rank.map_or("a caller".to_owned(), |rank| format!("rank {rank}"));
        let job = if subject.job == 0 { String::new() } else { format!(" of job {}", subject.job) };
        let arrow = if direction == Direction::ToServer { '→' } else { '←' };
        let meaning = describe(direction, bytes);
        self.lines.push(format!("{rank}{job} {arrow} {}", meaning.line(VALUE_MAX)));
    }

    /// Returns the waiting lines. While the reader has not taken everything, up to `UNREAD_MAX` lines
    /// are kept for it; the number of dropped ones follows when it has.
    pub(super) fn drain(&mut self, is_read: bool) -> Vec<String> {
        let mut lines = std::mem::take(&mut self.lines);
        if is_read {
            self.unread_count = 0;
            let lost_count = std::mem::take(&mut self.lost_count);
            if lost_count > 0 {
                lines.push(format!("{lost_count} messages passed faster than they were read"));
            }
        }
        self.unread_count += lines.len();
        lines
    }
}

/// Maximum number of shown characters of a value.
const VALUE_MAX: usize = 48;

/// Maximum number of lines kept for a slow reader.
const UNREAD_MAX: usize = 4096;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn message_is_a_line_with_its_rank_and_its_direction() {
        let mut shown = MessageLines::default();
        shown.push(
            TraceSource::rank(0, 3),
            Direction::ToServer,
            b"cmd=put kvsname=k key=a value=b\n",
        );
        shown.push(TraceSource::rank(2, 0), Direction::ToClient, b"cmd=put_result rc=0\n");
        let lines = shown.drain(true);
        assert!(lines[0].starts_with("rank 3 → put "), "{lines:?}");
        assert!(lines[0].contains("key=a value=b"), "{lines:?}");
        assert_eq!(lines[1], "rank 0 of job 2 ← put rc=0");
        assert_eq!(shown.drain(true), [""; 0]);
    }

    #[test]
    fn reader_that_is_slow_loses_messages_and_learns_how_many() {
        let mut shown = MessageLines::default();
        let pass = |shown: &mut MessageLines, count: usize| {
            for _ in 0..count {
                shown.push(TraceSource::rank(0, 0), Direction::ToServer, b"cmd=get_maxes\n");
            }
        };
        pass(&mut shown, UNREAD_MAX);
        assert_eq!(shown.drain(false).len(), UNREAD_MAX);
        pass(&mut shown, 7);
        assert_eq!(shown.drain(false), [""; 0]);
        assert_eq!(shown.drain(true), ["7 messages passed faster than they were read"]);
        pass(&mut shown, 1);
        assert_eq!(shown.drain(true).len(), 1);
    }
}
