use super::*;
use crate::settings::STARTERS;
use std::process::Command;

fn chosen(settings: &NodeSettings, variables: &[(&str, &str)]) -> Result<Starter, String> {
    Starter::choose(settings, |name| {
        let found = variables.iter().find(|(known, _)| *known == name);
        found.map(|(_, value)| (*value).to_owned())
    })
}

fn lines(starter: &Starter, hosts: &[&str], node: &[&str]) -> Vec<String> {
    let host = |(name, node): (&&str, u32)| StarterHost {
        node,
        name: (*name).to_owned(),
        is_here: *name == "here",
        is_apart: *name == "here",
    };
    let hosts: Vec<StarterHost> = hosts.iter().zip(1..).map(host).collect();
    let node: Vec<String> = node.iter().map(|word| (*word).to_owned()).collect();
    let commands = starter.commands(&hosts, &of_words(&node)).unwrap();
    commands.into_iter().map(|command| command.words.join(" ")).collect()
}

fn of_words(words: &[String]) -> NodeCommand<'_> {
    NodeCommand { words, ..NodeCommand::default() }
}

fn settings(starter: StarterName) -> NodeSettings {
    NodeSettings { starter: Some(starter), ..NodeSettings::default() }
}

#[test]
fn names_of_starters_have_rows() {
    assert_eq!(ROWS.iter().map(|row| row.name).collect::<Vec<_>>(), STARTERS);
}

// Coverage: LSF-2, FLUX-2
#[test]
fn environment_chooses_the_starter_and_an_option_overrides_it() {
    let none = NodeSettings::default();
    let line = |settings: &NodeSettings, variables: &[(&str, &str)]| {
        lines(&chosen(settings, variables).unwrap(), &["a", "b"], &["n"]).join("; ")
    };
    let by_ssh =
        "ssh -T -x -o BatchMode=yes a 'n --name a'; ssh -T -x -o BatchMode=yes b 'n --name b'";
    assert_eq!(line(&none, &[]).replace('\'', ""), by_ssh.replace('\'', ""));
    let by_srun = line(&none, &[("SLURM_JOB_ID", "7")]);
    assert!(by_srun.starts_with("srun --overlap --nodes=2 --ntasks=2"), "{by_srun}");
    for option in ["--nodelist=a,b ", " --no-kill "] {
        assert!(by_srun.contains(option) && by_srun.ends_with(" n"), "{by_srun}");
    }
    assert_eq!(line(&none, &[("FLUX_URI", "x")]), "flux exec -r all n");
    // The machine of the head, where ranks connect, may be outside of the allocation.
    let flux = chosen(&none, &[("FLUX_URI", "x")]).unwrap();
    let direct = ["n --name here", "flux exec -r all n"];
    assert_eq!(lines(&flux, &["a", "here"], &["n"]), direct);
    assert_eq!(lines(&flux, &["here"], &["n"]), direct[..1]);
    let numbered = |host: &str, number| NumberedHost { host: host.to_owned(), number };
    let brokers = |batch| {
        assert_eq!(batch, BatchStarter::Flux);
        vec![numbered("a", 0), numbered("a", 1), numbered("b", 2), numbered("here", 3)]
    };
    let flux = chosen(&none, &[("FLUX_URI", "x")]).unwrap().with_numbers(brokers);
    assert_eq!(lines(&flux, &["b", "a"], &["n"]), ["flux exec -r 2,0 n"]);
    assert_eq!(lines(&flux, &["a", "here"], &["n"]), ["n --name here", "flux exec -r 0 n"]);
    assert_eq!(lines(&flux, &["a", "other"], &["n"]), ["flux exec -r all n"]);
    let ssh = chosen(&none, &[]).unwrap().with_numbers(|_| panic!("ssh has no numbers"));
    assert_eq!(lines(&ssh, &["a"], &["n"]).len(), 1);
    let components = |_| vec![numbered("a", 0), numbered("b", 1), numbered("c", 1)];
    let srun = chosen(&none, &[("SLURM_JOB_ID", "7")]).unwrap().with_numbers(components);
    let by_component = lines(&srun, &["c", "a", "b"], &["n"]);
    for (line, parts) in by_component.iter().zip([
        ["--nodes=1 ", "--nodelist=a ", "--het-group=0 n"],
        ["--nodes=2 ", "--nodelist=c,b ", "--het-group=1 n"],
    ]) {
        assert!(parts.iter().all(|part| line.contains(part)), "{line}");
    }
    assert_eq!(by_component.len(), 2);
    let lsf = [("LSB_MCPU_HOSTS", "a 1 b 1")];
    assert_eq!(line(&none, &lsf), "blaunch a n --name a; blaunch b n --name b");
    assert_eq!(
        line(&settings(StarterName::Row("rsh")), &lsf),
        "rsh a n --name a; rsh b n --name b"
    );
    assert_eq!(line(&settings(StarterName::Local(2)), &lsf), "n --name a; n --name b");
    assert_eq!(line(&settings(StarterName::Manual), &lsf), "");
}

