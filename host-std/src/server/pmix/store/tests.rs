//! Tests of the store with a reader that goes through the files as libpmix does.

use super::super::heap::Shared;
use super::chain::{RankChain, Segment, SegmentWrite};
use super::layout::{LINK, SKIPPED};
use super::*;
use pmi_core::server::pmix::SharedBytes;
use pmi_core::wire::pmix::Packer;
use std::fs;
use tempfile::TempDir;

/// The files of a job.
#[derive(Clone)]
struct Files {
    meta: Vec<u8>,
    data: Vec<u8>,
}

impl Files {
    fn number(bytes: &[u8], at: usize) -> usize {
        let bytes = bytes[at..at + 8].try_into().unwrap();
        usize::try_from(u64::from_ne_bytes(bytes)).unwrap()
    }

    /// Values that hold, by key, in their order; at most as many as the entry of the rank counts.
    fn all(&self, rank: Option<u32>) -> Vec<(Vec<u8>, Vec<u8>)> {
        let entry = usize::try_from(layout::entry_at(rank)).unwrap();
        let mut at = Self::number(&self.meta, entry + 8);
        let mut left = Self::number(&self.meta, entry + 16);
        let mut found = Vec::new();
        while left > 0 {
            let mark = self.data[at + 7];
            let len = Self::number(&self.data, at) & 0x3fff_ffff_ffff_ffff;
            if mark & SKIPPED != 0 {
                assert!(mark & LINK == 0 && len > 0, "a record to skip has a length");
                at += len;
                continue;
            }
            if mark & LINK != 0 {
                at = Self::number(&self.data, at + 17);
                assert!(at > 0, "the chain ends before its count");
                continue;
            }
            let key: Vec<u8> =
                self.data[at + 16..].iter().copied().take_while(|byte| *byte != 0).collect();
            let sum: usize = key.iter().map(|byte| usize::from(*byte)).sum();
            assert_eq!(Self::number(&self.data, at + 8), sum, "a record begins here");
            found.push((key.clone(), self.data[at + 17 + key.len()..at + len].to_vec()));
            (at, left) = (at + len, left - 1);
        }
        found
    }

    fn find(&self, rank: Option<u32>, key: &[u8]) -> Option<Vec<u8>> {
        self.all(rank).into_iter().find(|(other, _)| other == key).map(|(_, value)| value)
    }

    fn apply(&mut self, write: &SegmentWrite) {
        let to = match write.segment {
            Segment::Meta => &mut self.meta,
            Segment::Data => &mut self.data,
        };
        let at = usize::try_from(write.at).unwrap();
        to.resize(to.len().max(at + write.bytes.len()), 0);
        to[at..at + write.bytes.len()].copy_from_slice(&write.bytes);
    }
}

/// A value as a reader unpacks it.
fn packed(text: &str) -> Vec<u8> {
    let mut bytes = vec![0; text.len() + 16];
    let mut to = Packer::new(&mut bytes, Format::PLAIN);
    to.one(Type::VALUE).of(Type::STRING).text(Some(text.as_bytes()));
    let len = to.finish().unwrap();
    bytes.truncate(len);
    bytes
}

/// KVALs of texts.
fn kvals(pairs: &[(&str, &str)]) -> Vec<u8> {
    let write = |to: &mut Packer<'_>| {
        for (key, value) in pairs {
            let to = to.one(Type::KVAL).text(Some(key.as_bytes()));
            to.of(Type::STRING).text(Some(value.as_bytes()));
        }
    };
    let mut counted = Packer::new(&mut [], Format::PLAIN);
    write(&mut counted);
    let mut bytes = vec![0; counted.len()];
    write(&mut Packer::new(&mut bytes, Format::PLAIN));
    bytes
}

