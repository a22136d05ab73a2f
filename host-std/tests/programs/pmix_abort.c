/* The last rank aborts with a code and a message; the others wait in a fence that never ends. */
#include "pmix_common.h"

int main(int argc, char **argv)
{
    pmix_value_t *size;

    begin();
    check(PMIx_Get(&everybody, PMIX_JOB_SIZE, NULL, 0, &size), "job size");
    if (argc > 1 && self.rank + 1 == size->data.uint32) {
        PMIx_Abort(atoi(argv[1]), "enough", NULL, 0);
        sleep(60);
    }
    PMIx_Fence(NULL, 0, NULL, 0);
    sleep(60);
    return 9;
}
