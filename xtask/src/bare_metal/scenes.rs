//! Scenes, and their expected results.

use super::qemu::{GuestNet, Line, Running};
use super::{Arch, BOARD, SCENE_TIME};
use crate::tally::Tally;
use crate::{process, toolchain};
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

/// The scenes of the microcontroller.
/// `serial` are images of a rank with a serial line, in Rust and in C.
pub(crate) fn play_boards(
    kernel: &Path,
    serial: [&Path; 2],
    manager: &Path,
    linux: &Linux,
) -> Tally {
    let mut tally = scene(BOARD, "eight ranks and their server", || {
        let lines = Running::board(kernel, None)?.ends_with(0, Instant::now() + SCENE_TIME)?;
        match lines.iter().any(|line| line.contains("8 ranks done")) {
            true => Ok(()),
            false => Err("it does not print that it is done".into()),
        }
    });
    tally += scene(BOARD, "two boards with only a serial line, in Rust and in C", || {
        let until = Instant::now() + SCENE_TIME;
        let mut manager = Running::manager(manager, &["2", &FIRST_ID.to_string(), SECRET])?;
        let to = format!("tcp:127.0.0.1:{}", manager.port(until)?);
        let running: Vec<Running> = (FIRST_ID..)
            .zip(serial)
            .map(|(id, image)| Running::board(image, Some((&to, id))))
            .collect::<Result<_, _>>()?;
        all_tables(running, 0, "serial", until)?;
        manager.ends_with(0, until).map(drop)
    });
    tally += scene(BOARD, "two boards behind bridges of pmi-host, in a job with a process", || {
        let until = Instant::now() + SCENE_TIME;
        let words = ["run", "-n", "1", "--listen", "127.0.0.1:0", "--expect", "2"];
        let words = words.map(OsStr::new).into_iter().chain([linux.cards.as_os_str()]);
        let mut host = Running::host(&linux.host, &Vec::from_iter(words))?;
        let to = format!("127.0.0.1:{}", host.dial_port(until)?);
        let (mut bridges, mut boards) = (Vec::new(), Vec::new());
        for (id, image) in (1..).zip(serial) {
            let words = ["bridge", "--serial", "pty", "--to", &to].map(OsStr::new);
            let mut bridge = Running::host(&linux.host, &words)?;
            boards.push(Running::board(image, Some((&bridge.device(until)?, id)))?);
            bridges.push(bridge);
        }
        for (rank, mut board) in (1..).zip(boards) {
            // Rank 0 is a process of this machine, with its host in its card.
            let lines = board.ends_with(0, until)?;
            let is_row = |line: &&Line| line.starts_with(&format!("rank {rank} of 3: card-"));
            let rows: Vec<&Line> = lines.iter().filter(is_row).collect();
            let is_at = |peer: usize| rows[peer].ends_with(&format!("rank-{peer}@serial"));
            if rows.len() != 3 || !rows[0].contains("card-0 = rank-0@") || !is_at(1) || !is_at(2) {
                return Err(format!("rank {rank} prints {lines:?}"));
            }
        }
        bridges.iter_mut().try_for_each(|bridge| bridge.ends_with(0, until).map(drop))?;
        host.ends_with(0, until).map(drop)
    });
    tally
}

/// Environment of a scene.
pub(crate) struct Stage<'a> {
    pub(crate) arch: &'a Arch,
    pub(crate) kernel: &'a Path,
    pub(crate) manager: &'a Path,
    pub(crate) linux: &'a Linux,
}

/// Programs that run on this machine beside guests.
pub(crate) struct Linux {
    /// `pmi-host`.
    pub(crate) host: PathBuf,
    /// A rank that exchanges cards.
    pub(crate) cards: PathBuf,
}

impl Stage<'_> {
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
        let mixed = |n: usize| new(PROCESSES + n);
        let name = "guests and processes of pmi-host, PMI-2";
        tally += self.scene(name, || self.with_processes(guests.min(2), &["async"], mixed));
        let name = "guests and processes of pmi-host, PMI-1";
        tally += self.scene(name, || {
            let ids = self.ids(guests.min(2))?;
            self.with_processes(guests.min(2), &[], |n| format!("id={}", ids[n]))
        });
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

    fn scene(&self, name: &str, play: impl FnOnce() -> Result<(), String>) -> Tally {
        scene(self.arch.name, name, play)
    }

    /// Guests with the identities of `who`, and a manager.
    fn dial_in(&self, guests: usize, who: impl Fn(usize) -> String) -> Result<(), String> {
        let until = Instant::now() + SCENE_TIME;
        let manager = [&guests.to_string(), &FIRST_ID.to_string(), SECRET];
        let mut manager = Running::manager(self.manager, &manager)?;
        let port = manager.port(until)?;
        let running: Vec<Running> = (0..guests)
            .map(|n| self.guest(n, &format!("port={port} {}", who(n)), &GuestNet::User))
            .collect::<Result<_, _>>()?;
        self.all_tables(running, until)?;
        manager.ends_with(0, until).map(drop)
    }

    /// Guests with the identities of `who`, in one job with processes that `pmi-host` has started.
    fn with_processes(
        &self,
        guests: usize,
        words: &[&str],
        who: impl Fn(usize) -> String,
    ) -> Result<(), String> {
        let until = Instant::now() + SCENE_TIME;
        let secret = SecretFile::new()?;
        let (processes, expected) = (PROCESSES.to_string(), guests.to_string());
        let listen = ["run", "-n", &processes, "--listen", "127.0.0.1:0", "--expect", &expected];
        let mut all: Vec<&OsStr> = listen.iter().map(OsStr::new).collect();
        all.extend([
            OsStr::new("--secret-file"),
            secret.0.as_os_str(),
            self.linux.cards.as_os_str(),
        ]);
        all.extend(words.iter().map(OsStr::new));
        let mut host = Running::host(&self.linux.host, &all)?;
        let port = host.dial_port(until)?;
        let running: Vec<Running> = (0..guests)
            .map(|n| self.guest(n, &format!("port={port} {}", who(n)), &GuestNet::User))
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

    /// Process ids of the guests, as a user requests them from `pmi-host`.
    fn ids(&self, guests: usize) -> Result<Vec<String>, String> {
        let secret = SecretFile::new()?;
        let id = |rank: usize| {
            let mut command = process::command(&self.linux.host);
            command.args(["pmiid", "--secret-file"]).arg(&secret.0).arg(rank.to_string());
            process::output(&mut command).map(|id| id.trim().to_owned())
        };
        (PROCESSES..PROCESSES + guests).map(id).collect()
    }

    fn among_themselves(&self, clients: usize) -> Result<(), String> {
        let until = Instant::now() + SCENE_TIME;
        let net = GuestNet::shared();
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
        let mut guest = self.guest(0, arguments, &GuestNet::User)?;
        guest.ends_with((self.arch.exit_of)(status), until).map(drop)
    }

    /// One guest and a manager with a particular order.
    fn meets(&self, manager: &[&str], who: &str, status: i32) -> Result<(), String> {
        let until = Instant::now() + SCENE_TIME;
        let mut manager = Running::manager(self.manager, manager)?;
        let port = manager.port(until)?;
        self.ends(&format!("port={port} {who}"), status)
    }

    fn guest(&self, number: usize, arguments: &str, net: &GuestNet) -> Result<Running, String> {
        Running::guest(self.arch, self.kernel, number, arguments, net)
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
