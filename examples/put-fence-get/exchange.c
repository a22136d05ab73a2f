/* The whole exchange of addresses through a library of PMI-1, as an MPI library makes it: each rank puts a value
 * of the given length, and reads those of all ranks. Rank 0 prints the time between two fences that enclose it, that
 * of single gets, and the memory of all ranks that holds shared values, without that of values that are private. */
#include <pmi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { ROUNDS = 5, GETS = 2000, COPIES = 4096 };

static void check(int code, const char *call) {
    if (code != PMI_SUCCESS) {
        fprintf(stderr, "%s returns %d\n", call, code);
        exit(4);
    }
}
#define CHECK(call) check(call, #call)

static long now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000000000L + now.tv_nsec;
}

static int by_size(const void *one, const void *other) {
    long a = *(const long *)one, b = *(const long *)other;
    return (a > b) - (a < b);
}

static void print(const char *name, long *took, int count) {
    long sum = 0;
    qsort(took, count, sizeof *took, by_size);
    for (int at = 0; at < count; at++)
        sum += took[at];
    printf("%s count=%d median_ns=%ld mean_ns=%ld\n", name, count, took[count / 2], sum / count);
}

/* Kilobytes of mapped generations in this process that are resident, and a sum over their files: processes with the
 * same sum map the same files. */
static void shared_kib(long *found_kib, unsigned long *files) {
    char line[512];
    int is_shared = 0;
    long kib;
    unsigned long file;
    FILE *maps = fopen("/proc/self/smaps", "r");
    *found_kib = 0, *files = 0;
    while (maps != NULL && fgets(line, sizeof line, maps) != NULL) {
        /* A line with an address begins an area; all others begin with a capital letter. */
        if (line[0] < 'A' || line[0] > 'Z') {
            is_shared = strstr(line, "pmi-snapshot") != NULL;
            if (is_shared && sscanf(line, "%*s %*s %*s %*s %lu", &file) == 1)
                *files = *files * 31 + file;
        } else if (is_shared && sscanf(line, "Rss: %ld", &kib) == 1)
            *found_kib += kib;
    }
    if (maps != NULL)
        fclose(maps);
}

int main(int argc, char **argv) {
    int spawned, rank, size, len = argc > 1 ? atoi(argv[1]) : 64;
    char space[256], key[64], value[1024], found[1024];
    static long exchanges[ROUNDS], gets[GETS];
    long kib;
    static long copy_kib[COPIES];
    static unsigned long files, seen[COPIES];
    int copies = 0;
    CHECK(PMI_Init(&spawned));
    CHECK(PMI_Get_rank(&rank));
    CHECK(PMI_Get_size(&size));
    CHECK(PMI_KVS_Get_my_name(space, sizeof space));
    memset(value, 'v', sizeof value);
    value[len < 1023 ? len : 1023] = 0;
    for (int round = 0; round < ROUNDS; round++) {
        CHECK(PMI_Barrier());
        long start = now_ns();
        snprintf(key, sizeof key, "card-%d-%d", round, rank);
        CHECK(PMI_KVS_Put(space, key, value));
        CHECK(PMI_KVS_Commit(space));
        CHECK(PMI_Barrier());
        for (int of = 0; of < size; of++) {
            snprintf(key, sizeof key, "card-%d-%d", round, of);
            CHECK(PMI_KVS_Get(space, key, found, sizeof found));
        }
        CHECK(PMI_Barrier());
        exchanges[round] = now_ns() - start;
    }
    for (int at = 0; at < GETS && rank == 0; at++) {
        snprintf(key, sizeof key, "card-%d-%d", at % ROUNDS, at % size);
        long start = now_ns();
        CHECK(PMI_KVS_Get(space, key, found, sizeof found));
        gets[at] = now_ns() - start;
    }
    CHECK(PMI_Barrier());
    shared_kib(&kib, &files);
    CHECK(PMI_Barrier());
    snprintf(key, sizeof key, "kib-%d", rank);
    snprintf(value, sizeof value, "%ld-%lu", kib, files);
    CHECK(PMI_KVS_Put(space, key, value));
    CHECK(PMI_Barrier());
    if (rank == 0) {
        for (int of = 0; of < size; of++) {
            snprintf(key, sizeof key, "kib-%d", of);
            CHECK(PMI_KVS_Get(space, key, found, sizeof found));
            int at = 0;
            if (sscanf(found, "%ld-%lu", &kib, &files) != 2 || kib == 0)
                continue;
            while (at < copies && seen[at] != files)
                at++;
            if (at == COPIES)
                return 3;
            if (at == copies)
                copy_kib[copies] = 0, seen[copies++] = files;
            if (copy_kib[at] < kib)
                copy_kib[at] = kib;
        }
        print("exchange", exchanges, ROUNDS);
        print("get", gets, GETS);
        for (kib = 0; copies > 0; copies--)
            kib += copy_kib[copies - 1];
        printf("view kib=%ld\n", kib);
    }
    return PMI_Finalize();
}
