/* A tool that receives the output of ranks, and sends them input. */
#include "pmix_common.h"
#include <pmix_tool.h>
#include <pthread.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static char texts[2][65536];
static size_t lengths[2];
static int calls[2], ends[2];

static void on_output(size_t number, pmix_iof_channel_t channel, pmix_proc_t *source,
                      pmix_byte_object_t *output, pmix_info_t infos[], size_t count)
{
    int stream = channel == PMIX_FWD_STDERR_CHANNEL;

    pthread_mutex_lock(&lock);
    if (output == NULL || output->size == 0) {
        ends[stream]++;
    } else {
        calls[stream]++;
        memcpy(texts[stream] + lengths[stream], output->bytes, output->size);
        lengths[stream] += output->size;
    }
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
}

static pmix_status_t registered;
static size_t handler;
static int is_registered;

static void on_registered(pmix_status_t status, size_t number, void *data)
{
    pthread_mutex_lock(&lock);
    registered = status;
    handler = number;
    is_registered = 1;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
}

static pmix_status_t pull(const char *nspace, pmix_rank_t rank, pmix_info_t *infos, size_t count)
{
    pmix_proc_t source;

    PMIX_PROC_LOAD(&source, nspace, rank);
    is_registered = 0;
    check(PMIx_IOF_pull(&source, 1, infos, count, PMIX_FWD_STDOUT_CHANNEL | PMIX_FWD_STDERR_CHANNEL,
                        on_output, on_registered, NULL),
          "pull");
    pthread_mutex_lock(&lock);
    while (!is_registered)
        pthread_cond_wait(&changed, &lock);
    pthread_mutex_unlock(&lock);
    return registered;
}

/* Waits for as many ends of each stream, and prints what came before. */
static void print_all(int count)
{
    pthread_mutex_lock(&lock);
    while (ends[0] < count || ends[1] < count)
        pthread_cond_wait(&changed, &lock);
    printf("stdout:\n%.*sstderr:\n%.*s", (int)lengths[0], texts[0], (int)lengths[1], texts[1]);
    pthread_mutex_unlock(&lock);
}

static void spawn(const char *command, int ranks, const char *const *keys, pmix_nspace_t job)
{
    pmix_info_t infos[4];
    pmix_app_t app;
    size_t count = 0;
    bool yes = true;

    for (; keys[count] != NULL; count++)
        PMIX_INFO_LOAD(&infos[count], keys[count], &yes, PMIX_BOOL);
    PMIX_APP_CONSTRUCT(&app);
    app.cmd = strdup("sh");
    pmix_argv_append_nosize(&app.argv, "sh");
    pmix_argv_append_nosize(&app.argv, "-c");
    pmix_argv_append_nosize(&app.argv, command);
    app.maxprocs = ranks;
    check(PMIx_Spawn(infos, count, &app, 1, job), "spawn");
}

static void on_done(pmix_status_t status, void *data)
{
    on_registered(status, 0, data);
}

/* Sends input, and waits for the answer. (Without a callback this never returns in libpmix 4.2.2.) */
static pmix_status_t push(const char *nspace, pmix_rank_t rank, const char *text)
{
    pmix_byte_object_t input = {(char *)text, strlen(text)};
    pmix_proc_t target;
    size_t number = handler;

    PMIX_PROC_LOAD(&target, nspace, rank);
    is_registered = 0;
    check(PMIx_IOF_push(&target, 1, &input, NULL, 0, on_done, NULL), "push");
    pthread_mutex_lock(&lock);
    while (!is_registered)
        pthread_cond_wait(&changed, &lock);
    handler = number;
    pthread_mutex_unlock(&lock);
    return registered;
}

/* Receives the output of a job that is running, until it ends. */
static void watch(const char *nspace, int ranks)
{
    check(pull(nspace, PMIX_RANK_WILDCARD, NULL, 0), "register");
    fprintf(stderr, "ready\n");
    print_all(ranks);
}

static void formats(const char *nspace)
{
    pmix_info_t infos[2];
    bool yes = true;

    PMIX_INFO_LOAD(&infos[0], PMIX_IOF_TAG_OUTPUT, &yes, PMIX_BOOL);
    PMIX_INFO_REQUIRED(&infos[0]);
    PMIX_INFO_LOAD(&infos[1], PMIX_IOF_XML_OUTPUT, &yes, PMIX_BOOL);
    check(pull(nspace, 1, infos, 2), "register");
    fprintf(stderr, "ready\n");
    print_all(1);
}

/* Receives output in groups: of the size, of the time, and of the end of the request. */
static void groups(void)
{
    static const char *const none[] = {PMIX_FWD_STDIN, NULL};
    pmix_info_t infos[2];
    pmix_nspace_t job;
    uint32_t bytes = 10, seconds = 1;

    spawn("while read line; do echo $line; done", 1, none, job);
    PMIX_INFO_LOAD(&infos[0], PMIX_IOF_BUFFERING_SIZE, &bytes, PMIX_UINT32);
    PMIX_INFO_LOAD(&infos[1], PMIX_IOF_BUFFERING_TIME, &seconds, PMIX_UINT32);
    check(pull(job, 0, infos, 2), "register");
    check(push(job, 0, "1234\n"), "push");
    check(push(job, 0, "5678\n"), "push");
    pthread_mutex_lock(&lock);
    while (calls[0] < 1)
        pthread_cond_wait(&changed, &lock);
    printf("%d call, %zu bytes\n", calls[0], lengths[0]);
    pthread_mutex_unlock(&lock);
    check(push(job, 0, "9\n"), "push");
    pthread_mutex_lock(&lock);
    while (calls[0] < 2)
        pthread_cond_wait(&changed, &lock);
    printf("%d calls, %zu bytes\n", calls[0], lengths[0]);
    pthread_mutex_unlock(&lock);
    is_registered = 0;
    check(PMIx_IOF_deregister(handler, NULL, 0, on_done, NULL), "deregister");
    pthread_mutex_lock(&lock);
    while (!is_registered)
        pthread_cond_wait(&changed, &lock);
    pthread_mutex_unlock(&lock);
    check(registered, "the request is withdrawn");
    check(push(job, 0, ""), "end of input");
}

