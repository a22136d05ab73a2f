//! Parts of PMI, linked for a microcontroller. Bytes come and go through a register, so that the
//! optimiser cannot know them; what it leaves is what the parts cost.
#![no_std]
#![no_main]

mod mcu;

#[cfg(feature = "client")]
mod client;
#[cfg(feature = "server")]
mod server;
#[cfg(feature = "tcp")]
mod tcp;

fn run() -> ! {
    #[cfg(feature = "client")]
    client::run();
    #[cfg(feature = "server")]
    server::run();
    #[cfg(feature = "tcp")]
    let _ended = tcp::run();
    loop {
        mcu::send(&[mcu::receive()]);
    }
}
