//! Ranks that are not started here and connect over TCP: admission and identity, and the outcome when a
//! rank does not connect, disconnects, or presents a false identity.

use crate::common::listening::{Host, ask, client, exchange, local_rank, rest};
use crate::common::{host, run};
use pmi_core::auth::Secret;
use pmi_core::client::prove;
use pmi_core::command::Version;
use pmi_link::blocking::Opening;
use pmi_std::env::{Environment, RequestedVersions};
use pmi_std::{ConnectOptions, Pmi, Stream};
use std::ffi::OsString;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::Duration;

const SECRET: &str = "a secret of more than sixteen bytes";

fn secret_file(name: &str, mode: u32) -> PathBuf {
    use std::os::unix::fs::PermissionsExt;
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = fs::remove_file(&path);
    fs::write(&path, format!("{SECRET}\n")).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
    path
}

#[test]
fn ranks_that_dial_in_and_ranks_that_are_started_are_one_job() {
    let script = local_rank();
    let host = Host::start(&["--expect", "2", "-n", "2", "sh", "-c", &script]);
    assert!(host.said.contains("ranks 2 to 3 connect"), "{}", host.said);
    let clients = [3, 2].map(|id| client(&host.port, id));
    let mut seen: Vec<_> = clients.into_iter().map(|client| client.join().unwrap()).collect();
    seen.sort();
    assert_eq!(seen, [(2, "of-3".to_owned()), (3, "of-0".to_owned())]);
    let (code, out, said) = host.end();
    let mut lines: Vec<&str> = out.lines().collect();
    lines.sort_unstable();
    assert_eq!((code, lines), (0, vec!["0: of-1", "1: of-2"]), "{said}");
}

#[test]
fn job_may_be_all_callers_and_ends_with_the_last() {
    let host = Host::start(&["--expect", "3"]);
    let clients: Vec<_> = (0..3).map(|id| client(&host.port, id)).collect();
    for client in clients {
        client.join().unwrap();
    }
    let (code, _, said) = host.end();
    assert_eq!((code, said.lines().count()), (0, 1), "{said}");
}

#[test]
fn both_generations_get_in_with_the_secret() {
    let file = secret_file("both.secret", 0o600);
    let shown = file.to_str().unwrap();
    let host = Host::start(&["--expect", "2", "--secret-file", shown]);
    let id =
        run(&mut crate::common::host(["pmiid", "--secret-file", shown, "0"])).exits_with(0).out;
    let first = client(&host.port, id.trim().parse().unwrap());
    let port = host.port.clone();
    let second = thread::spawn(move || {
        let secret = Secret::new(SECRET.as_bytes()).unwrap();
        let prover = move |reply: &pmi_core::command::Reply<'_>| prove(&secret, reply);
        let mut opening = Opening::new(Version::V2_0);
        opening.rank = Some(1);
        opening.prover = Some(&prover);
        let (name, number) = port.rsplit_once(':').unwrap();
        let mut pmi = Pmi::new(Stream::dial(name, number.parse().unwrap()).unwrap());
        pmi.open(&opening).unwrap();
        pmi.job_id().unwrap();
        exchange(&mut pmi, 1, 2)
    });
    assert_eq!(first.join().unwrap(), (0, "of-1".to_owned()));
    assert_eq!(second.join().unwrap(), "of-0");
    let (code, _, said) = host.end();
    assert_eq!((code, said.lines().count()), (0, 1), "{said}");
}

