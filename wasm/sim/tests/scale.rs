//! A fence costs each rank the same, however many there are.

use pmi_sim::scale::scale;

/// Counted, not timed: a job twice as large must not cost more than twice as much, give or take what
/// tables round up and numbers grow in length.
#[test]
fn cost_of_a_fence_grows_no_faster_than_its_ranks() {
    let costs = [1000, 2000, 4000, 8000].map(|ranks| scale(ranks, 7).unwrap());
    for pair in costs.windows(2) {
        let [small, large] = pair else { unreachable!("windows of two") };
        assert_eq!(large.messages, 2 * small.messages);
        let parts = [
            ("steps", small.steps, large.steps),
            ("bytes", small.bytes, large.bytes),
            ("server memory", small.server_bytes, large.server_bytes),
            ("client memory", small.client_bytes, large.client_bytes),
        ];
        for (what, small, large) in parts {
            assert!(large * 10 <= small * 22, "{what}: {small} then {large}");
        }
    }
    // Twelve messages: six requests, six answers.
    assert_eq!(costs[0].messages, 12 * 1000);
}