// Coverage: ANY-2, OAR-2
#[test]
fn first_of_several_batch_systems_has_the_starter() {
    let all = BATCH_SYSTEMS.iter().map(|(name, _)| (*name, "1")).collect::<Vec<_>>();
    for (at, program) in
        (0..).zip(["flux", "srun", "ssh", "ssh", "blaunch", "qrsh", "oarsh -T -x a"])
    {
        let starter = chosen(&NodeSettings::default(), &all[at..]).unwrap();
        let line = lines(&starter, &["a"], &["n"]).join("; ");
        assert!(line.starts_with(&format!("{program} ")), "{line}");
        assert_eq!(starter.of_allocation().is_none(), program == "ssh", "{line}");
    }
}

#[test]
fn variables_of_hydra_keep_their_meaning() {
    let line = |variables: &[(&str, &str)]| {
        let starter = chosen(&NodeSettings::default(), variables);
        starter.map(|starter| lines(&starter, &["u@a"], &["n"]).join("; "))
    };
    assert_eq!(line(&[("HYDRA_LAUNCHER", "lsf")]).unwrap(), "blaunch u@a n --name a");
    let operator = [("HYDRA_LAUNCHER_EXTRA_ARGS", "-o ConnectionAttempts=10")];
    assert_eq!(
        line(&operator).unwrap(),
        "ssh -T -x -o BatchMode=yes -o ConnectionAttempts=10 u@a n --name a"
    );
    let own = [("HYDRA_LAUNCHER", "ssh"), ("HYDRA_LAUNCHER_EXEC", "/etc/mpi/kubexec.sh")];
    assert_eq!(line(&own).unwrap(), "/etc/mpi/kubexec.sh u@a n --name a");
    let intel = [("I_MPI_HYDRA_BOOTSTRAP", "rsh"), ("I_MPI_HYDRA_BOOTSTRAP_EXEC", "/x/rsh")];
    assert_eq!(line(&intel).unwrap(), "/x/rsh u@a n --name a");
    assert!(line(&[("HYDRA_LAUNCHER", "persist")]).unwrap_err().contains("HYDRA_LAUNCHER: there"));
    assert!(line(&[("HYDRA_LAUNCHER_EXTRA_ARGS", "'a")]).unwrap_err().contains("quotation mark"));
}

#[test]
fn variables_that_slurm_sets_in_each_job_choose_no_starter() {
    let set = [
        ("SLURM_JOB_ID", "7"),
        ("HYDRA_BOOTSTRAP", "slurm"),
        ("HYDRA_LAUNCHER_EXTRA_ARGS", "--external-launcher"),
        ("I_MPI_HYDRA_BOOTSTRAP", "slurm"),
        ("I_MPI_HYDRA_BOOTSTRAP_EXEC_EXTRA_ARGS", "--external-launcher"),
    ];
    let line = |settings: &NodeSettings, more: &[(&str, &str)]| {
        // The first of equal names counts.
        let starter = chosen(settings, &[more, &set].concat()).unwrap();
        lines(&starter, &["a"], &["n"]).join("; ")
    };
    let (none, ssh) = (NodeSettings::default(), "ssh -T -x -o BatchMode=yes a n --name a");
    let srun = line(&none, &[]);
    assert!(srun.starts_with("srun ") && srun.contains(" --external-launcher "), "{srun}");
    assert_eq!(line(&settings(StarterName::Row(SSH)), &[]), ssh);
    assert_eq!(line(&none, &[("I_MPI_HYDRA_BOOTSTRAP", "ssh")]), ssh);
    assert_eq!(line(&none, &[("PRTE_MCA_plm_ssh_agent", "/x -q")]), "/x -q a n --name a");
    let flux = line(&none, &[("FLUX_URI", "local:///x")]);
    assert!(flux.starts_with("flux ") && !flux.contains("external"), "{flux}");
    // Outside of a job, the user has set it.
    let outside = chosen(&none, &set[1..]).unwrap();
    assert!(lines(&outside, &["a"], &["n"]).join("; ").starts_with("srun "));
}

