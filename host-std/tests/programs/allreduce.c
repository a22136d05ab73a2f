/* Proves that the process mapping is good enough for a collective, which may use shared memory within a
 * node: all ranks sum their squares and every one of them checks the result for itself.
 * Prints "allreduce of N: sum S" from rank 0; a rank that sees another sum says so and exits with 1. */
#include <mpi.h>
#include <stdio.h>

int main(int argc, char **argv)
{
    long mine, sum = 0, expected;
    int rank, size, wrong;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);

    mine = (long)rank * rank;
    expected = (long)(size - 1) * size * (2L * size - 1) / 6;
    MPI_Allreduce(&mine, &sum, 1, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
    wrong = sum != expected;
    if (rank == 0)
        printf("allreduce of %d: sum %ld\n", size, sum);
    if (wrong)
        printf("rank %d: sum %ld instead of %ld\n", rank, sum, expected);
    MPI_Finalize();
    return wrong;
}
