//! Arbitrary input to a server or a client, in arbitrary pieces, harms no other session.
//!
//! The functions that the fuzzers use define the checks: a server with sessions of which some are
//! healthy, which must get their replies, and memory that has a bound. Here their input comes from a
//! generator that knows the words of the protocol, on every test run.

#[allow(unreachable_pub, unused_imports, dead_code, reason = "the library of the fuzzers")]
#[path = "../fuzz/src/lib.rs"]
mod targets;

use proptest::collection::vec;
use proptest::prelude::*;
use targets::{Step, write_step};

proptest! {
    #[test]
    fn frames_of_any_kind_are_read_without_harm(soup in soup()) {
        targets::decode_pmi2(&soup);
        targets::decode_pmi1(&soup);
    }

    #[test]
    fn garbage_from_some_leaves_the_others_unharmed(steps in vec(step(), 0..40)) {
        targets::session_bytes(&script(&steps));
    }

    #[test]
    fn client_survives_any_server(steps in vec(step(), 0..40)) {
        targets::client_bytes(&script(&steps));
    }

    #[test]
    fn bytes_of_no_meaning_do_nothing(bytes in vec(any::<u8>(), 0..600)) {
        for (_, target) in targets::TARGETS {
            target(&bytes);
        }
    }
}

type Said = (u8, u8, Vec<u8>);

fn script(steps: &[Said]) -> Vec<u8> {
    let mut script = Vec::new();
    for (who, what, bytes) in steps {
        write_step(&mut script, Step { who: *who, what: *what, bytes });
    }
    script
}

/// Mostly a peer sends a valid message, or a part of it.
fn step() -> impl Strategy<Value = Said> {
    let what = prop_oneof![4 => Just(0u8), 1 => Just(12), 1 => Just(26), 1 => 0..32u8];
    let bytes = prop_oneof![
        6 => proptest::sample::select(WHOLE).prop_map(|line| line.to_vec()),
        4 => body().prop_map(|body| framed(&body)),
        2 => soup(),
        1 => vec(any::<u8>(), 0..40),
    ];
    (0..8u8, what, bytes, any::<prop::sample::Index>(), 0..8u8).prop_map(
        |(who, what, mut bytes, cut, cuts)| {
            if cuts == 0 {
                bytes.truncate(cut.index(bytes.len() + 1));
            }
            (who, what, bytes)
        },
    )
}

/// The body of a frame, valid in many cases.
fn body() -> impl Strategy<Value = Vec<u8>> {
    let word = proptest::sample::select(WORDS);
    let field = prop_oneof![
        8 => proptest::sample::select(FIELDS).prop_map(|field| field.to_vec()),
        1 => vec(any::<u8>(), 0..20),
    ];
    (word, vec(field, 0..8)).prop_map(|(word, fields)| {
        [&[b"cmd=".to_vec(), word.to_vec(), b";".to_vec()][..], &fields].concat().concat()
    })
}

/// Frame with the length on either side, which is wrong in some cases.
fn framed(body: &[u8]) -> Vec<u8> {
    let sum: usize = body.iter().map(|byte| usize::from(*byte)).sum();
    let len = if sum.is_multiple_of(13) { body.len() + 6 } else { body.len() };
    let length = if sum.is_multiple_of(2) { format!("{len:6}") } else { format!("{len:<6}") };
    [length.as_bytes(), body].concat()
}

/// Pieces of frames in random order.
fn soup() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop_oneof![
        2 => body().prop_map(|body| framed(&body)),
        2 => proptest::sample::select(FIELDS).prop_map(|field| field.to_vec()),
        1 => proptest::sample::select(WHOLE).prop_map(|line| line.to_vec()),
        1 => vec(any::<u8>(), 1..9),
    ];
    vec(piece, 0..6).prop_map(|pieces| pieces.concat())
}

const WHOLE: &[&[u8]] = &[
    b"cmd=init pmi_version=2 pmi_subversion=0\n",
    b"cmd=init pmi_version=1 pmi_subversion=1\n",
    b"cmd=init pmi_version=1 pmi_subversion=2\n",
    b"cmd=init_oob signal=NONE pmi_version=2 pmi_subversion=0 pmiid=1\n",
    b"cmd=initack pmiid=2\n",
    b"cmd=get_my_kvsname\n",
    b"cmd=put kvsname=kvs_a key=k value=v\n",
    b"cmd=get kvsname=kvs_b key=k\n",
    b"cmd=barrier_in\n",
    b"cmd=barrier_in group=NODE:1\n",
    b"cmd=barrier_in group=0,1:1\n",
    b"cmd=finalize\n",
    b"cmd=abort exitcode=3\n",
    b"mcmd=spawn\nnprocs=1\nexecname=a\nendcmd\n",
    b"14    cmd=kvs-fence;",
    b"13    cmd=finalize;",
    b"cmd=response_to_init rc=0 pmi_version=2 pmi_subversion=0\n",
    b"cmd=response_to_init rc=0 pmi_version=1 pmi_subversion=2\n",
    b"cmd=get_result rc=0 value=v\n",
    b"cmd=barrier_out rc=0\n",
];

const WORDS: &[&[u8]] = &[
    b"fullinit",
    b"auth-response-complete",
    b"job-getid",
    b"kvs-put",
    b"kvs-get",
    b"kvs-fence",
    b"info-putnodeattr",
    b"info-getnodeattr",
    b"info-getjobattr",
    b"name-publish",
    b"name-unpublish",
    b"name-lookup",
    b"spawn",
    b"job-connect",
    b"job-disconnect",
    b"kvs-getall",
    b"kvs-putall",
    b"kvs-putall-pair",
    b"ring",
    b"abort",
    b"finalize",
    b"concat",
    b"frobnicate",
    b"fullinit-response",
    b"kvs-get-response",
    b"kvs-fence-response",
    b"name-lookup-response",
    b"kvs-getall-pair-response",
    b"spawn-response",
];

const FIELDS: &[&[u8]] = &[
    b"thrid=7;",
    b"thrid=0x7ffe;",
    b"pmirank=0;",
    b"pmirank=2;",
    b"srcid=1;",
    b"authtype=challenge-sha256;",
    b"authinfo=0;",
    b"jobid=kvs_a;",
    b"jobid=kvs_b;",
    b"jobid=;",
    b"key=k;",
    b"key=a;",
    b"value=v;",
    b"value=a;;b;",
    b"value=;",
    b"val=v;",
    b"wait=TRUE;",
    b"name=svc;",
    b"port=p;",
    b"npair=2;",
    b"ring-left=l;",
    b"ring-right=r;",
    b"ring-count=1;",
    b"ncmds=1;",
    b"subcmd=a;",
    b"maxprocs=2;",
    b"argv0=x y;",
    b"ppkey0=k;",
    b"ppval0=v;",
    b"concat=1;",
    b"concatid=1;",
    b"isworld=FALSE;",
    b"rc=0;",
    b"rc=1;",
    b"found=TRUE;",
    b"rank=0;",
    b"size=2;",
    b";",
    b"\0",
];
