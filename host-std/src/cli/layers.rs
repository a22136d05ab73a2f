//! Sources of settings besides the command line: variables, and a file.
//!
//! The command line has precedence, then `PMI_HOST_*` variables, then one file, then that of the
//! administrator (see [`system`](super::system)), then the defaults. All sources yield lists of the same
//! [`options`], so that the settings are one list of them, the weakest first.

use super::args::GivenOption;
use super::options::{self, OptionSpec, VARIABLES};
use super::system::{MAXIMUM, SYSTEM_FILE};
use crate::cli::nearest::nearest;
use crate::settings::Settings;
use pmi_host_base::usage::UsageError;
use pmi_host_base::user_file;
use std::ffi::OsString;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use toml::{Table, Value};

/// Origin of a setting.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum Origin {
    /// Default of the program.
    #[default]
    Default,
    /// A file.
    File(PathBuf),
    /// A maximum in the file of the administrator.
    Maximum(PathBuf),
    /// A variable of the launcher's environment.
    Variable(String),
    /// The command line.
    Typed,
}

/// A setting as it is shown to the user.
#[derive(Debug)]
pub(crate) struct ShownSetting {
    /// Option that sets it.
    pub(crate) option: &'static OptionSpec,
    /// Value as it would be typed; `None` if it is not set.
    pub(crate) value: Option<String>,
    /// Origin of the value.
    pub(crate) origin: Origin,
}

/// Options from sources besides the command line, the weakest first. `config` is the named file, if there
/// is one.
///
/// # Errors
///
/// [`UsageError`], for a file too.
pub(crate) fn given(
    config: Option<&Path>,
    variables: &[(OsString, OsString)],
) -> Result<Vec<GivenOption>, UsageError> {
    let variable = |name: &str| {
        let found = variables.iter().find(|(known, value)| known == name && !value.is_empty());
        found.map(|(_, value)| PathBuf::from(value))
    };
    let named = config.map(Path::to_owned).or_else(|| variable(CONFIG));
    let own = || {
        let home = || variable("HOME").map(|home| home.join(".config"));
        let directory = variable("XDG_CONFIG_HOME").filter(|path| path.is_absolute()).or_else(home);
        directory.map(|directory| directory.join(FILE))
    };
    let mut all = Vec::new();
    if let Some(file) = named.clone().or_else(own) {
        match user_file::read_to_string(&file) {
            Ok(text) => all.extend(of_file(&file, &text)?),
            Err(error) if named.is_none() && is_absent(&error) => {}
            Err(error) => {
                let what = format!("the settings in '{}' cannot be read ({error})", file.display());
                return Err(UsageError::Other {
                    what: format!("{what}; '--config FILE' names others"),
                });
            }
        }
    }
    all.extend(of_variables(variables)?);
    Ok(all)
}

/// Every setting, after all given options.
pub(crate) fn shown(given: &[GivenOption]) -> Result<Vec<ShownSetting>, UsageError> {
    let mut settings = Settings::default();
    let ungiven = |option: &'static OptionSpec| ShownSetting {
        option,
        value: option.get(&settings),
        origin: Origin::Default,
    };
    let mut shown: Vec<ShownSetting> = options::all().map(ungiven).collect();
    for one in given {
        one.apply(&mut settings)?;
        for ShownSetting { option, value, origin } in &mut shown {
            let now = option.get(&settings);
            // One option may set another, as `-l` sets a format.
            let is_repeated = option.name == one.option.name;
            if now != *value || is_repeated && !matches!(one.origin, Origin::Maximum(_)) {
                (*value, *origin) = (now, one.origin.clone());
            }
        }
    }
    Ok(shown)
}

fn of_variables(variables: &[(OsString, OsString)]) -> Result<Vec<GivenOption>, UsageError> {
    let mut given = Vec::new();
    for (name, value) in variables {
        let Some(name) = name.to_str().filter(|name| name.starts_with(VARIABLES)) else { continue };
        // An empty variable is one that is not set.
        if [CONFIG, PERSONALITY].contains(&name) || value.is_empty() {
            continue;
        }
        let Some(option) = options::all().find(|option| option.variable() == name) else {
            let names = options::all()
                .map(OptionSpec::variable)
                .chain([CONFIG, PERSONALITY].map(str::to_owned));
            let nearest = nearest(name, names);
            let what = format!("there is no setting '{name}'; the nearest is '{nearest}'");
            return Err(UsageError::Other { what });
        };
        let origin = Origin::Variable(name.to_owned());
        let one = GivenOption { option, value: value.clone(), origin };
        one.apply(&mut Settings::default())?;
        given.push(one);
    }
    Ok(given)
}