static char other[64];
static size_t other_length;

static void on_other(size_t number, pmix_iof_channel_t channel, pmix_proc_t *source,
                     pmix_byte_object_t *output, pmix_info_t infos[], size_t count)
{
    pthread_mutex_lock(&lock);
    if (output != NULL && output->size <= sizeof other - other_length) {
        memcpy(other + other_length, output->bytes, output->size);
        other_length += output->size;
    }
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
}

/* Two requests for the same output. The end of one sends what it has buffered, and nothing follows. */
static void flush(void)
{
    static const char *const none[] = {PMIX_FWD_STDIN, NULL};
    pmix_info_t info;
    pmix_nspace_t job;
    pmix_proc_t source;
    uint32_t bytes = 1000;
    size_t grouped;

    spawn("while read line; do echo $line; done", 1, none, job);
    PMIX_INFO_LOAD(&info, PMIX_IOF_BUFFERING_SIZE, &bytes, PMIX_UINT32);
    check(pull(job, 0, &info, 1), "register");
    grouped = handler;
    PMIX_PROC_LOAD(&source, job, 0);
    is_registered = 0;
    check(PMIx_IOF_pull(&source, 1, NULL, 0, PMIX_FWD_STDOUT_CHANNEL, on_other, on_registered, NULL),
          "pull");
    pthread_mutex_lock(&lock);
    while (!is_registered)
        pthread_cond_wait(&changed, &lock);
    pthread_mutex_unlock(&lock);
    check(registered, "the second request");
    check(push(job, 0, "first\n"), "push");
    pthread_mutex_lock(&lock);
    while (other_length < 6)
        pthread_cond_wait(&changed, &lock);
    /* The launcher has it, and keeps it for the request that is buffered. */
    holds(lengths[0] == 0, "nothing has come");
    is_registered = 0;
    pthread_mutex_unlock(&lock);
    check(PMIx_IOF_deregister(grouped, NULL, 0, on_done, NULL), "deregister");
    pthread_mutex_lock(&lock);
    while (!is_registered)
        pthread_cond_wait(&changed, &lock);
    pthread_mutex_unlock(&lock);
    check(registered, "the request is withdrawn");
    check(push(job, 0, "second\n"), "push");
    pthread_mutex_lock(&lock);
    while (other_length < 13)
        pthread_cond_wait(&changed, &lock);
    printf("%.*s%.*s", (int)lengths[0], texts[0], (int)other_length, other);
    pthread_mutex_unlock(&lock);
    check(push(job, 0, ""), "end of input");
}

/* Starts a job that reads input of the tool and writes to it. */
static void converse(void)
{
    static const char *const all[] = {PMIX_FWD_STDIN, PMIX_FWD_STDOUT, PMIX_FWD_STDERR, NULL};
    pmix_nspace_t job;
    char *long_text = malloc(300001);

    memset(long_text, 'x', 300000);
    long_text[299999] = '\n';
    long_text[300000] = 0;
    spawn("read a; echo got $a; echo err >&2; wc -c", 1, all, job);
    check(pull(job, PMIX_RANK_WILDCARD, NULL, 0), "register");
    check(push(job, 0, "a line\n"), "push");
    check(push(job, 0, long_text), "push much");
    check(push(job, PMIX_RANK_WILDCARD, ""), "end of input");
    print_all(1);
}

static void refusals(const char *nspace)
{
    pmix_info_t info;

    expect(pull("no-such-job", 0, NULL, 0), PMIX_ERR_NOT_FOUND, "no job");
    PMIX_INFO_LOAD(&info, PMIX_IOF_OUTPUT_TO_FILE, "/tmp/x", PMIX_STRING);
    PMIX_INFO_REQUIRED(&info);
    expect(pull(nspace, 0, &info, 1), PMIX_ERR_NOT_SUPPORTED, "files");
    expect(push(nspace, 0, "text"), PMIX_ERR_NOT_SUPPORTED, "input of another");
    /* A rank that reads no input has its end. */
    check(push(nspace, 0, ""), "end of input of another");
    printf("refused\n");
}

int main(int argc, char **argv)
{
    check(PMIx_tool_init(&self, NULL, 0), "init");
    if (strcmp(argv[1], "watch") == 0)
        watch(argv[2], atoi(argv[3]));
    else if (strcmp(argv[1], "formats") == 0)
        formats(argv[2]);
    else if (strcmp(argv[1], "groups") == 0)
        groups();
    else if (strcmp(argv[1], "flush") == 0)
        flush();
    else if (strcmp(argv[1], "converse") == 0)
        converse();
    else if (strcmp(argv[1], "refusals") == 0)
        refusals(argv[2]);
    fflush(stdout);
    check(PMIx_tool_finalize(), "finalize");
    return 0;
}
