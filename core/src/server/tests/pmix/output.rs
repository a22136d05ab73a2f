//! Output of processes for clients, and processes that wait for a debugger.

use super::*;
use crate::ids::Excerpt;
use crate::server::pmix::ForwardedOutput;
use crate::wire::pmix::names::channel;
use crate::wire::pmix::{List, Request};
use std::format;

const SOURCE: Proc<'_> = Proc { nspace: NSPACE, rank: 1 };

fn output(bytes: &[u8]) -> ForwardedOutput<'_> {
    ForwardedOutput { source: SOURCE, channel: channel::STDERR, reference: 70_000, bytes }
}

#[test]
fn output_is_sent_in_order_as_far_as_the_client_reads_it() {
    for format in [Format::PLAIN, FIXED] {
        let mut hall = Hall::empty(2);
        hall.join(0, format);
        let id = hall.clients[0].0;
        let mut texts: Vec<String> = Vec::new();
        while hall.server().send_output(id, &output(format!("{}", texts.len()).as_bytes())).is_ok()
        {
            texts.push(format!("{}", texts.len()));
        }
        assert!(!texts.is_empty());
        let full = hall.server().send_output(id, &output(b"more"));
        assert_eq!(full, Err(Misuse::NoRoom { what: "output" }));
        // A request is still answered, after the output before it.
        hall.ask(0, Command::REQ, &|_| {});
        let messages = hall.answers(0);
        assert_eq!(messages.len(), texts.len() + 1);
        for ((tag, body), text) in messages.iter().zip(&texts) {
            assert_eq!(*tag, 2);
            let mut from = Unpacker::new(body, format);
            from.one(Type::PROC).unwrap();
            assert_eq!(Proc::read(&mut from).unwrap(), SOURCE);
            assert_eq!(from.one(Type::IOF_CHANNEL).unwrap().u16().unwrap(), channel::STDERR);
            assert_eq!(from.one(Type::SIZE).unwrap().size().unwrap(), 70_000);
            assert_eq!(List::read(&mut from, Type::INFO).unwrap().count, 0);
            assert_eq!(from.one(Type::BYTE_OBJECT).unwrap().blob().unwrap(), text.as_bytes());
            assert!(from.is_empty());
        }
        hall.server().send_output(id, &output(b"")).unwrap();
        hall.world.server.close(id);
        let gone = hall.server().send_output(id, &output(b""));
        assert_eq!(gone, Err(Misuse::NoSuch { what: "open session" }));
    }
}

#[test]
fn requests_for_output_and_input_are_read_by_the_owner() {
    let mut hall = Hall::new(2);
    let mut lent = |command, write: &dyn Fn(&mut Packer<'_>), check: &dyn Fn(&Request<'_>)| {
        hall.ask(0, command, &|to| write(to));
        let Some(Event::HostRequest { session, exchange }) = hall.world.server.poll_event() else {
            panic!("the owner is asked")
        };
        check(&hall.view().request(session).unwrap());
        hall.server().request_read(session);
        hall.server().answer(session, exchange, Status::SUCCESS, |_| {}).unwrap();
        assert_eq!(hall.status(0), Status::SUCCESS);
    };
    let source = |to: &mut Packer<'_>| {
        to.one(Type::SIZE).size(1);
        SOURCE.write(to.one(Type::PROC));
        to.one(Type::SIZE).size(1).one(Type::INFO);
        to.text(Some(keys::IOF_CACHE_SIZE)).u32(0).of(Type::UINT32).u32(7);
    };
    for reference in [None, Some(9)] {
        let write = |to: &mut Packer<'_>| {
            source(to);
            to.one(Type::IOF_CHANNEL).u16(channel::STDOUT | channel::STDERR);
            if let Some(number) = reference {
                to.one(Type::SIZE).size(number);
            }
        };
        lent(Command::IOF_PULL, &write, &|request| {
            let Request::IofPull { procs, infos, channels, reference: of } = request else {
                panic!("{request:?}")
            };
            assert_eq!((procs.procs().next(), *channels, *of), (Some(SOURCE), 6, reference));
            assert_eq!(infos.find(keys::IOF_CACHE_SIZE).unwrap().number(), Some(7));
        });
    }
    for input in [&b"in"[..], b""] {
        let write = |to: &mut Packer<'_>| {
            source(to);
            if !input.is_empty() {
                to.one(Type::BYTE_OBJECT).blob(input);
            }
        };
        lent(Command::IOF_PUSH, &write, &|request| {
            let Request::IofPush { procs, data, .. } = request else { panic!("{request:?}") };
            assert_eq!((procs.procs().next(), *data), (Some(SOURCE), input));
        });
    }
    let write = |to: &mut Packer<'_>| {
        to.one(Type::SIZE).size(0).one(Type::SIZE).size(5);
    };
    lent(Command::IOF_DEREGISTER, &write, &|request| {
        assert!(matches!(request, Request::IofDeregister { reference: 5, .. }), "{request:?}");
    });
}

#[test]
fn process_that_waits_for_a_debugger_is_reported_to_the_owner_alone() {
    let mut hall = Hall::new(2);
    hall.ask(0, Command::REGISTER_EVENTS, &|to| {
        to.one(Type::SIZE).size(1).one(Type::STATUS).i32(Status::READY_FOR_DEBUG.0);
        to.one(Type::SIZE).size(0);
    });
    assert_eq!(hall.status(0), Status::SUCCESS);
    for (range, told) in [(range::RM, true), (range::PROC_LOCAL, false)] {
        hall.ask(1, Command::NOTIFY, &|to| {
            to.one(Type::STATUS).i32(Status::READY_FOR_DEBUG.0).one(Type::DATA_RANGE).u8(range);
            to.one(Type::SIZE).size(1).one(Type::INFO).text(Some(keys::BREAKPOINT)).u32(0);
            to.of(Type::STRING).text(Some(b"pmix-init"));
        });
        assert_eq!(hall.status(1), Status::SUCCESS);
        let breakpoint = Excerpt::new(*b"pmix-init");
        let stopped = Event::ReadyForDebug { job: hall.world.job, rank: Rank(1), breakpoint };
        assert_eq!(hall.world.server.poll_event(), told.then_some(stopped));
        assert_eq!(hall.answers(0), []);
    }
}
