//! Scenes, and their expected results.

use super::qemu::{GuestLink, Line, MPS2, Running};
use super::{Arch, BOARD, SCENE_TIME};
use crate::tally::Tally;
use crate::{failures, process, toolchain};
use std::ffi::OsStr;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::Instant;
use std::{fs, io};

/// Guests without a peer: their arguments and exit status.
const ALONE: &[(&str, i32)] =
    &[("role=trap", 13), ("role=panic", 3), ("port=none", 2), ("port=1 limit-ms=300", 5)];

/// Guests with a server that breaks the rules: the manager's part, and the exit status.
const ROGUES: &[(&str, i32)] = &[("gone", 6), ("long", 8), ("malformed", 9)];

const FIRST_ID: u64 = 7_000_000_000;
const SECRET: &str = "what-only-the-guests-know";
const WRONG_SECRET: i32 = 7;
/// Processes beside guests in one job.
const PROCESSES: usize = 2;
/// Places of the guest that is a server.
const GUEST_CLIENTS_MAX: usize = 3;

/// Images of the microcontroller, and the guest in C.
pub(crate) struct Boards {
    /// Eight ranks and their server.
    pub(crate) eight: PathBuf,
    /// A rank with a serial line, in Rust and in C.
    pub(crate) serial: [PathBuf; 2],
    /// The rank in C on a 64-bit guest.
    pub(crate) guest: PathBuf,
    /// The rank with embassy on a micro:bit.
    pub(crate) microbit: PathBuf,
}

impl Boards {
    /// The scenes of the microcontroller without processes of this machine.
    pub(crate) fn play(&self, manager: &Path) -> Tally {
        let mut tally = scene(BOARD, "eight ranks and their server", || self.eight_ranks());
        let name = "two boards with only a serial line, in Rust and in C";
        tally += scene(BOARD, name, || self.dial_in(manager));
        tally
    }

    /// The other scenes.
    pub(crate) fn play_with(&self, linux: &Linux) -> Tally {
        let name = "two boards behind bridges of pmi-host, in a job with a process";
        let mut tally = scene(BOARD, name, || self.behind_bridges(linux));
        let name = "a board and a guest in C, in a job with processes";
        tally += scene(BOARD, name, || self.in_c(linux));
        let name = "a micro:bit with the source of the RP2040, in a job with processes";
        tally += scene(BOARD, name, || self.with_embassy(linux));
        tally
    }

    fn eight_ranks(&self) -> Result<(), String> {
        let lines =
            Running::board(MPS2, &self.eight, None)?.ends_with(0, Instant::now() + SCENE_TIME)?;
        match lines.iter().any(|line| line.contains("8 ranks done")) {
            true => Ok(()),
            false => Err("it does not print that it is done".into()),
        }
    }

    fn dial_in(&self, manager: &Path) -> Result<(), String> {
        let until = Instant::now() + SCENE_TIME;
        let mut manager = Running::manager(manager, &["2", &FIRST_ID.to_string(), SECRET])?;
        let to = format!("tcp:127.0.0.1:{}", manager.port(until)?);
        let running: Vec<Running> = (FIRST_ID..)
            .zip(&self.serial)
            .map(|(id, image)| Running::board(MPS2, image, Some((&to, id))))
            .collect::<Result<_, _>>()?;
        all_tables(running, 0, "serial", until)?;
        manager.ends_with(0, until).map(drop)
    }

    fn behind_bridges(&self, linux: &Linux) -> Result<(), String> {
        let until = Instant::now() + SCENE_TIME;
        let mut host = linux.listen(1, "2")?;
        let to = format!("127.0.0.1:{}", host.dial_port(until)?);
        let (mut bridges, mut boards) = (Vec::new(), Vec::new());
        for (id, image) in (1..).zip(&self.serial) {
            let words = ["bridge", "--serial", "pty", "--to", &to].map(OsStr::new);
            let mut bridge = Running::host(&linux.host, &words)?;
            boards.push(Running::board(MPS2, image, Some((&bridge.device(until)?, id)))?);
            bridges.push(bridge);
        }
        serial_tables(boards, 1, until)?;
        bridges.iter_mut().try_for_each(|bridge| bridge.ends_with(0, until).map(drop))?;
        host.ends_with(0, until).map(drop)
    }