// Coverage: W2-26
#[test]
fn launcher_proves_the_secret_to_a_rank_that_demands_it() {
    let file = secret_file("mutual.secret", 0o600);
    let trace = file.with_extension("trace");
    let words = ["--expect", "1", "--secret-file", file.to_str().unwrap()];
    let host = Host::start(&[&words[..], &["--trace", trace.to_str().unwrap()]].concat());
    let variables = [("PMI_PORT".to_owned(), host.port.clone()), ("PMI_ID".into(), "0".into())];
    let connect = |secret: &str| {
        let environment = Environment::from_variables(variables.clone()).unwrap();
        let versions = RequestedVersions::Only(Version::V2_0);
        let options = ConnectOptions::new().environment(Environment { versions, ..environment });
        options.secret(Secret::new(secret.as_bytes()).unwrap()).mutual().connect()
    };
    assert!(connect("another secret of this length").is_err());
    let mut member = connect(SECRET).unwrap().unwrap();
    assert_eq!((member.rank, exchange(&mut member.pmi, 0, 1)), (0, "of-0".to_owned()));
    let (code, _, said) = host.end();
    assert_eq!(code, 0, "{said}");
    assert!(said.contains("did not prove the secret"), "{said}");
    // Each message of the method is in the trace, without its text.
    let recorded = fs::read(&trace).unwrap();
    let field = b"authinfo=";
    let texts = recorded.windows(field.len() + 1).filter(|bytes| bytes.starts_with(field));
    let starts: Vec<u8> = texts.map(|bytes| bytes[field.len()]).collect();
    assert_eq!(starts, *b"000000", "{said}");
}

// Coverage: W2-27
#[test]
fn peer_without_the_secret_is_rejected_and_the_job_goes_on() {
    let file = secret_file("wrong.secret", 0o600);
    let shown = file.to_str().unwrap();
    let mut host = Host::start(&["--expect", "1", "--secret-file", shown]);
    // By number, without a request for the challenge, and with a wrong proof.
    let mut guess = host.dial();
    let told = ask(&mut guess, "cmd=initack pmiid=0\n");
    assert!(told.contains("rc=") && !told.contains("rc=0 "), "{told}");
    rest(&mut guess);
    host.says("did not prove the secret");
    for body in
        ["cmd=fullinit;pmirank=0;", "cmd=fullinit;pmirank=0;authtype=challenge-hmac-sha256;"]
    {
        host.said.clear();
        let mut guess = host.dial();
        ask(&mut guess, "cmd=init pmi_version=2 pmi_subversion=0\n");
        guess.write_all(format!("{:6}{body}", body.len()).as_bytes()).unwrap();
        if body.contains("authtype") {
            let proof = format!("cmd=auth-response-complete;authinfo={};", "0".repeat(64));
            guess.write_all(format!("{:6}{proof}", proof.len()).as_bytes()).unwrap();
        }
        let told = rest(&mut guess);
        assert!(!told.contains("rc=0;"), "{told}");
        host.says("did not prove the secret");
        host.says("the job continues");
    }
    let id = run(&mut crate::common::host(["pmiid", "--secret-file", shown, "0"])).out;
    assert_eq!(client(&host.port, id.trim().parse().unwrap()).join().unwrap().1, "of-0");
    assert_eq!(host.end().0, 0);
}

#[test]
fn rank_is_given_once() {
    let mut host = Host::start(&["--expect", "1", "-n", "1", "sh", "-c", &local_rank()]);
    let mut first = host.dial();
    assert!(ask(&mut first, "cmd=initack pmiid=1\n").starts_with("cmd=initack"));
    for (id, why) in [(1, "rank 1 is connected already"), (7, "identity 7 is not expected")] {
        let mut second = host.dial();
        let told = ask(&mut second, &format!("cmd=initack pmiid={id}\n"));
        assert!(told.contains("rc=") && !told.contains("rc=0 "), "{told}");
        rest(&mut second);
        host.says(why);
    }
    // A rank that was started here is not admitted either.
    let mut second = host.dial();
    second.write_all(b"cmd=initack pmiid=0\n").unwrap();
    rest(&mut second);
    host.says("a connection from 127.0.0.1:");
    // The first connection has no session yet: after its end, another is admitted.
    drop(first);
    let ended = (0..100).find_map(|_| {
        let mut again = host.dial();
        again.write_all(b"cmd=initack pmiid=1\n").unwrap();
        let mut answer = String::new();
        BufReader::new(again.try_clone().unwrap()).read_line(&mut answer).unwrap();
        let is_in = answer.contains("rc=0") || answer == "cmd=initack\n";
        if !is_in {
            thread::sleep(Duration::from_millis(20));
        }
        is_in.then_some(again)
    });
    let mut again = ended.expect("the rank is free again");
    for line in
        ["cmd=init pmi_version=1 pmi_subversion=1\n", "cmd=put kvsname=x key=card-1 value=late\n"]
    {
        again.write_all(line.as_bytes()).unwrap();
    }
    again.write_all(b"cmd=barrier_in\ncmd=finalize\n").unwrap();
    assert!(rest(&mut again).contains("cmd=finalize_ack rc=0"));
    let (code, out, said) = host.end();
    assert_eq!((code, &*out), (0, "0: late\n"), "{said}");
}

