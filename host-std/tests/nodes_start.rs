//! Start of node servers: every starter that runs here, the table of failures, and what an unauthenticated
//! peer of their port gets.

use crate::common::terminal::on_terminal;
use crate::common::{Running, host, host_path, run, start};
use pmi_host::table::{Host, Table};
use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread::{available_parallelism, sleep};
use std::time::{Duration, Instant};
use tempfile::TempDir;

fn doctor(words: &[&str]) -> Command {
    let mut command = host(["doctor"]);
    for variable in ["SLURM_JOB_ID", "FLUX_URI", "LSB_MCPU_HOSTS", "PE_HOSTFILE", "HYDRA_LAUNCHER"]
    {
        command.env_remove(variable);
    }
    command.args(words);
    command
}

/// A program in a directory of its own.
fn program(name: &str, script: &str) -> (TempDir, PathBuf) {
    let directory = tempfile::tempdir().unwrap();
    let path = program_in(&directory, name, script);
    (directory, path)
}

fn program_in(directory: &TempDir, name: &str, script: &str) -> PathBuf {
    let path = directory.path().join(name);
    fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    path
}

/// Lines of the table of hosts.
fn rows(out: &str) -> Vec<Vec<&str>> {
    out.lines().skip(1).map(|line| line.split_whitespace().collect()).collect()
}

#[test]
fn any_number_of_node_servers_starts_and_ends() {
    // Launchers of others hang at more than 64 hosts.
    for nodes in [1, 2, 5, 6, 65, 129, 257] {
        let ran = run(&mut doctor(&["--starter", &format!("local:{nodes}")]))
            .exits_with(0)
            .says_nothing();
        let mut numbers: Vec<u32> =
            rows(&ran.out).iter().map(|row| row[1].parse().unwrap()).collect();
        numbers.sort_unstable();
        assert_eq!(numbers, (1..=nodes).collect::<Vec<_>>(), "{}", ran.out);
    }
}

#[test]
fn limit_on_open_files_is_raised_for_the_hosts_or_reported() {
    let limited = |limit: &str| {
        let script = format!("ulimit {limit}; exec '{}' doctor --starter local:65", host_path());
        run(Command::new("sh").args(["-c", &script]).env("XDG_CONFIG_HOME", "/nowhere"))
    };
    limited("-Sn 128").exits_with(0).says_nothing();
    // Node servers have the limit of the user.
    let (_directory, starter) = program("starter", "sleep 0.2; ulimit -Sn; exit 9");
    let script = format!(
        "ulimit -Sn 50; exec '{}' doctor --hosts 'n[1-20]' --starter-cmd '{} {{host}} {{cmd}}'",
        host_path(),
        starter.display()
    );
    let ran = run(Command::new("sh").args(["-c", &script]).env("XDG_CONFIG_HOME", "/nowhere"));
    let ran = ran.exits_with(1).says(&[" of 20 hosts"]);
    // On a busy machine some have not ended half a second after the first one.
    let (before, _) = ran.err.split_once(" of 20 hosts").unwrap();
    let ended: usize = before.rsplit(' ').next().unwrap().parse().unwrap();
    let limits = ran.err.lines().filter(|line| line.trim() == "50").count();
    assert!(ended > 0 && limits == ended, "{}", ran.err);
    limited("-n 128").exits_with(1).says(&["65 hosts need", "may have 128", "ulimit -Hn"]);
}

// Coverage: K8S-3
#[test]
fn template_starts_one_node_server_for_each_host() {
    // As `kubectl exec -i POD -- COMMAND`: the container has its own name, which the head does not know.
    let (_directory, kubectl) = program(
        "kubectl",
        "[ \"$1 $2 $4\" = 'exec -i --' ] || exit 64; host=$3; shift 4; echo starting $host; exec \"$@\"",
    );
    let template = format!("'{}' exec -i {{host}} -- {{cmd}}", kubectl.display());
    let mut command = doctor(&["--hosts", "pod-0,pod-1,pod-2", "--starter-cmd", &template]);
    let ran = run(&mut command).exits_with(0).says_nothing();
    let names: Vec<&str> = rows(&ran.out).iter().map(|row| row[0]).collect();
    assert_eq!(names, ["pod-0", "pod-1", "pod-2"]);
    let shell = format!("'{}' exec -i {{host}} -- sh -c 'exec {{cmd}}'", kubectl.display());
    run(&mut doctor(&["--hosts", "a,b", "--starter-cmd", &shell])).exits_with(0);
}

