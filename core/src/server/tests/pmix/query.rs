//! Queries to the process manager, and about nodes.

use super::*;
use crate::wire::pmix::names::flags;
use crate::wire::pmix::{Info, List};

/// Qualifiers of a query: a key and a text each.
type Texts<'a> = &'a [(&'a [u8], &'a str)];

impl Hall {
    /// Four ranks on two nodes, `near` and `far`, as in the job description.
    fn on_two_nodes() -> Self {
        let info = packed(Format::PLAIN, &|to| {
            describe(4, to);
            for (number, name, alias) in [(0, "near", "here"), (1, "far", "there")] {
                to.one(Type::KVAL).text(Some(keys::NODE_ARRAY)).of(Type::DATA_ARRAY);
                to.of(Type::INFO).size(5);
                to.text(Some(keys::HOSTNAME)).u32(0).of(Type::STRING).text(Some(name.as_bytes()));
                to.text(Some(keys::HOSTNAME_ALIASES)).u32(0).of(Type::STRING);
                to.text(Some(alias.as_bytes()));
                to.text(Some(keys::NODEID)).u32(0).of(Type::UINT32).u32(number);
                let peers = if number == 0 { "0,1" } else { "2,3" };
                to.text(Some(keys::LOCAL_PEERS)).u32(0).of(Type::STRING);
                to.text(Some(peers.as_bytes()));
                to.text(Some(keys::LOCAL_PROCS)).u32(0).of(Type::DATA_ARRAY).of(Type::PROC).size(2);
                (2 * number..2 * number + 2)
                    .for_each(|rank| Proc { nspace: NSPACE, rank }.write(to));
            }
        });
        let mut hall = Self::described(4, &info);
        (0..4).for_each(|rank| {
            hall.join(rank, if rank == 3 { FIXED } else { Format::PLAIN });
        });
        hall
    }

