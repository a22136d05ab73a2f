//! Servers that break the protocol after a correct start, to test the exit of a guest.

use std::io::{self, BufRead, BufReader, Write};
use std::net::TcpListener;

use pmi_core::client::PMI1_BUFFER_BYTES;

/// Serves a single client as one of them.
pub(crate) fn serve(listener: &TcpListener, fault: &str) -> io::Result<()> {
    let bad = match fault {
        "gone" => String::new(),
        "long" => format!("cmd=get_result rc=0 value={}\n", "v".repeat(PMI1_BUFFER_BYTES)),
        "malformed" => "this is no answer\n".into(),
        _ => return Err(io::Error::other("a fault is one of gone, long, malformed")),
    };
    let (mut stream, _) = listener.accept()?;
    for line in BufReader::new(stream.try_clone()?).lines() {
        let line = line?;
        let words = line.split(' ').next().unwrap_or("");
        match words {
            "cmd=initack" => stream.write_all(INITACK)?,
            "cmd=init" => {
                stream.write_all(b"cmd=response_to_init rc=0 pmi_version=1 pmi_subversion=1\n")?;
            }
            "cmd=get_maxes" => {
                stream
                    .write_all(b"cmd=maxes rc=0 kvsname_max=256 keylen_max=64 vallen_max=1024\n")?;
            }
            "cmd=get_my_kvsname" => stream.write_all(b"cmd=my_kvsname rc=0 kvsname=rogue\n")?,
            "cmd=put" => stream.write_all(b"cmd=put_result rc=0\n")?,
            "cmd=barrier_in" => stream.write_all(b"cmd=barrier_out rc=0\n")?,
            // The first request after a correct start.
            _ if bad.is_empty() => return Ok(()),
            _ => {
                stream.write_all(bad.as_bytes())?;
                // Until the client has disconnected, so that it does not see an early end instead.
                io::copy(&mut stream, &mut io::sink())?;
                return Ok(());
            }
        }
    }
    Ok(())
}

const INITACK: &[u8] =
    b"cmd=initack rc=0 rank=0 size=1 appnum=0\ncmd=set size=1\ncmd=set rank=0\ncmd=set debug=0\n";
