//! Hosts with their slots, in the order of the list that names them.

use super::{HOSTS_MAX, SLOTS_MAX, host_item};
use pmi_host_os::host_name::is_same;
use std::collections::HashMap;
use std::fmt;

/// Host, and the numbers of ranks for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Host {
    /// Name or address as a starter takes it, with a user in front (`user@name`) if one was given.
    pub(crate) name: String,
    /// Number of ranks that it takes before the next host in the list; one if none was given.
    pub(crate) slots: u32,
    /// Number of ranks that it takes at most; unlimited if `None`.
    pub(crate) max_slots: Option<u32>,
}

/// Turn of a host in the order in which hosts are filled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct HostTurn {
    /// Index of the host.
    pub(super) host: usize,
    /// Number of ranks that it takes at this turn.
    pub(super) slots: u32,
}

/// List of hosts. A host that is named again is the same host with further slots, and has its turn again at
/// that place of the order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct HostList {
    hosts: Vec<Host>,
    turns: Vec<HostTurn>,
}

/// List of hosts that grows, with an index of the names.
#[derive(Debug, Default)]
pub(super) struct HostListBuilder {
    list: HostList,
    known: HashMap<String, usize>,
}

impl HostList {
    /// Parses a list such as `a,b:4,n[01-16]:2,[fe80::1]:4`.
    ///
    /// # Errors
    ///
    /// A message with the wrong word and a valid example.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let mut hosts = HostListBuilder::default();
        for word in host_item::split(text)? {
            host_item::parse(word)?.add_to(&mut hosts, None, None)?;
        }
        hosts.finish()
    }

    /// List of one host.
    pub(crate) fn single(name: &str, slots: u32) -> Self {
        let host = Host { name: name.to_owned(), slots, max_slots: None };
        Self { hosts: vec![host], turns: vec![HostTurn { host: 0, slots }] }
    }

    /// The hosts, each once.
    pub(crate) fn hosts(&self) -> &[Host] {
        &self.hosts
    }

    /// The order in which hosts are filled.
    pub(super) fn turns(&self) -> &[HostTurn] {
        &self.turns
    }

    /// The first `count` hosts, with all their turns.
    pub(crate) fn first(mut self, count: usize) -> Self {
        self.hosts.truncate(count);
        self.turns.retain(|turn| turn.host < count);
        self
    }

    /// The list without the hosts that are excluded, by name.
    pub(crate) fn without(self, is_excluded: impl Fn(&str) -> bool) -> Self {
        let is_kept: Vec<bool> = self.hosts.iter().map(|host| !is_excluded(&host.name)).collect();
        if !is_kept.contains(&false) {
            return self;
        }
        let mut hosts = HostListBuilder::default();
        for turn in self.turns.into_iter().filter(|turn| is_kept[turn.host]) {
            let host = &self.hosts[turn.host];
            hosts.push(&host.name, turn.slots, host.max_slots);
        }
        hosts.list
    }

    /// True if a host of the list has the name, with or without its domain and a user.
    pub(crate) fn names(&self, name: &str) -> bool {
        self.hosts.iter().any(|host| is_same(&host.name, name))
    }

    /// The same list with `name` for every host that is this machine, which may be listed under several
    /// names.
    pub(crate) fn with_own_name(self, name: &str, is_here: &dyn Fn(&str) -> bool) -> Self {
        let is_here: Vec<bool> = self.hosts.iter().map(|host| is_here(&host.name)).collect();
        if !is_here.contains(&true) {
            return self;
        }
        let mut hosts = HostListBuilder::default();
        for turn in self.turns {
            let host = &self.hosts[turn.host];
            let name = if is_here[turn.host] { name } else { &host.name };
            hosts.push(name, turn.slots, host.max_slots);
        }
        hosts.list
    }
}

impl HostListBuilder {
    /// Adds slots of a host.
    ///
    /// # Errors
    ///
    /// A name that cannot be one, or too many hosts or slots.
    pub(super) fn add(
        &mut self,
        name: &str,
        slots: u32,
        max_slots: Option<u32>,
    ) -> Result<(), String> {
        check_name(name)?;
        if slots == 0 || slots > SLOTS_MAX {
            return Err(not_slots(&slots.to_string(), name));
        }
        self.push(name, slots, max_slots);
        match self.list.hosts.len() > HOSTS_MAX || self.list.turns.len() > TURNS_MAX {
            true => Err(too_many()),
            false => Ok(()),
        }
    }

    fn push(&mut self, name: &str, slots: u32, max_slots: Option<u32>) {
        let HostList { hosts, turns } = &mut self.list;
        let host = *self.known.entry(name.to_owned()).or_insert_with(|| {
            hosts.push(Host { name: name.to_owned(), slots: 0, max_slots: None });
            hosts.len() - 1
        });
        hosts[host].slots = hosts[host].slots.saturating_add(slots);
        hosts[host].max_slots = hosts[host].max_slots.max(max_slots);
        match turns.last_mut().filter(|turn| turn.host == host) {
            Some(turn) => turn.slots = turn.slots.saturating_add(slots),
            None => turns.push(HostTurn { host, slots }),
        }
    }

    /// The list.
    ///
    /// # Errors
    ///
    /// No host, or one with more slots than its maximum.
    pub(super) fn finish(self) -> Result<HostList, String> {
        let HostList { hosts, .. } = &self.list;
        if hosts.is_empty() {
            return Err("that names no host; try 'node1,node2:4'".to_owned());
        }
        let is_wrong = |host: &&Host| host.max_slots.is_some_and(|most| most < host.slots);
        match hosts.iter().find(is_wrong) {
            Some(host) => Err(format!(
                "'{}' has {} slots, which is more than its max_slots={}; lower the former, or raise \
                 the latter",
                host.name,
                host.slots,
                host.max_slots.unwrap_or_default()
            )),
            None => Ok(self.list),
        }
    }
}

