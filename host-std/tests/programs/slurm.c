/* Proves that Slurm's client library for PMI-2 is served: keys, attributes, names, a spawn, and two threads
 * that ask at the same time.
 *     slurm             prints "rank R of N: all as expected"
 *     slurm apart       the same without a spawn, and whatever the number of the program
 *     slurm child       what it spawns
 * Whatever is not as expected is told by the line that saw it. */
#include <pthread.h>
#include <slurm/pmi2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EXPECT(what) \
    do { \
        if (!(what)) { \
            fprintf(stderr, "line %d: not so: %s\n", __LINE__, #what); \
            exit(65); \
        } \
    } while (0)

static char job[PMI2_MAX_VALLEN];
static int spawned, size, rank, appnum;

static void *ask(void *key)
{
    char value[PMI2_MAX_VALLEN];
    int i, len;

    for (i = 0; i < 200; i++) {
        EXPECT(PMI2_KVS_Get(job, PMI2_ID_NULL, key, value, sizeof value, &len) == PMI2_SUCCESS);
        EXPECT(strstr(value, key) == value);
    }
    return NULL;
}

static int child(void)
{
    char value[PMI2_MAX_VALLEN];
    int len;

    EXPECT(spawned && size == 2 && appnum == 0);
    EXPECT(PMI2_KVS_Get(job, PMI2_ID_NULL, "colour", value, sizeof value, &len) == PMI2_SUCCESS);
    EXPECT(!strcmp(value, "dark;blue"));
    printf("child %d of %d: all as expected\n", rank, size);
    return PMI2_Finalize();
}

static void spawn(const char *self)
{
    const char *commands[] = { self };
    const char *words[] = { "child" }, **arguments[] = { words };
    int counts[] = { 1 }, processes[] = { 2 }, sizes[] = { 0 }, errors[2] = { 7, 7 };
    struct MPID_Info preput = { 0 };
    const struct MPID_Info *none[] = { NULL }, *preputs[] = { &preput };
    char name[PMI2_MAX_VALLEN];

    preput.key = "colour";
    preput.value = "dark;blue";
    EXPECT(PMI2_Job_Spawn(1, commands, counts, arguments, processes, sizes, none, 1, preputs, name,
                          sizeof name, errors) == PMI2_SUCCESS);
    EXPECT(strncmp(name, "kvs_", 4) == 0 && strcmp(name, job) != 0);
}

int main(int argc, char **argv)
{
    char value[PMI2_MAX_VALLEN], key[PMI2_MAX_KEYLEN], other[PMI2_MAX_KEYLEN];
    pthread_t threads[2];
    int len, found;

    EXPECT(PMI2_Init(&spawned, &size, &rank, &appnum) == PMI2_SUCCESS);
    EXPECT(PMI2_Job_GetId(job, sizeof job) == PMI2_SUCCESS);
    if (argc > 1 && !strcmp(argv[1], "child"))
        return child();
    EXPECT(!spawned && (appnum == 0 || argc > 1));
    sprintf(key, "key%d", rank);
    sprintf(value, "key%d;=x y", rank);
    EXPECT(PMI2_KVS_Put(key, value) == PMI2_SUCCESS);
    EXPECT(PMI2_KVS_Fence() == PMI2_SUCCESS);
    sprintf(other, "key%d", (rank + 1) % size);
    sprintf(key, "key%d;=x y", (rank + 1) % size);
    EXPECT(PMI2_KVS_Get(job, PMI2_ID_NULL, other, value, sizeof value, &len) == PMI2_SUCCESS);
    EXPECT(!strcmp(value, key) && len == (int)strlen(key));
    EXPECT(PMI2_Info_GetJobAttr("universeSize", value, sizeof value, &found) == PMI2_SUCCESS);
    EXPECT(found && atoi(value) == size);
    EXPECT(PMI2_Info_GetJobAttr("hasNameServ", value, sizeof value, &found) == PMI2_SUCCESS);
    EXPECT(found && !strcmp(value, "TRUE"));
    EXPECT(PMI2_Info_GetJobAttr("cartDims", value, sizeof value, &found) == PMI2_SUCCESS && !found);

    /* Asked for before it is put by whoever is last. */
    if (rank == size - 1)
        EXPECT(PMI2_Info_PutNodeAttr("late", "here") == PMI2_SUCCESS);
    EXPECT(PMI2_Info_GetNodeAttr("late", value, sizeof value, &found, 1) == PMI2_SUCCESS);
    EXPECT(found && !strcmp(value, "here"));

    sprintf(key, "desk%d", rank);
    EXPECT(PMI2_Nameserv_publish(key, NULL, "room;12") == PMI2_SUCCESS);
    EXPECT(PMI2_KVS_Fence() == PMI2_SUCCESS);
    sprintf(key, "desk%d", (rank + 1) % size);
    EXPECT(PMI2_Nameserv_lookup(key, NULL, value, sizeof value) == PMI2_SUCCESS);
    EXPECT(!strcmp(value, "room;12"));

    pthread_create(&threads[0], NULL, ask, "key0");
    pthread_create(&threads[1], NULL, ask, other);
    pthread_join(threads[0], NULL);
    pthread_join(threads[1], NULL);

    if (rank == 0 && argc == 1)
        spawn(argv[0]);
    EXPECT(PMI2_Finalize() == PMI2_SUCCESS);
    printf("rank %d of %d: all as expected\n", rank, size);
    return 0;
}
