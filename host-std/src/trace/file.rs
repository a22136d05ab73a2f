//! The trace file, written by a thread of its own: regular files have no readiness, and the event loop
//! never blocks.

use pmi_host_base::user_file;
use pmi_trace::file::write_record;
use pmi_trace::{Content, Record};
use rustix::fs::{Mode, OFlags, fcntl_getfl, fcntl_setfl};
use rustix::io::Errno;
use std::fs::File;
use std::io::{self, Write};
use std::mem;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

/// A trace file that is being written.
///
/// Records are collected here, handed to the thread at the end of a turn of the event loop, and written
/// a few milliseconds later.
#[derive(Debug)]
pub(crate) struct TraceFile {
    path: PathBuf,
    gathered: Vec<u8>,
    gathered_count: u64,
    /// Number of records lost since the last one that was kept.
    lost_count: u64,
    queue: Arc<SharedQueue>,
}

/// Exchange between the event loop and the thread.
#[derive(Debug, Default)]
struct SharedQueue {
    state: Mutex<QueueState>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct QueueState {
    bytes: Vec<u8>,
    /// True while the thread sleeps until it is notified.
    is_idle: bool,
    /// True if no further records follow.
    is_closed: bool,
    /// Set when the thread has exited: all is written, or writing failed.
    outcome: Option<Result<(), io::Error>>,
}

impl TraceFile {
    /// Creates or truncates the file and writes `start`, so that a failure is known before the first
    /// rank starts. Only its owner may read it: values of keys may be secrets.
    ///
    /// # Errors
    ///
    /// A message for the user, with the remedy.
    pub(crate) fn create(path: &Path, start: &[u8]) -> Result<Self, String> {
        let open = || -> io::Result<File> {
            let fd = user_file::open_to_write(path, OFlags::empty(), Mode::RUSR | Mode::WUSR)?;
            user_file::empty_and_close_to_others(&fd)?;
            fcntl_setfl(&fd, fcntl_getfl(&fd)? - OFlags::NONBLOCK)?;
            let mut file = File::from(fd);
            file.write_all(start)?;
            Ok(file)
        };
        let queue = Arc::new(SharedQueue::default());
        let theirs = Arc::clone(&queue);
        let opened = open().and_then(|mut file| {
            let work = move || theirs.write(&mut file);
            thread::Builder::new().name("trace".into()).spawn(work)
        });
        match opened {
            Ok(_) => Ok(Self {
                path: path.into(),
                gathered: Vec::new(),
                gathered_count: 0,
                lost_count: 0,
                queue,
            }),
            Err(error) => Err(cannot_be_written(path, &error)),
        }
    }

    /// Adds one record.
    pub(crate) fn push(&mut self, frame: &[u8]) {
        self.gathered.extend(frame);
        self.gathered_count += 1;
    }

    /// Hands collected records to the thread. Never waits for the disk: records without room are counted
    /// and left out, as of `now_ns`. Returns the cause if writing has stopped.
    pub(crate) fn flush(&mut self, now_ns: u64) -> Option<String> {
        if self.gathered.is_empty() {
            return None;
        }
        let mut state = self.queue.state();
        if let Some(outcome) = state.outcome.take() {
            return outcome.err().map(|error| stopped(&self.path, &error));
        }
        let room = TRAY_MAX.saturating_sub(state.bytes.len());
        if self.gathered.len() > room && !state.bytes.is_empty() {
            self.lost_count += self.gathered_count;
        } else {
            if self.lost_count > 0 {
                write_record(&lost(now_ns, self.lost_count), &mut state.bytes);
                self.lost_count = 0;
            }
            match state.bytes.is_empty() {
                true => mem::swap(&mut state.bytes, &mut self.gathered),
                false => state.bytes.extend(&self.gathered),
            }
        }
        let is_idle = mem::take(&mut state.is_idle);
        drop(state);
        self.gathered.clear();
        self.gathered_count = 0;
        if is_idle {
            self.queue.changed.notify_one();
        }
        None
    }

    /// Waits until all is written, up to a time limit. Returns the failure, if any.
    pub(crate) fn finish(mut self, now_ns: u64) -> Option<String> {
        let trouble = self.flush(now_ns);
        if trouble.is_some() {
            return trouble;
        }
        let mut state = self.queue.state();
        state.is_closed = true;
        self.queue.changed.notify_one();
        let waited =
            self.queue.changed.wait_timeout_while(state, PATIENCE, |state| state.outcome.is_none());
        let (mut state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        match state.outcome.take() {
            Some(outcome) => outcome.err().map(|error| stopped(&self.path, &error)),
            None => Some(stuck(&self.path)),
        }
    }
}

impl SharedQueue {
    fn state(&self) -> MutexGuard<'_, QueueState> {
        // The holder of the lock does not panic; if it did, the data would still be consistent.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Main function of the thread.
    fn write(&self, file: &mut File) {
        let outcome = self.write_until_closed(file);
        self.state().outcome = Some(outcome);
        self.changed.notify_all();
    }

