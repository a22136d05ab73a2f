//! Jobs in allocations of Slurm.

use super::run;
use pmi_host_testkit::slurm::Slurm;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// A command of Slurm, without variables of a launcher around the tests.
pub fn command(slurm: &Slurm, program: &str) -> Command {
    let mut command = Command::new(program);
    command.env("SLURM_CONF", slurm.conf()).env("XDG_CONFIG_HOME", "/nowhere");
    for variable in ["SLURM_JOB_ID", "FLUX_URI", "LSB_MCPU_HOSTS", "PE_HOSTFILE", "HYDRA_LAUNCHER"]
    {
        command.env_remove(variable);
    }
    command.stdin(Stdio::null());
    command
}

/// A batch script, in a directory of one test.
pub fn script(test: &str, text: &str) -> PathBuf {
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("slurm-script-of-{test}"));
    let _ = fs::remove_dir_all(&directory);
    fs::create_dir_all(&directory).unwrap();
    let script = directory.join("script");
    fs::write(&script, format!("#!/bin/sh\n{text}\n")).unwrap();
    script
}

/// A job that runs a batch script, one rank on each of three nodes.
pub struct BatchJob<'a> {
    slurm: &'a Slurm,
    id: String,
    output: PathBuf,
}

impl<'a> BatchJob<'a> {
    pub fn submit(slurm: &'a Slurm, options: &[&str], script: &Path) -> Self {
        let output = script.with_file_name("output");
        let mut sbatch = command(slurm, "sbatch");
        sbatch.args(["--parsable", "-N3", "--ntasks-per-node=1", "-o"]).arg(&output);
        let id = run(sbatch.args(options).arg(script)).exits_with(0).out.trim().to_owned();
        Self { slurm, id, output }
    }

    pub fn id(&self) -> &str {
        &self.id
    }

    /// An element of an array, whose output has the name `%a`.
    pub fn element(&self, number: u32) -> Self {
        let output = self.output.with_file_name(number.to_string());
        Self { slurm: self.slurm, id: format!("{}_{number}", self.id), output }
    }

    pub fn cancel(&self, options: &[&str]) {
        run(command(self.slurm, "scancel").args(options).arg(&self.id)).exits_with(0);
    }

    /// Waits until the output has these texts, and returns it.
    pub fn wait_for(&self, texts: &[&str]) -> String {
        let until = Instant::now() + Duration::from_secs(120);
        loop {
            let output = fs::read_to_string(&self.output).unwrap_or_default();
            match texts.iter().find(|text| !output.contains(**text)) {
                None => return output,
                Some(text) => assert!(Instant::now() < until, "no {text:?} in {output}"),
            }
            thread::sleep(Duration::from_millis(20));
        }
    }
}

/// Waits until no process has this word in its command line.
pub fn wait_until_gone(word: &str) {
    let has_it = |entry: &fs::DirEntry| {
        let words = fs::read(entry.path().join("cmdline")).unwrap_or_default();
        words.split(|byte| *byte == 0).any(|one| one == word.as_bytes())
    };
    let until = Instant::now() + Duration::from_secs(60);
    while fs::read_dir("/proc").unwrap().flatten().any(|entry| has_it(&entry)) {
        assert!(Instant::now() < until, "a process with the word {word} is left");
        thread::sleep(Duration::from_millis(20));
    }
}
