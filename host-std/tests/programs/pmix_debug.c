/* A debugger as a PMIx tool.
     pmix_debug PLACE COUNT RANKS  starts a job that waits at PLACE ("init" or "app"), daemons beside it, as many as
                                   COUNT says ("proc" and "node": for each of these, named by a process; "job": the
                                   job is named, without a number), and releases it
     pmix_debug exec COMMAND...    starts a job that stops at its first instruction; the command examines each
                                   process, whose pid is its last word
     pmix_debug cospawn            starts a job that waits in init and daemons beside its ranks by one request
     pmix_debug attach JOB         starts daemons on the nodes of a running job, which outlive it
   The same program is the job ("job" or "app") and the daemon ("daemon" or "endless"). */
#include "pmix_common.h"
#include <pmix_tool.h>
#include <pthread.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static char stopped[PMIX_MAX_NSLEN + 1], breakpoint[32], ended[64][PMIX_MAX_NSLEN + 1];
static pmix_rank_t stopped_rank;
/* Path of this program, which is valid even if the file has been replaced since. */
static char *own_path;
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
        if (PMIX_CHECK_KEY(&infos[at], PMIX_NSPACE) && ends < 64)
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

static pmix_status_t try_spawn(const char *word, int ranks, pmix_info_t *infos, size_t count,
                               pmix_nspace_t job)
{
    pmix_app_t app;

    PMIX_APP_CONSTRUCT(&app);
    app.cmd = strdup(own_path);
    pmix_argv_append_nosize(&app.argv, own_path);
    pmix_argv_append_nosize(&app.argv, word);
    app.maxprocs = ranks;
    return PMIx_Spawn(infos, count, &app, 1, job);
}

