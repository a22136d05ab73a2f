//! Scripts of PMIx clients that send every request once, in every encoding.

use pmi_core::wire::pmix::names::{Command, keys, scope};
use pmi_core::wire::pmix::{Family, Format, Packer, Proc, Type, WILDCARD, ranks};
use pmi_fuzz::{Step, write_step};

/// Two clients that both send every request. The owner grants or refuses those that it must answer.
pub(crate) fn session(way: u8, is_refused: bool) -> Vec<u8> {
    let mut script = Vec::new();
    let mut step = |who, what, bytes: &[u8]| write_step(&mut script, Step { who, what, bytes });
    for who in 0..2 {
        step(who, 14, &[who, way]);
    }
    for body in requests(way) {
        for who in 0..2 {
            step(who, 6, &body);
        }
        step(7, 0, if is_refused { b"\x2f\x00" } else { b"\x00\x01" });
    }
    step(7, 3, b"\xff");
    step(0, 26, b"");
    step(7, 4, b"\x01");
    script
}

/// The bodies of all requests, in the format with this number.
pub(crate) fn requests(way: u8) -> Vec<Vec<u8>> {
    let family = if way & 1 == 0 { Family::Flex } else { Family::Fixed };
    let format = Format { family, is_described: way & 2 != 0 };
    let all: [(Command, Writer); 24] = [
        (Command::REQ, |_| {}),
        (Command::COMMIT, commit),
        (Command::GET, |to| get(to, 0, Some(b"k"))),
        (Command::GET, |to| get(to, 1, Some(b"later"))),
        (Command::GET, |to| get(to, WILDCARD, Some(keys::JOB_SIZE))),
        (Command::GET, |to| get(to, ranks::UNDEF, Some(b"k"))),
        (Command::GET, |to| get(to, 1, None)),
        (Command::FENCE, |to| collective(to, &[0, 1])),
        (Command::CONNECT, |to| collective(to, &[0, 1])),
        (Command::DISCONNECT, |to| collective(to, &[0, 1])),
        (Command::FENCE, |to| collective(to, &[WILDCARD])),
        (Command::REGISTER_EVENTS, |to| {
            to.one(Type::SIZE).size(2).op(Type::STATUS, 2).i32(-147).i32(-200);
            to.one(Type::SIZE).size(0);
        }),
        (Command::NOTIFY, |to| {
            to.one(Type::STATUS).i32(-147).one(Type::DATA_RANGE).u8(4);
            infos(to, 1);
        }),
        (Command::DEREGISTER_EVENTS, |to| {
            to.one(Type::STATUS).i32(-147);
        }),
        (Command::PUBLISH, |to| {
            to.one(Type::UINT32).u32(0);
            infos(to, 2);
        }),
        (Command::LOOKUP, names),
        (Command::UNPUBLISH, names),
        (Command::QUERY, |to| {
            to.one(Type::SIZE).size(1).one(Type::QUERY);
            to.i32(1).text(Some(b"pmix.qry.ns")).size(0);
        }),
        (Command::LOG, |to| {
            to.one(Type::TIME).u64(1);
            infos(to, 1);
            infos(to, 1);
        }),
        (Command::JOB_CONTROL, |to| {
            procs(to, &[0]);
            infos(to, 1);
        }),
        (Command::SPAWN, spawn),
        (Command::GROUP_CONSTRUCT, |to| {
            to.one(Type::STRING).text(Some(b"group"));
            collective(to, &[0, 1]);
        }),
        (Command::ABORT, |to| {
            to.one(Type::STATUS).i32(7).one(Type::STRING).text(Some(b"bye"));
            to.one(Type::SIZE).size(0);
        }),
        (Command::FINALIZE, |_| {}),
    ];
    all.iter().map(|(command, write)| body(format, *command, *write)).collect()
}

type Writer = fn(&mut Packer<'_>);

fn body(format: Format, command: Command, write: Writer) -> Vec<u8> {
    let mut bytes = vec![0; 1024];
    let mut to = Packer::new(&mut bytes, format);
    to.one(Type::COMMAND).u8(command.0);
    write(&mut to);
    let len = to.finish().expect("a short request");
    bytes.truncate(len);
    bytes
}

fn commit(to: &mut Packer<'_>) {
    for scope in [scope::LOCAL, scope::REMOTE] {
        let buffer = to.format().buffer();
        to.one(Type::SCOPE).u8(scope).one(Type::BUFFER).u8(buffer).nested(|to| {
            to.one(Type::KVAL).text(Some(b"k")).of(Type::DATA_ARRAY);
            to.of(Type::INFO).size(1).text(Some(b"in")).u32(0).of(Type::UINT32).u32(7);
        });
    }
}

fn get(to: &mut Packer<'_>, rank: u32, key: Option<&[u8]>) {
    to.one(Type::STRING).text(Some(b"job")).one(Type::PROC_RANK).u32(rank);
    infos(to, 1);
    if let Some(key) = key {
        to.one(Type::STRING).text(Some(key));
    }
}

fn collective(to: &mut Packer<'_>, ranks: &[u32]) {
    procs(to, ranks);
    infos(to, 1);
}

fn procs(to: &mut Packer<'_>, ranks: &[u32]) {
    let count = ranks.len() as u32;
    to.one(Type::SIZE).size(count.into()).op(Type::PROC, count);
    ranks.iter().for_each(|rank| Proc { nspace: b"job", rank: *rank }.write(to));
}

/// A time, and perhaps a text.
fn infos(to: &mut Packer<'_>, count: u32) {
    to.one(Type::SIZE).size(count.into()).op(Type::INFO, count);
    to.text(Some(keys::TIMEOUT)).u32(0).of(Type::INT).int(3);
    if count > 1 {
        to.text(Some(b"name")).u32(0).of(Type::STRING).text(Some(b"value"));
    }
}

fn names(to: &mut Packer<'_>) {
    to.one(Type::UINT32).u32(0).one(Type::SIZE).size(1).one(Type::STRING).text(Some(b"name"));
    infos(to, 1);
}

fn spawn(to: &mut Packer<'_>) {
    infos(to, 1);
    to.one(Type::SIZE).size(1).one(Type::APP).text(Some(b"a.out"));
    to.int(1).text(Some(b"a.out")).i32(1).text(Some(b"A=1")).text(None).int(2).size(0);
}
