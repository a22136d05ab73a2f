//! Slurm's client library for PMI-2, unmodified. (Its library for PMI-1 has no wire protocol: it connects
//! to Slurm's own daemons, and is a singleton without them.)

use crate::common::{job, run, slurm_program};

// Coverage: W2-46
#[test]
fn keys_attributes_names_threads_and_a_spawn_are_as_slurms_client_expects() {
    let Some(slurm) = slurm_program("slurm") else { return };
    for ranks in [1, 2, 8] {
        let mut command = job(ranks, ["--universe", &ranks.to_string()]);
        let ran = run(command.arg(&slurm)).exits_with(0).says_nothing();
        let mut expected = vec![
            "child 0 of 2: all as expected".to_owned(),
            "child 1 of 2: all as expected".into(),
        ];
        expected.extend((0..ranks).map(|rank| format!("rank {rank} of {ranks}: all as expected")));
        assert_eq!(ran.lines(), expected);
    }
}
