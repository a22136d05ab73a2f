//! A run as a link: all that the page of the playground needs to show it again, behind the `#` of
//! its address. This is the only place with knowledge of the form.
//!
//! ```text
//! #scenario=dead-rank&seed=7&do=120+kill+2&at=131&follow=2
//! ```
//!
//! | field | meaning |
//! |---|---|
//! | `scenario` | the name of one that comes with the page |
//! | `text` | instead of it, the whole scenario |
//! | `seed` | the seed; 0 by default |
//! | `do` | one injection, as in a trace |
//! | `branch` | the next `do` belong to another run of the same scenario and seed, shown beside |
//! | `at` | the displayed step; the start by default |
//!
//! Other fields are settings of the page. They are kept as they are.

use crate::scenario::{Scenario, ScenarioError};
use crate::world::Injected;
use form_urlencoded::{Serializer, parse};
use std::fmt;
use std::str::FromStr;

/// The contents of a link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunLink {
    /// The scenario.
    pub scenario: ScenarioSource,
    /// The seed.
    pub seed: u64,
    /// Injections of the run, and of each run beside it; never empty.
    pub runs: Vec<Vec<Injected>>,
    /// The displayed step.
    pub at: Option<u64>,
    /// Settings of the page, by name and value.
    pub view: Vec<(String, String)>,
}

/// The scenario of a link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ScenarioSource {
    /// By its name.
    Name(String),
    /// By its text.
    Text(String),
}

/// Error of an invalid link.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
pub enum LinkError {
    /// It names no scenario.
    #[error("the link names no scenario")]
    NoScenario,
    /// An invalid or too large number.
    #[error("`{field}` of the link is a number, not `{value}`")]
    Number {
        /// The field.
        field: &'static str,
        /// Its value.
        value: String,
    },
    /// An injection cannot be read.
    #[error("the injections of the link: {0}")]
    Done(ScenarioError),
}

impl RunLink {
    /// A link to a run of `scenario`, from its start.
    pub fn new(scenario: ScenarioSource, seed: u64) -> Self {
        Self { scenario, seed, runs: vec![Vec::new()], at: None, view: Vec::new() }
    }

    /// A link to a run of a scenario that need not come with the page.
    pub fn to(scenario: &Scenario, seed: u64) -> Self {
        Self::new(ScenarioSource::Text(scenario.to_string()), seed)
    }

    /// The whole address, at a page that `cargo xtask playground` serves.
    pub fn address(&self) -> String {
        format!("{PAGE}{self}")
    }
}

impl FromStr for RunLink {
    type Err = LinkError;

    fn from_str(text: &str) -> Result<Self, LinkError> {
        let mut scenario = None;
        let mut link = Self::new(ScenarioSource::Name(String::new()), 0);
        for (name, value) in parse(text.trim_start_matches('#').as_bytes()) {
            match &*name {
                "scenario" => scenario = Some(ScenarioSource::Name(value.into_owned())),
                "text" => scenario = Some(ScenarioSource::Text(value.into_owned())),
                "seed" => link.seed = number("seed", &value)?,
                "at" => link.at = Some(number("at", &value)?),
                "branch" => link.runs.push(Vec::new()),
                "do" => {
                    let done = value.parse().map_err(LinkError::Done)?;
                    if let Some(run) = link.runs.last_mut() {
                        run.push(done);
                    }
                }
                _ => link.view.push((name.into_owned(), value.into_owned())),
            }
        }
        link.scenario = scenario.ok_or(LinkError::NoScenario)?;
        Ok(link)
    }
}

fn number(field: &'static str, value: &str) -> Result<u64, LinkError> {
    value.parse().map_err(|_| LinkError::Number { field, value: value.into() })
}

/// The part of the page's address from the `#`.
impl fmt::Display for RunLink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut fields = Serializer::for_suffix(String::from("#"), 1);
        match &self.scenario {
            ScenarioSource::Name(name) => fields.append_pair("scenario", name),
            ScenarioSource::Text(text) => fields.append_pair("text", text),
        };
        fields.append_pair("seed", &self.seed.to_string());
        for (at, run) in self.runs.iter().enumerate() {
            if at > 0 {
                fields.append_key_only("branch");
            }
            for done in run {
                fields.append_pair("do", &done.to_string());
            }
        }
        if let Some(at) = self.at {
            fields.append_pair("at", &at.to_string());
        }
        fields.extend_pairs(&self.view);
        f.write_str(&fields.finish())
    }
}

/// Address at which `cargo xtask playground` serves the page.
pub const PAGE: &str = "http://127.0.0.1:7641/";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn link_is_written_as_it_is_read() {
        for text in [
            "#scenario=dead-rank&seed=7",
            "#scenario=dead-rank&seed=7&do=120+kill+2&do=9+quiet+order+0+put+k+v&at=131",
            "#scenario=x&seed=0&do=1+kill+2&branch&do=1+stop+2&branch&at=5&follow=2&fold=1",
            "#text=ranks+2%0Ascript+all%0A+open%0Aend%0A&seed=18446744073709551615",
        ] {
            let link: RunLink = text.parse().unwrap();
            assert_eq!(link.to_string(), text);
        }
        let link: RunLink = "scenario=a&branch=&do=3+kill+0".parse().unwrap();
        assert_eq!((link.runs[0].len(), link.runs[1].len()), (0, 1));
    }

    #[test]
    fn invalid_links_are_rejected_with_the_field() {
        for (text, why) in [
            ("", "names no scenario"),
            ("#seed=7", "names no scenario"),
            ("#scenario=x&seed=-1", "`seed` of the link"),
            ("#scenario=x&at=1e9", "`at` of the link"),
            ("#scenario=x&do=melt+1", "the injections"),
        ] {
            let error = text.parse::<RunLink>().unwrap_err().to_string();
            assert!(error.contains(why), "{text}: {error}");
        }
    }

    #[test]
    fn link_to_any_scenario_leads_back_to_it() {
        let text =
            "name odd\nabout \"100% & more\"\nranks 2\nscript all\n open\n say \"\\x00=\"\nend\n";
        let scenario: Scenario = text.parse().unwrap();
        let link: RunLink = RunLink::to(&scenario, 3).to_string().parse().unwrap();
        let ScenarioSource::Text(text) = link.scenario else { panic!("told by its name") };
        assert_eq!(text.parse::<Scenario>().unwrap(), scenario);
        assert!(RunLink::to(&scenario, 3).address().starts_with("http://127.0.0.1:"));
    }
}
