/* Sixteen threads open the session at once, each puts values and reads those of the others, and all end it. */
#include <pmi2.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#define THREADS 16

static pthread_barrier_t meeting;
static int rank, size;

static void *user(void *number) {
    int spawned, appnum, own_rank, own_size, len, i, wrong = 0;
    char key[64], value[64], expected[64];
    wrong += PMI2_Init(&spawned, &own_size, &own_rank, &appnum) != PMI2_SUCCESS;
    snprintf(key, sizeof key, "thread-%d-%d", own_rank, (int)(long)number);
    wrong += PMI2_KVS_Put(key, key) != PMI2_SUCCESS;
    /* A fence is collective: one thread of each rank enters it. */
    if (pthread_barrier_wait(&meeting) == PTHREAD_BARRIER_SERIAL_THREAD) {
        wrong += PMI2_KVS_Fence() != PMI2_SUCCESS;
        rank = own_rank;
        size = own_size;
    }
    pthread_barrier_wait(&meeting);
    for (i = 0; i < THREADS; i++) {
        snprintf(expected, sizeof expected, "thread-%d-%d", (own_rank + 1) % own_size, i);
        wrong += PMI2_KVS_Get(NULL, PMI2_ID_NULL, expected, value, sizeof value, &len) != PMI2_SUCCESS;
        wrong += strcmp(value, expected) != 0;
    }
    /* As often as it was opened; the last one ends the session. */
    wrong += PMI2_Finalize() != PMI2_SUCCESS;
    return (void *)(long)wrong;
}

int main(void) {
    pthread_t all[THREADS];
    void *wrong;
    long i, faults = 0;
    pthread_barrier_init(&meeting, NULL, THREADS);
    for (i = 0; i < THREADS; i++)
        pthread_create(&all[i], NULL, user, (void *)i);
    for (i = 0; i < THREADS; i++) {
        pthread_join(all[i], &wrong);
        faults += (long)wrong;
    }
    faults += PMI2_Initialized() != 0;
    if (faults == 0)
        printf("rank %d of %d: all as expected\n", rank, size);
    return faults != 0;
}
