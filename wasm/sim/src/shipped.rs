//! The scenarios that come with this crate.

/// Names and texts, in the order in which they are best read.
pub const SHIPPED: &[(&str, &str)] = &[
    ("put-fence-get", include_str!("../scenarios/put-fence-get.txt")),
    ("many-fences", include_str!("../scenarios/many-fences.txt")),
    ("torn-frames", include_str!("../scenarios/torn-frames.txt")),
    ("one-byte", include_str!("../scenarios/one-byte.txt")),
    ("slow-reader", include_str!("../scenarios/slow-reader.txt")),
    ("pipelined", include_str!("../scenarios/pipelined.txt")),
    ("dead-rank", include_str!("../scenarios/dead-rank.txt")),
    ("dead-rank-kill", include_str!("../scenarios/dead-rank-kill.txt")),
    ("leave-early", include_str!("../scenarios/leave-early.txt")),
    ("finalize-early", include_str!("../scenarios/finalize-early.txt")),
    ("hang-up-before-init", include_str!("../scenarios/hang-up-before-init.txt")),
    ("dial-and-die", include_str!("../scenarios/dial-and-die.txt")),
    ("group-fences", include_str!("../scenarios/group-fences.txt")),
    ("group-left", include_str!("../scenarios/group-left.txt")),
    ("put-again", include_str!("../scenarios/put-again.txt")),
    ("garbage", include_str!("../scenarios/garbage.txt")),
    ("nonsense", include_str!("../scenarios/nonsense.txt")),
    ("unread-version", include_str!("../scenarios/unread-version.txt")),
    ("flipped", include_str!("../scenarios/flipped.txt")),
    ("broken-links", include_str!("../scenarios/broken-links.txt")),
    ("stopped", include_str!("../scenarios/stopped.txt")),
    ("dialects", include_str!("../scenarios/dialects.txt")),
    ("pmi2", include_str!("../scenarios/pmi2.txt")),
    ("nobody-left", include_str!("../scenarios/nobody-left.txt")),
    ("pmix", include_str!("../scenarios/pmix.txt")),
    ("pmix-wait", include_str!("../scenarios/pmix-wait.txt")),
    ("pmix-dead", include_str!("../scenarios/pmix-dead.txt")),
    ("pmix-finalize-early", include_str!("../scenarios/pmix-finalize-early.txt")),
    ("pmix-forgotten", include_str!("../scenarios/pmix-forgotten.txt")),
    ("pmix-mixed", include_str!("../scenarios/pmix-mixed.txt")),
    ("pmix-mixed-dead", include_str!("../scenarios/pmix-mixed-dead.txt")),
    ("dialling", include_str!("../scenarios/dialling.txt")),
    ("names", include_str!("../scenarios/names.txt")),
    ("spawn", include_str!("../scenarios/spawn.txt")),
    ("spawn-twice", include_str!("../scenarios/spawn-twice.txt")),
    ("spawner-dies", include_str!("../scenarios/spawner-dies.txt")),
    ("connect", include_str!("../scenarios/connect.txt")),
    ("connect-and-die", include_str!("../scenarios/connect-and-die.txt")),
    ("ring", include_str!("../scenarios/ring.txt")),
    ("ring-broken", include_str!("../scenarios/ring-broken.txt")),
    ("publisher-gone", include_str!("../scenarios/publisher-gone.txt")),
    ("abort", include_str!("../scenarios/abort.txt")),
    ("long-values", include_str!("../scenarios/long-values.txt")),
    ("full-store", include_str!("../scenarios/full-store.txt")),
];

/// The text of a shipped scenario.
pub fn text(name: &str) -> Option<&'static str> {
    SHIPPED.iter().find(|(own, _)| *own == name).map(|(_, text)| *text)
}
