//! A launcher that listens, and connections of raw bytes.

use super::host;
use pmi_std::Pmi;
use pmi_std::env::Environment;
use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// A launcher that listens.
pub struct Host {
    pub child: Child,
    pub port: String,
    pub err: BufReader<std::process::ChildStderr>,
    /// Address report of the launcher, its first lines.
    pub listens: String,
    /// Standard error since the start.
    pub said: String,
}

impl Host {
    /// Starts `pmi-host run --listen 127.0.0.1:0 WORDS…` and reads its address.
    pub fn start(words: &[&str]) -> Self {
        Self::start_at(&["--listen", "127.0.0.1:0"], "PMI_PORT=", words)
    }

    /// Starts `pmi-host run DOOR… WORDS…` and reads its address, which follows `mark`.
    pub fn start_at(door: &[&str], mark: &str, words: &[&str]) -> Self {
        Self::start_reading(Stdio::null(), door, mark, words)
    }

    /// Does as [`start_at`](Self::start_at), with `input` as standard input.
    pub fn start_reading(input: Stdio, door: &[&str], mark: &str, words: &[&str]) -> Self {
        let mut command = host(["run"]);
        command.args(door).args(words).stdin(input);
        Self::start_command(command, mark)
    }

    /// Starts a launcher, and reads its address.
    pub fn start_command(mut command: Command, mark: &str) -> Self {
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut err = BufReader::new(child.stderr.take().unwrap());
        let mut said = String::new();
        err.read_line(&mut said).unwrap();
        let port = said.split(mark).nth(1).and_then(|rest| rest.split([' ', ';']).next());
        let port = port.unwrap_or_else(|| panic!("no port in {said:?}")).to_owned();
        Self { child, port, err, listens: said.clone(), said }
    }

    pub fn dial(&self) -> TcpStream {
        let stream = TcpStream::connect(&self.port).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        stream
    }

    /// Reads on until standard error contains `part`.
    pub fn says(&mut self, part: &str) {
        while !self.said.contains(part) {
            assert_ne!(self.err.read_line(&mut self.said).unwrap(), 0, "{}", self.said);
        }
    }

    /// Waits for the end, and gives code, output and standard error.
    pub fn end(mut self) -> (i32, String, String) {
        let mut out = String::new();
        self.child.stdout.take().unwrap().read_to_string(&mut out).unwrap();
        self.err.read_to_string(&mut self.said).unwrap();
        let said = std::mem::take(&mut self.said);
        (self.child.wait().unwrap().code().unwrap(), out, said)
    }
}

/// A test that failed leaves no launcher behind.
impl Drop for Host {
    fn drop(&mut self) {
        let _ = self.child.kill();
    }
}

/// Sends a line and reads one.
pub fn ask(stream: &mut TcpStream, line: &str) -> String {
    stream.write_all(line.as_bytes()).unwrap();
    let mut answer = String::new();
    BufReader::new(stream).read_line(&mut answer).unwrap();
    answer
}

/// Reads until the other end closes; a reset is an end too.
pub fn rest(stream: &mut TcpStream) -> String {
    let mut all = Vec::new();
    let mut chunk = [0; 512];
    loop {
        match stream.read(&mut chunk) {
            Ok(0) => break,
            Ok(len) => all.extend_from_slice(&chunk[..len]),
            Err(error) if error.kind() == ErrorKind::ConnectionReset => break,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => panic!("not closed: {error}"),
        }
    }
    String::from_utf8_lossy(&all).into_owned()
}

/// A PMI-1 client of this project in a thread: puts, waits for all, reads the next rank's value.
pub fn client(port: &str, id: u64) -> JoinHandle<(u32, String)> {
    let variables = [("PMI_PORT".to_owned(), port.to_owned()), ("PMI_ID".into(), id.to_string())];
    thread::spawn(move || {
        let environment = Environment::from_variables(variables).unwrap();
        let mut member = pmi_std::connect_by(environment).unwrap().unwrap();
        let value = exchange(&mut member.pmi, member.rank, member.size);
        (member.rank, value)
    })
}

/// Puts, waits for all, and returns the value of the next rank.
pub fn exchange(pmi: &mut Pmi, rank: u32, size: u32) -> String {
    pmi.put(format!("card-{rank}").as_bytes(), format!("of-{rank}").as_bytes()).unwrap();
    pmi.fence().unwrap();
    let key = format!("card-{}", (rank + 1) % size);
    let value = pmi.get(key.as_bytes()).unwrap().expect("the fence shows it");
    pmi.finalize().unwrap();
    String::from_utf8_lossy(&value).into_owned()
}

/// The same exchange by a shell that was started as a rank.
pub fn local_rank() -> String {
    "echo cmd=init pmi_version=1 pmi_subversion=1 >&$PMI_FD; read answer <&$PMI_FD
     echo cmd=put kvsname=x key=card-$PMI_RANK value=of-$PMI_RANK >&$PMI_FD; read answer <&$PMI_FD
     echo cmd=barrier_in >&$PMI_FD; read answer <&$PMI_FD
     echo cmd=get_my_kvsname >&$PMI_FD; read name <&$PMI_FD
     echo cmd=get kvsname=${name#*kvsname=} key=card-$(((PMI_RANK + 1) % PMI_SIZE)) >&$PMI_FD
     read answer <&$PMI_FD; echo $PMI_RANK: ${answer##*=}
     echo cmd=finalize >&$PMI_FD; read answer <&$PMI_FD"
        .to_owned()
}