/// Reads the table of a run, with a directory of its own for sockets, until all its `count` hosts are known.
fn hosts_of(running: &Running, runtime: &TempDir, count: usize) -> Vec<Host> {
    let since = Instant::now();
    loop {
        let mut ps = host(["ps", "--json", &running.pid().to_string()]);
        let ran = run(ps.env("XDG_RUNTIME_DIR", runtime.path()));
        let tables: Vec<Table> = serde_json::from_str(&ran.out).unwrap_or_default();
        if let Some(table) = tables.into_iter().find(|table| table.hosts.len() == count) {
            return table.hosts;
        }
        assert!(since.elapsed() < Duration::from_secs(60), "{} {}", ran.out, ran.err);
    }
}

#[test]
fn nodes_tell_the_head_what_they_offer_to_ranks() {
    // The second host may use one of the processors of the head.
    let script = "host=$1; shift; [ $host = a ] && exec \"$@\"\n\
                  all=$(grep Cpus_allowed_list: /proc/self/status | cut -f 2)\n\
                  exec taskset -c \"${all%%[-,]*}\" \"$@\"";
    let (_directory, starter) = program("starter", script);
    let template = format!("'{}' {{host}} {{cmd}}", starter.display());
    let ran = run(&mut doctor(&["--hosts", "a,b", "--starter-cmd", &template])).exits_with(0);
    let rows = rows(&ran.out);
    let own = available_parallelism().unwrap().to_string();
    assert_eq!(["a", &own], [rows[0][0], rows[0][4]], "{}", ran.out);
    assert_eq!(["b", "1"], [rows[1][0], rows[1][4]], "{}", ran.out);
    let [memory, unit] = [rows[1][5], rows[1][6]];
    assert!(memory.parse::<f64>().is_ok_and(|size| size > 0.0) && unit == "GiB", "{}", ran.out);

    let runtime = tempfile::tempdir().unwrap();
    let shown = |options: &[&str], count| {
        let mut command = host(["run", "-n", "2"]);
        command.args(options).args(["sleep", "60"]).env("XDG_RUNTIME_DIR", runtime.path());
        let running = start(&mut command);
        let hosts = hosts_of(&running, &runtime, count);
        running.signal("TERM");
        running.end();
        hosts
    };
    let hosts = shown(&["--hosts", "a,b", "--starter-cmd", &template], 2);
    let [a, b] = &hosts[..] else { panic!("{hosts:?}") };
    assert_eq!((&*a.host, a.parallelism.to_string()), ("a", own));
    assert_eq!((&*b.host, b.parallelism, b.processors.count()), ("b", 1, 1));
    assert!(b.processors.iter().all(|processor| a.processors.contains(processor)));
    let in_domains = |of: &Host| of.numa_nodes.iter().map(|domain| domain.count()).sum::<u64>();
    assert_eq!([in_domains(a), in_domains(b)], [a.processors.count(), 1]);
    assert_eq!(a.memory_bytes, b.memory_bytes);
    // Nodes on one machine, and the one in the process of its run, say the same of it.
    let of_machine = |hosts: Vec<Host>| {
        let hosts = hosts.into_iter().map(|one| Host { host: String::new(), ..one });
        hosts.collect::<Vec<_>>()
    };
    let nodes = of_machine(shown(&["--starter", "local:2"], 2));
    assert_eq!(nodes, [&nodes[..1], &nodes[..1]].concat());
    assert_eq!(of_machine(shown(&[], 1)), nodes[..1]);
    assert_eq!((&nodes[0].processors, nodes[0].memory_bytes), (&a.processors, a.memory_bytes));
}

/// A pod in which the command line of `kubectl exec` runs, and the script of the MPI operator of Kubernetes,
/// which Open MPI, MPICH and Intel MPI call as their remote shell. Standard input reaches a pod with `-i` only.
fn operator(options: &str) -> (TempDir, PathBuf, PathBuf) {
    let (directory, kubectl) = program(
        "kubectl",
        "[ $1 = exec ] || exit 64; shift; [ $1 = -i ] && shift || exec </dev/null\n\
         pod=$1; shift; [ $1 = -- ] || exit 64; shift; POD=$pod exec \"$@\"",
    );
    let script = format!(
        "set -x\nPOD_NAME=$1\nshift\n'{}' exec {options} ${{POD_NAME}} -- /bin/sh -c \"$*\"",
        kubectl.display()
    );
    let agent = program_in(&directory, "kubexec.sh", &script);
    let hosts = agent.with_file_name("hostfile");
    fs::write(&hosts, "job-worker-0 slots=2\njob-worker-1 slots=2\n").unwrap();
    (directory, agent, hosts)
}

