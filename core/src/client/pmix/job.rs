//! Job-level information that the launcher has provided.

use crate::wire::pmix::names::keys;
use crate::wire::pmix::{Format, Kval, Kvals, List, Type, Unpacker, Value};

/// Job-level information: data of the job, its nodes, applications and ranks.
///
/// Wire: STRING namespace, then KVALs: plain ones, arrays of the session, of nodes and of applications,
/// and a blob for every rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JobInfo<'a> {
    bytes: &'a [u8],
    format: Format,
    own_rank: u32,
}

/// Processes whose data belongs together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum DataRealm {
    /// One process.
    Process,
    /// The processes of a job on one node.
    Node,
    /// The processes of one program of the launch.
    Application,
    /// All processes of a job.
    Job,
}

impl<'a> JobInfo<'a> {
    pub(super) const fn new(bytes: &'a [u8], format: Format, own_rank: u32) -> Self {
        Self { bytes, format, own_rank }
    }

    /// Name of the job.
    pub fn nspace(&self) -> Option<&'a [u8]> {
        Unpacker::new(self.bytes, self.format).one(Type::STRING).ok()?.text().ok()?
    }

    /// All entries, as they arrived.
    pub fn kvals(&self) -> Kvals<'a> {
        let mut from = Unpacker::new(self.bytes, self.format);
        match from.one(Type::STRING).and_then(|from| from.text()) {
            Ok(_) => Kvals::after(from),
            Err(_) => Kvals::new(b"", self.format),
        }
    }

    /// Number of processes of the job.
    pub fn size(&self) -> Option<u32> {
        u32::try_from(self.find(self.own_rank, keys::JOB_SIZE)?.number()?).ok()
    }

    /// Value of a rank under a key: of the rank itself, else of the job, of the session, of the rank's
    /// node, and of its application. For a rank outside the job, of the own node and application.
    pub fn find(&self, rank: u32, key: &[u8]) -> Option<Value<'a>> {
        self.of_rank(rank, key)
            .or_else(|| self.kvals().find(key))
            .or_else(|| self.arrays(keys::SESSION_ARRAY).find_map(|array| array.find(key)))
            .or_else(|| self.of_part(keys::NODE_ARRAY, &NODE_NAMES, rank, key))
            .or_else(|| self.of_part(keys::APP_ARRAY, &APP_NAMES, rank, key))
    }

    /// Ranks of the job that `rank` shares a realm with: `rank` itself first, the others in ascending order
    /// as a server describes them. Ranks that the launcher has not described share the job only.
    /// Spec: PMIx Standard, data realms.
    pub fn ranks_in(&self, realm: DataRealm, rank: u32) -> impl Iterator<Item = u32> + use<'a> {
        let size = self.size().unwrap_or(0);
        let names: &'static [&'static [u8]] = match realm {
            DataRealm::Process | DataRealm::Job => &[],
            DataRealm::Node => &NODE_NAMES,
            DataRealm::Application => &APP_NAMES,
        };
        let everyone = if realm == DataRealm::Job { 0..size } else { 0..0 };
        let meant = names.iter().find_map(|name| Some((*name, self.of_rank(rank, name)?)));
        let described = self.blobs().filter(move |(other, kvals)| {
            let value = meant.and_then(|(name, value)| Some((value, kvals.clone().find(name)?)));
            *other < size && value.is_some_and(|(one, other)| is_same(&one, &other))
        });
        let others = everyone.chain(described.map(|(other, _)| other));
        core::iter::once(rank).chain(others.filter(move |other| *other != rank))
    }

    fn each(&self) -> impl Iterator<Item = Kval<'a>> + use<'a> {
        self.kvals().map_while(Result::ok)
    }

    fn arrays(&self, key: &'static [u8]) -> impl Iterator<Item = List<'a>> + use<'a> {
        self.each().filter(move |kval| kval.key == key).filter_map(|kval| kval.value.array())
    }

    /// Data of the ranks, in the order of the description; a rank may occur several times.
    fn blobs(&self) -> impl Iterator<Item = (u32, Kvals<'a>)> + use<'a> {
        let format = self.format;
        let blobs = self.each().filter(|kval| kval.key == keys::PROC_BLOB);
        blobs.filter_map(move |blob| {
            let mut from = Unpacker::new(blob.value.blob()?, format);
            let rank = from.one(Type::PROC_RANK).ok()?.u32().ok()?;
            Some((rank, Kvals::after(from)))
        })
    }

    fn of_rank(&self, rank: u32, key: &[u8]) -> Option<Value<'a>> {
        self.blobs().filter(|(of, _)| *of == rank).find_map(|(_, kvals)| kvals.find(key))
    }

    /// Value from the array that describes the node or the application of a rank. With a single array
    /// it is that one.
    fn of_part(
        &self,
        kind: &'static [u8],
        names: &[&[u8]],
        rank: u32,
        key: &[u8],
    ) -> Option<Value<'a>> {
        let mut all = self.arrays(kind);
        if let (Some(only), None) = (all.next(), all.next()) {
            return only.find(key);
        }
        let meant = |name| self.of_rank(rank, name).or_else(|| self.of_rank(self.own_rank, name));
        self.arrays(kind).find_map(|array| {
            let is_it = names.iter().any(|name| {
                meant(name).zip(array.find(name)).is_some_and(|(one, other)| is_same(&one, &other))
            });
            if is_it { array.find(key) } else { None }
        })
    }
}

/// True for the same text or number; servers write the same number in different types.
fn is_same(one: &Value<'_>, other: &Value<'_>) -> bool {
    (one.text().is_some() && one.text() == other.text())
        || (one.number().is_some() && one.number() == other.number())
}

/// Keys that identify a node.
const NODE_NAMES: [&[u8]; 2] = [keys::NODEID, keys::HOSTNAME];
/// Keys that identify an application.
const APP_NAMES: [&[u8]; 1] = [keys::APPNUM];
