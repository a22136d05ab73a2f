/* Every function of pmi2.h, as a program of others calls it: values, codes, threads, a forked child, a ring, a
 * spawn and connected jobs.
 *
 *   capi_pmi2 [names] [wait] [spawn] [connect] [stay] [refused] [lonely]
 *
 * With "stay", spawned processes go on until their values were read: other servers forget a job that has ended.
 */
#include <pmi2.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static int faults;

static void check(int line, const char *what, int got, int expected) {
    if (got != expected) {
        fprintf(stderr, "line %d: %s is %d, not %d\n", line, what, got, expected);
        faults++;
    }
}
#define CHECK(call, expected) check(__LINE__, #call, (call), (expected))

static int rank, size;
static char job[512];

static void without_session(void) {
    int number = -7, other = -7;
    char text[64] = "untouched";
    const char *command = "true";
    int one = 1;
    CHECK(PMI2_Initialized(), 0);
    CHECK(PMI2_Job_GetId(text, sizeof text), PMI2_ERR_INIT);
    CHECK(PMI2_Job_GetRank(&number), PMI2_ERR_INIT);
    CHECK(PMI2_Info_GetSize(&number), PMI2_ERR_INIT);
    CHECK(PMI2_Job_Connect("x", NULL), PMI2_ERR_INIT);
    CHECK(PMI2_Job_Disconnect("x"), PMI2_ERR_INIT);
    CHECK(PMI2_KVS_Put("k", "v"), PMI2_ERR_INIT);
    CHECK(PMI2_KVS_Fence(), PMI2_ERR_INIT);
    CHECK(PMI2_KVS_Get(NULL, PMI2_ID_NULL, "k", text, sizeof text, &number), PMI2_ERR_INIT);
    CHECK(PMI2_Info_PutNodeAttr("k", "v"), PMI2_ERR_INIT);
    CHECK(PMI2_Info_GetNodeAttr("k", text, sizeof text, &number, 1), PMI2_ERR_INIT);
    CHECK(PMI2_Info_GetNodeAttrIntArray("k", &number, 1, &number, &other), PMI2_ERR_INIT);
    CHECK(PMI2_Info_GetJobAttr("k", text, sizeof text, &number), PMI2_ERR_INIT);
    CHECK(PMI2_Info_GetJobAttrIntArray("k", &number, 1, &number, &other), PMI2_ERR_INIT);
    CHECK(PMI2_Nameserv_publish("s", NULL, "p"), PMI2_ERR_INIT);
    CHECK(PMI2_Nameserv_lookup("s", NULL, text, sizeof text), PMI2_ERR_INIT);
    CHECK(PMI2_Nameserv_unpublish("s", NULL), PMI2_ERR_INIT);
    CHECK(PMI2_Job_Spawn(1, &command, NULL, NULL, &one, NULL, NULL, 0, NULL, text, 1, NULL),
          PMI2_ERR_INIT);
    CHECK(PMIX_Ring("v", &number, &other, text, text, sizeof text), PMI2_ERR_INIT);
    CHECK(PMI2_Finalize(), PMI2_ERR_INIT);
    CHECK(number, -7);
    CHECK(strcmp(text, "untouched"), 0);
}

