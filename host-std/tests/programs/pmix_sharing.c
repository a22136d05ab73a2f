/* Prints whether the server announces that ranks share processors, and whether the rank leads a session, is in
 * that of its launcher with a process group of its own, or neither. */
#include "pmix_common.h"

static const char *session(void)
{
    if (getsid(0) == getpid())
        return "own";
    return getsid(0) == getsid(getppid()) && getpgid(0) == getpid() ? "shared" : "neither";
}

int main(void)
{
    pmix_info_t optional;
    pmix_value_t *value;
    char line[64];
    bool yes = true;

    begin();
    PMIX_INFO_LOAD(&optional, PMIX_OPTIONAL, &yes, PMIX_BOOL);
    int is_announced = PMIx_Get(&everybody, PMIX_NODE_OVERSUBSCRIBED, &optional, 1, &value) == PMIX_SUCCESS;
    snprintf(line, sizeof line, "%s %s", is_announced ? "announced" : "not-announced", session());
    say(line);
    meet();
    return finish();
}