#[test]
fn options_override_variables_of_hydra_and_these_the_batch_system() {
    let line = |settings: &NodeSettings, variables: &[(&str, &str)]| {
        lines(&chosen(settings, variables).unwrap(), &["a"], &["n"]).join("; ")
    };
    let slurm = ("SLURM_JOB_ID", "7");
    let shell = NodeSettings {
        program: Some("/x/sh".to_owned()),
        arguments: Some("-p '2 2'".to_owned()),
        ..settings(StarterName::Row("rsh"))
    };
    let set = [slurm, ("HYDRA_LAUNCHER", "slurm"), ("HYDRA_LAUNCHER_EXEC", "/y")];
    assert_eq!(line(&shell, &set), "/x/sh -p 2 2 a n --name a");
    let none = NodeSettings::default();
    assert_eq!(line(&none, &[slurm, ("HYDRA_LAUNCHER", "lsf")]), "blaunch a n --name a");
    assert_eq!(line(&none, &[slurm, ("HYDRA_LAUNCHER", "fork")]), "n --name a");
}

#[test]
fn remote_shell_of_open_mpi_is_used() {
    let line = |variables: &[(&str, &str)]| {
        lines(&chosen(&NodeSettings::default(), variables).unwrap(), &["a"], &["n"]).join("; ")
    };
    let agent = ("OMPI_MCA_plm_rsh_agent", "/etc/mpi/kubexec.sh");
    assert_eq!(line(&[agent]), "/etc/mpi/kubexec.sh a n --name a");
    assert_eq!(line(&[("PRTE_MCA_plm_ssh_agent", "/x -q : rsh")]), "/x -q a n --name a");
    let args = ("OMPI_MCA_plm_rsh_args", "-o ConnectionAttempts=10");
    let with_args = "ssh -T -x -o BatchMode=yes -o ConnectionAttempts=10 a n --name a";
    assert_eq!(line(&[args]), with_args);
    // Arguments of a remote shell are none of srun.
    assert!(!line(&[args, ("SLURM_JOB_ID", "7")]).contains("Attempts"));
    let both = [agent, ("HYDRA_LAUNCHER_EXEC", "/etc/own.sh")];
    assert_eq!(line(&both), "/etc/own.sh a n --name a");
}

#[test]
fn template_is_filled_with_words_or_with_one_for_a_shell() {
    let of = |template: &str| Starter::of_template(template);
    let starter = of("kubectl exec -i {host} -- {cmd}").unwrap();
    let words = starter.commands(
        &[StarterHost { node: 1, name: "a".to_owned(), is_here: false, is_apart: false }],
        &of_words(&["/a b/pmi-host".to_owned(), "node".to_owned()]),
    );
    assert_eq!(
        words.unwrap()[0].words,
        ["kubectl", "exec", "-i", "a", "--", "/a b/pmi-host", "node", "--name", "a"]
    );
    let starter = of("sh -c 'exec {cmd}' {host}").unwrap();
    let words = starter.commands(
        &[StarterHost { node: 1, name: "a".to_owned(), is_here: false, is_apart: false }],
        &of_words(&["/a b/pmi-host".to_owned()]),
    );
    assert_eq!(words.unwrap()[0].words, ["sh", "-c", "exec '/a b/pmi-host' --name a", "a"]);
    assert!(of("x {cmd}").unwrap_err().contains("lacks {host}"));
    assert!(of("x {host}").unwrap_err().contains("lacks {cmd}"));
    assert!(of("x 'y").unwrap_err().contains("quotation mark"));
    assert!(of("").is_err());
}

#[test]
fn host_that_could_be_an_option_is_refused_and_this_machine_needs_no_starter() {
    let starter = chosen(&NodeSettings::default(), &[]).unwrap();
    for name in ["-oProxyCommand=x", "", "a b", "a\nb"] {
        let host = StarterHost { node: 1, name: name.to_owned(), is_here: false, is_apart: false };
        assert!(
            starter.commands(&[host], &of_words(&[])).unwrap_err().contains("name of a host"),
            "{name}"
        );
    }
    assert_eq!(lines(&starter, &["here"], &["n"]), ["n --name here"]);
}

