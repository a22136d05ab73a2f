/* A tool: a program that no launcher started. It asks a server about a job, and acts on it as told. */
#include "pmix_common.h"
#include <pmix_tool.h>
#include <pthread.h>
#include <signal.h>

/* Asks for one key about a job. */
static pmix_info_t *ask(const char *key, const char *nspace)
{
    pmix_query_t query;
    pmix_info_t *found = NULL;
    size_t count = 0;

    PMIX_QUERY_CONSTRUCT(&query);
    check(pmix_argv_append_nosize(&query.keys, key), "one more key");
    PMIX_QUERY_QUALIFIERS_CREATE(&query, 1);
    PMIX_INFO_LOAD(&query.qualifiers[0], PMIX_NSPACE, nspace, PMIX_STRING);
    check(PMIx_Query_info(&query, 1, &found, &count), key);
    holds(count == 1, "there is one entry");
    return found;
}

static void show_table(const char *key, const char *nspace)
{
    pmix_info_t *found = ask(key, nspace);
    pmix_data_array_t *table = found->value.data.darray;
    pmix_proc_info_t *procs = table->array;

    holds(table->type == PMIX_PROC_INFO, "it is a table of processes");
    for (size_t at = 0; at < table->size; at++)
        printf("%s rank %u of %s: %s, process %s\n", PMIx_Proc_state_string(procs[at].state),
               procs[at].proc.rank, procs[at].proc.nspace, procs[at].executable_name,
               kill(procs[at].pid, 0) == 0 ? "exists" : "is gone");
}

static void show(const char *nspace)
{
    pmix_query_t query;
    pmix_info_t *found;
    size_t count;

    PMIX_QUERY_CONSTRUCT(&query);
    check(pmix_argv_append_nosize(&query.keys, PMIX_QUERY_NAMESPACES), "one more key");
    check(PMIx_Query_info(&query, 1, &found, &count), "name spaces");
    holds(strstr(found->value.data.string, nspace) != NULL, "the job is listed");
    show_table(PMIX_QUERY_PROC_TABLE, nspace);
    show_table(PMIX_QUERY_LOCAL_PROC_TABLE, nspace);
    found = ask(PMIX_QUERY_JOB_STATUS, nspace);
    printf("job %s\n", PMIx_Job_state_string(found->value.data.jstate));
    found = ask(PMIX_JOB_SIZE, nspace);
    printf("size %u\n", found->value.data.uint32);
    found = ask(PMIX_JOB_NUM_APPS, nspace);
    printf("applications %u\n", found->value.data.uint32);
    found = ask(PMIX_QUERY_MEMORY_USAGE, nspace);
    holds(found->value.data.darray->size == 3, "memory of launcher and processes");
}

static void terminate(const char *nspace)
{
    pmix_info_t directive, *results = NULL;
    pmix_proc_t job;
    size_t count = 0;
    bool yes = true;

    PMIX_PROC_LOAD(&job, nspace, PMIX_RANK_WILDCARD);
    PMIX_INFO_LOAD(&directive, PMIX_JOB_CTRL_TERMINATE, &yes, PMIX_BOOL);
    check(PMIx_Job_control(&job, 1, &directive, 1, &results, &count), "terminate");
    printf("terminated\n");
}

static char ended[PMIX_MAX_NSLEN + 1];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t has_ended = PTHREAD_COND_INITIALIZER;

static void on_end(size_t number, pmix_status_t code, const pmix_proc_t *source, pmix_info_t *infos,
                   size_t count, pmix_info_t *results, size_t results_count,
                   pmix_event_notification_cbfunc_fn_t done, void *data)
{
    pthread_mutex_lock(&lock);
    for (size_t at = 0; at < count; at++)
        if (PMIX_CHECK_KEY(&infos[at], PMIX_NSPACE))
            strncpy(ended, infos[at].value.data.string, PMIX_MAX_NSLEN);
    pthread_cond_signal(&has_ended);
    pthread_mutex_unlock(&lock);
    done(PMIX_EVENT_ACTION_COMPLETE, NULL, 0, NULL, NULL, data);
}

/* Starts a job with a command of the shell, on a host that is added if one is named, and waits for its end. */
static void spawn(const char *command, const char *added)
{
    pmix_app_t app;
    pmix_nspace_t job;
    pmix_status_t code = PMIX_EVENT_JOB_END;

    holds(PMIx_Register_event_handler(&code, 1, NULL, 0, on_end, NULL, NULL) >= 0, "events are");
    PMIX_APP_CONSTRUCT(&app);
    app.cmd = strdup("no-such-program");
    app.maxprocs = 1;
    expect(PMIx_Spawn(NULL, 0, &app, 1, job), PMIX_ERR_JOB_EXE_NOT_FOUND, "spawn nothing");
    PMIX_APP_DESTRUCT(&app);
    PMIX_APP_CONSTRUCT(&app);
    app.cmd = strdup("sh");
    pmix_argv_append_nosize(&app.argv, "sh");
    pmix_argv_append_nosize(&app.argv, "-c");
    pmix_argv_append_nosize(&app.argv, command);
    app.maxprocs = 2;
    if (added != NULL) {
        PMIX_INFO_CREATE(app.info, 1);
        app.ninfo = 1;
        PMIX_INFO_LOAD(&app.info[0], PMIX_ADD_HOST, added, PMIX_STRING);
    }
    check(PMIx_Spawn(NULL, 0, &app, 1, job), "spawn");
    pthread_mutex_lock(&lock);
    while (strcmp(ended, job) != 0)
        pthread_cond_wait(&has_ended, &lock);
    pthread_mutex_unlock(&lock);
    printf("the job has ended\n");
}