// Coverage: K8S-1, K8S-2, K8S-4
#[test]
fn environment_of_the_mpi_operator_of_kubernetes_starts_ranks_in_pods() {
    let (_directory, agent, hosts) = operator("-i");
    for (names, hostfile) in [
        (&["OMPI_MCA_plm_rsh_agent"][..], "OMPI_MCA_orte_default_hostfile"),
        (&["HYDRA_LAUNCHER_EXEC", "HYDRA_LAUNCHER"], "HYDRA_HOST_FILE"),
        (&["I_MPI_HYDRA_BOOTSTRAP_EXEC", "I_MPI_HYDRA_BOOTSTRAP"], "I_MPI_HYDRA_HOST_FILE"),
    ] {
        let mut command = host(["mpiexec", "-l", "-n", "4", "sh", "-c", "echo $PMI_SIZE"]);
        command.env("XDG_CONFIG_HOME", "/nowhere").env(hostfile, &hosts);
        command.env("OMPI_MCA_plm_rsh_args", "").env(names[0], &agent);
        // Pods of a cluster of Slurm within Kubernetes have its variables as well.
        command.env("SLURM_JOB_ID", "7").env("SLURM_JOB_NUM_NODES", "2");
        command.env("SLURM_JOB_NODELIST", "other[1-2]");
        names.get(1).iter().for_each(|name| {
            command.env(name, "rsh");
        });
        let ran = run(&mut command).exits_with(0);
        let mut lines = ran.lines();
        lines.sort_unstable();
        assert_eq!(lines, ["[0] 4", "[1] 4", "[2] 4", "[3] 4"], "{names:?} {}", ran.err);
    }
    // A script of older versions, which does not pass standard input on.
    let (_directory, agent, hosts) = operator("");
    let mut command = host(["mpiexec", "-n", "4", "true"]);
    command.env("XDG_CONFIG_HOME", "/nowhere").env("HYDRA_HOST_FILE", &hosts);
    let ran = run(command.env("HYDRA_LAUNCHER", "rsh").env("HYDRA_LAUNCHER_EXEC", &agent));
    let ran = ran.exits_with(1).says(&["on 2 of 2 hosts"]);
    assert!(ran.err.contains("'kubectl exec -i'"), "{}", ran.err);
}

#[test]
fn nodes_have_as_many_nodes_below_them_as_were_requested() {
    for radix in ["2", "64"] {
        let ran = run(&mut doctor(&["--starter", "local:9", "--tree-radix", radix])).exits_with(0);
        assert_eq!(rows(&ran.out).len(), 9, "{}", ran.out);
    }
    // Hosts of any names are this machine.
    let ran = run(&mut doctor(&["--hosts", "a,b", "--starter", "local"])).exits_with(0);
    let names: Vec<&str> = rows(&ran.out).iter().map(|row| row[0]).collect();
    assert_eq!(names, ["a", "b"]);
}

#[test]
fn remote_shell_of_hydra_is_used_as_hydra_does() {
    // A remote shell joins its words and has a shell read them.
    let (_directory, rsh) =
        program("my rsh", "[ \"$1\" = -v ] || exit 64; shift 2; exec sh -c \"$*\"");
    let mut command = doctor(&["--hosts", "user@a,b"]);
    command.env("HYDRA_LAUNCHER", "rsh").env("HYDRA_LAUNCHER_EXEC", &rsh);
    command.env("HYDRA_LAUNCHER_EXTRA_ARGS", "-v");
    let ran = run(&mut command).exits_with(0);
    let names: Vec<&str> = rows(&ran.out).iter().map(|row| row[0]).collect();
    assert_eq!(names, ["a", "b"]);
}

