//! Hardware of a node, which its owner describes once a client needs it.

use super::*;

const TOPOLOGY: &[u8] = b"<topology/>";

/// What an owner says: the topology, memory in an array of the node, and something about rank 1.
fn hardware() -> Block {
    let bytes = packed(Format::PLAIN, &|to| {
        to.one(Type::KVAL).text(Some(keys::HWLOC_XML_V2)).of(Type::STRING).text(Some(TOPOLOGY));
        to.one(Type::KVAL).text(Some(keys::NODE_ARRAY)).of(Type::DATA_ARRAY);
        to.of(Type::INFO).size(2);
        to.text(Some(keys::NODEID)).u32(0).of(Type::UINT32).u32(0);
        to.text(Some(keys::AVAIL_PHYS_MEMORY)).u32(0).of(Type::UINT64).u64(4096);
        to.one(Type::KVAL).text(Some(keys::PROC_BLOB)).of(Type::BYTE_OBJECT).nested(|to| {
            to.one(Type::PROC_RANK).u32(1);
            to.one(Type::KVAL).text(Some(keys::PACKAGE_RANK)).of(Type::UINT16).u16(7);
        });
    });
    Block::from_slice(&bytes).unwrap()
}

/// Keys of the description that a client gets, and of the blob of each rank.
fn keys_of(hall: &mut Hall, client: usize) -> (Vec<Vec<u8>>, Vec<Vec<u8>>) {
    let format = hall.clients[client].1;
    hall.ask(client, Command::REQ, &|_| {});
    let body = hall.answer(client);
    let mut from = Unpacker::new(&body, format);
    from.one(Type::STRING).unwrap().text().unwrap();
    let (mut of_job, mut of_ranks) = (Vec::new(), Vec::new());
    for kval in Kvals::after(from).map(Result::unwrap) {
        of_job.push(kval.key.to_vec());
        if let Some(blob) = kval.value.blob().filter(|_| kval.key == keys::PROC_BLOB) {
            let mut inside = Unpacker::new(blob, format);
            inside.one(Type::PROC_RANK).unwrap().u32().unwrap();
            of_ranks.extend(Kvals::after(inside).map(|kval| kval.unwrap().key.to_vec()));
        }
    }
    (of_job, of_ranks)
}

fn count(keys: &[Vec<u8>], key: &[u8]) -> usize {
    keys.iter().filter(|one| *one == key).count()
}

#[test]
fn hardware_is_lacking_to_libraries_that_detect_it_until_it_is_described() {
    let mut hall = Hall::empty(4);
    let job = hall.world.job;
    for (rank, version, lacks) in
        [(0, &b"4.2.2"[..], false), (1, b"4.2.3", true), (2, b"5.0.11", true), (3, b"6.1.0", true)]
    {
        let client = hall.join_with(rank, Format::PLAIN, version);
        let id = hall.clients[client].0;
        assert_eq!(hall.view().lacks_hardware(id), lacks.then_some(job), "{rank}");
    }
    hall.server().describe_hardware(job, hardware()).unwrap();
    let ids: Vec<SessionId> = hall.clients.iter().map(|(id, _)| *id).collect();
    assert!(ids.into_iter().all(|id| hall.view().lacks_hardware(id).is_none()));
    let stranger = JobId(99);
    assert!(hall.server().describe_hardware(stranger, hardware()).is_err());
}

#[test]
fn described_hardware_reaches_clients_also_if_a_description_was_sent_before() {
    let mut hall = Hall::empty(3);
    let job = hall.world.job;
    let [first, second, third] = [
        hall.join_with(0, Format::PLAIN, b"5.0.11"),
        hall.join_with(1, Format::PLAIN, b"5.0.11"),
        hall.join_with(2, FIXED, b"4.2.3"),
    ];
    let (before, _) = keys_of(&mut hall, first);
    assert_eq!(count(&before, keys::HWLOC_XML_V2), 0);
    hall.server().describe_hardware(job, hardware()).unwrap();
    for client in [first, second, third] {
        let (of_job, of_ranks) = keys_of(&mut hall, client);
        assert_eq!(count(&of_job, keys::HWLOC_XML_V2), 1, "{client}");
        let arrays = count(&before, keys::NODE_ARRAY) + 1;
        assert_eq!(count(&of_job, keys::NODE_ARRAY), arrays, "{client}");
        // A rank is told of itself alone.
        let own = usize::from(client == second);
        assert_eq!(count(&of_ranks, keys::PACKAGE_RANK), own, "{client}");
    }
}

#[test]
fn described_hardware_is_found_by_its_keys() {
    let mut hall = Hall::new(2);
    let job = hall.world.job;
    let get = |hall: &mut Hall, rank: u32, key: &[u8]| {
        hall.ask(0, Command::GET, &|to| {
            to.one(Type::STRING).text(Some(NSPACE)).one(Type::PROC_RANK).u32(rank);
            to.one(Type::SIZE).size(0).one(Type::STRING).text(Some(key));
        });
        let body = hall.answer(0);
        let status = Unpacker::new(&body, Format::PLAIN).one(Type::STATUS).unwrap().i32().unwrap();
        (Status(status), body)
    };
    let asked =
        [(WILDCARD, keys::HWLOC_XML_V2), (0, keys::AVAIL_PHYS_MEMORY), (1, keys::PACKAGE_RANK)];
    for (rank, key) in asked {
        assert_eq!(get(&mut hall, rank, key).0, Status::NOT_FOUND);
    }
    hall.server().describe_hardware(job, hardware()).unwrap();
    for (rank, key) in asked {
        let (status, body) = get(&mut hall, rank, key);
        assert_eq!(status, Status::SUCCESS, "{}", key.escape_ascii());
        assert!(body.windows(key.len()).any(|part| part == key), "{}", key.escape_ascii());
    }
    assert_eq!(get(&mut hall, 0, keys::PACKAGE_RANK).0, Status::NOT_FOUND);
}