/// Description of a job of two ranks.
fn description() -> Vec<u8> {
    let array = |key: &[u8], pairs: &[(&[u8], &str)], to: &mut Packer<'_>| {
        let to = to.one(Type::KVAL).text(Some(key)).of(Type::DATA_ARRAY).of(Type::INFO);
        to.size(pairs.len() as u64);
        for (key, value) in pairs {
            to.text(Some(key)).u32(0).of(Type::STRING).text(Some(value.as_bytes()));
        }
    };
    let write = |to: &mut Packer<'_>| {
        to.raw(&kvals(&[("pmix.jobid", "job")]));
        array(keys::SESSION_ARRAY, &[(keys::UNIV_SIZE, "2")], to);
        array(keys::NODE_ARRAY, &[(keys::HOSTNAME, "here"), (keys::LOCAL_PEERS, "0,1")], to);
        array(keys::NODE_ARRAY, &[(keys::HOSTNAME, "there"), (keys::LOCAL_PEERS, "2")], to);
        array(keys::APP_ARRAY, &[(keys::APP_ARGV, "a")], to);
        for rank in 0..2_u32 {
            let to = to.one(Type::KVAL).text(Some(keys::PROC_BLOB)).of(Type::BYTE_OBJECT);
            let name = format!("{rank}");
            to.nested(|to| {
                to.one(Type::PROC_RANK).u32(rank).raw(&kvals(&[("pmix.grank", &name)]));
            });
        }
    };
    let mut counted = Packer::new(&mut [], Format::PLAIN);
    write(&mut counted);
    let mut bytes = vec![0; counted.len()];
    write(&mut Packer::new(&mut bytes, Format::PLAIN));
    bytes
}

fn described() -> (Files, Vec<RankChain>) {
    let info = description();
    let (meta, records, chains) = DescribedJob::read(&info, 2).layout();
    (Files { meta, data: [&[0; 8][..], &records].concat() }, chains)
}

fn owned(pairs: &[(&str, &str)]) -> Vec<(Vec<u8>, Vec<u8>)> {
    pairs.iter().map(|(key, value)| (key.as_bytes().to_vec(), packed(value))).collect()
}

#[test]
fn description_has_the_job_with_its_node_and_session_and_each_rank() {
    let (files, _) = described();
    let job = [("pmix.jobid", "job"), ("pmix.univ.size", "2"), ("pmix.lpeers", "0,1")];
    assert_eq!(files.all(None), owned(&job));
    assert_eq!(files.all(Some(0)), owned(&[("pmix.grank", "0")]));
    assert_eq!(files.all(Some(1)), owned(&[("pmix.grank", "1")]));
}

/// Applies the writes of a commit of rank 0 byte by byte, and reads after each one: a key has its old or its new
/// value, or none before it was committed, and the other rank is as it was.
fn commit(files: &mut Files, chain: &mut RankChain, pairs: &[(&str, &str)]) {
    let before = files.clone();
    let bytes = kvals(pairs);
    let (mut records, mut keys) = (Vec::new(), Vec::new());
    for kval in Kvals::new(&bytes, Format::PLAIN).map(Result::unwrap) {
        keys.push((kval.key, records.len()));
        assert!(layout::push_record(&kval, &mut records));
    }
    let end = u64::try_from(files.data.len()).unwrap();
    let needed = RankChain::append_bytes(&records);
    let writes = chain.append(0, end, records, &keys);
    let check = |files: &Files| {
        let other = files.all(Some(1));
        assert_eq!(other, before.all(Some(1)));
        let found = files.all(Some(0));
        let first = |key: &[u8]| found.iter().find(|(other, _)| other == key).map(|(_, of)| of);
        // While the number of records changes by more than its last byte, the last ones may be out of sight.
        let is_short = found.len() < before.all(Some(0)).len();
        for (key, value) in pairs {
            let old = before.find(Some(0), key.as_bytes());
            match first(key.as_bytes()) {
                Some(now) => assert!(*now == packed(value) || Some(now) == old.as_ref()),
                None => assert!(old.is_none() || is_short, "{key} had a value"),
            }
        }
        for (key, value) in before.all(Some(0)) {
            let is_changed = pairs.iter().any(|(other, _)| other.as_bytes() == key);
            match first(&key) {
                _ if is_changed => {}
                Some(now) => assert_eq!(*now, value),
                None => assert!(is_short, "nothing hides a value"),
            }
        }
    };
    for write in &writes {
        // A record behind the free end is not visible, however much of it is written.
        let step = if write.at >= end { write.bytes.len().div_ceil(7) } else { 1 };
        for (at, part) in (write.at..).step_by(step).zip(write.bytes.chunks(step)) {
            // The target of a link is not visible either, before the mark.
            files.apply(&SegmentWrite { segment: write.segment, at, bytes: part.to_vec() });
            check(files);
        }
    }
    assert_eq!(u64::try_from(files.data.len()).unwrap(), end + needed);
    for (key, value) in pairs {
        assert_eq!(files.find(Some(0), key.as_bytes()), Some(packed(value)));
    }
}