#[test]
fn srun_starts_all_node_servers_by_one_call() {
    // As `srun --input=all`: one task for each node of the list, and the input for each of them.
    let script = "for word; do case $word in --nodelist=*) list=${word#--nodelist=} ;; esac; done\n\
                  while case $1 in --*) true ;; *) false ;; esac; do shift; done\n\
                  read key\n\
                  for host in $(echo $list | tr , ' '); do\n\
                  echo $key | SLURMD_NODENAME=$host \"$@\" & done; wait";
    let (_directory, srun) = program("srun", script);
    let mut command = doctor(&["--hosts", "n1,n2,n3,n4,n5,n6"]);
    command.env("SLURM_JOB_ID", "1").env("HYDRA_LAUNCHER_EXEC", srun);
    let ran = run(&mut command).exits_with(0);
    assert_eq!(rows(&ran.out).len(), 6, "{}", ran.out);
}

#[test]
fn hosts_that_cannot_be_used_are_listed_with_their_reasons() {
    let script = "case $1 in\n\
                  a) shift; exec \"$@\" ;;\n\
                  b) echo 'b: no route to host' >&2; exit 255 ;;\n\
                  c) kill -9 $$ ;;\nesac";
    let (_directory, starter) = program("starter", script);
    let template = format!("{} {{host}} {{cmd}}", starter.display());
    let ran = run(&mut doctor(&["--hosts", "a,b,c", "--starter-cmd", &template])).exits_with(1);
    let ran =
        ran.says(&["no 'node' server could be started on 2 of 3 hosts", "nothing is left running"]);
    let table: Vec<&str> = ran.err.lines().skip(1).collect();
    let path = starter.display();
    let b = format!("  b  '{path}' exited with 255");
    let c = format!("  c  '{path}' was terminated by signal 9");
    assert_eq!(table, [&b, "     b: no route to host", &c]);
    let ran = run(&mut doctor(&["--hosts", "a", "--starter-cmd", "/no/such/ssh {host} {cmd}"]));
    ran.exits_with(1).says(&["1 of 1 hosts"]);
    let ran = run(&mut doctor(&["--hosts=-oProxyCommand=x", "--starter", "ssh"])).exits_with(2);
    ran.says(&["'-oProxyCommand=x' is not the name of a host"]);
}

#[test]
fn starter_that_drops_standard_input_is_noticed_at_once() {
    let ran =
        run(&mut doctor(&["--hosts", "a", "--starter-cmd", "sh -c '{cmd} </dev/null' {host}"]));
    let ran = ran.exits_with(1);
    assert!(ran.err.contains("standard input has no key of a run"), "{}", ran.err);
}

#[test]
fn missing_program_is_reported_by_its_host() {
    let ran = run(&mut doctor(&["--starter", "local:6", "/no/such/program"])).exits_with(1);
    ran.says(&["the program is missing", "local1, local2", "and 2 others", "the same path"]);
    // A switch takes no word after it.
    run(&mut doctor(&["--starter", "local:2", "--plain", "/bin/sh"])).exits_with(0);
    run(&mut doctor(&["--starter", "local:2", "--plain=false", "/bin/sh"])).exits_with(0);
}

#[test]
fn user_at_a_terminal_sees_how_many_hosts_have_joined() {
    let directory = tempfile::tempdir().unwrap();
    let [starter, released] = ["starter", "released"].map(|name| directory.path().join(name));
    let script = format!(
        "host=$1; shift; while [ $host = c ] && ! [ -e '{}' ]; do sleep 0.02; done; exec \"$@\"",
        released.display()
    );
    fs::write(&starter, script).unwrap();
    let template = format!("sh '{}' {{host}} {{cmd}}", starter.display());
    let mut terminal =
        on_terminal(&["run", "--hosts", "a,b,c", "--starter-cmd", &template, "echo", "ran"]);
    terminal.shows("pmi-host: 2 of 3 hosts have joined the run");
    fs::write(&released, "").unwrap();
    let (code, seen) = terminal.ends();
    assert_eq!((code, seen.matches("ran\r\n").count()), (0, 3), "{seen}");
    // The line is gone before the output.
    let (_, after) = seen.rsplit_once("have joined the run").unwrap();
    assert_eq!(after, "\r\x1b[Kran\r\nran\r\nran\r\n", "{seen:?}");
    // A file gets none.
    let words = ["run", "--hosts", "a,b,c", "--starter-cmd", &template, "true"];
    run(&mut host(words)).exits_with(0).says_nothing();
}

