//! Server of published names that several launchers share.

use std::env;
use std::path::PathBuf;

/// Server of published names besides this launcher.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct NameSettings {
    /// Its address, HOST:PORT (`--name-server`); this launcher holds the names by default.
    pub(crate) server: Option<String>,
    /// File of its key (`--name-key`).
    pub(crate) key_file: Option<PathBuf>,
}

impl NameSettings {
    /// File of the key: that of the option, else one in the directory of settings.
    ///
    /// # Errors
    ///
    /// A message for the user, with the remedy.
    pub(crate) fn key_file(&self) -> Result<PathBuf, String> {
        let path =
            |name: &str| env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
        let home = || path("HOME").map(|home| home.join(".config"));
        let directory = path("XDG_CONFIG_HOME").filter(|path| path.is_absolute()).or_else(home);
        let default = || directory.map(|directory| directory.join(KEY_FILE));
        self.key_file.clone().or_else(default).ok_or_else(|| {
            "there is no home directory for the key of the name server; specify a file with '--name-key FILE'"
                .to_owned()
        })
    }
}

/// Key of name servers, in the directory of settings.
const KEY_FILE: &str = "pmi-host/name-server.key";
