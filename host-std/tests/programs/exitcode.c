/* Proves that the exit code of a rank is passed on although the rank left in good order:
 *     exitcode RANK CODE
 * all ranks finalize, then RANK exits with CODE and the others with 0. Prints nothing. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv)
{
    int rank;

    if (argc != 3) {
        fprintf(stderr, "usage: exitcode RANK CODE\n");
        return 64;
    }
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Finalize();
    return rank == atoi(argv[1]) ? atoi(argv[2]) : 0;
}