static void arguments(void) {
    char text[PMI2_MAX_VALLEN + 1], key[PMI2_MAX_KEYLEN + 1], small[4];
    const char *none = NULL;
    int number, other, zero = 0;
    memset(text, 'x', PMI2_MAX_VALLEN);
    text[PMI2_MAX_VALLEN] = 0;
    memset(key, 'k', PMI2_MAX_KEYLEN);
    key[PMI2_MAX_KEYLEN] = 0;
    CHECK(PMI2_Job_GetId(NULL, 9), PMI2_ERR_INVALID_ARG);
    CHECK(PMI2_Job_GetId(small, 0), PMI2_ERR_INVALID_LENGTH);
    CHECK(PMI2_Job_GetId(small, 1), PMI2_ERR_NOMEM);
    CHECK(PMI2_Job_GetRank(NULL), PMI2_ERR_INVALID_ARG);
    CHECK(PMI2_Info_GetSize(NULL), PMI2_ERR_INVALID_ARG);
    CHECK(PMI2_Job_Connect(NULL, NULL), PMI2_ERR_INVALID_ARG);
    CHECK(PMI2_Job_Disconnect(NULL), PMI2_ERR_INVALID_ARG);
    CHECK(PMI2_KVS_Put(NULL, "v"), PMI2_ERR_INVALID_KEY);
    CHECK(PMI2_KVS_Put("", "v"), PMI2_ERR_INVALID_KEY);
    CHECK(PMI2_KVS_Put(key, "v"), PMI2_ERR_INVALID_KEY_LENGTH);
    CHECK(PMI2_KVS_Put("k", NULL), PMI2_ERR_INVALID_VAL);
    CHECK(PMI2_KVS_Put("k", text), PMI2_ERR_INVALID_VAL_LENGTH);
    CHECK(PMI2_KVS_Get(NULL, 0, NULL, text, 9, &number), PMI2_ERR_INVALID_KEY);
    CHECK(PMI2_KVS_Get(NULL, 0, key, text, 9, &number), PMI2_ERR_INVALID_KEY_LENGTH);
    CHECK(PMI2_KVS_Get(NULL, 0, "k", NULL, 9, &number), PMI2_ERR_INVALID_ARG);
    CHECK(PMI2_KVS_Get(NULL, 0, "k", text, -1, &number), PMI2_ERR_INVALID_LENGTH);
    CHECK(PMI2_Info_PutNodeAttr(NULL, "v"), PMI2_ERR_INVALID_KEY);
    CHECK(PMI2_Info_PutNodeAttr(key, "v"), PMI2_ERR_INVALID_KEY_LENGTH);
    CHECK(PMI2_Info_PutNodeAttr("k", NULL), PMI2_ERR_INVALID_VAL);
    CHECK(PMI2_Info_GetNodeAttr("k", NULL, 9, &number, 0), PMI2_ERR_INVALID_ARG);
    CHECK(PMI2_Info_GetNodeAttr("k", text, 9, NULL, 0), PMI2_ERR_INVALID_KEY);
    CHECK(PMI2_Info_GetNodeAttr("k", text, 0, &number, 0), PMI2_ERR_INVALID_LENGTH);
    CHECK(PMI2_Info_GetNodeAttrIntArray("k", NULL, 1, &number, &other), PMI2_ERR_INVALID_ARG);
    CHECK(PMI2_Info_GetNodeAttrIntArray("k", &number, -1, &number, &other), PMI2_ERR_INVALID_LENGTH);
    CHECK(PMI2_Info_GetJobAttr(NULL, text, 9, &number), PMI2_ERR_INVALID_KEY);
    CHECK(PMI2_Info_GetJobAttr("k", text, -1, &number), PMI2_ERR_INVALID_LENGTH);
    CHECK(PMI2_Info_GetJobAttrIntArray("MISSING", &number, 1, &number, NULL), PMI2_ERR_INVALID_KEY);
    CHECK(PMI2_Nameserv_publish(NULL, NULL, "p"), PMI2_ERR_INVALID_ARG);
    CHECK(PMI2_Nameserv_publish("s", NULL, NULL), PMI2_ERR_INVALID_ARG);
    CHECK(PMI2_Nameserv_lookup("s", NULL, NULL, 9), PMI2_ERR_INVALID_ARG);
    CHECK(PMI2_Nameserv_unpublish("", NULL), PMI2_ERR_INVALID_ARG);
    CHECK(PMIX_Ring(NULL, &number, &other, text, text, 9), PMI2_ERR_INVALID_VAL);
    CHECK(PMIX_Ring("v", &number, &other, NULL, text, 9), PMI2_ERR_INVALID_ARG);
    CHECK(PMI2_Job_Spawn(0, &none, NULL, NULL, &zero, NULL, NULL, 0, NULL, NULL, 0, NULL),
          PMI2_ERR_INVALID_ARG);
    CHECK(PMI2_Job_Spawn(1, &none, NULL, NULL, &zero, NULL, NULL, 0, NULL, NULL, 0, NULL),
          PMI2_ERR_INVALID_ARG);
}

