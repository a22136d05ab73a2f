/* Asks the process manager what it knows: jobs, processes, their memory. Two ranks at least. */
#include "pmix_common.h"
#include <signal.h>

/* Asks for one key, about a job and a rank if they are given. */
static pmix_status_t ask(const char *key, const char *nspace, const pmix_rank_t *rank,
                         pmix_info_t **results, size_t *count)
{
    pmix_query_t query;
    size_t given = (nspace != NULL) + (rank != NULL), at = 0;

    PMIX_QUERY_CONSTRUCT(&query);
    check(pmix_argv_append_nosize(&query.keys, key), "one more key");
    if (given > 0)
        PMIX_QUERY_QUALIFIERS_CREATE(&query, given);
    if (nspace != NULL)
        PMIX_INFO_LOAD(&query.qualifiers[at++], PMIX_NSPACE, nspace, PMIX_STRING);
    if (rank != NULL)
        PMIX_INFO_LOAD(&query.qualifiers[at++], PMIX_RANK, rank, PMIX_PROC_RANK);
    *results = NULL;
    *count = 0;
    return PMIx_Query_info(&query, 1, results, count);
}

static void about_jobs(void)
{
    pmix_info_t *found;
    size_t count;

    check(ask(PMIX_QUERY_NAMESPACES, NULL, NULL, &found, &count), "name spaces");
    holds(count == 1 && PMIX_CHECK_KEY(&found[0], PMIX_QUERY_NAMESPACES), "there is one entry");
    holds(strcmp(found[0].value.data.string, self.nspace) == 0, "our job is the only one");
    PMIX_INFO_FREE(found, count);

    check(ask(PMIX_QUERY_NAMESPACE_INFO, NULL, NULL, &found, &count), "jobs");
    holds(found[0].value.type == PMIX_DATA_ARRAY, "jobs are an array");
    holds(found[0].value.data.darray->size == 1, "it has one job");
    pmix_info_t *job = found[0].value.data.darray->array;
    holds(PMIX_CHECK_KEY(job, PMIX_JOB_INFO_ARRAY), "it is a job");
    pmix_info_t *facts = job->value.data.darray->array;
    holds(PMIX_CHECK_KEY(&facts[0], PMIX_NSPACE), "its name comes first");
    holds(strstr(facts[1].value.data.string, "pmix_query") != NULL, "its line is known");
    holds(facts[2].value.data.uint32 + 3 == job->value.data.darray->size, "all are listed");
    PMIX_INFO_FREE(found, count);

    check(ask(PMIX_QUERY_JOB_STATUS, self.nspace, NULL, &found, &count), "status of the job");
    holds(found[0].value.type == PMIX_JOB_STATE, "it is a state");
    holds(found[0].value.data.jstate == PMIX_JOB_STATE_CONNECTED, "all are connected");
    PMIX_INFO_FREE(found, count);

    expect(ask(PMIX_QUERY_JOB_STATUS, "no-such-job", NULL, &found, &count), PMIX_ERR_NOT_FOUND,
           "status of no job");
}

static void about_processes(void)
{
    pmix_info_t *found;
    size_t count;

    const char *tables[] = {PMIX_QUERY_PROC_TABLE, PMIX_QUERY_LOCAL_PROC_TABLE};
    for (int at = 0; at < 2; at++) {
        check(ask(tables[at], self.nspace, NULL, &found, &count), "processes");
        pmix_data_array_t *table = found[0].value.data.darray;
        pmix_proc_info_t *own = table->array;
        holds(table->type == PMIX_PROC_INFO && table->size > 0, "it is a table of processes");
        holds(at > 0 || table->size > self.rank, "all processes are in it");
        /* On several nodes, the processes of others are not in the second one. */
        for (size_t left = table->size; left > 1 && own->proc.rank != self.rank; left--, own++)
            holds(own[0].proc.rank < own[1].proc.rank, "processes are in order");
        holds(own->proc.rank == self.rank, "we are in it");
        holds(own->pid == getpid(), "our process is known");
        holds(own->state == PMIX_PROC_STATE_CONNECTED, "we are connected");
        holds(strstr(own->executable_name, "pmix_query") != NULL, "our program is known");
        PMIX_INFO_FREE(found, count);
    }

    check(ask(PMIX_QUERY_MEMORY_USAGE, self.nspace, &self.rank, &found, &count), "memory");
    pmix_data_array_t *memory = found[0].value.data.darray;
    pmix_info_t *facts = memory->array;
    holds(memory->size == 3, "memory of launcher and process");
    holds(PMIX_CHECK_KEY(&facts[1], PMIX_DAEMON_MEMORY), "the launcher's is there");
    holds(facts[1].value.data.fval > 0.1, "the launcher has memory");
    holds(facts[2].value.data.fval > 0.1 && facts[2].value.data.fval < 1e6, "so have we");
    PMIX_INFO_FREE(found, count);
}