static void spawn(const char *word, int ranks, pmix_info_t *infos, size_t count, pmix_nspace_t job)
{
    check(try_spawn(word, ranks, infos, count, job), word);
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
static void debug(const char *place, const char *density, int ranks)
{
    pmix_status_t codes[] = {PMIX_READY_FOR_DEBUG, PMIX_EVENT_JOB_END};
    int is_in_init = strcmp(place, "init") == 0;
    pmix_info_t infos[4];
    pmix_nspace_t job, daemons;
    pmix_proc_t target;
    size_t count = 0;
    bool yes = true;
    uint16_t one = 1;

    holds(PMIx_Register_event_handler(codes, 2, NULL, 0, on_event, NULL, NULL) >= 0, "events are");
    PMIX_INFO_LOAD(&infos[0], is_in_init ? PMIX_DEBUG_STOP_IN_INIT : PMIX_DEBUG_STOP_IN_APP, &yes,
                   PMIX_BOOL);
    PMIX_INFO_REQUIRED(&infos[0]);
    PMIX_INFO_LOAD(&infos[1], PMIX_FWD_STDOUT, &yes, PMIX_BOOL);
    spawn(is_in_init ? "job" : "app", ranks, infos, 2, job);
    wait_for_stop(job);
    holds(strcmp(breakpoint, is_in_init ? "pmix-init" : "main loop") == 0, "the place is known");
    printf("the job waits\n");
    fflush(stdout);
    /* The daemons learn from the description of their job which processes they control. */
    PMIX_PROC_LOAD(&target, job, PMIX_RANK_WILDCARD);
    PMIX_INFO_LOAD(&infos[count++], PMIX_DEBUGGER_DAEMONS, &yes, PMIX_BOOL);
    PMIX_INFO_LOAD(&infos[count++], PMIX_FWD_STDOUT, &yes, PMIX_BOOL);
    if (strcmp(density, "job") == 0) {
        PMIX_INFO_LOAD(&infos[count++], PMIX_DEBUG_JOB, job, PMIX_STRING);
    } else {
        const char *key = strcmp(density, "node") == 0 ? PMIX_DEBUG_DAEMONS_PER_NODE
                                                       : PMIX_DEBUG_DAEMONS_PER_PROC;
        PMIX_INFO_LOAD(&infos[count++], PMIX_DEBUG_TARGET, &target, PMIX_PROC);
        PMIX_INFO_LOAD(&infos[count++], key, &one, PMIX_UINT16);
    }
    spawn("daemon", 1, infos, count, daemons);
    wait_for_end(daemons);
    printf("the daemons have ended\n");
    fflush(stdout);
    release(job);
    wait_for_end(job);
    printf("the job has ended\n");
}

/* The debugger of a job whose daemons are started with it. */
static void cospawn(void)
{
    pmix_status_t codes[] = {PMIX_READY_FOR_DEBUG, PMIX_EVENT_JOB_END};
    pmix_info_t infos[2];
    pmix_app_t apps[2];
    pmix_nspace_t job;
    bool yes = true;

    holds(PMIx_Register_event_handler(codes, 2, NULL, 0, on_event, NULL, NULL) >= 0, "events are");
    PMIX_INFO_LOAD(&infos[0], PMIX_DEBUG_STOP_IN_INIT, &yes, PMIX_BOOL);
    PMIX_INFO_LOAD(&infos[1], PMIX_FWD_STDOUT, &yes, PMIX_BOOL);
    for (int at = 0; at < 2; at++) {
        PMIX_APP_CONSTRUCT(&apps[at]);
        apps[at].cmd = strdup(own_path);
        pmix_argv_append_nosize(&apps[at].argv, own_path);
        pmix_argv_append_nosize(&apps[at].argv, at == 0 ? "job" : "daemon");
        apps[at].maxprocs = 2 - at;
    }
    PMIX_INFO_CREATE(apps[1].info, 1);
    apps[1].ninfo = 1;
    PMIX_INFO_LOAD(&apps[1].info[0], PMIX_DEBUGGER_DAEMONS, &yes, PMIX_BOOL);
    /* The daemons do not run without a program, and then the job does not either. */
    apps[1].cmd[0] = '?';
    holds(PMIx_Spawn(infos, 2, apps, 2, job) != PMIX_SUCCESS, "a spawn without daemons fails");
    apps[1].cmd[0] = own_path[0];
    check(PMIx_Spawn(infos, 2, apps, 2, job), "spawn");
    wait_for_stop(job);
    printf("the job waits\n");
    fflush(stdout);
    release(job);
    wait_for_end(job);
    printf("the job has ended\n");
}

/* The debugger of a running job. */
static void attach(const char *job)
{
    pmix_info_t infos[3];
    pmix_nspace_t daemons;
    pmix_proc_t target;
    bool yes = true;
    uint16_t one = 1;

    PMIX_PROC_LOAD(&target, "no-such-job", PMIX_RANK_WILDCARD);
    PMIX_INFO_LOAD(&infos[0], PMIX_DEBUGGER_DAEMONS, &yes, PMIX_BOOL);
    PMIX_INFO_LOAD(&infos[1], PMIX_DEBUG_TARGET, &target, PMIX_PROC);
    PMIX_INFO_LOAD(&infos[2], PMIX_DEBUG_DAEMONS_PER_NODE, &one, PMIX_UINT16);
    holds(try_spawn("endless", 1, infos, 3, daemons) != PMIX_SUCCESS, "an unknown job is refused");
    PMIX_PROC_LOAD(&target, job, PMIX_RANK_WILDCARD);
    PMIX_INFO_LOAD(&infos[1], PMIX_DEBUG_TARGET, &target, PMIX_PROC);
    spawn("endless", 1, infos, 3, daemons);
    printf("the daemons run\n");
}

/* Examines a process that has stopped at its first instruction. */
static void examine(pid_t pid, char **command)
{
    char path[64], line[4096] = "", program[4096];
    FILE *file;
    ssize_t length;

    snprintf(path, sizeof path, "/proc/%d/exe", (int)pid);
    length = readlink(path, program, sizeof program - 1);
    holds(length > 0, "the process has a program");
    program[length] = 0;
    /* The file may be replaced meanwhile, which a word behind the path says. */
    holds(strncmp(program, own_path, strlen(own_path)) == 0, "the process executes the program");
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
static void be_daemon(int is_endless)
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
    pmix_proc_info_t *table = found->value.data.darray->array;
    printf("daemon %u: %zu processes on %s\n", self.rank, found->value.data.darray->size,
           table[0].hostname);
    fflush(stdout);
    while (is_endless)
        pause();
    check(PMIx_tool_finalize(), "finalize of a daemon");
    /* Its exit code is no failure of the run. */
    exit(5);
}

static void on_release(size_t number, pmix_status_t code, const pmix_proc_t *source,
                       pmix_info_t *infos, size_t count, pmix_info_t *results, size_t results_count,
                       pmix_event_notification_cbfunc_fn_t done, void *data)
{
    pthread_mutex_lock(&lock);
    ends++;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
    done(PMIX_EVENT_ACTION_COMPLETE, NULL, 0, NULL, NULL, data);
}

/* A job that waits for the debugger where it chooses, because its description says so. */
static void be_app(void)
{
    pmix_status_t code = PMIX_DEBUGGER_RELEASE;
    pmix_info_t infos[2];
    pmix_value_t *value;
    bool yes = true;

    begin();
    check(PMIx_Get(&everybody, PMIX_DEBUG_STOP_IN_APP, NULL, 0, &value), "the stop");
    holds(value->type == PMIX_PROC_RANK && value->data.rank == PMIX_RANK_WILDCARD, "all ranks stop");
    holds(PMIx_Register_event_handler(&code, 1, NULL, 0, on_release, NULL, NULL) >= 0, "events are");
    PMIX_INFO_LOAD(&infos[0], PMIX_EVENT_NON_DEFAULT, &yes, PMIX_BOOL);
    PMIX_INFO_LOAD(&infos[1], PMIX_BREAKPOINT, "main loop", PMIX_STRING);
    check(PMIx_Notify_event(PMIX_READY_FOR_DEBUG, &self, PMIX_RANGE_RM, infos, 2, NULL, NULL),
          "stop");
    pthread_mutex_lock(&lock);
    while (ends == 0)
        pthread_cond_wait(&changed, &lock);
    pthread_mutex_unlock(&lock);
    meet();
    say("released");
    finish();
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
    own_path = argv[0];
    if (argc > 1 && strcmp(argv[1], "job") == 0) {
        be_job();
    } else if (argc > 1 && strcmp(argv[1], "app") == 0 && argc == 2) {
        be_app();
    } else if (argc > 1 && strcmp(argv[1], "daemon") == 0) {
        be_daemon(0);
    } else if (argc > 1 && strcmp(argv[1], "endless") == 0) {
        be_daemon(1);
    } else {
        check(PMIx_tool_init(&self, NULL, 0), "init");
        if (argc > 1 && strcmp(argv[1], "exec") == 0)
            stop_on_exec(argv + 2);
        else if (argc == 2 && strcmp(argv[1], "cospawn") == 0)
            cospawn();
        else if (argc > 2 && strcmp(argv[1], "attach") == 0)
            attach(argv[2]);
        else if (argc > 3)
            debug(argv[1], argv[2], atoi(argv[3]));
        fflush(stdout);
        check(PMIx_tool_finalize(), "finalize");
    }
    return 0;
}
