/* The debugger of a machine in QEMU: console, command line, end of the run.
 * Spec: Semihosting for AArch32 and AArch64; RISC-V Semihosting, whose operations are the same. */
#ifndef SEMIHOSTING_H
#define SEMIHOSTING_H

#include <stddef.h>

enum { WRITE0 = 0x04, COMMAND_LINE = 0x15, EXIT = 0x18 };

/* Reasons of an end. */
enum { APPLICATION_EXIT = 0x20026, RUN_TIME_ERROR = 0x20023 };

static inline void debugger(int operation, const void *argument)
{
#if defined(__riscv)
    register long number __asm__("a0") = operation;
    register const void *block __asm__("a1") = argument;
    /* QEMU recognizes the three instructions in this form only, and only within one page. */
    __asm__ volatile(".option push\n"
                     ".option norvc\n"
                     ".balign 16\n"
                     "slli zero, zero, 0x1f\n"
                     "ebreak\n"
                     "srai zero, zero, 7\n"
                     ".option pop\n"
                     : "+r"(number)
                     : "r"(block)
                     : "memory");
#else
    register int number __asm__("r0") = operation;
    register const void *block __asm__("r1") = argument;
    __asm__ volatile("bkpt 0xab" : "+r"(number) : "r"(block) : "memory");
#endif
}

static inline void command_line(char *line, size_t room)
{
    struct {
        char *line;
        size_t room;
    } block = {line, room};
    debugger(COMMAND_LINE, &block);
}

static inline _Noreturn void end_run(int is_good)
{
    size_t reason = is_good ? APPLICATION_EXIT : RUN_TIME_ERROR;
    /* Where pointers have 64 bits, the argument is a block of the reason and an exit status. */
    const size_t block[2] = {reason, 0};
    const void *argument = sizeof(void *) > 4 ? (const void *)block : (const void *)reason;
    for (;;)
        debugger(EXIT, argument);
}

#endif
