/* One rank does not come into MPI_Init, so all others wait for it.
 *
 *     hang RANK sleep|stop|spin
 */
#include <mpi.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    /* Before MPI_Init only the launcher can tell, in the words of what the library speaks. */
    const char *rank = getenv("PMI_RANK");
    if (rank == NULL)
        rank = getenv("PMIX_RANK");
    if (argc != 3 || rank == NULL)
        return 2;
    if (strcmp(rank, argv[1]) == 0) {
        if (strcmp(argv[2], "stop") == 0)
            raise(SIGSTOP);
        volatile int forever = strcmp(argv[2], "spin") == 0;
        while (forever)
            ;
        pause();
    }
    MPI_Init(&argc, &argv);
    MPI_Finalize();
    return 0;
}
