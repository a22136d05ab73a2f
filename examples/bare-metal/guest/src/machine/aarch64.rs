//! QEMU `virt`, EL1, MMU off: strict alignment and no floating point, as the target has it.

use core::arch::{asm, global_asm};
use core::ptr::write_volatile;

global_asm!(
    r#"
    .section .text.boot, "ax"
    .globl _start
_start:
    adrp x0, stack_top
    add x0, x0, :lo12:stack_top
    mov sp, x0
    adrp x0, vectors
    add x0, x0, :lo12:vectors
    msr vbar_el1, x0
    adrp x0, bss_start
    add x0, x0, :lo12:bss_start
    adrp x1, bss_end
    add x1, x1, :lo12:bss_end
1:  cmp x0, x1
    b.hs 2f
    str xzr, [x0], #8
    b 1b
2:  mov x0, #0
    bl main
    .balign 2048
vectors:
    .rept 16
    .balign 128
    b fault
    .endr
fault:
    msr tpidr_el1, x0
    adrp x0, trap_frame
    add x0, x0, :lo12:trap_frame
    str x1, [x0, #8]
    .set at, 16
    .irp r, 2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30
    str x\r, [x0, #at]
    .set at, at + 8
    .endr
    mrs x1, tpidr_el1
    str x1, [x0]
    mov x1, sp
    str x1, [x0, #248]
    mrs x1, esr_el1
    str x1, [x0, #256]
    mrs x1, elr_el1
    str x1, [x0, #264]
    mrs x1, far_el1
    str x1, [x0, #272]
    adrp x1, stack_top
    add x1, x1, :lo12:stack_top
    mov sp, x1
    bl trap

    .section .bss
    .balign 8
trap_frame: .skip 280
"#
);

/// Registers of a trap, in the order of its frame.
pub(crate) const REGISTERS: [&str; 35] = [
    "x0", "x1", "x2", "x3", "x4", "x5", "x6", "x7", "x8", "x9", "x10", "x11", "x12", "x13", "x14",
    "x15", "x16", "x17", "x18", "x19", "x20", "x21", "x22", "x23", "x24", "x25", "x26", "x27",
    "x28", "x29", "x30", "sp", "syndrome", "pc", "address",
];

/// Addresses of devices: the first, the distance, their number.
pub(crate) const VIRTIO_MMIO: (usize, usize, usize) = (0x0a00_0000, 0x200, 32);

pub(crate) const fn prepare() {}

/// The device tree: at the start of memory, for programs that are no Linux.
pub(crate) const fn device_tree(_boot: usize) -> usize {
    0x4000_0000
}

pub(crate) fn putc(byte: u8) {
    // SAFETY: the serial port of this machine; QEMU takes every byte at once.
    unsafe { write_volatile(0x0900_0000 as *mut u32, u32::from(byte)) }
}

pub(crate) fn micros() -> u64 {
    let (ticks, hz): (u64, u64);
    // SAFETY: both read registers.
    unsafe {
        asm!("mrs {}, cntvct_el0", out(reg) ticks);
        asm!("mrs {}, cntfrq_el0", out(reg) hz);
    }
    ticks / (hz / 1_000_000).max(1)
}

/// Ends QEMU with `status`: semihosting, which needs `-semihosting-config enable=on,target=native`.
pub(crate) fn exit(status: u8) -> ! {
    let block: [u64; 2] = [0x20026, u64::from(status)];
    loop {
        // SAFETY: asks the machine to end; it reads the block and nothing else.
        unsafe { asm!("hlt #0xf000", in("x0") 0x18, in("x1") &raw const block) };
    }
}

/// Provokes a trap.
pub(crate) fn fault() -> ! {
    // SAFETY: the instruction traps on purpose, and the trap does not return.
    unsafe { asm!("udf #0", options(noreturn)) }
}