static void values(void) {
    char key[64], value[PMI2_MAX_VALLEN], found[PMI2_MAX_VALLEN];
    int len, i;
    snprintf(key, sizeof key, "card-%d", rank);
    snprintf(value, sizeof value, "of-rank-%d", rank);
    CHECK(PMI2_KVS_Put(key, value), PMI2_SUCCESS);
    memset(value, 'v', PMI2_MAX_VALLEN - 1);
    value[PMI2_MAX_VALLEN - 1] = 0;
    /* Slurm reads 1023 bytes, in which the name of the key counts. */
    value[900] = 0;
    snprintf(key, sizeof key, "long-%d", rank);
    CHECK(PMI2_KVS_Put(key, value), PMI2_SUCCESS);
    CHECK(PMI2_KVS_Fence(), PMI2_SUCCESS);
    for (i = 0; i < size; i++) {
        char expected[64];
        snprintf(key, sizeof key, "card-%d", i);
        snprintf(expected, sizeof expected, "of-rank-%d", i);
        len = -7;
        CHECK(PMI2_KVS_Get(NULL, i, key, found, sizeof found, &len), PMI2_SUCCESS);
        CHECK(strcmp(found, expected), 0);
        CHECK(len, (int)strlen(expected));
        CHECK(PMI2_KVS_Get(job, PMI2_ID_NULL, key, found, len + 1, &len), PMI2_SUCCESS);
        CHECK(len, (int)strlen(expected));
        CHECK(PMI2_KVS_Get(NULL, i, key, found, 4, &len), PMI2_SUCCESS);
        CHECK(len, -(int)strlen(expected) - 1);
        CHECK(strcmp(found, "of-"), 0);
        snprintf(key, sizeof key, "long-%d", i);
        CHECK(PMI2_KVS_Get(NULL, i, key, found, sizeof found, &len), PMI2_SUCCESS);
        CHECK(strcmp(found, value), 0);
    }
    CHECK(PMI2_KVS_Get(NULL, 0, "missing", found, sizeof found, &len), PMI2_ERR_INVALID_KEY);
    CHECK(PMI2_KVS_Fence(), PMI2_SUCCESS);
}

static void attributes(void) {
    char key[64], value[PMI2_MAX_ATTRVALUE], found[PMI2_MAX_ATTRVALUE];
    /* In capitals: Slurm has a value for any key behind PMI_netinfo_of_task. */
    int flag = -7, len = -7, ranks[64], local = -7;
    snprintf(key, sizeof key, "node-%d", rank);
    snprintf(value, sizeof value, "1,2,%d", rank);
    CHECK(PMI2_Info_GetNodeAttr("MISSING", found, sizeof found, &flag, 0), PMI2_SUCCESS);
    CHECK(flag, 0);
    CHECK(PMI2_Info_PutNodeAttr(key, value), PMI2_SUCCESS);
    CHECK(PMI2_Info_GetNodeAttr(key, found, sizeof found, &flag, 0), PMI2_SUCCESS);
    CHECK(flag, 1);
    CHECK(strcmp(found, value), 0);
    CHECK(PMI2_Info_GetNodeAttr(key, found, 3, &flag, 0), PMI2_ERR_NOMEM);
    CHECK(PMI2_Info_GetNodeAttrIntArray(key, ranks, 64, &len, &flag), PMI2_SUCCESS);
    CHECK(flag, 1);
    CHECK(len, 3);
    CHECK(ranks[0] == 1 && ranks[1] == 2 && ranks[2] == rank, 1);
    CHECK(PMI2_Info_GetNodeAttrIntArray(key, ranks, 2, &len, &flag), PMI2_ERR_NOMEM);
    CHECK(len, 3);
    CHECK(PMI2_Info_GetJobAttr("PMI_process_mapping", found, sizeof found, &flag), PMI2_SUCCESS);
    CHECK(flag, 1);
    CHECK(strncmp(found, "(vector,", 8), 0);
    CHECK(PMI2_Info_GetJobAttr("MISSING", found, sizeof found, &flag), PMI2_SUCCESS);
    CHECK(flag, 0);
    CHECK(PMI2_Info_GetJobAttrIntArray("MISSING", ranks, 64, &len, &flag), PMI2_SUCCESS);
    CHECK(flag, 0);
    CHECK(PMI2_Info_GetSize(&local), PMI2_SUCCESS);
    CHECK(local, size);
    CHECK(PMI2_Info_GetNodeAttrIntArray("localRanks", ranks, 64, &len, &flag), PMI2_SUCCESS);
    CHECK(flag, 1);
    CHECK(len, size);
    CHECK(ranks[rank], rank);
    local = -7;
    CHECK(PMI2_Job_GetRank(&local), PMI2_SUCCESS);
    CHECK(local, rank);
}

