//! Reads the environment of a PMIx client: pure, so that it is tested without one.

use std::ffi::OsStr;
use std::net::SocketAddr;

use pmi_core::wire::pmix::{Family, Format, ranks};

use crate::env::{EnvError, Variables};

/// The address of the PMIx server and the identity of this process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PmixEnvironment {
    /// `PMIX_NAMESPACE`: the name of the job.
    pub nspace: String,
    /// `PMIX_RANK`.
    pub rank: u32,
    /// Address of the server: the part after `;tcp4://` or `;tcp6://` in the first of
    /// `PMIX_SERVER_URI61`, `51`, `41`, `4`, `3` and `21` that is set.
    pub address: SocketAddr,
    /// `PMIX_SECURITY_MODE`: the credential to present; the first supported word of its list.
    pub security: Security,
    /// Encoding of values: the family follows from the name of the address variable, and
    /// `PMIX_BFROP_BUFFER_TYPE` states whether they are described.
    pub format: Format,
}

/// Credential of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Security {
    /// `native`: its user and group.
    Native,
    /// `none`: nothing.
    None,
}

impl PmixEnvironment {
    /// Reads the variables of this process; `None` if it was not started under PMIx.
    ///
    /// # Errors
    ///
    /// As for [`from_variables`](Self::from_variables).
    pub fn of_this_process() -> Result<Option<Self>, EnvError> {
        Self::from_variables(std::env::vars_os())
    }

    /// Decides from names and values; `None` without `PMIX_NAMESPACE`.
    ///
    /// Shape: of two variables with one name the first counts.
    ///
    /// # Errors
    ///
    /// [`EnvError`] for a variable that is missing or invalid.
    pub fn from_variables<K: AsRef<OsStr>, V: AsRef<OsStr>>(
        variables: impl IntoIterator<Item = (K, V)>,
    ) -> Result<Option<Self>, EnvError> {
        let variables = PmixVariables(Variables::new(&NAMES, variables));
        let Some(nspace) = variables.0.text(NSPACE) else { return Ok(None) };
        if nspace.is_empty() || nspace.len() > NSPACE_BYTES_MAX {
            return Err(variables.0.invalid(NSPACE, "a name of 1 to 255 bytes"));
        }
        let rank = variables.needed(RANK)?.trim().parse().ok();
        let rank = rank.filter(|rank| *rank < ranks::LOCAL_PEERS);
        let rank = rank.ok_or_else(|| variables.0.invalid(RANK, "the number of a process"))?;
        let uri = URIS.iter().find(|(name, _)| variables.0.text(name).is_some());
        let &(variable, family) = uri.unwrap_or(&USUAL_URI);
        let address = address_in(variables.needed(variable)?);
        let address = address.ok_or_else(|| {
            variables.0.invalid(variable, "NAME.RANK;tcp4://ADDRESS:PORT, or tcp6 likewise")
        })?;
        Ok(Some(Self {
            nspace: nspace.to_owned(),
            rank,
            address,
            security: variables.security()?,
            format: Format { family, is_described: variables.is_described()? },
        }))
    }
}

/// The variables of PMIx that are set.
struct PmixVariables(Variables);

impl PmixVariables {
    fn needed(&self, variable: &'static str) -> Result<&str, EnvError> {
        self.0.text(variable).ok_or(EnvError::Missing { variable, needed_by: NSPACE })
    }

    fn security(&self) -> Result<Security, EnvError> {
        let Some(list) = self.0.text(SECURITY) else { return Ok(Security::Native) };
        let known = list.split(',').find_map(|word| match word.trim() {
            "native" => Some(Security::Native),
            "none" => Some(Security::None),
            _ => None,
        });
        known.ok_or_else(|| self.0.invalid(SECURITY, "a list with native or none"))
    }

    fn is_described(&self) -> Result<bool, EnvError> {
        match self.0.text(BUFFERS) {
            None | Some("PMIX_BFROP_BUFFER_NON_DESC") => Ok(false),
            Some("PMIX_BFROP_BUFFER_FULLY_DESC") => Ok(true),
            Some(_) => Err(self
                .0
                .invalid(BUFFERS, "PMIX_BFROP_BUFFER_NON_DESC or PMIX_BFROP_BUFFER_FULLY_DESC")),
        }
    }
}

/// The address in `NAME.RANK;tcp4://127.0.0.1:4000`.
pub(super) fn address_in(uri: &str) -> Option<SocketAddr> {
    let (_, place) = uri.trim().split_once(';')?;
    let place = place.strip_prefix("tcp4://").or_else(|| place.strip_prefix("tcp6://"))?;
    place.parse().ok().filter(|address: &SocketAddr| address.port() > 0)
}