/// Starters begin elsewhere than the launcher, as a login does, and without its variables.
#[test]
fn program_is_checked_as_ranks_would_find_it() {
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join("nodes-check");
    let libraries = directory.join("libraries");
    fs::create_dir_all(&libraries).unwrap();
    let sources = [
        ("own.c", "int own(void) { return 0; }"),
        ("uses.c", "int own(void); int main(void) { return own(); }"),
    ];
    for (name, text) in sources {
        fs::write(directory.join(name), text).unwrap();
    }
    let compile = |words: &str| {
        let mut compiler = Command::new("cc");
        let status = compiler.args(words.split(' ')).current_dir(&directory).status().unwrap();
        assert!(status.success(), "cc {words}");
    };
    compile("-shared -fPIC -o libraries/libown.so own.c");
    compile("-o uses uses.c -Llibraries -lown");
    let starter = "sh -c 'cd / && unset LD_LIBRARY_PATH PATH && exec {cmd}' {host}";
    let check = |program: &str| {
        let mut command = doctor(&["--hosts", "a,b", "--starter-cmd", starter, program]);
        command.current_dir(&directory);
        command
    };
    let missing = run(&mut check("./uses")).exits_with(1);
    missing.says(&["needs libown.so", "on a, b;", "LD_LIBRARY_PATH"]);
    run(check("./uses").env("LD_LIBRARY_PATH", &libraries)).exits_with(0);
    run(&mut check("true")).exits_with(0);
    run(&mut check("./nope")).exits_with(1).says(&["is missing", "on a, b;"]);
    run(&mut check("nope-at-all")).exits_with(1).says(&["'nope-at-all'", "PATH"]);
}

#[test]
fn options_that_contradict_each_other_are_refused() {
    run(&mut doctor(&["--starter", "ssh"])).exits_with(2).says(&["--hosts"]);
    run(&mut doctor(&["--hosts", "a", "--starter", "shh"])).exits_with(2).says(&["ssh, rsh"]);
    let ran = run(&mut doctor(&["--hosts", "a", "--starter-cmd", "kubectl {cmd}"])).exits_with(1);
    ran.says(&["lacks {host}"]);
    let ran =
        run(&mut doctor(&["--starter", "local:1", "--node-interface", "nosuch0"])).exits_with(1);
    ran.says(&["no interface with an address"]);
    run(&mut host(["node", "--to", "nowhere"])).exits_with(2);
}

/// A head that waits for node servers which are started by hand.
struct ManualHead {
    running: Running,
    to: String,
    key: String,
}

impl ManualHead {
    fn start(hosts: &str) -> Self {
        Self::start_with(hosts, &[])
    }

    fn start_with(hosts: &str, options: &[&str]) -> Self {
        let words = ["--hosts", hosts, "--starter", "manual", "--node-interface", "127.0.0.1"];
        let running = start(doctor(&words).args(options));
        running.wait_for_errors("as its standard input\n");
        let text = running.errors();
        let word_after = |mark: &str, end: char| {
            let rest = text.split_once(mark).unwrap().1;
            rest.split(end).next().unwrap().to_owned()
        };
        let to = word_after("--to ", ' ');
        let key = fs::read_to_string(word_after("with the line in '", '\'')).unwrap();
        Self { running, to, key }
    }

    fn connect(&self) -> TcpStream {
        TcpStream::connect(self.to.parse::<SocketAddr>().unwrap()).unwrap()
    }

    /// Starts a node server as the instructions say.
    fn node(&self, name: &str, key: &str) -> Running {
        self.node_with(name, key, &[])
    }

    fn node_with(&self, name: &str, key: &str, options: &[&str]) -> Running {
        let mut node = host(["node", "--to", &self.to, "--name", name]);
        node.args(options);
        let mut running = start(node.stdin(Stdio::piped()));
        running.types(key);
        running
    }
}

/// Waits until the other side has closed the connection, and returns what it sent.
fn to_its_end(mut peer: TcpStream) -> Vec<u8> {
    let mut all = Vec::new();
    // A reset is an end, too.
    let _ = peer.read_to_end(&mut all);
    all
}

