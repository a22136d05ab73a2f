/* A board that has nothing but a serial line: start-up and the port of QEMU's mps2-an386, for the rank of rank.c.
 *
 *     clang --target=thumbv7em-none-eabihf -mcpu=cortex-m4 -Oz -ffreestanding -nostdlib -fuse-ld=lld \
 *         -T board.ld -I transports/capi/include board.c rank.c libpmi_c_client.a
 *
 * The same rank in Rust is board/src/bin/serial.rs. */
#include "rank.h"
#include "semihosting.h"

/* The first serial port. */
#define UART(offset) (*(volatile uint32_t *)(0x40004000u + (offset)))
enum { DATA = 0, STATE = 4, CONTROL = 8, BAUD_DIVISOR = 16 };
enum { STATE_FULL = 1, STATE_READABLE = 2 };

static int32_t uart_read(void *context, unsigned char *bytes, size_t room)
{
    (void)context;
    size_t len = 0;
    while (len < room && UART(STATE) & STATE_READABLE)
        bytes[len++] = (unsigned char)UART(DATA);
    return (int32_t)len;
}

static int32_t uart_write(void *context, const unsigned char *bytes, size_t len)
{
    (void)context;
    size_t sent = 0;
    while (sent < len && !(UART(STATE) & STATE_FULL))
        UART(DATA) = bytes[sent++];
    return (int32_t)sent;
}

void print(const char *text) { debugger(WRITE0, text); }

_Noreturn void finish(int is_good) { end_run(is_good); }

extern uint32_t bss_start, bss_end, data_start, data_end, data_load;

_Noreturn void reset(void)
{
    static const struct pmi_client_link line = {uart_read, uart_write, NULL, NULL};
    for (uint32_t *at = &bss_start; at < &bss_end; at++)
        *(volatile uint32_t *)at = 0;
    for (uint32_t *at = &data_start, *from = &data_load; at < &data_end;)
        *(volatile uint32_t *)at++ = *from++;
    UART(BAUD_DIVISOR) = 16;
    UART(CONTROL) = 3;
    /* Earlier bytes are not for this program. QEMU also takes the read as the sign to continue. */
    (void)UART(DATA);
    run(&line);
}

static void fault(void)
{
    print("board: fault\n");
    finish(0);
}

/* The first word, the stack, comes from the linker script. */
__attribute__((section(".vectors"), used)) static void (*const vectors[15])(void) = {
    reset, fault, fault, fault, fault, fault, fault, fault, fault, fault, fault, fault, fault, fault, fault};
