//! Jobs where the system refuses one call, each of about ninety with two errors, or all calls that a sandbox is
//! known to lack: they work by a fallback, or end with a sentence that names the call.

use crate::common::listening::local_rank;
use crate::common::{Ran, c_program, copy_program, host, run, small_host_path};
use nix::libc;
use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, OnceLock};

/// A call by name and number.
struct Call {
    name: &'static str,
    number: libc::c_long,
}

macro_rules! calls {
    ($($name:ident => $number:ident),* $(,)?) => {
        &[$(Call { name: stringify!($name), number: libc::$number }),*]
    };
}

/// What becomes of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    /// It works.
    Works,
    /// A sentence names the call.
    Named,
    /// The same where ranks speak PMI; others work.
    NamedByRanks,
}

/// Calls for which a fallback exists.
const WORK: &[Call] = calls![
    // Handles of processes.
    pidfd_open => SYS_pidfd_open, pidfd_send_signal => SYS_pidfd_send_signal, pidfd_getfd => SYS_pidfd_getfd,
    // New forms of older calls.
    clone3 => SYS_clone3, close_range => SYS_close_range, openat2 => SYS_openat2,
    faccessat2 => SYS_faccessat2, statx => SYS_statx, rseq => SYS_rseq, membarrier => SYS_membarrier,
    memfd_create => SYS_memfd_create, execveat => SYS_execveat, dup3 => SYS_dup3,
    // Sessions and groups.
    setsid => SYS_setsid, getsid => SYS_getsid, setpgid => SYS_setpgid, getpgid => SYS_getpgid,
    // Limits and scheduling.
    prlimit64 => SYS_prlimit64, getrlimit => SYS_getrlimit, setrlimit => SYS_setrlimit,
    sched_setaffinity => SYS_sched_setaffinity, sched_getaffinity => SYS_sched_getaffinity,
    sched_setscheduler => SYS_sched_setscheduler, sched_yield => SYS_sched_yield,
    getpriority => SYS_getpriority, setpriority => SYS_setpriority, ioprio_set => SYS_ioprio_set,
    // Name spaces, and other processes.
    mount => SYS_mount, umount2 => SYS_umount2, unshare => SYS_unshare, setns => SYS_setns,
    ptrace => SYS_ptrace, process_vm_readv => SYS_process_vm_readv, seccomp => SYS_seccomp,
    capget => SYS_capget, capset => SYS_capset, keyctl => SYS_keyctl, prctl => SYS_prctl,
    tkill => SYS_tkill, tgkill => SYS_tgkill, getppid => SYS_getppid,
    // Timers and events.
    timerfd_create => SYS_timerfd_create, timerfd_settime => SYS_timerfd_settime,
    setitimer => SYS_setitimer, inotify_init1 => SYS_inotify_init1, eventfd2 => SYS_eventfd2,
    inotify_add_watch => SYS_inotify_add_watch, io_uring_setup => SYS_io_uring_setup,
    // Files.
    mkdir => SYS_mkdir, mkdirat => SYS_mkdirat, unlink => SYS_unlink, unlinkat => SYS_unlinkat,
    rmdir => SYS_rmdir, rename => SYS_rename, chmod => SYS_chmod, fchmod => SYS_fchmod,
    fchmodat => SYS_fchmodat, ftruncate => SYS_ftruncate, fallocate => SYS_fallocate, flock => SYS_flock,
    getdents64 => SYS_getdents64, readlink => SYS_readlink, readlinkat => SYS_readlinkat,
    access => SYS_access, faccessat => SYS_faccessat, statfs => SYS_statfs, umask => SYS_umask,
    // Streams.
    splice => SYS_splice, sendfile => SYS_sendfile, copy_file_range => SYS_copy_file_range,
    sendmsg => SYS_sendmsg, recvmsg => SYS_recvmsg, getpeername => SYS_getpeername,
    shutdown => SYS_shutdown, connect => SYS_connect, accept4 => SYS_accept4, pwrite64 => SYS_pwrite64,
    // The machine.
    uname => SYS_uname, sysinfo => SYS_sysinfo, getrandom => SYS_getrandom, getrusage => SYS_getrusage,
    landlock_create_ruleset => SYS_landlock_create_ruleset, sigaltstack => SYS_sigaltstack,
];