fn of_file(file: &Path, text: &str) -> Result<Vec<GivenOption>, UsageError> {
    let table = table_of(file, text)?;
    if table.contains_key(MAXIMUM) {
        let what = format!("'{MAXIMUM}' is allowed in '{SYSTEM_FILE}' only");
        return Err(wrong(file, &what));
    }
    of_table(file, table, Origin::File(file.to_owned()))
}

/// Error in a file of settings.
fn wrong(file: &Path, what: &str) -> UsageError {
    UsageError::Other { what: format!("'{}': {what}", file.display()) }
}

/// Parses a file of settings.
pub(super) fn table_of(file: &Path, text: &str) -> Result<Table, UsageError> {
    text.parse().map_err(|error: toml::de::Error| {
        let before = error.span().map_or(0, |span| span.start);
        let line = text.get(..before).map_or(1, |before| before.matches('\n').count() + 1);
        let why = error.message().lines().next().unwrap_or_default();
        wrong(file, &format!("line {line}: {why}"))
    })
}

/// Options in a table of a file, with `origin`.
pub(super) fn of_table(
    file: &Path,
    table: Table,
    origin: Origin,
) -> Result<Vec<GivenOption>, UsageError> {
    let wrong = |what: String| wrong(file, &what);
    let mut given = Vec::new();
    for (name, value) in table {
        let Some(option) = options::named(&name) else {
            let nearest = nearest(&name, options::all().map(|option| option.name));
            return Err(wrong(format!("there is no setting '{name}'; the nearest is '{nearest}'")));
        };
        let values = values(option, &value).ok_or_else(|| {
            wrong(format!(
                "'{name}' cannot be a {}; 'pmi-host help files' shows how",
                value.type_str()
            ))
        })?;
        for value in values {
            let one = GivenOption { option, value: value.into(), origin: origin.clone() };
            one.set(&mut Settings::default())?;
            given.push(one);
        }
    }
    Ok(given)
}

/// Value of a file as it would be typed; several if the values of the option add up.
fn values(option: &OptionSpec, value: &Value) -> Option<Vec<String>> {
    let several = |values: Vec<String>| match option.adds_up() {
        true => values,
        false => vec![values.join(",")],
    };
    match value {
        Value::Array(items) => items.iter().map(plain).collect::<Option<_>>().map(several),
        Value::Table(pairs) if option.adds_up() => {
            let pair = |(name, value): (&String, &Value)| Some(format!("{name}={}", plain(value)?));
            pairs.iter().map(pair).collect()
        }
        other => plain(other).map(|value| vec![value]),
    }
}

fn plain(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Integer(number) => Some(number.to_string()),
        Value::Float(number) => Some(number.to_string()),
        Value::Boolean(yes) => Some(yes.to_string()),
        Value::Datetime(_) | Value::Array(_) | Value::Table(_) => None,
    }
}

/// True if the file does not exist, which is no error.
fn is_absent(error: &io::Error) -> bool {
    // A home of another user holds no settings of this one, as after `su` or in a container.
    let kinds =
        [io::ErrorKind::NotFound, io::ErrorKind::NotADirectory, io::ErrorKind::PermissionDenied];
    kinds.contains(&error.kind())
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => f.write_str("default"),
            Self::File(file) => f.write_str(&file.display().to_string()),
            Self::Maximum(file) => write!(f, "{} (maximum)", file.display()),
            Self::Variable(name) => f.write_str(name),
            Self::Typed => f.write_str("command line"),
        }
    }
}

/// Variable that only the command lines of other launchers read.
pub(crate) const PERSONALITY: &str = "PMI_HOST_PERSONALITY";

/// Variable that names the file.
const CONFIG: &str = "PMI_HOST_CONFIG";

/// Default path of the file, below the user's directory of settings.
const FILE: &str = "pmi-host/config.toml";

