//! Requests that only the owner of a server can answer.

use super::*;

#[test]
fn abort_is_answered_and_told() {
    let mut hall = Hall::new(2);
    hall.ask(1, Command::ABORT, &|to| {
        to.one(Type::STATUS).i32(42).one(Type::STRING).text(Some(b"bye")).one(Type::SIZE).size(0);
    });
    assert_eq!(hall.status(1), Status::SUCCESS);
    let message = Excerpt::new(b"bye".iter().copied());
    let (job, rank) = (hall.world.job, Rank(1));
    let told = Event::Aborted { job, rank, code: Some(42), world: true, message };
    assert_eq!(hall.world.server.poll_event(), Some(told));
}

// Coverage: X2-24
#[test]
fn requests_for_the_owner_are_lent_to_it_until_they_were_read() {
    let mut hall = Hall::new(1);
    hall.ask(0, Command::JOB_CONTROL, &|to| {
        to.one(Type::SIZE).size(0).one(Type::SIZE).size(1).one(Type::INFO);
        to.text(Some(keys::REGISTER_CLEANUP)).u32(0).of(Type::STRING).text(Some(b"/tmp/x"));
    });
    let Some(Event::HostRequest { session, exchange }) = hall.world.server.poll_event() else {
        panic!("the owner is asked")
    };
    let Some(crate::wire::pmix::Request::JobControl { infos, .. }) = hall.view().request(session)
    else {
        panic!("the request is lent")
    };
    assert_eq!(infos.find(keys::REGISTER_CLEANUP).unwrap().text(), Some(&b"/tmp/x"[..]));
    hall.server().request_read(session);
    assert!(hall.view().request(session).is_none());
    assert_eq!(hall.answers(0), []);
    hall.server().answer(session, exchange, Status::SUCCESS, |_| {}).unwrap();
    assert_eq!(hall.status(0), Status::SUCCESS);
    assert!(hall.server().answer(session, exchange, Status::SUCCESS, |_| {}).is_err());
}

#[test]
fn answer_to_a_closed_connection_goes_to_no_other() {
    let mut hall = Hall::new(1);
    let ask = |hall: &mut Hall| {
        hall.ask(0, Command::JOB_CONTROL, &|to| {
            to.one(Type::SIZE).size(0).one(Type::SIZE).size(0);
        });
        let Some(Event::HostRequest { session, exchange }) = hall.world.server.poll_event() else {
            panic!("the owner is asked")
        };
        hall.server().request_read(session);
        (session, exchange)
    };
    let gone = ask(&mut hall);
    // The next peer gets the same connection and the same place in it.
    hall.world.server.close(gone.0);
    hall.clients.clear();
    hall.join(0, Format::PLAIN);
    let (session, exchange) = ask(&mut hall);
    assert_eq!(session, gone.0);
    assert!(hall.server().answer(gone.0, gone.1, Status::SUCCESS, |_| {}).is_err());
    hall.server().answer(session, exchange, Status::NOT_SUPPORTED, |_| {}).unwrap();
    assert_eq!(hall.status(0), Status::NOT_SUPPORTED);
}

#[test]
fn monitors_of_files_and_their_end_are_left_to_the_owner() {
    let mut hall = Hall::new(1);
    let ask = |hall: &mut Hall, what: &[u8]| {
        hall.ask(0, Command::MONITOR, &|to| {
            to.one(Type::INFO).text(Some(what)).u32(0).of(Type::STRING).text(Some(b"/tmp/x"));
            to.one(Type::STATUS).i32(-110).one(Type::SIZE).size(1).op(Type::INFO, 1);
            to.text(Some(keys::MONITOR_FILE_CHECK_TIME)).u32(0).of(Type::UINT32).u32(1);
        });
    };
    // Without a monitor of the owner there is none to cancel.
    ask(&mut hall, keys::MONITOR_CANCEL);
    assert_eq!((hall.status(0), hall.world.server.poll_event()), (Status::SUCCESS, None));
    for what in [keys::MONITOR_FILE, keys::MONITOR_CANCEL] {
        ask(&mut hall, what);
        let Some(Event::HostRequest { session, exchange }) = hall.world.server.poll_event() else {
            panic!("the owner is asked")
        };
        let request = hall.view().request(session);
        let Some(crate::wire::pmix::Request::Monitor { what: asked, code: -110, infos }) = request
        else {
            panic!("the request is lent")
        };
        assert_eq!((asked.key, asked.value.text()), (what, Some(&b"/tmp/x"[..])));
        assert!(infos.find(keys::MONITOR_FILE_CHECK_TIME).is_some());
        hall.server().request_read(session);
        hall.server().answer(session, exchange, Status::SUCCESS, |_| {}).unwrap();
        assert_eq!(hall.status(0), Status::SUCCESS);
    }
}