#[test]
fn ranks_of_one_guest_are_a_node_with_attributes_of_its_own() {
    // Rank 0 runs here, ranks 1 and 2 on one guest, rank 3 on another.
    let host = Host::start(&["--expect", "1x2,1", "-n", "1", "sh", "-c", &local_rank()]);
    let mut ranks = [1, 2, 3].map(|rank| {
        let mut stream = host.dial();
        ask(&mut stream, "cmd=init pmi_version=2 pmi_subversion=0\n");
        let opened = frame(&mut stream, &format!("cmd=fullinit;pmirank={rank};"));
        assert!(opened.contains("rc=0;"), "{opened}");
        stream
    });
    let [first, second, other] = &mut ranks;
    let mapping = frame(other, "cmd=info-getjobattr;key=PMI_process_mapping;");
    assert!(mapping.contains("value=(vector,(0,1,1),(1,1,2),(2,1,1));"), "{mapping}");
    for (stream, local) in [(&mut *first, "1,2"), (&mut *second, "1,2"), (&mut *other, "3")] {
        let ranks = frame(stream, "cmd=info-getnodeattr;key=localRanks;wait=FALSE;");
        assert!(ranks.contains(&format!("value={local};")), "{ranks}");
    }
    assert!(frame(first, "cmd=info-putnodeattr;key=segment;value=0x9000;").contains("rc=0;"));
    let get = "cmd=info-getnodeattr;key=segment;wait=FALSE;";
    assert!(frame(second, get).contains("found=TRUE;value=0x9000;"));
    assert!(frame(other, get).contains("found=FALSE;"));
    assert!(frame(first, "cmd=kvs-put;key=card-1;value=of-1;").contains("rc=0;"));
    for stream in &mut ranks {
        send_frame(stream, "cmd=kvs-fence;");
    }
    for stream in &mut ranks {
        assert!(read_frame(stream).contains("rc=0;"));
        assert!(frame(stream, "cmd=finalize;").contains("rc=0;"));
    }
    let (code, out, said) = host.end();
    assert_eq!((code, &*out), (0, "0: of-1\n"), "{said}");
}

/// Sends a message of PMI-2, which has its length in front, and reads the response.
fn frame(stream: &mut TcpStream, body: &str) -> String {
    send_frame(stream, body);
    read_frame(stream)
}

fn send_frame(stream: &mut TcpStream, body: &str) {
    stream.write_all(format!("{:<6}{body}", body.len()).as_bytes()).unwrap();
}

fn read_frame(stream: &mut TcpStream) -> String {
    let mut digits = [0; 6];
    stream.read_exact(&mut digits).unwrap();
    let mut body = vec![0; std::str::from_utf8(&digits).unwrap().trim().parse().unwrap()];
    stream.read_exact(&mut body).unwrap();
    String::from_utf8(body).unwrap()
}