    /// The rank in C on both machines, in one job with ranks that `pmi-host` has started.
    fn in_c(&self, linux: &Linux) -> Result<(), String> {
        let until = Instant::now() + SCENE_TIME;
        let first = u32::try_from(PROCESSES).unwrap_or(0);
        let mut host = linux.listen(first, "2")?;
        let to = format!("tcp:127.0.0.1:{}", host.dial_port(until)?);
        let [_, board] = &self.serial;
        let running = vec![
            Running::board(MPS2, board, Some((&to, first.into())))?,
            Running::guest_in_c(&self.guest, &to, u64::from(first) + 1)?,
        ];
        serial_tables(running, PROCESSES, until)?;
        let lines = host.ends_with(0, until)?;
        let at = |rank: usize| if rank < PROCESSES { "linux" } else { "serial" };
        (0..PROCESSES).try_for_each(|rank| whole_table(&lines, rank, PROCESSES + 2, at))
    }

    /// The rank with embassy, in one job with ranks that `pmi-host` has started.
    fn with_embassy(&self, linux: &Linux) -> Result<(), String> {
        let until = Instant::now() + SCENE_TIME;
        let first = u32::try_from(PROCESSES).unwrap_or(0);
        let mut host = linux.listen(first, "1")?;
        let to = format!("tcp:127.0.0.1:{}", host.dial_port(until)?);
        let mut board = Running::microbit(&self.microbit, (&to, u64::from(first)))?;
        let at = |rank: usize| if rank < PROCESSES { "linux" } else { "microbit" };
        whole_table(&board.ends_with(0, until)?, PROCESSES, PROCESSES + 1, at)?;
        let lines = host.ends_with(0, until)?;
        (0..PROCESSES).try_for_each(|rank| whole_table(&lines, rank, PROCESSES + 1, at))
    }
}

/// Ends successfully all of `running`, the ranks from `first` on, which have a serial line. Each has printed
/// the cards of all; those of processes name their host.
fn serial_tables(running: Vec<Running>, first: usize, until: Instant) -> Result<(), String> {
    let size = first + running.len();
    for (rank, mut machine) in (first..).zip(running) {
        let lines = machine.ends_with(0, until)?;
        for peer in 0..size {
            let row = format!("rank {rank} of {size}: card-{peer} = rank-{peer}@");
            let is_row = |line: &&Line| line.starts_with(&row);
            let found = lines.iter().find(is_row).ok_or_else(|| format!("not printed: {row}"))?;
            if peer >= first && !found.ends_with("@serial") {
                return Err(format!("rank {rank} prints {found}"));
            }
        }
    }
    Ok(())
}

/// Environment of a scene.
pub(crate) struct Stage<'a> {
    pub(crate) arch: &'a Arch,
    pub(crate) kernel: PathBuf,
    pub(crate) manager: PathBuf,
}

/// Programs that run on this machine beside guests.
pub(crate) struct Linux {
    /// `pmi-host`.
    pub(crate) host: PathBuf,
    /// A rank that exchanges cards.
    pub(crate) cards: PathBuf,
}

impl Linux {
    /// Starts `pmi-host` with so many ranks here, and others that connect.
    fn listen(&self, started: u32, expected: &str) -> Result<Running, String> {
        let started = started.to_string();
        let words = ["run", "-n", &started, "--listen", "127.0.0.1:0", "--expect", expected];
        let words = words.map(OsStr::new).into_iter().chain([self.cards.as_os_str()]);
        Running::host(&self.host, &Vec::from_iter(words))
    }

    /// Process ids of guests, as a user requests them.
    fn ids(&self, guests: usize) -> Result<Vec<String>, String> {
        let secret = SecretFile::new()?;
        let id = |rank: usize| {
            let mut command = process::command(&self.host);
            command.args(["pmiid", "--secret-file"]).arg(&secret.0).arg(rank.to_string());
            process::output(&mut command).map(|id| id.trim().to_owned())
        };
        (PROCESSES..PROCESSES + guests).map(id).collect()
    }
}

