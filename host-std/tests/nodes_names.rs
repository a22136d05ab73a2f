//! Published names of several launchers: `pmi-host name-server` and `--name-server`.

use crate::common::library::{Library, MPICH_4, MPICH_5, OPEN_MPI_4, OPEN_MPI_5};
use crate::common::tools::{ENDLESS, Place};
use crate::common::wheel::on_loopback;
use crate::common::{Ran, Running, host, pmix_program, run, shell, start};
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

    /// The same with a rank that makes these requests of PMIx, if its library is installed.
    fn ask_pmix(&self, requests: &str) -> Option<Command> {
        let program = pmix_program("pmix_apart")?;
        let words = ["-n", "1", program.to_str().unwrap()];
        let mut command = self.run(&[&words[..], &Vec::from_iter(requests.split(' '))].concat());
        command.stdin(Stdio::piped());
        Some(command)
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

/// All ranks of two launchers with these nodes work together.
fn programs_work_together(library: &Library, name: &str, (first, second): (&[&str], &[&str])) {
    let Some(program) = (library.build)("meet") else { return };
    let program = program.to_str().unwrap();
    let server = NameServer::start(name);
    let job = |words: &[&str], ranks: &str, what: &[&str]| {
        let mut command = server.run(&[words, &["-n", ranks, program], what].concat());
        on_loopback(&mut command);
        command
    };
    // Another one comes when the first has gone.
    let serving = start(&mut job(first, "2", &["serve", "2"]));
    serving.wait_for_output("published\n");
    let ran = run(&mut job(second, "3", &["visit"])).exits_with(0).says_nothing();
    assert_eq!(ran.out, "2 others, received 100, sum 3204\n");
    let ran = run(&mut job(second, "1", &["visit"])).exits_with(0).says_nothing();
    assert_eq!(ran.out, "2 others, received 100, sum 1201\n");
    let ran = serving.end().exits_with(0).says_nothing();
    let lines = ["3 others, received 1000, sum 3204", "1 others, received 1000, sum 1201"];
    assert_eq!(in_order(&ran)[1..], lines);
}

#[test]
fn programs_of_open_mpi_connect_with_those_of_another_launcher() {
    for (library, name) in [(&OPEN_MPI_4, "connect4"), (&OPEN_MPI_5, "connect5")] {
        programs_work_together(library, name, (&[], &[]));
        let nodes = (&["--starter", "local:2"][..], &["--starter", "local:3"][..]);
        programs_work_together(library, &format!("{name}-nodes"), nodes);
    }
}

/// Two launchers whose PMIx processes, `a` and `b`, make these requests of each other.
struct Meeting {
    server: NameServer,
    program: PathBuf,
}

impl Meeting {
    fn new(test: &str) -> Option<Self> {
        let program = pmix_program("pmix_meet")?;
        Some(Self { server: NameServer::start(test), program })
    }

    fn start(&self, own: &str, other: &str, requests: &str) -> Running {
        let words = ["-n", "1", self.program.to_str().unwrap(), own, other];
        let words = [&words[..], &Vec::from_iter(requests.split(' '))].concat();
        start(self.server.run(&words).stdin(Stdio::piped()))
    }
}

#[test]
fn data_of_pmix_is_read_under_another_launcher_from_a_connect_to_a_disconnect() {
    let Some(meeting) = Meeting::new("connect-data") else { return };
    // Longer than a message to the name server.
    let colour = "red".repeat(30_000);
    let requests = format!(
        "put colour {colour} connect 0 get colour get absent get pmix.job.size put shape round fence get \
         shape disconnect get other"
    );
    let both = [meeting.start("a", "b", &requests), meeting.start("b", "a", &requests)];
    for running in both {
        let ran = running.end().exits_with(0).says_nothing();
        let answers = [
            "put colour: done",
            "connect 0: done",
            &format!("get colour: {colour}"),
            "get absent: -46",
            "get pmix.job.size: 1",
            "put shape: done",
            "fence: done",
            "get shape: round",
            "disconnect: done",
            "get other: -46",
        ];
        assert_eq!(in_order(&ran), answers);
    }
}

#[test]
fn connect_fails_when_the_other_launcher_or_the_name_server_is_lost() {
    let Some(mut meeting) = Meeting::new("connect-lost") else { return };
    // One that is terminated, and one whose process ends without an answer. What it has published, which the
    // other reads first, goes with it.
    for is_killed in [true, false] {
        let mut other = meeting.start("b", "a", "say ready line");
        let waits = meeting.start("a", "b", "say ready connect 0");
        waits.wait_for_output("ready\n");
        other.wait_for_output("ready\n");
        match is_killed {
            true => other.signal("KILL"),
            false => other.types("\n"),
        }
        other.end();
        let ran = waits.end().exits_with(0).says_nothing();
        // The end of the other may arrive before the connect.
        let lines = in_order(&ran);
        assert!(matches!(lines[1..], ["connect 0: -61" | "connect 0: -46"]), "{lines:?}");
    }
    let other = meeting.start("b", "a", "say ready line");
    let waits = meeting.start("a", "b", "say ready connect 0 connect 0");
    waits.wait_for_output("ready\n");
    other.wait_for_output("ready\n");
    meeting.server.end();
    let ran = waits.end().exits_with(0).says(&["the name server '127.0.0.1:"]);
    assert_eq!(in_order(&ran)[1..], ["connect 0: -25", "connect 0: -25"]);
    other.signal("KILL");
    other.end();
}

#[test]
fn connect_that_has_timed_out_may_be_tried_again() {
    let Some(meeting) = Meeting::new("connect-again") else { return };
    let mut late = meeting.start("b", "a", "put k v line connect 0 get k");
    // What is known of a launcher goes with it.
    let mut first = meeting.start("a", "b", "put k w connect 1 connect 0 get k line");
    first.wait_for_output("connect 1: -24\n");
    late.types("\n");
    let ran = late.end().exits_with(0).says_nothing();
    assert_eq!(in_order(&ran), ["put k: done", "connect 0: done", "get k: w"]);
    first.types("\n");
    let ran = first.end().exits_with(0).says_nothing();
    assert_eq!(in_order(&ran), ["put k: done", "connect 1: -24", "connect 0: done", "get k: v"]);
}

#[test]
fn process_that_no_launcher_has_is_unknown() {
    let Some(meeting) = Meeting::new("connect-unknown") else { return };
    let program = meeting.program.to_str().unwrap();
    let words = ["-n", "1", program, "a", "=kvs_none", "connect", "0", "disconnect", "fence"];
    let answers = ["connect 0: -46", "disconnect: -46", "fence: -46"];
    let ran = run(&mut meeting.server.run(&words)).exits_with(0).says_nothing();
    assert_eq!(in_order(&ran), answers);
    for starter in [&["run", "--starter", "local:1"][..], &["run"]] {
        let ran = run(host(starter).args(words)).exits_with(0);
        assert_eq!(in_order(&ran), answers);
        ran.says(&["rank 0 of 1", "cannot connect with job 'kvs_none'", "'--name-server'"]);
    }
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

/// The requests of a launcher, whose answers are these.
#[track_caller]
fn asks_pmix(server: &NameServer, requests: &str, answers: &[&str]) {
    let ran = run(&mut server.ask_pmix(requests).unwrap()).exits_with(0).says_nothing();
    assert_eq!(in_order(&ran), answers, "{requests}");
}

/// The lines of output.
fn in_order(ran: &Ran) -> Vec<&str> {
    ran.out.lines().collect()
}

#[test]
fn data_of_pmix_is_found_under_other_launchers_as_far_as_its_range_goes() {
    let server = NameServer::start("pmix-ranges");
    let publish = "publish port 4711 session app publish wide 1 global app publish once 2 session once \
                   publish mine 3 namespace app publish node 4 local app publish rm 5 rm app";
    let Some(mut first) = server.ask_pmix(&format!("{publish} line unpublish port line")) else {
        return;
    };
    let mut first = start(&mut first);
    first.wait_for_output("publish rm: done\n");
    let requests = "lookup port 0 lookup wide 0 lookup once 0 lookup once 0 lookup mine 0 lookup node 0 \
                    publish port 4712 global app publish mine 6 namespace app lookup mine 0 \
                    unpublish port lookup port 0 lookup nothing 1";
    let answers = [
        "lookup port: 4711 of rank 0",
        "lookup wide: 1 of rank 0",
        "lookup once: 2 of rank 0",
        "lookup once: -46",
        "lookup mine: -46",
        "lookup node: -46",
        "publish port: -53",
        "publish mine: done",
        "lookup mine: 6 of rank 0",
        "unpublish port: done",
        "lookup port: 4711 of rank 0",
        "lookup nothing: -24",
    ];
    asks_pmix(&server, requests, &answers);
    first.types("\n");
    first.wait_for_output("unpublish port: done\n");
    asks_pmix(&server, "lookup port 0 lookup wide 0", &["lookup port: -46", answers[1]]);
    first.types("\n");
    first.end().exits_with(0);
    asks_pmix(&server, "lookup wide 0", &["lookup wide: -46"]);
}

#[test]
fn lookup_of_pmix_waits_for_the_publication_of_another_launcher() {
    let server = NameServer::start("pmix-waits");
    let requests = "lookup late 60 lookup desk 60";
    let Some(mut waits) = server.ask_pmix(requests) else { return };
    // Two launchers wait for the same; one that is lost leaves no wait behind, which would read what is to be
    // read once.
    let (waits, lost) = (start(&mut waits), start(&mut server.ask_pmix(requests).unwrap()));
    asks_pmix(&server, "lookup late 1", &["lookup late: -24"]);
    lost.signal("KILL");
    lost.end();
    let mut first = server.ask_pmix("publish late 7 session once line").unwrap();
    let mut first = start(&mut first);
    waits.wait_for_output("lookup late: 7 of rank 0\n");
    first.types("\n");
    first.end().exits_with(0);
    // A client of PMI-1 has published the other.
    let mut desk = start(server.ask(&[PUBLISH, WAIT]).stdin(Stdio::piped()));
    let ran = waits.end().exits_with(0).says_nothing();
    assert_eq!(in_order(&ran)[1..], ["lookup desk: room-12 of rank 0"]);
    desk.types("\n");
    desk.end().exits_with(0);
}

#[test]
fn data_of_pmix_outlives_its_process_or_its_run_by_its_persistence() {
    let server = NameServer::start("pmix-persistence");
    let all = ["indef", "proc", "app", "session"];
    let publish = all.map(|how| format!("publish {how} 1 session {how}")).join(" ");
    let lookup = all.map(|how| format!("lookup {how} 0")).join(" ");
    let found = |what: &[&str]| {
        all.map(|how| match what.contains(&how) {
            true => format!("lookup {how}: 1 of rank 0"),
            false => format!("lookup {how}: -46"),
        })
    };
    #[track_caller]
    fn expect(server: &NameServer, requests: &str, answers: &[String]) {
        asks_pmix(server, requests, &Vec::from_iter(answers.iter().map(String::as_str)));
    }
    let Some(program) = pmix_program("pmix_apart") else { return };
    let program = program.to_str().unwrap();
    for is_lost in [false, true] {
        // Rank 1 waits for a line, and has the input.
        let words = Vec::from_iter(publish.split(' '));
        let words = [
            &["--stdin", "1", "-n", "1", program][..],
            &words,
            &[":"],
            &["-n", "1", program, "line"],
        ];
        let mut first = start(server.run(&words.concat()).stdin(Stdio::piped()));
        first.wait_for_output("publish session: done\n");
        // The end of rank 0 reaches the server after its output.
        let is_over = |_: &u32| {
            let ran = run(&mut server.ask_pmix("lookup proc 0").unwrap());
            ran.out == "lookup proc: -46\n"
        };
        assert!((0..600).any(|turn| is_over(&turn)), "data of the process is left");
        expect(&server, &lookup, &found(&["indef", "app", "session"]));
        if is_lost {
            first.signal("KILL");
        } else {
            first.types("\n");
        }
        first.end();
        expect(&server, &lookup, &found(&["indef"]));
        // The key stays taken until a process of the same user unpublishes it.
        let mut others = vec!["publish indef: -53".to_owned(), "unpublish indef: done".into()];
        others.extend(found(&[]));
        expect(&server, &format!("publish indef 2 session app unpublish indef {lookup}"), &others);
    }
}

#[test]
fn clients_of_pmi_and_of_pmix_find_names_of_each_other_under_two_launchers() {
    let server = NameServer::start("protocols");
    let Some(mut first) = server.ask_pmix("publish desk room-14 session app line") else { return };
    let mut first = start(&mut first);
    first.wait_for_output("publish desk: done\n");
    let ran = run(&mut server.ask(&[LOOK_UP, PUBLISH, UNPUBLISH])).exits_with(0);
    let lines = in_order(&ran);
    assert_eq!(lines[0], "cmd=lookup_result rc=0 info=ok port=room-14");
    assert!(lines[1].starts_with("cmd=publish_result rc=1"), "{}", ran.out);
    assert!(lines[2].starts_with("cmd=unpublish_result rc=1"), "{}", ran.out);
    first.types("\n");
    first.end().exits_with(0);
}

fn programs_share_names(library: &Library, name: &str) {
    let Some(program) = (library.build)("names") else { return };
    let program = program.to_str().unwrap();
    let server = NameServer::start(name);
    let mpiexec = |what: &str| {
        let mut command =
            host(["mpiexec", "-nameserver", &server.address, "-n", "2", program, what]);
        library.prepare(with_settings(&mut command, &server.settings)).stdin(Stdio::piped());
        command
    };
    let mut first = start(&mut mpiexec("publish"));
    first.wait_for_output("published\n");
    let lookup = || run(&mut mpiexec("lookup")).exits_with(0).out;
    assert_eq!(lookup(), "the port is quay-12\n");
    first.types("\n");
    first.end().exits_with(0);
    assert_eq!(lookup(), "the port is unknown\n");
}

#[test]
fn programs_of_each_library_find_names_under_two_launchers() {
    let all = [(&MPICH_4, "mpich4"), (&MPICH_5, "mpich5")];
    for (library, name) in all.into_iter().chain([(&OPEN_MPI_4, "ompi4"), (&OPEN_MPI_5, "ompi5")]) {
        programs_share_names(library, name);
    }
}

#[test]
fn tools_share_the_names_of_a_name_server() {
    let server = NameServer::start("tools");
    let place = Place::new("name-server");
    let key = server.settings.join("pmi-host/name-server.key");
    let names = ["--name-server", &server.address, "--name-key", key.to_str().unwrap()];
    let job = place.start(names.into_iter().chain(["-n", "1"]).chain(ENDLESS));
    let Some(mut first) = server.ask_pmix("publish ocean far session app line") else { return };
    let mut first = start(&mut first);
    first.wait_for_output("publish ocean: done\n");
    let lookup = || run(place.within(host(["pmix"]).args(["lookup", "ocean"])));
    assert_eq!(lookup().exits_with(0).lines(), ["ocean: far"]);
    first.types("\n");
    first.end().exits_with(0);
    lookup().exits_with(1);
    job.signal("TERM");
    job.end().exits_with(143);
}

#[test]
fn requests_of_pmix_fail_without_the_name_server() {
    let mut server = NameServer::start("pmix-lost");
    let requests = "publish port 1 session app line lookup port 60 publish other 2 session app";
    let Some(mut first) = server.ask_pmix(requests) else { return };
    let mut first = start(&mut first);
    first.wait_for_output("publish port: done\n");
    let waits = start(&mut server.ask_pmix("lookup port 0 lookup never 60").unwrap());
    waits.wait_for_output("lookup port: 1 of rank 0\n");
    server.end();
    first.wait_for_errors("the name server '127.0.0.1:");
    first.types("\n");
    let ran = first.end().exits_with(0);
    assert_eq!(in_order(&ran)[1..], ["lookup port: -25", "publish other: -25"]);
    let ran = waits.end().exits_with(0).says(&["the name server '127.0.0.1:"]);
    assert_eq!(in_order(&ran)[1..], ["lookup never: -25"]);
}
