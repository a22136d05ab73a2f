//! The rank on a board with an RP2040, as the Raspberry Pi Pico. Its line are pins 0 (send) and 1 (receive),
//! 115 200 baud; it prints by `defmt` over the debugger.
//!
//! The identity of the board is set when it is built:
//!
//! ```text
//! PMI_ID=1 cargo run --release --target thumbv6m-none-eabi --bin rp2040 --features rp2040
//! ```
#![no_std]
#![no_main]

use defmt::{error, info};
use defmt_rtt as _;
use embassy_executor::Spawner;
use embassy_rp::bind_interrupts;
use embassy_rp::peripherals::UART0;
use embassy_rp::uart::{BufferedInterruptHandler, BufferedUart, Config};
use embassy_time::{Duration, with_timeout};
use panic_probe as _;
use pmi_embassy::exchange_cards;
use static_cell::StaticCell;

bind_interrupts!(struct Interrupts {
    UART0_IRQ => BufferedInterruptHandler<UART0>;
});

/// Bytes on their way, in both directions: a whole line of PMI-1 may arrive while a task has the processor.
static BUFFERS: StaticCell<[[u8; 2048]; 2]> = StaticCell::new();

#[embassy_executor::main]
async fn main(_spawner: Spawner) {
    let board = embassy_rp::init(embassy_rp::config::Config::default());
    let [outgoing, incoming] = BUFFERS.init([[0; 2048]; 2]);
    let (send, receive) = (board.PIN_0, board.PIN_1);
    let config = Config::default();
    let line =
        BufferedUart::new(board.UART0, send, receive, Interrupts, outgoing, incoming, config);
    let exchange = exchange_cards(line, id(), b"rp2040", |card| {
        info!("rank {} of {}: card of {}: {=[u8]:a}", card.rank, card.size, card.peer, card.text);
    });
    match with_timeout(Duration::from_secs(60), exchange).await {
        Ok(Ok(())) => info!("done"),
        Ok(Err(why)) => error!("{}", why),
        Err(_) => error!("the job has not begun within a minute"),
    }
}

/// The identity that the build names; rank 0 without one.
fn id() -> u64 {
    option_env!("PMI_ID").and_then(|id| id.parse().ok()).unwrap_or(0)
}