impl Stage<'_> {
    /// The scenes without processes of this machine.
    pub(crate) fn play(&self, guests: usize) -> Tally {
        let old = |n: usize| format!("id={}", FIRST_ID + n as u64);
        let new = |n: usize| format!("pmi=2 rank={n} secret={SECRET}");
        let mut tally = self.scene("guests connect, PMI-1", || self.dial_in(guests, old));
        tally += self.scene("guests connect, PMI-2", || self.dial_in(guests, new));
        let frames = |n: usize| format!("{} pmi=binary", old(n));
        tally += self.scene("guests connect, binary dialect", || self.dial_in(guests, frames));
        let futures = |n: usize| format!("{} calls=futures", old(n));
        let name = "guests connect by futures, PMI-1";
        tally += self.scene(name, || self.dial_in(guests, futures));
        let each = |n: usize| [old(n), new(n), frames(n)][n % 3].clone();
        tally += self.scene("guests connect, each in another", || self.dial_in(guests, each));
        let name = "guests with a serial port, each in another";
        tally += self.scene(name, || self.by_serial_ports(guests.min(3), each));
        let clients = guests.min(GUEST_CLIENTS_MAX);
        tally += self.scene("guests among themselves", || self.among_themselves(clients));
        for (arguments, status) in ALONE {
            let name = format!("alone with `{arguments}`");
            tally += self.scene(&name, || self.ends(arguments, *status));
        }
        for (fault, status) in ROGUES {
            let name = format!("a server that is {fault}");
            tally += self.scene(&name, || self.meets(&[fault], "", *status));
        }
        let manager = ["1", &FIRST_ID.to_string(), SECRET];
        for wrong in
            ["id=1", "pmi=2 secret=what-the-guests-thought", "pmi=2", "pmi=2 rank=1 secret=none"]
        {
            let name = format!("a wrong secret, `{wrong}`");
            tally += self.scene(&name, || self.meets(&manager, wrong, WRONG_SECRET));
        }
        tally
    }

    /// The scenes with processes that `pmi-host` starts.
    pub(crate) fn play_with(&self, linux: &Linux, guests: usize) -> Tally {
        let guests = guests.min(2);
        let new = |n: usize| format!("pmi=2 rank={} secret={SECRET}", PROCESSES + n);
        let name = "guests and processes of pmi-host, PMI-2";
        let mut tally = self.scene(name, || self.with_processes(linux, guests, &["async"], new));
        let name = "guests and processes of pmi-host, PMI-1";
        tally += self.scene(name, || {
            let ids = linux.ids(guests)?;
            self.with_processes(linux, guests, &[], |n| format!("id={}", ids[n]))
        });
        let name = "two ranks of one guest, a guest with a serial port, and processes of pmi-host";
        tally += self.scene(name, || self.one_node(linux));
        tally
    }

    fn scene(&self, name: &str, play: impl FnOnce() -> Result<(), String>) -> Tally {
        scene(self.arch.name, name, play)
    }

    /// Guests with the identities of `who`, and a manager.
    fn dial_in(&self, guests: usize, who: impl Fn(usize) -> String) -> Result<(), String> {
        let until = Instant::now() + SCENE_TIME;
        let manager = [&guests.to_string(), &FIRST_ID.to_string(), SECRET];
        let mut manager = Running::manager(&self.manager, &manager)?;
        let port = manager.port(until)?;
        let running: Vec<Running> = (0..guests)
            .map(|n| self.guest(n, &format!("port={port} {}", who(n)), &GuestLink::User))
            .collect::<Result<_, _>>()?;
        self.all_tables(running, until)?;
        manager.ends_with(0, until).map(drop)
    }

    /// Guests with the identities of `who`, a virtio serial port each, and a manager.
    fn by_serial_ports(&self, guests: usize, who: impl Fn(usize) -> String) -> Result<(), String> {
        let until = Instant::now() + SCENE_TIME;
        let manager = [&guests.to_string(), &FIRST_ID.to_string(), SECRET];
        let mut manager = Running::manager(&self.manager, &manager)?;
        let link = GuestLink::Serial(manager.port(until)?);
        let running: Vec<Running> = (0..guests)
            .map(|n| self.guest(n, &format!("link=serial {}", who(n)), &link))
            .collect::<Result<_, _>>()?;
        self.all_tables(running, until)?;
        manager.ends_with(0, until).map(drop)
    }

    /// Two ranks of one guest are one node of the job, and the rank of another guest is a further one.
    fn one_node(&self, linux: &Linux) -> Result<(), String> {
        let until = Instant::now() + SCENE_TIME;
        let first = u32::try_from(PROCESSES).unwrap_or(0);
        let mut host = linux.listen(first, "1x2,1")?;
        let port = host.dial_port(until)?;
        let two = format!("port={port} calls=futures id={first},{}", first + 1);
        let mut two = self.guest(0, &two, &GuestLink::User)?;
        let one = format!("link=serial id={}", first + 2);
        let mut one = self.guest(1, &one, &GuestLink::Serial(port))?;
        let size = PROCESSES + 3;
        let bare = format!("bare-{}", self.arch.name);
        let at = |rank: usize| if rank < PROCESSES { "linux" } else { &bare };
        let exit = (self.arch.exit_of)(0);
        let lines = two.ends_with(exit, until)?;
        for rank in [PROCESSES, PROCESSES + 1] {
            whole_table(&lines, rank, size, at)?;
            let mapping = format!("rank {rank} of {size}: (vector,(0,2,2),(2,1,1))");
            if !lines.contains(&mapping) {
                return Err(format!("not printed: {mapping}"));
            }
        }
        whole_table(&one.ends_with(exit, until)?, PROCESSES + 2, size, at)?;
        let lines = host.ends_with(0, until)?;
        (0..PROCESSES).try_for_each(|rank| whole_table(&lines, rank, size, at))
    }

    /// Guests with the identities of `who`, in one job with processes that `pmi-host` has started.
    fn with_processes(
        &self,
        linux: &Linux,
        guests: usize,
        words: &[&str],
        who: impl Fn(usize) -> String,
    ) -> Result<(), String> {
        let until = Instant::now() + SCENE_TIME;
        let secret = SecretFile::new()?;
        let (processes, expected) = (PROCESSES.to_string(), guests.to_string());
        let listen = ["run", "-n", &processes, "--listen", "127.0.0.1:0", "--expect", &expected];
        let mut all: Vec<&OsStr> = listen.iter().map(OsStr::new).collect();
        all.extend([OsStr::new("--secret-file"), secret.0.as_os_str(), linux.cards.as_os_str()]);
        all.extend(words.iter().map(OsStr::new));
        let mut host = Running::host(&linux.host, &all)?;
        let port = host.dial_port(until)?;
        let running: Vec<Running> = (0..guests)
            .map(|n| self.guest(n, &format!("port={port} {}", who(n)), &GuestLink::User))
            .collect::<Result<_, _>>()?;
        let size = PROCESSES + guests;
        let bare = format!("bare-{}", self.arch.name);
        let at = |rank: usize| if rank < PROCESSES { "linux" } else { &bare };
        for mut guest in running {
            let lines = guest.ends_with((self.arch.exit_of)(0), until)?;
            if table(&lines, size, at)? < PROCESSES {
                return Err("a guest has the rank of a process".into());
            }
        }
        let lines = host.ends_with(0, until)?;
        (0..PROCESSES).try_for_each(|rank| whole_table(&lines, rank, size, at))
    }

    fn among_themselves(&self, clients: usize) -> Result<(), String> {
        let until = Instant::now() + SCENE_TIME;
        let net = GuestLink::shared();
        let serve = format!("role=server addr=10.0.2.15 port=7000 id={FIRST_ID} size={clients}");
        let mut server = self.guest(0, &serve, &net)?;
        let running: Vec<Running> = (FIRST_ID..)
            .zip(1..=clients)
            .map(|(id, n)| {
                let own = format!("addr=10.0.2.{} host=10.0.2.15", 15 + n);
                self.guest(n, &format!("{own} port=7000 id={id}"), &net)
            })
            .collect::<Result<_, _>>()?;
        self.all_tables(running, until)?;
        server.ends_with((self.arch.exit_of)(0), until).map(drop)
    }

    fn ends(&self, arguments: &str, status: i32) -> Result<(), String> {
        let until = Instant::now() + SCENE_TIME;
        let mut guest = self.guest(0, arguments, &GuestLink::User)?;
        guest.ends_with((self.arch.exit_of)(status), until).map(drop)
    }

    /// One guest and a manager with a particular order.
    fn meets(&self, manager: &[&str], who: &str, status: i32) -> Result<(), String> {
        let until = Instant::now() + SCENE_TIME;
        let mut manager = Running::manager(&self.manager, manager)?;
        let port = manager.port(until)?;
        self.ends(&format!("port={port} {who}"), status)
    }

    fn guest(&self, number: usize, arguments: &str, net: &GuestLink) -> Result<Running, String> {
        Running::guest(self.arch, &self.kernel, number, arguments, net)
    }

    fn all_tables(&self, running: Vec<Running>, until: Instant) -> Result<(), String> {
        let at = format!("bare-{}", self.arch.name);
        all_tables(running, (self.arch.exit_of)(0), &at, until)
    }
}

