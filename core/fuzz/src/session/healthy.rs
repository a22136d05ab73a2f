//! Requests of the healthy sessions, and the replies that they must get regardless of the others.

use super::world::World;

/// Index of the first healthy session among the links.
pub(super) const AMONG_OTHERS: usize = 7;
pub(super) const ALONE: [usize; 2] = [8, 9];

/// State of the healthy sessions between rounds.
#[derive(Default)]
pub(super) struct Healthy {
    round: u32,
    /// Value that rank 3 of the first job has stored, if there was room.
    stored: Option<u32>,
}

impl World {
    /// Performs requests of every healthy session, and checks the replies.
    pub(super) fn check_healthy(&mut self) {
        self.check_rest();
        let round = self.healthy.round;
        let key = self.secret_word.clone();
        if round == 0 {
            let opens = "cmd=init pmi_version=1 pmi_subversion=1\n";
            let opened = "cmd=response_to_init rc=0 pmi_version=1 pmi_subversion=1\n";
            self.expect(AMONG_OTHERS, opens, opened);
            self.expect(ALONE[0], opens, opened);
            let opened = "cmd=response_to_init rc=0 pmi_version=2 pmi_subversion=0\n";
            self.expect(ALONE[1], "cmd=init pmi_version=2 pmi_subversion=0\n", opened);
        }
        self.check_among_others(&key);
        // One session uses lines and one uses frames, and each reads the values of the other.
        let [lines, frames] = ALONE;
        let put = format!("cmd=put kvsname={key} key=a value={round}\n");
        self.expect(lines, &put, "cmd=put_result rc=0\n");
        self.expect(frames, &frame(&format!("cmd=kvs-put;key=b;value={round};")), PUT);
        self.expect(lines, "cmd=barrier_in\n", "");
        self.expect(frames, &frame("cmd=kvs-fence;thrid=7;"), FENCE);
        assert_eq!(self.received(lines), "cmd=barrier_out rc=0\n");
        let found = format!("cmd=get_result rc=0 value={round}\n");
        self.expect(lines, &format!("cmd=get kvsname={key} key=b\n"), &found);
        let found = frame(&format!("cmd=kvs-get-response;rc=0;found=TRUE;value={round};"));
        self.expect(frames, &frame("cmd=kvs-get;key=a;"), &found);
        self.healthy.round += 1;
    }

    /// The space is shared with the arbitrary sessions, so it may be full, but has no other fault.
    fn check_among_others(&mut self, key: &str) {
        let round = self.healthy.round;
        self.say(AMONG_OTHERS, &format!("cmd=put kvsname=kvs_a key={key} value={round}\n"));
        match self.received(AMONG_OTHERS).as_str() {
            "cmd=put_result rc=0\n" => self.healthy.stored = Some(round),
            "cmd=put_result rc=2 msg=no_room_for_values\n" => {}
            other => panic!("a put is answered with {other:?}"),
        }
        let found = match self.healthy.stored {
            Some(round) => format!("cmd=get_result rc=0 value={round}\n"),
            None => "cmd=get_result rc=4\n".to_owned(),
        };
        self.expect(AMONG_OTHERS, &format!("cmd=get kvsname=kvs_a key={key}\n"), &found);
    }

    fn expect(&mut self, who: usize, says: &str, receives: &str) {
        self.say(who, says);
        assert_eq!(self.received(who), receives, "after {says:?}");
    }
}

fn frame(body: &str) -> String {
    format!("{:6}{body}", body.len())
}

const PUT: &str = "    26cmd=kvs-put-response;rc=0;";
const FENCE: &str = "    36cmd=kvs-fence-response;thrid=7;rc=0;";
