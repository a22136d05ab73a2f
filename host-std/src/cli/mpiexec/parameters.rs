//! Parameters of Open MPI's launchers (`--mca`, `--prtemca`, and variables of the environment) by the options
//! that have the same effect. All others are for the ranks.

/// A parameter of the launcher itself.
struct LauncherParameter {
    /// Names, in both generations of Open MPI.
    names: &'static [&'static str],
    /// Option with the same effect, without dashes; two dashes mark one of `run`.
    option: &'static str,
    /// Option with the effect of a switch that is off, if that is not the default.
    off: Option<&'static str>,
}

/// What a parameter does here.
pub(super) enum ParameterEffect {
    /// That of this option.
    Option(&'static str),
    /// Nothing: it has its default value, describes this launcher anyway, or is for the ranks alone.
    Nothing,
    /// Nothing, though it asks the launcher for something.
    Missing,
}

/// Effect of the parameter `name` with `value`.
pub(super) fn effect(name: &str, value: &str) -> ParameterEffect {
    let Some(found) = PARAMETERS.iter().find(|one| one.names.contains(&name)) else {
        let is_of_launcher = FRAMEWORKS.iter().any(|start| name.starts_with(start));
        return match is_of_launcher && !ANYWAY.contains(&name) {
            true => ParameterEffect::Missing,
            false => ParameterEffect::Nothing,
        };
    };
    let value = value.to_ascii_lowercase();
    if ["", "-1", "0", "no", "false", "off", "f", "n", "default"].contains(&&*value) {
        // 0 is a value of its own for buffers, and an agent has no switch.
        let is_value = found.option == "stream-buffering" && value == "0";
        let option = if is_value { Some(found.option) } else { found.off };
        return option.map_or(ParameterEffect::Nothing, ParameterEffect::Option);
    }
    match found.option {
        "" => ParameterEffect::Nothing,
        option => ParameterEffect::Option(option),
    }
}

const fn parameter(names: &'static [&'static str], option: &'static str) -> LauncherParameter {
    LauncherParameter { names, option, off: None }
}

const PARAMETERS: &[LauncherParameter] = &[
    // Hosts.
    parameter(&["orte_default_hostfile", "prte_default_hostfile"], "f"),
    parameter(&["orte_max_vm_size", "prte_max_vm_size"], "max-vm-size"),
    parameter(&["rmaps_base_no_schedule_local"], "nolocal"),
    LauncherParameter {
        names: &["rmaps_base_oversubscribe"],
        option: "oversubscribe",
        off: Some("nooversubscribe"),
    },
    LauncherParameter {
        names: &["rmaps_base_no_oversubscribe"],
        option: "nooversubscribe",
        off: Some("oversubscribe"),
    },
    // Placement.
    parameter(&["rmaps_base_mapping_policy", "rmaps_default_mapping_policy"], "map-by"),
    parameter(&["rmaps_base_ranking_policy", "rmaps_default_ranking_policy"], "rank-by"),
    parameter(&["rmaps_base_pernode", "rmaps_ppr_pernode"], "pernode"),
    parameter(&["rmaps_base_n_pernode", "rmaps_ppr_n_pernode"], "npernode"),
    parameter(&["rmaps_base_n_persocket", "rmaps_ppr_n_persocket"], "npersocket"),
    parameter(&["rmaps_base_pattern", "rmaps_ppr_pattern"], "ppr"),
    // '--map-by dist' is near the card of each rank.
    parameter(&["rmaps_dist_device"], ""),
    parameter(&["rmaps_base_bycore"], "bycore"),
    parameter(&["rmaps_base_byslot"], "byslot"),
    parameter(&["rmaps_base_bynode"], "bynode"),
    parameter(&["rmaps_base_cpus_per_proc", "rmaps_base_cpus_per_rank"], "cpus-per-proc"),
    parameter(&["rmaps_rank_file_path", "orte_rankfile"], "rankfile"),
    // Processors.
    parameter(&["hwloc_base_binding_policy", "hwloc_default_binding_policy"], "bind-to"),
    parameter(&["hwloc_base_bind_to_core"], "bind-to-core"),
    parameter(&["hwloc_base_bind_to_socket"], "bind-to-socket"),
    parameter(&["hwloc_base_cpu_list", "hwloc_base_cpu_set", "hwloc_default_cpu_list"], "cpu-set"),
    parameter(&["hwloc_base_use_hwthreads_as_cpus"], "use-hwthread-cpus"),
    // Reports.
    parameter(&["hwloc_base_report_bindings"], "report-bindings"),
    parameter(
        &[
            "orte_display_map",
            "rmaps_base_display_map",
            "rmaps_base_display_devel_map",
            "rmaps_base_display_diffable_map",
        ],
        "display-map",
    ),
    parameter(&["orte_display_alloc", "ras_base_display_alloc"], "display-allocation"),
    parameter(&["orte_debug_daemons", "orte_leave_session_attached"], "debug-daemons"),
    // Output and signals.
    parameter(&["orte_tag_output", "prte_tag_output"], "tag-output"),
    parameter(&["orte_timestamp_output", "prte_timestamp_output"], "timestamp-output"),
    parameter(&["iof_base_redirect_app_stderr_to_stdout"], "merge-stderr-to-stdout"),
    parameter(&["ess_base_stream_buffering"], "stream-buffering"),
    parameter(
        &["ess_base_forward_signals", "ess_hnp_forward_signals", "prte_forward_signals"],
        "forward-signals",
    ),
    parameter(&["orte_xterm", "prte_xterm"], "xterm"),
    // Node servers, the start and the end.
    parameter(&["plm_rsh_agent", "plm_ssh_agent", "orte_rsh_agent"], AGENT),
    parameter(&["plm_rsh_args", "plm_ssh_args"], "launcher-exec-args"),
    parameter(&["oob_tcp_if_include", "prte_if_include"], "--node-interface"),
    parameter(&["orte_tmpdir_base", "orte_local_tmpdir_base", "prte_tmpdir_base"], "tmpdir"),
    parameter(&["orte_startup_timeout", "prte_startup_timeout"], "spawn-timeout"),
    parameter(&["orte_do_not_launch", "prte_do_not_launch"], "do-not-launch"),
    parameter(&["orte_enable_recovery", "prte_enable_recovery"], "enable-recovery"),
    LauncherParameter {
        names: &["orte_abort_on_non_zero_status", "prte_abort_on_non_zero_status"],
        option: "",
        off: Some("continuous"),
    },
];

/// Remote shell with its arguments, which has no option of its own.
pub(super) const AGENT: &str = "agent";

/// Beginnings of the names of parameters that only launchers read.
const FRAMEWORKS: [&str; 13] = [
    "orte_", "prte_", "rmaps_", "plm_", "ras_", "odls_", "iof_", "oob_", "ess_", "errmgr_",
    "routed_", "schizo_", "filem_",
];

/// Parameters of launchers that describe this one anyway.
const ANYWAY: [&str; 8] = [
    // Messages are whole.
    "orte_base_help_aggregate",
    "prte_base_help_aggregate",
    // Names of hosts are those of the list.
    "orte_keep_fqdn_hostnames",
    "prte_keep_fqdn_hostnames",
    // The way in which node servers are started.
    "plm_rsh_no_tree_spawn",
    "plm_ssh_no_tree_spawn",
    "plm_rsh_num_concurrent",
    "plm_ssh_num_concurrent",
];