/// Refuses a name that would be something else in the command line of a starter, or on a terminal.
fn check_name(name: &str) -> Result<(), String> {
    if name.len() > NAME_LEN_MAX {
        return Err(too_long());
    }
    let is_valid =
        |byte: u8| byte.is_ascii_alphanumeric() || b"-._:%@".contains(&byte) || byte > 127;
    let is_text = name.chars().all(|sign| !sign.is_control() && !sign.is_whitespace());
    match !name.starts_with(['-', '@']) && is_text && name.bytes().all(is_valid) {
        true => Ok(()),
        false => Err(format!("'{}' is not the name of a host; try 'node1'", name.escape_debug())),
    }
}

/// Error for a number of slots.
pub(super) fn not_slots(slots: &str, name: &str) -> String {
    format!("'{slots}' is not a number of ranks for '{name}'; try '{name}:4'")
}

/// Error for a list that is too long.
pub(super) fn too_many() -> String {
    format!("that is more than the {HOSTS_MAX} hosts of one run; name fewer")
}

/// Error for a name that no host has.
pub(super) fn too_long() -> String {
    format!(
        "a name has more than {NAME_LEN_MAX} bytes, and so is not the name of a host; try 'node1'"
    )
}

/// Greatest length of a name in bytes: 255 for a user, and 255 for a host behind `@`, as the name service
/// limits it.
pub(super) const NAME_LEN_MAX: usize = 511;

/// Largest number of turns: a file of a batch system has a line for each slot.
const TURNS_MAX: usize = 1 << 20;

impl fmt::Display for HostList {
    /// The list as it would be typed.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, turn) in self.turns.iter().enumerate() {
            let name = &self.hosts[turn.host].name;
            let comma = if at > 0 { "," } else { "" };
            let (open, close) = if name.contains(':') { ("[", "]") } else { ("", "") };
            write!(f, "{comma}{open}{name}{close}")?;
            if turn.slots != 1 {
                write!(f, ":{}", turn.slots)?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(text: &str) -> Result<String, String> {
        HostList::parse(text).map(|list| list.to_string())
    }

    #[test]
    fn lists_name_hosts_and_how_many_ranks() {
        for (text, list) in [
            ("a,b:4", "a,b:4"),
            ("a:1, b", "a,b"),
            (",a,,b,", "a,b"),
            ("n[08-10]:2,x", "n08:2,n09:2,n10:2,x"),
            ("[fe80::1%eth0]:4,[::1],fe80::2", "[fe80::1%eth0]:4,[::1],[fe80::2]"),
            ("192.0.2.7:3,user@n1.example", "192.0.2.7:3,user@n1.example"),
            ("a,a,b", "a:2,b"),
        ] {
            assert_eq!(shown(text).as_deref(), Ok(list), "{text}");
        }
        for (text, part) in [
            ("", "names no host"),
            ("a:x", "'x' is not a number of ranks for 'a'"),
            ("a:0", "'0' is not a number"),
            ("a:auto", "'auto' is not a number"),
            ("a:4294967296", "not a number"),
            ("a:1048577", "not a number"),
            ("-oProxyCommand=x", "not the name"),
            ("@a", "not the name"),
            ("a\u{1b}[1m", "bracket"),
            ("a b", "not the name"),
            ("a:1:2", "brackets"),
            ("[fe80::1", "bracket"),
            ("[fe80::1]4", "not a number"),
            ("[fe80::x]", "not an address"),
            (":4", "not the name"),
        ] {
            let why = shown(text).expect_err(text);
            assert!(why.contains(part), "{text}: {why}");
        }
    }

    #[test]
    fn host_that_is_named_again_has_its_turn_again() {
        let list = HostList::parse("a,b,a:2,a").unwrap();
        let host = |name: &str, slots| Host { name: name.to_owned(), slots, max_slots: None };
        assert_eq!(list.hosts(), [host("a", 4), host("b", 1)]);
        assert_eq!(list.to_string(), "a,b,a:3");
    }

    #[test]
    fn names_of_this_machine_are_one_host() {
        let list = HostList::parse("b,localhost:2,a,node1:3").unwrap();
        let list = list.with_own_name("node1", &|name| ["localhost", "node1"].contains(&name));
        assert_eq!(list.to_string(), "b,node1:2,a,node1:3");
        assert_eq!(list.hosts().len(), 3);
    }

    #[test]
    fn list_is_bounded() {
        let most = format!("n[1-{HOSTS_MAX}]");
        assert_eq!(HostList::parse(&most).unwrap().hosts().len(), HOSTS_MAX);
        for text in [format!("{most},x"), "n[0-4000000000]".into(), "a[0-999]b[0-999]".into()] {
            assert!(HostList::parse(&text).unwrap_err().contains("131072 hosts"), "{text}");
        }
    }

    #[test]
    fn excluded_hosts_have_neither_slots_nor_turns() {
        let list = |text: &str| HostList::parse(text).unwrap();
        for (all, excluded, left) in [
            ("a:2,b,a,c", "a", "b,c"),
            ("n[1-4]:2", "n[2-3],x", "n1:2,n4:2"),
            ("n1.example,me@n2,N3", "n1,n2,n3.example", ""),
            ("n1.example,n2", "n1.other,n2.", "n1.example"),
            ("192.0.2.7,192.0.2.8", "192,192.0.2.8", "192.0.2.7"),
            ("a,b", "c", "a,b"),
        ] {
            let excluded = list(excluded);
            let rest = list(all).without(|name| excluded.names(name));
            assert_eq!(rest.to_string(), left, "{all} without {excluded}");
        }
    }
}
