//! Files of Open MPI that place each rank: `rank 0=node1 slot=0-1`.
//!
//! Spec: `mpirun(1)` of Open MPI 4.1, Rankfiles; `prterun(1)`, the same.

use super::policies::Expansion;
use crate::launch::topology::binding::pieces;
use crate::settings::placement::Unit;
use std::collections::BTreeMap;

/// Host of a rank, and its processors.
struct RankPlace {
    host: String,
    /// Processors in the notation of `--bind-to user:`; `None` if the file names none.
    processors: Option<String>,
}

/// Options for the text of a rankfile. All hosts are taken to be like this one.
///
/// # Errors
///
/// A message with the line.
pub(super) fn options(text: &str) -> Expansion {
    let mut places: BTreeMap<u32, RankPlace> = BTreeMap::new();
    for line in text.lines().map(|line| line.split('#').next().unwrap_or_default().trim()) {
        if line.is_empty() {
            continue;
        }
        let (rank, place) = of_line(line)?;
        if places.insert(rank, place).is_some() {
            return Err(format!("'{line}': rank {rank} has a place already"));
        }
    }
    let ranks = u32::try_from(places.len()).unwrap_or(u32::MAX);
    if let Some(missing) = (0..ranks).find(|rank| !places.contains_key(rank)) {
        return Err(format!("rank {missing} has no place"));
    }
    if places.is_empty() {
        return Err("it places no rank; try a line as 'rank 0=node1 slot=0'".to_owned());
    }
    let mut hosts: Vec<(&str, Vec<&RankPlace>)> = Vec::new();
    let mut map = Vec::new();
    for place in places.values() {
        let at = hosts.iter().position(|(name, _)| *name == place.host).unwrap_or_else(|| {
            hosts.push((&place.host, Vec::new()));
            hosts.len() - 1
        });
        hosts[at].1.push(place);
        map.push(at);
    }
    let mut found = vec![("ranks", ranks.to_string().into())];
    // `+nK` is host K of the list or the allocation.
    let relative: Option<Vec<u32>> =
        hosts.iter().map(|(name, _)| name.strip_prefix("+n")?.parse().ok()).collect();
    let numbers = match &relative {
        Some(numbers) => numbers.clone(),
        None if hosts.iter().any(|(name, _)| name.starts_with('+')) => {
            return Err("'+nK' and names of hosts are not mixed; use one of the two".to_owned());
        }
        None => {
            let list = hosts.iter().map(|(name, ranks)| format!("{name}:{}", ranks.len()));
            found.push(("hosts", list.collect::<Vec<_>>().join(",").into()));
            (0..).take(hosts.len()).collect()
        }
    };
    let map: Vec<String> = map.iter().map(|at| numbers[*at].to_string()).collect();
    if numbers != [0] {
        found.push(("rankmap", map.join(",").into()));
    }
    found.extend(bound(&hosts)?.map(|list| ("bind-to", format!("user:{list}").into())));
    Ok(found)
}

/// Processors of the ranks of a host, which must be those of all hosts.
fn bound(hosts: &[(&str, Vec<&RankPlace>)]) -> Result<Option<String>, String> {
    let lists = hosts.iter().map(|(_, ranks)| {
        ranks.iter().map(|place| place.processors.as_deref()).collect::<Vec<_>>()
    });
    let lists: Vec<Vec<Option<&str>>> = lists.collect();
    if lists.iter().flatten().all(Option::is_none) {
        return Ok(None);
    }
    let longest = lists.iter().max_by_key(|list| list.len()).cloned().unwrap_or_default();
    if !lists.iter().all(|list| longest.starts_with(list)) {
        return Err(
            "the slots differ from host to host, which is not supported; bind with '--bind-to'"
                .to_owned(),
        );
    }
    let all: Option<Vec<&str>> = longest.into_iter().collect();
    let all = all.ok_or("some ranks have no slot; give one to all, or to none")?;
    Ok(Some(all.join(",")))
}

