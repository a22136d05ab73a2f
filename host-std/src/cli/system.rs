//! The settings file of the administrator: defaults for all users, and maxima that users cannot raise.

use super::args::GivenOption;
use super::layers::{Origin, of_table, table_of};
use crate::settings::Settings;
use pmi_host_base::system_file;
use pmi_host_base::usage::UsageError;
use std::io::ErrorKind;
use std::path::Path;
use toml::Value;

/// Contents of the file.
#[derive(Debug, Default)]
pub(crate) struct System {
    /// Settings that hold unless a user overrides them.
    pub(crate) defaults: Vec<GivenOption>,
    /// Settings that users cannot raise. They are applied after all options of the user.
    pub(crate) maxima: Vec<GivenOption>,
}

impl System {
    /// Reads the file, if there is one. One that cannot be read is an error: it may hold maxima.
    ///
    /// # Errors
    ///
    /// [`UsageError`], with the name of the file.
    pub(crate) fn read() -> Result<Self, UsageError> {
        let file = Path::new(SYSTEM_FILE);
        match system_file::read_to_string(file) {
            Ok(text) => Self::of(file, &text),
            Err(error)
                if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) =>
            {
                Ok(Self::default())
            }
            Err(error) => Err(UsageError::Other {
                what: format!(
                    "the system's settings in '{SYSTEM_FILE}' cannot be read ({error}); ask its \
                     administrator to make it readable to all users"
                ),
            }),
        }
    }

    fn of(file: &Path, text: &str) -> Result<Self, UsageError> {
        let mut table = table_of(file, text)?;
        let maxima = match table.remove(MAXIMUM) {
            None => Vec::new(),
            Some(Value::Table(maxima)) => of_table(file, maxima, Origin::Maximum(file.to_owned()))?,
            Some(other) => {
                let what = format!("'{MAXIMUM}' is a table and no {}", other.type_str());
                return Err(UsageError::Other { what: format!("'{}': {what}", file.display()) });
            }
        };
        if let Some(one) = maxima.iter().find(|one| !HAS_MAXIMUM.contains(&one.option.name)) {
            let what =
                format!("'{}' has no maximum; {} have", one.option.name, HAS_MAXIMUM.join(", "));
            return Err(UsageError::Other { what: format!("'{}': {what}", file.display()) });
        }
        let defaults = of_table(file, table, Origin::File(file.to_owned()))?;
        Ok(Self { defaults, maxima })
    }
}

/// Ensures that a setting does not exceed `maximum`. A setting that the user has not changed, or has set
/// to no limit, becomes the maximum.
///
/// # Errors
///
/// [`UsageError`] if a user has set more.
pub(crate) fn hold_to(
    maximum: &GivenOption,
    file: &Path,
    settings: &mut Settings,
) -> Result<(), UsageError> {
    let option = maximum.option;
    let mut most = Settings::default();
    maximum.set(&mut most)?;
    let (now, usual, most) =
        (option.get(settings), option.get(&Settings::default()), option.get(&most));
    if size(now.as_deref()) <= size(most.as_deref()) {
        return Ok(());
    }
    match now.filter(|now| usual.as_ref() != Some(now)) {
        None => maximum.set(settings),
        Some(now) => Err(UsageError::Other {
            what: format!(
                "'{} {now}' is more than the maximum of this system, which '{}' sets to {}",
                option.shown(),
                file.display(),
                most.unwrap_or_default()
            ),
        }),
    }
}

/// Value as a number; an unset one is infinite.
fn size(value: Option<&str>) -> f64 {
    value.and_then(|value| value.parse().ok()).unwrap_or(f64::INFINITY)
}

/// Path of the file.
pub(crate) const SYSTEM_FILE: &str = "/etc/pmi-host/config.toml";

/// Name of the table of maxima in the file.
pub(crate) const MAXIMUM: &str = "maximum";

/// Settings that can have a maximum: each is a number, and a larger one costs the machine more.
const HAS_MAXIMUM: &[&str] = &["kvs-bytes", "kvs-pairs", "timeout", "trace-ring"];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::options;

    fn system(text: &str) -> Result<System, String> {
        System::of(Path::new("s.toml"), text).map_err(|error| error.to_string())
    }

    /// Result of applying `typed` and a maximum.
    fn held(maximum: &str, typed: &[(&str, &str)]) -> Result<Settings, String> {
        let system = system(&format!("[maximum]\n{maximum}\n")).unwrap();
        let mut settings = Settings::default();
        for (name, value) in typed {
            options::named(name).unwrap().set(&mut settings, value.as_ref()).unwrap();
        }
        let held = system.maxima.iter().try_for_each(|one| one.apply(&mut settings));
        held.map(|()| settings).map_err(|error| error.to_string())
    }

    #[test]
    fn value_above_the_maximum_is_refused_and_one_below_holds() {
        let pairs = |held: Result<Settings, String>| held.map(|settings| settings.job.kvs.pairs);
        assert_eq!(pairs(held("kvs-pairs = 100", &[("kvs-pairs", "99")])), Ok(99));
        assert_eq!(pairs(held("kvs-pairs = 100", &[("kvs-pairs", "100")])), Ok(100));
        let why = pairs(held("kvs-pairs = 100", &[("kvs-pairs", "101")])).unwrap_err();
        assert!(why.contains("'--kvs-pairs 101'") && why.contains("s.toml' sets to 100"), "{why}");
    }

    #[test]
    fn value_that_is_not_set_or_is_never_becomes_the_maximum() {
        assert_eq!(held("kvs-pairs = 100", &[]).unwrap().job.kvs.pairs, 100);
        let hour = Some(std::time::Duration::from_secs(3600));
        assert_eq!(held("timeout = 3600", &[]).unwrap().ending.timeout, hour);
        assert_eq!(held("timeout = 3600", &[("timeout", "0")]).unwrap().ending.timeout, hour);
        assert!(held("timeout = 3600", &[("timeout", "3601")]).is_err());
    }

    #[test]
    fn settings_without_maximum_are_named_with_those_that_have_one() {
        for (text, part) in [
            ("maximum = 3", "is a table"),
            ("[maximum]\nlabel = true", "'label' has no maximum; kvs-bytes"),
            ("[maximum]\nkvs-pair = 3", "nearest is 'kvs-pairs'"),
            ("kvs-pair = 3", "nearest is 'kvs-pairs'"),
        ] {
            let why = system(text).expect_err(text);
            assert!(why.contains("s.toml") && why.contains(part), "{why}");
        }
    }
}
