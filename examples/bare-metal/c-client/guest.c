/* A kernel in C for a 64-bit RISC-V guest, without firmware and libc: start-up and the serial port of QEMU's machine
 * `virt`, for the rank of rank.c.
 *
 *     clang --target=riscv64-unknown-elf -march=rv64gc -mabi=lp64d -mcmodel=medany -Oz -ffreestanding -nostdlib \
 *         -fuse-ld=lld -T riscv64.ld -T common.ld -I transports/capi/include guest.c rank.c libpmi_c_client.a */
#include "rank.h"
#include "semihosting.h"

/* The serial port: a 16550. */
#define UART(offset) (*(volatile unsigned char *)(0x10000000ul + (offset)))
enum { DATA = 0, FIFO_CONTROL = 2, LINE_STATUS = 5 };
enum { READABLE = 0x01, WRITABLE = 0x20 };

static int32_t uart_read(void *context, unsigned char *bytes, size_t room)
{
    (void)context;
    size_t len = 0;
    while (len < room && UART(LINE_STATUS) & READABLE)
        bytes[len++] = UART(DATA);
    return (int32_t)len;
}

static int32_t uart_write(void *context, const unsigned char *bytes, size_t len)
{
    (void)context;
    size_t sent = 0;
    while (sent < len && UART(LINE_STATUS) & WRITABLE)
        UART(DATA) = bytes[sent++];
    return (int32_t)sent;
}

void print(const char *text) { debugger(WRITE0, text); }

_Noreturn void finish(int is_good) { end_run(is_good); }

/* Machine mode, without a stack. Compiled code may use the floating-point registers (mstatus.FS). */
__asm__(".section .text.boot, \"ax\"\n"
        ".globl _start\n"
        "_start:\n"
        "    la sp, stack_top\n"
        "    li t0, 0x2000\n"
        "    csrs mstatus, t0\n"
        "    la t0, fault\n"
        "    csrw mtvec, t0\n"
        "    tail start\n"
        ".text\n");

extern uint64_t bss_start, bss_end;

_Noreturn void start(void)
{
    static const struct pmi_client_link line = {uart_read, uart_write, NULL, NULL};
    for (uint64_t *at = &bss_start; at < &bss_end; at++)
        *(volatile uint64_t *)at = 0;
    /* Earlier bytes are not for this program. */
    UART(FIFO_CONTROL) = 7;
    run(&line);
}

/* The entry of traps has four bytes' alignment. */
__attribute__((aligned(4), used)) void fault(void)
{
    print("guest: fault\n");
    finish(0);
}