/* Results that a caller does not want: null pointers, for buffers with length 0. A value may be measured so. */
static void unwanted(void) {
    char key[64], value[64], found[64];
    int len = -7, flag = -7, number = -7;
    CHECK(PMI2_Init(NULL, NULL, NULL, NULL), PMI2_SUCCESS);
    CHECK(PMI2_Init(NULL, &number, NULL, NULL), PMI2_SUCCESS);
    CHECK(number, size);
    CHECK(PMI2_Finalize(), PMI2_SUCCESS);
    CHECK(PMI2_Finalize(), PMI2_SUCCESS);
    CHECK(PMI2_Job_GetId(NULL, 0), PMI2_SUCCESS);
    snprintf(key, sizeof key, "card-%d", rank);
    snprintf(value, sizeof value, "of-rank-%d", rank);
    CHECK(PMI2_KVS_Get(NULL, PMI2_ID_NULL, key, NULL, 0, &len), PMI2_SUCCESS);
    CHECK(len, -(int)strlen(value) - 1);
    CHECK(PMI2_KVS_Get(NULL, PMI2_ID_NULL, key, found, 0, &len), PMI2_SUCCESS);
    CHECK(PMI2_KVS_Get(NULL, PMI2_ID_NULL, key, found, -len, NULL), PMI2_SUCCESS);
    CHECK(strcmp(found, value), 0);
    CHECK(PMI2_KVS_Get(NULL, PMI2_ID_NULL, key, found, -len - 1, NULL), PMI2_ERR_NOMEM);
    snprintf(key, sizeof key, "node-%d", rank);
    CHECK(PMI2_Info_GetNodeAttr(key, NULL, 0, &flag, 0), PMI2_SUCCESS);
    CHECK(flag, 1);
    CHECK(PMI2_Info_GetNodeAttr(key, found, sizeof found, NULL, 0), PMI2_SUCCESS);
    CHECK(PMI2_Info_GetNodeAttrIntArray(key, NULL, 0, &len, &flag), PMI2_SUCCESS);
    CHECK(len == 3 && flag == 1, 1);
    CHECK(PMI2_Info_GetJobAttr("PMI_process_mapping", NULL, 0, &flag), PMI2_SUCCESS);
    CHECK(flag, 1);
    CHECK(PMI2_Info_GetJobAttr("MISSING", NULL, 0, &flag), PMI2_SUCCESS);
    CHECK(flag, 0);
    snprintf(value, sizeof value, "%d", rank);
    CHECK(PMIX_Ring(value, NULL, NULL, NULL, NULL, 0), PMI2_SUCCESS);
}

