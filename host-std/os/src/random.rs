//! Random bytes of the system, for secrets and names that cannot be guessed.

use rustix::rand::{GetRandomFlags, getrandom};
use std::io;

/// Bytes of the system's random source.
pub fn random<const LEN: usize>() -> io::Result<[u8; LEN]> {
    let mut random = [0; LEN];
    fill(&mut random)?;
    Ok(random)
}

/// Fills a slice with such bytes.
pub fn fill(random: &mut [u8]) -> io::Result<()> {
    let mut len_bytes = 0;
    while len_bytes < random.len() {
        len_bytes += getrandom(&mut random[len_bytes..], GetRandomFlags::empty())?;
    }
    Ok(())
}

/// A token that cannot be guessed, in 32 hexadecimal digits.
pub fn token() -> io::Result<String> {
    Ok(hexadecimal(&random::<16>()?))
}

/// Two digits for each byte.
pub(crate) fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn token_is_long_and_never_the_same() {
        let [one, other] = [(); 2].map(|()| token().unwrap());
        assert_eq!(one.len(), 32);
        assert_ne!(one, other);
    }
}
