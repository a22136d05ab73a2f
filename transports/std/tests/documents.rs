//! The example of README.md for a board: run with a real server, and built in a package with the dependencies that
//! README.md names. `cargo xtask tidy` compares its text with that of README.md.

#[allow(
    unreachable_pub,
    clippy::cast_possible_truncation,
    reason = "README.md shows a function of a library, for up to ten ranks"
)]
#[path = "documents/board.rs"]
mod board;

use std::fs;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::thread;

use pmi_std::{NonBlocking, Stream};
use pmi_testkit::server::unidentified;
use pmi_testkit::{LinkedServer, TestServer};

/// Serves a job of ranks that connect, until all of them have finalized.
fn serve(streams: Vec<Stream>) {
    let server = TestServer::without_sessions(u32::try_from(streams.len()).unwrap());
    let (job, mut server) = (server.job, LinkedServer::new(server));
    for stream in streams {
        server.connect(unidentified(job), NonBlocking::stream(stream).unwrap());
    }
    server.serve_until_closed();
}

#[test]
fn example_for_a_board_exchanges_cards() {
    let (ours, theirs): (Vec<_>, Vec<_>) =
        (0..3).map(|_| UnixStream::pair().unwrap()).map(|(a, b)| (a, Stream::from(b))).unzip();
    let server = thread::spawn(move || serve(theirs));
    let ranks: Vec<_> = (0..)
        .zip(ours)
        .map(|(id, stream)| {
            thread::spawn(move || {
                let mut cards = Vec::new();
                let line = Stream::from(stream);
                let remember = |peer, card: &[u8]| cards.push((peer, card.to_vec()));
                board::exchange_cards(line, id, remember).unwrap();
                cards
            })
        })
        .collect();
    for rank in ranks {
        let expected = (0..3).map(|peer| (peer, b"left-switch,port-3".to_vec()));
        assert_eq!(rank.join().unwrap(), expected.collect::<Vec<_>>());
    }
    server.join().unwrap();
}

/// Builds the example with these dependencies.
fn build(dependencies: &str) -> Output {
    let package = Path::new(env!("CARGO_TARGET_TMPDIR")).join("documents");
    fs::create_dir_all(package.join("src")).unwrap();
    // A workspace of its own, with the versions of this one.
    let manifest = format!(
        "[package]\nname = \"board\"\nedition = \"2024\"\n[workspace]\n{dependencies}\n\
         [profile.dev]\ndebug = false\n"
    );
    fs::write(package.join("Cargo.toml"), manifest).unwrap();
    fs::copy(root().join("Cargo.lock"), package.join("Cargo.lock")).unwrap();
    let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/documents/board.rs");
    let main = format!("#[path = {example:?}]\nmod board;\n{MAIN}");
    fs::write(package.join("src/main.rs"), main).unwrap();
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(["build", "--offline", "--quiet"]).current_dir(&package);
    cargo.env("CARGO_TARGET_DIR", package.join("target")).output().unwrap()
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap().to_owned()
}

/// A program around the example, with a line that is always at its end.
const MAIN: &str = "fn main() {
    let line = embedded_io::Empty;
    std::process::exit(board::exchange_cards(line, 0, |_, _| {}).is_err() as i32);
}

mod embedded_io {
    pub use ::embedded_io::{Error, ErrorType, Read, Write};
    pub struct Empty;
    impl ErrorType for Empty {
        type Error = core::convert::Infallible;
    }
    impl Read for Empty {
        fn read(&mut self, _: &mut [u8]) -> Result<usize, Self::Error> {
            Ok(0)
        }
    }
    impl Write for Empty {
        fn write(&mut self, bytes: &[u8]) -> Result<usize, Self::Error> {
            Ok(bytes.len())
        }
        fn flush(&mut self) -> Result<(), Self::Error> {
            Ok(())
        }
    }
}
";

#[test]
fn example_for_a_board_is_built_with_the_parts_that_readme_names_and_not_with_fewer() {
    let readme = fs::read_to_string(root().join("README.md")).unwrap();
    let (_, rest) = readme.split_once("```toml\n").expect("README.md names the dependencies");
    let (dependencies, _) = rest.split_once("```").unwrap();
    let absolute = format!("path = \"{}/", root().display());
    let dependencies = dependencies.replace("path = \"", &absolute);
    let built = build(&dependencies);
    let errors = String::from_utf8_lossy(&built.stderr);
    assert!(built.status.success(), "{errors}");

    let fewer = dependencies.replace(", features = [\"listen\"]", "");
    assert_ne!(fewer, dependencies);
    let refused = build(&fewer);
    let errors = String::from_utf8_lossy(&refused.stderr);
    assert!(!refused.status.success());
    assert!(errors.contains("`greet` needs the feature `listen` of pmi-core"), "{errors}");
}