/// Calls without which there is no job.
const NAMED: &[Call] = calls![
    signalfd4 => SYS_signalfd4, epoll_create1 => SYS_epoll_create1, epoll_ctl => SYS_epoll_ctl,
    epoll_pwait => SYS_epoll_pwait, waitid => SYS_waitid, pipe2 => SYS_pipe2, dup2 => SYS_dup2,
    fcntl => SYS_fcntl, ioctl => SYS_ioctl, clone => SYS_clone, socket => SYS_socket,
    socketpair => SYS_socketpair, bind => SYS_bind, listen => SYS_listen,
    setsockopt => SYS_setsockopt, getsockname => SYS_getsockname,
];

/// Calls without which no client of PMI works.
const NAMED_BY_RANKS: &[Call] =
    calls![getsockopt => SYS_getsockopt, sendto => SYS_sendto, recvfrom => SYS_recvfrom];

const RUN: &[&str] = &["run"];

/// Answers of most filters, and of a kernel that does not have a call.
const ANSWERS: [i32; 2] = [libc::EPERM, libc::ENOSYS];

/// The launcher with `words` where these calls are answered with `error`.
fn ran(error: i32, calls: &[libc::c_long], words: &[&str]) -> Ran {
    let calls: Vec<String> = calls.iter().map(ToString::to_string).collect();
    let command = host(words);
    static DENY: OnceLock<PathBuf> = OnceLock::new();
    let mut denied = Command::new(DENY.get_or_init(|| c_program("deny")));
    denied.args([&error.to_string(), &calls.join(",")]).arg(command.get_program());
    denied.args(command.get_args()).stdin(Stdio::null()).env("XDG_CONFIG_HOME", "/nowhere");
    run(&mut denied)
}

/// Jobs of one test, and the words of the command that runs them.
struct Jobs {
    run: &'static [&'static str],
    /// A word of the ranks that are to be killed.
    mark: String,
}

impl Jobs {
    fn new(run: &'static [&'static str]) -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        Self { run, mark: format!("1000{number}.{}", std::process::id()) }
    }

    /// Script of a job in which rank 1 fails and the other is killed.
    fn failing(&self) -> String {
        format!("[ $PMI_RANK = 1 ] && exit 5; exec sleep {}", self.mark)
    }

    /// What is wrong with jobs where these calls are answered with `error`; `name` is in the sentence.
    fn faults(
        &self,
        name: &str,
        error: i32,
        calls: &[libc::c_long],
        outcome: Outcome,
    ) -> Vec<String> {
        let ran = |error, calls, words: &[&str]| ran(error, calls, &[self.run, words].concat());
        let failing = self.failing();
        let demo = ran(error, calls, &["-n", "2"]);
        let shell = ran(error, calls, &["-n", "2", "sh", "-c", "echo $PMI_RANK"]);
        let failed = ran(error, calls, &["-n", "2", "sh", "-c", &failing]);
        let is_named = |ran: &Ran| {
            let sentence = format!("the system refuses {name} (");
            ran.code != 0 && ran.err.contains(&sentence) && ran.err.contains("has to permit it")
        };
        let mut lines = shell.lines();
        lines.sort_unstable();
        let works = [
            demo.code == 0 && demo.err.is_empty(),
            shell.code == 0 && shell.err.is_empty() && lines == ["0", "1"],
            failed.code == 5
                && failed.err.contains("rank 1 of 2")
                && failed.err.contains("exited with code 5"),
        ];
        let is_right = match outcome {
            Outcome::Works => works == [true; 3],
            Outcome::Named => [&demo, &shell, &failed].into_iter().all(is_named),
            Outcome::NamedByRanks => is_named(&demo) && works[1..] == [true; 2],
        };
        match is_right {
            true => Vec::new(),
            false => {
                vec![format!("{name}, error {error}, {outcome:?}: {demo:?} {shell:?} {failed:?}")]
            }
        }
    }

    /// Checks each of `calls` with both answers, a few at a time.
    #[track_caller]
    fn each(&self, calls: &'static [Call], outcome: Outcome) {
        let cases = calls.iter().flat_map(|call| ANSWERS.map(|error| (call, error)));
        let (cases, wrong) = (Mutex::new(cases), Mutex::new(Vec::new()));
        std::thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    loop {
                        let next = cases.lock().unwrap().next();
                        let Some((call, error)) = next else { return };
                        let found = self.faults(call.name, error, &[call.number], outcome);
                        wrong.lock().unwrap().extend(found);
                    }
                });
            }
        });
        let wrong = wrong.into_inner().unwrap();
        assert!(wrong.is_empty(), "{}", wrong.join("\n"));
        self.leave_nothing();
    }

    /// Checks that no rank that was to be killed is alive.
    #[track_caller]
    fn leave_nothing(&self) {
        let is_marked = |pid: &str| {
            let words = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            String::from_utf8_lossy(&words).contains(&format!("sleep\0{}", self.mark))
        };
        let entries = fs::read_dir("/proc").unwrap();
        let names = entries.filter_map(|entry| entry.unwrap().file_name().into_string().ok());
        let left: Vec<String> = names.filter(|name| is_marked(name)).collect();
        assert!(left.is_empty(), "processes are left: {left:?}");
    }
}