    fn write_until_closed(&self, file: &mut File) -> io::Result<()> {
        let mut bytes = Vec::new();
        loop {
            let mut state = self.state();
            while state.bytes.is_empty() && !state.is_closed {
                state.is_idle = true;
                state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
            }
            if state.bytes.is_empty() {
                return Ok(());
            }
            // Messages come in bursts, and a wakeup for each would slow their senders.
            let waited =
                self.changed.wait_timeout_while(state, GATHERING, |state| !state.is_closed);
            let (mut state, _) = waited.unwrap_or_else(PoisonError::into_inner);
            mem::swap(&mut state.bytes, &mut bytes);
            drop(state);
            file.write_all(&bytes)?;
            bytes.clear();
        }
    }
}

pub(super) fn lost(time_ns: u64, count: u64) -> Record {
    let what = Content::Lost { count };
    Record { time_ns, job: 0, rank: None, session: None, what }
}

fn cannot_be_written(path: &Path, error: &io::Error) -> String {
    let shown = path.display();
    let why = match error.raw_os_error() {
        Some(code) if code == Errno::NXIO.raw_os_error() => {
            "it is a pipe without a reader".to_owned()
        }
        _ => error.to_string(),
    };
    format!("the trace cannot be written to '{shown}' ({why}); specify another file with --trace")
}

fn stopped(path: &Path, error: &io::Error) -> String {
    format!(
        "the trace in '{}' ends here ({error}); its content up to here can be read, and the run \
        continues without it",
        path.display()
    )
}

fn stuck(path: &Path) -> String {
    format!(
        "the trace in '{}' could not be written to its end within {} s; its content up to there \
        can be read",
        path.display(),
        PATIENCE.as_secs()
    )
}

/// Maximum number of bytes that wait for the disk.
const TRAY_MAX: usize = 16 << 20;

/// Time for which messages are collected before a write; a launcher that is killed loses that much.
const GATHERING: Duration = Duration::from_millis(5);

/// Time limit for the disk at the end of the run.
const PATIENCE: Duration = Duration::from_secs(10);

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;

    #[test]
    fn reader_that_does_not_read_blocks_no_rank_and_lost_records_are_counted() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("pipe");
        let made = std::process::Command::new("mkfifo").arg(&path).status().unwrap();
        assert!(made.success());
        // Opened for both directions, which does not wait for the other end.
        let mut pipe = std::fs::OpenOptions::new().read(true).write(true).open(&path).unwrap();
        let mut start = Vec::new();
        pmi_trace::file::write_head(&pmi_trace::Head::default(), &mut start);
        let mut file = TraceFile::create(&path, &start).unwrap();
        let mut frame = Vec::new();
        let what = Content::Report { text: "x".repeat(1000) };
        write_record(
            &Record::<Vec<u8>> { time_ns: 1, job: 0, rank: None, session: None, what },
            &mut frame,
        );
        // The pipe, the thread and the tray together have room for less than four trays. The thread may take
        // its part at any time, which makes room again.
        let mut pushed = 0;
        while file.lost_count == 0 {
            assert!(
                pushed < 8 * TRAY_MAX / frame.len(),
                "a record was neither written nor counted"
            );
            file.push(&frame);
            if pushed % 64 == 0 {
                assert_eq!(file.flush(2), None);
            }
            pushed += 1;
        }
        let reading = thread::spawn(move || {
            let mut all = Vec::new();
            let mut piece = vec![0; 1 << 16];
            // The last record has the number of missing ones, and a pipe that is open on both sides has
            // no end.
            while !all.ends_with(b"end of the test") {
                let len = pipe.read(&mut piece).unwrap();
                all.extend(&piece[..len]);
            }
            // The pipe is kept open: a writer without a reader would fail.
            (all, pipe)
        });
        // Once the reader has made room, the loss is recorded at its place.
        thread::sleep(Duration::from_millis(200));
        frame.clear();
        let what = Content::Report { text: "end of the test".into() };
        write_record(
            &Record::<Vec<u8>> { time_ns: 3, job: 0, rank: None, session: None, what },
            &mut frame,
        );
        while file.lost_count > 0 {
            file.push(&frame);
            assert_eq!(file.flush(3), None);
            thread::sleep(Duration::from_millis(20));
        }
        assert_eq!(file.finish(4), None);
        let (all, _pipe) = reading.join().unwrap();
        let read = pmi_trace::file::read(&all).unwrap();
        assert_eq!(read.damage, None);
        let (mut kept, mut lost) = (0, 0);
        for record in &read.trace.records {
            match record.what {
                Content::Lost { count } => lost += count,
                _ if record.time_ns == 1 => kept += 1,
                _ => {}
            }
        }
        assert!(
            lost > 0 && kept + lost >= u64::try_from(pushed).unwrap(),
            "{kept} and {lost} of {pushed}"
        );
    }
}
