//! Command lines, settings, and the start of ranks.

#[path = "../common/mod.rs"]
mod common;

#[path = "../binding.rs"]
mod binding;
#[path = "../command_lines.rs"]
mod command_lines;
#[path = "../demo.rs"]
mod demo;
#[path = "../doctor.rs"]
mod doctor;
#[path = "../documents.rs"]
mod documents;
#[path = "../host_names.rs"]
mod host_names;
#[path = "../install.rs"]
mod install;
#[path = "../leases.rs"]
mod leases;
#[path = "../pages.rs"]
mod pages;
#[path = "../placement.rs"]
mod placement;
#[path = "../placement_spellings.rs"]
mod placement_spellings;
#[path = "../probes.rs"]
mod probes;
// Other machines have no numbers for some of the calls.
#[cfg(target_arch = "x86_64")]
#[path = "../refused_calls.rs"]
mod refused_calls;
#[path = "../sandboxes.rs"]
mod sandboxes;
#[path = "../scripts.rs"]
mod scripts;
#[path = "../settings.rs"]
mod settings;
#[path = "../spellings.rs"]
mod spellings;
#[path = "../surroundings.rs"]
mod surroundings;
#[path = "../written_files.rs"]
mod written_files;
