//! QEMU `microvm`: virtio over MMIO and no PCI, started in 32-bit mode through the PVH note.

use core::arch::{asm, global_asm, x86_64::_rdtsc};
use core::ptr::read_unaligned;

global_asm!(
    r#"
    .section .note.pvh, "a", @note
    .balign 4
    .long 4, 8, 18          # size of the name, size of the value, XEN_ELFNOTE_PHYS32_ENTRY
    .asciz "Xen"
    .quad _start

    .section .bss
    .balign 4096
pml4:   .skip 4096
pdpt:   .skip 4096
pd:     .skip 16384

    .section .rodata
    .balign 8
gdt:    .quad 0, 0x00af9a000000ffff, 0x00cf92000000ffff
gdtp:   .word 23
        .long gdt

    .section .text.boot, "ax"
    .code32
    .globl _start
_start:
    cli
    cld
    movl $bss_start, %edi
    movl $bss_end, %ecx
    subl %edi, %ecx
    xorl %eax, %eax
    rep stosb
    movl $stack_top, %esp
    movl $pdpt + 3, pml4
    movl $pd + 3, pdpt
    movl $pd + 0x1003, pdpt + 8
    movl $pd + 0x2003, pdpt + 16
    movl $pd + 0x3003, pdpt + 24
    movl $0x83, %eax        # 2 MiB pages, every address is itself, 4 GiB
    movl $pd, %edi
    movl $2048, %ecx
1:  movl %eax, (%edi)
    cmpl $512, %ecx
    ja 2f
    orl $0x18, (%edi)       # the last GiB holds devices: not cached
2:  addl $0x200000, %eax
    addl $8, %edi
    loop 1b
    movl %cr4, %eax
    orl $0x20, %eax         # PAE
    movl %eax, %cr4
    movl $pml4, %eax
    movl %eax, %cr3
    movl $0xc0000080, %ecx
    rdmsr
    orl $0x100, %eax        # EFER.LME
    wrmsr
    movl %cr0, %eax
    orl $0x80000001, %eax   # paging, protection
    movl %eax, %cr0
    lgdt gdtp
    ljmp $8, $2f
    .code64
2:  movw $16, %ax
    movw %ax, %ds
    movw %ax, %es
    movw %ax, %ss
    movq $stack_top, %rsp
    movl %ebx, %edi         # where the loader says what it was told
    call main

    .balign 16
    .globl trap_stubs
trap_stubs:                 # one for each exception, 16 bytes each
    .set vector, 0
    .rept 32
    .balign 16
    .if ((0x60227d00 >> vector) & 1) == 0
    pushq $0                # the processor pushes an error code for those in the mask
    .endif
    pushq $vector
    jmp fault
    .set vector, vector + 1
    .endr
fault:
    .irp r, r15,r14,r13,r12,r11,r10,r9,r8,rbp,rdi,rsi,rdx,rcx,rbx,rax
    pushq %\r
    .endr
    movq %rsp, %rdi
    andq $-16, %rsp
    call trap
"#,
    options(att_syntax)
);

/// Registers of a trap, in the order of its frame.
pub(crate) const REGISTERS: [&str; 21] = [
    "rax", "rbx", "rcx", "rdx", "rsi", "rdi", "rbp", "r8", "r9", "r10", "r11", "r12", "r13", "r14",
    "r15", "vector", "error", "pc", "cs", "flags", "sp",
];

/// Addresses of devices: the first, the distance, their number.
pub(crate) const VIRTIO_MMIO: (usize, usize, usize) = (0xfeb0_0000, 0x200, 24);

/// Entry points of exceptions: offset, selector and kind, in the format of the processor.
static mut GATES: [[u64; 2]; 32] = [[0; 2]; 32];

/// Sets up the table of exceptions; without it a fault would reset the machine.
pub(crate) fn prepare() {
    unsafe extern "C" {
        static trap_stubs: u8;
    }
    let stubs = &raw const trap_stubs as u64;
    let gates = &raw mut GATES;
    for (at, stub) in (0..32).zip((stubs..).step_by(16)) {
        let low = stub & 0xffff | 8 << 16 | 0x8e00 << 32 | (stub >> 16 & 0xffff) << 48;
        // SAFETY: runs once, before anything can trap; `at` is within the table.
        unsafe { (*gates)[at] = [low, stub >> 32] };
    }
    #[repr(C, packed)]
    struct Table(u16, u64);
    let table = Table(32 * 16 - 1, gates as u64);
    // SAFETY: the table is complete and stays where it is.
    unsafe { asm!("lidt [{}]", in(reg) &raw const table) };
}

/// There is no device tree; the loader's block contains the address of the command line.
pub(crate) fn command_line(boot: usize) -> *const u8 {
    // SAFETY: the loader's block begins with five words and this address. Spec: PVH, hvm_start_info.
    unsafe { read_unaligned((boot + 24) as *const u64) as *const u8 }
}

/// Writes to a port of the processor.
///
/// # Safety
///
/// The device behind it must not touch memory in use.
unsafe fn out8(port: u16, byte: u8) {
    // SAFETY: the caller's.
    unsafe { asm!("out dx, al", in("dx") port, in("al") byte) };
}

pub(crate) fn putc(byte: u8) {
    // SAFETY: the serial port of this machine; QEMU takes every byte at once.
    unsafe { out8(0x3f8, byte) }
}

/// A guess of 2 GHz is enough for time-outs; a product measures.
pub(crate) fn micros() -> u64 {
    // SAFETY: every 64-bit processor has the counter.
    unsafe { _rdtsc() / 2_000 }
}

/// Ends QEMU. The device turns N into 2N+1, and a processor that resets itself gives 0, so success
/// is sent as 16 and seen as 33.
pub(crate) fn exit(status: u8) -> ! {
    loop {
        // SAFETY: the test device of this machine, which ends it.
        unsafe { out8(0xf4, if status == 0 { 16 } else { status & 15 }) };
    }
}

/// Provokes a trap.
pub(crate) fn fault() -> ! {
    // SAFETY: the instruction traps on purpose, and the trap does not return.
    unsafe { asm!("ud2", options(noreturn)) }
}