    pub(super) fn query(&mut self, client: usize, queries: &[(&[&[u8]], Texts<'_>)]) {
        self.ask(client, Command::QUERY, &|to| {
            to.one(Type::SIZE).size(queries.len() as u64).op(Type::QUERY, count(queries.len()));
            for (keys, qualifiers) in queries {
                to.i32(i32::try_from(keys.len()).unwrap());
                keys.iter().for_each(|key| {
                    to.text(Some(key));
                });
                to.size(qualifiers.len() as u64);
                for (key, text) in *qualifiers {
                    to.text(Some(key)).u32(0).of(Type::STRING).text(Some(text.as_bytes()));
                }
            }
        });
    }

    /// The status of the answer to a query, and its entries as text.
    pub(super) fn entries(&mut self, client: usize) -> (Status, Vec<String>) {
        let (body, format) = (self.answer(client), self.clients[client].1);
        let mut from = Unpacker::new(&body, format);
        let status = Status(from.one(Type::STATUS).unwrap().i32().unwrap());
        if from.is_empty() {
            return (status, Vec::new());
        }
        let list = List::read(&mut from, Type::INFO).unwrap();
        assert!(from.is_empty());
        (status, list.infos().map(|info| shown(&info)).collect())
    }

    /// Sends a get about a realm.
    fn get_realm(&mut self, client: usize, realm: &[u8], name: (&[u8], &str), key: &[u8]) {
        self.ask(client, Command::GET, &|to| {
            to.one(Type::STRING).text(Some(NSPACE)).one(Type::PROC_RANK).u32(WILDCARD);
            to.one(Type::SIZE).size(2).op(Type::INFO, 2);
            to.text(Some(realm)).u32(0).of(Type::BOOL).u8(1);
            let text = Some(name.1.as_bytes()).filter(|text| !text.is_empty());
            to.text(Some(name.0)).u32(0).of(Type::STRING).text(text);
            to.one(Type::STRING).text(Some(key));
        });
    }

    /// The number in the answer to a get.
    fn number(&mut self, client: usize) -> Option<i64> {
        let body = self.answer(client);
        let mut from = Unpacker::new(&body, self.clients[client].1);
        let status = from.one(Type::STATUS).unwrap().i32().unwrap();
        assert_eq!(Status(status), Status::SUCCESS);
        let object = from.one(Type::BYTE_OBJECT).unwrap().blob().unwrap();
        let mut from = Unpacker::new(object, Format::PLAIN);
        Proc::read(from.one(Type::PROC).unwrap()).unwrap();
        Kvals::after(from).next()?.unwrap().value.number()
    }

    /// The processes in the answer to a request for peers.
    fn peers(&mut self, client: usize, node: Option<&str>) -> Result<Vec<u32>, Status> {
        self.ask(client, Command::RESOLVE_PEERS, &|to| {
            to.one(Type::STRING).text(node.map(str::as_bytes));
            to.one(Type::STRING).text(Some(NSPACE));
        });
        let (body, format) = (self.answer(client), self.clients[client].1);
        let mut from = Unpacker::new(&body, format);
        match Status(from.one(Type::STATUS).unwrap().i32().unwrap()) {
            Status::SUCCESS => {
                let list = List::read(&mut from, Type::PROC).unwrap();
                Ok(list.procs().map(|proc| proc.rank).collect())
            }
            status => Err(status),
        }
    }
}

fn shown(info: &Info<'_>) -> String {
    let key = String::from_utf8_lossy(info.key);
    let value = match (info.value.text(), info.value.number(), info.value.array()) {
        (Some(text), ..) => String::from_utf8_lossy(text).into_owned(),
        (_, Some(number), _) => std::format!("{number}"),
        (.., Some(array)) if array.of == Type::PROC => {
            array.procs().map(|proc| std::format!("[{}]", proc.rank)).collect()
        }
        (.., Some(array)) if array.of == Type::STRING => {
            let texts = array.each(Type::STRING, |from| from.text());
            texts.map(|text| std::format!("'{}'", String::from_utf8_lossy(text.unwrap()))).collect()
        }
        (.., Some(array)) => array.infos().map(|info| std::format!("({})", shown(&info))).collect(),
        _ => String::new(),
    };
    std::format!("{key}={value}")
}

#[test]
fn rank_is_asked_for_what_its_own_application_and_node_are() {
    let info = packed(Format::PLAIN, &|to| {
        to.one(Type::KVAL).text(Some(keys::JOB_SIZE)).of(Type::UINT32).u32(3);
        for (array, name, key) in [
            (keys::APP_ARRAY, keys::APPNUM, keys::APP_SIZE),
            (keys::NODE_ARRAY, keys::NODEID, keys::NODE_SIZE),
        ] {
            for (number, size) in [(0, 2), (1, 1)] {
                to.one(Type::KVAL).text(Some(array)).of(Type::DATA_ARRAY).of(Type::INFO).size(2);
                to.text(Some(name)).u32(0).of(Type::UINT32).u32(number);
                to.text(Some(key)).u32(0).of(Type::UINT32).u32(size);
            }
        }
        for (rank, own) in [(0, 0), (1, 0), (2, 1)] {
            to.one(Type::KVAL).text(Some(keys::PROC_BLOB)).of(Type::BYTE_OBJECT).nested(|to| {
                to.one(Type::PROC_RANK).u32(rank);
                to.one(Type::KVAL).text(Some(keys::APPNUM)).of(Type::UINT32).u32(own);
                to.one(Type::KVAL).text(Some(keys::NODEID)).of(Type::UINT32).u32(own);
            });
        }
    });
    let mut hall = Hall::described(3, &info);
    hall.join(0, Format::PLAIN);
    for key in [keys::APP_SIZE, keys::NODE_SIZE] {
        let sizes = [0, 1, 2].map(|rank| {
            hall.get(0, rank, std::str::from_utf8(key).ok(), true);
            hall.number(0)
        });
        assert_eq!(sizes, [Some(2), Some(2), Some(1)]);
    }
}

// Coverage: X2-12
#[test]
fn query_has_an_answer_or_none_for_each_key() {
    let mut hall = Hall::new(2);
    hall.commit(1, "card", &[scope::LOCAL]);
    hall.query(0, &[(&[keys::QUERY_NAMESPACES, keys::QUERY_NUM_PSETS], &[])]);
    let all = ["pmix.qry.ns=kvs_1", "pmix.qry.psetnum=0"].map(String::from).to_vec();
    assert_eq!(hall.entries(0), (Status::SUCCESS, all));
    hall.query(0, &[(&[keys::JOB_SIZE, keys::UNIV_SIZE], &[(keys::NSPACE, "kvs_1")])]);
    let all = ["pmix.job.size=2", "pmix.univ.size=16"].map(String::from).to_vec();
    assert_eq!(hall.entries(0), (Status::SUCCESS, all));
    hall.query(0, &[(&[keys::JOB_SIZE], &[(keys::NSPACE, "other")])]);
    assert_eq!(hall.entries(0), (Status::NOT_FOUND, Vec::new()));
    hall.query(0, &[(&[keys::QUERY_NAMESPACE_INFO], &[])]);
    let job = "pmix.qry.nsinfo=(pmix.job.arr=(pmix.nspace=kvs_1)(pmix.cmd.line=)(pmix.job.size=2)\
               (pmix.pdata=(pmix.rank=0)(pmix.lrank=0))(pmix.pdata=(pmix.rank=1)(pmix.lrank=1)))";
    assert_eq!(hall.entries(0), (Status::SUCCESS, [job.into()].to_vec()));
    // Committed data of a rank is found where it is visible.
    hall.ask(0, Command::QUERY, &|to| {
        to.one(Type::SIZE).size(1).one(Type::QUERY).i32(1).text(Some(b"card")).size(1);
        to.text(Some(keys::RANK)).u32(0).of(Type::PROC_RANK).u32(1);
    });
    assert_eq!(hall.entries(0), (Status::SUCCESS, ["card=7".into()].to_vec()));
    hall.ask(0, Command::QUERY, &|to| {
        to.one(Type::SIZE).size(0);
    });
    assert_eq!(hall.status(0), Status::BAD_PARAM);
}

#[test]
fn values_that_only_the_owner_knows_come_with_its_answer() {
    let mut hall = Hall::new(1);
    let asked: &[&[u8]] = &[keys::QUERY_NAMESPACES, keys::QUERY_JOB_STATUS, b"pmix.nothing"];
    hall.query(0, &[(asked, &[])]);
    let Some(Event::HostRequest { session, exchange }) = hall.world.server.poll_event() else {
        panic!("the owner is asked")
    };
    let job = hall.world.job;
    let answered = hall.server().answer_query(session, exchange, |question, to| {
        assert_eq!((question.job, question.rank), (job, WILDCARD));
        match question.key {
            keys::QUERY_JOB_STATUS => {
                to.of(Type::JOB_STATE).u8(3);
                Ok(())
            }
            _ => Err(Status::NOT_SUPPORTED),
        }
    });
    answered.unwrap();
    hall.server().request_read(session);
    let part = ["pmix.qry.ns=kvs_1", "pmix.qry.jst=3"].map(String::from).to_vec();
    assert_eq!(hall.entries(0), (Status::QUERY_PARTIAL_SUCCESS, part));
    assert!(hall.server().answer_query(session, exchange, |_, _| Ok(())).is_err());
    // The number of keys of one request is bounded.
    let many = [keys::QUERY_NAMESPACES; 257];
    hall.query(0, &[(&many[..40], &[])]);
    assert_eq!(hall.entries(0).1.len(), 40);
    let (id, tag) = (hall.clients[0].0, 4711);
    let body = [&[2, 15, 2, 1, 2, 130, 4][..], &[4, b'a', 0].repeat(257), &[0]].concat();
    hall.hand_in(id, &message(id.place(), tag, &body)).unwrap();
    let answers = hall.answers(0);
    assert_eq!(status_of(&answers[0].1, Format::PLAIN), Status::OUT_OF_RESOURCE);
}

// Coverage: X2-13
#[test]
fn nodes_are_asked_about_one_by_one_or_together() {
    let mut hall = Hall::on_two_nodes();
    for client in [0, 3] {
        let (near, far) = ((keys::HOSTNAME, "near"), (keys::HOSTNAME, "there"));
        hall.query(client, &[(&[keys::LOCAL_PEERS], &[near]), (&[keys::LOCAL_PEERS], &[far])]);
        let two = ["pmix.lpeers=0,1", "pmix.lpeers=2,3"].map(String::from).to_vec();
        assert_eq!(hall.entries(client), (Status::SUCCESS, two));
        hall.query(client, &[(&[keys::LOCAL_PEERS, keys::LOCAL_PROCS], &[near, far])]);
        let one = ["pmix.lpeers=0,1,2,3", "pmix.lprocs=[0][1][2][3]"].map(String::from).to_vec();
        assert_eq!(hall.entries(client), (Status::SUCCESS, one));
        assert_eq!(hall.peers(client, Some("far")), Ok([2, 3].to_vec()));
        let own = if client == 0 { [0, 1] } else { [2, 3] };
        assert_eq!(hall.peers(client, None), Ok(own.to_vec()));
        assert_eq!(hall.peers(client, Some("nowhere")), Err(Status::NOT_FOUND));
        hall.ask(client, Command::RESOLVE_NODES, &|to| {
            to.one(Type::STRING).text(None);
        });
        let body = hall.answer(client);
        let mut from = Unpacker::new(&body, hall.clients[client].1);
        from.one(Type::STATUS).unwrap().i32().unwrap();
        assert_eq!(from.one(Type::STRING).unwrap().text(), Ok(Some(&b"near,far"[..])));
    }
}

// Coverage: X2-13
#[test]
fn tool_that_names_no_job_is_told_of_the_processes_of_all_jobs_on_a_node() {
    let mut hall = Hall::on_two_nodes();
    let tool = hall.add_tool_session("mine");
    let (near, far) = ((keys::HOSTNAME, "near"), (keys::HOSTNAME, "there"));
    for (nodes, expected) in
        [(&[near][..], "pmix.lprocs=[0][1]"), (&[near, far], "pmix.lprocs=[0][1][2][3]")]
    {
        hall.query(tool, &[(&[keys::LOCAL_PROCS], nodes)]);
        assert_eq!(hall.entries(tool), (Status::SUCCESS, [String::from(expected)].to_vec()));
    }
}

#[test]
fn get_about_a_node_gives_that_node_and_no_other() {
    let mut hall = Hall::on_two_nodes();
    let array = |hall: &mut Hall, client: usize| {
        let (body, format) = (hall.answer(client), hall.clients[client].1);
        if status_of(&body, format) != Status::SUCCESS {
            return String::new();
        }
        let mut from = Unpacker::new(&body, format);
        from.one(Type::STATUS).unwrap().i32().unwrap();
        let object = from.one(Type::BYTE_OBJECT).unwrap().blob().unwrap();
        let mut from = Unpacker::new(object, format);
        assert_eq!(Proc::read(from.one(Type::PROC).unwrap()).unwrap().rank, WILDCARD);
        let kvals: Vec<_> = Kvals::after(from).map(Result::unwrap).collect();
        assert_eq!((kvals.len(), kvals[0].key), (1, keys::NODE_ARRAY));
        let name = kvals[0].value.array().unwrap().find(keys::HOSTNAME).unwrap();
        String::from_utf8_lossy(name.text().unwrap()).into_owned()
    };
    for (client, name, node) in [(0, "far", "far"), (3, "here", "near"), (0, "nowhere", "")] {
        hall.get_realm(client, keys::NODE_INFO, (keys::HOSTNAME, name), keys::LOCAL_PEERS);
        assert_eq!(array(&mut hall, client), node, "{name}");
    }
    hall.get_realm(0, keys::NODE_INFO, (keys::HOSTNAME, "far"), keys::NODE_SIZE);
    assert_eq!(hall.status(0), Status::NOT_FOUND);
}

#[test]
fn known_values_are_given_again() {
    let mut hall = Hall::new(3);
    hall.commit(1, "near", &[scope::LOCAL]);
    hall.commit(1, "far", &[scope::REMOTE]);
    for (client, key) in [(0, "near"), (2, "far")] {
        hall.ask(client, Command::REFRESH_CACHE, &|to| {
            to.one(Type::STRING).text(Some(NSPACE)).one(Type::PROC_RANK).u32(1);
        });
        let body = hall.answer(client);
        let mut from = Unpacker::new(&body, Format::PLAIN);
        assert_eq!(from.one(Type::STATUS).unwrap().i32(), Ok(0));
        let kvals: Vec<_> = Kvals::after(from).map(|kval| kval.unwrap().key).collect();
        assert_eq!(kvals, [key.as_bytes()]);
    }
}

// Coverage: X1-21, X2-16
#[test]
fn unknown_required_directives_are_refused() {
    let mut hall = Hall::new(1);
    let directive = |to: &mut Packer<'_>, key: &[u8], flags: u32| {
        to.one(Type::SIZE).size(1).one(Type::INFO);
        to.text(Some(key)).u32(flags).of(Type::BOOL).u8(1);
    };
    for (key, flags, status) in [
        (&b"pmix.unheard.of"[..], 0, Status::SUCCESS),
        (b"pmix.unheard.of", flags::REQUIRED, Status::NOT_SUPPORTED),
        (b"pmix.unheard.of", 2, Status::SUCCESS),
        (keys::COLLECT, flags::REQUIRED, Status::SUCCESS),
        (keys::ALGORITHM, 0, Status::SUCCESS),
        (keys::ALGORITHM, flags::REQUIRED, Status::NOT_SUPPORTED),
    ] {
        hall.ask(0, Command::FENCE, &|to| {
            to.one(Type::SIZE).size(1).one(Type::PROC);
            Proc { nspace: NSPACE, rank: 0 }.write(to);
            directive(to, key, flags);
        });
        assert_eq!(hall.status(0), status, "{} {flags}", key.escape_ascii());
    }
    hall.ask(0, Command::GET, &|to| {
        to.one(Type::STRING).text(Some(NSPACE)).one(Type::PROC_RANK).u32(WILDCARD);
        directive(to, b"pmix.unheard.of", flags::REQUIRED);
        to.one(Type::STRING).text(Some(keys::JOB_SIZE));
    });
    assert_eq!(hall.status(0), Status::NOT_SUPPORTED);
    // Directives of groups and of events, and attributes of an event that are for its handlers.
    let construct = |to: &mut Packer<'_>, key: &[u8]| {
        to.one(Type::STRING).text(Some(b"ends")).one(Type::SIZE).size(1).one(Type::PROC);
        Proc { nspace: NSPACE, rank: 0 }.write(to);
        directive(to, key, flags::REQUIRED);
    };
    hall.ask(0, Command::GROUP_CONSTRUCT, &|to| construct(to, b"pmix.grp.unheard"));
    assert_eq!(hall.status(0), Status::NOT_SUPPORTED);
    hall.ask(0, Command::GROUP_CONSTRUCT, &|to| construct(to, keys::GROUP_ASSIGN_CONTEXT_ID));
    assert_eq!(hall.status(0), Status::SUCCESS);
    for command in [Command::GROUP_LEAVE, Command::GROUP_DESTRUCT] {
        hall.ask(0, command, &|to| {
            to.one(Type::STRING).text(Some(b"ends"));
            directive(to, b"pmix.unheard.of", flags::REQUIRED);
        });
        assert_eq!(hall.status(0), Status::NOT_SUPPORTED);
    }
    for (key, status) in [
        (&b"pmix.unheard.of"[..], Status::NOT_SUPPORTED),
        (b"pmix.evfirst", Status::SUCCESS),
        (keys::EVENT_AFFECTED_PROC, Status::SUCCESS),
    ] {
        hall.ask(0, Command::REGISTER_EVENTS, &|to| {
            to.one(Type::SIZE).size(1).one(Type::STATUS).i32(-7);
            directive(to, key, flags::REQUIRED);
        });
        assert_eq!(hall.status(0), status, "{}", key.escape_ascii());
    }
    for (key, status) in [
        (&b"pmix.evterm.job"[..], Status::NOT_SUPPORTED),
        (keys::EVENT_NON_DEFAULT, Status::SUCCESS),
        (b"my.own", Status::SUCCESS),
    ] {
        hall.ask(0, Command::NOTIFY, &|to| {
            to.one(Type::STATUS).i32(-8).one(Type::DATA_RANGE).u8(range::SESSION);
            directive(to, key, flags::REQUIRED);
        });
        assert_eq!(hall.status(0), status, "{}", key.escape_ascii());
    }
    // A request that requires one of several algorithms is rejected, as the server has no names for
    // them.
    hall.ask(0, Command::FENCE, &|to| {
        to.one(Type::SIZE).size(1).one(Type::PROC);
        Proc { nspace: NSPACE, rank: 0 }.write(to);
        to.one(Type::SIZE).size(2).op(Type::INFO, 2);
        to.text(Some(keys::ALGORITHM)).u32(0).of(Type::STRING).text(Some(b"ring,tree"));
        to.text(Some(keys::ALGORITHM_REQUIRED)).u32(0).of(Type::BOOL).u8(1);
    });
    assert_eq!(hall.status(0), Status::NOT_SUPPORTED);
}

