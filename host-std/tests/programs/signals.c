/* Counts how often SIGINT comes.
 *
 * Says that it is ready, waits for the first one, gives others some time to come, and says how many came.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

static volatile sig_atomic_t count;

static void on_interrupt(int signal)
{
    (void)signal;
    count++;
}

int main(void)
{
    struct sigaction action = { .sa_handler = on_interrupt };
    struct timespec left = { .tv_sec = 0, .tv_nsec = 500 * 1000 * 1000 };
    sigset_t interrupt, before;

    sigaction(SIGINT, &action, NULL);
    /* Else the first one could come between the question and the wait. */
    sigemptyset(&interrupt);
    sigaddset(&interrupt, SIGINT);
    sigprocmask(SIG_BLOCK, &interrupt, &before);
    printf("ready\n");
    fflush(stdout);
    while (count == 0)
        sigsuspend(&before);
    sigprocmask(SIG_SETMASK, &before, NULL);
    while (nanosleep(&left, &left) != 0)
        ;
    printf("rank %s got %d\n", getenv("PMI_RANK"), (int)count);
    return 0;
}
