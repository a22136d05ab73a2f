//! `pmi-host node`: the server of one host, which a starter runs there.

use super::check;
use super::greeting::NodeTask;
use super::key::RunKey;
use super::network::head_route::HeadRoute;
use super::network::{Network, NetworkEvent, NodeNames};
use super::starter::NODE;
use crate::resources::NodeResources;
use crate::settings::PortRange;
use clap::{Arg, ArgAction, Command};
use pmi_host_base::exit::{FAILED, complain, print, refuse};
use pmi_host_base::usage::UsageError;
use pmi_host_base::user_file;
use pmi_host_os::null_device;
use pmi_host_os::poller::Poller;
use rustix::fd::OwnedFd;
use std::ffi::OsString;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;

/// Defines the command. Starters run it, so the list of commands does not have it.
pub fn define() -> Command {
    Command::new(NODE)
        .about("Serve this host to a run, which a starter does; the key for the run is on standard input")
        .hide(true)
        .arg(
            Arg::new(TO)
                .long(TO)
                .value_name("ADDRESS:PORT,...")
                .value_delimiter(',')
                .value_parser(clap::value_parser!(SocketAddr))
                .required(true)
                .help("addresses of the launcher, of which the first that answers counts"),
        )
        .arg(Arg::new(NAME).long(NAME).value_name("HOST").help("name of this host in the run"))
        .arg(
            Arg::new(PORTS)
                .long(PORTS)
                .value_name("FIRST-LAST")
                .value_parser(|text: &str| PortRange::parse(text).ok_or("no range of ports"))
                .help("ports at which other nodes connect to this one"),
        )
        .arg(
            Arg::new(RELAYED)
                .long(RELAYED)
                .action(ArgAction::SetTrue)
                .help("connect over standard input and output if no address answers"),
        )
        .arg(
            Arg::new(KEY)
                .long(KEY)
                .value_name("FILE")
                .value_parser(clap::value_parser!(PathBuf))
                .help("file with the key for the run, in place of standard input"),
        )
        .arg(
            Arg::new(PLAIN)
                .long(PLAIN)
                .action(ArgAction::SetTrue)
                .help("messages between nodes are not encrypted in this run"),
        )
}

/// Serves this host, which offers `resources`, until the run ends.
///
/// `serve_job` serves the ranks of a job on the node with this number, and returns the exit code. The
/// descriptor reserves the number at which ranks find their end of a socket pair.
pub fn run(
    words: Vec<OsString>,
    resources: Box<dyn Fn() -> NodeResources>,
    serve_job: impl FnOnce(Network, Poller, u32, OwnedFd) -> u8,
) -> ExitCode {
    let matches = match define().no_binary_name(true).try_get_matches_from(words) {
        Ok(matches) => matches,
        Err(error) if !error.use_stderr() => return print(&error.to_string()),
        Err(error) => {
            let why = error.to_string().lines().next().unwrap_or_default().to_owned();
            return refuse(&UsageError::Value { given: NODE.to_owned(), why });
        }
    };
    let addresses: Vec<SocketAddr> = matches.get_many(TO).into_iter().flatten().copied().collect();
    // Slurm starts all node servers by one command, and names each in its environment.
    let name = matches.get_one::<String>(NAME).cloned();
    let name =
        name.or_else(|| std::env::var("SLURMD_NODENAME").ok().filter(|name| !name.is_empty()));
    let ports = matches.get_one::<PortRange>(PORTS).copied();
    let read = match matches.get_one::<PathBuf>(KEY) {
        Some(file) => user_file::open_secret(file, "key")
            .map_err(io::Error::other)
            .and_then(|mut file| RunKey::read(&mut file)),
        None => RunKey::read(&mut io::stdin().lock()),
    };
    let key = match read {
        Ok(key) => key.without_encryption(matches.get_flag(PLAIN)),
        Err(error) => {
            let why = format!(
                "standard input has no key of a run ({error}); the starter has to pass on its own \
                 standard input, as 'kubectl exec -i' does"
            );
            return complain(&why, FAILED);
        }
    };
    let may_be_relayed = matches.get_flag(RELAYED);
    let names = NodeNames { name, ports };
    match serve(key, addresses, may_be_relayed, names, resources, serve_job) {
        Ok(code) => code,
        Err(error) => complain(&format_args!("the node server cannot go on ({error})"), FAILED),
    }
}

fn serve(
    key: RunKey,
    head: Vec<SocketAddr>,
    may_be_relayed: bool,
    names: NodeNames,
    resources: Box<dyn Fn() -> NodeResources>,
    serve_job: impl FnOnce(Network, Poller, u32, OwnedFd) -> u8,
) -> io::Result<ExitCode> {
    // First of all, so that it has one digit: a shell can name no other.
    let link = null_device::open()?;
    let mut poller = Poller::new()?;
    let route = HeadRoute::find(head, may_be_relayed, &poller)?;
    let mut network = Network::of_node(key, route, names, resources, &poller)?;
    loop {
        match network.next_event(&mut poller)? {
            NetworkEvent::Placed(place) => {
                return match &place.task {
                    NodeTask::Job => {
                        Ok(ExitCode::from(serve_job(network, poller, place.node, link)))
                    }
                    NodeTask::Check { program } => {
                        check::serve(network, poller, (place.node, program.as_ref()))
                    }
                };
            }
            NetworkEvent::HeadLost { why } => return Ok(complain(&why, FAILED)),
            _ => {}
        }
    }
}

const TO: &str = "to";
const NAME: &str = "name";
const KEY: &str = "key";
const PORTS: &str = "ports";
const PLAIN: &str = "plain";
const RELAYED: &str = "relayed";
