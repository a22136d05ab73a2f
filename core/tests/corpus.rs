//! Replays the corpora of the fuzzers, on every test run and without a fuzzer.
//!
//! Each file of `core/fuzz/corpus` is passed to the function with the name of its directory, which
//! defines the checks. Findings of a fuzzer are added there.

#[allow(unreachable_pub, unused_imports, dead_code, reason = "the library of the fuzzers")]
#[path = "../fuzz/src/lib.rs"]
mod targets;

use std::fs;
use std::path::Path;

#[test]
fn inputs_that_the_fuzzers_collected_do_no_harm() {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/corpus");
    for &(name, target) in targets::TARGETS {
        let mut files: Vec<_> = fs::read_dir(corpus.join(name))
            .expect("a corpus for every target")
            .map(|entry| entry.expect("the directory can be read").path())
            .collect();
        files.sort();
        for file in &files {
            let bytes = fs::read(file).expect("a file");
            let done = std::panic::catch_unwind(|| target(&bytes));
            assert!(done.is_ok(), "{} is harmful", file.display());
        }
        assert!(files.len() >= 10, "{} files for {name}", files.len());
    }
}

#[test]
fn corpora_have_their_targets() {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/corpus");
    for directory in fs::read_dir(corpus).expect("the corpora are part of the crate") {
        let name = directory.expect("the directory can be read").file_name();
        // Without its feature PMIx cannot be read.
        if !cfg!(feature = "pmix") && (name == "decode_pmix" || name == "session_pmix") {
            continue;
        }
        let has_target = targets::TARGETS.iter().any(|(target, _)| name.to_str() == Some(*target));
        assert!(has_target, "no target reads {}", name.display());
    }
}
