/* A rank in C on a board that has nothing but a serial line: start-up, the port, and the calls of pmi_client.h.
 *
 *     clang --target=thumbv7em-none-eabihf -mcpu=cortex-m4 -Oz -ffreestanding -nostdlib -fuse-ld=lld \
 *         -T board.ld -I transports/capi/include board.c libpmi_c_client.a
 *
 * The process id follows the program's name on the debugger's command line, as for the same rank in Rust
 * (board/src/bin/serial.rs). */
#include "pmi_client.h"

/* The first serial port of QEMU's mps2-an386. */
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

static void debugger(int operation, const void *argument)
{
    register int number __asm__("r0") = operation;
    register const void *block __asm__("r1") = argument;
    __asm__ volatile("bkpt 0xab" : "+r"(number) : "r"(block) : "memory");
}

enum { WRITE0 = 0x04, COMMAND_LINE = 0x15, EXIT = 0x18 };

static void print(const char *text) { debugger(WRITE0, text); }

static _Noreturn void finish(int is_good)
{
    for (;;)
        debugger(EXIT, (const void *)(is_good ? 0x20026 : 0x20023));
}

/* Appends a text, or a number, and returns the new end. */
static char *add(char *end, const char *text)
{
    while (*text)
        *end++ = *text++;
    *end = 0;
    return end;
}

static char *add_number(char *end, uint32_t number)
{
    if (number >= 10)
        end = add_number(end, number / 10);
    *end++ = (char)('0' + number % 10);
    *end = 0;
    return end;
}

static struct pmi_client client;

/* The last word of the command line as a number. */
static uint64_t process_id(void)
{
    static char line[64];
    struct { char *line; int room; } block = {line, sizeof line};
    debugger(COMMAND_LINE, &block);
    uint64_t id = 0;
    for (const char *at = line; *at; at++)
        id = *at == ' ' ? 0 : id * 10 + (uint64_t)(*at - '0');
    return id;
}

static int exchange(uint64_t id)
{
    char key[16], card[64], line[128];
    const struct pmi_client_link link = {uart_read, uart_write, NULL, NULL};
    if (pmi_client_init(&client, &link) || pmi_client_greet(&client, id) || pmi_client_open(&client))
        return 0;
    uint32_t rank = pmi_client_rank(&client), size = pmi_client_size(&client);
    add_number(add(key, "card-"), rank);
    char *end = add(add_number(add(card, "rank-"), rank), "@serial");
    if (pmi_client_put(&client, key, card, (size_t)(end - card)))
        return 0;
    /* A fence takes as long as the slowest rank: other work can be done meanwhile. */
    int state = pmi_client_start_fence(&client);
    while (state == PMI_CLIENT_PENDING)
        state = pmi_client_poll(&client);
    for (uint32_t peer = 0; state == 0 && peer < size; peer++) {
        add_number(add(key, "card-"), peer);
        state = pmi_client_get(&client, key, card, sizeof card - 1);
        card[pmi_client_length(&client)] = 0;
        end = add_number(add(add_number(add(line, "rank "), rank), " of "), size);
        add(add(add(add(add(end, ": "), key), " = "), card), "\n");
        print(line);
    }
    return state == 0 && pmi_client_finalize(&client) == 0;
}

extern uint32_t bss_start, bss_end, data_start, data_end, data_load;

_Noreturn void reset(void)
{
    for (uint32_t *at = &bss_start; at < &bss_end; at++)
        *(volatile uint32_t *)at = 0;
    for (uint32_t *at = &data_start, *from = &data_load; at < &data_end;)
        *(volatile uint32_t *)at++ = *from++;
    UART(BAUD_DIVISOR) = 16;
    UART(CONTROL) = 3;
    /* Earlier bytes are not for this program. QEMU also takes the read as the sign to continue. */
    (void)UART(DATA);
    int is_good = exchange(process_id());
    print(is_good ? "serial: done\n" : "serial: failed\n");
    finish(is_good);
}

static void fault(void)
{
    print("board: fault\n");
    finish(0);
}

/* The first word, the stack, comes from the linker script. */
__attribute__((section(".vectors"), used)) static void (*const vectors[15])(void) = {
    reset, fault, fault, fault, fault, fault, fault, fault, fault, fault, fault, fault, fault, fault, fault};
