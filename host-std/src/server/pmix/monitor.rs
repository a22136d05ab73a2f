//! Requests of PMIx clients for monitors of files.
//!
//! | key | meaning here |
//! |---|---|
//! | `pmix.monitor.fmon` | path of the file, from the working directory of the rank |
//! | `pmix.monitor.fsize`, `.faccess`, `.fmod` | signs of life: another size, time of access, time of modification; one at least |
//! | `pmix.monitor.ftime` | seconds between two checks, from 1 |
//! | `pmix.monitor.fdrop` | checks without a sign of life before the event, 1 by default |
//! | `pmix.monitor.id`, `pmix.monitor.cancel` | name of the monitor, and the end of the monitors of this name, or of all |

use pmi_core::wire::pmix::names::{Status, keys};
use pmi_core::wire::pmix::{Info, List, Type};
use std::ffi::OsString;
use std::fs;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Request about file monitors.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum MonitorRequest {
    /// Starts a monitor; one of the same name is replaced.
    Start(FileMonitor),
    /// Ends the monitors of this name, or all.
    Cancel(Option<Vec<u8>>),
}

/// A file with signs of life of a rank.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FileMonitor {
    /// Its path.
    pub(crate) path: PathBuf,
    /// Signs of life.
    pub(crate) signs: SignsOfLife,
    /// Time between two checks.
    pub(crate) every: Duration,
    /// Number of checks without a sign of life before the event.
    pub(crate) drops: u32,
    /// Name, by which it is cancelled.
    pub(crate) id: Vec<u8>,
    /// Event code.
    pub(crate) code: Status,
}

/// Attributes of a file whose change is a sign of life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SignsOfLife {
    pub(crate) size: bool,
    pub(crate) access: bool,
    pub(crate) modification: bool,
}

/// Attributes of a file at one time; those that are no signs of life are absent, as all are without a file.
pub(crate) type FileState = [Option<(i64, i64)>; 3];

impl MonitorRequest {
    /// Reads a request of a rank.
    ///
    /// # Errors
    ///
    /// The status of a request that is rejected.
    pub(super) fn read(what: &Info<'_>, code: i32, infos: &List<'_>) -> Result<Self, Status> {
        let cancelled = match what.key {
            keys::MONITOR_CANCEL => Some(what.value),
            _ => infos.find(keys::MONITOR_CANCEL),
        };
        if let Some(id) = cancelled {
            return Ok(Self::Cancel(id.text().map(<[u8]>::to_vec)));
        }
        let path = what.value.text().filter(|path| !path.is_empty()).ok_or(Status::BAD_PARAM)?;
        // The headers of some releases declare two of them as texts.
        let has = |key: &[u8]| {
            infos.find(key).is_some_and(|value| value.of != Type::BOOL || value.is_true())
        };
        let signs = SignsOfLife {
            size: has(keys::MONITOR_FILE_SIZE),
            access: has(keys::MONITOR_FILE_ACCESS),
            modification: has(keys::MONITOR_FILE_MODIFY),
        };
        let number = |key: &[u8]| infos.find(key).and_then(|value| value.number());
        let every = number(keys::MONITOR_FILE_CHECK_TIME).and_then(|secs| u32::try_from(secs).ok());
        let drops = number(keys::MONITOR_FILE_DROPS).map_or(Ok(1), u32::try_from);
        let (Some(every @ 1..), Ok(drops), true) = (every, drops, signs.is_any()) else {
            return Err(Status::BAD_PARAM);
        };
        let id = infos.find(keys::MONITOR_ID).and_then(|value| value.text()).unwrap_or(b"");
        Ok(Self::Start(FileMonitor {
            path: OsString::from_vec(path.to_vec()).into(),
            signs,
            every: Duration::from_secs(every.into()),
            drops: drops.max(1),
            id: id.to_vec(),
            code: Status(code),
        }))
    }
}

