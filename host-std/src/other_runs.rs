//! Operations of PMIx clients with processes of other runs, which meet at a name server: each run sends its
//! part there, and receives those of the others.
//!
//! Wire: postcard. Parts of other runs come from launchers that know the key of the name server, and are
//! checked like any other input: lengths are bounded by the message, and sets of ranks are compared, never
//! written out.

use pmi_host_base::ranges::Ranks;
use pmi_host_os::byte_vec;
use serde::{Deserialize, Serialize};

/// Part of a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ConnectPart {
    pub(crate) kind: ConnectKind,
    /// True if members of the run are gone without having joined.
    pub(crate) is_partial: bool,
    /// Jobs of the run with members.
    pub(crate) own: Vec<JobPart>,
    /// Members of other runs, by namespace; `None` for all processes of it.
    pub(crate) others: Vec<(Vec<u8>, Option<Ranks>)>,
}

/// Kind of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum ConnectKind {
    /// `PMIx_Fence`.
    Fence,
    /// `PMIx_Connect`.
    Connect,
    /// `PMIx_Disconnect`.
    Disconnect,
}

/// Part of one job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct JobPart {
    /// Its namespace.
    pub(crate) nspace: Vec<u8>,
    /// Number of its ranks.
    pub(crate) size: u32,
    /// Members.
    pub(crate) ranks: Ranks,
    /// Description of the job for PMIx clients of other runs.
    #[serde(with = "byte_vec")]
    pub(crate) info: Vec<u8>,
    /// Data that the members have committed for other nodes: records one after the other.
    #[serde(with = "byte_vec")]
    pub(crate) data: Vec<u8>,
}

/// Result for one run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ConnectResult {
    /// True if members of any run are gone without having joined.
    pub(crate) is_partial: bool,
    /// The parts of the other runs.
    pub(crate) jobs: Vec<JobPart>,
}

/// Result for a node of a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ConnectedMessage {
    /// Number of the part of the node.
    pub(crate) number: u32,
    /// Data of the parts of this run, in the order of the nodes.
    #[serde(with = "byte_vec")]
    pub(crate) data: Vec<u8>,
    /// The parts of the other runs.
    pub(crate) others: ConnectResult,
}

impl ConnectPart {
    /// Namespaces of all members.
    pub(crate) fn namespaces(&self) -> impl Iterator<Item = &[u8]> {
        let own = self.own.iter().map(|job| job.nspace.as_slice());
        own.chain(self.others.iter().map(|(nspace, _)| nspace.as_slice()))
    }

    /// True if both are parts of the same operation, of two runs.
    pub(crate) fn agrees(&self, other: &Self) -> bool {
        let has_own = |part: &Self, nspace: &[u8]| part.own.iter().any(|job| job.nspace == nspace);
        self.kind == other.kind
            && self.namespaces().count() == other.namespaces().count()
            && self.namespaces().all(|nspace| {
                other.namespaces().any(|of| of == nspace)
                    && !(has_own(self, nspace) && has_own(other, nspace))
            })
            && self.own.iter().all(|job| other.lists(job))
            && other.own.iter().all(|job| self.lists(job))
    }

    /// True if it lists the members of a job of another run as that run does.
    fn lists(&self, job: &JobPart) -> bool {
        let listed = self.others.iter().find(|(nspace, _)| *nspace == job.nspace);
        listed.is_some_and(|(_, ranks)| match ranks {
            Some(ranks) => *ranks == job.ranks,
            None => job.ranks.count() == u64::from(job.size),
        })
    }
}

/// Most bytes of the parts of all runs in one operation together: a message of the tree has up to 16 MiB.
pub(crate) const CONNECT_BYTES: usize = 12 << 20;

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn job_part() -> JobPart {
        JobPart {
            nspace: b"kvs_n1_7_0".to_vec(),
            size: 5,
            ranks: [0, 1, 4].into_iter().collect(),
            info: vec![0, 255],
            data: vec![7; 300],
        }
    }

    /// The part of a run that has these ranks of `nspace`, and lists those of others.
    pub(crate) fn part(nspace: &str, ranks: u32, others: &[(&str, Option<u32>)]) -> ConnectPart {
        let nspace = nspace.as_bytes().to_vec();
        let all = |ranks: u32| (0..ranks).collect::<Ranks>();
        let (info, data) = (nspace.clone(), vec![7; 3]);
        let own = vec![JobPart { nspace, size: ranks, ranks: all(ranks), info, data }];
        let others = others.iter().map(|(name, ranks)| (name.as_bytes().to_vec(), ranks.map(all)));
        let others = others.collect();
        ConnectPart { kind: ConnectKind::Connect, is_partial: false, own, others }
    }

    #[test]
    fn part_and_result_are_read_as_they_were_written() {
        let part = part("a", 3, &[("b", None), ("c", Some(2))]);
        let written = postcard::to_stdvec(&part).unwrap();
        assert_eq!(postcard::from_bytes::<ConnectPart>(&written), Ok(part));
        for len in 0..written.len() {
            assert!(postcard::from_bytes::<ConnectPart>(&written[..len]).is_err(), "{len} bytes");
        }
        let result = ConnectResult { is_partial: true, jobs: vec![job_part()] };
        let written = postcard::to_stdvec(&result).unwrap();
        assert_eq!(postcard::from_bytes::<ConnectResult>(&written), Ok(result));
    }

    #[test]
    fn parts_agree_if_they_list_each_other() {
        let one = part("a", 3, &[("b", Some(2))]);
        let agrees = |other: &ConnectPart| {
            assert_eq!(one.agrees(other), other.agrees(&one));
            one.agrees(other)
        };
        assert!(agrees(&part("b", 2, &[("a", Some(3))])));
        assert!(agrees(&part("b", 2, &[("a", None)])), "all of a job");
        assert!(!agrees(&part("b", 2, &[("a", Some(2))])), "fewer");
        assert!(!agrees(&part("b", 3, &[("a", Some(3))])), "more of the other");
        assert!(!agrees(&part("b", 2, &[("a", Some(3)), ("c", None)])), "a third job");
        assert!(!agrees(&part("c", 2, &[("a", Some(3))])), "another job");
        assert!(!agrees(&part("a", 3, &[("b", Some(2))])), "the same job");
        let kind = ConnectKind::Disconnect;
        assert!(!agrees(&ConnectPart { kind, ..part("b", 2, &[("a", Some(3))]) }));
        let mut few = part("b", 2, &[("a", None)]);
        few.own[0].size = 3;
        assert!(agrees(&few), "some of a job");
        assert!(!part("a", 3, &[("b", None)]).agrees(&few), "not all of a job");
    }
}
