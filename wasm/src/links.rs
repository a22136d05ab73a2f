//! Links to runs, as the page reads and writes them.

use crate::json::Json;
use pmi_sim::link::{RunLink, ScenarioSource};
use wasm_bindgen::prelude::*;

/// Reads a link: the part after the `#` of an address.
///
/// # Errors
///
/// A fragment that is no link, with the cause.
#[wasm_bindgen]
pub fn read_link(fragment: &str) -> Result<String, JsError> {
    Ok(written(&fragment.parse()?))
}

/// A link to runs of one scenario and seed: `named` by its name or else by its whole text; `done` to
/// them a line each, with an empty line between two runs; `view` as `name=value`, a line each.
///
/// # Errors
///
/// A line that cannot be read.
#[wasm_bindgen]
pub fn write_link(
    named: bool,
    scenario: String,
    seed: u64,
    done: &str,
    at: u32,
    view: &str,
) -> Result<String, JsError> {
    let mut link = RunLink::new(
        if named { ScenarioSource::Name(scenario) } else { ScenarioSource::Text(scenario) },
        seed,
    );
    let runs = done.split("\n\n").map(|run| run.lines().map(str::parse).collect());
    link.runs = runs.collect::<Result<_, _>>()?;
    link.at = Some(at.into());
    let pair = |line: &str| line.split_once('=').map(|(name, value)| (name.into(), value.into()));
    link.view = view.lines().filter_map(pair).collect();
    Ok(link.to_string())
}

fn written(link: &RunLink) -> String {
    Json::of(|json| {
        match &link.scenario {
            ScenarioSource::Name(name) => json.text("scenario", name),
            ScenarioSource::Text(text) => json.text("text", text),
        }
        json.text("seed", &link.seed.to_string());
        json.list("runs", &link.runs, |json, run| {
            let lines: String = run.iter().map(|done| format!("{done}\n")).collect();
            json.word(&lines);
        });
        json.maybe("at", link.at);
        json.part("view", |json| {
            link.view.iter().for_each(|(name, value)| json.text(name, value));
        });
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn link_is_shown_field_by_field() {
        let text = "#scenario=x&seed=18446744073709551615&do=1+kill+0&branch&at=7&follow=2";
        let link = written(&text.parse().unwrap());
        assert_eq!(
            link,
            "{\"scenario\":\"x\",\"seed\":\"18446744073709551615\",\"runs\":[\"1 kill 0\\n\",\"\"],\
             \"at\":7,\"view\":{\"follow\":\"2\"}}"
        );
        let again = write_link(true, "x".into(), u64::MAX, "1 kill 0\n\n", 7, "follow=2");
        assert_eq!(again.unwrap_or_default(), text);
    }
}
