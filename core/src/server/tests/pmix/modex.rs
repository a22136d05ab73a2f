//! Puts and gets of ranks, and their job description.

use super::*;

// Coverage: X1-5
#[test]
fn description_of_a_job_is_written_as_each_client_reads_it() {
    let mut hall = Hall::empty(2);
    for (format, version) in [(Format::PLAIN, "4.2.2"), (Format::PLAIN, "5.0.11"), (FIXED, "3.2.3")]
    {
        let client = hall.join_with(0, format, version.as_bytes());
        for _ in 0..2 {
            hall.ask(client, Command::REQ, &|_| {});
            let body = hall.answer(client);
            let mut from = Unpacker::new(&body, format);
            assert_eq!(from.one(Type::STRING).unwrap().text(), Ok(Some(NSPACE)));
            let kvals: Vec<_> = Kvals::after(from).map(Result::unwrap).collect();
            let known: Vec<&[u8]> = kvals.iter().map(|kval| kval.key).collect();
            // An old library takes data of the session by itself, and asks for nothing about others.
            let all: &[&[u8]] = &[keys::LOCAL_RANK, keys::GLOBAL_RANK, keys::APPNUM];
            let newer: &[&[u8]] = &[keys::LOCAL_RANK, keys::APPNUM];
            let (session, told) = match version {
                "3.2.3" => (keys::UNIV_SIZE, vec![(0, all), (1, all)]),
                "4.2.2" => (keys::SESSION_ARRAY, vec![(0, &all[..1]), (1, &all[..1]), (0, all)]),
                _ => (keys::SESSION_ARRAY, vec![(0, newer), (1, newer), (0, all)]),
            };
            assert_eq!(known[..2], [keys::JOB_SIZE, session]);
            assert!(known[2..].iter().all(|key| *key == keys::PROC_BLOB));
            let blobs = kvals[2..].iter().map(|kval| {
                let mut blob = Unpacker::new(kval.value.blob().unwrap(), format);
                let rank = blob.one(Type::PROC_RANK).unwrap().u32().unwrap();
                let kvals: Vec<_> = Kvals::after(blob).map(Result::unwrap).collect();
                assert_eq!(kvals[0].value.number(), Some(rank.into()));
                (rank, kvals)
            });
            let blobs: Vec<_> = blobs.collect();
            let keys = blobs.iter().map(|(rank, kvals)| {
                (*rank, kvals.iter().map(|kval| kval.key).collect::<Vec<&[u8]>>())
            });
            assert_eq!(
                keys.collect::<Vec<_>>(),
                told.iter().map(|(rank, keys)| (*rank, keys.to_vec())).collect::<Vec<_>>()
            );
        }
    }
}

// Coverage: X1-13, X1-18
#[test]
fn values_for_one_scope_never_show_in_the_other() {
    // Ranks 0 and 1 share a node, 2 is elsewhere.
    let mut hall = Hall::new(3);
    assert_eq!(hall.commit(0, "here", &[scope::LOCAL]), Status::SUCCESS);
    assert_eq!(hall.commit(0, "there", &[scope::REMOTE]), Status::SUCCESS);
    assert_eq!(hall.commit(0, "both", &[scope::LOCAL, scope::REMOTE]), Status::SUCCESS);
    for (client, own, other) in [(1, "here", "there"), (2, "there", "here")] {
        hall.get(client, 0, Some(own), false);
        assert_eq!(hall.object(client), Ok((0, vec![own.into(), "both".into()])));
        hall.get(client, 0, None, false);
        assert_eq!(hall.object(client), Ok((0, vec![own.into(), "both".into()])));
        // Data that is visible only to the other side is no reason to wait.
        hall.get(client, 0, Some(other), false);
        assert_eq!(hall.object(client), Err(Status::NOT_FOUND));
    }
}

#[test]
fn later_value_replaces_the_earlier_and_is_read_in_every_format() {
    let mut hall = Hall::empty(2);
    let (one, other) = (hall.join(0, Format::PLAIN), hall.join(1, FIXED));
    for _ in 0..2 {
        assert_eq!(hall.commit(one, "a", &[scope::GLOBAL]), Status::SUCCESS);
        assert_eq!(hall.commit(one, "b", &[scope::LOCAL]), Status::SUCCESS);
    }
    hall.get(other, 0, Some("a"), false);
    assert_eq!(hall.object(other), Ok((0, vec!["a".into(), "b".into()])));
}

// Coverage: X1-7
#[test]
fn get_waits_for_the_value_or_for_its_time_or_for_the_end_of_its_owner() {
    let mut hall = Hall::new(3);
    let wanted = hall.get(1, 0, Some("k"), false);
    let any = hall.get(1, ranks::UNDEF, Some("k"), false);
    assert_eq!(hall.answers(1), []);
    assert_eq!(hall.commit(0, "other", &[scope::GLOBAL]), Status::SUCCESS);
    assert_eq!(hall.answers(1), []);
    assert_eq!(hall.commit(0, "k", &[scope::GLOBAL]), Status::SUCCESS);
    let answers = hall.answers(1);
    assert_eq!(answers.iter().map(|(tag, _)| *tag).collect::<Vec<_>>(), [wanted, any]);
    for (_, body) in answers {
        assert_eq!(object(&body, Format::PLAIN), (0, vec!["other".into(), "k".into()]));
    }

    hall.get(1, 2, Some("never"), true);
    assert_eq!(hall.object(1), Err(Status::NOT_FOUND));
    hall.get(1, 2, Some("never"), false);
    hall.late(2);
    assert_eq!(hall.object(1), Err(Status::TIMEOUT));
    hall.get(1, 2, Some("never"), false);
    hall.end(2);
    assert_eq!(hall.object(1), Err(Status::NOT_FOUND));
    hall.get(1, 2, Some("never"), false);
    assert_eq!(hall.object(1), Err(Status::NOT_FOUND));
}

