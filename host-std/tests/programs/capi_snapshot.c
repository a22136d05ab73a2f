/* Each rank puts values in two rounds and reads those of all ranks after each. Words:
 *   refused   the limit on pairs is below the number of puts, so a fence fails in some rank
 *   twice     all ranks put one more key, the same one
 *   thread    another thread waits for an attribute of the node meanwhile, so puts are messages */
#include <pmi.h>
#include <pmi2.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHECK(call)                                                                 \
    do {                                                                            \
        int code = (call);                                                          \
        if (code != PMI_SUCCESS) {                                                  \
            fprintf(stderr, "line %d: " #call " returns %d\n", __LINE__, code);     \
            return 4;                                                               \
        }                                                                           \
    } while (0)

enum { PUTS = 3 };

static void *wait_for_attribute(void *unused) {
    char value[64];
    int found = 0;
    (void)unused;
    PMI2_Info_GetNodeAttr("late", value, sizeof value, &found, 1);
    return (void *)(long)found;
}

static int has(const char *space, const char *key, const char *expected) {
    char value[1024];
    if (PMI_KVS_Get(space, key, value, sizeof value) != PMI_SUCCESS)
        return 0;
    if (strcmp(value, expected) != 0)
        fprintf(stderr, "%s is %s, not %s\n", key, value, expected);
    return strcmp(value, expected) == 0;
}

int main(int argc, char **argv) {
    int spawned, rank, size, failed = 0;
    char space[256], key[64], value[1024], long_value[1000];
    const char *word = argc > 1 ? argv[1] : "";
    CHECK(PMI_Init(&spawned));
    CHECK(PMI_Get_rank(&rank));
    CHECK(PMI_Get_size(&size));
    CHECK(PMI_KVS_Get_my_name(space, sizeof space));
    memset(long_value, 'v', sizeof long_value - 1);
    long_value[sizeof long_value - 1] = 0;

    if (strcmp(word, "refused") == 0) {
        for (int i = 0; i < 40; i++) {
            snprintf(key, sizeof key, "k-%d-%d", rank, i);
            CHECK(PMI_KVS_Put(space, key, "some-value"));
        }
        printf("rank %d: %s\n", rank, PMI_Barrier() == PMI_SUCCESS ? "taken" : "refused");
        CHECK(PMI_Barrier());
        return PMI_Finalize();
    }

    pthread_t thread;
    int waits = strcmp(word, "thread") == 0;
    if (waits && pthread_create(&thread, NULL, wait_for_attribute, NULL) != 0)
        return 5;

    for (int round = 0; round < 2; round++) {
        for (int i = 0; i < PUTS; i++) {
            snprintf(key, sizeof key, "k-%d-%d", rank, i);
            snprintf(value, sizeof value, "round %d; of %d=%d", round, rank, i);
            CHECK(PMI_KVS_Put(space, key, value));
        }
        if (strcmp(word, "twice") == 0)
            CHECK(PMI_KVS_Put(space, "same", "value"));
        CHECK(PMI_KVS_Commit(space));
        /* A rank reads what it has put at once. */
        failed += !has(space, key, value);
        CHECK(PMI_Barrier());
        for (int of = 0; of < size; of++) {
            for (int i = 0; i < PUTS; i++) {
                snprintf(key, sizeof key, "k-%d-%d", of, i);
                snprintf(value, sizeof value, "round %d; of %d=%d", round, of, i);
                failed += !has(space, key, value);
            }
        }
        CHECK(PMI_Barrier());
    }
    /* More than a segment has room for. */
    for (int i = 0; i < 300; i++) {
        snprintf(key, sizeof key, "long-%d-%d", rank, i);
        if (rank == 0)
            CHECK(PMI_KVS_Put(space, key, long_value));
    }
    CHECK(PMI_Barrier());
    failed += !has(space, "long-0-0", long_value) || !has(space, "long-0-299", long_value);
    failed += PMI_KVS_Get(space, "missing", value, sizeof value) == PMI_SUCCESS;
    CHECK(PMI_KVS_Get(space, "PMI_process_mapping", value, sizeof value));
    if (waits) {
        void *found = NULL;
        if (rank == 0)
            CHECK(PMI2_Info_PutNodeAttr("late", "1"));
        if (pthread_join(thread, &found) != 0)
            return 6;
        failed += found == NULL;
    }
    CHECK(PMI_Finalize());
    printf("rank %d of %d: %s\n", rank, size, failed ? "wrong values" : "all as expected");
    return failed != 0;
}