// Coverage: CALL-1, CALL-2, CALL-3, CALL-4, CALL-5, CALL-6, CALL-7, CALL-8, CALL-9, CALL-10
#[test]
fn jobs_run_and_fail_as_always_where_one_call_is_refused() {
    Jobs::new(RUN).each(WORK, Outcome::Works);
}

// Coverage: CALL-11, CALL-12, CALL-13
#[test]
fn call_without_which_there_is_no_job_is_named() {
    Jobs::new(RUN).each(NAMED, Outcome::Named);
}

// Coverage: CALL-14
#[test]
fn call_without_which_no_client_works_is_named_by_ranks() {
    Jobs::new(RUN).each(NAMED_BY_RANKS, Outcome::NamedByRanks);
}

// Coverage: CALL-16
#[test]
fn call_that_node_servers_need_is_named_or_replaced() {
    let local = Jobs::new(&["run", "--starter", "local:2"]);
    let mut wrong = local.faults("setsid", libc::ENOSYS, &[libc::SYS_setsid], Outcome::Works);
    let clone3 = [libc::SYS_clone3];
    wrong.extend(local.faults("clone3", libc::EPERM, &clone3, Outcome::Named));
    let calls: &[Call] = calls![
        socket => SYS_socket, bind => SYS_bind, connect => SYS_connect, readlink => SYS_readlink,
        getrandom => SYS_getrandom, sendto => SYS_sendto, recvfrom => SYS_recvfrom, pipe2 => SYS_pipe2,
    ];
    for call in calls {
        let found = local.faults(call.name, libc::EPERM, &[call.number], Outcome::Named);
        wrong.extend(found);
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    local.leave_nothing();
}

// Coverage: CALL-15
#[test]
fn refusal_of_a_call_that_every_program_needs_ends_the_launcher() {
    for error in ANSWERS {
        let ran = ran(error, &[libc::SYS_poll], &["run", "-n", "2", "true"]);
        assert!(ran.code != 0 && ran.out.is_empty(), "{ran:?}");
    }
}

// Coverage: SANDBOX-1, SANDBOX-2
#[test]
fn jobs_run_and_fail_as_always_without_the_calls_that_a_sandbox_lacks() {
    let jobs = Jobs::new(RUN);
    // gVisor's table for amd64: calls without an implementation.
    let gvisor = [
        libc::SYS_vmsplice,
        libc::SYS_fanotify_init,
        libc::SYS_fanotify_mark,
        libc::SYS_mq_timedsend,
        libc::SYS_mq_timedreceive,
        libc::SYS_mq_notify,
        libc::SYS_mq_getsetattr,
        libc::SYS_userfaultfd,
        libc::SYS_copy_file_range,
        libc::SYS_pkey_mprotect,
        libc::SYS_pkey_alloc,
        libc::SYS_pkey_free,
        libc::SYS_io_uring_register,
        libc::SYS_fspick,
        libc::SYS_process_madvise,
    ];
    let gvisor: Vec<libc::c_long> = gvisor.into_iter().chain([333]).chain(442..=462).collect();
    // WSL 1 has the calls of Linux 4.4, of which mlock2 is the last.
    let wsl: Vec<libc::c_long> = (libc::SYS_mlock2 + 1..=334).chain(424..=462).collect();
    for (name, calls) in [("gVisor", gvisor), ("WSL 1", wsl)] {
        let faults = jobs.faults(name, libc::ENOSYS, &calls, Outcome::Works);
        assert!(faults.is_empty(), "{}", faults.join("\n"));
    }
    jobs.leave_nothing();
}

/// Runs three jobs, each by the command for these words of the launcher.
#[track_caller]
fn three_jobs(command: impl Fn(&[&str]) -> Command) {
    let jobs = Jobs::new(RUN);
    let failing = jobs.failing();
    for (words, code) in [
        (&["run", "-n", "2"][..], 0),
        (&["run", "-n", "2", "sh", "-c", "echo $PMI_RANK"], 0),
        (&["run", "-n", "2", "sh", "-c", &failing], 5),
    ] {
        let mut command = command(words);
        command.stdin(Stdio::null()).env("XDG_CONFIG_HOME", "/nowhere");
        let ran = run(&mut command).exits_with(code);
        if code == 0 {
            let ran = ran.says_nothing();
            assert!(words.len() == 3 || ran.lines().len() == 2, "{command:?}: {ran:?}");
        } else {
            ran.says(&["rank 1 of 2", "exited with code 5"]);
        }
    }
    jobs.leave_nothing();
}

/// Runs the jobs with a script in front, which may use root's rights.
#[track_caller]
fn within(before: &[&str], script: &str) {
    three_jobs(|words| {
        let inner = host(words);
        let mut command = Command::new(before[0]);
        command.args(&before[1..]).args(["sh", "-c", &format!("{script}exec \"$0\" \"$@\"")]);
        command.arg(inner.get_program()).args(inner.get_args());
        command
    });
}

/// Runs the jobs with this container around the launcher, which is `/pmi-host` there, and around ranks.
#[track_caller]
fn within_container(container: &[&str]) {
    let around = |command: &mut Command, words: &[&str]| {
        command.args(&container[1..]).args(words);
        // Charliecloud wants to know it.
        command.env("USER", "nobody");
    };
    three_jobs(|words| {
        let mut command = Command::new(container[0]);
        around(&mut command, &[&["/pmi-host"], words].concat());
        command
    });
    three_jobs(|words| {
        let (own, program) = words.split_at(3);
        let exchange = local_rank();
        let exchange = ["sh", "-c", &exchange];
        let mut command = host(own);
        command.arg(container[0]);
        around(&mut command, if program.is_empty() { &exchange } else { program });
        command
    });
}

/// True if a container can be started; else a note, which in CI is a failure.
fn starts(container: &[&str], remedy: &str) -> bool {
    let mut command = Command::new(container[0]);
    let started = command.args(&container[1..]).arg("/usr/bin/true").env("USER", "nobody").output();
    let is_started = started.is_ok_and(|started| started.status.success());
    assert!(
        is_started || std::env::var_os("CI").is_none(),
        "{container:?} does not start; {remedy}"
    );
    if !is_started {
        eprintln!("skipped: {container:?} does not start; {remedy}");
    }
    is_started
}

/// Words of a container of bubblewrap with nothing but programs and these `options`.
fn bubblewrap<'a>(options: &[&'a str]) -> Vec<&'a str> {
    let launcher = small_host_path().to_str().unwrap();
    let mut words = vec!["bwrap", "--ro-bind", "/usr", "/usr", "--ro-bind", launcher, "/pmi-host"];
    for path in ["/bin", "/lib", "/lib64"] {
        words.extend(["--ro-bind", path, path]);
    }
    words.extend(options);
    words
}

