/* A debugger as a PMIx tool: it starts a job that waits in init, daemons beside it, and releases it; with "exec" a
   job that stops at its first instruction, which further words, a command, examine with a pid as last word. The
   same program is the job ("job") and the daemon ("daemon"). */
#include "pmix_common.h"
#include <pmix_tool.h>
#include <pthread.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static char stopped[PMIX_MAX_NSLEN + 1], breakpoint[32], ended[4][PMIX_MAX_NSLEN + 1];
static pmix_rank_t stopped_rank;
static int ends;

static void on_event(size_t number, pmix_status_t code, const pmix_proc_t *source, pmix_info_t *infos,
                     size_t count, pmix_info_t *results, size_t results_count,
                     pmix_event_notification_cbfunc_fn_t done, void *data)
{
    pthread_mutex_lock(&lock);
    if (code == PMIX_READY_FOR_DEBUG) {
        strncpy(stopped, source->nspace, PMIX_MAX_NSLEN);
        stopped_rank = source->rank;
        for (size_t at = 0; at < count; at++)
            if (PMIX_CHECK_KEY(&infos[at], PMIX_BREAKPOINT))
                strncpy(breakpoint, infos[at].value.data.string, sizeof breakpoint - 1);
    }
    for (size_t at = 0; code == PMIX_EVENT_JOB_END && at < count; at++)
        if (PMIX_CHECK_KEY(&infos[at], PMIX_NSPACE) && ends < 4)
            strncpy(ended[ends++], infos[at].value.data.string, PMIX_MAX_NSLEN);
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
    done(PMIX_EVENT_ACTION_COMPLETE, NULL, 0, NULL, NULL, data);
}

static void wait_for_stop(const char *job)
{
    pthread_mutex_lock(&lock);
    while (strcmp(stopped, job) != 0)
        pthread_cond_wait(&changed, &lock);
    pthread_mutex_unlock(&lock);
    holds(stopped_rank == PMIX_RANK_WILDCARD, "all ranks wait");
}

static void wait_for_end(const char *job)
{
    pthread_mutex_lock(&lock);
    for (;;) {
        for (int at = 0; at < ends; at++)
            if (strcmp(ended[at], job) == 0) {
                pthread_mutex_unlock(&lock);
                return;
            }
        pthread_cond_wait(&changed, &lock);
    }
}

static void spawn(const char *word, int ranks, pmix_info_t *infos, size_t count, pmix_nspace_t job)
{
    pmix_app_t app;
    char path[4096];
    ssize_t length = readlink("/proc/self/exe", path, sizeof path - 1);

    holds(length > 0, "the program has a path");
    path[length] = 0;
    PMIX_APP_CONSTRUCT(&app);
    app.cmd = strdup(path);
    pmix_argv_append_nosize(&app.argv, path);
    pmix_argv_append_nosize(&app.argv, word);
    app.maxprocs = ranks;
    check(PMIx_Spawn(infos, count, &app, 1, job), word);
}

static void release(const char *job)
{
    pmix_proc_t all;
    pmix_info_t infos[2];
    bool yes = true;

    PMIX_PROC_LOAD(&all, job, PMIX_RANK_WILDCARD);
    PMIX_INFO_LOAD(&infos[0], PMIX_EVENT_CUSTOM_RANGE, &all, PMIX_PROC);
    PMIX_INFO_LOAD(&infos[1], PMIX_EVENT_NON_DEFAULT, &yes, PMIX_BOOL);
    check(PMIx_Notify_event(PMIX_DEBUGGER_RELEASE, &self, PMIX_RANGE_CUSTOM, infos, 2, NULL, NULL),
          "release");
}

/* The debugger. */
static void debug(void)
{
    pmix_status_t codes[] = {PMIX_READY_FOR_DEBUG, PMIX_EVENT_JOB_END};
    pmix_info_t infos[4];
    pmix_nspace_t job, daemons;
    pmix_proc_t target;
    bool yes = true;
    uint16_t one = 1;

    holds(PMIx_Register_event_handler(codes, 2, NULL, 0, on_event, NULL, NULL) >= 0, "events are");
    PMIX_INFO_LOAD(&infos[0], PMIX_DEBUG_STOP_IN_INIT, &yes, PMIX_BOOL);
    PMIX_INFO_REQUIRED(&infos[0]);
    PMIX_INFO_LOAD(&infos[1], PMIX_FWD_STDOUT, &yes, PMIX_BOOL);
    spawn("job", 2, infos, 2, job);
    wait_for_stop(job);
    printf("the job waits\n");
    fflush(stdout);
    /* A daemon for each rank, which the daemons learn from their job. */
    PMIX_PROC_LOAD(&target, job, PMIX_RANK_WILDCARD);
    PMIX_INFO_LOAD(&infos[0], PMIX_DEBUGGER_DAEMONS, &yes, PMIX_BOOL);
    PMIX_INFO_LOAD(&infos[1], PMIX_DEBUG_TARGET, &target, PMIX_PROC);
    PMIX_INFO_LOAD(&infos[2], PMIX_DEBUG_DAEMONS_PER_PROC, &one, PMIX_UINT16);
    PMIX_INFO_LOAD(&infos[3], PMIX_FWD_STDOUT, &yes, PMIX_BOOL);
    spawn("daemon", 1, infos, 4, daemons);
    wait_for_end(daemons);
    printf("the daemons have ended\n");
    fflush(stdout);
    release(job);
    wait_for_end(job);
    printf("the job has ended\n");
}

