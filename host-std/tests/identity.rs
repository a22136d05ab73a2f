//! Who is let in: clients in each situation, by each way in. The matrix is that of `docs/SECURITY.md`.

use crate::common::capi::{directory, variant_of};
use crate::common::{copy_program, run, small_host_path};
use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};

/// Ways in: an inherited descriptor, with values in shared memory or without, ports for ranks that are started
/// or connect by themselves, PMIx for ranks and for tools.
const WAYS: [&str; 6] = ["fd", "snapshot", "port", "listen", "pmix", "tool"];

/// Ways in by a connection, at which the kernel names the user.
const CONNECTIONS: &[&str] = &["port", "listen", "pmix", "tool"];

/// Ways in by a descriptor that the client has to inherit.
const INHERITED: &[&str] = &["fd", "snapshot"];

/// User of the launcher, and another one.
const USER: u32 = 54_321;
const OTHER: u32 = 54_322;

/// Situation of a client.
#[derive(Clone, Copy)]
struct Situation {
    name: &'static str,
    /// Command of root around the launcher, in mounts of its own; it ends with `&&`.
    mounts: &'static str,
    /// User of the launcher.
    user: u32,
    /// Command of this user around the launcher.
    around: &'static str,
    /// Command of the rank, with `CLIENT` in it.
    rank: &'static str,
    /// User that has the client from outside of the run, with the environment of the rank.
    outside: Option<u32>,
    /// Directory of the program.
    program: &'static str,
    /// More words of the client.
    words: &'static str,
    /// Ways in by which it is refused.
    refused: &'static [&'static str],
    /// What the launcher says then.
    says: &'static str,
    /// False if a client that is as usual is refused, too.
    admits_others: bool,
}

const USUAL: Situation = Situation {
    name: "as usual",
    mounts: "",
    user: USER,
    around: "",
    rank: "CLIENT",
    outside: None,
    program: "plain",
    words: "",
    refused: &[],
    says: "",
    admits_others: true,
};

/// Another user, who knows all that the rank knows.
const STRANGER: Situation = Situation {
    name: "another user",
    outside: Some(OTHER),
    refused: &WAYS,
    says: "belongs to user 54322, and this job to user 54321",
    ..USUAL
};

const NO_PROC: &str = "mount -t tmpfs none /proc &&";
const HIDDEN: &str = "mount -t proc -o hidepid=2 proc /proc &&";
const NO_NUMBER: &str = "belongs to user 65534, as all users without a number";

/// A terminal multiplexer whose server the rank has started.
const TMUX: &str = "mkfifo OWN/done; \
    tmux -S OWN/tmux -f /dev/null new-session -d 'CLIENT > OWN/out; : > OWN/done'; \
    cat OWN/done OWN/out";

