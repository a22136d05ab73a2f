/* The client in C, linked for a microcontroller to be measured beside the one in Rust (probe/src/client.rs): the same
 * requests as far as pmi_client.h has them, with bytes that come and go through a register. */
#include "pmi_client.h"

#define DATA (*(volatile unsigned char *)0x40004404u)

static int32_t line_read(void *context, unsigned char *bytes, size_t room)
{
    (void)context;
    (void)room; /* The client asks for at least one byte. */
    bytes[0] = DATA;
    return 1;
}

static int32_t line_write(void *context, const unsigned char *bytes, size_t len)
{
    (void)context;
    for (size_t at = 0; at < len; at++)
        DATA = bytes[at];
    return (int32_t)len;
}

static struct pmi_client client;

_Noreturn void reset(void)
{
    const struct pmi_client_link link = {line_read, line_write, NULL, NULL};
    char key[2] = {(char)DATA, 0}, value[2] = {(char)DATA, (char)DATA};
    if (pmi_client_init(&client, &link) || pmi_client_open(&client) ||
        pmi_client_put(&client, key, value, sizeof value) || pmi_client_fence(&client) ||
        pmi_client_get(&client, key, value, sizeof value) || pmi_client_finalize(&client))
        pmi_client_abort(&client, 1, key);
    for (;;)
        DATA = DATA;
}