#[test]
fn rank_that_vanishes_ends_the_job_and_is_named() {
    let host = Host::start(&["--expect", "2", "-n", "1", "sleep", "60"]);
    let mut gone = host.dial();
    ask(&mut gone, "cmd=initack pmiid=1\ncmd=init pmi_version=1 pmi_subversion=1\n");
    let from = gone.local_addr().unwrap();
    drop(gone);
    let (code, _, said) = host.end();
    assert_eq!(code, 1, "{said}");
    assert!(said.contains(&format!("rank 1 of 3 (connected from {from}) disconnected")), "{said}");
    assert!(said.contains("the 1 rank still running is terminated"), "{said}");
    assert!(said.contains("1 of 2 ranks have connected"), "{said}");
    assert!(
        said.lines().any(|line| line.split_whitespace().eq(["rank", "2", "not", "connected"])),
        "{said}"
    );
}

#[test]
fn missing_ranks_are_reported_and_silent_peers_are_rejected() {
    let mut host = Host::start(&["--expect", "2"]);
    let mut silent = host.dial();
    let mut half = host.dial();
    half.write_all(b"cmd=initack pmi").unwrap();
    rest(&mut silent);
    rest(&mut half);
    host.says("nothing arrived in the allowed time");
    let mut there = host.dial();
    ask(&mut there, "cmd=initack pmiid=1\n");
    host.says("after 10 s 1 of 2 ranks have connected");
    host.says("not connected");
    host.says("127.0.0.1:");
    let pid = host.child.id().to_string();
    assert!(Command::new("kill").args(["-s", "TERM", &pid]).status().unwrap().success());
    assert_eq!(host.end().0, 143);
}

#[test]
fn no_port_is_opened_with_a_secret_that_others_can_read() {
    let refused = |words: &[&str], parts: &[&str]| {
        run(host(["run"]).args(words)).exits_with(1).says(parts);
    };
    let open = secret_file("open.secret", 0o644);
    let open = open.to_str().unwrap();
    let line = ["--listen", "127.0.0.1:0", "--expect", "1", "--secret-file"];
    refused(&[&line[..], &[open]].concat(), &["other users may read", "chmod 600"]);
    refused(&[&line[..], &["/no/such/file"]].concat(), &["'/no/such/file' cannot be read"]);
    let short = secret_file("short.secret", 0o600);
    fs::write(&short, "short").unwrap();
    refused(&[&line[..], &[short.to_str().unwrap()]].concat(), &["16 to 64 bytes"]);
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    refused(&["--listen", &address, "--expect", "1"], &[&address, "another port"]);
}

// Coverage: W2-52
#[test]
fn without_being_asked_the_launcher_listens_nowhere() {
    let script =
        "ls -l /proc/$PPID/fd | sed -n 's/.*socket:.\\([0-9]*\\).*/\\1/p' | sort > $LIST.own
                  awk '{ print $10 }' /proc/net/tcp /proc/net/tcp6 2>/dev/null | sort > $LIST.tcp
                  comm -12 $LIST.own $LIST.tcp | wc -l; exit $CODE";
    let list = Path::new(env!("CARGO_TARGET_TMPDIR")).join("sockets");
    // Tools would find a run that takes long.
    let sockets = |words: &[&str], code: i32| {
        let mut command = host(["run", "--no-tools", "-n", "1"]);
        command.args(words).args(["sh", "-c", script]);
        let ran = run(command.env("LIST", OsString::from(&list)).env("CODE", code.to_string()));
        ran.exits_with(code).out.trim().to_owned()
    };
    assert_eq!(sockets(&["--pmi", "1"], 0), "0");
    // A shell may start a PMIx client, which has no other way.
    assert_eq!(sockets(&[], 0), "1");
    // No rank connects, so the failure ends the run.
    assert_eq!(sockets(&["--pmi", "1", "--listen", "127.0.0.1:0", "--expect", "1"], 7), "1");
}

