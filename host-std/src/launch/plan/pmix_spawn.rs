//! Conversion of a PMIx spawn request to an order.
//!
//! | key | meaning here |
//! |---|---|
//! | `pmix.host` | target: this host by its name, or `localhost`; a list with commas. Another host is refused |
//! | `pmix.hostfile` | the same in a file |
//! | `pmix.addhost`, `pmix.addhostfile` | the same if no others are named |
//! | `pmix.wdir` | the working directory, in which a program that is in no directory of `PATH` is looked for as well |
//! | `pmix.envar.set`, `pmix.envar.add` | a variable; the second one only if it is not set otherwise |
//! | `pmix.timeout`, `pmix.pers` | no effect: programs start at once, and the key may come from any library |
//!
//! Directives for the whole job: [`directives`](super::directives). Programs with `pmix.debugger` among
//! others without it are a job of their own, whose processes control that of the others. Other keys are
//! ignored unless they are required; then the whole spawn is refused.

use super::directives::JobDirectives;
use super::hosts::names;
use super::spawn_request::{AppSpec, Cospawn, SpawnRequest};
use pmi_core::wire::pmix::names::{flags, keys};
use pmi_core::wire::pmix::{App, Info, List, Type};
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;

impl SpawnRequest {
    /// Parses a PMIx spawn request; `None` if a required directive is not supported.
    pub(crate) fn of_apps(infos: &List<'_>, apps: &List<'_>) -> Option<Self> {
        let (mut own, mut daemons) = (Self::default(), Cospawn::default());
        for app in apps.each(Type::APP, App::read) {
            let (wanted, directives) = match app.infos.is_set(keys::DEBUGGER_DAEMONS) {
                true => (&mut daemons.wanted, &mut daemons.directives),
                false => (&mut own.wanted, &mut own.directives),
            };
            wanted.push(of_app(&app, infos, directives)?);
        }
        if own.wanted.is_empty() {
            let Cospawn { wanted, directives } = daemons;
            return Some(Self { wanted, directives, ..Self::default() });
        }
        if !daemons.wanted.is_empty() {
            // They are those of the application.
            daemons.directives.end_stops();
            own.daemons = Some(daemons);
        }
        Some(own)
    }
}

fn of_app(app: &App<'_>, common: &List<'_>, directives: &mut JobDirectives) -> Option<AppSpec> {
    let mut wanted = AppSpec {
        name: words(app.command),
        args: app.words.iter().skip(1).map(words).collect(),
        processes: u32::try_from(app.processes).unwrap_or(0),
        directory: app.directory.map(words),
        searches_directory: true,
        variables: app.variables.iter().filter_map(assigned).collect(),
        ..AppSpec::default()
    };
    // Directives of one program take precedence over those of all.
    for info in common.infos().chain(app.infos.infos()) {
        let is_taken = take(&mut wanted, &info) || directives.take(&info);
        if !is_taken && info.flags & flags::REQUIRED != 0 {
            return None;
        }
    }
    Some(wanted)
}

/// Supported keys of programs.
pub(crate) const KEYS: &[&[u8]] = &[
    keys::HOST,
    keys::HOSTFILE,
    keys::ADD_HOST,
    keys::ADD_HOSTFILE,
    keys::WDIR,
    keys::SET_ENVAR,
    keys::ADD_ENVAR,
    keys::TIMEOUT,
    keys::PERSONALITY,
];

/// Applies one directive; true if it is one of [`KEYS`].
fn take(wanted: &mut AppSpec, info: &Info<'_>) -> bool {
    let text = || info.value.text().unwrap_or(b"");
    match info.key {
        keys::HOST => wanted.hosts.names = names(&String::from_utf8_lossy(text())),
        keys::HOSTFILE => wanted.hosts.file = Some(words(text())),
        keys::ADD_HOST => wanted.added.names = names(&String::from_utf8_lossy(text())),
        keys::ADD_HOSTFILE => wanted.added.file = Some(words(text())),
        keys::WDIR => wanted.directory = Some(words(text())),
        keys::SET_ENVAR => wanted.variables.extend(info.value.variable().map(pair)),
        keys::ADD_ENVAR => {
            let added = info.value.variable().map(pair);
            let is_there =
                |name: &OsString| wanted.variables.iter().any(|(other, _)| other == name);
            let added =
                added.filter(|(name, _)| !is_there(name) && std::env::var_os(name).is_none());
            wanted.variables.extend(added);
        }
        keys::TIMEOUT | keys::PERSONALITY => {}
        _ => return false,
    }
    true
}

fn assigned(text: &[u8]) -> Option<(OsString, OsString)> {
    let cut = text.iter().position(|byte| *byte == b'=').filter(|cut| *cut > 0)?;
    Some((words(&text[..cut]), words(&text[cut + 1..])))
}

fn pair((name, value): (&[u8], &[u8])) -> (OsString, OsString) {
    (words(name), words(value))
}

fn words(bytes: &[u8]) -> OsString {
    OsStr::from_bytes(bytes).to_owned()
}
