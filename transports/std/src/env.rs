//! Reads the environment of a rank: pure, so that it is tested without one.

use std::ffi::OsStr;

use pmi_core::command::Version;
use thiserror::Error;

/// The address of the server and the identity of this process, as far as the launcher has set them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Environment {
    /// Transport to the server.
    pub transport: Transport,
    /// `PMI_RANK`; 0 if it is missing. A server that is reached by TCP sends it again.
    pub rank: u32,
    /// `PMI_SIZE`; 1 if it is missing. A server that is reached by TCP sends it again.
    pub size: u32,
    /// True if `PMI_SPAWNED` states that another job started this one.
    pub spawned: bool,
    /// `PMI_JOBID`: the launcher's id of the job. Only PMI-2 sends it to the server.
    pub job: Option<String>,
    /// Versions to request: that of `PMI_REQUEST_VERSION`, which a user may set. Without it the newest one,
    /// or PMI-1.1 where `PMI_VERSION` of the launcher prefers version 1, where Hydra is the launcher, and
    /// where `PMI_ID` is not the rank, but its proof.
    pub versions: RequestedVersions,
    /// `PMI_SOCKTYPE`: transport security of the connection to a server that is reached by TCP.
    pub sockets: Sockets,
    /// `PMI_TLS_PIN`: the certificate to believe, as 64 hexadecimal digits; with `PMI_SOCKTYPE=OpenSSL`.
    pub pin: Option<String>,
    /// True if `PMI_SNAPSHOT` states that the server shares the values of the job in memory. It needs an
    /// inherited descriptor, and the feature `snapshot`.
    pub snapshot: bool,
}

/// Versions to request from the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestedVersions {
    /// This version, and no other.
    Only(Version),
    /// PMI-2, and PMI-1.1 with a server that refuses it.
    Newest,
}

/// Transport security of a TCP connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Sockets {
    /// Nothing.
    #[default]
    Posix,
    /// TLS.
    Ssl,
}

/// Transport to the server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Transport {
    /// `PMI_FD`: a stream socket that is open already.
    Inherited {
        /// The descriptor.
        fd: i32,
    },
    /// `PMI_PORT` and `PMI_ID`: a TCP address, and the process id to send there.
    Tcp {
        /// A name or an address.
        host: String,
        /// The TCP port.
        port: u16,
        /// The identity to greet with; PMI-2 joins with the rank instead.
        id: u64,
    },
    /// Neither: the program was started by itself, as rank 0 of 1.
    Singleton,
}

/// Error of an inconsistent or invalid environment.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum EnvError {
    /// A variable holds something that it cannot hold.
    #[error("{variable} is {value:?} and should be {expected}")]
    Invalid {
        /// The variable.
        variable: &'static str,
        /// Its value.
        value: String,
        /// The values that it can have.
        expected: &'static str,
    },
    /// A variable is missing that another one needs.
    #[error("{needed_by} is set, but {variable} is not")]
    Missing {
        /// The missing variable.
        variable: &'static str,
        /// The variable that needs it.
        needed_by: &'static str,
    },
}

impl Environment {
    /// Reads the variables of this process.
    ///
    /// # Errors
    ///
    /// As for [`from_variables`](Self::from_variables).
    pub fn of_this_process() -> Result<Self, EnvError> {
        Self::from_variables(std::env::vars_os())
    }