fn situations() -> Vec<Situation> {
    let unknown = Situation { refused: CONNECTIONS, says: NO_NUMBER, ..USUAL };
    vec![
        USUAL,
        Situation { name: "may not be read", program: "unreadable", ..USUAL },
        Situation { name: "has capabilities", program: "capable", ..USUAL },
        Situation { name: "is not dumpable", words: "undumpable", ..USUAL },
        Situation { name: "no /proc", mounts: NO_PROC, ..USUAL },
        Situation { name: "no /proc, daemon", mounts: NO_PROC, words: "daemon", ..USUAL },
        Situation { name: "hidepid=2", mounts: HIDDEN, ..USUAL },
        Situation { name: "hidepid=2, not dumpable", mounts: HIDDEN, words: "undumpable", ..USUAL },
        Situation {
            name: "hidepid=2, daemon",
            mounts: HIDDEN,
            words: "undumpable daemon",
            ..USUAL
        },
        Situation { name: "client in a user name space", rank: "unshare -U CLIENT", ..USUAL },
        Situation { name: "client is root in it", rank: "unshare -Ur CLIENT", ..USUAL },
        Situation { name: "client in a PID name space", rank: "unshare -Urpf CLIENT", ..USUAL },
        Situation { name: "launcher is root in one", around: "unshare -Ur", ..USUAL },
        Situation { name: "launcher without a number", around: "unshare -U", ..USUAL },
        Situation { name: "launcher in a PID name space", around: "unshare -Urpf", ..USUAL },
        Situation { name: "launcher of root in one", user: 0, around: "unshare -pf", ..USUAL },
        Situation {
            name: "the same with its /proc",
            around: "unshare -Urpf --mount-proc",
            ..USUAL
        },
        Situation { name: "daemon", words: "daemon", ..USUAL },
        Situation { name: "daemon, not dumpable", words: "daemon undumpable", ..USUAL },
        // Programs in tmux inherit no descriptors.
        Situation { name: "tmux", rank: TMUX, refused: INHERITED, ..USUAL },
        Situation {
            name: "server that ran before",
            outside: Some(USER),
            refused: INHERITED,
            ..USUAL
        },
        Situation { name: "root by the set-user-ID bit", program: "of-root", ..USUAL },
        Situation {
            name: "another user by this bit",
            program: "of-other",
            refused: CONNECTIONS,
            says: STRANGER.says,
            ..USUAL
        },
        STRANGER,
        Situation { name: "another user, no /proc", mounts: NO_PROC, ..STRANGER },
        Situation { name: "another user, hidepid=2", mounts: HIDDEN, ..STRANGER },
        Situation {
            name: "another user, launcher without a number",
            around: "unshare -U",
            says: NO_NUMBER,
            ..STRANGER
        },
        Situation {
            name: "user that cannot be known",
            mounts: NO_PROC,
            around: "unshare -U",
            admits_others: false,
            ..unknown
        },
    ]
}

/// A directory that every user may enter, with the launcher and the programs.
struct Place(tempfile::TempDir);

