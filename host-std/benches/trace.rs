//! Cost of recording: one request and its reply through a session that is recorded, less the same without.
//! `cargo bench -p pmi-host --bench trace`

use divan::Bencher;
use pmi_core::error::{Full, PeerError};
use pmi_core::machine::Machine;
use pmi_core::time::Instant;
use pmi_host::Tracing;
use pmi_host::{TraceSource, Tracer};
use pmi_trace::{Head, JobFacts};

fn main() {
    divan::main();
}

const REQUEST: &[u8] = b"cmd=put kvsname=kvs_4711_0 key=card-17 value=tcp://10.0.0.7:40711#17\n";
const REPLY: &[u8] = b"cmd=put_result rc=0\n";

/// Takes any input and always gives the same answer: the measure is the code around it.
struct Answers;

impl Machine for Answers {
    type Event<'a> = ();

    fn handle_input(&mut self, _: Instant, bytes: &[u8]) -> Result<usize, PeerError> {
        Ok(bytes.len())
    }

    fn handle_timeout(&mut self, _: Instant) -> Result<(), PeerError> {
        Ok(())
    }

    fn handle_end(&mut self, _: Instant) -> Result<(), PeerError> {
        Ok(())
    }

    fn poll_transmit(&mut self, out: &mut [u8]) -> Result<Option<usize>, Full> {
        out[..REPLY.len()].copy_from_slice(REPLY);
        Ok(Some(REPLY.len()))
    }

    fn poll_event(&mut self) -> Option<()> {
        None
    }

    fn poll_timeout(&self) -> Option<Instant> {
        None
    }

    fn is_finished(&self) -> bool {
        false
    }
}

fn tracer(ring: usize, file: Option<&str>) -> Tracer {
    let mut tracer = Tracer::new(ring);
    let settings = Tracing { file: file.map(Into::into), ring, shows_messages: false };
    tracer.start(&settings, Head::default()).expect("the bit bucket takes everything");
    let facts = JobFacts { job: 0, name: "kvs_4711_0".into(), ranks: RANKS, spawner: None };
    tracer.add_job(facts, false);
    tracer
}

fn exchange(mut machine: impl Machine, out: &mut [u8]) -> usize {
    let taken = machine.handle_input(Instant::ZERO, divan::black_box(REQUEST));
    let given = machine.poll_transmit(out);
    taken.unwrap_or(0) + given.ok().flatten().unwrap_or(0)
}

fn ranks() -> impl FnMut() -> TraceSource {
    let mut rank = 0;
    move || {
        rank = (rank + 1) % RANKS;
        TraceSource { job: 0, rank: Some(rank), session: Some(rank) }
    }
}

/// One exchange without a recorder.
#[divan::bench]
fn exchange_alone(bencher: Bencher<'_, '_>) {
    let mut out = [0; 1024];
    bencher.bench_local(|| exchange(Answers, &mut out));
}

/// One exchange, two records in the ring.
#[divan::bench]
fn exchange_in_the_ring(bencher: Bencher<'_, '_>) {
    let (mut out, mut tracer, mut who) = ([0; 1024], tracer(4096, None), ranks());
    bencher
        .bench_local(|| exchange(tracer.tap(Answers, who(), std::time::Instant::now()), &mut out));
}

/// One exchange, two records in the ring and in the file; handed over as often as a busy loop does.
#[divan::bench]
fn exchange_in_ring_and_file(bencher: Bencher<'_, '_>) {
    let (mut out, mut tracer, mut who) = ([0; 1024], tracer(4096, Some("/dev/null")), ranks());
    let mut count = 0;
    bencher.bench_local(|| {
        count += 1;
        if count % 64 == 0 {
            tracer.flush();
        }
        exchange(tracer.tap(Answers, who(), std::time::Instant::now()), &mut out)
    });
}

/// Enough ranks to make the table of last messages larger than the nearest caches.
const RANKS: u32 = 1000;
