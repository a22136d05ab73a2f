//! Checks a client: starts it under the real server, whose answers are changed on their way in one
//! manner for each run, and sees whether it ends as it did when they were not.

mod message;
mod serve;
mod twist;

pub(crate) use twist::Twist;

use super::error::ConformError;
use super::matrix::Row;
use super::verdict::{Finding, Verdict};
use serve::{Ended, Ran};
use std::time::Duration;

/// A program to be checked.
#[derive(Debug)]
pub(crate) struct Subject {
    words: Vec<String>,
    ranks: u32,
    limit: Duration,
    /// How the ranks ended when nothing was changed.
    plain: Option<Vec<Ended>>,
}

impl Subject {
    /// The program of `words`, to be started `ranks` times.
    pub(crate) const fn new(words: Vec<String>, ranks: u32, limit: Duration) -> Self {
        Self { words, ranks, limit, plain: None }
    }

    /// Runs it once.
    ///
    /// Errors: it cannot be started.
    pub(crate) fn check(&mut self, twist: Twist) -> Result<Row, ConformError> {
        if self.plain.is_none() && twist != Twist::Plain {
            self.plain = Some(serve::run(&self.words, self.ranks, Twist::Plain, self.limit)?.ends);
        }
        let ran = serve::run(&self.words, self.ranks, twist, self.limit)?;
        let plain = self.plain.get_or_insert_with(|| ran.ends.clone());
        let finding = judge(&ran, plain, twist);
        Ok(Row { case: twist.name().into(), tries: twist.tries().into(), finding })
    }
}

fn judge(ran: &Ran, plain: &[Ended], twist: Twist) -> Finding {
    let ends = told(&ran.ends);
    if ran.ends.contains(&Ended::Late) {
        return Verdict::NoAnswer.on(format!("it hangs; {}", asked(ran)));
    }
    if let Some(fault) = &ran.fault {
        return Verdict::Wrong.on(fault.clone());
    }
    if ran.ends.iter().any(|end| matches!(end, Ended::Signal(_))) && ran.ends != plain {
        return Verdict::Wrong.on(format!("{ends}; {}", asked(ran)));
    }
    match twist {
        Twist::Plain if ran.ends.iter().all(|end| *end == Ended::Code(0)) => {
            Verdict::AsSpecified.on(asked(ran))
        }
        Twist::Plain => Verdict::Refused.on(format!("{ends}; {}", asked(ran))),
        _ if ran.changed_count == 0 => {
            Verdict::AsSpecified.on("it asks for nothing that this changes")
        }
        // Failing is the right thing to do when calls fail; crashing or hanging is not.
        Twist::Errors => Verdict::AsSpecified.on(ends),
        _ if ran.ends == plain => {
            Verdict::AsSpecified.on(format!("{} answers changed", ran.changed_count))
        }
        _ => Verdict::Refused.on(format!("{ends} in place of {}", told(plain))),
    }
}

/// How the ranks ended, those that ended alike together.
fn told(ends: &[Ended]) -> String {
    match ends.split_first() {
        Some((first, rest)) if rest.iter().all(|end| end == first) => first.to_string(),
        _ => ends.iter().map(ToString::to_string).collect::<Vec<_>>().join(", "),
    }
}

/// What rank 0 asked, in its order; what comes several times in a row is counted.
fn asked(ran: &Ran) -> String {
    let mut counted: Vec<(&str, usize)> = Vec::new();
    for word in &ran.asked {
        match counted.last_mut() {
            Some((last, count)) if last == word => *count += 1,
            _ => counted.push((word, 1)),
        }
    }
    let mut words: Vec<String> = counted
        .iter()
        .map(
            |(word, count)| if *count > 1 { format!("{word}*{count}") } else { (*word).to_owned() },
        )
        .collect();
    if words.is_empty() {
        return "rank 0 asks nothing".to_owned();
    }
    let left = words.len().saturating_sub(SHOWN_MAX);
    words.truncate(SHOWN_MAX);
    let more = if left > 0 { format!(" and {left} more") } else { String::new() };
    format!("rank 0 asks: {}{more}", words.join(" "))
}

/// Longer lists are not read.
const SHOWN_MAX: usize = 40;

#[cfg(test)]
mod tests {
    use super::*;

    fn ran(ends: &[Ended], asked: &[&str], changed_count: usize) -> Ran {
        let asked = asked.iter().map(|word| (*word).to_owned()).collect();
        Ran { ends: ends.to_vec(), asked, changed_count, fault: None }
    }

    #[test]
    fn a_run_is_judged_by_the_plain_one() {
        let good = [Ended::Code(0), Ended::Code(0)];
        let verdict = |ends: &[Ended], twist| judge(&ran(ends, &[], 3), &good, twist).verdict;
        assert_eq!(verdict(&good, Twist::Plain), Verdict::AsSpecified);
        assert_eq!(verdict(&[Ended::Code(0), Ended::Code(1)], Twist::Plain), Verdict::Refused);
        assert_eq!(verdict(&good, Twist::Order), Verdict::AsSpecified);
        assert_eq!(verdict(&[Ended::Code(0), Ended::Code(1)], Twist::Order), Verdict::Refused);
        assert_eq!(verdict(&[Ended::Code(1), Ended::Code(1)], Twist::Errors), Verdict::AsSpecified);
        assert_eq!(verdict(&[Ended::Code(1), Ended::Signal(11)], Twist::Errors), Verdict::Wrong);
        assert_eq!(verdict(&[Ended::Late, Ended::Late], Twist::Slow), Verdict::NoAnswer);
    }

    #[test]
    fn requests_are_listed_in_order_and_counted() {
        let ran = ran(&[], &["init", "get", "get", "put", "get"], 0);
        assert_eq!(asked(&ran), "rank 0 asks: init get*2 put get");
        assert_eq!(told(&[Ended::Code(0), Ended::Code(0)]), "exit code 0");
        assert_eq!(told(&[Ended::Code(0), Ended::Signal(6)]), "exit code 0, signal 6");
    }
}