#[test]
fn many_hosts_of_ssh_are_started_in_two_levels() {
    let hosts = |count: u32, here: u32| -> Vec<StarterHost> {
        let host = |node| StarterHost {
            node,
            name: format!("h{node}"),
            is_here: node == here,
            is_apart: false,
        };
        (1..=count).map(host).collect()
    };
    let own = |settings: &NodeSettings, hosts: &[StarterHost], fanout| {
        let starter = chosen(settings, &[]).unwrap();
        let commands = starter.commands(hosts, &of_words(&["n".to_owned()])).unwrap();
        let plan = starter.plan(commands, hosts, fanout);
        (plan.own.len(), plan.delegated.len())
    };
    let (ssh, auto) = (NodeSettings::default(), StarterFanout::Auto);
    assert_eq!(own(&ssh, &hosts(127, 0), auto), (127, 0));
    assert_eq!(own(&ssh, &hosts(128, 0), auto), (32, 32));
    // The head starts its own machine.
    assert_eq!(own(&ssh, &hosts(200, 100), auto), (33, 32));
    assert_eq!(own(&ssh, &hosts(128, 0), StarterFanout::All), (128, 0));
    assert_eq!(own(&ssh, &hosts(20, 0), StarterFanout::Hosts(8)), (8, 8));
    // A program of the user may be on this host only, and one call of srun has all hosts.
    let own_program = NodeSettings { program: Some("/x/kubexec.sh".to_owned()), ..ssh };
    assert_eq!(own(&own_program, &hosts(200, 0), auto), (200, 0));
    let srun = settings(StarterName::Row("srun"));
    assert_eq!(own(&srun, &hosts(200, 0), StarterFanout::Hosts(8)), (1, 0));
}

#[test]
fn starter_of_each_host_but_this_one_may_carry_its_connections() {
    let words = ["/p", "node"].map(str::to_owned);
    let relayed = NodeCommand { words: &words, is_relayed: true, ..NodeCommand::default() };
    let host = |node, name: &str, is_here| StarterHost {
        node,
        name: name.to_owned(),
        is_here,
        is_apart: false,
    };
    let hosts = [host(1, "a", false), host(2, "b", true)];
    let starter = Starter::of_template("x {host} {cmd}").unwrap();
    let commands = starter.commands(&hosts, &relayed).unwrap();
    let lines: Vec<String> = commands.iter().map(|command| command.words.join(" ")).collect();
    assert_eq!(lines, ["x a /p node --relayed --name a", "/p node --name b"]);
    assert!(commands[0].is_relayed && !commands[1].is_relayed);
    let staged = NodeCommand { is_staged: true, ..relayed };
    let command = &starter.commands(&hosts, &staged).unwrap()[0];
    let line = command.words.join(" ");
    assert!(command.sends_program && command.is_relayed, "{command:?}");
    assert!(line.starts_with("x a sh -c ") && line.ends_with("node --relayed --name a"), "{line}");
    // One call for all hosts has one output, so that each gets its own.
    let srun = chosen(&settings(StarterName::Row("srun")), &[]).unwrap();
    let commands = srun.commands(&hosts, &relayed).unwrap();
    let lines: Vec<String> = commands.iter().map(|command| command.words.join(" ")).collect();
    assert_eq!((lines.len(), commands[1].nodes.as_slice()), (2, &[2][..]));
    assert!(commands.iter().all(|command| command.is_srun && command.is_relayed));
    for (call, host) in lines.iter().zip(["a", "b"]) {
        assert!(
            call.starts_with("srun ") && call.contains(&format!(" --nodelist={host} ")),
            "{call}"
        );
        assert!(
            call.ends_with(&format!(" --unbuffered /p node --relayed --name {host}")),
            "{call}"
        );
    }
    let flux = chosen(&settings(StarterName::Row("flux")), &[]).unwrap();
    assert!(flux.commands(&hosts, &relayed).unwrap_err().contains("'--node-relay'"));
}

#[test]
fn quoted_command_is_read_by_a_shell_as_its_words() {
    let words = ["/a b/it's", "$HOME", "a\\b", "*", "!x", "\"q\"", "~", "#", "a\nb", "", "ä"];
    let words: Vec<String> = words.into_iter().map(str::to_owned).collect();
    let script = format!("printf '%s\\0' {}", quoted(&words).unwrap());
    let output = Command::new("sh").args(["-c", &script]).output().unwrap();
    let read: Vec<String> = output
        .stdout
        .split(|byte| *byte == 0)
        .map(|word| String::from_utf8(word.to_vec()).unwrap())
        .collect();
    assert_eq!(read[..read.len() - 1], words);
}
