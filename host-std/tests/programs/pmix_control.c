/* Sends signals: to a rank of its own job, which stops and goes on, and to a job that it has spawned, which
   is asked to end, as `ends`, and killed when it does not, as `stays`. Two ranks. */
#include "pmix_common.h"
#include <signal.h>

static volatile sig_atomic_t came;

static void note(int signal)
{
    (void) signal;
    came = 1;
}

static pmix_status_t control(const pmix_proc_t *whom, const char *key, const void *value,
                             pmix_data_type_t type)
{
    pmix_info_t info, *results = NULL;
    size_t count = 0;

    PMIX_INFO_LOAD(&info, key, value, type);
    return PMIx_Job_control(whom, 1, &info, 1, &results, &count);
}

/* The state of a process, a letter. */
static char state_of(pid_t pid)
{
    char path[64], state = '?';
    snprintf(path, sizeof path, "/proc/%d/stat", (int) pid);
    FILE *stat = fopen(path, "r");
    if (stat != NULL) {
        if (fscanf(stat, "%*d %*s %c", &state) != 1)
            state = '?';
        fclose(stat);
    }
    return state;
}

/* True if a process that blocks a signal has got it. */
static int is_pending(pid_t pid, int signal)
{
    char path[64], line[256];
    unsigned long long pending = 0;
    snprintf(path, sizeof path, "/proc/%d/status", (int) pid);
    FILE *status = fopen(path, "r");
    while (status != NULL && fgets(line, sizeof line, status) != NULL)
        sscanf(line, "ShdPnd: %llx", &pending);
    if (status != NULL)
        fclose(status);
    return pending >> (signal - 1) & 1;
}

static void wait_for(pid_t pid, char state, int is_it)
{
    while ((state_of(pid) == state) != is_it)
        usleep(1000);
}

static void of_own_job(void)
{
    pmix_proc_t other;
    pmix_value_t own, *found;
    int number = SIGUSR1;
    bool yes = true;

    signal(SIGUSR1, note);
    own.type = PMIX_PID;
    own.data.pid = getpid();
    check(PMIx_Put(PMIX_GLOBAL, "process", &own), "put");
    check(PMIx_Commit(), "commit");
    meet();
    if (self.rank == 0) {
        PMIX_PROC_LOAD(&other, self.nspace, 1);
        check(PMIx_Get(&other, "process", NULL, 0, &found), "get");
        pid_t pid = found->data.pid;
        check(control(&other, PMIX_JOB_CTRL_SIGNAL, &number, PMIX_INT), "signal");
        number = SIGUSR2;
        check(control(&other, PMIX_JOB_CTRL_SIGNAL, &number, PMIX_INT), "blocked signal");
        holds(is_pending(pid, SIGUSR2), "a signal is sent before the answer");
        check(control(&other, PMIX_JOB_CTRL_PAUSE, &yes, PMIX_BOOL), "pause");
        wait_for(pid, 'T', 1);
        check(control(&other, PMIX_JOB_CTRL_RESUME, &yes, PMIX_BOOL), "resume");
        wait_for(pid, 'T', 0);
        say("the other stopped and went on");
    } else {
        while (!came)
            usleep(1000);
        say("a signal came");
    }
    meet();
}

static void of_spawned_job(const char *how)
{
    pmix_app_t app;
    pmix_proc_t children;
    pmix_nspace_t nspace;
    pmix_query_t query;
    pmix_info_t *found;
    size_t count;
    bool yes = true;
    int is_stubborn = strcmp(how, "stays") == 0;

    PMIX_APP_CONSTRUCT(&app);
    app.cmd = strdup("/bin/sh");
    pmix_argv_append_nosize(&app.argv, "sh");
    pmix_argv_append_nosize(&app.argv, "-c");
    pmix_argv_append_nosize(&app.argv, is_stubborn ? "trap '' TERM; while :; do sleep 0.1; done"
                                                   : "exec sleep 60");
    app.maxprocs = 2;
    check(PMIx_Spawn(NULL, 0, &app, 1, nspace), "spawn");
    PMIX_PROC_LOAD(&children, nspace, PMIX_RANK_WILDCARD);
    /* It may not have come as far as its trap. */
    if (is_stubborn)
        sleep(1);
    const char *key = is_stubborn ? PMIX_JOB_CTRL_KILL : PMIX_JOB_CTRL_TERMINATE;
    check(control(&children, key, &yes, PMIX_BOOL), "end");
    do {
        PMIX_QUERY_CONSTRUCT(&query);
        pmix_argv_append_nosize(&query.keys, PMIX_QUERY_JOB_STATUS);
        PMIX_QUERY_QUALIFIERS_CREATE(&query, 1);
        PMIX_INFO_LOAD(&query.qualifiers[0], PMIX_NSPACE, nspace, PMIX_STRING);
        check(PMIx_Query_info(&query, 1, &found, &count), "status of the children");
        usleep(1000);
    } while (found[0].value.data.jstate != PMIX_JOB_STATE_TERMINATED);
    say("the children ended");
}

int main(int argc, char **argv)
{
    pmix_proc_t nobody;
    int number = SIGTERM;
    bool yes = true;
    sigset_t blocked;

    sigemptyset(&blocked);
    sigaddset(&blocked, SIGUSR2);
    sigprocmask(SIG_BLOCK, &blocked, NULL);
    begin();
    of_own_job();
    if (self.rank == 0 && argc > 1)
        of_spawned_job(argv[1]);
    PMIX_PROC_LOAD(&nobody, "no-such-job", 0);
    expect(control(&nobody, PMIX_JOB_CTRL_SIGNAL, &number, PMIX_INT), PMIX_ERR_NOT_FOUND, "nobody");
    number = 4711;
    expect(control(&everybody, PMIX_JOB_CTRL_SIGNAL, &number, PMIX_INT), PMIX_ERR_BAD_PARAM, "4711");
    expect(control(&everybody, PMIX_JOB_CTRL_RESTART, "now", PMIX_STRING), PMIX_ERR_NOT_SUPPORTED,
           "restart");
    /* Hints on what a job can stand, which change nothing. */
    expect(control(&everybody, PMIX_JOB_CTRL_PREEMPTIBLE, &yes, PMIX_BOOL), PMIX_SUCCESS, "preemptible");
    expect(control(&everybody, PMIX_JOB_CTRL_CHECKPOINT_EVENT, &yes, PMIX_BOOL), PMIX_SUCCESS, "checkpoint");
    meet();
    return finish();
}
