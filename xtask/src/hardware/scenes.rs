//! The machines, what happens on them, and what has to come of it.

use crate::linux_guest::kernel;

/// A machine, and what happens on it.
pub(super) struct Scene {
    pub(super) name: &'static str,
    pub(super) about: &'static str,
    /// Memory domains.
    domains: &'static [Domain],
    steps: &'static [Step],
}

/// A memory domain of 512 MiB.
struct Domain {
    /// Processors in it, as QEMU's option has them.
    processors: Option<&'static str>,
    /// For a domain without processors: the domain that reaches it first.
    near: usize,
    /// Bandwidth in MB/s, from the domain near it.
    bandwidth: u32,
}

/// A step of a scene.
enum Step {
    /// Loads a driver of network cards.
    LoadNetwork,
    /// Makes a directory, as of a control group.
    Mkdir(&'static str),
    /// Writes a text to a file of the system.
    Write(&'static str, &'static str),
    /// Runs a command, whose words have blanks between them.
    Run { command: &'static str, code: i32, expected: Expected },
}

/// What a command has to print.
enum Expected {
    /// These lines, in any order: those of ranks have none.
    All(&'static [&'static str]),
    /// These lines in this order, among others.
    Among(&'static [&'static str]),
}

impl Scene {
    /// Options of QEMU: two sockets of two cores of two hardware threads, the memory domains, and
    /// devices near the second one.
    pub(super) fn machine(&self) -> Vec<String> {
        let mut options: Vec<String> =
            ["-M", "q35,hmat=on", "-smp", "8,sockets=2,cores=2,threads=2"].map(String::from).into();
        options.extend(DEVICES.split(' ').map(String::from));
        options.extend(["-m".to_owned(), format!("{}M", SIZE_MIB * self.domains.len())]);
        let mut add = |name: &str, value: String| options.extend([name.to_owned(), value]);
        for (number, domain) in self.domains.iter().enumerate() {
            add("-object", format!("memory-backend-ram,id=m{number},size={SIZE_MIB}M"));
            let place = match domain.processors {
                Some(processors) => format!("cpus={processors}"),
                None => format!("initiator={}", domain.near),
            };
            add("-numa", format!("node,nodeid={number},{place},memdev=m{number}"));
        }
        for (number, domain) in self.domains.iter().enumerate() {
            for near in (0..self.domains.len()).filter(|at| self.domains[*at].processors.is_some())
            {
                let is_near = domain.near == near;
                let (latency, share) = if is_near { (10, 1) } else { (20, 2) };
                let pair = format!("hmat-lb,initiator={near},target={number},hierarchy=memory");
                add("-numa", format!("{pair},data-type=access-latency,latency={latency}"));
                let bandwidth = domain.bandwidth / share;
                add("-numa", format!("{pair},data-type=access-bandwidth,bandwidth={bandwidth}M"));
            }
        }
        options
    }

    /// The steps, as process 1 reads them. The label of a command is its number.
    pub(super) fn lines(&self) -> String {
        let line = |(number, step): (usize, &Step)| match step {
            Step::LoadNetwork => {
                kernel::NETWORK.iter().map(|module| format!("load\t/modules/{module}\n")).collect()
            }
            Step::Mkdir(path) => format!("mkdir\t{path}\n"),
            Step::Write(path, text) => format!("write\t{path}\t{text}\n"),
            Step::Run { command, .. } => {
                let words: Vec<&str> = command.split_whitespace().collect();
                format!("run\t{number}\t{}\n", words.join("\t"))
            }
        };
        self.steps.iter().enumerate().map(line).collect()
    }

