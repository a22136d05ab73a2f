//! Clients and tools of PMIx.

#[path = "../common/mod.rs"]
mod common;

#[path = "../debuggers.rs"]
mod debuggers;
#[path = "../pmix.rs"]
mod pmix;
#[path = "../pmix_client.rs"]
mod pmix_client;
#[path = "../pmix_command.rs"]
mod pmix_command;
#[path = "../pmix_events.rs"]
mod pmix_events;
#[path = "../pmix_groups.rs"]
mod pmix_groups;
#[path = "../pmix_hardware.rs"]
mod pmix_hardware;
#[path = "../pmix_hostile.rs"]
mod pmix_hostile;
#[path = "../pmix_iof.rs"]
mod pmix_iof;
#[path = "../pmix_services.rs"]
mod pmix_services;
#[path = "../pmix_store.rs"]
mod pmix_store;
#[path = "../pmix_tools.rs"]
mod pmix_tools;