/* Keys and values with the bytes that end them in the messages of some servers. */
static void separators(void) {
    const char *value = "a;b=c d;;%3B%%";
    char key[64], found[64];
    int len = -7, flag = -7;
    snprintf(key, sizeof key, "half;%d", rank);
    CHECK(PMI2_KVS_Put(key, value), PMI2_SUCCESS);
    CHECK(PMI2_Info_PutNodeAttr(key, value), PMI2_SUCCESS);
    CHECK(PMI2_Info_GetNodeAttr(key, found, sizeof found, &flag, 0), PMI2_SUCCESS);
    CHECK(flag == 1 && strcmp(found, value) == 0, 1);
    CHECK(PMI2_KVS_Fence(), PMI2_SUCCESS);
    snprintf(key, sizeof key, "half;%d", (rank + 1) % size);
    CHECK(PMI2_KVS_Get(NULL, PMI2_ID_NULL, key, found, sizeof found, &len), PMI2_SUCCESS);
    CHECK(strcmp(found, value), 0);
    CHECK(len, (int)strlen(value));
    CHECK(PMI2_KVS_Get(NULL, PMI2_ID_NULL, "half", found, sizeof found, &len), PMI2_ERR_INVALID_KEY);
}

/* One thread waits for an attribute that another thread of the same process puts later. */
static void *waiter(void *unused) {
    char key[64], found[PMI2_MAX_ATTRVALUE];
    int flag = 0, code;
    (void)unused;
    snprintf(key, sizeof key, "late-%d", rank);
    code = PMI2_Info_GetNodeAttr(key, found, sizeof found, &flag, 1);
    return (void *)(long)(code != PMI2_SUCCESS || !flag || strcmp(found, "there") != 0);
}

static void wait_for_attribute(void) {
    pthread_t thread;
    char key[64];
    void *wrong;
    pthread_create(&thread, NULL, waiter, NULL);
    snprintf(key, sizeof key, "late-%d", rank);
    CHECK(PMI2_Info_PutNodeAttr(key, "there"), PMI2_SUCCESS);
    pthread_join(thread, &wrong);
    CHECK((int)(long)wrong, 0);
}

static void *reader(void *unused) {
    int round, i, wrong = 0;
    (void)unused;
    for (round = 0; round < 20; round++)
        for (i = 0; i < size; i++) {
            char key[64], expected[64], found[64];
            int len = -7;
            snprintf(key, sizeof key, "card-%d", i);
            snprintf(expected, sizeof expected, "of-rank-%d", i);
            wrong += PMI2_KVS_Get(NULL, i, key, found, sizeof found, &len) != PMI2_SUCCESS;
            wrong += strcmp(found, expected) != 0 || len != (int)strlen(expected);
        }
    return (void *)(long)wrong;
}

static void threads(void) {
    pthread_t all[16];
    void *wrong;
    int i;
    for (i = 0; i < 16; i++)
        pthread_create(&all[i], NULL, reader, NULL);
    for (i = 0; i < 16; i++) {
        pthread_join(all[i], &wrong);
        CHECK((int)(long)wrong, 0);
    }
}

static void child(void) {
    int status = -1;
    pid_t pid;
    fflush(NULL);
    pid = fork();
    if (pid == 0) {
        int number;
        faults = 0;
        without_session();
        CHECK(PMI2_Init(&number, &number, &number, &number), PMI2_FAIL);
        _exit(faults != 0);
    }
    CHECK(waitpid(pid, &status, 0), pid);
    CHECK(status, 0);
}

static void ring(void) {
    char value[64], left[64], right[64], expected[64];
    int place = -7, places = -7, round;
    for (round = 0; round < 2; round++) {
        snprintf(value, sizeof value, "ring-%d-%d", round, rank);
        CHECK(PMIX_Ring(value, &place, &places, left, right, sizeof left), PMI2_SUCCESS);
        CHECK(place, rank);
        CHECK(places, size);
        snprintf(expected, sizeof expected, "ring-%d-%d", round, (rank + size - 1) % size);
        CHECK(strcmp(left, expected), 0);
        snprintf(expected, sizeof expected, "ring-%d-%d", round, (rank + 1) % size);
        CHECK(strcmp(right, expected), 0);
    }
}