impl Place {
    fn new() -> Self {
        let place = Self(tempfile::tempdir().unwrap());
        fs::set_permissions(place.path(), Permissions::from_mode(0o755)).unwrap();
        copy_program(small_host_path(), place.path().join("pmi-host"), 0o755);
        let own = directory().display();
        let flags = format!("-s -I{own}/include {own}/lib/libpmi.a -pthread -ldl -lm");
        let pmi = variant_of("identity", "identity-pmi", &flags);
        let flags = "-s -DPMIX -I/usr/lib/x86_64-linux-gnu/pmix2/include -l:libpmix.so.2";
        let pmix = variant_of("identity", "identity-pmix", flags);
        for (directory, mode, user) in [
            ("plain", 0o755, 0),
            ("unreadable", 0o711, 0),
            ("capable", 0o755, 0),
            ("of-root", 0o4755, 0),
            ("of-other", 0o4755, OTHER),
        ] {
            let directory = place.path().join(directory);
            fs::create_dir(&directory).unwrap();
            for (program, name) in [(&pmi, "pmi"), (&pmix, "pmix")] {
                let copy = directory.join(name);
                copy_program(program, &copy, 0o755);
                chown(&copy, Some(user), None).unwrap();
                fs::set_permissions(&copy, Permissions::from_mode(mode)).unwrap();
                if directory.ends_with("capable") {
                    let set = Command::new("setcap").arg("cap_sys_nice+ep").arg(&copy).status();
                    assert!(set.expect("setcap of libcap2-bin").success());
                }
            }
        }
        place
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    /// A new directory of the user.
    fn own(&self) -> PathBuf {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let own = self.path().join(format!("own-{}", NEXT.fetch_add(1, Ordering::Relaxed)));
        fs::create_dir(&own).unwrap();
        chown(&own, Some(USER), Some(USER)).unwrap();
        own
    }

    /// What is wrong with a client in this situation by one way in.
    fn fault(&self, situation: &Situation, way: &str) -> Option<String> {
        let own = self.own();
        let (here, shown) = (self.path().display(), own.display().to_string());
        let program = if ["pmix", "tool"].contains(&way) { "pmix" } else { "pmi" };
        let client = format!("{here}/{}/{program} {way} {}", situation.program, situation.words);
        let (rank, outside) = match situation.outside {
            None => (situation.rank.replace("CLIENT", &client).replace("OWN", &shown), None),
            Some(user) => {
                let fifos = [own.join("environment"), own.join("answer")];
                assert!(
                    Command::new("mkfifo")
                        .args(["-m", "666"])
                        .args(&fifos)
                        .status()
                        .unwrap()
                        .success()
                );
                let taken = if INHERITED.contains(&way) && user == OTHER { "taken" } else { "" };
                let start = format!(
                    ". {shown}/environment; exec setpriv --reuid={user} --regid={user} --clear-groups {client} {taken} \
                     > {shown}/answer"
                );
                let rank = format!(
                    "{{ export -p; echo \"export RANK_PID=$$\"; }} > {shown}/environment; cat {shown}/answer"
                );
                (rank, Some(Command::new("sh").args(["-c", &start]).spawn().unwrap()))
            }
        };
        let script = format!(
            "export TOOL_URI=$(cat {shown}/uri 2> /dev/null); got=$({rank}); echo \"$got\"
             [ \"$got\" = admitted ] || {here}/plain/{program} {way}
             [ {way}{} != listenfalse ] || kill $PPID",
            situation.admits_others
        );
        let options = match way {
            "port" => "--pmi-port".to_owned(),
            "listen" => "--listen 127.0.0.1:0 --expect 1".to_owned(),
            "tool" => format!("--report-uri {shown}/uri"),
            _ => String::new(),
        };
        let user = situation.user;
        let launcher = format!(
            "{} exec setpriv --reuid={user} --regid={user} --clear-groups {} {here}/pmi-host run {options} -n 1 \
             sh -c \"$0\"",
            situation.mounts, situation.around
        );
        let mut command = Command::new("unshare");
        command.args(["-m", "sh", "-c", &launcher, &script]).stdin(Stdio::null());
        command.env("HOME", &own).env("TMPDIR", &own).env("XDG_RUNTIME_DIR", &own);
        command.env("XDG_CONFIG_HOME", "/nowhere").current_dir("/");
        let ran = run(&mut command);
        if let Some(mut outside) = outside {
            let _ = outside.kill();
            outside.wait().unwrap();
        }
        let is_refused = situation.refused.contains(&way);
        let expected: &[&str] = match (is_refused, situation.admits_others) {
            (false, _) => &["admitted"],
            (true, true) => &["refused", "admitted"],
            (true, false) => &["refused", "refused"],
        };
        let rejections = ran.err.lines().filter(|line| line.contains("it was rejected"));
        let rejections = Vec::from_iter(rejections);
        let is_explained = match is_refused && CONNECTIONS.contains(&way) {
            true => rejections.first().is_some_and(|line| line.contains(situation.says)),
            false => rejections.is_empty(),
        };
        let code = if way == "listen" && !situation.admits_others { 143 } else { 0 };
        let is_right =
            Vec::from_iter(ran.out.lines()) == expected && is_explained && ran.code == code;
        (!is_right).then(|| format!("{}, {way}: {ran:?}", situation.name))
    }
}

// Coverage: IDENTITY-1, IDENTITY-2, IDENTITY-3, IDENTITY-4, IDENTITY-5, IDENTITY-6, IDENTITY-7, IDENTITY-8, IDENTITY-9
// Coverage: IDENTITY-10, IDENTITY-11, IDENTITY-12, IDENTITY-13
#[test]
fn client_is_admitted_by_its_user_and_family_and_another_user_never() {
    if !rustix::process::getuid().is_root() {
        assert!(std::env::var_os("CI").is_none(), "CI runs as root");
        return eprintln!("skipped: only root can run something as another user");
    }
    let place = Place::new();
    let situations = situations();
    let cells = situations.iter().flat_map(|situation| WAYS.map(|way| (situation, way)));
    let (cells, faults) = (Mutex::new(cells), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                loop {
                    let next = cells.lock().unwrap().next();
                    let Some((situation, way)) = next else { return };
                    let fault = place.fault(situation, way);
                    faults.lock().unwrap().extend(fault);
                }
            });
        }
    });
    let faults = faults.into_inner().unwrap();
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}
