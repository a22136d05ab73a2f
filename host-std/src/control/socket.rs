//! Status socket of this launcher, served by the event loop.
//!
//! Writes never block: an answer is written as far as the client reads it, and clients that exceed their
//! time limit are disconnected. A few clients are served at once; the others wait in the backlog. All
//! clients that connect within a moment get the same answer, so frequent queries cost little more than a
//! single one.

use pmi_host_os::admission::gate::LocalGate;
use pmi_host_os::poller::{Interest, Poller, Token};
use pmi_host_os::runtime_dir;
use std::fs;
use std::io::{self, ErrorKind, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::{Duration, Instant};

/// Status socket of this launcher.
#[derive(Debug)]
pub(crate) struct StatusSocket {
    socket: LocalGate,
    path: PathBuf,
    clients: [Option<StatusClient>; CLIENTS_MAX],
    answer: Option<(Instant, Rc<[u8]>)>,
    /// Accepting is paused until then, or until a client has disconnected.
    paused_until: Option<Instant>,
}

/// A client that has not received its complete answer.
#[derive(Debug)]
struct StatusClient {
    stream: UnixStream,
    answer: Rc<[u8]>,
    sent_bytes: usize,
    hang_up_at: Instant,
}

impl StatusSocket {
    /// Binds a socket in the first directory that allows it and adds it to the poller. Stale sockets of
    /// other launchers in that directory are removed.
    ///
    /// # Errors
    ///
    /// Those of the last directory.
    pub(crate) fn open(poller: &Poller) -> io::Result<Self> {
        runtime_dir::create_in_first(|directory| Self::open_in(directory, poller))
    }

    fn open_in(directory: &Path, poller: &Poller) -> io::Result<Self> {
        runtime_dir::prepare(directory)?;
        runtime_dir::sweep(directory);
        let path = directory.join(runtime_dir::name(std::process::id()));
        // Renamed to its final name only after `listen`: a socket without a listener looks stale.
        let fresh = path.with_extension(runtime_dir::FRESH);
        let socket = LocalGate::open(&fresh)?;
        let ready = poller
            .add(Token::StatusSocket, &socket, Interest::Read)
            .and_then(|()| fs::rename(&fresh, &path));
        if let Err(error) = ready {
            let _ = fs::remove_file(&fresh);
            return Err(error);
        }
        let clients = [const { None }; CLIENTS_MAX];
        Ok(Self { socket, path, clients, answer: None, paused_until: None })
    }

    /// Path of the socket.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// True if clients in the backlog need a new answer; see [`set_answer`](Self::set_answer).
    pub(crate) fn wants_answer(&self, now: Instant) -> bool {
        self.answer.as_ref().is_none_or(|(made, _)| now - *made >= FRESH_FOR)
    }

    /// Sets the answer for clients that connect within the next moment.
    pub(crate) fn set_answer(&mut self, now: Instant, answer: Vec<u8>) {
        self.answer = Some((now, answer.into()));
    }

    /// Accepts clients from the backlog while slots are free.
    pub(crate) fn accept(&mut self, now: Instant, poller: &Poller) -> io::Result<()> {
        let Some((_, answer)) = self.answer.clone() else { return Ok(()) };
        while let Some(place) = self.clients.iter().position(Option::is_none) {
            match self.socket.accept() {
                Ok(Some(stream)) => {
                    let (answer, hang_up_at) = (Rc::clone(&answer), now + PATIENCE);
                    let client = StatusClient { stream, answer, sent_bytes: 0, hang_up_at };
                    self.begin(place, client, poller)?;
                }
                Ok(None) => return Ok(()),
                // A temporary lack of resources, for example of descriptors.
                Err(_) => return self.pause(now + PAUSE, poller),
            }
        }
        self.pause(now + PATIENCE, poller)
    }

    /// Continues the answer to the client with this number.
    pub(crate) fn ready(&mut self, number: u32, poller: &Poller) -> io::Result<()> {
        let place = usize::try_from(number).ok().and_then(|place| self.clients.get_mut(place));
        if let Some(place) = place
            && place.as_mut().is_none_or(StatusClient::write)
        {
            *place = None;
            self.resume(poller)?;
        }
        Ok(())
    }

    /// Disconnects clients that have exceeded their time limit.
    pub(crate) fn tick(&mut self, now: Instant, poller: &Poller) -> io::Result<()> {
        for client in &mut self.clients {
            if client.as_ref().is_some_and(|client| now >= client.hang_up_at) {
                *client = None;
            }
        }
        match self.paused_until.is_some_and(|until| now >= until) {
            true => self.resume(poller),
            false => Ok(()),
        }
    }

    /// Time of the next [`tick`](Self::tick).
    pub(crate) fn deadline(&self) -> Option<Instant> {
        let clients = self.clients.iter().flatten().map(|client| client.hang_up_at);
        clients.chain(self.paused_until).min()
    }

    /// Sends as much as the socket accepts, mostly the whole answer.
    fn begin(&mut self, place: usize, mut client: StatusClient, poller: &Poller) -> io::Result<()> {
        if client.write() {
            return Ok(());
        }
        let number = u32::try_from(place).unwrap_or(u32::MAX);
        poller.add(Token::StatusClient(number), &client.stream, Interest::Write)?;
        self.clients[place] = Some(client);
        Ok(())
    }

    /// Leaves clients in the backlog while the answer is made.
    pub(crate) fn defer(&mut self, now: Instant, poller: &Poller) -> io::Result<()> {
        self.pause(now + PATIENCE, poller)
    }

    fn pause(&mut self, until: Instant, poller: &Poller) -> io::Result<()> {
        match self.paused_until.replace(until) {
            None => poller.remove(Token::StatusSocket, &self.socket),
            Some(_) => Ok(()),
        }
    }

    /// Accepts clients again.
    pub(crate) fn resume(&mut self, poller: &Poller) -> io::Result<()> {
        match self.paused_until.take() {
            Some(_) => poller.add(Token::StatusSocket, &self.socket, Interest::Read),
            None => Ok(()),
        }
    }
}

impl StatusClient {
    /// Writes as much as the socket accepts; true if the client is finished, successfully or not.
    fn write(&mut self) -> bool {
        while let Some(rest @ [_, ..]) = self.answer.get(self.sent_bytes..) {
            match self.stream.write(rest) {
                Ok(len) => self.sent_bytes += len,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return error.kind() != ErrorKind::WouldBlock,
            }
        }
        true
    }
}

impl Drop for StatusSocket {
    fn drop(&mut self) {
        runtime_dir::remove(&self.path);
    }
}

/// Few users query one launcher at the same time.
const CLIENTS_MAX: usize = 8;

/// Validity of an answer.
const FRESH_FOR: Duration = Duration::from_millis(200);

/// Time limit for a client to read its answer.
const PATIENCE: Duration = Duration::from_secs(10);

/// Delay before accepting again after a lack of resources.
const PAUSE: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use super::*;
    use pmi_host_os::clock;
    use std::io::Read;
    use std::net::Shutdown;
    use tempfile::TempDir;

    /// A socket in a directory that it creates below the returned one.
    fn control() -> (StatusSocket, Poller, TempDir) {
        let (parent, poller) = (tempfile::tempdir().unwrap(), Poller::new().unwrap());
        (StatusSocket::open_in(&parent.path().join("run"), &poller).unwrap(), poller, parent)
    }

    fn is_empty(directory: &TempDir) -> bool {
        fs::read_dir(directory).unwrap().next().is_none()
    }

    #[test]
    fn connections_are_answered_and_the_socket_is_removed_at_the_end() {
        let (mut control, mut poller, parent) = control();
        let (now, mut ready) = (clock::now(), Vec::new());
        let mut client = UnixStream::connect(&control.path).unwrap();
        poller.wait(Some(now), &mut ready).unwrap();
        assert_eq!((&ready[..], control.wants_answer(now)), (&[Token::StatusSocket][..], true));
        control.set_answer(now, b"all is well".to_vec());
        control.accept(now, &poller).unwrap();
        let mut answer = String::new();
        client.read_to_string(&mut answer).unwrap();
        assert_eq!((&*answer, control.deadline()), ("all is well", None));
        assert!(!control.wants_answer(now) && control.wants_answer(now + FRESH_FOR));
        assert!(!is_empty(&parent));
        drop(control);
        assert!(is_empty(&parent));
    }

    #[test]
    fn askers_that_do_not_read_are_few_and_are_hung_up_on() {
        let (mut control, mut poller, parent) = control();
        let (now, mut ready) = (clock::now(), Vec::new());
        // More than the capacity of a socket.
        control.set_answer(now, vec![b'x'; 4 << 20]);
        let slow: Vec<UnixStream> =
            (0..CLIENTS_MAX + 3).map(|_| UnixStream::connect(&control.path).unwrap()).collect();
        control.accept(now, &poller).unwrap();
        assert!(control.clients.iter().all(Option::is_some));
        // Connections in the backlog do not wake the loop.
        poller.wait(Some(now), &mut ready).unwrap();
        assert_eq!(ready, []);
        let later = control.deadline().unwrap();
        assert_eq!(later, now + PATIENCE);
        control.tick(later, &poller).unwrap();
        poller.wait(Some(now), &mut ready).unwrap();
        assert_eq!(ready, [Token::StatusSocket]);
        // The next ones in the backlog are served, and a closed one frees its slot.
        // A process that another test starts just now may have a copy of each for a moment.
        slow.iter().for_each(|slow| _ = slow.shutdown(Shutdown::Both));
        control.accept(later, &poller).unwrap();
        for number in 0..3 {
            control.ready(number, &poller).unwrap();
        }
        assert!(control.clients.iter().all(Option::is_none));
        drop(control);
        assert!(is_empty(&parent));
    }
}
