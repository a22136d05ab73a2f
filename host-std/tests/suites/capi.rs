//! The C libraries, used by programs in C.

#[path = "../common/mod.rs"]
mod common;

#[path = "../capi.rs"]
mod capi;
#[path = "../capi_client.rs"]
mod capi_client;
#[path = "../capi_hostile.rs"]
mod capi_hostile;
#[path = "../capi_preload.rs"]
mod capi_preload;
#[path = "../capi_server.rs"]
mod capi_server;
#[path = "../capi_snapshot.rs"]
mod capi_snapshot;