/// An image for Charliecloud and podman: the launcher, and places for the rest of the system.
fn image() -> tempfile::TempDir {
    let image = tempfile::tempdir().unwrap();
    for name in ["dev", "etc", "home", "mnt", "proc", "root", "run", "sys", "tmp", "usr"] {
        fs::create_dir(image.path().join(name)).unwrap();
    }
    for name in ["group", "hosts", "passwd", "resolv.conf"] {
        fs::write(image.path().join("etc").join(name), "").unwrap();
    }
    for name in ["bin", "lib", "lib64", "sbin"] {
        std::os::unix::fs::symlink(format!("usr/{name}"), image.path().join(name)).unwrap();
    }
    copy_program(small_host_path(), image.path().join("pmi-host"), 0o755);
    image
}

/// True for root, who alone can make name spaces everywhere.
fn is_root() -> bool {
    let is_root = rustix::process::getuid().is_root();
    if !is_root {
        assert!(std::env::var_os("CI").is_none(), "CI runs as root");
        eprintln!("skipped: only root can hide parts of the system");
    }
    is_root
}

// Coverage: SANDBOX-3, SANDBOX-4, SANDBOX-5, SANDBOX-6
#[test]
fn jobs_run_and_fail_as_always_without_a_part_of_the_system() {
    if !is_root() {
        return;
    }
    for script in [
        "mount -t tmpfs -o ro none /proc && ",
        "mount -t tmpfs -o ro none /sys && ",
        "mount -t tmpfs -o ro none /dev/shm && ",
        "mount -t tmpfs -o ro none /dev && ",
        // All file systems but that of the processes.
        "mount -t tmpfs -o ro none /dev/shm && mount -t tmpfs -o ro none /run && mount -o remount,bind,ro / && ",
    ] {
        within(&["unshare", "-m"], script);
    }
}

