/* One rank of a job over PMIx that tells how long init, put with commit, get and fence with data took. It uses
   the library and nothing else, so that the same program runs under any launcher of PMIx.

   pmix time COUNT: every rank puts a value under a new key and commits it, fences, and gets that key of another
   rank, COUNT times; then it fences with all that data COUNT times more. A new key each time, because the
   library asks for none twice. Rank 0 prints one line per operation: how many there were, median and mean in
   nanoseconds; of init those of all ranks, as `ready` when the last of them was through, counted from
   LAUNCHER_STARTED_NS, a time of day, and as `load` and `work` how much processor time a rank had used before init,
   and used in it.

   pmix memory: every rank commits one value, all fence, and rank 0 prints the peak memory of the processes it
   descends from, the launcher among them. */
#include <pmix.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { VALUE_BYTES = 64, WARMING = 3, COUNT_MAX = 1000 };

static pmix_proc_t self, job;
static uint32_t size;

static void check(pmix_status_t status, const char *what)
{
    if (status == PMIX_SUCCESS)
        return;
    fprintf(stderr, "rank %u: %s: %s\n", self.rank, what, PMIx_Error_string(status));
    exit(3);
}

static uint64_t now_by(clockid_t clock)
{
    struct timespec at;
    clock_gettime(clock, &at);
    return (uint64_t)at.tv_sec * 1000000000 + (uint64_t)at.tv_nsec;
}

static uint64_t now(void)
{
    return now_by(CLOCK_MONOTONIC);
}

static int by_size(const void *one, const void *other)
{
    uint64_t a = *(const uint64_t *)one, b = *(const uint64_t *)other;
    return (a > b) - (a < b);
}

static void report(const char *name, uint64_t *took, size_t count)
{
    uint64_t total = 0;
    for (size_t at = 0; at < count; at++)
        total += took[at];
    qsort(took, count, sizeof *took, by_size);
    printf("%s count=%zu median_ns=%llu mean_ns=%llu\n", name, count,
           (unsigned long long)took[count / 2], (unsigned long long)(total / count));
}

static void fence(void)
{
    pmix_info_t collect;
    bool yes = true;
    PMIX_INFO_LOAD(&collect, PMIX_COLLECT_DATA, &yes, PMIX_BOOL);
    check(PMIx_Fence(&job, 1, &collect, 1), "fence");
}

static void put(const char *key, const char *text)
{
    pmix_value_t value = {.type = PMIX_STRING, .data.string = (char *)text};
    check(PMIx_Put(PMIX_GLOBAL, key, &value), "put");
    check(PMIx_Commit(), "commit");
}

/* The value that `rank` has put under `key`, to be released. */
static pmix_value_t *get(uint32_t rank, const char *key)
{
    pmix_proc_t of;
    pmix_value_t *found;
    PMIX_PROC_LOAD(&of, self.nspace, rank);
    check(PMIx_Get(&of, key, NULL, 0, &found), "get");
    if (found->type != PMIX_STRING) {
        fprintf(stderr, "rank %u: the value of rank %u is no text\n", self.rank, rank);
        exit(4);
    }
    return found;
}

/* A text that tells who has put it. */
static void fill(char *text, uint32_t rank)
{
    memset(text, 'v', VALUE_BYTES);
    text[VALUE_BYTES] = 0;
    text[snprintf(text, VALUE_BYTES, "%08u", rank)] = 'v';
}

/* What init has taken of one rank. */
typedef struct {
    uint64_t init, ready, load, work;
} start_t;

static void report_starts(const start_t *starts)
{
    uint64_t *took = calloc(size, sizeof *took), last = 0;
    for (uint32_t rank = 0; rank < size; rank++) {
        took[rank] = starts[rank].init;
        last = starts[rank].ready > last ? starts[rank].ready : last;
    }
    report("init", took, size);
    report("ready", &last, 1);
    for (uint32_t rank = 0; rank < size; rank++)
        took[rank] = starts[rank].load;
    report("load", took, size);
    for (uint32_t rank = 0; rank < size; rank++)
        took[rank] = starts[rank].work;
    report("work", took, size);
    free(took);
}

