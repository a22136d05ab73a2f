//! Hosts, as Hydra's options and batch systems name them. Only this machine can be used.

use pmi_host_base::usage::UsageError;
use std::ffi::OsString;
use std::net::UdpSocket;

/// Host, and the number of ranks that it takes, one if not given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Host {
    pub(crate) name: String,
    pub(crate) slots: u32,
}

/// Parses a list such as `a,b:4`.
pub(super) fn list(text: &str) -> Result<Vec<Host>, String> {
    text.split(',').filter(|name| !name.is_empty()).map(host).collect()
}

/// Parses a file with one host per line.
pub(super) fn file(text: &str) -> Result<Vec<Host>, String> {
    let mut hosts = Vec::new();
    for line in text.lines() {
        let line = line.split('#').next().unwrap_or_default();
        let mut words = line.split_whitespace();
        let Some(first) = words.next() else { continue };
        if let Some(other) = words.next() {
            return Err(format!(
                "'{other}' after a host is not supported; '{first}:4' specifies its number of \
                 ranks, and '-bind-to' binds all ranks"
            ));
        }
        hosts.push(host(first)?);
    }
    Ok(hosts)
}

fn host(text: &str) -> Result<Host, String> {
    let (name, slots) = text.split_once(':').unwrap_or((text, "1"));
    match slots.parse() {
        Ok(slots) if slots > 0 => Ok(Host { name: name.to_owned(), slots }),
        _ => Err(format!("'{slots}' is not a number of ranks for '{name}'; try '{name}:4'")),
    }
}

/// Name and hosts of the batch system that has allocated this job, if there is one.
pub(super) fn of_batch_system(
    variable: impl Fn(&str) -> Option<String>,
    read: impl Fn(&str) -> Option<String>,
) -> Option<(&'static str, Vec<Host>)> {
    if let Some(nodes) = variable("SLURM_JOB_NUM_NODES").or_else(|| variable("SLURM_NNODES")) {
        let nodes: usize = nodes.parse().ok()?;
        let tasks = variable("SLURM_TASKS_PER_NODE").unwrap_or_default();
        let digits = tasks.split(|sign: char| !sign.is_ascii_digit()).next().unwrap_or_default();
        let slots = digits.parse().unwrap_or(1).max(1);
        let list = variable("SLURM_JOB_NODELIST").unwrap_or_default();
        // A single node is this one under any name; of several nodes, the list is enough for a message.
        let name = |_| Host { name: if nodes > 1 { list.clone() } else { String::new() }, slots };
        return Some(("Slurm", (0..nodes).map(name).collect()));
    }
    if let Some(file) = variable("PBS_NODEFILE") {
        return Some(("PBS", counted(read(&file)?.lines().map(|line| (line.trim(), 1)))));
    }
    if let Some(words) = variable("LSB_MCPU_HOSTS") {
        let words: Vec<&str> = words.split_whitespace().collect();
        let pairs = words.chunks_exact(2).map(|pair| (pair[0], pair[1].parse().unwrap_or(1)));
        return Some(("LSF", counted(pairs)));
    }
    let text = read(&variable("PE_HOSTFILE")?)?;
    let rows = text.lines().map(|line| {
        let mut words = line.split_whitespace();
        let name = words.next().unwrap_or_default();
        (name, words.next().and_then(|slots| slots.parse().ok()).unwrap_or(1))
    });
    Some(("Grid Engine", counted(rows)))
}

/// Adds up the slots of rows with the same host.
fn counted<'a>(rows: impl Iterator<Item = (&'a str, u32)>) -> Vec<Host> {
    let mut hosts: Vec<Host> = Vec::new();
    for (name, slots) in rows.filter(|(name, _)| !name.is_empty()) {
        match hosts.iter_mut().find(|host| host.name == name) {
            Some(host) => host.slots += slots,
            None => hosts.push(Host { name: name.to_owned(), slots }),
        }
    }
    hosts
}

/// Refuses hosts other than this one.
pub(super) fn check(hosts: &[Host], system: Option<&str>, host: &str) -> Result<(), UsageError> {
    let Some(other) = hosts.iter().find(|one| !is_here(&one.name, host)) else {
        return Ok(());
    };
    let other = &other.name;
    let what = match system {
        None => format!(
            "'{other}' is another host, and ranks are started on '{host}' only; name '{host}' \
             alone, or start those of '{other}' there and let them connect over TCP ('--listen')"
        ),
        Some(system) => format!(
            "{system} has allocated {} nodes ({other}), and ranks are started on '{host}' only; \
             specify '-hosts {host}' to use this one alone, or let the others connect over TCP \
             ('--listen')",
            hosts.len()
        ),
    };
    Err(UsageError::Other { what })
}

