//! The C libraries with a server that answers anything, and their declarations beside those of Slurm.

use crate::common::capi::{directory, libraries, program_with, static_capi_program};
use crate::common::{Ran, run};
use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;

/// Runs `capi_hostile` with a server whose answer to the request of number `at` is `wrong`; then it closes the
/// connection. The other answers are right; those that were given are returned.
fn with_answer(
    program: &Path,
    generation: Generation,
    at: usize,
    wrong: &[u8],
) -> (Ran, Vec<&'static str>) {
    let (mut server, client) = UnixStream::pair().unwrap();
    let wrong = wrong.to_vec();
    let served = thread::spawn(move || {
        let mut given = Vec::new();
        while let Some(request) = request(&mut server, generation, given.len()) {
            if given.len() == at {
                // The program may have ended by itself.
                let _ = server.write_all(&wrong);
                break;
            }
            let mut answers = generation.answers().iter();
            let found = answers.find(|(word, _)| request.contains(word));
            let (_, answer) = found.unwrap_or_else(|| panic!("no answer to {request:?}"));
            server.write_all(&generation.message(given.len(), answer)).unwrap();
            given.push(*answer);
        }
        given
    });
    let mut command = Command::new(program);
    command.arg(if generation == Generation::One { "1" } else { "2" });
    command.envs([("PMI_FD", "0"), ("PMI_RANK", "0"), ("PMI_SIZE", "2"), ("PMI_SPAWNED", "0")]);
    command.stdin(Stdio::from(OwnedFd::from(client)));
    let ran = run(&mut command);
    // It holds the other end.
    drop(command);
    (ran, served.join().unwrap())
}

/// Protocol of the server.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Generation {
    One,
    Two,
}

impl Generation {
    const fn answers(self) -> &'static [(&'static str, &'static str)] {
        match self {
            Self::One => ANSWERS_1,
            Self::Two => ANSWERS_2,
        }
    }

    /// Wire form of the answer to the request of number `number`: a line, or in PMI-2, from the second on, six
    /// digits and so many bytes.
    fn message(self, number: usize, answer: &str) -> Vec<u8> {
        match self {
            Self::Two if number > 0 => format!("{:6}{answer}", answer.len()).into_bytes(),
            _ => format!("{answer}\n").into_bytes(),
        }
    }
}

/// Reads one request, in the form of the answers.
fn request(server: &mut UnixStream, generation: Generation, number: usize) -> Option<String> {
    let mut text = Vec::new();
    let mut byte = [0];
    if generation == Generation::Two && number > 0 {
        let mut digits = [0; 6];
        server.read_exact(&mut digits).ok()?;
        text.resize(std::str::from_utf8(&digits).unwrap().trim().parse().unwrap(), 0);
        server.read_exact(&mut text).ok()?;
    } else {
        while byte[0] != b'\n' {
            server.read_exact(&mut byte).ok()?;
            text.push(byte[0]);
        }
    }
    Some(String::from_utf8_lossy(&text).into_owned())
}

/// Right answers to requests that contain these words, the first that matches.
const ANSWERS_1: &[(&str, &str)] = &[
    ("cmd=init", "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0"),
    ("cmd=get_my_kvsname", "cmd=my_kvsname kvsname=space_0"),
    ("cmd=get_maxes", "cmd=maxes kvsname_max=256 keylen_max=64 vallen_max=1024"),
    ("cmd=get_universe_size", "cmd=universe_size size=4"),
    ("cmd=get_appnum", "cmd=appnum appnum=0"),
    ("cmd=put", "cmd=put_result rc=0 msg=success"),
    ("cmd=barrier_in", "cmd=barrier_out"),
    ("PMI_process_mapping", "cmd=get_result rc=0 msg=success value=(vector,(0,1,2))"),
    ("cmd=get", "cmd=get_result rc=0 msg=success value=v"),
    ("cmd=publish_name", "cmd=publish_result rc=0 info=ok"),
    ("cmd=unpublish_name", "cmd=unpublish_result rc=0 info=ok"),
    ("cmd=finalize", "cmd=finalize_ack"),
];

/// The same in PMI-2.
const ANSWERS_2: &[(&str, &str)] = &[
    ("cmd=init", "cmd=response_to_init pmi_version=2 pmi_subversion=0 rc=0"),
    (
        "cmd=fullinit",
        "cmd=fullinit-response;pmi-version=2;pmi-subversion=0;rank=0;size=2;appnum=0;debugged=FALSE;\
         pmiverbose=FALSE;rc=0;",
    ),
    ("cmd=job-getid", "cmd=job-getid-response;jobid=job_0;rc=0;"),
    ("cmd=kvs-put", "cmd=kvs-put-response;rc=0;"),
    ("cmd=kvs-fence", "cmd=kvs-fence-response;rc=0;"),
    ("cmd=kvs-get", "cmd=kvs-get-response;flag=TRUE;found=TRUE;value=v;rc=0;"),
    ("key=array", "cmd=info-getjobattr-response;found=TRUE;value=1,2,3;rc=0;"),
    ("cmd=info-getjobattr", "cmd=info-getjobattr-response;found=TRUE;value=4;rc=0;"),
    ("cmd=info-putnodeattr", "cmd=info-putnodeattr-response;rc=0;"),
    ("key=localRanks", "cmd=info-getnodeattr-response;found=TRUE;value=0,1;rc=0;"),
    ("cmd=info-getnodeattr", "cmd=info-getnodeattr-response;found=TRUE;value=v;rc=0;"),
    ("cmd=name-publish", "cmd=name-publish-response;rc=0;"),
    ("cmd=name-lookup", "cmd=name-lookup-response;found=TRUE;value=p;rc=0;"),
    ("cmd=name-unpublish", "cmd=name-unpublish-response;rc=0;"),
    ("cmd=finalize", "cmd=finalize-response;rc=0;"),
];

