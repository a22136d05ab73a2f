//! Process 1 of a guest whose system is a kernel of Linux and nothing else, and the program of its ranks.
//!
//! As process 1 it mounts what programs expect, takes the steps of `/scene`, and powers the machine off at
//! the end, after a failure and a panic, too. A step is a line of words that are separated by tabs: a
//! label and a command, or one of the words of [`step`]. The console has each line of the command behind
//! the label, then its exit code:
//!
//! ```text
//! bound| rank 0: processors 0-3, domains 0-1, policy bind:0, pages 0=100%
//! bound= 0
//! ```
//!
//! As another process it is a rank: it writes to 16 MiB and prints where it may run, what the policy of its
//! memory is and in which domains the pages are.
#![forbid(unsafe_code)]

use rustix::fs::CWD;
use rustix::mount::{MountFlags, mount};
use rustix::system::{RebootCommand, finit_module, reboot, sethostname};
use std::env;
use std::fs;
use std::hint::black_box;
use std::io;
use std::path::Path;
use std::process::{self, Command};

fn main() -> io::Result<()> {
    if process::id() != 1 {
        return rank();
    }
    let played = std::panic::catch_unwind(|| prepare().and_then(|()| play("/scene")));
    match played {
        Ok(Ok(())) => println!("{END}"),
        Ok(Err(error)) => println!("process 1: {error}"),
        // The panic has printed its reason.
        Err(_) => {}
    }
    rustix::fs::sync();
    Ok(reboot(RebootCommand::PowerOff)?)
}

/// Last line of a scene all of whose steps were taken.
const END: &str = "end of the scene";

/// Mounts the file systems of the kernel, and sets what ranks inherit.
fn prepare() -> io::Result<()> {
    for [target, kind] in MOUNTS {
        fs::create_dir_all(target)?;
        mount(kind, target, kind, MountFlags::empty(), None)?;
    }
    rustix::fs::symlinkat("/proc/self/fd", CWD, "/dev/fd")?;
    Ok(sethostname(b"guest")?)
}

/// File systems, the outer ones first.
const MOUNTS: [[&str; 2]; 6] = [
    ["/proc", "proc"],
    ["/sys", "sysfs"],
    ["/sys/fs/cgroup", "cgroup2"],
    ["/dev", "devtmpfs"],
    ["/tmp", "tmpfs"],
    ["/run", "tmpfs"],
];

fn play(scene: impl AsRef<Path>) -> io::Result<()> {
    for line in fs::read_to_string(scene)?.lines() {
        let words: Vec<&str> = line.split('\t').collect();
        step(&words).map_err(|error| io::Error::other(format!("{}: {error}", words.join(" "))))?;
    }
    Ok(())
}

/// Takes one step: `load MODULE`, `mkdir PATH`, `write PATH TEXT`, or `run LABEL PROGRAM WORD...`.
fn step(words: &[&str]) -> io::Result<()> {
    match words {
        ["load", module] => Ok(finit_module(fs::File::open(module)?, c"", 0)?),
        ["mkdir", path] => fs::create_dir(path),
        ["write", path, text] => fs::write(path, text),
        ["run", label, program, words @ ..] => {
            let output = Command::new(program).args(words).env("PATH", "/bin").output()?;
            for stream in [output.stdout, output.stderr] {
                for line in String::from_utf8_lossy(&stream).lines() {
                    println!("{label}| {line}");
                }
            }
            let code = output.status.code();
            println!(
                "{label}= {}",
                code.map_or_else(|| "signal".to_owned(), |code| code.to_string())
            );
            Ok(())
        }
        _ => Err(io::Error::other("no such step")),
    }
}

/// Prints the place of this rank and of its memory.
fn rank() -> io::Result<()> {
    // Each page is written to: a page that was only read has no place.
    let memory = black_box(vec![1_u8; 16 << 20]);
    let status = fs::read_to_string("/proc/self/status")?;
    let field = |name: &str| {
        let value = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        value.unwrap_or_default().trim()
    };
    let maps = fs::read_to_string("/proc/self/numa_maps")?;
    let Mapping { policy, pages } = mapping(&maps, memory.as_ptr().addr())
        .ok_or_else(|| io::Error::other("numa_maps lacks the memory"))?;
    let variable = |name: &str, title: &str| match env::var(name) {
        Ok(value) => format!(", {title} {value}"),
        Err(_) => String::new(),
    };
    println!(
        "rank {}: processors {}, domains {}, policy {policy}, pages {pages}{}{}",
        env::var("PMI_RANK").unwrap_or_default(),
        field("Cpus_allowed_list"),
        field("Mems_allowed_list"),
        variable("OMP_NUM_THREADS", "threads"),
        variable("OMP_PLACES", "places"),
    );
    Ok(())
}

/// Memory of a process, in the words of `/proc/PID/numa_maps`.
struct Mapping {
    policy: String,
    /// The share of the pages in each domain, as `0=50% 1=50%`.
    pages: String,
}

/// The mapping with this address: the last one that begins at or below it.
fn mapping(maps: &str, address: usize) -> Option<Mapping> {
    let begins = |line: &&str| {
        let begin = line.split(' ').next().and_then(|word| usize::from_str_radix(word, 16).ok());
        begin.is_some_and(|begin| begin <= address)
    };
    let line = maps.lines().take_while(begins).last()?;
    let (_, line) = line.split_once(' ')?;
    // The policy may have a blank, as in `prefer (many):0`.
    let (policy, counts) = line.split_once(" anon=")?;
    let pages: Vec<(&str, u64)> = counts
        .split(' ')
        .filter_map(|word| word.strip_prefix('N')?.split_once('='))
        .filter_map(|(domain, pages)| Some((domain, pages.parse().ok()?)))
        .collect();
    let all: u64 = pages.iter().map(|(_, pages)| pages).sum();
    let share = |(domain, pages): &(&str, u64)| {
        format!("{domain}={}%", (100 * pages + all / 2).checked_div(all).unwrap_or_default())
    };
    let pages: Vec<String> = pages.iter().map(share).collect();
    Some(Mapping { policy: policy.to_owned(), pages: pages.join(" ") })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn policy_and_pages_of_the_mapping_with_an_address_are_read() {
        let maps = "1000 default file=/init mapped=3 N0=3 kernelpagesize_kB=4\n\
                    7f00 prefer (many):0-1 anon=300 dirty=300 N0=200 N2=100 kernelpagesize_kB=4\n\
                    8f00 default stack anon=2 N0=2 kernelpagesize_kB=4\n";
        let found = mapping(maps, 0x7f80).unwrap();
        assert_eq!(
            (found.policy.as_str(), found.pages.as_str()),
            ("prefer (many):0-1", "0=67% 2=33%")
        );
        assert!(mapping(maps, 0x10).is_none());
        assert!(mapping(maps, 0x1000).is_none());
    }
}
