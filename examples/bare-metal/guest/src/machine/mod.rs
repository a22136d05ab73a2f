//! The machine below: all code that cannot be safe is in this directory.
#![allow(unsafe_code, reason = "boot code, devices and memory that no other code hands out")]

#[cfg_attr(target_arch = "riscv64", path = "riscv64.rs")]
#[cfg_attr(target_arch = "aarch64", path = "aarch64.rs")]
#[cfg_attr(target_arch = "x86_64", path = "x86_64.rs")]
mod arch;
pub(crate) mod memory;
pub(crate) mod nic;
pub(crate) mod port;
mod virtio;

pub(crate) use arch::{exit, fault, micros, putc};

/// Entry point after the boot code, with a stack and zeroed memory. `boot` is the loader's
/// argument.
// SAFETY: no other symbol of the image has this name.
#[unsafe(no_mangle)]
extern "C" fn main(boot: usize) -> ! {
    memory::paint_stack();
    arch::prepare();
    crate::start(command_line(boot))
}

/// Entry point of a fault. Without it the guest would hang without a message.
///
/// `frame` is the table of registers that the boot code has filled.
// SAFETY: no other symbol of the image has this name.
#[unsafe(no_mangle)]
extern "C" fn trap(frame: &[u64; arch::REGISTERS.len()]) -> ! {
    crate::trapped(arch::REGISTERS.iter().zip(frame))
}

/// The text behind `-append`.
fn command_line(boot: usize) -> Option<&'static [u8]> {
    #[cfg(target_arch = "x86_64")]
    return memory::text(arch::command_line(boot));
    #[cfg(not(target_arch = "x86_64"))]
    {
        let tree = memory::device_tree(arch::device_tree(boot) as *const u8)?;
        crate::tree::property(tree, b"chosen", b"bootargs")
    }
}