/// A get that came from PMI names no rank.
#[test]
fn get_of_any_rank_finds_the_one_that_has_put_the_key() {
    // Ranks 0 and 1 share a node, 2 is elsewhere.
    let mut hall = Hall::new(3);
    let any = |hall: &mut Hall, client, key, now| {
        hall.get(client, ranks::UNDEF, Some(key), now);
        hall.object(client)
    };
    assert_eq!(any(&mut hall, 0, "k", true), Err(Status::NOT_FOUND));
    assert_eq!(hall.commit(2, "k", &[scope::GLOBAL]), Status::SUCCESS);
    assert_eq!(any(&mut hall, 0, "k", false), Ok((2, vec!["k".into()])));
    // The rank that has put the value finds it, too.
    assert_eq!(any(&mut hall, 2, "k", false), Ok((2, vec!["k".into()])));
    // Of several values one is returned, and only one that is visible to the requester.
    assert_eq!(hall.commit(1, "k", &[scope::LOCAL]), Status::SUCCESS);
    assert_eq!(any(&mut hall, 0, "k", false), Ok((1, vec!["k".into()])));
    assert_eq!(any(&mut hall, 2, "k", false), Ok((2, vec!["k".into()])));
    // A value that is not put yet may come from any remaining rank, and the get waits as long as
    // for any other value.
    hall.get(1, ranks::UNDEF, Some("later"), false);
    hall.end(0);
    assert_eq!(hall.answers(1), []);
    assert_eq!(hall.commit(2, "later", &[scope::GLOBAL]), Status::SUCCESS);
    let answers = hall.answers(1);
    assert_eq!(object(&answers[0].1, Format::PLAIN).0, 2);
    hall.get(2, ranks::UNDEF, Some("never"), false);
    hall.late(2);
    assert_eq!(hall.object(2), Err(Status::TIMEOUT));
    // Without a key any data of the ranks is an answer.
    hall.get(1, ranks::UNDEF, None, false);
    assert!(hall.object(1).is_ok());
}

#[test]
fn get_waits_through_commits_without_its_key() {
    let object = |answers: Answers| object(&answers[0].1, Format::PLAIN);
    for asked in [0, ranks::UNDEF] {
        let mut hall = Hall::new(3);
        hall.get(1, asked, Some("wanted"), false);
        for key in ["first", "second"] {
            assert_eq!(hall.commit(0, key, &[scope::GLOBAL]), Status::SUCCESS);
            assert_eq!(hall.answers(1), []);
        }
        assert_eq!(hall.commit(0, "wanted", &[scope::GLOBAL]), Status::SUCCESS);
        let keys = ["first", "second", "wanted"].map(String::from).to_vec();
        assert_eq!(object(hall.answers(1)), (0, keys));
    }
    // A rank that is gone ends gets of its data, and none that any rank may answer.
    let mut hall = Hall::new(3);
    hall.get(1, ranks::UNDEF, Some("any"), false);
    hall.get(2, 0, Some("never"), false);
    hall.end(0);
    assert_eq!(hall.object(2), Err(Status::NOT_FOUND));
    assert_eq!(hall.commit(2, "any", &[scope::GLOBAL]), Status::SUCCESS);
    assert_eq!(object(hall.answers(1)), (2, vec!["any".into()]));
}

// Coverage: X2-19
#[test]
fn job_information_is_found_for_ranks_and_jobs() {
    let mut hall = Hall::new(2);
    let of = |hall: &mut Hall, rank, key| {
        hall.get(0, rank, Some(core::str::from_utf8(key).unwrap()), true);
        hall.object(0)
    };
    let name = |key: &[u8]| String::from_utf8_lossy(key).into_owned();
    // All known values of a process, so that one request is enough.
    for key in [keys::LOCAL_RANK, keys::GLOBAL_RANK] {
        let all = [keys::LOCAL_RANK, keys::GLOBAL_RANK, keys::APPNUM].map(name).to_vec();
        assert_eq!(of(&mut hall, 1, key), Ok((1, all)));
    }
    for key in [keys::JOB_SIZE, keys::UNIV_SIZE] {
        assert_eq!(of(&mut hall, 1, key), Ok((1, vec![name(key)])));
    }
    assert_eq!(of(&mut hall, 1, b"pmix.hwlocxml2"), Err(Status::NOT_FOUND));
    assert_eq!(of(&mut hall, 9, keys::JOB_SIZE), Err(Status::NOT_FOUND));
    let (rank, known) = of(&mut hall, WILDCARD, keys::JOB_SIZE).unwrap();
    assert_eq!((rank, known.len()), (WILDCARD, 4));
    assert_eq!(of(&mut hall, WILDCARD, b"pmix.hwlocxml2"), Err(Status::NOT_FOUND));
}
