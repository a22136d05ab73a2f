//! Name of this machine.

use nix::sys::utsname::uname;

/// Name of this machine; `localhost` where a sandbox refuses to say it.
pub fn own() -> String {
    match uname() {
        Ok(system) => system.nodename().to_string_lossy().into_owned(),
        Err(_) => "localhost".to_owned(),
    }
}