    /// What is otherwise than expected on the console.
    pub(super) fn findings(&self, console: &[String]) -> Vec<String> {
        // A step that process 1 could not take; those behind it are missing.
        let failed = console.iter().filter(|line| line.starts_with("process 1: "));
        let mut findings: Vec<String> = failed.cloned().collect();
        for (number, step) in self.steps.iter().enumerate() {
            let Step::Run { command, code, expected } = step else { continue };
            let behind = |mark: &str| {
                let label = format!("{number}{mark} ");
                console
                    .iter()
                    .filter_map(move |line| Some(line.trim_end().strip_prefix(&label)?.to_owned()))
            };
            let printed: Vec<String> = behind("|").collect();
            let ended = behind("=").next();
            if ended != Some(code.to_string()) {
                let ended = ended.as_deref().unwrap_or("not at all");
                findings
                    .push(format!("{command}: ends with {ended}, expected {code}: {printed:#?}"));
            } else if let Some(why) = expected.lacks(&printed) {
                findings.push(format!("{command}: {why}"));
            }
        }
        findings
    }
}

impl Expected {
    /// The difference from what was printed.
    fn lacks(&self, printed: &[String]) -> Option<String> {
        match self {
            Self::All(lines) => {
                let mut sorted: Vec<&str> = printed.iter().map(String::as_str).collect();
                sorted.sort_unstable();
                (sorted != *lines).then(|| format!("prints {sorted:#?}, expected {lines:#?}"))
            }
            Self::Among(lines) => {
                let mut rest = printed.iter().map(|line| line.trim());
                let missing =
                    lines.iter().find(|line| !rest.any(|printed| printed.contains(**line)))?;
                Some(format!("prints {printed:#?}, expected there {missing:?}"))
            }
        }
    }
}

/// A bridge near the second memory domain, and below it a disk and a network card.
const DEVICES: &str = "-device pxb-pcie,id=bridge,bus_nr=64,numa_node=1 \
    -device pcie-root-port,id=slot1,bus=bridge,chassis=1 \
    -device pcie-root-port,id=slot2,bus=bridge,chassis=2 -blockdev null-co,node-name=disk,size=1048576 \
    -device nvme,drive=disk,serial=1,bus=slot1 \
    -netdev user,id=net,restrict=on -device virtio-net-pci,netdev=net,bus=slot2";

/// Memory of a domain.
const SIZE_MIB: usize = 512;

/// Memory of the socket with these processors.
const fn socket(number: usize, processors: &'static str) -> Domain {
    Domain { processors: Some(processors), near: number, bandwidth: 4000 }
}