    /// Decides from names and values: `PMI_FD` first, then `PMI_PORT`, then singleton.
    ///
    /// Shape: of two variables with one name the first counts.
    /// Spec: RFC 13, "Environment"; `PMI_PORT` as hydra sets it.
    ///
    /// # Errors
    ///
    /// [`EnvError`] for a variable that is read and is invalid; a singleton reads none.
    pub fn from_variables<K: AsRef<OsStr>, V: AsRef<OsStr>>(
        variables: impl IntoIterator<Item = (K, V)>,
    ) -> Result<Self, EnvError> {
        let variables = Variables::new(&NAMES, variables);
        let transport = variables.transport()?;
        if transport == Transport::Singleton {
            return Ok(Self::new(transport, 0, 1));
        }
        let size = variables.number("PMI_SIZE", "a number from 1", 1..=MOST)?;
        let rank = match (variables.number("PMI_RANK", "a number from 0", 0..=MOST)?, size) {
            (Some(rank), Some(size)) if rank >= size => {
                return Err(variables.invalid("PMI_RANK", "a number below PMI_SIZE"));
            }
            (Some(rank), _) => rank,
            (None, _) => match transport {
                Transport::Tcp { id, .. } => id,
                _ => 0,
            },
        };
        let spawned = variables.text("PMI_SPAWNED").is_some_and(|text| !matches!(text, "" | "0"));
        let job = variables.text("PMI_JOBID").filter(|job| !job.is_empty()).map(str::to_owned);
        let versions = variables.versions(&transport, rank)?;
        let narrow = |number: u64| u32::try_from(number).unwrap_or(u32::MAX);
        let (rank, size) = (narrow(rank), size.map_or(1, narrow));
        let sockets = if let Transport::Tcp { .. } = transport {
            variables.sockets()?
        } else {
            Sockets::Posix
        };
        let pin = variables.text(PIN_VARIABLE).map(|pin| pin.trim().to_owned());
        if sockets == Sockets::Ssl && pin.is_none() {
            return Err(EnvError::Missing { variable: PIN_VARIABLE, needed_by: "PMI_SOCKTYPE" });
        }
        let snapshot = variables.text(SNAPSHOT_VARIABLE).is_some_and(|text| text.trim() == "1");
        let alone = Self::new(transport, rank, size);
        Ok(Self { spawned, job, versions, sockets, pin, snapshot, ..alone })
    }

    /// Decides where a second connection leads: as [`from_variables`](Self::from_variables), but
    /// never to the inherited descriptor, which is in use. A process without a TCP address is a
    /// singleton here.
    ///
    /// # Errors
    ///
    /// As for [`from_variables`](Self::from_variables).
    pub fn second_connection<K: AsRef<OsStr>, V: AsRef<OsStr>>(
        variables: impl IntoIterator<Item = (K, V)>,
    ) -> Result<Self, EnvError> {
        let is_first = |name: &K| name.as_ref() == OsStr::new("PMI_FD");
        Self::from_variables(variables.into_iter().filter(|(name, _)| !is_first(name)))
    }

    /// An environment with these values alone; the newest version is requested.
    pub const fn new(transport: Transport, rank: u32, size: u32) -> Self {
        let (versions, sockets) = (RequestedVersions::Newest, Sockets::Posix);
        let (job, pin) = (None, None);
        Self { transport, rank, size, spawned: false, job, versions, sockets, pin, snapshot: false }
    }
}

