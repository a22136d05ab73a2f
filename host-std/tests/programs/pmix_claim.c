/* Calls itself the rank and job of its arguments, which need not be its own.
 * Exits with 1 if the server rejects it.
 *
 * The library waits for ever now and then after it has read that it is refused (seen with 4.2.2: one of its
 * threads has closed the connection, the other waits for it); then the alarm says the same. */
#include <pmix.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

static void not_let_in(int signal)
{
    (void)signal;
    _exit(1);
}

int main(int argc, char **argv)
{
    pmix_proc_t self;
    setenv("PMIX_RANK", argv[1], 1);
    if (argc > 2)
        setenv("PMIX_NAMESPACE", argv[2], 1);
    signal(SIGALRM, not_let_in);
    alarm(3);
    return PMIx_Init(&self, NULL, 0) == PMIX_SUCCESS ? 0 : 1;
}