#[cfg(test)]
mod tests {
    use super::*;

    fn typed(given: &[GivenOption]) -> Vec<String> {
        given.iter().map(|one| format!("{}={}", one.option.name, one.value.display())).collect()
    }

    fn file(text: &str) -> Result<Vec<GivenOption>, String> {
        of_file(Path::new("f.toml"), text).map_err(|error| error.to_string())
    }

    #[test]
    fn file_says_what_is_typed_elsewhere() {
        let given = file(
            "timeout = 60\nexit-timeout = 0.5\ncollapse = true\ncontrol = false\nbind-to = 'core'\n\
             stdin = [0, 3]\nforward-signals = ['SIGUSR1', 'SIGTERM']\nattribute = ['a=1', 'b=2']\n\
             [env]\nA = 1\nB = 'x y'\n",
        )
        .unwrap();
        let mut typed = typed(&given);
        typed.sort();
        assert_eq!(
            typed,
            [
                "attribute=a=1",
                "attribute=b=2",
                "bind-to=core",
                "collapse=true",
                "control=false",
                "env=A=1",
                "env=B=x y",
                "exit-timeout=0.5",
                "forward-signals=SIGUSR1,SIGTERM",
                "stdin=0,3",
                "timeout=60"
            ]
        );
    }

    #[test]
    fn settings_that_a_file_cannot_contain_are_reported_with_its_name() {
        for (text, part) in [
            ("timeout = 60\ntimeuot = 3\n", "nearest is 'timeout'"),
            ("a = \n", "line 1"),
            ("ranks = 1\nb = [\n", "line 2"),
            ("timeout = 1979-05-27\n", "cannot be a datetime"),
            ("[timeout]\na = 1\n", "cannot be a table"),
            ("timeout = 'soon'\n", "seconds"),
        ] {
            let why = file(text).expect_err(text);
            assert!(why.contains("f.toml") && why.contains(part), "{why}");
        }
    }

    #[test]
    fn variable_says_what_is_typed_elsewhere() {
        let variables = |pairs: &[(&str, &str)]| -> Vec<(OsString, OsString)> {
            pairs.iter().map(|(name, value)| (name.into(), value.into())).collect()
        };
        let ours = [
            ("PMI_HOST_EXIT_TIMEOUT", "5"),
            ("PMI_HOSTNAME", "x"),
            ("PMI_HOST_CONTROL", "0"),
            ("PMI_HOST_LABEL", ""),
        ];
        let given = of_variables(&variables(&ours)).unwrap();
        assert_eq!(typed(&given), ["exit-timeout=5", "control=0"]);
        let why = |pair| of_variables(&variables(&[pair])).unwrap_err().to_string();
        assert!(why(("PMI_HOST_TIMEOT", "5")).contains("nearest is 'PMI_HOST_TIMEOUT'"));
        assert!(why(("PMI_HOST_TIMEOUT", "x")).starts_with("'PMI_HOST_TIMEOUT=x': that is not"));
    }

    #[test]
    fn shown_settings_have_their_origin() {
        let mut given = file("label-format = '%h '\ntimeout = 60\n").unwrap();
        let one = |name: &str, value: &str| GivenOption {
            option: options::named(name).unwrap(),
            value: value.into(),
            origin: Origin::Typed,
        };
        given.extend([one("timeout", "5"), one("collapse", "true")]);
        let shown = shown(&given).unwrap();
        let of = |name: &str| {
            let found = shown.iter().find(|shown| shown.option.name == name).unwrap();
            (found.value.clone().unwrap_or_default(), found.origin.to_string())
        };
        let pair = |value: &str, origin: &str| (value.to_owned(), origin.to_owned());
        assert_eq!(of("timeout"), pair("5", "command line"));
        assert_eq!(of("label-format"), pair("%h ", "f.toml"));
        assert_eq!(of("label"), pair("true", "f.toml"));
        assert_eq!(of("stall-report"), pair("10", "default"));
    }

    #[test]
    fn default_file_of_an_unreadable_home_counts_as_missing() {
        for kind in [io::ErrorKind::NotFound, io::ErrorKind::PermissionDenied] {
            assert!(is_absent(&kind.into()), "{kind}");
        }
        assert!(!is_absent(&io::ErrorKind::InvalidData.into()));
    }
}
