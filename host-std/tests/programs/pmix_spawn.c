/* Rank 0 spawns as many children as it is told; all of them and rank 0 connect, and read what the others have
   posted. A child runs the same program and knows its parent. */
#include "pmix_common.h"

static void post_card(void)
{
    pmix_value_t value;

    value.type = PMIX_UINT32;
    value.data.uint32 = 1000 + self.rank;
    check(PMIx_Put(PMIX_GLOBAL, "card", &value), "put");
    check(PMIx_Commit(), "commit");
}

static void read_card(const char *nspace, pmix_rank_t rank)
{
    pmix_proc_t other;
    pmix_value_t *found;

    PMIX_PROC_LOAD(&other, nspace, rank);
    check(PMIx_Get(&other, "card", NULL, 0, &found), "get of another job");
    holds(found->data.uint32 == 1000 + rank, "it is what the other has posted");
}

static void meet_others(const pmix_proc_t *parent, const char *children, uint32_t count)
{
    pmix_proc_t both[2] = {*parent};
    pmix_value_t *found;

    PMIX_PROC_LOAD(&both[1], children, PMIX_RANK_WILDCARD);
    check(PMIx_Connect(both, 2, NULL, 0), "connect");
    check(PMIx_Get(&both[1], PMIX_JOB_SIZE, NULL, 0, &found), "size of the other job");
    holds(found->data.uint32 == count, "it is as large as was asked");
    read_card(parent->nspace, parent->rank);
    for (pmix_rank_t rank = 0; rank < count; rank++)
        read_card(children, rank);
    check(PMIx_Disconnect(both, 2, NULL, 0), "disconnect");
}

int main(int argc, char **argv)
{
    pmix_value_t *parent;
    pmix_app_t app;
    pmix_nspace_t children;
    char count[16];

    begin();
    post_card();
    uint32_t wanted = argc > 1 ? (uint32_t) atoi(argv[1]) : 0;
    if (PMIx_Get(&self, PMIX_PARENT_ID, NULL, 0, &parent) == PMIX_SUCCESS) {
        meet_others(parent->data.proc, self.nspace, wanted);
        printf("child %u of %s\n", self.rank, getenv("SPAWNED_BY"));
        fflush(stdout);
        return finish();
    }
    if (self.rank == 0) {
        PMIX_APP_CONSTRUCT(&app);
        app.cmd = strdup("./no-such-program");
        app.maxprocs = 1;
        expect(PMIx_Spawn(NULL, 0, &app, 1, children), PMIX_ERR_JOB_EXE_NOT_FOUND, "spawn nothing");
        PMIX_APP_CONSTRUCT(&app);
        snprintf(count, sizeof count, "%u", wanted);
        app.cmd = strdup(argv[0]);
        pmix_argv_append_nosize(&app.argv, argv[0]);
        pmix_argv_append_nosize(&app.argv, count);
        pmix_argv_append_nosize(&app.env, "SPAWNED_BY=rank 0");
        app.maxprocs = (int) wanted;
        check(PMIx_Spawn(NULL, 0, &app, 1, children), "spawn");
        meet_others(&self, children, wanted);
        say("met all children");
    }
    meet();
    return finish();
}
