//! QEMU `virt`, machine mode, no firmware: `-M virt -bios none`.

use core::arch::{asm, global_asm};
use core::ptr::write_volatile;

global_asm!(
    r#"
    .section .text.boot, "ax"
    .globl _start
_start:
    la sp, stack_top
    li t0, 0x2000          # mstatus.FS: compiled code may use the floating-point registers
    csrs mstatus, t0
    la t0, fault
    csrw mtvec, t0
    la t0, bss_start
    la t1, bss_end
1:  bgeu t0, t1, 2f
    sd zero, (t0)
    addi t0, t0, 8
    j 1b
2:  mv a0, a1              # where QEMU has put the device tree
    call main
    .balign 4
fault:
    csrw mscratch, sp
    la sp, trap_frame
    .set at, 0
    .irp r, 1,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31
    sd x\r, at(sp)
    .set at, at + 8
    .endr
    csrr a1, mscratch
    sd a1, 240(sp)
    csrr a1, mcause
    sd a1, 248(sp)
    csrr a1, mepc
    sd a1, 256(sp)
    csrr a1, mtval
    sd a1, 264(sp)
    mv a0, sp
    la sp, stack_top
    call trap

    .section .bss
    .balign 8
trap_frame: .skip 272
"#
);

/// Registers of a trap, in the order of its frame.
pub(crate) const REGISTERS: [&str; 34] = [
    "ra", "gp", "tp", "t0", "t1", "t2", "s0", "s1", "a0", "a1", "a2", "a3", "a4", "a5", "a6", "a7",
    "s2", "s3", "s4", "s5", "s6", "s7", "s8", "s9", "s10", "s11", "t3", "t4", "t5", "t6", "sp",
    "cause", "pc", "value",
];

/// Addresses of devices: the first, the distance, their number.
pub(crate) const VIRTIO_MMIO: (usize, usize, usize) = (0x1000_1000, 0x1000, 8);

pub(crate) const fn prepare() {}

/// The device tree, from the argument of the boot code.
pub(crate) const fn device_tree(boot: usize) -> usize {
    boot
}

pub(crate) fn putc(byte: u8) {
    // SAFETY: the serial port of this machine; QEMU takes every byte at once.
    unsafe { write_volatile(0x1000_0000 as *mut u8, byte) }
}

pub(crate) fn micros() -> u64 {
    let ticks: u64;
    // SAFETY: reads a counter.
    unsafe { asm!("rdtime {}", out(reg) ticks) };
    ticks / 10 // this machine's timer runs at 10 MHz
}

/// Ends QEMU with `status`.
pub(crate) fn exit(status: u8) -> ! {
    let word = if status == 0 { 0x5555 } else { u32::from(status) << 16 | 0x3333 };
    loop {
        // SAFETY: the test device of this machine, which ends it.
        unsafe { write_volatile(0x10_0000 as *mut u32, word) };
    }
}

/// Provokes a trap.
pub(crate) fn fault() -> ! {
    // SAFETY: the instruction traps on purpose, and the trap does not return.
    unsafe { asm!("unimp", options(noreturn)) }
}
