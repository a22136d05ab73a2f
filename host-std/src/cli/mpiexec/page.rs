//! The tables of `docs/switching-options.md`, which are generated from those of options, and the proof of
//! each row: an option yields the same plan as options of `run`, whose own tests show their effects, or a
//! test shows its effect itself.

use super::table::HydraEffect::{OfAllocation, Only, Refused, WithoutEffect};
use super::{FAMILIES, FollowingWords, HydraOption, OWN_LINES, ReadContext};
use crate::cli::args::{self, GivenOption, RunArgs};
use crate::settings::Settings;
use std::ffi::OsString;
use std::fmt::Write;
use std::io;
use std::path::Path;

/// Tables of all launchers but Hydra, whose page compares more.
fn tables() -> String {
    let mut text = String::new();
    for family in FAMILIES[1..].iter().chain(OWN_LINES.iter().map(|(_, family)| family)) {
        let _ = write!(
            text,
            "\n## {}\n\n| option | here | verdict | what to know | test |\n",
            family.name
        );
        text.push_str("| --- | --- | --- | --- | --- |\n");
        for option in family.options {
            let is_own = OWN_LINES.iter().any(|(_, own)| own.name == family.name);
            let is_long = |name: &str| is_own && name.len() > 1;
            let dashes = |name: &str| if is_long(name) { "--" } else { "-" };
            let names = option.names.iter().map(|name| format!("`{}{name}`", dashes(name)));
            let names: Vec<String> = names.collect();
            let (here, note) = match &option.effect {
                Refused(why) | WithoutEffect(why) => ("–".to_owned(), *why),
                Only(..) => ("the default".to_owned(), option.note),
                _ => (quoted(&option.meaning()), option.note),
            };
            let note = if note.is_empty() { option.note } else { note };
            let tests = tests(family.name, option);
            let tests: Vec<String> = tests.iter().map(|test| format!("`{test}`")).collect();
            let _ = writeln!(
                text,
                "| {} | {here} | {} | {note} | {} |",
                names.join(", "),
                verdict(option),
                tests.join(", ")
            );
        }
    }
    text
}

/// `meaning` with its options as code.
fn quoted(meaning: &str) -> String {
    let end = meaning.find([',', ';']).unwrap_or(meaning.len());
    match meaning.starts_with('-') {
        true => format!("`{}`{}", &meaning[..end], &meaning[end..]),
        false => meaning.to_owned(),
    }
}

fn verdict(option: &HydraOption) -> &'static str {
    match &option.effect {
        Refused(_) => "refused",
        Only(..) => "default",
        OfAllocation => "allocation",
        WithoutEffect(_) => "no effect",
        _ if option.note.is_empty() => "same",
        _ => "mapped",
    }
}

#[test]
fn page_has_the_tables_of_options() {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/switching-options.md");
    let page = std::fs::read_to_string(file).unwrap();
    let (text, old) = page.split_once(MARK).expect("a mark in front of the tables");
    let new = tables();
    if std::env::var_os("PMI_HOST_WRITE_PAGES").is_some() {
        std::fs::write(file, format!("{text}{MARK}{new}")).unwrap();
    } else if old != new {
        panic!(
            "docs/switching-options.md is out of date; PMI_HOST_WRITE_PAGES=1 and this test write it"
        );
    }
}

/// Tests that show the effect of an option, without repetition.
fn tests(family: &str, option: &HydraOption) -> Vec<&'static str> {
    let shown = SHOWN.iter().filter(|(launcher, names, _)| {
        *launcher == family && names.split(' ').any(|name| name == option.names[0])
    });
    let mut tests: Vec<&str> = shown.map(|(.., test)| *test).collect();
    match &option.effect {
        Refused(_) => tests.push("page::refused_options_say_why"),
        Only(..) => {
            tests.push("personalities::options_that_describe_this_launcher_change_nothing");
        }
        OfAllocation | WithoutEffect(_) => {
            tests.push("personalities::options_without_effect_are_told_in_one_line");
        }
        _ => {}
    }
    for example in EXAMPLES.iter().filter(|example| example.is_of(family, option)) {
        for own in example.own() {
            let known = OWN.iter().find(|(name, _)| *name == own.option.name);
            tests.extend(known.map(|(_, test)| *test));
        }
    }
    let mut once = Vec::new();
    tests.retain(|test| {
        !once.contains(test) && {
            once.push(*test);
            true
        }
    });
    tests
}

