//! Files of hosts: one host, or one range of hosts, on each line.
//!
//! | written for | line |
//! |---|---|
//! | Hydra, Intel MPI | `node1:4`, and `user=NAME` behind it |
//! | Open MPI | `node1 slots=4 max_slots=8`, also with blanks around `=`; `^node1` excludes a host |
//! | PBS, LSF, Cobalt | `node1`, once for each slot |
//! | Slurm | `n[001-128]` |
//!
//! A `#` begins a comment. Words that cannot be followed are refused with a remedy.

use super::host::{HostList, HostListBuilder};
use super::host_item;

/// Parses a file.
///
/// # Errors
///
/// A message with the line and the remedy.
pub(crate) fn parse(text: &str) -> Result<HostList, String> {
    let (mut hosts, mut excluded) = (HostListBuilder::default(), HostListBuilder::default());
    for (at, line) in text.lines().enumerate() {
        let line = line.split('#').next().unwrap_or_default();
        let (list, line) = match line.trim_start().strip_prefix('^') {
            Some(name) => (&mut excluded, name),
            None => (&mut hosts, line),
        };
        add_line(list, line).map_err(|why| format!("line {}: {why}", at + 1))?;
    }
    let excluded = excluded.finish().unwrap_or_default();
    let hosts = hosts.finish()?.without(|name| excluded.names(name));
    match hosts.hosts().is_empty() {
        true => Err(format!("it excludes each of its hosts ({excluded})")),
        false => Ok(hosts),
    }
}

fn add_line(hosts: &mut HostListBuilder, line: &str) -> Result<(), String> {
    // Blanks around '=' are allowed, so the words are those of the line without them.
    let pieces: Vec<&str> = line.split('=').map(str::trim).collect();
    let joined = pieces.join("=");
    let mut words = joined.split_whitespace();
    let Some(first) = words.next() else { return Ok(()) };
    if let Some(why) = refused_host(first) {
        return Err(format!("'{first}' {why}"));
    }
    let [first] = host_item::split(first)?[..] else {
        return Err(format!("'{first}' is not one host; write each on a line of its own"));
    };
    let mut item = host_item::parse(first)?;
    let (mut max_slots, mut user) = (None, None);
    for word in words {
        let name = item.shown().to_owned();
        let (key, value) = word.split_once('=').unwrap_or((word, ""));
        let key = key.to_ascii_lowercase().replace('-', "_");
        match &*key {
            "slots" | "count" | "cpu" | "cpus" => {
                let slots = host_item::number(value, &name)?;
                if item.slots.is_some_and(|given| given != slots) {
                    return Err(format!(
                        "'{word}' contradicts the number before it; specify one of them"
                    ));
                }
                item.slots = Some(slots);
            }
            "max_slots" | "slots_max" => max_slots = Some(host_item::number(value, &name)?),
            "user" | "username" if is_user(value) => user = Some(value),
            "user" | "username" => return Err(format!("'{word}' does not name a user")),
            _ => return Err(format!("'{word}' after a host {}", refused_word(&key))),
        }
    }
    item.add_to(hosts, max_slots, user)
}

/// Reason for which the first word of a line cannot be followed.
fn refused_host(word: &str) -> Option<&'static str> {
    match word.as_bytes() {
        [b'+', ..] => Some("refers to hosts of another list; write their names"),
        _ if word.eq_ignore_ascii_case("rank") => {
            Some("is for a file of ranks; '--rankmap' maps ranks to hosts")
        }
        _ => None,
    }
}

/// Reason for which a further word of a line cannot be followed.
fn refused_word(key: &str) -> &'static str {
    match key {
        "binding" => "is not supported; '--bind-to' binds the ranks of all hosts",
        "port" => "is not supported; write the port into the configuration of ssh",
        "ifname" => "is not supported; '-iface' names the interface for the MPI library",
        _ => "is not supported; 'slots=4', 'max_slots=8' and 'user=NAME' are",
    }
}

fn is_user(name: &str) -> bool {
    let is_valid = |byte: u8| byte.is_ascii_alphanumeric() || b"-._".contains(&byte);
    !name.is_empty() && !name.starts_with('-') && name.bytes().all(is_valid)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(text: &str) -> String {
        let list = parse(text).unwrap_or_else(|why| panic!("{text}: {why}"));
        let host = |host: &super::super::host::Host| match host.max_slots {
            Some(most) => format!("{}:{}<{most}", host.name, host.slots),
            None => format!("{}:{}", host.name, host.slots),
        };
        list.hosts().iter().map(host).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn files_of_all_launchers_are_read() {
        for (text, hosts) in [
            // Hydra
            ("# all\na:2\n\n b # one\n", "a:2 b:1"),
            ("a:2 user=me\nb user=me", "me@a:2 me@b:1"),
            // Open MPI
            ("a slots=4 max_slots=8\nb slots = 2  slots-max= 2\r\n", "a:4<8 b:2<2"),
            ("a cpus=4\nme@b count=2\n", "a:4 me@b:2"),
            ("[2001:db8::1] slots=4\n2001:db8::2\n", "2001:db8::1:4 2001:db8::2:1"),
            ("^b.example\na:2\nb:2\nn[1-3]\n ^n[1-2] # broken\n", "a:2 n3:1"),
            // PBS, LSF
            ("a\na\nb\na\n", "a:3 b:1"),
            // Slurm
            ("n[08-09,11]:2\nlogin\n", "n08:2 n09:2 n11:2 login:1"),
        ] {
            assert_eq!(shown(text), hosts, "{text}");
        }
    }

    #[test]
    fn lines_that_cannot_be_followed_are_refused_with_their_number() {
        for (text, part) in [
            ("a binding=core\n", "line 1: 'binding=core' after a host"),
            ("a\nb ifname=eth0\n", "line 2: 'ifname=eth0'"),
            ("a port=22", "ssh"),
            ("a 4", "'4' after a host"),
            ("a slots=auto", "'auto' is not a number of ranks"),
            ("a slots=0", "'0' is not"),
            ("a:2 slots=4", "contradicts"),
            ("a slots=4 max_slots=2", "more than its max_slots=2"),
            ("a slots=", "'' is not a number"),
            ("a\nb\n^a\n^b\n", "excludes each of its hosts (a,b)"),
            ("a\n^b slots=x\n", "line 2: 'x'"),
            ("a\n^^b\n", "line 2: '^b' is not the name"),
            ("^a\n", "names no host"),
            ("+n0 slots=1", "refers to hosts"),
            ("rank 0=a slot=0", "--rankmap"),
            ("a user=-x", "does not name a user"),
            ("a,b", "a line of its own"),
            ("# nothing\n", "names no host"),
            ("", "names no host"),
            ("n[1-9999999]\n", "131072 hosts"),
        ] {
            let why = parse(text).expect_err(text);
            assert!(why.contains(part), "{text}: {why}");
        }
    }
}
