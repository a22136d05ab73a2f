/* The rank: all that a program does with pmi_client.h, and nothing of the machine it runs on. */
#include "rank.h"
#include "semihosting.h"

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
    command_line(line, sizeof line);
    uint64_t id = 0;
    for (const char *at = line; *at; at++)
        id = *at == ' ' ? 0 : id * 10 + (uint64_t)(*at - '0');
    return id;
}

static int exchange(const struct pmi_client_link *link, uint64_t id)
{
    char key[16], card[64], line[128];
    if (pmi_client_init(&client, link) || pmi_client_greet(&client, id) || pmi_client_open(&client))
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

_Noreturn void run(const struct pmi_client_link *line)
{
    int is_good = exchange(line, process_id());
    print(is_good ? "serial: done\n" : "serial: failed\n");
    finish(is_good);
}
