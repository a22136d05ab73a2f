//! Logs of other launchers, as they wrote them, and the traces made from them.

use pmi_host_tools::import::{self, Format, ImportError, Imported};
use pmi_trace::open::OpenError;
use pmi_trace::view::diff;
use pmi_trace::{Content, Direction, Trace, file, json};
use proptest::prelude::*;

fn imported(log: &[u8], format: Format) -> Imported {
    let imported = import::read(log).unwrap();
    assert_eq!(imported.format, format);
    imported
}

/// `job.rank` and the sender, then the message, with its line ends shown.
fn said(trace: &Trace) -> Vec<String> {
    let line = |(_, record, direction, bytes): (usize, &pmi_trace::Record, Direction, &[u8])| {
        let arrow = if direction == Direction::ToServer { '>' } else { '<' };
        let rank = record.rank.map_or("?".into(), |rank| rank.to_string());
        format!(
            "{}.{rank} {arrow} {}",
            record.job,
            String::from_utf8_lossy(bytes).replace('\n', "\\n")
        )
    };
    trace.messages().map(line).collect()
}

/// Messages between one rank and the server.
fn of(trace: &Trace, who: &str) -> Vec<String> {
    let lines = said(trace).into_iter();
    lines.filter_map(|line| Some(line.strip_prefix(who)?.trim_start().to_owned())).collect()
}

#[test]
fn log_of_hydra_4_is_read() {
    let log = include_bytes!("logs/hydra-4.0.2-hello.log");
    let Imported { trace, notes, .. } = imported(log, Format::Hydra);
    assert_eq!(notes.len(), 2, "{notes:?}");
    let job = &trace.head.jobs[0];
    assert_eq!((job.name.as_str(), job.ranks), ("kvs_9020_0_458709486_n0", 2));
    assert_eq!((trace.head.host.as_str(), trace.head.jobs.len()), ("n0", 1));
    let first = of(&trace, "0.0");
    assert_eq!(
        first[..6],
        [
            "> cmd=init pmi_version=1 pmi_subversion=1\\n",
            "< cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0\\n",
            "> cmd=get_maxes\\n",
            "< cmd=maxes kvsname_max=256 keylen_max=64 vallen_max=1024\\n",
            "> cmd=get_appnum\\n",
            "< cmd=appnum appnum=0\\n",
        ]
    );
    assert!(first.contains(&"> cmd=put kvsname=kvs_9020_0_458709486_n0 key=-bcast-1-0 value=2F6465762F73686D2F6D706963685F73\\n".into()), "{first:#?}");
    for who in ["0.0", "0.1"] {
        let lines = of(&trace, who);
        let asked = lines.iter().filter(|line| line.starts_with('>')).count();
        assert_eq!(asked * 2, lines.len(), "{lines:#?}");
        assert_eq!(lines.iter().filter(|line| **line == "< cmd=barrier_out\\n").count(), 4);
        assert_eq!(lines.last().unwrap(), "< cmd=finalize_ack\\n");
    }
}

#[test]
fn ranks_in_a_log_of_hydra_5_are_distinguished() {
    let log = include_bytes!("logs/hydra-5.0.2-two-nodes.log");
    let Imported { trace, notes, .. } = imported(log, Format::Hydra);
    assert_eq!(notes.len(), 1, "{notes:?}");
    assert_eq!(trace.head.jobs[0].ranks, 4);
    for who in ["0.0", "0.1", "0.2", "0.3"] {
        let lines = of(&trace, who);
        assert_eq!(lines[0], "> cmd=init pmi_version=1 pmi_subversion=1\\n");
        assert_eq!(lines[1], "< cmd=response_to_init rc=0 pmi_version=1 pmi_subversion=2\\n");
        assert_eq!(lines.last().unwrap(), "< cmd=finalize_ack rc=0\\n", "{lines:#?}");
        let asked = lines.iter().filter(|line| line.starts_with('>')).count();
        assert_eq!(asked * 2, lines.len(), "{lines:#?}");
    }
    assert_eq!(
        said(&trace).len(),
        ["0.0", "0.1", "0.2", "0.3"].map(|who| of(&trace, who).len()).iter().sum::<usize>()
    );
}