/// Newest first; the name determines the encoding that the server expects.
const URIS: [(&str, Family); 6] = [
    ("PMIX_SERVER_URI61", Family::Flex),
    ("PMIX_SERVER_URI51", Family::Flex),
    USUAL_URI,
    ("PMIX_SERVER_URI4", Family::Flex),
    ("PMIX_SERVER_URI3", Family::Fixed),
    ("PMIX_SERVER_URI21", Family::Fixed),
];
/// Variable named in the error if none is set.
const USUAL_URI: (&str, Family) = ("PMIX_SERVER_URI41", Family::Flex);
const NAMES: [&str; 10] = [
    URIS[0].0, URIS[1].0, URIS[2].0, URIS[3].0, URIS[4].0, URIS[5].0, NSPACE, RANK, SECURITY,
    BUFFERS,
];
const NSPACE: &str = "PMIX_NAMESPACE";
const RANK: &str = "PMIX_RANK";
const SECURITY: &str = "PMIX_SECURITY_MODE";
const BUFFERS: &str = "PMIX_BFROP_BUFFER_TYPE";
const NSPACE_BYTES_MAX: usize = 255;

#[cfg(test)]
mod tests {
    use super::*;

    const FOUR: (&str, &str) = ("PMIX_SERVER_URI41", "server.0;tcp4://127.0.0.1:4000");

    fn read(more: &[(&str, &str)]) -> Result<Option<PmixEnvironment>, EnvError> {
        let who = [(NSPACE, "job-1"), (RANK, "3")];
        PmixEnvironment::from_variables(more.iter().copied().chain(who))
    }

    #[test]
    fn process_without_namespace_is_no_pmix_client() {
        let none: [(&str, &str); 2] = [(RANK, "x"), FOUR];
        assert_eq!(PmixEnvironment::from_variables(none), Ok(None));
    }

    #[test]
    fn newest_address_counts_and_selects_the_encoding() {
        let variables = read(&[("PMIX_SERVER_URI3", "old.0;tcp4://127.0.0.1:3"), FOUR]).unwrap();
        let expected = PmixEnvironment {
            nspace: "job-1".into(),
            rank: 3,
            address: "127.0.0.1:4000".parse().unwrap(),
            security: Security::Native,
            format: Format::PLAIN,
        };
        assert_eq!(variables, Some(expected));
        let old = read(&[("PMIX_SERVER_URI21", "a.b.0;tcp6://[::1]:4000")]).unwrap().unwrap();
        assert_eq!(old.address, "[::1]:4000".parse().unwrap());
        assert_eq!(old.format, Format { family: Family::Fixed, is_described: false });
        let described = ("PMIX_BFROP_BUFFER_TYPE", "PMIX_BFROP_BUFFER_FULLY_DESC");
        assert!(read(&[FOUR, described]).unwrap().unwrap().format.is_described);
    }

    #[test]
    fn first_proof_that_is_known_is_taken() {
        for (list, security) in [
            ("native", Security::Native),
            ("munge,native", Security::Native),
            ("none", Security::None),
            ("none,native", Security::None),
        ] {
            assert_eq!(read(&[FOUR, (SECURITY, list)]).unwrap().unwrap().security, security);
        }
    }

    #[test]
    fn invalid_variables_are_reported_with_the_expected_values() {
        let missing = EnvError::Missing { variable: "PMIX_SERVER_URI41", needed_by: NSPACE };
        assert_eq!(read(&[]), Err(missing));
        for (variables, wrong) in [
            (&[(NSPACE, "")][..], NSPACE),
            (&[(RANK, "-1"), FOUR], RANK),
            (&[(RANK, "4294967294"), FOUR], RANK),
            (&[("PMIX_SERVER_URI41", "server.0")], "PMIX_SERVER_URI41"),
            (&[("PMIX_SERVER_URI41", "s.0;usock:/tmp/x")], "PMIX_SERVER_URI41"),
            (&[("PMIX_SERVER_URI41", "s.0;tcp4://127.0.0.1:0")], "PMIX_SERVER_URI41"),
            (&[("PMIX_SERVER_URI4", "s.0;tcp4://localhost")], "PMIX_SERVER_URI4"),
            (&[FOUR, (SECURITY, "munge")], SECURITY),
            (&[FOUR, (BUFFERS, "other")], BUFFERS),
        ] {
            match read(variables) {
                Err(EnvError::Invalid { variable, .. }) => assert_eq!(variable, wrong),
                other => panic!("{variables:?}: {other:?}"),
            }
        }
    }
}