/// Some variables of a process that are set, as text.
pub(crate) struct Variables(Vec<(&'static str, String)>);

impl Variables {
    /// Those of `variables` that are among `names`.
    pub(crate) fn new<K: AsRef<OsStr>, V: AsRef<OsStr>>(
        names: &[&'static str],
        variables: impl IntoIterator<Item = (K, V)>,
    ) -> Self {
        let named = |name: &K| names.iter().find(|known| name.as_ref() == OsStr::new(known));
        let text = |value: &V| value.as_ref().to_string_lossy().into_owned();
        let all = variables.into_iter();
        Self(all.filter_map(|(name, value)| Some((*named(&name)?, text(&value)))).collect())
    }

    /// The value of a variable; the first one if it is there twice.
    pub(crate) fn text(&self, name: &str) -> Option<&str> {
        let found = self.0.iter().find(|(known, _)| *known == name);
        found.map(|(_, value)| value.as_str())
    }

    /// The error of a variable with an unexpected value.
    pub(crate) fn invalid(&self, variable: &'static str, expected: &'static str) -> EnvError {
        let value = self.text(variable).unwrap_or_default().to_owned();
        EnvError::Invalid { variable, value, expected }
    }

    /// A decimal number without a sign; `None` if the variable is missing.
    fn number(
        &self,
        name: &'static str,
        expected: &'static str,
        range: std::ops::RangeInclusive<u64>,
    ) -> Result<Option<u64>, EnvError> {
        let Some(text) = self.text(name) else { return Ok(None) };
        // Some launchers pad with blanks; a sign or anything else is not padding.
        let digits = text.trim();
        let plain = digits.bytes().all(|b| b.is_ascii_digit());
        let number = digits.parse().ok().filter(|number| plain && range.contains(number));
        number.map(Some).ok_or_else(|| self.invalid(name, expected))
    }

    fn transport(&self) -> Result<Transport, EnvError> {
        let descriptor = "the number of an open descriptor";
        if let Some(fd) = self.number("PMI_FD", descriptor, 0..=i32::MAX.unsigned_abs().into())? {
            let fd = i32::try_from(fd).map_err(|_| self.invalid("PMI_FD", descriptor))?;
            return Ok(Transport::Inherited { fd });
        }
        let Some(address) = self.text("PMI_PORT") else { return Ok(Transport::Singleton) };
        let (host, port) =
            split_address(address).ok_or_else(|| self.invalid("PMI_PORT", "HOST:PORT"))?;
        let id = self.number("PMI_ID", "a number from 0", 0..=MOST_ID)?;
        let missing = EnvError::Missing { variable: "PMI_ID", needed_by: "PMI_PORT" };
        Ok(Transport::Tcp { host: host.to_owned(), port, id: id.ok_or(missing)? })
    }

    fn sockets(&self) -> Result<Sockets, EnvError> {
        let word = self.text("PMI_SOCKTYPE").unwrap_or_default().trim().to_ascii_lowercase();
        match word.as_str() {
            "" | "posix" => Ok(Sockets::Posix),
            // The document names OpenSSL and means its protocol.
            "ssl" | "openssl" => Ok(Sockets::Ssl),
            _ => Err(self.invalid("PMI_SOCKTYPE", "posix or OpenSSL")),
        }
    }

    /// Spec: RFC 13, "Version Negotiation"; PMI-2 API, `PMI2_Init`, for `PMI_VERSION`.
    fn versions(&self, transport: &Transport, rank: u64) -> Result<RequestedVersions, EnvError> {
        // Such an identity proves the rank in PMI-1. PMI-2 has no field for it, and proves a secret instead.
        let has_identity =
            matches!(transport, Transport::Tcp { id, .. } if *id != rank || *id > MOST);
        Ok(match self.text(VERSION_VARIABLE).unwrap_or_default().trim() {
            "" if has_identity || self.prefers_pmi1() => RequestedVersions::Only(Version::V1_1),
            "1" | "1.1" => RequestedVersions::Only(Version::V1_1),
            "1.2" => RequestedVersions::Only(Version::V1_2),
            "2" | "2.0" => RequestedVersions::Only(Version::V2_0),
            "" | "newest" => RequestedVersions::Newest,
            _ => return Err(self.invalid(VERSION_VARIABLE, "1.1, 1.2, 2 or newest")),
        })
    }

    /// True if the launcher prefers PMI-1, or has it alone without a fault.
    fn prefers_pmi1(&self) -> bool {
        let preferred = self.text("PMI_VERSION").unwrap_or_default().trim();
        preferred == "1" || preferred.starts_with("1.") || self.text(HYDRA).is_some()
    }
}

/// `name:port`, `1.2.3.4:port` or `[::1]:port`.
fn split_address(address: &str) -> Option<(&str, u16)> {
    let (host, port) = address.trim().rsplit_once(':')?;
    let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    let port = port.parse().ok().filter(|port| *port > 0)?;
    if bare.is_empty() { None } else { Some((bare, port)) }
}

/// The variable with the certificate that a rank trusts.
pub const PIN_VARIABLE: &str = "PMI_TLS_PIN";

/// The variable with the version that a user requests.
pub const VERSION_VARIABLE: &str = "PMI_REQUEST_VERSION";

/// The variable by which a launcher offers a snapshot of the values of the job; 1 is the number of its
/// format.
pub const SNAPSHOT_VARIABLE: &str = "PMI_SNAPSHOT";

/// Attribute of a job by which clients recognise a server of this project, which answers every request of the
/// texts; some requests end a session with another server.
pub const SERVER_ATTRIBUTE: &[u8] = b"pmi_server_project";

/// Attribute with the ranks of a job that have failed, which changes with each of them.
pub const DEAD_PROCESSES: &[u8] = b"PMI_dead_processes";

/// Value of [`SERVER_ATTRIBUTE`].
pub const SERVER_PROJECT: &[u8] = b"pmi-std";

/// Set by the launcher of MPICH, Hydra, for its ranks. Its fences of PMI-2 are answered before all ranks have
/// entered, and a get of 256 ranks behind one was seen to block for ever.
const HYDRA: &str = "HYDI_CONTROL_FD";

/// The variables that are read.
const NAMES: [&str; 13] = [
    "PMI_FD",
    "PMI_PORT",
    "PMI_ID",
    "PMI_RANK",
    "PMI_SIZE",
    "PMI_SPAWNED",
    "PMI_JOBID",
    "PMI_SOCKTYPE",
    PIN_VARIABLE,
    "PMI_VERSION",
    VERSION_VARIABLE,
    SNAPSHOT_VARIABLE,
    HYDRA,
];

/// C clients keep ranks and sizes in an `int`.
const MOST: u64 = i32::MAX.unsigned_abs() as u64;

/// An identity that follows from a secret has as many bits as a number of the wire.
const MOST_ID: u64 = i64::MAX.unsigned_abs();

#[cfg(test)]
mod tests {
    use super::*;

    fn read(variables: &[(&str, &str)]) -> Result<Environment, EnvError> {
        Environment::from_variables(variables.iter().copied())
    }

    fn inherited(rank: u32, size: u32, spawned: bool) -> Result<Environment, EnvError> {
        Ok(Environment {
            transport: Transport::Inherited { fd: 7 },
            rank,
            size,
            spawned,
            ..alone()
        })
    }

    fn over_tcp(host: &str, port: u16, id: u64, rank: u32) -> Result<Environment, EnvError> {
        let transport = Transport::Tcp { host: host.into(), port, id };
        let first = RequestedVersions::Only(Version::V1_1);
        let versions = if id == rank.into() { RequestedVersions::Newest } else { first };
        Ok(Environment { transport, rank, versions, ..alone() })
    }

    fn alone() -> Environment {
        Environment::new(Transport::Singleton, 0, 1)
    }

    #[test]
    fn second_connection_is_dialled_beside_an_inherited_descriptor() {
        let both = [("PMI_FD", "7"), ("PMI_PORT", "h:1"), ("PMI_ID", "9"), ("PMI_RANK", "2")];
        let second =
            |variables: &[(&str, &str)]| Environment::second_connection(variables.iter().copied());
        assert_eq!(second(&both), over_tcp("h", 1, 9, 2));
        assert_eq!(second(&both[..1]), Ok(alone()));
        assert!(second(&both[..2]).is_err());
    }

    // Coverage: R13-2
    #[test]
    fn inherited_descriptor_wins_and_what_is_missing_has_a_default() {
        let (fd, port) = (("PMI_FD", "7"), ("PMI_PORT", "invalid"));
        assert_eq!(read(&[fd]), inherited(0, 1, false));
        assert_eq!(read(&[port, fd, ("PMI_ID", "x")]), inherited(0, 1, false));
        assert_eq!(read(&[fd, ("PMI_RANK", "3"), ("PMI_SIZE", "4")]), inherited(3, 4, false));
        assert_eq!(read(&[fd, ("PMI_RANK", "3")]), inherited(3, 1, false));
        assert_eq!(read(&[("PMI_FD", " 7 "), ("PMI_SPAWNED", "1")]), inherited(0, 1, true));
        assert_eq!(read(&[fd, ("PMI_SPAWNED", "0")]), inherited(0, 1, false));
        assert_eq!(read(&[fd, ("PMI_FD", "9")]), inherited(0, 1, false));
    }

    #[test]
    fn address_needs_an_identity() {
        let id = ("PMI_ID", "5");
        assert_eq!(read(&[("PMI_PORT", "node-1:4000"), id]), over_tcp("node-1", 4000, 5, 5));
        assert_eq!(read(&[("PMI_PORT", "[::1]:4000"), id]), over_tcp("::1", 4000, 5, 5));
        // An identity derived from a secret is no rank; the server sends the rank.
        let (most, more) = (i64::MAX.unsigned_abs(), "9223372036854775808");
        let found = read(&[("PMI_PORT", "h:1"), ("PMI_ID", &most.to_string())]);
        assert_eq!(found, over_tcp("h", 1, most, u32::MAX));
        assert!(read(&[("PMI_PORT", "h:1"), ("PMI_ID", more)]).is_err());
        assert_eq!(
            read(&[("PMI_PORT", "10.0.0.1:80"), id, ("PMI_RANK", "2")]),
            over_tcp("10.0.0.1", 80, 5, 2)
        );
        let missing = EnvError::Missing { variable: "PMI_ID", needed_by: "PMI_PORT" };
        assert_eq!(read(&[("PMI_PORT", "h:1")]), Err(missing.clone()));
        assert_eq!(missing.to_string(), "PMI_PORT is set, but PMI_ID is not");
    }

    #[test]
    fn process_without_fd_and_port_is_a_singleton() {
        assert_eq!(read(&[]), Ok(alone()));
        assert_eq!(read(&[("PMI_RANK", "x"), ("PMI_SIZE", "4"), ("HOME", "/")]), Ok(alone()));
        assert_eq!(read(&[(VERSION_VARIABLE, "x"), ("PMI_SOCKTYPE", "x")]), Ok(alone()));
    }

    #[test]
    fn user_selects_the_version_and_a_launcher_the_job() {
        let (fd, only) = (("PMI_FD", "7"), |version| Ok(RequestedVersions::Only(version)));
        for (word, versions) in [
            ("", Ok(RequestedVersions::Newest)),
            ("1", only(Version::V1_1)),
            ("1.1", only(Version::V1_1)),
            ("1.2", only(Version::V1_2)),
            ("2", only(Version::V2_0)),
            (" 2.0 ", only(Version::V2_0)),
            ("newest", Ok(RequestedVersions::Newest)),
        ] {
            assert_eq!(
                read(&[fd, (VERSION_VARIABLE, word)]).map(|variables| variables.versions),
                versions
            );
        }
        let job = |text| read(&[fd, ("PMI_JOBID", text)]).unwrap().job;
        assert_eq!((job("3.0-1"), job("")), (Some("3.0-1".into()), None));
    }

    // Coverage: A2-7, R13-20
    #[test]
    fn newest_version_is_requested_unless_the_launcher_prefers_or_needs_an_older_one() {
        let versions = |more: &[(&str, &str)]| {
            read(&[&[("PMI_FD", "7")], more].concat()).map(|variables| variables.versions)
        };
        let (newest, first) =
            (Ok(RequestedVersions::Newest), Ok(RequestedVersions::Only(Version::V1_1)));
        assert_eq!(versions(&[]), newest);
        let (hydra, chosen) = (("HYDI_CONTROL_FD", "9"), (VERSION_VARIABLE, "2"));
        for (preferred, expected) in
            [("2", &newest), ("3", &newest), ("x", &newest), ("1", &first), ("1.1", &first)]
        {
            assert_eq!(&versions(&[("PMI_VERSION", preferred)]), expected, "{preferred}");
        }
        assert_eq!(versions(&[hydra]), first);
        assert_eq!(versions(&[hydra, ("PMI_VERSION", "2")]), first);
        for (id, expected) in [("3", &newest), ("30", &first)] {
            let dialled = [("PMI_PORT", "h:1"), ("PMI_ID", id), ("PMI_RANK", "3")];
            assert_eq!(&read(&dialled).map(|variables| variables.versions), expected, "{id}");
        }
        // The choice of the user counts everywhere.
        let second = Ok(RequestedVersions::Only(Version::V2_0));
        assert_eq!(versions(&[hydra, chosen]), second);
        assert_eq!(versions(&[chosen, ("PMI_VERSION", "1")]), second);
    }

    // Coverage: W2-12
    #[test]
    fn socket_types_apply_to_tcp_addresses_only() {
        let (port, id) = (("PMI_PORT", "h:1"), ("PMI_ID", "0"));
        for (word, expected) in [
            ("", Sockets::Posix),
            ("POSIX", Sockets::Posix),
            ("posix", Sockets::Posix),
            ("ssl", Sockets::Ssl),
            ("OpenSSL", Sockets::Ssl),
        ] {
            let variables =
                read(&[port, id, ("PMI_SOCKTYPE", word), ("PMI_TLS_PIN", "0f")]).unwrap();
            assert_eq!((variables.sockets, variables.pin.as_deref()), (expected, Some("0f")));
        }
        let missing = EnvError::Missing { variable: "PMI_TLS_PIN", needed_by: "PMI_SOCKTYPE" };
        assert_eq!(read(&[port, id, ("PMI_SOCKTYPE", "ssl")]), Err(missing));
        assert_eq!(read(&[("PMI_FD", "7"), ("PMI_SOCKTYPE", "x")]), inherited(0, 1, false));
    }

    #[test]
    fn invalid_variables_are_reported_with_the_expected_values() {
        let fd = ("PMI_FD", "7");
        for (variables, wrong) in [
            (&[("PMI_FD", "abc")][..], "PMI_FD"),
            (&[("PMI_FD", "")], "PMI_FD"),
            (&[("PMI_FD", "-1")], "PMI_FD"),
            (&[("PMI_FD", "+1")], "PMI_FD"),
            (&[("PMI_FD", "2147483648")], "PMI_FD"),
            (&[("PMI_FD", "99999999999999999999")], "PMI_FD"),
            (&[fd, ("PMI_RANK", "-1")], "PMI_RANK"),
            (&[fd, ("PMI_RANK", "1.5")], "PMI_RANK"),
            (&[fd, ("PMI_RANK", "4"), ("PMI_SIZE", "4")], "PMI_RANK"),
            (&[fd, ("PMI_SIZE", "0")], "PMI_SIZE"),
            (&[fd, ("PMI_SIZE", "many")], "PMI_SIZE"),
            (&[("PMI_PORT", "host"), ("PMI_ID", "0")], "PMI_PORT"),
            (&[("PMI_PORT", ":80"), ("PMI_ID", "0")], "PMI_PORT"),
            (&[("PMI_PORT", "host:0"), ("PMI_ID", "0")], "PMI_PORT"),
            (&[("PMI_PORT", "host:65536"), ("PMI_ID", "0")], "PMI_PORT"),
            (&[("PMI_PORT", "h:1"), ("PMI_ID", "x")], "PMI_ID"),
            (&[("PMI_PORT", "h:1"), ("PMI_ID", "0"), ("PMI_SOCKTYPE", "tls")], "PMI_SOCKTYPE"),
            (&[fd, (VERSION_VARIABLE, "3")], VERSION_VARIABLE),
            (&[fd, (VERSION_VARIABLE, "1.3")], VERSION_VARIABLE),
        ] {
            match read(variables) {
                Err(EnvError::Invalid { variable, .. }) => assert_eq!(variable, wrong),
                other => panic!("{variables:?}: {other:?}"),
            }
        }
        let said = read(&[("PMI_FD", "abc")]).unwrap_err().to_string();
        assert_eq!(said, "PMI_FD is \"abc\" and should be the number of an open descriptor");
    }
}
