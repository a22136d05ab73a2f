//! The pipe of the tests passes the suite that it helps to test.

use pmi_link::conformance;
use pmi_testkit::pipe::{ALL, GOOD, Pipe, pipe};

#[test]
fn pipe_in_memory_conforms_however_bad_it_is() {
    for rules in ALL {
        conformance::all(|| pipe(rules), || {});
    }
}

#[test]
#[should_panic(expected = "never failed")]
fn link_that_does_not_notice_a_peer_that_is_gone_is_found_out() {
    struct Blind(Pipe);
    impl pmi_link::Link for Blind {
        fn try_read(&mut self, out: &mut [u8]) -> Result<pmi_link::Read, pmi_link::LinkError> {
            self.0.try_read(out)
        }
        fn try_write(&mut self, bytes: &[u8]) -> Result<pmi_link::Wrote, pmi_link::LinkError> {
            Ok(self.0.try_write(bytes).unwrap_or(pmi_link::Wrote::NotNow))
        }
    }
    let connect = || {
        let (near, far) = pipe(GOOD);
        (Blind(near), far)
    };
    conformance::gone_without_reading(connect, || {});
}