/// Checks a list of nodes for ranks, or of blocks of them: all must be the first node.
pub(super) fn rank_map(text: &str) -> Result<(), String> {
    let inner = text.strip_prefix("(vector,").and_then(|rest| rest.strip_suffix(')'));
    let inner = inner.unwrap_or(text);
    let elsewhere =
        "ranks are started on this node only, which is number 0; leave it out".to_owned();
    let number = |text: &str| {
        text.trim().parse::<u32>().map_err(|_| "that is not a map of ranks".to_owned())
    };
    let mut rest = inner;
    while !rest.is_empty() {
        let piece = match rest.strip_prefix('(') {
            Some(block) => {
                let (block, behind) = block.split_once(')').ok_or("that is not a map of ranks")?;
                rest = behind;
                let numbers: Vec<u32> = block.split(',').map(number).collect::<Result<_, _>>()?;
                match numbers[..] {
                    [first, nodes, _] if nodes > 0 => first.saturating_add(nodes - 1),
                    _ => return Err("that is not a map of ranks".to_owned()),
                }
            }
            None => {
                let end = rest.find(',').unwrap_or(rest.len());
                let (one, behind) = rest.split_at(end);
                rest = behind;
                number(one)?
            }
        };
        if piece != 0 {
            return Err(elsewhere);
        }
        rest = rest.strip_prefix(',').unwrap_or(rest);
    }
    Ok(())
}

/// True if a name or an address is this machine: only its own addresses can be bound here.
pub(super) fn is_here(name: &str, host: &str) -> bool {
    crate::launch::spawn_request::is_here(name, host) || UdpSocket::bind((name, 0)).is_ok()
}

/// Value of a variable that is valid text.
pub(super) fn variable(variables: &[(OsString, OsString)], name: &str) -> Option<String> {
    let (_, value) = variables.iter().find(|(known, value)| known == name && !value.is_empty())?;
    value.to_str().map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host(name: &str, slots: u32) -> Host {
        Host { name: name.to_owned(), slots }
    }

    #[test]
    fn lists_and_files_name_hosts_and_how_many() {
        assert_eq!(list("a,b:4"), Ok(vec![host("a", 1), host("b", 4)]));
        assert_eq!(file("# all\na:2\n\n b # one\n"), Ok(vec![host("a", 2), host("b", 1)]));
        assert!(list("a:x").is_err() && list("a:0").is_err());
        assert!(file("a binding=core\n").unwrap_err().contains("binding=core"));
    }

    #[test]
    fn batch_system_names_hosts_in_its_own_way() {
        let of = |pairs: &'static [(&str, &str)], text: &'static str| {
            let variable = |name: &str| {
                pairs.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned())
            };
            of_batch_system(variable, |_| Some(text.to_owned())).map(|(_, hosts)| hosts)
        };
        let slurm = &[("SLURM_JOB_NUM_NODES", "1"), ("SLURM_TASKS_PER_NODE", "8")];
        assert_eq!(of(slurm, ""), Some(vec![host("", 8)]));
        let slurm = &[("SLURM_NNODES", "2"), ("SLURM_JOB_NODELIST", "n[1-2]")];
        assert_eq!(of(slurm, ""), Some(vec![host("n[1-2]", 1); 2]));
        assert_eq!(
            of(&[("PBS_NODEFILE", "f")], "a\na\nb\n"),
            Some(vec![host("a", 2), host("b", 1)])
        );
        assert_eq!(
            of(&[("LSB_MCPU_HOSTS", "a 3 b 1")], ""),
            Some(vec![host("a", 3), host("b", 1)])
        );
        assert_eq!(of(&[("PE_HOSTFILE", "f")], "a 4 q x\n"), Some(vec![host("a", 4)]));
        assert_eq!(of(&[], ""), None);
    }

    #[test]
    fn map_of_ranks_may_name_the_first_node_only() {
        for map in ["0", "0,0,0", "(0,1,4)", "(vector,(0,1,2),(0,1,1))", "0,(0,1,2)"] {
            assert_eq!(rank_map(map), Ok(()), "{map}");
        }
        for map in ["1", "0,1", "(0,2,1)", "(1,1,1)", "(vector,(0,1,1),(1,1,1))"] {
            assert!(rank_map(map).unwrap_err().contains("number 0"), "{map}");
        }
        for map in ["x", "(0,1", "(0,0,1)", "(0,1)", "0,,0"] {
            assert!(rank_map(map).unwrap_err().contains("not a map"), "{map}");
        }
    }

    #[test]
    fn this_machine_has_addresses_too() {
        for name in ["node1", "localhost", "127.0.0.1"] {
            assert!(is_here(name, "node1"), "{name}");
        }
        // An address that is reserved for documentation.
        assert!(!is_here("192.0.2.7", "node1"));
    }
}
