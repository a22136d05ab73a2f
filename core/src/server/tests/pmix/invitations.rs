//! Groups formed by invitation, whose events the server reads.

use super::events::{Said, procs, yes};
use super::*;
use std::format;

const INVITED: i32 = Status::GROUP_INVITED.0;
const COMPLETE: i32 = Status::GROUP_CONSTRUCT_COMPLETE.0;
const ABORT: i32 = Status::GROUP_CONSTRUCT_ABORT.0;

impl Hall {
    /// Sends an event of an inviter, as libpmix 5.0.11 does.
    fn announce(&mut self, client: usize, code: i32, name: &str, ranks: &[u32]) {
        let (range, name) = (targets(ranks), text(name));
        let infos: [Said<'_>; 3] = [
            (keys::EVENT_CUSTOM_RANGE, &range),
            (keys::EVENT_NON_DEFAULT, &yes),
            (keys::GROUP_NAME, &name),
        ];
        assert_eq!(self.notify(client, code, range::CUSTOM, &infos), Status::SUCCESS);
    }

    fn fence_of(&mut self, client: usize, name: &str) {
        self.ask(client, Command::FENCE, &|to| {
            to.one(Type::SIZE).size(1).one(Type::PROC);
            Proc { nspace: name.as_bytes(), rank: WILDCARD }.write(to);
            to.one(Type::SIZE).size(0);
        });
    }

    /// The name stands for exactly these processes in a fence.
    #[track_caller]
    fn assert_fence(&mut self, name: &str, members: &[usize]) {
        let Some((last, others)) = members.split_last() else { return };
        for client in others {
            self.fence_of(*client, name);
            assert_eq!(self.answers(*client), [], "client {client} waits");
        }
        self.fence_of(*last, name);
        for client in members {
            assert_eq!(self.status_of_only_answer(*client), Status::SUCCESS, "client {client}");
        }
    }

    #[track_caller]
    fn assert_no_fence(&mut self, name: &str, client: usize) {
        self.fence_of(client, name);
        assert_eq!(self.status(client), Status::NOT_FOUND, "client {client}");
    }

    fn status_of_only_answer(&mut self, client: usize) -> Status {
        let answers = self.answers(client);
        assert_eq!(answers.len(), 1, "client {client}");
        status_of(&answers[0].1, self.clients[client].1)
    }

    fn groups(&mut self) -> (Status, Vec<String>) {
        self.query(0, &[(&[keys::QUERY_NUM_GROUPS], &[])]);
        self.entries(0)
    }
}

fn targets(ranks: &[u32]) -> impl Fn(&mut Packer<'_>) {
    move |to: &mut Packer<'_>| procs(ranks, to)
}

fn text(text: &str) -> impl Fn(&mut Packer<'_>) {
    move |to: &mut Packer<'_>| {
        to.of(Type::STRING).text(Some(text.as_bytes()));
    }
}

#[test]
fn fence_names_an_invited_group_before_and_after_it_is_complete() {
    let mut hall = Hall::new(4);
    hall.announce(0, INVITED, "friends", &[0, 2, 3]);
    // A process that has joined need not wait for the other acceptances.
    hall.fence_of(3, "friends");
    hall.assert_no_fence("friends", 1);
    hall.announce(0, COMPLETE, "friends", &[0, 2, 3]);
    hall.fence_of(2, "friends");
    assert_eq!(hall.answers(2), []);
    hall.fence_of(0, "friends");
    for client in [0, 2, 3] {
        assert_eq!(hall.status_of_only_answer(client), Status::SUCCESS);
    }
    hall.assert_no_fence("friends", 1);
    hall.assert_fence("friends", &[2, 3, 0]);
}

#[test]
fn invited_group_of_all_processes_has_the_fence_of_the_job() {
    let mut hall = Hall::new(3);
    hall.announce(1, INVITED, "all", &[WILDCARD]);
    hall.announce(1, COMPLETE, "all", &[WILDCARD]);
    hall.fence_of(0, "all");
    hall.fence(1, &[WILDCARD], 0);
    hall.fence_of(2, "all");
    for client in 0..3 {
        assert_eq!(hall.status_of_only_answer(client), Status::SUCCESS);
    }
}

