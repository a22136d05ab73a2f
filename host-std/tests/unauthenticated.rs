//! Peers that prove nothing: other users of the machine, garbage, silence, guesses and floods, at each listener.

use crate::common::listening::{Host, ask, rest};
use crate::common::{host, job, run};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpStream};
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

const SECRET: &str = "a secret of more than sixteen bytes";

/// Sends `bytes` to `port` as user 65534 and returns the reply; `None` without root.
fn as_another_user(port: &str, bytes: &str) -> Option<String> {
    if !rustix::process::getuid().is_root() {
        assert!(std::env::var_os("CI").is_none(), "CI runs as root");
        eprintln!("skipped: only root can run a program as another user");
        return None;
    }
    let (address, port) = port.rsplit_once(':').unwrap();
    let address = address.trim_start_matches('[').trim_end_matches(']');
    let script = format!(
        "exec 3<>/dev/tcp/{address}/{port} && printf '{bytes}' >&3; timeout 20 cat <&3 2>/dev/null; true"
    );
    let user = ["--reuid=65534", "--regid=65534", "--clear-groups", "bash", "-c", &script];
    let output = Command::new("setpriv").args(user).stdin(Stdio::null()).output().unwrap();
    Some(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// A complete PMI-1 session of a rank; true if every request had its reply.
fn is_served(address: SocketAddr, from: Option<Ipv4Addr>, id: &str) -> bool {
    let Ok(mut stream) = connect(address, from) else { return false };
    let hello = format!("cmd=initack pmiid={id}\n");
    let mut told = String::new();
    let is_in = stream.write_all(hello.as_bytes()).is_ok()
        && BufReader::new(&stream).read_line(&mut told).is_ok()
        && told.contains("rc=0 ");
    let lines = b"cmd=init pmi_version=1 pmi_subversion=1\ncmd=finalize\n";
    is_in && stream.write_all(lines).is_ok() && rest(&mut stream).contains("cmd=finalize_ack rc=0")
}

/// Connects from a loopback address of choice.
fn connect(to: SocketAddr, from: Option<Ipv4Addr>) -> std::io::Result<TcpStream> {
    use rustix::net::{AddressFamily, SocketType, bind, connect, socket};
    let Some(from) = from else { return TcpStream::connect(to) };
    let fd: OwnedFd = socket(AddressFamily::INET, SocketType::STREAM, None)?;
    bind(&fd, &SocketAddr::new(IpAddr::V4(from), 0))?;
    connect(&fd, &to)?;
    let stream = TcpStream::from(fd);
    stream.set_read_timeout(Some(Duration::from_secs(30)))?;
    Ok(stream)
}

fn secret_file(name: &str) -> PathBuf {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = std::fs::remove_file(&path);
    std::fs::write(&path, format!("{SECRET}\n")).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
    path
}

/// The `PMI_ID` of a rank, as a user requests it.
fn id_of(file: &Path, rank: &str) -> String {
    let words = ["pmiid", "--secret-file", file.to_str().unwrap(), rank];
    run(&mut host(words)).exits_with(0).out.trim().to_owned()
}

/// Address, path and query of a web socket.
fn parts(url: &str) -> (String, String) {
    let (address, path) = url.split_once('/').unwrap_or((url, ""));
    (address.to_owned(), format!("/{path}"))
}

/// The upgrade request of a web socket, as escapes of `printf`.
fn upgrade(path: &str, more: &str) -> String {
    format!(
        "GET {path} HTTP/1.1\\r\\nHost: localhost\\r\\nConnection: Upgrade\\r\\nUpgrade: websocket\\r\\n\
         Sec-WebSocket-Version: 13\\r\\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\\r\\n\
         Sec-WebSocket-Protocol: pmi-trace\\r\\n{more}\\r\\n"
    )
}

fn seconds(since: Instant) -> usize {
    usize::try_from(since.elapsed().as_secs()).unwrap()
}

/// The first line of the reply to an upgrade request.
fn status(address: &str, path: &str, more: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    let request = upgrade(path, more).replace("\\r\\n", "\r\n");
    stream.write_all(request.as_bytes()).unwrap();
    let mut line = String::new();
    let _ = BufReader::new(stream).read_line(&mut line);
    line
}

#[test]
fn another_user_takes_no_rank_at_a_port_without_a_secret() {
    for address in ["127.0.0.1:0", "[::1]:0"] {
        let door = ["--listen", address];
        let mut host = Host::start_at(&door, "PMI_PORT=", &["--expect", "1"]);
        let hello = "cmd=initack pmiid=0\\ncmd=init pmi_version=1 pmi_subversion=1\\n";
        let Some(told) = as_another_user(&host.port, hello) else { return };
        assert_eq!(told, "", "another user is rank 0 at {address}");
        host.says("user 65534");
        assert!(is_served(host.port.parse().unwrap(), None, "0"), "{}", host.said);
        assert_eq!(host.end().0, 0);
    }
}

#[test]
fn another_user_that_has_closed_its_socket_is_not_taken_for_root() {
    let host = Host::start(&["--expect", "1"]);
    let pid = rustix::process::Pid::from_child(&host.child);
    rustix::process::kill_process(pid, rustix::process::Signal::STOP).unwrap();
    // The connection waits to be accepted, and its other end is closed already.
    let (address, port) = host.port.rsplit_once(':').unwrap();
    let lines = "cmd=initack pmiid=0\\ncmd=init pmi_version=1 pmi_subversion=1\\n";
    let script = format!("exec 3<>/dev/tcp/{address}/{port} && printf '{lines}' >&3");
    let user = ["--reuid=65534", "--regid=65534", "--clear-groups", "bash", "-c", &script];
    let sent =
        rustix::process::getuid().is_root().then(|| Command::new("setpriv").args(user).status());
    rustix::process::kill_process(pid, rustix::process::Signal::CONT).unwrap();
    let Some(sent) = sent else { return };
    assert!(sent.unwrap().success());
    // If it had been rank 0, its end would have ended the job.
    assert!(is_served(host.port.parse().unwrap(), None, "0"), "{}", host.said);
    let (code, _, said) = host.end();
    assert_eq!(code, 0, "{said}");
}

#[test]
fn another_user_opens_no_web_socket() {
    let mut host = Host::start_at(&["--websocket", "0"], "ws://", &["-n", "1", "sleep", "600"]);
    let (address, path) = parts(&host.port);
    let Some(told) = as_another_user(&address, &upgrade(&path, "")) else { return };
    assert_eq!(told, "", "another user watches the run");
    host.says("user 65534");
    assert!(status(&address, &path, "").contains("101"));
}

#[test]
fn page_needs_the_token_of_the_url_besides_its_origin() {
    let host = Host::start_at(&["--websocket", "0"], "ws://", &["-n", "1", "sleep", "600"]);
    let (address, path) = parts(&host.port);
    let own = "Origin: http://localhost:8000\\r\\n";
    assert!(status(&address, &path, own).contains("101"), "{}", host.said);
    assert!(status(&address, &path, "Origin: https://evil.example\\r\\n").contains("403"));
    let last = path.chars().last().unwrap();
    let wrong = format!("{}{}", &path[..path.len() - 1], if last == '0' { '1' } else { '0' });
    for path in ["/", "/?token=", wrong.as_str(), &path[..path.len() - 1]] {
        assert!(status(&address, path, own).contains("403"), "{path}");
        assert!(status(&address, path, "").contains("403"), "{path}");
    }
}

#[test]
fn silent_connections_keep_no_rank_out() {
    let mut host = Host::start(&["--expect", "1"]);
    let mut silent: Vec<TcpStream> = (0..80).map(|_| host.dial()).collect();
    assert!(is_served(host.port.parse().unwrap(), None, "0"), "{}", host.said);
    // The oldest ones were closed to make room.
    rest(&mut silent[0]);
    host.says("sent nothing");
    assert_eq!(host.end().0, 0);
}

#[test]
fn rank_that_has_just_connected_stays_while_another_rank_floods_the_port() {
    let program = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs/early_peer.py");
    for (protocol, words) in [("pmix", ["--pmi", "x"].as_slice()), ("port", &["--pmi-port"])] {
        let signs = tempfile::tempdir().unwrap();
        let mut command = job(2, words);
        command.arg("/usr/bin/python3").arg(&program).arg(protocol).arg(signs.path());
        let ran = run(&mut command).exits_with(0);
        assert!(ran.out.contains("rank 0 was admitted"), "{protocol}: {}\n{}", ran.out, ran.err);
        assert!(ran.err.contains("sent nothing"), "{protocol}: {}", ran.err);
    }
}

#[test]
fn expected_ranks_may_all_be_silent_at_once() {
    let host = Host::start(&["--expect", "100"]);
    let address: SocketAddr = host.port.parse().unwrap();
    let mut ranks: Vec<TcpStream> = (0..100).map(|_| host.dial()).collect();
    for (rank, stream) in ranks.iter_mut().enumerate() {
        let line = format!("cmd=initack pmiid={rank}\n");
        stream.write_all(line.as_bytes()).unwrap();
        let mut told = String::new();
        BufReader::new(&*stream).read_line(&mut told).unwrap();
        assert!(told.contains("rc=0 "), "rank {rank} at {address}: {told}");
    }
    for stream in &mut ranks {
        stream.write_all(b"cmd=init pmi_version=1 pmi_subversion=1\ncmd=finalize\n").unwrap();
        assert!(rest(stream).contains("cmd=finalize_ack rc=0"));
    }
    assert_eq!(host.end().0, 0);
}

#[test]
fn silent_connections_keep_no_page_out() {
    let mut host = Host::start_at(&["--websocket", "0"], "ws://", &["-n", "1", "sleep", "600"]);
    let (address, path) = parts(&host.port);
    let mut silent: Vec<TcpStream> =
        (0..80).map(|_| TcpStream::connect(&address).unwrap()).collect();
    assert!(status(&address, &path, "").contains("101"));
    rest(&mut silent[0]);
    host.says("sent nothing");
}

#[test]
fn wrong_ids_are_judged_ten_times_a_second_over_all_connections() {
    let file = secret_file("guesses.secret");
    let words = ["--expect", "1", "--secret-file", file.to_str().unwrap()];
    let mut host = Host::start(&words);
    let address: SocketAddr = host.port.parse().unwrap();
    let (judged, is_over) = (AtomicUsize::new(0), AtomicBool::new(false));
    let lasted = thread::scope(|scope| {
        for at in 0..64 {
            let (judged, is_over) = (&judged, &is_over);
            scope.spawn(move || {
                for guess in 0.. {
                    if is_over.load(Ordering::Relaxed) {
                        return;
                    }
                    let Ok(mut stream) = connect(address, Some(Ipv4Addr::LOCALHOST)) else {
                        continue;
                    };
                    let line = format!("cmd=initack pmiid={}\n", 1_000_000 * at + guess);
                    let _ = stream.write_all(line.as_bytes());
                    let mut told = String::new();
                    let _ = BufReader::new(stream).read_line(&mut told);
                    judged.fetch_add(usize::from(told.contains("rc=")), Ordering::Relaxed);
                }
            });
        }
        let since = Instant::now();
        thread::sleep(Duration::from_secs(3));
        // Meanwhile a rank that connects from another address waits only for its own turn.
        let is_in = is_served(address, Some(Ipv4Addr::new(127, 0, 0, 2)), &id_of(&file, "0"));
        let lasted = since.elapsed();
        is_over.store(true, Ordering::Relaxed);
        assert!(is_in, "the rank was not served");
        lasted
    });
    let judged = judged.load(Ordering::Relaxed);
    let most = usize::try_from(lasted.as_millis() / 100).unwrap() + 3;
    assert!(judged <= most, "{judged} guesses were judged in {lasted:?}");
    assert!(judged >= 3, "{judged} guesses were judged in {lasted:?}");
    host.says("did not prove");
    assert_eq!(host.end().0, 0);
}

#[test]
fn garbage_fills_no_log_and_harms_no_rank() {
    let host = Host::start(&["--expect", "1"]);
    let since = Instant::now();
    for number in 0..1000_u32 {
        let mut stream = host.dial();
        let _ = stream.write_all(&number.wrapping_mul(2_654_435_761).to_be_bytes());
        let _ = stream.write_all(b"\0\xff nonsense \n\n");
        // Every second connection is closed before it is accepted.
        if number % 2 == 0 {
            rest(&mut stream);
        }
    }
    assert!(is_served(host.port.parse().unwrap(), None, "0"), "{}", host.said);
    let (code, _, said) = host.end();
    let lines = said.lines().count();
    let most = 8 * (seconds(since) + 2) + 1;
    assert!(lines > 1 && lines <= most, "{lines} lines, {most} at most:\n{said}");
    assert!(said.contains("before it") || said.contains("more connections"), "{said}");
    assert_eq!(code, 0, "{said}");
}

#[test]
fn openings_that_are_none_fill_no_log() {
    let host = Host::start_at(&["--websocket", "0"], "ws://", &["--expect", "1"]);
    let (address, _) = parts(&host.port);
    let since = Instant::now();
    for _ in 0..300 {
        let mut stream = TcpStream::connect(&address).unwrap();
        stream.write_all(b"\x16\x03\x01\0\x05hello\r\n\r\n").unwrap();
        rest(&mut stream);
    }
    let pid = host.child.id().to_string();
    assert!(Command::new("kill").args(["-s", "TERM", &pid]).status().unwrap().success());
    let (_, _, said) = host.end();
    let most = 8 * (seconds(since) + 2) + 8;
    assert!(said.lines().count() <= most, "{} lines, {most} at most", said.lines().count());
}

#[test]
fn port_for_other_machines_has_a_secret_of_its_own() {
    for (door, mark) in
        [(["--listen", "0.0.0.0:0"], "PMI_PORT="), (["--websocket", "0.0.0.0:0"], "ws://")]
    {
        let runtime = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("run-{}", mark.len()));
        let _ = std::fs::remove_dir_all(&runtime);
        std::fs::create_dir(&runtime).unwrap();
        let mut command = host(["run"]);
        command.args(door).args(["--expect", "1"]).env("XDG_RUNTIME_DIR", &runtime);
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let mut err = BufReader::new(child.stderr.take().unwrap());
        let mut said = String::new();
        while !(said.contains("'cat ") && said.contains(mark)) {
            assert_ne!(err.read_line(&mut said).unwrap(), 0, "{said}");
        }
        let file = PathBuf::from(said.split("'cat ").nth(1).unwrap().split('\'').next().unwrap());
        assert!(file.starts_with(&runtime), "{said}");
        assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
        let secret = std::fs::read_to_string(&file).unwrap();
        assert!(secret.trim().len() >= 32 && !said.contains(secret.trim()), "{said}");
        if mark == "PMI_PORT=" {
            let port =
                said.split("PMI_PORT=0.0.0.0:").nth(1).unwrap().split([';', ' ']).next().unwrap();
            let address: SocketAddr = format!("127.0.0.1:{port}").parse().unwrap();
            assert!(!is_served(address, None, "0"));
            assert!(is_served(address, None, &id_of(&file, "0")));
            assert_eq!(child.wait().unwrap().code(), Some(0));
        } else {
            let pid = child.id().to_string();
            assert!(Command::new("kill").args(["-s", "TERM", &pid]).status().unwrap().success());
            child.wait().unwrap();
        }
        err.read_to_string(&mut said).unwrap();
        assert!(!file.exists(), "the secret outlives its run");
    }
}

#[test]
fn required_challenge_takes_no_id() {
    let file = secret_file("challenge.secret");
    let words = ["--expect", "1", "--secret-file", file.to_str().unwrap(), "--require-challenge"];
    let mut host = Host::start(&words);
    let address: SocketAddr = host.port.parse().unwrap();
    assert!(!is_served(address, None, &id_of(&file, "0")), "an id was enough");
    host.says("did not prove");
    let mut stream = host.dial();
    ask(&mut stream, "cmd=init pmi_version=2 pmi_subversion=0\n");
    let hello = "cmd=fullinit;pmirank=0;authtype=challenge-hmac-sha256;";
    stream.write_all(format!("{:6}{hello}", hello.len()).as_bytes()).unwrap();
    let mut told = [0; 52];
    stream.read_exact(&mut told).unwrap();
    let told = String::from_utf8_lossy(&told).into_owned();
    let nonce = told.split("authinfo=").nth(1).unwrap().trim_end_matches(';');
    let secret = pmi_core::auth::Secret::new(SECRET.as_bytes()).unwrap();
    let proof = secret.answer(nonce.as_bytes()).unwrap();
    let proof = String::from_utf8_lossy(proof.as_bytes()).into_owned();
    for body in
        [format!("cmd=auth-response-complete;authinfo={proof};"), "cmd=finalize;".to_owned()]
    {
        stream.write_all(format!("{:6}{body}", body.len()).as_bytes()).unwrap();
    }
    assert!(rest(&mut stream).contains("cmd=finalize-response;rc=0;"));
    assert_eq!(host.end().0, 0);
}

#[test]
fn proofs_of_a_rank_are_in_no_trace_and_no_message() {
    let file = secret_file("trace.secret");
    let trace = Path::new(env!("CARGO_TARGET_TMPDIR")).join("proofs.trace");
    let words = ["--expect", "1", "--secret-file", file.to_str().unwrap(), "--trace"];
    let words = [&words[..], &[trace.to_str().unwrap(), "--show-messages"]].concat();
    let host = Host::start(&words);
    let id = id_of(&file, "0");
    assert!(is_served(host.port.parse().unwrap(), None, &id));
    let (code, _, said) = host.end();
    assert_eq!(code, 0, "{said}");
    let bytes = std::fs::read(trace).unwrap();
    let holds = |part: &str| bytes.windows(part.len()).any(|found| found == part.as_bytes());
    assert!(holds("cmd=initack pmiid=") && !holds(&id), "the id is in the trace");
    assert!(said.contains("initack") && !said.contains(&id), "{said}");
}