/// A command line of another launcher, and options of `run` that yield the same plan.
struct Example {
    family: &'static str,
    words: &'static str,
    own: &'static str,
}

impl Example {
    /// True if its first option is this one.
    fn is_of(&self, family: &str, option: &HydraOption) -> bool {
        let first = self.words.split([' ', '=']).next().unwrap_or_default();
        self.family == family && option.names.contains(&first.trim_start_matches('-'))
    }

    /// Name of the launcher that reads the words.
    fn launcher(&self) -> &'static str {
        let own = OWN_LINES.iter().find(|(_, family)| family.name == self.family);
        own.map_or("mpirun", |(name, _)| name)
    }

    /// Options of `run` with the same plan.
    fn own(&self) -> Vec<GivenOption> {
        let words = split(self.own);
        let mut parsed = args::parse(words).expect(self.own);
        parsed.parts.drain(..).flat_map(|part| part.given).chain(parsed.given).collect()
    }
}

/// Words of a line, whose quotes keep spaces.
fn split(line: &str) -> Vec<OsString> {
    pmi_host_base::words::split(line).expect(line).into_iter().map(OsString::from).collect()
}

/// Reads words in an environment of the tests.
fn read(launcher: &str, words: &str, has_allocation: bool) -> Result<RunArgs, String> {
    fn file(path: &Path) -> io::Result<String> {
        Ok(match path.to_str() {
            Some("ranks") => "rank 0=node1 slot=0\n",
            Some("tuned") => "-x A=1\n",
            Some("tools") => "env:0\n",
            _ => return Err(io::ErrorKind::NotFound.into()),
        }
        .to_owned())
    }
    let mut variables = vec![("KEPT", "1"), ("SLURM_NTASKS", "7"), ("PATH", "/bin")];
    if has_allocation {
        variables.push(("SLURM_JOB_ID", "7"));
    }
    let variables: Vec<_> =
        variables.into_iter().map(|(name, value)| (name.into(), value.into())).collect();
    let context = ReadContext { name: launcher, variables: &variables, read: file };
    let words = split(words).into_iter().chain(["true".into()]);
    super::parse(words.collect(), &context).map_err(|error| error.to_string())
}

/// Settings of a run of one program, after defaults and all options.
fn plan<'a>(defaults: &'a RunArgs, given: impl IntoIterator<Item = &'a GivenOption>) -> Settings {
    let mut settings = Settings::default();
    for one in defaults.weakest.iter().chain(given) {
        one.apply(&mut settings).unwrap();
    }
    settings
}

/// Words of an option with a value that it accepts, by its kind.
fn with_value(option: &HydraOption, name: &str, value: &str) -> String {
    let dashes = if name.len() > 1 { "--" } else { "-" };
    match option.words {
        FollowingWords::Nothing => format!("{dashes}{name}"),
        FollowingWords::Word => format!("{dashes}{name} '{value}'"),
        FollowingWords::Pair => format!("{dashes}{name} A={value}"),
        FollowingWords::Optional if value.is_empty() => format!("{dashes}{name}"),
        FollowingWords::Optional if name.len() > 1 => format!("{dashes}{name}='{value}'"),
        FollowingWords::Optional => format!("{dashes}{name}'{value}'"),
    }
}

/// All options with the launcher that reads them.
fn everything() -> impl Iterator<Item = (&'static str, &'static str, &'static HydraOption)> {
    let shared = FAMILIES.iter().map(|family| ("mpirun", family));
    let all = shared.chain(OWN_LINES.iter().map(|(name, family)| (*name, family)));
    all.flat_map(|(launcher, family)| {
        family.options.iter().map(move |option| (launcher, family.name, option))
    })
}