fn scene(stage: &str, name: &str, play: impl FnOnce() -> Result<(), String>) -> Tally {
    println!("-- {stage}: {name}");
    let begin = Instant::now();
    let result = play();
    let seconds = begin.elapsed().as_secs_f64();
    match result {
        Ok(()) => {
            println!("-- {stage}: {name}: good ({seconds:.2} s)");
            Tally::PASSED
        }
        Err(why) => {
            println!("-- {stage}: {name}: FAILED ({seconds:.2} s): {why}");
            failures::note(format!("{stage}: {name}: {why}"));
            Tally::FAILED
        }
    }
}

/// All exit successfully and have printed all cards, each as another rank.
fn all_tables(running: Vec<Running>, exit: i32, at: &str, until: Instant) -> Result<(), String> {
    let size = running.len();
    let mut ranks = vec![false; size];
    for mut guest in running {
        let lines = guest.ends_with(exit, until)?;
        let rank = table(&lines, size, |_| at)?;
        if std::mem::replace(&mut ranks[rank], true) {
            return Err(format!("two are rank {rank}"));
        }
    }
    Ok(())
}

/// The rank of the guest that has printed these lines, if its table is whole.
fn table<'a>(lines: &[Line], size: usize, at: impl Fn(usize) -> &'a str) -> Result<usize, String> {
    let rank = (0..size)
        .find(|rank| lines.iter().any(|line| line.starts_with(&format!("rank {rank} of {size}: "))))
        .ok_or("a guest has printed no table")?;
    whole_table(lines, rank, size, at).map(|()| rank)
}

