//! Output, input and terminals.

#[path = "../common/mod.rs"]
mod common;

#[path = "../conversations.rs"]
mod conversations;
#[path = "../gdb.rs"]
mod gdb;
#[path = "../input.rs"]
mod input;
#[path = "../keys.rs"]
mod keys;
#[path = "../output.rs"]
mod output;
#[path = "../terminal.rs"]
mod terminal;
#[path = "../unread.rs"]
mod unread;