#[test]
fn spawned_jobs_and_what_proxies_pass_on_are_found() {
    for (log, name, reply) in [
        (
            &include_bytes!("logs/hydra-4.0.2-spawn.log")[..],
            "kvs_2426_1_1645885817_n0",
            "rc=0 msg=success ",
        ),
        (include_bytes!("logs/hydra-5.0.2-spawn.log"), "kvs_2645_1_2077300025_n0", "rc=0 "),
    ] {
        let Imported { trace, .. } = imported(log, Format::Hydra);
        assert_eq!(trace.head.jobs.len(), 2);
        let child = &trace.head.jobs[1];
        assert_eq!((child.name.as_str(), child.spawner), (name, Some(0)));
        let parent = of(&trace, "0.0");
        let spawn =
            parent.iter().position(|line| line.starts_with("> mcmd=spawn\\nnprocs=1\\n")).unwrap();
        assert!(
            parent[spawn].ends_with("preput_val_0=tag#0$a b\\ninfo_num=0\\nendcmd\\n"),
            "{}",
            parent[spawn]
        );
        assert_eq!(parent[spawn + 1], "< cmd=spawn_result rc=0\\n");
        let child = of(&trace, "1.0");
        let get = child.iter().position(|line| line.starts_with("> cmd=get ")).unwrap();
        assert_eq!(child[get + 1], format!("< cmd=get_result {reply}value=tag#0$a b\\n"));
    }
}

#[test]
fn frames_are_read_from_both_generations() {
    let log = include_bytes!("logs/hydra-4.0.2-pmi2.log");
    let lines = of(&imported(log, Format::Hydra).trace, "0.1");
    assert_eq!(
        lines[2..8],
        [
            "> 38    cmd=fullinit;pmirank=1;threaded=FALSE;",
            "<    111cmd=fullinit-response;pmi-version=2;pmi-subversion=0;rank=1;size=2;appnum=0;debugged=TRUE;pmiverbose=TRUE;rc=0;",
            "> 14    cmd=job-getid;",
            "<     59cmd=job-getid-response;jobid=kvs_21677_0_207281153_n0;rc=0;",
            "> 37    cmd=kvs-put;key=key1;value=key1 =x y;",
            "<     26cmd=kvs-put-response;rc=0;",
        ],
    );
    let log = include_bytes!("logs/hydra-5.0.2-pmi2.log");
    let lines = of(&imported(log, Format::Hydra).trace, "0.0");
    assert_eq!(lines[2], ">     38cmd=fullinit;pmirank=0;threaded=FALSE;");
    assert_eq!(lines[3], "<     63cmd=fullinit-response;rc=0;rank=0;size=2;appnum=0;pmiverbose=1;");
}

#[test]
fn log_of_flux_has_times_and_ranks() {
    let log = include_bytes!("logs/flux-0.88.0-hello.log");
    let Imported { trace, notes, .. } = imported(log, Format::Flux);
    assert_eq!(notes, [""; 0]);
    let job = &trace.head.jobs[0];
    assert_eq!((job.name.as_str(), job.ranks), ("ƒFU7zWB", 2));
    let lines = of(&trace, "0.1");
    assert_eq!(lines[1], "< cmd=response_to_init rc=0 pmi_version=1 pmi_subversion=1\\n");
    assert_eq!(lines.last().unwrap(), "< cmd=finalize_ack rc=0\\n");
    assert_eq!(trace.records[0].time_ns, 196_000_000);
    let closed = trace.records.iter().filter(|record| record.what == Content::Closed);
    assert_eq!(closed.map(|record| record.rank).collect::<Vec<_>>(), [Some(1), Some(0)]);
}