static void names(void) {
    char service[32], port[1024];
    snprintf(service, sizeof service, "service-%d", rank);
    CHECK(PMI2_Nameserv_lookup(service, NULL, port, sizeof port), PMI2_FAIL);
    CHECK(PMI2_Nameserv_publish(service, NULL, "port#1$"), PMI2_SUCCESS);
    CHECK(PMI2_Nameserv_lookup(service, NULL, port, sizeof port), PMI2_SUCCESS);
    CHECK(strcmp(port, "port#1$"), 0);
    CHECK(PMI2_Nameserv_lookup(service, NULL, port, 7), PMI2_ERR_NOMEM);
    CHECK(PMI2_Nameserv_lookup(service, NULL, NULL, 0), PMI2_SUCCESS);
    CHECK(PMI2_Nameserv_unpublish(service, NULL), PMI2_SUCCESS);
    CHECK(PMI2_Nameserv_publish(service, NULL, "7.0;tcp://10.0.0.1:5;7.1"), PMI2_SUCCESS);
    CHECK(PMI2_Nameserv_lookup(service, NULL, port, sizeof port), PMI2_SUCCESS);
    CHECK(strcmp(port, "7.0;tcp://10.0.0.1:5;7.1"), 0);
    CHECK(PMI2_Nameserv_unpublish(service, NULL), PMI2_SUCCESS);
}

/* A spawn that makes no job writes a code for each process that was requested. */
static void refused_spawn(void) {
    const char *commands[] = {"true", "/no/such/program"};
    int processes[] = {1, 2}, errors[] = {-7, -7, -7, -7};
    char id[8] = "before";
    if (rank != 0)
        return;
    CHECK(PMI2_Job_Spawn(2, commands, NULL, NULL, processes, NULL, NULL, 0, NULL, id, sizeof id, errors),
          PMI2_FAIL);
    CHECK(errors[1] == errors[2] && errors[1] != 0 && errors[1] != -7, 1);
    CHECK(errors[0] != -7 && errors[3] == -7, 1);
    CHECK(strcmp(id, "before"), 0);
    CHECK(PMI2_Job_Spawn(2, commands, NULL, NULL, processes, NULL, NULL, 0, NULL, NULL, 0, NULL), PMI2_FAIL);
}

/* Rank 0 starts two processes of this program with a value, and waits for their answer over names. */
static void spawn(const char *program, int connects, int stays) {
    const char *commands[] = {program, program};
    const char *first[] = {"child", "a b", "stay"}, *second[] = {"child", "c", "stay"};
    const char **argvs[] = {first, second};
    int argcs[] = {2 + stays, 2 + stays}, processes[] = {1, 1}, hints[] = {1, 0}, errors[2] = {-7, -7}, len = 0;
    MPID_Info directory = {0, 0, 0, NULL, "wdir", "/tmp"};
    MPID_Info preput = {0, 0, 0, NULL, "greeting", "from-the-parent"};
    const MPID_Info *info[] = {&directory, NULL}, *preputs[] = {&preput};
    char id[512] = "", value[64];
    int code, tries;
    if (rank != 0)
        return;
    code = PMI2_Job_Spawn(2, commands, argcs, argvs, processes, hints, info, 1, preputs, id, sizeof id,
                          errors);
    CHECK(code, PMI2_SUCCESS);
    CHECK(errors[0] == 0 && errors[1] == 0, 1);
    CHECK(strcmp(id, job) != 0, 1);
    if (!connects)
        return;
    CHECK(id[0] != 0, 1);
    CHECK(PMI2_Job_Connect("no-such-job", NULL), PMI2_FAIL);
    /* The job that was started is connected with its parent, and may be connected once more. */
    CHECK(PMI2_Job_Connect(id, NULL), PMI2_SUCCESS);
    for (tries = 0; tries < 2000; tries++) {
        code = PMI2_KVS_Get(id, 1, "answer", value, sizeof value, &len);
        if (code == PMI2_SUCCESS)
            break;
        usleep(5000);
    }
    CHECK(code, PMI2_SUCCESS);
    CHECK(strcmp(value, "from-the-child"), 0);
    if (stays)
        CHECK(PMI2_Nameserv_publish("was-read", NULL, "yes"), PMI2_SUCCESS);
}

