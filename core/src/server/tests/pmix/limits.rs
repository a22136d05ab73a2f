//! Malformed, oversized and truncated input.

use super::*;

#[test]
fn bodies_that_are_no_requests_are_refused_and_harm_no_client() {
    let mut hall = Hall::new(2);
    let (id, _) = hall.clients[0];
    for (body, status) in [
        (&b""[..], Status::BAD_PARAM),
        (&[2, 3, 9, 9], Status::BAD_PARAM),
        (&[2, 200], Status::NOT_SUPPORTED),
    ] {
        hall.tag += 1;
        let message = message(id.place(), hall.tag, body);
        hall.hand_in(id, &message).unwrap();
        assert_eq!(hall.status(0), status, "{body:?}");
    }
    // A heartbeat has no answer, and neither has the deregistration of a handler.
    hall.hand_in(id, &message(id.place(), 1, b"")).unwrap();
    hall.ask(0, Command::DEREGISTER_EVENTS, &|to| {
        to.one(Type::STATUS).i32(-147);
    });
    assert_eq!(hall.answers(0), []);
    // A message that can never be held terminates the connection as soon as its length is known.
    let endless = Header { index: 0, tag: 101, body_bytes: 1 << 30 }.bytes();
    let error = hall.hand_in(id, &endless).unwrap_err();
    assert_eq!(error, PeerError::MessageTooLong { limit_bytes: 2048 });
    hall.fence(1, &[1], 0);
    assert_eq!(hall.status(1), Status::SUCCESS);
}

// Coverage: X1-15
#[test]
fn client_that_reads_nothing_is_taken_no_more_from() {
    let mut hall = Hall::new(1);
    let (id, _) = hall.clients[0];
    let body = packed(Format::PLAIN, &|to| {
        to.one(Type::COMMAND).u8(Command::REQ.0);
    });
    let flood: Vec<u8> = (101..1000).flat_map(|tag| message(id.place(), tag, &body)).collect();
    let taken = hall.hand_in(id, &flood).unwrap();
    // Eight answers are pending; further requests wait in the peer.
    assert_eq!(taken, 8 * 18);
    let mut sent = taken;
    let mut answered = 0;
    while answered < 899 {
        answered += hall.answers(0).len();
        sent += hall.hand_in(id, &flood[sent..]).unwrap();
    }
    assert_eq!((sent, hall.answers(0).len()), (flood.len(), 0));
}

#[test]
fn conversation_may_be_cut_at_any_byte() {
    let size = {
        let mut hall = Hall::new(1);
        conversation(&mut hall).len()
    };
    for cut in 0..size {
        let mut hall = Hall::new(2);
        let all = conversation(&mut hall);
        let (id, _) = hall.clients[0];
        hall.hand_in(id, &all[..cut]).unwrap();
        hall.end(0);
        // The other connection is not blocked by it.
        hall.fence(1, &[WILDCARD], 0);
        assert_eq!(hall.answers(1).len(), 1, "cut at {cut}");
    }
}

fn conversation(hall: &mut Hall) -> Vec<u8> {
    let (id, format) = hall.clients[0];
    let body = |command: Command, write: &dyn Fn(&mut Packer<'_>)| {
        packed(format, &|to| {
            to.one(Type::COMMAND).u8(command.0);
            write(to);
        })
    };
    let get = body(Command::GET, &|to| {
        to.one(Type::STRING).text(Some(NSPACE)).one(Type::PROC_RANK).u32(0);
        to.one(Type::SIZE).size(0).one(Type::STRING).text(Some(b"k"));
    });
    let bodies = [body(Command::REQ, &|_| {}), get, body(Command::FINALIZE, &|_| {})];
    let messages = (101..).zip(&bodies).map(|(tag, body)| message(id.place(), tag, body));
    messages.collect::<Vec<_>>().concat()
}

/// Sends the first `len` bytes of a request that is longer.
fn begin(hall: &mut Hall, client: usize, len: usize) -> Result<usize, PeerError> {
    let (id, _) = hall.clients[client];
    let whole = message(id.place(), 7, &[0; 1100]);
    hall.hand_in(id, &whole[..len])
}

#[test]
fn unfinished_requests_of_a_rank_are_bounded_over_all_its_connections() {
    let mut hall = Hall::new(2);
    hall.server().limit_unfinished(UnfinishedLimits { rank_bytes: 1000, all_bytes: usize::MAX });
    let second = hall.join(0, Format::PLAIN);
    begin(&mut hall, 0, 700).unwrap();
    begin(&mut hall, second, 300).unwrap();
    // What another rank holds does not count, nor does it suffer.
    begin(&mut hall, 1, 1000).unwrap();
    let (id, _) = hall.clients[second];
    let error = hall.hand_in(id, &[0; 300]).unwrap_err();
    assert_eq!(error, PeerError::UnfinishedTooLong { limit_bytes: 1000 });
    // The first connection goes on, and its rank has room again.
    hall.world.server.close(id);
    let third = hall.join(0, Format::PLAIN);
    begin(&mut hall, third, 300).unwrap();
    // A single connection is bounded as well.
    let (id, _) = hall.clients[1];
    let error = hall.hand_in(id, &[0; 1]).unwrap_err();
    assert_eq!(error, PeerError::UnfinishedTooLong { limit_bytes: 1000 });
}

#[test]
fn unfinished_requests_of_all_ranks_are_bounded_and_short_ones_are_no_share() {
    let mut hall = Hall::new(4);
    hall.server().limit_unfinished(UnfinishedLimits { rank_bytes: 1200, all_bytes: 2500 });
    for rank in 0..2 {
        begin(&mut hall, rank, 900).unwrap();
    }
    let error = begin(&mut hall, 2, 800).unwrap_err();
    assert_eq!(error, PeerError::UnfinishedTooLong { limit_bytes: 2500 });
    // A short one is served until then, as without the limit.
    begin(&mut hall, 3, 400).unwrap();
    let (id, _) = hall.clients[2];
    hall.world.server.close(id);
    // A finished request counts no more.
    let (id, _) = hall.clients[0];
    hall.hand_in(id, &message(id.place(), 7, &[0; 1100])[900..]).unwrap();
    let fourth = hall.join(2, Format::PLAIN);
    begin(&mut hall, fourth, 800).unwrap();
}