static void about_what_is_not_there(void)
{
    pmix_info_t *found;
    size_t count;
    pmix_query_t queries[2];

    expect(ask(PMIX_QUERY_QUEUE_LIST, NULL, NULL, &found, &count), PMIX_ERR_NOT_SUPPORTED, "queues");
    expect(ask(PMIX_TIME_REMAINING, NULL, NULL, &found, &count), PMIX_ERR_NOT_FOUND, "time");
    check(ask(PMIX_QUERY_NUM_PSETS, NULL, NULL, &found, &count), "number of sets");
    holds(found[0].value.data.size == 0, "there are no sets");
    PMIX_INFO_FREE(found, count);
    check(ask(PMIX_QUERY_SPAWN_SUPPORT, NULL, NULL, &found, &count), "what a spawn takes");
    holds(strstr(found[0].value.data.string, PMIX_WDIR) != NULL, "a spawn takes a folder");
    PMIX_INFO_FREE(found, count);
    check(ask(PMIX_QUERY_DEBUG_SUPPORT, NULL, NULL, &found, &count), "what a debugger may ask for");
    holds(strstr(found[0].value.data.string, PMIX_DEBUG_STOP_IN_INIT) != NULL, "a stop in init");
    PMIX_INFO_FREE(found, count);

    /* Two at once, of which one has an answer, which this library throws away then. */
    PMIX_QUERY_CONSTRUCT(&queries[0]);
    PMIX_QUERY_CONSTRUCT(&queries[1]);
    pmix_argv_append_nosize(&queries[0].keys, PMIX_QUERY_QUEUE_LIST);
    pmix_argv_append_nosize(&queries[1].keys, PMIX_QUERY_NAMESPACES);
    expect(PMIx_Query_info(queries, 2, &found, &count), PMIX_QUERY_PARTIAL_SUCCESS, "two at once");
}

/* Waits until a rank has ended, and prints its state and its exit code. */
static void print_end(pmix_rank_t rank)
{
    pmix_info_t *found;
    pmix_proc_state_t state;
    size_t count;

    do {
        usleep(1000);
        check(ask(PMIX_PROC_STATE_STATUS, self.nspace, &rank, &found, &count), "state of a rank");
        holds(found[0].value.type == PMIX_PROC_STATE, "it is a state");
        state = found[0].value.data.state;
        PMIX_INFO_FREE(found, count);
    } while (state < PMIX_PROC_STATE_TERMINATED);
    check(ask(PMIX_EXIT_CODE, self.nspace, &rank, &found, &count), "exit code of a rank");
    holds(found[0].value.type == PMIX_INT, "it is a number");
    printf("rank %u: state %u, code %d\n", rank, state, found[0].value.data.integer);
    PMIX_INFO_FREE(found, count);
}

/* Rank 0 asks about the ends of the others, of which each is of another kind. */
static int about_ends(void)
{
    pmix_info_t *found, end;
    pmix_proc_t last;
    size_t count;

    meet();
    switch (self.rank) {
    case 0:
        expect(ask(PMIX_EXIT_CODE, self.nspace, &self.rank, &found, &count), PMIX_ERR_NOT_FOUND,
               "code of a rank that runs");
        PMIX_PROC_LOAD(&last, self.nspace, 5);
        PMIX_INFO_LOAD(&end, PMIX_JOB_CTRL_KILL, NULL, PMIX_BOOL);
        check(PMIx_Job_control(&last, 1, &end, 1, NULL, NULL), "kill of the last rank");
        for (pmix_rank_t rank = 1; rank < 6; rank++)
            print_end(rank);
        return finish();
    case 1:
        return finish();
    case 2:
        finish();
        return 7;
    case 3:
        _exit(8);
    case 4:
        raise(SIGKILL);
    default:
        for (;;)
            pause();
    }
}

int main(int argc, char **argv)
{
    begin();
    if (argc > 1 && strcmp(argv[1], "ends") == 0)
        return about_ends();
    meet();
    about_jobs();
    about_processes();
    about_what_is_not_there();
    say("all that was asked is known");
    meet();
    return finish();
}