/// A command that succeeds, and ranks that print these lines.
const fn run(command: &'static str, lines: &'static [&'static str]) -> Step {
    Step::Run { command, code: 0, expected: Expected::All(lines) }
}

/// A command that succeeds and has these lines among others.
const fn shows(command: &'static str, lines: &'static [&'static str]) -> Step {
    Step::Run { command, code: 0, expected: Expected::Among(lines) }
}

/// A command that ends with `code`, and a report with this text.
const fn fails(command: &'static str, code: i32, report: &'static [&'static str]) -> Step {
    Step::Run { command, code, expected: Expected::Among(report) }
}

/// Each rank has a socket, and the memory near it.
const TWO_HALVES: &[&str] = &[
    "rank 0: processors 0-3, domains 0-1, policy default, pages 0=100%",
    "rank 1: processors 4-7, domains 0-1, policy default, pages 1=100%",
];

/// Each rank has both cores of a socket for its two threads.
const TWO_CORES: &[&str] = &[
    "rank 0: processors 0-3, domains 0-1, policy default, pages 0=100%, threads 2, places {0,1},{2,3}",
    "rank 1: processors 4-7, domains 0-1, policy default, pages 1=100%, threads 2, places {4,5},{6,7}",
];

/// Each rank has a socket and ordinary memory, which fast and far memory are not.
const NEAR_MEMORY: &[&str] = &[
    "rank 0: processors 0,2, domains 0-4, policy default, pages 0=100%, threads 2, places {0},{2}",
    "rank 1: processors 4,6, domains 0-4, policy default, pages 1=100%, threads 2, places {4},{6}",
];

pub(super) const SCENES: &[Scene] = &[
    Scene {
        name: "sockets",
        about: "two sockets with a memory domain each, and two threads on each of four cores",
        domains: &[socket(0, "0-3"), socket(1, "4-7")],
        steps: &[
            shows(
                "pmi-host topology",
                &[
                    "Package L#0",
                    "NUMANode L#0 (P#0",
                    "L3 L#0",
                    "Core L#0",
                    "PU L#0 (P#0)",
                    "PU L#1 (P#1)",
                    "Core L#1",
                    "Package L#1",
                    "NUMANode L#1 (P#1",
                    "L3 L#1",
                    "Core L#3",
                    "PU L#6 (P#6)",
                    "PU L#7 (P#7)",
                ],
            ),
            shows(
                "pmi-host run -n 1 rank",
                &["rank 0: processors 0-7, domains 0-1, policy default,"],
            ),
            run(
                "pmi-host run -n 4 --bind-to core rank",
                &[
                    "rank 0: processors 0-1, domains 0-1, policy default, pages 0=100%",
                    "rank 1: processors 2-3, domains 0-1, policy default, pages 0=100%",
                    "rank 2: processors 4-5, domains 0-1, policy default, pages 1=100%",
                    "rank 3: processors 6-7, domains 0-1, policy default, pages 1=100%",
                ],
            ),
            run(
                "pmi-host run -n 3 --bind-to numa rank",
                &[
                    "rank 0: processors 0-3, domains 0-1, policy default, pages 0=100%",
                    "rank 1: processors 4-7, domains 0-1, policy default, pages 1=100%",
                    "rank 2: processors 0-3, domains 0-1, policy default, pages 0=100%",
                ],
            ),
            run("pmi-host run -n 2 --bind-to socket rank", TWO_HALVES),
            run("pmi-host run -n 2 --bind-to l3cache rank", TWO_HALVES),
            run(
                "pmi-host run -n 4 --map-by auto rank",
                &[
                    "rank 0: processors 0, domains 0-1, policy default, pages 0=100%, threads 1, places {0}",
                    "rank 1: processors 2, domains 0-1, policy default, pages 0=100%, threads 1, places {2}",
                    "rank 2: processors 4, domains 0-1, policy default, pages 1=100%, threads 1, places {4}",
                    "rank 3: processors 6, domains 0-1, policy default, pages 1=100%, threads 1, places {6}",
                ],
            ),
            run("pmi-host run -n 2 --bind-to core --threads-per-rank 2 rank", TWO_CORES),
            run(
                "pmi-host run -n 2 --bind-to socket --mem-bind local rank",
                &[
                    "rank 0: processors 0-3, domains 0-1, policy bind:0, pages 0=100%",
                    "rank 1: processors 4-7, domains 0-1, policy bind:1, pages 1=100%",
                ],
            ),
            run(
                "pmi-host run -n 2 --bind-to socket --mem-bind preferred rank",
                &[
                    "rank 0: processors 0-3, domains 0-1, policy prefer (many):0, pages 0=100%",
                    "rank 1: processors 4-7, domains 0-1, policy prefer (many):1, pages 1=100%",
                ],
            ),
            run(
                "pmi-host run -n 1 --mem-bind interleave rank",
                &["rank 0: processors 0-7, domains 0-1, policy interleave:0-1, pages 0=50% 1=50%"],
            ),
            // The memory of the other socket: that of its processors would come by itself.
            run(
                "pmi-host run -n 2 --bind-to socket --mem-bind list:1,0 rank",
                &[
                    "rank 0: processors 0-3, domains 0-1, policy bind:1, pages 1=100%",
                    "rank 1: processors 4-7, domains 0-1, policy bind:0, pages 0=100%",
                ],
            ),
            fails(
                "pmi-host run -n 1 --mem-bind list:2 rank",
                2,
                &["has memory domains 0-1 for ranks"],
            ),
            Step::Write("/sys/devices/system/cpu/cpu5/online", "0"),
            run(
                "pmi-host run -n 4 --bind-to core rank",
                &[
                    "rank 0: processors 0-1, domains 0-1, policy default, pages 0=100%",
                    "rank 1: processors 2-3, domains 0-1, policy default, pages 0=100%",
                    "rank 2: processors 4, domains 0-1, policy default, pages 1=100%",
                    "rank 3: processors 6-7, domains 0-1, policy default, pages 1=100%",
                ],
            ),
            fails(
                "pmi-host run -n 1 --bind-to user:5 rank",
                2,
                &["processor 5 is not one of those that may be used here (0-4,6-7)"],
            ),
            Step::Write("/sys/devices/system/cpu/cpu5/online", "1"),
            Step::Write("/sys/fs/cgroup/cgroup.subtree_control", "+cpuset"),
            Step::Mkdir("/sys/fs/cgroup/part"),
            Step::Write("/sys/fs/cgroup/part/cpuset.cpus", "4,6"),
            Step::Write("/sys/fs/cgroup/part/cpuset.mems", "1"),
            Step::Write("/sys/fs/cgroup/part/cgroup.procs", "0"),
            shows(
                "pmi-host topology",
                &[
                    "NUMANode L#0 (P#1",
                    "PU L#0 (P#4)",
                    "PU L#1 (P#6)",
                    "processors 0-3,5,7 are left out by the control group",
                    "memory domain 0 is left out by the control group",
                ],
            ),
            run(
                "pmi-host run -n 2 --map-by auto --mem-bind local rank",
                &[
                    "rank 0: processors 4, domains 1, policy bind:1, pages 1=100%, threads 1, places {4}",
                    "rank 1: processors 6, domains 1, policy bind:1, pages 1=100%, threads 1, places {6}",
                ],
            ),
            fails(
                "pmi-host run -n 1 --mem-bind list:0 rank",
                2,
                &["has memory domains 1 for ranks"],
            ),
            Step::Write("/sys/fs/cgroup/part/cpuset.cpus", "0,4"),
            fails(
                "pmi-host run -n 2 --bind-to core --mem-bind local rank",
                2,
                &["has memory domains 1 for ranks, and none is near the processors of rank 0"],
            ),
        ],
    },
    Scene {
        name: "memory",
        about: "memory without processors, fast at each socket and farther at the first, and a network card",
        domains: &[
            socket(0, "0-3"),
            socket(1, "4-7"),
            Domain { processors: None, near: 0, bandwidth: 16_000 },
            Domain { processors: None, near: 1, bandwidth: 16_000 },
            Domain { processors: None, near: 0, bandwidth: 1000 },
        ],
        steps: &[
            Step::LoadNetwork,
            shows(
                "pmi-host topology",
                &[
                    "Package L#0",
                    "NUMANode L#0 (P#0",
                    "NUMANode(HBM) L#1 (P#2",
                    "NUMANode(Far) L#2 (P#4",
                    "PU L#3 (P#3)",
                    "Package L#1",
                    "NUMANode L#3 (P#1",
                    "NUMANode(HBM) L#4 (P#3",
                    "PU L#7 (P#7)",
                    "HostBridge",
                    "(NVMExp)",
                    "Block \"nvme0n1\"",
                    "(Ethernet)",
                    "Net \"eth0\"",
                ],
            ),
            // The one card is near the second socket.
            run(
                "pmi-host run -n 2 --map-by nic rank",
                &[
                    "rank 0: processors 4-7, domains 0-4, policy default, pages 1=100%",
                    "rank 1: processors 4-7, domains 0-4, policy default, pages 1=100%",
                ],
            ),
            run("pmi-host run -n 2 --map-by auto rank", NEAR_MEMORY),
            run(
                "pmi-host run -n 2 --bind-to socket --mem-bind local rank",
                &[
                    "rank 0: processors 0-3, domains 0-4, policy bind:0, pages 0=100%",
                    "rank 1: processors 4-7, domains 0-4, policy bind:1, pages 1=100%",
                ],
            ),
            run(
                "pmi-host run -n 2 --bind-to socket --mem-bind hbm rank",
                &[
                    "rank 0: processors 0-3, domains 0-4, policy bind:2, pages 2=100%",
                    "rank 1: processors 4-7, domains 0-4, policy bind:3, pages 3=100%",
                ],
            ),
            run(
                "pmi-host run -n 2 --mem-bind list:4,3 rank",
                &[
                    "rank 0: processors 0-7, domains 0-4, policy bind:4, pages 4=100%",
                    "rank 1: processors 0-7, domains 0-4, policy bind:3, pages 3=100%",
                ],
            ),
        ],
    },
];

#[cfg(test)]
mod tests {
    use super::*;

    const SCENE: Scene = Scene {
        name: "test",
        about: "a rank and a refusal",
        domains: &[socket(0, "0-7")],
        steps: &[
            Step::Write("/file", "a text"),
            run("pmi-host run -n 2 rank", &["rank 0: pages 0=100%", "rank 1: pages 1=100%"]),
            fails("pmi-host run --mem-bind list:9 rank", 2, &["has domains 0"]),
        ],
    };

    /// The number of findings in a console, without line breaks of its serial port.
    fn findings(lines: &[&str]) -> usize {
        SCENE.findings(&lines.iter().map(|line| format!("{line}\r")).collect::<Vec<_>>()).len()
    }

    #[test]
    fn lines_of_ranks_are_expected_in_any_order_and_no_others() {
        let [first, second] = ["1| rank 0: pages 0=100%", "1| rank 1: pages 1=100%"];
        let refusal = ["2| pmi-host: host guest has domains 0 for ranks", "2= 2"];
        let console = |ranks: &[&str]| findings(&[ranks, &["1= 0"], &refusal].concat());
        assert_eq!(console(&[first, second]), 0);
        assert_eq!(console(&[second, first]), 0);
        assert_eq!(console(&[first, "1| rank 1: pages 0=100%"]), 1, "another domain");
        assert_eq!(console(&[first]), 1);
        assert_eq!(console(&[first, second, "1| pmi-host: a hint"]), 1);
    }

    #[test]
    fn codes_reports_and_failed_steps_are_findings() {
        let ranks = ["1| rank 0: pages 0=100%", "1| rank 1: pages 1=100%"];
        let console = |rest: &[&str]| findings(&[&ranks, rest].concat());
        assert_eq!(console(&["1= 0", "2| host guest has domains 0", "2= 2"]), 0);
        assert_eq!(console(&["1= 1", "2| host guest has domains 0", "2= 2"]), 1);
        assert_eq!(console(&["1= 0", "2| host guest has domains 0", "2= 0"]), 1);
        assert_eq!(console(&["1= 0", "2| another report", "2= 2"]), 1);
        assert_eq!(console(&["1= 0", "process 1: mkdir /a: File exists"]), 2, "and no second step");
        assert_eq!(findings(&[]), 2);
    }

    #[test]
    fn steps_are_lines_of_words() {
        let lines = SCENE.lines();
        let mut lines = lines.lines();
        assert_eq!(lines.next(), Some("write\t/file\ta text"));
        assert_eq!(lines.next(), Some("run\t1\tpmi-host\trun\t-n\t2\trank"));
    }

    #[test]
    fn ranks_of_scenes_are_expected_in_order() {
        for step in SCENES.iter().flat_map(|scene| scene.steps) {
            if let Step::Run { command, expected: Expected::All(lines), .. } = step {
                assert!(!lines.is_empty() && lines.is_sorted(), "{command}");
            }
        }
    }
}
