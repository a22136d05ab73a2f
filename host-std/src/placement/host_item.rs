//! One word of a list of hosts: a name, an address or a range of names, with a number of ranks.

use super::SLOTS_MAX;
use super::host::{HostListBuilder, not_slots};
use super::host_range::{self, unbalanced};
use std::net::Ipv6Addr;

/// One word of a list.
#[derive(Debug)]
pub(super) struct HostItem<'a> {
    /// Address without brackets, or name, which may have ranges in brackets.
    name: &'a str,
    /// True if the name is an address, in which brackets were no range.
    is_address: bool,
    /// Number of ranks of each host, if given.
    pub(super) slots: Option<u32>,
}

/// Cuts a list at the commas outside of brackets, and leaves out empty words.
///
/// # Errors
///
/// A message about brackets without their counterpart.
pub(super) fn split(text: &str) -> Result<Vec<&str>, String> {
    let (mut words, mut start, mut is_open) = (Vec::new(), 0, false);
    for (at, sign) in text.char_indices() {
        match sign {
            '[' if !is_open => is_open = true,
            ']' if is_open => is_open = false,
            '[' | ']' => return Err(unbalanced(text)),
            ',' if !is_open => {
                words.push(text[start..at].trim());
                start = at + 1;
            }
            _ => {}
        }
    }
    if is_open {
        return Err(unbalanced(text));
    }
    words.push(text[start..].trim());
    words.retain(|word| !word.is_empty());
    Ok(words)
}

/// Parses one word.
///
/// # Errors
///
/// A message with a valid example.
pub(super) fn parse(word: &str) -> Result<HostItem<'_>, String> {
    if let Some((address, behind)) = word.strip_prefix('[').and_then(|rest| rest.split_once(']'))
        && address.contains(':')
    {
        if !is_address(address) {
            return Err(format!("'{address}' is not an address; try '[2001:db8::1]:4'"));
        }
        let slots = match behind.strip_prefix(':') {
            Some(slots) => Some(number(slots, address)?),
            None if behind.is_empty() => None,
            None => return Err(not_slots(behind, word)),
        };
        return Ok(HostItem { name: address, is_address: true, slots });
    }
    if is_address(word) {
        return Ok(HostItem { name: word, is_address: true, slots: None });
    }
    let (name, slots) = match word.split_once(':') {
        Some((_, slots)) if slots.contains(':') => {
            return Err(format!(
                "'{word}' is neither a host with a number of ranks, as 'node1:4', nor an address \
                 in brackets, as '[2001:db8::1]:4'"
            ));
        }
        Some((name, slots)) => (name, Some(number(slots, name)?)),
        None => (word, None),
    };
    match name.is_empty() {
        true => Err(format!("'{word}' is not the name of a host; try 'node1'")),
        false => Ok(HostItem { name, is_address: false, slots }),
    }
}

impl HostItem<'_> {
    /// Adds the hosts of the word, with the number of `slots` that stands beside it in a file.
    ///
    /// # Errors
    ///
    /// A message with a valid example.
    pub(super) fn add_to(
        &self,
        hosts: &mut HostListBuilder,
        max_slots: Option<u32>,
        user: Option<&str>,
    ) -> Result<(), String> {
        let slots = self.slots.unwrap_or(1);
        let mut add = |name: &str| match user {
            Some(user) => hosts.add(&format!("{user}@{name}"), slots, max_slots),
            None => hosts.add(name, slots, max_slots),
        };
        if self.is_address {
            return add(self.name);
        }
        host_range::expand(self.name)?.iter().try_for_each(|name| add(name))
    }

    /// Name as it was written, for messages.
    pub(super) const fn shown(&self) -> &str {
        self.name
    }
}

/// Parses a number of ranks for `name`.
pub(super) fn number(text: &str, name: &str) -> Result<u32, String> {
    let parsed = text.parse().ok().filter(|slots| (1..=SLOTS_MAX).contains(slots));
    parsed.ok_or_else(|| not_slots(text, name))
}

/// True for an address of IPv6, which may have a zone behind `%`.
fn is_address(text: &str) -> bool {
    let (address, zone) = text.split_once('%').unwrap_or((text, "0"));
    let is_zone = |byte: u8| byte.is_ascii_alphanumeric() || b"-._".contains(&byte);
    address.parse::<Ipv6Addr>().is_ok() && !zone.is_empty() && zone.bytes().all(is_zone)
}
