//! PMI on an operating system.
//!
//! - [`env`] decides from the environment how the server is reached.
//! - [`connect`] goes there and opens the conversation.
//! - [`Stream`] is a connection that waits.

mod connect;
pub mod env;
mod inherit;
mod stream;

pub use connect::{ConnectError, Member, connect, connect_by};
pub use stream::Stream;
