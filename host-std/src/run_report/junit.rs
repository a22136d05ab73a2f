//! Report on a run for CI systems: JUnit's XML.
//!
//! The first suite is the run with one case, which fails with the report to the user if the exit code of
//! the launcher is not 0. A suite follows for each job, with a case for each rank. A rank that failed is a
//! failure; one that the launcher terminated, or whose end is unknown, was skipped. A case has the time of
//! its process. Names are the same in every run of a command, so that CI systems can compare runs.

use super::text::how;
use super::{RankSummary, RunOutcome};
use pmi_host_os::clock;
use quick_xml::events::{BytesDecl, BytesText, Event};
use quick_xml::writer::Writer;
use std::io;
use std::time::Duration;

/// The report as text.
///
/// # Errors
///
/// None at present: a vector takes everything.
pub(super) fn report(outcome: &RunOutcome<'_>) -> io::Result<String> {
    let mut suites = vec![of_run(outcome)];
    suites.extend(outcome.jobs().iter().enumerate().map(|(job, rows)| of_job(job, rows)));
    let mut writer = Writer::new_with_indent(Vec::new(), b' ', 2);
    writer.write_event(Event::Decl(BytesDecl::new("1.0", Some("UTF-8"), None)))?;
    let all: Vec<&TestCase> = suites.iter().flat_map(|suite| &suite.cases).collect();
    let attributes = [("name", "pmi-host".to_owned())].into_iter().chain(counts(&all));
    write(&mut writer, "testsuites", attributes, |writer| {
        suites.iter().try_for_each(|suite| suite.write(writer))
    })?;
    let mut text = String::from_utf8(writer.into_inner()).map_err(io::Error::other)?;
    text.push('\n');
    Ok(text)
}

/// Cases of the run or of a job.
struct TestSuite {
    name: String,
    host: String,
    cases: Vec<TestCase>,
}

struct TestCase {
    class: String,
    name: String,
    time: Duration,
    verdict: CaseVerdict,
}

/// Result of a case, with a message.
enum CaseVerdict {
    Passed,
    Failed(String),
    Skipped(String),
}

fn of_run(outcome: &RunOutcome<'_>) -> TestSuite {
    let verdict = match (outcome.exit_code, outcome.failure) {
        (0, _) => CaseVerdict::Passed,
        (_, Some(report)) => CaseVerdict::Failed(report.to_owned()),
        (code, None) => CaseVerdict::Failed(format!("the exit code is {code}")),
    };
    let host = outcome.rows.first().map(|row| row.plan.host.clone()).unwrap_or_default();
    let time = clock::now().saturating_duration_since(outcome.times.began);
    let (class, name) = ("pmi-host".to_owned(), "run".to_owned());
    TestSuite { name: "run".to_owned(), host, cases: vec![TestCase { class, name, time, verdict }] }
}

fn of_job(job: usize, rows: &[&RankSummary]) -> TestSuite {
    let cases = rows.iter().map(|row| {
        let RankSummary { plan, rank, started, end, .. } = row;
        let verdict = match end {
            None => CaseVerdict::Skipped("the end of the process was not observed".to_owned()),
            Some(end) if end.is_good() => CaseVerdict::Passed,
            Some(end) if end.was_over => CaseVerdict::Skipped(how(end)),
            Some(end) => CaseVerdict::Failed(format!("{} on {}", how(end), plan.host_of(*rank))),
        };
        let ended = end.map_or(*started, |end| end.at);
        TestCase {
            class: plan.program_name(*rank),
            name: format!("rank {rank} of {}", plan.ranks),
            time: ended.saturating_duration_since(*started),
            verdict,
        }
    });
    let host = rows.first().map(|row| row.plan.host.clone()).unwrap_or_default();
    TestSuite { name: format!("job {job}"), host, cases: cases.collect() }
}

impl TestSuite {
    fn write(&self, writer: &mut Writer<Vec<u8>>) -> io::Result<()> {
        let all: Vec<&TestCase> = self.cases.iter().collect();
        let own = [("name", self.name.clone()), ("hostname", self.host.clone())];
        write(writer, "testsuite", own.into_iter().chain(counts(&all)), |writer| {
            self.cases.iter().try_for_each(|case| case.write(writer))
        })
    }
}

impl TestCase {
    fn write(&self, writer: &mut Writer<Vec<u8>>) -> io::Result<()> {
        let names = [("classname", self.class.clone()), ("name", self.name.clone())];
        let attributes = names.into_iter().chain([("time", seconds(self.time))]);
        let (tag, message) = match &self.verdict {
            CaseVerdict::Passed => return write(writer, "testcase", attributes, |_| Ok(())),
            CaseVerdict::Failed(message) => ("failure", message),
            CaseVerdict::Skipped(message) => ("skipped", message),
        };
        write(writer, "testcase", attributes, |writer| {
            write(writer, tag, [("message", message.clone())], |writer| {
                writer.write_event(Event::Text(BytesText::new(&printable(message))))
            })
        })
    }
}

/// Numbers of cases, by verdict, and their time.
fn counts(cases: &[&TestCase]) -> [(&'static str, String); 4] {
    let count = |is: fn(&CaseVerdict) -> bool| {
        cases.iter().filter(|case| is(&case.verdict)).count().to_string()
    };
    // Ranks run at the same time, so the longest counts.
    let time = cases.iter().map(|case| case.time).max().unwrap_or_default();
    [
        ("tests", cases.len().to_string()),
        ("failures", count(|verdict| matches!(verdict, CaseVerdict::Failed(_)))),
        ("skipped", count(|verdict| matches!(verdict, CaseVerdict::Skipped(_)))),
        ("time", seconds(time)),
    ]
}

fn write(
    writer: &mut Writer<Vec<u8>>,
    tag: &str,
    attributes: impl IntoIterator<Item = (&'static str, String)>,
    content: impl FnOnce(&mut Writer<Vec<u8>>) -> io::Result<()>,
) -> io::Result<()> {
    let mut element = writer.create_element(tag);
    for (name, value) in attributes {
        element = element.with_attribute((name, printable(&value).as_str()));
    }
    element.write_inner_content(content).map(drop)
}

/// Without characters that XML cannot hold.
fn printable(text: &str) -> String {
    let is_allowed = |c: char| !c.is_control() || matches!(c, '\t' | '\n');
    let shown =
        |c: char| if is_allowed(c) { c.to_string() } else { c.escape_default().to_string() };
    text.chars().map(shown).collect()
}

fn seconds(time: Duration) -> String {
    format!("{:.6}", time.as_secs_f64())
}
