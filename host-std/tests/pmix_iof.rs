//! Output of ranks for PMIx tools, and input of tools for ranks.

use crate::common::tools::{
    ENDLESS, Place, input_of_a_tool_reaches_its_job, output_reaches_a_tool_and_the_launcher,
    writers,
};
use crate::common::{pmix_program, start};
use std::process::Command;

#[test]
fn tool_receives_the_output_of_a_running_job_and_the_launcher_writes_it_as_well() {
    output_reaches_a_tool_and_the_launcher("iof-watch", &[], |_| ());
}

#[test]
fn lines_are_formatted_as_the_tool_requests() {
    let place = Place::new("iof-formats");
    let Some(program) = pmix_program("pmix_iof") else { return };
    let job = writers(&place, &[]);
    let nspace = place.first_job(job.pid());
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
    input_of_a_tool_reaches_its_job("iof-converse", &["-n", "1"]);
}

#[test]
fn end_of_a_request_sends_what_it_has_buffered() {
    let place = Place::new("iof-flush");
    let job = place.start(["-n", "1"].into_iter().chain(ENDLESS));
    place.programs("pmix_iof", &["flush"], |ran| {
        let ran = ran.exits_with(0).says_nothing();
        assert_eq!(ran.out, "first\nfirst\nsecond\n");
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
    let nspace = place.first_job(job.pid());
    place.programs("pmix_iof", &["refusals", &nspace], |ran| {
        assert_eq!(ran.exits_with(0).says_nothing().out, "refused\n");
    });
    job.signal("TERM");
    job.end();
}
