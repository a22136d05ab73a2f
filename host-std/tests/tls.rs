//! Ranks that connect under TLS: both kinds of client are admitted, and other connections are rejected with
//! a reason.
#![cfg(feature = "tls")]

use crate::common::listening::{Host, ask, rest};
use pmi_std::ConnectError;
use pmi_std::env::Environment;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::thread;

/// Environment that a rank needs to connect, from the output of the launcher.
fn environment(host: &Host, id: u32, version: &str) -> Environment {
    let words = host.listens.split([' ', ';', '\n']).filter_map(|word| word.split_once('='));
    let id = id.to_string();
    let own = [
        ("PMI_ID", id.as_str()),
        ("PMI_RANK", &id),
        ("PMI_SIZE", "2"),
        ("PMI_REQUEST_VERSION", version),
    ];
    Environment::from_variables(own.into_iter().chain(words)).unwrap()
}

/// Starts `pmi-host run --listen … --tls WORDS…`.
fn secured(words: &[&str]) -> Host {
    let host = Host::start(&[&["--tls"], words].concat());
    assert!(host.listens.contains(" PMI_SOCKTYPE=OpenSSL PMI_TLS_PIN="), "{}", host.listens);
    host
}

// Coverage: W2-9
#[test]
fn both_generations_exchange_values_under_tls() {
    let host = secured(&["--expect", "2"]);
    let clients = [(0, "1"), (1, "2")].map(|(id, version)| {
        let environment = environment(&host, id, version);
        thread::spawn(move || {
            let mut member = pmi_std::connect_by(environment).unwrap().unwrap();
            let (rank, pmi) = (member.rank, &mut member.pmi);
            // More than one record, and more than what is read at once.
            let card = |rank: u32, number: u32| format!("card-{rank}-{number}");
            for number in 0..40 {
                let value = card(rank, number).repeat(80);
                pmi.put(card(rank, number).as_bytes(), value.as_bytes()).unwrap();
            }
            pmi.fence().unwrap();
            for number in 0..40 {
                let key = card(1 - rank, number);
                let value = pmi.get(key.as_bytes()).unwrap().expect("the fence shows it");
                assert_eq!(value, key.repeat(80).as_bytes());
            }
            pmi.finalize().unwrap();
        })
    });
    for client in clients {
        client.join().unwrap();
    }
    let (code, _, said) = host.end();
    assert_eq!((code, said.lines().count()), (0, 1), "{said}");
}

#[test]
fn questions_that_come_at_once_are_all_answered_under_tls() {
    let host = secured(&["--expect", "1"]);
    let environment = environment(&host, 0, "1");
    let socket = host.dial();
    let pin = environment.pin.unwrap().parse().unwrap();
    let mut stream = pmi_std::tls::Client::new(socket, pin).unwrap();
    stream.handshake().unwrap();
    // The server accepts one PMI-1 request at a time, so most of this waits in the TLS buffers.
    let mut all = "cmd=initack pmiid=0\ncmd=init pmi_version=1 pmi_subversion=1\n".to_owned();
    all.push_str(&"cmd=put kvsname=x key=k value=v\n".repeat(2000));
    all.push_str("cmd=finalize\n");
    stream.write_all(all.as_bytes()).unwrap();
    stream.flush().unwrap();
    let mut received = String::new();
    stream.read_to_string(&mut received).unwrap();
    assert_eq!(received.matches("cmd=put_result rc=0").count(), 2000);
    assert!(received.ends_with("cmd=finalize_ack rc=0\n"), "{received}");
    assert_eq!(host.end().0, 0);
}

// Coverage: W2-12
#[test]
fn ranks_that_are_started_find_the_certificate_in_their_environment() {
    let host =
        secured(&["--expect", "1", "-n", "1", "sh", "-c", "echo $PMI_SOCKTYPE $PMI_TLS_PIN"]);
    let pin = environment(&host, 0, "1").pin.unwrap();
    let mut member = pmi_std::connect_by(environment(&host, 1, "1")).unwrap().unwrap();
    member.pmi.finalize().unwrap();
    let (code, out, said) = host.end();
    assert_eq!((code, out), (0, format!("OpenSSL {pin}\n")), "{said}");
}

// Coverage: W2-9
#[test]
fn peer_without_tls_is_rejected_with_the_reason_by_a_job_under_tls() {
    let mut host = secured(&["--expect", "1"]);
    for (line, answer) in [
        ("cmd=initack pmiid=0\n", "cmd=initack rc=-1 msg=this_port_speaks_TLS\n"),
        (
            "cmd=init pmi_version=2 pmi_subversion=0\n",
            "cmd=response_to_init rc=-1 msg=this_port_speaks_TLS\n",
        ),
    ] {
        host.said.clear();
        let mut plain = host.dial();
        assert_eq!(ask(&mut plain, line), answer);
        rest(&mut plain);
        host.says("does not speak TLS, which this job requires; it needs PMI_SOCKTYPE=OpenSSL");
        host.says("the job continues");
    }
}

#[test]
fn peer_with_tls_is_rejected_with_the_reason_by_a_job_in_the_clear() {
    let other = secured(&["--expect", "1"]);
    let mut host = Host::start(&["--expect", "1"]);
    let mut wrong = environment(&other, 0, "1");
    wrong.transport = environment(&host, 0, "1").transport;
    let refused = pmi_std::connect_by(wrong).unwrap_err();
    assert!(matches!(refused, ConnectError::Tls { .. }), "{refused:?}");
    assert!(refused.to_string().contains("TLS, which the server does not speak"), "{refused}");
    host.says("speaks TLS, which this job does not");
}

#[test]
fn certificate_of_another_job_is_not_believed() {
    let (mut host, other) = (secured(&["--expect", "1"]), secured(&["--expect", "1"]));
    let mut wrong = environment(&host, 0, "1");
    wrong.pin = environment(&other, 0, "1").pin;
    let refused = pmi_std::connect_by(wrong).unwrap_err().to_string();
    assert!(refused.contains("certificate"), "{refused}");
    host.says("ended its TLS handshake early; PMI_TLS_PIN must be that of this job");
}

#[test]
fn handshake_that_does_not_end_is_bounded_in_time_and_blocks_no_other_peer() {
    let mut host = secured(&["--expect", "1"]);
    // The maximum of unauthenticated connections, silent or stuck in the middle of a record.
    let mut hostile: Vec<TcpStream> = (0..64).map(|_| host.dial()).collect();
    for stream in hostile.iter_mut().step_by(2) {
        stream.write_all(b"\x16\x03\x01\x40\x00").unwrap();
    }
    for stream in &mut hostile {
        rest(stream);
    }
    host.says("nothing arrived in the allowed time");
    let mut member = pmi_std::connect_by(environment(&host, 0, "1")).unwrap().unwrap();
    member.pmi.finalize().unwrap();
    assert_eq!(host.end().0, 0);
}
