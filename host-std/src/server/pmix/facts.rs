//! Job-level information for PMIx clients.

use super::heap::Shared;
use crate::launch::plan::Plan;
use crate::launch::pmix::server_nspace;
use pmi_core::server::pmix::SharedBytes;
use pmi_core::wire::pmix::names::keys;
use pmi_core::wire::pmix::{Format, Packer, Proc, Type};
use std::os::unix::ffi::OsStrExt;

/// Packs the job-level information of `plan`; `pid` is that of the launcher.
pub(crate) fn describe(plan: &Plan, pid: u32) -> Option<Shared> {
    let facts = JobInfo::new(plan, pid);
    let mut counted = Packer::new(&mut [], Format::PLAIN);
    facts.write(&mut counted);
    let len = counted.len();
    Shared::make(len, |bytes| facts.write(&mut Packer::new(bytes, Format::PLAIN)))
}

/// A value of one of the types that occur.
#[derive(Clone, Copy)]
enum Fact<'a> {
    Text(&'a [u8]),
    U16(u32),
    U32(u32),
    Rank(u32),
    Bool(bool),
    Proc(&'a [u8], u32),
    Procs(&'a [u8], u32),
}

/// A key with its value.
type Known<'a> = (&'static [u8], Fact<'a>);

struct JobInfo<'a> {
    plan: &'a Plan,
    server: String,
    peers: String,
    directories: Vec<Option<&'a [u8]>>,
    lines: Vec<Vec<u8>>,
    is_crowded: bool,
}

impl<'a> JobInfo<'a> {
    fn new(plan: &'a Plan, pid: u32) -> Self {
        let peers: Vec<String> = (0..plan.ranks).map(|rank| rank.to_string()).collect();
        let directories = plan.parts.iter().map(|part| part.program.directory.as_ref());
        let lines = plan.parts.iter().map(|part| {
            let program = &part.program;
            let words = std::iter::once(&program.name).chain(&program.args);
            let words: Vec<&[u8]> = words.map(|word| word.as_bytes()).collect();
            words.join(&b' ')
        });
        Self {
            plan,
            server: server_nspace(pid),
            peers: peers.join(","),
            directories: directories
                .map(|directory| Some(directory?.as_os_str().as_bytes()))
                .collect(),
            lines: lines.collect(),
            is_crowded: plan.is_oversubscribed(),
        }
    }

    fn write(&self, to: &mut Packer<'_>) {
        self.job(|known| kval(known, to));
        array(keys::SESSION_ARRAY, &self.session(), to);
        array(keys::NODE_ARRAY, &self.node(), to);
        let mut first = 0;
        for (number, part) in (0..).zip(&self.plan.parts) {
            array(keys::APP_ARRAY, &self.app(number, part.ranks, first), to);
            first += part.ranks;
        }
        for rank in 0..self.plan.ranks {
            let facts = self.rank(rank);
            let to = to.one(Type::KVAL).text(Some(keys::PROC_BLOB)).of(Type::BYTE_OBJECT);
            to.nested(|to| {
                to.one(Type::PROC_RANK).u32(rank);
                facts.iter().for_each(|known| kval(*known, to));
            });
        }
    }

    fn job(&self, mut each: impl FnMut(Known<'_>)) {
        let Plan { ranks, parts, host, kvsname, .. } = self.plan;
        let apps = u32::try_from(parts.len()).unwrap_or(u32::MAX);
        each((keys::JOB_SIZE, Fact::U32(*ranks)));
        each((keys::MAX_SIZE, Fact::U32(*ranks)));
        each((keys::JOBID, Fact::Text(kvsname.as_bytes())));
        each((keys::JOB_NAPPS, Fact::U32(apps)));
        each((keys::NUM_NODES, Fact::U32(1)));
        each((keys::NODE_LIST, Fact::Text(host.as_bytes())));
        // Libraries before 5.0 do not find it in the array of the node.
        each((keys::NODEID, Fact::U32(0)));
        each((keys::OFFSET, Fact::U32(0)));
        each((keys::SERVER_NSPACE, Fact::Text(self.server.as_bytes())));
        each((keys::SERVER_RANK, Fact::Rank(0)));
        if let Some(parent) = self.parent() {
            each((keys::SPAWNED, Fact::Bool(true)));
            each((keys::PARENT, parent));
        }
    }

    /// The session id comes first, since clients look for it there.
    fn session(&self) -> [Known<'_>; 2] {
        [
            (keys::SESSION_ID, Fact::U32(0)),
            (keys::UNIV_SIZE, Fact::U32(self.plan.universe.unwrap_or(self.plan.ranks))),
        ]
    }

    fn node(&self) -> Vec<Known<'_>> {
        let Plan { ranks, host, kvsname, .. } = self.plan;
        let mut known = vec![
            (keys::HOSTNAME, Fact::Text(host.as_bytes())),
            (keys::NODEID, Fact::U32(0)),
            (keys::NODE_SIZE, Fact::U32(*ranks)),
            (keys::LOCAL_SIZE, Fact::U32(*ranks)),
            (keys::LOCAL_PEERS, Fact::Text(self.peers.as_bytes())),
            (keys::LOCAL_PROCS, Fact::Procs(kvsname.as_bytes(), *ranks)),
            (keys::LOCAL_LEADER, Fact::Rank(0)),
        ];
        // Open MPI 5 reads the presence of the key, not its value.
        if self.is_crowded {
            known.push((keys::OVERSUBSCRIBED, Fact::Bool(true)));
        }
        known
    }

    fn app(&self, number: u32, ranks: u32, first: u32) -> Vec<Known<'_>> {
        let at = usize::try_from(number).unwrap_or(usize::MAX);
        let directory = self.directories.get(at).copied().flatten();
        let line = self.lines.get(at).map(Vec::as_slice);
        let known = [
            Some((keys::APPNUM, Fact::U32(number))),
            Some((keys::APP_SIZE, Fact::U32(ranks))),
            Some((keys::APP_LEADER, Fact::Rank(first))),
            directory.map(|directory| (keys::WDIR, Fact::Text(directory))),
            line.map(|line| (keys::APP_ARGV, Fact::Text(line))),
        ];
        known.into_iter().flatten().collect()
    }

    fn rank(&self, rank: u32) -> Vec<Known<'_>> {
        let number = self.plan.appnum(rank);
        let first: u32 = self.plan.parts.iter().take(number).map(|part| part.ranks).sum();
        let known = [
            (keys::HOSTNAME, Fact::Text(self.plan.host.as_bytes())),
            (keys::NODEID, Fact::U32(0)),
            (keys::LOCAL_RANK, Fact::U16(rank)),
            (keys::NODE_RANK, Fact::U16(rank)),
            (keys::GLOBAL_RANK, Fact::Rank(rank)),
            (keys::APP_RANK, Fact::Rank(rank - first)),
            (keys::APPNUM, Fact::U32(u32::try_from(number).unwrap_or(u32::MAX))),
            (keys::REINCARNATION, Fact::U32(0)),
        ];
        let parent = self.parent().map(|parent| (keys::PARENT, parent));
        known.into_iter().chain(parent).collect()
    }

    /// Rank that spawned the job.
    fn parent(&self) -> Option<Fact<'_>> {
        let spawner = self.plan.spawner.as_ref()?;
        Some(Fact::Proc(spawner.kvsname.as_bytes(), spawner.rank))
    }
}

