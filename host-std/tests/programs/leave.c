/* Proves that a rank which goes away without finalizing is noticed although its exit code is 0:
 *     leave RANK
 * RANK calls _exit(0) right after MPI_Init; the others wait for it in a barrier.
 * A rank that gets past the barrier says so and exits with 65: no test accepts that.
 * (mpiexec.hydra 4.0.2 ends such a job at once, but with 0 or 9 by chance: no model for the code.) */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    int rank;

    if (argc != 2) {
        fprintf(stderr, "usage: leave RANK\n");
        return 64;
    }
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (rank == atoi(argv[1]))
        _exit(0);
    MPI_Barrier(MPI_COMM_WORLD);
    printf("rank %d got through without rank %s\n", rank, argv[1]);
    return 65;
}