#[test]
fn inviter_is_a_member_that_it_does_not_list() {
    let mut hall = Hall::new(3);
    hall.announce(0, INVITED, "pair", &[1]);
    hall.announce(0, COMPLETE, "pair", &[1]);
    hall.assert_fence("pair", &[0, 1]);
}

#[test]
fn final_membership_replaces_the_invited_processes() {
    let mut hall = Hall::new(4);
    hall.announce(0, INVITED, "some", &[WILDCARD]);
    // As libpmix 6.0 sends it.
    let (range, name) = (targets(&[WILDCARD]), text("some"));
    let members = targets(&[0, 1]);
    let infos: [Said<'_>; 3] = [
        (keys::EVENT_CUSTOM_RANGE, &range),
        (keys::GROUP_MEMBERSHIP, &members),
        (keys::GROUP_NAME, &name),
    ];
    assert_eq!(hall.notify(0, COMPLETE, range::CUSTOM, &infos), Status::SUCCESS);
    hall.assert_fence("some", &[0, 1]);
    hall.assert_no_fence("some", 2);
}

#[test]
fn open_invitation_is_no_group_yet() {
    let mut hall = Hall::new(2);
    let number = |number: u32| (Status::SUCCESS, vec![format!("pmix.qry.pgrpnum={number}")]);
    hall.announce(0, INVITED, "ours", &[WILDCARD]);
    assert_eq!(hall.groups(), number(0));
    hall.announce(0, COMPLETE, "ours", &[WILDCARD]);
    assert_eq!(hall.groups(), number(1));
    // Announced again by a member, it is the same group.
    hall.announce(1, COMPLETE, "ours", &[1]);
    assert_eq!(hall.groups(), number(1));
    hall.assert_fence("ours", &[1]);
    hall.ask(1, Command::GROUP_CONSTRUCT, &|to| {
        to.one(Type::STRING).text(Some(b"ours")).one(Type::SIZE).size(1).one(Type::PROC);
        Proc { nspace: NSPACE, rank: 1 }.write(to);
        to.one(Type::SIZE).size(0);
    });
    assert_eq!(hall.status(1), Status::EXISTS);
}

#[test]
fn invitation_is_closed_by_its_inviter_and_no_other() {
    let mut hall = Hall::new(3);
    hall.announce(0, INVITED, "late", &[1, 2]);
    hall.announce(1, ABORT, "late", &[WILDCARD]);
    hall.assert_fence("late", &[0, 1, 2]);
    hall.announce(0, ABORT, "late", &[WILDCARD]);
    hall.assert_no_fence("late", 1);
    hall.announce(0, INVITED, "late", &[1, 2]);
    hall.end(0);
    hall.assert_no_fence("late", 1);
}

#[test]
fn invitation_that_cannot_be_read_makes_no_group() {
    let mut hall = Hall::new(2);
    hall.announce(0, INVITED, "far", &[0, 7]);
    hall.assert_no_fence("far", 0);
    hall.announce(0, COMPLETE, &"x".repeat(256), &[0, 1]);
    let range = targets(&[1]);
    let infos: [Said<'_>; 1] = [(keys::EVENT_CUSTOM_RANGE, &range)];
    assert_eq!(hall.notify(0, INVITED, range::CUSTOM, &infos), Status::SUCCESS);
    assert_eq!(hall.groups(), (Status::SUCCESS, vec!["pmix.qry.pgrpnum=0".into()]));
}

#[test]
fn open_invitations_of_a_process_are_bounded() {
    let mut hall = Hall::new(2);
    for round in 0..9 {
        hall.announce(0, INVITED, &format!("group-{round}"), &[1]);
    }
    hall.assert_no_fence("group-0", 1);
    (1..9).for_each(|round| hall.assert_fence(&format!("group-{round}"), &[0, 1]));
    // No place is left for the group of another process, and its event is refused.
    let (range, name) = (targets(&[0]), text("mine"));
    let infos: [Said<'_>; 2] = [(keys::EVENT_CUSTOM_RANGE, &range), (keys::GROUP_NAME, &name)];
    assert_eq!(hall.notify(1, INVITED, range::CUSTOM, &infos), Status::OUT_OF_RESOURCE);
}
