//! Secrets: read from a file or generated for the run, and the identities derived from them.

use crate::random::{hexadecimal, random};
use crate::runtime_dir;
use pmi_core::auth::{Challenge, Label, NONCE_DIGITS, Nonce, Secret};
use pmi_host_base::user_file;
use rustix::fs::{FlockOperation, Mode, flock};
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

/// Width of the identity that a PMI-1 client with a secret sends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum IdWidth {
    /// As many bits as the project's own clients read from the field of the wire.
    #[default]
    Bits63,
    /// As many bits as fit an `int`, into which the clients of MPICH and Flux read it.
    Bits31,
}

/// Use of a generated secret, which the name of its file shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SecretUse {
    /// Ranks and pages that connect prove it.
    Ranks,
    /// Node servers that the user starts by hand prove it.
    Nodes,
}

/// A secret generated for the run, in a file of mode 0600 that is removed with it.
#[derive(Debug)]
pub struct GeneratedSecret {
    /// Generated secret.
    pub secret: Secret,
    /// Path of the file.
    pub path: PathBuf,
    /// Secret as the file has it.
    pub text: String,
    /// Open and locked as long as the run lasts.
    _file: File,
}

/// Reads a secret from a file that only its owner may read. A trailing line end does not count.
///
/// # Errors
///
/// A message for the user, with the remedy.
pub fn read_secret(file: &OsStr) -> Result<Secret, String> {
    let shown = file.display();
    let cannot = |error: io::Error| format!("the secret in '{shown}' cannot be read ({error})");
    let opened = user_file::open_secret(Path::new(file), "secret");
    let mut open = opened.map_err(|error| error.to_string())?;
    let mut bytes = Vec::new();
    open.read_to_end(&mut bytes).map_err(cannot)?;
    Secret::new(bytes.trim_ascii_end()).map_err(|_| {
        format!(
            "the secret in '{shown}' must have 16 to 64 bytes; 'head -c 32 /dev/urandom | base64' \
             creates one"
        )
    })
}

/// Identity of `rank`: the first bits of the proof of its decimal digits.
///
/// Wire: `pmiid=`, an unsigned number. The project's own clients read 63 bits, those that read it into an
/// `int` 31.
pub fn identity(secret: &Secret, rank: u32, width: IdWidth) -> u64 {
    let proof = secret.prove(Label::Identity, rank.to_string().as_bytes());
    let digits = match width {
        IdWidth::Bits63 => 16,
        IdWidth::Bits31 => 8,
    };
    let value = proof.as_bytes().iter().take(digits).fold(0, |sum, digit| {
        let digit = char::from(*digit).to_digit(16).unwrap_or_default();
        sum << 4 | u64::from(digit)
    });
    value >> 1
}

/// A new challenge for a peer that must know `secret`, if there is one. With `has_munge` a credential of
/// munge is as good.
pub fn challenge(secret: Option<&Secret>, has_munge: bool) -> io::Result<Option<Challenge>> {
    let Some(secret) = secret else { return Ok(None) };
    let challenge = Challenge::with_mutual(secret, Nonce::new(random::<NONCE_DIGITS>()?));
    Ok(Some(if has_munge { challenge.or_munge() } else { challenge }))
}

impl GeneratedSecret {
    /// Generates a secret, and its file in the directory where launchers of this user have their sockets.
    ///
    /// # Errors
    ///
    /// A message for the user, with the remedy.
    pub fn create(purpose: SecretUse) -> Result<Self, String> {
        let made = runtime_dir::create_in_first(|directory| Self::create_in(directory, purpose));
        made.map_err(|error| match purpose {
            SecretUse::Ranks => format!(
                "no secret can be stored for ranks that connect from other machines ({error}); specify one \
                 with '--secret-file FILE'"
            ),
            SecretUse::Nodes => format!(
                "the key of the run cannot be stored for node servers that are started by hand ({error}); \
                 set XDG_RUNTIME_DIR to a directory of yours"
            ),
        })
    }

    fn create_in(directory: &Path, purpose: SecretUse) -> io::Result<Self> {
        runtime_dir::prepare(directory)?;
        runtime_dir::sweep(directory);
        let text = hexadecimal(&random::<32>()?);
        let secret = Secret::new(text.as_bytes()).map_err(io::Error::other)?;
        let purpose = match purpose {
            SecretUse::Ranks => "ranks",
            SecretUse::Nodes => "nodes",
        };
        let name = runtime_dir::name(std::process::id());
        let end = format!("{purpose}.{}", runtime_dir::SECRET);
        let path = directory.join(name).with_extension(end);
        let mut file = user_file::create_new(&path, Mode::RUSR | Mode::WUSR)?;
        // The lock shows other launchers that it is in use, even from another container.
        let made = flock(&file, FlockOperation::NonBlockingLockExclusive)
            .map_err(io::Error::from)
            .and_then(|()| writeln!(file, "{text}"));
        if let Err(error) = made {
            let _ = fs::remove_file(&path);
            return Err(error);
        }
        Ok(Self { secret, path, text, _file: file })
    }
}

impl Drop for GeneratedSecret {
    fn drop(&mut self) {
        runtime_dir::remove(&self.path);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::MetadataExt;

    #[test]
    fn number_of_a_rank_follows_from_the_secret() {
        let secret = Secret::new(b"correct horse battery staple").unwrap();
        // printf 'pmi-identity\0003' | openssl dgst -sha256 -hmac 'correct horse battery staple'
        assert_eq!(identity(&secret, 3, IdWidth::Bits63), FIRST_SIXTEEN_DIGITS >> 1);
        assert_eq!(identity(&secret, 3, IdWidth::Bits31), FIRST_SIXTEEN_DIGITS >> 33);
        assert_ne!(identity(&secret, 3, IdWidth::Bits63), identity(&secret, 4, IdWidth::Bits63));
    }

    #[test]
    fn secret_that_was_made_is_in_a_file_for_its_owner_and_goes_with_its_run() {
        let parent = tempfile::tempdir().unwrap();
        let directory = parent.path().join("secrets");
        let [one, other] = [SecretUse::Ranks, SecretUse::Nodes]
            .map(|purpose| GeneratedSecret::create_in(&directory, purpose).unwrap());
        assert_ne!(one.text, other.text);
        let ends_with =
            |secret: &GeneratedSecret, end| secret.path.to_str().unwrap().ends_with(end);
        assert!(ends_with(&one, ".ranks.secret") && ends_with(&other, ".nodes.secret"));
        assert_eq!(fs::metadata(&one.path).unwrap().mode() & 0o777, 0o600);
        let read = read_secret(one.path.as_os_str()).unwrap();
        let id = |secret| identity(secret, 0, IdWidth::Bits63);
        assert_eq!(id(&read), id(&one.secret));
        // Left by a launcher that was killed.
        let [left, young] =
            ["1-1", "1-2"].map(|name| directory.join(name).with_extension(runtime_dir::SECRET));
        [&left, &young].into_iter().for_each(|path| fs::write(path, "x").unwrap());
        let hour = std::time::SystemTime::now() - std::time::Duration::from_secs(3600);
        for path in [&left, &one.path] {
            File::options().write(true).open(path).unwrap().set_modified(hour).unwrap();
        }
        runtime_dir::sweep(&directory);
        assert!(one.path.exists() && young.exists() && !left.exists());
        let path = one.path.clone();
        drop((one, other));
        assert!(!path.exists());
    }

    const FIRST_SIXTEEN_DIGITS: u64 = 0x1a92_192e_a3ea_2351;
}