#[test]
fn commit_is_visible_whole_after_each_byte_that_is_written() {
    let (mut files, mut chains) = described();
    let chain = &mut chains[0];
    commit(&mut files, chain, &[("a", "1"), ("b", "2"), ("c", "3")]);
    commit(&mut files, chain, &[("d", "4")]);
    commit(&mut files, chain, &[("b", "20"), ("e", "5")]);
    commit(&mut files, chain, &[("b", "21"), ("a", "11"), ("c", "31")]);
    let all = [("pmix.grank", "0"), ("d", "4"), ("e", "5"), ("b", "21"), ("a", "11"), ("c", "31")];
    assert_eq!(files.all(Some(0)), owned(&all));
    // The number of records passes a byte.
    let names: Vec<String> = (0..520).map(|number| format!("k{number}")).collect();
    for some in names.chunks(130) {
        let pairs: Vec<_> = some.iter().map(|name| (name.as_str(), "v")).collect();
        commit(&mut files, chain, &pairs);
    }
    assert_eq!(files.all(Some(0)).len(), 526);
    let before = files.all(Some(0));
    for write in chain.withdraw(0) {
        files.apply(&write);
        assert!(before.starts_with(&files.all(Some(0))), "a reader sees fewer values at most");
    }
    assert_eq!(files.all(Some(0)), owned(&[("pmix.grank", "0")]));
    assert_eq!(files.all(Some(1)), owned(&[("pmix.grank", "1")]));
}

/// A store in a directory of its own, below another one.
struct OnDisk {
    store: JobStore,
    directory: PathBuf,
    _parent: TempDir,
}

impl OnDisk {
    fn new() -> Self {
        let parent = tempfile::tempdir().unwrap();
        let directory = parent.path().join("store");
        let info = description();
        let job = StoredJob { nspace: "job", ranks: 2, local: 2, info: &info };
        Self { store: JobStore::create(&directory, job).unwrap(), directory, _parent: parent }
    }

    fn publish(&mut self, version: u32, bytes: &[u8]) {
        let head = b"head";
        let all = Shared::make(head.len() + bytes.len(), |to| {
            to.copy_from_slice(&[head, bytes].concat());
        });
        let all = all.unwrap();
        assert!(self.store.lacks(1, version));
        let kvals = Kvals::new(&all.as_ref()[head.len()..], Format::PLAIN);
        let committed = CommittedData { bytes: &all, kvals, format: Format::PLAIN };
        self.store.publish(1, version, committed);
        assert!(!self.store.lacks(1, version));
    }

    fn files(&self) -> Files {
        let read = |name: &str| fs::read(self.directory.join(name)).unwrap();
        // The data segment is sparse, and only its front was written.
        let mut data = vec![0; usize::try_from(self.store.end).unwrap()];
        self.store.data.read_exact_at(&mut data, 0).unwrap();
        Files { meta: read("smseg-job-0"), data }
    }
}

#[test]
fn files_have_the_names_and_lengths_of_the_variables_and_are_removed() {
    let on_disk = OnDisk::new();
    let len = |name: &str| fs::metadata(on_disk.directory.join(name)).unwrap().len();
    let variables = crate::launch::plan::pmix_store::variables(&on_disk.directory, 2);
    let value = |name: &str| variables.iter().find(|(other, _)| *other == name).unwrap().1.clone();
    assert_eq!(value("INITIAL_SEG_SIZE"), len("initial-pmix_shared-segment-0").to_string());
    assert_eq!(value("NS_META_SEG_SIZE"), len("smseg-job-0").to_string());
    assert_eq!(value("NS_DATA_SEG_SIZE"), len("smdataseg-job-0").to_string());
    assert_eq!(value("PMIX_DSTORE_21_BASE_PATH"), on_disk.directory.display().to_string());
    let locks = fs::read(on_disk.directory.join("smlockseg-job")).unwrap();
    assert_eq!(Files::number(&locks, 0), locks.len());
    assert_eq!(locks[8..12], 66_u32.to_ne_bytes());
    let (step, first) = (Files::number(&locks, 16), Files::number(&locks, 24));
    assert!(first >= 32 + 4 * 66 && first + 2 * 66 * step <= locks.len());
    assert!(locks[32..first].iter().all(|byte| *byte == 0), "no number of a reader is taken");
    let jobs = fs::read(on_disk.directory.join("initial-pmix_shared-segment-0")).unwrap();
    assert_eq!((Files::number(&jobs, 0), &jobs[16..20]), (1, &b"job\0"[..]));
    assert_eq!((Files::number(&jobs, 288), Files::number(&jobs, 296)), (1, 1));
    drop(on_disk.store);
    assert!(!on_disk.directory.exists());
}