static void measure(start_t own, unsigned count)
{
    static uint64_t puts[COUNT_MAX], fences[COUNT_MAX], gets[COUNT_MAX];
    char key[32], text[VALUE_BYTES + 1], expected[VALUE_BYTES + 1];
    /* Ranks are started one after the other; time only what happens when all are there. */
    for (int turn = 0; turn < WARMING; turn++)
        fence();
    fill(text, self.rank);
    for (unsigned turn = 0; turn < count; turn++) {
        snprintf(key, sizeof key, "card-%u", turn);
        uint64_t start = now();
        put(key, text);
        uint64_t committed = now();
        fence();
        uint64_t met = now();
        uint32_t of = (self.rank + 1 + turn) % size;
        pmix_value_t *found = get(of, key);
        gets[turn] = now() - met;
        puts[turn] = committed - start;
        fill(expected, of);
        if (strcmp(found->data.string, expected) != 0) {
            fprintf(stderr, "rank %u: the value of rank %u is another\n", self.rank, of);
            exit(4);
        }
        PMIX_VALUE_RELEASE(found);
    }
    /* Nobody does anything else meanwhile, so that nobody waits for what is no fence. */
    fence();
    for (unsigned turn = 0; turn < count; turn++) {
        uint64_t start = now();
        fence();
        fences[turn] = now() - start;
    }
    snprintf(text, sizeof text, "%llu %llu %llu %llu", (unsigned long long)own.init,
             (unsigned long long)own.ready, (unsigned long long)own.load, (unsigned long long)own.work);
    put("start", text);
    fence();
    if (self.rank == 0) {
        start_t *starts = calloc(size, sizeof *starts);
        for (uint32_t rank = 0; rank < size; rank++) {
            pmix_value_t *found = get(rank, "start");
            char *rest;
            starts[rank].init = strtoull(found->data.string, &rest, 10);
            starts[rank].ready = strtoull(rest, &rest, 10);
            starts[rank].load = strtoull(rest, &rest, 10);
            starts[rank].work = strtoull(rest, NULL, 10);
            PMIX_VALUE_RELEASE(found);
        }
        report_starts(starts);
        free(starts);
        report("put", puts, count);
        report("fence", fences, count);
        report("get", gets, count);
    }
}

/* Lets another program print the processes of this machine. */
static void report_processes(const char *reporter)
{
    char command[4096];
    snprintf(command, sizeof command, "exec '%s' processes process", reporter);
    fflush(stdout);
    if (system(command) != 0)
        exit(1);
}

static void measure_memory(const char *reporter)
{
    char text[VALUE_BYTES + 1];
    fill(text, self.rank);
    put("card", text);
    fence();
    pmix_value_t *found = get((self.rank + 1) % size, "card");
    PMIX_VALUE_RELEASE(found);
    fence();
    if (self.rank == 0)
        report_processes(reporter);
    /* No rank exits, and releases memory, before rank 0 has measured. */
    fence();
}

int main(int argc, char **argv)
{
    pmix_value_t *found;
    unsigned count = argc == 3 && strcmp(argv[1], "time") == 0 ? strtoul(argv[2], NULL, 10) : 0;
    bool is_memory = argc == 3 && strcmp(argv[1], "memory") == 0;
    if (!is_memory && (count == 0 || count > COUNT_MAX)) {
        fprintf(stderr, "usage: pmix time COUNT | pmix memory REPORTER\n");
        return 2;
    }
    start_t own = {.load = now_by(CLOCK_PROCESS_CPUTIME_ID)};
    uint64_t start = now();
    check(PMIx_Init(&self, NULL, 0), "init");
    own.init = now() - start;
    own.work = now_by(CLOCK_PROCESS_CPUTIME_ID) - own.load;
    const char *started = getenv("LAUNCHER_STARTED_NS");
    own.ready = started ? now_by(CLOCK_REALTIME) - strtoull(started, NULL, 10) : 0;
    PMIX_PROC_LOAD(&job, self.nspace, PMIX_RANK_WILDCARD);
    check(PMIx_Get(&job, PMIX_JOB_SIZE, NULL, 0, &found), "job size");
    size = found->data.uint32;
    PMIX_VALUE_RELEASE(found);
    if (is_memory)
        measure_memory(argv[2]);
    else
        measure(own, count);
    fflush(stdout);
    check(PMIx_Finalize(NULL, 0), "finalize");
    return 0;
}