#[test]
fn other_fronts_of_flux_are_read_and_its_clients_are_quoted() {
    let log = "   1.054s: flux-shell[0]: TRACE: pmi: 0: C: cmd=get_maxes\n\
               3: S: cmd=maxes rc=0 kvsname_max=64 keylen_max=64 vallen_max=1024\n\
               1: C: mcmd=spawn\n1: C: nprocs=1\n1: C: endcmd\n\
               0.1s: flux-shell[7]: DEBUG: nothing: C: of ours\n";
    let Imported { trace, .. } = imported(log.as_bytes(), Format::Flux);
    let lines = said(&trace);
    assert_eq!(
        lines,
        [
            "0.0 > cmd=get_maxes\\n",
            "0.3 < cmd=maxes rc=0 kvsname_max=64 keylen_max=64 vallen_max=1024\\n",
            "0.1 > mcmd=spawn\\nnprocs=1\\nendcmd\\n"
        ]
    );
    let debug = "boot_pmi: flux-pmi-client: trying 'simple'\nboot_pmi: simple: selected\n\
                 boot_pmi: simple: initialize: rank=8 size=96 name=kvs_1285817_0: success\n";
    let Imported { trace, notes, .. } = imported(debug.as_bytes(), Format::Flux);
    assert_eq!((trace.records.len(), trace.messages().count(), notes.len()), (3, 0, 1));
}

#[test]
fn own_formats_are_distinguished_and_damage_is_a_note() {
    let Imported { trace, .. } =
        imported(include_bytes!("logs/hydra-5.0.2-spawn.log"), Format::Hydra);
    let bytes = file::write(&trace);
    let again = imported(&bytes, Format::Trace);
    assert_eq!(again.trace, trace);
    assert!(again.notes[0].contains("has no end"), "{:?}", again.notes);
    let cut = imported(&bytes[..bytes.len() - 1], Format::Trace);
    assert_eq!(cut.trace.records.len(), trace.records.len() - 1);
    assert!(cut.notes[0].contains("cut off"), "{:?}", cut.notes);
    let again = imported(json::write(&trace).as_bytes(), Format::JsonLines);
    assert_eq!((again.trace, again.notes), (trace, vec![]));
}

#[test]
fn invalid_lines_are_rejected_with_the_valid_words() {
    for nothing in [&b""[..], b"hello", b"\xff\xfe", b"a: C: b", b"[proxy:0@n0] hello"] {
        let error = import::read(nothing).unwrap_err();
        assert_eq!(error, ImportError::Unknown);
        assert!(error.to_string().contains("mpiexec -verbose"), "{error}");
    }
    assert!(matches!(import::read(b"PMI"), Err(ImportError::Trace(OpenError::Trace(_)))));
    assert!(matches!(import::read(b"{}"), Err(ImportError::Trace(OpenError::Json(_)))));
}

#[test]
fn trace_is_equal_to_itself_in_every_form() {
    for log in [
        &include_bytes!("logs/hydra-5.0.2-two-nodes.log")[..],
        include_bytes!("logs/hydra-4.0.2-pmi2.log"),
        include_bytes!("logs/flux-0.88.0-hello.log"),
    ] {
        let trace = import::read(log).unwrap().trace;
        assert_eq!(diff::diff(&trace, &trace.clone(), diff::DiffOptions { values: true }), None);
    }
}

/// All logs, for truncation.
const LOGS: [&[u8]; 4] = [
    include_bytes!("logs/hydra-4.0.2-spawn.log"),
    include_bytes!("logs/hydra-4.0.2-pmi2.log"),
    include_bytes!("logs/hydra-5.0.2-spawn.log"),
    include_bytes!("logs/flux-0.88.0-hello.log"),
];

#[test]
fn log_cut_anywhere_gives_what_was_whole_before() {
    for log in LOGS {
        let mut last = 0;
        for cut in 0..=log.len() {
            let count = import::read(&log[..cut]).map_or(0, |read| read.trace.records.len());
            assert!(count >= last, "cut at {cut}");
            last = count;
        }
        assert!(last > 10);
    }
}

proptest! {
    #[test]
    fn no_log_makes_an_importer_panic(
        which in 0..LOGS.len(),
        edits in proptest::collection::vec((any::<u16>(), any::<u8>()), 1..40),
    ) {
        let mut log = LOGS[which].to_vec();
        for (at, byte) in edits {
            let at = usize::from(at) % log.len();
            log[at] = byte;
        }
        let _ = import::read(&log);
    }
}
