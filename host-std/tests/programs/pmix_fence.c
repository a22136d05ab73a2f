/* A PMIx client: posts a value, meets everybody, and reads what the next PMIx rank has posted.
   With PMI ranks in the job, which post nothing, it reads its own. */
#include <pmix.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

static void check(pmix_status_t status, const char *what)
{
    if (status != PMIX_SUCCESS) {
        fprintf(stderr, "%s: %s\n", what, PMIx_Error_string(status));
        exit(3);
    }
}

int main(void)
{
    pmix_proc_t self, job, other;
    pmix_value_t value, *found;
    pmix_info_t collect;
    bool yes = true;
    char key[32];

    check(PMIx_Init(&self, NULL, 0), "init");
    PMIX_PROC_LOAD(&job, self.nspace, PMIX_RANK_WILDCARD);
    check(PMIx_Get(&job, PMIX_JOB_SIZE, NULL, 0, &found), "job size");
    uint32_t size = found->data.uint32;
    PMIX_VALUE_RELEASE(found);

    snprintf(key, sizeof key, "card-%u", self.rank);
    value.type = PMIX_UINT32;
    value.data.uint32 = 1000 + self.rank;
    check(PMIx_Put(PMIX_GLOBAL, key, &value), "put");
    check(PMIx_Commit(), "commit");
    PMIX_INFO_LOAD(&collect, PMIX_COLLECT_DATA, &yes, PMIX_BOOL);
    check(PMIx_Fence(&job, 1, &collect, 1), "fence");

    PMIX_PROC_LOAD(&other, self.nspace, self.rank == 0 ? 1 : 0);
    snprintf(key, sizeof key, "card-%u", other.rank);
    check(PMIx_Get(&other, key, NULL, 0, &found), "get");
    if (found->type != PMIX_UINT32 || found->data.uint32 != 1000 + other.rank)
        return 4;
    PMIX_VALUE_RELEASE(found);
    check(PMIx_Fence(NULL, 0, NULL, 0), "second fence");
    printf("pmix %u of %u\n", self.rank, size);
    fflush(stdout);
    check(PMIx_Finalize(NULL, 0), "finalize");
    return 0;
}