static void on_silence(size_t number, pmix_status_t code, const pmix_proc_t *source, pmix_info_t *infos,
                       size_t count, pmix_info_t *results, size_t results_count,
                       pmix_event_notification_cbfunc_fn_t done, void *data)
{
    pthread_mutex_lock(&lock);
    strncpy(ended, source->nspace, PMIX_MAX_NSLEN);
    pthread_cond_signal(&has_ended);
    pthread_mutex_unlock(&lock);
    done(PMIX_EVENT_ACTION_COMPLETE, NULL, 0, NULL, NULL, data);
}

/* Announces heartbeats, sends none, and receives the event of that. */
static void be_silent(void)
{
    pmix_status_t code = PMIX_MONITOR_HEARTBEAT_ALERT;
    pmix_info_t what, every, *results = NULL;
    uint32_t second = 1;
    size_t count = 0;
    bool yes = true;

    holds(PMIx_Register_event_handler(&code, 1, NULL, 0, on_silence, NULL, NULL) >= 0, "events are");
    PMIX_INFO_LOAD(&what, PMIX_MONITOR_HEARTBEAT, &yes, PMIX_BOOL);
    PMIX_INFO_LOAD(&every, PMIX_MONITOR_HEARTBEAT_TIME, &second, PMIX_UINT32);
    check(PMIx_Process_monitor(&what, code, &every, 1, &results, &count), "monitor");
    pthread_mutex_lock(&lock);
    while (strcmp(ended, self.nspace) != 0)
        pthread_cond_wait(&has_ended, &lock);
    pthread_mutex_unlock(&lock);
    printf("it was silent\n");
}

/* Logs a text to each stream, and to a place that no launcher has. */
static void log_texts(const char *text)
{
    pmix_info_t data[2];

    PMIX_INFO_LOAD(&data[0], PMIX_LOG_STDOUT, text, PMIX_STRING);
    check(PMIx_Log(data, 1, NULL, 0), "log to stdout");
    PMIX_INFO_LOAD(&data[0], PMIX_LOG_STDERR, text, PMIX_STRING);
    check(PMIx_Log(data, 1, NULL, 0), "log to stderr");
    PMIX_INFO_LOAD(&data[1], PMIX_LOG_GLOBAL_DATASTORE, text, PMIX_STRING);
    expect(PMIx_Log(data, 2, NULL, 0), PMIX_ERR_PARTIAL_SUCCESS, "log to both");
    expect(PMIx_Log(&data[1], 1, NULL, 0), PMIX_ERR_NOT_SUPPORTED, "log to a store");
}

/* pmix_tool WORD JOB [KEY VALUE]...: these select the server, and name the tool. */
int main(int argc, char **argv)
{
    pmix_info_t infos[4];
    size_t count = 0;

    for (int at = 3; at + 1 < argc && count < 4; at += 2) {
        const char *key = argv[at], *value = argv[at + 1];
        if (strcmp(key, PMIX_SERVER_PIDINFO) == 0) {
            pid_t pid = atoi(value);
            PMIX_INFO_LOAD(&infos[count++], key, &pid, PMIX_PID);
        } else if (strcmp(key, PMIX_TOOL_RANK) == 0) {
            pmix_rank_t rank = (pmix_rank_t) atoi(value);
            PMIX_INFO_LOAD(&infos[count++], key, &rank, PMIX_PROC_RANK);
        } else if (strcmp(value, "yes") == 0) {
            bool yes = true;
            PMIX_INFO_LOAD(&infos[count++], key, &yes, PMIX_BOOL);
        } else {
            PMIX_INFO_LOAD(&infos[count++], key, value, PMIX_STRING);
        }
    }
    pmix_status_t status = PMIx_tool_init(&self, infos, count);
    if (status != PMIX_SUCCESS) {
        printf("%s\n", PMIx_Error_string(status));
        return 2;
    }
    if (strcmp(argv[1], "show") == 0)
        show(argv[2]);
    else if (strcmp(argv[1], "terminate") == 0)
        terminate(argv[2]);
    else if (strcmp(argv[1], "spawn") == 0)
        spawn(argv[2], NULL);
    else if (strcmp(argv[1], "spawn-added") == 0) {
        /* HOST COMMAND, in one word. */
        char *command = strchr(argv[2], ' ');
        *command++ = '\0';
        spawn(command, argv[2]);
    }
    else if (strcmp(argv[1], "silent") == 0)
        be_silent();
    else if (strcmp(argv[1], "log") == 0)
        log_texts(argv[2]);
    else if (strcmp(argv[1], "die") == 0)
        _exit(9);
    else if (strcmp(argv[1], "self") == 0)
        printf("%s rank %u\n", self.nspace, self.rank);
    check(PMIx_tool_finalize(), "finalize");
    return 0;
}
