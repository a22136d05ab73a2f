//! Published names of several launchers: `pmi-host name-server` and `--name-server`.

mod common;

use common::library::MPICH_5;
use common::{Running, host, run, shell, start};
use std::fs;
use std::io::Write;
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// A name server, which ends with the value, and the directory of settings of its launchers.
struct NameServer {
    running: Option<Running>,
    address: String,
    settings: PathBuf,
}

impl NameServer {
    fn start(test: &str) -> Self {
        let settings = directory(test);
        let words = ["name-server", "--listen", "127.0.0.1:0"];
        let running = start(with_settings(&mut host(words), &settings));
        running.wait_for_output(".key'\n");
        let out = running.output();
        let address = out.split_whitespace().find(|word| word.starts_with("127.0.0.1:")).unwrap();
        Self { address: address.to_owned(), running: Some(running), settings }
    }

    /// `pmi-host run --name-server … WORDS…`.
    fn run(&self, words: &[&str]) -> Command {
        let mut command = host(["run", "--name-server", &self.address]);
        with_settings(&mut command, &self.settings);
        command.args(words);
        command
    }

    /// The same with a rank that makes these requests.
    fn ask(&self, requests: &[&str]) -> Command {
        self.run(&[&["-n", "1"], &shell(&asks(requests))[..]].concat())
    }

    fn end(&mut self) -> String {
        let running = self.running.take().unwrap();
        running.signal("TERM");
        running.end().err
    }
}

impl Drop for NameServer {
    fn drop(&mut self) {
        self.running.iter().for_each(|running| running.signal("KILL"));
    }
}

fn directory(test: &str) -> PathBuf {
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("names-of-{test}"));
    let _ = fs::remove_dir_all(&directory);
    fs::create_dir_all(&directory).unwrap();
    directory
}

fn with_settings<'a>(command: &'a mut Command, settings: &Path) -> &'a mut Command {
    command.env("XDG_CONFIG_HOME", settings)
}

/// A rank that makes these requests of PMI-1 and prints the answers.
fn asks(requests: &[&str]) -> String {
    let ask = |line: &str| format!("echo 'cmd={line}' >&$PMI_FD; read answer <&$PMI_FD; ");
    let said = |line: &&str| match *line {
        WAIT => "read line; ".to_owned(),
        line => format!("{}echo \"$answer\"; ", ask(line)),
    };
    let asked: String = requests.iter().map(said).collect();
    format!("{}{asked}{}", ask("init pmi_version=1 pmi_subversion=1"), ask("finalize"))
}

/// Waits for a line of input.
const WAIT: &str = "wait";

const PUBLISH: &str = "publish_name service=desk port=room-12";
const LOOK_UP: &str = "lookup_name service=desk";
const UNPUBLISH: &str = "unpublish_name service=desk";

#[test]
fn names_are_shared_by_launchers_and_end_with_the_run_that_has_published_them() {
    let mut server = NameServer::start("launchers");
    let mut first = start(server.ask(&[PUBLISH, WAIT]).stdin(Stdio::piped()));
    first.wait_for_output("cmd=publish_result rc=0 info=ok\n");
    // On two node servers: the head of that run asks.
    let script = asks(&[LOOK_UP, PUBLISH, UNPUBLISH]);
    let words = [&["--starter", "local:2", "-n", "2", "-l"], &shell(&script)[..]].concat();
    let ran = run(&mut server.run(&words)).exits_with(0);
    for rank in 0..2 {
        let port = format!("[{rank}] cmd=lookup_result rc=0 info=ok port=room-12\n");
        assert!(ran.out.contains(&port), "{}", ran.out);
        for of in ["publish", "unpublish"] {
            let refused = format!("[{rank}] cmd={of}_result rc=1");
            assert!(ran.out.contains(&refused), "no {refused:?} in {}", ran.out);
        }
    }
    first.types("\n");
    first.end().exits_with(0);
    let ran = run(&mut server.ask(&[LOOK_UP])).exits_with(0);
    assert!(ran.out.starts_with("cmd=lookup_result rc=1 msg=no_such_service"), "{}", ran.out);
    assert_eq!(server.end(), "");
}

#[test]
fn programs_of_two_launchers_meet() {
    let Some(program) = (MPICH_5.build)("apart") else { return };
    let program = program.to_str().unwrap();
    let server = NameServer::start("meet");
    let first = start(MPICH_5.prepare(&mut server.run(&["-n", "2", program, "serve"])));
    first.wait_for_output("published\n");
    // As with Hydra, whose option has the same meaning.
    let mut second = host(["mpiexec", "-nameserver", &server.address, "-n", "2", program, "visit"]);
    run(MPICH_5.prepare(with_settings(&mut second, &server.settings))).exits_with(0);
    assert!(first.end().exits_with(0).out.ends_with("received 4711\n"));
}

#[test]
fn server_with_another_key_and_strangers_are_rejected() {
    let mut server = NameServer::start("key");
    let key = server.settings.join("pmi-host/name-server.key");
    let other = directory("other-key").join("key");
    let digits = fs::read_to_string(&key).unwrap();
    let swapped = |digit: char| if digit == '0' { '1' } else { '0' };
    fs::write(&other, digits.trim_end().chars().map(swapped).collect::<String>() + "\n").unwrap();
    let other = other.to_str().unwrap();
    let words = ["--name-key", other, "-n", "1", "true"];
    run(&mut server.run(&words)).exits_with(1).says(&["other users may read the key", "chmod 600"]);
    run(Command::new("chmod").args(["600", other])).exits_with(0);
    run(&mut server.run(&words)).exits_with(1).says(&["name server '127.0.0.1:", "key"]);
    // One that is no launcher; the others are served meanwhile and afterwards.
    let mut stranger = TcpStream::connect(&server.address).unwrap();
    stranger.write_all(b"cmd=lookup_name service=desk\n").unwrap();
    let ran = run(&mut server.ask(&[PUBLISH])).exits_with(0);
    assert_eq!(ran.out, "cmd=publish_result rc=0 info=ok\n");
    let said = server.end();
    assert!(said.contains("pmi-host: a connection from 127.0.0.1:"), "{said}");
}

#[test]
fn run_without_its_name_server_fails_or_continues_without_names() {
    let mut server = NameServer::start("lost");
    let missing = directory("no-key");
    let words = ["run", "--name-server", &server.address, "-n", "1", "true"];
    let ran = run(with_settings(&mut host(words), &missing)).exits_with(1);
    ran.says(&["no key of a name server", "'pmi-host name-server' makes one"]);
    let mut lost = start(server.ask(&[PUBLISH, WAIT, LOOK_UP]).stdin(Stdio::piped()));
    lost.wait_for_output("rc=0 info=ok\n");
    server.end();
    lost.wait_for_errors("the name server '127.0.0.1:");
    lost.types("\n");
    let ran = lost.end();
    assert!(ran.out.contains("cmd=lookup_result rc=1 msg=no_such_service"), "{}", ran.out);
    let words = ["-n", "1", "true"];
    run(&mut server.run(&words)).exits_with(1).says(&["cannot be used", "Connection refused"]);
}