#[test]
fn monitored_process_is_reported_when_its_heartbeats_stop() {
    let mut hall = Hall::new(2);
    let (job, rank, after) = (hall.world.job, Rank(1), Duration::from_secs(6));
    let silent = Event::HeartbeatLost { job, rank, code: Status(-109), after };
    let monitor = |hall: &mut Hall, what: &[u8], every: u32| {
        hall.ask(1, Command::MONITOR, &|to| {
            to.one(Type::INFO).text(Some(what)).u32(0).of(Type::BOOL).u8(1);
            to.one(Type::STATUS).i32(-109).one(Type::SIZE).size(2).op(Type::INFO, 2);
            to.text(Some(keys::MONITOR_HEARTBEAT_TIME)).u32(0).of(Type::UINT32).u32(every);
            to.text(Some(keys::MONITOR_HEARTBEAT_DROPS)).u32(0).of(Type::UINT32).u32(3);
        });
        hall.status(1)
    };
    assert_eq!(monitor(&mut hall, b"pmix.monitor.usage", 2), Status::NOT_SUPPORTED);
    assert_eq!(monitor(&mut hall, keys::MONITOR_HEARTBEAT, 0), Status::BAD_PARAM);
    assert_eq!(hall.world.server.poll_timeout(), None);
    assert_eq!(monitor(&mut hall, keys::MONITOR_HEARTBEAT, 2), Status::SUCCESS);
    assert_eq!(hall.world.server.poll_timeout(), Some(NOW.plus(after)));
    hall.late(6);
    assert_eq!(hall.world.server.poll_event(), Some(silent.clone()));
    // The event is reported once, until there is a heartbeat again.
    assert_eq!(hall.world.server.poll_timeout(), None);
    let id = hall.clients[1].0;
    let beat = Header { index: id.place(), tag: 1, body_bytes: 0 }.bytes();
    hall.hand_in(id, &beat).unwrap();
    hall.late(7);
    assert_eq!(hall.world.server.poll_event(), Some(silent));
    hall.hand_in(id, &beat).unwrap();
    assert_eq!(monitor(&mut hall, keys::MONITOR_CANCEL, 2), Status::SUCCESS);
    assert_eq!(hall.world.server.poll_timeout(), None);
}
