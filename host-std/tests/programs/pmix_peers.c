/* Asks for all that is known of every other rank: of its place, and of its node; if there is an argument, also of
   its application, which libraries before 5.0 look up for the own rank only. Two applications of two ranks each. */
#include "pmix_common.h"

static pmix_value_t *ask(pmix_rank_t rank, const char *key)
{
    pmix_proc_t other;
    pmix_value_t *value = NULL;

    PMIX_PROC_LOAD(&other, self.nspace, rank);
    check(PMIx_Get(&other, key, NULL, 0, &value), key);
    return value;
}

int main(int argc, char **argv)
{
    begin();
    pmix_value_t *size = ask(PMIX_RANK_WILDCARD, PMIX_JOB_SIZE), *own = ask(self.rank, PMIX_HOSTNAME);
    for (pmix_rank_t at = 1; at <= size->data.uint32; at++) {
        /* The last one is this rank. */
        pmix_rank_t rank = (self.rank + at) % size->data.uint32;
        holds(ask(rank, PMIX_LOCAL_RANK)->data.uint16 == rank, "its rank on the node");
        holds(ask(rank, PMIX_APPNUM)->data.uint32 == rank / 2, "its application");
        holds(ask(rank, PMIX_APP_RANK)->data.rank == rank % 2, "its rank in the application");
        holds(ask(rank, PMIX_GLOBAL_RANK)->data.rank == rank, "its rank in the session");
        holds(ask(rank, PMIX_NODE_RANK)->data.uint16 == rank, "its rank among all on the node");
        holds(ask(rank, PMIX_NODEID)->data.uint32 == 0, "its node");
        holds(strcmp(ask(rank, PMIX_HOSTNAME)->data.string, own->data.string) == 0, "the name of it");
        holds(strcmp(ask(rank, PMIX_LOCAL_PEERS)->data.string, "0,1,2,3") == 0, "who is there");
        holds(argc == 1 || ask(rank, PMIX_APP_SIZE)->data.uint32 == 2, "the size of its application");
    }
    say("all is known of all");
    meet();
    (void) argv;
    return finish();
}