fn of_line(line: &str) -> Result<(u32, RankPlace), String> {
    let wrong = || format!("'{line}' is not a place of a rank; try 'rank 0=node1 slot=0-1'");
    let rest = line.strip_prefix("rank").ok_or_else(wrong)?.trim_start();
    let (rank, rest) = rest.split_once('=').ok_or_else(wrong)?;
    let rank = rank.trim().parse().map_err(|_| wrong())?;
    let mut words = rest.split_whitespace();
    let host = words.next().ok_or_else(wrong)?.to_owned();
    let slot = words.next();
    if words.next().is_some() {
        return Err(wrong());
    }
    let processors = slot.map(|word| {
        let list =
            word.strip_prefix("slots=").or_else(|| word.strip_prefix("slot=")).ok_or_else(wrong)?;
        slots(list).ok_or_else(|| {
            format!("'{word}' names no cores of this machine; try 'slot=0-1' or 'slot=0:0-1'")
        })?
    });
    Ok((rank, RankPlace { host, processors: processors.transpose()? }))
}

/// Processors of slots: cores by number, as `0-1,3`, or those of a socket, as `1:0-2` and `0:*`; `None` for a
/// list that cannot be. The error of the system is the second result.
fn slots(list: &str) -> Option<Result<String, String>> {
    let cores = match pieces(Unit::Core) {
        Ok(cores) => cores,
        Err(why) => return Some(Err(why)),
    };
    let mut chosen: Vec<u32> = Vec::new();
    let mut socket: Option<usize> = None;
    for item in list.split(',') {
        let (of, item) = item.split_once(':').map_or((None, item), |(of, item)| (Some(of), item));
        if let Some(of) = of {
            socket = Some(of.parse().ok()?);
        }
        let among: Vec<Vec<u32>> = match socket {
            None => cores.clone(),
            Some(socket) => {
                let sockets = pieces(Unit::Socket).ok()?;
                let own = sockets.get(socket)?;
                cores
                    .iter()
                    .filter(|core| core.iter().all(|one| own.contains(one)))
                    .cloned()
                    .collect()
            }
        };
        let (first, last) = match item {
            "*" => (0, among.len().checked_sub(1)?),
            _ => {
                let (first, last) = item.split_once('-').unwrap_or((item, item));
                (first.parse().ok()?, last.parse().ok()?)
            }
        };
        chosen.extend(among.get(first..=last)?.concat());
    }
    chosen.sort_unstable();
    chosen.dedup();
    let chosen: Vec<String> = chosen.iter().map(ToString::to_string).collect();
    Some(Ok(chosen.join("+")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str) -> Result<Vec<(&'static str, String)>, String> {
        let pairs = options(text)?.into_iter();
        Ok(pairs.map(|(name, value)| (name, value.into_string().unwrap())).collect())
    }

    #[test]
    fn ranks_are_placed_on_the_hosts_of_the_file() {
        let expected = [("ranks", "3"), ("hosts", "b:1,a:2"), ("rankmap", "0,1,1")];
        let expected = expected.map(|(name, value)| (name, value.to_owned()));
        assert_eq!(found("rank 1=a\nrank 0=b # first\n\nrank 2=a\n").unwrap(), expected);
        let relative = found("rank 0=+n1\nrank 1=+n0").unwrap();
        assert_eq!(relative[1], ("rankmap", "1,0".to_owned()));
    }

    #[test]
    fn slots_are_cores_of_this_machine() {
        let bound = found("rank 0=a slot=0\nrank 1=a slot=0:*").unwrap();
        let cores = pieces(Unit::Core).unwrap();
        let first: Vec<String> = cores[0].iter().map(ToString::to_string).collect();
        let value = &bound.iter().find(|(name, _)| *name == "bind-to").unwrap().1;
        assert!(value.starts_with(&format!("user:{},", first.join("+"))), "{value}");
    }

    #[test]
    fn lines_without_a_sense_are_reported() {
        for (text, part) in [
            ("rank 0=a\nrank 0=b", "place already"),
            ("rank 1=a", "rank 0 has no place"),
            ("", "places no rank"),
            ("rank 0 a", "is not a place"),
            ("rank 0=a slot=9999", "no cores"),
            ("rank 0=a slot=0\nrank 1=a", "some ranks"),
            ("rank 0=+n0\nrank 1=b", "not mixed"),
        ] {
            let why = found(text).expect_err(text);
            assert!(why.contains(part), "{text}: {why}");
        }
    }
}