impl FileMonitor {
    /// Time without a sign of life before the event.
    pub(crate) fn silence(&self) -> Duration {
        self.every.saturating_mul(self.drops)
    }
}

impl SignsOfLife {
    const fn is_any(self) -> bool {
        self.size || self.access || self.modification
    }

    /// Reads these attributes of a file. It may take long, or never end, on a file system of a server that
    /// does not answer.
    pub(crate) fn of_file(self, path: &Path) -> FileState {
        let Ok(found) = fs::metadata(path) else { return [None; 3] };
        let size = i64::try_from(found.size()).unwrap_or(i64::MAX);
        [
            self.size.then_some((size, 0)),
            self.access.then(|| (found.atime(), found.atime_nsec())),
            self.modification.then(|| (found.mtime(), found.mtime_nsec())),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pmi_core::wire::pmix::{Format, Packer, Unpacker};

    /// Reads a request for a monitor of `path` with these directives.
    fn read(path: &[u8], directives: &[(&[u8], u32)]) -> Result<MonitorRequest, Status> {
        let (mut what, mut infos) = ([0; 128], [0; 512]);
        let mut to = Packer::new(&mut what, Format::PLAIN);
        to.text(Some(keys::MONITOR_FILE)).u32(0).of(Type::STRING).text(Some(path));
        to.finish().unwrap();
        let what = Info::read(&mut Unpacker::new(&what, Format::PLAIN)).unwrap();
        let mut to = Packer::new(&mut infos, Format::PLAIN);
        let count = u32::try_from(directives.len()).unwrap();
        to.one(Type::SIZE).size(count.into()).op(Type::INFO, count);
        for (key, number) in directives {
            to.text(Some(key)).u32(0).of(Type::UINT32).u32(*number);
        }
        to.finish().unwrap();
        let infos = List::read(&mut Unpacker::new(&infos, Format::PLAIN), Type::INFO).unwrap();
        MonitorRequest::read(&what, -110, &infos)
    }

    #[test]
    fn monitor_needs_a_path_an_interval_and_a_sign_of_life() {
        let (size, time) = (keys::MONITOR_FILE_SIZE, keys::MONITOR_FILE_CHECK_TIME);
        let Ok(MonitorRequest::Start(monitor)) = read(b"log", &[(size, 1), (time, 2)]) else {
            panic!("a monitor")
        };
        assert_eq!((monitor.path.to_str(), monitor.drops), (Some("log"), 1));
        assert_eq!(monitor.silence(), Duration::from_secs(2));
        for (path, directives) in [
            (&b""[..], &[(size, 1), (time, 2)][..]),
            (b"log", &[(size, 1)]),
            (b"log", &[(size, 1), (time, 0)]),
            (b"log", &[(time, 2)]),
        ] {
            assert_eq!(read(path, directives), Err(Status::BAD_PARAM), "{directives:?}");
        }
        let cancelled = read(b"log", &[(keys::MONITOR_CANCEL, 0)]);
        assert_eq!(cancelled, Ok(MonitorRequest::Cancel(None)));
    }

    #[test]
    fn file_changes_by_the_chosen_attributes_alone() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("log");
        let of = |size, modification| SignsOfLife { size, access: false, modification };
        let state = |signs: SignsOfLife| signs.of_file(&path);
        assert_eq!(state(of(true, true)), [None; 3]);
        fs::write(&path, "one").unwrap();
        let before = [state(of(true, false)), state(of(false, true))];
        assert_eq!(before[0], [Some((3, 0)), None, None]);
        fs::write(&path, "three").unwrap();
        let file = fs::File::options().write(true).open(&path).unwrap();
        file.set_modified(std::time::SystemTime::UNIX_EPOCH).unwrap();
        assert_ne!(before, [state(of(true, false)), state(of(false, true))]);
        assert_eq!(state(of(false, true)), [None, None, Some((0, 0))]);
    }
}