/// Notices for a member that opened a second connection, and signals for its process.
mod out_of_band {
    use super::*;
    use pmi_core::command::{Notice, Version};
    use pmi_std::Notices;
    use pmi_std::env::{Environment, RequestedVersions, Transport};

    /// A rank that waits for signals: it is the client of its own second connection as well.
    const RANK: &str =
        "trap 'echo got USR1' USR1; trap 'echo got USR2' USR2; trap 'echo got TERM; exit 0' TERM
        echo ready $PMI_PORT $PMI_ID; while :; do sleep 0.01; done";

    fn ready(host: &mut Host) -> BufReader<std::process::ChildStdout> {
        let mut out = BufReader::new(host.child.stdout.take().unwrap());
        let mut line = String::new();
        out.read_line(&mut line).unwrap();
        assert_eq!(line, format!("ready {} 0\n", host.port));
        out
    }

    fn signal(host: &Host, name: &str) {
        let pid = host.child.id().to_string();
        assert!(Command::new("kill").args(["-s", name, &pid]).status().unwrap().success());
    }

    fn line(from: &mut impl BufRead) -> String {
        let mut line = String::new();
        from.read_line(&mut line).unwrap();
        line
    }

    // Coverage: W2-51
    #[test]
    fn member_that_listens_receives_checkpoint_and_abort_before_it_is_ended() {
        let mut host = Host::start(&["--expect", "1", "-n", "1", "sh", "-c", RANK]);
        let mut out = ready(&mut host);
        // Without a listener the second user signal is a signal.
        signal(&host, "USR2");
        assert_eq!(line(&mut out), "got USR2\n");
        let mut second = host.dial();
        let hello = "cmd=init_oob pmiid=0 signal=SIGUSR1 pmi_version=1 pmi_subversion=1\n";
        let told = ask(&mut second, hello);
        assert!(told.contains("rc=0"), "{told}");
        let mut second = BufReader::new(second);
        signal(&host, "USR2");
        assert_eq!(line(&mut second), "cmd=checkpoint\n");
        assert_eq!(line(&mut out), "got USR1\n");
        // Rank 1 connects, opens its session, and disconnects.
        let mut other = host.dial();
        ask(&mut other, "cmd=initack pmiid=1\ncmd=init pmi_version=1 pmi_subversion=1\n");
        drop(other);
        let told = line(&mut second);
        assert!(told.starts_with("cmd=abort") && told.contains("exitcode=1"), "{told}");
        let mut all = String::new();
        out.read_to_string(&mut all).unwrap();
        assert!(all.contains("got USR1") && all.contains("got TERM"), "{all}");
        assert_eq!(host.child.wait().unwrap().code(), Some(1));
    }

    // Coverage: W2-49
    #[test]
    fn signal_of_the_second_connection_is_one_that_the_system_has() {
        let rank = RANK.replace("$PMI_ID;", "$PMI_ID; echo $$;");
        let mut host = Host::start(&["--expect", "1", "-n", "1", "sh", "-c", &rank]);
        let mut out = ready(&mut host);
        let hello = |signal: &str| {
            format!("cmd=init_oob signal={signal} pmi_version=2 pmi_subversion=0 pmiid=0\n")
        };
        for unknown in ["SIGFOO", "SIGRTMIN+1", "64"] {
            let said = ask(&mut host.dial(), &hello(unknown));
            assert!(said.contains("rc=-1") || said.contains("rc=14"), "{unknown}: {said}");
        }
        // The example of the specification, which is sent and not only promised.
        let mut second = host.dial();
        let said = ask(&mut second, &hello("SIGSTOP"));
        assert!(said.contains("rc=0"), "{said}");
        signal(&host, "USR2");
        let mut notice = [0; 21];
        second.read_exact(&mut notice).unwrap();
        assert_eq!(&notice, b"    15cmd=checkpoint;");
        let pid: u32 = line(&mut out).trim().parse().unwrap();
        while !is_stopped(pid) {
            thread::sleep(Duration::from_millis(10));
        }
        assert!(
            Command::new("kill").args(["-s", "CONT", &pid.to_string()]).status().unwrap().success()
        );
        signal(&host, "TERM");
        host.child.wait().unwrap();
    }

