/* The least that a whole exchange over shared memory needs, for canned-server: each rank keeps a value, fences, looks
 * up and copies a value for each rank, and fences again. The values are in its own memory and the same for all, so no
 * byte is shared, checked or mapped. Rank 0 prints the time between two fences that enclose it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { ROUNDS = 5, SLOTS = 1 << 15, VALUE_BYTES = 1024 };

static int descriptor;
static struct slot {
    char key[32], value[VALUE_BYTES];
} slots[SLOTS];

static void fence(void)
{
    static const char request[] = "cmd=barrier_in\n";
    char reply[64];
    ssize_t got = 0;
    if (write(descriptor, request, sizeof request - 1) != sizeof request - 1)
        exit(1);
    do {
        got = read(descriptor, reply, sizeof reply);
        if (got <= 0)
            exit(1);
    } while (reply[got - 1] != '\n');
}

static struct slot *slot_of(const char *key)
{
    unsigned hash = 2166136261u;
    for (const char *at = key; *at; at++)
        hash = (hash ^ (unsigned char)*at) * 16777619u;
    struct slot *slot = &slots[hash % SLOTS];
    while (slot->key[0] && strcmp(slot->key, key))
        slot = slot == slots + SLOTS - 1 ? slots : slot + 1;
    return slot;
}

static long now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000000000L + now.tv_nsec;
}

static int by_size(const void *one, const void *other)
{
    long a = *(const long *)one, b = *(const long *)other;
    return (a > b) - (a < b);
}

int main(int argc, char **argv)
{
    const char *number = getenv("PMI_FD"), *rank = getenv("PMI_RANK"), *ranks = getenv("PMI_SIZE");
    int len = argc > 1 ? atoi(argv[1]) : 64;
    long took[ROUNDS], sum = 0;
    char key[32], value[VALUE_BYTES], found[VALUE_BYTES];
    if (number == NULL || rank == NULL || ranks == NULL || len < 1 || len >= VALUE_BYTES) {
        fprintf(stderr, "usage: canned-server N VALUE_BYTES exchange-floor VALUE_BYTES\n");
        return 2;
    }
    descriptor = atoi(number);
    int size = atoi(ranks);
    if (size * ROUNDS > SLOTS / 2)
        return 2;
    memset(value, 'v', len);
    value[len] = 0;
    for (int round = 0; round < ROUNDS; round++)
        for (int of = 0; of < size; of++) {
            snprintf(key, sizeof key, "card-%d-%d", round, of);
            struct slot *slot = slot_of(key);
            strcpy(slot->key, key);
            strcpy(slot->value, value);
        }
    for (int round = 0; round < ROUNDS; round++) {
        fence();
        long start = now_ns();
        snprintf(key, sizeof key, "card-%d-%s", round, rank);
        strcpy(slot_of(key)->value, value);
        fence();
        for (int of = 0; of < size; of++) {
            snprintf(key, sizeof key, "card-%d-%d", round, of);
            strcpy(found, slot_of(key)->value);
            if (found[len - 1] != 'v')
                return 3;
        }
        fence();
        took[round] = now_ns() - start;
        sum += took[round];
    }
    qsort(took, ROUNDS, sizeof *took, by_size);
    if (atoi(rank) == 0)
        printf("exchange count=%d median_ns=%ld mean_ns=%ld\n", ROUNDS, took[ROUNDS / 2], sum / ROUNDS);
    return 0;
}