#[test]
fn commits_of_a_rank_are_published_one_after_the_other() {
    let mut on_disk = OnDisk::new();
    on_disk.publish(1, &kvals(&[("a", "1"), ("b", "2")]));
    assert_eq!(on_disk.files().all(Some(1)), owned(&[("pmix.grank", "1"), ("a", "1"), ("b", "2")]));
    let end = on_disk.store.end;
    on_disk.publish(2, &kvals(&[("a", "1"), ("b", "2")]));
    assert_eq!(on_disk.store.end, end, "what is published is not written again");
    // The former values begin the new ones, and a later value of a key holds.
    on_disk.publish(3, &kvals(&[("a", "1"), ("b", "2"), ("c", "3"), ("b", "4")]));
    let all = [("pmix.grank", "1"), ("a", "1"), ("b", "4"), ("c", "3")];
    assert_eq!(on_disk.files().all(Some(1)), owned(&all));
    // The server has dropped what was replaced.
    on_disk.publish(4, &kvals(&[("b", "4"), ("c", "3"), ("a", "5")]));
    let all = [("pmix.grank", "1"), ("b", "4"), ("c", "3"), ("a", "5")];
    assert_eq!(on_disk.files().all(Some(1)), owned(&all));
    assert_eq!(on_disk.files().all(Some(0)), owned(&[("pmix.grank", "0")]));
}

#[test]
fn keys_that_a_reader_would_not_find_are_left_to_requests() {
    let mut on_disk = OnDisk::new();
    on_disk.publish(1, &kvals(&[("pmix.grank", "9"), ("", "9"), ("c", "1")]));
    assert_eq!(on_disk.files().all(Some(1)), owned(&[("pmix.grank", "1"), ("c", "1")]));
}

#[test]
fn value_that_cannot_be_stored_leaves_all_of_its_rank_to_requests() {
    let mut unknown = kvals(&[("a", "2")]);
    let mut bytes = [0; 16];
    let mut to = Packer::new(&mut bytes, Format::PLAIN);
    to.one(Type::KVAL).text(Some(b"x")).of(Type(999)).u8(1);
    let len = to.len();
    unknown.extend(&bytes[..len]);
    let larger = kvals(&[("a", "2"), ("larger", "than the room that is left")]);
    for bytes in [unknown, larger] {
        let mut on_disk = OnDisk::new();
        on_disk.publish(1, &kvals(&[("a", "1")]));
        let end = std::mem::replace(&mut on_disk.store.end, DATA_BYTES - 40);
        on_disk.publish(2, &bytes);
        on_disk.store.end = end;
        assert_eq!(on_disk.files().all(Some(1)), owned(&[("pmix.grank", "1")]));
        on_disk.publish(3, &kvals(&[("a", "3")]));
        assert_eq!(on_disk.files().all(Some(1)), owned(&[("pmix.grank", "1")]));
    }
}

#[test]
fn keys_are_summed_as_readers_do() {
    let mut record = Vec::new();
    let bytes = kvals(&[("a\u{e9}", "v")]);
    let kval = Kvals::new(&bytes, Format::PLAIN).next().unwrap().unwrap();
    assert!(layout::push_record(&kval, &mut record));
    // 0x61 and, as numbers with a sign, 0xc3 and 0xa9.
    let sum = 0x61_i64 + (0xc3 - 0x100) + (0xa9 - 0x100);
    assert_eq!(record[8..16], sum.to_ne_bytes());
}

#[test]
fn job_with_a_name_that_is_too_long_has_no_store() {
    assert!(layout::initial_segment(&[b'n'; 255]).is_some());
    assert!(layout::initial_segment(&[b'n'; 256]).is_none());
}