/// True if `rank` has printed the cards of all; `at` is where each is.
fn whole_table<'a>(
    lines: &[Line],
    rank: usize,
    size: usize,
    at: impl Fn(usize) -> &'a str,
) -> Result<(), String> {
    (0..size).try_for_each(|peer| {
        let row = format!("rank {rank} of {size}: card-{peer} = rank-{peer}@{}", at(peer));
        if lines.contains(&row) { Ok(()) } else { Err(format!("not printed: {row}")) }
    })
}

/// A file with the secret that only its owner may read, until it is dropped.
struct SecretFile(PathBuf);

impl SecretFile {
    fn new() -> Result<Self, String> {
        let path = toolchain::target_directory().join("guests-secret");
        let describe = |error: io::Error| format!("{}: {error}", path.display());
        let _ = fs::remove_file(&path);
        let mut options = fs::OpenOptions::new();
        let mut file =
            options.write(true).create_new(true).mode(0o600).open(&path).map_err(describe)?;
        file.write_all(SECRET.as_bytes()).map_err(describe)?;
        Ok(Self(path))
    }
}

impl Drop for SecretFile {
    fn drop(&mut self) {
        // Nothing is lost if it stays.
        let _ = fs::remove_file(&self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn table_is_whole_or_not_one() {
        let row = |peer| format!("rank 1 of 2: card-{peer} = rank-{peer}@vax");
        assert_eq!(table(&[row(0), row(1)], 2, |_| "vax"), Ok(1));
        assert!(table(&[row(1)], 2, |_| "vax").is_err());
        assert!(table(&[row(0), row(1).replace("@", "-")], 2, |_| "vax").is_err());
        assert!(table(&[row(0), row(1)], 2, |rank| ["vax", "pdp"][rank]).is_err());
        assert!(table(&[], 2, |_| "vax").is_err());
    }
}