/* Examines a process that has stopped at its first instruction. */
static void examine(pid_t pid, char **command)
{
    char path[64], line[4096] = "", own[4096], program[4096];
    FILE *file;
    ssize_t length;

    snprintf(path, sizeof path, "/proc/%d/exe", (int)pid);
    length = readlink(path, program, sizeof program - 1);
    holds(length > 0, "the process has a program");
    program[length] = 0;
    length = readlink("/proc/self/exe", own, sizeof own - 1);
    own[length > 0 ? length : 0] = 0;
    holds(strcmp(program, own) == 0, "the process executes the program");
    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    file = fopen(path, "r");
    holds(file && fgets(line, sizeof line, file), "the process exists");
    fclose(file);
    holds(strstr(line, ") T ") != NULL, "the process has stopped, and nothing traces it");
    for (int at = 0; command[at]; at++)
        snprintf(line + (at ? strlen(line) : 0), sizeof line - (at ? strlen(line) : 0), "%s ",
                 command[at]);
    if (command[0]) {
        snprintf(line + strlen(line), sizeof line - strlen(line), "%d", (int)pid);
        fflush(stdout);
        holds(system(line) == 0, "the command succeeds");
    }
}

/* The debugger of a job that stops at its first instruction. */
static void stop_on_exec(char **command)
{
    pmix_status_t codes[] = {PMIX_READY_FOR_DEBUG, PMIX_EVENT_JOB_END};
    pmix_info_t infos[2], resume;
    pmix_proc_info_t *table;
    pmix_query_t query;
    pmix_info_t *found;
    pmix_nspace_t job;
    pmix_proc_t all;
    size_t count;
    bool yes = true;

    holds(PMIx_Register_event_handler(codes, 2, NULL, 0, on_event, NULL, NULL) >= 0, "events are");
    PMIX_INFO_LOAD(&infos[0], PMIX_DEBUG_STOP_ON_EXEC, &yes, PMIX_BOOL);
    PMIX_INFO_REQUIRED(&infos[0]);
    PMIX_INFO_LOAD(&infos[1], PMIX_FWD_STDOUT, &yes, PMIX_BOOL);
    spawn("job", 2, infos, 2, job);
    wait_for_stop(job);
    holds(strcmp(breakpoint, "exec") == 0, "the place of the stop is known");
    PMIX_QUERY_CONSTRUCT(&query);
    pmix_argv_append_nosize(&query.keys, PMIX_QUERY_PROC_TABLE);
    PMIX_QUERY_QUALIFIERS_CREATE(&query, 1);
    PMIX_INFO_LOAD(&query.qualifiers[0], PMIX_NSPACE, job, PMIX_STRING);
    check(PMIx_Query_info(&query, 1, &found, &count), "table");
    holds(found->value.data.darray->size == 2, "both ranks exist");
    table = found->value.data.darray->array;
    for (int rank = 0; rank < 2; rank++)
        examine(table[rank].pid, command);
    printf("the job waits\n");
    fflush(stdout);
    PMIX_PROC_LOAD(&all, job, PMIX_RANK_WILDCARD);
    PMIX_INFO_LOAD(&resume, PMIX_JOB_CTRL_RESUME, &yes, PMIX_BOOL);
    check(PMIx_Job_control(&all, 1, &resume, 1, NULL, NULL), "resume");
    wait_for_end(job);
    printf("the job has ended\n");
}

/* A daemon of the debugger, which is a tool: it knows the job and sees its processes. */
static void be_daemon(void)
{
    pmix_proc_t all;
    pmix_value_t *value;
    pmix_query_t query;
    pmix_info_t *found;
    size_t count;

    check(PMIx_tool_init(&self, NULL, 0), "init of a daemon");
    PMIX_PROC_LOAD(&all, self.nspace, PMIX_RANK_WILDCARD);
    check(PMIx_Get(&all, PMIX_DEBUG_TARGET, NULL, 0, &value), "target");
    PMIX_QUERY_CONSTRUCT(&query);
    pmix_argv_append_nosize(&query.keys, PMIX_QUERY_LOCAL_PROC_TABLE);
    PMIX_QUERY_QUALIFIERS_CREATE(&query, 1);
    PMIX_INFO_LOAD(&query.qualifiers[0], PMIX_NSPACE, value->data.proc->nspace, PMIX_STRING);
    check(PMIx_Query_info(&query, 1, &found, &count), "table");
    printf("daemon %u: %zu processes\n", self.rank, found->value.data.darray->size);
    fflush(stdout);
    check(PMIx_tool_finalize(), "finalize of a daemon");
    /* Its exit code is no failure of the run. */
    exit(5);
}

static void be_job(void)
{
    begin();
    meet();
    say("released");
    finish();
}

int main(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], "job") == 0) {
        be_job();
    } else if (argc > 1 && strcmp(argv[1], "daemon") == 0) {
        be_daemon();
    } else {
        check(PMIx_tool_init(&self, NULL, 0), "init");
        if (argc > 1 && strcmp(argv[1], "exec") == 0)
            stop_on_exec(argv + 2);
        else
            debug();
        fflush(stdout);
        check(PMIx_tool_finalize(), "finalize");
    }
    return 0;
}
