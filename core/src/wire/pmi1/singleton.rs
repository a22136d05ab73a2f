//! Messages before `init` of a client that starts its launcher.
//!
//! A singleton that needs a server starts a launcher, which connects back. The launcher greets, the
//! client names its version, the launcher names the space of the client's job; then the client
//! continues with `init` like every other. Spec: `docs/pmi1.md`, singletons.

use super::command;
use super::line::{Line, LineWriter};
use crate::command::{Text, Version};
use crate::error::Malformed;
use crate::wire::{WriteError, names};

/// One of the three lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SingletonGreeting<'a> {
    /// Greeting of a launcher, and the response of the client. `cmd=singinit`
    Hello {
        /// Protocol version; some launchers omit it.
        version: Option<Version>,
        /// True if the standard streams of the client go through the launcher. That takes three more
        /// connections, and the client continues without them if the launcher declines.
        has_streams: bool,
    },
    /// Second message of the launcher. `cmd=singinit_info`
    Info {
        /// Name of the client's space; `None` if the launcher declines.
        kvsname: Option<Text<'a>>,
    },
}

impl<'a> SingletonGreeting<'a> {
    /// Reads one line.
    ///
    /// # Errors
    ///
    /// [`Malformed`] for a line that is none of them, or has an implausible value.
    pub fn read(message: &'a [u8]) -> Result<Self, Malformed> {
        let line = Line::new(message);
        let word = command(line)?;
        let says = |key, value: &str| line.field(key) == Some(value.as_bytes());
        if word == names::SINGLETON_INFO {
            let kvsname = line.text("kvsname").filter(|_| says("versionok", "yes"));
            return Ok(Self::Info { kvsname });
        }
        if word != names::SINGLETON
            || !(says("authtype", "none") || line.field("authtype").is_none())
        {
            return Err(Malformed::new(0, "cmd=singinit authtype=none"));
        }
        let small = |key| line.number(key).and_then(|n| u16::try_from(n).ok());
        let version = small("pmi_version")
            .map(|major| Version { major, minor: small("pmi_subversion").unwrap_or(0) });
        Ok(Self::Hello { version, has_streams: says("stdio", "yes") })
    }

    /// Writes one line.
    ///
    /// # Errors
    ///
    /// [`WriteError::Misuse`] for a name that a line cannot express, [`WriteError::Full`].
    pub fn write(&self, out: &mut [u8]) -> Result<usize, WriteError> {
        let says = |yes| Text::from(if yes { "yes" } else { "no" });
        let line = match *self {
            Self::Hello { version, has_streams } => {
                let mut line = LineWriter::new(out, names::SINGLETON);
                if let Some(Version { major, minor }) = version {
                    line.number("pmi_version", major).number("pmi_subversion", minor);
                    line.pair("stdio", says(has_streams));
                }
                line.pair("authtype", Text::from("none"));
                line
            }
            Self::Info { kvsname } => {
                let mut line = LineWriter::new(out, names::SINGLETON_INFO);
                line.pair("versionok", says(kvsname.is_some())).pair("stdio", says(false));
                if let Some(name) = kvsname {
                    line.word("kvsname", &name);
                }
                line
            }
        };
        line.finish_request()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Recorded between MPICH 4.0.2 and 5.0.2 on one side, hydra 5.0.2 and gforker 5.0.2 on the other.
    #[test]
    fn recorded_lines_are_read() {
        let hello = |version, has_streams| Ok(SingletonGreeting::Hello { version, has_streams });
        let (first, second) = (Some(Version::V1_1), Some(Version::V1_2));
        for (line, read) in [
            ("cmd=singinit authtype=none\n", hello(None, false)),
            (
                "cmd=singinit pmi_version=1 pmi_subversion=1 stdio=no authtype=none\n",
                hello(first, false),
            ),
            (
                "cmd=singinit pmi_version=1 pmi_subversion=1 stdio=yes authtype=none\n",
                hello(first, true),
            ),
            (
                "cmd=singinit pmi_version=1 pmi_subversion=2 stdio=yes authtype=none\n",
                hello(second, true),
            ),
            (
                "cmd=singinit_info versionok=yes stdio=no kvsname=kvs_13554_0_1846055470_n0\n",
                Ok(SingletonGreeting::Info { kvsname: Some("kvs_13554_0_1846055470_n0".into()) }),
            ),
            ("cmd=singinit_info versionok=no\n", Ok(SingletonGreeting::Info { kvsname: None })),
        ] {
            assert_eq!(SingletonGreeting::read(line.as_bytes()), read, "{line}");
        }
        for line in ["cmd=singinit authtype=kerberos\n", "cmd=init\n", "\n", "singinit"] {
            assert!(SingletonGreeting::read(line.as_bytes()).is_err(), "{line}");
        }
    }

    #[test]
    fn messages_that_were_written_are_read_again() {
        for greeting in [
            SingletonGreeting::Hello { version: None, has_streams: false },
            SingletonGreeting::Hello { version: Some(Version::V1_2), has_streams: true },
            SingletonGreeting::Info { kvsname: Some("kvs_7_0".into()) },
            SingletonGreeting::Info { kvsname: None },
        ] {
            let mut out = [0; 96];
            let len = greeting.write(&mut out).unwrap();
            assert_eq!(SingletonGreeting::read(&out[..len]), Ok(greeting));
            assert!(matches!(greeting.write(&mut out[..len - 1]), Err(WriteError::Full(_))));
        }
        let blank = SingletonGreeting::Info { kvsname: Some("a b".into()) };
        assert!(matches!(blank.write(&mut [0; 96]), Err(WriteError::Misuse(_))));
    }
}
