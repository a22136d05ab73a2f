/* Proves that an abort asked for by one rank ends the whole job with the code it named:
 *     abort RANK CODE
 * RANK calls MPI_Abort while the others sit in a barrier that can never complete.
 * A rank that gets past the barrier says so and exits with 65: no test accepts that. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv)
{
    int rank;

    if (argc != 3) {
        fprintf(stderr, "usage: abort RANK CODE\n");
        return 64;
    }
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (rank == atoi(argv[1]))
        MPI_Abort(MPI_COMM_WORLD, atoi(argv[2]));
    else
        MPI_Barrier(MPI_COMM_WORLD);
    printf("rank %d outlived the abort\n", rank);
    return 65;
}
