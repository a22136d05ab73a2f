/* Events between PMIx clients, and those that the launcher tells of. What arrives is printed with a number that
 * counts up, and how many are waited for is known.
 *     pmix_events say       the last rank says something to all, to one, and to one that asks later
 *     pmix_events ends      rank 0 receives how the others end: well, by a signal, with 7, without a goodbye
 *     pmix_events spawn     rank 0 receives how a job that it has spawned comes and goes
 *     pmix_events down      ranks receive that the node of rank 1 is lost, whose server rank 1 kills
 *     pmix_events told      ranks receive an event of a tool
 *     pmix_events fence     rank 1 dies; what becomes of the fence of the others?
 * An alarm ends whoever waits in vain. */
#include <pmix.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static pmix_proc_t self;
static pmix_nspace_t child;
static int received, registered;

static void check(pmix_status_t status, const char *what)
{
    if (status != PMIX_SUCCESS) {
        fprintf(stderr, "%s: %s\n", what, PMIx_Error_string(status));
        exit(3);
    }
}

static void on_event(size_t id, pmix_status_t code, const pmix_proc_t *source, pmix_info_t info[], size_t ninfo,
                 pmix_info_t results[], size_t nresults, pmix_event_notification_cbfunc_fn_t done, void *data)
{
    (void)id, (void)results, (void)nresults;
    pthread_mutex_lock(&lock);
    printf("rank %u receives %d of rank %u", self.rank, code, source->rank);
    for (size_t i = 0; i < ninfo; i++) {
        if (strcmp(info[i].key, "my.key") == 0)
            printf(": %s", info[i].value.data.string);
        if (PMIX_CHECK_KEY(&info[i], PMIX_EVENT_AFFECTED_PROC))
            printf(" about rank %u", info[i].value.data.proc->rank);
        if (PMIX_CHECK_KEY(&info[i], PMIX_EXIT_CODE))
            printf(" code %d", info[i].value.data.integer);
        if (PMIX_CHECK_KEY(&info[i], PMIX_HOSTNAME))
            printf(" about %s", info[i].value.data.string);
        if (PMIX_CHECK_KEY(&info[i], PMIX_NODEID))
            printf(", node %u", info[i].value.data.uint32);
        if (PMIX_CHECK_KEY(&info[i], PMIX_NSPACE))
            printf(" about the job %s", strcmp(info[i].value.data.string, child) == 0 ? "spawned" : "of others");
    }
    printf("\n");
    fflush(stdout);
    received++;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
    if (done != NULL)
        done(PMIX_EVENT_ACTION_COMPLETE, NULL, 0, NULL, NULL, data);
}

static void is_registered(pmix_status_t status, size_t id, void *data)
{
    (void)id, (void)data;
    check(status, "register");
    pthread_mutex_lock(&lock);
    registered++;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
}

static void wait_for(int *what, int count)
{
    pthread_mutex_lock(&lock);
    while (*what < count)
        pthread_cond_wait(&changed, &lock);
    pthread_mutex_unlock(&lock);
}

static void is_answered(pmix_status_t status, void *data)
{
    (void)data;
    pthread_mutex_lock(&lock);
    printf("rank %u is answered %d\n", self.rank, status);
    fflush(stdout);
    received++;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
}

static void listen_for(pmix_status_t *codes, size_t count)
{
    int before = registered;
    PMIx_Register_event_handler(codes, count, NULL, 0, on_event, is_registered, NULL);
    wait_for(&registered, before + 1);
}

static void say(pmix_status_t code, int to, const char *text)
{
    pmix_info_t info[2];
    pmix_proc_t target;
    pmix_data_array_t targets = {PMIX_PROC, 1, &target};

    PMIX_INFO_LOAD(&info[0], "my.key", text, PMIX_STRING);
    PMIX_PROC_LOAD(&target, self.nspace, to);
    if (to >= 0)
        PMIX_INFO_LOAD(&info[1], PMIX_EVENT_CUSTOM_RANGE, &targets, PMIX_DATA_ARRAY);
    check(PMIx_Notify_event(code, &self, to >= 0 ? PMIX_RANGE_CUSTOM : PMIX_RANGE_NAMESPACE, info,
                            to >= 0 ? 2 : 1, NULL, NULL), "notify");
}