#[test]
fn node_servers_that_are_started_by_hand_join_the_run() {
    let head = ManualHead::start("a,b");
    let nodes = ["a", "b"].map(|name| head.node(name, &head.key));
    for node in nodes {
        node.end().exits_with(0);
    }
    let ran = head.running.end().exits_with(0);
    assert_eq!(rows(&ran.out).len(), 2, "{}", ran.out);
}

#[test]
fn peer_without_the_key_is_rejected_and_reported() {
    let head = ManualHead::start("a,b");
    // Another protocol, and a node server of another run.
    let mut garbage = head.connect();
    garbage.write_all(b"GET / HTTP/1.1\r\n\r\n").unwrap();
    assert_eq!(to_its_end(garbage).len(), 38, "the opening, and no proof");
    head.running.wait_for_errors("does not speak the protocol of node servers");
    let other = format!("{}\n", "0".repeat(64));
    let ran = head.node("a", &other).end().exits_with(1);
    assert!(ran.err.contains("the key may be that of another run"), "{}", ran.err);
    head.running.wait_for_errors("does not know the key of this run");
    // Another version, which this side cannot know: the opening has it.
    let mut newer = head.connect();
    newer.write_all(&[&b"\xa8pmn\x7f\xff"[..], &[7; 32]].concat()).unwrap();
    to_its_end(newer);
    head.running.wait_for_errors("speaks version 32767 of the protocol between nodes");
    // A host that is not part of the run, and one that is there already.
    let ran = head.node("c", &head.key).end().exits_with(1);
    ran.says(&["'c' is not one of the hosts of this run"]);
    let first = head.node("a", &head.key);
    let second = loop {
        let ran = head.node("b", &head.key).end();
        if ran.code == 0 {
            break ran;
        }
        assert!(ran.err.contains("joined this run already"), "{}", ran.err);
    };
    second.exits_with(0);
    first.end().exits_with(0);
    head.running.end().exits_with(0);
}

#[test]
fn sides_of_which_one_encrypts_say_so_at_both_ends() {
    let plain = "was started with '--plain', and this side encrypts all messages";
    let encrypted = "encrypts all messages, and this side was started with '--plain'";
    for (of_head, of_node, errors) in
        [(&[][..], &["--plain"][..], [plain, encrypted]), (&["--plain"], &[], [encrypted, plain])]
    {
        let head = ManualHead::start_with("a", of_head);
        let ran = head.node_with("a", &head.key, of_node).end().exits_with(1);
        assert!(ran.err.contains(errors[1]), "{}", ran.err);
        head.running.wait_for_errors(errors[0]);
        head.node_with("a", &head.key, of_head).end().exits_with(0);
        head.running.end().exits_with(0);
    }
}

#[test]
fn flood_of_silent_connections_keeps_no_node_server_out() {
    let head = ManualHead::start("a");
    let flood: Vec<TcpStream> = (0..200).map(|_| head.connect()).collect();
    head.node("a", &head.key).end().exits_with(0);
    let ran = head.running.end().exits_with(0);
    drop(flood);
    let reports = ran.err.lines().filter(|line| line.contains("a connection from")).count();
    assert!((1..=64).contains(&reports), "{reports}: {}", ran.err);
}

#[test]
fn node_servers_end_with_a_head_that_is_killed() {
    let head = ManualHead::start("a,b,c,d,e,f");
    // Children of the head, and one node below them.
    let nodes = ["a", "b", "c", "d", "f"].map(|name| head.node(name, &head.key));
    let address: SocketAddr = head.to.parse().unwrap();
    // The last one leaves the head once it is connected to its parent.
    wait_for_connections(address.port(), 4);
    head.running.signal("KILL");
    for node in nodes {
        let ran = node.end().exits_with(1);
        assert!(ran.err.contains("the head of the run"), "{}", ran.err);
    }
    head.running.end();
}

/// Waits until this many connections to a port are established.
fn wait_for_connections(port: u16, count: usize) {
    let port = format!(":{port:04X}");
    let until = Instant::now() + Duration::from_secs(60);
    while Instant::now() < until {
        let table = fs::read_to_string("/proc/net/tcp").unwrap();
        let is_one = |line: &&str| {
            let words: Vec<&str> = line.split_whitespace().collect();
            words.get(2).is_some_and(|to| to.ends_with(&port)) && words.get(3) == Some(&"01")
        };
        if table.lines().filter(is_one).count() >= count {
            return;
        }
        sleep(Duration::from_millis(5));
    }
    panic!("fewer than {count} connections to the port {port}");
}

