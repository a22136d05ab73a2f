//! A server that answers as that of Flux was recorded (`core/vectors/pmi1-flux.pmi`), since Flux cannot be installed here.

use super::{Ran, run};
use std::collections::HashMap;
use std::io::{BufRead, BufReader, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::process::{Command, Stdio};
use std::sync::{Condvar, Mutex};
use std::thread;

/// Name of the KVS: Flux encodes the id of a job, and its first letter is not ASCII.
const KVSNAME: &str = "\u{192}E7YeZu";
/// Limits that the server announces, terminators included.
const KEY_MAX: usize = 64;
const VALUE_MAX: usize = 1024;

/// State that the ranks of a job share.
struct Job {
    ranks: usize,
    kvs: Mutex<HashMap<Vec<u8>, Vec<u8>>>,
    fence: Mutex<Fence>,
    changed: Condvar,
}

/// State of the current fence.
#[derive(Default)]
struct Fence {
    number: usize,
    entered: usize,
    /// A rank has ended, so a fence that is incomplete remains so.
    is_broken: bool,
}

/// Runs one command per rank with the variables that Flux sets, and a socket in `PMI_FD`.
///
/// Returns outcomes and requests by rank.
pub fn run_under_flux(
    ranks: usize,
    command: impl Fn() -> Command + Sync,
) -> Vec<(Ran, Vec<String>)> {
    let job =
        Job { ranks, kvs: Mutex::default(), fence: Mutex::default(), changed: Condvar::new() };
    thread::scope(|scope| {
        let started: Vec<_> = (0..ranks)
            .map(|rank| {
                let (server, client) = UnixStream::pair().unwrap();
                let served = scope.spawn(|| job.serve(server));
                let mut command = command();
                command.envs([("PMI_FD", "0"), ("PMI_SPAWNED", "0")]);
                command.env("FLUX_TASK_RANK", rank.to_string());
                command.env("PMI_RANK", rank.to_string()).env("PMI_SIZE", ranks.to_string());
                command.stdin(Stdio::from(OwnedFd::from(client)));
                // The command holds the other end until it is dropped.
                (scope.spawn(move || run(&mut command)), served)
            })
            .collect();
        let joined = started.into_iter();
        joined.map(|(ran, served)| (ran.join().unwrap(), served.join().unwrap())).collect()
    })
}

impl Job {
    /// Answers one rank until its connection ends; returns its requests.
    fn serve(&self, mut server: UnixStream) -> Vec<String> {
        let mut requests = Vec::new();
        let lines = BufReader::new(server.try_clone().unwrap()).split(b'\n');
        for line in lines.map_while(Result::ok) {
            let answer = self.answer(&line);
            requests.push(String::from_utf8_lossy(&line).into_owned());
            // A rank that has ended reads no answer.
            if server.write_all(&[&answer[..], b"\n"].concat()).is_err() {
                break;
            }
        }
        self.fence.lock().unwrap().is_broken = true;
        self.changed.notify_all();
        requests
    }

    fn wait_for_all(&self) {
        let mut fence = self.fence.lock().unwrap();
        let number = fence.number;
        fence.entered += 1;
        if fence.entered == self.ranks {
            fence.entered = 0;
            fence.number += 1;
            self.changed.notify_all();
        }
        let is_open = |fence: &mut Fence| fence.number == number && !fence.is_broken;
        let fence = self.changed.wait_while(fence, is_open).unwrap();
        let is_complete = fence.number > number;
        drop(fence);
        assert!(is_complete, "a rank ended before a fence");
    }

    fn answer(&self, line: &[u8]) -> Vec<u8> {
        let command = field(line, "cmd").unwrap_or_default();
        let key = field(line, "key").unwrap_or_default();
        let is_own = field(line, "kvsname") == Some(KVSNAME.as_bytes());
        match command {
            b"init" if line.ends_with(b"pmi_version=1 pmi_subversion=1") => {
                "cmd=response_to_init rc=0 pmi_version=1 pmi_subversion=1".into()
            }
            b"init" if line.ends_with(b"pmi_version=2 pmi_subversion=0") => {
                "cmd=response_to_init rc=-1".into()
            }
            b"get_maxes" => {
                format!("cmd=maxes rc=0 kvsname_max=64 keylen_max={KEY_MAX} vallen_max={VALUE_MAX}")
                    .into()
            }
            b"get_appnum" => "cmd=appnum rc=0 appnum=0".into(),
            b"get_universe_size" => format!("cmd=universe_size rc=0 size={}", self.ranks).into(),
            b"get_my_kvsname" => format!("cmd=my_kvsname rc=0 kvsname={KVSNAME}").into(),
            b"put" => {
                // The value is the rest of the line, blanks included.
                let value = rest(line, "value").unwrap_or_default();
                let code = match () {
                    () if !is_own => 8,
                    () if key.len() >= KEY_MAX => 5,
                    () if value.len() >= VALUE_MAX => 7,
                    () if std::str::from_utf8(value).is_err() => 4,
                    () => 0,
                };
                if code == 0 {
                    self.kvs.lock().unwrap().insert(key.into(), value.into());
                }
                format!("cmd=put_result rc={code}").into()
            }
            b"barrier_in" => {
                self.wait_for_all();
                "cmd=barrier_out rc=0".into()
            }
            b"get" if !is_own => "cmd=get_result rc=8".into(),
            b"get" if key == b"PMI_process_mapping" => {
                format!("cmd=get_result rc=0 value=(vector,(0,1,{}))", self.ranks).into()
            }
            b"get" => match self.kvs.lock().unwrap().get(key) {
                Some(value) => [b"cmd=get_result rc=0 value=", &value[..]].concat(),
                None => "cmd=get_result rc=4".into(),
            },
            b"publish_name" => "cmd=publish_result rc=-1 msg=command not implemented".into(),
            b"lookup_name" => "cmd=lookup_result rc=-1 msg=command not implemented".into(),
            b"unpublish_name" => "cmd=unpublish_result rc=-1 msg=command not implemented".into(),
            b"finalize" => "cmd=finalize_ack rc=0".into(),
            _ => panic!("no answer was recorded to {:?}", String::from_utf8_lossy(line)),
        }
    }
}

/// Value of the field `name`, up to the next blank.
fn field<'a>(line: &'a [u8], name: &str) -> Option<&'a [u8]> {
    rest(line, name).and_then(|value| value.split(|&byte| byte == b' ').next())
}

/// The line behind `name=`.
fn rest<'a>(line: &'a [u8], name: &str) -> Option<&'a [u8]> {
    let words = line.split(|&byte| byte == b' ');
    let mut at = 0;
    for word in words {
        let is_it = word.strip_prefix(name.as_bytes()).is_some_and(|end| end.starts_with(b"="));
        if is_it {
            return line.get(at + name.len() + 1..);
        }
        at += word.len() + 1;
    }
    None
}