fn kval((key, fact): Known<'_>, to: &mut Packer<'_>) {
    value(fact, to.one(Type::KVAL).text(Some(key)));
}

fn array(key: &[u8], facts: &[Known<'_>], to: &mut Packer<'_>) {
    let to = to.one(Type::KVAL).text(Some(key)).of(Type::DATA_ARRAY);
    to.of(Type::INFO).size(facts.len() as u64);
    for (key, fact) in facts {
        value(*fact, to.text(Some(key)).u32(0));
    }
}

/// Writes a value behind the number of its type.
fn value(fact: Fact<'_>, to: &mut Packer<'_>) {
    match fact {
        Fact::Text(text) => to.of(Type::STRING).text(Some(text)),
        Fact::U16(number) => to.of(Type::UINT16).u16(u16::try_from(number).unwrap_or(u16::MAX)),
        Fact::U32(number) => to.of(Type::UINT32).u32(number),
        Fact::Rank(rank) => to.of(Type::PROC_RANK).u32(rank),
        Fact::Bool(value) => to.of(Type::BOOL).u8(u8::from(value)),
        Fact::Proc(nspace, rank) => {
            let to = to.of(Type::PROC);
            Proc { nspace, rank }.write(to);
            to
        }
        Fact::Procs(nspace, count) => {
            let to = to.of(Type::DATA_ARRAY).of(Type::PROC).size(u64::from(count));
            (0..count).for_each(|rank| Proc { nspace, rank }.write(to));
            to
        }
    };
}