#[test]
fn options_yield_the_plan_of_their_equivalents() {
    let mut wrong = Vec::new();
    for example in EXAMPLES {
        let Example { words, own, .. } = example;
        let launcher = example.launcher();
        let read = read(launcher, words, false).unwrap_or_else(|error| panic!("{words}: {error}"));
        let given = read.given.iter().chain(read.parts.iter().flat_map(|part| &part.given));
        let (found, expected) = (plan(&read, given), plan(&read, &example.own()));
        if found != expected {
            wrong.push(format!("{launcher} {words} is not {own}:\n{found:?}\n{expected:?}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn options_with_an_effect_name_tests_that_exist() {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests");
    let mut wrong = Vec::new();
    for (launcher, family, option) in everything().filter(|(_, family, _)| *family != "Hydra") {
        let tests = tests(family, option);
        let name = option.names[0];
        if tests.is_empty() {
            wrong.push(format!("{launcher} {name} names no test"));
        }
        for test in tests {
            let (file, test) = test.split_once("::").expect("a test of a file");
            let file = if ["page", "step_gpus"].contains(&file) {
                Path::new(env!("CARGO_MANIFEST_DIR")).join("src/cli/mpiexec").join(file)
            } else {
                directory.join(file)
            };
            let file = file.with_extension("rs");
            let text = std::fs::read_to_string(&file).unwrap_or_default();
            if !text.lines().any(|line| line.trim() == format!("fn {test}() {{")) {
                wrong.push(format!("{launcher} {name}: {} has no test {test}", file.display()));
            }
        }
    }
    for example in EXAMPLES {
        let is_known = everything().any(|(_, family, option)| example.is_of(family, option));
        assert!(is_known, "{}: no option", example.words);
        for own in example.own() {
            if !OWN.iter().any(|(name, _)| *name == own.option.name) {
                wrong.push(format!("no test for --{}", own.option.name));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn refused_options_say_why() {
    for (launcher, _, option) in everything() {
        let Refused(why) = &option.effect else { continue };
        for name in option.names {
            let error = read(launcher, &with_value(option, name, "1"), true).expect_err(name);
            assert!(error.contains(why) && error.contains(name), "{launcher}: {error}");
        }
    }
}

#[test]
fn values_that_describe_this_launcher_change_no_plan() {
    for (launcher, _, option) in everything() {
        let Only(values, why) = &option.effect else { continue };
        for (name, value) in
            option.names.iter().flat_map(|name| values.iter().map(move |v| (name, v)))
        {
            let given = read(launcher, &with_value(option, name, value), false).expect(name);
            assert!(given.given.is_empty() && given.without_effect.is_empty(), "{name}");
        }
        if option.words != FollowingWords::Nothing {
            let word = with_value(option, option.names[0], "something-else");
            let error = read(launcher, &word, false).expect_err(option.names[0]);
            assert!(error.contains(why), "{error}");
        }
    }
}

#[test]
fn options_without_effect_are_noted() {
    for (launcher, _, option) in everything() {
        let is_of_allocation = matches!(option.effect, OfAllocation);
        if !is_of_allocation && !matches!(option.effect, WithoutEffect(_)) {
            continue;
        }
        for name in option.names {
            for has_allocation in [false, true] {
                let words = with_value(option, name, "1");
                let given = read(launcher, &words, has_allocation).expect(name);
                let noted = usize::from(!(is_of_allocation && has_allocation));
                assert!(given.given.is_empty(), "{name}");
                assert_eq!(given.without_effect.len(), noted, "{launcher} {name}");
            }
        }
    }
    for (words, noted) in [
        ("--map-by socket:span", "':span' of '-map-by socket:span'"),
        ("--map-by socket --rank-by core", "'--rank-by core' with '--map-by socket'"),
        ("--bind-to core:no-overload", "':no-overload'"),
        ("--display map:parseable", "'parseable'"),
        ("--mca plm_base_verbose 5", "the parameter 'plm_base_verbose'"),
        ("--personality intel -genv I_MPI_PIN_DOMAIN platform", "I_MPI_PIN_DOMAIN"),
    ] {
        let given = read("mpirun", words, false).expect(words);
        let [note] = &given.without_effect[..] else { panic!("{words}: {given:?}") };
        assert!(note.contains(noted), "{note}");
    }
    for words in ["-m block:cyclic", "--mem-bind=sort,local", "--gres=license:1"] {
        assert_eq!(read("srun", words, true).expect(words).without_effect.len(), 1, "{words}");
    }
    for words in [
        "--map-by core --rank-by core",
        "--rank-by slot --map-by socket",
        "--bind-to core:overload-allowed",
        "--mca orte_base_help_aggregate 0 --mca btl self,tcp --mca orte_enable_recovery 0",
        "--personality intel -genv I_MPI_PIN_DOMAIN omp",
        "-genv I_MPI_PIN_DOMAIN platform",
    ] {
        assert!(read("mpirun", words, false).expect(words).without_effect.is_empty(), "{words}");
    }
}

#[test]
fn options_are_named_once() {
    for launcher in ["mpiexec"].into_iter().chain(OWN_LINES.map(|(name, _)| name)) {
        let all = super::all(launcher).flat_map(|option| option.names);
        let mut names: Vec<&str> = all.copied().collect();
        let all = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), all, "{launcher}");
    }
}

const MARK: &str = "<!-- tables of options, generated -->\n";

/// Tests of special effects, by launcher and first names of options.
const SHOWN: &[(&str, &str, &str)] = &[
    ("Open MPI", "app", "peer_options::options_have_the_effects_that_they_have_under_open_mpi"),
    ("Open MPI", "app", "command_lines::line_of_a_file_of_words_goes_on_behind_a_backslash"),
    ("Open MPI", "personality", "command_lines::version_begins_with_the_name_of_the_launcher"),
    (
        "Open MPI",
        "personality",
        "personalities::ranks_are_bound_as_by_default_under_other_launchers",
    ),
    ("Open MPI", "V", "command_lines::options_that_show_the_version_agree"),
    ("Open MPI", "do-not-launch", "personalities::previews_start_nothing"),
    ("Open MPI", "rank-by", "page::options_without_effect_are_noted"),
    (
        "Open MPI",
        "use-hwthread-cpus",
        "command_lines::collected_command_lines_run_or_are_refused_with_advice",
    ),
    (
        "Open MPI",
        "default-hostfile",
        "peer_options::options_have_the_effects_that_they_have_under_open_mpi",
    ),
    (
        "Open MPI",
        "mca prtemca",
        "personalities::parameters_of_open_mpi_have_the_effects_of_their_options",
    ),
    ("Open MPI", "rankfile", "command_lines::rank_file_of_a_mapping_places_ranks"),
    ("Open MPI", "xterm", "personalities::terminals_are_started_for_the_ranks_that_are_listed"),
    (
        "Intel MPI and PALS",
        "gtool gtoolfile",
        "command_lines::options_of_open_mpi_have_their_effects",
    ),
    ("Slurm", "mpi", "command_lines::collected_command_lines_run_or_are_refused_with_advice"),
    ("Slurm", "multi-prog", "command_lines::options_of_srun_have_their_effects"),
    (
        "Slurm",
        "gpus-per-task gpus gpus-per-node gres gpu-bind ntasks-per-gpu tres-per-task tres-bind",
        "placement_spellings::options_of_other_launchers_assign_gpus",
    ),
    (
        "Slurm",
        "gpus-per-task gres gpu-bind",
        "placement_spellings::hosts_without_gpus_are_treated_as_by_the_owners_of_options",
    ),
    (
        "Slurm",
        "gpus-per-task gpus-per-node gres gpu-bind ntasks-per-gpu cpus-per-gpu",
        "nodes_slurm::ranks_of_a_step_have_the_gpus_that_srun_gives_them",
    ),
    (
        "Slurm",
        "gpus-per-socket cpus-per-gpu",
        "step_gpus::words_about_the_gpus_of_a_step_have_one_effect_together",
    ),
    (
        "Slurm",
        "cpus-per-gpu hint",
        "placement_spellings::ranks_are_bound_near_the_gpus_that_other_launchers_name",
    ),
    (
        "Intel MPI and PALS",
        "gpu-bind",
        "placement_spellings::options_of_other_launchers_assign_gpus",
    ),
    ("ALPS", "gpu-bind", "placement_spellings::options_of_other_launchers_assign_gpus"),
    ("JSM", "g", "placement_spellings::options_of_other_launchers_assign_gpus"),
    (
        "Intel MPI and PALS",
        "cpu-bind d",
        "placement_spellings::ranks_are_bound_near_the_gpus_that_other_launchers_name",
    ),
    (
        "ALPS",
        "cc d",
        "placement_spellings::ranks_are_bound_near_the_gpus_that_other_launchers_name",
    ),
    ("Slurm", "test-only", "personalities::previews_start_nothing"),
    ("Slurm", "V", "command_lines::options_that_show_the_version_agree"),
    ("Slurm", "h", "command_lines::options_of_srun_have_their_effects"),
    ("ALPS", "S", "personalities::ranks_of_a_memory_domain_are_counted"),
    ("ALPS", "V", "probes::versions_are_understood_by_programs_that_look_for_a_launcher"),
    ("ALPS", "h", "personalities::help_names_the_options_of_its_launcher"),
    ("JSM", "V", "probes::versions_are_understood_by_programs_that_look_for_a_launcher"),
    ("JSM", "help", "personalities::help_names_the_options_of_its_launcher"),
];

/// Tests that show the effects of options of `run`.
const OWN: &[(&str, &str)] = &[
    ("bind-to", "binding::rank_runs_where_it_is_bound_from_its_first_instruction_on"),
    ("copy-output", "command_lines::options_of_open_mpi_have_their_effects"),
    ("cpu-set", "peer_options::options_have_the_effects_that_they_have_under_open_mpi"),
    ("display", "binding::map_shows_who_runs_where"),
    ("env", "switching::variables_can_be_set_for_all_programs"),
    ("exclude-hosts", "switching::hosts_of_a_list_and_of_an_allocation_can_be_excluded"),
    ("exit-timeout", "ending::ranks_that_run_on_too_long_after_the_first_are_ended"),
    ("forward-signals", "surroundings::signals_of_open_mpi_are_forwarded_besides_others"),
    ("gpu-bind", "placement::ranks_have_the_gpus_near_their_processors"),
    ("gpu-share", "placement::ranks_have_the_gpus_near_their_processors"),
    ("gpu-unit", "placement_spellings::variables_of_intel_mpi_assign_tiles"),
    ("gpus-per-rank", "placement::ranks_have_the_gpus_near_their_processors"),
    ("gdb", "gdb::rank_waits_at_its_first_instruction_for_a_debugger_that_the_user_starts"),
    ("het-group", "nodes_slurm::heterogeneous_job_has_ranks_on_the_hosts_of_all_its_components"),
    ("hostfile", "switching::hosts_are_read_from_a_file"),
    ("hosts", "switching::ranks_are_placed_on_hosts_as_under_hydra_and_open_mpi"),
    ("inherit", "settings::variables_that_are_not_inherited_are_not_seen"),
    ("label", "output::label_names_the_rank_of_every_line"),
    ("label-format", "switching::lines_are_labelled"),
    ("local", "switching::this_host_can_be_left_out"),
    ("map-by", "switching::ranks_are_placed_on_hosts_as_under_hydra_and_open_mpi"),
    ("mem-bind", "placement_spellings::options_of_other_launchers_bind_memory"),
    ("merge-stderr", "command_lines::options_of_open_mpi_have_their_effects"),
    ("nics-per-rank", "placement::impossible_places_end_the_run_before_anything_starts"),
    ("node-interface", "switching::network_interface_is_handed_on"),
    ("nodes", "switching::hosts_of_a_list_and_of_an_allocation_can_be_excluded"),
    ("on-exit-error", "ending::with_ignore_the_others_go_on_and_the_first_failure_is_the_code"),
    ("output-dir", "command_lines::options_of_open_mpi_have_their_effects"),
    ("overlap", "leases::overlapping_run_avoids_no_other_and_is_avoided_by_none"),
    ("oversubscribe", "switching::ranks_are_placed_on_hosts_as_under_hydra_and_open_mpi"),
    ("path", "command_lines::options_of_open_mpi_have_their_effects"),
    ("pmi", "openmpi::protocols_that_a_user_offers_are_those_that_a_program_finds"),
    ("ppn", "switching::node_takes_all_ranks"),
    ("progress", "keys::long_shutdown_is_shown_on_a_terminal_only"),
    ("pty", "terminal::rank_has_a_terminal_of_the_size_of_the_launchers"),
    ("rankmap", "switching::map_of_ranks_names_hosts_by_number"),
    ("ranks", "switching::as_many_ranks_start_as_were_asked_for"),
    ("report-pid", "command_lines::options_of_open_mpi_have_their_effects"),
    ("report-uri", "nodes_tools::address_of_the_head_is_reported_and_it_is_the_one_system_server"),
    ("stage", "nodes_stage::program_runs_from_a_copy_on_each_host_that_ends_with_the_run"),
    ("start-timeout", "nodes_late::run_ends_without_hosts_that_have_not_come"),
    ("starter-args", "switching::launcher_and_its_program_are_chosen_as_under_hydra"),
    ("starter-exec", "switching::launcher_and_its_program_are_chosen_as_under_hydra"),
    ("stderr-to", "output::ranks_have_files_of_their_own"),
    ("stdin", "input::listed_ranks_read_all_of_the_input"),
    ("stdin-file", "command_lines::options_of_srun_have_their_effects"),
    ("stdout-to", "output::ranks_have_files_of_their_own"),
    (
        "system-server",
        "nodes_tools::address_of_the_head_is_reported_and_it_is_the_one_system_server",
    ),
    ("timeout", "switching::time_limit_ends_the_run"),
    ("timestamps", "output::label_names_the_rank_of_every_line"),
    ("tmpdir", "personalities::files_of_the_launcher_lie_where_they_are_asked_for"),
    ("umask", "personalities::new_files_have_the_mask_that_was_asked_for"),
    ("unbuffered", "command_lines::unbuffered_output_of_other_launchers_is_passed_on_at_once"),
    ("unset-env", "command_lines::options_of_open_mpi_have_their_effects"),
    ("wdir", "switching::programs_start_in_the_folder_that_was_said"),
];

const fn open_mpi(words: &'static str, own: &'static str) -> Example {
    Example { family: "Open MPI", words, own }
}

const fn intel(words: &'static str, own: &'static str) -> Example {
    Example { family: "Intel MPI and PALS", words, own }
}

const fn slurm(words: &'static str, own: &'static str) -> Example {
    Example { family: "Slurm", words, own }
}

const fn alps(words: &'static str, own: &'static str) -> Example {
    Example { family: "ALPS", words, own }
}

const fn jsm(words: &'static str, own: &'static str) -> Example {
    Example { family: "JSM", words, own }
}

/// Command lines, and options of `run` that yield the same plan.
const EXAMPLES: &[Example] = &[
    open_mpi("-c 2", "--ranks 2"),
    open_mpi("-wd /usr", "--wdir /usr"),
    open_mpi("--path /usr/bin", "--path /usr/bin"),
    open_mpi("--prefix /opt", "--env PATH=/opt/bin:/bin --env LD_LIBRARY_PATH=/opt/lib"),
    open_mpi("-x A=b=c", "--env A=b=c"),
    open_mpi("-x KEP*", "--env KEPT=1"),
    open_mpi("-x NONE", ""),
    open_mpi("--mca btl self,tcp", "--env OMPI_MCA_btl=self,tcp"),
    open_mpi(
        "--mca rmaps_base_mapping_policy node",
        "--map-by node --env OMPI_MCA_rmaps_base_mapping_policy=node",
    ),
    open_mpi(
        "--mca orte_abort_on_non_zero_status 0",
        "--on-exit-error ignore --env OMPI_MCA_orte_abort_on_non_zero_status=0",
    ),
    open_mpi(
        "--mca oob_tcp_if_include lo",
        "--node-interface lo --env OMPI_MCA_oob_tcp_if_include=lo",
    ),
    open_mpi(
        "--mca plm_rsh_agent 'ssh -q'",
        "--starter-exec ssh --starter-args -q --env 'OMPI_MCA_plm_rsh_agent=ssh -q'",
    ),
    open_mpi("--prtemca prte_tag_output 1", "--label --env PRTE_MCA_prte_tag_output=1"),
    open_mpi("--pmixmca a 1", "--env PMIX_MCA_a=1"),
    open_mpi("--tune tuned", "--env A=1"),
    open_mpi("--set-env A=1", "--env A=1"),
    open_mpi("--prepend-env PATH /x", "--env PATH=/x:/bin"),
    open_mpi("--append-env PATH /x", "--env PATH=/bin:/x"),
    open_mpi("--unset-env A", "--unset-env A"),
    open_mpi("--with-ft ulfm", "--env OMPI_MCA_mpi_ft_enable=1 --on-exit-error ignore"),
    open_mpi("--default-hostfile hosts", "--hostfile hosts"),
    open_mpi("--pernode", "--map-by ppr:1:node"),
    open_mpi("--npersocket 3 --map-by ppr:2:node", "--map-by ppr:2:node"),
    open_mpi("--ppr 2:node", "--map-by ppr:2:node"),
    open_mpi("--bynode", "--map-by node"),
    open_mpi("--byslot", "--map-by slot"),
    open_mpi("--bycore", "--map-by core --bind-to core"),
    open_mpi("--bind-to-core", "--bind-to core"),
    open_mpi("--bind-to-socket", "--bind-to socket"),
    open_mpi("--bind-to-none", "--bind-to none"),
    open_mpi("--cpus-per-proc 2", "--bind-to core:2"),
    open_mpi("--cpu-set 0-3", "--cpu-set 0-3"),
    open_mpi("--cpu-list 0,2 --bind-to cpu-list:ordered", "--cpu-set 0,2 --bind-to hwthread"),
    open_mpi("--ppr 2:node --map-by dist:span,device=mlx5_0", "--map-by nic"),
    open_mpi(
        "--ppr 1:node --map-by device=gpu:ndev=2:shared",
        "--map-by gpu --gpus-per-rank 2 --gpu-share 4294967295",
    ),
    open_mpi("--ppr 1:node --map-by device=network", "--map-by nic --nics-per-rank 1"),
    open_mpi("--cpu-set 7 --map-by pe-list=0,2:ordered", "--cpu-set 0,2 --bind-to hwthread"),
    open_mpi("--nolocal", "--no-local"),
    open_mpi("--max-vm-size 2", "--nodes 2"),
    open_mpi("--output tag,timestamp,merge", "--label --timestamps --merge-stderr"),
    open_mpi("--output dir=out:nocopy", "--output-dir out --no-copy-output"),
    open_mpi("--output file=out", "--stdout-to out.%r.out --stderr-to out.%r.err --copy-output"),
    open_mpi("--output :raw", "--unbuffered"),
    open_mpi("--tag-output", "--label"),
    open_mpi("--timestamp-output", "--timestamps"),
    open_mpi("--output-filename out", "--output-dir out --copy-output"),
    open_mpi("--merge-stderr-to-stdout", "--merge-stderr"),
    open_mpi("--stream-buffering 0", "--unbuffered"),
    open_mpi("--report-bindings", "--display map"),
    open_mpi("--display map,bind", "--display map"),
    open_mpi("--display-map", "--display map"),
    open_mpi("--show-progress", "--progress"),
    open_mpi("--report-pid -", "--report-pid -"),
    open_mpi("--report-uri -", "--report-uri -"),
    open_mpi("--continuous", "--on-exit-error ignore"),
    open_mpi("--enable-recovery", "--on-exit-error ignore"),
    open_mpi("--spawn-timeout 9", "--start-timeout 9"),
    open_mpi("--forward-signals SIGWINCH", "--forward-signals SIGUSR1,SIGALRM,SIGURG,SIGWINCH"),
    open_mpi("--runtime-options continuous,show-progress", "--on-exit-error ignore --progress"),
    open_mpi("--stdin all", "--stdin all"),
    open_mpi("--preload-binary", "--stage"),
    open_mpi("--tmpdir /var/tmp", "--tmpdir /var/tmp"),
    open_mpi("--leave-session-attached", "--display map"),
    open_mpi("--system-server", "--system-server"),
    intel("-localonly", "--hosts localhost"),
    intel("-print-rank-map", "--display map"),
    intel("-s all", "--stdin all"),
    intel("-gdb", "--gdb all"),
    intel("-prepend-timestamp", "--timestamps"),
    intel("-rr", "--ppn 1"),
    intel("-grr 2", "--ppn 2"),
    intel("-umask 027", "--umask 027"),
    intel("--cpu-bind list:0,1:2", "--bind-to user:0+1,2"),
    intel("-d 2", "--bind-to hwthread:2"),
    intel("-d 2 --cpu-bind depth", "--bind-to hwthread:2"),
    intel("--cpu-bind depth", "--bind-to hwthread"),
    intel("-d 2 --cpu-bind numa", "--bind-to numa"),
    intel("--gpu-bind list:0,1:2-3", "--gpu-bind list:0+1,2+3 --gpu-share 4294967295"),
    intel("--gpu-bind closest", "--gpus-per-rank 1"),
    intel("--gpu-bind none", ""),
    intel("--mem-bind list:0:0:1", "--mem-bind list:0,0,1"),
    intel("--mem-bind verbose,local", "--mem-bind local --display map"),
    intel("--no-abort-on-failure", "--on-exit-error ignore"),
    intel("--transfer", "--stage"),
    intel("--exclude-hosts n2", "--exclude-hosts n2"),
    slurm("-n 3", "--ranks 3"),
    slurm("-N 2-4", "--nodes 2"),
    slurm("--ntasks-per-node 2", "--ppn 2"),
    slurm("--ntasks-per-socket 1 --distribution cyclic", "--map-by node"),
    slurm("--ntasks-per-core 1", "--bind-to core"),
    slurm("-w n[1-2]", "--hosts n[1-2]"),
    slurm("-F hosts", "--hostfile hosts"),
    slurm("-x n2", "--exclude-hosts n2"),
    slurm("-m plane=2", "--ppn 2"),
    slurm("-O", "--oversubscribe"),
    slurm("-c 2", "--bind-to hwthread:2 --env SLURM_CPUS_PER_TASK=2"),
    slurm("--cpu-bind=verbose,mask_cpu:0x3,0x4", "--display map --bind-to user:0+1,2"),
    slurm("--hint=multithread", "--bind-to hwthread"),
    slurm("--hint=memory_bound", "--map-by socket --bind-to core"),
    slurm("--hint=memory_bound -m cyclic --cpu-bind=cores", "--map-by node --bind-to core"),
    slurm("--mem-bind=local", "--mem-bind local"),
    slurm("--mem-bind=verbose,map_mem:0*2,0x1", "--display map --mem-bind list:0,0,1"),
    slurm("--mem-bind=mask_mem:0x1,0x3", "--mem-bind list:0,0+1"),
    slurm("--mem-bind=prefer,local", "--mem-bind preferred"),
    slurm("--mem-bind=none", ""),
    slurm("--gpus-per-task=2", "--gpus-per-rank 2"),
    slurm("--gpus=2 -N 2", "--nodes 2 --gpu-bind list:0 --gpu-share 4294967295"),
    slurm("--gres=gpu:2", "--gpu-bind list:0+1 --gpu-share 4294967295"),
    slurm("--gpu-bind=closest", "--gpu-bind as:slurm"),
    slurm("--gpu-bind=map_gpu:1,0", "--gpu-bind list:1,0 --gpu-share 4294967295"),
    slurm(
        "-n 4 --ntasks-per-gpu=2",
        "--ranks 4 --gpu-bind as:slurm --gpus-per-rank 1 --gpu-share 2",
    ),
    slurm("--threads-per-core=1", "--bind-to core"),
    slurm("--export=A=1,KEPT", "--env A=1 --inherit KEPT"),
    slurm("--mpi=pmix_v4", "--pmi x"),
    slurm("-E", "--env SLURM_NTASKS=7"),
    slurm("-D /usr", "--wdir /usr"),
    slurm("-l", "--label-format '%r: '"),
    slurm("-o out.%t", "--stdout-to out.%r --merge-stderr"),
    slurm("-e err.%t", "--stderr-to err.%r"),
    slurm("-i none", "--stdin none"),
    slurm("-i input", "--stdin-file input --stdin all"),
    slurm("-u", "--unbuffered"),
    slurm("--overlap", "--overlap"),
    slurm("--pty", "--pty 0 --stdin 0"),
    slurm("-t 1:30", "--timeout 90"),
    slurm("--kill-on-bad-exit=0", "--on-exit-error ignore"),
    slurm("-W 3", "--exit-timeout 3"),
    slurm("-v", "--display map"),
    slurm("--bcast", "--stage"),
    slurm("--het-group 0", "--het-group 0"),
    alps("-n 3", "--ranks 3"),
    alps("-N 2", "--ppn 2"),
    alps("-d 2", "--bind-to hwthread:2"),
    alps("--cc numa", "--bind-to numa"),
    alps("--cc depth -d 4", "--bind-to hwthread:4"),
    alps("--gpu-bind list:0:1", "--gpu-bind list:0,1 --gpu-share 4294967295"),
    alps("--mem-bind local", "--mem-bind local"),
    alps("-L n1,n2", "--hosts n1,n2"),
    alps("-l hosts", "--hostfile hosts"),
    alps("-e A=1", "--env A=1"),
    alps("--wdir /usr", "--wdir /usr"),
    jsm("-n 3", "--ranks 3"),
    jsm("-r 2", "--ppn 2"),
    jsm("-c 2", "--bind-to core:2"),
    jsm("-b packed:2", "--bind-to core:2"),
    jsm("-g 2", "--gpus-per-rank 2"),
    jsm("-d cyclic", "--map-by node"),
    jsm("-d plane:2", "--ppn 2"),
    jsm("-E A=1", "--env A=1"),
    jsm("-h /usr", "--wdir /usr"),
    jsm("-o out", "--stdout-to out"),
    jsm("-k err", "--stderr-to err"),
];