/// Wrong answers to a request whose right answer is `right`.
fn wrong_answers(right: &str, generation: Generation, number: usize) -> Vec<Vec<u8>> {
    let is_framed = generation == Generation::Two && number > 0;
    let command = right.split([' ', ';']).next().unwrap();
    let longest = "x".repeat(100_000);
    let huge = "99999999999999999999";
    let (cut, end) = if is_framed { (";", ";") } else { (" ", "") };
    let texts = [
        String::new(),
        "cmd=".into(),
        "cmd=no_such_reply".into(),
        command.into(),
        format!("{command}{cut}rc=-1{end}"),
        format!("{command}{cut}rc={huge}{end}"),
        right.replace('=', "=-"),
        right.replace(|c: char| c.is_ascii_digit(), huge),
        right.replace(|c: char| c.is_ascii_digit(), "2147483648"),
        right.replace(|c: char| c.is_ascii_digit(), "0"),
        right.replace("=", ""),
        right.replace("value=v", &format!("value={longest}")),
        right.replace("value=v", &format!("value={}", "x".repeat(64))),
        right.replace("value=v", "value=a\0b"),
        right.replace("kvsname=", &format!("kvsname={longest}")),
        right.replace("jobid=", &format!("jobid={longest}")),
        right.replace("(0,1,2)", "(4294967295,4294967295,4294967295)"),
        right.replace("0,1", "0,1,2,3,4,5,6,7,8,9,,x,-1"),
        format!("{right}{cut}{longest}={longest}{end}"),
        format!("{right}{cut}rc{end}"),
    ];
    let framed = texts.iter().map(|text| generation.message(number, text));
    let mut all: BTreeSet<Vec<u8>> = framed.collect();
    all.remove(&generation.message(number, right));
    // Without an end, and bytes of no protocol.
    all.extend([Vec::new(), right.as_bytes().to_vec(), vec![0xff; 4096], vec![b'x'; 1 << 20]]);
    all.insert([0x00; 64].to_vec());
    all.extend([&b"999999cmd="[..], b"-00001", b"000000", b"abcdef"].map(<[u8]>::to_vec));
    all.into_iter().collect()
}

#[track_caller]
fn survives(generation: Generation) {
    let program = static_capi_program("capi_hostile", "pmi");
    // With right answers alone, so that each wrong one is known to reach its call.
    let (ran, given) = with_answer(&program, generation, usize::MAX, b"");
    assert_eq!((ran.code, ran.out, ran.err), (0, String::new(), String::new()));
    assert!(given.len() >= generation.answers().len() - 1, "{given:?}");
    for (at, right) in given.iter().enumerate() {
        for wrong in wrong_answers(right, generation, at) {
            let (ran, _) = with_answer(&program, generation, at, &wrong);
            let shown = String::from_utf8_lossy(wrong.get(..200).unwrap_or(&wrong)).into_owned();
            assert_eq!(ran.code, 0, "{right}: {shown:?}\n{}{}", ran.out, ran.err);
            assert!(!ran.err.contains("panicked"), "{right}: {shown:?}\n{}", ran.err);
        }
    }
}

#[test]
fn any_answer_in_pmi_1_is_a_code_of_the_specification() {
    survives(Generation::One);
}

#[test]
fn any_answer_in_pmi_2_is_a_code_of_the_specification() {
    survives(Generation::Two);
}

#[test]
fn declarations_are_those_of_slurm() {
    let own = format!("-I{}/include -c -w", directory().display());
    // No library is linked: to compile is the test.
    program_with("capi_headers", "capi_headers.o", &own);
}

#[test]
fn libraries_have_every_symbol_of_those_of_slurm() {
    let symbols = |path: &Path| -> Option<BTreeSet<String>> {
        let nm = Command::new("nm").args(["-D", "--defined-only"]).arg(path).output().ok()?;
        let text = String::from_utf8_lossy(&nm.stdout).into_owned();
        let names = text.lines().filter_map(|line| line.split_whitespace().nth(2));
        Some(names.filter(|name| name.starts_with("PMI")).map(str::to_owned).collect())
    };
    for name in ["libpmi.so.0", "libpmi2.so.0"] {
        let system = Path::new("/usr/lib/x86_64-linux-gnu").join(name);
        if !system.exists() {
            eprintln!("skipped: there is no {}; Debian's packages have it", system.display());
            continue;
        }
        let (theirs, ours) = (symbols(&system).unwrap(), symbols(&libraries().join(name)).unwrap());
        assert!(theirs.len() > 20, "{theirs:?}");
        assert_eq!(theirs.difference(&ours).collect::<Vec<_>>(), Vec::<&String>::new(), "{name}");
    }
}