#[test]
fn key_is_in_no_argument_and_no_environment() {
    let directory = tempfile::tempdir().unwrap();
    // What the starter hands over, and everything that other users can read of the node server.
    let script = format!(
        "read key; echo \"$key\" > {0}/key; tr '\\0' ' ' < /proc/$$/cmdline > {0}/seen; env >> {0}/seen; \
         echo \"$*\" >> {0}/seen; echo \"$key\" | exec \"$@\"",
        directory.path().display()
    );
    let starter = program_in(&directory, "starter", &script);
    let template = format!("{} {{cmd}} {{host}}", starter.display());
    // The host is a further word, which the node server refuses: all was seen by then.
    run(&mut doctor(&["--hosts", "a", "--starter-cmd", &template])).exits_with(1);
    let key = fs::read_to_string(directory.path().join("key")).unwrap();
    assert_eq!(key.trim_end().len(), 64);
    let seen = fs::read_to_string(directory.path().join("seen")).unwrap();
    assert!(seen.contains("--to 127.") || seen.contains("--to "), "{seen}");
    assert!(!seen.contains(key.trim_end()), "{seen}");
    assert!(seen.contains(host_path()), "the same path on every host: {seen}");
}

#[test]
fn this_machine_is_started_like_others_on_request() {
    let (_directory, starter) = program("remote", "touch \"$0.called\"; exec sh -c \"$2\"");
    let called = starter.with_extension("called");
    for (value, is_called) in [(None, false), (Some("1"), false), (Some("0"), true)] {
        let words = ["--hosts", "localhost", "--starter-exec", starter.to_str().unwrap()];
        let mut command = doctor(&words);
        command.env_remove("HYDRA_LAUNCHER_AUTOFORK");
        command.envs(value.map(|value| ("HYDRA_LAUNCHER_AUTOFORK", value)));
        run(&mut command).exits_with(0).says_nothing();
        assert_eq!(called.exists(), is_called, "{value:?}");
    }
}

#[test]
fn key_that_a_starter_repeats_is_shown_and_stored_nowhere() {
    let directory = tempfile::tempdir().unwrap();
    let at = |name: &str| directory.path().join(name).display().to_string();
    let keep = format!("shift; read key; echo \"$key\" > {}", at("key"));
    let starters = [
        // A terminal at the far end, a shell that takes the key for a command, and half of the key.
        "echo \"$key\"; exit 3".to_owned(),
        "echo \"fish: Unknown command: $key\" >&2; exit 127".to_owned(),
        "echo before; printf '\\033[1m%.20s\\033[0m\\n' \"$key\"; exit 255".to_owned(),
        // The node server runs, and is lost.
        "echo \"$key\"; echo \"$key\" | exec \"$@\"".to_owned(),
    ];
    for (script, words) in starters.iter().zip([Vec::new(), vec!["run"], vec!["run"], vec!["lost"]])
    {
        let starter = program_in(&directory, "starter", &format!("{keep}; {script}"));
        let template = format!("{} {{host}} {{cmd}}", starter.display());
        let mut command = match words.first() {
            None => doctor(&["--hosts", "a"]),
            Some(_) => host(["run", "--hosts", "a,b", "--result", &at("report")]),
        };
        command.args(["--starter-cmd", &template]);
        match words.first() {
            Some(&"lost") => {
                command.args(["sh", "-c", "[ $PMI_RANK = 0 ] && kill -9 $PPID; sleep 30"]);
            }
            Some(_) => {
                command.arg("true");
            }
            None => {}
        }
        let ran = run(&mut command);
        assert_ne!(ran.code, 0, "{}", ran.err);
        let key = fs::read_to_string(at("key")).unwrap();
        let report = fs::read_to_string(at("report")).unwrap_or_default();
        for text in [&ran.out, &ran.err, &report] {
            let shown = key
                .as_bytes()
                .windows(16)
                .any(|piece| text.as_bytes().windows(16).any(|seen| seen == piece));
            assert!(!shown, "{script}: {text}");
        }
        assert!(
            ran.err.contains("a line with the key of the run is left out"),
            "{script}: {}",
            ran.err
        );
        assert_eq!(ran.err.contains("before"), script.contains("before"), "{}", ran.err);
    }
}
