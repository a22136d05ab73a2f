/* Rank 1 dies after a barrier; the others go on for a while in the library, which may want to end them. */
#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    int rank, found;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 1)
        raise(SIGKILL);
    for (int i = 0; i < 50; i++) {
        MPI_Iprobe(MPI_ANY_SOURCE, 5, MPI_COMM_SELF, &found, MPI_STATUS_IGNORE);
        usleep(10000);
    }
    printf("rank %d goes on\n", rank);
    fflush(stdout);
    _exit(0);
}
