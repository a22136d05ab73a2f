/* Posts values in every scope and reads those of others: at once, later, never. Two ranks at least, on one
 * node, or with an argument each on a node of its own. */
#include "pmix_common.h"

static void post(pmix_scope_t scope, const char *key, uint32_t number)
{
    pmix_value_t value;

    value.type = PMIX_UINT32;
    value.data.uint32 = number;
    check(PMIx_Put(scope, key, &value), "put");
}

static pmix_status_t get(pmix_rank_t rank, const char *key, const char *how, int number, uint32_t *found)
{
    pmix_proc_t other;
    pmix_value_t *value = NULL;
    pmix_info_t info;
    bool yes = true;

    PMIX_PROC_LOAD(&other, self.nspace, rank);
    if (number > 0)
        PMIX_INFO_LOAD(&info, how, &number, PMIX_INT);
    else if (how != NULL)
        PMIX_INFO_LOAD(&info, how, &yes, PMIX_BOOL);
    pmix_status_t status = PMIx_Get(&other, key, &info, how != NULL, &value);
    if (status == PMIX_SUCCESS && found != NULL)
        *found = value->data.uint32;
    return status;
}

int main(int argc, char **argv)
{
    const char *seen = argc > 1 ? "far" : "near", *hidden = argc > 1 ? "near" : "far";
    uint32_t found = 0;

    (void)argv;
    begin();
    if (self.rank == 0) {
        post(PMIX_LOCAL, "near", 1);
        post(PMIX_REMOTE, "far", 2);
        post(PMIX_GLOBAL, "everywhere", 3);
        usleep(200000);
        check(PMIx_Commit(), "commit");
    } else {
        check(get(0, "everywhere", NULL, 0, &found), "wait for a value");
        holds(found == 3, "everybody sees what is global");
        check(get(0, seen, NULL, 0, &found), "what is for its scope");
        holds(found == (argc > 1 ? 2 : 1), "it is seen there");
        expect(get(0, hidden, NULL, 0, &found), PMIX_ERR_NOT_FOUND, "what is for the other scope");
        expect(get(0, "never", PMIX_IMMEDIATE, 0, NULL), PMIX_ERR_NOT_FOUND, "what is not there now");
        expect(get(0, "never", PMIX_TIMEOUT, 1, NULL), PMIX_ERR_TIMEOUT, "what is never there");
        expect(get(4711, "never", NULL, 0, NULL), PMIX_ERR_NOT_FOUND, "what nobody has");
    }
    meet();
    if (self.rank == 0) {
        post(PMIX_GLOBAL, "everywhere", 4);
        post(PMIX_GLOBAL, "later", 5);
        check(PMIx_Commit(), "commit again");
    }
    meet();
    if (self.rank != 0) {
        check(get(0, "later", NULL, 0, &found), "what came later");
        holds(found == 5, "it is there");
    }
    /* As programs of PMI ask on top of PMIx: without saying whose value it is. Other nodes wait for a fence then. */
    if (argc > 1) {
        meet();
        if (self.rank == 0) {
            usleep(200000);
            post(PMIX_GLOBAL, "at last", 7);
            check(PMIx_Commit(), "commit at last");
        } else {
            check(get(0, "at last", NULL, 0, &found), "wait without a fence");
            holds(found == 7, "it is fetched");
        }
    } else if (self.rank == 0) {
        usleep(200000);
        post(PMIX_GLOBAL, "whosever", 6);
        check(PMIx_Commit(), "commit at last");
    } else {
        check(get(PMIX_RANK_UNDEF, "whosever", NULL, 0, &found), "wait for whoever puts it");
        holds(found == 6, "it is found without its owner");
        expect(get(PMIX_RANK_UNDEF, "nobody's", PMIX_TIMEOUT, 1, NULL), PMIX_ERR_TIMEOUT, "what nobody puts");
    }
    say("what is posted is found by whom it is for");
    meet();
    return finish();
}
