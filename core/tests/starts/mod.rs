//! Spawns that own their words, for random generation.

use pmi_core::command::{Argument, InfoList, Pair, Program, Spawn, Text};

/// A program of a spawn, owning its words.
#[derive(Clone, Debug)]
pub(crate) struct Starts {
    pub(crate) executable: Vec<u8>,
    pub(crate) processes: u32,
    pub(crate) arguments: Vec<Vec<u8>>,
    pub(crate) info: Vec<(Vec<u8>, Vec<u8>)>,
}

/// Passes the spawn of these programs to a function.
pub(crate) fn with_spawn<R>(
    starts: &[Starts],
    preputs: &[(Vec<u8>, Vec<u8>)],
    then: impl FnOnce(Spawn<'_>) -> R,
) -> R {
    fn pairs(list: &[(Vec<u8>, Vec<u8>)]) -> Vec<Pair<'_>> {
        let pair = |(key, value)| Pair { key: Text::plain(key), value: Text::plain(value) };
        list.iter().map(|(key, value)| pair((key, value))).collect()
    }
    let arguments: Vec<Vec<Text<'_>>> =
        starts.iter().map(|s| s.arguments.iter().map(|a| Text::plain(a)).collect()).collect();
    let info: Vec<Vec<Pair<'_>>> = starts.iter().map(|s| pairs(&s.info)).collect();
    let programs: Vec<Program<'_>> = starts
        .iter()
        .zip(arguments.iter().zip(&info))
        .map(|(start, (arguments, info))| Program {
            executable: Text::plain(&start.executable),
            processes: start.processes,
            arguments: Argument::Given(arguments),
            info: InfoList::Given(info),
        })
        .collect();
    let preputs = pairs(preputs);
    then(Spawn::Given { programs: &programs, preputs: &preputs })
}