// Coverage: SANDBOX-7
#[test]
fn jobs_run_and_fail_as_always_without_directories_of_their_own_or_an_account() {
    within(&["env", "TMPDIR=/nowhere"], "");
    within(&["env", "-u", "HOME", "-u", "XDG_RUNTIME_DIR"], "");
    within(&["env", "HOME=/nowhere"], "");
    if is_root() {
        within(&["setpriv", "--reuid=54321", "--regid=54321", "--clear-groups"], "");
    }
}

// Coverage: SANDBOX-8
#[test]
fn jobs_run_and_fail_as_always_in_name_spaces() {
    if !is_root() {
        return;
    }
    for options in ["-U", "-Ur", "-n", "-pf", "-pf --mount-proc", "-Urmpfinu --mount-proc"] {
        let options = options.split(' ');
        within(&["unshare"].into_iter().chain(options).collect::<Vec<_>>(), "");
    }
}

// Coverage: SANDBOX-9, SANDBOX-10
#[test]
fn jobs_run_and_fail_as_always_in_bubblewrap() {
    if !starts(&bubblewrap(&[]), "Debian's package bubblewrap brings what is missing") {
        return;
    }
    let system = ["--ro-bind", "/etc", "/etc", "--ro-bind", "/sys", "/sys"];
    let own = ["--proc", "/proc", "--dev", "/dev"];
    for options in [
        // Neither of /dev, /etc, /proc, /sys and /tmp.
        vec![],
        // No /tmp.
        [&system[..], &own].concat(),
        vec!["--unshare-all"],
        [&["--unshare-all", "--die-with-parent", "--tmpfs", "/tmp"][..], &own].concat(),
    ] {
        within_container(&bubblewrap(&options));
    }
}

// Coverage: SANDBOX-11
#[test]
fn jobs_run_and_fail_as_always_in_charliecloud() {
    let image = image();
    let container = ["ch-run", "-b", "/usr:/usr", image.path().to_str().unwrap(), "--"];
    if starts(&container, "Debian's package charliecloud brings what is missing") {
        within_container(&container);
    }
}

// Coverage: SANDBOX-12
#[test]
fn jobs_run_and_fail_as_always_in_podman() {
    let image = image();
    // The system that these tests run on may have lower limits than podman sets.
    let image = image.path().to_str().unwrap();
    let container =
        ["podman", "run", "--rm", "--ulimit", "nofile=1024:1024", "--ulimit", "nproc=1000:1000"];
    let container = [&container[..], &["-v", "/usr:/usr:ro", "--rootfs", image]].concat();
    let started = Command::new("podman").args(&container[1..]).arg("/usr/bin/true").output();
    // No package is required for it: where the tests run in a container, it starts seldom.
    if !started.is_ok_and(|started| started.status.success()) {
        return eprintln!("skipped: podman does not start here");
    }
    three_jobs(|words| {
        let mut command = Command::new("podman");
        command.args(&container[1..]).arg("/pmi-host").args(words);
        command
    });
    // The descriptor of a rank, and no other one, is passed on.
    let rank = format!(
        "exec podman run --preserve-fds=$((PMI_FD - 2)) --env-host {}",
        container[2..].join(" ")
    );
    let rank = format!("{rank} /usr/bin/sh -c '{}'", local_rank().replace('\'', "'\\''"));
    let ran = run(host(["run", "-n", "2", "sh", "-c"]).arg(&rank)).exits_with(0).says_nothing();
    assert_eq!(ran.lines(), ["0: of-1", "1: of-0"]);
}
