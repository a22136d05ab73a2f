/* The last rank dies inside a fence of ranks 0, 1 and itself; the others are told so and go on. */
#include "pmix_common.h"
#include <signal.h>

int main(int argc, char **argv)
{
    pmix_value_t *size;

    (void) argc, (void) argv;
    begin();
    check(PMIx_Get(&everybody, PMIX_JOB_SIZE, NULL, 0, &size), "job size");
    if (self.rank + 1 == size->data.uint32) {
        usleep(300000);
        raise(SIGKILL);
    }
    expect(PMIx_Fence(NULL, 0, NULL, 0), PMIX_ERR_PARTIAL_SUCCESS, "a fence without one of us");
    say("one of us is gone");
    return finish();
}
