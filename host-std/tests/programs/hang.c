/* One rank does not come where all others wait for it.
 *
 *     hang RANK CAUSE [FILE]
 *
 * Before MPI_Init: sleep, stop (by a signal), hold (by a debugger), spin, stdin (reads it), open (a FIFO that
 * nobody writes), lock (a file that the test has locked), exit; for all ranks circle (one locks a file, and the
 * others wait for that lock). After MPI_Init: receive (all ranks wait for a message that none sends), barrier (the
 * rank sleeps while all others are in a barrier), work (the rank computes for some seconds while all others sleep,
 * and then all go on). CAUSE "none": no rank.
 */
#include <mpi.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static const char *cause;

static int is(const char *word)
{
    return strcmp(cause, word) == 0;
}

/* A child that attaches to this process as a debugger does, and keeps it. */
static void be_held(void)
{
    pid_t held = getpid();
    if (fork() == 0) {
        int status = 0;
        ptrace(PTRACE_ATTACH, held, NULL, NULL);
        /* The end of that process is seen here first. */
        while (waitpid(held, &status, 0) == held && !WIFEXITED(status) && !WIFSIGNALED(status))
            ;
        _exit(0);
    }
    pause();
}

static void hang(const char *file)
{
    char byte;
    volatile int forever = 1;
    if (is("exit"))
        exit(0);
    if (is("stop"))
        raise(SIGSTOP);
    if (is("hold"))
        be_held();
    if (is("stdin") && read(STDIN_FILENO, &byte, 1) != 0)
        return;
    if (is("open"))
        open(file, O_RDONLY);
    if (is("lock"))
        flock(open(file, O_RDONLY), LOCK_EX);
    while (is("spin") && forever)
        ;
    for (;;)
        pause();
}

int main(int argc, char **argv)
{
    /* Before MPI_Init only the launcher can tell, in the words of what the library speaks. */
    const char *rank = getenv("PMI_RANK");
    int byte = 0;
    if (rank == NULL)
        rank = getenv("PMIX_RANK");
    if (argc < 3 || rank == NULL)
        return 2;
    cause = argv[2];
    int is_for_all = is("receive") || is("barrier") || is("work") || is("circle");
    int is_chosen = strcmp(rank, argv[1]) == 0;
    if (is_chosen && !is_for_all && !is("none"))
        hang(argv[3]);
    if (is("circle"))
        flock(open(argv[3], O_RDONLY), LOCK_EX);
    MPI_Init(&argc, &argv);
    if (is("receive"))
        MPI_Recv(&byte, 1, MPI_INT, MPI_ANY_SOURCE, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    if (is("work") && is_chosen)
        for (time_t end = time(NULL) + 4; time(NULL) < end;)
            ;
    else if (is("work"))
        sleep(3);
    if (is("barrier") && is_chosen)
        pause();
    if (is("barrier") || is("work"))
        MPI_Barrier(MPI_COMM_WORLD);
    MPI_Finalize();
    return 0;
}