    /// True if the process is stopped, by `/proc`.
    fn is_stopped(pid: u32) -> bool {
        let status = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
        status.rsplit(')').next().unwrap().trim_start().starts_with('T')
    }

    /// The second connection of the rank that connects to `port` as `id`, by the client of this project.
    fn listen(port: &str, id: &str, version: Version) -> Notices {
        let (host, port) = port.rsplit_once(':').unwrap();
        let (port, id) = (port.parse().unwrap(), id.parse().unwrap());
        let transport = Transport::Tcp { host: host.to_owned(), port, id };
        let versions = RequestedVersions::Only(version);
        let environment = Environment { versions, ..Environment::new(transport, 0, 1) };
        Notices::open_by(&environment, None).unwrap().unwrap()
    }

    #[test]
    fn port_for_second_connections_alone_waits_for_no_peer() {
        let words = ["run", "--listen", "127.0.0.1:0", "--expect", "0", "-n", "2"];
        let script = "echo ${PMI_PORT%:*} $PMI_ID";
        let ran = run(host(words).args(["sh", "-c", script])).exits_with(0).says_nothing();
        assert_eq!(ran.lines(), ["127.0.0.1 0", "127.0.0.1 1"]);
    }

    #[test]
    fn ranks_of_spawned_jobs_listen_as_well_with_numbers_of_their_own() {
        // Rank 0 spawns two ranks that print the address for a connection; all wait for their end.
        let child = "trap 'exit 0' TERM; echo child $PMI_RANK $PMI_PORT $PMI_ID; \
                     while :; do sleep 0.01; done";
        let parent = format!(
            "trap 'exit 0' TERM; echo cmd=init pmi_version=1 pmi_subversion=1 >&$PMI_FD
            printf 'mcmd=spawn\\nnprocs=2\\nexecname=sh\\ntotspawns=1\\nspawnssofar=1\\n' >&$PMI_FD
            printf 'arg1=-c\\narg2=%s\\nargcnt=2\\npreput_num=0\\ninfo_num=0\\nendcmd\\n' \
                \"{child}\" >&$PMI_FD
            while :; do sleep 0.01; done"
        )
        .replace("$PMI_RANK $PMI_PORT $PMI_ID", "\\$PMI_RANK \\$PMI_PORT \\$PMI_ID");
        let mut host = Host::start(&["--expect", "1", "-n", "1", "sh", "-c", &parent]);
        let mut out = BufReader::new(host.child.stdout.take().unwrap());
        let mut notices = vec![listen(&host.port, "0", Version::V1_1)];
        for _ in 0..2 {
            let said = line(&mut out);
            let [_, rank, port, id] = said.split_whitespace().collect::<Vec<_>>()[..] else {
                panic!("{said}")
            };
            // The first job has 0 and 1.
            assert_eq!(
                (port, id.parse::<u32>()),
                (&*host.port, Ok(rank.parse::<u32>().unwrap() + 2))
            );
            notices.push(listen(port, id, Version::V2_0));
        }
        signal(&host, "USR2");
        for notices in &mut notices {
            assert_eq!(notices.wait().unwrap(), Some(Notice::Checkpoint));
        }
        let mut other = host.dial();
        ask(&mut other, "cmd=initack pmiid=1\ncmd=init pmi_version=1 pmi_subversion=1\n");
        drop(other);
        for notices in &mut notices {
            assert_eq!(notices.wait().unwrap(), Some(Notice::Abort(1)));
        }
        assert_eq!(host.child.wait().unwrap().code(), Some(1));
        for notices in &mut notices {
            // The launcher is gone, with a finalize or without.
            assert!(!matches!(notices.wait(), Ok(Some(_))));
        }
    }
}