/* A process that was started by `spawn`. */
static int spawned_child(int argc, char **argv) {
    char value[64], directory[256];
    int len = -7, tries;
    CHECK(argc == 3 || argc == 4, 1);
    CHECK(strcmp(argv[2], rank == 0 ? "a b" : "c"), 0);
    CHECK(size, 2);
    if (rank == 0 && getenv("ANY_DIRECTORY") == NULL)
        CHECK(strcmp(getcwd(directory, sizeof directory), "/tmp"), 0);
    CHECK(PMI2_KVS_Get(NULL, PMI2_ID_NULL, "greeting", value, sizeof value, &len), PMI2_SUCCESS);
    CHECK(strcmp(value, "from-the-parent"), 0);
    if (rank == 1)
        CHECK(PMI2_KVS_Put("answer", "from-the-child"), PMI2_SUCCESS);
    CHECK(PMI2_KVS_Fence(), PMI2_SUCCESS);
    for (tries = 0; argc == 4 && tries < 2000; tries++) {
        if (PMI2_Nameserv_lookup("was-read", NULL, value, sizeof value) == PMI2_SUCCESS)
            break;
        usleep(5000);
    }
    CHECK(PMI2_Finalize(), PMI2_SUCCESS);
    if (faults == 0)
        printf("child %d of %d: all as expected\n", rank, size);
    return faults != 0;
}

static int has(int argc, char **argv, const char *word) {
    int i, found = 0;
    for (i = 1; i < argc; i++)
        found += strcmp(argv[i], word) == 0;
    return found;
}

int main(int argc, char **argv) {
    int spawned = -7, appnum = -7, number;
    without_session();
    if (PMI2_Init(&spawned, &size, &rank, &appnum) != PMI2_SUCCESS)
        return 2;
    CHECK(PMI2_Initialized(), 1);
    if (has(argc, argv, "child")) {
        CHECK(spawned, 1);
        return spawned_child(argc, argv);
    }
    CHECK(spawned, 0);
    CHECK(appnum == 0 || appnum == -1, 1);
    CHECK(PMI2_Init(&number, &number, &number, &number), PMI2_SUCCESS);
    CHECK(PMI2_Job_GetId(job, sizeof job), PMI2_SUCCESS);
    CHECK(strlen(job) > 0, 1);
    arguments();
    values();
    attributes();
    unwanted();
    separators();
    threads();
    child();
    ring();
    if (has(argc, argv, "wait"))
        wait_for_attribute();
    if (has(argc, argv, "names"))
        names();
    if (has(argc, argv, "spawn"))
        spawn(argv[0], has(argc, argv, "connect"), has(argc, argv, "stay"));
    if (has(argc, argv, "refused"))
        refused_spawn();
    CHECK(PMI2_KVS_Fence(), PMI2_SUCCESS);
    CHECK(PMI2_Finalize(), PMI2_SUCCESS);
    CHECK(PMI2_Initialized(), 1);
    CHECK(PMI2_Finalize(), PMI2_SUCCESS);
    without_session();
    CHECK(PMI2_Init(&spawned, &number, &number, &appnum),
          has(argc, argv, "lonely") ? PMI2_SUCCESS : PMI2_FAIL);
    if (faults == 0)
        printf("rank %d of %d: all as expected\n", rank, size);
    return faults != 0;
}
