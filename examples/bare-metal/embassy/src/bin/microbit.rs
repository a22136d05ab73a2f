//! The rank on a micro:bit, as QEMU has one. The process id follows the program's name on the debugger's
//! command line, and the table goes to the debugger's console.
#![no_std]
#![no_main]

#[path = "../microbit/debugger.rs"]
mod debugger;
#[path = "../microbit/uart.rs"]
mod uart;

use embassy_executor::Spawner;
use pmi_core::command::Text;
use pmi_core::wire::Writer;
use pmi_embassy::{Card, exchange_cards};
use uart::Uart;

#[embassy_executor::main]
async fn main(_spawner: Spawner) {
    let mut room = [0; 64];
    let words = debugger::command_line(&mut room);
    let id = words.rsplit(|byte| *byte == b' ').next().and_then(|id| Text::plain(id).signed());
    let id = id.and_then(|id| u64::try_from(id).ok()).unwrap_or(0);
    let is_good = exchange_cards(Uart::open(), id, b"microbit", print).await.is_ok();
    debugger::print(if is_good { b"microbit: done\n\0" } else { b"microbit: failed\n\0" });
    debugger::exit(is_good)
}

fn print(card: Card<'_>) {
    let mut line = [0; 128];
    let mut text = Writer::new(&mut line);
    text.bytes(b"rank ").number(card.rank).bytes(b" of ").number(card.size).bytes(b": card-");
    text.number(card.peer).bytes(b" = ").bytes(card.text).bytes(b"\n\0");
    debugger::print(&line);
}
