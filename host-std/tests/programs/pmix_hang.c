/* A PMIx client that waits for another one, which sleeps: `get` for a value of rank 1, `fence` in a fence of
   ranks 0 to 2, `lookup` for a name that nobody publishes, `connect` for a job that rank 0 has spawned. */
#include <pmix.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    pmix_proc_t self, all[3], other;
    pmix_value_t *found;
    pmix_info_t patient;
    int never = 0;
    const char *how = argc > 1 ? argv[1] : "";

    if (PMIx_Init(&self, NULL, 0) != PMIX_SUCCESS)
        return 1;
    PMIX_INFO_LOAD(&patient, PMIX_TIMEOUT, &never, PMIX_INT);
    if (strcmp(how, "get") == 0 && self.rank == 0) {
        PMIX_PROC_LOAD(&other, self.nspace, 1);
        PMIx_Get(&other, "card", &patient, 1, &found);
    } else if (strcmp(how, "fence") == 0 && self.rank != 1) {
        for (int rank = 0; rank < 3; rank++)
            PMIX_PROC_LOAD(&all[rank], self.nspace, rank);
        PMIx_Fence(all, 3, NULL, 0);
    } else if (strcmp(how, "lookup") == 0 && self.rank == 0) {
        pmix_pdata_t wanted;
        pmix_info_t wait;
        bool yes = true;
        PMIX_PDATA_CONSTRUCT(&wanted);
        snprintf(wanted.key, sizeof wanted.key, "ocean");
        PMIX_INFO_LOAD(&wait, PMIX_WAIT, &yes, PMIX_BOOL);
        PMIx_Lookup(&wanted, 1, &wait, 1);
    } else if (strcmp(how, "connect") == 0 && self.rank == 0) {
        pmix_app_t app;
        char nspace[PMIX_MAX_NSLEN + 1];
        PMIX_APP_CONSTRUCT(&app);
        app.cmd = argv[0];
        app.maxprocs = 1;
        char *words[] = {argv[0], "sleep", NULL};
        app.argv = words;
        if (PMIx_Spawn(NULL, 0, &app, 1, nspace) != PMIX_SUCCESS)
            return 2;
        memcpy(&all[0], &self, sizeof self);
        PMIX_PROC_LOAD(&all[1], nspace, 0);
        PMIx_Connect(all, 2, NULL, 0);
    }
    sleep(60);
    return 0;
}