static void fence(void)
{
    check(PMIx_Fence(NULL, 0, NULL, 0), "fence");
}

/* Ranks 0 to 2; the last one says all. */
static int saying(void)
{
    pmix_status_t one = -3001, other = -3003;
    static char large[70000];
    pmix_info_t info;

    if (self.rank == 0)
        listen_for(&one, 1);
    if (self.rank == 1)
        listen_for(NULL, 0);
    fence();
    if (self.rank == 2) {
        say(-3001, -1, "to all");
        say(-3002, 1, "to one");
        say(-3002, 0, "to one who has not asked for it");
        say(-3003, 0, "to one who asks later");
        memset(large, 'x', sizeof large - 1);
        PMIX_INFO_LOAD(&info, "my.key", large, PMIX_STRING);
        check(PMIx_Notify_event(-3001, &self, PMIX_RANGE_SESSION, &info, 1, is_answered, NULL), "notify");
        wait_for(&received, 1);
    }
    if (self.rank == 1)
        wait_for(&received, 2);
    fence();
    if (self.rank == 0) {
        listen_for(&other, 1);
        wait_for(&received, 2);
    }
    fence();
    return 0;
}

static int ending(void)
{
    pmix_status_t codes[] = {PMIX_ERR_PROC_TERM_WO_SYNC, PMIX_ERR_PROC_ABORTED_BY_SIG,
                             PMIX_ERR_EXIT_NONZERO_TERM, PMIX_EVENT_PROC_TERMINATED};

    if (self.rank == 0)
        listen_for(codes, 4);
    fence();
    switch (self.rank) {
    case 0:
        wait_for(&received, 4);
        break;
    case 2:
        raise(SIGKILL);
        break;
    case 3:
        PMIx_Finalize(NULL, 0);
        _exit(7);
    case 4:
        _exit(0);
    }
    return 0;
}

static int spawning(void)
{
    pmix_status_t codes[] = {PMIX_EVENT_JOB_START, PMIX_EVENT_JOB_END, PMIX_LAUNCH_COMPLETE};
    char *words[] = {"true", NULL};
    pmix_app_t app = {.cmd = "true", .argv = words, .maxprocs = 2};

    check(PMIx_Spawn(NULL, 0, &app, 1, child), "spawn");
    /* All has happened, or will. */
    listen_for(codes, 3);
    wait_for(&received, 3);
    return 0;
}

static int losing(void)
{
    pmix_status_t code = PMIX_EVENT_NODE_DOWN;

    listen_for(&code, 1);
    fence();
    if (self.rank == 1) {
        kill(getppid(), SIGKILL);
        pause();
    }
    wait_for(&received, 1);
    return 0;
}

static int told(void)
{
    pmix_status_t code = -3001;

    listen_for(&code, 1);
    printf("rank %u listens\n", self.rank);
    fflush(stdout);
    wait_for(&received, 1);
    return 0;
}

int main(int argc, char **argv)
{
    int code = 0;

    (void)argc;
    alarm(30);
    check(PMIx_Init(&self, NULL, 0), "init");
    if (strcmp(argv[1], "say") == 0) {
        code = saying();
    } else if (strcmp(argv[1], "ends") == 0) {
        code = ending();
    } else if (strcmp(argv[1], "spawn") == 0) {
        code = spawning();
    } else if (strcmp(argv[1], "down") == 0) {
        code = losing();
    } else if (strcmp(argv[1], "told") == 0) {
        code = told();
    } else {
        fence();
        if (self.rank == 1)
            raise(SIGKILL);
        pmix_status_t status = PMIx_Fence(NULL, 0, NULL, 0);
        printf("rank %u: %d\n", self.rank, status);
        fflush(stdout);
    }
    PMIx_Finalize(NULL, 0);
    return code;
}
